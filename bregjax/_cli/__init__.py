"""What the command line is made of: tables, one run, its report."""

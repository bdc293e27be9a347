"""The command line: reading tables, running one clustering, reporting on it."""

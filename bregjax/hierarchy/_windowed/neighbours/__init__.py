"""Which clusters live, and which are the nearest of each."""

"""Merge costs of sparse rows, by the entries that are not 0, on the host."""

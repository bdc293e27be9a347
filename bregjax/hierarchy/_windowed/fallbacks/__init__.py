"""Merges without windows, where these fail: one at a time, or over a cached matrix."""

"""Convex functions, one-sided derivatives and conjugates."""

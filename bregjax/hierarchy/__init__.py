"""Agglomeration and its tree."""

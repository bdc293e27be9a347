"""Agglomerative clustering with Bregman divergences, in JAX."""

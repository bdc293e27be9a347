"""Solvers for clusters of a ψ whose conjugate has no closed form."""

"""The solvers behind `conjugate`, and what certifies their answers."""

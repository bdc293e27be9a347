"""The solvers behind `conjugate`, and the tests of their answers."""

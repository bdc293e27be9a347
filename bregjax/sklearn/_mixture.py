"""Mixtures of any family, fitted by EM, as an estimator."""

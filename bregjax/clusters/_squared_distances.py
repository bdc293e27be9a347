"""Squared distances by products of matrices, as bounds: no rounding lifts them."""

import numpy as np

__all__ = ["less_norms", "lightness"]


def less_norms(mean: np.ndarray, dtype: np.dtype | type) -> np.ndarray:
    """Return squared norms, less all that products with them may gain by rounding."""
    number, n = np.finfo(dtype), mean.shape[1]
    relative, absolute = 2 * float(number.eps), 4 * float(number.tiny)
    norm = np.einsum("ij,ij->i", mean, mean)
    return norm - (n + 8) * (relative * norm + absolute)


def lightness(weight: np.ndarray) -> np.ndarray:
    """Return 1 / w; a great number where the weight is next to none."""
    return 1 / np.maximum(weight, 1e-300)

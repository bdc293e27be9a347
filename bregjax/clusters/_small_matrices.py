"""Products and determinants of matrices that fit into a cache, by NumPy.

Example: a product of 100 × 20 and 20 × 1,000 numbers is made in eight parts, of 131
columns each but for the last.
"""

import numpy as np

__all__ = ["log_dets", "multiply"]

# Multiplications in a product of matrices. Larger ones are split over threads, which
# wait for each other, by far longer than they take where other work runs.
_PRODUCT = 2**18


def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """The product `[r, c]` of two matrices, by small ones."""
    rows, size = a.shape
    if out.size * size <= _PRODUCT:
        np.matmul(a, b, out=out)
        return
    tall = rows > b.shape[1]
    step = max(_PRODUCT // (size * min(out.shape)), 1)
    for start in range(0, max(out.shape), step):
        some = slice(start, start + step)
        if tall:
            np.matmul(a[some], b, out=out[some])
        else:
            np.matmul(a, b[:, some], out=out[:, some])


def log_dets(matrices: np.ndarray) -> np.ndarray:
    """Log-determinants `[p]`, NaN of what is not positive definite."""
    try:
        factor = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        sign, log_det = np.linalg.slogdet(matrices)
        return np.where(sign > 0, log_det, np.nan)
    return 2 * np.einsum("pd->p", np.log(np.einsum("pdd->pd", factor)))

"""Factorisations and solves of matrices `[..., d, d]`, by NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bregjax._programs.elementwise import Run, Unknown

__all__ = ["BUILDERS"]


def _cholesky(eqn: Any) -> Run:
    del eqn
    return _roots


def _roots(x: np.ndarray) -> np.ndarray:
    """Lower factors; NaN where a matrix is not positive definite."""
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        flat = np.reshape(x, (-1, *x.shape[-2:]))
        if len(flat) == 1:
            return np.full(x.shape, np.nan, x.dtype)
        half = len(flat) // 2
        parts = np.concatenate([_roots(flat[:half]), _roots(flat[half:])])
        return parts.reshape(x.shape)


def _triangular_solve(eqn: Any) -> Run:
    """Substitution, a column of all matrices at a time."""
    params = eqn.params
    if params["conjugate_a"] and np.iscomplexobj(eqn.invars[0].aval):
        raise Unknown("triangular_solve of complex numbers")
    left, lower = params["left_side"], params["lower"]
    transposed, unit = params["transpose_a"], params["unit_diagonal"]

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        # X A = B is Aᵀ Xᵀ = Bᵀ.
        if transposed == left:
            a = np.swapaxes(a, -1, -2)
        x = np.array(b if left else np.swapaxes(b, -1, -2), order="C")
        size = a.shape[-1]
        forward = lower != (transposed == left)
        for k in range(size) if forward else reversed(range(size)):
            rest = slice(k + 1, None) if forward else slice(0, k)
            if not unit:
                x[..., k, :] /= a[..., k, k, None]
            x[..., rest, :] -= a[..., rest, k, None] * x[..., k, None, :]
        return x if left else np.swapaxes(x, -1, -2)

    return run


def _eigh(eqn: Any) -> Run:
    params = eqn.params
    if params.get("subset_by_index") is not None or not params["sort_eigenvalues"]:
        raise Unknown("eigh of a part, or without order")
    triangle = "L" if params["lower"] else "U"

    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        try:
            values, vectors = np.linalg.eigh(x, UPLO=triangle)
        except np.linalg.LinAlgError:
            lost = np.full(x.shape, np.nan, x.dtype)
            return lost, lost[..., 0]
        return vectors, values

    return run


def _qr(eqn: Any) -> Run:
    if eqn.params.get("pivoting") or eqn.params.get("full_matrices"):
        raise Unknown("qr with pivots, or of full size")
    return lambda x: tuple(np.linalg.qr(x))


BUILDERS: dict[str, Callable[[Any], Run]] = {
    "cholesky": _cholesky,
    "eigh": _eigh,
    "qr": _qr,
    "triangular_solve": _triangular_solve,
}

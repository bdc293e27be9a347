"""Roots R of positive definite matrices Σ = RᵀR, which hold digits that Σ has lost.

For R = [[1, 1], [0, 1e-9]] the matrix Σ has the entries 1, 1, 1 and 1 + 1e-18, and is
singular in float64. The diagonal of R gives log det Σ = 2 log 1e-9 = −41.4465.
"""

import jax
import jax.numpy as jnp
from jax.lax.linalg import triangular_solve

from bregjax._numerics import symmetric_part
from bregjax._typing import Array

__all__ = ["cholesky_by_root", "log_det_of_factor", "root_of_rows"]


def root_of_rows(rows: Array) -> Array:
    """The upper triangular R with diagonal ≥ 0 and RᵀR = AᵀA, by QR.

    Args:
        rows: A, `[..., n, d]` with n ≥ d.

    Returns:
        R, `[..., d, d]`, good to eps times the norms of the columns of A.
    """
    root = jnp.linalg.qr(rows, mode="r")
    diagonal = jnp.diagonal(root, axis1=-2, axis2=-1)
    return jnp.where(diagonal < 0, -1, 1)[..., None] * root


@jax.custom_jvp
def cholesky_by_root(covariance: Array, root: Array) -> Array:
    """The Cholesky factor L = Rᵀ of Σ, with the digits of its root R.

    Derivatives are those of L as a function of Σ, dL = L Φ(L⁻¹ dΣ L⁻ᵀ), Φ the lower
    triangle with half of the diagonal; no derivative goes through the root.

    Args:
        covariance: Σ, `[..., d, d]`.
        root: Upper triangular R with Σ = RᵀR, `[..., d, d]`.
    """
    del covariance
    return jnp.swapaxes(root, -1, -2)


@cholesky_by_root.defjvp
def _cholesky_by_root_jvp(primals, tangents):
    factor = cholesky_by_root(*primals)
    change = symmetric_part(tangents[0])
    half = triangular_solve(factor, change, left_side=True, lower=True)
    white = triangular_solve(
        factor, half, left_side=False, lower=True, transpose_a=True
    )
    lower = (jnp.tril(white) + jnp.tril(white, -1)) / 2
    return factor, jnp.matmul(factor, lower, precision="highest")


def log_det_of_factor(factor: Array) -> Array:
    """log det Σ from its Cholesky factor, `[..., d, d]` to `[...]`."""
    return 2 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)

"""Lower bounds of the merge costs of Gaussians, for all pairs of rows and columns."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax.lax.linalg import triangular_solve

from bregjax._typing import Array
from bregjax.merge_bounds import less_rounding, log_of_product, squared_distances

if TYPE_CHECKING:
    from bregjax.families.gaussian_models import GaussianState

__all__ = ["screen_diagonal", "screen_full", "screen_spherical"]

# Dimensions of the marginal that bounds the cost between any two full Gaussians.
_MARGINAL = 8


def screen_diagonal(rows: "GaussianState") -> Callable[["GaussianState"], Array]:
    """The cost itself, ½ [w Σ log v − w_a Σ log v_a − w_b Σ log v_b], less rounding.

    One logarithm for several coordinates, of variances in units of the rows'.
    """
    scale = jnp.mean(rows.moments.covariance, axis=0, keepdims=True)
    mean_a, v_a = rows.moments.mean, rows.moments.covariance / scale
    log_a = jnp.sum(jnp.log(v_a), axis=-1)[:, None]
    w_a = rows.weight[:, None]

    def bound(columns: "GaussianState") -> Array:
        mean_b, v_b = columns.moments.mean.T, (columns.moments.covariance / scale).T
        log_b = jnp.sum(jnp.log(v_b), axis=0)[None]
        w_b = columns.weight[None]
        total = w_a + w_b
        p, q = w_a / total, w_b / total
        spread = p * q

        def variance(k: int) -> Array:
            delta = mean_a[:, k, None] - mean_b[k][None]
            inner = p * v_a[:, k, None] + q * v_b[k][None]
            return inner + spread * (delta * delta / scale[0, k])

        logs = log_of_product(variance, v_a.shape[-1], v_a.dtype)
        return 0.5 * less_rounding(total, logs, w_a, log_a, w_b, log_b, v_a)

    return bound


def screen_spherical(rows: "GaussianState") -> Callable[["GaussianState"], Array]:
    """The cost itself, ½ d [w log v − w_a log v_a − w_b log v_b], less rounding."""
    dim = rows.moments.mean.shape[-1]
    scale = jnp.mean(rows.moments.covariance)
    v_a = rows.moments.covariance / scale
    w_a, log_a = rows.weight[:, None], jnp.log(v_a)[:, None]

    def bound(columns: "GaussianState") -> Array:
        v_b = (columns.moments.covariance / scale)[None]
        w_b, log_b = columns.weight[None], jnp.log(v_b)
        total = w_a + w_b
        p, q = w_a / total, w_b / total
        distances = squared_distances(rows.moments.mean, columns.moments.mean)
        between = jnp.maximum(distances, 0) / (dim * scale)
        logs = jnp.log(p * v_a[:, None] + q * v_b + p * q * between)
        return (
            0.5 * dim * less_rounding(total, logs, w_a, log_a, w_b, log_b, v_a[:, None])
        )

    return bound


def screen_full(
    rows: "GaussianState", like: "GaussianState"
) -> Callable[["GaussianState"], Array]:
    """The cost itself with columns that resemble `like`; with others a marginal's.

    Columns of the weight and covariance of one cluster, as are single points under one
    bandwidth, cost a row, with the covariance M = p Σ_a + q Σ_b common to them,

        Δ = ½ [w log(1 + pq δᵀM⁻¹δ) + w log det M − w_a log det Σ_a − w_b log det Σ_b],

    one factorisation a row and a matrix product. Otherwise the cost between the
    marginals on a subspace is never more than that between the Gaussians (data
    processing); the subspace is that in which the rows' means spread most, in units of
    the covariance of `like`.
    """
    to_like = _screen_alike(rows, like)
    to_any = _screen_marginal(rows, like)

    def bound(columns: "GaussianState") -> Array:
        alike = jnp.all(columns.weight == like.weight)
        alike &= jnp.all(columns.moments.covariance == like.moments.covariance)
        return jax.lax.cond(alike, to_like, to_any, columns)

    return bound


def _screen_alike(rows, like):
    """Costs with clusters of one weight and covariance."""
    w_a, w_b = rows.weight[:, None], like.weight[:, None]
    total = w_a + w_b
    p, q = w_a / total, w_b / total
    common = p[..., None] * rows.moments.covariance
    common = common + q[..., None] * like.moments.covariance
    factor = jnp.linalg.cholesky(common)
    log_det = 2 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    within = less_rounding(
        total,
        log_det[:, None],
        w_a,
        rows.log_det[:, None],
        w_b,
        like.log_det[:, None],
        rows.moments.mean,
    )
    centre = jnp.mean(rows.moments.mean, axis=0, keepdims=True)
    root = _inverse_factor(factor)
    mean_a = rows.moments.mean - centre
    white_a = jnp.matmul(root, mean_a[..., None], precision="highest")
    n = mean_a.shape[-1]
    eps = jnp.finfo(mean_a.dtype).eps
    size = jnp.sqrt(jnp.sum(root**2, axis=(-2, -1)))[:, None]
    reach_a = jnp.sqrt(jnp.sum(mean_a**2, axis=-1))[:, None]

    def bound(columns) -> Array:
        mean_b = columns.moments.mean - centre
        white_b = jnp.matmul(root, mean_b.T[None], precision="highest")
        distances = jnp.sum((white_a - white_b) ** 2, axis=1)
        # The distance d is good to e; (d − e)² ≥ (1 − η) d² − e²/η.
        reach_b = jnp.sqrt(jnp.sum(mean_b**2, axis=-1))[None]
        error = (n + 4) * eps * size * (reach_a + reach_b)
        tight = jnp.sqrt(jnp.sqrt(eps))
        distances = jnp.maximum((1 - tight) * distances - error**2 / tight, 0)
        return 0.5 * (total * jnp.log1p(p * q * distances) + within)

    return bound


def _screen_marginal(rows, like):
    """Costs between marginals on a few dimensions, by one product of pivots."""
    basis = _leading_subspace(rows.moments.mean, like.moments.covariance[0])
    dim = basis.shape[1]

    def project(state):
        mean = jnp.matmul(state.moments.mean, basis, precision="highest")
        half = jnp.matmul(state.moments.covariance, basis, precision="highest")
        return mean.T, jnp.matmul(basis.T[None], half, precision="highest")

    mean_a, cov_a = project(rows)
    log_a = _log_det_of(lambda i, j: cov_a[:, i, j], dim)[:, None]
    w_a = rows.weight[:, None]

    def bound(columns) -> Array:
        mean_b, cov_b = project(columns)
        log_b = _log_det_of(lambda i, j: cov_b[:, i, j], dim)[None]
        w_b = columns.weight[None]
        total = w_a + w_b
        p, q = w_a / total, w_b / total
        delta = [mean_a[i][:, None] - mean_b[i][None] for i in range(dim)]

        def pooled(i: int, j: int) -> Array:
            inner = p * cov_a[:, i, j][:, None] + q * cov_b[:, i, j][None]
            return inner + p * q * delta[i] * delta[j]

        change = total * _log_det_of(pooled, dim) - (w_a * log_a + w_b * log_b)
        # More than factorisations lose that are of any use.
        return 0.5 * change - 0.1 * jnp.sqrt(jnp.finfo(change.dtype).eps) * total

    return bound


def _leading_subspace(means: Array, covariance: Array) -> Array:
    """Whitened basis `[n, r]` in which means spread most."""
    root = _inverse_factor(jnp.linalg.cholesky(covariance))
    n = covariance.shape[-1]
    if n <= _MARGINAL:
        return root.T
    centred = means - jnp.mean(means, axis=0, keepdims=True)
    white = jnp.matmul(centred, root.T, precision="highest")
    scatter = jnp.matmul(white.T, white, precision="highest")
    leading = jnp.linalg.eigh(scatter)[1][:, n - _MARGINAL :]
    return jnp.matmul(root.T, leading, precision="highest")


def _log_det_of(entry: Callable[[int, int], Array], dim: int) -> Array:
    """log det of small matrices given by entries i ≥ j, by the pivots of LDLᵀ.

    Written out, so that the pairs, not the matrices, fill vector registers.
    """
    rows: list[list[Array]] = []
    pivots: list[Array] = []
    for i in range(dim):
        row: list[Array] = []
        scaled: list[Array] = []
        pivot = entry(i, i)
        for j in range(i):
            value = entry(i, j)
            for k in range(j):
                value = value - scaled[k] * rows[j][k]
            scaled.append(value)
            row.append(value / pivots[j])
            pivot = pivot - value * row[j]
        rows.append(row)
        pivots.append(pivot)
    valid = functools.reduce(jnp.logical_and, [pivot > 0 for pivot in pivots])
    logs = log_of_product(lambda k: pivots[k], dim, pivots[0].dtype)
    return jnp.where(valid, logs, jnp.nan)


def _inverse_factor(factor: Array) -> Array:
    eye = jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    return triangular_solve(factor, eye, left_side=True, lower=True)

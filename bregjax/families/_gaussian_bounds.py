"""Lower bounds of the merge costs of Gaussians, for all pairs of rows and columns."""

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax.lax.linalg import triangular_solve

from bregjax._typing import Array
from bregjax.merge_bounds import (
    distances_from,
    in_range,
    less_rounding,
    log_of_product,
)

if TYPE_CHECKING:
    from bregjax.families.gaussian_models import GaussianState

__all__ = ["screen_diagonal", "screen_full", "screen_spherical"]

# Dimensions of the marginal that bounds the cost between any two full Gaussians.
_MARGINAL = 8


def screen_diagonal(
    rows: "GaussianState", dtype: jnp.dtype
) -> Callable[["GaussianState"], Array]:
    """The cost itself, ½ [w Σ log v − w_a Σ log v_a − w_b Σ log v_b], less rounding.

    One logarithm for several coordinates, of variances in units of the rows'. Means m
    in such units, rounded, are wrong by eps |m|, which moves log v by at most
    2 eps (|m_a| / √v_a + |m_b| / √v_b), as v ≥ p v_a + pq δ²; taken four times.
    """
    scale = jnp.mean(rows.moments.covariance, axis=0, keepdims=True)
    centre = jnp.mean(rows.moments.mean, axis=0, keepdims=True)
    eps = jnp.finfo(dtype).eps

    def scaled(state):
        mean = (state.moments.mean - centre) / jnp.sqrt(scale)
        mean, variance = (
            x.astype(dtype).T for x in (mean, state.moments.covariance / scale)
        )
        reach = jnp.sum(jnp.abs(mean) / jnp.sqrt(variance), axis=0)
        log = jnp.sum(jnp.log(variance), axis=0) + in_range(jnp.min(variance, axis=0))
        return state.weight.astype(dtype), mean, variance, log, 8 * eps * reach

    weight, mean_a, v_a, log_a, error_a = scaled(rows)
    w_a, log_a, error_a = weight[:, None], log_a[:, None], error_a[:, None]

    def bound(columns: "GaussianState") -> Array:
        weight, mean_b, v_b, log_b, error_b = scaled(columns)
        w_b = weight[None]
        total = w_a + w_b
        p, q = w_a / total, w_b / total
        spread = p * q

        def variance(k: Array) -> Array:
            delta = mean_a[k][:, None] - mean_b[k][None]
            inner = p * v_a[k][:, None] + q * v_b[k][None]
            return inner + spread * (delta * delta)

        logs = log_of_product(variance, len(v_a), p)
        logs = logs - (error_a + error_b[None])
        return 0.5 * less_rounding(total, logs, w_a, log_a, w_b, log_b[None], v_a.T)

    return bound


def screen_spherical(
    rows: "GaussianState", dtype: jnp.dtype
) -> Callable[["GaussianState"], Array]:
    """The cost itself, ½ d [w log v − w_a log v_a − w_b log v_b], less rounding."""
    dim = rows.moments.mean.shape[-1]
    scale = jnp.mean(rows.moments.covariance)
    distances_to = distances_from(rows.moments.mean, dtype)
    unit = (1 / (dim * scale)).astype(dtype)
    w_a = rows.weight.astype(dtype)[:, None]
    v_a = (rows.moments.covariance / scale).astype(dtype)[:, None]
    log_a = jnp.log(v_a)

    def bound(columns: "GaussianState") -> Array:
        v_b = (columns.moments.covariance / scale).astype(dtype)[None]
        w_b, log_b = columns.weight.astype(dtype)[None], jnp.log(v_b)
        total = w_a + w_b
        p, q = w_a / total, w_b / total
        between = unit * jnp.maximum(distances_to(columns.moments.mean), 0)
        logs = jnp.log(p * v_a + q * v_b + p * q * between)
        return 0.5 * dim * less_rounding(total, logs, w_a, log_a, w_b, log_b, v_a)

    return bound


def screen_full(
    rows: "GaussianState", like: "GaussianState", dtype: jnp.dtype
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
    among_alike = _screen_among_alike(rows, like, dtype)
    to_alike = _screen_to_alike(rows, like)
    to_any = _screen_marginal(rows, like)
    rows_alike = _alike(rows, like)

    def bound(columns: "GaussianState") -> Array:
        columns_alike = _alike(columns, like)
        case = columns_alike.astype(int) + (rows_alike & columns_alike)
        return jax.lax.switch(case, (to_any, to_alike, among_alike), columns)

    return bound


def _alike(state, like):
    same = jnp.all(state.weight == like.weight)
    return same & jnp.all(state.moments.covariance == like.moments.covariance)


def _screen_among_alike(rows, like, dtype):
    """Costs among clusters of one weight and covariance, w_a log(1 + δᵀΣ⁻¹δ / 4)."""
    root = _inverse_factor(jnp.linalg.cholesky(like.moments.covariance[0]))
    centre = jnp.mean(rows.moments.mean, axis=0, keepdims=True)
    whiten = lambda mean: jnp.matmul(mean - centre, root.T, precision="highest")
    distances_to = distances_from(whiten(rows.moments.mean), dtype)

    def bound(columns) -> Array:
        distances = distances_to(whiten(columns.moments.mean)).astype(root.dtype)
        distances = _less_whitening(distances, root, rows, columns, centre)
        cost = like.weight[0] * jnp.log1p(distances / 4)
        return cost * (1 - 64 * jnp.finfo(cost.dtype).eps)

    return bound


def _screen_to_alike(rows, like):
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
    root = _inverse_factor(factor)
    count, n, _ = root.shape
    centre = jnp.mean(rows.moments.mean, axis=0, keepdims=True)
    white_a = jnp.matmul(
        root, (rows.moments.mean - centre)[..., None], precision="highest"
    )
    stacked = root.reshape(count * n, n)

    def bound(columns) -> Array:
        white_b = jnp.matmul(
            stacked, (columns.moments.mean - centre).T, precision="highest"
        )
        gap = white_a - white_b.reshape(count, n, -1)
        distances = jnp.sum(gap**2, axis=1)
        distances = _less_whitening(distances, root, rows, columns, centre)
        return 0.5 * (total * jnp.log1p(p * q * distances) + within)

    return bound


def _less_whitening(distances, root, rows, columns, centre):
    """Squared distances of whitened means, less the rounding of whitening, or 0.

    With a distance d good to e, (d − e)² ≥ (1 − η) d² − e²/η.
    """
    reach = lambda x: jnp.sqrt(jnp.sum((x.moments.mean - centre) ** 2, axis=-1))
    size = jnp.sqrt(jnp.sum(root**2, axis=(-2, -1)))
    n, eps = root.shape[-1], jnp.finfo(root.dtype).eps
    size = jnp.broadcast_to(size, rows.weight.shape)[:, None]
    error = (n + 4) * eps * size * (reach(rows)[:, None] + reach(columns)[None])
    eta = jnp.sqrt(jnp.sqrt(eps))
    return jnp.maximum((1 - eta) * distances - error**2 / eta, 0)


def _screen_marginal(rows, like):
    """Costs between marginals on a few dimensions, by one product of pivots."""
    basis = _leading_subspace(rows.moments.mean, like.moments.covariance[0])
    dim = basis.shape[1]

    centre = jnp.mean(rows.moments.mean, axis=0, keepdims=True)

    def project(state):
        mean = jnp.matmul(state.moments.mean - centre, basis, precision="highest")
        half = jnp.matmul(state.moments.covariance, basis, precision="highest")
        return mean.T, jnp.matmul(basis.T[None], half, precision="highest")

    mean_a, cov_a = project(rows)
    log_a, error_a = _log_det_of(lambda i, j: cov_a[:, i, j][:, None], dim)
    w_a = rows.weight[:, None]

    def bound(columns) -> Array:
        mean_b, cov_b = project(columns)
        log_b, error_b = _log_det_of(lambda i, j: cov_b[:, i, j][None], dim)
        w_b = columns.weight[None]
        total = w_a + w_b
        p, q = w_a / total, w_b / total
        delta = [mean_a[i][:, None] - mean_b[i][None] for i in range(dim)]

        def pooled(i: int, j: int) -> Array:
            inner = p * cov_a[:, i, j][:, None] + q * cov_b[:, i, j][None]
            return inner + p * q * delta[i] * delta[j]

        log_c, error_c = _log_det_of(pooled, dim)
        change = total * log_c - (w_a * log_a + w_b * log_b)
        error = total * error_c + w_a * error_a + w_b * error_b
        return 0.5 * (change - error)

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


def _log_det_of(entry: Callable[[int, int], Array], dim: int) -> tuple[Array, Array]:
    """log det of small matrices by entries i ≥ j, and a bound of its rounding.

    By the pivots d of LDLᵀ, written out, so that pairs and not matrices fill vector
    registers. Rounding is that of a matrix with entries changed by 4 (r + 1) eps
    √(a_ii a_jj), so log det by as much times r tr C⁻¹ with C the correlations; and
    tr C⁻¹ ≤ e r / det C, det C = Π d_i / a_ii. NaN where a pivot isn't positive.
    """
    scaled: list[list[Array]] = []
    pivots: list[Array] = []
    ratios: list[Array] = []
    for i in range(dim):
        row: list[Array] = []
        unscaled: list[Array] = []
        lost = jnp.zeros((), entry(0, 0).dtype)
        for j in range(i):
            value = entry(i, j)
            for k in range(j):
                value = value - unscaled[k] * scaled[j][k]
            unscaled.append(value)
            row.append(value / pivots[j])
            lost = lost + value * row[j]
        scaled.append(row)
        pivots.append(entry(i, i) - lost)
        ratios.append(1 + lost / pivots[i])
    product = functools.reduce(operator.mul, pivots)
    valid = functools.reduce(jnp.logical_and, [pivot > 0 for pivot in pivots])
    logs = jnp.where(valid & (product < jnp.inf), jnp.log(product), jnp.nan)
    eps = jnp.finfo(product.dtype).eps
    spread = functools.reduce(operator.mul, ratios)
    error = 12 * (dim + 1) * dim**2 * eps * spread + 4 * eps * jnp.abs(logs)
    return logs, error


def _inverse_factor(factor: Array) -> Array:
    eye = jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    return triangular_solve(factor, eye, left_side=True, lower=True)

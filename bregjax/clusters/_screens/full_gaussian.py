"""The screen of the merge costs of Gaussians with full covariances.

Example in two dimensions, both clusters of weight 1.

- Equal covariances Σ = I, means 2 apart: Δ = log(1 + ¼ δᵀΣ⁻¹δ) = log 2 = 0.693. Over
  many such columns that is a matrix product, for the distances, and a logarithm a pair.
- Σ_a = diag(4, 1), Σ_b = I and δ = (3, 1): the union has Σ = ½ (Σ_a + Σ_b) + ¼ δδᵀ =
  [[4.75, 0.75], [0.75, 1.25]] with det Σ = 5.375, and Δ = log 5.375 − ½ log 4 = 0.989.
  The marginals on the first axis alone cost log 4.75 − ½ log 4 = 0.865: less, as a
  marginal never costs more, and without a factorisation of 2 × 2 matrices.
"""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.lax.linalg import triangular_solve
from typing_extensions import override

from bregjax._numerics import symmetric_part
from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._gaussian_state import GaussianState
from bregjax.clusters._screens import Screen
from bregjax.clusters._screens.kernels import (
    distance_features,
    less_rounding,
    squared_distances,
)

__all__ = ["FullScreen"]

# Dimensions of the marginals whose cost bounds that of any two full Gaussians: narrow
# marginals for all pairs, wide ones for the pairs that these leave. More dimensions
# give closer bounds; the work grows as their cube.
_NARROW, _WIDE = 8, 24


class FullFeatures(NamedTuple):
    """Features of clusters.

    Attributes:
        weight: `[m]`.
        alike: Whether weight and covariance are those of the leaf `like`, `[m]`.
        mean: Means less the center, `[m, n]`.
        white: Means whitened by the covariance of `like`, ready for distances.
        marginal_mean: Means on the subspace, `[m, r]`.
        marginal_covariance: Covariances on the subspace, `[m, r, r]`.
        marginal_log_det: Log det of `marginal_covariance`, `[m]`.
        narrow: Entries i ≥ j of the leading s rows and columns of
            `marginal_covariance`, row by row, `[m, s (s + 1) / 2]`.
        narrow_log_det: Log det of the narrow covariance, `[m]`.
        narrow_error: The most that rounding changes `narrow_log_det`, `[m]`.
    """

    weight: Array
    alike: Array
    mean: Array
    white: Array
    marginal_mean: Array
    marginal_covariance: Array
    marginal_log_det: Array
    narrow: Array
    narrow_log_det: Array
    narrow_error: Array


@register_pytree
@dataclass(frozen=True)
class FullScreen(Screen):
    """The cost itself between clusters alike; else the cost between marginals.

    Points under one bandwidth are alike: they have one weight and covariance. Between a
    row and all columns that are alike, M = p Σ_a + q Σ_b is one matrix, and

        Δ = ½ [w log(1 + pq δᵀM⁻¹δ) + w log det M − w_a log det Σ_a − w_b log det Σ_b]

    takes one factorisation a row and a matrix product. Between any clusters, the cost
    between their marginals on a subspace is never more than the cost between the
    Gaussians (data processing inequality). The subspace is the one in which the means
    of the leaves spread most, in units of the covariance of a leaf: a few dimensions
    for all pairs, and more dimensions for the pairs that those leave and for columns
    that are alike.

    Attributes:
        like: The state of the leaf that clusters are compared with, `[1]`.
        center: Subtracted from means, `[1, n]`.
        root: Whitens by the covariance of `like`, `[n, n]`.
        basis: Whitened basis of the subspace, directions of largest spread first,
            `[n, r]`.
        like_marginal: Covariance of `like` on the subspace, `[1, r, r]`.
        like_log_det: Log det of `like_marginal`, `[1, 1]`.
    """

    like: GaussianState
    center: Array
    root: Array
    basis: Array
    like_marginal: Array
    like_log_det: Array

    @classmethod
    def of(cls, leaves: GaussianState) -> "FullScreen":
        """The screen for leaves, most of which are alike the first."""
        like = jax.tree.map(lambda leaf: leaf[:1], leaves)
        root = _inverse_factor(jnp.linalg.cholesky(like.moments.covariance[0]))
        center = jnp.mean(leaves.moments.mean, axis=0, keepdims=True)
        basis = _leading_subspace(leaves.moments.mean - center, root)
        marginal = _marginal(like.moments.covariance, basis)
        log_det = jnp.sum(jnp.log(_pivots(marginal)), axis=-1, keepdims=True)
        return cls(like, center, root, basis, marginal, log_det)

    @property
    @override
    def group(self) -> int:
        """1: factorisations are expensive."""
        return 1

    @override
    def pair_size(self, state: GaussianState) -> int:
        return 4 * state.moments.mean.shape[-1]

    @override
    def features(self, state: GaussianState, dtype: jnp.dtype) -> FullFeatures:
        like, basis = self.like, self.basis
        mean, covariance = state.moments.mean - self.center, state.moments.covariance
        same = jnp.all(covariance == like.moments.covariance, axis=(-2, -1))
        white = jnp.matmul(mean, self.root.T, precision="highest")
        marginal = _marginal(covariance, basis)
        dim = min(basis.shape[1], _NARROW)
        log_det, error = _log_det_of(lambda i, j: marginal[:, i, j], dim)
        return FullFeatures(
            weight=state.weight,
            alike=same & (state.weight == like.weight),
            mean=mean,
            white=distance_features(white, dtype),
            marginal_mean=jnp.matmul(mean, basis, precision="highest"),
            marginal_covariance=marginal,
            marginal_log_det=jnp.sum(jnp.log(_pivots(marginal)), axis=-1),
            narrow=marginal[:, *jnp.tril_indices(dim)],
            narrow_log_det=log_det,
            narrow_error=error,
        )

    @override
    def closer(self, a: FullFeatures, b: FullFeatures) -> Array | None:
        """Costs between wide marginals, one factorisation a pair.

        Rounding in a factorisation changes log det C by about r eps Σ_i C_ii (C⁻¹)_ii.
        16 times that is taken off, with squared pivots in the place of 1 / (C⁻¹)_ii.
        """
        dim = a.marginal_mean.shape[-1]
        if dim <= _NARROW:
            return None
        total = a.weight + b.weight
        p, q = (a.weight / total)[:, None], (b.weight / total)[:, None]
        delta = a.marginal_mean - b.marginal_mean
        covariance = (
            p[..., None] * a.marginal_covariance
            + q[..., None] * b.marginal_covariance
            + (p * q * delta)[:, :, None] * delta[:, None]
        )
        pivots = _pivots(covariance)
        log_det = jnp.sum(jnp.log(pivots), axis=-1)
        parts = a.weight * a.marginal_log_det + b.weight * b.marginal_log_det
        variances = jnp.diagonal(covariance, axis1=-2, axis2=-1)
        size = a.weight * jnp.abs(a.marginal_log_det)
        size = size + b.weight * jnp.abs(b.marginal_log_det)
        size = size + total * (dim + jnp.abs(log_det))
        size = size + total * (dim + 1) * jnp.sum(variances / pivots, axis=-1)
        rounding = 16 * float(jnp.finfo(size.dtype).eps) * size
        return 0.5 * (total * log_det - parts - rounding)

    @override
    def against(self, rows: FullFeatures) -> Callable[[FullFeatures], Array]:
        among_alike = self._among_alike(rows)
        to_alike = self._to_alike(rows)
        to_any = _between_marginals(rows)
        rows_alike = jnp.all(rows.alike)

        def bound(columns: FullFeatures) -> Array:
            columns_alike = jnp.all(columns.alike)
            case = columns_alike.astype(int) + (rows_alike & columns_alike).astype(int)
            return jax.lax.switch(case, (to_any, to_alike, among_alike), columns)

        return bound

    def _among_alike(self, rows: FullFeatures) -> Callable[[FullFeatures], Array]:
        """Costs among clusters alike, w_a log(1 + δᵀΣ⁻¹δ / 4)."""

        def bound(columns: FullFeatures) -> Array:
            distances = squared_distances(rows.white, columns.white)
            distances = distances.astype(self.root.dtype)
            distances = _less_whitening(distances, self.root, rows.mean, columns.mean)
            cost = self.like.weight[0] * jnp.log1p(distances / 4)
            return cost * (1 - 64 * float(jnp.finfo(cost.dtype).eps))

        return bound

    def _to_alike(self, rows: FullFeatures) -> Callable[[FullFeatures], Array]:
        """Costs between wide marginals, where the columns are clusters alike."""
        covariance, log_b = self.like_marginal, self.like_log_det
        w_a, w_b = rows.weight[:, None], self.like.weight[:, None]
        total = w_a + w_b
        p, q = w_a / total, w_b / total
        common = p[..., None] * rows.marginal_covariance
        common = common + q[..., None] * covariance
        factor = jnp.linalg.cholesky(common)
        diagonal = jnp.diagonal(factor, axis1=-2, axis2=-1)
        log_det = 2 * jnp.sum(jnp.log(diagonal), axis=-1)[:, None]
        log_a = rows.marginal_log_det[:, None]
        root = _inverse_factor(factor)
        count, r, _ = root.shape
        within = less_rounding(total, log_det, w_a, log_a, w_b, log_b, r)
        mean_a = rows.marginal_mean
        white_a = jnp.matmul(root, mean_a[..., None], precision="highest")
        stacked = root.reshape(count * r, r)

        def bound(columns: FullFeatures) -> Array:
            mean_b = columns.marginal_mean
            white_b = jnp.matmul(stacked, mean_b.T, precision="highest")
            gap = white_a - white_b.reshape(count, r, -1)
            distances = jnp.sum(gap**2, axis=1)
            distances = _less_whitening(distances, root, mean_a, mean_b)
            return 0.5 * (total * jnp.log1p(p * q * distances) + within)

        return bound


def _less_whitening(distances: Array, root: Array, a: Array, b: Array) -> Array:
    """Squared distances of whitened means, less the rounding of whitening, or 0.

    If rounding moves a distance d by at most e, (d − e)² ≥ (1 − η) d² − e²/η for any η
    in (0, 1); here η = eps^¼.
    """
    reach = lambda mean: jnp.sqrt(jnp.sum(mean**2, axis=-1))
    size = jnp.sqrt(jnp.sum(root**2, axis=(-2, -1)))
    n, eps = root.shape[-1], float(jnp.finfo(root.dtype).eps)
    size = jnp.broadcast_to(size, a.shape[:1])[:, None]
    error = (n + 4) * eps * size * (reach(a)[:, None] + reach(b)[None])
    eta = jnp.sqrt(jnp.sqrt(eps))
    return jnp.maximum((1 - eta) * distances - error**2 / eta, 0)


def _between_marginals(rows: FullFeatures) -> Callable[[FullFeatures], Array]:
    """Costs between narrow marginals, from products of pivots."""
    dim = min(rows.marginal_mean.shape[1], _NARROW)
    own = lambda x: (x.weight, x.narrow_log_det, x.narrow_error)
    w_a, log_a, error_a = (values[:, None] for values in own(rows))
    mean_a, cov_a = rows.marginal_mean[:, :dim].T, rows.narrow.T

    def bound(columns: FullFeatures) -> Array:
        w_b, log_b, error_b = (values[None] for values in own(columns))
        mean_b, cov_b = columns.marginal_mean[:, :dim].T, columns.narrow.T
        total = w_a + w_b
        p, q = w_a / total, w_b / total
        delta = [mean_a[i][:, None] - mean_b[i][None] for i in range(dim)]

        def pooled(i: int, j: int) -> Array:
            place = i * (i + 1) // 2 + j
            inner = p * cov_a[place][:, None] + q * cov_b[place][None]
            return inner + p * q * delta[i] * delta[j]

        log_c, error_c = _log_det_of(pooled, dim)
        change = total * log_c - (w_a * log_a + w_b * log_b)
        error = total * error_c + w_a * error_a + w_b * error_b
        return 0.5 * (change - error)

    return bound


def _leading_subspace(centered: Array, root: Array) -> Array:
    """Whitened basis `[n, r]` in which centered means `[m, n]` spread most."""
    white = jnp.matmul(centered, root.T, precision="highest")
    scatter = jnp.matmul(white.T, white, precision="highest")
    directions = jnp.linalg.eigh(scatter)[1][:, ::-1]
    return jnp.matmul(root.T, directions[:, :_WIDE], precision="highest")


def _marginal(covariance: Array, basis: Array) -> Array:
    half = jnp.matmul(covariance, basis, precision="highest")
    return symmetric_part(jnp.matmul(basis.T[None], half, precision="highest"))


def _pivots(covariance: Array) -> Array:
    factor = jnp.linalg.cholesky(covariance)
    return jnp.diagonal(factor, axis1=-2, axis2=-1) ** 2


def _log_det_of(entry: Callable[[int, int], Array], dim: int) -> tuple[Array, Array]:
    """log det of small matrices from entries i ≥ j, and a bound of its rounding.

    From the pivots d of LDLᵀ, written out entry by entry, so that vector registers hold
    many pairs and not one matrix. Rounding acts as a change of the entries by
    4 (r + 1) eps √(a_ii a_jj), which changes log det by that times r tr C⁻¹, with C the
    matrix of correlations; and tr C⁻¹ ≤ e r / det C, det C = Π d_i / a_ii. NaN where a
    pivot is not positive.
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
    eps = float(jnp.finfo(product.dtype).eps)
    spread = functools.reduce(operator.mul, ratios)
    error = 12 * (dim + 1) * dim**2 * eps * spread + 4 * eps * jnp.abs(logs)
    return logs, error


def _inverse_factor(factor: Array) -> Array:
    eye = jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    return triangular_solve(factor, eye, left_side=True, lower=True)

"""The screen of the merge costs of Gaussians with full covariances."""

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
from bregjax.clusters.gaussian_state import GaussianState
from bregjax.clusters.screens import Screen
from bregjax.clusters.screens.kernels import (
    distance_features,
    less_rounding,
    squared_distances,
)

__all__ = ["FullScreen"]

# Dimensions of the marginals that bound the cost between any two full Gaussians: of all
# pairs, and of those that these leave.
_NARROW, _WIDE = 8, 24


class FullFeatures(NamedTuple):
    """What the bounds of full Gaussians need of clusters.

    Attributes:
        weight: `[m]`.
        alike: Whether weight and covariance are those of a single point, `[m]`.
        mean: Means about the centre, `[m, n]`.
        white: Means whitened by a single point's covariance, ready for distances.
        marginal_mean: On the subspace, `[m, r]`.
        marginal_covariance: `[m, r, r]`.
        marginal_log_det: Its log det, `[m]`.
        narrow: Entries i ≥ j of its leading part, row by row, `[m, s (s + 1) / 2]`.
        narrow_log_det: Log det of that, `[m]`.
        narrow_error: Rounding of the latter, `[m]`.
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
    """The cost itself with columns that resemble a single point; else a marginal's.

    Columns of the weight and covariance of one cluster, as are single points under one
    bandwidth, cost a row, with the covariance M = p Σ_a + q Σ_b common to them,

        Δ = ½ [w log(1 + pq δᵀM⁻¹δ) + w log det M − w_a log det Σ_a − w_b log det Σ_b],

    one factorisation a row and a matrix product. Otherwise the cost between the
    marginals on a subspace is never more than that between the Gaussians (data
    processing); the subspace is that in which the means of the leaves spread most, in
    units of the covariance of one: a few dimensions for all pairs, more of them for the
    pairs that those leave and for columns that resemble a point.

    Attributes:
        like: The state of a leaf, `[1]`.
        centre: What means are taken about, `[1, n]`.
        root: Whitens by the covariance of that leaf, `[n, n]`.
        basis: Whitened basis of the subspace, `[n, r]`, in which means spread most
            first.
        like_marginal: Covariance of that leaf there, `[1, r, r]`.
        like_log_det: Its log det, `[1, 1]`.
    """

    like: GaussianState
    centre: Array
    root: Array
    basis: Array
    like_marginal: Array
    like_log_det: Array

    @classmethod
    def of(cls, leaves: GaussianState) -> "FullScreen":
        """For leaves most of which resemble the first."""
        like = jax.tree.map(lambda leaf: leaf[:1], leaves)
        root = _inverse_factor(jnp.linalg.cholesky(like.moments.covariance[0]))
        centre = jnp.mean(leaves.moments.mean, axis=0, keepdims=True)
        basis = _leading_subspace(leaves.moments.mean - centre, root)
        marginal = _marginal(like.moments.covariance, basis)
        log_det = jnp.sum(jnp.log(_pivots(marginal)), axis=-1, keepdims=True)
        return cls(like, centre, root, basis, marginal, log_det)

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
        mean, covariance = state.moments.mean - self.centre, state.moments.covariance
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
        """By wider marginals, one factorisation a pair.

        Rounding in a factorisation moves log det C by some r eps Σ_i C_ii (C⁻¹)_ii,
        here with the squared pivots in the place of 1 / (C⁻¹)_ii, and 16 times over.
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
        """Among clusters of one weight and covariance, w_a log(1 + δᵀΣ⁻¹δ / 4)."""

        def bound(columns: FullFeatures) -> Array:
            distances = squared_distances(rows.white, columns.white)
            distances = distances.astype(self.root.dtype)
            distances = _less_whitening(distances, self.root, rows.mean, columns.mean)
            cost = self.like.weight[0] * jnp.log1p(distances / 4)
            return cost * (1 - 64 * float(jnp.finfo(cost.dtype).eps))

        return bound

    def _to_alike(self, rows: FullFeatures) -> Callable[[FullFeatures], Array]:
        """With clusters of one weight and covariance, between wide marginals."""
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
    """Squared distances of means whitened by a root, less the rounding of that, or 0.

    With a distance d good to e, (d − e)² ≥ (1 − η) d² − e²/η.
    """
    reach = lambda mean: jnp.sqrt(jnp.sum(mean**2, axis=-1))
    size = jnp.sqrt(jnp.sum(root**2, axis=(-2, -1)))
    n, eps = root.shape[-1], float(jnp.finfo(root.dtype).eps)
    size = jnp.broadcast_to(size, a.shape[:1])[:, None]
    error = (n + 4) * eps * size * (reach(a)[:, None] + reach(b)[None])
    eta = jnp.sqrt(jnp.sqrt(eps))
    return jnp.maximum((1 - eta) * distances - error**2 / eta, 0)


def _between_marginals(rows: FullFeatures) -> Callable[[FullFeatures], Array]:
    """Costs between marginals on a few dimensions, by one product of pivots."""
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


def _leading_subspace(centred: Array, root: Array) -> Array:
    """Whitened basis `[n, r]`, by how far means `[m, n]` about theirs spread."""
    white = jnp.matmul(centred, root.T, precision="highest")
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
    eps = float(jnp.finfo(product.dtype).eps)
    spread = functools.reduce(operator.mul, ratios)
    error = 12 * (dim + 1) * dim**2 * eps * spread + 4 * eps * jnp.abs(logs)
    return logs, error


def _inverse_factor(factor: Array) -> Array:
    eye = jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    return triangular_solve(factor, eye, left_side=True, lower=True)

"""Cluster models of Gaussians whose covariance is free."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.lax.linalg import triangular_solve
from typing_extensions import override

from bregjax._numerics import burg_remainder, symmetric_part
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._roots import cholesky_by_root, log_det_of_factor
from bregjax._typing import Array
from bregjax.clusters._averages import leaves_of_averages
from bregjax.clusters._base import ClusterModel
from bregjax.clusters._gaussian_state import GaussianState
from bregjax.clusters._log_variances import pays, sums_of_logs
from bregjax.clusters._merges import Merges
from bregjax.clusters._moments import (
    Form,
    Moments,
    Normals,
    pool,
    pool_along,
    scatter,
)
from bregjax.clusters._screens import Screen
from bregjax.clusters._screens.full_gaussian import FullScreen
from bregjax.clusters._screens.gaussian import DiagonalScreen, SphericalScreen
from bregjax.convex._determinant import identity_remainder

__all__ = ["FullGaussianModel", "VarianceModel", "leaf_factors"]

# From so many columns on, one comparison of all covariances is cheaper than factorising
# each.
_LARGE = 16


@register_pytree
@dataclass(frozen=True)
class FullGaussianModel(ClusterModel):
    """Clusters by Gaussians, each with its own covariance matrix.

    ψ*(τ) = −½ log det Σ + const, so that with p, q the weight shares, δ = μ_a − μ_b,
    M = p Σ_a + q Σ_b and Σ = M + pq δδᵀ the covariance of the union,

        Δ = ½ [w log det Σ − w_a log det Σ_a − w_b log det Σ_b]
          = ½ [w log(1 + pq δᵀM⁻¹δ) + w_a B(Σ_a, M) + w_b B(Σ_b, M)],
        B(Y + D, Y) = tr(DY⁻¹) − log det(I + DY⁻¹)

    `cost` is the second form: every term is at least 0 and computed without
    cancellation, exactly 0 for equal clusters; O(d³). `cross_cost`
    is the first with the log-determinants held in the state, one factorisation a pair,
    good to eps · w |log det Σ|.

    Examples:
        >>> x = jnp.array([[0.0, 0.0], [2.0, 0.0]])
        >>> points = Moments(x, jnp.tile(jnp.eye(2), (2, 1, 1)))
        >>> model = FullGaussianModel()
        >>> states = jax.jit(model.leaves)(points, jnp.ones(2))
        >>> print(jax.jit(model.cross_cost)(states, states)[0, 1].round(3))  # log 2
        0.693
    """

    @override
    def leaves(self, statistics: Moments, weights: Array) -> GaussianState:
        factor = leaf_factors(statistics.covariance)
        return GaussianState(weights, statistics, log_det_of_factor(factor))

    @override
    def pool(self, a: GaussianState, b: GaussianState) -> GaussianState:
        return _pooled(a, b)

    @override
    def pool_along(self, merges: Merges, leaves: GaussianState) -> GaussianState:
        return _pooled_along(merges, leaves)

    @override
    def settle(self, state: GaussianState) -> GaussianState:
        """Fill in log det Σ."""
        factor = jnp.linalg.cholesky(state.moments.covariance)
        return GaussianState(state.weight, state.moments, log_det_of_factor(factor))

    @override
    def result(self, state: GaussianState) -> Array:
        """BOUNDARY where the covariance is singular."""
        return _result(state)

    @override
    def cost(self, a: GaussianState, b: GaussianState, union: GaussianState) -> Array:
        del union
        total = a.weight + b.weight
        p, q = a.weight / total, b.weight / total
        p_matrix, q_matrix = p[..., None, None], q[..., None, None]
        gap = a.moments.covariance - b.moments.covariance
        middle = p_matrix * a.moments.covariance + q_matrix * b.moments.covariance
        # One chain of factorisations: two batched ones at once can deadlock on few
        # cores (seen with jax 0.10.2).
        factor = jnp.linalg.cholesky(middle)
        eye = jnp.broadcast_to(
            jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape
        )
        root = triangular_solve(factor, eye, left_side=True, lower=True)
        delta = (a.moments.mean - b.moments.mean)[..., None]
        spread = p * q * jnp.sum(_product(root, delta) ** 2, axis=(-2, -1))
        white_gap = _product(root, _product(gap, jnp.swapaxes(root, -1, -2)))
        white_gap = symmetric_part(white_gap)
        within = identity_remainder(
            jnp.stack([q_matrix * white_gap, -p_matrix * white_gap])
        )
        within = a.weight * within[0] + b.weight * within[1]
        return 0.5 * (total * jnp.log1p(spread) + within)

    @override
    def assignment_cost(self, points: GaussianState, clusters: GaussianState) -> Array:
        """½ w [B(Σ, Σ_k) + δᵀΣ_k⁻¹δ], without cancellation if all Σ are equal.

        Else B = tr Σ_k⁻¹Σ − d − log det Σ + log det Σ_k, whose terms cancel where Σ is
        near Σ_k: good to eps (|log det Σ| + d).
        """
        root = Normals.of(clusters.moments).root
        gap = points.moments.mean[:, None] - clusters.moments.mean[None]
        white = jnp.einsum("kij,rkj->rki", root, gap, precision="highest")
        covariance = points.moments.covariance

        def of_one() -> Array:
            apart = covariance[:1] - clusters.moments.covariance
            apart = _product(root, _product(apart, jnp.swapaxes(root, -1, -2)))
            within = identity_remainder(symmetric_part(apart))
            return jnp.broadcast_to(within[None], gap.shape[:-1])

        def of_each() -> Array:
            trace = jnp.einsum(
                "rij,kij->rk",
                covariance,
                _product(jnp.swapaxes(root, -1, -2), root),
                precision="highest",
            )
            scale = jnp.diagonal(root, axis1=-2, axis2=-1)
            log_det = -2 * jnp.sum(jnp.log(scale), axis=-1)
            within = trace - gap.shape[-1] - points.log_det[:, None] + log_det[None]
            return jnp.maximum(within, 0)

        within = jax.lax.cond(jnp.all(covariance == covariance[:1]), of_one, of_each)
        cost = within + jnp.sum(white**2, axis=-1)
        return 0.5 * points.weight[:, None] * cost

    @override
    def assignment_size(self, clusters: GaussianState) -> int:
        """The covariance of the point, and a few vectors for each cluster."""
        k, d = clusters.moments.mean.shape
        return d * d + 4 * k * d

    @override
    def unions(self, statistics: Moments, weights: Array) -> GaussianState:
        return leaves_of_averages(self, statistics, weights)

    @override
    def screen(self, leaves: GaussianState) -> Screen:
        return FullScreen.of(leaves)

    @override
    def cross_cost(self, a: GaussianState, b: GaussianState) -> Array:
        return _cross_cost(self, a, b)

    @override
    def cross_noise(self, state: GaussianState) -> Array:
        return _noise_of_log_dets(state)


@register_pytree
@dataclass(frozen=True)
class VarianceModel(ClusterModel):
    """Clusters by Gaussians with a variance a coordinate, or one for all coordinates.

    With v_m = p v_a + q v_b, v = v_m + pq δ² the variance of the union, and the sum
    over coordinates (d equal terms if all share one variance),

        Δ = ½ Σ [w log v − w_a log v_a − w_b log v_b]
          = ½ Σ [w log(1 + pq δ²/v_m) + w_a φ(v_a/v_m) + w_b φ(v_b/v_m)],
        φ(r) = r − 1 − log r.

    `cost` is the second form: every term is at least 0 and computed without
    cancellation. `cross_cost` is the first with Σ log v held in the state: one
    logarithm a coordinate and pair, good to eps · w |Σ log v|.

    Attributes:
        form: "diagonal" or "spherical".

    Examples:
        >>> x = jnp.array([[0.0, 0.0], [2.0, 0.0]])
        >>> points = Moments(x, jnp.ones((2, 2)), "diagonal")
        >>> model = VarianceModel("diagonal")
        >>> states = jax.jit(model.leaves)(points, jnp.ones(2))
        >>> print(jax.jit(model.cross_cost)(states, states)[0, 1].round(3))  # log 2
        0.693
    """

    form: Form = jax.tree.static(default="diagonal")

    @override
    def leaves(self, statistics: Moments, weights: Array) -> GaussianState:
        return self.settle(GaussianState(weights, statistics, weights))

    @override
    def pool(self, a: GaussianState, b: GaussianState) -> GaussianState:
        return _pooled(a, b)

    @override
    def pool_along(self, merges: Merges, leaves: GaussianState) -> GaussianState:
        return _pooled_along(merges, leaves)

    @override
    def settle(self, state: GaussianState) -> GaussianState:
        """Fill in Σ log v."""
        log_det = self._log_det(state.moments)
        return GaussianState(state.weight, state.moments, log_det)

    @override
    def result(self, state: GaussianState) -> Array:
        """BOUNDARY where a variance is 0."""
        return _result(state)

    @override
    def cost(self, a: GaussianState, b: GaussianState, union: GaussianState) -> Array:
        del union
        w_a, w_b, v_a, v_b = (
            a.weight,
            b.weight,
            a.moments.covariance,
            b.moments.covariance,
        )
        if self.form == "diagonal":
            w_a, w_b = w_a[..., None], w_b[..., None]
        total = w_a + w_b
        p, q = w_a / total, w_b / total
        gap = v_a - v_b
        middle = p * v_a + q * v_b
        spread = p * q * scatter(a.moments.mean - b.moments.mean, self.form)
        terms = (
            total * jnp.log1p(spread / middle)
            + w_a * burg_remainder(middle, q * gap, x=v_a)
            + w_b * burg_remainder(middle, -p * gap, x=v_b)
        )
        if self.form == "diagonal":
            return 0.5 * jnp.sum(terms, axis=-1)
        return 0.5 * a.moments.mean.shape[-1] * terms

    @override
    def assignment_cost(self, points: GaussianState, clusters: GaussianState) -> Array:
        """½ w Σ [φ(v/v_k) + δ²/v_k]: all terms are at least 0, and none cancels."""
        v, v_k = points.moments.covariance[:, None], clusters.moments.covariance[None]
        gap = points.moments.mean[:, None] - clusters.moments.mean[None]
        terms = burg_remainder(v_k, v - v_k, x=v) + scatter(gap, self.form) / v_k
        if self.form == "diagonal":
            return 0.5 * points.weight[:, None] * jnp.sum(terms, axis=-1)
        return 0.5 * gap.shape[-1] * points.weight[:, None] * terms

    @override
    def unions(self, statistics: Moments, weights: Array) -> GaussianState:
        return leaves_of_averages(self, statistics, weights)

    @override
    def screen(self, leaves: GaussianState) -> Screen:
        if self.form == "diagonal":
            return DiagonalScreen.of(leaves)
        return SphericalScreen.of(leaves)

    @override
    def cross_cost(self, a: GaussianState, b: GaussianState) -> Array:
        count, dim = a.moments.mean.shape
        if self.form == "spherical" or not pays(count, dim):
            return _cross_cost(self, a, b)
        log_det = sums_of_logs(a.weight, a.moments, b.weight, b.moments)
        rows, columns = _all_pairs(a, b)
        weight = rows.weight + columns.weight
        cost = _cost_of_log_dets(rows, columns, weight, log_det)
        # Variances that underflow or overflow need the plain form.
        regular = ~jnp.any(jnp.isnan(log_det))
        return jax.lax.cond(regular, lambda: cost, lambda: _cross_cost(self, a, b))

    @override
    def cross_noise(self, state: GaussianState) -> Array:
        return _noise_of_log_dets(state)

    def _log_det(self, moments: Moments) -> Array:
        logs = jnp.log(moments.covariance)
        if self.form == "diagonal":
            return jnp.sum(logs, axis=-1)
        return moments.mean.shape[-1] * logs


def leaf_factors(covariance: Array) -> Array:
    """Cholesky factors of leaves, `[m, d, d]`; one factorisation if all are equal."""
    if covariance.shape[-1] < _LARGE:
        return jnp.linalg.cholesky(covariance)
    known = jax.lax.stop_gradient(covariance)
    first = jnp.linalg.cholesky(known[:1])
    # Keeps the factorisations in sequence where both branches are computed.
    first, known = jax.lax.optimization_barrier((first, known))
    factors = jax.lax.cond(
        jnp.all(known == known[:1]),
        lambda: jnp.broadcast_to(first, known.shape),
        lambda: jnp.linalg.cholesky(known),
    )
    return cholesky_by_root(covariance, jnp.swapaxes(factors, -1, -2))


def _pooled(a: GaussianState, b: GaussianState) -> GaussianState:
    """The union, with its log det, inf here, still to be filled in."""
    moments = pool(a.weight, a.moments, b.weight, b.moments)
    weight = a.weight + b.weight
    return GaussianState(weight, moments, jnp.full_like(weight, jnp.inf))


def _pooled_along(merges: Merges, leaves: GaussianState) -> GaussianState:
    """All nodes, with their log det, inf here, still to be filled in."""
    weight = merges.sum(leaves.weight)
    moments = pool_along(merges, weight, leaves.moments)
    return GaussianState(weight, moments, jnp.full_like(weight, jnp.inf))


def _noise_of_log_dets(state: GaussianState) -> Array:
    """Rounding of w log det Σ, eps w (|log det Σ| + d), `[k]`."""
    log_det = state.log_det
    size = jnp.abs(log_det) + state.moments.mean.shape[-1]
    return jnp.finfo(log_det.dtype).eps * state.weight * size


def _cross_cost(
    model: FullGaussianModel | VarianceModel, a: GaussianState, b: GaussianState
) -> Array:
    """Costs of all pairs, `[k, m]`, from log-determinants of their unions."""
    rows, columns = _all_pairs(a, b)
    union = model.union(rows, columns)
    return _cost_of_log_dets(rows, columns, union.weight, union.log_det)


def _all_pairs(
    a: GaussianState, b: GaussianState
) -> tuple[GaussianState, GaussianState]:
    """Rows `[k, 1, ...]` and columns `[1, m, ...]`."""
    return (
        jax.tree.map(lambda leaf: leaf[:, None], a),
        jax.tree.map(lambda leaf: leaf[None, :], b),
    )


def _cost_of_log_dets(
    a: GaussianState, b: GaussianState, weight: Array, log_det: Array
) -> Array:
    """½ [w log det Σ − w_a log det Σ_a − w_b log det Σ_b], or 0 if that is negative."""
    change = weight * log_det - (a.weight * a.log_det + b.weight * b.log_det)
    return 0.5 * jnp.maximum(change, 0)


def _result(state: GaussianState) -> Array:
    regular = jnp.isfinite(state.log_det)
    return jnp.where(regular, Result.CONVERGED, Result.BOUNDARY).astype(jnp.int32)


def _product(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision="highest")

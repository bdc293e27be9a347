"""Clusters whose cost is the Bregman divergence of a convex function."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._numerics import scale_tangent
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array
from bregjax.clusters._averages import leaves_of_averages
from bregjax.clusters._base import ClusterModel
from bregjax.clusters._merges import Merges
from bregjax.clusters._screens import Screen, screen_of
from bregjax.clusters._weighted_mean import weighted_mean
from bregjax.convex import ConvexFunction, Scaled, SquaredNorm

__all__ = ["BregmanModel", "MeanState", "divergences_from"]


@register_pytree
@dataclass(frozen=True)
class MeanState:
    """States that hold a weight and a mean.

    Attributes:
        weight: `[k]`.
        mean: Weighted means of statistics, `[k, ...]`.

    Examples:
        >>> from bregjax.convex import SquaredNorm
        >>> a = MeanState(jnp.array([1.0]), jnp.array([[0.0]]))
        >>> b = MeanState(jnp.array([3.0]), jnp.array([[4.0]]))
        >>> union = BregmanModel(SquaredNorm()).union(a, b)
        >>> print(union.weight, union.mean)
        [4.] [[3.]]
    """

    weight: Array
    mean: Array


@register_pytree
@dataclass(frozen=True)
class BregmanModel(ClusterModel):
    """Clusters with cost Σ w B_f(τ, mean of τ), for a relatively differentiable f.

    Merge cost (Proposition 3.8), with c the mean of the union:

        Δ(a, b) = w_a B_f(τ_a, c) + w_b B_f(τ_b, c)

    Both terms are evaluated from the displacement τ_j − c = ±(w_i / w)(τ_a − τ_b),
    never as differences of values of f.

    Derivatives use that c minimises the cost over all centers (Corollary 3.6):

        dΔ = Σ_j w_j ⟨∇f(τ_j) − ∇f(c), dτ_j⟩ + Σ_j B_f(τ_j, c) dw_j

    where a coordinate counts 0 if both parts lie at the same boundary point of dom f,
    and −inf or +inf if exactly one part does and the slope of f is infinite there.

    Attributes:
        function: The convex function f on statistics.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> from bregjax.convex import NegativeEntropy
        >>> model = BregmanModel(NegativeEntropy())
        >>> a = model.leaves(jnp.array([[0.0, 4.0]]), jnp.ones(1))
        >>> b = model.leaves(jnp.array([[2.0, 2.0]]), jnp.ones(1))
        >>> print(jax.jit(model.merge_cost)(a, b))
        [1.726]
    """

    function: ConvexFunction

    @override
    def leaves(self, statistics: Array, weights: Array) -> MeanState:
        return MeanState(weight=weights, mean=statistics)

    @override
    def pool(self, a: MeanState, b: MeanState) -> MeanState:
        axes = self.function.event_ndim
        w_a, w_b = _expand(a.weight, axes), _expand(b.weight, axes)
        mean = weighted_mean(w_a, a.mean, w_b, b.mean, self._edge(a.mean))
        return MeanState(a.weight + b.weight, mean)

    @override
    def pool_along(self, merges: Merges, leaves: MeanState) -> MeanState:
        weight = merges.sum(leaves.weight)
        finite = self.reducible or not self.function.separable
        rigid = None if finite else self._edge
        return MeanState(weight, merges.average(weight, leaves.mean, rigid=rigid))

    def _edge(self, mean: Array) -> Array:
        """Whether the slope of f is infinite, coordinate by coordinate."""
        if self.function.separable:
            return jnp.isinf(self.function.gradient(mean))
        return jnp.zeros(mean.shape, bool)

    @override
    def result(self, state: MeanState) -> Array:
        """OUTSIDE where f is infinite, as on some boundaries; INVALID where NaN."""
        value = self.function(state.mean)
        codes = jnp.where(jnp.isfinite(value), Result.CONVERGED, Result.OUTSIDE)
        return jnp.where(jnp.isnan(value), Result.INVALID, codes).astype(jnp.int32)

    @property
    @override
    def reducible(self) -> bool:
        """Whether f is a squared distance, the only f for which this is proven."""
        return _is_squared_distance(self.function)

    @override
    def screen(self, leaves: MeanState) -> Screen:
        """The screen of f, or of the cost itself where f has no screen."""
        screen = screen_of(self.function, leaves)
        return super().screen(leaves) if screen is None else screen

    @override
    def assignment_cost(self, points: MeanState, clusters: MeanState) -> Array:
        """w B_f(τ, τ_k), from the displacement τ − τ_k."""
        mean, center = points.mean[:, None], clusters.mean[None]
        divergence = self.function.remainder(center, mean - center, x=mean)
        return points.weight[:, None] * divergence

    @override
    def unions(self, statistics: Array, weights: Array) -> MeanState:
        return leaves_of_averages(self, statistics, weights)

    @override
    def cost(self, a: MeanState, b: MeanState, union: MeanState) -> Array:
        del union
        return _merge_cost(self.function, a.weight, a.mean, b.weight, b.mean)


def _displacements(axes, w_a, t_a, w_b, t_b):
    """The mean c of the union, τ_a − c and τ_b − c."""
    total = w_a + w_b
    p, q = _expand(w_a / total, axes), _expand(w_b / total, axes)
    difference = t_a - t_b
    # From the heavier mean: p and q may add up to more than 1 by rounding, and
    # p τ_a + q τ_b would leave the domain of f.
    center = jnp.where(p >= q, t_a - q * difference, t_b + p * difference)
    return center, q * difference, -p * difference


def _cost_of_displacements(f, w_a, t_a, w_b, t_b):
    center, delta_a, delta_b = _displacements(f.event_ndim, w_a, t_a, w_b, t_b)
    return w_a * f.remainder(center, delta_a, x=t_a) + w_b * f.remainder(
        center, delta_b, x=t_b
    )


@jax.custom_jvp
def _merge_cost(f, w_a, t_a, w_b, t_b):
    return _cost_of_displacements(f, w_a, t_a, w_b, t_b)


@_merge_cost.defjvp
def _merge_cost_jvp(primals, tangents):
    f, w_a, t_a, w_b, t_b = primals
    df, dw_a, dt_a, dw_b, dt_b = tangents
    axes = f.event_ndim
    event = tuple(range(-axes, 0))
    center, delta_a, delta_b = _displacements(axes, w_a, t_a, w_b, t_b)
    slope_a = _rise_of_slope(f, t_a, center, delta_a)
    slope_b = _rise_of_slope(f, t_b, center, delta_b)
    cost = _merge_cost(f, w_a, t_a, w_b, t_b)
    change = (
        w_a * jnp.sum(scale_tangent(slope_a, dt_a), axis=event)
        + w_b * jnp.sum(scale_tangent(slope_b, dt_b), axis=event)
        + f.remainder(center, delta_a, x=t_a) * dw_a
        + f.remainder(center, delta_b, x=t_b) * dw_b
    )
    if jax.tree.leaves(f):
        by_parameters = lambda g: _cost_of_displacements(g, w_a, t_a, w_b, t_b)
        change = change + jax.jvp(by_parameters, (f,), (df,))[1]
    return cost, change


def _rise_of_slope(f: ConvexFunction, point: Array, center: Array, delta: Array):
    """∇f(τ) − ∇f(c), infinite where τ lies where the slope of f is infinite.

    c + δ may miss such a τ by rounding: 1e-17 in place of 0, and log 1e-17 = −39 is far
    from log 0 = −∞.
    """
    rise = f.gradient_difference(center, delta)
    if not f.separable:
        return rise
    slope = jnp.broadcast_to(f.gradient(point), rise.shape)
    return jnp.where(jnp.isinf(slope) & (delta != 0), slope, rise)


def divergences_from(function: ConvexFunction, x: Array, means: Array) -> Array:
    """B_f(x, τ_k) ≥ 0 of one point to each mean, `[k]` from `[k, ...]`."""
    x = jnp.broadcast_to(x, means.shape)
    return function.remainder(means, x - means, x=x)


def _is_squared_distance(function: ConvexFunction) -> bool:
    if isinstance(function, Scaled):
        return _is_squared_distance(function.function)
    return isinstance(function, SquaredNorm)


def _expand(x, axes):
    """Append `axes` axes of length 1."""
    return x.reshape(x.shape + (1,) * axes)

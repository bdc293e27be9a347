"""Clusters as a commutative monoid with a cost: all that an engine knows of them."""

import abc
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from bregjax._numerics import finite_cotangents, scale_tangent
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.convex import Scaled, SquaredNorm
from bregjax.convex.base import ConvexFunction
from bregjax.host_model import HostModel
from bregjax.merges import Merges
from bregjax.screening import CostScreen, Screen, screen_of

__all__ = [
    "BregmanModel",
    "ClusterModel",
    "MeanState",
    "divergences_from",
    "weighted_mean",
]


class ClusterModel(abc.ABC):
    """What a cluster is, how two unite, and what that costs.

    A state is a pytree of arrays with one leading cluster axis `[k, ...]`; only the
    model looks inside. All operations on two clusters broadcast over leading axes, so
    that `merge_cost(a[:, None], b[None, :])` gives all pairs.

    A model gives the additive part of a union (`pool`), what follows from it and is
    worth keeping (`settle`: a log-determinant, the solution of a conjugate), and the
    cost of a merge (`cost`). `union` and `merge_cost` are made of these; who has many
    unions at hand pools first and settles all at once.

    Contract, up to rounding: `union` is commutative and associative, `merge_cost` is
    symmetric, at least 0, and 0 between equal clusters (Proposition 3.8 with a
    relatively differentiable function).
    """

    @abc.abstractmethod
    def leaves(self, statistics: PyTree, weights: Array) -> PyTree:
        """States `[m]` of single points from statistics `[m, ...]`, weights `[m]`."""

    @abc.abstractmethod
    def pool(self, a: PyTree, b: PyTree) -> PyTree:
        """State of the union of disjoint clusters, to be settled."""

    def settle(self, state: PyTree) -> PyTree:
        """Fill in what follows from the additive part; nothing by default."""
        return state

    def pool_along(self, merges: Merges, leaves: PyTree) -> PyTree:
        """States of all nodes of a tree, to be settled: leaves first, then unions.

        Merge by merge, here: in reverse mode that keeps a copy of all states for each
        merge. A model whose state adds up or averages says so by `Merges.sum` and
        `Merges.average`, whose derivatives take memory for the nodes alone.

        Args:
            merges: The tree.
            leaves: Settled states `[L, ...]`.

        Returns:
            States `[L + t, ...]`.
        """
        nodes = jax.tree.map(lambda leaf: _with_room(leaf, merges), leaves)

        def step(nodes, merge):
            union, pair = merge
            part = lambda node: jax.tree.map(lambda array: array[node], nodes)
            pooled = self.pool(part(pair[0]), part(pair[1]))
            put = lambda array, value: array.at[union].set(value)
            return jax.tree.map(put, nodes, pooled), None

        return jax.lax.scan(step, nodes, (merges.unions, merges.children))[0]

    @abc.abstractmethod
    def cost(self, a: PyTree, b: PyTree, union: PyTree) -> Array:
        """Merge cost Δ(a, b) ≥ 0 given the settled union, without cancellation."""

    def union(self, a: PyTree, b: PyTree) -> PyTree:
        """State of the union of disjoint clusters."""
        return self.settle(self.pool(a, b))

    def merge_cost(self, a: PyTree, b: PyTree) -> Array:
        """Merge cost Δ(a, b) ≥ 0 in a form that does not cancel."""
        return self.cost(a, b, self.union(a, b))

    def pair_size(self, state: PyTree) -> int:
        """Numbers that the cost of one pair works on; engines size tiles by it."""
        leaves = jax.tree.leaves(state)
        return sum(math.prod(leaf.shape[1:]) for leaf in leaves)

    @abc.abstractmethod
    def result(self, state: PyTree) -> Array:
        """A `Result` code a cluster `[k]`: CONVERGED where its cost is finite."""

    @property
    def solves(self) -> bool:
        """Whether `settle` solves for what it fills in, see `host`.

        Such a model is quick where values are known and the program of a solve is not
        made part of another: with pooling and costs under `jit`, and solves between.
        """
        return False

    @property
    def reducible(self) -> bool:
        """Whether Δ(a ∪ b, c) ≥ min(Δ(a, c), Δ(b, c)) where a, b are mutually nearest.

        Then merging mutually nearest pairs in any order is greedy. Of Bregman costs
        those of squared distances alone are known to be so; claim it with a proof.
        """
        return False

    @property
    def distributes(self) -> bool:
        """Whether several devices may compute costs at the same time."""
        return True

    @property
    def screened(self) -> bool:
        """Whether the bounds of `screen` take much less time than costs."""
        return True

    def screen(self, leaves: PyTree) -> Screen:
        """Lower bounds of the costs between these leaves and unions of them.

        The cost itself, where nothing cheaper is known; a matrix product, a marginal or
        a table make an engine fast. Works under `jit`.
        """
        del leaves
        return CostScreen(self)

    def host(self) -> HostModel | None:
        """The same from outside of compiled programs, where costs are solved for.

        None where compiled programs do. To be called in the precision of the work.
        """
        return None

    def cross_cost(self, a: PyTree, b: PyTree) -> Array:
        """Merge costs of all pairs, `[k, m]` from states `[k]` and `[m]`.

        A faster kernel than `merge_cost` may replace this; engines search with it,
        while the costs that are reported come from `merge_cost`.
        """
        rows = jax.tree.map(lambda leaf: leaf[:, None], a)
        columns = jax.tree.map(lambda leaf: leaf[None, :], b)
        return self.merge_cost(rows, columns)

    def cross_noise(self, state: PyTree) -> Array:
        """What rounding adds to `cross_cost` for each of its clusters, about, `[k]`.

        0 where that is `merge_cost`.
        """
        return jnp.zeros(jax.tree.leaves(state)[0].shape[0])


@register_pytree
@dataclass(frozen=True)
class MeanState:
    """Clusters by weight `[k]` and weighted mean of their statistics `[k, ...]`."""

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

    Derivatives use that c minimises the cost over all centres (Corollary 3.6):

        dΔ = Σ_j w_j ⟨∇f(τ_j) − ∇f(c), dτ_j⟩ + Σ_j B_f(τ_j, c) dw_j

    where a coordinate counts 0 if both parts lie at the same boundary point of dom f,
    and −inf or +inf if exactly one does and the slope of f is infinite there.

    Attributes:
        function: The convex function f on statistics.
    """

    function: ConvexFunction

    def leaves(self, statistics: Array, weights: Array) -> MeanState:
        """States of single points; statistics `[m, n]`, weights `[m]`."""
        return MeanState(weight=weights, mean=statistics)

    def pool(self, a: MeanState, b: MeanState) -> MeanState:
        """Add weights and average means."""
        axes = self.function.event_ndim
        w_a, w_b = _expand(a.weight, axes), _expand(b.weight, axes)
        mean = weighted_mean(w_a, a.mean, w_b, b.mean, self._edge(a.mean))
        return MeanState(a.weight + b.weight, mean)

    def pool_along(self, merges: Merges, leaves: MeanState) -> MeanState:
        """Sums of weights and averages of means."""
        weight = merges.sum(leaves.weight)
        finite = self.reducible or not self.function.separable
        rigid = None if finite else self._edge
        return MeanState(weight, merges.average(weight, leaves.mean, rigid=rigid))

    def _edge(self, mean: Array) -> Array:
        """Coordinates in which the slope of f is infinite."""
        if self.function.separable:
            return jnp.isinf(self.function.gradient(mean))
        return jnp.zeros(mean.shape, bool)

    def result(self, state: MeanState) -> Array:
        """OUTSIDE where f is infinite, as at some boundaries; INVALID where NaN."""
        value = self.function(state.mean)
        codes = jnp.where(jnp.isfinite(value), Result.CONVERGED, Result.OUTSIDE)
        return jnp.where(jnp.isnan(value), Result.INVALID, codes).astype(jnp.int32)

    @property
    def reducible(self) -> bool:
        """Of squared distances: a union is no nearer to a third than both parts."""
        return _is_squared_distance(self.function)

    def screen(self, leaves: MeanState) -> Screen:
        """The function's, where it has one."""
        screen = screen_of(self.function, leaves)
        return super().screen(leaves) if screen is None else screen

    def cost(self, a: MeanState, b: MeanState, union: MeanState) -> Array:
        """Δ(a, b) by displacements from the mean of the union."""
        del union
        return _merge_cost(self.function, a.weight, a.mean, b.weight, b.mean)


@jax.custom_jvp
def weighted_mean(w_a: Array, t_a: Array, w_b: Array, t_b: Array, edge: Array) -> Array:
    """(w_a t_a + w_b t_b) / (w_a + w_b), exactly t_a where t_a = t_b.

    From the heavier one, lest the mean keep the rounding of a light one's large value.

    Args:
        w_a: Weights, broadcast against the means.
        t_a: Means.
        w_b: Weights.
        t_b: Means.
        edge: Where costs may have infinite slope, booleans like the means. There the
            derivative with respect to the weights is 0 if t_a = t_b, also against an
            infinite cotangent: a zero count stays zero whatever the weights.
    """
    del edge
    heavy = w_a >= w_b
    base, other = jnp.where(heavy, t_a, t_b), jnp.where(heavy, t_b, t_a)
    share = jnp.where(heavy, w_b, w_a) / (w_a + w_b)
    return base + share * (other - base)


@weighted_mean.defjvp
def _weighted_mean_jvp(primals, tangents):
    w_a, t_a, w_b, t_b, edge = primals
    dw_a, dt_a, dw_b, dt_b, _ = tangents
    total = w_a + w_b
    p, q = w_a / total, w_b / total
    difference = t_b - t_a
    # A cotangent of ±inf would meet a difference of zero on its way to the weights, and
    # become inf · 0.
    moved = (p * dw_b - q * dw_a) / total * difference
    moved = finite_cotangents(moved, edge & (difference == 0))
    out = weighted_mean(w_a, t_a, w_b, t_b, edge)
    return out, p * dt_a + q * dt_b + moved


def _displacements(axes, w_a, t_a, w_b, t_b):
    """Mean c of the union, τ_a − c and τ_b − c."""
    total = w_a + w_b
    p, q = _expand(w_a / total, axes), _expand(w_b / total, axes)
    difference = t_a - t_b
    # From the heavier: shares that add up to more than 1 would leave the domain of f.
    centre = jnp.where(p >= q, t_a - q * difference, t_b + p * difference)
    return centre, q * difference, -p * difference


def _cost_of_displacements(f, w_a, t_a, w_b, t_b):
    centre, delta_a, delta_b = _displacements(f.event_ndim, w_a, t_a, w_b, t_b)
    return w_a * f.remainder(centre, delta_a, x=t_a) + w_b * f.remainder(
        centre, delta_b, x=t_b
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
    centre, delta_a, delta_b = _displacements(axes, w_a, t_a, w_b, t_b)
    slope_a = _rise_of_slope(f, t_a, centre, delta_a)
    slope_b = _rise_of_slope(f, t_b, centre, delta_b)
    cost = _merge_cost(f, w_a, t_a, w_b, t_b)
    change = (
        w_a * jnp.sum(scale_tangent(slope_a, dt_a), axis=event)
        + w_b * jnp.sum(scale_tangent(slope_b, dt_b), axis=event)
        + f.remainder(centre, delta_a, x=t_a) * dw_a
        + f.remainder(centre, delta_b, x=t_b) * dw_b
    )
    if jax.tree.leaves(f):
        by_parameters = lambda g: _cost_of_displacements(g, w_a, t_a, w_b, t_b)
        change = change + jax.jvp(by_parameters, (f,), (df,))[1]
    return cost, change


def _rise_of_slope(f: ConvexFunction, point: Array, centre: Array, delta: Array):
    """∇f(τ) − ∇f(c), infinite where τ, as given, is at such a boundary of dom f.

    c + δ may miss it by rounding, and log 1e-17 is far from log 0.
    """
    rise = f.gradient_difference(centre, delta)
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


def _with_room(leaves: Array, merges: Merges) -> Array:
    """Rows for the unions, behind those of the leaves."""
    room = jnp.broadcast_to(leaves[:1], (len(merges.children), *leaves.shape[1:]))
    return jnp.concatenate([leaves, room])


def _expand(x, axes):
    """Append `axes` axes of length 1."""
    return x.reshape(x.shape + (1,) * axes)

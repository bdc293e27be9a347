"""The cluster model that follows from any log-partition function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.cluster_model import ClusterModel, weighted_mean
from bregjax.convex import bregman_remainder

if TYPE_CHECKING:
    from bregjax.families.base import Family

__all__ = ["NaturalModel", "NaturalState"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NaturalState:
    """Clusters with the solution of their conjugate; n numbers a parameter.

    Attributes:
        weight: `[k]`.
        mean: Mean parameters τ, raveled, `[k, n]`.
        natural: Natural parameters θ of mean τ, raveled, `[k, n]`.
        value: ψ*(τ), `[k]`.
        result: Codes of the solver, `[k]`.
    """

    weight: Array
    mean: Array
    natural: Array
    value: Array
    result: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NaturalModel(ClusterModel):
    """Clusters of any exponential family, by its conjugate.

    Merge cost (Proposition 3.8), with c the mean of the union and θ_c its natural
    parameter:

        Δ(a, b) = Σ_j w_j B_ψ*(τ_j, c) = Σ_j w_j B_ψ(θ_c, θ_j)

    The dual form on the right needs one solve, for θ_c, and does not cancel where the
    parts are near (`bregman_remainder`). A part on the boundary of the mean domain has
    no θ_j; there the difference w_a ψ*(τ_a) + w_b ψ*(τ_b) − w ψ*(c) stands.

    Derivatives (c minimises the cost, Corollary 3.6; ψ* has slope −∂ψ in a parameter):

        dΔ = Σ_j w_j ⟨θ_j − θ_c, dτ_j⟩ + Σ_j B_j dw_j − Σ_j w_j (∂ψ(θ_j) − ∂ψ(θ_c))

    Attributes:
        family: The exponential family; its own parameters are leaves.
    """

    family: "Family"

    def leaves(self, statistics: PyTree, weights: Array) -> NaturalState:
        """States of single points from mean parameters with a leading axis `[m]`."""
        mean = jax.vmap(lambda tree: ravel_pytree(tree)[0])(statistics)
        start, _ = ravel_pytree(self.family.natural_init)
        starts = jnp.broadcast_to(start.astype(mean.dtype), mean.shape)
        return self._solved(weights, mean, starts)

    def union(self, a: NaturalState, b: NaturalState) -> NaturalState:
        """Add weights, average means, solve from the average of the natural parts."""
        weight, mean, start = _pooled(a, b)
        return self._solved(weight, mean, start)

    def result(self, state: NaturalState) -> Array:
        """The solver's codes; a boundary point of finite ψ* is as good as inside."""
        finite_limit = _boundary(state) & jnp.isfinite(state.value)
        return jnp.where(finite_limit, Result.CONVERGED, state.result).astype(jnp.int32)

    def merge_cost(self, a: NaturalState, b: NaturalState) -> Array:
        """Δ(a, b) by the dual form; one solve a pair."""
        return _merge_cost(self.family, a, b)

    def cross_cost(self, a: NaturalState, b: NaturalState) -> Array:
        """All pairs by the difference of values alone: good to eps · w |ψ*|."""
        rows = jax.tree.map(lambda leaf: leaf[:, None], a)
        columns = jax.tree.map(lambda leaf: leaf[None, :], b)
        union = self.union(rows, columns)
        return jnp.maximum(_difference_of_values(rows, columns, union), 0)

    def _solved(self, weight: Array, mean: Array, start: Array) -> NaturalState:
        _, unravel = ravel_pytree(self.family.natural_init)

        def solve(mean, start):
            solution = self.family.conjugate(unravel(mean), start=unravel(start))
            natural, _ = ravel_pytree(solution.maximiser)
            return natural, solution.value, solution.result

        natural, value, result = _vectorize(solve, mean, start)
        return NaturalState(weight, mean, natural, value, result)


def _vectorize(function: Callable, *arrays: Array):
    """Map over all axes but the last of arrays that broadcast."""
    arrays = jnp.broadcast_arrays(*arrays)
    lead = arrays[0].shape[:-1]
    flat = [array.reshape(-1, array.shape[-1]) for array in arrays]
    out = jax.vmap(function)(*flat)
    return jax.tree.map(lambda leaf: leaf.reshape(lead + leaf.shape[1:]), out)


def _pooled(a: NaturalState, b: NaturalState) -> tuple[Array, Array, Array]:
    """Weight and mean of the union, and where to start its solve."""
    weight = a.weight + b.weight
    share = (b.weight / weight)[..., None]
    mean = weighted_mean(a.weight[..., None], a.mean, b.weight[..., None], b.mean)
    return weight, mean, a.natural + share * (b.natural - a.natural)


def _difference_of_values(a: NaturalState, b: NaturalState, c: NaturalState) -> Array:
    return a.weight * a.value + b.weight * b.value - c.weight * c.value


def _boundary(state: NaturalState) -> Array:
    return state.result == Result.BOUNDARY


@jax.custom_jvp
def _merge_cost(family: "Family", a: NaturalState, b: NaturalState) -> Array:
    c = NaturalModel(family).union(a, b)
    _, unravel = ravel_pytree(family.natural_init)
    psi = lambda theta: family.log_partition(unravel(theta))

    def divergence(theta, theta_c):
        return bregman_remainder(psi, theta, theta_c - theta)

    near = a.weight * _vectorize(divergence, a.natural, c.natural)
    near = near + b.weight * _vectorize(divergence, b.natural, c.natural)
    far = jnp.maximum(_difference_of_values(a, b, c), 0)
    return jnp.where(_boundary(a) | _boundary(b) | _boundary(c), far, near)


@_merge_cost.defjvp
def _merge_cost_jvp(primals, tangents):
    family, a, b = primals
    d_family, d_a, d_b = tangents
    cost = _merge_cost(family, a, b)
    c = NaturalModel(family).union(a, b)
    _, unravel = ravel_pytree(family.natural_init)

    def by_point(state, d_state):
        slope = state.natural - c.natural
        # B_ψ*(τ_j, c) by the centre's tangent: a part on the boundary has no slope.
        divergence = (
            state.value
            - c.value
            - jnp.sum(c.natural * (state.mean - c.mean), axis=-1)
        )
        return (
            state.weight * jnp.sum(slope * d_state.mean, axis=-1)
            + divergence * d_state.weight
        )

    change = by_point(a, d_a) + by_point(b, d_b)
    if jax.tree.leaves(family):

        def value_change(state):
            def along(theta):
                psi = lambda g: g.log_partition(unravel(theta))
                return jax.jvp(psi, (family,), (d_family,))[1]

            return -_vectorize(along, state.natural)

        change = change + (
            a.weight * value_change(a)
            + b.weight * value_change(b)
            - c.weight * value_change(c)
        )
    return cost, change

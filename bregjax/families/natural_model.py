"""The cluster model that follows from any log-partition function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from bregjax._numerics import scale_tangent
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.cluster_model import ClusterModel, weighted_mean
from bregjax.convex import bregman_remainder
from bregjax.families._screen import bracketed_conjugate

if TYPE_CHECKING:
    from bregjax.families.base import Family

__all__ = ["NaturalModel", "NaturalState"]


@register_pytree
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


@register_pytree
@dataclass(frozen=True)
class NaturalModel(ClusterModel):
    """Clusters of any exponential family, by its conjugate.

    Merge cost (Proposition 3.8), with c the mean of the union, θ_c its natural
    parameter, u_j = θ_c − θ_j and δ_j = c − τ_j, known without cancellation:

        Δ(a, b) = Σ_j w_j B_ψ*(τ_j, c),
        B_ψ*(τ_j, c) = ⟨δ_j, u_j⟩ − B_ψ(θ_j, θ_c)

    By Fenchel–Young the right-hand side is the largest at the true u_j: an error e of
    the solver costs e² and not e, so that near parts keep their digits, and equal ones
    cost exactly 0. A part on the boundary of the mean domain has no θ_j; there
    ψ*(τ_j) − ψ*(c) + ⟨θ_c, δ_j⟩ stands. NaN where a solve failed.

    Derivatives (c minimises the cost, Corollary 3.6; ψ* has slope −∂ψ in a parameter):

        dΔ = Σ_j w_j ⟨θ_j − θ_c, dτ_j⟩ + Σ_j B_j dw_j − Σ_j w_j (∂ψ(θ_j) − ∂ψ(θ_c))

    Of a separable ψ a coordinate in which exactly one part is on the boundary has slope
    ±inf, one in which both parts agree has slope 0. Otherwise a part on the boundary
    has the finite slope, of the right sign, that the solver had reached.

    Attributes:
        family: The exponential family; its own parameters are leaves.
    """

    family: "Family"

    def leaves(self, statistics: PyTree, weights: Array) -> NaturalState:
        """States of single points from mean parameters with a leading axis `[m]`."""
        mean = jax.vmap(lambda tree: ravel_pytree(tree)[0])(statistics)
        start = _flat_init(self.family, mean.dtype)
        return self.settle(_unsolved(weights, mean, start[None]))

    def pool(self, a: NaturalState, b: NaturalState) -> NaturalState:
        """Add weights, average means; natural parameters to start a solve from."""
        edge = (a.result == Result.BOUNDARY)[..., None] & jnp.ones_like(a.mean, bool)
        mean = weighted_mean(
            a.weight[..., None], a.mean, b.weight[..., None], b.mean, edge
        )
        return _unsolved(a.weight + b.weight, mean, _warm_start(self.family, a, b))

    def settle(self, state: NaturalState) -> NaturalState:
        """Solve the conjugates."""
        _, unravel = ravel_pytree(self.family.natural_init)

        def solve(mean, start):
            solution = self.family.conjugate(unravel(mean), start=unravel(start))
            natural, _ = ravel_pytree(solution.maximiser)
            return natural, solution.value, solution.result

        natural, value, result = _vectorize(solve, state.mean, state.natural)
        return NaturalState(state.weight, state.mean, natural, value, result)

    def pair_size(self, state: NaturalState) -> int:
        """Vectors, and unless ψ is separable a few matrices of the solver."""
        n = state.mean.shape[-1]
        return 8 * n if self.family.separable else 8 * n * n

    def result(self, state: NaturalState) -> Array:
        """The solver's codes; a boundary point of finite ψ* is as good as inside."""
        boundary = state.result == Result.BOUNDARY
        finite_limit = boundary & jnp.isfinite(state.value)
        return jnp.where(finite_limit, Result.CONVERGED, state.result).astype(jnp.int32)

    def cost(self, a: NaturalState, b: NaturalState, union: NaturalState) -> Array:
        """Δ(a, b) by the dual form."""
        return _merge_cost(self.family, a, b, union)

    def cross_cost(self, a: NaturalState, b: NaturalState) -> Array:
        """All pairs by the difference of values alone: good to eps · w |ψ*|."""
        rows = jax.tree.map(lambda leaf: leaf[:, None], a)
        columns = jax.tree.map(lambda leaf: leaf[None, :], b)
        union = self.pool(rows, columns)
        if self.family.separable and self.family.solves:
            value = bracketed_conjugate(
                _flat_psi(self.family),
                union.mean,
                jnp.minimum(rows.natural, columns.natural),
                jnp.maximum(rows.natural, columns.natural),
                union.natural,
            )
        else:
            value = self.settle(union).value
        parts = rows.weight * rows.value + columns.weight * columns.value
        return jnp.maximum(parts - union.weight * value, 0)


def _unsolved(weight: Array, mean: Array, start: Array) -> NaturalState:
    """A state whose natural parameters are no more than where to start."""
    lead = mean.shape[:-1]
    return NaturalState(
        weight,
        mean,
        jnp.broadcast_to(start, mean.shape),
        jnp.full(lead, jnp.nan, mean.dtype),
        jnp.full(lead, Result.STEP_LIMIT, jnp.int32),
    )


def _vectorize(function: Callable, *arrays: Array):
    """Map over all axes but the last of arrays that broadcast."""
    spread = jnp.broadcast_arrays(*arrays)
    lead = spread[0].shape[:-1]
    flat = [array.reshape(-1, array.shape[-1]) for array in spread]
    out = jax.vmap(function)(*flat)
    return jax.tree.map(lambda leaf: leaf.reshape(lead + leaf.shape[1:]), out)


def _flat_init(family: "Family", dtype: jnp.dtype) -> Array:
    return ravel_pytree(family.natural_init)[0].astype(dtype)


def _flat_psi(family: "Family") -> Callable[[Array], Array]:
    _, unravel = ravel_pytree(family.natural_init)
    return lambda theta: family.log_partition(unravel(theta))


def _found(state: NaturalState) -> Array:
    return state.result == Result.CONVERGED


def _warm_start(family: "Family", a: NaturalState, b: NaturalState) -> Array:
    """Where to start the solve of a union: the weighted average of the solutions.

    Iterates that ran off towards a boundary are no place to start from.
    """
    share = (b.weight / (a.weight + b.weight))[..., None]
    found_a, found_b = _found(a)[..., None], _found(b)[..., None]
    init = _flat_init(family, a.natural.dtype)
    init = jnp.broadcast_to(init, jnp.broadcast_shapes(a.mean.shape, b.mean.shape))
    from_a = jnp.where(found_a, a.natural, jnp.where(found_b, b.natural, init))
    from_b = jnp.where(found_b, b.natural, from_a)
    return from_a + share * (from_b - from_a)


def _difference_of_values(a: NaturalState, b: NaturalState, c: NaturalState) -> Array:
    return a.weight * a.value + b.weight * b.value - c.weight * c.value


def _displacements(a: NaturalState, b: NaturalState) -> tuple[Array, Array]:
    """c − τ_a and c − τ_b, without cancellation."""
    total = a.weight + b.weight
    difference = b.mean - a.mean
    return (
        (b.weight / total)[..., None] * difference,
        -(a.weight / total)[..., None] * difference,
    )


def _divergence(
    family: "Family", part: NaturalState, c: NaturalState, delta: Array
) -> Array:
    """B_ψ*(τ, c) ≥ 0 of a part, where δ = c − τ."""
    psi = _flat_psi(family)
    found = _found(part) & _found(c)
    # Of what is not found the stand-in is harmless, in derivatives as well.
    init = _flat_init(family, c.natural.dtype)
    centre = jnp.where(_found(c)[..., None], c.natural, init)
    step = jnp.where(found[..., None], centre - part.natural, 0)
    back = _vectorize(lambda theta, u: bregman_remainder(psi, theta, -u), centre, step)
    near = jnp.sum(delta * step, axis=-1) - back
    by_values = part.value - c.value + jnp.sum(_product(c.natural, delta), axis=-1)
    return jnp.maximum(jnp.where(found, near, by_values), 0)


def _product(natural: Array, delta: Array) -> Array:
    """θ δ with ±inf · 0 = 0."""
    idle = jnp.isinf(natural) & (delta == 0)
    return jnp.where(idle, 0, natural) * delta


def _slope(family: "Family", part: NaturalState, c: NaturalState) -> Array:
    """θ_j − θ_c, infinite in the coordinates of a separable ψ that have no θ_j."""
    same = part.natural == c.natural
    slope = jnp.where(same, 0, part.natural - jnp.where(same, 0, c.natural))
    if not family.separable:
        return slope
    gradient = jax.grad(_flat_psi(family))

    def runaway(theta, mean):
        """Whether a Newton step from the last iterate would still go a long way."""
        theta = jnp.where(jnp.isfinite(theta), theta, 0)
        mu, variance = jax.jvp(gradient, (theta,), (jnp.ones_like(theta),))
        rounding = jnp.finfo(mu.dtype).eps * (jnp.abs(mu) + jnp.abs(mean))
        return jnp.abs(mean - mu) + rounding >= 0.1 * variance

    edge = (part.result == Result.BOUNDARY)[..., None]
    edge = edge & _vectorize(runaway, part.natural, part.mean)
    slope = jnp.where(edge, jnp.sign(slope) * jnp.inf, slope)
    return jnp.where(part.mean == c.mean, 0, slope)


@jax.custom_jvp
def _merge_cost(
    family: "Family", a: NaturalState, b: NaturalState, c: NaturalState
) -> Array:
    delta_a, delta_b = _displacements(a, b)
    parts = a.weight * _divergence(family, a, c, delta_a)
    parts = parts + b.weight * _divergence(family, b, c, delta_b)
    values = jnp.maximum(_difference_of_values(a, b, c), 0)
    equal = jnp.all(a.mean == b.mean, axis=-1) & jnp.isfinite(values)
    return jnp.where(_found(c), parts, jnp.where(equal, 0, values))


@_merge_cost.defjvp
def _merge_cost_jvp(primals, tangents):
    # The union is no variable of its own: c follows from a and b, at a minimum.
    family, a, b, c = primals
    d_family, d_a, d_b, _ = tangents
    delta_a, delta_b = _displacements(a, b)
    cost = _merge_cost(family, a, b, c)

    def by_point(part, d_part, delta):
        along = scale_tangent(_slope(family, part, c), d_part.mean)
        moved = part.weight * jnp.sum(along, axis=-1)
        return moved + _divergence(family, part, c, delta) * d_part.weight

    change = by_point(a, d_a, delta_a) + by_point(b, d_b, delta_b)
    if jax.tree.leaves(family):
        change = change + _change_by_family(family, d_family, (a, b), c)
    return cost, change


def _change_by_family(family, d_family, parts, c: NaturalState) -> Array:
    """−Σ w_j (∂ψ(θ_j) − ∂ψ(θ_c)) · d_family."""
    _, unravel = ravel_pytree(family.natural_init)

    def change_of_psi(state):
        def along(theta):
            psi = lambda g: g.log_partition(unravel(theta))
            return jax.jvp(psi, (family,), (d_family,))[1]

        return _vectorize(along, state.natural)

    of_centre = change_of_psi(c)
    a, b = (part.weight * (of_centre - change_of_psi(part)) for part in parts)
    return a + b

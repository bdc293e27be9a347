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

# The dual form on a boundary is used where it agrees with the difference of values to
# this many roundings of its terms: the difference is no better than that.
_AGREEMENT = 16


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
    cost exactly 0. NaN where a solve failed.

    A part on the boundary of the mean domain has no θ_j; there
    ψ*(τ_j) − ψ*(c) + ⟨θ_c, δ_j⟩ stands, good to eps |ψ*|. Of a separable ψ it stands in
    the coordinates on the boundary alone, and costs nothing where both parts are at the
    same end. Otherwise, for parts on one face, the dual form goes by the last iterates
    of the solver where that agrees with the values to their rounding.

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

    @property
    def bound_group(self) -> int:
        """1: solving for a pair is dear."""
        return 1

    def screen(
        self, rows: NaturalState, like: NaturalState
    ) -> Callable[[NaturalState], Array]:
        """The difference of values, less what rounding may have added to it."""
        del like
        slack = (64 + 8 * rows.mean.shape[-1]) * jnp.finfo(rows.mean.dtype).eps
        size = (rows.weight * jnp.abs(rows.value))[:, None]

        def bound(columns: NaturalState) -> Array:
            cost = self.cross_cost(rows, columns)
            other = (columns.weight * jnp.abs(columns.value))[None]
            return cost - slack * (size + other + cost)

        return bound


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


def _has_value(state: NaturalState) -> Array:
    """Whether ψ* is known and finite: inside, or on a boundary of finite limit."""
    boundary = state.result == Result.BOUNDARY
    return (boundary | _found(state)) & jnp.isfinite(state.value)


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
    edge = _at_edge(family, part) | _at_edge(family, c)
    far = edge & (delta != 0)
    finite = jnp.isfinite(part.natural) & jnp.isfinite(c.natural)
    dual = _has_value(part) & _has_value(c)
    dual = dual & jnp.all(finite | (edge & ~far), axis=-1)

    # Coordinates left out stand at the start: a large one is not to drown the others.
    start = _flat_init(family, c.natural.dtype)
    inside = dual[..., None] & ~edge
    centre = jnp.where(inside, c.natural, start)
    step = jnp.where(inside, centre - part.natural, 0)
    back = _vectorize(lambda theta, u: bregman_remainder(psi, theta, -u), centre, step)
    value = jnp.sum(delta * step, axis=-1) - back
    linear = jnp.sum(_product(c.natural, delta), axis=-1)
    by_values = part.value - c.value + linear
    if family.separable:
        value = value + _rise_from_edge(psi, part, c, dual[..., None] & far, start)
    else:
        # On a face ψ is affine along its normal, far enough out: the values tell.
        size = jnp.abs(part.value) + jnp.abs(c.value) + jnp.abs(linear)
        rounding = jnp.finfo(size.dtype).eps * size
        agrees = jnp.abs(value - by_values) <= _AGREEMENT * rounding
        dual = dual & (agrees | (_found(part) & _found(c)))
    equal = jnp.all(delta == 0, axis=-1) & jnp.isfinite(by_values)
    by_values = jnp.where(equal, 0, by_values)
    return jnp.maximum(jnp.where(dual, value, by_values), 0)


def _rise_from_edge(
    psi: Callable[[Array], Array],
    part: NaturalState,
    c: NaturalState,
    far: Array,
    start: Array,
) -> Array:
    """Σ ψ_i*(τ_i) − ψ_i*(c_i) + θ_ci (c_i − τ_i) over the coordinates `far`.

    ψ*(τ) is reached, to rounding, at the last iterate: a maximum, so that no derivative
    goes by it.
    """
    edge = jnp.where(far, jax.lax.stop_gradient(part.natural), start)
    centre = jnp.where(far, c.natural, start)
    change = _vectorize(lambda a, b: psi(a) - psi(b), edge, centre)
    return jnp.sum(part.mean * (edge - centre), axis=-1) - change


def _product(natural: Array, delta: Array) -> Array:
    """θ δ with ±inf · 0 = 0."""
    idle = jnp.isinf(natural) & (delta == 0)
    return jnp.where(idle, 0, natural) * delta


def _at_edge(family: "Family", state: NaturalState) -> Array:
    """Coordinates of a separable ψ without a θ: the mean is on the boundary there."""
    if not family.separable:
        return jnp.zeros(state.mean.shape, bool)
    gradient = jax.grad(_flat_psi(family))

    def runaway(theta, mean):
        """Whether a Newton step from the last iterate would still go a long way."""
        finite = jnp.isfinite(theta)
        theta = jnp.where(finite, theta, 0)
        mu, variance = jax.jvp(gradient, (theta,), (jnp.ones_like(theta),))
        rounding = jnp.finfo(mu.dtype).eps * (jnp.abs(mu) + jnp.abs(mean))
        return ~finite | (jnp.abs(mean - mu) + rounding >= 0.1 * variance)

    boundary = (state.result == Result.BOUNDARY)[..., None]
    return boundary & _vectorize(runaway, state.natural, state.mean)


def _slope(family: "Family", part: NaturalState, c: NaturalState) -> Array:
    """θ_j − θ_c, infinite in the coordinates of a separable ψ that have no θ_j."""
    lost = jnp.isinf(c.natural) & (part.natural == c.natural)
    slope = jnp.where(lost, 0, part.natural - jnp.where(lost, 0, c.natural))
    if not family.separable:
        return slope
    edge = _at_edge(family, part)
    slope = jnp.where(edge, jnp.sign(slope) * jnp.inf, slope)
    # Where means agree the slope is 0, on the boundary as a constant: inside it has a
    # derivative, the curvature of ψ*.
    rest = jnp.where(edge, 0, slope - jax.lax.stop_gradient(slope))
    return jnp.where(part.mean == c.mean, rest, slope)


@jax.custom_jvp
def _merge_cost(
    family: "Family", a: NaturalState, b: NaturalState, c: NaturalState
) -> Array:
    delta_a, delta_b = _displacements(a, b)
    parts = a.weight * _divergence(family, a, c, delta_a)
    parts = parts + b.weight * _divergence(family, b, c, delta_b)
    return jnp.where(_has_value(c), parts, jnp.nan)


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

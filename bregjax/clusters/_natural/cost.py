"""The merge cost of any exponential family, by its conjugate, and its derivative."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from bregjax._numerics import scale_tangent
from bregjax._result import Result
from bregjax._typing import Array
from bregjax.clusters._natural.state import (
    NaturalState,
    flat_init,
    flat_psi,
    found,
    has_value,
    vectorize,
)
from bregjax.clusters._potential import Potential
from bregjax.convex import bregman_remainder

__all__ = ["assignment_cost_of", "merge_cost_of"]

# On a boundary the dual form is used where it agrees with the difference of values to
# so many roundings of the terms: the difference is no better than that. At half, right
# iterates may fail by rounding, and the difference stands; at double, wrong ones pass.
_AGREEMENT = 16
# A Newton step from the last iterate that is longer than this says that θ runs away to
# a boundary: there steps stay near 1, while at a solution they vanish.
_RUNAWAY = 0.1


def _displacements(a: NaturalState, b: NaturalState) -> tuple[Array, Array]:
    """c − τ_a and c − τ_b, without cancellation."""
    total = a.weight + b.weight
    difference = b.mean - a.mean
    return (
        (b.weight / total)[..., None] * difference,
        -(a.weight / total)[..., None] * difference,
    )


def _divergence(
    family: Potential, part: NaturalState, c: NaturalState, delta: Array
) -> Array:
    """B_ψ*(τ, c) ≥ 0 of a part with mean τ, given δ = c − τ."""
    psi = flat_psi(family)
    edge = _at_edge(family, part) | _at_edge(family, c)
    far = edge & (delta != 0)
    finite = jnp.isfinite(part.natural) & jnp.isfinite(c.natural)
    dual = has_value(part) & has_value(c)
    dual = dual & jnp.all(finite | (edge & ~far), axis=-1)

    # Coordinates that are left out stand at the start, where they are small, and do not
    # take digits from the others.
    start = flat_init(family, c.natural.dtype)
    inside = dual[..., None] & ~edge
    center = jnp.where(inside, c.natural, start)
    step = jnp.where(inside, center - part.natural, 0)
    back = vectorize(lambda theta, u: bregman_remainder(psi, theta, -u), center, step)
    value = jnp.sum(delta * step, axis=-1) - back
    linear = jnp.sum(_product(c.natural, delta), axis=-1)
    by_values = part.value - c.value + linear
    if family.separable:
        value = value + _rise_from_edge(psi, part, c, dual[..., None] & far, start)
    else:
        # Far enough out ψ is affine along the normal of a face, and iterates will do if
        # the dual form agrees with the values.
        size = jnp.abs(part.value) + jnp.abs(c.value) + jnp.abs(linear)
        rounding = jnp.finfo(size.dtype).eps * size
        agrees = jnp.abs(value - by_values) <= _AGREEMENT * rounding
        dual = dual & (agrees | (found(part) & found(c)))
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

    ψ*(τ) is attained, to rounding, at the last iterate of the solver. ψ* is a maximum
    over θ, so that the derivative through the iterate is 0 and is left out.
    """
    edge = jnp.where(far, jax.lax.stop_gradient(part.natural), start)
    center = jnp.where(far, c.natural, start)
    change = vectorize(lambda a, b: psi(a) - psi(b), edge, center)
    return jnp.sum(part.mean * (edge - center), axis=-1) - change


def _product(natural: Array, delta: Array) -> Array:
    """θ δ with ±inf · 0 = 0."""
    idle = jnp.isinf(natural) & (delta == 0)
    return jnp.where(idle, 0, natural) * delta


def _at_edge(family: Potential, state: NaturalState) -> Array:
    """Whether the mean lies on the boundary in a coordinate of a separable ψ."""
    if not family.separable:
        return jnp.zeros(state.mean.shape, bool)
    gradient = jax.grad(flat_psi(family))

    def runaway(theta, mean):
        """Whether a Newton step from the last iterate may still be long."""
        finite = jnp.isfinite(theta)
        theta = jnp.where(finite, theta, 0)
        mu, variance = jax.jvp(gradient, (theta,), (jnp.ones_like(theta),))
        rounding = jnp.finfo(mu.dtype).eps * (jnp.abs(mu) + jnp.abs(mean))
        return ~finite | (jnp.abs(mean - mu) + rounding >= _RUNAWAY * variance)

    boundary = (state.result == Result.BOUNDARY)[..., None]
    return boundary & vectorize(runaway, state.natural, state.mean)


def _slope(family: Potential, part: NaturalState, c: NaturalState) -> Array:
    """θ_j − θ_c; ±∞ where a part of a separable ψ lies on the boundary."""
    lost = jnp.isinf(c.natural) & (part.natural == c.natural)
    slope = jnp.where(lost, 0, part.natural - jnp.where(lost, 0, c.natural))
    if not family.separable:
        return slope
    edge = _at_edge(family, part)
    inside = jnp.where(edge, 0, slope)
    # Where means agree the slope is 0. Inside it has a derivative, the curvature of ψ*;
    # on the boundary it is a constant.
    rest = inside - jax.lax.stop_gradient(inside)
    steep = jnp.where(part.mean > c.mean, jnp.inf, -jnp.inf)
    slope = jnp.where(edge, steep, inside)
    return jnp.where(part.mean == c.mean, rest, slope)


def assignment_cost_of(
    family: Potential, points: NaturalState, clusters: NaturalState
) -> Array:
    """w B_ψ*(τ, τ_k), `[r, k]`; NaN where a cluster has no solution.

    +inf where a cluster of a separable ψ lies on the boundary and the point elsewhere.
    """
    part = jax.tree.map(lambda leaf: leaf[:, None], points)
    center = jax.tree.map(lambda leaf: leaf[None], clusters)
    delta = center.mean - part.mean
    beside = jnp.any(_at_edge(family, center) & (delta != 0), axis=-1)
    cost = part.weight * _divergence(family, part, center, delta)
    cost = jnp.where(beside, jnp.inf, cost)
    return jnp.where(has_value(center), cost, jnp.nan)


@jax.custom_jvp
def merge_cost_of(
    family: Potential, a: NaturalState, b: NaturalState, c: NaturalState
) -> Array:
    """Δ(a, b) given the settled union c; `NaturalModel` has the formulas."""
    delta_a, delta_b = _displacements(a, b)
    parts = a.weight * _divergence(family, a, c, delta_a)
    parts = parts + b.weight * _divergence(family, b, c, delta_b)
    return jnp.where(has_value(c), parts, jnp.nan)


@merge_cost_of.defjvp
def _merge_cost_jvp(primals, tangents):
    # No derivative by c: it follows from a and b, and minimises the cost.
    family, a, b, c = primals
    d_family, d_a, d_b, _ = tangents
    delta_a, delta_b = _displacements(a, b)
    cost = merge_cost_of(family, a, b, c)

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

        return vectorize(along, state.natural)

    of_center = change_of_psi(c)
    a, b = (part.weight * (of_center - change_of_psi(part)) for part in parts)
    return a + b

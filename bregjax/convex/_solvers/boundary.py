"""Verdicts on solves that did not converge: y on the boundary, at an edge or outside.

Along a direction u the dual objective <y, θ + s u> − f(θ + s u) has the slope
gap(s) = <y − ∇f(θ + s u), u>, and gap(∞) is <y, u> less the support function of the
mean domain at u, wherever the ray begins. So far out on the ray

- gap < 0: the objective has a maximum on the way, y is interior;
- gap stays above rounding and does not fall, however far: y is outside, f*(y) = +∞;
- gap falls to 0: y is on the boundary, to rounding. If it falls like 1 / s the
  objective gains as much with each doubling (a Gaussian without variance) and
  f*(y) = +∞; if it falls faster (a count of zero) the objective tends to f*(y);
- f is finite up to some s only, and gap is positive up to there: the domain of f ends
  with a finite gradient, and the supremum along the ray is finite, at the edge. Such a
  ray is never evidence of +∞.

A threshold on the gap alone would call a singular covariance outside.

Gaps on the ray u = −1, for s = 1, 4, 16 and 64:

    f from θ               y      gap(s)                        verdict
    exp from 0             0      0.368, 0.018, 1e-7, 2e-28     boundary, f* = 0
    −log(−θ) from −1       0      0.500, 0.200, 0.059, 0.015    boundary, f* = +∞
    −log(−θ) from −1      −0.5    1.000, 0.700, 0.559, 0.515    outside, f* = +∞
    exp from 0             1e-3   0.367, 0.017, −1e-3, −1e-3    y is interior
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.convex._solvers import thresholds
from bregjax.convex._solvers.outcome import FlatFunction
from bregjax.convex._solvers.packing import packed_loop, select_stack


class Verdict(NamedTuple):
    """What the gaps tell, as flags: scalars, or one for each ray.

    Attributes:
        outside: f* = +∞, and y is not in the closure of the mean domain.
        boundary: The gap falls to 0.
        rising: The gap falls like 1 / s: f* = +∞ if y is on the boundary.
        edge: The domain of f ends while the objective still rises.
        fast: The gap falls faster than 1 / s: f* is finite if y is on the boundary.
    """

    outside: Array
    boundary: Array
    rising: Array
    edge: Array
    fast: Array


class RayHistory(NamedTuple):
    """Points seen on rays so far; all fields have one entry for each ray.

    Each point is four times as far out as the last. Once f is not finite at a point,
    because the domain ends or f overflows, the next points approach the end by
    bisection: where ∇f grows without bound at the end of a domain the gap turns
    negative.
    """

    length: Array  # s of the next point
    first: Array  # s of the first point that is not the origin
    inner: Array  # largest s at which f is finite
    outer: Array  # least s at which f is not finite, or +∞
    overflow: Array  # whether f is −∞ at some point, which no convex function is
    seen: Array  # points before the bisection
    gaps: tuple[Array, Array]  # the last two gaps before the bisection, the last first
    noise: tuple[Array, Array]  # roundings of these gaps
    loudest: Array  # the largest rounding of a gap so far
    final: Array  # the gap farthest out
    interior: Array  # whether some gap is negative
    positive: Array  # whether all gaps are above rounding
    quarters: Array  # how often in a row the gap has become about a quarter
    fast: Array  # whether a gap far above rounding fell to much less than a quarter


def new_rays(reach: Array) -> RayHistory:
    """Rays with no point yet, for a last iterate `reach` away from their origin.

    The first points lie on the way to the last iterate, where f is finite, the others
    beyond it.
    """
    zero, yes = jnp.zeros_like(reach), jnp.ones(reach.shape, bool)
    # Farther out no gap is above rounding, or f may overflow.
    reach = jnp.clip(reach, 1, 1 / jnp.finfo(reach.dtype).eps)
    return RayHistory(
        length=zero,
        first=reach / 4.0 ** (thresholds.TRAVELLED - 2),
        inner=zero,
        outer=jnp.full_like(reach, jnp.inf),
        overflow=~yes,
        seen=jnp.zeros(reach.shape, jnp.int32),
        gaps=(zero, zero),
        noise=(zero, zero),
        loudest=zero,
        final=zero,
        interior=~yes,
        positive=yes,
        quarters=jnp.zeros(reach.shape, jnp.int32),
        fast=~yes,
    )


def unfinished(ray: RayHistory, index: Array) -> Array:
    """Which rays need another point after `index` points."""
    ended = jnp.isfinite(ray.outer)
    apart = (
        ray.outer - ray.inner
        > thresholds.APART * jnp.finfo(ray.outer.dtype).eps * ray.outer
    )
    last = jnp.where(ended & apart, thresholds.BISECTIONS, 0)
    going = ~ended | apart
    return ~ray.interior & going & (index < thresholds.POINTS + last)


def extend(ray: RayHistory, value: Array, gap: Array, noise: Array) -> RayHistory:
    """Take in f, the gap and the rounding of the gap at the next point of each ray."""
    finite = jnp.isfinite(value) & jnp.isfinite(gap) & jnp.isfinite(noise)
    bisecting = jnp.isfinite(ray.outer)
    farther = jnp.where(ray.length > 0, 4 * ray.length, ray.first)
    inner = jnp.where(finite, ray.length, ray.inner)
    outer = jnp.where(finite, ray.outer, ray.length)
    gallop = finite & ~bisecting
    visible = gap > thresholds.VISIBLE * noise
    before, before_noise = ray.gaps[0], ray.noise[0]
    loudest = jnp.where(gallop, jnp.maximum(ray.loudest, noise), ray.loudest)
    compared = gallop & (ray.seen > 0) & (before > thresholds.VISIBLE * loudest)
    low, high = thresholds.QUARTER
    quarter = (gap >= low * before) & (gap <= high * before)
    sharp = gallop & (ray.seen > 0) & (before > thresholds.SHARP * loudest)
    quarters = jnp.where(quarter, ray.quarters + 1, 0)

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(gallop, new, old)

    return RayHistory(
        length=jnp.where(jnp.isfinite(outer), inner / 2 + outer / 2, farther),
        first=ray.first,
        inner=inner,
        outer=outer,
        overflow=ray.overflow | jnp.isneginf(value),
        seen=ray.seen + gallop.astype(jnp.int32),
        gaps=(keep(gap, before), keep(before, ray.gaps[1])),
        noise=(keep(noise, before_noise), keep(before_noise, ray.noise[1])),
        loudest=loudest,
        final=jnp.where(finite, gap, ray.final),
        interior=ray.interior | (finite & (gap < -thresholds.VISIBLE * noise)),
        positive=ray.positive & (~finite | visible),
        quarters=jnp.where(compared, quarters, ray.quarters).astype(jnp.int32),
        fast=ray.fast | (sharp & (jnp.abs(gap) < low * before)),
    )


def judge(ray: RayHistory) -> Verdict:
    """Verdict by ray, once all points are in."""
    beyond = ray.seen >= thresholds.TRAVELLED + 3
    reached = ray.seen >= thresholds.TRAVELLED
    last, previous = ray.gaps
    # A direction with roundings in it may leave the domain very far out.
    way = ray.first * 4.0 ** (thresholds.TRAVELLED - 2)
    lost = thresholds.LOST / jnp.finfo(way.dtype).eps
    endless = ray.outer > jnp.minimum(thresholds.BEYOND * way, lost)
    endless = endless | ray.overflow
    # A gap that falls like 1 / s loses a factor 4 over one point.
    level = (last > thresholds.LEVEL * previous) & (ray.final > thresholds.LEVEL * last)
    outside = ~ray.interior & ray.positive & level & reached & endless
    # Compared with the largest rounding: that of a slope near 0 is very small.
    vanished = jnp.maximum(last, previous) <= thresholds.VANISHED * ray.loudest
    falls = ~level | (last <= thresholds.VISIBLE * ray.noise[0])
    boundary = ~ray.interior & ~outside & falls & (beyond | (reached & vanished))
    # An end far out, before which f does not bend, may be an overflow.
    bent = last - ray.final >= thresholds.BENT * last
    near = ray.outer <= thresholds.FAR_EDGE
    edge = ~ray.interior & ~endless & ray.positive & (near | bent)
    rising = ray.quarters >= thresholds.QUARTERS
    return Verdict(outside, boundary, rising, edge, ray.fast)


def ray_test(
    f: FlatFunction,
    y: Array,
    origin: Array,
    directions: Array,
    clean: Array,
    reach: Array,
    needed: Array,
) -> Verdict:
    """Judge rays from a point of the domain.

    Args:
        f: The function on raveled arrays.
        y: Mean parameters, `[n]`.
        origin: Where the rays begin, `[n]`.
        directions: Directions of the rays, `[k, n]`, the way from the origin to the
            last iterate first; of any length, a zero row is left out.
        clean: Whether the components of a ray that are 0 are exact, `[k]`. In the other
            rays components may be rounding, and their share of the gap proves nothing.
        reach: Distance of the last iterate from the origin, in max-norm, scalar.
        needed: Whether to evaluate anything; scalar.

    Returns:
        Scalar flags. One ray suffices for each flag, as a ray that is spoilt by a
        component off the direction of escape turns negative and says nothing; `outside`
        wins.
    """
    eps = jnp.finfo(y.dtype).eps
    size = jnp.max(jnp.abs(directions), axis=1, keepdims=True)  # [k, 1]
    usable = (size > 0) & jnp.isfinite(size)
    directions = jnp.where(usable, directions / jnp.where(usable, size, 1), 0)
    weights = jnp.where(clean[:, None], jnp.abs(directions), 1)
    needed = needed & usable[:, 0]

    def gap(length: Array, direction: Array, weight: Array) -> tuple[Array, ...]:
        value, slope = jax.value_and_grad(f)(origin + length * direction)
        noise = eps * jnp.sum((jnp.abs(y) + jnp.abs(slope)) * weight)
        return value, jnp.sum((y - slope) * direction), noise

    def more(state: tuple[Array, RayHistory]) -> Array:
        index, rays = state
        return jnp.any(needed & unfinished(rays, index))

    def look(state: tuple[Array, RayHistory]) -> tuple[Array, RayHistory]:
        index, rays = state
        going = unfinished(rays, index)
        longer = extend(rays, *jax.vmap(gap)(rays.length, directions, weights))
        keep = lambda new, old: jnp.where(going, new, old)
        return index + 1, jax.tree.map(keep, longer, rays)

    rays = new_rays(jnp.broadcast_to(reach, clean.shape))
    _, rays = packed_loop(more, look, (jnp.asarray(0, jnp.int32), rays))
    verdict = judge(rays)
    # A ray on which f ends proves nothing: evidence of other rays counts for more.
    flags = (
        verdict.outside & jnp.isinf(rays.outer),
        verdict.outside,
        verdict.boundary,
        verdict.boundary & verdict.rising,
        verdict.edge,
        verdict.boundary & verdict.fast,
    )
    some = jnp.any(needed[None] & select_stack(flags), axis=1)
    endless, outside, boundary, rising, edge, fast = some
    outside = endless | (outside & ~boundary)
    return Verdict(outside, boundary & ~outside, rising, edge, fast)

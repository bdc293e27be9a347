"""Where a solve that did not converge was heading: boundary, outside, or neither.

Along a direction u the dual objective <y, θ + s u> − f(θ + s u) has the slope
gap(s) = <y − ∇f(θ + s u), u>, and gap(∞) is what <y, u> has in excess of the support
function of the mean domain, wherever the ray begins. So far out on the ray

- gap < 0: the objective has a maximum on the way, y is interior;
- gap stays above rounding and does not fall: y is outside, f*(y) = +∞;
- gap falls to 0: y is on the boundary, to rounding. If it falls like 1 / s the
  objective grows without bound (a Gaussian without variance) and f*(y) = +∞; if it
  falls faster (a count of zero) the objective tends to f*(y).

A threshold on the gap alone would call a singular covariance outside.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.convex._solvers.outcome import FlatFunction

POINTS = 28  # on a ray that f is finite on
BISECTIONS = 36  # of the way to the first point where f is not
TRAVELLED = 4  # points no farther out than the last iterate


class Verdict(NamedTuple):
    """Flags, scalars or by ray."""

    outside: Array
    boundary: Array


class Ray(NamedTuple):
    """What has been seen on rays so far; all fields have one entry for each ray.

    Points are four times as far out each time. Once f is not finite at one, because
    the domain ends or ψ overflows, the others approach the end by bisection: at the end
    of a domain ∇f grows without bound and the gap turns negative, an overflow comes
    upon it as it is.
    """

    length: Array  # of the next point
    inner: Array  # the last finite one
    outer: Array  # the first that is not finite, or +∞
    seen: Array  # points before the bisection
    gaps: tuple[Array, Array]  # the last two before the bisection, the last first
    noise: tuple[Array, Array]  # their roundings
    final: Array  # the gap farthest out
    interior: Array  # some gap is negative
    positive: Array  # all gaps are above rounding


def new_rays(reach: Array) -> Ray:
    """Rays with no point yet, for a last iterate `reach` away.

    The first four points lie on the way already gone, where f is finite, the others
    beyond.
    """
    zero, yes = jnp.zeros_like(reach), jnp.ones(reach.shape, bool)
    return Ray(
        length=jnp.maximum(reach, 1) / 4.0 ** (TRAVELLED - 1),
        inner=zero,
        outer=jnp.full_like(reach, jnp.inf),
        seen=jnp.zeros(reach.shape, jnp.int32),
        gaps=(zero, zero),
        noise=(zero, zero),
        final=zero,
        interior=~yes,
        positive=yes,
    )


def unfinished(ray: Ray, index: Array, points: Array | int = POINTS) -> Array:
    """Which rays need another point after `index` of them.

    Where f is finite there are `points`.
    """
    ended = jnp.isfinite(ray.outer)
    apart = ray.outer - ray.inner > 4 * jnp.finfo(ray.outer.dtype).eps * ray.outer
    open_end = ~ended & (index < points)
    return ~ray.interior & (open_end | (ended & apart & (index < POINTS + BISECTIONS)))


def extend(ray: Ray, gap: Array, noise: Array) -> Ray:
    """Take in the next point of each ray."""
    finite = jnp.isfinite(gap) & jnp.isfinite(noise)
    bisecting = jnp.isfinite(ray.outer)
    inner = jnp.where(finite, ray.length, ray.inner)
    outer = jnp.where(finite, ray.outer, ray.length)
    gallop = finite & ~bisecting

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(gallop, new, old)

    return Ray(
        length=jnp.where(jnp.isfinite(outer), inner / 2 + outer / 2, 4 * ray.length),
        inner=inner,
        outer=outer,
        seen=ray.seen + gallop.astype(jnp.int32),
        gaps=(keep(gap, ray.gaps[0]), keep(ray.gaps[0], ray.gaps[1])),
        noise=(keep(noise, ray.noise[0]), keep(ray.noise[0], ray.noise[1])),
        final=jnp.where(finite, gap, ray.final),
        interior=ray.interior | (finite & (gap < -64 * noise)),
        positive=ray.positive & (~finite | (gap > 64 * noise)),
    )


def judge(ray: Ray) -> Verdict:
    """Verdict by ray, once all points are in."""
    beyond = ray.seen >= TRAVELLED + 3
    reached = ray.seen >= TRAVELLED
    last, previous = ray.gaps[:2]
    # A gap that falls like 1 / s loses a factor 4 over one point.
    level = (last > 0.5 * previous) & (ray.final > 0.5 * last)
    outside = ~ray.interior & ray.positive & level & reached
    vanished = (last <= 16 * ray.noise[0]) & (previous <= 16 * ray.noise[1])
    falls = ~level | (last <= 64 * ray.noise[0])
    boundary = ~ray.interior & ~outside & falls & (beyond | (reached & vanished))
    return Verdict(outside, boundary)


def ray_test(
    gradient: FlatFunction,
    y: Array,
    origin: Array,
    directions: Array,
    clean: Array,
    reach: Array,
    brief: Array,
    needed: Array,
) -> Verdict:
    """Judge rays, most of them from the start of the iterations.

    Args:
        gradient: ∇f on raveled arrays.
        y: Mean parameters, shape ``[n]``.
        origin: Where the rays begin, shape ``[n]`` or ``[k, n]``.
        directions: Rays, shape ``[k, n]``, the way from the origin to the last iterate
            first; of any length, a zero row is left out.
        clean: Whether the zeros of a ray are zeros, shape ``[k]``. Elsewhere components
            may be rounding, and their share of the gap is not evidence of anything.
        reach: Distance of the last iterate from the origin, in max-norm, scalar or
            shape ``[k]``.
        brief: Whether a ray ends at `reach`, shape ``[k]``.
        needed: Where False nothing is evaluated; scalar or shape ``[k]``.

    Returns:
        Scalar flags. One ray suffices for each, as a ray that a component off the
        direction of escape spoils turns negative and says nothing; `outside` wins.
    """
    eps = jnp.finfo(origin.dtype).eps
    origin = jnp.broadcast_to(origin, directions.shape)
    points = jnp.where(brief, TRAVELLED, POINTS)
    size = jnp.max(jnp.abs(directions), axis=1, keepdims=True)  # [k, 1]
    usable = (size > 0) & jnp.isfinite(size)
    directions = jnp.where(usable, directions / jnp.where(usable, size, 1), 0)

    def gap(
        length: Array, origin: Array, direction: Array, clean: Array
    ) -> tuple[Array, Array]:
        slope = gradient(origin + length * direction)
        weight = jnp.where(clean, jnp.abs(direction), 1)
        noise = eps * jnp.sum((jnp.abs(y) + jnp.abs(slope)) * weight)
        return jnp.sum((y - slope) * direction), noise

    def more(state: tuple[Array, Ray]) -> Array:
        index, rays = state
        return jnp.any(needed & usable[:, 0] & unfinished(rays, index, points))

    def look(state: tuple[Array, Ray]) -> tuple[Array, Ray]:
        index, rays = state
        going = unfinished(rays, index, points)
        gaps = jax.vmap(gap)(rays.length, origin, directions, clean)
        longer = extend(rays, *gaps)
        keep = lambda new, old: jnp.where(going, new, old)
        return index + 1, jax.tree.map(keep, longer, rays)

    rays = new_rays(jnp.broadcast_to(reach, clean.shape))
    _, rays = jax.lax.while_loop(more, look, (jnp.asarray(0, jnp.int32), rays))
    verdict = Verdict(*(needed & usable[:, 0] & flag for flag in judge(rays)))
    outside = jnp.any(verdict.outside)
    return Verdict(outside, jnp.any(verdict.boundary) & ~outside)

"""Where a solve that did not converge was heading: boundary, outside, or neither.

Along a direction u the dual objective <y, θ + s u> − f(θ + s u) has the slope
gap(s) = <y − ∇f(θ + s u), u>, and gap(∞) is what <y, u> has in excess of the support
function of the mean domain, wherever the ray begins. So far out on the ray

- gap < 0: the objective has a maximum on the way, y is interior;
- gap stays above rounding and does not fall: y is outside, f*(y) = +∞;
- gap falls to 0: y is on the boundary, to rounding. If it falls like 1 / s the objective
  grows without bound (a Gaussian without variance) and f*(y) = +∞; if it falls faster
  (a count of zero) the objective tends to f*(y).

A threshold on the gap alone would call a singular covariance outside.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.convex._outcome import FlatFunction

POINTS = 14
TRAVELLED = 4  # points no farther out than the last iterate


def first_length(reach: Array) -> Array:
    """Distance of the first point on a ray; each next one is four times as far.

    So the first four lie on the way already gone, of length `reach`, where f is finite,
    and ten beyond it.
    """
    return jnp.maximum(reach, 1) / 4.0 ** (TRAVELLED - 1)


class Verdict(NamedTuple):
    """Flags, scalars or by ray.

    On a boundary `slow` tells that the gap was seen to fall like 1 / s or slower, and
    f*(y) = +∞; `fast` that it was seen to fall faster. Neither where it vanished at once.
    """

    outside: Array
    boundary: Array
    slow: Array
    fast: Array


class Ray(NamedTuple):
    """What has been seen on rays so far; all fields have one entry for each ray.

    Only the finite beginning of a ray counts: a ψ of limited range overflows on the way.
    """

    open: Array  # no point has been out of range yet
    count: Array
    gaps: tuple[Array, Array, Array]  # the last three, the last first
    noise: tuple[Array, Array]  # the roundings of the last two
    interior: Array  # some gap is negative
    positive: Array  # all gaps are above rounding
    power: Array  # of the decay, at the last pair of points above rounding


def new_rays(like: Array) -> Ray:
    """Rays of the shape of `like` with no point yet."""
    zero = jnp.zeros_like(like)
    yes = jnp.ones(like.shape, bool)
    count = jnp.zeros(like.shape, jnp.int32)
    unknown = jnp.full_like(like, jnp.inf)
    return Ray(yes, count, (zero,) * 3, (zero,) * 2, ~yes, yes, unknown)


def extend(ray: Ray, gap: Array, noise: Array) -> Ray:
    """Take in the next point of each ray, four times as far out as the one before."""
    seen = ray.open & jnp.isfinite(gap) & jnp.isfinite(noise)
    trusted = ray.positive & (gap > 64 * noise)
    pair = seen & trusted & (ray.count > 0)
    before = jnp.where(pair, ray.gaps[0], 1)
    power = jnp.log(before / jnp.where(pair, gap, 1)) / jnp.log(4.0)

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(seen, new, old)

    gaps = (gap, *ray.gaps[:2])
    return Ray(
        open=seen,
        count=ray.count + seen,
        gaps=(
            keep(gaps[0], ray.gaps[0]),
            keep(gaps[1], ray.gaps[1]),
            keep(gaps[2], ray.gaps[2]),
        ),
        noise=(keep(noise, ray.noise[0]), keep(ray.noise[0], ray.noise[1])),
        interior=ray.interior | (seen & (gap < -64 * noise)),
        positive=keep(trusted, ray.positive),
        power=jnp.where(pair, power, ray.power).astype(gap.dtype),
    )


def judge(ray: Ray, escape: Array) -> Verdict:
    """Verdict by ray, once all points are in.

    A ray that ends early says less: to be outside it must be the way the iterates went
    (`escape`), to be the boundary its gap must have vanished well before the end.
    """
    beyond = ray.count >= TRAVELLED + 3
    reached = ray.count >= TRAVELLED
    last, previous = ray.gaps[:2]
    # A gap that falls like 1 / s loses a factor 4 over one point, 16 over two.
    level = (last > 0.5 * previous) & (last > 0.1 * ray.gaps[2])
    outside = ~ray.interior & ray.positive & level & (beyond | (escape & reached))
    vanished = (last <= 16 * ray.noise[0]) & (previous <= 16 * ray.noise[1])
    falls = ~level | (last <= 64 * ray.noise[0])
    boundary = ~ray.interior & ~outside & falls & (beyond | (reached & vanished))
    slow = boundary & (ray.power < 1.2)
    return Verdict(outside, boundary, slow, boundary & ~slow & jnp.isfinite(ray.power))


def ray_test(
    gradient: FlatFunction,
    y: Array,
    origin: Array,
    directions: Array,
    reach: Array,
    needed: Array,
) -> Verdict:
    """Judge rays from the start of the iterations.

    Args:
        gradient: ∇f on raveled arrays.
        y: Mean parameters, shape ``[n]``.
        origin: Where the rays begin, shape ``[n]``.
        directions: Rays, shape ``[k, n]``, the way from the origin to the last iterate
            first; of any length, a zero row is left out.
        reach: Distance of the last iterate from the origin, in max-norm.
        needed: Where False nothing is evaluated.

    Returns:
        Scalar flags. One ray suffices for each, as a ray that a component off the
        direction of escape spoils turns negative and says nothing; `outside` wins.
    """
    eps = jnp.finfo(origin.dtype).eps
    size = jnp.max(jnp.abs(directions), axis=1, keepdims=True)  # [k, 1]
    usable = (size > 0) & jnp.isfinite(size)
    directions = jnp.where(usable, directions / jnp.where(usable, size, 1), 0)
    first = first_length(reach)

    def gap(length: Array, direction: Array) -> tuple[Array, Array]:
        slope = gradient(origin + length * direction)
        noise = eps * jnp.sum((jnp.abs(y) + jnp.abs(slope)) * jnp.abs(direction))
        return jnp.sum((y - slope) * direction), noise

    def unfinished(state: tuple[Array, Ray]) -> Array:
        return needed & (state[0] < POINTS)

    def look(state: tuple[Array, Ray]) -> tuple[Array, Ray]:
        index, rays = state
        length = first * 4.0 ** index.astype(first.dtype)
        return index + 1, extend(rays, *jax.vmap(gap, in_axes=(None, 0))(length, directions))

    begin = (jnp.asarray(0, jnp.int32), new_rays(directions[:, 0]))
    _, rays = jax.lax.while_loop(unfinished, look, begin)
    verdict = judge(rays, jnp.arange(directions.shape[0]) == 0)
    verdict = Verdict(*(needed & usable[:, 0] & flag for flag in verdict))
    outside = jnp.any(verdict.outside)
    boundary = jnp.any(verdict.boundary) & ~outside
    slow, fast = jnp.any(verdict.slow), jnp.any(verdict.fast)
    return Verdict(outside, boundary, boundary & slow, boundary & fast & ~slow)

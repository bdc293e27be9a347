"""Coordinates held at the edge of the domain of f.

The gradient may stay finite at the edge of dom f (θ²/2 on |θ| ≤ 1; an exponential tail
in a half-normal): a wall. A maximiser of <y, θ> − f(θ) may lie there, with y − ∇f
pointing out of the domain, and Newton steps towards it are cut to nothing before the
other coordinates have arrived. So, as in an active-set method, a coordinate that ran
into a wall is held: its residual counts as zero and its variance as 1. It is released
once its residual turns inwards.

Towards the edge of a steep domain the gradient grows without bound, and the curvature
with it; three quarters of the way to a wall the curvature has hardly grown. When no
other coordinate moves any more, or after some steps, the held coordinates are let go,
and may run into the wall again nearer to it, where a steep edge would be seen. After
two such rounds they are pushed on to the wall, and the others are solved again.

Coordinates are held one by one, which is right where the domain is a product near the
point. `at_edge` checks that; where it is not the solve stalls.

For θ²/2 on |θ| ≤ 1 at y = 1.5, from 0: the Newton step of 1.5 meets the wall, and the
first point is 0.9487, where the coordinate is held. Let go, it comes to 0.9831 and then
to 0.9993; then it is pushed to 1, and f*(1.5) = 1.5 − 0.5 = 1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.convex._solvers import thresholds
from bregjax.convex._solvers.outcome import FlatFunction, Point
from bregjax.convex._solvers.packing import packed_loop


class Walls(NamedTuple):
    """What is known of walls, by coordinate `[n]` but for the last three fields."""

    span: Array  # signed distance of a point where f is not finite; 0 for no wall
    held: Array  # whether the coordinate is held
    pull: Array  # residual of a held coordinate
    age: Array  # steps since the last coordinate was held
    rounds: Array  # how often held coordinates have been let go
    pushed: Array  # whether held coordinates are as near the wall as rounding allows


def no_walls(theta: Array) -> Walls:
    """Walls before the first step: no coordinate is held."""
    none = jnp.zeros(theta.shape, bool)
    zero = jnp.zeros_like(theta)
    count = jnp.asarray(0, jnp.int32)
    return Walls(zero, none, zero, count, count, jnp.asarray(False))


def hold(
    walls: Walls, point: Point, moved: Array, before: Array, y: Array, may: Array
) -> tuple[Walls, Point]:
    """Hold and release coordinates at a new point; those held then count as solved.

    Args:
        walls: Walls at the last point.
        point: The new point, curvature in the coordinates of θ.
        moved: The way from the last point to the new one, `[n]`.
        before: Diagonal of the Hessian at the last point, `[n]`.
        y: Mean parameters, `[n]`.
        may: Coordinates that may be held, `[n]`.
    """
    on = jnp.eye(y.size, dtype=bool)
    pull = y - point.gradient
    outwards = pull * walls.span > 0
    variances = jnp.sum(jnp.where(on, point.curvature, 0), axis=0)
    # Towards a steep edge variances grow at least like 1/distance.
    left = jnp.abs(walls.span)
    came = jnp.abs(walls.span + moved)
    nearer = jnp.where(left > 0, came / jnp.where(left > 0, left, 1), 1)
    steep = jnp.minimum(thresholds.STEEP, jnp.maximum(nearer, 1))
    flat = variances <= steep * before
    held = outwards & may & (walls.held | flat)
    new = jnp.any(held & ~walls.held)
    walls = Walls(
        span=jnp.where(held, walls.span, 0),
        held=held,
        pull=jnp.where(held, pull, 0),
        age=jnp.where(new, 0, walls.age + 1).astype(jnp.int32),
        rounds=walls.rounds,
        pushed=walls.pushed & ~new,
    )
    fixed = held[:, None] | held[None, :]
    curvature = jnp.where(fixed, on.astype(y.dtype), point.curvature)
    gradient = jnp.where(held, y, point.gradient)
    return walls, point._replace(gradient=gradient, curvature=curvature)


def free_way(
    f: FlatFunction, theta: Array, moves: Array, rounds: Array
) -> tuple[Array, Array]:
    """How far each coordinate alone can be moved, and how far not, by bisection.

    The first round tries the whole move; where f is finite there, both answers are the
    whole move. Each round takes n evaluations of f.
    """
    on = jnp.eye(theta.size, dtype=theta.dtype)

    def finite(direction: Array, move: Array) -> Array:
        return jnp.isfinite(f(theta + move * direction))

    def halve(carry: tuple[Array, Array, Array, Array]):
        index, inner, outer, trial = carry
        inside = jax.vmap(finite)(on, trial)
        inner = jnp.where(inside, trial, inner)
        outer = jnp.where(inside, outer, trial)
        return index + 1, inner, outer, inner / 2 + outer / 2

    begin = jnp.asarray(0, jnp.int32), jnp.zeros_like(moves), moves, moves
    end = packed_loop(lambda carry: carry[0] < rounds, halve, begin)
    return end[1], end[2]


def at_edge(
    f: FlatFunction, walls: Walls, theta: Array, start: Array, allowed: Array
) -> Array:
    """Whether the held coordinates are at the edge of a domain that is a product there.

    That is so if, from a point just beyond the wall of one coordinate, no move of the
    other coordinates, held ones inwards, leads back into the domain. The objective must
    also gain less than `allowed` on the way left to the walls.
    """
    n = theta.size
    order = jnp.arange(n, dtype=theta.dtype)
    wave = 1 + jnp.sin(1 + 12.9898 * order) / 2
    size = jnp.maximum(jnp.abs(theta), jnp.abs(start - theta)) * wave / 64
    on = jnp.eye(n, dtype=theta.dtype)
    # A move below a rounding of θ would move nothing.
    least = 4 * jnp.finfo(theta.dtype).eps * jnp.abs(theta)
    beyond = jnp.sign(walls.span) * jnp.maximum(2 * jnp.abs(walls.span), least)

    def leads_back(sign: Array) -> Array:
        others = jnp.where(walls.held, -jnp.sign(walls.span), sign) * size

        def inside(direction: Array, beyond: Array) -> Array:
            move = direction * beyond + (1 - direction) * others
            return jnp.isfinite(f(theta + move))

        return jax.vmap(inside)(on, beyond) & walls.held

    signs = jnp.asarray([1.0, -1.0], theta.dtype)
    product = ~jnp.any(jax.lax.map(leads_back, signs))
    left = jnp.sum(jnp.abs(walls.pull * walls.span))
    return jnp.any(walls.held) & walls.pushed & product & (left <= allowed)

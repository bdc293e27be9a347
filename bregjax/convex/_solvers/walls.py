"""Coordinates that the end of a domain holds where they are.

The gradient may stay finite at the edge of dom f (θ²/2 on |θ| ≤ 1; an exponential tail
in a half-normal). A maximiser of <y, θ> − f(θ) may lie there, with y − ∇f pointing out
of the domain, and Newton steps towards it are cut to nothing before the other
coordinates have arrived. So, as in an active-set method, a coordinate that ran into a
wall is held: its residual counts as zero and its variance as 1. It is released once its
residual turns inwards.

A wall is told from the edge of a steep domain, towards which the gradient grows without
bound, by the curvature: three quarters of the way there it has hardly grown. When
nothing else is left to do, or after some steps, the held coordinates are let go, and
may run into the wall again nearer to it, where a steep edge would be seen; after some
rounds of that they are pushed on to the wall, and the rest is solved again.

Coordinates are held one by one, which is right where the domain is a product near the
point. `at_edge` checks that; where it is not the solve stalls.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.convex._solvers import thresholds
from bregjax.convex._solvers.outcome import FlatFunction, Point
from bregjax.convex._solvers.packing import packed_loop


class Walls(NamedTuple):
    """What is known of walls, by coordinate [n] but for the last three."""

    span: Array  # signed way to a point where f is not finite; 0 for no wall
    held: Array  # whether the coordinate stays
    pull: Array  # its residual
    age: Array  # steps since the last coordinate was held
    rounds: Array  # how often the held ones have been let go
    pushed: Array  # whether the held ones are as near as can be told


def no_walls(theta: Array) -> Walls:
    """Nothing is held."""
    none = jnp.zeros(theta.shape, bool)
    zero = jnp.zeros_like(theta)
    count = jnp.asarray(0, jnp.int32)
    return Walls(zero, none, zero, count, count, jnp.asarray(False))


def hold(
    walls: Walls, point: Point, moved: Array, before: Array, y: Array, may: Array
) -> tuple[Walls, Point]:
    """Hold and release at a new point, whose held coordinates then count as solved.

    Args:
        walls: Those of the last point.
        point: The new one, curvature in the coordinates of θ.
        moved: The way from the last point to it, shape ``[n]``.
        before: Diagonal of the Hessian at the last point, shape ``[n]``.
        y: Mean parameters, shape ``[n]``.
        may: Coordinates that may be held, shape ``[n]``.
    """
    on = jnp.eye(y.size, dtype=bool)
    pull = y - point.gradient
    outwards = pull * walls.span > 0
    variances = jnp.sum(jnp.where(on, point.curvature, 0), axis=0)
    # A steep edge makes variances grow as 1/distance at least.
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

    The first round tries the whole move, and where that is possible both are the whole
    move. n evaluations of f a round.
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

    From a point just beyond the wall of one coordinate no move of the others, held ones
    inwards, leads back into the domain. The way left to the walls is worth less than
    `allowed`.
    """
    n = theta.size
    order = jnp.arange(n, dtype=theta.dtype)
    wave = 1 + jnp.sin(1 + 12.9898 * order) / 2
    size = jnp.maximum(jnp.abs(theta), jnp.abs(start - theta)) * wave / 64
    on = jnp.eye(n, dtype=theta.dtype)
    # A way that is no rounding of θ is no way.
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

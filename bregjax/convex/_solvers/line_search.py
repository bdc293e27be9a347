"""Length of a Newton step, by bracketing on the slope."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.convex._solvers import thresholds
from bregjax.convex._solvers.direction import Direction
from bregjax.convex._solvers.outcome import FlatFunction, Point
from bregjax.convex._solvers.packing import packed_loop, totals


class Search(NamedTuple):
    """Carry of the line search."""

    length: Array
    short: Array  # longest length known to be too short
    over: Array  # least length known to be too long
    wall: Array  # least length at which f is not finite
    num: Array
    done: Array


def search_length(
    f: FlatFunction,
    point: Point,
    y: Array,
    way: Direction,
    terms: tuple[Array, Array],
    at_floor: Array,
    skip: Array,
) -> tuple[Array, Array]:
    """Length of the step, by bracketing on the slope; 0 where none will do.

    On the slope and not on values, which are flat to rounding near the solution. At
    the floor of rounding slopes are noise as well, and the full step is taken unless
    the value rises.

    Also the length at which f is not finite, if the objective still falls steeply next
    to it; +∞ elsewhere. The step ends well before such a wall.

    `terms` are <y, θ> and Σ|y_i θ_i| at the point.
    """
    eps = jnp.finfo(y.dtype).eps
    objective = point.value - terms[0]
    scale = jnp.abs(point.value) + terms[1]
    # Self-concordance allows this length; it is the lower end of the first bracket.
    cautious = 1 / (1 + jnp.sqrt(jnp.maximum(way.decrement, 0)))

    def probe(state: Search) -> Search:
        theta = point.theta + state.length * way.step
        value, slope = jax.value_and_grad(f)(theta)
        inner = y * theta
        along, inner, size, infinite = totals(
            (slope - y) * way.ray, inner, jnp.abs(inner), ~jnp.isfinite(slope)
        )
        ratio = along / way.decrement
        finite = jnp.isfinite(value) & (infinite == 0)
        size = scale + jnp.abs(value) + size
        # Where f is small it may still carry the roundings of 1: log(1 − 1e-9).
        noise = eps * (thresholds.ROSE * size + thresholds.UNIT)
        rose = value - inner > objective + noise
        # A slope below that at 0 contradicts convexity: f was left silently.
        steep = ~at_floor & (
            (ratio > thresholds.LONG) | (ratio < thresholds.NOT_CONVEX)
        )
        over = ~finite | rose | steep
        short = ~over & ~at_floor & (ratio < thresholds.SHORT)

        low = jnp.where(short, state.length, state.short)
        high = jnp.where(over, state.length, state.over)
        floor = jnp.maximum(
            low, jnp.where(2 * cautious < high, cautious, high / thresholds.CUT)
        )
        between = jnp.sqrt(floor * high)
        length = jnp.where(jnp.isinf(high), 2 * state.length, between)
        enough = ~over & (~short | (high <= 2 * low))
        long = short & (low >= thresholds.LONG_STEP)
        narrow = over & (low > 0) & (high <= 2 * low)
        length = jnp.where(enough | long, state.length, jnp.where(narrow, low, length))
        wall = jnp.where(finite, state.wall, jnp.minimum(state.wall, state.length))
        return Search(length, low, high, wall, state.num + 1, enough | long | narrow)

    begin = Search(
        length=jnp.ones((), y.dtype),
        short=jnp.zeros((), y.dtype),
        over=jnp.asarray(jnp.inf, y.dtype),
        wall=jnp.asarray(jnp.inf, y.dtype),
        num=jnp.asarray(0, jnp.int32),
        done=skip,
    )
    end = packed_loop(
        lambda state: ~state.done & (state.num < thresholds.MAX_SEARCH), probe, begin
    )
    length = jnp.where(end.done, end.length, end.short)
    falling = (length <= end.short) & ~skip
    wall = jnp.where(falling, end.wall, jnp.inf)
    length = jnp.minimum(length, thresholds.WALL_SHARE * wall)
    return jnp.where(skip, 0, length), wall

"""Length of a Newton step, by bracketing on the slope."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.convex._solvers.direction import Direction
from bregjax.convex._solvers.outcome import FlatFunction, Point

MAX_SEARCH = 40  # evaluations
LONG_STEP = 2.0**20  # a step this long is a drift to infinity
SHORT = -0.25  # ratio of slopes under which a step is lengthened


class Search(NamedTuple):
    """Carry of the line search."""

    length: Array
    short: Array  # longest length known to be too short
    over: Array  # least length known to be too long
    num: Array
    done: Array


def search_length(
    f: FlatFunction,
    point: Point,
    y: Array,
    way: Direction,
    at_floor: Array,
    skip: Array,
) -> Array:
    """Length of the step: bracketing on the slope; 0 where none will do.

    On the slope and not on values, which are flat to rounding near the solution. At
    the floor of rounding slopes are noise as well, and the full step is taken unless
    the value rises.
    """
    eps = jnp.finfo(y.dtype).eps
    objective = point.value - jnp.sum(y * point.theta)
    scale = jnp.abs(point.value) + jnp.sum(jnp.abs(y * point.theta))
    # Self-concordance allows this length; it is the lower end of the first bracket.
    cautious = 1 / (1 + jnp.sqrt(jnp.maximum(way.decrement, 0)))

    def probe(state: Search) -> Search:
        theta = point.theta + state.length * way.step
        value, slope = jax.value_and_grad(f)(theta)
        ratio = jnp.sum((slope - y) * way.ray) / way.decrement
        finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(slope))
        terms = scale + jnp.abs(value) + jnp.sum(jnp.abs(y * theta))
        rose = value - jnp.sum(y * theta) > objective + 32 * eps * terms
        # A slope below that at 0 contradicts convexity: f was left silently.
        steep = ~at_floor & ((ratio > 0.5) | (ratio < -1.01))
        over = ~finite | rose | steep
        short = ~over & ~at_floor & (ratio < SHORT)

        low = jnp.where(short, state.length, state.short)
        high = jnp.where(over, state.length, state.over)
        floor = jnp.maximum(low, jnp.where(2 * cautious < high, cautious, high / 16))
        between = jnp.sqrt(floor * high)
        length = jnp.where(jnp.isinf(high), 2 * state.length, between)
        enough = ~over & (~short | (high <= 2 * low))
        long = short & (low >= LONG_STEP)
        narrow = over & (low > 0) & (high <= 2 * low)
        length = jnp.where(enough | long, state.length, jnp.where(narrow, low, length))
        return Search(length, low, high, state.num + 1, enough | long | narrow)

    begin = Search(
        length=jnp.ones((), y.dtype),
        short=jnp.zeros((), y.dtype),
        over=jnp.asarray(jnp.inf, y.dtype),
        num=jnp.asarray(0, jnp.int32),
        done=skip,
    )
    end = jax.lax.while_loop(
        lambda state: ~state.done & (state.num < MAX_SEARCH), probe, begin
    )
    return jnp.where(skip, 0, jnp.where(end.done, end.length, end.short))

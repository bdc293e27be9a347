"""The length of a Newton step, by bracketing on the slope.

For f = exp at 0 and y = 100 the step is 99 and λ² = 9801. The lengths tried, with the
slope over λ², which is −1 at 0: 1 (1e41, too long); 0.1, the geometric mean of 1 and
the cautious length 1 / (1 + λ) = 0.01 (200, too long); 0.032 (−0.78, too short); 0.056
(1.6, too long, and less than twice 0.032). The step ends at 0.032, θ = 3.13.
"""

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

    length: Array  # the next length to try
    short: Array  # longest length known to be too short
    over: Array  # least length known to be too long
    wall: Array  # least length at which f is not finite
    num: Array  # evaluations so far
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
    """Length of the step, and the distance of a wall.

    The length is bracketed by slopes and not by values, which are flat to rounding near
    the solution. At the floor of rounding slopes are noise as well, and the full step
    is taken unless the value rises.

    Args:
        f: The function on raveled arrays.
        point: The point from which to step.
        y: Mean parameters, `[n]`.
        way: The Newton direction.
        terms: <y, θ> and Σ|y_i θ_i| at the point.
        at_floor: Whether λ² is at the floor of rounding.
        skip: Whether to take no step at all.

    Returns:
        The length, 0 where no length is accepted; and the least length at which f is
        not finite, if the objective still falls steeply next to it, else +∞. The step
        ends at `WALL_SHARE` of the way to such a wall.
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
        # A small f may still have the rounding of 1, as log(1 − 1e-9) has.
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

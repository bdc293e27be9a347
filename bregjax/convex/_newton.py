"""Conjugate by a damped Newton method on the dense Hessian.

Minimises g(θ) = f(θ) − <y, θ>. Cost of one step: a Hessian (n gradients) and a few
factorisations, O(n³) time, O(n²) memory.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._result import Result
from bregjax._typing import Array
from bregjax.convex._boundary import ray_test
from bregjax.convex._certificate import certified
from bregjax.convex._dense import Direction, gauge, newton_direction, null_basis
from bregjax.convex._outcome import FlatFunction, Outcome

RUNNING, AT_FLOOR, DRIFTING, OUT_OF_STEPS, STUCK = range(5)
MAX_SEARCH = 40
LONG_STEP = 2.0**20
SHORT = -0.25  # slope ratio under which a step is lengthened


class Point(NamedTuple):
    """A point and what f is there."""

    theta: Array  # [n]
    value: Array
    gradient: Array  # [n]
    curvature: Array  # [n, n]


class State(NamedTuple):
    """Carry of the Newton loop: the next point is θ + length·step."""

    theta: Array  # [n]
    diagonal: Array  # [n], H_ii at θ
    guard: Array  # [n], H_ii under which the next point counts as saturated
    step: Array  # [n]
    ray: Array  # [n]
    length: Array
    decrement: Array  # λ² at θ
    best: Array  # least λ² so far
    scale: Array  # largest |f| + Σ|y_i θ_i| so far
    idle: Array  # steps since λ² last fell by a third
    num_steps: Array
    reason: Array


class Search(NamedTuple):
    """Carry of the line search."""

    length: Array
    short: Array  # longest length known to be too short
    over: Array  # least length known to be too long
    num: Array
    done: Array


def minimise(
    f: FlatFunction, start: Array, warm: Array, y: Array, max_steps: int
) -> Outcome:
    """Solve ∇f(θ) = y from `warm`; `start` tells the overcomplete directions."""
    gradient, hessian = jax.grad(f), jax.hessian(f)
    eps = jnp.finfo(y.dtype).eps
    null = null_basis(gradient, hessian, start)

    # y off the affine hull of the mean domain by more than rounding: no θ will do.
    anchor = gradient(start)
    off_hull = jnp.matmul(null.T, y - anchor, precision="highest")
    magnitude = jnp.sqrt(jnp.sum(y**2)) + jnp.sqrt(jnp.sum(anchor**2))
    outside_hull = jnp.sqrt(jnp.sum(off_hull**2)) > 100 * eps * magnitude
    invalid = ~jnp.all(jnp.isfinite(y))

    state = _loop(f, warm, y, null, max_steps, skip=invalid | outside_hull)
    theta = state.theta
    value, slope = jax.value_and_grad(f)(theta)
    check = certified(f, theta, y, null, state.step)
    lost = ~(check.passed | invalid | outside_hull)

    escape = gauge(theta - warm, null)
    rays = jnp.stack([escape, state.ray, check.residual, _sparse(state.ray)])
    reach = jnp.max(jnp.abs(escape))
    verdict = ray_test(gradient, y, warm, rays, reach, lost)

    # A boundary where the objective still rises, and not ever more slowly: f* = +∞.
    rising = ~(state.decrement <= check.allowed)
    unbounded = verdict.boundary & (verdict.slow | (rising & ~verdict.fast))
    boundary = verdict.boundary & (unbounded | ~rising)
    conditions = [
        invalid,
        outside_hull,
        check.passed,
        verdict.outside,
        boundary,
        state.reason == OUT_OF_STEPS,
    ]
    codes = [
        Result.INVALID,
        Result.OUTSIDE,
        Result.CONVERGED,
        Result.OUTSIDE,
        Result.BOUNDARY,
        Result.STEP_LIMIT,
    ]
    codes = [jnp.asarray(int(code), jnp.int32) for code in codes]
    result = jnp.select(conditions, codes, jnp.asarray(int(Result.STALLED), jnp.int32))

    # N'θ is the start's: the part of y off the hull, rounding, must not enter.
    stray = jnp.sum(off_hull * jnp.matmul(null.T, theta, precision="highest"))
    number = jnp.sum(y * theta) - value - stray
    infinite = (result == Result.OUTSIDE) | (
        (result == Result.BOUNDARY) & unbounded
    )
    known = (result == Result.CONVERGED) | (result == Result.BOUNDARY)
    number = jnp.where(infinite, jnp.inf, jnp.where(known, number, jnp.nan))
    residual = jnp.max(jnp.abs(jnp.where(invalid, y - slope, check.residual)))
    return Outcome(theta, number, result, state.num_steps, residual, null)


def _sparse(step: Array) -> Array:
    """Step less the components that rounding alone may have put there."""
    size = jnp.abs(step)
    return jnp.where(size > 1e-3 * jnp.max(size), step, 0)


def _loop(
    f: FlatFunction, warm: Array, y: Array, null: Array, max_steps: int, *, skip: Array
) -> State:
    eps = jnp.finfo(y.dtype).eps

    def advance(state: State) -> State:
        point, length = _move(f, state)
        diagonal = jnp.diag(point.curvature)
        residual = y - point.gradient
        way = newton_direction(point.curvature, residual, point.theta, null)

        change = jnp.abs(diagonal - state.diagonal)
        settled = (length >= 0.25) & jnp.all(change <= 0.25 * state.diagonal)
        scale = jnp.abs(point.value) + jnp.sum(jnp.abs(y * point.theta))
        largest = jnp.maximum(state.scale, scale)
        magnitude = jnp.abs(y) + jnp.abs(point.gradient)
        noise = eps * jnp.sum(magnitude * jnp.abs(way.ray))
        exact = jnp.all(jnp.abs(way.residual) <= eps * magnitude)
        lower = way.decrement < 0.7 * state.best
        idle = jnp.where(lower | ~settled, 0, state.idle + 1)

        # A coordinate whose curvature underflows before its residual does.
        flat = diagonal * (1 + jnp.abs(point.theta)) < eps * jnp.abs(way.residual)
        drifting = ~settled & (
            (way.decrement <= eps**3 * largest) | jnp.any(flat & (diagonal > 0))
        )
        first = state.num_steps < 0
        broken = ~(
            jnp.isfinite(point.value)
            & jnp.isfinite(way.decrement)
            & jnp.all(jnp.isfinite(way.step))
        )
        reason = jnp.select(
            [
                broken,
                settled & (exact | (idle >= 3)),
                drifting & ~first,
                state.num_steps + 1 >= max_steps,
            ],
            [STUCK, AT_FLOOR, DRIFTING, OUT_OF_STEPS],
            RUNNING,
        )
        at_floor = way.decrement <= 64 * noise
        next_length = _search(f, point, y, way, at_floor, reason != RUNNING)
        reason = jnp.where(
            reason != RUNNING,
            reason,
            jnp.where(
                next_length >= LONG_STEP,
                DRIFTING,
                jnp.where(next_length > 0, RUNNING, STUCK),
            ),
        ).astype(jnp.int32)
        return State(
            theta=point.theta,
            diagonal=diagonal,
            # A variance that the mean's rounding swamps may fall to nothing.
            guard=jnp.where(
                diagonal > 64 * eps * point.gradient**2, 1e-4 * diagonal, -jnp.inf
            ),
            step=jnp.where(jnp.isfinite(way.step), way.step, 0),
            ray=jnp.where(jnp.isfinite(way.ray), way.ray, 0),
            length=next_length,
            decrement=way.decrement,
            best=jnp.minimum(state.best, way.decrement),
            scale=jnp.where(jnp.isfinite(largest), largest, state.scale),
            idle=idle.astype(jnp.int32),
            num_steps=state.num_steps + 1,
            reason=reason,
        )

    begin = State(
        theta=warm,
        diagonal=jnp.zeros_like(warm),
        guard=jnp.full_like(warm, -jnp.inf),
        step=jnp.zeros_like(warm),
        ray=jnp.zeros_like(warm),
        length=jnp.zeros((), warm.dtype),
        decrement=jnp.asarray(jnp.inf, warm.dtype),
        best=jnp.asarray(jnp.inf, warm.dtype),
        scale=jnp.zeros((), warm.dtype),
        idle=jnp.asarray(0, jnp.int32),
        num_steps=jnp.asarray(-1, jnp.int32),
        reason=jnp.where(skip, STUCK, RUNNING).astype(jnp.int32),
    )
    last = jax.lax.while_loop(lambda state: state.reason == RUNNING, advance, begin)
    return last._replace(num_steps=jnp.maximum(last.num_steps, 0))


def _move(f: FlatFunction, state: State) -> tuple[Point, Array]:
    """The next point; shortened while a curvature H_ii would fall by more than 1e4.

    A softmax saturates on one long step, and never returns from there.
    """

    def evaluate(length: Array) -> Point:
        theta = state.theta + length * state.step
        return Point(theta, *jax.value_and_grad(f)(theta), jax.hessian(f)(theta))

    def collapsed(carry: tuple[Array, Array, Point]) -> Array:
        length, first, point = carry
        fell = jnp.any(jnp.diag(point.curvature) < state.guard)
        bad = fell | ~jnp.all(jnp.isfinite(point.curvature))
        return first | (bad & (length > 2.0**-40))

    def shorten(carry: tuple[Array, Array, Point]) -> tuple[Array, Array, Point]:
        length = jnp.where(carry[1], carry[0], carry[0] / 8)
        return length, jnp.zeros_like(carry[1]), evaluate(length)

    n = state.theta.size
    blank = jnp.zeros((n, n), state.theta.dtype)
    point = Point(state.theta, jnp.zeros((), blank.dtype), state.theta, blank)
    length, _, point = jax.lax.while_loop(
        collapsed, shorten, (state.length, jnp.asarray(True), point)
    )
    return point, length


def _search(
    f: FlatFunction, point: Point, y: Array, way: Direction, at_floor: Array, skip: Array
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

"""Conjugate by a damped Newton method on the dense Hessian.

Minimises g(θ) = f(θ) − <y, θ>. Cost of one step: a Hessian (n gradients) and a few
factorisations, O(n³) time, O(n²) memory.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._result import Result
from bregjax._typing import Array
from bregjax.convex._solvers.boundary import ray_test
from bregjax.convex._solvers.certificate import certified
from bregjax.convex._solvers.dense import (
    UNRESOLVED,
    Direction,
    gauge,
    newton_direction,
    null_basis,
)
from bregjax.convex._solvers.line_search import LONG_STEP, search_length
from bregjax.convex._solvers.outcome import FlatFunction, Outcome, Point

RUNNING, AT_FLOOR, DRIFTING, OUT_OF_STEPS, STUCK = range(5)
MAX_CRAMPED = 30


class State(NamedTuple):
    """Carry of the Newton loop: the next point is θ + length·step."""

    point: Point
    guard: Array  # [n], H_ii under which the next point counts as saturated
    way: Direction
    length: Array
    best: Array  # least λ² so far
    scale: Array  # largest |f| + Σ|y_i θ_i| so far
    idle: Array  # steps since λ² last fell by a third
    peak: Array  # largest λ² so far
    steady: Array  # full steps that left λ² the same, less the others
    cramped: Array  # steps in a row that had to be cut short
    num_steps: Array
    reason: Array


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
    point, way = state.point, state.way
    theta = point.theta
    check = certified(f, point, y, null)
    lost = ~(check.passed | invalid | outside_hull)

    escape = gauge(theta - warm, null)
    ray = jnp.where(jnp.isfinite(way.ray), way.ray, 0)
    rays = jnp.stack([escape, ray, check.residual, _sparse(ray)])
    reach = jnp.max(jnp.abs(escape))
    clean = jnp.asarray([False, False, False, True])
    verdict = ray_test(gradient, y, warm, rays, clean, reach, lost)

    # Where the objective rises by as much with each step, f* = +∞ on the boundary.
    rising = state.steady >= 2
    limit = jnp.maximum(check.allowed, eps**2 * state.scale)
    at_limit = (way.decrement <= limit) | (state.reason == DRIFTING)
    boundary = verdict.boundary & (rising | at_limit)
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
    number = jnp.sum(y * theta) - point.value - stray
    infinite = (result == Result.OUTSIDE) | ((result == Result.BOUNDARY) & rising)
    known = (result == Result.CONVERGED) | (result == Result.BOUNDARY)
    number = jnp.where(infinite, jnp.inf, jnp.where(known, number, jnp.nan))
    residual = jnp.max(jnp.abs(jnp.where(invalid, y - anchor, check.residual)))
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
        way = newton_direction(point, y, null)
        reason, state = _assess(state, point, length, way, y)
        cramped = jnp.where(length < 0.1, state.cramped + 1, 0)
        reason = jnp.where((reason == RUNNING) & (cramped > MAX_CRAMPED), STUCK, reason)
        reason = jnp.where(
            (reason == RUNNING) & (state.num_steps + 1 >= max_steps),
            OUT_OF_STEPS,
            reason,
        )
        magnitude = jnp.abs(y) + jnp.abs(point.gradient)
        noise = eps * jnp.sum(magnitude * jnp.abs(way.ray))
        at_floor = way.decrement <= 64 * noise
        ahead = search_length(f, point, y, way, at_floor, reason != RUNNING)
        halted = jnp.where(ahead >= LONG_STEP, DRIFTING, STUCK)
        halted = jnp.where((ahead > 0) & (ahead < LONG_STEP), RUNNING, halted)
        diagonal = jnp.diag(point.curvature)
        resolved = diagonal > UNRESOLVED * eps * point.gradient**2
        return state._replace(
            point=point,
            guard=jnp.where(resolved, 1e-4 * diagonal, -jnp.inf),
            way=way,
            length=ahead,
            best=jnp.minimum(state.best, way.decrement),
            cramped=cramped.astype(jnp.int32),
            num_steps=state.num_steps + 1,
            reason=jnp.where(reason == RUNNING, halted, reason).astype(jnp.int32),
        )

    zero, none = jnp.zeros((), y.dtype), jnp.zeros_like(y)
    begin = State(
        point=Point(warm, zero, none, jnp.zeros((y.size, y.size), y.dtype)),
        guard=jnp.full_like(y, -jnp.inf),
        way=Direction(none, none, zero, none),
        length=zero,
        best=jnp.asarray(jnp.inf, y.dtype),
        scale=zero,
        idle=jnp.asarray(0, jnp.int32),
        peak=zero,
        steady=jnp.asarray(0, jnp.int32),
        cramped=jnp.asarray(0, jnp.int32),
        num_steps=jnp.asarray(-1, jnp.int32),
        reason=jnp.where(skip, STUCK, RUNNING).astype(jnp.int32),
    )
    last = jax.lax.while_loop(lambda state: state.reason == RUNNING, advance, begin)
    return last._replace(num_steps=jnp.maximum(last.num_steps, 0))


def _assess(
    state: State, point: Point, length: Array, way: Direction, y: Array
) -> tuple[Array, State]:
    """Whether to stop at the new point, and the state with its statistics renewed."""
    eps = jnp.finfo(y.dtype).eps
    diagonal = jnp.diag(point.curvature)
    before = jnp.diag(state.point.curvature)
    magnitude = jnp.abs(y) + jnp.abs(point.gradient)
    noise = eps * jnp.sum(magnitude * jnp.abs(way.ray))
    scale = jnp.abs(point.value) + jnp.sum(jnp.abs(y * point.theta))
    scale = jnp.where(jnp.isfinite(scale), jnp.maximum(state.scale, scale), state.scale)

    # Scale-free, and what tells convergence from a drift to infinity, where the
    # decrement and the residual vanish as well.
    moved = length >= 0.25
    loose = jnp.abs(diagonal - before) > 0.25 * before
    settled = moved & ~jnp.any(loose)
    exact = jnp.all(jnp.abs(way.residual) <= eps * magnitude)
    low = way.decrement <= jnp.maximum(32 * eps * scale, 64 * noise)
    lower = way.decrement < 0.7 * state.best
    idle = jnp.where(lower | ~settled | ~low, 0, state.idle + 1).astype(jnp.int32)

    # Coordinates that still drift have nothing more to give, or are all rounding.
    drift = jnp.sum(jnp.where(loose, jnp.abs(way.residual * way.ray), 0))
    rest = way.decrement - drift
    quiet = rest <= jnp.maximum(64 * noise, eps**3 * scale)
    blind = drift <= eps * jnp.sum(jnp.where(loose, magnitude * jnp.abs(way.ray), 0))
    adrift = moved & jnp.any(loose)
    drifting = adrift & (((drift <= eps**3 * scale) & quiet) | blind)
    # A logarithm's decrement stays the same all the way to infinity.
    peak = jnp.fmax(state.peak, way.decrement)
    same = (way.decrement > 0.7 * state.way.decrement) & (
        way.decrement > eps**0.75 * peak
    )
    steady = state.steady + jnp.where(length >= 0.9, jnp.where(same, 1, -1), 0)
    steady = jnp.clip(steady, 0, 8).astype(jnp.int32)
    broken = ~(
        jnp.isfinite(point.value)
        & jnp.isfinite(way.decrement)
        & jnp.all(jnp.isfinite(way.step))
    )
    reason = jnp.select(
        [broken, settled & (exact | (idle >= 3)), drifting],
        [STUCK, AT_FLOOR, DRIFTING],
        RUNNING,
    )
    return reason, state._replace(idle=idle, scale=scale, peak=peak, steady=steady)


def _move(f: FlatFunction, state: State) -> tuple[Point, Array]:
    """The next point; shortened while a curvature H_ii would fall by more than 1e4.

    A softmax saturates on one long step, and never returns from there.
    """

    def evaluate(length: Array) -> Point:
        theta = state.point.theta + length * state.way.step
        return Point(theta, *jax.value_and_grad(f)(theta), jax.hessian(f)(theta))

    def collapsed(carry: tuple[Array, Array, Point]) -> Array:
        length, first, point = carry
        fell = jnp.any(jnp.diag(point.curvature) < state.guard)
        bad = fell | ~jnp.all(jnp.isfinite(point.curvature))
        return first | (bad & (length > 2.0**-40))

    def shorten(carry: tuple[Array, Array, Point]) -> tuple[Array, Array, Point]:
        length = jnp.where(carry[1], carry[0], carry[0] / 8)
        return length, jnp.zeros_like(carry[1]), evaluate(length)

    length, _, point = jax.lax.while_loop(
        collapsed, shorten, (state.length, jnp.asarray(True), state.point)
    )
    return point, length

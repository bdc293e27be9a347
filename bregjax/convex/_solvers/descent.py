"""The damped Newton iteration, and the look around the point where it ends.

It minimises g(θ) = f(θ) − <y, θ>. One step costs a Hessian (n gradients) and a few
factorisations, O(n³) time and O(n²) memory, and has four phases: `_move` to the next
point, the direction from there, `_assess` whether to stop, and the length of the step.

The last iterations do not move the point: they measure the Hessian again at points a
few roundings away, for `acceptance.py`.

For f = log(1 + e^θ) and y = 0.9, from 0 in float64: θ is 1.6, 2.0864, 2.1925, 2.1972
and then log 9, and λ² at these points is 0.033, 0.0011, 2.0e-6, 6.9e-12 and 8.6e-23. A
sixth step leaves 1.4e-31, which is rounding: the reason to stop is AT_FLOOR.
"""

import enum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bregjax._typing import Array, PyTree
from bregjax.convex._solvers import thresholds
from bregjax.convex._solvers.dense import diagonal, product
from bregjax.convex._solvers.direction import Direction, newton_direction, resolved
from bregjax.convex._solvers.frame import Frame, first_frame, measure, whiten
from bregjax.convex._solvers.line_search import search_length
from bregjax.convex._solvers.outcome import FlatFunction, Point
from bregjax.convex._solvers.packing import packed_loop, totals
from bregjax.convex._solvers.rounding import jitter
from bregjax.convex._solvers.walls import Walls, free_way, hold, no_walls


class Reason(enum.IntEnum):
    """Why the iteration ended; int32 in traced code."""

    RUNNING = 0
    AT_FLOOR = 1  # only rounding is left of the residual
    DRIFTING = 2  # the iterates go to infinity and gain nothing
    OUT_OF_STEPS = 3
    STUCK = 4  # no length of the step is accepted, or something is not finite
    BLURRED = 5  # a rounding of y reaches the boundary


class Look(NamedTuple):
    """Measurements around the last point; worst cases.

    Attributes:
        num: Number of Hessians measured.
        step: Newton step, around whose end the next Hessian is measured, `[n]`.
        change: Relative change of the Hessian, squared.
        blur: λ² that a rounding of y and ∇f makes (see `frame.Whitening`).
        decrement: λ² of the last point, by the Hessians around it.
        firm: Whether all variances are above the ridge.
    """

    num: Array
    step: Array
    change: Array
    blur: Array
    decrement: Array
    firm: Array


class Course(NamedTuple):
    """The history of the iteration, for deciding when to stop."""

    best: Array  # least λ² so far
    scale: Array  # largest |f| + Σ|y_i θ_i| so far
    idle: Array  # steps since λ² last fell by a third
    peak: Array  # largest λ² so far
    steady: Array  # full steps that left λ² the same, less full steps that lowered it
    cramped: Array  # steps in a row that had to be cut short
    trend: Array  # [n], the last ray whose λ² was more than rounding


class Sums(NamedTuple):
    """Sums over coordinates at a new point, and numbers of coordinates."""

    noise: Array  # rounding of the slope along the ray
    inner: Array  # <y, θ>
    size: Array  # Σ|y_i θ_i|
    loose: Array  # number of variances that are still changing
    inexact: Array  # number of residuals above rounding
    drift: Array  # share of λ² of coordinates whose variances are changing
    blind: Array  # rounding of `drift`
    broken: Array  # number of components of the step that are not finite
    held: Array  # number of coordinates held at walls
    unresolved: Array  # number of variances below their rounding


class DescentState(NamedTuple):
    """Carry of the Newton loop: the next point is θ + length·step."""

    point: Point
    frame: Frame
    walls: Walls
    way: Direction
    length: Array
    course: Course
    num_steps: Array
    reason: Array
    look: Look


def descend(
    f: FlatFunction, warm: Array, y: Array, null: Array, max_steps: int, *, skip: Array
) -> DescentState:
    """Iterate from `warm` until there is a reason to stop, then look around."""
    eps = jnp.finfo(y.dtype).eps
    # Coordinates in overcomplete directions: `gauge` moves them, so none may be held.
    rooted = jnp.any(null != 0, axis=1)

    def advance(state: DescentState) -> DescentState:
        looking = state.reason != Reason.RUNNING
        raw, length = _move(f, state, looking)
        before = diagonal(state.point.curvature)
        may = ~(rooted | state.frame.fitted)
        moved = raw.theta - state.point.theta
        walls, point = hold(state.walls, raw, moved, before, y, may)
        walls = _select(looking, state.walls, walls)
        way, scaled, factor = newton_direction(point, y, state.frame, looking)
        sums = _sums(state, point, walls, way, y)
        reason, course = _assess(state, point, length, way, sums)
        resting = (reason == Reason.AT_FLOOR) | (reason == Reason.DRIFTING)
        resting = resting | (walls.age >= thresholds.WALL_STEPS)
        push = (
            resting
            & (reason != Reason.STUCK)
            & (sums.held > 0)
            & ~walls.pushed
            & ~looking
        )
        reason = jnp.where(push, Reason.RUNNING, reason)
        last = (reason == Reason.RUNNING) & (state.num_steps + 1 >= max_steps)
        reason = jnp.where(last, Reason.OUT_OF_STEPS, reason)

        at_floor = way.decrement <= thresholds.QUIET * sums.noise
        trend = jnp.where(at_floor, course.trend, way.ray)
        course = course._replace(trend=trend)
        stop = looking | push | (reason != Reason.RUNNING)
        terms = sums.inner, sums.size
        length, wall = search_length(f, point, y, way, terms, at_floor, stop)
        walls, way, length = _feel(f, point, walls, way, length, wall, push)
        halted = length >= thresholds.LONG_STEP
        halted = jnp.where(halted, Reason.DRIFTING, Reason.STUCK)
        fair = (length > 0) & (length < thresholds.LONG_STEP)
        halted = jnp.where(fair, Reason.RUNNING, halted)
        reason = jnp.where(reason == Reason.RUNNING, halted, reason)

        pivot = jnp.min(diagonal(factor)) ** 2
        visible = way.decrement > thresholds.INVISIBLE * eps**2 * course.scale
        # Pivots may hide a lost direction; a long drift has lost one, or will lose it.
        worn = ~(pivot > thresholds.WORN * eps**0.5)
        worn = worn | (course.steady >= thresholds.LONG_DRIFT)
        worn = worn & (sums.unresolved == 0) & (sums.held == 0)
        worn = state.frame.fitted | worn
        refit = ~looking & (reason == Reason.RUNNING) & visible & worn
        seen = whiten(
            point, y, state.frame, scaled, factor,
            state.point.curvature, state.way.residual,
            refit=refit, needed=refit | looking,
        )  # fmt: skip
        blurred = (reason == Reason.RUNNING) & (seen.blur > thresholds.BLUR)
        reason = jnp.where(blurred, Reason.BLURRED, reason)
        # Take the step of the plain Hessian: the first look may have a lifted diagonal.
        look = Look(
            num=state.look.num + 1,
            step=seen.step,
            change=jnp.maximum(state.look.change, seen.change),
            blur=jnp.maximum(state.look.blur, seen.blur),
            decrement=jnp.maximum(state.look.decrement, seen.decrement),
            firm=state.look.firm & (pivot > thresholds.FIRM * eps),
        )
        look = _select(looking, look, state.look._replace(step=way.step))
        new = DescentState(
            point=seen.point,
            frame=seen.frame,
            walls=walls,
            way=way,
            length=length,
            course=course,
            num_steps=state.num_steps + 1,
            reason=reason.astype(jnp.int32),
            look=look,
        )
        # Looking changes `look` alone.
        return _select(looking, state._replace(look=look), new)

    def going(state: DescentState) -> Array:
        looks = ~skip & (state.look.num < thresholds.LOOKS)
        return (state.reason == Reason.RUNNING) | looks

    last = packed_loop(going, advance, _begin(warm, y, null, skip))
    return last._replace(num_steps=jnp.maximum(last.num_steps, 0))


def _select(condition: Array, one: PyTree, other: PyTree) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)


def _begin(warm: Array, y: Array, null: Array, skip: Array) -> DescentState:
    zero, none = jnp.zeros((), y.dtype), jnp.zeros_like(y)
    count = jnp.asarray(0, jnp.int32)
    return DescentState(
        point=Point(warm, zero, none, jnp.zeros((y.size, y.size), y.dtype)),
        frame=first_frame(null),
        walls=no_walls(warm),
        way=Direction(none, none, none, zero, none),
        length=zero,
        course=Course(
            best=jnp.asarray(jnp.inf, y.dtype),
            scale=zero,
            idle=count,
            peak=zero,
            steady=count,
            cramped=count,
            trend=none,
        ),
        num_steps=jnp.asarray(-1, jnp.int32),
        reason=jnp.where(skip, Reason.STUCK, Reason.RUNNING).astype(jnp.int32),
        look=Look(count, none, zero, zero, zero, jnp.asarray(True)),
    )


def _sums(
    state: DescentState, point: Point, walls: Walls, way: Direction, y: Array
) -> Sums:
    eps = jnp.finfo(y.dtype).eps
    variances = diagonal(point.curvature)
    before = diagonal(state.point.curvature)
    magnitude = jnp.abs(y) + jnp.abs(point.gradient)
    spread = eps * jnp.sqrt(product(state.frame.basis.T**2, magnitude**2))
    inner = y * point.theta
    # Relative changes of variances tell convergence from a drift to infinity, where the
    # decrement and the residual vanish as well.
    loose = jnp.abs(variances - before) > thresholds.SETTLED * before
    return Sums(
        *totals(
            eps * magnitude * jnp.abs(way.ray),
            inner,
            jnp.abs(inner),
            loose,
            ~(jnp.abs(way.residual) <= spread),
            jnp.where(loose, jnp.abs(way.residual * way.local), 0),
            jnp.where(loose, spread * jnp.abs(way.local), 0),
            ~jnp.isfinite(way.step),
            walls.held,
            ~resolved(point, state.frame),
        )
    )


def _assess(
    state: DescentState, point: Point, length: Array, way: Direction, sums: Sums
) -> tuple[Array, Course]:
    """The reason to stop at the new point, if any, and the course so far."""
    eps, course = jnp.finfo(length.dtype).eps, state.course
    noise, drift = sums.noise, sums.drift
    scale = jnp.abs(point.value) + sums.size
    scale = jnp.where(jnp.isfinite(scale), scale, 0)
    scale = jnp.maximum(course.scale, scale)

    moved = length >= thresholds.MOVED
    settled = moved & (sums.loose == 0)
    quiet_noise = thresholds.QUIET * noise
    nothing = thresholds.EXHAUSTED * eps**3 * scale
    floor = jnp.maximum(thresholds.FLOOR * eps * scale, quiet_noise)
    low = way.decrement <= floor
    lower = way.decrement < thresholds.PROGRESS * course.best
    idle = jnp.where(lower | ~settled | ~low, 0, course.idle + 1).astype(jnp.int32)

    # Coordinates that still drift can lower g no more, or are all rounding.
    rest = way.decrement - drift
    quiet = rest <= jnp.maximum(quiet_noise, nothing)
    blind = drift <= sums.blind
    adrift = moved & (sums.loose > 0)
    drifting = adrift & (((drift <= nothing) & quiet) | blind)
    # The decrement of a logarithm stays the same all the way to infinity.
    peak = jnp.fmax(course.peak, way.decrement)
    same = way.decrement > thresholds.PROGRESS * state.way.decrement
    same = same & (way.decrement > thresholds.PEAK_SHARE * eps**0.75 * peak)
    full = length >= thresholds.FULL_STEP
    steady = course.steady + jnp.where(full, jnp.where(same, 1, -1), 0)
    cramped = jnp.where(length < thresholds.CRAMPED, course.cramped + 1, 0).astype(
        jnp.int32
    )
    finite = jnp.isfinite(point.value) & jnp.isfinite(way.decrement)
    broken = ~finite | (sums.broken > 0)
    done = settled & ((sums.inexact == 0) | (idle >= thresholds.IDLE_STEPS))
    reason = jnp.select(
        [broken, done, drifting, cramped > thresholds.MAX_CRAMPED],
        [
            jnp.asarray(int(code), jnp.int32)
            for code in (Reason.STUCK, Reason.AT_FLOOR, Reason.DRIFTING, Reason.STUCK)
        ],
        jnp.asarray(int(Reason.RUNNING), jnp.int32),
    )
    return reason, Course(
        best=jnp.minimum(course.best, way.decrement),
        scale=scale,
        idle=idle,
        peak=peak,
        steady=jnp.clip(steady, 0, thresholds.MAX_STEADY).astype(jnp.int32),
        cramped=cramped,
        trend=course.trend,
    )


def _feel(
    f: FlatFunction,
    point: Point,
    walls: Walls,
    way: Direction,
    length: Array,
    wall: Array,
    push: Array,
) -> tuple[Walls, Direction, Array]:
    """Find coordinates that ran into a wall, or the step that pushes held ones on."""
    near = jnp.isfinite(wall)
    to_wall = jnp.where(near, wall * way.step, 0)
    final = push & (walls.rounds >= thresholds.WALL_ROUNDS)
    moves = jnp.where(final, walls.span, to_wall)
    rounds = jnp.where(near, 1, 0)
    rounds = jnp.where(final, thresholds.BISECTIONS_TO_WALL, rounds)
    free, blocked = free_way(f, point.theta, moves, rounds)
    hit = near & (free != moves)
    found = jnp.where(hit, to_wall - length * way.step, 0)
    span = jnp.where(walls.held & ~push, walls.span, found)
    walls = walls._replace(
        span=jnp.where(final, blocked - free, span),
        rounds=walls.rounds + push.astype(jnp.int32),
        pushed=walls.pushed | final,
    )
    step = jnp.where(push, jnp.where(final, free, 0), way.step)
    return walls, way._replace(step=step), jnp.where(push, 1, length)


def _move(f: FlatFunction, state: DescentState, looking: Array) -> tuple[Point, Array]:
    """The next point and the length of the step that leads to it.

    The step is shortened while a curvature H_ii would fall by more than 1e4: a softmax
    saturates on one long step, and never returns. When looking, the point is the Newton
    point moved by a few roundings.
    """
    theta, step = state.point.theta, state.way.step
    sure = resolved(state.point, state.frame) & ~state.walls.held
    least = thresholds.SATURATED * diagonal(state.point.curvature)
    around = jitter(theta + state.look.step, state.look.num)
    around = jnp.where(state.walls.held, theta, around)

    def evaluate(length: Array) -> Point:
        there = jnp.where(looking, around, theta + length * step)
        return measure(f, there, state.frame)

    def collapsed(carry: tuple[Array, Array, Point]) -> Array:
        length, first, point = carry
        fell = sure & (diagonal(point.curvature) < least)
        finite = jnp.all(jnp.isfinite(point.curvature), axis=0)
        bad = jnp.any(fell | ~finite)
        return first | (bad & ~looking & (length > thresholds.SHORTEST))

    def shorten(carry: tuple[Array, Array, Point]) -> tuple[Array, Array, Point]:
        length = jnp.where(carry[1], carry[0], carry[0] / thresholds.SHORTER)
        return length, jnp.zeros_like(carry[1]), evaluate(length)

    length, _, point = jax.lax.while_loop(
        collapsed, shorten, (state.length, jnp.asarray(True), state.point)
    )
    return point, length

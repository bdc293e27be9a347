"""The damped Newton iteration, and the look around the point where it ends.

Minimises g(θ) = f(θ) − <y, θ>. Cost of one step: a Hessian (n gradients) and a few
factorisations, O(n³) time, O(n²) memory.

The last iterations do not move the point: they measure the Hessian again at points a
few roundings off, for the certificate.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bregjax._typing import Array, PyTree
from bregjax.convex._solvers.dense import diagonal, product
from bregjax.convex._solvers.direction import Direction, newton_direction, resolved
from bregjax.convex._solvers.frame import Frame, first_frame, measure, whiten
from bregjax.convex._solvers.line_search import LONG_STEP, search_length
from bregjax.convex._solvers.outcome import FlatFunction, Point

RUNNING, AT_FLOOR, DRIFTING, OUT_OF_STEPS, STUCK, BLURRED = range(6)
MAX_CRAMPED = 30
LOOKS = 2  # Hessians measured around the last point
# Variances of the scaled Hessian under eps^½ have lost half of their digits.
WORN = 0.5
LONG_DRIFT = 6  # steps
BLUR = 1 / 16**2
# λ² = (s·gap)² where y is outside by `gap` and the iterates have come the distance s; a
# logarithm's boundary gives 1 at most. The next step is as many times longer as λ, so
# it has digits left to be judged only up to some λ.
FAR, TOO_FAR = 10, 1e4
FIRM = 32  # eps: a smaller variance is the ridge's


class Look(NamedTuple):
    """What has been seen around the last point; worst cases."""

    num: Array
    step: Array  # [n], to the next point to look around
    change: Array  # relative change of the Hessian, squared
    blur: Array
    decrement: Array  # of the last point, by the Hessians around
    firm: Array  # whether all variances are above the ridge


class State(NamedTuple):
    """Carry of the Newton loop: the next point is θ + length·step."""

    point: Point
    frame: Frame
    guard: Array  # [n], H_ii under which the next point counts as saturated
    way: Direction
    length: Array
    far: tuple[Array, Array, Array]  # θ, d and λ² where λ² was last in between
    best: Array  # least λ² so far
    scale: Array  # largest |f| + Σ|y_i θ_i| so far
    idle: Array  # steps since λ² last fell by a third
    peak: Array  # largest λ² so far
    steady: Array  # full steps that left λ² the same, less the others
    cramped: Array  # steps in a row that had to be cut short
    num_steps: Array
    reason: Array
    look: Look


def jitter(theta: Array, pattern: Array) -> Array:
    """θ with each component moved by up to 16 roundings, in a fixed pattern."""
    eps = jnp.finfo(theta.dtype).eps
    phase = 1 + 12.9898 * jnp.arange(theta.size, dtype=theta.dtype) + 4.1414 * pattern
    return theta + 16 * eps * jnp.sin(phase) * theta


def descend(
    f: FlatFunction, warm: Array, y: Array, null: Array, max_steps: int, *, skip: Array
) -> State:
    """Iterate from `warm` until there is a reason to stop, then look around."""
    eps = jnp.finfo(y.dtype).eps

    def advance(state: State) -> State:
        looking = state.reason != RUNNING
        point, length = _move(f, state, looking)
        way, scaled, factor = newton_direction(point, y, state.frame, looking)
        reason, ahead = _assess(state, point, length, way, y)
        reason = jnp.where(
            (reason == RUNNING) & (state.num_steps + 1 >= max_steps),
            OUT_OF_STEPS,
            reason,
        )
        noise = eps * jnp.sum((jnp.abs(y) + jnp.abs(point.gradient)) * jnp.abs(way.ray))
        at_floor = way.decrement <= 64 * noise
        stop = looking | (reason != RUNNING)
        length = search_length(f, point, y, way, at_floor, stop)
        halted = jnp.where(length >= LONG_STEP, DRIFTING, STUCK)
        halted = jnp.where((length > 0) & (length < LONG_STEP), RUNNING, halted)
        reason = jnp.where(reason == RUNNING, halted, reason)

        pivot = jnp.min(diagonal(factor)) ** 2
        visible = way.decrement > eps**2 * ahead.scale
        # A pivot may miss a direction; a long drift has lost one, or will.
        worn = ~(pivot > WORN * eps**0.5) | (ahead.steady >= LONG_DRIFT)
        worn = worn & jnp.all(resolved(point, state.frame))
        worn = state.frame.fitted | worn
        refit = ~looking & (reason == RUNNING) & visible & worn
        seen = whiten(
            point, y, state.frame, scaled, factor,
            state.point.curvature, state.way.residual,
            refit=refit, needed=refit | looking,
        )  # fmt: skip
        reason = jnp.where((reason == RUNNING) & (seen.blur > BLUR), BLURRED, reason)
        point = seen.point
        farther = (way.decrement > FAR) & (way.decrement < TOO_FAR)
        here = (point.theta, way.step, way.decrement)
        least = jnp.where(
            resolved(point, seen.frame), 1e-4 * diagonal(point.curvature), -jnp.inf
        )
        # The step of the Hessian as it is: the first look may have a lifted one's.
        look = Look(
            num=state.look.num + 1,
            step=seen.step,
            change=jnp.maximum(state.look.change, seen.change),
            blur=jnp.maximum(state.look.blur, seen.blur),
            decrement=jnp.maximum(state.look.decrement, seen.decrement),
            firm=state.look.firm & (pivot > FIRM * eps),
        )
        look = _select(looking, look, state.look._replace(step=way.step))
        # What is not read after the last step may change when looking.
        count = state.num_steps + 1
        new = (point, way, ahead.scale, ahead.steady, count, reason.astype(jnp.int32))
        old = (state.point, state.way, state.scale, state.steady)
        old = (*old, state.num_steps, state.reason)
        point, way, scale, steady, count, reason = _select(looking, old, new)
        return ahead._replace(
            point=point,
            frame=seen.frame,
            guard=least,
            way=way,
            length=length,
            far=_select(farther & ~looking, here, state.far),
            best=jnp.minimum(state.best, way.decrement),
            scale=scale,
            steady=steady,
            num_steps=count,
            reason=reason,
            look=look,
        )

    def going(state: State) -> Array:
        return (state.reason == RUNNING) | (~skip & (state.look.num < LOOKS))

    last = jax.lax.while_loop(going, advance, _begin(warm, y, null, skip))
    return last._replace(num_steps=jnp.maximum(last.num_steps, 0))


def _select(condition: Array, one: PyTree, other: PyTree) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)


def _begin(warm: Array, y: Array, null: Array, skip: Array) -> State:
    zero, none = jnp.zeros((), y.dtype), jnp.zeros_like(y)
    count = jnp.asarray(0, jnp.int32)
    return State(
        point=Point(warm, zero, none, jnp.zeros((y.size, y.size), y.dtype)),
        frame=first_frame(null),
        guard=jnp.full_like(y, -jnp.inf),
        way=Direction(none, none, none, zero, none),
        length=zero,
        far=(warm, none, zero),
        best=jnp.asarray(jnp.inf, y.dtype),
        scale=zero,
        idle=count,
        peak=zero,
        steady=count,
        cramped=count,
        num_steps=jnp.asarray(-1, jnp.int32),
        reason=jnp.where(skip, STUCK, RUNNING).astype(jnp.int32),
        look=Look(count, none, zero, zero, zero, jnp.asarray(True)),
    )


def _assess(
    state: State, point: Point, length: Array, way: Direction, y: Array
) -> tuple[Array, State]:
    """Whether to stop at the new point, and the state with its statistics renewed."""
    eps = jnp.finfo(y.dtype).eps
    variances = diagonal(point.curvature)
    before = diagonal(state.point.curvature)
    magnitude = jnp.abs(y) + jnp.abs(point.gradient)
    noise = eps * jnp.sum(magnitude * jnp.abs(way.ray))
    scale = jnp.abs(point.value) + jnp.sum(jnp.abs(y * point.theta))
    scale = jnp.where(jnp.isfinite(scale), jnp.maximum(state.scale, scale), state.scale)

    # Scale-free, and what tells convergence from a drift to infinity, where the
    # decrement and the residual vanish as well.
    moved = length >= 0.25
    loose = jnp.abs(variances - before) > 0.25 * before
    settled = moved & ~jnp.any(loose)
    spread = jnp.sqrt(product(state.frame.basis.T**2, magnitude**2))
    exact = jnp.all(jnp.abs(way.residual) <= eps * spread)
    low = way.decrement <= jnp.maximum(32 * eps * scale, 64 * noise)
    lower = way.decrement < 0.7 * state.best
    idle = jnp.where(lower | ~settled | ~low, 0, state.idle + 1).astype(jnp.int32)

    # Coordinates that still drift have nothing more to give, or are all rounding.
    drift = jnp.sum(jnp.where(loose, jnp.abs(way.residual * way.local), 0))
    rest = way.decrement - drift
    quiet = rest <= jnp.maximum(64 * noise, eps**3 * scale)
    blind = drift <= eps * jnp.sum(jnp.where(loose, spread * jnp.abs(way.local), 0))
    adrift = moved & jnp.any(loose)
    drifting = adrift & (((drift <= eps**3 * scale) & quiet) | blind)
    # A logarithm's decrement stays the same all the way to infinity.
    peak = jnp.fmax(state.peak, way.decrement)
    same = (way.decrement > 0.7 * state.way.decrement) & (
        way.decrement > eps**0.75 * peak
    )
    steady = state.steady + jnp.where(length >= 0.9, jnp.where(same, 1, -1), 0)
    steady = jnp.clip(steady, 0, 8).astype(jnp.int32)
    cramped = jnp.where(length < 0.1, state.cramped + 1, 0).astype(jnp.int32)
    broken = ~(
        jnp.isfinite(point.value)
        & jnp.isfinite(way.decrement)
        & jnp.all(jnp.isfinite(way.step))
    )
    reason = jnp.select(
        [broken, settled & (exact | (idle >= 3)), drifting, cramped > MAX_CRAMPED],
        [STUCK, AT_FLOOR, DRIFTING, STUCK],
        RUNNING,
    )
    return reason, state._replace(
        idle=idle, scale=scale, peak=peak, steady=steady, cramped=cramped
    )


def _move(f: FlatFunction, state: State, looking: Array) -> tuple[Point, Array]:
    """The next point; shortened while a curvature H_ii would fall by more than 1e4.

    A softmax saturates on one long step, and never returns from there. When looking,
    the Newton point moved by a few roundings.
    """
    theta, step = state.point.theta, state.way.step
    around = jitter(theta + state.look.step, state.look.num)

    def evaluate(length: Array) -> Point:
        there = jnp.where(looking, around, theta + length * step)
        return measure(f, there, state.frame)

    def collapsed(carry: tuple[Array, Array, Point]) -> Array:
        length, first, point = carry
        fell = jnp.any(diagonal(point.curvature) < state.guard)
        bad = fell | ~jnp.all(jnp.isfinite(point.curvature))
        return first | (bad & ~looking & (length > 2.0**-40))

    def shorten(carry: tuple[Array, Array, Point]) -> tuple[Array, Array, Point]:
        length = jnp.where(carry[1], carry[0], carry[0] / 8)
        return length, jnp.zeros_like(carry[1]), evaluate(length)

    length, _, point = jax.lax.while_loop(
        collapsed, shorten, (state.length, jnp.asarray(True), state.point)
    )
    return point, length

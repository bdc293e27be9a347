"""Conjugate of a sum over coordinates, f(θ) = Σ f_i(θ_i): scalar Newton in brackets.

One gradient serves all coordinates, and its derivative along ones is the diagonal of
the Hessian. Each coordinate has its own bracket, its own test of convergence and its
own verdict, and freezes when done. O(n) time and memory a step.

For f = −log(−θ) on θ < 0, y = 10 and a start at −1: f′ = 1 < 10, so −1 is the low end.
The logarithmic step log 10 leads to 1.3026, where f is not finite: the high end. The
middles of the bracket are next: 0.1513 (another high end) and −0.4244, where f′ = 2.36
(a low end). Steps lead to −0.1365, −0.0940 (f′ = 10.64, a high end), −0.0998 and −0.1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._result import Result
from bregjax._typing import Array
from bregjax.convex._solvers import thresholds
from bregjax.convex._solvers.boundary import (
    RayHistory,
    Verdict,
    extend,
    judge,
    new_rays,
    unfinished,
)
from bregjax.convex._solvers.outcome import (
    FlatFunction,
    FlatSolution,
    conjugate_value,
    first_of,
    terms,
    value_tolerance,
)
from bregjax.convex._solvers.packing import packed_loop
from bregjax.convex._solvers.rounding import steadied


class BracketState(NamedTuple):
    """Carry of the loop, by coordinate `[n]` but for `value` and `num_steps`.

    The residual y − f′ is positive (or f not finite) at `low`, negative (or f not
    finite) at `high`. `theta` is the last good point, `trial` the next point to try.
    """

    theta: Array
    value: Array  # scalar, where f was last finite
    trial: Array
    low: Array
    high: Array
    slope: Array  # f′ at `theta`
    curvature: Array  # f″ there
    boost: Array  # factor by which steps of a drift are lengthened
    active: Array
    num_steps: Array


def minimise(f: FlatFunction, warm: Array, y: Array, max_steps: int) -> FlatSolution:
    """Solve f_i′(θ_i) = y_i in each coordinate, from `warm`."""
    slopes = _slopes(f, warm)
    invalid = ~jnp.all(jnp.isfinite(y))
    state = _loop(slopes, warm, y, max_steps, skip=invalid)
    theta = state.theta
    value, slope, curvature = f(theta), state.slope, state.curvature
    solved, error = _certified(slopes, y, theta, slope, curvature)

    lost = ~solved & ~invalid
    size = value_tolerance(y.dtype) * terms(y, theta, value, slope)
    verdict = _ray_test(slopes, y, warm, theta, y - slope, lost)
    # The domain ends next to the last iterate: the bracket's end has no finite f.
    end = jnp.where(y > slope, state.high, state.low)
    at_edge = verdict.edge & (jnp.abs((y - slope) * (end - theta)) <= size / y.size)
    # Where the objective gains as much with each doubling, f* = +∞ on the boundary.
    arrived = ~state.active | (error <= size)
    settled = solved | at_edge | (verdict.boundary & (verdict.rising | arrived))
    unbounded = jnp.any(verdict.boundary & verdict.rising & lost)

    def bend(move: Array) -> Array:
        return jnp.sum(curvature * move**2)

    # Next to an edge f is not finite all around: no coordinate there is moved.
    def inside(point: Array) -> Array:
        return f(jnp.where(at_edge, theta, point))

    value, deviation = steadied(
        inside, theta, value, jnp.where(at_edge, 0, slope), bend
    )
    rounding = jnp.finfo(y.dtype).eps * jnp.sum(jnp.abs(y * theta))
    error = jnp.sum(jnp.where(solved, error, 0)) / 2
    uncertain = thresholds.CERTAINTY * deviation
    unit = thresholds.UNIT * jnp.finfo(y.dtype).eps
    exact = (error + uncertain <= thresholds.EXACT * size) | (uncertain <= unit)
    exact = exact & (2 * error <= size) & (rounding <= size)
    result = first_of(
        [
            (invalid, Result.INVALID),
            (jnp.any(verdict.outside), Result.OUTSIDE),
            (jnp.any(~settled & state.active), Result.STEP_LIMIT),
            (jnp.any(~settled) | ~jnp.isfinite(value), Result.STALLED),
            (unbounded, Result.BOUNDARY),
            (~exact, Result.STALLED),
            (jnp.any(~solved), Result.BOUNDARY),
        ],
        Result.CONVERGED,
    )
    number = conjugate_value(jnp.sum(y * theta) - value, result, unbounded)
    null = jnp.zeros((y.size, 0), y.dtype)
    return FlatSolution(
        theta, number, result, state.num_steps, jnp.max(jnp.abs(y - slope)), null
    )


def _slopes(f: FlatFunction, inside: Array):
    """The function (θ, steep) ↦ (f, f_i′, f_i″), the last two `[n]`.

    Where f is not finite, a coordinate with slope and curvature 0 may be outside a
    domain that is guarded by `where(domain, f, inf)`, or an exponential that
    underflows. Its slope becomes NaN, as outside, if it was `steep` before, or if f is
    still not finite once all coordinates but those in question are moved `inside`.
    """

    def both(theta: Array, steep: Array) -> tuple[Array, Array, Array]:
        (value, slope), (_, curvature) = jax.jvp(
            jax.value_and_grad(f), (theta,), (jnp.ones_like(theta),)
        )
        flat = ~jnp.isfinite(value) & (slope == 0) & (curvature == 0)
        quiet = flat & ~steep
        outside = ~jnp.isfinite(f(jnp.where(quiet, theta, inside)))
        guarded = flat & (steep | outside)
        return value, jnp.where(guarded, jnp.nan, slope), curvature

    return both


def _loop(
    slopes, warm: Array, y: Array, max_steps: int, *, skip: Array
) -> BracketState:
    eps = jnp.finfo(y.dtype).eps

    def advance(state: BracketState) -> BracketState:
        value, slope, curvature = slopes(state.trial, state.slope != 0)
        up = state.trial > state.theta
        moved = state.trial != state.theta
        # f′ rises with θ: a slope that falls means that the domain was left silently.
        rise = (slope - state.slope) * jnp.where(up, 1, -1)
        slack = thresholds.FELL * eps * (jnp.abs(slope) + jnp.abs(state.slope))
        good = jnp.isfinite(slope) & (~moved | (rise >= -slack))
        above = jnp.where(good, y < slope, up & moved)
        below = jnp.where(good, y > slope, ~up & moved)
        high = jnp.where(above, state.trial, state.high)
        low = jnp.where(below, state.trial, state.low)
        theta = jnp.where(good, state.trial, state.theta)
        slope = jnp.where(good, slope, state.slope)
        curvature = jnp.where(good, curvature, state.curvature)
        residual, before = y - slope, y - state.slope
        rounding = eps * (jnp.abs(y) + jnp.abs(slope))

        change = jnp.abs(curvature - state.curvature)
        settled = moved & (change <= thresholds.SETTLED * state.curvature)
        floor = settled & (jnp.abs(residual) <= thresholds.SCALAR_FLOOR * rounding)
        floor = floor & (jnp.abs(residual) >= thresholds.HALVED * jnp.abs(before))
        exact = jnp.abs(residual) <= rounding
        # A drift along which no residual changes sign: double the steps each time.
        drift = good & (curvature < thresholds.FLATTER * state.curvature)
        drift = drift & (jnp.sign(residual) == jnp.sign(before))
        drift = drift & ~jnp.isfinite(jnp.where(residual > 0, high, low))
        boost = jnp.where(drift, 2 * state.boost, 1)

        step = _step(y, slope, curvature)
        trial = theta + boost * step
        still = good & (jnp.abs(trial - theta) <= eps * jnp.abs(theta))
        inside = (trial > low) & (trial < high) & good
        trial = jnp.where(inside, trial, _middle(low, high))
        still = still | (jnp.abs(trial - theta) <= eps * jnp.abs(theta))
        stuck = ~jnp.isfinite(trial) | (trial == low) | (trial == high)
        first = state.num_steps == 0
        finished = good & (exact | still | stuck | (floor & ~first))
        # Next to an edge at θ = 0 the bracket never gets short relative to θ.
        spent = jnp.abs(residual * (trial - theta)) <= eps * jnp.abs(state.value)
        finished = finished | (~good & (stuck | still | spent | first))
        active = state.active & ~finished

        def keep(new: Array, old: Array) -> Array:
            return jnp.where(state.active, new, old)

        return BracketState(
            theta=keep(theta, state.theta),
            value=jnp.where(jnp.isfinite(value), value, state.value),
            trial=jnp.where(active, trial, state.trial),
            low=keep(low, state.low),
            high=keep(high, state.high),
            slope=keep(slope, state.slope),
            curvature=keep(curvature, state.curvature),
            boost=keep(boost, state.boost),
            active=active,
            num_steps=state.num_steps + 1,
        )

    infinity = jnp.full_like(warm, jnp.inf)
    begin = BracketState(
        theta=warm,
        value=jnp.zeros((), warm.dtype),
        trial=warm,
        low=-infinity,
        high=infinity,
        slope=jnp.zeros_like(warm),
        curvature=jnp.zeros_like(warm),
        boost=jnp.ones_like(warm),
        active=jnp.broadcast_to(~skip, warm.shape),
        num_steps=jnp.asarray(0, jnp.int32),
    )

    def unfinished(state: BracketState) -> Array:
        return jnp.any(state.active) & (state.num_steps < max_steps)

    return packed_loop(unfinished, advance, begin)


def _step(y: Array, slope: Array, curvature: Array) -> Array:
    """Newton step, on log f′ = log y where f′ and y have one sign.

    The f′ of a cumulant is often near exponential; then one step on the logarithm is
    enough, where the plain step from far below overflows, and from far above gains 1
    each time. For f = exp at 0 and y = 2 the step is log 2, the plain step would be 1.
    """
    residual = y - slope
    alike = jnp.sign(y) * jnp.sign(slope) > 0
    ratio = jnp.where(alike, residual / jnp.where(alike, slope, 1), 0)
    near = jnp.abs(ratio) < 0.5
    far = jnp.log(jnp.where(alike, jnp.abs(y), 1))
    far = far - jnp.log(jnp.where(alike, jnp.abs(slope), 1))
    logarithm = jnp.where(near, jnp.log1p(jnp.where(near, ratio, 0)), far)
    push = jnp.where(alike, logarithm * slope, residual)
    return push / jnp.maximum(curvature, jnp.finfo(y.dtype).tiny)


def _middle(low: Array, high: Array) -> Array:
    """Middle of a bracket; geometric where its ends are of one sign and far apart."""
    product = low * high
    far = (product > 0) & jnp.isfinite(product)
    sign = jnp.sign(low)
    small = jnp.minimum(jnp.abs(low), jnp.abs(high))
    large = jnp.maximum(jnp.abs(low), jnp.abs(high))
    far = far & (large > thresholds.UNEQUAL * small)
    safe_small, safe_large = jnp.where(far, small, 1), jnp.where(far, large, 1)
    geometric = sign * jnp.sqrt(safe_small) * jnp.sqrt(safe_large)
    return jnp.where(far, geometric, low / 2 + high / 2)


def _certified(
    slopes, y: Array, theta: Array, slope: Array, curvature: Array
) -> tuple[Array, Array]:
    """Whether y − f′ changes sign, beyond rounding, next to θ; the error of the value.

    A change of sign proves an interior solution. It is looked for at three times the
    distance of the solution by the residual and its rounding, for several roundings: f′
    may be less exact than a rounding of itself.
    """
    eps, tiny = jnp.finfo(y.dtype).eps, jnp.finfo(y.dtype).tiny
    divisor = jnp.maximum(curvature, tiny)
    steep = slope != 0

    rounding = eps * (jnp.abs(y) + jnp.abs(slope))
    noises = jnp.asarray(thresholds.ROUNDINGS, y.dtype)[:, None] * rounding[None]
    reach = jnp.abs(y - slope)[None] + noises
    # Never 0, which it would be where y = ∇f(0) = 0.
    least = thresholds.STILL * eps * jnp.maximum(jnp.abs(theta), eps)
    widths = thresholds.BESIDE * reach / divisor[None] + least[None]

    def beside(move: Array) -> Array:
        return jnp.stack(slopes(theta + move, steep)[1:])

    sides = jax.lax.map(beside, jnp.concatenate([-widths, widths]))
    (left, left_curvature), (right, right_curvature) = (
        (half[:, 0], half[:, 1]) for half in jnp.split(sides, 2)
    )
    changes = (y[None] - left > noises) & (right - y[None] > noises)
    # Curvatures within a factor: the quadratic model that gives the error holds.
    within = curvature[None] * jnp.asarray(thresholds.SAME_CURVATURE, y.dtype)[:, None]
    model = (jnp.minimum(left_curvature, right_curvature) > within[:1]) & (
        jnp.maximum(left_curvature, right_curvature) < within[1:]
    )
    # And f′ is as exact as assumed, not a staircase of roundings.
    rise = 2 * widths * curvature[None]
    model = model & (jnp.abs(right - left - rise) <= thresholds.STAIRCASE * rise)
    errors = jnp.where(changes & model, reach**2 / divisor[None], jnp.inf)
    least_error = jnp.min(errors, axis=0)
    # Where no change of sign is found: the error by the residual alone.
    error = (jnp.abs(y - slope) + rounding) ** 2 / divisor
    solved = jnp.any(changes & model, axis=0)
    return solved, jnp.where(solved, least_error, error)


def _ray_test(
    slopes, y: Array, origin: Array, theta: Array, residual: Array, needed: Array
) -> Verdict:
    """Verdict by coordinate on the ray from the origin in the residual's direction."""
    eps = jnp.finfo(y.dtype).eps
    # A residual that is all rounding gives no direction: keep that of the iterates.
    spent = jnp.abs(residual) <= thresholds.STILL * eps * jnp.abs(y)
    spent = spent & (theta != origin)
    sign = jnp.where(spent, jnp.sign(theta - origin), jnp.sign(residual))

    def more(state: tuple[Array, RayHistory]) -> Array:
        return jnp.any(needed & unfinished(state[1], state[0]))

    def look(state: tuple[Array, RayHistory]) -> tuple[Array, RayHistory]:
        index, rays = state
        before = jnp.abs(y - sign * rays.gaps[0])
        steep = before > thresholds.VISIBLE * rays.loudest
        value, slope, _ = slopes(origin + rays.length * sign, steep)
        gap = (y - slope) * sign
        noise = eps * (jnp.abs(y) + jnp.abs(slope))
        # Only the sum of f is known: whether f_i is finite is read off the slopes.
        value = jnp.where(jnp.isneginf(value), value, 0 * gap)
        going = needed & unfinished(rays, index)
        longer = extend(rays, jnp.broadcast_to(value, gap.shape), gap, noise)
        keep = lambda new, old: jnp.where(going, new, old)
        return index + 1, jax.tree.map(keep, longer, rays)

    begin = (jnp.asarray(0, jnp.int32), new_rays(jnp.abs(theta - origin)))
    _, rays = packed_loop(more, look, begin)
    return Verdict(*(needed & flag for flag in judge(rays)))


def inverse_product(f: FlatFunction, theta: Array, right: Array) -> Array:
    """`right` over the diagonal of the Hessian; huge where the diagonal underflows."""
    steep = jnp.zeros(theta.shape, bool)
    _, _, curvature = _slopes(f, theta)(theta, steep)
    return right / jnp.maximum(curvature, jnp.finfo(theta.dtype).tiny)

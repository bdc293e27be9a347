"""Conjugate of a sum over coordinates, f(θ) = Σ f_i(θ_i): scalar Newton in brackets.

One gradient serves all coordinates, and its derivative along ones is the diagonal of
the Hessian. Each coordinate has its own bracket, its own test of convergence and its
own verdict, and freezes when done. O(n) time and memory a step.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._result import Result
from bregjax._typing import Array
from bregjax.convex._solvers.boundary import (
    TRAVELLED,
    Ray,
    Verdict,
    extend,
    judge,
    new_rays,
    unfinished,
)
from bregjax.convex._solvers.outcome import (
    FlatFunction,
    Outcome,
    terms,
    value_tolerance,
)


class State(NamedTuple):
    """Carry of the loop, by coordinate [n] but for `num_steps`.

    The residual y − f′ is positive at `low`, negative (or f not finite) at `high`.
    `theta` is the last good point, `trial` the one to look at next.
    """

    theta: Array
    trial: Array
    low: Array
    high: Array
    slope: Array
    curvature: Array
    boost: Array
    active: Array
    num_steps: Array


def minimise(f: FlatFunction, warm: Array, y: Array, max_steps: int) -> Outcome:
    """Solve f_i′(θ_i) = y_i in each coordinate, from `warm`."""
    slopes = _slopes(f)
    invalid = ~jnp.all(jnp.isfinite(y))
    state = _loop(slopes, warm, y, max_steps, skip=invalid)
    theta = state.theta
    value = f(theta)
    slope, curvature = slopes(theta)
    solved, error = _certified(slopes, y, theta, slope, curvature)

    lost = ~solved & ~invalid
    size = value_tolerance(y.dtype) * terms(y, theta, value, slope)
    rounding = jnp.finfo(y.dtype).eps * jnp.sum(jnp.abs(y * theta))
    inexact = (jnp.sum(jnp.where(solved, error, 0)) > size) | (rounding > size)
    verdict, rising = _ray_test(slopes, y, warm, theta, y - slope, lost)
    # Where the objective rises by as much with each step, f* = +∞ on the boundary.
    arrived = ~state.active | (error <= size)
    settled = solved | (verdict.boundary & (rising | arrived))
    unbounded = jnp.any(verdict.boundary & rising)

    conditions = [
        invalid,
        jnp.any(verdict.outside),
        jnp.any(~settled & state.active),
        jnp.any(~settled) | ~jnp.isfinite(value),
        jnp.any(~solved),
        inexact,
    ]
    codes = [
        Result.INVALID,
        Result.OUTSIDE,
        Result.STEP_LIMIT,
        Result.STALLED,
        Result.BOUNDARY,
        Result.STALLED,
    ]
    codes = [jnp.asarray(int(code), jnp.int32) for code in codes]
    result = jnp.select(
        conditions, codes, jnp.asarray(int(Result.CONVERGED), jnp.int32)
    )

    known = (result == Result.CONVERGED) | (result == Result.BOUNDARY)
    infinite = (result == Result.OUTSIDE) | ((result == Result.BOUNDARY) & unbounded)
    number = jnp.sum(y * theta) - value
    number = jnp.where(infinite, jnp.inf, jnp.where(known, number, jnp.nan))
    null = jnp.zeros((y.size, 0), y.dtype)
    return Outcome(
        theta, number, result, state.num_steps, jnp.max(jnp.abs(y - slope)), null
    )


def _slopes(f: FlatFunction):
    """The function θ ↦ (f_i′, f_i″), each [n]."""
    gradient = jax.grad(f)

    def both(theta: Array) -> tuple[Array, Array]:
        return jax.jvp(gradient, (theta,), (jnp.ones_like(theta),))

    return both


def _loop(slopes, warm: Array, y: Array, max_steps: int, *, skip: Array) -> State:
    eps = jnp.finfo(y.dtype).eps

    def advance(state: State) -> State:
        slope, curvature = slopes(state.trial)
        up = state.trial > state.theta
        moved = state.trial != state.theta
        # f′ rises with θ: a slope that falls tells that the domain was left silently.
        rise = (slope - state.slope) * jnp.where(up, 1, -1)
        slack = 64 * eps * (jnp.abs(slope) + jnp.abs(state.slope))
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

        settled = moved & (
            jnp.abs(curvature - state.curvature) <= 0.25 * state.curvature
        )
        floor = settled & (jnp.abs(residual) <= 64 * rounding)
        floor = floor & (jnp.abs(residual) >= 0.5 * jnp.abs(before))
        exact = jnp.abs(residual) <= rounding
        # Drift along which nothing changes sign: lengthen the steps, twice each time.
        drift = good & (curvature < 0.5 * state.curvature)
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
        finished = finished | (~good & (stuck | still | first))
        active = state.active & ~finished

        def keep(new: Array, old: Array) -> Array:
            return jnp.where(state.active, new, old)

        return State(
            theta=keep(theta, state.theta),
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
    begin = State(
        theta=warm,
        trial=warm,
        low=-infinity,
        high=infinity,
        slope=jnp.zeros_like(warm),
        curvature=jnp.zeros_like(warm),
        boost=jnp.ones_like(warm),
        active=jnp.broadcast_to(~skip, warm.shape),
        num_steps=jnp.asarray(0, jnp.int32),
    )

    def unfinished(state: State) -> Array:
        return jnp.any(state.active) & (state.num_steps < max_steps)

    return jax.lax.while_loop(unfinished, advance, begin)


def _step(y: Array, slope: Array, curvature: Array) -> Array:
    """Newton step, on log f′ = log y where both have one sign.

    f′ of a cumulant is often near exponential, and there the logarithm makes one step
    do: the plain step from far below overflows, from far above it gains 1 each time.
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
    far = far & (large > 16 * small)
    safe_small, safe_large = jnp.where(far, small, 1), jnp.where(far, large, 1)
    geometric = sign * jnp.sqrt(safe_small) * jnp.sqrt(safe_large)
    return jnp.where(far, geometric, low / 2 + high / 2)


def _certified(
    slopes, y: Array, theta: Array, slope: Array, curvature: Array
) -> tuple[Array, Array]:
    """Whether r changes sign, beyond rounding, next to θ; and the error of the value.

    A change of sign proves an interior solution. It is looked for at the distance that
    the residual and its rounding make of the solution.
    """
    eps, tiny = jnp.finfo(y.dtype).eps, jnp.finfo(y.dtype).tiny
    noise = eps * (jnp.abs(y) + jnp.abs(slope))
    divisor = jnp.maximum(curvature, tiny)

    def bracketed(reach: Array) -> tuple[Array, Array]:
        # Never 0, which it would be where y = ∇f(0) = 0.
        width = 3 * reach / divisor + 4 * eps * jnp.maximum(jnp.abs(theta), eps)
        left, left_curvature = slopes(theta - width)
        right, right_curvature = slopes(theta + width)
        changes = (y - left > noise) & (right - y > noise)
        # Curvatures within a factor: the quadratic model that gives the error holds.
        least = jnp.minimum(left_curvature, right_curvature)
        most = jnp.maximum(left_curvature, right_curvature)
        model = (least > 0.25 * curvature) & (most < 4 * curvature)
        return changes & model, reach**2 / divisor

    # Once more with a larger rounding: f' may be less exact than a rounding of itself.
    near, error = bracketed(jnp.abs(y - slope) + noise)
    wide, wide_error = bracketed(jnp.abs(y - slope) + 8 * noise)
    return near | wide, jnp.where(near, error, wide_error)


def _ray_test(
    slopes, y: Array, origin: Array, theta: Array, residual: Array, needed: Array
) -> tuple[Verdict, Array]:
    """Verdict by coordinate on the ray from the origin the way the residual points.

    Also whether the gap falls about like 1 / s between a quarter of the way gone and
    its end: the objective grows like a logarithm, and f* = +∞.
    """
    eps = jnp.finfo(y.dtype).eps
    # A residual of nothing but rounding says nothing of the way: go on as it went.
    spent = jnp.abs(residual) <= 4 * eps * jnp.abs(y)
    spent = spent & (theta != origin)
    sign = jnp.where(spent, jnp.sign(theta - origin), jnp.sign(residual))

    def more(state: tuple[Array, Ray, Array]) -> Array:
        return jnp.any(needed & unfinished(state[1], state[0]))

    def look(state: tuple[Array, Ray, Array]) -> tuple[Array, Ray, Array]:
        index, rays, gaps = state
        slope, _ = slopes(origin + rays.length * sign)
        gap = (y - slope) * sign
        noise = eps * (jnp.abs(y) + jnp.abs(slope))
        seen = jnp.where(gap > 64 * noise, gap, 0)
        gaps = jnp.where(index < TRAVELLED, jnp.stack([seen, gaps[0]]), gaps)
        return index + 1, extend(rays, gap, noise), gaps

    begin = (
        jnp.asarray(0, jnp.int32),
        new_rays(jnp.abs(theta - origin)),
        jnp.zeros((2, y.size), y.dtype),
    )
    _, rays, gaps = jax.lax.while_loop(more, look, begin)
    verdict = Verdict(*(needed & flag for flag in judge(rays)))
    return verdict, (gaps[0] > 0.1 * gaps[1]) & (gaps[0] > 0)


def inverse_product(f: FlatFunction, theta: Array, right: Array) -> Array:
    """`right` over the diagonal of the Hessian; huge where that underflows."""
    _, curvature = _slopes(f)(theta)
    return right / jnp.maximum(curvature, jnp.finfo(theta.dtype).tiny)

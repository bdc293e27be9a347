"""Conjugate by a damped Newton method on the dense Hessian: the answer and its code.

For f = log(1 + e^θ), of mean domain (0, 1): y = 0.9 is CONVERGED, with f* = −0.325083;
y = 0 is BOUNDARY, with f* = 0 from iterates that drift to θ = −110; y = 1.2 is OUTSIDE,
with f* = +∞.
"""

import jax.numpy as jnp

from bregjax._result import Result
from bregjax._typing import Array
from bregjax.convex._solvers import thresholds
from bregjax.convex._solvers.acceptance import Acceptance, assess
from bregjax.convex._solvers.boundary import Verdict, ray_test
from bregjax.convex._solvers.dense import diagonal, gauge, null_basis, product
from bregjax.convex._solvers.descent import DescentState, Reason, descend
from bregjax.convex._solvers.frame import first_frame, measure
from bregjax.convex._solvers.outcome import (
    FlatFunction,
    FlatSolution,
    conjugate_value,
    first_of,
    inner_product,
)
from bregjax.convex._solvers.packing import totals
from bregjax.convex._solvers.walls import at_edge


def minimise(
    f: FlatFunction, start: Array, warm: Array, y: Array, max_steps: int
) -> FlatSolution:
    """Solve ∇f(θ) = y from `warm`, with overcomplete directions found at `start`."""
    eps = jnp.finfo(y.dtype).eps
    begin = measure(f, start, first_frame(jnp.zeros((y.size, y.size), y.dtype)))
    anchor = begin.gradient
    null = null_basis(f, start, anchor, begin.curvature)

    # y off the affine hull of the mean domain by more than rounding: there is no θ.
    off_hull = product(null.T, y - anchor)
    off, length, other, bad = totals(off_hull**2, y**2, anchor**2, ~jnp.isfinite(y))
    invalid = bad > 0
    magnitude = jnp.sqrt(length) + jnp.sqrt(other)
    outside_hull = jnp.sqrt(off) > thresholds.OFF_HULL * eps * magnitude

    skip = invalid | outside_hull
    state = descend(f, warm, y, null, max_steps, skip=skip)
    check = assess(f, state, y)
    held = jnp.any(state.walls.held)
    edge = at_edge(f, state.walls, state.point.theta, start, check.allowed)
    lost = ~(check.passed & (edge | ~held)) & ~skip
    verdict = _rays(f, state, check, warm, y, lost)

    # Where each step raises the objective by as much, f* = +∞ on the boundary.
    decrement = state.way.decrement
    blurred = (state.reason == Reason.BLURRED) & (decrement < thresholds.FAR)
    blurred = blurred | (check.near & (state.look.blur > thresholds.BLUR_NEAR))
    steady = state.course.steady >= thresholds.LOGARITHMIC
    # A gap that was seen to vanish fast, while steps gained ever less, is not that of a
    # logarithm, even where rounding spoils the last steps.
    fast = verdict.boundary & verdict.fast & ~verdict.rising
    spoilt = (state.reason == Reason.BLURRED) & ~steady
    blurred = blurred & ~(fast & ~steady)
    rising = ((steady & verdict.rising) | blurred) & ~held
    limit = jnp.maximum(check.allowed, thresholds.UNIT * eps)
    # The decrement by the Hessians around the point must be small too: a y inside would
    # have been solved. A NaN, where a Hessian without curvature has no factor, says
    # nothing, nor does a decrement that a rounding makes; where the last steps are
    # spoilt, the least decrement says how much was left to gain.
    seen, blur = state.look.decrement, state.look.blur
    last = jnp.where(spoilt, state.course.best, decrement)
    at_limit = jnp.fmax(last, jnp.where(seen <= blur, last, seen)) <= limit
    falling = verdict.boundary & ~check.near & (~held | edge)
    finite = falling & fast
    # Where steps ended early with a residual above rounding, a small λ² comes from a
    # wrong Hessian, as of a ψ that loses its digits next to a wall.
    early = (state.reason == Reason.STUCK) | (state.reason == Reason.OUT_OF_STEPS)
    bound = thresholds.UNSETTLED * eps**0.5
    bound = bound * (1 + jnp.abs(y) + jnp.abs(state.point.gradient))
    early = early & ~jnp.all(jnp.abs(check.residual) <= bound)
    result = first_of(
        [
            (invalid, Result.INVALID),
            (outside_hull, Result.OUTSIDE),
            (check.passed & ~held, Result.CONVERGED),
            (check.passed & edge, Result.BOUNDARY),
            (blurred & ~held, Result.BOUNDARY),
            (verdict.outside & (held | ~check.near), Result.OUTSIDE),
            (falling & rising & ~held, Result.BOUNDARY),
            (finite & at_limit & check.measured & ~early, Result.BOUNDARY),
            (state.reason == Reason.OUT_OF_STEPS, Result.STEP_LIMIT),
        ],
        Result.STALLED,
    )

    # Nᵀθ is that of the start: the part of y off the hull, a rounding, must not enter.
    theta = state.point.theta
    stray = jnp.sum(off_hull * product(null.T, theta))
    high, low = inner_product(y, theta)
    number = (high - check.value) + (low - stray)
    number = conjugate_value(number, result, rising)
    residual = jnp.max(jnp.abs(jnp.where(invalid, y - anchor, check.residual)))
    return FlatSolution(theta, number, result, state.num_steps, residual, null)


def _rays(
    f: FlatFunction,
    state: DescentState,
    check: Acceptance,
    warm: Array,
    y: Array,
    lost: Array,
) -> Verdict:
    """Verdict along seven rays from the warm start, one of which may lead to infinity.

    They are the way to the last point; the last step; the residual; the step without
    its small components; the coordinates that the step moves farthest; the way to the
    last point in coordinates that have no curvature left there; and the last step that
    was more than rounding, to three digits.
    """
    escape = gauge(state.point.theta - warm, state.frame.null)
    ray = jnp.where(jnp.isfinite(state.way.ray), state.way.ray, 0)
    far = jnp.abs(ray) / (1 + jnp.abs(state.point.theta))
    drift = jnp.where(far > thresholds.ADRIFT * jnp.max(far), ray, 0)
    variances = diagonal(state.point.curvature)
    still = variances * escape**2 < thresholds.SPENT * jnp.finfo(y.dtype).eps ** 0.5
    # `_sparse`: a coordinate that is 0 but for rounding has not moved far.
    spent = _sparse(jnp.where(still & ~state.frame.fitted, escape, 0))
    trend = _coarse(jnp.where(jnp.isfinite(state.course.trend), state.course.trend, 0))
    rays = [escape, ray, check.residual, _sparse(ray), drift, spent, trend]
    reach = jnp.max(jnp.abs(escape))
    clean = jnp.asarray([False, False, False, True, True, True, True])
    return ray_test(f, y, warm, jnp.stack(rays), clean, reach, lost)


def _sparse(step: Array) -> Array:
    """The step without components so small that they may be rounding."""
    size = jnp.abs(step)
    return jnp.where(size > thresholds.SPARSE * jnp.max(size), step, 0)


def _coarse(step: Array) -> Array:
    """The step to three digits of its largest component.

    Small moves of other coordinates become 0, and components that should be equal, as
    those of the categories left where one dies out, become equal.
    """
    largest = jnp.max(jnp.abs(step))
    unit = thresholds.SPARSE * jnp.where(largest > 0, largest, 1)
    return unit * jnp.round(step / unit)

"""Conjugate by a damped Newton method on the dense Hessian: the answer and its code."""

import jax
import jax.numpy as jnp

from bregjax._result import Result
from bregjax._typing import Array
from bregjax.convex._solvers.boundary import Verdict, ray_test
from bregjax.convex._solvers.certificate import Certificate, certified
from bregjax.convex._solvers.dense import gauge, null_basis, product
from bregjax.convex._solvers.descent import (
    BLUR,
    BLURRED,
    DRIFTING,
    FAR,
    OUT_OF_STEPS,
    State,
    descend,
)
from bregjax.convex._solvers.frame import first_frame, measure
from bregjax.convex._solvers.outcome import FlatFunction, Outcome, inner_product


def minimise(
    f: FlatFunction, start: Array, warm: Array, y: Array, max_steps: int
) -> Outcome:
    """Solve ∇f(θ) = y from `warm`; `start` tells the overcomplete directions."""
    gradient = jax.grad(f)
    eps = jnp.finfo(y.dtype).eps
    begin = measure(f, start, first_frame(jnp.zeros((y.size, y.size), y.dtype)))
    anchor = begin.gradient
    null = null_basis(gradient, start, anchor, begin.curvature)

    # y off the affine hull of the mean domain by more than rounding: no θ will do.
    off_hull = product(null.T, y - anchor)
    magnitude = jnp.sqrt(jnp.sum(y**2)) + jnp.sqrt(jnp.sum(anchor**2))
    outside_hull = jnp.sqrt(jnp.sum(off_hull**2)) > 100 * eps * magnitude
    invalid = ~jnp.all(jnp.isfinite(y))

    skip = invalid | outside_hull
    state = descend(f, warm, y, null, max_steps, skip=skip)
    check = certified(f, state, y)
    verdict = _rays(f, state, check, warm, y, ~(check.passed | skip))

    # Where the objective rises by as much with each step, f* = +∞ on the boundary.
    blurred = (state.reason == BLURRED) & (state.way.decrement < FAR)
    blurred = blurred | (check.near & (state.look.blur > BLUR / 16))
    rising = (state.steady >= 2) | blurred
    limit = jnp.maximum(check.allowed, eps**2 * state.scale)
    at_limit = (state.way.decrement <= limit) | (state.reason == DRIFTING)
    conditions = [
        invalid,
        outside_hull,
        check.passed,
        blurred,
        verdict.outside & ~check.near,
        verdict.boundary & ~check.near & (rising | at_limit),
        state.reason == OUT_OF_STEPS,
    ]
    codes = [
        Result.INVALID,
        Result.OUTSIDE,
        Result.CONVERGED,
        Result.BOUNDARY,
        Result.OUTSIDE,
        Result.BOUNDARY,
        Result.STEP_LIMIT,
    ]
    codes = [jnp.asarray(int(code), jnp.int32) for code in codes]
    result = jnp.select(conditions, codes, jnp.asarray(int(Result.STALLED), jnp.int32))

    # N'θ is the start's: the part of y off the hull, rounding, must not enter.
    theta = state.point.theta
    stray = jnp.sum(off_hull * product(null.T, theta))
    high, low = inner_product(y, theta)
    number = (high - check.value) + (low - stray)
    infinite = (result == Result.OUTSIDE) | ((result == Result.BOUNDARY) & rising)
    known = (result == Result.CONVERGED) | (result == Result.BOUNDARY)
    number = jnp.where(infinite, jnp.inf, jnp.where(known, number, jnp.nan))
    residual = jnp.max(jnp.abs(jnp.where(invalid, y - anchor, check.residual)))
    return Outcome(theta, number, result, state.num_steps, residual, null)


def _rays(
    f: FlatFunction,
    state: State,
    check: Certificate,
    warm: Array,
    y: Array,
    lost: Array,
) -> Verdict:
    """Verdict along what may be the direction of escape.

    From the warm start the way to the last point, the last step, the residual and the
    step without its small components; and the step from a point far out, before the
    roundings that come later, no farther than itself.
    """
    escape = gauge(state.point.theta - warm, state.frame.null)
    ray = jnp.where(jnp.isfinite(state.way.ray), state.way.ray, 0)
    rays = jnp.stack([escape, ray, check.residual, _sparse(ray)])
    reach = jnp.max(jnp.abs(escape))
    clean = jnp.asarray([False, False, False, True])
    return ray_test(f, y, warm, rays, clean, reach, lost)


def _sparse(step: Array) -> Array:
    """Step less the components that rounding alone may have put there."""
    size = jnp.abs(step)
    return jnp.where(size > 1e-3 * jnp.max(size), step, 0)

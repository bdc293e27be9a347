"""Tests that a point solves ∇f(θ) = y, and that the value there is accurate.

A small Newton decrement proves nothing where the Hessian is singular to rounding: the
error along a direction of eigenvalue μ is noise² / μ, and the ridge hides that error.
So the test in the loop only ends the loop; whether the point counts as converged is
decided here, once, from

1. a Cholesky factor whose pivots are well above the ridge;
2. Hessians measured some roundings of θ away from the Newton point, which must agree
   with each other *in every direction*: ‖L⁻¹(C₂ − C₁)L⁻ᵀ‖ ≤ ¼. They do not where the
   rounding of the Hessian reaches its smallest eigenvalue, and where iterates drift to
   infinity;
3. the error of the value, λ²/2 with λ enlarged by what a rounding of y and ∇f can add;
4. the rounding of f itself, measured around the point. The rounding of <y, θ> is left
   out: <y, θ> is computed in twice the precision.

For f = exp at θ = 0.7 for y = 2: r = −0.013753, H = 2.013753, λ² = 9.392e-5. The value
2 θ − e^θ = −0.613753 is λ²/2 = 4.7e-5 below f*(2) = 2 log 2 − 2 = −0.613706.
"""

from typing import NamedTuple

import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.convex._solvers import thresholds
from bregjax.convex._solvers.dense import diagonal, product
from bregjax.convex._solvers.descent import DescentState
from bregjax.convex._solvers.outcome import FlatFunction, terms, value_tolerance
from bregjax.convex._solvers.rounding import steadied


class Acceptance(NamedTuple):
    """Whether a point solves ∇f(θ) = y, and the numbers behind that verdict.

    Attributes:
        passed: Whether the value is right.
        near: Whether y, to its rounding, has a maximiser next to the point.
        value: f at the point, with less rounding than one evaluation.
        measured: Whether the rounding of `value` is small.
        residual: y − ∇f(θ) without its overcomplete part, `[n]`.
        allowed: The error of the value that counts as converged.
    """

    passed: Array
    near: Array
    value: Array
    measured: Array
    residual: Array
    allowed: Array


def assess(f: FlatFunction, state: DescentState, y: Array) -> Acceptance:
    """Judge the point where the iteration ended."""
    point, frame, look = state.point, state.frame, state.look
    theta = point.theta
    eps = jnp.finfo(theta.dtype).eps
    # A variance of 0 is right in a coordinate in which f is affine, and only there.
    null = product(frame.dual.T, frame.null)
    affine = jnp.any(null**2 > thresholds.MOSTLY, axis=1)
    curved = jnp.all((diagonal(point.curvature) > 0) | affine)
    steady = (
        curved & look.firm & (look.change <= thresholds.AGREEMENT**2) & (look.num > 0)
    )

    decrement = jnp.maximum(state.way.decrement, look.decrement)
    error = (jnp.sqrt(decrement) + jnp.sqrt(look.blur)) ** 2
    # The Hessian of a decrement above its rounding that steps do not lower is wrong.
    size = value_tolerance(theta.dtype) * terms(y, theta, point.value, point.gradient)
    low = decrement <= jnp.maximum(
        thresholds.ROUNDED * look.blur, thresholds.SETTLED_SHARE * size
    )
    held = state.walls.held

    def bend(move: Array) -> Array:
        local = product(frame.dual.T, move)
        return jnp.sum(local * product(point.curvature, local))

    def unheld(theta: Array) -> Array:
        return f(jnp.where(held, point.theta, theta))

    slope = jnp.where(held, 0, point.gradient)
    value, deviation = steadied(unheld, theta, point.value, slope, bend)
    uncertain = thresholds.CERTAINTY * deviation
    exact = error / 2 + uncertain <= thresholds.EXACT * size
    exact = exact | ((error <= size) & (uncertain <= thresholds.UNIT * eps))
    return Acceptance(
        passed=steady & low & (error <= size) & exact,
        near=steady & (decrement < thresholds.NEAR),
        value=value,
        measured=uncertain
        <= jnp.maximum(thresholds.EXACT * size, thresholds.UNIT * eps),
        residual=product(frame.dual, state.way.residual),
        allowed=size,
    )

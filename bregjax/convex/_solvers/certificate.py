"""Evidence that a point solves ∇f(θ) = y, and how accurate the value there is.

A small Newton decrement proves nothing when the Hessian is singular to rounding: the
error along a direction of eigenvalue μ is noise² / μ, and the ridge hides it. So the
loop's own stopping test only ends the loop; whether the point counts as converged is
decided here, once, from

1. a Cholesky factor whose pivots are well above the ridge;
2. Hessians measured around the Newton point, some roundings of θ off, which must agree
   with each other *in every direction*: ‖L⁻¹(C₂ − C₁)L⁻ᵀ‖ ≤ ¼. This fails where the
   Hessian's rounding reaches its smallest eigenvalue, and where iterates drift to
   infinity;
3. the error of the value, λ² enlarged by what a rounding of y and ∇f can add;
4. the rounding of f itself, measured around the point. That of <y, θ> is left out: it
   is computed in twice the precision.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.convex._solvers.dense import diagonal, product
from bregjax.convex._solvers.descent import State, jitter
from bregjax.convex._solvers.outcome import FlatFunction, Point, terms, value_tolerance

AGREEMENT = 0.25
SAMPLES = 16
CERTAINTY = 6  # standard errors
NEAR = 1 / 16  # λ² under which a steady Hessian means that there is a solution


class Certificate(NamedTuple):
    """Whether the point solves the equation, and what that was judged by.

    Attributes:
        passed: Whether the value is right.
        near: Whether y, to its rounding, has a maximiser next to the point.
        value: f at the point, with less rounding than one evaluation.
        residual: y − ∇f(θ) without its overcomplete part, shape ``[n]``.
        allowed: The error of the value that counts as converged.
    """

    passed: Array
    near: Array
    value: Array
    residual: Array
    allowed: Array


def steadied(f: FlatFunction, point: Point) -> tuple[Array, Array]:
    """f at a point with less of its rounding, and the standard error of that.

    The mean over points a few roundings away, each less the tangent's share. The
    roundings are not independent: on 2,257 Gaussians of condition up to 1e6 in float32
    the mean was off by 1.5 standard errors (root mean square), 4.6 in one of 100, 15 at
    most, which `CERTAINTY` makes up for.
    """
    patterns = jnp.arange(SAMPLES, dtype=point.theta.dtype)
    around = jax.vmap(jitter, in_axes=(None, 0))(point.theta, patterns)
    moves = around - point.theta[None, :]
    tangent = jnp.sum(moves * point.gradient[None, :], axis=1)
    noise = jax.vmap(f)(around) - point.value - tangent
    mean = jnp.mean(noise)
    error = jnp.sqrt(jnp.sum((noise - mean) ** 2) / (SAMPLES * (SAMPLES - 1)))
    return point.value + jnp.where(jnp.isfinite(mean), mean, 0), error


def certified(f: FlatFunction, state: State, y: Array) -> Certificate:
    """Judge the point where the iteration ended."""
    point, frame, look = state.point, state.frame, state.look
    theta = point.theta
    # No curvature at all is right along a coordinate that f is affine in, and only
    # there.
    null = product(frame.dual.T, frame.null)
    affine = jnp.any(null**2 > 0.5, axis=1)
    curved = jnp.all((diagonal(point.curvature) > 0) | affine)
    steady = curved & look.firm & (look.change <= AGREEMENT**2) & (look.num > 0)

    decrement = jnp.maximum(state.way.decrement, look.decrement)
    error = (jnp.sqrt(decrement) + jnp.sqrt(look.blur)) ** 2
    # A decrement above its rounding that steps don't bring down has a wrong Hessian.
    size = value_tolerance(theta.dtype) * terms(y, theta, point.value, point.gradient)
    low = decrement <= jnp.maximum(100 * look.blur, 1e-3 * size)
    value, deviation = steadied(f, point)
    exact = error / 2 + CERTAINTY * deviation <= 1.5 * size
    return Certificate(
        passed=steady & low & (error <= size) & exact,
        near=steady & (decrement < NEAR),
        value=value,
        residual=product(frame.dual, state.way.residual),
        allowed=size,
    )

"""Evidence that a point solves ∇f(θ) = y, and how accurate the value there is.

A small Newton decrement proves nothing when the Hessian is singular to rounding: the
error along a direction of eigenvalue μ is noise² / μ, and the ridge hides it. So the
loop's own stopping test only ends the loop; whether the point counts as converged is
decided here, once, from

1. a Cholesky factor of C + QQᵀ without a ridge;
2. the Hessian at the next Newton point, moved by roundings of θ besides, which must
   agree with the first *relative to it in every direction*: ‖L⁻¹(C₂ − C₁)L⁻ᵀ‖ ≤ ¼. This
   fails where the Hessian's rounding reaches its smallest eigenvalue, and where
   iterates drift to infinity;
3. the error of the value, λ² enlarged by what a rounding of y and ∇f can add;
4. the rounding of the value itself, from <y, θ> and, measured next to the point, f.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from bregjax._typing import Array
from bregjax.convex._solvers.dense import gauge, scaled_hessian
from bregjax.convex._solvers.outcome import FlatFunction, Point, terms, value_tolerance

AGREEMENT = 0.25
SAMPLES = 5


class Certificate(NamedTuple):
    """Whether the point solves the equation, and what that was judged by.

    `residual` [n] is y − ∇f(θ) without its overcomplete part, `allowed` the error of
    the value that counts as converged.
    """

    passed: Array
    residual: Array
    allowed: Array


def jitter(theta: Array, pattern: int = 0) -> Array:
    """θ with each component moved by one to three roundings, in a fixed pattern."""
    eps = jnp.finfo(theta.dtype).eps
    index = jnp.arange(theta.size) + pattern
    odd = (index // 3 + index + pattern * (index // 2)) % 2
    sizes = (1 + index % 3) * jnp.where(odd == 0, 1, -1)
    return theta + eps * sizes.astype(theta.dtype) * theta


def unsteadiness(f: FlatFunction, point: Point) -> Array:
    """Rounding of f at a point: how it differs from its tangent next to it, at most."""
    near = jnp.stack([jitter(point.theta, pattern) for pattern in range(SAMPLES)])
    moves = near - point.theta[None, :]
    predicted = point.value + jnp.sum(moves * point.gradient[None, :], axis=1)
    return jnp.max(jnp.abs(jax.vmap(f)(near) - predicted))


def certified(f: FlatFunction, point: Point, y: Array, null: Array) -> Certificate:
    """Examine a point; takes one more Hessian, at the unridged Newton point."""
    theta = point.theta
    eps = jnp.finfo(theta.dtype).eps
    # No curvature at all is right along a coordinate that f is affine in, and only
    # there.
    diagonal = jnp.diag(point.curvature)
    affine = jnp.any(null**2 > 0.5, axis=1)
    curved = jnp.all((diagonal > 0) | affine)
    scale = jnp.where(diagonal > 0, jnp.sqrt(diagonal), 1)
    scaled = scaled_hessian(point.curvature, scale, null)
    factor = jnp.linalg.cholesky(scaled.matrix)
    identity = jnp.eye(theta.size, dtype=theta.dtype)
    inverse = solve_triangular(factor, identity, lower=True)  # L⁻¹
    residual = gauge((y - point.gradient) / scale, scaled.null)
    white = jnp.matmul(inverse, residual, precision="highest")
    step = jnp.matmul(inverse.T, white, precision="highest") / scale
    there = jitter(theta + gauge(step, null))

    change = (jax.hessian(f)(there) - point.curvature) / jnp.outer(scale, scale)
    relative = jnp.matmul(
        jnp.matmul(inverse, change, precision="highest"), inverse.T, precision="highest"
    )
    agree = jnp.sum(relative**2) <= AGREEMENT**2

    rounding = eps * (jnp.abs(y) + jnp.abs(point.gradient)) / scale
    spread = jnp.sum(inverse**2, axis=0)  # diagonal of (C + QQᵀ)⁻¹
    noise = jnp.sum(rounding**2 * spread)
    decrement = jnp.sum(white**2)
    error = (jnp.sqrt(decrement) + jnp.sqrt(noise)) ** 2
    # A decrement above its rounding that steps don't bring down has a wrong Hessian.
    size = value_tolerance(theta.dtype) * terms(y, theta, point.value, point.gradient)
    low = decrement <= jnp.maximum(100 * noise, 1e-3 * size)
    lost = eps * jnp.sum(jnp.abs(y * theta)) + unsteadiness(f, point)
    passed = curved & agree & low & (error <= size) & (lost <= 1.5 * size)
    return Certificate(passed, residual * scale, size)

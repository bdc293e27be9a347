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
4. the rounding of the value itself, from <y, θ> and, measured at the second point, f.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from bregjax._typing import Array
from bregjax.convex._dense import gauge, scaled_hessian
from bregjax.convex._outcome import FlatFunction, terms, value_tolerance

AGREEMENT = 0.25


class Certificate(NamedTuple):
    """Whether the point solves the equation, and what that was judged by.

    `residual` [n] is y − ∇f(θ) without its overcomplete part, `allowed` the error of
    the value that counts as converged.
    """

    passed: Array
    residual: Array
    allowed: Array


def jitter(theta: Array) -> Array:
    """θ with each component moved by one to three roundings, in a fixed pattern."""
    eps = jnp.finfo(theta.dtype).eps
    index = jnp.arange(theta.size)
    sizes = (1 + index % 3) * jnp.where((index // 3 + index) % 2 == 0, 1, -1)
    return theta + eps * sizes.astype(theta.dtype) * theta


def certified(
    f: FlatFunction, theta: Array, y: Array, null: Array, step: Array
) -> Certificate:
    """Examine θ; `step` is the Newton direction there."""
    eps = jnp.finfo(theta.dtype).eps
    points = jnp.stack([theta, jitter(theta + step)])
    values, slopes = jax.vmap(jax.value_and_grad(f))(points)
    curvatures = jax.vmap(jax.hessian(f))(points)

    # No curvature at all is right along a coordinate that f is affine in, and only there.
    diagonal = jnp.diag(curvatures[0])
    affine = jnp.any(null**2 > 0.5, axis=1)
    curved = jnp.all((diagonal > 0) | affine)
    scale = jnp.where(diagonal > 0, jnp.sqrt(diagonal), 1)
    scaled = scaled_hessian(curvatures[0], scale, null)
    factor = jnp.linalg.cholesky(scaled.matrix)
    identity = jnp.eye(theta.size, dtype=theta.dtype)
    inverse = solve_triangular(factor, identity, lower=True)  # L⁻¹

    change = (curvatures[1] - curvatures[0]) / jnp.outer(scale, scale)
    relative = jnp.matmul(
        jnp.matmul(inverse, change, precision="highest"), inverse.T, precision="highest"
    )
    agree = jnp.sum(relative**2) <= AGREEMENT**2

    residual = gauge((y - slopes[0]) / scale, scaled.null)
    decrement = jnp.sum(jnp.matmul(inverse, residual, precision="highest") ** 2)
    rounding = eps * (jnp.abs(y) + jnp.abs(slopes[0])) / scale
    spread = jnp.sum(inverse**2, axis=0)  # diagonal of (C + QQᵀ)⁻¹
    noise = jnp.sum(rounding**2 * spread)
    error = (jnp.sqrt(decrement) + jnp.sqrt(noise)) ** 2

    moved = points[1] - points[0]
    predicted = jnp.sum((slopes[0] + slopes[1]) / 2 * moved)
    unsteady = jnp.abs(values[1] - values[0] - predicted)
    lost = eps * jnp.sum(jnp.abs(y * theta)) + unsteady

    size = value_tolerance(theta.dtype) * terms(y, theta, values[0], slopes[0])
    passed = curved & agree & (error <= size) & (lost <= size)
    return Certificate(passed, residual * scale, size)

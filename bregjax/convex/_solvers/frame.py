"""Coordinates in which Hessians are measured.

The entries of a Hessian are exact to roundings of its largest entry: where the
variances of two directions that are not axes differ by 1 / eps, the smaller variance is
lost for good. A covariance of condition κ makes second moments of condition κ², so this
happens at κ = 1e4 in float32 and at 1e8 in float64. A Hessian measured *along the
columns of a matrix B*, as BᵀHB with the products H b_j by forward differentiation,
keeps both variances. Once B whitens the Hessian of a near point all variances are near
1, and the error left is the rounding of θ, y and ∇f, some κ·eps.

For f = ½ (θ₁ + θ₂)² + ½ 1e-8 (θ₁ − θ₂)² in float32 all entries of the Hessian are 1,
and the variance along (1, −1) is lost; with B = [[1, 1], [1, −1]] the matrix BᵀHB is
diag(4, 4e-8).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from bregjax._typing import Array
from bregjax.convex._solvers.dense import ScaledHessian, product
from bregjax.convex._solvers.outcome import FlatFunction, Point
from bregjax.convex._solvers.packing import totals


class Frame(NamedTuple):
    """Coordinates z of a step B z."""

    basis: Array  # B, [n, n]
    dual: Array  # B⁻ᵀ, [n, n]
    null: Array  # overcomplete directions N in θ, [n, n]
    fitted: Array  # whether B is no longer the identity


class Whitening(NamedTuple):
    """Measurements by a Cholesky factor of the Hessian.

    Attributes:
        point: The point, its curvature in the new frame after a refit.
        frame: The frame.
        blur: Squared length, in the norm of H⁻¹, of a rounding of y and ∇f: twice the
            error of the value that this rounding makes. For a conjugate that grows like
            a logarithm towards the boundary a length of 1 reaches the boundary.
        change: Squared Frobenius norm of the change to a second Hessian, relative to
            the first one in every direction.
        decrement: Squared length of a residual in the norm of H⁻¹.
        step: Newton step of that residual, `[n]`.
    """

    point: Point
    frame: Frame
    blur: Array
    change: Array
    decrement: Array
    step: Array


def first_frame(null: Array) -> Frame:
    """The frame of the coordinates of θ themselves."""
    identity = jnp.eye(null.shape[0], dtype=null.dtype)
    return Frame(identity, identity, null, jnp.asarray(False))


def measure(f: FlatFunction, theta: Array, frame: Frame) -> Point:
    """f, ∇f and BᵀHB at θ, by one linearisation."""

    def along(column: Array) -> tuple[Array, Array, Array]:
        primal, tangent = jax.jvp(jax.value_and_grad(f), (theta,), (column,))
        return *primal, tangent[1]

    axes = (None, None, 1)
    value, slope, bend = jax.vmap(along, in_axes=1, out_axes=axes)(frame.basis)
    return Point(theta, value, slope, product(frame.basis.T, bend))


def whiten(
    point: Point,
    y: Array,
    frame: Frame,
    scaled: ScaledHessian,
    factor: Array,
    other: Array,
    residual: Array,
    *,
    refit: Array,
    needed: Array,
) -> Whitening:
    """Blur, change and decrement at a point, and the frame that whitens its Hessian.

    Args:
        point: The point, curvature in the frame.
        y: Mean parameters, `[n]`.
        frame: The present frame.
        scaled: The scaled Hessian in the present frame.
        factor: Cholesky factor of the scaled Hessian, `[n, n]`.
        other: The second Hessian, in the present frame.
        residual: A residual in the present frame, `[n]`.
        refit: Whether to go over to the new frame.
        needed: Whether to compute anything; where False all measurements are 0.
    """

    def compute(frame: Frame) -> Whitening:
        identity = jnp.eye(factor.shape[0], dtype=factor.dtype)
        inverse = solve_triangular(factor, identity, lower=True) / scaled.scale[None, :]
        basis = product(frame.basis, inverse.T)
        dual = product(frame.dual, scaled.scale[:, None] * factor)
        white = product(product(inverse, point.curvature), inverse.T)
        change = product(product(inverse, other - point.curvature), inverse.T)
        white_residual = product(inverse, residual)
        eps = jnp.finfo(y.dtype).eps
        rounding = eps * (jnp.abs(y) + jnp.abs(point.gradient))
        blur, change = totals((rounding[:, None] * basis) ** 2, change**2)
        new = Frame(basis, dual, frame.null, jnp.ones_like(frame.fitted))
        return Whitening(
            point._replace(curvature=jnp.where(refit, white, point.curvature)),
            jax.tree.map(lambda new, old: jnp.where(refit, new, old), new, frame),
            blur,
            change,
            jnp.sum(white_residual**2),
            product(basis, white_residual),
        )

    def skip(frame: Frame) -> Whitening:
        zero = jnp.zeros((), y.dtype)
        return Whitening(point, frame, zero, zero, zero, jnp.zeros_like(y))

    return jax.lax.cond(needed, compute, skip, frame)

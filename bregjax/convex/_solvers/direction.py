"""The Newton direction."""

from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

from bregjax._typing import Array
from bregjax.convex._solvers import thresholds
from bregjax.convex._solvers.dense import (
    ScaledHessian,
    diagonal,
    gauge,
    product,
    ridge_cholesky,
    scaled_hessian,
)
from bregjax.convex._solvers.frame import Frame
from bregjax.convex._solvers.outcome import Point


class Direction(NamedTuple):
    """Newton direction d, the squared decrement λ² = <r, d> and the projected r.

    `ray` is d with the part along N that weighs least in <|∇f|, |d|>: for a category
    that dies out its own component alone, where d moves all the others as well.
    `local` and `residual` are the ray and r in the coordinates of the frame.
    """

    step: Array  # [n]
    ray: Array  # [n]
    local: Array  # [n]
    decrement: Array
    residual: Array  # [n]


def resolved(point: Point, frame: Frame) -> Array:
    """Which variances are more than the rounding of a mean's square.

    In a fitted frame they have been measured along their own directions.
    """
    noise = thresholds.UNRESOLVED * jnp.finfo(point.theta.dtype).eps * point.gradient**2
    return frame.fitted | (diagonal(point.curvature) > noise)


def floored(
    point: Point, residual: Array, frame: Frame, plain: Array
) -> tuple[Array, Array]:
    """H with a floor under its diagonal, and D = diag(H)^½; all in the frame.

    The first floor, left out where `plain`, is what the rounding of a mean makes of a
    variance: a probability of 1 − 1e-16 has none left, while the other entries of its
    row still have noise, and the matrix would be indefinite. The second serves the
    scaling alone: an underflown curvature must not give a zero direction.
    """
    info = jnp.finfo(residual.dtype)
    variances = diagonal(point.curvature)
    noise = thresholds.UNRESOLVED * info.eps * point.gradient**2
    lift = jnp.where(resolved(point, frame) | plain, 0, noise - variances)
    reach = jnp.max(jnp.abs(frame.basis) / (1 + jnp.abs(point.theta))[:, None], axis=0)
    least = info.eps * jnp.abs(residual) * reach
    square = jnp.maximum(variances + lift, least)
    scale = jnp.where(square > info.tiny, jnp.sqrt(square), 1)
    return point.curvature + jnp.diag(lift), scale


def newton_direction(
    point: Point, y: Array, frame: Frame, plain: Array
) -> tuple[Direction, ScaledHessian, Array]:
    """Direction of f − <y, ·> at a point, the scaled Hessian and its factor.

    `plain` asks for the Hessian as it is, for judging it.
    """
    residual = product(frame.basis.T, y - point.gradient)
    curvature, scale = floored(point, residual, frame, plain)
    scaled = scaled_hessian(curvature, scale, product(frame.dual.T, frame.null))
    target = gauge(residual / scale, scaled.null)
    factor = ridge_cholesky(scaled.matrix)
    solution = cho_solve((factor, True), target)
    local = solution / scale
    ray = product(frame.basis, local)
    way = Direction(
        step=gauge(ray, frame.null),
        ray=ray,
        local=local,
        decrement=jnp.sum(target * solution),
        residual=target * scale,
    )
    return way, scaled, factor

"""The Newton direction, with floors under variances that rounding has taken.

In float64 a probability of 1 − 1e-16 has the variance 0 by rounding, where 1e-16 is
right; the floor is `UNRESOLVED` = 64 eps = 1.4e-14.
"""

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

    `ray` is d with the component along N for which <|∇f|, |d|> is least: where a
    category dies out the ray moves its coordinate alone, d moves the others as well.
    `local` and `residual` are the ray and r in the coordinates of the frame.
    """

    step: Array  # [n]
    ray: Array  # [n]
    local: Array  # [n]
    decrement: Array
    residual: Array  # [n]


def resolved(point: Point, frame: Frame) -> Array:
    """Which variances are above the rounding of the squared mean.

    In a fitted frame all are: variances are measured along their own directions there.
    """
    noise = thresholds.UNRESOLVED * jnp.finfo(point.theta.dtype).eps * point.gradient**2
    return frame.fitted | (diagonal(point.curvature) > noise)


def floored(
    point: Point, residual: Array, frame: Frame, plain: Array
) -> tuple[Array, Array]:
    """H with a floor under its diagonal, and D = diag(H)^½; all in the frame.

    The first floor, left out where `plain`, is the rounding of a squared mean: the
    variance of a probability of 1 − 1e-16 is lost, while the other entries of its row
    still have noise, and the matrix would be indefinite. The second floor is for D
    alone: a curvature that underflows must not give a zero direction.
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

    `plain` asks for the Hessian without floors, as `acceptance.py` needs it.
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

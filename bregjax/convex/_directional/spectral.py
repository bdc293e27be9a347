"""Rules for eigenvalues and singular values, also where they coincide.

Eigenvalues 1, 1 and 2 of diag(1, 1, 2) along [[0, 3, 0], [3, 0, 0], [0, 0, 5]]: the
block of the equal ones is [[0, 3], [3, 0]], with the eigenvalues −3 and 3, so that the
slopes are −3, 3 and 5. The JVP gives the diagonal of the block: 0, 0 and 5.
"""

import jax
import jax.numpy as jnp
from jax import lax

from bregjax._typing import Array
from bregjax.convex._directional.ray import Doubt, Ray, unknown
from bregjax.convex._directional.rules import Rule


def _same_group(values: Array, scale: Array) -> tuple[Array, Array]:
    """Groups of ascending values that agree to rounding.

    Returns:
        The number of the group of each value, and whether each pair shares a group.
    """
    size = values.shape[-1]
    near = 16 * size * jnp.finfo(values.dtype).eps * scale
    jump = jnp.diff(values, axis=-1) > near[..., None]
    group = jnp.cumsum(jump, axis=-1, dtype=jnp.int32)
    first = jnp.zeros((*group.shape[:-1], 1), jnp.int32)
    group = jnp.concatenate([first, group], axis=-1)
    return group, group[..., :, None] == group[..., None, :]


def _eigh_rule(doubts, eqn, rays):
    """Slopes of eigenvalues; those of equal ones from the block of VᵀA'V.

    References:
        Lancaster (1964), On eigenvalues of matrices dependent on a parameter.
    """
    (matrix,) = rays
    bind = lambda a: tuple(eqn.primitive.bind(a, **eqn.params))
    (vectors, values), slopes = jax.jvp(bind, (matrix.value,), (matrix.first(),))
    if not eqn.params.get("sort_eigenvalues", True):
        raise NotImplementedError(
            "directional_derivative: eigh with sort_eigenvalues=False has no rule. "
            "Leave the eigenvalues sorted."
        )
    if vectors.shape[-1] != values.shape[-1] or jnp.iscomplexobj(vectors):
        raise NotImplementedError(
            "directional_derivative: eigh of a complex matrix or of a subset of "
            "eigenvalues has no rule. Take all eigenvalues of a real matrix."
        )
    slope, tied = _eigenvalue_slopes(vectors, values, matrix.first())
    slope = jnp.where(tied, slope, slopes[1])
    open_ = jnp.broadcast_to(tied[..., None, :], vectors.shape)
    turning = doubts.poison(slopes[0], open_, Doubt.EIGEN)
    return [
        Ray(vectors, turning, unknown(vectors)),
        Ray(values, slope, unknown(values)),
    ]


def _eigenvalue_slopes(
    vectors: Array, values: Array, slope_in: Array
) -> tuple[Array, Array]:
    """Slopes of ascending eigenvalues, and whether some are equal, `[..., 1]`.

    The slopes of equal eigenvalues are the eigenvalues of their block of VᵀA'V.
    """
    group, same = _same_group(values, jnp.max(jnp.abs(values), axis=-1))
    slope_in = (slope_in + jnp.swapaxes(slope_in, -1, -2)) / 2
    turned = jnp.swapaxes(vectors, -1, -2) @ (slope_in @ vectors)
    tied = jnp.any(jnp.diff(group, axis=-1) == 0, axis=-1, keepdims=True)
    blocks = jnp.where(same, turned, 0.0)
    size = jnp.max(jnp.sum(jnp.abs(blocks), axis=-1), axis=-1, keepdims=True)
    # Shifts of more than the norm keep the eigenvalues of the blocks in their order.
    shift = group * (3 * size)
    eye = jnp.eye(values.shape[-1], dtype=values.dtype)
    return jnp.linalg.eigvalsh(blocks + shift[..., None] * eye) - shift, tied


def _dilated(matrix: Array) -> Array:
    """[[0, X], [Xᵀ, 0]], whose largest eigenvalues are the singular values of X."""
    rows, columns = matrix.shape[-2:]
    lead = [(0, 0)] * (matrix.ndim - 2)
    upper = jnp.pad(matrix, [*lead, (0, columns), (rows, 0)])
    return upper + jnp.swapaxes(upper, -1, -2)


def _svd_rule(doubts, eqn, rays):
    """Slopes by the JVP; where singular values coincide or vanish, of these alone.

    The singular values of diag(1, 1) along diag(1, −3) have the slopes 1 and −3, and
    their sum has −2; those of the zero matrix along diag(1, −3) have 3 and 1.
    """
    (matrix,) = rays
    bind = lambda a: tuple(eqn.primitive.bind(a, **eqn.params))
    outs, slopes = jax.jvp(bind, (matrix.value,), (matrix.first(),))
    values = outs[0]
    scale = jnp.max(values, axis=-1)
    group, _ = _same_group(values[..., ::-1], scale)
    equal = jnp.any(jnp.diff(group, axis=-1) == 0, axis=-1)
    near = 16 * values.shape[-1] * jnp.finfo(values.dtype).eps * scale
    open_ = equal | (values[..., -1] <= near)
    if jnp.iscomplexobj(matrix.value):
        where = jnp.broadcast_to(open_[..., None], values.shape)
        slope = doubts.poison(slopes[0], where, Doubt.SINGULAR)
    else:
        roots, vectors = jnp.linalg.eigh(_dilated(matrix.value))
        slope, _ = _eigenvalue_slopes(vectors, roots, _dilated(matrix.first()))
        slope = slope[..., ::-1][..., : values.shape[-1]]
        slope = jnp.where(open_[..., None], slope, slopes[0])
    rays_out = [Ray(values, slope, unknown(values))]
    for value, slope in zip(outs[1:], slopes[1:], strict=True):
        where = lax.expand_dims(open_, range(open_.ndim, value.ndim))
        where = jnp.broadcast_to(where, value.shape)
        slope = doubts.poison(slope, where, Doubt.SINGULAR)
        rays_out.append(Ray(value, slope, unknown(value)))
    return rays_out


SPECTRAL_RULES: dict[str, Rule] = {"eigh": _eigh_rule, "svd": _svd_rule}

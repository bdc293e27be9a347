"""Smoothing maps as unconstrained real numbers, for optimizers.

An amount α = 0.2 of `Mixing` is log(0.2 / 0.8) = −1.3863, a bandwidth of 0.5 is log
0.5 = −0.6931, and the covariance [[4, 2], [2, 2]], of which [[2, 0], [1, 1]] is the
Cholesky factor, is [[log 2, 0], [1, log 1]] = [[0.6931, 0], [1, 0]].
"""

import functools
from typing import TypeVar

import jax
import jax.numpy as jnp

from bregjax._typing import Array, PyTree
from bregjax.smoothing._maps import Constraint, StatisticMap

__all__ = ["from_unconstrained", "to_unconstrained"]

Map = TypeVar("Map", bound=StatisticMap)


def to_unconstrained(smoothing: StatisticMap) -> list[Array]:
    """Real numbers that stand for a map's leaves, an array a leaf.

    Positive numbers by their logarithm, shares by log α / (1 − α), a simplex by
    logarithms, positive definite matrices and factors of covariances by the Cholesky
    factor with the logarithms of its diagonal.

    Args:
        smoothing: A map whose leaves satisfy its `constraints()`.

    Returns:
        Arrays of the shapes of the leaves that are not fixed; `from_unconstrained`
        makes a map of them.

    Examples:
        >>> import numpy as np
        >>> from bregjax.smoothing import mixing
        >>> print(to_unconstrained(mixing(np.array([0.5, 0.5]), 0.2))[0])
        -1.3863
    """
    return [_TO[kind](jnp.asarray(leaf)) for kind, leaf in _free_leaves(smoothing)]


def from_unconstrained(free: PyTree, like: Map) -> Map:
    """The map, of the kind of `like`, that real numbers stand for.

    The constraints of the map hold for any real numbers, also after rounding; fixed
    leaves are those of `like`. A factor B of a covariance comes back as the Cholesky
    factor of B Bᵀ, which is the same smoothing.

    Args:
        free: Arrays as `to_unconstrained` gives them.
        like: A map of the same structure.

    Raises:
        ValueError: If the number of arrays is not that of the free leaves.

    Examples:
        >>> from bregjax.smoothing import blur
        >>> smoothing = blur(0.5)
        >>> free = to_unconstrained(smoothing)
        >>> print(from_unconstrained([free[0] + 1], smoothing).bandwidth)
        1.3591
    """
    kinds = jax.tree.leaves(like.constraints())
    leaves, structure = jax.tree.flatten(like)
    wanted = sum(kind is not Constraint.FIXED for kind in kinds)
    given = jax.tree.leaves(free)
    if len(given) != wanted:
        raise ValueError(
            f"`free` must have {wanted} arrays, as `to_unconstrained` gives them for "
            f"this {type(like).__name__}; got {len(given)}."
        )
    values = iter(given)
    leaves = [
        leaf if kind is Constraint.FIXED else _FROM[kind](next(values))
        for kind, leaf in zip(kinds, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, leaves)


def _free_leaves(smoothing: StatisticMap) -> list[tuple[Constraint, Array]]:
    kinds = jax.tree.leaves(smoothing.constraints())
    pairs = zip(kinds, jax.tree.leaves(smoothing), strict=True)
    return [(kind, leaf) for kind, leaf in pairs if kind is not Constraint.FIXED]


def _logs_of_factor(lower: Array) -> Array:
    diagonal = jnp.diagonal(lower, axis1=-2, axis2=-1)
    logs = jnp.log(jnp.abs(diagonal))
    # The diagonal of a Cholesky factor is positive: negate columns of another sign.
    lower = lower * jnp.sign(diagonal)[..., None, :]
    return jnp.tril(lower, -1) + _diagonal(logs)


def _factor_of_logs(free: Array) -> Array:
    diagonal = jnp.diagonal(free, axis1=-2, axis2=-1)
    return jnp.tril(free, -1) + _diagonal(jnp.exp(diagonal))


def _inside(x: Array, upper: float) -> Array:
    """Clip to numbers above 0 and below `upper`, which rounding may have reached."""
    info = jnp.finfo(x.dtype)
    return jnp.clip(x, info.tiny, min(upper * (1 - info.eps), info.max))


def _diagonal(values: Array) -> Array:
    return values[..., None] * jnp.eye(values.shape[-1], dtype=values.dtype)


def _square(lower: Array) -> Array:
    return jnp.matmul(lower, jnp.swapaxes(lower, -1, -2), precision="highest")


_TO = {
    Constraint.REAL: lambda x: x,
    Constraint.POSITIVE: jnp.log,
    Constraint.UNIT_INTERVAL: lambda x: jnp.log(x) - jnp.log1p(-x),
    Constraint.SIMPLEX: jnp.log,
    Constraint.POSITIVE_DEFINITE: lambda x: _logs_of_factor(jnp.linalg.cholesky(x)),
    # Of B Bᵀ = (Q R)ᵀ(Q R) with Bᵀ = Q R, without squaring the condition number.
    Constraint.INVERTIBLE: lambda x: _logs_of_factor(
        jnp.swapaxes(jnp.linalg.qr(jnp.swapaxes(x, -1, -2))[1], -1, -2)
    ),
}
_FROM = {
    Constraint.REAL: lambda x: x,
    Constraint.POSITIVE: lambda x: _inside(jnp.exp(x), jnp.inf),
    Constraint.UNIT_INTERVAL: lambda x: _inside(jax.nn.sigmoid(x), 1),
    Constraint.SIMPLEX: functools.partial(jax.nn.softmax, axis=-1),
    Constraint.POSITIVE_DEFINITE: lambda x: _square(_factor_of_logs(x)),
    Constraint.INVERTIBLE: _factor_of_logs,
}

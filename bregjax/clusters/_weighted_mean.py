"""The weighted mean of two clusters' statistics, with derivatives at boundaries."""

import jax
import jax.numpy as jnp

from bregjax._numerics import finite_cotangents
from bregjax._typing import Array

__all__ = ["weighted_mean"]


@jax.custom_jvp
def weighted_mean(w_a: Array, t_a: Array, w_b: Array, t_b: Array, edge: Array) -> Array:
    """(w_a t_a + w_b t_b) / (w_a + w_b), exactly t_a where t_a = t_b.

    Computed as t + share · (t′ − t) with t the mean of the heavier part, so that a
    light part of a large value leaves little of its rounding in the result.

    Args:
        w_a: Weights, broadcast against the means.
        t_a: Means.
        w_b: Weights.
        t_b: Means.
        edge: Whether costs may have an infinite slope in an entry, booleans of the
            shape of the means. The derivative of such an entry by the weights is 0 if
            t_a = t_b, also against an infinite cotangent: the mean of two counts of 0
            is 0 whatever the weights.
    """
    del edge
    heavy = w_a >= w_b
    base, other = jnp.where(heavy, t_a, t_b), jnp.where(heavy, t_b, t_a)
    share = jnp.where(heavy, w_b, w_a) / (w_a + w_b)
    return base + share * (other - base)


@weighted_mean.defjvp
def _weighted_mean_jvp(primals, tangents):
    w_a, t_a, w_b, t_b, edge = primals
    dw_a, dt_a, dw_b, dt_b, _ = tangents
    total = w_a + w_b
    p, q = w_a / total, w_b / total
    difference = t_b - t_a
    # A cotangent of ±inf would become inf · 0 = NaN on its way to the weights.
    moved = (p * dw_b - q * dw_a) / total * difference
    moved = finite_cotangents(moved, edge & (difference == 0))
    out = weighted_mean(w_a, t_a, w_b, t_b, edge)
    return out, p * dt_a + q * dt_b + moved

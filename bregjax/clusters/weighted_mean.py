"""The weighted mean of two clusters' statistics, with derivatives at boundaries."""

import jax
import jax.numpy as jnp

from bregjax._numerics import finite_cotangents
from bregjax._typing import Array

__all__ = ["weighted_mean"]


@jax.custom_jvp
def weighted_mean(w_a: Array, t_a: Array, w_b: Array, t_b: Array, edge: Array) -> Array:
    """(w_a t_a + w_b t_b) / (w_a + w_b), exactly t_a where t_a = t_b.

    From the heavier one, lest the mean keep the rounding of a light one's large value.

    Args:
        w_a: Weights, broadcast against the means.
        t_a: Means.
        w_b: Weights.
        t_b: Means.
        edge: Where costs may have infinite slope, booleans like the means. There the
            derivative with respect to the weights is 0 if t_a = t_b, also against an
            infinite cotangent: a zero count stays zero whatever the weights.
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
    # A cotangent of ±inf would meet a difference of zero on its way to the weights, and
    # become inf · 0.
    moved = (p * dw_b - q * dw_a) / total * difference
    moved = finite_cotangents(moved, edge & (difference == 0))
    out = weighted_mean(w_a, t_a, w_b, t_b, edge)
    return out, p * dt_a + q * dt_b + moved

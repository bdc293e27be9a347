"""Log-partition functions as users write them."""

import jax.numpy as jnp

__all__ = [
    "diagonal_gaussian",
    "negative_binomial",
    "normal_column",
    "von_mises_fisher",
]


def diagonal_gaussian(theta):
    """T = (x, x²) of d columns: all θ₁ first, then all θ₂."""
    return jnp.sum(normal_column(jnp.split(theta, 2)))


def normal_column(theta):
    """T = (x, x²), elementwise."""
    linear, square = theta
    inside = square < 0
    square = jnp.where(inside, square, -1.0)
    value = -(linear**2) / (4 * square) - jnp.log(-2 * square) / 2
    return jnp.where(inside, value, jnp.inf)


def negative_binomial(theta):
    """Counts with two failures, summed over coordinates."""
    inside = theta < 0
    value = -2 * jnp.log(-jnp.expm1(jnp.where(inside, theta, -1.0)))
    return jnp.sum(jnp.where(inside, value, jnp.inf))


def von_mises_fisher(theta):
    """Unit vectors in three dimensions, under the area of the sphere over 4π."""
    square = jnp.sum(theta**2)
    small = square < 1e-8
    kappa = jnp.sqrt(jnp.where(small, 1.0, square))
    far = kappa + jnp.log(-jnp.expm1(-2 * kappa)) - jnp.log(2 * kappa)
    return jnp.where(small, square / 6, far)

"""The rest r of Stirling's formula, and derivatives of r.

With log Γ(x) = (x − ½) log x − x + ½ log 2π + r(x), a sum of log Γ's whose large parts
cancel is formed from logarithms of ratios and from the small r. r, r', r'' … take a few
divisions, where JAX's polygamma functions take fifty powers each.

Example: r(1) = 1 − ½ log 2π = 0.08106 and r(10) = 0.00833, about 1/12x. float32 holds
log Γ(10⁶) = 12,815,504.6 in steps of 1, and log Γ(10⁶ + 1) − log Γ(10⁶) as 13. With
x = 10⁶ and y = x + 1 the formula is (x − ½) log(y/x) + log y − 1 + r(y) − r(x) =
1.0 + 13.8155 − 1 − 8e-14 = 13.8155, which is log 10⁶.
"""

import functools
import math

import jax
import jax.numpy as jnp

from bregjax._typing import Array

__all__ = ["stirling_rest"]

# The series r(y) = Σ c_n y^(1 − 2n) is good to 2e-17 from y = 10 on, and to 2e-13 only
# from y = 5 on. Smaller x are raised by so much.
_SHIFT = 10
# c_n = B_2n / (2n (2n − 1)).
_SERIES = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def stirling_rest(x: Array, order: int = 0) -> Array:
    """The derivative of order `order` of r(x), elementwise, for x > 0; r if 0.

    Good to a few roundings of r + 1 below x = 10, and of r from 10 on. For x < 10 from
    the series of r at y = x + 10, with log Γ(x) = log Γ(y) − Σ log(x + j), j < 10.

    References:
        DLMF, 5.11.1 (series) and 5.5.1 (recurrence).
    """
    far = x >= _SHIFT
    near = jnp.where(far, 1, x)
    lifted = near + _SHIFT
    return _series(jnp.where(far, x, lifted), order) + jnp.where(
        far, 0, _lift(near, lifted, order)
    )


@stirling_rest.defjvp
def _stirling_rest_jvp(order, primals, tangents):
    (x,), (dx,) = primals, tangents
    return stirling_rest(x, order), stirling_rest(x, order + 1) * dx


def _series(y: Array, order: int) -> Array:
    """Σ c_n d^k/dy^k y^(1 − 2n), by Horner's rule in 1/y²."""
    inverse = 1 / y
    square = inverse * inverse
    total = jnp.zeros_like(y)
    for n in reversed(range(len(_SERIES))):
        factor = math.prod(-(2 * n + 1 + i) for i in range(order))
        total = total * square + _SERIES[n] * factor
    return total * inverse ** (order + 1)


def _lift(x: Array, y: Array, order: int) -> Array:
    """The derivative of r(x) − r(y), y = x + 10, for small x."""
    if order == 0:
        product = functools.reduce(jnp.multiply, [x + j for j in range(_SHIFT)])
        logs = (x - 0.5) * jnp.log(y / x) + jnp.log(y**_SHIFT / product)
        return logs - _SHIFT
    k = order
    inverses = [1 / (x + j) for j in range(_SHIFT)]
    sign, factorial = (-1) ** (k - 1), math.factorial(k - 1)
    powers = sum((inverse**k for inverse in inverses[1:]), 0.5 * inverses[0] ** k)
    rest = -sign * factorial * (powers + 0.5 / y**k)
    if order == 1:
        return rest + jnp.log(y / x)
    # The derivative k − 1 times of log y − log x.
    logs = (y ** (1 - k) - inverses[0] ** (k - 1)) * math.factorial(k - 2)
    return rest - sign * logs

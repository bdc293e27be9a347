"""Kernels of bounds: squared distances, sums over coordinates, logarithms.

A logarithm is much more expensive than a product, so that Σ_k log x_k is computed as
the logarithm of a product of eight factors. Example: eight variances of 2 have the
product 256 and Σ log = log 256 = 5.545. In float32 the product of eight factors of 1e10
would overflow; there the factors are multiplied in pairs, exponents are split off and
added, and mantissas between 1 and 2 multiplied: four pairs of 1e20 = 1.355 · 2⁶⁶ give
1.355⁴ = 3.37 and 4 · 66 = 264, and log 3.37 + 264 log 2 = 184.2 = 8 log 1e10.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bregjax._typing import Array

__all__ = [
    "distance_features",
    "in_range",
    "less_rounding",
    "log",
    "log_of_product",
    "squared_distances",
    "sum_last",
    "sum_of",
    "sum_of_fractions",
]

# How many factors share a logarithm; and how many of these are multiplied before the
# exponent is split off, so that their product has to stay in range.
_TOGETHER = 8
_IN_RANGE = {"float32": 2, "float64": _TOGETHER}

# Coefficients of log(1 + f) / f on [√½ − 1, √2 − 1], highest power first: the least
# squares fit of f times the polynomial to log(1 + f) at 20,001 places; see `log`.
_LOG_RATIO = (
    0.113483016,
    -0.185772143,
    0.206240328,
    -0.249186993,
    0.333044229,
    -0.500009756,
    1.000003124,
)
_LOG_2 = 0.6931471805599453
_BITS_OF_ROOT_HALF = 0x3F3504F3
_EXPONENT_OF_ONE = 127


def distance_features(x: Array, dtype: jnp.dtype) -> Array:
    """Features `[m, n + 2]` of vectors `[m, n]` for `squared_distances`.

    Rounding of distances grows with ‖x‖: subtract a center from x first. NaN where ‖x‖²
    overflows.
    """
    n, info = x.shape[-1], jnp.finfo(dtype)
    x = x.astype(dtype)
    norm = jnp.sum(x * x, axis=-1, keepdims=True)
    norm = (1 - (3 * n + 16) * info.eps) * jnp.where(norm < info.max / 8, norm, jnp.nan)
    return jnp.concatenate([x, jnp.ones_like(norm), norm], axis=-1)


def squared_distances(a: Array, b: Array) -> Array:
    """Lower bounds of ‖a_i − b_j‖², `[k, m]`, from features, by one matrix product.

    ‖a‖² + ‖b‖² − 2⟨a, b⟩ less the most that rounding adds to it,
    (3n + 16) eps (‖a‖² + ‖b‖²).
    """
    x, one, norm = a[:, :-2], a[:, -2:-1], a[:, -1:]
    left = jnp.concatenate([-2 * x, norm, one], axis=-1)
    return jnp.matmul(left, b.T, precision="highest")


def _added(terms: list[Array]) -> Array:
    return functools.reduce(operator.add, terms)


def log_of_product(
    term: Callable[[Array], Array], count: int, like: Array, *, fits: bool = False
) -> Array:
    """Σ_k log term(k), with one logarithm for eight factors; NaN on overflow.

    Products stay in range for factors from 1e-38 to 1e38 in float64, 1e-19 to 1e19 in
    float32: under narrow bandwidths the variance of a cluster is that large in units of
    the variance of a point. A product that overflows gives NaN, a bound that rules
    nothing out.

    Args:
        term: Maps a number k to factors of the shape of `like`.
        count: How many terms.
        like: An array of the shape and precision of the result.
        fits: Whether products of eight factors, and fewer, are known to be in range.
    """
    info = jnp.finfo(like.dtype)

    def together(factors: list[Array]) -> Array:
        if fits:
            return log(functools.reduce(operator.mul, factors))
        width = _IN_RANGE[like.dtype.name]
        parts = [factors[k : k + width] for k in range(0, len(factors), width)]
        products = [functools.reduce(operator.mul, part) for part in parts]
        normal = functools.reduce(
            operator.and_,
            [(product >= info.tiny) & (product <= info.max) for product in products],
        )
        logs = log(products[0]) if len(products) == 1 else _log_of_all(products)
        return jnp.where(normal, logs, jnp.nan)

    return sum_of(term, count, like, together)


def _log_of_all(products: list[Array]) -> Array:
    """Σ log of positive normal float32 numbers, from the product of their mantissas."""
    bits = [jax.lax.bitcast_convert_type(product, jnp.int32) for product in products]
    exponents = _added([b >> 23 for b in bits]) - len(bits) * _EXPONENT_OF_ONE
    ones = _EXPONENT_OF_ONE << 23
    mantissas = [(b & ((1 << 23) - 1)) | ones for b in bits]
    factors = [jax.lax.bitcast_convert_type(b, jnp.float32) for b in mantissas]
    return exponents.astype(jnp.float32) * jnp.float32(_LOG_2) + log(
        functools.reduce(operator.mul, factors)
    )


def sum_of_fractions(
    fraction: Callable[[Array], tuple[Array, Array]], count: int, like: Array
) -> Array:
    """Σ_k x(k) / y(k), x ≥ 0 and y > 0, a division for two terms; NaN on overflow.

    Args:
        fraction: Maps a number k to x and y, of the shape of `like`; y at least 1e-9.
        count: How many terms.
        like: An array of the shape and precision of the result.
    """

    def together(fractions: list[tuple[Array, Array]]) -> Array:
        parts = [fractions[k : k + 2] for k in range(0, len(fractions), 2)]
        sums = [functools.reduce(_common, part) for part in parts]
        return functools.reduce(operator.add, [x / y for x, y in sums])

    total = sum_of(fraction, count, like, together)
    return jnp.where(total < jnp.inf, total, jnp.nan)


def _common(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """The sum of two fractions as a numerator and a denominator."""
    return a[0] * b[1] + b[0] * a[1], a[1] * b[1]


def sum_of(
    term: Callable[[Array], Any],
    count: int,
    like: Array,
    together: Callable[[list[Any]], Array] = _added,
) -> Array:
    """Σ_k term(k), or the sum of what `together` makes of each eight terms."""

    def several(start: Array, how_many: int = _TOGETHER) -> Array:
        return together([term(start + k) for k in range(how_many)])

    # A loop over eights: a long sum that is written out spills registers.
    whole, rest = divmod(count, _TOGETHER)
    add = lambda k, out: out + several(k * _TOGETHER)
    out = jax.lax.fori_loop(0, whole, add, jnp.zeros_like(like))
    if rest:
        out = out + several(jnp.int32(whole * _TOGETHER), rest)
    return out


def sum_last(x: Array) -> Array:
    """Σ_k x[..., k], as a matrix product.

    On a CPU XLA does not vectorise a plain sum of fused terms, which takes four times
    as long.
    """
    return jnp.matmul(x, jnp.ones(x.shape[-1], x.dtype), precision="highest")


def log(x: Array) -> Array:
    """log x of positive normal numbers, in float32 good to 16 eps (1 + |log x|).

    In float32 by a polynomial for log(1 + f) / f, with 1 + f the mantissa in [√½, √2).
    It takes a third of the time of `jnp.log`, which also takes 0, infinities, NaN,
    negative and subnormal numbers.
    """
    if x.dtype != jnp.float32:
        return jnp.log(x)
    bits = jax.lax.bitcast_convert_type(x, jnp.int32)
    exponent = (bits - _BITS_OF_ROOT_HALF) >> 23
    mantissa = jax.lax.bitcast_convert_type(bits - (exponent << 23), jnp.float32)
    f = mantissa - 1
    ratio = functools.reduce(lambda sum_, c: sum_ * f + jnp.float32(c), _LOG_RATIO)
    return exponent.astype(jnp.float32) * jnp.float32(_LOG_2) + f * ratio


def less_rounding(
    total: Array,
    logs: Array,
    w_a: Array,
    log_a: Array,
    w_b: Array,
    log_b: Array,
    n: int,
) -> Array:
    """w log c − w_a log a − w_b log b, less the most that rounding adds to it.

    For logarithms of products of n factors of order 1:
    64 eps w (n + |log c| + |log a| + |log b|).
    """
    cost = total * logs - w_a * log_a - w_b * log_b
    size = n + jnp.abs(logs) + jnp.abs(log_a) + jnp.abs(log_b)
    return cost - 64 * float(jnp.finfo(cost.dtype).eps) * total * size


def in_range(x: Array) -> Array:
    """0 for rows `[m, n]` whose weighted means have products in range, else NaN, `[m]`.

    A weighted mean of two positive numbers is at least half of the number with the
    larger weight. So products of weighted means do not underflow if products of the
    halves x/2 of a row do not, with halves above 1 left out; `log_of_product` says how
    many are multiplied. Example: in float32 two factors are multiplied; a row with
    variances 1e-19 twice has (5e-20)² = 2.5e-39, below the least normal number 1.2e-38,
    and gives NaN.
    """
    info = jnp.finfo(x.dtype)
    width = _IN_RANGE[x.dtype.name]
    fill = -x.shape[-1] % width
    small = jnp.log2(jnp.minimum(x / 2, 1))
    small = jnp.pad(small, ((0, 0), (0, fill))).reshape(len(x), -1, width)
    least = jnp.min(jnp.sum(small, axis=-1), axis=-1)
    return jnp.where(least > info.minexp + 1, 0, jnp.nan).astype(x.dtype)

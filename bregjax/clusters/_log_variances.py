"""Σ log v of the unions of all pairs of diagonal Gaussians, with few logarithms.

Most of the time of costs of all pairs goes into logarithms. The product of eight
variances takes one logarithm, and cannot overflow if mantissas are multiplied and
exponents added. Example: 6 = 1.5 · 2² and 10 = 1.25 · 2³, so that
log(6 · 10) = log(1.5 · 1.25) + (2 + 3) log 2.
"""

import functools
import math
import operator

import jax
import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.clusters._moments import Moments

__all__ = ["pays", "sums_of_logs"]

# How many variances share a logarithm: mantissas below 2 have a product below 2⁸.
_TOGETHER = 8
# Bits of the mantissa, and the biased exponent of 1.
_LAYOUT = {"float32": (23, 127), "float64": (52, 1023)}


def pays(num_rows: int, dim: int) -> bool:
    """Whether `sums_of_logs` is faster than a logarithm a coordinate.

    Not for a single row of many columns: transposing those takes longer.
    """
    return dim <= _TOGETHER or num_rows > 1


def sums_of_logs(w_a: Array, a: Moments, w_b: Array, b: Moments) -> Array:
    """Σ log(p v_a + q v_b + pq δ²) over coordinates, for all pairs, `[k, m]`.

    NaN where a variance is not a positive normal number.

    Args:
        w_a: Weights `[k]`.
        a: Moments `[k, d]`.
        w_b: Weights `[m]`.
        b: Moments `[m, d]`.
    """
    dim = a.mean.shape[1]
    total = w_a[:, None] + w_b[None]
    p, q = w_a[:, None] / total, w_b[None] / total
    bits, one = _LAYOUT[total.dtype.name]
    tiny = jnp.finfo(total.dtype).tiny

    def variance(mean_a: Array, v_a: Array, mean_b: Array, v_b: Array) -> Array:
        gap = mean_a[:, None] - mean_b[None]
        return p * v_a[:, None] + q * v_b[None] + p * q * (gap * gap)

    def together(sum_: Array, coordinates: tuple[Array, ...]) -> tuple[Array, None]:
        count = len(coordinates[0])
        values = [variance(*(x[i] for x in coordinates)) for i in range(count)]
        normal = [(value >= tiny) & (value < jnp.inf) for value in values]
        mantissas, exponents = zip(*(_split(v, bits, one) for v in values), strict=True)
        product = functools.reduce(operator.mul, mantissas)
        exponent = functools.reduce(operator.add, exponents) - count * one
        logs = jnp.log(product) + exponent.astype(product.dtype) * math.log(2)
        valid = functools.reduce(operator.and_, normal)
        return sum_ + jnp.where(valid, logs, jnp.nan), None

    width = min(_TOGETHER, dim)
    side_by_side = lambda x, fill: _in_groups(x, width, fill)
    coordinates = tuple(
        side_by_side(x, fill)
        for s in (a, b)
        for x, fill in ((s.mean, 0.0), (s.covariance, 1.0))
    )
    return jax.lax.scan(together, jnp.zeros_like(total), coordinates)[0]


def _split(x: Array, bits: int, one: int) -> tuple[Array, Array]:
    """Mantissas in [1, 2) and biased exponents of positive normal numbers."""
    kind = jnp.int64 if x.dtype == jnp.float64 else jnp.int32
    word = jax.lax.bitcast_convert_type(x, kind)
    mantissa = (word & ((1 << bits) - 1)) | (one << bits)
    return jax.lax.bitcast_convert_type(mantissa, x.dtype), word >> bits


def _in_groups(x: Array, width: int, fill: float) -> Array:
    """Coordinates in groups, padded with `fill`: `[m, d]` to `[groups, width, m]`."""
    rows = jnp.pad(x.T, ((0, -x.shape[1] % width), (0, 0)), constant_values=fill)
    return rows.reshape(-1, width, x.shape[0])

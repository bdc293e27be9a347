"""The two least bounds of a group of pairs, each with its place in its last bits.

Of a block of lower bounds the host reads only the two least of every group of pairs,
and has to know which pairs they belong to. Their places in the group, a power of two in
size, overwrite the last bits, which costs nothing to store. First as many units in the
last place are subtracted as the last bits can add, so that a bound stays one.

Example: float32 bounds of a group of four, in which the last slot holds no cluster:

    bounds        3.0         1.0         2.0         inf
    bits          0x40400000  0x3f800000  0x40000000  0x7f800000
    less 3        0x403ffffd  0x3f7ffffd  0x3ffffffd
    last 2 bits   0x403ffffc  0x3f7ffffd  0x3ffffffe  0x7f800000

As integers these are in the order of the bounds. The two least, read as numbers again,
are 0.9999998 and 1.9999998, and their last two bits say: places 1 and 2.
"""

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array

__all__ = ["as_limit", "place_of", "two_least"]


def two_least(low: Array, axis: int) -> Array:
    """Return the two least along an axis, with their places, `[2, ...]`.

    At most twice the group's size in units of the last place below the given numbers,
    and never above them; inf where there are fewer than two.

    Args:
        low: Numbers from 0 on, or inf; their count along the axis is a power of two.
        axis: The axis.
    """
    count = low.shape[axis]
    if count == 1:
        least = jnp.squeeze(low, axis)
        return jnp.stack([least, jnp.full_like(least, jnp.inf)])
    integer = jnp.int32 if low.dtype == jnp.float32 else jnp.int64
    bits = jax.lax.bitcast_convert_type(low, integer)
    place = jax.lax.broadcasted_iota(integer, low.shape, axis)
    marked = (jnp.maximum(bits - (count - 1), 0) & ~(count - 1)) | place
    marked = jnp.where(low < jnp.inf, marked, bits)
    parts = [
        jax.lax.index_in_dim(marked, k, axis, keepdims=False) for k in range(count)
    ]
    first, second = parts[0], jnp.full_like(parts[0], jnp.iinfo(integer).max)
    for part in parts[1:]:
        second = jnp.minimum(second, jnp.maximum(first, part))
        first = jnp.minimum(first, part)
    return jax.lax.bitcast_convert_type(jnp.stack([first, second]), low.dtype)


def place_of(marked: np.ndarray, size: int) -> np.ndarray:
    """Return the places, in groups of `size`, of what `two_least` gave."""
    bits = np.uint32 if marked.dtype == np.float32 else np.uint64
    return (marked.view(bits) & bits(size - 1)).astype(np.int64)


def as_limit(limit: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Round limits of costs up to limits of what `two_least` gave.

    A bound of 0 becomes its place, a tiny number above 0, so the least limit is more.
    A limit of −inf stays, below all bounds; a limit of NaN excludes nothing.
    """
    info = np.finfo(dtype)
    with np.errstate(over="ignore"):
        above = np.nextafter(np.maximum(limit, 0).astype(dtype), dtype.type(np.inf))
    above = np.where(np.isnan(limit), np.inf, np.maximum(above, info.tiny))
    return np.where(limit == -np.inf, -np.inf, above).astype(dtype)

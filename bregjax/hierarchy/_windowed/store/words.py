"""Words: numbers of any type as 32 bits each, so that all move at once and exactly.

A collective between processes takes a millisecond whatever its size, so arrays go
together. Sums of floats would lose the last bits of the smallest numbers, in which
bounds keep places (see `two_least`); sums of words with zeros do not.
"""

import math

import jax
import jax.numpy as jnp

from bregjax._typing import Array, PyTree

__all__ = ["from_words", "to_words"]


def to_words(tree: PyTree, axes: int = 0) -> Array:
    """Return the numbers of all leaves as words, side by side.

    Args:
        tree: Arrays whose first `axes` axes are the same.
        axes: How many axes stay.

    Returns:
        `[..., k]`, uint32.
    """

    def words(leaf: Array) -> Array:
        bits = leaf
        if leaf.dtype != bool:
            width = min(8 * leaf.dtype.itemsize, 32)
            bits = jax.lax.bitcast_convert_type(leaf, f"uint{width}")
        count = math.prod(bits.shape[axes:])
        return bits.astype(jnp.uint32).reshape(*leaf.shape[:axes], count)

    return jnp.concatenate([words(leaf) for leaf in jax.tree.leaves(tree)], axis=-1)


def from_words(words: Array, like: PyTree) -> PyTree:
    """Return the numbers again.

    Args:
        words: As `to_words` returns them, `[..., k]`, with any axes before.
        like: Arrays, or their shapes, without these axes.
    """
    leaves, structure = jax.tree.flatten(like)
    found, start, axes = [], 0, words.shape[:-1]
    for leaf in leaves:
        size = max(leaf.dtype.itemsize // 4, 1)
        shape = (*axes, *leaf.shape, *((size,) if size > 1 else ()))
        stop = start + size * math.prod(leaf.shape)
        bits = words[..., start:stop].reshape(shape)
        start = stop
        if leaf.dtype == bool:
            found.append(bits != 0)
            continue
        bits = bits.astype(f"uint{min(8 * leaf.dtype.itemsize, 32)}")
        found.append(jax.lax.bitcast_convert_type(bits, leaf.dtype))
    return structure.unflatten(found)

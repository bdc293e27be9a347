"""Map over rows in blocks of bounded memory."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array, PyTree

__all__ = ["map_rows"]

# Numbers that a block works on, 16 MiB in float64.
_BLOCK_ENTRIES = 2**21
_MOST_ROWS = 4096


def map_rows(function: Callable[..., Array], rows: PyTree, entries: int) -> Array:
    """Map a function of one row over all rows, in blocks of bounded memory.

    Reverse mode computes the intermediate values of each block a second time instead of
    keeping them. All blocks have one size and go through one loop: with a smaller last
    block beside that loop, as `jax.lax.map` has it, two programs of LAPACK could run at
    once and lock up a CPU.

    Args:
        function: From one row of `rows` to an array.
        rows: A pytree of arrays `[r, ...]`, which share the axis of rows.
        entries: How many numbers the function holds at once for one row.

    Returns:
        The results of all rows, `[r, ...]`.
    """
    count = jax.tree.leaves(rows)[0].shape[0]
    size = int(np.clip(_BLOCK_ENTRIES // max(entries, 1), 1, _MOST_ROWS))
    blocks = -(-count // size)
    size = -(-count // max(blocks, 1))

    def split(leaf: Array) -> Array:
        filled = [(0, blocks * size - count)] + [(0, 0)] * (leaf.ndim - 1)
        return jnp.pad(leaf, filled, mode="edge").reshape(blocks, size, *leaf.shape[1:])

    by_block = jax.lax.map(
        jax.checkpoint(jax.vmap(function)), jax.tree.map(split, rows)
    )
    return by_block.reshape(blocks * size, *by_block.shape[2:])[:count]

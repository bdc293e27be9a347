"""States of clusters that know how much of their columns was observed."""

from dataclasses import dataclass

import jax.numpy as jnp

from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters._block_statistics import BlockStatistics

__all__ = ["Seen", "SeenState", "harmonic"]


@register_pytree
@dataclass(frozen=True)
class SeenState:
    """States with the weights that say how much of them was observed.

    Attributes:
        weight: Of rows, `[k]`.
        seen: Of the observed cells of each column, `[k, d]`.
        inner: States of the product.
    """

    weight: Array
    seen: Array
    inner: PyTree


@dataclass(frozen=True)
class Seen:
    """Where the shares of the columns of a block are.

    Attributes:
        block: The number of the block of statistics.
        entries: For each column an entry of the shares by cell; for a block of whole
            rows 0 for each.
    """

    block: int
    entries: tuple[int, ...]

    def of(self, blocks: tuple[BlockStatistics, ...]) -> Array:
        """Shares of columns, `[m, d]`."""
        share = blocks[self.block].share
        share = share if share.ndim == 2 else share[:, None]
        return share[:, jnp.asarray(self.entries)]


def harmonic(a: Array, b: Array) -> Array:
    """a b / (a + b), 0 where both are 0."""
    total = a + b
    return a * b / jnp.where(total > 0, total, 1)

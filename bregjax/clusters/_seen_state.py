"""States of clusters that know how much of their columns was observed."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters._block_statistics import BlockStatistics

__all__ = ["TIE", "Seen", "SeenState", "harmonic", "known_harmonic"]

# What is added to costs for each unit of weight that is not observed, in nats, so that
# pairs that tie are in order: above the rounding of a cost of 0, which has none, and
# below that of any other.
TIE = 1e-13


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


def known_harmonic(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`harmonic` of known numbers, by NumPy."""
    total = a + b
    return a * b / np.where(total > 0, total, 1)

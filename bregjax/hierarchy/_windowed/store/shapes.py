"""Sizes of blocks: compiled programs have no others."""

import dataclasses
from dataclasses import dataclass

import jax
import numpy as np

from bregjax._typing import PyTree
from bregjax.clusters import ClusterModel, Screen

__all__ = ["Shapes"]

# Numbers that one tile of bounds works on, and one batch of costs; and columns of a
# tile at most, whose shares of weight stay in cache while columns of data are gone
# through: of 1,024 the bounds of diagonal Gaussians take half as long again.
_TILE_ENTRIES = 2**20
_PAIR_ENTRIES = 2**17
_COLUMNS = 256
# How many of its nearest a cluster keeps: with more, fewer clusters search again, and
# more costs are computed. Fewer where costs are expensive; more where there are so many
# clusters that a search takes longer than the costs of a list.
_NEAR, _FEW_NEAR, _MORE_NEAR = 4, 2, 8
_MANY = 2**14


@dataclass(frozen=True)
class Shapes:
    """Sizes of blocks, all powers of two.

    Attributes:
        rows: Rows of a tile of bounds.
        columns: Columns of a tile; the slots of a device are a multiple of these.
        group: Pairs of a group, of whose bounds the two least are kept.
        block: Rows of a block, which one call screens: a multiple of a tile's rows.
        pairs: Pairs of a batch of costs.
        near: How many of its nearest a cluster keeps.
    """

    rows: int
    columns: int
    group: int
    block: int
    pairs: int
    near: int

    @classmethod
    def of(cls, model: ClusterModel, screen: Screen, leaves: PyTree) -> "Shapes":
        """Choose sizes whose temporaries stay in cache, or small for large states."""
        tile = _power_of_two(_TILE_ENTRIES / screen.pair_size(leaves), 2**7, 2**17)
        rows = _power_of_two((tile / 16) ** 0.5, 1, 64)
        pairs = _power_of_two(_PAIR_ENTRIES / model.pair_size(leaves), 64, 2048)
        group = min(screen.group, rows)
        near = _MORE_NEAR if jax.tree.leaves(leaves)[0].shape[0] > _MANY else _NEAR
        near = _FEW_NEAR if screen.group == 1 else near
        return cls(rows, min(_COLUMNS, tile // rows), group, 4 * rows, pairs, near)

    def for_few_rows(self) -> "Shapes":
        """Return sizes with flatter tiles, for at most half the rows of a tile."""
        rows = max(self.rows // 4, 1)
        return dataclasses.replace(
            self, rows=rows, group=min(self.group, rows), block=2 * rows
        )


def _power_of_two(fitting: float, low: int, high: int) -> int:
    return int(2 ** np.floor(np.log2(np.clip(fitting, low, high))))

"""The few sizes that the windowed engine's kernels are compiled for."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from bregjax._typing import PyTree
from bregjax.clusters.base import ClusterModel
from bregjax.clusters.screens import Screen

__all__ = ["Shapes"]

# Numbers that one screened tile, and one batch of exact costs, work on.
_TILE_ENTRIES = 2**20
_PAIR_ENTRIES = 2**17
# The more of the nearest are kept, the fewer clusters have to search again, and the
# more pairs are evaluated; fewer where costs are dear.
_NEAR, _FEW_NEAR = 4, 2


@dataclass(frozen=True)
class Shapes:
    """Sizes of blocks, all powers of two.

    Attributes:
        rows: Rows of a tile.
        columns: Columns of a tile; a device's slots are a multiple.
        group: Neighbouring pairs that share one bound.
        block: Rows screened in one call, a multiple of those of a tile.
        pairs: Pairs of a batch.
        near: How many of the nearest each cluster keeps.
    """

    rows: int
    columns: int
    group: int
    block: int
    pairs: int
    near: int

    @classmethod
    def of(cls, model: ClusterModel, screen: Screen, leaves: PyTree) -> "Shapes":
        """Sizes at which temporaries stay in cache or, for large states, small."""
        tile = _power_of_two(_TILE_ENTRIES / screen.pair_size(leaves), 2**7, 2**17)
        rows = _power_of_two((tile / 16) ** 0.5, 1, 64)
        pairs = _power_of_two(_PAIR_ENTRIES / model.pair_size(leaves), 64, 2048)
        group = min(screen.group, rows)
        near = _FEW_NEAR if screen.group == 1 else _NEAR
        return cls(rows, min(1024, tile // rows), group, 4 * rows, pairs, near)

    def for_few_rows(self) -> "Shapes":
        """With flat tiles, for half the rows of a tile or fewer."""
        rows = max(self.rows // 4, 1)
        return dataclasses.replace(
            self, rows=rows, group=min(self.group, rows), block=2 * rows
        )


def _power_of_two(fitting: float, low: int, high: int) -> int:
    return int(2 ** np.floor(np.log2(np.clip(fitting, low, high))))

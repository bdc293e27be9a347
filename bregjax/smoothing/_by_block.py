"""A smoothing map for each block of columns."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._block_statistics import BlockStatistics
from bregjax.smoothing._maps import StatisticMap

__all__ = ["ByBlock"]


@register_pytree
@dataclass(frozen=True, repr=False)
class ByBlock(StatisticMap):
    """A map for each block of columns of a product of families, or none.

    Pseudo-counts change shares of weight, and give nothing to a cell that is missing.

    Attributes:
        maps: For each block a map, or None.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.smoothing import mixing
        >>> block = BlockStatistics(jnp.array([[1.0, 0.0]]), jnp.ones(1))
        >>> half = ByBlock((mixing(jnp.array([0.5, 0.5]), 0.2), None))
        >>> smoothed, _ = half((block, block), jnp.ones(1))
        >>> print(smoothed[0].statistics, smoothed[1].statistics)
        [[0.9 0.1]] [[1. 0.]]
    """

    maps: tuple[StatisticMap | None, ...]

    @override
    def __call__(
        self, statistics: tuple[BlockStatistics, ...], weights: Array
    ) -> tuple[tuple[BlockStatistics, ...], Array]:
        smoothed = [
            block if smoothing is None else _smoothed(smoothing, block, weights)
            for smoothing, block in zip(self.maps, statistics, strict=True)
        ]
        return tuple(smoothed), weights

    def __repr__(self) -> str:
        """The maps, none as a dash."""
        maps = ["–" if each is None else repr(each) for each in self.maps]
        return f"by block ({', '.join(maps)})"

    @override
    def constraints(self) -> Self:
        marks: Any = tuple(each and each.constraints() for each in self.maps)
        return dataclasses.replace(self, maps=marks)


def _smoothed(
    smoothing: StatisticMap, block: BlockStatistics, weights: Array
) -> BlockStatistics:
    statistics, changed = smoothing(block.statistics, weights)
    if changed is weights:
        return BlockStatistics(statistics, block.share)
    factor = changed / weights
    share = block.share * (factor[:, None] if block.by_cell else factor)
    return BlockStatistics(statistics, share)

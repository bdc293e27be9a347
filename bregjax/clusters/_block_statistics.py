"""Blocks of columns, and clusters that hold a weight for each cell.

A cell that is missing has the weight 0 and, in the place of its statistic, any that is
inside the domain. Averages of no weight at all are averages of these.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters._merges import Merges
from bregjax.clusters._moments import average

__all__ = [
    "BlockStatistics",
    "Group",
    "averages_by_cell",
    "floored_in_column",
    "full_cells",
    "of_seen_cells",
    "of_shared_cells",
    "pooled_cells",
    "pooled_cells_along",
    "weighing",
]

# What a cell that is missing weighs in averages, as a share of all weight. At half or
# double nothing changes: such a share of a number is below its rounding.
_NEARLY_NO_WEIGHT = 1e-30


@register_pytree
@dataclass(frozen=True)
class BlockStatistics:
    """Statistics of a block of columns, and what share of a row's weight they have.

    The weight of a column that counts more or less than others is a factor of its
    shares.

    Attributes:
        statistics: As the model of the block takes them, `[m, ...]`.
        share: Of whole rows of the block, `[m]`; or of each entry of the statistics,
            `[m, c]`, where a cluster holds a weight for each.
    """

    statistics: PyTree
    share: Array

    @property
    def by_cell(self) -> bool:
        """Whether entries have weights of their own."""
        return self.share.ndim == 2


@dataclass(frozen=True)
class Group:
    """Blocks whose entries are held side by side, by one model.

    Attributes:
        members: Numbers of the blocks.
        doubled: Whether an entry t of each block becomes the pair 1 − t, t; shares have
            entries for both already.
    """

    members: tuple[int, ...]
    doubled: tuple[bool, ...] = (False,)

    def joined(self, blocks: tuple[BlockStatistics, ...]) -> BlockStatistics:
        """The statistics of the group, of those of all blocks."""
        chosen = [blocks[member] for member in self.members]
        if self.doubled == (False,):
            return chosen[0]
        entries = [
            _pairs(block.statistics) if double else block.statistics
            for block, double in zip(chosen, self.doubled, strict=True)
        ]
        shares = [block.share for block in chosen]
        join = lambda parts: jnp.concatenate(parts, axis=-1)
        return BlockStatistics(join(entries), join(shares))


def _pairs(t: Array) -> Array:
    """1 − t, t side by side for each entry, `[m, 2c]`."""
    return jnp.stack([1 - t, t], axis=-1).reshape(t.shape[0], -1)


def weighing(state: Any, weight: Array) -> Any:
    """The state with other weights."""
    return replace(state, weight=weight)


def floored(weights: Array, total: Array) -> Array:
    """Weights, nearly nothing in the place of 0."""
    return jnp.maximum(weights, _NEARLY_NO_WEIGHT * total)


def floored_in_column(weights: Array, share: Array) -> Array:
    """Weights `[k, m]` in a column of shares `[m]`, nearly nothing in the place of 0.

    A cluster without an observed cell there gets the average of all that are.
    """
    total = jnp.sum(weights, axis=1, keepdims=True)
    floor = jnp.where(share > 0, 1, 1e-6)[None]
    return jnp.maximum(weights * share[None], _NEARLY_NO_WEIGHT * floor * total)


def pooled_cells(pool: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """The union of states with weights `[..., c]`, by what pools positive weights."""
    weight = a.weight + b.weight
    nowhere = weight == 0
    stand_in = lambda part: weighing(part, jnp.where(nowhere, 1, part.weight))
    return weighing(pool(stand_in(a), stand_in(b)), weight)


def pooled_cells_along(pool: Callable[[Any], Any], merges: Merges, leaves: Any) -> Any:
    """All nodes of a tree, by what pools leaves of positive weights."""
    weight = floored(leaves.weight, jnp.max(leaves.weight))
    return weighing(pool(weighing(leaves, weight)), merges.sum(leaves.weight))


def full_cells(a: Any, b: Any) -> tuple[Any, Any]:
    """Both states, each like the other in the columns that it lacks.

    There a merge costs exactly 0, and no infinite slope meets a weight of 0.
    """
    lacks_a, lacks_b = a.weight == 0, b.weight == 0
    nowhere = lacks_a & lacks_b
    a = _chosen(lacks_a, b, a)
    b = _chosen(lacks_b, a, b)
    stand_in = lambda part: weighing(part, jnp.where(nowhere, 1, part.weight))
    return stand_in(a), stand_in(b)


def of_shared_cells(costs: Array, rows: Any, columns: Any) -> Array:
    """Costs `[r, k, c]`, 0 where one of two clusters has no weight."""
    shared = (rows.weight[:, None] > 0) & (columns.weight[None] > 0)
    return jnp.where(shared, costs, 0)


def of_seen_cells(costs: Array, rows: Any) -> Array:
    """Costs `[r, k, c]` of rows under clusters, 0 where a row has no weight."""
    return jnp.where(rows.weight[:, None] > 0, costs, 0)


def averages_by_cell(block: BlockStatistics, weights: Array) -> tuple[PyTree, Array]:
    """Averages `[k, c, ...]` of statistics `[m, c, ...]` and the weights `[k, c]`.

    Args:
        block: Statistics that are averaged as they are, by cell.
        weights: Of the points in each cluster, `[k, m]`.
    """

    def in_column(cells: PyTree, share: Array) -> tuple[PyTree, Array]:
        seen = weights * share[None]
        full = floored_in_column(weights, share)
        shares = full / jnp.sum(full, axis=1, keepdims=True)
        means = jax.tree.map(lambda leaf: average(leaf, shares), cells)
        return means, jnp.sum(seen, axis=1)

    return jax.vmap(in_column, 1, 1)(block.statistics, block.share)


def _chosen(where: Array, there: Any, elsewhere: Any) -> Any:
    """One state where a condition `[..., c]` holds, and another elsewhere."""

    def choose(first: Array, second: Array) -> Array:
        condition = where.reshape(where.shape + (1,) * (first.ndim - where.ndim))
        return jnp.where(condition, first, second)

    return jax.tree.map(choose, there, elsewhere)

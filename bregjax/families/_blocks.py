"""A block of columns of a product: statistics, states and densities of its family."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import is_concrete, on_host, works_in_double
from bregjax._programs import program
from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters import BregmanModel, ClusterModel
from bregjax.clusters._block_statistics import BlockStatistics, Group
from bregjax.clusters._cells_model import CellsModel
from bregjax.clusters._product_model import ProductModel
from bregjax.clusters._seen_models import Seen
from bregjax.convex import NegativeEntropy
from bregjax.families._base import Family
from bregjax.smoothing import StatisticMap

__all__ = [
    "FamilyBlock",
    "average_cost",
    "grouped",
    "model_of_groups",
    "seen_columns",
    "state_of_block",
]


@register_pytree
@dataclass(frozen=True, eq=False)
class FamilyBlock:
    """A family and its columns.

    Attributes:
        family: The family.
        weights: What each column counts, `[d]`.
        fill: What stands in missing cells, `[d]`.
        columns: Where its columns are in a row.
        by_cell: Whether its cells have weights of their own.
    """

    family: Family
    weights: Array
    fill: Array
    columns: tuple[int, ...] = jax.tree.static()
    by_cell: bool = jax.tree.static()

    @property
    def places(self) -> np.ndarray:
        """Where its columns are in a row, `[d]`."""
        return np.array(self.columns)

    @property
    def form(self) -> Any:
        """The form by cell of the family."""
        return self.family.cells()

    def told_by_column(self) -> "FamilyBlock":
        """The block by cell, if its family can be."""
        by_cell = self.family.cells() is not None
        return dataclasses.replace(self, by_cell=by_cell)

    @property
    def num_entries(self) -> int:
        """How many entries by cell a state has."""
        return len(self.form.column_of_entries())

    @property
    def is_entropy(self) -> bool:
        """Whether its cells are held as entries t of Σ t log t."""
        if not self.by_cell:
            return False
        model = self.form.model()
        return isinstance(model, CellsModel) and _is_entropy(model.column)

    def cells(self, x: Array) -> tuple[Array, Array]:
        """Cells `[..., d]` of rows, with what stands for missing ones; which are seen.

        NumPy's where all is known.
        """
        known = is_concrete((x, self.fill))
        xp = np if known and isinstance(x, np.ndarray) else jnp
        cells = x[..., self.places]
        seen = ~xp.isnan(cells)
        fill = jax.lax.stop_gradient(self.fill) if xp is jnp else self.fill
        found: Any = xp.where(seen, cells, xp.asarray(fill, cells.dtype)), seen
        return found

    def statistics(self, x: Array) -> BlockStatistics:
        """Statistics of rows, and their shares of weight."""
        cells, seen = self.cells(x)
        weights = jnp.asarray(self.weights, cells.dtype)
        if not self.by_cell:
            # A cell that is missing all the same is NaN, and so is what comes of it.
            share = jnp.broadcast_to(weights[0], cells.shape[:1])
            return BlockStatistics(
                self.family.leaf_statistics(x[..., self.places]), share
            )
        share = self.form.spread(jnp.where(seen, weights[None], 0))
        return BlockStatistics(self.family.leaf_statistics(cells), share)

    def model(self) -> ClusterModel:
        """The model of its clusters."""
        return self.form.model() if self.by_cell else self.family.cluster_model()

    def density_parameters(self, state: PyTree) -> PyTree:
        """What `log_densities` needs of clusters.

        In a column that a cluster lacks it has the distribution of all clusters.
        """
        if not self.by_cell:
            return self.family.density_parameters(state)
        return self.form.density_parameters(self.form.filled(state))

    def log_densities(self, row: Array, parameters: PyTree) -> Array:
        """log p of the observed cells of a row, times the weights of columns, `[k]`."""
        if not self.by_cell:
            cells = row[..., self.places]
            return self.weights[0] * self.family.log_densities(cells, parameters)
        cells, seen = self.cells(row)
        found = self.form.log_densities(cells, parameters)
        found = jnp.where(seen[None], self.weights[None] * found, 0)
        return jnp.sum(found, axis=-1)


def _is_entropy(model: ClusterModel) -> bool:
    return isinstance(model, BregmanModel) and isinstance(
        model.function, NegativeEntropy
    )


def grouped(blocks: list[FamilyBlock]) -> tuple[Group, ...]:
    """The groups that a product model holds: cells of entropies are one group."""
    entropies = [b for b, block in enumerate(blocks) if block.is_entropy]
    groups = []
    for b, block in enumerate(blocks):
        if not block.is_entropy:
            groups.append(Group((b,)))
        elif b == entropies[0]:
            doubled = tuple(blocks[member].form.doubles for member in entropies)
            groups.append(Group(tuple(entropies), doubled))
    return tuple(groups)


def model_of_groups(blocks: list[FamilyBlock]) -> ProductModel:
    """The model of clusters of all blocks."""
    groups = grouped(blocks)
    models = tuple(blocks[group.members[0]].model() for group in groups)
    return ProductModel(models, groups)


def seen_columns(blocks: list[FamilyBlock]) -> tuple[Seen, ...]:
    """Where the shares of the columns of each block are."""
    found = []
    for b, block in enumerate(blocks):
        count = len(block.places)
        entries = np.zeros(count, int)
        if block.by_cell:
            column = block.form.column_of_entries()
            entries = np.searchsorted(column, np.arange(count))
        found.append(Seen(b, tuple(entries.tolist())))
    return tuple(found)


def average_cost(
    family: Any, rows: Array, smoothing: StatisticMap | None, weights: Array
) -> Array:
    """What a merge of two rows of a table costs for each unit of h, about.

    Twice what all rows lose when they are joined, over the weight of their cells: of
    two rows with independent values of variance v the merge costs h v, and joining m
    rows ½ m v, under squared distances.
    """
    arguments = family, rows, smoothing, weights
    if not works_in_double(arguments):
        return _average_cost(*arguments)
    with on_host():
        return np.asarray(_average_cost(*arguments))  # pyright: ignore[reportReturnType]


@program
def _average_cost(
    family: Any, rows: Array, smoothing: StatisticMap | None, weights: Array
) -> Array:
    statistics = family.leaf_statistics(rows)
    if smoothing is not None:
        statistics, weights = smoothing(statistics, weights)
    model: Any = family.cluster_model()
    leaves = model.leaves(statistics, weights)
    whole = model.unions(statistics, weights[None])
    lost = model.product.assignment_cost(leaves.inner, whole.inner)
    return 2 * jnp.sum(lost) / jnp.sum(leaves.seen)


def state_of_block(blocks: list[FamilyBlock], number: int, states: tuple) -> PyTree:
    """The states of a block, from those of all groups."""
    for group, state in zip(grouped(blocks), states, strict=True):
        if number not in group.members:
            continue
        if len(group.members) == 1:
            return state
        sizes = [blocks[member].num_entries for member in group.members]
        place = group.members.index(number)
        start = sum(sizes[:place])
        cut = slice(start, start + sizes[place])
        return jax.tree.map(lambda leaf, cut=cut: leaf[:, cut], state)
    raise KeyError(number)

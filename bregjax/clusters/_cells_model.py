"""Clusters of independent columns that hold a weight for each column."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._column_parameters import column_axes
from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters._base import ClusterModel
from bregjax.clusters._block_statistics import (
    BlockStatistics,
    floored_in_column,
    full_cells,
    of_seen_cells,
    pooled_cells,
    pooled_cells_along,
    weighing,
)
from bregjax.clusters._merges import Merges
from bregjax.clusters._screens import Screen
from bregjax.clusters._screens.cells import cell_screen_of

__all__ = ["CellsModel"]


@register_pytree
@dataclass(frozen=True)
class CellsModel(ClusterModel):
    """Clusters of columns that some rows lack, by the model of one column.

    Each column j has a weight of its own, the weight of the cells that are observed
    there. A merge costs the log-likelihood lost over these cells,

        Δ(a, b) = Σ_j w_aj B_f(τ_aj, τ_j) + w_bj B_f(τ_bj, τ_j),
        τ_j = (w_aj τ_aj + w_bj τ_bj) / (w_aj + w_bj),

    and nothing in a column that one part lacks: clusters without a common column cost
    0. Where nothing is missing the cost is that of the model of whole rows.

    States are those of the model of one column, with the columns as a further axis,
    `[k, c]`. A column that a cluster lacks has weight 0 there, and any mean inside the
    domain.

    Example. The rows (1, –) and (3, 5) of weight 1, under squared distances ½‖x‖²: the
    first column costs ½ (1 · 1 / 2) 2² = 1, the second nothing. The union has the
    weights (2, 1) and the means (2, 5).

    Attributes:
        column: The model of one column, whose parameters have the axes `[c, 1]`.

    Examples:
        >>> from bregjax.clusters import BregmanModel
        >>> from bregjax.convex import SquaredNorm
        >>> model = CellsModel(BregmanModel(SquaredNorm()))
        >>> rows = jnp.array([[1.0, 9.0], [3.0, 5.0]])
        >>> seen = jnp.array([[1.0, 0.0], [1.0, 1.0]])
        >>> states = model.leaves(BlockStatistics(rows, seen), jnp.ones(2))
        >>> print(model.cross_cost(states, states)[0, 1])
        1.0
    """

    column: ClusterModel

    @override
    def leaves(self, statistics: BlockStatistics, weights: Array) -> PyTree:
        """States of points, from statistics and shares `[m, c]`."""
        cells = jax.tree.map(lambda leaf: leaf[..., None], statistics.statistics)
        return self.column.leaves(cells, weights[:, None] * statistics.share)

    @override
    def pool(self, a: PyTree, b: PyTree) -> PyTree:
        return pooled_cells(self.column.pool, a, b)

    @override
    def settle(self, state: PyTree) -> PyTree:
        return self.column.settle(state)

    @override
    def pool_along(self, merges: Merges, leaves: PyTree) -> PyTree:
        along = lambda leaves: self.column.pool_along(merges, leaves)
        return pooled_cells_along(along, merges, leaves)

    @override
    def cost(self, a: PyTree, b: PyTree, union: PyTree) -> Array:
        return jnp.sum(self.costs_by_cell(a, b, union), axis=-1)

    def costs_by_cell(self, a: PyTree, b: PyTree, union: PyTree) -> Array:
        """The terms of the cost of a merge, `[..., c]`."""
        return self.column.cost(*full_cells(a, b), union)

    @override
    def merge_cost(self, a: PyTree, b: PyTree) -> Array:
        # Costs do not look at the union, which would have to be settled.
        return self.cost(a, b, None)

    @override
    def result(self, state: PyTree) -> Array:
        """The worst code of the columns."""
        return jnp.max(self.column.result(state), axis=-1)

    @override
    def screen(self, leaves: PyTree) -> Screen:
        screen = cell_screen_of(self.column, leaves)
        return super().screen(leaves) if screen is None else screen

    @override
    def assignment_cost(self, points: PyTree, clusters: PyTree) -> Array:
        """Sum over the columns that a point has.

        In a column that a cluster lacks by what stands there: of `unions` the average
        of all points.
        """
        costs = self.column.assignment_cost(points, clusters)
        return jnp.sum(of_seen_cells(costs, points), axis=-1)

    @override
    def unions(self, statistics: BlockStatistics, weights: Array) -> PyTree:
        """States `[k]` by averages in each column."""

        def in_column(model: ClusterModel, cells: PyTree, share: Array) -> PyTree:
            cells = jax.tree.map(lambda leaf: leaf[:, None], cells)
            state = model.unions(cells, floored_in_column(weights, share))
            return weighing(state, jnp.sum(weights * share[None], axis=1))

        axes = (column_axes(self.column), 1, 1)
        return jax.vmap(in_column, axes, 1)(
            self.column, statistics.statistics, statistics.share
        )

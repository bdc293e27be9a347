"""The form of a family of independent columns in which each cell has a weight."""

import abc
import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.special import xlogy
from typing_extensions import override

from bregjax._column_parameters import as_rows, column_axes
from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters import BregmanModel, ClusterModel, ColumnsModel, NaturalState
from bregjax.clusters._bregman_model import MeanState
from bregjax.clusters._cells_model import CellsModel
from bregjax.clusters._natural.solving import with_params
from bregjax.convex import NegativeEntropy

__all__ = [
    "BinaryCells",
    "CategoryCells",
    "CellForm",
    "ColumnCells",
    "SolvedCells",
    "SolvedColumnCells",
]


class CellForm(abc.ABC):
    """What a product asks of a family whose columns have weights of their own.

    Statistics are those of the family, with c entries a row; an entry belongs to one of
    d columns.
    """

    @abc.abstractmethod
    def model(self) -> ClusterModel:
        """The model of clusters, which takes `BlockStatistics` by cell."""

    @property
    def doubles(self) -> bool:
        """Whether the model takes the pair 1 − t, t for an entry t of the statistics.

        Shares, states and costs have entries for both.
        """
        return False

    @abc.abstractmethod
    def column_of_entries(self) -> np.ndarray:
        """The column of each entry of a state, `[c]`."""

    def spread(self, by_column: Array) -> Array:
        """Numbers of columns `[..., d]` as numbers of entries, `[..., c]`."""
        return by_column[..., self.column_of_entries()]

    def gathered(self, by_entry: Array) -> Array:
        """Sums over the entries of each column, `[..., d]` from `[..., c]`."""
        column = self.column_of_entries()
        zeros = jnp.zeros((*by_entry.shape[:-1], column[-1] + 1), by_entry.dtype)
        return zeros.at[..., column].add(by_entry)

    def weights(self, clusters: Any) -> Array:
        """The weight of each column in each cluster, `[k, d]`."""
        column = self.column_of_entries()
        return clusters.weight[..., np.searchsorted(column, np.arange(column[-1] + 1))]

    def filled(self, clusters: Any) -> Any:
        """Clusters with what all have together in the columns that they lack."""
        model = self.model()
        first = jax.tree.map(lambda leaf: leaf[:1], clusters)
        rest = jax.tree.map(lambda leaf: leaf[1:, None], clusters)
        pool = lambda whole, one: (model.pool(whole, one), None)
        whole = model.settle(jax.lax.scan(pool, first, rest)[0])
        lacks = clusters.weight == 0

        def choose(all_: Array, own: Array) -> Array:
            where = lacks.reshape(lacks.shape + (1,) * (own.ndim - lacks.ndim))
            return jnp.where(where, all_, own)

        return jax.tree.map(choose, whole, clusters)

    @abc.abstractmethod
    def costs(self, a: PyTree, b: PyTree) -> Array:
        """The cost of the merge of clusters by column, `[k, d]`."""

    @abc.abstractmethod
    def density_parameters(self, clusters: PyTree) -> PyTree:
        """What `log_densities` needs of k clusters."""

    @abc.abstractmethod
    def log_densities(self, row: Array, parameters: PyTree) -> Array:
        """log p of each cell of a row `[d]` under each cluster, `[k, d]`."""


class _ClosedCells(CellForm):
    """Cells of a model of closed forms, `CellsModel`."""

    @abc.abstractmethod
    def model(self) -> CellsModel: ...

    @override
    def costs(self, a: PyTree, b: PyTree) -> Array:
        return self.gathered(self.model().costs_by_cell(a, b, None))


@register_pytree
@dataclass(frozen=True)
class ColumnCells(_ClosedCells):
    """Cells of a built-in family, by the family of one column.

    Attributes:
        family: A `VectorFamily` of independent columns, whose `dim` is known.
    """

    family: Any

    @override
    def column_of_entries(self) -> np.ndarray:
        return np.arange(self.family.known_dim)

    @override
    def model(self) -> CellsModel:
        return CellsModel(as_rows(self.family.cluster_model()))

    @override
    def density_parameters(self, clusters: PyTree) -> PyTree:
        one = self._one()
        of_column = lambda family, state: family.density_parameters(state)
        return jax.vmap(of_column, (column_axes(one), 1), 1)(one, clusters)

    @override
    def log_densities(self, row: Array, parameters: PyTree) -> Array:
        one = self._one()
        of_column = lambda family, x, of: family.log_densities(x[None], of)
        axes = (column_axes(one), 0, 1)
        return jax.vmap(of_column, axes, 1)(one, row, parameters)

    def _one(self) -> Any:
        """Families of one column, with an axis of columns in their parameters."""
        return dataclasses.replace(as_rows(self.family), dim=1)


@register_pytree
@dataclass(frozen=True)
class BinaryCells(_ClosedCells):
    """Cells of Bernoulli variables, as categories of two levels.

    Attributes:
        dim: The number of columns.
    """

    dim: int = jax.tree.static()

    @property
    @override
    def doubles(self) -> bool:
        return True

    @override
    def model(self) -> CellsModel:
        return CellsModel(BregmanModel(NegativeEntropy()))

    @override
    def column_of_entries(self) -> np.ndarray:
        return np.repeat(np.arange(self.dim), 2)

    @override
    def density_parameters(self, clusters: MeanState) -> Array:
        return clusters.mean[..., 0]

    @override
    def log_densities(self, row: Array, parameters: Array) -> Array:
        no, yes = parameters[:, ::2], parameters[:, 1::2]
        return xlogy(1 - row[None], no) + xlogy(row[None], yes)


@register_pytree
@dataclass(frozen=True)
class CategoryCells(_ClosedCells):
    """Cells of categories: an entry for each level, with the weight of its column.

    Attributes:
        sizes: The number of levels of each column.
    """

    sizes: tuple[int, ...] = jax.tree.static()

    @override
    def model(self) -> CellsModel:
        return CellsModel(BregmanModel(NegativeEntropy()))

    @override
    def column_of_entries(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @override
    def density_parameters(self, clusters: MeanState) -> Array:
        return clusters.mean[..., 0]

    @override
    def log_densities(self, row: Array, parameters: Array) -> Array:
        place = jnp.round(row).astype(jnp.int32) + self._offsets()
        return jnp.log(parameters[:, place])

    def _offsets(self) -> np.ndarray:
        return np.cumsum(self.sizes) - np.asarray(self.sizes)


class _SolvedCells(CellForm):
    """Cells of columns whose conjugates are solved for, `ColumnsModel`."""

    @abc.abstractmethod
    def model(self) -> ColumnsModel: ...

    @override
    def column_of_entries(self) -> np.ndarray:
        return np.arange(self.model().num_columns)

    @override
    def costs(self, a: NaturalState, b: NaturalState) -> Array:
        model = self.model()
        return model.costs_by_cell(a, b, model.union(a, b))


@register_pytree
@dataclass(frozen=True)
class SolvedColumnCells(_SolvedCells):
    """The same of a built-in family.

    Attributes:
        family: A `VectorFamily` of independent columns, whose `dim` is known.
    """

    family: Any

    @override
    def model(self) -> ColumnsModel:
        return self.family.cluster_model()

    @override
    def density_parameters(self, clusters: NaturalState) -> NaturalState:
        return clusters

    @override
    def log_densities(self, row: Array, parameters: NaturalState) -> Array:
        one = dataclasses.replace(as_rows(self.family), dim=1)

        def of_column(family: Any, x: Array, state: NaturalState) -> Array:
            state = jax.tree.map(lambda leaf: leaf[:, None], state)
            return family.log_densities(x[None], family.density_parameters(state))

        axes = (column_axes(one), 0, 1)
        return jax.vmap(of_column, axes, 1)(one, row, parameters)


@register_pytree
@dataclass(frozen=True)
class SolvedCells(_SolvedCells):
    """The same of a ψ of the user's own for one column.

    Attributes:
        columns: The model of all columns.
    """

    columns: ColumnsModel

    @override
    def model(self) -> ColumnsModel:
        return self.columns

    @override
    def density_parameters(self, clusters: NaturalState) -> Array:
        return clusters.natural

    @override
    def log_densities(self, row: Array, parameters: Array) -> Array:
        family, params = self.columns.family, self.columns.params
        _, unravel = ravel_pytree(family.natural_init)

        def of_column(params: PyTree, x: Array, natural: Array) -> Array:
            one: Any = with_params(family, params)
            return jax.vmap(lambda theta: one.log_prob(x, unravel(theta)))(natural)

        axes = (None if params is None else 0, 0, 1)
        return jax.vmap(of_column, axes, 1)(params, row, parameters)

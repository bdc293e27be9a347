"""Built-in families of rows of numbers, whose dimension may come from the data."""

import dataclasses
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._checks import (
    check_entries,
    check_finite,
    check_support,
    float_array,
    is_concrete,
)
from bregjax._column_parameters import in_columns
from bregjax._inputs import column_names, number_array
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array, DataLike
from bregjax.clusters import (
    BregmanModel,
    ColumnsModel,
    MeanState,
    ScatterModel,
    VarianceModel,
)
from bregjax.families._base import Family
from bregjax.families._cell_form import CellForm, ColumnCells, SolvedColumnCells
from bregjax.families._densities import tangent_values

__all__ = ["VectorFamily"]


class VectorFamily(Family):
    """A family of observations `[d]`; its field `dim` is d, None before data is seen.

    Subclasses are frozen dataclasses with that field.

    Examples:
        >>> from bregjax.families import Poisson
        >>> isinstance(Poisson(), VectorFamily), Poisson().for_data([[1, 0, 2]]).dim
        (True, 3)
    """

    dim: int | None

    @property
    def known_dim(self) -> int:
        """The dimension d.

        Raises:
            ValueError: If `dim` is None.
        """
        if self.dim is None:
            name = type(self).__name__
            raise ValueError(
                f"{name} does not know its dimension yet. Give it, {name}(dim=…), or "
                "take it from data, family.for_data(x)."
            )
        return self.dim

    @override
    def for_data(self, x: DataLike) -> Self:
        """The family with `dim` set to the number of columns of `x`.

        Raises:
            ValueError: If `x` is not a matrix, or of another width than `dim`.
        """
        shape = np.shape(x)
        if len(shape) not in (1, 2):
            raise ValueError(
                f"`x` must be a matrix with a row a point; got shape {shape}."
            )
        width = shape[1] if len(shape) == 2 else 1
        if self.dim is None:
            return dataclasses.replace(self, dim=width)  # pyright: ignore[reportArgumentType]
        if self.dim != width:
            raise ValueError(
                f"`x` must have {self.dim} columns, the `dim` of the family; got "
                f"{width}. Leave `dim` out to take it from the data, or pass `family` "
                "again to `replace`."
            )
        return self

    @override
    def as_rows(self, x: DataLike) -> Array:
        """Rows `[m, d]`; a vector `[m]` is m points of one column."""
        if isinstance(x, SparseRows):
            return x  # pyright: ignore[reportReturnType]
        x = float_array(x)
        return x[:, None] if x.ndim == 1 else x

    @override
    def check_support(self, x: DataLike) -> None:
        """Raise ValueError at the first entry outside the sample space."""
        if not is_concrete(x):
            return
        if isinstance(x, SparseRows):
            check_entries("x", x, *self.support(np.asarray(x.values)))
            return
        array, columns = number_array(x), column_names(x)
        array = array[:, None] if array.ndim == 1 else array
        check_finite("x", array, columns=columns)
        allowed, rule, remedy = self.support(array)
        check_support("x", array, allowed, rule=rule, remedy=remedy, columns=columns)

    @override
    def cells(self) -> CellForm | None:
        if not self.columnwise:
            return None
        model = self.cluster_model()
        if isinstance(model, ColumnsModel):
            return SolvedColumnCells(self)
        closed = isinstance(model, BregmanModel | VarianceModel | ScatterModel)
        return ColumnCells(self) if closed else None

    @override
    def base_terms(self, statistics: Array, columns: Array) -> Array:
        def term(value: Array, column: Array) -> Array:
            family, row = self._of_column(column), value[None]
            mean = family.mean_inside()[None]
            tangent = tangent_values(family.cluster_model().function, row, mean)
            return family._density(row, mean) - tangent[0]

        return jax.vmap(term)(statistics, columns)

    @override
    def own_terms(self, statistics: Array, columns: Array) -> Array:
        """The density itself, unless it needs a θ that a mean on the boundary has not.

        Values of f would cancel with it where entries are large.
        """

        def term(value: Array, column: Array) -> Array:
            row = value[None]
            return self._of_column(column)._density(row, row[None])

        found = jax.vmap(term)(statistics, columns)
        by_base = super().own_terms(statistics, columns)
        return jnp.where(jnp.isfinite(found), found, by_base)

    def _of_column(self, column: Array) -> Any:
        """The family of one column."""
        return dataclasses.replace(in_columns(self, column[None]), dim=1)

    def _density(self, row: Array, mean: Array) -> Array:
        """log p of a row `[d]` under a mean `[1, d]`."""
        one = MeanState(jnp.ones(1, row.dtype), mean)
        return self.log_densities(row, self.density_parameters(one))[0]

    def support(self, x: np.ndarray) -> tuple[np.ndarray, str, str]:
        """Whether each entry is in the sample space; the rule and a remedy in words."""
        return np.ones(x.shape, bool), "must be finite", "Drop such rows"

"""Families of tables: from columns of any make to rows of numbers, checked."""

import dataclasses
import warnings
from collections.abc import Hashable
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._checks import is_concrete
from bregjax._frames import Column, frame_of
from bregjax._typing import Array, DataLike
from bregjax.families._base import Family
from bregjax.families._block_cells import (
    cells_of_block,
    check_cells,
    family_of_block,
    unseen_levels,
)
from bregjax.families._blocks import FamilyBlock
from bregjax.families._layout import Layout, Missing

__all__ = ["TableFamily"]


class TableFamily(Family):
    """A family whose rows are those of a table with blocks of columns.

    Attributes:
        families: The family of each block.
        layout: Which columns each block has.
        weights: What each column that is used counts, `[d]`, or None.
        fill: What stands in missing cells, `[d]`; None before data is seen.
    """

    families: tuple[Family, ...]
    layout: Layout
    weights: Array | None
    fill: Array | None

    def _with(self, **fields: Any) -> Self:
        """The family with other fields, unchecked."""
        family = object.__new__(type(self))
        vars(family).update({**vars(self), **fields})
        return family

    def blocks(self) -> list[FamilyBlock]:
        """The blocks, once data has been seen."""
        layout, blocks = self.layout, []
        count = len(layout.used)
        weights: Any = np.ones(count) if self.weights is None else self.weights
        fill: Any = np.ones(count) if self.fill is None else self.fill
        by_cell = layout.by_cell or (False,) * len(self.families)
        for b, family in enumerate(self.families):
            places = layout.places(b)
            columns = tuple(places.tolist())
            blocks.append(
                FamilyBlock(family, weights[places], fill[places], columns, by_cell[b])
            )
        return blocks

    @property
    @override
    def encodes(self) -> bool:
        return True

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The names of the columns that are used, in the order of the rows."""
        return self.layout.used

    @property
    @override
    def num_parameters(self) -> int:
        """Those of all blocks; missing cells and weights of columns change nothing."""
        return sum(family.num_parameters for family in self.families)

    # --- To a table ----------------------------------------------------------------

    @override
    def for_data(self, x: DataLike) -> Self:
        """The family for a table: columns, dimensions and levels known.

        Warns where new rows have levels that the table had not.

        Raises:
            ValueError: If a column is not there, has no observed cell, or does not fit
                its family.
        """
        if not is_concrete(x):
            return self if self.layout.known else self._fitted_to_traced(x)
        frame = frame_of(x)
        if not self.layout.known:
            family = self._on_table(frame.columns, named=frame.named)
            return family._fitted(family.layout.taken(frame))
        self._warn_of_levels(self.layout.taken(frame))
        return self

    def with_missing(self, missing: Missing) -> Self:
        """The family before it has seen data, with another rule for missing cells."""
        weights = self.weights
        if weights is not None:
            order = [self.layout.places(b) for b in range(len(self.families))]
            weights = weights[np.concatenate(order)]
        layout = Layout(self.layout.blocks, missing)
        return self._with(layout=layout, weights=weights, fill=None)

    def _on_table(self, names: tuple[Hashable, ...], *, named: bool) -> Self:
        layout = self.layout.on_table(names, named=named)
        if self.weights is None:
            return self._with(layout=layout)
        before = [column for block in layout.blocks for column in block]
        order = np.array([before.index(column) for column in layout.used])
        return self._with(layout=layout, weights=self.weights[order])

    def _fitted(self, columns: list[Column]) -> Self:
        """The family for the columns that are used."""
        families, lacks = [], []
        for b, family in enumerate(self.families):
            block = [columns[place] for place in self.layout.places(b)]
            families.append(family_of_block(family, block))
            lacks.append(any(column.missing.any() for column in block))
        fitted = self._with_blocks(families, lacks)
        rows = fitted._rows(columns)
        first = np.argmax(~np.isnan(rows), axis=0)
        return fitted._with(fill=rows[first, np.arange(len(first))])

    def _fitted_to_traced(self, x: Any) -> Self:
        """The family for rows of unknown numbers, whose levels must be known."""
        width = x.shape[1] if x.ndim == 2 else 1
        family = self._on_table(tuple(range(width)), named=False)
        rows = family.as_rows(x)
        families = [
            block.family.for_data(block.cells(rows)[0]) for block in family.blocks()
        ]
        first = jnp.argmax(~jnp.isnan(rows), axis=0)
        fill = jnp.take_along_axis(rows, first[None], axis=0)[0]
        fitted = family._with_blocks(families, [False] * len(families))
        return fitted._with(fill=fill)

    def _with_blocks(self, families: list[Family], lacks: list[bool]) -> Self:
        """Families that have seen data, by cell where need be and where they can.

        Raises:
            ValueError: If columns of a block that has one density weigh differently.
        """
        for b, family in enumerate(families):
            apart = is_concrete(self.weights) and self._weighs_apart(b)
            if apart and family.cells() is None:
                raise ValueError(
                    "`weights` must be one number for the columns of a block under "
                    f"{type(family).__name__}, {list(self.layout.blocks[b])}; got "
                    "several. Weigh all of them alike, or make blocks of their own."
                )
        wanted = self.layout.missing != "auto"
        by_cell = tuple(
            (wanted or lack or self._weighs_apart(b)) and family.cells() is not None
            for b, (family, lack) in enumerate(zip(families, lacks, strict=True))
        )
        layout = dataclasses.replace(self.layout, by_cell=by_cell)
        return self._with(families=tuple(families), layout=layout)

    def _weighs_apart(self, block: int) -> bool:
        """Whether the columns of a block have weights that differ."""
        if self.weights is None:
            return False
        weights = self.weights[self.layout.places(block)]
        return not is_concrete(weights) or np.ptp(weights) > 0

    # --- From a table --------------------------------------------------------------

    @override
    def as_rows(self, x: DataLike) -> Array:
        """The columns that are used as numbers `[m, d]`, NaN where a cell is missing.

        Categories are the codes of their levels; a level that the table had not counts
        as missing.
        """
        if not is_concrete(x):
            x = jnp.asarray(x, dtype=float)
            return x[:, None] if x.ndim == 1 else x
        return self._rows(self.layout.taken(frame_of(x)))  # pyright: ignore[reportReturnType]

    def _rows(self, columns: list[Column]) -> np.ndarray:
        rows = np.empty((len(columns[0].values), len(columns)))
        for b, family in enumerate(self.families):
            places = self.layout.places(b)
            rows[:, places] = cells_of_block(family, [columns[at] for at in places])
        return rows

    def _warn_of_levels(self, columns: list[Column]) -> None:
        for b, family in enumerate(self.families):
            block = [columns[place] for place in self.layout.places(b)]
            for words in unseen_levels(family, block):
                warnings.warn(
                    f"`rows` has levels that the problem has not, {words}: their cells "
                    "count as missing.",
                    stacklevel=4,
                )

    @override
    def check_support(self, x: DataLike) -> None:
        """Raise ValueError at the first row or cell that does not fit its family."""
        if is_concrete(x):
            self.check_rows(self.as_rows(x))

    @override
    def check_rows(self, rows: Array) -> None:
        table = np.asarray(rows)
        seen = ~np.isnan(table).all(axis=1)
        if not seen.all():
            count = int(np.sum(~seen))
            more = f" ({count} such in all)" if count > 1 else ""
            raise ValueError(
                "`x` must have an observed cell in each row; got none in row "
                f"{int(np.argmin(seen))}{more}. Drop such rows."
            )
        for block in self.blocks():
            names = [self.names[place] for place in block.places]
            cells = table[:, block.places]
            check_cells(block.family, cells, names, by_cell=block.by_cell)

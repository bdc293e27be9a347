"""Which columns of a table belong to which block of a product."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np

from bregjax._frames import Column, TableColumns

__all__ = ["Layout", "Missing"]

Missing = Literal["auto", "observed", "scaled"]


@dataclass(frozen=True)
class Layout:
    """The columns of blocks, and how cells that are missing count.

    The rows of a problem have the columns that are used, in the order of the table.

    Attributes:
        blocks: The columns of each block, by name or number.
        missing: As `Product` takes it.
        table: The names of all columns of the table, used or not; None before data is
            seen.
        by_cell: Whether the cells of each block have weights of their own.
        named: Whether the table names its columns; else their names are numbers.
    """

    blocks: tuple[tuple[Hashable, ...], ...]
    missing: Missing = "auto"
    table: tuple[Hashable, ...] | None = None
    by_cell: tuple[bool, ...] = ()
    named: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError unless each column is in one block."""
        if self.missing not in get_args(Missing):
            raise ValueError(
                f"`missing` must be one of {list(get_args(Missing))}; got "
                f"{self.missing!r}."
            )
        columns = [column for block in self.blocks for column in block]
        if not columns:
            raise ValueError(
                "`families` must have a column at least; got none. Write "
                "Product({column: family, …})."
            )
        twice = [column for column in columns if columns.count(column) > 1]
        if twice:
            raise ValueError(
                f"`families` must have each column once; got {twice[0]!r} in "
                f"{columns.count(twice[0])} places. Leave it out of all but one."
            )

    @property
    def known(self) -> bool:
        """Whether the table was seen."""
        return self.table is not None

    @property
    def used(self) -> tuple[Hashable, ...]:
        """The names of the columns that are used, in the order of the table."""
        chosen = {column for block in self.blocks for column in block}
        if self.table is None:
            return tuple(column for block in self.blocks for column in block)
        return tuple(column for column in self.table if column in chosen)

    def places(self, block: int) -> np.ndarray:
        """Where the columns of a block are among those that are used."""
        place = {column: i for i, column in enumerate(self.used)}
        return np.array([place[column] for column in self.blocks[block]])

    def block_of(self, column: Hashable) -> int:
        """The number of the block that a column is in."""
        return next(b for b, block in enumerate(self.blocks) if column in block)

    def on_table(self, names: tuple[Hashable, ...], *, named: bool) -> Self:
        """The layout for a table with columns of these names.

        Numbers that are no names stand for the columns in their places.

        Raises:
            ValueError: If a column is not there.
        """
        known = set(names)

        def found(column: Any) -> Hashable:
            if column in known:
                return column
            if isinstance(column, int | np.integer) and -len(names) <= column < len(
                names
            ):
                return names[column]
            raise ValueError(
                f"`family` has column {column!r}, which `x` has not; it has "
                f"{_listed(names)}. Rename the key or the column."
            )

        blocks = tuple(tuple(map(found, block)) for block in self.blocks)
        return replace(self, blocks=blocks, table=tuple(names), named=named)

    def taken(self, frame: TableColumns) -> list[Column]:
        """The columns that are used of a table, by name, or by place where it has none.

        Raises:
            ValueError: If a column is missing, or the number of columns is another.
        """
        used, table = self.used, self.table or ()
        columns = dict(zip(frame.columns, frame.members, strict=True))
        absent = [name for name in used if name not in columns]
        if frame.named and (self.named or not absent):
            if absent:
                raise ValueError(
                    f"`x` must have the columns {_listed(used)}; got none of the name "
                    f"{absent[0]!r}. Add it, empty where it is not known."
                )
            return [columns[name] for name in used]
        width = frame.shape[1]
        if width == len(table):
            place = {name: i for i, name in enumerate(table)}
            return [frame.members[place[name]] for name in used]
        if width == len(used):
            return list(frame.members)
        raise ValueError(
            f"`x` must have {len(table)} columns, as the table that the family was "
            f"made for; got {width}. Keep their order, or pass a data frame."
        )


def _listed(names: Iterable[Hashable], at_most: int = 12) -> str:
    names = list(names)
    words = ", ".join(repr(name) for name in names[:at_most])
    return words + (f", … ({len(names)} in all)" if len(names) > at_most else "")

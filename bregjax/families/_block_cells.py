"""The cells of a block of columns: read as its family has them, and checked."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from bregjax._checks import check_support
from bregjax._frames import Column
from bregjax.families._base import Family
from bregjax.families._categorical import Categorical
from bregjax.families._exponential_family import ExponentialFamily
from bregjax.families._levels import known_levels
from bregjax.families._vector_family import VectorFamily

__all__ = ["cells_of_block", "check_cells", "family_of_block", "unseen_levels"]

_WHOLE = (
    "Take a family of independent columns, such as DiagonalGaussian, or drop or impute "
    "such cells"
)
_OWN = (
    "Write ψ of one number and take Columnwise(ExponentialFamily(psi, …)), or drop or "
    "impute such cells"
)
_SAID = 'Make the problem with missing="observed", for rows that lack cells'


def family_of_block(family: Family, block: list[Column]) -> Any:
    """The family with what it takes from its columns: dimension, levels.

    Raises:
        ValueError: If a column has no observed cell, or the family does not fit.
    """
    for column in block:
        if column.missing.all():
            raise ValueError(
                "`x` must have an observed cell in each column; got none in column "
                f"{column.name!r}. Leave the column out of the family."
            )
    if isinstance(family, Categorical):
        if family.levels is None:
            levels = tuple(_levels(column) for column in block)
            return Categorical(levels)
        levels = known_levels(family.levels, len(block))
        for column, known in zip(block, levels, strict=True):
            unknown = _unknown(column, known)
            if unknown:
                raise ValueError(
                    f"`x` must hold known levels in column {column.name!r}, "
                    f"{_some(known)}; got {_some(unknown)}. Add them to `levels`, or "
                    "drop such rows."
                )
        return Categorical(levels)
    rows = cells_of_block(family, block)
    whole = rows[~np.isnan(rows).any(axis=1)]
    return family.for_data(whole if len(whole) else np.nan_to_num(rows[:1]))


def cells_of_block(family: Family, block: list[Column]) -> np.ndarray:
    """Columns as numbers `[m, d]`, NaN where a cell is missing.

    Categories are codes of levels; a level that is not known counts as missing.
    """
    if not isinstance(family, Categorical) or family.levels is None:
        return np.stack([column.codes() for column in block], axis=1)
    codes = []
    for column, levels in zip(block, family.levels, strict=True):
        place = {level: float(code) for code, level in enumerate(levels)}
        values = column.values.tolist()
        codes.append(np.array([place.get(value, np.nan) for value in values]))
    return np.stack(codes, axis=1)


def unseen_levels(family: Family, block: list[Column]) -> list[str]:
    """The levels that the family of a block does not know, in words."""
    if not isinstance(family, Categorical) or family.levels is None:
        return []
    pairs = zip(block, family.levels, strict=True)
    unknown = {column.name: _unknown(column, levels) for column, levels in pairs}
    return [f"{_some(u)} in column {name!r}" for name, u in unknown.items() if u]


def check_cells(
    family: Family, cells: np.ndarray, names: Sequence[Hashable], *, by_cell: bool
) -> None:
    """Raise ValueError at the first cell that a block cannot have.

    Args:
        family: The family of the block.
        cells: `[m, d]`.
        names: The names of its columns.
        by_cell: Whether cells may be missing.
    """
    missing = np.isnan(cells)
    name = type(family).__name__
    if not by_cell:
        whole = family.cells() is None
        rule = f"must have no missing cells under {name}"
        rule += ", which needs whole rows" if whole else " here"
        remedy = _SAID
        if whole:
            remedy = _OWN if isinstance(family, ExponentialFamily) else _WHOLE
        check_support("x", cells, ~missing, rule=rule, remedy=remedy, columns=names)
    finite = np.isfinite(cells) | missing
    check_support(
        "x", cells, finite, rule="must be finite", remedy=_DROP, columns=names
    )
    if isinstance(family, Categorical):
        inside = (cells == np.round(cells)) & (cells >= 0)
        allowed = inside & (cells < np.array(family.sizes))
        rule, remedy = "must hold codes of levels", "Make the problem again, of names"
    elif isinstance(family, VectorFamily):
        allowed, rule, remedy = family.support(np.where(missing, 1, cells))
    else:
        allowed, rule, remedy = finite, "", ""
    check_support(
        "x", cells, allowed | missing, rule=rule, remedy=remedy, columns=names
    )
    if not missing.any():
        rows: Any = cells
        family.check_rows(rows)


_DROP = "Drop such rows, or take NaN for what is not known"


def _levels(column: Column) -> tuple[Hashable, ...]:
    """The levels that a column declares, or has."""
    if column.levels is not None:
        return column.levels
    present = column.values[~column.missing]
    if column.boolean:
        return (False, True)
    if column.numeric:
        whole = present == np.round(present)
        if not whole.all():
            row = int(np.flatnonzero(~column.missing)[np.argmin(whole)])
            raise ValueError(
                "`x` must hold names or whole numbers in a column of categories; got "
                f"{column.values[row]} at row {row}, column {column.name!r}. Code the "
                "column in a few levels, or use a family of numbers."
            )
        return tuple(int(value) for value in np.unique(present))
    distinct = dict.fromkeys(present.tolist())
    if column.timed:
        return tuple(sorted(distinct, key=str))
    return tuple(
        sorted(
            distinct,
            key=lambda level: (
                (not _is_number(level), str(level))
                if not _is_number(level)
                else (False, level)
            ),
        )
    )


def _is_number(level: Any) -> bool:
    return isinstance(level, int | float)


def _unknown(column: Column, levels: Sequence[Hashable]) -> list[Hashable]:
    """The values of a column that are none of some levels."""
    present = dict.fromkeys(column.values[~column.missing].tolist())
    known = set(levels)
    return [value for value in present if value not in known]


def _some(levels: Sequence[Hashable], at_most: int = 8) -> str:
    words = ", ".join(repr(level) for level in levels[:at_most])
    more = f" and {len(levels) - at_most} more" if len(levels) > at_most else ""
    return words + more

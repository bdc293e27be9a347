"""Levels and codes of tables of categories, and tests of the entries."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from bregjax._inputs import is_missing, place, refuse_masked
from bregjax._typing import DataLike

__all__ = ["as_table", "check_levels", "codes_of", "known_levels", "levels_of"]

Levels = tuple[tuple[Hashable, ...], ...]

# How many levels an error names.
_SHOWN = 8


def as_table(x: DataLike) -> np.ndarray:
    """The entries as they are, `[m, d]`; a vector is one column.

    Lists become arrays of objects: NumPy would turn numbers beside names into text.
    """
    refuse_masked("x", x)
    nested = isinstance(x, list | tuple)
    table = np.array(x, dtype=object) if nested else np.asarray(x)
    return table[:, None] if table.ndim == 1 else table


def known_levels(levels: Iterable[Any], width: int) -> Levels:
    """Levels given by a user, as tuples.

    Raises:
        ValueError: Unless each of `width` columns has levels, all of them different.
    """
    columns = list(levels)
    if len(columns) != width:
        raise ValueError(
            f"`levels` must have the levels of each column of `x`, {width}; got "
            f"{len(columns)}. Leave it out to take them from the data."
        )
    for number, column in enumerate(columns):
        if isinstance(column, str) or not isinstance(column, Iterable):
            raise ValueError(
                f"`levels` must hold a sequence for each column; got {column!r} for "
                f"column {number}. Write (({column!r}, …), …)."
            )
    found = tuple(tuple(_plain(level) for level in column) for column in columns)
    for number, column in enumerate(found):
        if not column or len(set(column)) < len(column):
            raise ValueError(
                "`levels` must have at least one level a column, no two alike; got "
                f"{_show(column)} for column {number}."
            )
    return found


def levels_of(table: np.ndarray) -> Levels:
    """The sorted levels of each column; a missing entry is not a level."""

    def of_column(column: np.ndarray) -> tuple[Hashable, ...]:
        present = [v for v in _distinct(column)[0] if not is_missing(v)]
        kinds = {isinstance(value, str) for value in present}
        # Numbers and names in one column: numbers first.
        order = None if len(kinds) < 2 else lambda v: (isinstance(v, str), v)
        return tuple(sorted(present, key=order))

    return tuple(of_column(column) for column in table.T)


def codes_of(table: np.ndarray, levels: Levels) -> np.ndarray:
    """Places of entries among the levels of their columns, `[m, d]`, or −1."""
    codes = np.empty(table.shape)
    for number, (column, known) in enumerate(zip(table.T, levels, strict=True)):
        code = {level: place for place, level in enumerate(known)}
        distinct, where = _distinct(column)
        codes[:, number] = np.array([code.get(v, -1) for v in distinct])[where]
    return codes


def check_levels(table: np.ndarray, levels: Levels) -> None:
    """Raise ValueError at the first entry that is not a level of its column."""
    codes = codes_of(table, levels)
    for number, column in enumerate(table.T):
        continuous = [v for v in _distinct(column)[0] if _is_continuous(v)]
        for bad, rule, remedy in (
            (is_missing, "must have no missing entries", _FILL),
            (continuous.__contains__, "must hold names or whole numbers", _CODE),
        ):
            _refuse(column, number, bad, rule, remedy)
        unknown = set(column[codes[:, number] < 0].tolist())
        known = _show(levels[number])
        _refuse(
            column,
            number,
            unknown.__contains__,
            f"must hold known levels, {known} in column {number}",
            "Add it to `levels`, or drop such rows",
        )


_FILL = "Give them a level of their own, such as 'missing', or drop such rows"
_CODE = "Code the column in a few levels, or use a family of numbers"


def _refuse(column: np.ndarray, number: int, bad: Any, rule: str, remedy: str) -> None:
    distinct, where = _distinct(column)
    rows = np.flatnonzero(np.array([bool(bad(v)) for v in distinct])[where])
    if not len(rows):
        return
    value = distinct[where[rows[0]]]
    more = f" ({len(rows)} such in this column)" if len(rows) > 1 else ""
    raise ValueError(
        f"`x` {rule}; got {value!r} at {place((int(rows[0]), number))}{more}. {remedy}."
    )


def _distinct(column: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """The distinct entries as Python values, and the place of each entry in them."""
    if column.dtype != object:
        distinct, where = np.unique(column, return_inverse=True)
        return distinct.tolist(), where
    values = [_plain(value) for value in column]
    numbers: dict[Any, int] = {}
    where = np.array([numbers.setdefault(v, len(numbers)) for v in values], dtype=int)
    return list(numbers), where


def _plain(value: Any) -> Any:
    """A NumPy number or string as a Python one, and every missing value as None."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if is_missing(value) else value


def _is_continuous(value: Any) -> bool:
    return isinstance(value, float) and not value.is_integer()


def _show(levels: Sequence[Hashable]) -> str:
    shown = ", ".join(repr(level) for level in levels[:_SHOWN])
    more = f" and {len(levels) - _SHOWN} more" if len(levels) > _SHOWN else ""
    return f"{shown}{more}" if levels else "none"

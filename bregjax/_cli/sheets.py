"""Cells of a text table, and the numbers in them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bregjax._frames import Column, TableColumns

__all__ = [
    "Sheet",
    "categories",
    "is_number",
    "look_like_numbers",
    "mixed",
    "numbers",
    "with_points",
]

_BOOLEANS = {"true": "1", "false": "0"}
# A column with more numbers than this share is one of numbers; at less, of names.
_MOSTLY = 0.8
_MISSING = ("", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "null", "none", "?")


@dataclass(frozen=True)
class Sheet:
    """Cells of a text table.

    Attributes:
        header: Column names, or None.
        rows: Cells, all rows of one length.
        lines: Where each row ends in the file: its line from 1, or of a transposed
            table its column from 0.
        unit: What `lines` counts, "line" or "column".
        notes: Assumptions made in reading the file, a sentence each.
    """

    header: tuple[str, ...] | None
    rows: list[list[str]]
    lines: Sequence[int]
    unit: str = "line"
    notes: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.rows[0])

    def column(self, index: int) -> list[str]:
        """The cells of one column."""
        return [row[index] for row in self.rows]

    def name(self, index: int) -> str:
        """A column's name for messages."""
        return repr(self.header[index]) if self.header else str(index)


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number, or as true or false."""
    return _as_float(cell) is not None


def with_points(rows: list[list[str]]) -> tuple[list[list[str]], str]:
    """Read decimal commas as points, and say so, in columns where all cells allow it.

    For tables with semicolons between cells, as spreadsheets of some languages write
    them. The first row may hold names.
    """
    columns, changed = [], []
    for column in zip(*rows, strict=True):
        others = column[1:] or column
        commas = [cell for cell in column if "," in cell and _with_point(cell)]
        allowed = [cell.lower() in _MISSING or _with_point(cell) for cell in others]
        if commas and all(allowed):
            changed.append(commas[0])
            column = [_with_point(cell) or cell for cell in column]
        columns.append(column)
    if not changed:
        return rows, ""
    many = f"{len(changed)} columns" if changed[1:] else "a column"
    note = f"commas in {many}, such as {changed[0]}, are read as decimal points"
    return [list(row) for row in zip(*columns, strict=True)], note


def _with_point(cell: str) -> str:
    """A number with a comma, or without, with a point; "" if it is none."""
    return cell.replace(",", ".") if _WITH_COMMA.fullmatch(cell) else ""


_WITH_COMMA = re.compile(r"[+-]?\d+(,\d+)?([eE][+-]?\d+)?")
# Amounts with a sign of money, shares, numbers with a comma between thousands.
_DECORATED = re.compile(r"[+-]?[$€£¥]?\s*[+-]?\d[\d.,]*\s*[$€£¥%]?")


def look_like_numbers(sheet: Sheet, columns: Sequence[int]) -> tuple[str, ...]:
    """Notes on columns that `mixed` reads as names, though most cells are numbers."""
    notes = []
    for index in columns:
        cells = sheet.column(index)
        known = [i for i, cell in enumerate(cells) if cell.lower() not in _MISSING]
        odd = [i for i in known if not is_number(cells[i])]
        if not odd or _looks_numeric([cells[i].lower() for i in known]):
            continue
        first = f"{_short(cells[odd[0]])} on {sheet.unit} {sheet.lines[odd[0]]}"
        if all(_DECORATED.fullmatch(cells[i]) for i in odd):
            notes.append(
                f"column {sheet.name(index)} is read as text, and looks like numbers; "
                f"got {first}. Leave signs such as $ and % out to have it as numbers"
            )
        elif 2 * len(odd) < len(known):
            notes.append(
                f"column {sheet.name(index)} is read as text, though "
                f"{len(known) - len(odd)} of its {len(known)} cells are numbers; got "
                f"{first}. Mend that cell, or leave it empty, to have numbers"
            )
    return tuple(notes)


def numbers(sheet: Sheet, columns: Sequence[int]) -> np.ndarray:
    """Convert the cells of some columns to float64 numbers, `[m, len(columns)]`.

    True and False are 1 and 0; empty cells, NA and the like are NaN.

    Raises:
        ValueError: At the first cell that is not a number, naming line, column and
            remedy.
    """
    cells = [[row[i] for i in columns] for row in sheet.rows]
    values = _all_floats(cells)
    if values is not None and np.isfinite(values).all():
        return values
    for number, (row, line) in enumerate(zip(cells, sheet.lines, strict=True)):
        for cell, index in zip(row, columns, strict=True):
            value = _as_float(cell)
            if cell.lower() in _MISSING:
                continue
            if value is None or not math.isfinite(value):
                first = number == 0 and sheet.header is None
                raise ValueError(
                    f"cells must be finite numbers; got {_short(cell)} on {sheet.unit} "
                    f"{line}, column {sheet.name(index)}. {_remedy(cell, first=first)}"
                )
    return np.array([[_number_or_nan(cell) for cell in row] for row in cells])


def mixed(sheet: Sheet, columns: Sequence[int]) -> TableColumns:
    """Read each column as what its cells are: numbers, true or false, or names.

    Empty cells, NA and the like are missing. A column of names that were written as
    numbers is one of numbers to a reader, and no category by mistake.

    Raises:
        ValueError: At the first infinite number; at a cell that is no number in a
            column of which most are, or that has a comma for a decimal point.
    """
    members = []
    for index in columns:
        cells = sheet.column(index)
        known = [cell.lower() for cell in cells if cell.lower() not in _MISSING]
        name = sheet.header[index] if sheet.header else index
        if known and all(cell in _BOOLEANS for cell in known):
            values = np.array([_number_or_nan(cell) for cell in cells])
            members.append(Column(name, values, boolean=True))
        elif all(map(is_number, known)) or _looks_numeric(known):
            members.append(Column(name, numbers(sheet, [index])[:, 0]))
        else:
            names = [None if c.lower() in _MISSING else c for c in cells]
            members.append(Column(name, np.array(names, dtype=object)))
    return TableColumns(tuple(members), named=sheet.header is not None)


def _looks_numeric(cells: list[str]) -> bool:
    """Whether a column is meant for numbers, though not all of its cells are such."""
    plain = sum(map(is_number, cells))
    if plain > _MOSTLY * len(cells):
        return True
    commas = [is_number(cell.replace(",", ".").replace("_", "")) for cell in cells]
    return bool(cells) and all(commas)


def _number_or_nan(cell: str) -> float:
    return np.nan if cell.lower() in _MISSING else float(_as_float(cell) or 0.0)


def categories(sheet: Sheet, columns: Sequence[int]) -> np.ndarray:
    """Convert the cells of some columns to categories, objects `[m, len(columns)]`.

    Columns that hold only numbers become numbers, all others text.

    Raises:
        ValueError: At the first missing cell.
    """
    table = np.empty((len(sheet.rows), len(columns)), dtype=object)
    for place, index in enumerate(columns):
        cells = sheet.column(index)
        for cell, line in zip(cells, sheet.lines, strict=True):
            if cell.lower() in _MISSING:
                raise ValueError(
                    f"cells must be categories; got {cell!r} on {sheet.unit} {line}, "
                    f"column {sheet.name(index)}. Drop such rows, or write a category "
                    "such as missing."
                )
        if all(map(is_number, cells)):
            table[:, place] = [_as_float(cell) for cell in cells]
        else:
            table[:, place] = cells
    return table


def _all_floats(cells: list[list[str]]) -> np.ndarray | None:
    """Convert all cells by NumPy; None if NumPy may read a cell differently."""
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError:
        return None
    return None if any("_" in cell for row in cells for cell in row) else values


def _as_float(cell: str) -> float | None:
    """The number in a cell; Python would take 1_5 for 15."""
    try:
        return None if "_" in cell else float(_BOOLEANS.get(cell.lower(), cell))
    except ValueError:
        return None


def _remedy(cell: str, *, first: bool) -> str:
    if cell.lower() in _MISSING or is_number(cell):
        return "Drop or impute such rows first."
    if is_number(cell.replace(",", ".")):
        return "Write decimal points instead of commas."
    if is_number(cell.replace("_", "")):
        return "Write numbers without underscores, or say --names or --drop."
    remedy = (
        "Leave the cell empty where the number is not known; for a column of classes "
        "or names say --classes, --names or --drop."
    )
    return remedy + " If the line names the columns say --header yes." * first


def _short(cell: str, at_most: int = 60) -> str:
    """Quote a cell for a message, shortened."""
    return repr(cell if len(cell) <= at_most else cell[: at_most - 1] + "…")

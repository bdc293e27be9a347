"""Tables in text files: delimiter, header, numbers."""

import csv
import gzip
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

__all__ = ["DELIMITERS", "Sheet", "numbers", "read_sheet"]

DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "space": " "}


@dataclass(frozen=True)
class Sheet:
    """Cells of a text table.

    Attributes:
        header: Column names, or None.
        rows: Cells, all rows of one length.
        lines: The line of the file on which each row ends, from 1.
    """

    header: tuple[str, ...] | None
    rows: list[list[str]]
    lines: list[int]

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


def read_sheet(path: Path, *, delimiter: str = "auto", header: str = "auto") -> Sheet:
    """Read a text table, gzipped where the name ends in .gz.

    Args:
        path: The file.
        delimiter: A key of `DELIMITERS`, or "auto": the first of tab, semicolon, comma
            and space that occurs in the first line.
        header: "yes", "no", or "auto": yes where no cell of the first row is a number.

    Raises:
        ValueError: If the file holds no rows, or rows of different lengths.
        OSError: If it cannot be read.
    """
    with _opened(path) as file:
        rows, lines = _split(file, delimiter)
    if not rows:
        raise ValueError("the file is empty. Give a table with a row a point.")
    names = None
    if header == "yes" or (header == "auto" and not any(map(_is_number, rows[0]))):
        first, *rows = rows
        names = _uncommented(first)
        lines = lines[1:]
    if not rows:
        raise ValueError(
            "the file has a header and no rows. If its one line is data, say "
            "--header no."
        )
    width = len(names or rows[0])
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            raise ValueError(
                f"line {line} has {len(row)} cells and the first has {width}. Check "
                "the line, or name the --delimiter."
            )
    return Sheet(names, rows, lines)


def numbers(sheet: Sheet, columns: Sequence[int]) -> np.ndarray:
    """The cells of some columns as finite float64 numbers, `[m, len(columns)]`.

    Raises:
        ValueError: At the first cell that is none, naming line, column and remedy.
    """
    cells = [[row[i] for i in columns] for row in sheet.rows]
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError:
        values = None
    if values is not None and np.isfinite(values).all():
        return values
    for row, line in zip(cells, sheet.lines, strict=True):
        for cell, index in zip(row, columns, strict=True):
            if not (_is_number(cell) and math.isfinite(float(cell))):
                raise ValueError(
                    f"cells must be finite numbers; got {cell!r} on line {line}, "
                    f"column {sheet.name(index)}. {_remedy(cell)}"
                )
    raise ValueError("the cells could not be read as numbers.")


def _remedy(cell: str) -> str:
    if not cell or cell.lower() in ("na", "n/a", "nan", "null", "?"):
        return "Drop or impute such rows first."
    if _is_number(cell.replace(",", ".")):
        return "Write decimal points instead of commas."
    return "For a column of classes or names say --labels, --names or --drop."


def _uncommented(header: list[str]) -> tuple[str, ...]:
    """Names without the mark that `numpy.savetxt` puts before them."""
    first = header[0].removeprefix("#").strip()
    return tuple(header[1:] if not first and header[0] else [first, *header[1:]])


def _opened(path: Path) -> IO[str]:
    # utf-8-sig: spreadsheets put a byte-order mark before the first name.
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _split(file: IO[str], delimiter: str) -> tuple[list[list[str]], list[int]]:
    """Cells of the lines that are not blank, and their numbers."""
    first = file.readline()
    while first and not first.strip():
        first = file.readline()
    file.seek(0)
    mark = _guess(first) if delimiter == "auto" else DELIMITERS[delimiter]
    rows: list[list[str]] = []
    lines: list[int] = []
    if mark == " ":
        for number, line in enumerate(file, start=1):
            if line.strip():
                rows.append(line.split())
                lines.append(number)
        return rows, lines
    reader = csv.reader(file, delimiter=mark, skipinitialspace=True)
    for row in reader:
        cells = [cell.strip() for cell in row]
        if any(cells):
            rows.append(cells)
            lines.append(reader.line_num)
    return rows, lines


def _guess(line: str) -> str:
    for mark in ("\t", ";", ","):
        if mark in line:
            return mark
    return " "


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

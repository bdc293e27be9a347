"""A user's file as rows to cluster, with what is known of them."""

import dataclasses
import errno
import gzip
import os
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bregjax._cli.array_files import Matrix, read_matrix, read_npz
from bregjax._cli.columns import ColumnChoice, Roles, assign_roles
from bregjax._cli.headers import NAMELESS
from bregjax._cli.sheets import (
    Sheet,
    categories,
    look_like_numbers,
    mixed,
    numbers,
)
from bregjax._cli.text_files import STANDARD_INPUT, read_sheet

__all__ = ["Cells", "Table", "read_table"]

Cells = Literal["numbers", "categories", "mixed"]
_READERS = {"numbers": numbers, "categories": categories, "mixed": mixed}
_TEXT = (".csv", ".tsv", ".tab", ".txt", ".dat")
_ARRAYS = (".npy", ".npz", ".mtx", ".mtx.gz")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows to cluster.

    Attributes:
        source: Where they come from, for the report.
        x: `[m, d]`; of categories objects; sparse where the file is; columns where
            they are of several kinds.
        classes: The known class of each row, or None.
        class_name: The name of the column of classes.
        names: A name for each row, or None.
        weights: `[m]`, or None.
        columns: What the file calls each column of `x`, its number where the file has
            no names; numbers of `x` if None.
        lines: The line of the file that each row is on, from 1; None for arrays.
        unit: What `lines` counts: "line", or "column" (from 0) of a transposed table.
        notes: Assumptions made in reading the file, a sentence each.
    """

    source: str
    x: Any
    classes: list[str] | None = None
    class_name: str = "class"
    names: list[str] | None = None
    weights: np.ndarray | None = None
    columns: tuple[str | int, ...] | None = None
    lines: Sequence[int] | None = None
    unit: str = "line"
    notes: tuple[str, ...] = ()

    def place(self, row: int, column: int | None = None) -> str:
        """The place in the file of an entry of `x`, or of a row."""
        words = f"row {row}"
        if self.lines is not None:
            words = f"{self.unit} {self.lines[row]}"
        return words if column is None else f"{words}, {self.column_place(column)}"

    def column_place(self, column: int) -> str:
        """The place in the file of a column of `x`."""
        name = column if self.columns is None else self.columns[column]
        return f"column {name!r}"


def read_table(
    path: Path,
    choice: ColumnChoice,
    *,
    delimiter: str = "auto",
    header: str = "auto",
    encoding: str = "auto",
    transpose: bool = False,
    cells: Cells = "numbers",
) -> Table:
    """Read a table by the ending of its name.

    Args:
        path: A .csv, .tsv, .tab, .txt, .dat (each also .gz), .npy, .npz, .mtx or
            .mtx.gz file; "-" for text from the standard input.
        choice: Which columns are classes, names, weights, or left out; in an .npz file
            also the names of arrays. Its array y holds the classes unless others are
            named.
        delimiter: As for `read_sheet`.
        header: As for `read_sheet`.
        encoding: As for `read_sheet`.
        transpose: Take columns for rows, before all else.
        cells: What the cells of text files are: numbers, categories, or "mixed", by
            column.

    Raises:
        ValueError: Naming the file, what came, where, and the remedy.
        OSError: If the file cannot be read.
    """
    source = "standard input" if path == STANDARD_INPUT else str(path)
    ending = path.name.lower()
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), source)
    try:
        if path == STANDARD_INPUT or ending.removesuffix(".gz").endswith(_TEXT):
            sheet = read_sheet(
                path,
                delimiter=delimiter,
                header=header,
                encoding=encoding,
                transpose=transpose,
            )
            return _from_text(source, choice, sheet, cells)
        if ending.endswith(".npz"):
            return _from_npz(source, choice, *read_npz(path), transpose=transpose)
        if ending.endswith(_ARRAYS):
            x = read_matrix(path)
            return _from_matrix(source, choice, x.T if transpose else x)
    except _UNREADABLE as error:
        raise ValueError(f"{source}: {error}") from error
    raise ValueError(
        f"{source}: the ending of its name is none of {', '.join(_TEXT + _ARRAYS)}. "
        "Rename or convert the file, or pass text as the standard input, -."
    )


_UNREADABLE = (
    ValueError,
    OverflowError,
    EOFError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
)


def _from_text(source: str, choice: ColumnChoice, sheet: Sheet, cells: Cells) -> Table:
    roles = assign_roles(choice, sheet.header, sheet.width)
    notes = sheet.notes
    if _has_index(sheet, roles):
        roles = dataclasses.replace(roles, names=0, data=roles.data[1:])
        notes += (_INDEX_NOTE,)
    if cells == "mixed":
        notes += look_like_numbers(sheet, roles.data)
    classes = None if roles.classes is None else sheet.column(roles.classes)
    class_name = "class"
    if sheet.header and roles.classes is not None:
        class_name = sheet.header[roles.classes] or class_name
    return Table(
        source,
        _READERS[cells](sheet, roles.data),
        _checked_classes(classes),
        class_name,
        None if roles.names is None else sheet.column(roles.names),
        None if roles.weights is None else numbers(sheet, [roles.weights])[:, 0],
        tuple(sheet.header[index] if sheet.header else index for index in roles.data),
        sheet.lines,
        sheet.unit,
        notes,
    )


_INDEX_NOTE = (
    "the first column has no name and is taken for the names of rows; give it a name "
    "if it is data"
)


def _has_index(sheet: Sheet, roles: Roles) -> bool:
    """Whether the first column has no name, and rows have no other names."""
    if sheet.header is None or sheet.header[0] not in NAMELESS:
        return False
    return roles.names is None and roles.data[0] == 0 and len(roles.data) > 1


def _from_npz(
    source: str,
    choice: ColumnChoice,
    x: Matrix,
    beside: dict[str, np.ndarray],
    *,
    transpose: bool,
) -> Table:
    x = x.T if transpose else x
    wanted = choice.classes
    num_rows = x.shape[0]
    if wanted is None and np.shape(beside.get("y", 0)) == (num_rows,):
        wanted = "y"
    class_array = _taken(beside, wanted, num_rows)
    name_array = _taken(beside, choice.names, num_rows)
    weight_array = _taken(beside, choice.weights, num_rows)
    columns = ColumnChoice(
        classes=choice.classes if class_array is None else None,
        names=choice.names if name_array is None else None,
        weights=choice.weights if weight_array is None else None,
        drop=choice.drop,
    )
    table = _from_matrix(source, columns, x)
    given = {
        "classes": None
        if class_array is None
        else _checked_classes(_texts(class_array)),
        "names": None if name_array is None else _texts(name_array),
        "weights": None if weight_array is None else weight_array.astype(np.float64),
    }
    found = {field: value for field, value in given.items() if value is not None}
    return dataclasses.replace(table, **found)


def _taken(
    arrays: dict[str, np.ndarray], name: str | None, num_rows: int
) -> np.ndarray | None:
    array = arrays.get(name or "")
    if array is not None and array.shape != (num_rows,):
        raise ValueError(
            f"the array {name} must have one entry for each of the {num_rows} rows; "
            f"got shape {array.shape}."
        )
    return array


def _from_matrix(source: str, choice: ColumnChoice, x: Matrix) -> Table:
    roles = assign_roles(choice, None, x.shape[1])
    x = x if isinstance(x, np.ndarray) else x.tocsr()
    values = x if isinstance(x, np.ndarray) else x.data
    dense = isinstance(x, np.ndarray)
    allowed = np.isfinite(values) | (dense & np.isnan(values))
    if not np.all(allowed):
        row, column = _first_not_finite(x)
        raise ValueError(
            f"entries must be finite; got {x[row, column]} in row {row}, column "
            f"{column} (counted from 0). Drop or impute such rows first."
        )

    whole = len(roles.data) == x.shape[1]
    classes, names = (
        None if role is None else _texts(_column(x, role))
        for role in (roles.classes, roles.names)
    )
    return Table(
        source,
        x if whole else x[:, list(roles.data)],
        _checked_classes(classes),
        "class",
        names,
        None if roles.weights is None else _column(x, roles.weights),
        roles.data,
    )


def _column(x: Matrix, column: int) -> np.ndarray:
    return x[:, column] if isinstance(x, np.ndarray) else x[:, [column]].toarray()[:, 0]


def _first_not_finite(x: Matrix) -> tuple[int, int]:
    """Row and column of the first entry that is not finite."""
    if isinstance(x, np.ndarray):
        row, column = np.argwhere(np.isinf(x))[0]
        return int(row), int(column)
    entries = x.tocoo()
    first = np.flatnonzero(~np.isfinite(entries.data))[0]
    return int(entries.row[first]), int(entries.col[first])


def _texts(values: Iterable[object]) -> list[str]:
    """Convert values to text, whole numbers without a decimal point."""
    as_items = np.asarray(values).tolist()
    whole = lambda v: isinstance(v, float) and v.is_integer()
    return [str(int(v)) if whole(v) else str(v) for v in as_items]


def _checked_classes(classes: list[str] | None) -> list[str] | None:
    for row, name in enumerate(classes or ()):
        if name.lower() in ("", "nan", "na"):
            raise ValueError(
                f"every row must have a class; got {name!r} in row {row} (counted "
                "from 0). Drop the row or give it a class of its own."
            )
    return classes

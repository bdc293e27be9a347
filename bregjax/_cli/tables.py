"""A user's file as rows to cluster, with what is known of them."""

import dataclasses
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bregjax._cli.array_files import read_matrix, read_npz
from bregjax._cli.columns import ColumnChoice, assign_roles
from bregjax._cli.text_files import numbers, read_sheet

__all__ = ["Table", "read_table"]

_TEXT = (".csv", ".tsv", ".tab", ".txt", ".dat")
_ARRAYS = (".npy", ".npz", ".mtx", ".mtx.gz")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows to cluster.

    Attributes:
        source: Where they come from, for the report.
        x: `[m, d]`.
        labels: The known class of each row, or None.
        label_name: What the classes are called.
        names: A name for each row, or None.
        weights: `[m]`, or None.
        columns: What the file calls each column of `x`; numbers if None.
        lines: The line of the file that each row is on, from 1; None for arrays.
    """

    source: str
    x: np.ndarray
    labels: list[str] | None = None
    label_name: str = "label"
    names: list[str] | None = None
    weights: np.ndarray | None = None
    columns: tuple[str, ...] | None = None
    lines: list[int] | None = None

    def place(self, row: int, column: int | None = None) -> str:
        """Where an entry of `x`, or a row, is in the file."""
        words = f"row {row}" if self.lines is None else f"line {self.lines[row]}"
        if column is None:
            return words
        name = column if self.columns is None else self.columns[column]
        return f"{words}, column {name}"


def read_table(
    path: Path,
    choice: ColumnChoice,
    *,
    delimiter: str = "auto",
    header: str = "auto",
) -> Table:
    """Read a table by the ending of its name.

    Args:
        path: A .csv, .tsv, .tab, .txt, .dat (each also .gz), .npy, .npz, .mtx or
            .mtx.gz file.
        choice: Which columns are labels, names, weights, or left out; in an .npz file
            also the names of arrays. Its array y is the labels unless others are named.
        delimiter: As for `read_sheet`.
        header: As for `read_sheet`.

    Raises:
        ValueError: Naming the file, what came, where, and the remedy.
        OSError: If the file cannot be read.
    """
    ending = path.name.lower()
    try:
        if ending.removesuffix(".gz").endswith(_TEXT):
            return _from_text(path, choice, delimiter, header)
        if ending.endswith(".npz"):
            return _from_npz(path, choice)
        if ending.endswith(_ARRAYS):
            return _from_matrix(path, choice, read_matrix(path))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: no UTF-8 text ({error}). Convert it.") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: {error}") from error
    raise ValueError(
        f"{path}: the ending of its name is none of {', '.join(_TEXT + _ARRAYS)}. "
        "Rename or convert the file."
    )


def _from_text(path: Path, choice: ColumnChoice, delimiter: str, header: str) -> Table:
    sheet = read_sheet(path, delimiter=delimiter, header=header)
    roles = assign_roles(choice, sheet.header, sheet.width)
    labels = None if roles.labels is None else sheet.column(roles.labels)
    label_name = "label"
    if sheet.header and roles.labels is not None:
        label_name = sheet.header[roles.labels] or label_name
    return Table(
        str(path),
        numbers(sheet, roles.data),
        _checked_labels(labels),
        label_name,
        None if roles.names is None else sheet.column(roles.names),
        None if roles.weights is None else numbers(sheet, [roles.weights])[:, 0],
        tuple(sheet.name(index) for index in roles.data),
        sheet.lines,
    )


def _from_npz(path: Path, choice: ColumnChoice) -> Table:
    x, beside = read_npz(path)
    wanted = choice.labels
    if wanted is None and beside.get("y", x).shape == (len(x),):
        wanted = "y"
    label_array = _taken(beside, wanted, len(x))
    name_array = _taken(beside, choice.names, len(x))
    weight_array = _taken(beside, choice.weights, len(x))
    columns = ColumnChoice(
        labels=choice.labels if label_array is None else None,
        names=choice.names if name_array is None else None,
        weights=choice.weights if weight_array is None else None,
        drop=choice.drop,
    )
    table = _from_matrix(path, columns, x)
    given = {
        "labels": None if label_array is None else _checked_labels(_texts(label_array)),
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


def _from_matrix(path: Path, choice: ColumnChoice, x: np.ndarray) -> Table:
    roles = assign_roles(choice, None, x.shape[1])
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"entries must be finite; got {x[row, column]} in row {row}, column "
            f"{column} (counted from 0). Drop or impute such rows first."
        )

    labels, names = (
        None if role is None else _texts(x[:, role])
        for role in (roles.labels, roles.names)
    )
    return Table(
        str(path),
        x[:, list(roles.data)],
        _checked_labels(labels),
        "label",
        names,
        None if roles.weights is None else x[:, roles.weights],
        tuple(str(index) for index in roles.data),
    )


def _texts(values: Iterable[object]) -> list[str]:
    """Values as text, whole numbers without a point."""
    as_items = np.asarray(values).tolist()
    whole = lambda v: isinstance(v, float) and v.is_integer()
    return [str(int(v)) if whole(v) else str(v) for v in as_items]


def _checked_labels(labels: list[str] | None) -> list[str] | None:
    for row, label in enumerate(labels or ()):
        if label.lower() in ("", "nan", "na"):
            raise ValueError(
                f"every row must have a label; got {label!r} in row {row} (counted "
                "from 0). Drop the row or give it a class of its own."
            )
    return labels

"""Tables of any make as columns: data frames, dictionaries, structured arrays, rows."""

import enum
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregjax._inputs import check_table, is_missing

__all__ = ["Column", "TableColumns", "as_frame", "frame_of", "is_frame"]

_NUMERIC = (int, float, bool, np.number, np.bool_)


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table, with its missing cells marked.

    Attributes:
        name: What the table calls the column, or its number.
        values: `[m]`: float64 with NaN where a cell is missing; else objects with None.
        levels: The levels in their order, where the table declares such; else None.
        ordered: Whether the table says that the order of the levels has a meaning.
        boolean: Whether the values are True and False.
        timed: Whether the values are dates, times or durations.
    """

    name: Hashable
    values: np.ndarray
    levels: tuple[Hashable, ...] | None = None
    ordered: bool = False
    boolean: bool = False
    timed: bool = False

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers."""
        return self.values.dtype == np.float64

    @property
    def missing(self) -> np.ndarray:
        """Which cells are missing, `[m]`."""
        if self.numeric:
            return np.isnan(self.values)
        return np.array([value is None for value in self.values], bool)

    def codes(self) -> np.ndarray:
        """The values as numbers; of ordered names their places among the levels.

        Raises:
            ValueError: At the first value that is no number.
        """
        if self.numeric:
            return self.values
        if self.levels and all(isinstance(level, _NUMERIC) for level in self.levels):
            return _as_floats(self.values)
        if self.levels is not None and self.ordered:
            place = {level: float(i) for i, level in enumerate(self.levels)}
            return np.array([place.get(value, np.nan) for value in self.values])
        row = int(np.argmin(self.missing))
        kind = "dates" if self.timed else "names"
        raise ValueError(
            f"`x` must hold numbers in column {self.name!r} for this family; got "
            f"{self.values[row]!r} in row {row}. Take Categorical for {kind}, code "
            "them by numbers, or leave the column out."
        )


@dataclass(frozen=True, eq=False)
class TableColumns:
    """Columns of one length, by name.

    Attributes:
        members: The columns.
        named: Whether the table names its columns; else their names are numbers.
    """

    members: tuple[Column, ...]
    named: bool

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.members)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        rows = len(self.members[0].values) if self.members else 0
        return rows, len(self.members)

    def __len__(self) -> int:
        """The number of rows."""
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """The cells `[m, d]`: floats, or objects where not all are numbers."""
        del copy
        values = [column.values for column in self.members]
        if not all(column.numeric for column in self.members):
            values = [column.astype(object) for column in values]
        return np.stack(values, axis=1).astype(dtype or values[0].dtype)


def is_frame(x: Any) -> bool:
    """Whether a table names its columns: a data frame, a dictionary, a record array."""
    if isinstance(x, TableColumns):
        return x.named
    if isinstance(x, Mapping):
        return True
    if isinstance(x, np.ndarray):
        return x.dtype.names is not None
    columns = getattr(x, "columns", None)
    return columns is not None and not callable(columns) and hasattr(x, "__getitem__")


def as_frame(x: Any) -> Any:
    """A vector with a name, as a series of pandas or polars is, as a table of it."""
    name = getattr(x, "name", None)
    is_series = hasattr(x, "to_frame") and np.ndim(x) == 1
    return x.to_frame() if is_series and name not in (None, "") else x


def frame_of(x: Any) -> TableColumns:
    """The columns of a table.

    Args:
        x: A data frame of pandas or polars, a mapping of names to columns, a structured
            array, an array or a list of rows; a vector is one column, with its name
            if it is a series.

    Raises:
        ValueError: If columns differ in length or have one name, or the table is empty.

    Examples:
        >>> frame = frame_of({"size": [1.5, None], "kind": ["a", "b"]})
        >>> print(frame.columns, frame.members[0].values)
        ('size', 'kind') [1.5 nan]
    """
    if isinstance(x, TableColumns):
        return x
    x = as_frame(x)
    named = is_frame(x)
    if named:
        names = _names(x)
        columns = tuple(_column(name, _taken(x, name)) for name in names)
    else:
        table = _cells(x)
        columns = tuple(_column(j, table[:, j]) for j in range(table.shape[1]))
    lengths = {str(column.name): len(column.values) for column in columns}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"`x` must have columns of one length; got {lengths}. Fill the shorter."
        )
    frame = TableColumns(columns, named)
    check_table("x", frame)
    return frame


def _names(x: Any) -> list[Hashable]:
    if isinstance(x, Mapping):
        return list(x)
    if isinstance(x, np.ndarray):
        return list(x.dtype.names or ())
    names = list(x.columns)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(
            f"`x` must have names of columns that differ; got {twice[0]!r} "
            f"{names.count(twice[0])} times. Rename the columns."
        )
    return names


def _taken(x: Any, name: Hashable) -> Any:
    return x[name]


def _cells(x: Any) -> np.ndarray:
    """Rows as an array `[m, d]`; of objects where the rows are lists."""
    nested = isinstance(x, list | tuple)
    if nested and any(isinstance(row, np.ma.MaskedArray) for row in x):
        x, nested = np.ma.array(x), False
    check_table("x", np.ma.getdata(x) if isinstance(x, np.ma.MaskedArray) else x)
    if nested:
        table = np.array(x, dtype=object)
    elif isinstance(x, np.ma.MaskedArray):
        table = x
    else:
        table = np.asarray(x)
    return table[:, None] if table.ndim == 1 else table


def _column(name: Hashable, given: Any) -> Column:
    """A column of a frame, by what its kind of column offers."""
    mask = None
    if isinstance(given, np.ma.MaskedArray):
        mask, given = np.ma.getmaskarray(given), given.data
    levels, ordered = _declared(given)
    values = _values(name, given)
    if mask is not None and mask.any():
        if values.dtype.kind in "biuf":
            values = np.where(mask, np.nan, values.astype(np.float64))
        else:
            values = values.astype(object)
            values[mask] = None
    if values.dtype == bool:
        return Column(name, values.astype(np.float64), boolean=True)
    if values.dtype.kind in "iuf":
        return Column(name, values.astype(np.float64), levels, ordered)
    if values.dtype.kind in "mM":
        words = values.astype(str).astype(object)
        words[np.isnat(values)] = None
        return Column(name, words, timed=True)
    return _of_objects(name, values, levels, ordered=ordered)


def _declared(given: Any) -> tuple[tuple[Hashable, ...] | None, bool]:
    """Levels that the type of a column declares, and whether they are ordered."""
    categories = getattr(getattr(given, "dtype", None), "categories", None)
    if categories is None:
        return None, False
    ordered = getattr(given.dtype, "ordered", type(given.dtype).__name__ == "Enum")
    try:
        return tuple(categories), bool(ordered)
    except TypeError:  # polars' open categories
        return None, False


def _values(name: Hashable, given: Any) -> np.ndarray:
    """The cells of a column as a NumPy array, missing ones as None or NaN.

    Raises:
        ValueError: Unless the column has one axis of real numbers, names or times.
    """
    shape = np.shape(given) if not isinstance(given, str | bytes) else ()
    if len(shape) != 1 and not isinstance(given, list | tuple):
        raise ValueError(
            f"`x` must have a list of cells in each column; got {type(given).__name__} "
            f"of shape {shape} in column {name!r}. Pass a list or a vector."
        )
    values = _known_values(given)
    if values.dtype.kind == "c":
        raise TypeError(
            f"`x` must have real numbers; got complex ones in column {name!r}. Take "
            "real and imaginary parts as two columns."
        )
    return values


def _known_values(given: Any) -> np.ndarray:
    if isinstance(given, np.ndarray):
        return given
    if isinstance(given, list | tuple):
        return _objects(given)
    plain = isinstance(getattr(given, "dtype", None), np.dtype)
    if plain and given.dtype != object:
        return np.asarray(given)
    # Extension types of pandas, and polars' series: their NA, None and null differ.
    return _objects(given.to_list() if hasattr(given, "to_list") else list(given))


def _objects(values: Any) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array


def _of_objects(
    name: Hashable,
    values: np.ndarray,
    levels: tuple[Hashable, ...] | None,
    *,
    ordered: bool,
) -> Column:
    """A column of Python objects: numbers if all are, times if all are, else names."""
    plain = _objects([_plain(value) for value in values.tolist()])
    for row, value in enumerate(plain):
        if not isinstance(value, Hashable):
            raise ValueError(
                f"`x` must have one number or name in a cell; got {value!r} in row "
                f"{row}, column {name!r}. Make columns of its parts."
            )
    present = [value for value in plain if value is not None]
    if levels is None and present:
        if all(isinstance(value, bool) for value in present):
            return Column(name, _as_floats(plain), boolean=True)
        if all(isinstance(value, _NUMERIC) or _is_decimal(value) for value in present):
            return Column(name, _as_floats(plain))
        if all(_is_time(value) for value in present):
            return Column(name, plain, timed=True)
        if all(isinstance(value, enum.Enum) for value in present):
            kind: Any = type(present[0])
            members = tuple(kind)
            if all(value in members for value in present):
                levels = members
    if not present and levels is None:
        return Column(name, np.full(len(plain), np.nan))
    return Column(name, plain, levels, ordered)


def _as_floats(values: np.ndarray) -> np.ndarray:
    missing = np.array([value is None for value in values], bool)
    try:
        return np.where(missing, np.nan, values).astype(np.float64)
    except OverflowError:
        # Refused where families read cells, with their place.
        return np.array([_float_or_inf(value) for value in values])


def _float_or_inf(value: Any) -> float:
    if value is None:
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _is_time(value: Any) -> bool:
    """Whether a value is a date, a time, or a duration, of Python's or pandas'."""
    return any(
        hasattr(value, way) for way in ("isoformat", "strftime", "total_seconds")
    )


def _is_decimal(value: Any) -> bool:
    return type(value).__name__ in ("Decimal", "Fraction")


def _plain(value: Any) -> Any:
    """A NumPy number or string as a Python one; None if missing, or empty text."""
    value = value.item() if isinstance(value, np.generic) else value
    empty = isinstance(value, str) and not value.strip()
    return None if empty or is_missing(value) or value is np.ma.masked else value

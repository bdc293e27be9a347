"""Checks of tables that users pass: numbers, dense, present; errors name the cell."""

import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from bregjax._sparse_rows import SparseRows
from bregjax._typing import DataLike

__all__ = [
    "FILL",
    "check_table",
    "column_names",
    "dense_remedy",
    "is_missing",
    "number_array",
    "place",
    "range_fault",
    "refuse_masked",
    "refuse_path",
    "refuse_spread",
    "size_in_words",
]

FILL = "Drop or impute such entries first"
_REAL = "must be real numbers; got complex ones. Pass real features."


def place(index: tuple[int, ...], columns: Sequence[object] | None = None) -> str:
    """Write a position in words: `row 3, column 0`, or `column 'age'` by its name."""
    if len(index) > 2:
        return f"index {index}"
    words = [f"row {row}" for row in index[:1]]
    for column in index[1:]:
        words.append(f"column {repr(columns[column]) if columns else column}")
    return ", ".join(words)


def number_array(values: DataLike, name: str = "x") -> np.ndarray:
    """Convert concrete values to a NumPy array of real numbers; integers stay integers.

    Raises:
        ValueError: At the first entry that is not a number, or is hidden by a mask.
        TypeError: If the values are complex or sparse.
    """
    _refuse_sparse(name, values)
    refuse_masked(name, values)
    array = _array(name, values)
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise TypeError(f"`{name}` {_REAL}")
    if array.dtype == bool or jnp.issubdtype(array.dtype, jnp.number):
        return array
    return _numbers_of_objects(name, array, column_names(values))


def _array(name: str, values: Any) -> np.ndarray:
    """Convert values to the NumPy array that NumPy makes of them.

    Raises:
        ValueError: If the values are nested lists of unequal lengths, or spread over
            processes.
    """
    refuse_spread(name, values)
    try:
        return np.asarray(values)
    except ValueError:
        _refuse_ragged(name, values)
        raise


def _refuse_ragged(name: str, values: Any) -> None:
    """Raise ValueError at the first row whose length is not that of row 0."""
    lengths = [np.shape(row)[:1] for row in values]
    for row, length in enumerate(lengths):
        if length != lengths[0]:
            words = [f"{n[0]} entries" if n else "a number" for n in lengths]
            raise ValueError(
                f"`{name}` must have rows of one length; got {words[row]} in row {row} "
                f"and {words[0]} in row 0. Fill or drop such rows."
            ) from None


def _numbers_of_objects(
    name: str, array: np.ndarray, columns: Sequence[object] | None
) -> np.ndarray:
    """Convert Python objects to floats and None to NaN; refuse text and all else."""
    if array.dtype == object:
        try:
            numbers = array.astype(np.float64)
        except (TypeError, ValueError):
            numbers = None
        if numbers is not None and not any(isinstance(v, str) for v in array.flat):
            return numbers
    # NumPy turns all entries into text if one entry is text: the error names the entry
    # that cannot be read as a number, not the first entry.
    refused = [i for i, v in np.ndenumerate(array) if not _is_number(v)]
    no_number = [i for i in refused if not _reads_as_number(array[i])]
    index = (no_number or refused or [(0,) * array.ndim])[0]
    where = f" at {place(tuple(map(int, index)), columns)}" if index else ""
    value = array[index]
    if is_missing(value):
        raise ValueError(f"`{name}` must be finite; got {value}{where}. {FILL}.")
    shown = value.item() if isinstance(value, np.generic) else value
    remedy = "Convert them, by .astype(float) where they are text."
    if array.ndim > 1 and no_number:
        remedy = (
            "Drop such columns or code them by numbers; for rows of categories take "
            "bregjax.Categorical()."
        )
    raise ValueError(f"`{name}` must hold numbers; got {shown!r}{where}. {remedy}")


def _is_number(value: object) -> bool:
    return not isinstance(value, str | bytes) and _reads_as_number(value)


def _reads_as_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, np.datetime64 | np.timedelta64)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or the NA or NaT of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def refuse_masked(name: str, values: Any) -> None:
    """Raise ValueError for masked entries: NumPy would read the values under a mask."""
    nested = isinstance(values, list | tuple)
    for row, part in enumerate(values if nested else [values]):
        if not isinstance(part, np.ma.MaskedArray) or not np.ma.is_masked(part):
            continue
        index = np.argwhere(np.ma.getmaskarray(part))[0].tolist()
        index = tuple([row, *index] if nested else index)
        where = f" at {place(index)}" if index else ""
        raise ValueError(
            f"`{name}` must have no masked entries; got one{where} "
            f"({np.ma.count_masked(part)} such in all). Fill them, "
            f"{name}.filled(value), or drop their rows, numpy.ma.compress_rows({name})."
        )


def column_names(values: Any) -> list[object] | None:
    """The column names of a data frame; None for anything else."""
    names = getattr(values, "columns", None)
    return None if names is None or callable(names) else list(names)


def check_table(name: str, x: Any, *, masked: bool = False) -> tuple[int, ...]:
    """Return the shape of a table that has one row for each point.

    Args:
        name: The argument's name.
        x: The table.
        masked: Whether entries may be hidden by a mask.

    Raises:
        TypeError: If the table is sparse.
        ValueError: If it is the name of a file, entries are masked, rows differ in
            length, or the table has no rows or no columns.
    """
    refuse_path(name, x)
    _refuse_sparse(name, x)
    if not masked:
        refuse_masked(name, x)
    try:
        shape = np.shape(x)
    except ValueError:
        _refuse_ragged(name, x)
        raise
    if not shape:
        raise ValueError(
            f"`{name}` must have at least one row; got {type(x).__name__} of shape (). "
            "Pass an array or a list of rows."
        )
    for axis, what in enumerate(("row", "column")[: len(shape)]):
        if shape[axis] == 0:
            raise ValueError(
                f"`{name}` must have at least one {what}; got shape {shape}."
            )
    return shape


def refuse_path(name: str, x: Any) -> None:
    """Raise ValueError for the name of a file in the place of its table."""
    if isinstance(x, str | os.PathLike):
        raise ValueError(
            f"`{name}` must be a table; got {x!r}. Read the file first, as by "
            "pandas.read_csv."
        )


def refuse_spread(name: str, x: Any) -> None:
    """Raise ValueError for an array of JAX of which this process has a part alone."""
    if not isinstance(x, jax.Array) or isinstance(x, Tracer):
        return
    if not (x.is_fully_addressable or x.is_fully_replicated):
        raise ValueError(
            f"`{name}` must be whole in each process; got a jax.Array of shape "
            f"{x.shape} that is spread over several. Pass "
            "jax.experimental.multihost_utils.process_allgather(array, tiled=True)."
        )


def _refuse_sparse(name: str, x: Any) -> None:
    """Raise TypeError for a sparse matrix, of SciPy, JAX or another library."""
    dense = [way for way in ("toarray", "todense") if hasattr(x, way)]
    if not dense or isinstance(x, np.ndarray | SparseRows):
        return
    raise TypeError(
        f"`{name}` must be dense; got a sparse {type(x).__name__} of "
        f"{size_in_words(x)}. {dense_remedy(name, x, dense[0])}"
    )


def size_in_words(x: Any) -> str:
    """Write the sizes of a table, such as `1,192 × 61,188`."""
    return " × ".join(f"{n:,}" for n in np.shape(x))


def dense_remedy(name: str, x: Any, way: str = "toarray") -> str:
    """Say how a sparse table is made dense, and what memory the result takes."""
    gib = 8 * np.prod(np.shape(x), dtype=float) / 2**30
    return (
        f"{name}.{way}() takes {gib:.2f} GiB in float64; drop empty or rare columns "
        "first where that is too much."
    )


def range_fault(x: DataLike, dtype: Any) -> str:
    """Describe numbers whose squares leave the range of `dtype`; "" if none do."""
    limits = jnp.finfo(dtype)
    if isinstance(x, SparseRows):
        # Columns without entries have no spread, and are left out.
        used, place = np.unique(x.pattern.columns, return_inverse=True)
        if not len(used):
            return ""
        sizes, spread = np.abs(np.asarray(x.values)), _spreads(x, place, len(used))
        entry = int(np.argmax(sizes))
        row, column = x.pattern.rows[entry], x.pattern.columns[entry]
        largest = sizes[entry]
    else:
        table = np.asarray(x, np.float64)
        table = table.reshape(len(table), -1)
        used = np.arange(table.shape[1])
        # Cells of NaN are missing.
        missing = np.isnan(table)
        high = np.max(np.where(missing, -np.inf, table), axis=0)
        spread = np.maximum(high - np.min(np.where(missing, np.inf, table), axis=0), 0)
        size = np.where(missing, 0, np.abs(table))
        row, column = np.unravel_index(np.argmax(size), table.shape)
        largest = abs(table[row, column])
    # A thousandth leaves room for sums over columns and weights.
    if largest > 1e-3 * float(limits.max) ** 0.5:
        return (
            f"Squares of numbers as large as {largest:.3g}, at row {row}, column "
            f"{column}, overflow float{limits.bits}. Rescale the data: {_RESCALE}."
        )
    spread = np.where(spread > 0, spread, np.inf)
    least = int(np.argmin(spread))
    if spread[least] > 1e3 * float(limits.tiny) ** 0.5:
        return ""
    return (
        f"Squares of differences as small as {spread[least]:.3g}, in column "
        f"{used[least]}, underflow float{limits.bits}. Rescale the data: {_RESCALE}."
    )


def _spreads(x: SparseRows, place: np.ndarray, count: int) -> np.ndarray:
    """Largest less smallest number of each column in use, zeros among them."""
    values = np.asarray(x.values)
    has_zeros = np.bincount(place, minlength=count) < x.shape[0]
    high = np.where(has_zeros, 0.0, -np.inf)
    low = np.where(has_zeros, 0.0, np.inf)
    np.maximum.at(high, place, values)
    np.minimum.at(low, place, values)
    return high - low


_RESCALE = "take other units, or x / numpy.abs(x).max(axis=0)"

"""Rows of a table of which only the entries that are not 0 are kept."""

import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from bregjax._pytree import register_pytree
from bregjax._typing import Array

__all__ = [
    "Pattern",
    "SparseRows",
    "SparseTable",
    "equal_sparse_rows",
    "is_sparse",
    "row_totals",
    "sparse_of_dense",
    "sparse_rows",
    "stacked",
]


class SparseTable(Protocol):
    """What families ask of sparse rows."""

    def by_totals(self) -> Self:
        """Each row divided by its sum."""
        ...


@dataclass(frozen=True, eq=False)
class Pattern:
    """Which entries of a table are kept, row by row, columns ascending within a row.

    Two patterns are equal where they keep the same entries, so that `jit` compiles
    once for both.

    Attributes:
        shape: `(m, d)`.
        starts: The entries of row i are those from `starts[i]` to `starts[i + 1]`,
            `[m + 1]`.
        columns: The column of each entry, `[e]`.

    Examples:
        >>> pattern = Pattern((2, 3), np.array([0, 1, 3]), np.array([2, 0, 1]))
        >>> print(pattern.rows)
        [0 1 1]
    """

    shape: tuple[int, int]
    starts: np.ndarray
    columns: np.ndarray

    @cached_property
    def rows(self) -> np.ndarray:
        """The row of each entry, `[e]`."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.starts))

    @cached_property
    def _digest(self) -> int:
        return zlib.crc32(self.columns.tobytes(), zlib.crc32(self.starts.tobytes()))

    def __hash__(self) -> int:
        return hash((self.shape, self._digest))

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Pattern):
            return self is other
        return (
            self.shape == other.shape
            and self._digest == other._digest
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.columns, other.columns)
        )


@register_pytree
@dataclass(frozen=True, eq=False, repr=False)
class SparseRows:
    """A table `[m, d]` that is mostly zeros, as a problem holds it.

    A pytree with one leaf, the entries that are kept: derivatives by the table are
    derivatives by these. Entries that are left out are 0, and stay so.

    Attributes:
        values: The entries that are kept, row by row, `[e]`.
        pattern: Where they stand.

    Examples:
        >>> import scipy.sparse
        >>> rows = sparse_rows(scipy.sparse.csr_array([[0, 2], [0, 0], [1, 3]]))
        >>> rows
        SparseRows of shape (3, 2) with 3 entries
        >>> print(rows.values, rows.toarray()[2])
        [2. 1. 3.] [1. 3.]
    """

    values: Array
    pattern: Pattern = jax.tree.static()

    @property
    def shape(self) -> tuple[int, int]:
        """`(m, d)`."""
        return self.pattern.shape

    @property
    def ndim(self) -> int:
        """2, the number of axes."""
        return 2

    def __getitem__(self, numbers: Any) -> "SparseRows":
        """The rows of these numbers, a slice, or booleans; of one number that row."""
        m, d = self.shape
        chosen = np.atleast_1d(np.arange(m)[numbers])
        lengths = np.diff(self.pattern.starts)[chosen]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        before = np.repeat(self.pattern.starts[chosen] - starts[:-1], lengths)
        entries = before + np.arange(starts[-1])
        pattern = Pattern((len(chosen), d), starts, self.pattern.columns[entries])
        return SparseRows(self.values[entries], pattern)

    def take_columns(self, columns: np.ndarray) -> "SparseRows":
        """The columns of these numbers, which may come again, in their order."""
        m, d = self.shape
        by_column = np.argsort(self.pattern.columns, kind="stable")
        first = np.searchsorted(self.pattern.columns[by_column], np.arange(d + 1))
        lengths = np.diff(first)[columns]
        ends = np.cumsum(lengths)
        before = np.repeat(first[columns] - ends + lengths, lengths)
        entries = by_column[before + np.arange(ends[-1] if len(ends) else 0)]
        rows = self.pattern.rows[entries]
        order = np.argsort(rows, kind="stable")
        starts = np.searchsorted(rows[order], np.arange(m + 1))
        new = np.repeat(np.arange(len(columns)), lengths)[order]
        pattern = Pattern((m, len(columns)), starts, new)
        return SparseRows(self.values[entries[order]], pattern)

    def toarray(self) -> Array:
        """The same table with its zeros, `[m, d]`."""
        place = self.pattern.rows, self.pattern.columns
        if isinstance(self.values, np.ndarray):
            dense = np.zeros(self.shape, self.values.dtype)
            dense[place] = self.values
            return dense  # pyright: ignore[reportReturnType]
        values = jnp.asarray(self.values)
        return jnp.zeros(self.shape, values.dtype).at[place].set(values)

    def by_totals(self) -> "SparseRows":
        """Each row divided by its sum; values that are known."""
        values = np.asarray(self.values)
        totals = row_totals(self)
        return SparseRows(values / totals[self.pattern.rows], self.pattern)  # pyright: ignore[reportArgumentType]

    def __repr__(self) -> str:
        """Shape, and how many entries are kept."""
        return (
            f"SparseRows of shape {self.shape} with {len(self.pattern.columns)} entries"
        )


def row_totals(x: SparseRows | Array | np.ndarray) -> np.ndarray:
    """Sums of known rows, sparse or not, `[m]`."""
    if isinstance(x, SparseRows):
        totals = np.bincount(x.pattern.rows, np.asarray(x.values), x.shape[0])
        return totals.astype(np.float64)  # whole numbers where there are no entries
    return np.asarray(x).sum(axis=-1)


def is_sparse(x: Any) -> bool:
    """Whether `x` is a sparse table of SciPy's or JAX's, or one of a problem."""
    return isinstance(x, SparseRows) or hasattr(x, "tocsr") or _is_of_jax(x)


def _is_of_jax(x: Any) -> bool:
    return hasattr(x, "todense") and hasattr(x, "indices") and hasattr(x, "data")


def sparse_rows(x: Any, name: str = "x") -> SparseRows:
    """Keep the entries of a sparse table that are not 0, as floats.

    Entries that come twice are added up. SciPy's arrays and matrices of any format are
    taken, and JAX's BCOO and BCSR.

    Args:
        x: The table, `[m, d]`.
        name: What it is called.

    Raises:
        ValueError: If it has other than two axes.
        TypeError: If its entries are not real numbers, or not known.
    """
    if isinstance(x, SparseRows):
        return x
    if len(x.shape) != 2:
        raise ValueError(
            f"`{name}` must be a matrix with a row a point; got a sparse "
            f"{type(x).__name__} of shape {tuple(x.shape)}."
        )
    kind = np.dtype(x.dtype).kind
    if kind not in "biuf":
        raise TypeError(
            f"`{name}` must be real numbers; got a sparse {type(x).__name__} of "
            f"{x.dtype}. Convert it, {name}.astype(float)."
        )
    m, d = (int(size) for size in x.shape)
    if max(m, d) >= 2**31 or m * d >= 2**63:
        raise ValueError(
            f"`{name}` must have fewer than 2³¹ rows and columns, and 2⁶³ entries; got "
            f"shape {(m, d)}. Leave columns without entries out."
        )
    rows, columns, values = _entries_by_row(x) if hasattr(x, "tocsr") else _of_jax(x)
    # Sorted by row, then column; entries of one place then lie side by side.
    place = rows.astype(np.int64) * d + columns
    if np.any(place[1:] <= place[:-1]):
        place, back = np.unique(place, return_inverse=True)
        values = np.bincount(back, values, len(place))
    kept = values != 0
    place, values = place[kept], values[kept]
    starts = np.searchsorted(place, np.arange(m + 1, dtype=np.int64) * d)
    return SparseRows(values, Pattern((m, d), starts, place % d))  # pyright: ignore[reportArgumentType]


def _entries_by_row(x: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of the entries of a table of SciPy's, row by row."""
    csr = x.tocsr()
    rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    return rows, np.asarray(csr.indices), np.asarray(csr.data, np.float64)


def _of_jax(x: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of the entries of a table of JAX's."""
    values, indices = np.asarray(x.data, np.float64), np.asarray(x.indices)
    if hasattr(x, "indptr"):
        lengths = np.diff(np.asarray(x.indptr, np.int64))
        inside = slice(int(np.sum(lengths)))
        rows = np.repeat(np.arange(len(lengths)), lengths)
        return rows, indices[inside], values[inside]
    # Padding of JAX's stands beyond the last row.
    inside = np.all(indices < np.asarray(x.shape), axis=1)
    return indices[inside, 0], indices[inside, 1], values[inside]


def sparse_of_dense(x: Any, name: str = "x") -> SparseRows:
    """Keep the entries of a dense table that are not 0.

    Raises:
        TypeError: If its values are not known: which of them are 0 must be.
    """
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(x)):
        raise TypeError(
            f"`{name}` must be sparse as the problem's rows are, or known; got a "
            "traced dense array. Pass a sparse table outside of jit."
        )
    table = np.asarray(x, np.float64)
    rows, columns = np.nonzero(table)
    starts = np.searchsorted(rows, np.arange(len(table) + 1))
    pattern = Pattern((table.shape[0], table.shape[1]), starts, columns)
    return SparseRows(table[rows, columns], pattern)  # pyright: ignore[reportArgumentType]


def equal_sparse_rows(x: SparseRows, weights: np.ndarray) -> np.ndarray:
    """Numbers of rows, equal only where entries and weights are, `[m]`."""
    starts, columns = x.pattern.starts.tolist(), x.pattern.columns.astype(np.int64)
    values, numbers = np.asarray(x.values, np.float64), {}
    found = np.empty(len(weights), int)
    for row, (first, last) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        own = slice(first, last)
        bits = columns[own].tobytes(), values[own].tobytes(), weights[row].tobytes()
        found[row] = numbers.setdefault(bits, len(numbers))
    return found


def stacked(first: SparseRows, second: SparseRows) -> SparseRows:
    """The rows of one table, then those of another of as many columns; of known values.

    Examples:
        >>> one = sparse_of_dense([[0, 2]])
        >>> print(stacked(one, one).toarray())
        [[0. 2.]
         [0. 2.]]
    """
    a, b = first.pattern, second.pattern
    starts = np.concatenate([a.starts, a.starts[-1] + b.starts[1:]])
    columns = np.concatenate([a.columns, b.columns])
    pattern = Pattern((a.shape[0] + b.shape[0], a.shape[1]), starts, columns)
    return SparseRows(np.concatenate([first.values, second.values]), pattern)  # pyright: ignore[reportArgumentType]

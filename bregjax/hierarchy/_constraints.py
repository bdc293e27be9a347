"""Which rows may, must and must not share a cluster: what users pass, checked."""

from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from bregjax._checks import check_count, is_concrete
from bregjax._inputs import number_array
from bregjax._typing import DataLike

__all__ = ["Constraints", "constraints_of", "edges_of"]

_CHAIN = "chain"
_KINDS = (
    'the word "chain", a sparse matrix or an array of booleans [m, m], or pairs of row '
    "numbers [e, 2]"
)


@dataclass(frozen=True)
class Constraints:
    """What an agglomeration has to keep to.

    Attributes:
        edges: Pairs of rows whose clusters may merge, the smaller number first, each
            once, `[e, 2]`; None where all may.
        group: The component of must-links that each row is in, `[m]`, numbered by the
            smallest row.
        apart: Pairs of rows that never share a cluster, likewise, `[q, 2]`.
        num_clusters: How many clusters to stop at; None where nothing was said.
    """

    edges: np.ndarray | None
    group: np.ndarray
    apart: np.ndarray
    num_clusters: int | None

    @property
    def restrict(self) -> bool:
        """Whether some pairs may not merge, or not at any time."""
        linked = len(self.group) and np.max(self.group) < len(self.group) - 1
        return self.edges is not None or bool(linked) or len(self.apart) > 0

    @property
    def in_line(self) -> bool:
        """Whether there are edges, and each joins a row with the next one."""
        if self.edges is None or not len(self.edges):
            return False
        return bool(np.all(np.diff(self.edges) == 1))

    @property
    def stop(self) -> int:
        """How many clusters to stop at, 1 where nothing was said."""
        return 1 if self.num_clusters is None else self.num_clusters

    @property
    def num_groups(self) -> int:
        """How many clusters there are once all links are merged."""
        return int(np.max(self.group)) + 1

    def edges_between(self, cluster: np.ndarray) -> np.ndarray:
        """Pairs of clusters that edges join, by the cluster of each row, `[e, 2]`."""
        edges = np.zeros((0, 2), int) if self.edges is None else self.edges
        return _pairs(cluster[edges])

    def apart_between(self, cluster: np.ndarray) -> np.ndarray:
        """Pairs of clusters that may not, `[q, 2]`."""
        return _pairs(cluster[self.apart])


def constraints_of(
    num_points: int,
    connectivity: Any = None,
    must_link: DataLike | None = None,
    cannot_link: DataLike | None = None,
    num_clusters: SupportsIndex | None = None,
) -> Constraints:
    """Check constraints; see `agglomerate` for what they may be.

    Raises:
        ValueError: If shapes, row numbers or values are unfit, links contradict each
            other, or there can't be so many clusters.
        TypeError: If one is of no kind known here.
    """
    edges = None if connectivity is None else edges_of(connectivity, num_points)
    must = _rows_of("must_link", must_link, num_points)
    apart = _rows_of("cannot_link", cannot_link, num_points)
    group = _components(must, num_points)
    _check_apart(apart, must, group)
    k = num_clusters
    if k is not None:
        k = check_count("num_clusters", k, num_points, "rows")
    found = Constraints(edges, group, _pairs(apart), k)
    if found.stop > found.num_groups:
        raise ValueError(
            f"`num_clusters` must be at most {found.num_groups}, the number of "
            f"clusters that `must_link` leaves of {num_points} rows; got {k}. Ask for "
            "fewer, or link fewer rows."
        )
    return found


def edges_of(connectivity: Any, num_points: int) -> np.ndarray:
    """The pairs of rows that an edge joins, the smaller first, each once, `[e, 2]`.

    Raises:
        ValueError: If shape, row numbers or values are unfit.
        TypeError: If it is of no kind known here.
    """
    if isinstance(connectivity, str):
        if connectivity != _CHAIN:
            raise ValueError(
                f"`connectivity` must be {_KINDS}; got the word {connectivity!r}."
            )
        first = np.arange(num_points - 1)
        return np.column_stack([first, first + 1])
    if callable(connectivity) or hasattr(connectivity, "adjacency"):
        remedy = (
            "networkx.to_scipy_sparse_array(graph)"
            if hasattr(connectivity, "adjacency")
            else "connectivity(x)"
        )
        raise TypeError(
            f"`connectivity` must be {_KINDS}; got {type(connectivity).__name__}. Pass "
            f"{remedy}."
        )
    if not is_concrete(connectivity):
        raise ValueError(
            "`connectivity` must be known, not traced. Call `agglomerate` outside of "
            "jit, vmap and grad."
        )
    if hasattr(connectivity, "tocoo"):
        table = connectivity.tocoo().copy()
        _check_square(table.shape, num_points)
        _check_values(table.row, table.col, table.data)
        table.sum_duplicates()
        return _edges_at(table.row, table.col, table.data)
    if isinstance(connectivity, set | frozenset):
        connectivity = sorted(connectivity)
    _refuse_names("connectivity", connectivity)
    array = number_array(connectivity, "connectivity")
    if array.shape == (num_points, num_points) and _is_matrix(array):
        row, column = np.nonzero(array)
        return _edges_at(row, column, array[row, column])
    if array.ndim == 2 and array.shape[1] != 2:
        raise ValueError(
            f"`connectivity` must be {_KINDS}; got an array of shape {array.shape} for "
            f"m = {num_points} rows."
        )
    return _pairs(_rows_of("connectivity", array, num_points))


def _check_square(shape: tuple[int, ...], num_points: int) -> None:
    if tuple(shape) != (num_points, num_points):
        raise ValueError(
            f"`connectivity` must have shape [{num_points}, {num_points}], a row and a "
            f"column for each row of the data; got {list(shape)}. Make the graph of "
            "the rows that are clustered."
        )


def _is_matrix(array: np.ndarray) -> bool:
    """Whether a square array is a matrix.

    Of two rows it may be two pairs of row numbers as well; then it is what has an edge,
    and a matrix where neither has. [[1, 1], [1, 1]] is a matrix, [[1, 0], [0, 1]] two
    pairs.
    """
    if array.dtype == bool or len(array) != 2:
        return True
    has_edge = array[0, 1] != 0 or array[1, 0] != 0
    pairs = np.isin(array, (0, 1)).all() and np.any(array[:, 0] != array[:, 1])
    return bool(has_edge or not pairs)


def _edges_at(row: np.ndarray, column: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The edges of a matrix, from its entries."""
    _check_values(row, column, values)
    there = values != 0
    return _pairs(np.column_stack([row[there], column[there]]))


def _check_values(row: np.ndarray, column: np.ndarray, values: np.ndarray) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        bad = int(np.argmin(np.isfinite(values)))
        raise ValueError(
            f"`connectivity` must be finite; got {values[bad]} at row {row[bad]}, "
            f"column {column[bad]}. Leave such entries out, or set them to 0."
        )


def _refuse_names(name: str, pairs: Any) -> None:
    """Raise ValueError at the first row that is named, not numbered."""
    words = [v for v in np.asarray(pairs, dtype=object).flat if isinstance(v, str)]
    if words:
        raise ValueError(
            f"`{name}` must hold numbers of rows, from 0; got the name {words[0]!r}. "
            f"Look up its number, as by list(table.index).index({words[0]!r})."
        )


def _rows_of(name: str, pairs: DataLike | None, num_points: int) -> np.ndarray:
    """Pairs of row numbers `[p, 2]` as they are given, checked."""
    if pairs is None:
        return np.zeros((0, 2), int)
    if not is_concrete(pairs):
        raise ValueError(
            f"`{name}` must be known, not traced. Call `agglomerate` outside of jit, "
            "vmap and grad."
        )
    if isinstance(pairs, set | frozenset):
        pairs = sorted(pairs)
    _refuse_names(name, pairs)
    array = number_array(pairs, name)
    if array.size == 0:
        return np.zeros((0, 2), int)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(
            f"`{name}` must be pairs of row numbers, of shape [p, 2]; got shape "
            f"{list(array.shape)}. Of labels, pair each row with the first of its "
            "label."
        )
    with np.errstate(invalid="ignore"):
        numbers = array.astype(int)
    if array.dtype == bool or not np.array_equal(numbers, array):
        bad = int(np.argmax(np.any(numbers != array, axis=1)))
        raise ValueError(
            f"`{name}` must hold whole numbers of rows; got {array[bad].tolist()} at "
            f"pair {bad}. Of booleans take numpy.argwhere."
        )
    outside = np.any((numbers < 0) | (numbers >= num_points), axis=1)
    if outside.any():
        bad = int(np.argmax(outside))
        raise ValueError(
            f"`{name}` must hold row numbers from 0 to {num_points - 1}; got "
            f"{numbers[bad].tolist()} at pair {bad}. Count rows from 0, those of the "
            "data that are clustered."
        )
    return numbers


def _pairs(pairs: np.ndarray) -> np.ndarray:
    """The distinct pairs of two, the smaller number first."""
    pairs = np.sort(np.asarray(pairs, int).reshape(-1, 2), axis=1)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    if not len(pairs):
        return pairs
    base = int(np.max(pairs)) + 1
    return np.column_stack(np.divmod(np.unique(pairs @ [base, 1]), base))


def _components(pairs: np.ndarray, num_points: int) -> np.ndarray:
    """The component of each row, numbered by its smallest row, `[m]`."""
    if not len(pairs):
        return np.arange(num_points)
    head = list(range(num_points))

    def top(row: int) -> int:
        while head[row] != row:
            head[row] = row = head[head[row]]
        return row

    for a, b in pairs.tolist():
        a, b = top(a), top(b)
        head[max(a, b)] = min(a, b)
    # A head is the smallest row of its component.
    return np.unique([top(row) for row in range(num_points)], return_inverse=True)[1]


def _check_apart(apart: np.ndarray, must: np.ndarray, group: np.ndarray) -> None:
    joined = group[apart[:, 0]] == group[apart[:, 1]]
    if not joined.any():
        return
    bad = int(np.argmax(joined))
    a, b = apart[bad].tolist()
    if a == b:
        raise ValueError(
            f"`cannot_link` must be pairs of two rows; got row {a} twice at pair "
            f"{bad}. Leave it out."
        )
    rows = np.flatnonzero(group == group[a])
    links = int(np.count_nonzero(group[must[:, 0]] == group[a]))
    raise ValueError(
        f"`cannot_link` must not contradict `must_link`; rows {a} and {b} (pair {bad}) "
        f"may not share a cluster, and must: {links} of the pairs of `must_link` join "
        f"the rows {_listed(rows)}. Drop one of the two."
    )


def _listed(rows: np.ndarray) -> str:
    shown = ", ".join(map(str, rows[:8].tolist()))
    return shown if len(rows) <= 8 else f"{shown}, … ({len(rows)} in all)"

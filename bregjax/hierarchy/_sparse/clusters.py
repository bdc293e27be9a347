"""Clusters of sparse rows: sums of entries, column by column, and their merges."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bregjax._column_parameters import in_columns
from bregjax._problem import Problem
from bregjax._sparse_rows import SparseRows
from bregjax.clusters._excess import Excess, excess_of
from bregjax.smoothing._maps import Mixing, PseudoCount

__all__ = ["Entries", "Floors", "SparseClusters", "floors_of", "merged", "sums_of_runs"]

# Rounding of the costs of a sweep, as a multiple of eps times what is added up: sums of
# thousands of terms, whose errors grow like the root of their number.
_NOISE = 8.0


class Entries(NamedTuple):
    """The entries of a cluster that are not 0.

    Attributes:
        columns: Ascending, `[e]`.
        sums: Sums of weighted statistics over the points, `[e]`.
    """

    columns: np.ndarray
    sums: np.ndarray


@dataclass(frozen=True)
class Floors:
    """What smoothing makes of rows: entries times `scale`, and a floor ζ g a row.

    Attributes:
        scale: What the statistics of each row are multiplied by, `[m]`.
        mass: g, `[m]`.
        weight: Weights of the smoothed rows, `[m]`.
        center: ζ, `[n]`; None without smoothing.
    """

    scale: np.ndarray
    mass: np.ndarray
    weight: np.ndarray
    center: np.ndarray | None


class SparseClusters:
    """All nodes of a tree as it grows: leaves first, then unions as they are made.

    Columns that no row uses are left out, and the others counted from 0. Memory goes
    with the entries of the clusters that have not been dropped.

    Attributes:
        excess: What entries cost, see `Excess`.
        weight: w of each node, `[2m − 1]`.
        mass: g of each node, the mass of its floor, `[2m − 1]`.
        total: Sums of entries, `[2m − 1]`.
        value: A of each node, `[2m − 1]`; see the module `clusters._excess`.
        center: ζ of the columns in use, `[n]`; one number where it is the same in all.
        share: Z, the sum of ζ over all columns, in use or not.
        used: The numbers of the columns in use, `[n]`.
    """

    def __init__(self, problem: Problem) -> None:
        """Take the rows of a problem of known values."""
        table: Any = problem.x
        rows: SparseRows = problem.family.sparse_statistics(table)
        floors = floors_of(
            problem.smoothing, np.asarray(problem.weights), rows.shape[1]
        )
        m, starts = problem.num_points, rows.pattern.starts
        self.used, columns = np.unique(rows.pattern.columns, return_inverse=True)
        self.excess = _excess(problem, self.used)
        sums = np.asarray(rows.values) * floors.scale[rows.pattern.rows]
        room = lambda first: np.concatenate([first, np.zeros(m - 1)])
        self.weight, self.mass = room(floors.weight), room(floors.mass)
        self.total = room(np.bincount(rows.pattern.rows, sums, m))
        self.center, self.share = _center(floors.center, self.used)
        self._entries: list[Entries | None] = [
            Entries(columns[a:b], sums[a:b])
            for a, b in zip(starts[:-1], starts[1:], strict=True)
        ]
        self.value, self._size = np.zeros(2 * m - 1), np.zeros(2 * m - 1)
        for leaf in range(m):
            self._evaluate(leaf)

    @property
    def num_columns(self) -> int:
        """How many columns are in use."""
        return len(self.used)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are so far."""
        return len(self._entries)

    def entries(self, node: int) -> Entries:
        """The entries of a node that has not been dropped."""
        entries = self._entries[node]
        if entries is None:
            raise LookupError(f"Node {node} has been dropped.")
        return entries

    def drop(self, node: int) -> None:
        """Forget the entries of a node."""
        self._entries[node] = None

    def unite(self, a: int, b: int) -> int:
        """Add the union of two nodes, and return its number."""
        node = len(self._entries)
        one, other = self.entries(a), self.entries(b)
        columns, places = merged(one.columns, other.columns)
        sums = np.zeros(len(columns))
        for part, place in zip((one, other), places, strict=True):
            sums[place] += part.sums
        self._entries.append(Entries(columns, sums))
        for of_node in (self.weight, self.mass, self.total):
            of_node[node] = of_node[a] + of_node[b]
        self._evaluate(node)
        return node

    def floor(
        self, mass: np.ndarray | float, columns: np.ndarray
    ) -> np.ndarray | float:
        """f = ζ g in some columns: one number where g and ζ are."""
        center: Any = self.center
        return mass * (center if np.ndim(center) == 0 else center[columns])

    def entry_values(self, node: int, weight: float, mass: float) -> np.ndarray:
        """D of the entries of a node in a cluster of other weight and mass, `[e]`."""
        columns, sums = self.entries(node)
        return self.excess.of(sums, self.floor(mass, columns), weight, columns)

    def whole(self, total, mass, weight):
        """What A has beside the sum of D."""
        return self.excess.whole(total, mass, weight, self.share)

    def noise(self, node: int, others: np.ndarray) -> np.ndarray:
        """Rounding of the costs of a sweep of a node over others, about, `[k]`."""
        return _NOISE * np.finfo(float).eps * (self._size[node] + self._size[others])

    def _evaluate(self, node: int) -> None:
        """Set A of a node, and the size of what is added up in it."""
        weight, mass = self.weight[node], self.mass[node]
        columns, sums = self.entries(node)
        floor = self.floor(mass, columns)
        whole = self.whole(self.total[node], mass, weight)
        inner = self.excess.of(sums, floor, weight, columns)
        self.value[node] = np.sum(inner) + whole
        sizes = self.excess.sizes(sums, floor, weight, columns)
        self._size[node] = np.sum(sizes) + abs(whole)


def _excess(problem: Problem, used: np.ndarray) -> Excess:
    """The excess of a problem's entries, by the places of their columns in `used`."""
    model: Any = problem.family.cluster_model()
    excess = excess_of(in_columns(model.function, used))
    if excess is None:
        raise TypeError(f"{type(problem.family).__name__} takes no sparse rows.")
    return excess


def merged(
    first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """The union of two ascending lists, and the places of both in it.

    Examples:
        >>> merged(np.array([1, 4]), np.array([0, 4, 7]))[0].tolist()
        [0, 1, 4, 7]
    """
    both = np.concatenate([first, second])
    order = np.argsort(both, kind="stable")
    ascending = both[order]
    is_new = np.ones(len(both), bool)
    is_new[1:] = ascending[1:] != ascending[:-1]
    place = np.empty(len(both), np.intp)
    place[order] = np.cumsum(is_new) - 1
    return ascending[is_new], (place[: len(first)], place[len(first) :])


def sums_of_runs(terms: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sums of the runs between starts, 0 of runs without terms, `[k]` from `[k + 1]`.

    Examples:
        >>> sums_of_runs(np.array([1.0, 2.0, 4.0]), np.array([0, 1, 1, 3, 3])).tolist()
        [1.0, 0.0, 6.0, 0.0]
    """
    # `reduceat` would give an empty run the term behind it.
    found = np.zeros(len(starts) - 1)
    full = starts[:-1] < starts[1:]
    if np.any(full):
        found[full] = np.add.reduceat(terms, starts[:-1][full])
    return found


def floors_of(smoothing: Any, weights: np.ndarray, num_columns: int) -> Floors:
    """What mixing, adding or pseudo-counts do to rows; problems have no other maps."""
    if smoothing is None:
        return Floors(weights, np.zeros(len(weights)), weights, None)
    center = np.broadcast_to(np.asarray(smoothing.center, float), (num_columns,))
    if isinstance(smoothing, PseudoCount):
        mass = np.full(len(weights), float(smoothing.count))
        return Floors(weights, mass, weights + mass, center)
    amount = float(smoothing.amount)
    scale = weights * (1 - amount) if isinstance(smoothing, Mixing) else weights
    return Floors(scale, amount * weights, weights, center)


def _center(
    center: np.ndarray | None, used: np.ndarray
) -> tuple[np.ndarray | float, float]:
    """ζ in the columns in use, as one number if it can be; and its sum over all."""
    if center is None:
        return 0.0, 0.0
    inside = center[used]
    if len(inside) and np.all(inside == inside[0]):
        inside = float(inside[0])
    return inside, float(np.sum(center))

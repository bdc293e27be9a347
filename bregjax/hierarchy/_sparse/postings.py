"""Which clusters have entries in a column: sums over shared columns alone.

A small cluster shares few columns with most others. Its costs with all are sums over
the entries of others in its own columns,

    X(c, y) = Σ over shared columns of D(u + v) − D(u) − D(v),

and P_y(W) = Σ over entries v of y of D(v), in the place of a sweep over all entries of
all: Σ D(u + v) − D(u) over the entries of y is X + P_y. P_y(W) depends on c by its
weight and floor alone, and is kept for the next cluster of the same.

Example: three documents with the words (0, 1), (1, 2) and (3,). Columns list their
documents as 0: [0], 1: [0, 1], 2: [1], 3: [2]. A cluster of the words (0, 3) looks at
the documents 0 and 2, two entries of five.
"""

import functools
from typing import NamedTuple

import numpy as np

from bregjax.hierarchy._sparse.clusters import SparseClusters, sums_of_runs

__all__ = ["Postings"]

# Rough, by the passes over arrays that each takes: an entry of a column costs as much
# as so many in a sweep; the sums P_y, if they are not kept, this share of a sweep.
_SLOWER, _OWN_SHARE = 3.0, 0.7
# Sums P_y for so many weights and floors, at most, are kept.
_KEPT = 64


class _Ranges(NamedTuple):
    """Runs of entries, column by column: where they begin, and how many they are."""

    first: np.ndarray
    lengths: np.ndarray


class _Sorted(NamedTuple):
    """Entries column by column.

    Attributes:
        rank: Where each entry comes, `[e]`.
        ends: Where columns end, after a 0 for the first, `[n + 1]`.
        places: The cluster of each entry, `[e]`.
        sums: The sum of each entry, `[e]`.
    """

    rank: np.ndarray
    ends: np.ndarray
    places: np.ndarray
    sums: np.ndarray


class Postings:
    """Entries of packed clusters, sorted by column."""

    def __init__(
        self,
        clusters: SparseClusters,
        columns: np.ndarray,
        sums: np.ndarray,
        starts: np.ndarray,
    ) -> None:
        """Take the entries of some clusters.

        Args:
            clusters: Where the clusters are kept.
            columns: Of all entries, cluster by cluster, `[e]`.
            sums: Their sums, `[e]`.
            starts: Where the entries of each cluster begin, and where the last end,
                `[k + 1]`.
        """
        self._clusters = clusters
        self._columns, self._sums, self._starts = columns, sums, starts
        self._in_column = np.bincount(columns, minlength=clusters.num_columns)
        self._kept: dict[tuple[float, float], np.ndarray] = {}

    @functools.cached_property
    def _sorted(self) -> _Sorted:
        """Made when first of use: sorting takes as long as several sweeps."""
        order = np.argsort(self._columns, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        ends = np.concatenate([[0], np.cumsum(self._in_column)])
        places = np.repeat(np.arange(self.count), np.diff(self._starts))
        return _Sorted(rank, ends, places[order], self._sums[order])

    @property
    def count(self) -> int:
        """How many clusters there are."""
        return len(self._starts) - 1

    def pays(self, node: int) -> bool:
        """Whether the entries in a node's columns take less time than a sweep."""
        columns = self._clusters.entries(node).columns
        entries = _SLOWER * float(np.sum(self._in_column[columns]))
        own = 0.0 if self._key(node) in self._kept else _OWN_SHARE
        return entries + own * len(self._columns) < len(self._columns)

    def _ranges(self, columns: np.ndarray, begin: int) -> _Ranges:
        """The entries in columns of a node of the clusters from a place on."""
        table = self._sorted
        ends = table.ends[columns + 1]
        if begin:
            own = slice(self._starts[begin - 1], self._starts[begin])
            first = table.rank[own] + 1
        else:
            first = table.ends[columns]
        return _Ranges(first, ends - first)

    def sums(
        self, node: int, begin: int, weight: np.ndarray, mass: np.ndarray
    ) -> np.ndarray:
        """X + P_y for the clusters from a place on, `[k − begin]`.

        Args:
            node: The node c; the one at place `begin − 1` if `begin` is not 0.
            begin: The first place.
            weight: W of the node with each cluster, `[k]`.
            mass: Likewise, `[k]`.
        """
        excess, clusters = self._clusters.excess, self._clusters
        columns, own = clusters.entries(node)
        ranges = self._ranges(columns, begin)
        ends = np.cumsum(ranges.lengths)
        total = int(ends[-1]) if len(ends) else 0
        shift = np.repeat(ranges.first - ends + ranges.lengths, ranges.lengths)
        entries = shift + np.arange(total)
        places = self._sorted.places[entries]
        u = np.repeat(own, ranges.lengths)
        v = self._sorted.sums[entries]
        column = np.repeat(columns, ranges.lengths)
        floor = clusters.floor(mass[places] if np.any(mass) else 0.0, column)
        each = weight[places] if excess.by_weight else 1.0
        shared = excess.rise(u, v, floor, each, column)
        shared = shared - excess.of(v, floor, each, column)
        found = np.bincount(places, shared, self.count)
        return (found + self._own(node, weight, mass))[begin:]

    def _own(self, node: int, weight: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """P_y of all clusters in a cluster with a node, `[k]`."""
        key = self._key(node)
        if key not in self._kept:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            excess, clusters = self._clusters.excess, self._clusters
            lengths = np.diff(self._starts)
            spread = lambda of: of[0] if np.ptp(of) == 0 else np.repeat(of, lengths)
            floor = clusters.floor(spread(mass), self._columns)
            each = spread(weight) if excess.by_weight else 1.0
            terms = excess.of(self._sums, floor, each, self._columns)
            self._kept[key] = sums_of_runs(terms, self._starts)
        return self._kept[key]

    def _key(self, node: int) -> tuple[float, float]:
        """What P_y depends on of a node: its mass, and its weight if D does."""
        clusters = self._clusters
        weight = clusters.weight[node] if clusters.excess.by_weight else 0.0
        return float(weight), float(clusters.mass[node])

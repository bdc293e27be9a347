"""The costs of merging one cluster of sparse rows with many others, in one sweep.

The entries of the others lie one cluster after the other in flat arrays. For a cluster
c and another y, of weight W together,

    Δ(c, y) = A_c + A_y − whole_cy − P_c(W) − Σ over entries v of y of D(u + v) − D(u)

with u the sum of c in the entry's column, gathered from a dense row of c alone, and
P_c(W) = Σ over entries u of c of D(u), which depends on y only by weight and floor: see
`_diluted`. So a sweep reads each entry once, and the columns of c that y lacks are not
looked at a pair at a time. Of a cluster with few entries only columns that it shares
are read, by `Postings`.
"""

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.polynomial import chebyshev

from bregjax.hierarchy._sparse.clusters import SparseClusters, sums_of_runs
from bregjax.hierarchy._sparse.postings import Postings

__all__ = ["Sweep"]

# Entries that are worked on at a time, so that what is computed of them stays in a
# core's cache: an entry took 4.8 ns, and 5.5 at 2¹⁴, 5.0 at 2¹⁸, 5.4 all at once.
_CHUNK = 2**16
# Entries from which on a second thread pays.
_FEW_ENTRIES = 2**17
# The share of a sweep's clusters that may be dead before all is packed again.
_DEAD = 1 / 8
# So many weights of others, at most, are gone through one by one.
_FEW_WEIGHTS = 32
# Chebyshev's polynomials between powers of this ratio. The nearest singularity, at ±π i
# from an interval of length log 50, leaves an error of about 3.5⁻²⁸.
_RATIO, _DEGREE = 50.0, 27


class Sweep:
    """Clusters that others are compared with: those alive, and until packed again dead.

    Attributes:
        nodes: The node that lies at each place.
        is_alive: Whether it has not been removed.
    """

    def __init__(self, clusters: SparseClusters, nodes: Sequence[int]) -> None:
        """Pack the entries of some nodes.

        Args:
            clusters: Where they are kept.
            nodes: In the order that their costs come in; best by weight.
        """
        self._clusters = clusters
        self._pack(list(nodes))

    def _pack(self, nodes: list[int]) -> None:
        parts = [self._clusters.entries(node) for node in nodes]
        lengths = [len(part.columns) for part in parts]
        size = sum(lengths)
        # Room for what is appended until packed again; see `replace`.
        self._columns = np.empty(size + size // 2 + 1, np.intp)
        self._sums = np.empty(len(self._columns))
        self._size = 0
        capacity = len(nodes) + int(_DEAD * len(nodes)) + 2
        self._starts = np.zeros(capacity + 1, np.intp)
        self._all_nodes = np.zeros(capacity, np.intp)
        self._all_alive = np.zeros(capacity, bool)
        self._count = 0
        for node in nodes:
            self._append(node)
        packed = slice(self._size)
        starts = self._starts[: self._count + 1].copy()
        columns, sums = self._columns[packed], self._sums[packed]
        self._postings = Postings(self._clusters, columns, sums, starts)

    @property
    def nodes(self) -> np.ndarray:
        """The node at each place, `[k]`."""
        return self._all_nodes[: self._count]

    @property
    def is_alive(self) -> np.ndarray:
        """Whether the node of each place has not been removed, `[k]`."""
        return self._all_alive[: self._count]

    def replace(self, a: int, b: int, union: int) -> None:
        """Remove two nodes and append another; places change if all is packed again."""
        for node in (a, b):
            self._all_alive[: self._count][self.nodes == node] = False
        length = len(self._clusters.entries(union).columns)
        dead = self._count - np.count_nonzero(self.is_alive)
        full = self._count == len(self._all_nodes)
        if full or self._size + length > len(self._sums) or dead > _DEAD * self._count:
            living = self.nodes[self.is_alive]
            order = np.argsort(self._clusters.weight[living], kind="stable")
            self._pack([*living[order].tolist(), union])
        else:
            self._append(union)

    def _append(self, node: int) -> None:
        columns, sums = self._clusters.entries(node)
        end = self._size + len(columns)
        self._columns[self._size : end] = columns
        self._sums[self._size : end] = sums
        self._all_nodes[self._count], self._all_alive[self._count] = node, True
        self._size, self._count = end, self._count + 1
        self._starts[self._count] = end

    def costs(self, node: int, begin: int = 0) -> np.ndarray:
        """Merge costs of a node with the nodes from a place on, `[k − begin]`.

        Those of dead clusters mean nothing. To rounding of A, of the order of
        eps · |A|; costs below that may come out as 0.
        """
        clusters, nodes = self._clusters, self.nodes[begin:]
        columns, sums = clusters.entries(node)
        weight = clusters.weight[nodes] + clusters.weight[node]
        mass = clusters.mass[nodes] + clusters.mass[node]
        total = clusters.total[nodes] + clusters.total[node]
        shared = np.empty(len(nodes))
        first = self._by_postings(node, begin, shared)
        row = np.zeros(clusters.num_columns)
        row[columns] = sums
        work = lambda part: self._sweep(row, part, begin, weight, mass, shared)
        parts = self._parts(first) if first < self._count else []
        if self._size - self._starts[first] < _FEW_ENTRIES:
            for part in parts:
                work(part)
        else:
            list(_workers().map(work, parts))
        own = clusters.value[node] + clusters.value[nodes]
        diluted = self._diluted(node, nodes, weight, mass)
        cost = own - clusters.whole(total, mass, weight) - diluted - shared
        return np.maximum(cost, 0)

    def _by_postings(self, node: int, begin: int, shared: np.ndarray) -> int:
        """Write sums for packed clusters, where that is quick; the first place left.

        Clusters from a place on are those behind the node itself, which lies before it.
        """
        clusters, postings = self._clusters, self._postings
        count = postings.count
        if begin >= count:
            return begin
        if not postings.pays(node):
            return begin
        packed = self.nodes[:count]
        weight = clusters.weight[packed] + clusters.weight[node]
        mass = clusters.mass[packed] + clusters.mass[node]
        shared[: count - begin] = postings.sums(node, begin, weight, mass)
        return count

    def _parts(self, begin: int) -> list[tuple[int, int]]:
        """Runs of places of about `_CHUNK` entries."""
        starts = self._starts[begin : self._count + 1]
        marks = np.arange(starts[0], starts[-1], _CHUNK)
        edges = np.unique(np.searchsorted(starts, marks, side="left"))
        edges = np.append(edges[edges < len(starts) - 1], len(starts) - 1) + begin
        if not len(edges) or edges[0] != begin:
            edges = np.concatenate([[begin], edges])
        return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))

    def _sweep(
        self,
        row: np.ndarray,
        part: tuple[int, int],
        begin: int,
        weight: np.ndarray,
        mass: np.ndarray,
        shared: np.ndarray,
    ) -> None:
        """Write Σ D(u + v) − D(u) of the clusters of some places."""
        first, last = part
        starts = self._starts[first : last + 1]
        entries = slice(starts[0], starts[-1])
        here = slice(first - begin, last - begin)
        columns = self._columns[entries]
        lengths = np.diff(starts)
        spread = lambda of: of[0] if np.ptp(of) == 0 else np.repeat(of, lengths)
        excess, clusters = self._clusters.excess, self._clusters
        floor = clusters.floor(spread(mass[here]), columns)
        each = spread(weight[here]) if excess.by_weight else 1.0
        found = excess.rise(row[columns], self._sums[entries], floor, each, columns)
        shared[here] = sums_of_runs(found, starts - starts[0])

    def _diluted(
        self, node: int, others: np.ndarray, weight: np.ndarray, mass: np.ndarray
    ) -> np.ndarray | float:
        """P_c(W): D of the node's own entries in a cluster with each other, added up.

        A smooth function of what the other brings, its mass g (with a common floor its
        weight w). Where the others bring few different ones P is computed for each;
        else for the nodes of polynomials of Chebyshev's in log g, between which it is
        interpolated: a term s log s with s = u + ζ (g_c + g) is analytic but for s ≤ 0,
        where log g has an imaginary part of ±π.
        """
        clusters = self._clusters
        excess = clusters.excess
        by_mass = not excess.by_weight
        if by_mass and not np.any(mass):
            return float(np.sum(clusters.entry_values(node, 1.0, 0.0)))
        brought = (clusters.mass if by_mass else clusters.weight)[others]
        rate = clusters.mass[node] / clusters.weight[node]

        def value(amount: float) -> float:
            own_weight, own_mass = clusters.weight[node], clusters.mass[node]
            if by_mass:
                return np.sum(clusters.entry_values(node, 1.0, own_mass + amount))
            all_ = own_weight + amount
            return np.sum(clusters.entry_values(node, all_, rate * all_))

        different, place = np.unique(brought, return_inverse=True)
        if len(different) <= _FEW_WEIGHTS:
            return np.array([value(amount) for amount in different])[place]
        return interpolated(value, different)[place]


@functools.cache
def _workers() -> ThreadPoolExecutor:
    """A thread for each core: NumPy lets others run while it works on large arrays."""
    return ThreadPoolExecutor(os.cpu_count() or 1)


def interpolated(value: Callable[[float], float], amounts: np.ndarray) -> np.ndarray:
    """A smooth function of log amounts at many amounts, ascending, from few values."""
    logs = np.log(amounts)
    pieces = max(int(np.ceil((logs[-1] - logs[0]) / np.log(_RATIO))), 1)
    edges = np.linspace(logs[0], logs[-1], pieces + 1)
    points = chebyshev.chebpts1(_DEGREE + 1)
    found = np.empty(len(amounts))
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        inside = (logs >= low) & (logs <= high)
        if np.count_nonzero(inside) <= _DEGREE:
            found[inside] = [value(amount) for amount in amounts[inside]]
            continue
        middle, half = (low + high) / 2, (high - low) / 2
        values = [value(np.exp(middle + half * point)) for point in points]
        terms = chebyshev.chebfit(points, values, _DEGREE)
        found[inside] = chebyshev.chebval((logs[inside] - middle) / half, terms)
    return found

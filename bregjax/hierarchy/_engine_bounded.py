"""The engine for expensive costs: a matrix of lower bounds, made exact where least.

Leaving out a term lowers a minimum of a sum of terms that are not negative, and costs
telescope, so that for every Bregman cost (Δ(i, j) is known, as i and j have merged)

    Δ(ij, k) ≥ max(Δ(i, k), Δ(j, k)) − Δ(i, j)
    Δ(ij, k) ≥ ½ (Δ(i, k) + Δ(j, k) − Δ(i, j))

and lower bounds may stand for Δ(i, k) and Δ(j, k). After a merge the row of the union
is filled by arithmetic on two rows, and a cost is evaluated only where its bound is the
least of all. With m = 500 points in 10 dimensions that is about 22 costs a merge.

Worked example: points 0, 1, 3, 7 on a line, Δ(a, b) = w_a w_b (a − b)² / 2 (w_a + w_b).
The matrix begins with 0.25, 2.25, 12.25; 1, 9; 4. Points 0 and 1 merge at 0.25. For
their union and 3 the bounds are max(2.25, 1) − 0.25 = 2 and ½ (2.25 + 1 − 0.25) = 1.5;
for 7 they are 12 and 10.5. The least entry is now the bound 2, so the cost is
evaluated: 2.0833, which is less than all others, and that pair merges next.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from bregjax._typing import PyTree
from bregjax.clusters import HostModel
from bregjax.clusters._host_model import rows_of
from bregjax.hierarchy._interrupted import Interrupted

__all__ = ["BoundedInfo", "bounded", "exhaustive"]

# Pairs whose costs are asked for together, if as many are in question; a solver's block
# of lanes takes as long for a few.
_BATCH = 64
# Rows that are looked at together.
_ROWS = 32
# Numbers in the states of pairs of the first search that are asked for together.
_FIRST = 2**22
# Numbers in the states of unions that are kept.
_REMEMBERED = 2**22
# What stands for a cost that could not be computed: it comes after every other.
_LOST = np.finfo(float).max
# Roundings of the terms that a bound is made of.
_ROUNDINGS = 16


@dataclass
class BoundedInfo:
    """What the engine of lower bounds did.

    Attributes:
        duplicates: Merges of equal points, made before all others.
        first_costs: Costs of pairs of points.
        later_costs: Costs of pairs with a union, evaluated where a bound was least.
        calls: How many times those were asked for.
    """

    duplicates: int = 0
    first_costs: int = 0
    later_costs: int = 0
    calls: int = 0


def bounded(
    host: HostModel,
    leaves: PyTree,
    labels: np.ndarray,
    report: Callable[[int], None] | None = None,
    *,
    apart: np.ndarray | None = None,
    num_clusters: int = 1,
) -> tuple[np.ndarray, PyTree, BoundedInfo]:
    """Exact greedy agglomeration by a matrix of lower bounds.

    A cluster lives in the slot of its first leaf. Time: m²/2 costs, then a few dozen a
    merge (hundreds where the data have no groups), and O(m) arithmetic for each row
    looked at. Memory: m² numbers and m² bytes.

    Ties: equal points before all others; of pairs of equal cost the one whose first
    slot is least merges first, then the one whose second slot is. NaN costs come last.
    Deterministic.

    Args:
        host: The cluster model.
        leaves: Settled states of the points, `[m, ...]`, NumPy arrays.
        labels: Numbers of points, `[m]`, equal only where points are equal and cost 0
            to merge.
        report: Is called with the number of merges made so far, from time to time.
        apart: Pairs of points that never share a cluster, whose labels are of one point
            each, `[q, 2]`; none if None.
        num_clusters: How many clusters to stop at (equal points merge regardless).

    Returns:
        Children `[t, 2]`, int32, t = m − 1 unless it stopped early; states of all nodes
        `[m + t]`, as the search left them; and what was done.

    Raises:
        Interrupted: By Ctrl-C.
    """
    m = len(labels)
    run = _Run(host, leaves, m, report)
    try:
        run.merge_equals(labels)
        run.search(apart)
        while run.left > num_clusters:
            pair = run.front()
            if pair is None:
                break
            run.merge(*pair)
    except KeyboardInterrupt as stop:
        raise Interrupted(run.children[: m - run.left], m) from stop
    count = m - run.left
    return run.children[:count], rows_of(run.nodes, slice(m + count)), run.info


class _Run:
    """The state of one agglomeration: clusters in slots, and what pairs may cost."""

    def __init__(
        self,
        host: HostModel,
        leaves: PyTree,
        num_points: int,
        report: Callable[[int], None] | None,
    ) -> None:
        self.host = host
        self.info = BoundedInfo()
        self.children = np.zeros((num_points - 1, 2), np.int32)
        room = lambda leaf: np.concatenate(
            [leaf[:num_points], np.repeat(leaf[:1], num_points - 1, axis=0)]
        )
        self.nodes = jax.tree.map(room, leaves)
        self.left = num_points
        self._first = self._node = np.arange(num_points)  # of each slot
        # States of unions by the two nodes: those whose costs were found lately.
        self._unions: dict[tuple[int, int], tuple[PyTree, int]] = {}
        self._num_points = num_points
        self._numbers = sum(leaf[:1].size for leaf in jax.tree.leaves(leaves))
        self._report = report

    def merge_equals(self, labels: np.ndarray) -> None:
        """Merge equal points in the order of slots; leave out the slots of the rest."""
        _, first, label = np.unique(labels, return_index=True, return_inverse=True)
        head = first[label]
        later = np.flatnonzero(head != np.arange(len(head)))
        later = later[np.argsort(head[later], kind="stable")]
        start = self._num_points
        for slot in later.tolist():
            first_slot = int(head[slot])
            pair = self._node[[first_slot, slot]]
            a, b = (rows_of(self.nodes, slice(k, k + 1)) for k in pair)
            self._record(first_slot, slot, self.host.pool(a, b))
        equal = slice(start, start + len(later))
        if len(later):
            settled = self.host.settle(rows_of(self.nodes, equal))
            jax.tree.map(lambda all_, new: _put(all_, equal, new), self.nodes, settled)
        self.info.duplicates = len(later)
        self._first = np.sort(first)
        self._node = self._node[self._first]

    def search(self, apart: np.ndarray | None = None) -> None:
        """Evaluate the costs of all pairs but those of points that stay apart."""
        size = self.left
        self._states = rows_of(self.nodes, self._node)
        self._noise = self.host.noise(self._states)
        self._bound = np.full((size, size), np.inf)
        self._exact = np.ones((size, size), bool)
        slots, step = np.arange(size), max(_FIRST // (max(size, 1) * self._numbers), 1)
        for start in range(0, size - 1, step):
            some = slots[start : start + step]
            row, column = np.nonzero(some[:, None] < slots[None])
            self._evaluate(some[row], column)
        self.info.first_costs = size * (size - 1) // 2
        if apart is not None:
            # An infinite cost stays one: those of a union follow from its parts'.
            low, high = np.searchsorted(self._first, apart).T
            self._bound[low, high] = self._bound[high, low] = np.inf
        self._nearest, self._least = np.zeros(size, int), np.full(size, np.inf)
        for start in range(0, size, _ROWS):
            self._look(slots[start : start + _ROWS])
        if size > 1:
            # Most of these merge; their states were too many to keep.
            low, high = _pairs(np.arange(size), self._nearest, size)
            may = self._bound[low, high] < np.inf
            self._remember(low[may], high[may])

    def front(self) -> tuple[int, int] | None:
        """The pair of least cost; costs are evaluated until its bound is exact.

        None where no pair may merge.
        """
        while True:
            least, nearest = self._least, self._nearest
            rows = np.arange(len(least))
            found = self._bound[rows, nearest]
            ready = self._exact[rows, nearest] & (found == least)
            limit = np.min(least, where=ready, initial=np.inf)
            unsure = np.flatnonzero(~ready & (least <= limit))
            if len(unsure) > _ROWS:
                order = np.argpartition(least[unsure], _ROWS)
                unsure = unsure[order[:_ROWS]]
            if not len(unsure):
                low = int(np.argmin(least))
                high = int(np.argmin(self._bound[low]))
                if self._exact[low, high]:
                    return (low, high) if least[low] < np.inf else None
                unsure = np.array([low])
            limit = min(limit, self._look(unsure))
            self._settle_rows(unsure, limit)

    def _look(self, rows: np.ndarray) -> float:
        """Find the least entry of each row; return the least that is exact."""
        bounds = self._bound[rows]
        nearest = np.argmin(bounds, axis=1)
        least = bounds[np.arange(len(rows)), nearest]
        self._nearest[rows], self._least[rows] = nearest, least
        return np.min(least, where=self._exact[rows, nearest], initial=np.inf)

    def _settle_rows(self, rows: np.ndarray, limit: float) -> None:
        """Evaluate the least bounds of rows, if some are within a limit."""
        size = len(self._least)
        bounds = np.where(self._exact[rows], np.inf, self._bound[rows]).ravel()
        if not np.any(bounds <= limit):
            return
        # All that are in question, and others in the rest of the batch.
        count = min(_BATCH, np.count_nonzero(bounds < np.inf))
        chosen = np.argpartition(bounds, count - 1)[:count]
        low, high = _pairs(rows[chosen // size], chosen % size, size)
        self._remember(low, high)
        self._look(rows)
        self.info.later_costs += len(low)
        self.info.calls += 1

    def _remember(self, low: np.ndarray, high: np.ndarray) -> None:
        """Evaluate costs and keep the states of the unions."""
        unions = self._evaluate(low, high)
        if len(self._unions) * self._numbers > _REMEMBERED:
            self._unions.clear()
        pairs = zip(self._node[low].tolist(), self._node[high].tolist(), strict=True)
        self._unions.update((pair, (unions, k)) for k, pair in enumerate(pairs))
        # A cost may be a rounding below its bound.
        for slots in (low, high):
            np.minimum.at(self._least, slots, self._bound[low, high])

    def _evaluate(self, low: np.ndarray, high: np.ndarray) -> PyTree:
        """Replace bounds of pairs of slots by costs; return the unions' states."""
        a, b = rows_of(self._states, low), rows_of(self._states, high)
        cost, unions = self.host.search_costs(a, b)
        # A pair without a finite cost merges last; `replay` then reports its cost.
        cost = np.where(np.isfinite(cost), cost, _LOST)
        for i, j in ((low, high), (high, low)):
            self._bound[i, j] = cost
            self._exact[i, j] = True
        return unions

    def merge(self, low: int, high: int) -> None:
        """Merge two slots, the union in the first; bound its costs by theirs."""
        cost = self._bound[low, high]
        union = self._union(low, high)
        self._record(low, high, union)
        slot = slice(low, low + 1)
        jax.tree.map(lambda all_, new: _put(all_, slot, new), self._states, union)

        noise = self._noise
        row_a, row_b = self._bound[low], self._bound[high]
        there = np.isfinite(row_a) & np.isfinite(row_b)
        # A cost that could not be computed is known only not to be negative.
        row_a, row_b = (
            np.where(there & (row < _LOST), row, 0) for row in (row_a, row_b)
        )
        cost = cost if cost < _LOST else np.max(row_a + row_b)
        slack = 4 * (noise + noise[low] + noise[high])
        slack += _ROUNDINGS * np.finfo(float).eps * (row_a + row_b + cost)
        bound = np.maximum(np.maximum(row_a, row_b) - cost, (row_a + row_b - cost) / 2)
        if not self.host.telescopes:
            bound = np.zeros_like(bound)
        bound = np.where(there, np.maximum(bound - slack, 0), np.inf)
        noise[low] = self.host.noise(union)[0]
        self._bound[low], self._bound[:, low] = bound, bound
        self._bound[high], self._bound[:, high] = np.inf, np.inf
        exact = bound == np.inf
        self._exact[low], self._exact[:, low] = exact, exact
        self._exact[high], self._exact[:, high] = True, True
        np.minimum(self._least, bound, out=self._least)
        self._least[high] = np.inf
        self._look(np.array([low]))

    def drop(self, slot: int) -> None:
        """Leave out a slot whose cluster has merged; costs have to be found again."""
        self._node = np.delete(self._node, slot)

    def _union(self, low: int, high: int) -> PyTree:
        """The state `[1]` of the union of two slots."""
        nodes = tuple(self._node[[low, high]].tolist())
        if nodes in self._unions:
            unions, k = self._unions[nodes]
            return rows_of(unions, slice(k, k + 1))
        a, b = (rows_of(self.nodes, slice(k, k + 1)) for k in nodes)
        return self.host.search_costs(a, b)[1]

    def _record(self, low: int, high: int, union: PyTree) -> None:
        """Record a merge of two slots, the union in the lower."""
        step = self._num_points - self.left
        self.children[step] = np.sort(self._node[[low, high]])
        self._node[low] = self._num_points + step
        node = slice(self._node[low], self._node[low] + 1)
        jax.tree.map(lambda all_, new: _put(all_, node, new), self.nodes, union)
        self.left -= 1
        if self._report is not None:
            self._report(step + 1)


def _pairs(first: np.ndarray, second: np.ndarray, size: int):
    """The distinct pairs of slots below `size`, the lower slot first."""
    pair = np.minimum(first, second) * size + np.maximum(first, second)
    return np.divmod(np.unique(pair), size)


def _put(states: np.ndarray, places: slice, new: np.ndarray) -> None:
    """Write clusters into places of an array of all."""
    states[places] = new


def exhaustive(
    host: HostModel,
    leaves: PyTree,
    report: Callable[[int], None] | None = None,
) -> tuple[np.ndarray, PyTree]:
    """Greedy agglomeration that bounds nothing: all costs again at each merge.

    For checks of the other engines. Time: m³/6 costs. Ties as `bounded`, but that equal
    points come in the order of their slots.

    Args:
        host: The cluster model.
        leaves: Settled states of the points, `[m, ...]`, NumPy arrays.
        report: Is called with the number of merges made so far.

    Returns:
        Children `[m − 1, 2]`, int32, and states of all nodes `[2m − 1]`.

    Raises:
        Interrupted: By Ctrl-C.
    """
    count = len(jax.tree.leaves(leaves)[0])
    run = _Run(host, leaves, count, report)
    try:
        while run.left > 1:
            run.search()
            pair = run.front()
            if pair is None:
                break
            run.merge(*pair)
            run.drop(pair[1])
    except KeyboardInterrupt as stop:
        raise Interrupted(run.children[: count - run.left], count) from stop
    return run.children, run.nodes

"""Greedy merging of sparse rows, one pair at a time, with all costs kept.

Each pair of clusters belongs to the one of the higher slot. A slot keeps the least cost
of its pairs and the slot that attains it; when that one dies or changes, the kept cost
stays as a lower bound, and the slot's pairs are looked at again when the bound is the
least of all (Müllner's generic algorithm).

Example: slots 0, 1, 2 with Δ(1, 0) = 2, Δ(2, 0) = 5, Δ(2, 1) = 1. Slot 1 keeps 2 (by 0)
and slot 2 keeps 1 (by 1), so 1 and 2 merge; the union takes slot 2, slot 1 is empty,
and slot 2 keeps Δ(12, 0) alone.
"""

from collections.abc import Callable

import numpy as np

from bregjax.hierarchy._interrupted import Interrupted
from bregjax.hierarchy._sparse.clusters import SparseClusters
from bregjax.hierarchy._sparse.sweep import Sweep

__all__ = ["CostTable", "TooNoisy", "bytes_needed", "merge_sparse"]

# Up to so many clusters costs are kept in float64, which takes a quarter of a GiB;
# beyond in float32.
_IN_DOUBLE = 8192
# Rounding below this share of a cost leaves the order of costs to chance.
_NEGLIGIBLE = 1e-10
# So many pairs of equal cost to float32, at most, are compared again by exact costs.
_MOST_TIES = 32
# Exact costs that may be asked for because sweeps leave them in doubt, a cluster and at
# least: they then take about as long as the sweeps do.
_EXACT_PER_CLUSTER, _EXACT_AT_LEAST = 200, 10_000


class TooNoisy(ArithmeticError):
    """Costs that are mostly rounding in the form in which sweeps add them up."""


def bytes_needed(num_points: int) -> int:
    """How much memory the costs of all pairs take."""
    return num_points * (num_points - 1) // 2 * np.dtype(_kept_as(num_points)).itemsize


def _kept_as(num_points: int) -> type:
    return np.float64 if num_points <= _IN_DOUBLE else np.float32


class CostTable:
    """Costs of all pairs of slots, each kept once, with the slot of higher number."""

    def __init__(self, num_slots: int) -> None:
        """Make room for so many slots."""
        self._first = np.arange(num_slots, dtype=np.int64)
        self._first = self._first * (self._first - 1) // 2
        size = num_slots * (num_slots - 1) // 2
        self._costs = np.empty(size, _kept_as(num_slots))

    @property
    def relative_error(self) -> float:
        """The share of a cost that is lost in keeping it, half an eps of float32."""
        return 6e-8 if self._costs.dtype == np.float32 else 0.0

    def below(self, slot: int) -> np.ndarray:
        """Costs with the slots below, `[slot]`; write here to change them."""
        first = self._first[slot]
        return self._costs[first : first + slot]

    def write_above(self, slot: int, above: np.ndarray, costs: np.ndarray) -> None:
        """Set costs with some slots above."""
        self._costs[self._first[above] + slot] = costs


def merge_sparse(
    clusters: SparseClusters,
    labels: np.ndarray,
    exact: Callable[[list[tuple[int, int]]], np.ndarray],
    report: Callable[[int], None] | None = None,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Merge the two clusters of least cost until one is left.

    Rows that are equal merge first, at no cost. Pairs whose costs are in doubt, as
    those of near-duplicates may be, are compared by exact costs; ties go to the lowest
    slots.

    Time: one sweep over the entries of all clusters for each row and for each merge.
    Memory: m²/2 costs, and the entries of the clusters that live.

    Args:
        clusters: The leaves; unions are added.
        labels: Equal where rows are, `[m]`.
        exact: Costs of pairs of nodes, without cancellation.
        report: Called with the number of merges made, those of `start` not counted.
        start: Merges to make first, `[t, 2]`, in the place of those of equal rows.

    Returns:
        Children `[m − 1, 2]`.

    Raises:
        TooNoisy: If too many costs are in doubt.
        Interrupted: By Ctrl-C.
    """
    m = clusters.num_nodes
    begun = 0 if start is None else len(start)
    children: list[tuple[int, int]] = []

    def unite(a: int, b: int) -> int:
        children.append((a, b))
        union = clusters.unite(a, b)
        clusters.drop(a)
        clusters.drop(b)
        if report is not None and len(children) > begun:
            report(len(children) - begun)
        return union

    try:
        if start is None:
            nodes = _without_copies(labels, unite)
        else:
            nodes = _after(start, m, unite)
        if len(nodes) > 1:
            order = np.argsort(clusters.weight[nodes], kind="stable")
            _Merging(clusters, nodes[order], exact).run(unite)
    except KeyboardInterrupt as stop:
        made = children if start is None or len(children) > begun else start
        raise Interrupted(np.array(made), m) from stop
    return np.sort(np.array(children, np.int32).reshape(m - 1, 2), axis=1)


def _without_copies(labels: np.ndarray, unite: Callable[[int, int], int]) -> np.ndarray:
    """Merge equal rows; the nodes that are left."""
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    nodes = []
    for group in sorted(groups, key=lambda group: int(group[0])):
        node = int(group[0])
        for other in group[1:].tolist():
            node = unite(node, other)
        nodes.append(node)
    return np.array(nodes)


def _after(
    start: np.ndarray, num_points: int, unite: Callable[[int, int], int]
) -> np.ndarray:
    """Make merges that are given; the nodes that are left."""
    for a, b in start.tolist():
        unite(a, b)
    nodes = np.arange(num_points + len(start))
    return nodes[~np.isin(nodes, start)]


class _Merging:
    """Slots, what each keeps, and the steps of a merge."""

    def __init__(
        self,
        clusters: SparseClusters,
        nodes: np.ndarray,
        exact: Callable[[list[tuple[int, int]]], np.ndarray],
    ) -> None:
        count = len(nodes)
        self._clusters, self._exact = clusters, exact
        self._node = nodes.copy()
        self._slot = np.zeros(len(clusters.weight), int)
        self._slot[nodes] = np.arange(count)
        self._alive = np.ones(count, bool)
        self._table = CostTable(count)
        self._sweep = Sweep(clusters, nodes.tolist())
        # The least cost of a slot's pairs, and by which slot; a bound alone if stale.
        self._least = np.full(count, np.inf)
        self._nearest = np.zeros(count, int)
        self._stale = np.zeros(count, bool)
        self._spent = 0
        for slot in range(count - 1):
            costs = self._sweep.costs(int(nodes[slot]), slot + 1)
            above = np.arange(slot + 1, count)
            self._table.write_above(slot, above, costs)
            self._offer(slot, above, costs)

    def _offer(self, slot: int, above: np.ndarray, costs: np.ndarray) -> None:
        """Let slots above keep a slot that costs no more than what they keep."""
        own = self._nearest[above] == slot
        costs = self._sharpened(slot, above, costs, self._least[above], 0.0)
        dearer = costs > self._least[above]
        self._stale[above[own & dearer]] = True
        better = (costs < self._least[above]) | (own & ~dearer)
        chosen = above[better]
        self._least[chosen], self._nearest[chosen] = costs[better], slot
        self._stale[chosen] = False

    def _sharpened(
        self,
        slot: int,
        others: np.ndarray,
        costs: np.ndarray,
        limit: np.ndarray,
        relative_error: float,
    ) -> np.ndarray:
        """Costs of a slot with others, exact where their rounding counts.

        That is where costs are below a limit, or above it by less than their rounding,
        and rounding is no small share of them.

        Args:
            slot: The slot.
            others: Other slots, `[k]`.
            costs: Costs with these, `[k]`.
            limit: What they are compared with, `[k]`.
            relative_error: Share of a cost that was lost in keeping it.
        """
        noise = self._clusters.noise(int(self._node[slot]), self._node[others])
        lost = relative_error * costs
        below = costs <= limit + noise + lost
        doubtful = below & (noise > _NEGLIGIBLE * costs)
        self._spent += np.count_nonzero(doubtful)
        if self._spent > _EXACT_PER_CLUSTER * len(self._node) + _EXACT_AT_LEAST:
            raise TooNoisy
        if relative_error:
            doubtful[np.flatnonzero(below)[:_MOST_TIES]] = True
        places = np.flatnonzero(doubtful)
        if not len(places):
            return costs
        node = int(self._node[slot])
        pairs = [(int(self._node[others[place]]), node) for place in places]
        costs = costs.astype(np.float64)
        costs[places] = self._exact(pairs)
        return costs

    def run(self, unite: Callable[[int, int], int]) -> None:
        """Merge until one is left; `unite` gives the number of each union."""
        for left in range(len(self._node) - 1, 0, -1):
            low, high = self._cheapest()
            a, b = int(self._node[low]), int(self._node[high])
            union = unite(a, b)
            if left > 1:
                self._put(union, a, b, low, high)

    def _cheapest(self) -> tuple[int, int]:
        """The pair of least cost, the lower slot first."""
        while True:
            slot = int(np.argmin(self._least))
            if not self._stale[slot]:
                return int(self._nearest[slot]), slot
            self._look_again(slot)

    def _look_again(self, slot: int) -> None:
        """Find the least cost of a slot's pairs among those kept."""
        others = np.flatnonzero(self._alive[:slot])
        costs = self._table.below(slot)[others]
        self._keep_least(slot, others, costs, self._table.relative_error)

    def _keep_least(
        self, slot: int, others: np.ndarray, costs: np.ndarray, relative_error: float
    ) -> None:
        """Keep the least of a slot's costs with the living slots below."""
        self._stale[slot] = False
        self._least[slot] = np.inf
        if not len(others):
            return
        noise = self._clusters.noise(int(self._node[slot]), self._node[others])
        limit = np.min(costs * (1 + relative_error) + noise)
        limit = np.full(len(others), limit)
        costs = self._sharpened(slot, others, costs, limit, relative_error)
        place = int(np.argmin(costs))
        self._least[slot], self._nearest[slot] = costs[place], others[place]

    def _put(self, union: int, a: int, b: int, low: int, high: int) -> None:
        """Put a union into the higher slot of its parts; the lower one is empty."""
        self._alive[low], self._least[low] = False, np.inf
        self._node[high], self._slot[union] = union, high
        orphans = np.flatnonzero(self._alive & (self._nearest == low))
        self._stale[orphans[orphans > low]] = True
        self._sweep.replace(a, b, union)
        costs = np.full(len(self._node), np.inf)
        there = self._sweep.is_alive & (self._sweep.nodes != union)
        costs[self._slot[self._sweep.nodes[there]]] = self._sweep.costs(union)[there]
        self._table.below(high)[:] = costs[:high]
        below = np.flatnonzero(self._alive[:high])
        self._keep_least(high, below, costs[below], 0.0)
        above = high + 1 + np.flatnonzero(self._alive[high + 1 :])
        self._table.write_above(high, above, costs[above])
        self._offer(high, above, costs[above])

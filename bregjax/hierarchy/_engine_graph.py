"""The engine for sparse graphs: exact greedy among clusters that an edge joins.

Costs of pairs that an edge joins wait in a heap, the least on top. When two clusters
merge, the neighbours of the union are those of both, and a lower bound of its cost with
each follows from what is known (see `_engine_bounded`; a cost that is not known is at
least 0). Bounds wait in a heap of their own. A bound that comes to the top is replaced
by the cost, together with the next bounds in the same call. And as a call of a few
pairs takes as long as one of many, it looks ahead: pairs of least cost are likely to
merge next, and what their unions would cost with their neighbours is found before they
do. Merges far apart in the graph do not touch each other's costs, so that most of this
still holds when it is asked for; what does not is thrown away. One merge is made at a
time, always that of least cost.

Worked example: 0, 1, 3, 7 in a chain, Δ(a, b) = w_a w_b (a − b)² / 2 (w_a + w_b). The
costs are 0.25, 1 and 4. Points 0 and 1 merge at 0.25; the union costs at least
1 − 0.25 = 0.75 with 3. That is the least, so the cost is evaluated: 2.0833, still less
than 4, and that pair merges next.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import numpy as np

from bregjax._typing import PyTree
from bregjax.clusters import HostModel
from bregjax.hierarchy._bounded.bound_matrix import LOST
from bregjax.hierarchy._interrupted import Interrupted
from bregjax.hierarchy._union_store import UnionStore

__all__ = ["GraphInfo", "along_edges"]

# Pairs whose costs are asked for together, if as many bounds wait.
_BATCH = 64
# Numbers in the states of pairs of the first search that are asked for together.
_FIRST = 2**22
# Roundings of the terms that a bound is made of.
_ROUNDINGS = 16 * float(np.finfo(float).eps)

# A cost or a bound, and the two slots, the lower first.
_Entry = tuple[float, int, int]
# A neighbour's node, the cost, and the place of the union's state.
_Foreseen = tuple[int, float, int]


@dataclass
class GraphInfo:
    """What the engine of graphs did.

    Attributes:
        links: Merges within components of `must_link`, made before all others.
        duplicates: Merges of equal rows that edges join, made next.
        first_costs: Costs of the pairs that edges join at the start.
        later_costs: Costs of pairs with a union, evaluated where a bound was least, or
            ahead.
        calls: How many times those were asked for.
    """

    links: int = 0
    duplicates: int = 0
    first_costs: int = 0
    later_costs: int = 0
    calls: int = 0


def along_edges(
    host: HostModel,
    states: PyTree,
    edges: np.ndarray,
    apart: np.ndarray,
    num_clusters: int = 1,
    report: Callable[[int], None] | None = None,
) -> tuple[np.ndarray, PyTree, GraphInfo]:
    """Exact greedy agglomeration of clusters that edges join.

    Time: e costs, then a few for each merge, and O(log e) and the neighbours of the
    union for each merge. A cluster with many neighbours makes each of its merges
    expensive: a star of c takes about c² steps. Memory: O(c + e).

    Ties: of pairs of equal cost the one whose first slot is least merges first, then
    the one whose second slot is; a union has the lower slot of its parts. NaN costs
    come last. Deterministic.

    Args:
        host: The cluster model.
        states: Settled states of the clusters to begin with, `[c, ...]`.
        edges: Pairs that may merge, the lower number first, each once, `[e, 2]`.
        apart: Pairs that never share a cluster, likewise, `[q, 2]`.
        num_clusters: How many clusters to stop at.
        report: Is called with the number of merges made so far.

    Returns:
        Children `[t, 2]`, as if the clusters were leaves; states of all nodes
        `[c + t]`, as the search left them; and what was done.

    Raises:
        Interrupted: By Ctrl-C.
    """
    run = _Run(host, states)
    try:
        run.search(edges, apart)
        while run.left > num_clusters:
            pair = run.front()
            if pair is None:
                break
            run.merge(*pair)
            if report is not None:
                report(len(run.children))
        run.make()
    except KeyboardInterrupt as stop:
        size = len(jax.tree.leaves(states)[0])
        raise Interrupted(np.array(run.children), size) from stop
    children = np.array(run.children, np.int32).reshape(-1, 2)
    return children, run.states(), run.info


class _Run:
    """The state of one agglomeration: clusters in slots, and what edges may cost.

    A pair of slots has the key `low * size + high`.
    """

    def __init__(self, host: HostModel, states: PyTree) -> None:
        self.host = host
        self.info = GraphInfo()
        self.children: list[tuple[int, int]] = []
        self._size = self.left = len(jax.tree.leaves(states)[0])
        self._states = states
        self._node = list(range(self._size))  # of each slot
        self._noise = host.noise(states).tolist()  # of each slot
        self._noisy = any(self._noise)
        # Slots of unions whose noise, and nodes whose states, are still to be found.
        self._fresh: list[int] = []
        self._unmade: list[int] = []
        # What each slot's edges cost, or cost at least, by the other slot.
        self._near: list[dict[int, float]] = [{} for _ in range(self._size)]
        self._unsure: set[int] = set()  # the keys of those that are bounds
        self._enemies: dict[int, set[int]] = {}
        self._costs: list[_Entry] = []
        self._bounds: list[_Entry] = []
        # By the key of a pair and the slot of a neighbour: what the union would cost
        # with the node that is there now.
        self._foreseen: dict[int, dict[int, _Foreseen]] = {}

    def states(self) -> PyTree:
        """States of all nodes there are."""
        return self._store.of_nodes(range(self._size + len(self.children)))

    def search(self, edges: np.ndarray, apart: np.ndarray) -> None:
        """Evaluate the costs of all edges but those of clusters that stay apart."""
        for a, b in apart.tolist():
            self._enemies.setdefault(a, set()).add(b)
            self._enemies.setdefault(b, set()).add(a)
        keys, never = (pairs @ [self._size, 1] for pairs in (edges, apart))
        edges = edges[~np.isin(keys, never)]
        self._store = UnionStore(self._states, 2 * len(edges) + _BATCH)
        step = max(_FIRST // self._store.numbers, 1)
        for start in range(0, len(edges), step):
            some = edges[start : start + step]
            nodes = self._store.of_nodes
            costs, places = self._evaluate(nodes(some[:, 0]), nodes(some[:, 1]))
            for (a, b), cost, place in zip(some.tolist(), costs, places, strict=True):
                self._costs.append(self._note(a, b, cost, place))
        heapq.heapify(self._costs)
        self.info.first_costs = len(edges)

    def _evaluate(self, a: PyTree, b: PyTree) -> tuple[list[float], list[int]]:
        """Costs of pairs, and the places where the states of unions are kept."""
        costs, unions = self.host.search_costs(a, b)
        # A pair without a finite cost merges last; `replay` then reports its cost.
        costs = np.where(np.isfinite(costs), costs, LOST).tolist()
        return costs, self._store.keep(unions)

    def _note(self, low: int, high: int, cost: float, place: int) -> _Entry:
        """Note the cost of a pair of slots, and where its union's state is."""
        self._near[low][high] = self._near[high][low] = cost
        self._store.place_of[low * self._size + high] = place
        return cost, low, high

    def front(self) -> tuple[int, int] | None:
        """The pair of least cost; None where no pair may merge."""
        while True:
            cost, bound = self._top_cost(), self._top_bound()
            if bound is None or (cost is not None and cost < bound):
                return None if cost is None else cost[1:]
            self._settle()

    def _top_cost(self) -> _Entry | None:
        """The least cost that holds, all before it dropped."""
        heap, near, unsure, size = self._costs, self._near, self._unsure, self._size
        while heap:
            value, low, high = heap[0]
            if near[low].get(high) == value and low * size + high not in unsure:
                return heap[0]
            heapq.heappop(heap)
        return None

    def _top_bound(self) -> _Entry | None:
        """The least bound that holds, all before it dropped."""
        heap, near, unsure, size = self._bounds, self._near, self._unsure, self._size
        while heap:
            value, low, high = heap[0]
            if near[low].get(high) == value and low * size + high in unsure:
                return heap[0]
            heapq.heappop(heap)
        return None

    def _settle(self) -> None:
        """Replace the least bounds by costs; look ahead with the rest of the batch."""
        pairs: list[tuple[int, int]] = []
        while len(pairs) < _BATCH and (entry := self._top_bound()):
            heapq.heappop(self._bounds)
            self._unsure.discard(entry[1] * self._size + entry[2])
            pairs.append(entry[1:])
        ahead = self._ahead(_BATCH - len(pairs))
        self.make()
        place, node = self._store.place, self._node
        low, high = ([place[node[pair[k]]] for pair in pairs] for k in range(2))
        for a, b, other in ahead:
            parts = self._store.place_of[a * self._size + b], place[node[other]]
            # The lower slot first, as if the union were there: for the same rounding.
            first, second = parts if a < other else parts[::-1]
            low.append(first)
            high.append(second)
        found = self._evaluate(self._store.at(low), self._store.at(high))
        found = list(zip(*found, strict=True))
        for pair, (cost, kept) in zip(pairs, found, strict=False):
            heapq.heappush(self._costs, self._note(*pair, cost, kept))
        for (a, b, other), one in zip(ahead, found[len(pairs) :], strict=True):
            foreseen = self._foreseen.setdefault(a * self._size + b, {})
            if other in foreseen:
                self._store.free(foreseen[other][-1])
            foreseen[other] = (node[other], *one)
        self.info.later_costs += len(found)
        self.info.calls += 1

    def _ahead(self, room: int) -> list[tuple[int, int, int]]:
        """What is likely to be asked next: pairs that merge soon, and a neighbour."""
        seen, wanted, used = [], [], set()
        while len(seen) < _BATCH and len(wanted) < room and (entry := self._top_cost()):
            seen.append(heapq.heappop(self._costs))
            _, low, high = entry
            key = low * self._size + high
            if low in used or high in used or self._store.place_of[key] < 0:
                continue
            foreseen = self._foreseen.get(key, {})
            for other in self._near[low].keys() | self._near[high].keys():
                if other in used or other in (low, high):
                    continue
                if other in foreseen and foreseen[other][0] == self._node[other]:
                    continue
                wanted.append((low, high, other))
            used |= {low, high}
        for entry in seen:
            heapq.heappush(self._costs, entry)
        return wanted[:room]

    def merge(self, low: int, high: int) -> None:
        """Merge two slots, the union in the first; bound its costs by theirs."""
        size, near, noise = self._size, self._near, self._noise
        ours, theirs = near[low], near[high]
        cost = ours.pop(high)
        del theirs[low]
        foreseen = self._foreseen.pop(low * size + high, {})
        self._record(low, high)
        enemies = self._unite_enemies(low, high)
        noises = noise[low] + noise[high]
        near[low], near[high] = {}, {}
        for other, a, b in _joined(ours, theirs):
            for slot, known in ((low, a), (high, b)):
                if known is not None:
                    self._forget(slot, other)
            ahead = foreseen.pop(other, None)
            pair = (low, other) if low < other else (other, low)
            if other in enemies or ahead is None or ahead[0] != self._node[other]:
                if ahead is not None:
                    self._store.free(ahead[-1])
                if other not in enemies:
                    bound = self._bound(a, b, cost, noises + noise[other])
                    near[low][other] = near[other][low] = bound
                    self._unsure.add(pair[0] * size + pair[1])
                    heapq.heappush(self._bounds, (bound, *pair))
            else:
                heapq.heappush(self._costs, self._note(*pair, *ahead[1:]))
        for ahead in foreseen.values():
            self._store.free(ahead[-1])
        noise[low] = noises  # until the union is made

    def _forget(self, slot: int, other: int) -> None:
        """Forget an edge of a slot that has merged."""
        del self._near[other][slot]
        low, high = (slot, other) if slot < other else (other, slot)
        key = low * self._size + high
        if key in self._unsure:
            self._unsure.remove(key)
            return
        self._store.free(self._store.place_of.pop(key))
        for ahead in self._foreseen.pop(key, {}).values():
            self._store.free(ahead[-1])

    def _bound(
        self, a: float | None, b: float | None, cost: float, noises: float
    ) -> float:
        """The least that a union can cost with a cluster, from its parts' costs."""
        # A cost that is not known, or could not be computed, is not negative.
        a = 0.0 if a is None or a >= LOST else a
        b = 0.0 if b is None or b >= LOST else b
        if cost >= LOST or not self.host.telescopes:
            return 0.0
        bound = max(a - cost, b - cost, (a + b - cost) / 2)
        slack = 4 * noises + _ROUNDINGS * (a + b + cost)
        return max(bound - slack, 0.0)

    def _unite_enemies(self, low: int, high: int) -> set[int]:
        """The slots that a union stays apart from."""
        if not self._enemies:
            return set()
        union = self._enemies.pop(low, set()) | self._enemies.pop(high, set())
        for other in union:
            self._enemies[other].discard(high)
            self._enemies[other].add(low)
        if union:
            self._enemies[low] = union
        return union

    def _record(self, low: int, high: int) -> None:
        """Record a merge, and where the union's state is, or that it is missing."""
        a, b = self._node[low], self._node[high]
        self.children.append((a, b) if a < b else (b, a))
        node = self._size + len(self.children) - 1
        place = self._store.place_of.pop(low * self._size + high)
        if not self._store.take(node, place):
            self._unmade.append(node)
        self._node[low] = node
        self._fresh.append(low)
        self.left -= 1

    def make(self) -> None:
        """Find the states of unions that are missing, and the noise of all new ones.

        A cluster merges only when its costs are known, so that parts are there.
        """
        if self._unmade:
            pairs = [self.children[node - self._size] for node in self._unmade]
            a, b = (self._store.of_nodes(part) for part in zip(*pairs, strict=True))
            self._store.put(self._unmade, self.host.search_costs(a, b)[1])
            self._unmade.clear()
        if self._fresh and self._noisy:
            nodes = [self._node[slot] for slot in self._fresh]
            noise = self.host.noise(self._store.of_nodes(nodes))
            for slot, its in zip(self._fresh, noise.tolist(), strict=True):
                self._noise[slot] = its
        self._fresh.clear()


def _joined(
    ours: dict[int, float], theirs: dict[int, float]
) -> Iterator[tuple[int, float | None, float | None]]:
    """The neighbours of two slots, with what each costs with both."""
    for other, cost in ours.items():
        yield other, cost, theirs.get(other)
    for other, cost in theirs.items():
        if other not in ours:
            yield other, None, cost

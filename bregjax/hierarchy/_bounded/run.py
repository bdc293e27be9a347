"""The clusters of the engine of lower bounds: what is known, merged and found next."""

from dataclasses import dataclass

import jax
import numpy as np

from bregjax._typing import PyTree
from bregjax.clusters import HostModel
from bregjax.clusters._host_model import rows_of
from bregjax.clusters._rough_costs import RoughCosts
from bregjax.hierarchy._bounded.bound_matrix import (
    BOUND,
    COST,
    LOST,
    ROUGH,
    BoundMatrix,
    distinct_pairs,
    telescoped,
)
from bregjax.hierarchy._bounded.rounds import Rounds
from bregjax.hierarchy._host_costs import put
from bregjax.hierarchy._interrupted import Report

__all__ = ["BoundedInfo", "BoundedRun"]

# Pairs whose costs are asked for together, if as many are in question; a solver's block
# of lanes takes as long for a few.
_BATCH = 64
# Rough costs that are computed together at most, and bounds up to so many times the
# cost of a merge that are worth some work.
_MANY, _FAR = 256, 3.0
# Rows that are looked at together.
_ROWS = 32
# Numbers in the states of pairs of the first search that are asked for together.
_FIRST = 2**22
# Numbers in the states of unions that are kept.
_REMEMBERED = 2**22


@dataclass
class BoundedInfo:
    """What the engine of lower bounds did.

    Attributes:
        duplicates: Merges of equal points, made before all others.
        first_costs: Costs of pairs of points, where all were computed at first.
        rough_costs: Rough costs, computed where a bound was least.
        later_costs: Costs, computed where a bound was least or a rough cost undecided.
        calls: How many times those were asked for.
    """

    duplicates: int = 0
    first_costs: int = 0
    rough_costs: int = 0
    later_costs: int = 0
    calls: int = 0


class BoundedRun:
    """The state of one agglomeration: clusters in slots, and what pairs may cost."""

    def __init__(
        self,
        host: HostModel,
        leaves: PyTree,
        num_points: int,
        report: Report | None,
    ) -> None:
        self.host = host
        self.info = BoundedInfo()
        self.children = np.zeros((num_points - 1, 2), np.int32)
        room = lambda leaf: np.concatenate(
            [leaf[:num_points], np.repeat(leaf[:1], num_points - 1, axis=0)]
        )
        self.nodes = jax.tree.map(room, leaves)
        self.left = num_points
        self._lost = False  # some cost
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
            slots = np.array([first_slot]), np.array([slot])
            self._record(*slots, self.host.pool(a, b))
        equal = slice(start, start + len(later))
        if len(later):
            settled = self.host.settle(rows_of(self.nodes, equal))
            put(self.nodes, equal, settled)
        self.info.duplicates = len(later)
        self._first = np.sort(first)
        self._node = self._node[self._first]

    def search(self, apart: np.ndarray | None = None) -> None:
        """Compute or bound the costs of all pairs but of points that stay apart."""
        size, states = self.left, rows_of(self.nodes, self._node)
        self.num_slots = size
        self._in_use = np.ones(size, bool)
        self._rough = self.host.rough(states)
        if self._rough is None:
            self._noise = self.host.noise(states)
            self._pairs = BoundMatrix(np.full((size, size), np.inf), COST)
            self._compute_all()
        else:
            # What a rough cost may be off is taken off.
            self._noise = np.zeros(size)
            bounds, sharp = self._rough.first_bounds()
            self._pairs = BoundMatrix(bounds, ROUGH)
            self._pairs.kind[bounds < sharp] = BOUND
            self._rounds = Rounds(self._rough, self._pairs)
        if apart is not None:
            # An infinite cost stays one: those of a union follow from its parts'.
            low, high = np.searchsorted(self._first, apart).T
            self._pairs.put(low, high, np.full(len(low), np.inf), COST)
        slots = np.arange(size)
        for start in range(0, size, _ROWS):
            self._pairs.look(slots[start : start + _ROWS])
        if size > 1 and self._rough is None:
            # Most of these merge; their states were too many to keep.
            low, high = distinct_pairs(slots, self._pairs.nearest, size)
            may = self._pairs.bound[low, high] < np.inf
            self._remember(low[may], high[may])

    def _compute_all(self) -> None:
        size = self.left
        slots, step = np.arange(size), max(_FIRST // (max(size, 1) * self._numbers), 1)
        for start in range(0, size - 1, step):
            some = slots[start : start + step]
            row, column = np.nonzero(some[:, None] < slots[None])
            self._compute(some[row], column)
        self.info.first_costs = size * (size - 1) // 2

    def front(self) -> tuple[int, int, float] | None:
        """The pair of least cost, and the most that it may cost.

        Costs are computed until that is certain. None where no pair may merge.
        """
        pairs = self._pairs
        while True:
            rows = pairs.unsure(_ROWS)
            if len(rows):
                bounds = pairs.look(rows)
                if self._settle(rows, bounds, min(pairs.limit(), LOST)):
                    pairs.look(rows)
                continue
            low = int(np.argmin(pairs.least))
            if pairs.least[low] == np.inf:
                return None
            low, high = sorted((low, int(pairs.nearest[low])))
            if self._rough is None or pairs.kind[low, high] == COST:
                return low, high, float(pairs.bound[low, high])
            most = self._most(self._rough, low, high)
            if most is not None:
                return low, high, most

    def _settle(self, rows: np.ndarray, bounds: np.ndarray, limit: float) -> bool:
        """Compute costs of rows whose bounds are within a limit; whether there are."""
        pairs = self._pairs
        near = np.flatnonzero(bounds.ravel() <= limit)
        row, column = np.divmod(near, len(pairs))
        loose = pairs.kind[rows[row], column] == BOUND
        if not loose.any():
            return False
        if self._rough is None:
            # All that are in question, and others in the rest of the batch.
            bounds[pairs.kind[rows] > BOUND] = np.inf
            count = min(_BATCH, np.count_nonzero(bounds < np.inf))
            chosen = np.argpartition(bounds.ravel(), count - 1)[:count]
            row, column = np.divmod(chosen, len(pairs))
        else:
            row, column = row[loose], column[loose]
            if len(row) > _MANY:
                chosen = np.argpartition(bounds[row, column], _MANY)[:_MANY]
                row, column = row[chosen], column[chosen]
        low, high = distinct_pairs(rows[row], column, len(pairs))
        if self._rough is None:
            self._remember(low, high)
        else:
            self._estimate(self._rough, low, high)
        return True

    def _estimate(self, rough: RoughCosts, low: np.ndarray, high: np.ndarray) -> None:
        """Raise bounds of pairs to rough costs, less what these may be off."""
        cost, error = rough.costs(low, high)
        found = cost - error
        found = np.where(np.isfinite(found), found, 0)
        old = self._pairs.bound[low, high]
        self._pairs.put(low, high, np.maximum(old, found), ROUGH)
        self.info.rough_costs += len(low)

    def _most(self, rough: RoughCosts, low: int, high: int) -> float | None:
        """The most that a pair of least rough cost may cost, if it merges next.

        None if another pair may cost less; costs that would decide it are computed.
        """
        cost, error = rough.costs(np.array([low]), np.array([high]))
        most = float(cost[0] + error[0])
        if not np.isfinite(most):
            self._remember(np.array([low]), np.array([high]))
            return None
        rows, columns = self._pairs.within(most)
        if len(rows) <= 1:
            return most
        kinds = self._pairs.kind[rows, columns]
        if np.any(kinds == BOUND):
            bounds = kinds == BOUND
            self._estimate(rough, rows[bounds], columns[bounds])
        else:
            self._remember(rows[kinds == ROUGH], columns[kinds == ROUGH])
        return None

    def _remember(self, low: np.ndarray, high: np.ndarray) -> None:
        """Compute costs and keep the states of the unions."""
        unions = self._compute(low, high)
        self.info.later_costs += len(low)
        self.info.calls += 1
        if len(self._unions) * self._numbers > _REMEMBERED:
            self._unions.clear()
        nodes = zip(self._node[low].tolist(), self._node[high].tolist(), strict=True)
        self._unions.update((pair, (unions, k)) for k, pair in enumerate(nodes))

    def _compute(self, low: np.ndarray, high: np.ndarray) -> PyTree:
        """Replace bounds of pairs of slots by costs; return the unions' states."""
        a, b = (rows_of(self.nodes, self._node[slots]) for slots in (low, high))
        cost, unions = self.host.search_costs(a, b)
        # A pair without a finite cost merges last; `replay` then reports its cost.
        known = np.isfinite(cost)
        cost = np.where(known, cost, LOST)
        self._lost |= not known.all()
        self._pairs.put(low, high, cost, COST)
        return unions

    def merge_many(self, most: int) -> bool:
        """Make at most so many merges by rough costs, if that is certain; whether."""
        if self._rough is None or self._lost:
            return False
        rounds = self._rounds
        found = rounds.find(most)
        self.info.rough_costs += rounds.evaluated
        rounds.evaluated = 0
        if found is None:
            return False
        low, high = found.low, found.high
        a, b = (rows_of(self.nodes, self._node[slots]) for slots in (low, high))
        self._rough.take(low)
        self._join(low, high, self._rough.pool(a, b), *found.rows())
        return True

    def merge(self, low: int, high: int, cost: float) -> None:
        """Merge two slots, the union in the first; bound its costs by theirs.

        Args:
            low: The lower slot.
            high: The other.
            cost: What that costs, or more.
        """
        noise, pairs = self._noise, self._pairs
        one, other = np.array([low]), np.array([high])
        union, noise_of_union = self._union(low, high)
        slack = 4 * (noise + noise[low] + noise[high])
        row_a, row_b = pairs.rows(np.array([low, high]))
        bound = telescoped(row_a, row_b, cost, slack)
        if not self.host.telescopes:
            bound[bound < np.inf] = 0
        bound = bound[None]
        if self._rough is not None:
            self._rough.unite(one, other)
            limit = np.full_like(bound, _FAR * cost)
            self._rough.raise_bounds(slice(0, 1), slice(0, len(pairs)), limit, bound)
            self._rough.take(one)
        noise[low] = noise_of_union
        self._join(one, other, union, bound, np.full(bound.shape, BOUND))

    def _join(
        self,
        low: np.ndarray,
        high: np.ndarray,
        unions: PyTree,
        bound: np.ndarray,
        kind: np.ndarray,
    ) -> None:
        """Merge pairs of slots `[t]`, in this order, and note what unions may cost.

        Args:
            low: The lower slots, where the unions go.
            high: The others.
            unions: Their states, `[t]`.
            bound: See `BoundMatrix.join`.
            kind: See there.
        """
        self._record(low, high, unions)
        self._in_use[high] = False
        self._pairs.join(low, high, bound, kind)

    def agrees(self, merges: np.ndarray) -> bool:
        """Whether the merges made so far and these begin alike."""
        made = self.children[: self._num_points - self.left]
        return np.array_equal(made[: len(merges)], merges[: len(made)])

    def make(self, merges: np.ndarray, report: Report | None) -> None:
        """Make merges of nodes, `[s, 2]`; report those that come after."""
        for pair in merges.tolist():
            low, high = sorted(int(np.flatnonzero(self._node == k)[0]) for k in pair)
            slots = np.array([low]), np.array([high])
            if self._rough is not None:
                cost, error = self._rough.costs(*slots)
                most = cost[0] + error[0]
            else:
                self._compute(*slots)
                most = self._pairs.bound[low, high]
            self.merge(low, high, float(most) if np.isfinite(most) else LOST)
        made = self._num_points - self.left
        self._report = report and (lambda count: report(count - made))

    def compact(self) -> None:
        """Leave out the slots of clusters that have merged."""
        slots = np.flatnonzero(self._in_use)
        self.num_slots = len(slots)
        self._in_use = self._in_use[slots]
        self._pairs.keep(slots)
        self._node, self._first = self._node[slots], self._first[slots]
        self._noise = self._noise[slots]
        if self._rough is not None:
            self._rough.keep(slots)

    def _union(self, low: int, high: int) -> tuple[PyTree, float]:
        """The state `[1]` of the union of two slots, and its noise."""
        nodes = tuple(self._node[[low, high]].tolist())
        a, b = (rows_of(self.nodes, slice(k, k + 1)) for k in nodes)
        if self._rough is not None:
            return self._rough.pool(a, b), 0.0
        if nodes in self._unions:
            unions, k = self._unions[nodes]
            union = rows_of(unions, slice(k, k + 1))
        else:
            union = self.host.search_costs(a, b)[1]
        return union, float(self.host.noise(union)[0])

    def _record(self, low: np.ndarray, high: np.ndarray, unions: PyTree) -> None:
        """Record merges of slots, the unions in the lower."""
        step = self._num_points - self.left
        steps = slice(step, step + len(low))
        self.children[steps] = np.sort(
            np.stack([self._node[low], self._node[high]], axis=1), axis=1
        )
        nodes = slice(self._num_points + step, self._num_points + steps.stop)
        self._node[low] = np.arange(nodes.start, nodes.stop)
        put(self.nodes, nodes, unions)
        self.left -= len(low)
        if self._report is not None:
            self._report(steps.stop)

"""The few nearest of every cluster, or lower bounds of what these cost."""

from dataclasses import dataclass

import numpy as np

from bregjax.hierarchy._windowed.store.query import Pairs

__all__ = ["Nearest", "push_least"]


@dataclass
class Nearest:
    """The k nearest of the cluster in each slot, as far as they are known.

    All pairs of a cluster with other living clusters, except those named, cost at least
    its last bound. Where a bound is exact, it is the cost with the slot named. Exact
    bounds come first, in order, and the others equal the last.

    Example, a cluster with k = 2 that knows of slot 7 at cost 3 and slot 8 at cost 5:

        event                          bounds   exact           slots
        slot 9 is born, at cost 4      3, 4     both            7, 9
        slot 7 dies                    4, 4     the first       9
        slot 9 dies                    4, 4     neither         none

    What fell off the list, slot 8, cost 5, so that 4 bounds all that is not named. Only
    when no pair costs less than 4 has the cluster to be searched again.

    Attributes:
        bound: Costs or lower bounds, `[k, slots]`.
        slot: With which cluster, where exact.
        exact: Whether a living cluster costs just that.
    """

    bound: np.ndarray
    slot: np.ndarray
    exact: np.ndarray

    @classmethod
    def unknown(cls, size: int, depth: int) -> "Nearest":
        """Return lists of `size` slots, `depth` entries each, that know of nothing."""
        shape = (depth, size)
        bound = np.full(shape, -np.inf)
        return cls(bound, np.zeros(shape, np.int64), np.zeros(shape, bool))

    def copy(self) -> "Nearest":
        """Return an independent copy."""
        return Nearest(self.bound.copy(), self.slot.copy(), self.exact.copy())

    def forget_dead(self, alive: np.ndarray) -> None:
        """Drop the dead from lists: later entries step up, the last bound stays."""
        dead = self.exact & ~alive[self.slot]
        rows = np.flatnonzero(alive & np.any(dead, axis=0))
        bound, slot = self.bound[:, rows], self.slot[:, rows]
        left = self.exact[:, rows] & ~dead[:, rows]
        order = np.argsort(~left, axis=0, kind="stable")
        stepped = [np.take_along_axis(v, order, axis=0) for v in (bound, slot, left)]
        self.bound[:, rows] = np.where(stepped[2], stepped[0], bound[-1])
        self.slot[:, rows], self.exact[:, rows] = stepped[1:]

    def replace(self, rows: np.ndarray, pairs: Pairs, key: np.ndarray) -> None:
        """Replace the lists of clusters by what a search found.

        Args:
            rows: Slots of the clusters.
            pairs: Their pairs, as the first; the nearest of each are among them.
            key: Keys of slots, sums of which break ties.
        """
        self.bound[:, rows] = np.inf
        self.exact[:, rows] = False
        (first, second, cost), rank = _sorted(pairs, key)
        kept = rank < len(self.bound)
        place = rank[kept], first[kept]
        self.bound[place], self.slot[place] = cost[kept], second[kept]
        self.exact[place] = True

    def insert(self, pairs: Pairs, key: np.ndarray) -> None:
        """Add pairs to the lists of their first clusters, which do not know of them."""
        matter = pairs.cost <= self.bound[-1, pairs.first]
        pairs, rank = _sorted(Pairs(*(values[matter] for values in pairs)), key)
        for level in range(len(self.bound)):
            chosen = rank == level
            if not np.any(chosen):
                return
            self._insert(Pairs(*(values[chosen] for values in pairs)), key)

    def _insert(self, pairs: Pairs, key: np.ndarray) -> None:
        """Add at most one pair to a list: entries after it step down."""
        rows, others, costs = pairs
        bound, slot, exact = (v[:, rows] for v in (self.bound, self.slot, self.exact))
        # A mere bound of the same cost may stand for a pair of a lesser key.
        first = exact & (key[rows] + key[others] < key[rows] + key[slot])
        before = (costs < bound) | ((costs == bound) & first)
        after = np.append(np.zeros((1, len(rows)), bool), before[:-1], axis=0)
        for values, old, new in (
            (self.bound, bound, costs),
            (self.slot, slot, others),
            (self.exact, exact, True),
        ):
            stepped = np.where(after, np.roll(old, 1, axis=0), old)
            values[:, rows] = np.where(before & ~after, new, stepped)


def push_least(least: np.ndarray, place: np.ndarray, costs: np.ndarray) -> None:
    """Update the k least costs of places, `[k, places]` in order, by more costs."""
    matter = np.flatnonzero(costs < least[-1, place])
    order = matter[np.lexsort((costs[matter], place[matter]))]
    rank = _ranks(place[order])
    order, rank = order[rank < len(least)], rank[rank < len(least)]
    lower = np.full_like(least, np.inf)
    lower[rank, place[order]] = costs[order]
    touched = np.flatnonzero(lower[0] < np.inf)
    both = np.concatenate([least[:, touched], lower[:, touched]])
    least[:, touched] = np.sort(both, axis=0)[: len(least)]


def _sorted(pairs: Pairs, key: np.ndarray) -> tuple[Pairs, np.ndarray]:
    """Sort pairs by first cluster, cost and key; and rank them for the first."""
    keys = key[pairs.first] + key[pairs.second]
    order = np.lexsort((pairs.second, keys, pairs.cost, pairs.first))
    pairs = Pairs(*(values[order] for values in pairs))
    return pairs, _ranks(pairs.first)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Number the entries of each run of equal values."""
    index = np.arange(len(values))
    starts = np.append(True, values[1:] != values[:-1])[: len(values)]
    return index - np.maximum.accumulate(np.where(starts, index, 0))

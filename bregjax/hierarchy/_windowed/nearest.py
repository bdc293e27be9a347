"""For every cluster its two nearest, or lower bounds on what these cost."""

from dataclasses import dataclass

import numpy as np

__all__ = ["TwoNearest", "push_least"]


@dataclass
class TwoNearest:
    """The nearest of the cluster in each slot, and the second nearest.

    All pairs of a cluster with living others but the nearest cost at least the second
    bound; where a bound is exact, it is the cost with the slot named. Where the first
    isn't exact, the second bound equals it.

    Attributes:
        bound: Costs or lower bounds, `[2, slots]`.
        slot: With whom, where exact.
        exact: Whether a living cluster costs just that.
    """

    bound: np.ndarray
    slot: np.ndarray
    exact: np.ndarray

    @classmethod
    def unknown(cls, size: int) -> "TwoNearest":
        """Nothing known of any."""
        shape = (2, size)
        bound = np.full(shape, -np.inf)
        return cls(bound, np.zeros(shape, np.int64), np.zeros(shape, bool))

    def copy(self) -> "TwoNearest":
        """An independent copy."""
        return TwoNearest(self.bound.copy(), self.slot.copy(), self.exact.copy())

    def forget_dead(self, alive: np.ndarray) -> None:
        """Where the nearest has gone the second steps up; where both, bounds stay."""
        self.exact[1] &= alive[self.slot[1]]
        gone = np.flatnonzero(self.exact[0] & ~alive[self.slot[0]])
        for values in (self.bound, self.slot, self.exact):
            values[0, gone] = values[1, gone]
        self.exact[1, gone] = False

    def clear(self, rows: np.ndarray) -> None:
        """Make ready for what a search finds."""
        self.bound[:, rows] = np.inf
        self.exact[:, rows] = False

    def insert(
        self,
        rows: np.ndarray,
        others: np.ndarray,
        costs: np.ndarray,
        key: np.ndarray,
    ) -> None:
        """Take note of pairs that are new to the clusters `rows`, where they matter.

        Args:
            rows: Slots, in any number each.
            others: With whom.
            costs: At what cost.
            key: Numbers of slots, sums of which break ties.
        """
        keys = key[rows] + key[others]
        order = np.lexsort((others, keys, costs, rows))
        rows, others, costs, keys = (a[order] for a in (rows, others, costs, keys))
        fresh = np.append(True, rows[1:] != rows[:-1])[: len(rows)]
        first = np.flatnonzero(fresh)
        second = first + 1
        second = second[second < len(rows)]
        second = second[~fresh[second]]
        for k in (first, second):
            self._insert(rows[k], others[k], costs[k], keys[k], key)

    def _insert(self, rows, others, costs, keys, key) -> None:
        """One pair a row."""
        before = [self._precede(level, rows, costs, keys, key) for level in (0, 1)]
        rank = np.where(before[0], 0, np.where(before[1], 1, 2))
        pushed = rows[rank == 0]
        for values in (self.bound, self.slot, self.exact):
            values[1, pushed] = values[0, pushed]
        kept = rank < 2
        place = rank[kept], rows[kept]
        self.bound[place], self.slot[place] = costs[kept], others[kept]
        self.exact[place] = True

    def _precede(self, level, rows, costs, keys, key) -> np.ndarray:
        bound = self.bound[level, rows]
        known = key[rows] + key[self.slot[level, rows]]
        tie = (costs == bound) & self.exact[level, rows] & (keys < known)
        return (costs < bound) | tie


def push_least(least: np.ndarray, place: np.ndarray, costs: np.ndarray) -> None:
    """Lower the two least costs `[2, places]` by more of them at some places."""
    matter = np.flatnonzero(costs < least[1, place])
    place, costs = place[matter], costs[matter]
    first = least[0].copy()
    np.minimum.at(first, place, costs)
    # One entry that is the least of each place; what it displaces is second.
    lowest = np.flatnonzero((costs == first[place]) & (costs < least[0, place]))
    chosen = np.full(least.shape[1], -1)
    chosen[place[lowest]] = lowest
    rest = np.ones(len(place), bool)
    rest[chosen[chosen >= 0]] = False
    second = np.where(first < least[0], least[0], least[1])
    np.minimum.at(second, place[rest], costs[rest])
    least[0], least[1] = first, second

"""For every cluster a few of the nearest, or lower bounds on what these cost."""

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from bregjax._typing import Array

__all__ = ["Costs", "Nearest", "mixed", "push_least"]

Words = TypeVar("Words", np.ndarray, Array)


class Costs(NamedTuple):
    """Merge costs of pairs of slots, `[p]`.

    Attributes:
        first: Slots.
        second: With these.
        cost: Costs.
    """

    first: np.ndarray
    second: np.ndarray
    cost: np.ndarray


@dataclass
class Nearest:
    """The k nearest of the cluster in each slot, as far as they are known.

    All pairs of a cluster with living others but those named cost at least the last
    bound. Where a bound is exact, it is the cost with the slot named; those that are
    come first, in order, and the other bounds of the cluster equal the last.

    Attributes:
        bound: Costs or lower bounds, `[k, slots]`.
        slot: With whom, where exact.
        exact: Whether a living cluster costs just that.
    """

    bound: np.ndarray
    slot: np.ndarray
    exact: np.ndarray

    @classmethod
    def unknown(cls, size: int, depth: int) -> "Nearest":
        """Nothing known of any of `size` slots; room for `depth` of each."""
        shape = (depth, size)
        bound = np.full(shape, -np.inf)
        return cls(bound, np.zeros(shape, np.int64), np.zeros(shape, bool))

    def copy(self) -> "Nearest":
        """An independent copy."""
        return Nearest(self.bound.copy(), self.slot.copy(), self.exact.copy())

    def forget_dead(self, alive: np.ndarray) -> None:
        """Where some have gone those after them step up; the last bound stays."""
        gone = self.exact & ~alive[self.slot]
        rows = np.flatnonzero(alive & np.any(gone, axis=0))
        bound, slot = self.bound[:, rows], self.slot[:, rows]
        left = self.exact[:, rows] & ~gone[:, rows]
        order = np.argsort(~left, axis=0, kind="stable")
        stepped = [np.take_along_axis(v, order, axis=0) for v in (bound, slot, left)]
        self.bound[:, rows] = np.where(stepped[2], stepped[0], bound[-1])
        self.slot[:, rows], self.exact[:, rows] = stepped[1:]

    def replace(self, rows: np.ndarray, pairs: Costs, key: np.ndarray) -> None:
        """Forget what is known of clusters `rows`, and take what a search found.

        Args:
            rows: Slots.
            pairs: Of them as the first, the nearest of each among them.
            key: Numbers of slots, sums of which break ties.
        """
        self.bound[:, rows] = np.inf
        self.exact[:, rows] = False
        (first, second, cost), rank = _sorted(pairs, key)
        kept = rank < len(self.bound)
        place = rank[kept], first[kept]
        self.bound[place], self.slot[place] = cost[kept], second[kept]
        self.exact[place] = True

    def insert(self, pairs: Costs, key: np.ndarray) -> None:
        """Take note of pairs that are new to the clusters that come first in them."""
        matter = pairs.cost <= self.bound[-1, pairs.first]
        pairs, rank = _sorted(Costs(*(values[matter] for values in pairs)), key)
        for level in range(len(self.bound)):
            chosen = rank == level
            if not np.any(chosen):
                return
            self._insert(Costs(*(values[chosen] for values in pairs)), key)

    def _insert(self, pairs: Costs, key: np.ndarray) -> None:
        """One pair a row: those that it precedes step down."""
        rows, others, costs = pairs
        bound, slot, exact = (v[:, rows] for v in (self.bound, self.slot, self.exact))
        # What costs as much as a mere bound may come after a pair not known of.
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
    """Lower the k least costs `[k, places]`, in order, by more of them at places."""
    matter = np.flatnonzero(costs < least[-1, place])
    order = matter[np.lexsort((costs[matter], place[matter]))]
    rank = _ranks(place[order])
    order, rank = order[rank < len(least)], rank[rank < len(least)]
    lower = np.full_like(least, np.inf)
    lower[rank, place[order]] = costs[order]
    touched = np.flatnonzero(lower[0] < np.inf)
    both = np.concatenate([least[:, touched], lower[:, touched]])
    least[:, touched] = np.sort(both, axis=0)[: len(least)]


def mixed(values: Words) -> Words:
    """Hash of 32-bit numbers (the finaliser of MurmurHash3)."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))


def _sorted(pairs: Costs, key: np.ndarray) -> tuple[Costs, np.ndarray]:
    """Pairs by their first clusters, costs and keys, and their ranks for the first."""
    keys = key[pairs.first] + key[pairs.second]
    order = np.lexsort((pairs.second, keys, pairs.cost, pairs.first))
    pairs = Costs(*(values[order] for values in pairs))
    return pairs, _ranks(pairs.first)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Places of entries among those equal to them; equal ones are neighbours."""
    index = np.arange(len(values))
    fresh = np.append(True, values[1:] != values[:-1])[: len(values)]
    return index - np.maximum.accumulate(np.where(fresh, index, 0))

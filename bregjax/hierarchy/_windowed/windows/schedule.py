"""Merges of a window, and the order in which greedy would make them."""

import heapq
from typing import NamedTuple

import numpy as np

__all__ = ["WindowMerges", "schedule"]


class WindowMerges(NamedTuple):
    """Merges by slots of the two parts and the union, with costs and keys, `[w]`.

    Attributes:
        first: Slots of one part.
        second: Slots of the other.
        union: Slots of the union.
        cost: Merge costs.
        key: Numbers that break ties of costs.
        round: In which round of the window each was made, from 1.
        mutual: Whether each part was the other's nearest.
    """

    first: np.ndarray
    second: np.ndarray
    union: np.ndarray
    cost: np.ndarray
    key: np.ndarray
    round: np.ndarray
    mutual: np.ndarray

    @classmethod
    def none(cls) -> "WindowMerges":
        """Return no merges."""
        slots = np.zeros(0, np.int64)
        keys, no = np.zeros(0, np.uint32), np.zeros(0, bool)
        return cls(slots, slots, slots, np.zeros(0), keys, slots, no)

    @classmethod
    def joined(cls, parts: "list[WindowMerges]") -> "WindowMerges":
        """Return the merges of all parts, in turn."""
        return cls(*(np.concatenate(field) for field in zip(*parts, strict=True)))

    def ordered(self, order: np.ndarray) -> "WindowMerges":
        """Return the merges in an order."""
        return WindowMerges(*(field[order] for field in self))

    def first_ones(self, count: int) -> "WindowMerges":
        """Return the first so many merges."""
        return WindowMerges(*(field[:count] for field in self))


def schedule(merges: WindowMerges) -> np.ndarray:
    """Order merges: next is always the first by cost and key whose parts exist.

    That is the order by cost and key, unless a union costs less than a part did.
    Example: AB costs 3, CD costs 2, and AB with E costs 1. CD comes first, since AB
    has to exist before it can merge; then AB; then AB with E.

    Returns:
        Places of merges, `[w]`, in the order that greedy makes them.
    """
    by_rank = np.lexsort((merges.key, merges.cost))
    rank = np.argsort(by_rank)
    # The merge that made a part, −1 for none.
    maker = np.full(np.max(merges.union, initial=-1) + 1, -1)
    maker[merges.union] = np.arange(len(rank))
    parts = np.stack([merges.first, merges.second])
    made = np.where(parts < len(maker), maker[np.minimum(parts, len(maker) - 1)], -1)
    if np.all((made < 0) | (rank[made] < rank)):
        return by_rank
    # The merge that takes each union, −1 for none.
    user = np.full(len(rank), -1)
    part, merge = np.nonzero(made >= 0)
    user[made[part, merge]] = merge
    missing = np.count_nonzero(made >= 0, axis=0)
    ready = np.sort(rank[missing == 0]).tolist()
    by_rank, rank, user, missing = (
        values.tolist() for values in (by_rank, rank, user, missing)
    )
    order = []
    while ready:
        merge = by_rank[heapq.heappop(ready)]
        order.append(merge)
        after = user[merge]
        if after >= 0:
            missing[after] -= 1
            if not missing[after]:
                heapq.heappush(ready, rank[after])
    return np.asarray(order)

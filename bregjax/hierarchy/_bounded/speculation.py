"""Merges that come next unless a union of theirs comes before.

Example: merges at costs of 1, 2 and 3, and the union of the first is at least 1.5 from
a point that merges third. With 1.5 as a bound that has to be found out: if it is 2.5,
the first two come next, and then that union and that point.
"""

import numpy as np

from bregjax.clusters._rough_costs import RoughCosts
from bregjax.hierarchy._bounded.bound_matrix import BOUND, ROUGH

__all__ = ["Speculation"]

# Pairs that are looked at together.
_MANY = 256


class Speculation:
    """Merges `[t]` in the order of their costs, and bounds of those of their unions.

    Attributes:
        low: The lower slot of each, `[t]`.
        high: The other.
        most: What each costs, or more.
        death: Which of them each slot is part of, t if of none; `[c]`.
        bound: Lower bounds of the costs of unions with all slots, `[t, c]`.
        kind: BOUND or ROUGH of each.
        between: Those with each other, `[t, t]`.
        kind_between: Likewise.
    """

    def __init__(
        self, low: np.ndarray, high: np.ndarray, most: np.ndarray, num_slots: int
    ) -> None:
        """Take merges, nothing of whose unions is known yet."""
        count = len(low)
        self.low, self.high, self.most = low, high, most
        self.death = np.full(num_slots, count)
        self.death[low] = self.death[high] = np.arange(count)
        self.bound = np.zeros((count, num_slots))
        self.between = np.zeros((count, count))
        self.kind = np.full(self.bound.shape, BOUND)
        self.kind_between = np.full(self.between.shape, BOUND)

    def cut(self, count: int) -> None:
        """Leave out all but the first."""
        self.low, self.high, self.most = (
            array[:count] for array in (self.low, self.high, self.most)
        )
        self.death = np.minimum(self.death, count)
        self.bound, self.kind = self.bound[:count], self.kind[:count]
        self.between = self.between[:count, :count]
        self.kind_between = self.kind_between[:count, :count]

    def decide(self, rough: RoughCosts) -> int:
        """Leave out merges that come after one of a union.

        Returns:
            How many costs were computed.
        """
        count, size = len(self.low), self.bound.shape[1]
        self.between = np.maximum(self.between, self.between.T)
        np.fill_diagonal(self.between, np.inf)
        if not count:
            return 0
        last = np.minimum(self.death, count - 1)
        union, slot = np.divmod(np.flatnonzero(self.bound <= self.most[last]), size)
        later = self.death[slot] > union
        union, slot = union[later], slot[later]
        first, second = np.nonzero(np.triu(self.between <= self.most[-1]))
        # A pair is there from the later of its births to the first of its deaths.
        birth = np.concatenate([union, second])
        death = np.concatenate([self.death[slot], np.full(len(second), count)])
        value = np.concatenate([self.bound[union, slot], self.between[first, second]])
        union = np.concatenate([union, first])
        slot = np.concatenate([slot, size + second])
        loose, evaluated = np.ones(len(union), bool), 0
        while True:
            before = np.maximum(np.searchsorted(self.most, value), birth + 1)
            early = (before <= death) & (before < count)
            count = int(np.min(before, where=early & ~loose, initial=count))
            asked = np.flatnonzero(early & loose & (before < count))
            if not len(asked):
                break
            if len(asked) > _MANY:
                asked = asked[np.argpartition(value[asked], _MANY)[:_MANY]]
            cost, error = rough.costs(size + union[asked], slot[asked])
            found = cost - error
            found = np.where(np.isfinite(found), found, 0)
            value[asked] = np.maximum(value[asked], found)
            loose[asked] = False
            evaluated += len(asked)
        self._note(union[~loose], slot[~loose], value[~loose])
        self.cut(count)
        return evaluated

    def _note(self, union: np.ndarray, slot: np.ndarray, value: np.ndarray) -> None:
        """Put in what is known of pairs of unions and slots, or other unions."""
        size = self.bound.shape[1]
        old, new = slot < size, slot >= size
        self.bound[union[old], slot[old]] = value[old]
        self.kind[union[old], slot[old]] = ROUGH
        first, second = union[new], slot[new] - size
        for i, j in ((first, second), (second, first)):
            self.between[i, j], self.kind_between[i, j] = value[new], ROUGH

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the costs of unions, in their slots, and their kinds; `[t, c]`."""
        bound, kind = self.bound, self.kind
        bound[:, self.low], kind[:, self.low] = self.between, self.kind_between
        return bound, kind

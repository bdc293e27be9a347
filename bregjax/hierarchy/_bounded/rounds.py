"""Many merges at a time of the engine of lower bounds, where their order is certain.

Let L be the lower bounds of what pairs cost, and M what a pair may cost at most. Of the
clusters there are, repeat: merge two of which each is the other's least in L, among
those that are left. In the order of L these merges p_1, p_2, … are what one at a time
would find if unions cost infinitely much, as no merge makes another pair cheaper. They
are what it finds with unions too, up to merge t, if

 1. M(p_s) < L(p_s+1) for s < t, and M(p_t) is less than all that is left at the end;
 2. for s ≤ t, no other pair of a part of p_s with what is there at step s is ≤ M(p_s);
 3. no union of p_s with what is there after step s, until that merges at step d or to
    the end, is ≤ M(p_r), for s < r ≤ d, t.

Proof: another pair that is there at step s has a part of p_s (2), or is of a union (3),
or none of its two parts has merged by step s. If it is left at the end, 1 says so; else
one of them merges first at step r > s, and the pair was there: it is no less than
L(p_r), which is more than M(p_s).

So t is found, and the bounds that are too low to tell are raised to rough costs. Where
t = 0, as where costs tie, one merge is made as always.

Example: points 0, 1, 3, 7, 7.5 on a line, Δ = w_a w_b (a − b)² / 2 (w_a + w_b). The
merges are of 7 and 7.5 at 0.0625, and of 0 and 1 at 0.25; then 3 is left, alone. The
union of the first costs 6 with 3 and more with the others: both merge in one round.
"""

import numpy as np

from bregjax.clusters._rough_costs import RoughCosts
from bregjax.hierarchy._bounded.bound_matrix import (
    BOUND,
    COST,
    LOST,
    BoundMatrix,
    distinct_pairs,
    telescoped_rows,
)
from bregjax.hierarchy._bounded.speculation import Speculation

__all__ = ["Rounds"]

# Rows that are looked at in the first round, and in any; and how many times those of
# the last that would have been enough.
_FIRST, _FEWEST, _MORE = 256, 8, 1.2
# Merges one at a time after a round without any, at most.
_PATIENCE = 64
# Least entries of a row that are raised together.
_LEAST = 16
# Bounds that are found together, and that are looked through: what caches hold.
_BLOCK, _ENTRIES = 2**16, 2**19
# Bounds up to so many times the cost of a merge are worth some work.
_FAR = 2.0


class Rounds:
    """Finds as many merges as are certain, and as many as pay.

    Attributes:
        rough: The rough costs of the clusters.
        pairs: The lower bounds of these.
        evaluated: How many rough costs were computed.
    """

    def __init__(self, rough: RoughCosts, pairs: BoundMatrix) -> None:
        self.rough, self.pairs = rough, pairs
        self.evaluated = 0
        self._rows = _FIRST
        self._waits, self._patience = 0, 1

    def find(self, most: int) -> Speculation | None:
        """Find at most so many merges; None if none is certain, or none is likely."""
        if self._waits:
            self._waits -= 1
            return None
        found = self._round(min(most, self.rough.room))
        if found is None:
            self._waits = self._patience
            self._patience = min(2 * self._patience, _PATIENCE)
        else:
            self._patience = 1
        return found

    def _round(self, most: int) -> Speculation | None:
        pairs, rough = self.pairs, self.rough
        noted = self._match()
        if noted is None:
            return None
        low, high, rest, before = noted
        least = pairs.bound[low, high]
        cost = self._most(low, high)
        # 1: those of which it is certain that all later ones cost more.
        count = min(_first(~(cost < np.append(least[1:], rest))), most)
        found = Speculation(low[:count], high[:count], cost[:count], len(pairs))
        if count:
            rough.unite(found.low, found.high)
            self._bound(found)
            self.evaluated += found.decide(rough)
        if len(found.low) < len(low):
            # Rows were looked at as if more had merged.
            pairs.least, pairs.nearest, pairs.sure = before
            share = _MORE * len(found.low) / len(low)
        else:
            share = 2.0
        self._rows = min(max(int(share * self._rows), _FEWEST), len(pairs))
        return found if len(found.low) else None

    def _match(
        self,
    ) -> tuple[np.ndarray, np.ndarray, float, tuple[np.ndarray, ...]] | None:
        """Find merges as if unions cost infinitely much.

        Returns:
            The slots of both parts, in order; the least that others may cost; and what
            was noted of all rows before any was left out. Or None if there are none.
        """
        pairs = self.pairs
        limit = -np.inf
        while limit < pairs.least.min():
            # To settle rows may show that no two of what is left may merge.
            there = pairs.least < np.inf
            if not there.any():
                return None
            place = min(self._rows, np.count_nonzero(there)) - 1
            limit = min(float(np.partition(pairs.least, place)[place]), LOST)
            self._settle(there, np.zeros(0, int), limit)
        there = pairs.least < np.inf
        noted = (pairs.least, pairs.nearest, pairs.sure)
        before = tuple(array.copy() for array in noted)
        parts: list[np.ndarray] = []
        while True:
            row = np.flatnonzero(there & (pairs.least <= limit))
            nearest = pairs.nearest[row]
            mutual = (pairs.nearest[nearest] == row) & (row < nearest)
            row, nearest = row[mutual], nearest[mutual]
            if not len(row):
                break
            parts.append(np.stack([row, nearest]))
            there[row] = there[nearest] = False
            pairs.forget(row, nearest)
            self._settle(there, np.concatenate(parts, axis=1).ravel(), limit)
        if not parts:
            return None
        low, high = np.concatenate(parts, axis=1)
        order = np.argsort(pairs.bound[low, high], kind="stable")
        rest = float(np.min(pairs.least, where=there, initial=np.inf))
        return low[order], high[order], rest, before

    def _settle(self, there: np.ndarray, gone: np.ndarray, limit: float) -> None:
        """Raise bounds until the least of each row that is there is none, or beyond.

        Args:
            there: Which rows.
            gone: The slots of pairs that have been matched, which these leave out.
            limit: Up to where.
        """
        pairs, step = self.pairs, max(_ENTRIES // len(self.pairs), 1)
        while True:
            unsure = there & ~pairs.sure & (pairs.least <= limit)
            rows = np.flatnonzero(unsure)
            if not len(rows):
                return
            for start in range(0, len(rows), step):
                some = rows[start : start + step]
                bounds = pairs.look(some, gone)
                self._raise(some, bounds, limit)

    def _raise(self, rows: np.ndarray, bounds: np.ndarray, limit: float) -> None:
        """Raise bounds of rows until each has a cost within a limit or none there."""
        pairs, size = self.pairs, len(self.pairs)
        unsure = ~pairs.sure[rows] & (pairs.least[rows] <= limit)
        if not unsure.any():
            return
        # One tells how much more there is to look at.
        nearest = pairs.nearest[rows]
        self._estimate(*distinct_pairs(rows[unsure], nearest[unsure], size))
        known = np.minimum(pairs.bound[rows, nearest], limit)
        known[~unsure] = -np.inf
        near = np.divmod(np.flatnonzero(bounds <= known[:, None]), size)
        order = np.lexsort((bounds[near], near[0]))
        place, slot = (k[order] for k in near)
        while True:
            row = rows[place]
            value, loose = pairs.bound[row, slot], pairs.kind[row, slot] == BOUND
            np.minimum.at(known, place[~loose], value[~loose])
            loose &= value <= known[place]
            place, slot = place[loose], slot[loose]
            if not len(place):
                break
            rank = np.arange(len(place)) - np.searchsorted(place, place)
            some = rank < _LEAST
            self._estimate(*distinct_pairs(rows[place[some]], slot[some], size))
        # To take rows once more from the matrix takes longer.
        bounds[near] = pairs.bound[rows[near[0]], near[1]]
        pairs.note(rows, bounds)

    def _estimate(self, low: np.ndarray, high: np.ndarray) -> None:
        """Raise bounds of pairs to rough costs, less what these may be off."""
        cost, error = self.rough.costs(low, high)
        self.pairs.lift(low, high, cost - error)
        self.evaluated += len(low)

    def _most(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The most that pairs may cost, `[t]`; not finite where that is not known."""
        cost, error = self.rough.costs(low, high)
        exact = self.pairs.kind[low, high] == COST
        return np.where(exact, self.pairs.bound[low, high], cost + error)

    def _bound(self, found: Speculation) -> None:
        """Bound what unions may cost; leave out what is not certain by 2."""
        bound, between = found.bound, found.between
        pairs, most = self.pairs, found.most
        size, count = len(pairs), len(found.low)
        certain, step = count, max(_BLOCK // size, 1)
        unions = slice(size, size + count)
        for start in range(0, count, step):
            some = slice(start, min(start + step, count))
            low, high, cost = found.low[some], found.high[some], most[some, None]
            a, b = pairs.rows(low), pairs.rows(high)
            here = np.arange(len(a))
            a[here, high] = b[here, low] = np.inf
            rival = np.flatnonzero(np.minimum(a, b) <= cost)
            place, slot = start + rival // size, rival % size
            place = place[found.death[slot] >= place]
            certain = int(np.min(place, initial=certain))
            bound[some] = telescoped_rows(a, b, cost)
            # Of slots that are there when the union is, and of later unions.
            after, far = np.arange(some.start, some.stop)[:, None], _FAR * cost
            limit = np.where(found.death > after, far, -np.inf)
            self.rough.raise_bounds(some, slice(0, size), limit, bound[some])
            a, b = bound[some, found.low], bound[some, found.high]
            between[some] = telescoped_rows(a, b, most)
            limit = np.where(np.arange(count) > after, far, -np.inf)
            self.rough.raise_bounds(some, unions, limit, between[some])
        found.cut(certain)


def _first(there: np.ndarray) -> int:
    """Where the first is, or how many there are."""
    return int(np.argmax(np.append(there, True)))

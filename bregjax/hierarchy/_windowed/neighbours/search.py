"""The search of a block of rows: the nearest of each, and whose nearest it becomes."""

import numpy as np

from bregjax.hierarchy._windowed.neighbours.nearest import push_least
from bregjax.hierarchy._windowed.store.block import Block
from bregjax.hierarchy._windowed.store.query import Pairs
from bregjax.hierarchy._windowed.store.store import Store

__all__ = ["search"]

# _MARGIN  By how much, relative to its closer bound, a pair's cost may exceed it by
#     rounding alone. Too small, and limits by bounds are too low, so that blocks are
#     asked twice; too large, and more pairs are within them.
# _TURNS  How many times a row that leaves many pairs open names the next groups. Too
#     few, and one loose bound leaves all pairs of a row open; too many cost time where
#     all bounds are loose.
_MARGIN = 1e-4
_TURNS = 4


def search(
    store: Store, block: Block, newborn: int, limit: np.ndarray
) -> tuple[Pairs, Pairs]:
    """Find the k nearest of each row, and the slots that a newborn row is near to.

    Example, a row whose two nearest are wanted. The pairs that lead its groups have
    closer bounds 1 and 5, so its limit is 5, the second least. Within 5 the block has
    one more pair, of closer bound 3: the limit falls to 3. The pairs of bounds 1 and 3
    are evaluated. If they cost 1.5 and 3.2, the limit rises to 3.2, which the block has
    been asked for: done. If they cost 1.5 and 6, the limit rises to 6 and the pair of
    bound 5 is evaluated too. It costs 5.5: the limit is 5.5, and the block is asked
    again, for pairs within 5.5.

    Each step is a few calls for all rows.

    Args:
        store: The clusters.
        block: Rows, and the slots that they are paired with.
        newborn: How many of the rows, the first ones, those slots do not know of.
        limit: By slot, the cost up to which it wants to know of newborn rows; −inf for
            none.

    Returns:
        Pairs of each row (as the first) that cost no more than its k-th nearest; and
        pairs of slots (as the first) with newborn rows, at most their limits.
    """
    rows, count = block.rows, len(block.rows)
    new, slot = block.pairs_within_columns(limit)
    new, slot = new[new < newborn], slot[new < newborn]
    found = _Candidates(store, count, limit[slot])
    place, column = block.leading()
    found.add(
        np.append(place, count + np.arange(len(slot))),
        np.append(rows[place], rows[new]),
        np.append(column, slot),
    )
    for turn in range(1, _TURNS):
        following = block.following(found.limit[:count], turn)
        if following is None:
            break
        found.add_fresh(rows, *following)
    while True:
        reach = found.limit[:count].copy()
        place, column = block.pairs_within(reach)
        sharper = store.sharper(block, len(place))
        if sharper is not None:
            block = sharper
            found.add_fresh(rows, *block.leading())
            continue
        found.add_fresh(rows, place, column)
        found.evaluate()
        if np.all(found.limit[:count] <= reach):
            return found.within()


class _Candidates:
    """Pairs that may be wanted, each at a place: their bounds, and costs if evaluated.

    Attributes:
        limit: By place, the cost up to which pairs there are wanted. The first places
            are those of rows, whose limits are the k-th least known, of bounds at first
            and then of costs; each pair with a given limit has a place of its own.
    """

    def __init__(self, store: Store, count: int, limit: np.ndarray) -> None:
        self.limit = np.append(np.full(count, np.inf), limit)
        self._store = store
        self._count = count
        # Of each row the k least bounds, and the k least costs.
        self._bounds, self._costs = np.full((2, store.shapes.near, count), np.inf)
        self._index = np.zeros((3, 0), np.int64)
        self._low, self._cost = np.zeros((2, 0))

    def add(self, place: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
        """Add pairs of slots at places; their bounds lower the limits of rows."""
        low = self._store.lower(first, second)
        self._index = np.append(self._index, [place, first, second], axis=1)
        self._low = np.append(self._low, low)
        self._cost = np.append(self._cost, np.full(len(low), np.inf))
        ours = place < self._count
        push_least(self._bounds, place[ours], low[ours])
        expected = self._bounds[-1].copy()
        known = np.isfinite(expected)
        expected[known] += _MARGIN * np.abs(expected[known])
        self.limit[: self._count] = np.minimum(self.limit[: self._count], expected)

    def add_fresh(
        self, rows: np.ndarray, place: np.ndarray, column: np.ndarray
    ) -> None:
        """Add those pairs of rows, by place, that have not been added."""
        code = lambda place, second: place * self._store.capacity + second
        ours = self._index[0] < self._count
        fresh = ~np.isin(code(place, column), code(*self._index[::2, ours]))
        self.add(place[fresh], rows[place[fresh]], column[fresh])

    def evaluate(self) -> None:
        """Evaluate pairs within their limits, until the limits of rows are costs.

        A cost above its bound raises the limit of its row, and more pairs are within.
        """
        place, first, second = self._index
        open_ = self._open()
        while True:
            cost = self._store.settled(first[open_], second[open_], self._low[open_])
            self._cost[open_] = cost
            ours = place[open_] < self._count
            push_least(self._costs, place[open_][ours], cost[ours])
            self.limit[: self._count] = self._costs[-1]
            open_ = self._open()
            if not len(open_):
                return

    def _open(self) -> np.ndarray:
        """Pairs within their limits that have not been evaluated."""
        within = self._low <= self.limit[self._index[0]]
        return np.flatnonzero(within & (self._cost == np.inf))

    def within(self) -> tuple[Pairs, Pairs]:
        """Return the pairs that cost at most their limits: of rows, and the others."""
        wanted = (self._cost <= self.limit[self._index[0]]) & (self._cost < np.inf)
        place, row, other = self._index
        ours = wanted & (place < self._count)
        theirs = wanted & (place >= self._count)
        return (
            Pairs(row[ours], other[ours], self._cost[ours]),
            Pairs(other[theirs], row[theirs], self._cost[theirs]),
        )

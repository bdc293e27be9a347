"""A block of rows meets the slots: the nearest of each, and whom it comes near."""

import numpy as np

from bregjax.hierarchy._windowed.bounds import Bounds
from bregjax.hierarchy._windowed.nearest import Costs, push_least
from bregjax.hierarchy._windowed.pool import Pool

__all__ = ["meet"]

# Bounds of single pairs are about this near to costs where costs are what they bound.
_MARGIN = 1e-4
# How often a row that leaves many pairs open asks the next groups first.
_TURNS = 4


def meet(
    pool: Pool,
    rows: np.ndarray,
    present: np.ndarray,
    bounds: Bounds,
    newborn: int,
    limit: np.ndarray,
) -> tuple[Costs, Costs]:
    """What a block of rows and the slots that are present are to each other.

    From bounds of groups of pairs to bounds of pairs and to costs: what the bounds of
    some leave open, those of the rest decide about. Few calls, each for all rows.

    Args:
        pool: The clusters.
        rows: Slots, `[b]`.
        present: Slots that they meet, booleans.
        bounds: Of the rows against these.
        newborn: How many of the rows, the first ones, the others have not met.
        limit: Up to which cost a slot wants to know of them, −inf for no.

    Returns:
        Of each row the costs of the nearest few, and of what costs no more; of slots
        (first) the costs with rows that are new to them, at most their limit.
    """
    count = len(rows)
    slot, new = bounds.pairs_by_column(limit)
    slot, new = slot[new < newborn], new[new < newborn]
    pairs = _Pairs(pool, count, limit[slot])
    place, column = _leading(rows, present, bounds)
    pairs.add(
        np.append(place, count + np.arange(len(slot))),
        np.append(rows[place], rows[new]),
        np.append(column, slot),
    )
    _approach(pairs, rows, present, bounds)
    while True:
        reach = pairs.limit[:count].copy()
        place, column = _valid(rows, present, *bounds.pairs_by_row(reach))
        sharper = pool.sharper(rows, present, len(place))
        if sharper is not None:
            bounds = sharper
            place, column = _leading(rows, present, bounds)
        pairs.add(*pairs.fresh(place, rows[place], column))
        if sharper is not None:
            continue
        pairs.decide()
        if np.all(pairs.limit[:count] <= reach):
            return pairs.known()


def _approach(
    pairs: "_Pairs", rows: np.ndarray, present: np.ndarray, bounds: Bounds
) -> None:
    """Lower the limits of rows that leave many pairs open, by their next groups.

    One loose bound among those that led is enough to leave all pairs of a row open.
    """
    near, count = bounds.shapes.near, len(rows)
    for turn in range(1, _TURNS):
        limit = pairs.limit[:count, None]
        open_ = np.count_nonzero(bounds.by_row[1] <= limit, axis=1)
        crowded = np.flatnonzero(open_ > near)
        if not len(crowded):
            return
        order = np.argsort(bounds.by_row[0, crowded], axis=1)
        group = order[:, turn * near : (turn + 1) * near]
        place = np.repeat(crowded, group.shape[1])
        column = bounds.leading(place, group.ravel())
        place, column = _valid(rows, present, place, column)
        pairs.add(*pairs.fresh(place, rows[place], column))


def _leading(
    rows: np.ndarray, present: np.ndarray, bounds: Bounds
) -> tuple[np.ndarray, np.ndarray]:
    """Of each row a few pairs likely to be the nearest: place and column."""
    low, here = bounds.by_row[0].copy(), np.arange(len(rows))
    places, groups = [], []
    for _ in range(bounds.shapes.near):
        best = np.argmin(low, axis=1)
        there = low[here, best] < np.inf
        places.append(here[there])
        groups.append(best[there])
        low[here, best] = np.inf
    place = np.concatenate(places)
    column = bounds.leading(place, np.concatenate(groups))
    return _valid(rows, present, place, column)


def _valid(
    rows: np.ndarray, present: np.ndarray, place: np.ndarray, column: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of rows, by place, with others that are present."""
    valid = present[column] & (column != rows[place])
    return place[valid], column[valid]


class _Pairs:
    """Pairs of slots: bounds, and costs of those that matter.

    Attributes:
        limit: By place, up to which cost pairs there matter. First those of rows, whose
            few nearest count, then one for each pair whose limit is given.
    """

    def __init__(self, pool: Pool, count: int, limit: np.ndarray) -> None:
        self.limit = np.append(np.full(count, np.inf), limit)
        self._pool = pool
        self._count = count
        # The least bounds, and costs, in the places of rows.
        self._hope, self._least = np.full((2, pool.shapes.near, count), np.inf)
        self._index = np.zeros((3, 0), np.int64)
        self._low, self._cost = np.zeros((2, 0))

    def add(self, place: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
        """Note pairs of slots at places."""
        low = self._pool.lower(first, second)
        self._index = np.append(self._index, [place, first, second], axis=1)
        self._low = np.append(self._low, low)
        self._cost = np.append(self._cost, np.full(len(low), np.inf))
        ours = place < self._count
        push_least(self._hope, place[ours], low[ours])
        hope = self._hope[-1].copy()
        known = np.isfinite(hope)
        hope[known] += _MARGIN * np.abs(hope[known])
        self.limit[: self._count] = np.minimum(self.limit[: self._count], hope)

    def fresh(
        self, place: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those pairs of rows, by place, that have not been noted."""
        code = lambda place, second: place * self._pool.capacity + second
        ours = self._index[0] < self._count
        known = code(*self._index[::2, ours])
        new = ~np.isin(code(place, second), known)
        return place[new], first[new], second[new]

    def decide(self) -> None:
        """Evaluate all that is within the limits: those of rows are costs then.

        Costs above their bounds raise a limit, and more pairs come within it.
        """
        place, first, second = self._index
        open_ = self._open()
        while True:
            cost = self._pool.robust(first[open_], second[open_], self._low[open_])
            self._cost[open_] = cost
            ours = place[open_] < self._count
            push_least(self._least, place[open_][ours], cost[ours])
            self.limit[: self._count] = self._least[-1]
            open_ = self._open()
            if not len(open_):
                return

    def _open(self) -> np.ndarray:
        """Pairs within the limits whose costs aren't known."""
        within = self._low <= self.limit[self._index[0]]
        return np.flatnonzero(within & (self._cost == np.inf))

    def known(self) -> tuple[Costs, Costs]:
        """Pairs within the limits, of rows and of others."""
        matter = (self._cost <= self.limit[self._index[0]]) & (self._cost < np.inf)
        place, row, other = self._index
        ours = matter & (place < self._count)
        theirs = matter & (place >= self._count)
        return (
            Costs(row[ours], other[ours], self._cost[ours]),
            Costs(other[theirs], row[theirs], self._cost[theirs]),
        )

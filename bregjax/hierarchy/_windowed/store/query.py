"""The one query of a store: which pairs cost at most a limit.

From bounds of groups to bounds of pairs and to costs; each decides what the next is
asked. Example, rows 0 and 1 against slots 2, 3 and 4 of points 0, 1, 3, 4 and 9 on a
line, each of weight 1, with Ward's cost (x − y)² / 4, and limits 3 and 2:

    cost     2     3     4      pairs within
    row 0    2.25  4     20.25  (0, 2)
    row 1    1     2.25  16     (1, 2)

In one group of columns row 0's two least bounds are about 2.25 and 4: the first alone
is within 3 and names slot 2, and only the cost of this pair is computed.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from bregjax.hierarchy._windowed.store.base import ClusterStore, runs

__all__ = ["Pairs", "pairs_among", "pairs_within"]

# Pairs whose limits and costs are looked at together.
_PAIRS = 2**19

Among = np.ndarray | Callable[[np.ndarray], np.ndarray]
LimitOf = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Pairs(NamedTuple):
    """Pairs of slots and their merge costs, `[p]`."""

    first: np.ndarray
    second: np.ndarray
    cost: np.ndarray


def pairs_within(
    store: ClusterStore,
    rows: np.ndarray,
    among: Among,
    limit: np.ndarray,
    limit_of: LimitOf | None = None,
) -> Iterator[Pairs]:
    """Yield all pairs of a row with another slot that cost at most a limit.

    Args:
        store: The clusters.
        rows: Slots `[r]`, in whose order pairs come.
        among: Slots that rows are paired with, booleans by slot; or a function from
            some of the rows to these.
        limit: By row, `[r]`.
        limit_of: Limits of single pairs, at most those of their rows; −inf for a pair
            that does not count. Called with slots `[p]` of rows and of others.
    """
    slots = np.arange(store.capacity)
    return _within(store, store, slots, slots, rows, among, limit, limit_of)


def pairs_among(
    store: ClusterStore,
    slots: np.ndarray,
    rows: np.ndarray,
    among: Among,
    limit: np.ndarray,
    limit_of: LimitOf | None = None,
) -> Iterator[Pairs]:
    """Yield what `pairs_within` does; rows and all they are paired with are in `slots`.

    Copies of these lie side by side, in the order given, so that fewer tiles are
    screened: of a block of rows those up to the last slot that it is paired with.
    """
    copies, moved = store.copied(slots)
    original, copy = np.zeros((2, store.capacity), np.int64)
    original[moved], copy[slots] = slots, moved
    return _within(store, copies, original, copy, rows, among, limit, limit_of)


def _within(
    store: ClusterStore,
    copies: ClusterStore,
    original: np.ndarray,
    copy: np.ndarray,
    rows: np.ndarray,
    among: Among,
    limit: np.ndarray,
    limit_of: LimitOf | None,
) -> Iterator[Pairs]:
    """Screen copies, and compute the costs of their originals."""
    size = store.block
    parts = list(runs(np.arange(len(rows)), size))

    def to_screen() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for part in parts:
            chosen = among(rows[part]) if callable(among) else among
            there = np.zeros(copies.capacity, bool)
            there[copy[np.flatnonzero(chosen)]] = True
            yield copy[rows[part]], there

    for part, block in zip(parts, copies.screened(to_screen()), strict=True):
        place, column = block.pairs_within(limit[part])
        for some in runs(np.arange(len(place)), _PAIRS):
            row = part[place[some]]
            first, second = rows[row], original[column[some]]
            most = limit[row] if limit_of is None else limit_of(first, second)
            counts = most > -np.inf
            first, second, most = first[counts], second[counts], most[counts]
            cost = store.costs(first, second, most)
            near = cost <= most
            yield Pairs(first[near], second[near], cost[near])

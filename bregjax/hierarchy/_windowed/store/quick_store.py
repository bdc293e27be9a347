"""The store by NumPy, of clusters that have quick bounds: nothing compiles."""

import copy
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from bregjax.clusters._quick_clusters import QuickClusters, Sides
from bregjax.hierarchy._windowed.store.base import ClusterStore, Part
from bregjax.hierarchy._windowed.store.prefetch import Prefetch
from bregjax.hierarchy._windowed.store.query import Pairs
from bregjax.hierarchy._windowed.store.quick_block import QuickBlock

__all__ = ["QuickStore"]

# Bounds of a block at most, and its rows.
_BLOCK, _ROWS = 2**20, (8, 256)
# How many of its nearest a cluster keeps. More, and other threads help, from so many
# clusters on: fewer have threads wait for each other.
_NEAR, _MORE_NEAR, _MANY = 4, 8, 2**13
# Numbers of the means of all pairs, and clusters, whose costs are kept in a matrix
# where windows fail: 128 MB.
_ALL, _MOST = 2**27, 2**12
# Pairs a row that float32 leaves from which float64 is tried, and to how many rows
# fewer count as.
_MANY_LEFT, _FEW_ROWS = 256, 16


class QuickSearch(NamedTuple):
    """What a search of rows found.

    Attributes:
        rows: Slots `[b]`.
        among: Slots that rows were paired with, booleans by slot.
        ours: Pairs of rows (as the first) with those nearest to them.
        theirs: Pairs of slots (as the first) with newborn rows.
        left: How many pairs of rows might be as near as these.
    """

    rows: np.ndarray
    among: np.ndarray
    ours: Pairs
    theirs: Pairs
    left: int


class QuickStore(ClusterStore):
    """Clusters in slots, and what bounds need of them, by slot and in panels.

    A panel holds `wide` slots side by side. Example: with panels of 2, slots 0 to 3
    with sides 5, 6, 7 and 8 are the panels [5, 6] and [7, 8].
    """

    has_closer = False

    def __init__(self, clusters: QuickClusters) -> None:
        """Fill the first slots with clusters, and leave half as many free."""
        m = len(clusters.weight)
        self.used = m
        self.dtype, self.screen_dtype = np.dtype(float), np.dtype(np.float32)
        index = _with_room(np.arange(m), clusters.wide)
        self._clusters = clusters.taken(index)
        self._many_left = _MANY_LEFT
        self._near = _MORE_NEAR if m > _MANY else _NEAR
        self._prefetch = Prefetch(threaded=m > _MANY)
        self._sides = self._both(clusters.sides(self.screen_dtype), index)
        self._most = min(np.sqrt(_ALL / clusters.places.shape[1]), _MOST)

    @property
    @override
    def capacity(self) -> int:
        return len(self._clusters.weight)

    @property
    @override
    def near(self) -> int:
        return self._near

    @property
    @override
    def block(self) -> int:
        return int(np.clip(_BLOCK // self.capacity, *_ROWS))

    def are_few(self, count: int) -> bool:
        """Whether so many clusters merge in less time over a matrix of their costs."""
        return count <= self._clusters.few

    def matrix_serves(self, count: int) -> bool:
        """Whether so many may merge over a matrix where windows fail."""
        return count <= self._most

    def taken(self, slots: np.ndarray) -> QuickClusters:
        """Return copies of the clusters in slots."""
        return self._clusters.taken(slots)

    def _bound_in(self, dtype: np.dtype) -> None:
        """Have bounds in a precision from now on."""
        self.screen_dtype = dtype
        self._sides = self._both(self._clusters.sides(dtype), np.arange(self.capacity))

    def _both(self, sides: Sides, slots: np.ndarray) -> tuple[Sides, Sides]:
        """Sides of clusters in slots, and the same in panels."""
        sides = tuple(side[slots] for side in sides)
        return sides, self._in_panels(sides)

    def _in_panels(self, sides: Sides) -> Sides:
        wide = self._clusters.wide
        panels = (side.reshape(-1, wide, *side.shape[1:]) for side in sides)
        return tuple(
            np.ascontiguousarray(np.moveaxis(panel, 1, -1)) for panel in panels
        )

    @override
    def screened(self, parts: Iterable[Part]) -> Iterator[QuickBlock]:
        return self._prefetch.map(lambda part: self._block(part[0], part[1]), parts)

    def _block(self, rows: np.ndarray, among: np.ndarray) -> QuickBlock:
        # Once: another thread may replace them.
        sides, panels = self._sides
        used = int(np.max(np.flatnonzero(among), initial=0)) + 1
        count = -(-used // self._clusters.wide)
        low = self._clusters.bounds(
            tuple(side[rows] for side in sides),
            tuple(panel[:count] for panel in panels),
        )
        return QuickBlock.of(rows, among, low)

    def searched(
        self, parts: Iterable[tuple[np.ndarray, np.ndarray, int]], limit: np.ndarray
    ) -> Iterator[QuickSearch]:
        """Yield for each part what is near to its rows, where other threads help.

        Args:
            parts: Rows as slots, at most `block` of them; slots that these are paired
                with, as booleans; and how many rows, the first ones, those slots do not
                know of.
            limit: By slot, the cost up to which it wants to know of such rows; −inf for
                none.
        """
        search = lambda part: self._search(part[0], part[1], part[2], limit)
        for found in self._prefetch.map(search, parts):
            self._sharpen(found)
            yield found

    def _search(
        self, rows: np.ndarray, among: np.ndarray, newborn: int, limit: np.ndarray
    ) -> QuickSearch:
        """Find the nearest of rows, and the slots that newborn rows are near to.

        Of a few groups the least pairs cost so much at most, and all pairs whose bounds
        are within that are computed.
        """
        # Also on other threads: a cost that overflows is told of in the end.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._found(rows, among, newborn, limit)

    def _found(
        self, rows: np.ndarray, among: np.ndarray, newborn: int, limit: np.ndarray
    ) -> QuickSearch:
        block = self._block(rows, among)
        new, other = np.zeros((2, 0), np.int64)
        if newborn > 0:
            new, other = block.pairs_within_columns(limit)
            new, other = new[new < newborn], other[new < newborn]
        theirs = self._within(other, rows[new], limit[other])
        slots, real = block.leading(self.near)
        first, second = np.nonzero(real)[0], slots[real]
        cost = np.full(slots.shape, np.inf)
        cost[real] = self.costs(rows[first], second)
        reach = np.max(cost, axis=1)
        block.leave_out(first, second)
        place, slot = block.pairs_within(reach)
        more = self._within(rows[place], slot, reach[place])
        leading = Pairs(rows[first], second, cost[real])
        ours = Pairs(*(np.append(*both) for both in zip(leading, more, strict=True)))
        left = len(first) + len(place)
        return QuickSearch(rows, among, ours, theirs, left)

    def _within(
        self, first: np.ndarray, second: np.ndarray, limit: np.ndarray
    ) -> Pairs:
        """The pairs that cost at most a limit."""
        cost = self.costs(first, second)
        near = cost <= limit
        return Pairs(first[near], second[near], cost[near])

    def _sharpen(self, found: QuickSearch) -> None:
        """Compute bounds in full precision, if that at least halves a block's pairs.

        Otherwise bounds are loose for another reason than rounding, and full precision
        is not tried again until four times as many pairs are left.
        """
        count = max(len(found.rows), _FEW_ROWS)
        coarse, before = self.screen_dtype, self._sides
        if coarse == self.dtype or found.left <= self._many_left * count:
            return
        self._bound_in(self.dtype)
        no_column = np.full(self.capacity, -np.inf)
        sharper = self._search(found.rows, found.among, 0, no_column)
        if sharper.left > found.left // 2:
            self.screen_dtype, self._sides = coarse, before
            self._many_left = 4 * found.left // count

    @override
    def costs(
        self, first: np.ndarray, second: np.ndarray, limit: np.ndarray | float = np.inf
    ) -> np.ndarray:
        return self._clusters.sure_costs(first, second)

    @override
    def append(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        slots = np.arange(self.used, self.used + len(first))
        self.used += len(first)
        unions = self._clusters.unite(first, second, slots)
        panel, place = np.divmod(slots, self._clusters.wide)
        for side, panels, new in zip(
            *self._sides, unions.sides(self.screen_dtype), strict=True
        ):
            side[slots] = new
            panels[panel, ..., place] = new
        return slots

    @override
    def compact(self, slots: np.ndarray) -> np.ndarray:
        other, moved = self.copied(slots)
        vars(self).update(vars(other))
        return moved

    @override
    def copied(self, slots: np.ndarray) -> tuple["QuickStore", np.ndarray]:
        other, index = copy.copy(self), _with_room(slots, self._clusters.wide)
        other._clusters = self._clusters.taken(index)
        other._sides = self._both(self._sides[0], index)
        other.used = len(slots)
        return other, np.arange(len(slots))


def _with_room(slots: np.ndarray, wide: int) -> np.ndarray:
    """Slots, followed by the last again: half as many, in whole panels."""
    count = len(slots)
    return slots[
        np.minimum(np.arange(-(-(3 * count // 2 + 1) // wide) * wide), count - 1)
    ]

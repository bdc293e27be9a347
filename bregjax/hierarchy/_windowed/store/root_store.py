"""The store by NumPy, of clusters whose costs are those of entropies.

Squared distances bound their costs closely (see `root_points`), and a few products of
matrices in float32 are all squared distances of a block of rows. So nothing compiles,
and of what bounds leave costs take one logarithm a column.
"""

import copy
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from bregjax.clusters._entropic_clusters import EntropicClusters
from bregjax.clusters._root_distances import ALPHA, BETA, root_points
from bregjax.hierarchy._products import less_norms, lightness
from bregjax.hierarchy._windowed.store.base import ClusterStore, Part
from bregjax.hierarchy._windowed.store.prefetch import Prefetch
from bregjax.hierarchy._windowed.store.query import Pairs
from bregjax.hierarchy._windowed.store.root_block import RootBlock

__all__ = ["RootStore"]

# Bounds of a block at most, its rows, and bounds that are divided while in a cache.
_BLOCK, _ROWS, _PIECE = 2**20, (8, 128), 2**16
# Multiplications of one product (OpenBLAS deals larger ones out to threads of its own,
# which wait for each other), and its rows and columns.
_PRODUCT, _TALL, _WIDE = 2**18, (8, 64), (32, 256)
# How many of its nearest a cluster keeps. More, and other threads help, from so many
# clusters on: fewer have threads wait for each other.
_NEAR, _MORE_NEAR, _MANY = 4, 8, 2**13
# Costs wrong by a larger share are computed again, so that they do not cancel.
_WRONG = 2.0**-34
# Pairs a row that float32 leaves from which float64 is tried, and to how many rows
# fewer count as.
_MANY_LEFT, _FEW_ROWS = 256, 16
# Roundings of a bound's denominator, and of its quotient.
_ROUNDINGS = 8


class _Sides(NamedTuple):
    """Clusters as both sides of products.

    With less than the squared norm, so that no bound is above its cost, a row is
    (−2 e, 1, ‖e‖²) and a column (e, ‖e‖², 1).

    Attributes:
        columns: `[slots, 2 n + 2]`.
        panels: The same side by side, `[panels, 2 n + 2, wide]`.
        light: 1 / w, `[slots]`.
    """

    columns: np.ndarray
    panels: np.ndarray
    light: np.ndarray

    @classmethod
    def of(cls, columns: np.ndarray, light: np.ndarray) -> "_Sides":
        """Return sides of columns, a multiple of `_wide`, and weights."""
        panels = columns.reshape(-1, _wide(columns.shape[1]), columns.shape[1])
        return cls(columns, np.ascontiguousarray(panels.swapaxes(1, 2)), light)

    def put(self, slots: np.ndarray, columns: np.ndarray, light: np.ndarray) -> None:
        """Write others into slots."""
        self.columns[slots], self.light[slots] = columns, light
        panel, place = np.divmod(slots, self.panels.shape[2])
        self.panels[panel, :, place] = columns

    def taken(self, slots: np.ndarray) -> "_Sides":
        """Return copies of those in slots."""
        return _Sides.of(self.columns[slots], self.light[slots])


class RootSearch(NamedTuple):
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


class RootStore(ClusterStore):
    """Clusters in slots, and their points as both sides of products."""

    has_closer = False

    def __init__(self, weight: np.ndarray, mean: np.ndarray) -> None:
        """Fill the first slots, and leave half as many free.

        Args:
            weight: `[m]`.
            mean: Numbers of at least 0, `[m, n]`.
        """
        m = len(weight)
        self.used = m
        self.dtype, self.screen_dtype = np.dtype(float), np.dtype(np.float32)
        wide = _wide(2 * mean.shape[1] + 2)
        capacity = -(-(m + m // 2 + 1) // wide) * wide
        slots = np.minimum(np.arange(capacity), m - 1)
        # Of costs the order counts, so these have a unit of their own.
        heaviest = np.max(weight)
        self._clusters, _ = EntropicClusters.of((weight / heaviest)[slots], mean[slots])
        self._center = np.median(root_points(self._clusters.mean[:m]), axis=0)
        self._rows = int(np.clip(_BLOCK // capacity, *_ROWS))
        self._many_left = _MANY_LEFT
        self._near = _MORE_NEAR if m > _MANY else _NEAR
        self._prefetch = Prefetch(threaded=m > _MANY)
        self._sides = _Sides.of(*self._columns_of(self._clusters))

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
        return self._rows

    def _columns_of(self, clusters: EntropicClusters) -> tuple[np.ndarray, np.ndarray]:
        """Columns of clusters, and 1 / w, in the precision of bounds."""
        dtype = self.screen_dtype
        points = root_points(clusters.mean) - self._center[None]
        columns = np.ones((len(points), points.shape[1] + 2), dtype)
        columns[:, :-2] = points
        columns[:, -2] = less_norms(points, dtype)
        # inf where a weight is next to none in float32, and then bounds are 0.
        with np.errstate(over="ignore"):
            return columns, lightness(clusters.weight).astype(dtype)

    @override
    def screened(self, parts: Iterable[Part]) -> Iterator[RootBlock]:
        return self._prefetch.map(lambda part: self._block(part[0], part[1]), parts)

    def _block(self, rows: np.ndarray, among: np.ndarray) -> RootBlock:
        # Once: another thread may replace them.
        columns, panels, light = self._sides
        wide, dtype, count = panels.shape[2], columns.dtype, len(rows)
        used = int(np.max(np.flatnonzero(among), initial=0)) + 1
        panels = panels[: -(-used // wide)]
        tall = min(int(np.clip(_PRODUCT // panels[0].size, *_TALL)), count)
        fill = np.minimum(np.arange(-(-count // tall) * tall), count - 1)
        left = columns[rows[fill]]
        left = np.concatenate([-2 * left[:, :-2], left[:, :-3:-1]], axis=1)
        left = left.reshape(1, -1, tall, left.shape[1])
        low = np.empty((len(panels), *left.shape[1:3], wide), dtype)
        # α (1/w_a + 1/w_b) + β max(1/w_a, 1/w_b), rounded up.
        up = 1 + _ROUNDINGS * float(np.finfo(dtype).eps)
        alpha, beta = (dtype.type(factor * up) for factor in (ALPHA, BETA))
        alike = np.all(light[:used] == light[0])
        of_rows = light[rows[fill]].reshape(1, -1, tall, 1)
        light = light[: len(panels) * wide].reshape(-1, 1, 1, wide)
        sums, most = (alpha * light, alpha * of_rows), (beta * light, beta * of_rows)
        step = max(_PIECE // low[0].size, 1)
        for start in range(0, len(panels), step):
            part = slice(start, start + step)
            np.matmul(left, panels[part, None], out=low[part])
            if alike:
                low[part] /= sums[0][:1, :, :, :1] * 2 + most[0][:1, :, :, :1]
                continue
            weights = np.maximum(most[0][part], most[1])
            weights += sums[0][part]
            weights += sums[1]
            low[part] /= weights
        low = low.reshape(len(panels), -1, wide)
        return RootBlock.of(rows, among, low[:, :count])

    def searched(
        self, parts: Iterable[tuple[np.ndarray, np.ndarray, int]], limit: np.ndarray
    ) -> Iterator[RootSearch]:
        """Yield for each part what is near to its rows, found by other threads.

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
    ) -> RootSearch:
        """Find the nearest of rows, and the slots that newborn rows are near to.

        Of a few groups the least pairs cost so much at most, and all pairs whose bounds
        are within that are computed.
        """
        block = self._block(rows, among)
        slots, real = block.leading(self.near)
        owners = np.broadcast_to(rows[:, None], slots.shape)
        cost = np.full(slots.shape, np.inf)
        cost[real] = self.costs(owners[real], slots[real])
        reach = np.max(cost, axis=1)
        place, slot = block.pairs_within(reach)
        ours = self._within(rows[place], slot, reach[place])
        ours = _least(ours, self.near)
        new, other = block.pairs_within_columns(limit)
        new, other = new[new < newborn], other[new < newborn]
        theirs = self._within(other, rows[new], limit[other])
        return RootSearch(rows, among, ours, theirs, len(place))

    def _within(
        self, first: np.ndarray, second: np.ndarray, limit: np.ndarray
    ) -> Pairs:
        """The pairs that cost at most a limit."""
        cost = self.costs(first, second)
        near = cost <= limit
        return Pairs(first[near], second[near], cost[near])

    def _sharpen(self, found: RootSearch) -> None:
        """Compute bounds in full precision, if that at least halves a block's pairs.

        Otherwise bounds are loose for another reason than rounding, and full precision
        is not tried again until four times as many pairs are left.
        """
        count = max(len(found.rows), _FEW_ROWS)
        coarse, before = self.screen_dtype, self._sides
        if coarse == self.dtype or found.left <= self._many_left * count:
            return
        self.screen_dtype = self.dtype
        self._sides = _Sides.of(*self._columns_of(self._clusters))
        no_column = np.full(self.capacity, -np.inf)
        sharper = self._search(found.rows, found.among, 0, no_column)
        if sharper.left > found.left // 2:
            self.screen_dtype, self._sides = coarse, before
            self._many_left = 4 * found.left // count

    @override
    def costs(
        self, first: np.ndarray, second: np.ndarray, limit: np.ndarray | float = np.inf
    ) -> np.ndarray:
        cost, size = self._clusters.costs(first, second)
        n, eps = self._clusters.mean.shape[1], float(np.finfo(float).eps)
        close = np.flatnonzero(~((n + 16) * eps * size <= _WRONG * cost))
        if len(close):
            low = np.minimum(first[close], second[close])
            high = np.maximum(first[close], second[close])
            cost[close] = self._clusters.steady_costs(low, high)
        return cost

    @override
    def append(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        slots = np.arange(self.used, self.used + len(first))
        self.used += len(first)
        unions = self._clusters.united(first, second)
        self._clusters.put(slots, unions)
        self._sides.put(slots, *self._columns_of(unions))
        return slots

    @override
    def compact(self, slots: np.ndarray) -> np.ndarray:
        other, moved = self.copied(slots)
        vars(self).update(vars(other))
        return moved

    @override
    def copied(self, slots: np.ndarray) -> tuple["RootStore", np.ndarray]:
        other, index = copy.copy(self), np.zeros(self.capacity, np.int64)
        index[: len(slots)] = slots
        other._clusters = self._clusters.taken(index)
        other._sides = self._sides.taken(index)
        other.used = len(slots)
        return other, np.arange(len(slots))


def _wide(size: int) -> int:
    """Columns of a panel, where one has so many numbers."""
    return 2 ** int(np.log2(np.clip(_PRODUCT // (_TALL[0] * size), *_WIDE)))


def _least(pairs: Pairs, count: int) -> Pairs:
    """The pairs, of each first slot, that cost no more than the one so far down."""
    order = np.lexsort((pairs.cost, pairs.first))
    pairs = Pairs(*(values[order] for values in pairs))
    start = np.flatnonzero(np.diff(pairs.first, prepend=-1))
    last = np.append(start[1:], len(order)) - 1
    most = pairs.cost[np.minimum(start + count - 1, last)]
    near = pairs.cost <= np.repeat(most, last - start + 1)
    return Pairs(*(values[near] for values in pairs))

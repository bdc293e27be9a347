"""The living clusters, and for each the nearest."""

import dataclasses
from typing import Any

import numpy as np

from bregjax.hierarchy._windowed.nearest import TwoNearest
from bregjax.hierarchy._windowed.pool import Bounds, Pool, blocks

__all__ = ["Frontier"]


@dataclasses.dataclass
class Frontier:
    """What is known of the clusters in the slots of a pool, on the host.

    A new cluster meets all others when it is born. So where the nearest of a cluster
    has gone and its second nearest too, what the latter cost is a lower bound: those
    older are no nearer, and those younger have been seen. It is searched for again when
    its bound comes first.

    Attributes:
        pool: The clusters' states.
        alive: Slots that hold a cluster not yet merged, `[capacity]`.
        near: The two nearest of each.
        key: Random-looking numbers, those of pairs (see `keys`) break ties.
        searches: Rows searched so far.
        rescans: Those among them that were searched again.
    """

    pool: Pool
    alive: np.ndarray
    near: TwoNearest
    key: np.ndarray
    searches: int = 0
    rescans: int = 0

    @classmethod
    def of(cls, pool: Pool) -> "Frontier":
        """Clusters in the used slots of a pool, not yet searched."""
        size = pool.capacity
        return cls(
            pool=pool,
            alive=np.arange(size) < pool.used,
            near=TwoNearest.unknown(size),
            key=_mixed(np.arange(size, dtype=np.uint32)),
        )

    @property
    def bound(self) -> np.ndarray:
        """Least cost of a merge of each cluster, or a lower bound of it."""
        return self.near.bound[0]

    @property
    def nearest(self) -> np.ndarray:
        """The slot with which it costs that; means nothing where not exact."""
        return self.near.slot[0]

    @property
    def exact(self) -> np.ndarray:
        """Whether `bound` is the cost with `nearest`, a living cluster."""
        return self.near.exact[0]

    @property
    def active(self) -> np.ndarray:
        """Slots of living clusters."""
        return np.flatnonzero(self.alive)

    def snapshot(self) -> dict[str, Any]:
        """What `restore` returns to."""
        saved = {"alive": self.alive.copy(), "key": self.key.copy()}
        return saved | {"near": self.near.copy(), "used": self.pool.used}

    def restore(self, saved: dict[str, Any]) -> None:
        """Undo all merges since a snapshot, as long as the pool wasn't compacted."""
        self.pool.used = saved.pop("used")
        vars(self).update(saved)

    def keys(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Numbers of pairs by which ties are broken: symmetric, as good as random.

        By the order of slots instead, equally spaced points would merge one pair a
        round.
        """
        return self.key[first] + self.key[second]

    def refresh(self, threshold: float) -> None:
        """Search again where a bound, at most the threshold, isn't exact."""
        self._search_again(self._stale(threshold))

    def _stale(self, threshold: float) -> np.ndarray:
        stale = self.alive & ~self.exact & (self.bound <= threshold)
        self.rescans += int(np.count_nonzero(stale))
        return np.flatnonzero(stale)

    def mutual(self, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of clusters, each the other's nearest, of cost at most the threshold.

        Where there are costs within the threshold but, for rounding, no such pair, the
        first pair.
        """
        near = np.flatnonzero(self.alive & self.exact & (self.bound <= threshold))
        partner = self.nearest[near]
        chosen = (self.nearest[partner] == near) & (near < partner)
        chosen &= self.exact[partner]
        if len(near) and not np.any(chosen):
            return self._first_of(near)
        return near[chosen], partner[chosen]

    def first_pair(self) -> tuple[np.ndarray, np.ndarray]:
        """The pair that greedy merges next."""
        active = self.active
        while True:
            least = np.min(self.bound[active])
            level = active[self.bound[active] == least]
            if np.all(self.exact[level]):
                return self._first_of(level)
            self.refresh(least)

    def _first_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the pairs that exact rows make the first by cost and key."""
        keys = self.keys(rows, self.nearest[rows])
        first = rows[np.lexsort((rows, keys, self.bound[rows]))[:1]]
        return first, self.nearest[first]

    def unite(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Replace pairs of clusters by their unions; the slots of these."""
        new = self.pool.append(first, second)
        self.alive[first] = self.alive[second] = False
        self.near.forget_dead(self.alive)
        self.key[new] = _mixed(self.keys(first, second))
        self.near.bound[:, new] = -np.inf
        self.near.exact[:, new] = False
        self.alive[new] = True
        return new

    def merge(
        self, first: np.ndarray, second: np.ndarray, threshold: float = -np.inf
    ) -> np.ndarray:
        """Replace pairs by their unions, and let these meet all others.

        At once as `refresh` does, in the same blocks, up to a threshold.
        """
        new = self.unite(first, second)
        self.alive[new] = False
        stale = self._stale(threshold)
        self.alive[new] = True
        self._search_again(np.concatenate([new, stale]), len(new))
        return new

    def compact(self) -> tuple[np.ndarray, np.ndarray]:
        """Move living clusters to the first slots; where they were, and are."""
        kept = self.active
        moved = self.pool.compact(kept)
        place = np.zeros(self.pool.capacity, np.int64)
        place[kept] = moved
        self.key[moved] = self.key[kept]
        near = self.near
        near.bound[:, moved] = near.bound[:, kept]
        near.exact[:, moved] = near.exact[:, kept]
        near.slot[:, moved] = place[near.slot[:, kept]]
        self.alive[:] = False
        self.alive[moved] = True
        return kept, moved

    def search(self) -> None:
        """Find the two nearest of all: block by block, each meets those before it."""
        present = np.zeros_like(self.alive)
        for part in blocks(self.active, self.pool.shapes.block):
            present[part] = True
            bounds = self._search(part, present)
            self._announce(part, len(part), bounds, present, part)

    def _search_again(self, rows: np.ndarray, newborn: int = 0) -> None:
        """Find the two nearest of rows; the first ones, newborn, are made known."""
        for part in blocks(rows, self.pool.shapes.block):
            bounds = self._search(part, self.alive)
            if newborn > 0:
                self._announce(part, min(newborn, len(part)), bounds, self.alive, rows)
            newborn -= len(part)

    def _search(self, part: np.ndarray, present: np.ndarray) -> Bounds:
        """Find the two nearest of a block of rows among those present."""
        self.searches += len(part)
        bounds = self.pool.bounds(part, present)
        places, columns, costs = self._nearest_of(part, bounds, present)
        self.near.clear(part)
        self.near.insert(part[places], columns, costs, self.key)
        return bounds

    def _announce(
        self,
        part: np.ndarray,
        newborn: int,
        bounds: Bounds,
        present: np.ndarray,
        searching: np.ndarray,
    ) -> None:
        """Make the first rows of a block known to clusters that they are near to.

        Those that search themselves find them anyway.
        """
        limit = np.where(present, self.near.bound[1], -np.inf)
        limit[searching] = -np.inf
        limit = limit[: bounds.by_column.shape[1]]
        group, column = np.nonzero(bounds.by_column <= limit)
        place = bounds.rows_of(group)
        column = np.broadcast_to(column[:, None], place.shape)
        there = place < newborn
        column, row = column[there], part[place[there]]
        costs = self.pool.costs(column, row, limit[column])
        self.near.insert(column, row, costs, self.key)

    def _nearest_of(
        self, rows: np.ndarray, bounds: Bounds, present: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs that may be the two nearest of each row: place, column and cost."""
        low = bounds.by_row.copy()
        here = np.arange(len(rows))
        least = np.full((2, len(rows)), np.inf)
        best = np.argmin(low, axis=1)
        low[here, best] = np.inf
        next_best = np.argmin(low, axis=1)
        found = [
            self._evaluate(
                rows,
                np.concatenate([here, here]),
                bounds.columns_of(np.concatenate([best, next_best])),
                least,
                present,
            )
        ]
        low[here, next_best] = np.inf
        more = (low <= least[1][:, None]) & (low < np.inf)
        place, group = np.nonzero(more)
        self.pool.sharpen(rows, present, least[1], len(place))
        columns = bounds.columns_of(group)
        found.append(self._evaluate(rows, place, columns, least, present))
        places, columns, costs = map(np.concatenate, zip(*found, strict=True))
        matter = costs <= least[1, places]
        return places[matter], columns[matter], costs[matter]

    def _evaluate(
        self,
        rows: np.ndarray,
        places: np.ndarray,
        columns: np.ndarray,
        least: np.ndarray,
        present: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places, columns and costs of rows, by place, with columns that are present.

        Lowers the two least costs known of each row.
        """
        places = np.broadcast_to(places[:, None], columns.shape)
        valid = present[columns] & (columns != rows[places])
        places, columns = places[valid], columns[valid]
        costs = self.pool.least_costs(places, rows[places], columns, least)
        return places, columns, costs


def _mixed(values: np.ndarray) -> np.ndarray:
    """Hash of 32-bit numbers (the finaliser of MurmurHash3)."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))

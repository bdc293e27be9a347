"""For every living cluster its nearest, or a lower bound on what that costs."""

import dataclasses
from typing import Any

import numpy as np

from bregjax.hierarchy._windowed.pool import Bounds, Pool, blocks

__all__ = ["Frontier"]


@dataclasses.dataclass
class Frontier:
    """What is known of the clusters in the slots of a pool, on the host.

    A new cluster meets all others when it is born. So a cluster whose nearest has gone
    keeps a valid lower bound, the cost of that nearest: those older are no nearer, and
    those younger have been seen. It is searched for again when its bound comes first.

    Attributes:
        pool: The clusters' states.
        alive: Slots that hold a cluster not yet merged, `[capacity]`.
        bound: Least cost of a merge, or a lower bound of it.
        nearest: The slot with which it costs that; means nothing where not exact.
        exact: Whether `bound` is the cost with `nearest`, a living cluster.
        key: Random-looking numbers, those of pairs (see `pair_keys`) break ties.
        searches: Rows searched so far.
        rescans: Those among them that were searched again.
    """

    pool: Pool
    alive: np.ndarray
    bound: np.ndarray
    nearest: np.ndarray
    exact: np.ndarray
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
            bound=np.full(size, -np.inf),
            nearest=np.zeros(size, np.int64),
            exact=np.zeros(size, bool),
            key=_mixed(np.arange(size, dtype=np.uint32)),
        )

    @property
    def active(self) -> np.ndarray:
        """Slots of living clusters."""
        return np.flatnonzero(self.alive)

    def snapshot(self) -> dict[str, Any]:
        """What `restore` returns to."""
        arrays = ("alive", "bound", "nearest", "exact", "key")
        saved: dict[str, Any] = {name: getattr(self, name).copy() for name in arrays}
        return saved | {"used": self.pool.used}

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
        stale = self.alive & ~self.exact & (self.bound <= threshold)
        self.rescans += int(np.count_nonzero(stale))
        self.search(np.flatnonzero(stale))

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
        self.exact &= self.alive[self.nearest] & self.alive
        self.key[new] = _mixed(self.keys(first, second))
        self.bound[new] = -np.inf
        self.alive[new] = True
        return new

    def merge(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Replace pairs by their unions, and let these meet all others."""
        new = self.unite(first, second)
        self.search(new, newborn=True)
        return new

    def compact(self) -> tuple[np.ndarray, np.ndarray]:
        """Move living clusters to the first slots; where they were, and are."""
        kept = self.active
        moved = self.pool.compact(kept)
        place = np.zeros(self.pool.capacity, np.int64)
        place[kept] = moved
        for name in ("bound", "exact", "key"):
            values = getattr(self, name)
            values[moved] = values[kept]
        self.nearest[moved] = place[self.nearest[kept]]
        self.alive[:] = False
        self.alive[moved] = True
        return kept, moved

    def search(self, rows: np.ndarray, *, newborn: bool = False) -> None:
        """Find the nearest of each row; where rows are newborn, make them known."""
        self.searches += len(rows)
        for part in blocks(rows, self.pool.shapes.rows):
            bounds = self.pool.bounds(part, self.alive)
            cost, partner = self._nearest_of(part, bounds)
            self.bound[part], self.nearest[part] = cost, partner
            self.exact[part] = True
            if newborn:
                self._announce(part, bounds, rows)

    def _announce(self, part: np.ndarray, bounds: Bounds, newborn: np.ndarray) -> None:
        """Make newborn rows known to older clusters that they are nearest to."""
        limit = np.where(self.alive, self.bound, -np.inf)
        limit[newborn] = -np.inf
        limit = limit[: bounds.by_column.shape[1]]
        group, column = np.nonzero(~(bounds.by_column > limit))
        place = bounds.rows_of(group)
        column = np.broadcast_to(column[:, None], place.shape)
        there = place < len(part)
        column, row = column[there], part[place[there]]
        self._improve(column, row, self.pool.costs(column, row, limit[column]))

    def _nearest_of(
        self, rows: np.ndarray, bounds: Bounds
    ) -> tuple[np.ndarray, np.ndarray]:
        """Cost and slot of the nearest of each row."""
        low = bounds.by_row
        best = np.argmin(low, axis=1)
        here = np.arange(len(rows))
        least = np.full(len(rows), np.inf)
        near = self._evaluate(rows, here, bounds.columns_of(best), least)
        more = ~(low > least[:, None])  # NaN excludes nothing
        more[here, best] = False
        place, group = np.nonzero(more)
        rest = self._evaluate(rows, place, bounds.columns_of(group), least)
        pairs = zip(near, rest, strict=True)
        places, columns, costs = (np.concatenate(pair) for pair in pairs)
        tied = costs == least[places]
        places, columns = places[tied], columns[tied]
        keys = self.keys(rows[places], columns)
        order = np.lexsort((columns, keys, places))
        places, first = np.unique(places[order], return_index=True)
        nearest = np.zeros(len(rows), np.int64)
        nearest[places] = columns[order][first]
        return least, nearest

    def _evaluate(
        self,
        rows: np.ndarray,
        places: np.ndarray,
        columns: np.ndarray,
        least: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places, columns and costs of rows, by place, with living columns of groups.

        Lowers the least cost known of each row.
        """
        places = np.broadcast_to(places[:, None], columns.shape)
        valid = self.alive[columns] & (columns != rows[places])
        places, columns = places[valid], columns[valid]
        costs = self.pool.least_costs(places, rows[places], columns, least)
        return places, columns, costs

    def _improve(self, slots: np.ndarray, others: np.ndarray, costs: np.ndarray):
        """Make pairs known to the clusters in `slots` that they are nearest to."""
        keys = self.keys(slots, others)
        level = (costs == self.bound[slots]) & self.exact[slots]
        known = self.keys(slots, self.nearest[slots])
        better = (costs < self.bound[slots]) | (level & (keys < known))
        slots, others = slots[better], others[better]
        costs, keys = costs[better], keys[better]
        order = np.lexsort((others, keys, costs, slots))
        slots, first = np.unique(slots[order], return_index=True)
        self.bound[slots] = costs[order][first]
        self.nearest[slots] = others[order][first]
        self.exact[slots] = True


def _mixed(values: np.ndarray) -> np.ndarray:
    """Hash of 32-bit numbers (the finaliser of MurmurHash3)."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))

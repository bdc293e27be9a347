"""For every living cluster its nearest, or a lower bound on what that costs."""

import dataclasses

import numpy as np

from bregjax.hierarchy._windowed.pool import Pool

__all__ = ["Frontier", "pair_keys"]


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
        rescans: Rows searched again so far.
    """

    pool: Pool
    alive: np.ndarray
    bound: np.ndarray
    nearest: np.ndarray
    exact: np.ndarray
    key: np.ndarray
    rescans: int = 0

    @classmethod
    def of(cls, pool: Pool, num_points: int) -> "Frontier":
        """Leaves in the first slots, not yet searched."""
        size = pool.capacity
        return cls(
            pool=pool,
            alive=np.arange(size) < num_points,
            bound=np.full(size, -np.inf),
            nearest=np.zeros(size, np.int64),
            exact=np.zeros(size, bool),
            key=_mixed(np.arange(size, dtype=np.uint32)),
        )

    @property
    def active(self) -> np.ndarray:
        """Slots of living clusters."""
        return np.flatnonzero(self.alive)

    def snapshot(self) -> "Frontier":
        """A copy to return to."""
        fields = {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }
        return Frontier(**fields)

    def front(self, threshold: float) -> None:
        """Search again where a bound, at most the threshold, isn't exact."""
        stale = np.flatnonzero(self.alive & ~self.exact & (self.bound <= threshold))
        self.rescans += len(stale)
        for rows in _blocks(stale, self.pool.shapes.rows):
            self._search(rows)

    def mutual(self, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of clusters, each the other's nearest, of cost at most the threshold.

        If costs are at most the threshold, but for rounding no pair is mutual, the
        cheapest.
        """
        near = np.flatnonzero(self.alive & self.exact & (self.bound <= threshold))
        partner = self.nearest[near]
        chosen = (self.nearest[partner] == near) & (near < partner)
        chosen &= self.exact[partner]
        if len(near) and not np.any(chosen):
            return self.cheapest(near)
        return near[chosen], partner[chosen]

    def cheapest(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first pair, by cost and key, of those that exact rows make."""
        keys = pair_keys(self.key[rows], self.key[self.nearest[rows]])
        first = rows[np.lexsort((rows, keys, self.bound[rows]))[:1]]
        return first, self.nearest[first]

    def merge(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Merge pairs of clusters; the slots of their unions."""
        new = self.pool.append(first, second)
        self.alive[first] = self.alive[second] = False
        self.exact &= self.alive[self.nearest] & self.alive
        self.key[new] = _mixed(self.key[first] + self.key[second])
        self.bound[new] = -np.inf
        self.alive[new] = True
        for rows in _blocks(new, self.pool.shapes.rows):
            self._search(rows, newborn=new)
        return new

    def compact(self) -> np.ndarray:
        """Move living clusters to the first slots; where they were."""
        kept = self.active
        place = np.zeros(self.pool.capacity, np.int64)
        place[kept] = np.arange(len(kept))
        self.pool.compact(kept)
        for name in ("bound", "exact", "key"):
            values = getattr(self, name)
            values[: len(kept)] = values[kept]
        self.nearest[: len(kept)] = place[self.nearest[kept]]
        self.alive[:] = np.arange(self.pool.capacity) < len(kept)
        return kept

    def _search(self, rows: np.ndarray, newborn: np.ndarray | None = None) -> None:
        """The nearest of each row; where rows are newborn, they are made known."""
        pool = self.pool
        by_row, by_column, size = pool.bounds(rows, self.alive)
        cost, partner = self._nearest_of(rows, by_row)
        self.bound[rows], self.nearest[rows] = cost, partner
        self.exact[rows] = True
        if newborn is None:
            return
        limit = np.where(self.alive, self.bound, -np.inf)[: by_column.shape[1]]
        limit[newborn] = -np.inf
        group, column = np.nonzero(~(by_column > limit))
        row = pool.rows_of(group, size)
        column = np.broadcast_to(column[:, None], row.shape)[row < len(rows)]
        row = rows[row[row < len(rows)]]
        self._improve(column, row, pool.costs(column, row))

    def _nearest_of(self, rows: np.ndarray, low: np.ndarray):
        """Cost and slot of the nearest of each row, from bounds by column group."""
        best = np.argmin(low, axis=1)
        here = np.arange(len(rows))
        places, columns, costs = self._evaluate(rows, here, best)
        least = np.full(len(rows), np.inf)
        np.minimum.at(least, places, costs)
        more = ~(low > least[:, None])  # NaN excludes nothing
        more[here, best] = False
        place, group = np.nonzero(more)
        extra = self._evaluate(rows, place, group)
        places = np.concatenate([places, extra[0]])
        columns = np.concatenate([columns, extra[1]])
        costs = np.concatenate([costs, extra[2]])
        np.minimum.at(least, places, costs)
        tied = costs == least[places]
        places, columns = places[tied], columns[tied]
        keys = pair_keys(self.key[rows[places]], self.key[columns])
        order = np.lexsort((columns, keys, places))
        places, first = np.unique(places[order], return_index=True)
        nearest = np.zeros(len(rows), np.int64)
        nearest[places] = columns[order][first]
        return least, nearest

    def _evaluate(self, rows, places, groups):
        """Costs of rows, by place, with the members of column groups."""
        columns = self.pool.columns_of(groups)
        places = np.broadcast_to(places[:, None], columns.shape)
        valid = self.alive[columns] & (columns != rows[places])
        places, columns = places[valid], columns[valid]
        return places, columns, self.pool.costs(rows[places], columns)

    def _improve(self, slots: np.ndarray, others: np.ndarray, costs: np.ndarray):
        """Make pairs known to the clusters in `slots` that they are nearest to."""
        keys = pair_keys(self.key[slots], self.key[others])
        level = (costs == self.bound[slots]) & self.exact[slots]
        known = pair_keys(self.key[slots], self.key[self.nearest[slots]])
        better = (costs < self.bound[slots]) | (level & (keys < known))
        slots, others = slots[better], others[better]
        costs, keys = costs[better], keys[better]
        order = np.lexsort((others, keys, costs, slots))
        slots, first = np.unique(slots[order], return_index=True)
        self.bound[slots] = costs[order][first]
        self.nearest[slots] = others[order][first]
        self.exact[slots] = True


def pair_keys(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Numbers of pairs by which ties are broken: symmetric, and as good as random.

    By the order of slots instead, equally spaced points would merge one pair a round.
    """
    return first + second


def _mixed(values: np.ndarray) -> np.ndarray:
    """Hash of 32-bit numbers (the finaliser of MurmurHash3)."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))


def _blocks(rows: np.ndarray, size: int):
    return (rows[start : start + size] for start in range(0, len(rows), size))

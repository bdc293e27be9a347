"""The living clusters, and for each the nearest."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from bregjax.hierarchy._windowed.bounds import Bounds
from bregjax.hierarchy._windowed.meeting import meet
from bregjax.hierarchy._windowed.nearest import Nearest, mixed
from bregjax.hierarchy._windowed.pool import Pool, blocks
from bregjax.hierarchy._windowed.singly import Known, Made

__all__ = ["Frontier"]


@dataclasses.dataclass
class Frontier:
    """What is known of the clusters in the slots of a pool, on the host.

    A new cluster meets all others when it is born. So where the few nearest of a
    cluster that were kept have gone, what the last of them cost is a lower bound: those
    older are no nearer, and those younger have been seen. It is searched for again when
    its bound comes first.

    Attributes:
        pool: The clusters' states.
        alive: Slots that hold a cluster not yet merged, `[capacity]`.
        near: The few nearest of each.
        key: Random-looking numbers, those of pairs (see `keys`) break ties.
        searches: Rows searched so far.
        rescans: Those among them that were searched again.
    """

    pool: Pool
    alive: np.ndarray
    near: Nearest
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
            near=Nearest.unknown(size, pool.shapes.near),
            key=mixed(np.arange(size, dtype=np.uint32)),
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
        self.key[new] = mixed(self.keys(first, second))
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

    def merge_singly(self, count: int) -> Made:
        """Make so many merges one at a time, as greedy does, without the host."""
        near, dtype = self.near, self.pool.dtype
        known = Known(
            alive=jnp.asarray(self.alive),
            key=jnp.asarray(self.key),
            bound=jnp.asarray(near.bound.astype(dtype)),
            slot=jnp.asarray(near.slot.astype(np.int32)),
            exact=jnp.asarray(near.exact),
        )
        known, made = self.pool.merge_singly(known, count)
        self.alive, self.key = np.array(known.alive), np.array(known.key)
        self.near = Nearest(
            np.array(known.bound, near.bound.dtype),
            np.array(known.slot, near.slot.dtype),
            np.array(known.exact),
        )
        self.searches += count + int(made.rescans)
        self.rescans += int(made.rescans)
        return made

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
        """Find the nearest of all: block by block, each meets those before it."""
        ours, theirs = itertools.tee(self._meetings())
        for (part, present), bounds in zip(
            ours, self.pool.bounds_of(theirs), strict=True
        ):
            self._meet(part, present, bounds, len(part), part)

    def _meetings(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Blocks of all clusters, each with itself and those before it."""
        present = np.zeros_like(self.alive)
        for part in blocks(self.active, self.pool.shapes.block):
            present[part] = True
            yield part, present.copy()

    def _search_again(self, rows: np.ndarray, newborn: int = 0) -> None:
        """Find the nearest of rows; the first ones, newborn, are made known."""
        parts = list(blocks(rows, self.pool.shapes.block))
        found = self.pool.bounds_of((part, self.alive) for part in parts)
        for part, bounds in zip(parts, found, strict=True):
            self._meet(part, self.alive, bounds, max(newborn, 0), rows)
            newborn -= len(part)

    def _meet(
        self,
        part: np.ndarray,
        present: np.ndarray,
        bounds: Bounds,
        newborn: int,
        searching: np.ndarray,
    ) -> None:
        """A block of rows finds its nearest among those present.

        The first are made known to all but those that search themselves.
        """
        self.searches += len(part)
        limit = np.where(present, self.near.bound[-1], -np.inf)
        limit[searching] = -np.inf
        ours, theirs = meet(self.pool, part, present, bounds, newborn, limit)
        self.near.replace(part, ours, self.key)
        self.near.insert(theirs, self.key)

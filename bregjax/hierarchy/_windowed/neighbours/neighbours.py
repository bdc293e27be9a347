"""The neighbours: which clusters live, and which are the nearest of each."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bregjax.hierarchy._windowed.neighbours.nearest import Nearest
from bregjax.hierarchy._windowed.neighbours.search import search
from bregjax.hierarchy._windowed.neighbours.ties import mixed
from bregjax.hierarchy._windowed.store.base import runs
from bregjax.hierarchy._windowed.store.block import Block
from bregjax.hierarchy._windowed.store.query import (
    Among,
    LimitOf,
    Pairs,
    pairs_among,
    pairs_within,
)
from bregjax.hierarchy._windowed.store.quick_store import QuickStore
from bregjax.hierarchy._windowed.store.store import Store

__all__ = ["Neighbours", "NextPairs"]


class NextPairs(NamedTuple):
    """Pairs to merge, `[p]`.

    Attributes:
        first: Slots.
        second: Slots.
        cost: Merge costs.
        key: Keys of pairs, which break ties.
        mutual: Whether each is certain to be the other's nearest.
    """

    first: np.ndarray
    second: np.ndarray
    cost: np.ndarray
    key: np.ndarray
    mutual: np.ndarray


@dataclasses.dataclass
class Neighbours:
    """The living clusters of a store, and the few nearest of each, on the host.

    A newborn cluster is compared with all others. So where the few nearest of a cluster
    that it knew have died, the last one's cost is a lower bound: of the clusters that
    it did not list, older ones cost no less, and each newborn of less cost was listed.
    Such a cluster is stale; it is searched again only when its bound comes first.

    Attributes:
        store: The clusters' states.
        alive: Slots that hold a living cluster, booleans `[capacity]`.
        near: The few nearest of each.
        key: Keys of clusters, `[capacity]`, uint32 (see `ties.mixed`).
        searches: Rows searched so far.
        rescans: Rows among them that were stale.
    """

    store: Store | QuickStore
    alive: np.ndarray
    near: Nearest
    key: np.ndarray
    searches: int = 0
    rescans: int = 0

    @classmethod
    def of(cls, store: Store | QuickStore) -> "Neighbours":
        """Return the clusters in the used slots of a store, not yet searched."""
        size = store.capacity
        return cls(
            store=store,
            alive=np.arange(size) < store.used,
            near=Nearest.unknown(size, store.near),
            key=mixed(np.arange(size, dtype=np.uint32)),
        )

    @property
    def bound(self) -> np.ndarray:
        """Least merge cost of each cluster, or a lower bound of it."""
        return self.near.bound[0]

    @property
    def nearest(self) -> np.ndarray:
        """The nearest of each cluster, where its bound is exact."""
        return self.near.slot[0]

    @property
    def exact(self) -> np.ndarray:
        """Whether `bound` is the cost with `nearest`, a living cluster."""
        return self.near.exact[0]

    @property
    def active(self) -> np.ndarray:
        """Slots of living clusters."""
        return np.flatnonzero(self.alive)

    @property
    def room(self) -> int:
        """How many merges the store has room for."""
        return self.store.room

    def snapshot(self) -> dict[str, Any]:
        """Return what `restore` takes."""
        saved = {"alive": self.alive.copy(), "key": self.key.copy()}
        return saved | {"near": self.near.copy(), "used": self.store.used}

    def restore(self, saved: dict[str, Any]) -> None:
        """Undo all merges since a snapshot; the store must not have been compacted."""
        self.store.used = saved.pop("used")
        vars(self).update(saved)

    def keys(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return keys of pairs."""
        return self.key[first] + self.key[second]

    def refresh(self, threshold: float) -> None:
        """Search stale clusters again whose bounds are at most a threshold."""
        self._search_again(self._stale(threshold))

    def _stale(self, threshold: float) -> np.ndarray:
        stale = self.alive & ~self.exact & (self.bound <= threshold)
        self.rescans += int(np.count_nonzero(stale))
        return np.flatnonzero(stale)

    def mutual(self, threshold: float) -> NextPairs:
        """Return all pairs, each the other's nearest, that cost at most a threshold.

        If there are costs within the threshold but, because of rounding, no such pair:
        the first pair.
        """
        near = np.flatnonzero(self.alive & self.exact & (self.bound <= threshold))
        partner = self.nearest[near]
        chosen = (self.nearest[partner] == near) & (near < partner)
        chosen &= self.exact[partner]
        if len(near) and not np.any(chosen):
            return self._first_of(near)
        return self._next_pairs(near[chosen])

    def first_pair(self) -> NextPairs:
        """Return the one pair that greedy merges next."""
        active = self.active
        while True:
            least = np.min(self.bound[active])
            level = active[self.bound[active] == least]
            if np.all(self.exact[level]):
                return self._first_of(level)
            self.refresh(least)

    def _first_of(self, rows: np.ndarray) -> NextPairs:
        """Of clusters with their nearest the first pair by cost and key."""
        keys = self.keys(rows, self.nearest[rows])
        return self._next_pairs(rows[np.lexsort((rows, keys, self.bound[rows]))[:1]])

    def _next_pairs(self, first: np.ndarray) -> NextPairs:
        second = self.nearest[first]
        mutual = self.exact[second] & (self.nearest[second] == first)
        return NextPairs(
            first, second, self.bound[first], self.keys(first, second), mutual
        )

    def unite(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Replace pairs by their unions, not yet searched; return the unions' slots."""
        new = self.store.append(first, second)
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
        """Replace pairs by their unions, compared with all others; return their slots.

        Stale clusters within a threshold are searched again too, in the same blocks.
        """
        new = self.unite(first, second)
        self.alive[new] = False
        stale = self._stale(threshold)
        self.alive[new] = True
        self._search_again(np.concatenate([new, stale]), len(new))
        return new

    def compact(self) -> tuple[np.ndarray, np.ndarray]:
        """Move living clusters to the first slots; return their old and new slots."""
        kept = self.active
        return kept, self._moved(kept, self.store.compact(kept))

    def go_on_in(self, store: QuickStore) -> tuple[np.ndarray, np.ndarray]:
        """Go on in a store of the living clusters; return slots as `compact`."""
        kept, self.store = self.active, store
        return kept, self._moved(kept, np.arange(len(kept)))

    def _moved(self, kept: np.ndarray, moved: np.ndarray) -> np.ndarray:
        size, depth = self.store.capacity, self.store.near
        place = np.zeros(len(self.alive), np.int64)
        place[kept] = moved
        key, near = np.zeros(size, np.uint32), Nearest.unknown(size, depth)
        key[moved] = self.key[kept]
        # Of shorter lists than before the last cost bounds the rest, and so it does in
        # entries that longer ones have more.
        level = np.minimum(np.arange(depth), len(self.near.bound) - 1)[:, None]
        known = np.arange(depth)[:, None] < len(self.near.bound)
        near.bound[:, moved] = self.near.bound[level, kept]
        near.exact[:, moved] = self.near.exact[level, kept] & known
        near.slot[:, moved] = place[self.near.slot[level, kept]]
        self.key, self.near = key, near
        self.alive = np.zeros(size, bool)
        self.alive[moved] = True
        return moved

    def pairs_within(
        self,
        rows: np.ndarray,
        among: Among,
        limit: np.ndarray,
        limit_of: LimitOf | None = None,
    ) -> Iterator[Pairs]:
        """Yield pairs of rows that cost at most a limit (see `query.pairs_within`)."""
        return pairs_within(self.store, rows, among, limit, limit_of)

    def pairs_among(
        self,
        slots: np.ndarray,
        rows: np.ndarray,
        among: Among,
        limit: np.ndarray,
        limit_of: LimitOf | None = None,
    ) -> Iterator[Pairs]:
        """Yield the same where all slots are among a few (see `query.pairs_among`)."""
        return pairs_among(self.store, slots, rows, among, limit, limit_of)

    def search(self) -> None:
        """Find the nearest of all."""
        store = self.store
        if isinstance(store, QuickStore):
            self._search_quickly(store, self.active, 0)
            return
        for block in store.screened(self._blocks_of_all()):
            self._learn(store, block, len(block.rows), block.rows)

    def _blocks_of_all(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield blocks, each to be compared with itself and those before.

        So each pair is screened once, and later rows are newborn to earlier ones.
        """
        present = np.zeros_like(self.alive)
        for part in runs(self.active, self.store.block):
            present[part] = True
            yield part, present.copy()

    def _search_again(self, rows: np.ndarray, newborn: int = 0) -> None:
        """Find the nearest of rows, of which the first ones are newborn."""
        store = self.store
        if isinstance(store, QuickStore):
            self._search_quickly(store, rows, newborn)
            return
        parts = runs(rows, store.block)
        for block in store.screened((part, self.alive) for part in parts):
            self._learn(store, block, max(newborn, 0), rows)
            newborn -= len(block.rows)

    def _learn(
        self, store: Store, block: Block, newborn: int, searching: np.ndarray
    ) -> None:
        """Let rows take their nearest, and others the newborn rows near to them."""
        self.searches += len(block.rows)
        limit = self._limit(block.among, searching)
        ours, theirs = search(store, block, newborn, limit)
        self.near.replace(block.rows, ours, self.key)
        self.near.insert(theirs, self.key)

    def _limit(self, among: np.ndarray, searching: np.ndarray) -> np.ndarray:
        """Costs up to which slots want to know of newborn rows, by slot.

        Those that search themselves find newborn rows in their own blocks.
        """
        limit = np.where(among, self.near.bound[-1], -np.inf)
        limit[searching] = -np.inf
        return limit

    def _search_quickly(
        self, store: QuickStore, rows: np.ndarray, newborn: int
    ) -> None:
        """Find the nearest of rows, by blocks of which none waits for another."""
        starts = range(0, len(rows), store.block)
        parts = (
            (rows[at : at + store.block], self.alive, newborn - at) for at in starts
        )
        for found in store.searched(parts, self._limit(self.alive, rows)):
            self.searches += len(found.rows)
            self.near.replace(found.rows, found.ours, self.key)
            self.near.insert(found.theirs, self.key)

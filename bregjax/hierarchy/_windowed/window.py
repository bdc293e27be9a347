"""Merges made out of order, and the proof that greedy would have made them."""

import heapq

import numpy as np

from bregjax.hierarchy._windowed.frontier import Frontier, pair_keys

__all__ = ["Window"]


class Window:
    """Merges of cost at most a threshold, made optimistically in rounds.

    Let F be its merges and κ = (cost, key) their order. The schedule of F takes always
    the κ-smallest merge whose two parts exist. F is what one merge at a time, from the
    window's start until the least cost exceeds the threshold, does if and only if at
    each step of the schedule every other pair alive comes after the step's, and at the
    end no living pair costs at most the threshold. (By induction over steps: before
    each, greedy's clusters are the schedule's, and its choice the step.) The second is
    how rounds end; `is_greedy` checks the first.

    Attributes:
        first: Slots of one part of each merge, `[w]`.
        second: Of the other.
        union: Of the union.
        cost: Merge costs.
        key: What breaks ties of costs.
        order: The schedule: merges in the order that greedy makes them.
    """

    def __init__(self, first, second, union, cost, key) -> None:
        """Take merges as they were made; find their schedule."""
        self.first, self.second, self.union = first, second, union
        self.cost, self.key = cost, key
        by_size = np.lexsort((key, cost))
        self.rank = np.empty_like(by_size)
        self.rank[by_size] = np.arange(len(by_size))
        self.maker = dict(zip(union.tolist(), range(len(union)), strict=True))
        self.order = self._schedule(by_size)

    def _schedule(self, by_size: np.ndarray) -> np.ndarray:
        needs = [
            [self.maker[part] for part in pair if part in self.maker]
            for pair in zip(self.first.tolist(), self.second.tolist(), strict=True)
        ]
        rank = self.rank.tolist()
        if all(rank[t] < rank[n] for n, made in enumerate(needs) for t in made):
            return by_size
        users: list[list[int]] = [[] for _ in needs]
        for merge, made in enumerate(needs):
            for before in made:
                users[before].append(merge)
        missing = [len(made) for made in needs]
        ready = [(rank[merge], merge) for merge, made in enumerate(needs) if not made]
        heapq.heapify(ready)
        order = []
        while ready:
            _, merge = heapq.heappop(ready)
            order.append(merge)
            for user in users[merge]:
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, (rank[user], user))
        return np.asarray(order)

    def is_greedy(self, frontier: Frontier, start: int) -> bool:
        """Whether at each step every other living pair comes after the step's.

        Two survivors cost more than the threshold. Of pairs of clusters that were born
        or died in the window those that may be too cheap are evaluated. A cluster that
        died at step e in a mutual pair costs, with an old survivor, more than step e;
        it is held against all of them where a step of its life comes after e.

        Args:
            frontier: Clusters at the window's end, those merged still in the pool.
            start: First slot that was filled in the window.
        """
        count = len(self.order)
        step = np.empty(count, np.int64)
        step[self.order] = np.arange(1, count + 1)
        slots = np.concatenate([self.first, self.second, self.union])
        slots = np.unique(slots)
        place = np.zeros(frontier.pool.capacity, np.int64)
        place[slots] = np.arange(len(slots))
        birth = np.zeros(len(slots), np.int64)
        death = np.full(len(slots), count + 1)
        merge = np.full(len(slots), -1)
        birth[place[self.union]] = step
        for part in (self.first, self.second):
            death[place[part]] = step
            merge[place[part]] = np.arange(count)
        steps = _RangeMax(self.rank[self.order])
        by_rank = np.argsort(self.rank)
        lives = _Lives(slots, birth, death, merge, steps, by_rank, self.cost, self.key)
        return self._insiders_wait(frontier, lives) and self._survivors_wait(
            frontier, lives, start
        )

    def _insiders_wait(self, frontier: Frontier, lives: "_Lives") -> bool:
        pool = frontier.pool
        inside = pool.gathered(lives.slots)
        there = np.arange(pool.capacity) < len(lives.slots)
        highest = lives.highest(lives.birth, np.minimum(lives.death, len(self.order)))
        limit = lives.cost_of(highest)
        for rows in _blocks(np.arange(len(lives.slots)), pool.shapes.rows):
            low, _, _ = inside.bounds(rows, there)
            row, group = np.nonzero(~(low > limit[rows][:, None]))
            column = inside.columns_of(group)
            row = np.broadcast_to(rows[row][:, None], column.shape)
            valid = (column < len(lives.slots)) & (row < column)
            u, v = row[valid], column[valid]
            begin = np.maximum(lives.birth[u], lives.birth[v])
            end = np.minimum(lives.death[u], lives.death[v])
            partners = (lives.merge[u] == lives.merge[v]) & (lives.merge[u] >= 0)
            meet = (begin < end) & (end <= len(self.order)) & ~partners
            u, v, begin, end = u[meet], v[meet], begin[meet], end[meet]
            if not self._come_after(frontier, lives, u, v, begin, end):
                return False
        return True

    def _come_after(self, frontier, lives, u, v, begin, end) -> bool:
        costs = frontier.pool.costs(lives.slots[u], lives.slots[v])
        keys = pair_keys(frontier.key[lives.slots[u]], frontier.key[lives.slots[v]])
        return not np.any(lives.come_before(costs, keys, lives.highest(begin, end)))

    def _survivors_wait(self, frontier: Frontier, lives: "_Lives", start: int) -> bool:
        pool = frontier.pool
        dead = np.flatnonzero(lives.death <= len(self.order))
        highest = lives.highest(lives.birth[dead], lives.death[dead])
        own = self.rank[lives.merge[dead]]
        dead, highest = dead[highest > own], highest[highest > own]
        old = frontier.alive & (np.arange(pool.capacity) < start)
        for part in _blocks(np.arange(len(dead)), pool.shapes.rows):
            slots = lives.slots[dead[part]]
            limit = lives.cost_of(highest[part])
            low, _, _ = pool.bounds(slots, old)
            row, group = np.nonzero(~(low > limit[:, None]))
            column = pool.columns_of(group)
            row = np.broadcast_to(row[:, None], column.shape)
            valid = old[column]
            row, column = row[valid], column[valid]
            costs = pool.costs(slots[row], column)
            keys = pair_keys(frontier.key[slots[row]], frontier.key[column])
            if np.any(lives.come_before(costs, keys, highest[part][row])):
                return False
        return True


class _Lives:
    """When clusters of a window live, and the last of κ in such times."""

    def __init__(self, slots, birth, death, merge, steps, by_rank, cost, key) -> None:
        self.slots, self.birth, self.death, self.merge = slots, birth, death, merge
        self._steps = steps
        self._cost = np.append(cost[by_rank], -np.inf)
        self._key = np.append(key[by_rank], np.uint32(0))

    def highest(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """The last rank among steps begin + 1 … end; −1 where there is none."""
        return self._steps(begin, end)

    def cost_of(self, rank: np.ndarray) -> np.ndarray:
        """Cost of the merge of a rank; −inf for −1."""
        return self._cost[rank]

    def come_before(self, costs, keys, rank) -> np.ndarray:
        """Whether pairs come before the merge of a rank."""
        limit = self._cost[rank]
        return (costs < limit) | ((costs == limit) & (keys < self._key[rank]))


class _RangeMax:
    """Maxima of any run of a sequence, by a sparse table."""

    def __init__(self, values: np.ndarray) -> None:
        self._levels = [values]
        width = 1
        while 2 * width <= len(values):
            last = self._levels[-1]
            self._levels.append(np.maximum(last[:-width], last[width:]))
            width *= 2

    def __call__(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """max values[begin:end]; −1 where that is empty."""
        length = np.maximum(end - begin, 0)
        level = np.log2(np.maximum(length, 1)).astype(int)
        out = np.full(len(length), -1)
        for which in np.unique(level[length > 0]):
            at = (level == which) & (length > 0)
            table = self._levels[which]
            left, right = begin[at], end[at] - 2**which
            out[at] = np.maximum(table[left], table[right])
        return out


def _blocks(rows: np.ndarray, size: int):
    return (rows[start : start + size] for start in range(0, len(rows), size))

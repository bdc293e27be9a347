"""The proof that a window's merges are those that greedy would have made.

Let F be the merges of a window, κ = (cost, key) their order, and their schedule to take
always the κ-first merge of F whose parts exist. One merge at a time, from the window's
start until the least cost exceeds the threshold, makes exactly F if and only if

    (i)  at each step of the schedule every other pair alive comes after that step's,
    (ii) at the end no living pair costs at most the threshold.

By induction over steps: before each, greedy's clusters are the schedule's, and its
choice is the step; and it stops where F ends. (ii) is how a window's rounds end. Two
clusters that coexist over the steps (b, e], their own merge excepted, fulfil (i) if
they come after the last of κ there:

* Two survivors: they cost more than the threshold.
* Both born or dead in the window: those whose bound does not exclude it are evaluated.
* One died at step e, the other is a survivor as old as the window: it was there when
  the first died as one of a mutual pair, so it comes after step e. Where a step
  before, in the life of the first, comes after e, the pair is evaluated.
"""

from dataclasses import dataclass

import numpy as np

from bregjax.hierarchy._windowed.frontier import Frontier
from bregjax.hierarchy._windowed.merges import Merges
from bregjax.hierarchy._windowed.pool import Pool, blocks
from bregjax.hierarchy._windowed.range_max import RangeMax

__all__ = ["is_greedy"]


def is_greedy(
    merges: Merges, order: np.ndarray, frontier: Frontier, start: int
) -> bool:
    """Whether at each step of a window every other living pair comes later.

    Args:
        merges: The window's merges.
        order: Their schedule.
        frontier: Clusters at the window's end; those that merged still in the pool.
        start: The first slot that was filled in the window.
    """
    lives = _Lives.of(merges, order)
    return _insiders_wait(lives, frontier) and _survivors_wait(lives, frontier, start)


@dataclass(frozen=True)
class _Lives:
    """When the clusters of a window live, and the κ-last of merges in such times.

    Attributes:
        slot: Clusters that were born or died in the window, `[c]`.
        birth: Step after which each exists, 0 if before the window.
        death: Step that ends it; past the last for survivors.
        merge: The merge that ends it, −1 for survivors.
        cost: Merge costs by rank in κ, and −inf.
        key: Keys by rank, and 0.
        rank: Of merges in κ, `[w]`.
        latest: Range maxima of ranks over steps.
    """

    slot: np.ndarray
    birth: np.ndarray
    death: np.ndarray
    merge: np.ndarray
    cost: np.ndarray
    key: np.ndarray
    rank: np.ndarray
    latest: RangeMax

    @classmethod
    def of(cls, merges: Merges, order: np.ndarray) -> "_Lives":
        """Lives under a schedule."""
        count = len(order)
        step = np.empty(count, np.int64)
        step[order] = np.arange(1, count + 1)
        slot = np.unique(np.concatenate(merges[:3]))
        birth, death = np.zeros(len(slot), np.int64), np.full(len(slot), count + 1)
        merge = np.full(len(slot), -1)
        birth[np.searchsorted(slot, merges.union)] = step
        for part in (merges.first, merges.second):
            place = np.searchsorted(slot, part)
            death[place], merge[place] = step, np.arange(count)
        by_rank = np.lexsort((merges.key, merges.cost))
        rank = np.argsort(by_rank)
        cost = np.append(merges.cost[by_rank], -np.inf)
        key = np.append(merges.key[by_rank], np.uint32(0))
        latest = RangeMax(rank[order])
        return cls(slot, birth, death, merge, cost, key, rank, latest)

    @property
    def num_steps(self) -> int:
        """Number of merges."""
        return len(self.rank)


def _insiders_wait(lives: _Lives, frontier: Frontier) -> bool:
    """Pairs of clusters that were born or died in the window, in tiles."""
    inside, moved = frontier.pool.gathered(lives.slot)
    count = len(lives.slot)
    there = np.zeros(inside.capacity, bool)
    there[moved] = True
    place = np.zeros(inside.capacity, np.int64)
    place[moved] = np.arange(count)
    end = np.minimum(lives.death, lives.num_steps)
    limit = lives.cost[lives.latest(lives.birth, end)]
    for rows in blocks(np.arange(count), inside.shapes.rows):
        pairs = _undecided(inside, moved[rows], there, limit[rows])
        u, v = place[pairs[0]], place[pairs[1]]
        begin = np.maximum(lives.birth[u], lives.birth[v])
        end = np.minimum(lives.death[u], lives.death[v])
        partners = (lives.merge[u] == lives.merge[v]) & (lives.merge[u] >= 0)
        meet = (u < v) & (begin < end) & (end <= lives.num_steps) & ~partners
        latest = lives.latest(begin[meet], end[meet])
        slots = lives.slot[u[meet]], lives.slot[v[meet]]
        if _any_before(lives, frontier, *slots, latest):
            return False
    return True


def _survivors_wait(lives: _Lives, frontier: Frontier, start: int) -> bool:
    """The dead for whose end a step of their life comes too late, against the old."""
    pool = frontier.pool
    dead = np.flatnonzero(lives.merge >= 0)
    latest = lives.latest(lives.birth[dead], lives.death[dead])
    late = latest > lives.rank[lives.merge[dead]]
    slot, latest = lives.slot[dead[late]], latest[late]
    old = frontier.alive & (np.arange(pool.capacity) < start)
    for part in blocks(np.arange(len(slot)), pool.shapes.rows):
        u, v = _undecided(pool, slot[part], old, lives.cost[latest[part]])
        limit = latest[part][np.searchsorted(slot[part], u)]
        if _any_before(lives, frontier, u, v, limit):
            return False
    return True


def _undecided(
    pool: Pool, rows: np.ndarray, there: np.ndarray, limit: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of rows with slots that may cost no more than the row's limit."""
    bounds = pool.bounds(rows, there)
    row, group = np.nonzero(~(bounds.by_row > limit[:, None]))
    column = bounds.columns_of(group)
    row = np.broadcast_to(rows[row][:, None], column.shape)
    valid = there[column]
    return row[valid], column[valid]


def _any_before(
    lives: _Lives, frontier: Frontier, u: np.ndarray, v: np.ndarray, rank: np.ndarray
) -> bool:
    """Whether a pair comes before the merge of its rank (none is before −1)."""
    limit = lives.cost[rank]
    cost, key = frontier.pool.costs(u, v, limit), frontier.keys(u, v)
    level = (cost == limit) & (key < lives.key[rank])
    return bool(np.any((cost < limit) | level))

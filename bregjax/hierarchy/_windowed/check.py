"""The proof that a window's merges are those that greedy would have made.

Let F be the merges of a window, κ = (cost, key) their order, and their schedule to take
always the κ-first merge of F whose parts exist. One merge at a time, from the window's
start until the least cost exceeds the threshold, makes exactly F if and only if

    (i)  at each step of the schedule every other pair alive comes after that step's,
    (ii) at the end no living pair costs at most the threshold.

By induction over steps: before each, greedy's clusters are the schedule's, and its
choice is the step; and it stops where F ends. (ii) is how a window's rounds end. Two
clusters that coexist over the steps (b, e], their own merge excepted, fulfil (i) if
they come after the last of κ there. Two survivors do: they cost more than the
threshold. Otherwise let a merge be late if a step in the life of one of its parts comes
after it in κ.

* Where both were alive in the same round, let the first to merge, by rounds, be u. Its
  merge was one of mutually nearest clusters, so the pair comes after it, and, unless it
  is late, after all steps in the life of u.
* So what is left are pairs of which one had merged, by rounds, when the other was born,
  and those of late merges' parts, with anything. They are evaluated where their bounds
  don't exclude it.
"""

from dataclasses import dataclass

import numpy as np

from bregjax.hierarchy._windowed.frontier import Frontier
from bregjax.hierarchy._windowed.pool import Pool, blocks
from bregjax.hierarchy._windowed.range_max import RangeMax
from bregjax.hierarchy._windowed.schedule import Merges

__all__ = ["least_intruder"]


def least_intruder(
    merges: Merges, order: np.ndarray, frontier: Frontier, start: int
) -> float:
    """Least cost of a pair that comes before a step at which it lives; inf if none.

    Then the window's merges are greedy's. Otherwise those of a lower threshold may be.

    Args:
        merges: The window's merges.
        order: Their schedule.
        frontier: Clusters at the window's end; those that merged still in the pool.
        start: The first slot that was filled in the window.
    """
    lives = _Lives.of(merges, order)
    return min(_among_insiders(lives, frontier), _by_survivors(lives, frontier, start))


@dataclass(frozen=True)
class _Lives:
    """When the clusters of a window live, and the κ-last of merges in such times.

    Attributes:
        slot: Clusters that were born or died in the window, `[c]`, those that die last
            first.
        birth: Step after which each exists, 0 if before the window.
        death: Step that ends it; past the last for survivors.
        born: The round that made it, −1 if before the window.
        died: The round that ended it; past the last for survivors.
        late: Whether it died by a late merge.
        merge: The merge that ends it, −1 for survivors.
        cost: Merge costs by rank in κ, and −inf.
        key: Keys by rank, and 0.
        latest: Range maxima of ranks over steps.
    """

    slot: np.ndarray
    birth: np.ndarray
    death: np.ndarray
    born: np.ndarray
    died: np.ndarray
    late: np.ndarray
    merge: np.ndarray
    cost: np.ndarray
    key: np.ndarray
    latest: RangeMax

    @classmethod
    def of(cls, merges: Merges, order: np.ndarray) -> "_Lives":
        """Lives under a schedule."""
        count = len(order)
        step = np.empty(count, np.int64)
        step[order] = np.arange(1, count + 1)
        slot = np.unique(np.concatenate(merges[:3]))
        birth, death = np.zeros(len(slot), np.int64), np.full(len(slot), count + 1)
        born, died = np.full(len(slot), -1), np.full(len(slot), np.iinfo(np.int64).max)
        merge = np.full(len(slot), -1)
        place = np.searchsorted(slot, merges.union)
        birth[place], born[place] = step, merges.round
        for part in (merges.first, merges.second):
            place = np.searchsorted(slot, part)
            death[place], died[place], merge[place] = (
                step,
                merges.round,
                np.arange(count),
            )
        by_rank = np.lexsort((merges.key, merges.cost))
        rank = np.argsort(by_rank)
        latest = RangeMax(rank[order])
        late = latest(birth, np.minimum(death, count)) > rank[merge]
        late = (late | ~merges.mutual[merge]) & (merge >= 0)
        last = np.argsort(-death, kind="stable")
        return cls(
            slot=slot[last],
            birth=birth[last],
            death=death[last],
            born=born[last],
            died=died[last],
            late=late[last],
            merge=merge[last],
            cost=np.append(merges.cost[by_rank], -np.inf),
            key=np.append(merges.key[by_rank], np.uint32(0)),
            latest=latest,
        )

    @property
    def num_steps(self) -> int:
        """Number of merges."""
        return len(self.key) - 1

    def limit(self, places: np.ndarray) -> np.ndarray:
        """Cost of the κ-last step in the life of each."""
        end = np.minimum(self.death[places], self.num_steps)
        return self.cost[self.latest(self.birth[places], end)]


def _among_insiders(lives: _Lives, frontier: Frontier) -> float:
    """Pairs of clusters that were born or died in the window."""
    pool, moved = frontier.pool.gathered(lives.slot)
    place = np.zeros(pool.capacity, np.int64)
    place[moved] = np.arange(len(moved))
    least = np.inf

    def evaluate(rows: np.ndarray, others: np.ndarray) -> None:
        nonlocal least
        there = np.zeros(pool.capacity, bool)
        there[moved[others]] = True
        u, v = _undecided(pool, moved[rows], there, lives.limit(rows))
        u, v = place[u], place[v]
        begin = np.maximum(lives.birth[u], lives.birth[v])
        end = np.minimum(lives.death[u], lives.death[v])
        partners = (lives.merge[u] == lives.merge[v]) & (lives.merge[u] >= 0)
        meet = (begin < end) & (end <= lives.num_steps) & ~partners
        rank = lives.latest(begin[meet], end[meet])
        pairs = lives.slot[u[meet]], lives.slot[v[meet]]
        least = min(least, _least_before(lives, frontier, *pairs, rank))

    for rows in blocks(np.flatnonzero(lives.late), pool.shapes.block):
        evaluate(rows, np.arange(len(lives.slot)))
    born = np.flatnonzero(~lives.late & (lives.born >= 0))
    born = born[np.argsort(lives.birth[born], kind="stable")]
    for rows in blocks(born, pool.shapes.block):
        gone = lives.died <= np.max(lives.born[rows])
        evaluate(rows, np.flatnonzero(gone & (lives.death > lives.birth[rows[0]])))
    return least


def _by_survivors(lives: _Lives, frontier: Frontier, start: int) -> float:
    """Parts of late merges against clusters that the window left alone."""
    pool = frontier.pool
    late = np.flatnonzero(lives.late)
    late = late[np.argsort(lives.slot[late])]
    rank = lives.latest(lives.birth[late], lives.death[late])
    old = frontier.alive & (np.arange(pool.capacity) < start)
    least = np.inf
    for part in blocks(np.arange(len(late)), pool.shapes.block):
        slot = lives.slot[late[part]]
        u, v = _undecided(pool, slot, old, lives.cost[rank[part]])
        before = rank[part][np.searchsorted(slot, u)]
        least = min(least, _least_before(lives, frontier, u, v, before))
    return least


def _undecided(
    pool: Pool, rows: np.ndarray, there: np.ndarray, limit: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of rows with slots that may cost no more than the row's limit."""
    bounds = pool.bounds(rows, there)
    place, column = bounds.pairs_by_row(limit)
    valid = there[column]
    return rows[place[valid]], column[valid]


def _least_before(
    lives: _Lives, frontier: Frontier, u: np.ndarray, v: np.ndarray, rank: np.ndarray
) -> float:
    """Least cost of pairs before the merge of their rank (none is before −1)."""
    limit = lives.cost[rank]
    cost, key = frontier.pool.costs(u, v, limit), frontier.keys(u, v)
    level = (cost == limit) & (key < lives.key[rank])
    return float(np.min(cost[(cost < limit) | level], initial=np.inf))

"""The proof that a window's merges are those that greedy would have made.

Let F be the merges of a window, κ = (cost, key) their order, and their schedule to take
always the κ-first merge of F whose parts exist. One merge at a time, from the window's
start until the least cost exceeds the threshold, makes exactly F if and only if

    (i)  at each step of the schedule every other pair alive comes after that step's,
    (ii) at the end no living pair costs at most the threshold.

By induction over steps: before each, greedy's clusters are the schedule's, and its
choice is the step; and it stops where F ends. (ii) is how a window's rounds end. Two
clusters that coexist over the steps (b, e], their own merge excepted, fulfil (i) if the
pair comes after the greatest of κ there. Two survivors do: they cost more than the
threshold. Otherwise call a merge late if a step in the life of one of its parts comes
after it in κ, or if its parts were not each other's nearest.

* If both were alive in the same round, let the first of them to merge, by rounds, be u.
  It merged with its nearest, so the pair comes after that merge in κ, and, unless that
  merge is late, after all steps in the life of u.
* What is left are pairs of which one had merged, by rounds, before the other was born;
  and the pairs of a late merge's parts with any cluster. Those whose bounds do not
  exclude it are evaluated.

Example: AB at cost 3, DE at 2.5, and AB with C at 1. The schedule is DE, AB, ABC. The
last is late: C lives over all three steps, and 3 is more than 1. So C is compared with
every cluster that coexists with it: a pair CD that costs 2 comes before DE, the first
step, and shows that greedy would have merged otherwise from there on. Had C with DE
cost 2.8 instead, DE would have been greedy's, and AB not.
"""

from dataclasses import dataclass

import numpy as np

from bregjax.hierarchy._windowed.windows.clusters import Costs, LivingClusters
from bregjax.hierarchy._windowed.windows.lives import Lives
from bregjax.hierarchy._windowed.windows.schedule import WindowMerges

__all__ = ["num_greedy"]


def num_greedy(merges: WindowMerges, clusters: LivingClusters) -> int:
    """Return how many merges of a window, the first ones, are those that greedy makes.

    All of them, unless a pair comes before a step at which it lives, an intruder.

    Args:
        merges: The window's merges, in the order of their schedule.
        clusters: Those living at the window's end; those that merged keep their slots.
    """
    window = _Window.of(merges, len(clusters.alive))
    late = np.flatnonzero(window.late)
    lived = clusters.alive.copy()
    lived[merges.first] = lived[merges.second] = True
    found = clusters.pairs_within(
        late, lived, window.lives.limit(late), window.limit_of
    )
    first = _first_step_after(window, clusters, found)
    born = merges.union[~window.late[merges.union]]
    found = clusters.pairs_among(
        window.by_death(merges),
        born,
        window.gone_before,
        window.lives.limit(born),
        window.limit_of,
    )
    return min(first, _first_step_after(window, clusters, found)) - 1


@dataclass(frozen=True)
class _Window:
    """What became of the cluster in each slot over a window.

    Attributes:
        lives: When each lives, by steps of the schedule.
        born: The round that made each, 0 if before the window.
        died: The round that merged each; past the last for survivors.
        merge: The step that merges each, 0 for survivors.
        late: Whether each merged late.
    """

    lives: Lives
    born: np.ndarray
    died: np.ndarray
    merge: np.ndarray
    late: np.ndarray

    @classmethod
    def of(cls, merges: WindowMerges, size: int) -> "_Window":
        """Return what became of the clusters in `size` slots."""
        step = np.arange(1, len(merges.cost) + 1)
        birth, born, merge = np.zeros((3, size), np.int64)
        death = np.full(size, len(step) + 1)
        died = np.full(size, np.iinfo(np.int64).max)
        birth[merges.union], born[merges.union] = step, merges.round
        for part in (merges.first, merges.second):
            death[part], died[part], merge[part] = step, merges.round, step
        lives = Lives.of(birth, death, merges.cost, merges.key)
        own = lives.rank(step - 1, step)
        late = np.zeros(size, bool)
        for part in (merges.first, merges.second):
            late[part] = (lives.rank(birth[part], step) > own) | ~merges.mutual
        return cls(lives, born, died, merge, late)

    def by_death(self, merges: WindowMerges) -> np.ndarray:
        """Return slots of clusters born or merged in the window, by death, last first.

        Of those that a cluster coexists with the last stands nearer to the front so.
        """
        slots = np.unique(np.concatenate(merges[:3]))
        return slots[np.argsort(-self.lives.death[slots], kind="stable")]

    def gone_before(self, rows: np.ndarray) -> np.ndarray:
        """Whether each had merged, by rounds, when one of the rows was born.

        Without those that, by the schedule, do not live as long as the first row.
        """
        gone = self.died <= np.max(self.born[rows])
        return gone & (self.lives.death > self.lives.birth[rows[0]])

    def both_live(self, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return over which steps (begin, end] both live; none where that matters not.

        That is where both survive, or merge with each other.
        """
        birth, death = self.lives.birth, self.lives.death
        begin, end = np.maximum(birth[u], birth[v]), np.minimum(death[u], death[v])
        partners = (self.merge[u] == self.merge[v]) & (self.merge[u] > 0)
        counts = (end <= self.lives.num_steps) & ~partners
        return begin, np.where(counts, end, 0)

    def limit_of(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the cost of the greatest merge while both live, −inf for no step."""
        return self.lives.cost[self.lives.rank(*self.both_live(u, v))]


def _first_step_after(window: _Window, clusters: LivingClusters, found: Costs) -> int:
    """Return the first step that comes after a pair that lives, or past the last."""
    first = window.lives.num_steps + 1
    for u, v, cost in found:
        steps = window.lives.first_after(
            *window.both_live(u, v), cost, clusters.keys(u, v)
        )
        first = min(first, int(np.min(steps, initial=first)))
    return first

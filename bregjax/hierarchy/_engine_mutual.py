"""The engine for reducible costs: all mutual nearest neighbours merge at once.

If costs are reducible (the union of two clusters, each the other's nearest, is no
nearer to a third than both were), as Ward's are, the order in which such pairs merge
does not matter. So each round merges all of them, and the tree is greedy's.

A cluster keeps a list of its few nearest and a bound of what all others cost. Others
that merge can only go up, and of those on the list only the cost of the union is
computed. A union takes over the lists of its parts: with b_i and b_j their bounds and
Δ(i, j) the cost of the merge, for each k on neither list

    Δ(ij, k) = ((w_i + w_k) Δ(i, k) + (w_j + w_k) Δ(j, k) − w_k Δ(i, j)) / (w_ij + w_k)
             ≥ min((w_i b_i + w_j b_j) / w_ij, b_i + b_j − Δ(i, j))

as the first line is an average, of weights w_ij and w_k, of the two numbers below with
Δ in place of b. A cluster is compared with all others only where nothing on its list
costs as little as the bound: about each time that clusters have doubled in size.

Example: 0, 1, 3, 7 on a line, lists of one (costs w_a w_b / (w_a + w_b) (a − b)²): 0
has 1 at 0.5, others from 4.5; 1 has 0 at 0.5, others from 2; 3 has 1 at 2, others from
4.5; 7 has 3 at 8. Round one merges 0 and 1. For 3 the union costs 4.17, less than 4.5:
the union is its nearest, and nothing is searched. The union itself has an empty list
and the bound min(3.25, 6) = 3.25, so it is searched.

References:
    Murtagh (1983), "A survey of recent advances in hierarchical clustering algorithms".
    Lance and Williams (1967), for the formula.
"""

from dataclasses import dataclass

import numpy as np

from bregjax.hierarchy._equal_pairs import equal_pairs
from bregjax.hierarchy._interrupted import Interrupted, Report
from bregjax.hierarchy._mutual.near_points import NearPoints
from bregjax.hierarchy._mutual.neighbourhoods import Neighbourhoods

__all__ = ["MutualInfo", "mutual"]

# How many of the nearest a list has: one where clusters are so few that comparing all
# takes no time, and more from so many points on that a search takes longer than costs
# of a list (40,000 × 32: 6.1 seconds of processor time instead of 8.2).
_NEAR, _FEW = 4, 512
_MORE_NEAR, _MANY = 8, 2**14


@dataclass
class MutualInfo:
    """What the engine of mutual nearest neighbours did.

    Attributes:
        duplicates: Merges of equal points, made before all others.
        rounds: Rounds of simultaneous merges.
        searches: How often a cluster was compared with all others.

    Examples:
        >>> import bregjax as bj
        >>> x = [[float(k)] for k in (0, 0, 1, 3, 7, 15, 31, 63)]
        >>> _, info = bj.agglomerate(x, family="ward", return_info=True)
        >>> print(info.engine, info.mutual.duplicates)
        mutual 1
    """

    duplicates: int = 0
    rounds: int = 0
    searches: int = 0


def mutual(
    mean: np.ndarray,
    weight: np.ndarray,
    labels: np.ndarray,
    report: Report | None = None,
) -> tuple[np.ndarray, MutualInfo]:
    """Agglomerate by Ward's costs, in rounds.

    Time: m² to 2 m² bounds by products of matrices, and some hundred costs a point; of
    few columns m log m, by a k-d tree. Memory: O(m n).

    Ties: equal points before all others; of pairs of equal cost that share a cluster
    the one whose first slot is least, then the one whose second slot is, a cluster
    being in the slot of its first point, where no more than a few tie. Deterministic.

    Args:
        mean: Points `[m, n]`.
        weight: Their weights `[m]`.
        labels: Numbers of points, `[m]`, equal only where points are equal.
        report: Called with the number of merges made so far, from time to time.

    Returns:
        Children `[m − 1, 2]`, int32, and what was done.

    Raises:
        Interrupted: By Ctrl-C, with the merges that come before all that were not made.
            Early on these are few, for rounds make dear merges before cheap ones.
    """
    run = _Run(mean, weight, report)
    try:
        run.merge_equals(labels)
        while run.left > 1:
            run.round()
    except KeyboardInterrupt as stop:
        raise Interrupted(run.certain(), len(weight)) from stop
    return run.ordered()[0], run.info


class _Run:
    """One agglomeration: clusters in slots, their lists, and the merges made so far."""

    def __init__(
        self, mean: np.ndarray, weight: np.ndarray, report: Report | None
    ) -> None:
        self.info = MutualInfo()
        self.left = self._num_points = len(weight)
        self._points = NearPoints(mean, weight)
        self._count = _MORE_NEAR if self.left > _MANY else _NEAR
        self._near = Neighbourhoods.unknown(self.left, self._count)
        self._node = np.arange(self.left)
        self._least = 0.0
        # Of each round: pairs of nodes, and costs. In one list, of which Ctrl-C finds
        # both or neither.
        self._merges: list[tuple[np.ndarray, np.ndarray]] = []
        self._report = report

    def merge_equals(self, labels: np.ndarray) -> None:
        """Merge equal points, in pairs of pairs: as many rounds as doublings."""
        while True:
            first, second = equal_pairs(np.arange(self.left), labels, self._node)
            if not len(first):
                break
            self._record(first, second, np.zeros(len(first)))
            self._points.unite(first, second)
            kept = self._without(second)
            self._near = self._near.taken(kept)
            labels = labels[kept]
        self.info.duplicates = self._num_points - self.left

    def round(self) -> None:
        """Merge all pairs, each the other's nearest."""
        count = self._count if self.left > _FEW else 1
        near = self._near = self._near.shortened(count)
        rows = near.unsettled()
        if len(rows):
            near.put(rows, self._points.nearest(rows, count))
            self.info.searches += len(rows)
        first, second, cost = self._mutual()
        self._unite(first, second, cost)
        self.info.rounds += 1

    def _mutual(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs of slots, each the other's nearest, and their costs.

        Where such pairs share a slot, the one that comes first.
        """
        near = self._near
        best = np.min(near.cost, axis=1)
        self._least = float(np.min(best))
        row, place = np.nonzero(near.cost == best[:, None])
        other = near.index[row, place]
        # A cluster need not list all of its nearest that tie: it learns from the lists
        # of others whether one is nearer, if by a last digit.
        least = best.copy()
        np.minimum.at(least, other, best[row])
        both = least[row] == least[other]
        both &= (best[row] == least[row]) & (best[row] < np.inf)
        low = np.minimum(row, other)[both]
        high = np.maximum(row, other)[both]
        low, high = np.divmod(np.unique(low * self.left + high), self.left)
        if not np.isfinite(self._least):
            # Costs that can't be computed, as `replay` then reports of any tree.
            low, high = np.arange(self.left // 2 * 2).reshape(-1, 2).T
        alone = np.bincount(np.append(low, high), minlength=self.left) == 1
        chosen = alone[low] & alone[high]
        taken: set[int] = set()
        for k in np.flatnonzero(~chosen).tolist():
            pair = {int(low[k]), int(high[k])}
            if taken.isdisjoint(pair):
                taken |= pair
                chosen[k] = True
        return low[chosen], high[chosen], best[low[chosen]]

    def _unite(self, first: np.ndarray, second: np.ndarray, cost: np.ndarray) -> None:
        """Merge pairs of slots; let the unions' lists follow from those there are."""
        near, points = self._near, self._points
        weight = points.weight[first], points.weight[second]
        bound = _bound_of_unions(weight, near.bound[first], near.bound[second], cost)
        # Less the rounding of costs.
        bound *= 1 - 2**-50 * (points.mean.shape[1] + 8)
        to = np.arange(self.left)
        to[second] = first
        changed = np.zeros(self.left, bool)
        changed[first] = changed[second] = True
        self._record(first, second, cost)
        points.unite(first, second)
        unions = self._lists_of_unions(first, second, to, bound)
        # Of others, what unions on their lists cost.
        row, place = np.nonzero(changed[near.index] & (near.cost < np.inf))
        other = ~changed[row]
        row, place = row[other], place[other]
        near.cost[row, place] = points.costs(row, to[near.index[row, place]])
        near.index = to[near.index]
        near.put(first, unions)
        kept = self._without(second)
        moved = np.zeros(len(to), np.int64)
        moved[kept] = np.arange(len(kept))
        self._near = near.taken(kept)
        self._near.index = moved[self._near.index]

    def _lists_of_unions(
        self, first: np.ndarray, second: np.ndarray, to: np.ndarray, bound: np.ndarray
    ) -> Neighbourhoods:
        """The nearest of unions among those on the lists of their parts."""
        near = self._near
        count = near.cost.shape[1]
        cost = np.concatenate([near.cost[first], near.cost[second]], axis=1)
        slot = to[np.concatenate([near.index[first], near.index[second]], axis=1)]
        slot = np.where((cost < np.inf) & (slot != first[:, None]), slot, -1)
        slot.sort(axis=1)
        real = slot >= 0
        real[:, 1:] &= slot[:, 1:] != slot[:, :-1]
        row, place = np.nonzero(real)
        cost[:] = np.inf
        cost[row, place] = self._points.costs(first[row], slot[row, place])
        return Neighbourhoods(np.maximum(slot, 0), cost, bound).shortened(count)

    def _record(self, first: np.ndarray, second: np.ndarray, cost: np.ndarray) -> None:
        """Record merges, the unions in the first slots."""
        pairs = np.stack([self._node[first], self._node[second]], axis=1)
        self._merges.append((pairs, cost))
        made = self._num_points - self.left
        self._node[first] = self._num_points + made + np.arange(len(first))
        if self._report is not None:
            self._report(made + len(first))

    def _without(self, slots: np.ndarray) -> np.ndarray:
        """Leave out slots; return those that are kept."""
        alive = np.ones(self.left, bool)
        alive[slots] = False
        kept = np.flatnonzero(alive)
        self._points.keep(kept)
        self._node = self._node[kept]
        self.left = len(kept)
        return kept

    def ordered(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the merges in the order of costs, `[t, 2]`, and their costs.

        By rounding a union can cost less than a part: it comes after the part then.
        """
        m = self._num_points
        none = np.zeros((0, 2), np.int64)
        pairs = np.concatenate([none, *(pairs for pairs, _ in self._merges)])
        height = np.zeros(m + len(pairs))
        stop = m
        for part, cost in self._merges:
            start, stop = stop, stop + len(part)
            height[start:stop] = np.maximum(cost, np.max(height[part], axis=1))
        order = np.argsort(height[m:], kind="stable")
        number = np.arange(len(height))
        number[m + order] = m + np.arange(len(order))
        children = np.sort(number[pairs[order]], axis=1).astype(np.int32)
        return children, height[m + order]

    def certain(self) -> np.ndarray:
        """Return the merges that come before all that have not been made, `[t, 2]`."""
        children, height = self.ordered()
        return children[height <= self._least]


def _bound_of_unions(
    weight: tuple[np.ndarray, np.ndarray],
    b_i: np.ndarray,
    b_j: np.ndarray,
    cost: np.ndarray,
) -> np.ndarray:
    """Bound the costs of unions with all that are on neither part's list."""
    w_i, w_j = weight
    share = w_i / (w_i + w_j)
    # 0 · ∞ where a list has all others: NaN, which has the union searched.
    with np.errstate(invalid="ignore"):
        average = share * b_i + (1 - share) * b_j
        return np.minimum(average, b_i + b_j - cost)

"""The engine for many points: exact greedy in fat rounds, memory linear in them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.sharding import Mesh

from bregjax._typing import PyTree
from bregjax.clusters.base import ClusterModel
from bregjax.clusters.host_model import HostModel
from bregjax.clusters.screens import Screen
from bregjax.hierarchy._windowed import kernels
from bregjax.hierarchy._windowed.cached import merge_cached, serves
from bregjax.hierarchy._windowed.check import least_intruder
from bregjax.hierarchy._windowed.frontier import Frontier
from bregjax.hierarchy._windowed.placement import Placement
from bregjax.hierarchy._windowed.pool import MOST_SINGLY, Pool
from bregjax.hierarchy._windowed.schedule import Merges, schedule

__all__ = ["WindowedInfo", "windowed"]

# Shares of the clusters whose nearest is within a window's threshold: of the first, the
# largest and the smallest window. The larger, the fewer rounds; and where costs aren't
# reducible, the more windows are undone.
_SHARES, _REDUCIBLE_SHARES = (0.6, 0.7, 0.01), (0.9, 0.95, 0.01)
# By how much they change after a window that is greedy's, and one that isn't.
_GROWTH, _SHRINKAGE = 1.1, 0.7
# The same after one that failed at its first merges, and until it is large again.
_COLLAPSE, _RECOVERY = 0.25, 1.3
# A window of so few merges that fails is made one merge at a time; so many are made so
# before the next window; twice as many after each that fails at its first, and more by
# a factor where one was given up or there is a program for that.
_FEW, _FASTER = 8, 8
# Where so many merges would have been made one at a time it is compiled, which
# takes as long as a hundred of them do without; from then on windows of fewer clusters
# than so many are not tried: their rounds and the check take longer.
_BY_HOST, _WORTH = 64, 64
# Rows searched in vain, by which the clusters that are left go to the matrix engine if
# that serves: so many a cluster, of these at least so many, and a share of all others.
# It computes some four times as much. One merge from the host counts as so many pairs,
# and bounds in all digits as so many of half.
_IN_VAIN, _AT_LEAST, _OF_OTHERS, _PAIRS_BY_HOST, _BY_DIGITS = 1.1, 2000, 0.25, 2**16, 3
# A window of so many rounds, several times what they take, is given up: unions come
# ever nearer to the rest, which one merge at a time makes at less cost.
_MANY_ROUNDS = 24


@dataclass
class WindowedInfo:
    """What the windowed engine did.

    Attributes:
        duplicates: Merges of equal points, made before all others.
        windows: Windows of merges that were made.
        rounds: Rounds of simultaneous merges in them, and in those undone.
        searches: Rows compared with all clusters: at the start, when newly merged, and
            again when their nearest had gone.
        rescans: The last kind of these.
        failed_checks: Windows undone, because greedy would have merged otherwise.
        long_windows: Windows undone because their rounds did not end.
        overflows: Windows undone for want of room.
        single_steps: Merges made one at a time, where windows of a few failed.
        by_matrix: Merges made over a cached matrix of costs, the last ones.
    """

    duplicates: int = 0
    windows: int = 0
    rounds: int = 0
    searches: int = 0
    rescans: int = 0
    failed_checks: int = 0
    long_windows: int = 0
    overflows: int = 0
    single_steps: int = 0
    by_matrix: int = 0


def windowed(
    model: ClusterModel,
    leaves: PyTree,
    num_points: int,
    *,
    labels: np.ndarray | None = None,
    report: Callable[[int], None] | None = None,
    mesh: Mesh | None = None,
    screen: Screen | None = None,
    host: HostModel | None = None,
) -> tuple[np.ndarray, np.ndarray, WindowedInfo]:
    """Exact greedy agglomeration, many merges a round.

    A window takes a threshold on costs and merges, round by round, all pairs within it
    in which each is the other's nearest. That is what one merge at a time would give
    if costs were reducible; where they aren't, it nearly always is. So each window is
    checked against greedy's own order of its merges (`_windowed/check.py`), and undone
    and tried smaller, at last one merge at a time, if it isn't what greedy does.
    Costs that are reducible (squared distances: the union of two clusters, each the
    other's nearest, is no nearer to a third than they were) need no check.

    Where windows fail again and again, because unions come nearer to others than their
    parts were, the clusters that are left go to the matrix engine, if a matrix of their
    costs fits into memory and none of these is as small as its rounding
    (`_windowed/cached.py`). Else merges are made one at a time by one program
    (`_windowed/singly.py`), each at the cost of a row of bounds or two, and windows are
    tried less and less.

    Pairs are screened by lower bounds, `model.screen`; `merge_cost`, the robust
    form, decides among all that are left.

    Time: about 2.5 m² bounds, O(m) costs; where windows fail that of "matrix" on top,
    over the clusters that are left, and at most about half as much for what was undone.
    Memory: O(m n); with k clusters that are handed over k² numbers on top, where they
    fit. The loop runs on the host; what is O(m) happens there, the rest in a few
    compiled programs whose shapes depend on the size class of m alone (of those handed
    over: on theirs, two an octave).

    Ties: of pairs of equal cost the one with the least of certain fixed numbers, as
    good as random, merges first; equal points before all others; of clusters handed
    over the pair of the oldest. Deterministic.

    Args:
        model: The cluster model.
        leaves: States of leaves, `[m, ...]`, concrete; those past `num_points` are
            ignored.
        num_points: How many of them are points, at least 1.
        labels: Numbers of points, `[num_points]`, equal only where points are equal
            and cost 0 to merge.
        report: Is called with the number of merges made so far, from time to time.
        mesh: Devices to deal the clusters out to.
        screen: Lower bounds of costs, those of the model if None.
        host: Finds costs and unions, where they are solved for; the model if None.

    Returns:
        Children `[num_points − 1, 2]`, int32; costs of the merges in the robust form,
        `[num_points − 1]`, those `replay` gives up to rounding; and what was done.
    """
    bounds = kernels.screen(model, leaves) if screen is None else screen
    pool = Pool(model, bounds, leaves, num_points, Placement(mesh), host)
    run = _Run(model, pool, num_points, report)
    if labels is not None:
        run.merge_equals(labels)
    run.merge_all()
    return run.children, run.costs, run.info


class _Run:
    """The state of one agglomeration on the host."""

    def __init__(
        self,
        model: ClusterModel,
        pool: Pool,
        num_points: int,
        report: Callable[[int], None] | None,
    ) -> None:
        self.children = np.zeros((num_points - 1, 2), np.int32)
        self.costs = np.zeros(num_points - 1)
        self.info = WindowedInfo()
        self._reducible = model.reducible
        self._shares = _REDUCIBLE_SHARES if model.reducible else _SHARES
        self._singly = _FEW
        self._inverting = False
        self._caching = True
        self._in_vain = 0.0
        self._frontier = Frontier.of(pool)
        self._node = np.arange(pool.capacity)
        self._num_points = num_points
        self._made = 0
        self._report = report

    def merge_equals(self, labels: np.ndarray) -> None:
        """Merge equal points, in pairs of pairs: as many rounds as doublings."""
        frontier = self._frontier
        of_slot = np.zeros(frontier.pool.capacity, labels.dtype)
        of_slot[: len(labels)] = labels
        while True:
            slots = frontier.active
            slots = slots[np.lexsort((self._node[slots], of_slot[slots]))]
            equal = of_slot[slots[1:]] == of_slot[slots[:-1]]
            run_starts = np.flatnonzero(np.append(True, ~equal))
            lengths = np.diff(np.append(run_starts, len(slots)))
            place = np.arange(len(slots)) - np.repeat(run_starts, lengths)
            even = np.flatnonzero(equal & (place[:-1] % 2 == 0))
            if not len(even):
                break
            first, second = slots[even], slots[even + 1]
            union = frontier.unite(first, second)
            of_slot[union] = of_slot[first]
            self._commit(first, second, union, np.zeros(len(union)))
            kept, moved = self._compact()
            of_slot[moved] = of_slot[kept]
        self.info.duplicates = self._made

    def merge_all(self) -> None:
        """Search all nearest, then merge by windows until one cluster is left."""
        frontier = self._frontier
        frontier.search()
        share = self._shares[0]
        while self._left > 1:
            self._make_room()
            if self._is_costly() and self._merge_cached():
                break
            if self._inverting and share * self._left < _WORTH:
                self._merge_singly(_WORTH)
                share *= _RECOVERY
                continue
            bounds = np.sort(frontier.bound[frontier.active])
            share = self._merge_window(bounds[int(share * len(bounds))], share)
        # Costs that could not be had were searched with as the largest number.
        self.costs[self.costs >= np.finfo(frontier.pool.dtype).max] = np.nan
        self.info.searches = frontier.searches
        self.info.rescans = frontier.rescans

    @property
    def _left(self) -> int:
        """Number of clusters."""
        return self._num_points - self._made

    def _merge_window(self, threshold: float, share: float) -> float:
        """Make merges within a threshold; the share of clusters to try next."""
        info, frontier = self.info, self._frontier
        usual, largest, smallest = self._shares
        before = frontier.snapshot()
        start, searches = frontier.pool.used, frontier.searches
        merges = self._optimistic(threshold)
        if merges is None:
            info.overflows += 1
            frontier.restore(before)
            if share < smallest:
                self._merge_singly(1)
            return share / 2
        if self._is_long(merges):
            info.long_windows += 1
            self._undo(before, searches)
            return self._step_back(1, share, 0)
        if not len(merges.cost):  # nothing but bounds below what is there
            return share
        order = schedule(merges)
        intruder = np.inf
        if not self._reducible:
            intruder = least_intruder(merges, order, frontier, start)
        if intruder == np.inf:
            self._commit(*(field[order] for field in merges[:4]))
            info.windows += 1
            self._singly = max(self._singly // 2, _FEW) if self._inverting else _FEW
            growth = _GROWTH if share > usual / 2 else _RECOVERY
            return min(growth * share, largest)
        info.failed_checks += 1
        self._undo(before, searches)
        lower = np.nextafter(intruder, -np.inf)
        count = int(np.count_nonzero(merges.cost <= lower))
        few = _WORTH if self._inverting else _FEW
        if count <= few or lower >= threshold:
            return self._step_back(min(count, few) + 1, share, len(merges.cost))
        self._merge_window(lower, share)
        return max(_SHRINKAGE * share, smallest)

    def _undo(self, before: dict[str, Any], searches: int) -> None:
        """Return to before a window, which began after so many searches."""
        pool = self._frontier.pool
        each = 1 if pool.screen_dtype == np.float32 else _BY_DIGITS
        self._in_vain += each * (self._frontier.searches - searches)
        self._frontier.restore(before)

    def _step_back(self, count: int, share: float, size: int) -> float:
        """Make merges one at a time, so many or more; the share to try next.

        More the next time, if a window of a small size failed; 0 is one given up.
        """
        self._merge_singly(max(count, self._singly))
        if size > 4 * self._singly and not self._inverting:
            return max(_COLLAPSE * share, self._shares[2])
        # Where greedy is not to be foreseen it may stay so for a while.
        self._singly *= _FASTER if self._inverting or not size else 2
        return max(_COLLAPSE * share, self._shares[2])

    def _is_long(self, merges: Merges) -> bool:
        """Whether a window has taken so many rounds that it is given up."""
        return not self._reducible and np.max(merges.round, initial=0) > _MANY_ROUNDS

    def _optimistic(self, threshold: float) -> Merges | None:
        """Merge by rounds, until no pair is within the threshold, or they get long.

        None if room ends.
        """
        frontier = self._frontier
        rounds = [Merges.none()]
        while True:
            frontier.refresh(threshold)
            first, second = frontier.mutual(threshold)
            if not len(first) or self._is_long(rounds[-1]):
                return Merges.joined(rounds)
            if len(first) > frontier.pool.room:
                return None
            cost, key = frontier.bound[first], frontier.keys(first, second)
            mutual = frontier.exact[second] & (frontier.nearest[second] == first)
            union = frontier.merge(first, second, threshold)
            which = np.full(len(union), len(rounds))
            made = Merges(first, second, union, cost, key, which, mutual)
            rounds.append(made)
            self.info.rounds += 1

    def _merge_singly(self, count: int) -> None:
        """Make merges one at a time, as greedy does."""
        count = min(count, self._left - 1)
        often = self.info.single_steps + count > _BY_HOST
        if often and self._merge_cached():
            return
        # From here on: a program for single merges pays.
        self._inverting |= often and self._frontier.pool.merges_singly
        if self._inverting:
            self._merge_compiled(count)
        else:
            self._merge_from_host(count)

    def _merge_cached(self) -> bool:
        """Make all merges that are left over a matrix of costs, where that serves."""
        frontier = self._frontier
        first, _ = frontier.first_pair()
        slots = frontier.active
        slots = slots[np.argsort(self._node[slots])]
        if not (self._caching and serves(frontier.pool, slots, *frontier.bound[first])):
            return False
        found = merge_cached(frontier.pool, slots)
        if found is None:
            self._caching = False
            return False
        children, costs = found
        unions = self._num_points + self._made + np.arange(len(children))
        self._record(np.append(self._node[slots], unions)[children], costs)
        self.info.by_matrix += len(children)
        return True

    def _merge_compiled(self, count: int) -> None:
        """Make merges one at a time, many in one call."""
        pool = self._frontier.pool
        while count:
            self._make_room()
            some, start = min(count, MOST_SINGLY, pool.room), pool.used
            made = self._frontier.merge_singly(some)
            first, second, cost = (np.asarray(values)[:some] for values in made[:3])
            self._commit(first, second, np.arange(start, pool.used), cost)
            self.info.single_steps += some
            count -= some

    def _merge_from_host(self, count: int) -> None:
        """Make merges one at a time, each by a few calls that windows make too."""
        for _ in range(count):
            self._make_room()
            first, second = self._frontier.first_pair()
            cost = self._frontier.bound[first]
            self._commit(first, second, self._frontier.merge(first, second), cost)
            self.info.single_steps += 1
            self._in_vain += _PAIRS_BY_HOST / max(self._left, _AT_LEAST)

    def _is_costly(self) -> bool:
        """Whether so much was done in vain that costs are better had all at once."""
        others = max(self._frontier.searches - self._in_vain, 0)
        most = _IN_VAIN * max(self._left, _AT_LEAST) + _OF_OTHERS * others
        return self._in_vain > most

    def _make_room(self) -> None:
        pool = self._frontier.pool
        if pool.room < self._left // 2 + 1 or self._left < 0.85 * pool.used:
            self._compact()

    def _compact(self) -> tuple[np.ndarray, np.ndarray]:
        kept, moved = self._frontier.compact()
        self._node[moved] = self._node[kept]
        return kept, moved

    def _commit(
        self,
        first: np.ndarray,
        second: np.ndarray,
        union: np.ndarray,
        cost: np.ndarray,
    ) -> None:
        """Record merges in the order that they are in."""
        # Also of those that are parts of later ones.
        self._node[union] = self._num_points + self._made + np.arange(len(union))
        self._record(np.stack([self._node[first], self._node[second]], axis=1), cost)

    def _record(self, pairs: np.ndarray, cost: np.ndarray) -> None:
        """Record merges of nodes."""
        rows = slice(self._made, self._made + len(pairs))
        self.children[rows] = np.sort(pairs, axis=1)
        self.costs[rows] = cost
        self._made = rows.stop
        if self._report is not None:
            self._report(self._made)

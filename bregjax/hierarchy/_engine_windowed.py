"""The windowed engine: greedy's tree in rounds of many merges, in O(m n) memory.

`_windowed/` has its three layers and `docs/windowed.md` an example with numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jax.sharding import Mesh

from bregjax._evaluation import padded_size
from bregjax._typing import PyTree
from bregjax.clusters import ClusterModel, HostModel, Screen
from bregjax.clusters._host_clusters import HostClusters
from bregjax.clusters._host_model import rows_of
from bregjax.clusters._quick_clusters import QuickClusters, ScreenedClusters
from bregjax.hierarchy._equal_pairs import equal_pairs
from bregjax.hierarchy._interrupted import Interrupted
from bregjax.hierarchy._windowed.fallbacks import one_by_one
from bregjax.hierarchy._windowed.fallbacks.cached import merge_cached, serves
from bregjax.hierarchy._windowed.fallbacks.quick_matrix import merge_over_matrix
from bregjax.hierarchy._windowed.neighbours.neighbours import Neighbours
from bregjax.hierarchy._windowed.store import kernels
from bregjax.hierarchy._windowed.store.placement import Placement
from bregjax.hierarchy._windowed.store.quick_store import QuickStore
from bregjax.hierarchy._windowed.store.store import Store
from bregjax.hierarchy._windowed.windows.pace import Pace
from bregjax.hierarchy._windowed.windows.window import Ending, merge_window

__all__ = ["WindowedInfo", "windowed"]


@dataclass
class WindowedInfo:
    """What the windowed engine did.

    Attributes:
        duplicates: Merges of equal points, made before all others.
        windows: Windows of which all merges were kept.
        rounds: Rounds of simultaneous merges, in windows kept or undone.
        searches: Rows compared with all clusters: at the start, when a cluster is born,
            and again when all nearest that it knew have merged.
        rescans: Searches of this last kind.
        failed_checks: Windows of which only the first merges were kept, because greedy
            would have gone on otherwise.
        long_windows: Windows undone because their rounds did not end.
        overflows: Windows undone because there was no room for their unions.
        single_steps: Merges made one at a time, where even small windows failed.
        by_matrix: Merges made over a matrix of costs, always the last ones.

    Examples:
        >>> import bregjax as bj
        >>> x = [[float(k)] for k in (0, 0, 1, 3, 7, 15, 31, 63)]
        >>> _, info = bj.agglomerate(
        ...     x, family="ward", engine="windowed", return_info=True
        ... )
        >>> print(info.windowed.duplicates, info.windowed.failed_checks)
        1 0
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
    quick: QuickClusters | None = None,
) -> tuple[np.ndarray, np.ndarray, WindowedInfo]:
    """Agglomerate as greedy does, many merges a round.

    A window takes a threshold on costs and merges, round by round, all pairs within it
    in which each is the other's nearest. If costs are reducible (the union of two
    clusters, each the other's nearest, is no nearer to a third than both were), as
    squared distances are, one merge at a time makes the same merges. Otherwise it
    nearly always does. So each window is checked against the order in which greedy
    makes its merges. Those before the first that is not greedy's are kept, the others
    undone, and the next window is smaller. Where few are kept, some merges are made one
    at a time.

    Where compiled windows fail again and again, the clusters that are left go to the
    matrix engine, if a matrix of their costs fits into memory and no cost is as small
    as its rounding. Otherwise merges are made one at a time by one program, each at the
    cost of a row of bounds or two, and fewer windows are tried.

    Pairs are screened by lower bounds; `merge_cost` decides among those that are left.

    Where clusters have quick bounds all is done by NumPy, and nothing is compiled
    (`QuickStore`). Single merges are made from the host there, and the last hundred or
    so, or more where windows fail again and again, over a matrix of costs. Where bounds
    are quick for a few clusters alone, programs bound the costs of more, and NumPy goes
    on when few are left.

    Time: about 2.5 m² bounds and O(m) costs. Where windows fail, that of "matrix" on
    top, over the clusters that are left, and at most about half as much for what was
    undone. Memory: O(m n); k² numbers on top for k clusters that go to the matrix
    engine. What is O(m) happens on the host, all else in a few compiled programs whose
    shapes depend on the size class of m alone (the matrix engine's: two an octave).

    Ties: equal points merge first. Of pairs of equal cost, the one of least key merges
    first, a number that is as good as random but fixed; in the matrix engine the pair
    of the oldest clusters. Deterministic.

    Args:
        model: The cluster model.
        leaves: States of leaves, `[m, ...]`, concrete; those past `num_points` are
            ignored.
        num_points: Number of points, at least 1.
        labels: Numbers of points, `[num_points]`, equal only where points are equal
            and cost 0 to merge.
        report: Called with the number of merges made so far, from time to time.
        mesh: Devices to deal the clusters out to; the default one if None.
        screen: Lower bounds of costs; those of the model if None.
        host: Finds costs and unions, where they are solved for; the model if None.
        quick: The leaves by NumPy, if their costs have a closed form there; these take
            the place of the model's.

    Returns:
        Children `[num_points − 1, 2]`, int32; merge costs by `merge_cost`,
        `[num_points − 1]`, which `replay` gives up to rounding; and what was done.

    Raises:
        Interrupted: By Ctrl-C.
    """
    if quick is not None:
        distinct = num_points if labels is None else len(np.unique(labels))
        store = _store_of(quick, model, distinct)
    else:
        bounds = kernels.screen(model, leaves) if screen is None else screen
        by_numpy = None if host is None else HostClusters(host, leaves)
        store = Store(model, bounds, leaves, num_points, Placement(mesh), by_numpy)
    run = _Run(store, num_points, report, reducible=model.reducible)
    try:
        if labels is not None:
            run.merge_equals(labels)
        run.merge_all()
    except KeyboardInterrupt as stop:
        raise Interrupted(run.children[: run.made], num_points) from stop
    return run.children, run.costs, run.info


def _store_of(
    quick: QuickClusters, model: ClusterModel, distinct: int
) -> Store | QuickStore:
    """The store of clusters by NumPy: with compiled bounds where theirs take longer."""
    if not isinstance(quick, ScreenedClusters) or quick.bounds_serve(distinct):
        return QuickStore(quick)
    count = len(quick.weight)
    # Programs have few sizes.
    filled = np.minimum(np.arange(padded_size(count)), count - 1)
    leaves = rows_of(quick.states, filled)
    return Store(model, quick.screen(), leaves, count, by_numpy=quick)


class _Run:
    """One agglomeration: nodes of the tree by slot, and the merges made so far."""

    def __init__(
        self,
        store: Store | QuickStore,
        num_points: int,
        report: Callable[[int], None] | None = None,
        *,
        reducible: bool = False,
    ) -> None:
        self.children = np.zeros((num_points - 1, 2), np.int32)
        self.costs = np.zeros(num_points - 1)
        self.info = WindowedInfo()
        self.clusters = Neighbours.of(store)
        self._reducible = reducible
        expensive = isinstance(store, QuickStore) or store.has_closer
        self._pace = Pace(reducible=reducible, expensive=expensive)
        self._caching = True
        self._node = np.arange(store.capacity)
        self._num_points = num_points
        self.made = 0
        self._report = report

    def merge_equals(self, labels: np.ndarray) -> None:
        """Merge equal points, in pairs of pairs: as many rounds as doublings."""
        clusters = self.clusters
        of_slot = np.zeros(clusters.store.capacity, labels.dtype)
        of_slot[: len(labels)] = labels
        while True:
            first, second = equal_pairs(clusters.active, of_slot, self._node)
            if not len(first):
                break
            union = clusters.unite(first, second)
            of_slot[union] = of_slot[first]
            self._commit(first, second, union, np.zeros(len(union)))
            kept, moved = self._compact()
            of_slot[moved] = of_slot[kept]
        self.info.duplicates = self.made

    def merge_all(self) -> None:
        """Search all nearest, then merge by windows until one cluster is left."""
        clusters, pace = self.clusters, self._pace
        if not self._merge_few():
            clusters.search()
        while self._left > 1:
            if self._merge_few():
                break
            self._go_on_by_numpy()
            self._make_room()
            costly = pace.is_costly(self._left, clusters.searches)
            if costly and self._merge_cached():
                break
            count = pace.before_next(self._left)
            if count:
                self._merge_singly(count)
                continue
            bounds = np.sort(clusters.bound[clusters.active])
            self._merge_window(bounds[int(pace.share * len(bounds))])
        # Costs that could not be computed were replaced by the largest number.
        self.costs[self.costs >= np.finfo(clusters.store.dtype).max] = np.nan
        self.info.searches = clusters.searches
        self.info.rescans = clusters.rescans

    @property
    def _left(self) -> int:
        """Number of clusters."""
        return self._num_points - self.made

    def _merge_window(self, threshold: float) -> None:
        """Merge by a window, or what it keeps; if little, one merge at a time."""
        info, pace, clusters = self.info, self._pace, self.clusters
        searches = clusters.searches
        window = merge_window(clusters, threshold, reducible=self._reducible)
        info.rounds += window.rounds
        merges = window.merges
        self._commit(merges.first, merges.second, merges.union, merges.cost)
        if window.ending is Ending.GREEDY:
            info.windows += 1
            pace.greedy()
        elif window.ending is Ending.NO_ROOM:
            info.overflows += 1
            if pace.is_smallest:
                self._merge_singly(1)
            pace.no_room()
        elif window.ending is Ending.LONG:
            info.long_windows += 1
            pace.undone(clusters.searches - searches, clusters.store.screen_dtype)
            self._step_back(0)
        elif window.ending is Ending.IN_PART:
            info.failed_checks += 1
            # Those of the merges kept were made twice.
            kept = len(merges.cost) / window.tried
            searches = (clusters.searches - searches) / (1 + kept)
            pace.undone(searches, clusters.store.screen_dtype)
            if len(merges.cost) <= pace.few:
                self._step_back(window.tried)
            else:
                pace.failed()

    def _step_back(self, size: int) -> None:
        """Make some merges one at a time, after a window of a size."""
        self._merge_singly(self._pace.singly)
        self._pace.stepped_back(size)

    def _merge_singly(self, count: int) -> None:
        """Make merges one at a time, as greedy does."""
        count = min(count, self._left - 1)
        often = self._pace.is_often(self.info.single_steps + count)
        if often and self._merge_cached():
            return
        if often and one_by_one.serves(self.clusters.store):
            self._pace.inverting = True
        if self._pace.inverting:
            self._merge_compiled(count)
        else:
            self._merge_from_host(count)

    def _merge_few(self) -> bool:
        """Make all merges that are left over a matrix by NumPy, if few are."""
        store = self.clusters.store
        if not isinstance(store, QuickStore) or not store.are_few(self._left):
            return False
        self._merge_over_matrix(store)
        return True

    def _merge_cached(self) -> bool:
        """Make all merges that are left over a matrix of costs, where that serves."""
        clusters, store = self.clusters, self.clusters.store
        if isinstance(store, QuickStore):
            if not store.matrix_serves(self._left):
                return False
            self._merge_over_matrix(store)
            return True
        if not self._caching:
            return False
        least = clusters.first_pair().cost[0]
        slots = clusters.active
        slots = slots[np.argsort(self._node[slots])]
        if not serves(store, slots, least):
            return False
        found = merge_cached(store, slots)
        if found is None:
            self._caching = False
            return False
        self._record_all(slots, *found)
        return True

    def _merge_over_matrix(self, store: QuickStore) -> None:
        slots = self.clusters.active
        merges = merge_over_matrix(store.taken(slots), self.clusters.key[slots])
        self._record_all(slots, *merges)

    def _record_all(
        self, slots: np.ndarray, children: np.ndarray, costs: np.ndarray
    ) -> None:
        """Record merges, over a matrix, of clusters in slots and then of merges."""
        unions = self._num_points + self.made + np.arange(len(children))
        self._record(np.append(self._node[slots], unions)[children], costs)
        self.info.by_matrix += len(children)

    def _merge_compiled(self, count: int) -> None:
        """Make merges one at a time, many in one call."""
        while count:
            self._make_room()
            some = min(count, one_by_one.MOST, self.clusters.room)
            self._commit(*one_by_one.merge_singly(self.clusters, some))
            self.info.single_steps += some
            count -= some

    def _merge_from_host(self, count: int) -> None:
        """Make merges one at a time, each by a few calls that windows make too."""
        for _ in range(count):
            self._make_room()
            first, second, cost, *_ = self.clusters.first_pair()
            self._commit(first, second, self.clusters.merge(first, second), cost)
            self.info.single_steps += 1
            self._pace.merged_by_host(self._left)

    def _make_room(self) -> None:
        store = self.clusters.store
        if store.room < self._left // 2 + 1 or self._left < 0.85 * store.used:
            self._compact()

    def _go_on_by_numpy(self) -> None:
        """Leave a compiled store where NumPy bounds so few clusters as quickly."""
        clusters, store = self.clusters, self.clusters.store
        if isinstance(store, QuickStore):
            return
        found = store.by_numpy
        if isinstance(found, ScreenedClusters) and found.bounds_serve(self._left):
            rest = QuickStore(found.taken(clusters.active))
            kept, moved = clusters.go_on_in(rest)
            self._node[moved] = self._node[kept]
            # The program for single merges is of compiled stores.
            self._pace.inverting = False

    def _compact(self) -> tuple[np.ndarray, np.ndarray]:
        kept, moved = self.clusters.compact()
        self._node[moved] = self._node[kept]
        return kept, moved

    def _commit(
        self,
        first: np.ndarray,
        second: np.ndarray,
        union: np.ndarray,
        cost: np.ndarray,
    ) -> None:
        """Record merges of slots in the order that they are in."""
        # Before nodes are read: a union may be a part of a later merge.
        self._node[union] = self._num_points + self.made + np.arange(len(union))
        self._record(np.stack([self._node[first], self._node[second]], axis=1), cost)

    def _record(self, pairs: np.ndarray, cost: np.ndarray) -> None:
        """Record merges of nodes."""
        rows = slice(self.made, self.made + len(pairs))
        self.children[rows] = np.sort(pairs, axis=1)
        self.costs[rows] = cost
        self.made = rows.stop
        if self._report is not None:
            self._report(self.made)

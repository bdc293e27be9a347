"""The engine for many points: exact greedy in fat rounds, memory linear in them."""

from dataclasses import dataclass

import numpy as np

from bregjax._typing import PyTree
from bregjax.cluster_model import ClusterModel
from bregjax.hierarchy._windowed.frontier import Frontier, pair_keys
from bregjax.hierarchy._windowed.pool import Pool, Shapes
from bregjax.hierarchy._windowed.window import Window

__all__ = ["WindowedInfo", "windowed"]

_FIRST_QUANTILE = 0.3
_LAST_QUANTILE = 0.5


@dataclass
class WindowedInfo:
    """What the engine did.

    Attributes:
        windows: Windows committed.
        rounds: Rounds of merges, in windows rolled back too.
        rescans: Rows searched again.
        failed_checks: Windows rolled back because greedy would have merged otherwise.
        overflows: Windows rolled back because slots ran out.
        single_steps: Merges made one at a time after failed checks.
    """

    windows: int = 0
    rounds: int = 0
    rescans: int = 0
    failed_checks: int = 0
    overflows: int = 0
    single_steps: int = 0


def windowed(model, leaves, num_points, *, progress=None):
    run = _Run(model, leaves, num_points, progress)
    children = run.to_the_end()
    return children, run.info


class _Run:
    def __init__(self, model, leaves, num_points, progress) -> None:
        self.model = model
        pool = Pool(model, leaves, Shapes.of(model, leaves))
        pool.used = num_points
        self.frontier = Frontier.of(pool, num_points)
        self.node = np.zeros(pool.capacity, np.int64)
        self.node[:num_points] = np.arange(num_points)
        self.num_points = num_points
        self.children = np.zeros((num_points - 1, 2), np.int64)
        self.costs = np.zeros(num_points - 1)
        self.made = 0
        self.info = WindowedInfo()
        self.progress = progress

    @property
    def left(self):
        return self.num_points - self.made

    def to_the_end(self):
        quantile = _FIRST_QUANTILE
        frontier = self.frontier
        frontier.front(np.inf)
        frontier.rescans = 0
        while self.left > 1:
            self.make_room()
            bounds = np.sort(frontier.bound[frontier.alive])
            threshold = bounds[min(int(quantile * len(bounds)), len(bounds) - 1)]
            quantile = self.window(threshold, quantile)
        self.info.rescans = frontier.rescans
        return self.children

    def make_room(self):
        pool = self.frontier.pool
        free = pool.capacity - pool.used
        if free < self.left // 2 + 1 or self.left < 0.75 * pool.used:
            kept = self.frontier.compact()
            self.node[: len(kept)] = self.node[kept]

    def window(self, threshold, quantile):
        info = self.info
        start = self.frontier.pool.used
        while True:
            before = self.frontier.snapshot()
            window = self.optimistic(threshold)
            if window is None or len(window.order) == 0:
                break
            if self.model.reducible or window.is_greedy(self.frontier, start):
                break
            info.failed_checks += 1
            quantile = max(quantile / 2, 0.01)
            self.restore(before, start)
            count = len(window.order)
            lower = np.sort(window.cost)[count // 4]
            if count <= 8 or lower >= threshold:
                self.one_at_a_time(count)
                return quantile
            threshold = lower
        if window is None:
            info.overflows += 1
            self.restore(before, start)
            if quantile < 0.01:
                self.one_at_a_time(1)
            return quantile / 2
        self.commit(window)
        info.windows += 1
        return min(quantile * 1.1, _LAST_QUANTILE)

    def restore(self, before, start):
        before.rescans = self.frontier.rescans
        self.frontier = before
        self.frontier.pool.used = start

    def optimistic(self, threshold):
        frontier = self.frontier
        log = []
        while True:
            frontier.front(threshold)
            first, second = frontier.mutual(threshold)
            if len(first) == 0:
                break
            if frontier.pool.used + len(first) > frontier.pool.capacity:
                return None
            cost = frontier.bound[first]
            key = pair_keys(frontier.key[first], frontier.key[second])
            union = frontier.merge(first, second)
            self.info.rounds += 1
            log.append((first, second, union, cost, key))
        if not log:
            empty = np.zeros(0, np.int64)
            return Window(empty, empty, empty, np.zeros(0), np.zeros(0, np.uint32))
        return Window(*(np.concatenate(part) for part in zip(*log, strict=True)))

    def one_at_a_time(self, count):
        for _ in range(count):
            self.make_room()
            frontier = self.frontier
            while True:
                alive = frontier.active
                least = frontier.bound[alive].min()
                stale = ~frontier.exact[alive] & (frontier.bound[alive] <= least)
                if not np.any(stale):
                    break
                frontier.front(least)
            rows = alive[frontier.bound[alive] == least]
            first, second = frontier.cheapest(rows)
            cost = frontier.bound[first]
            key = pair_keys(frontier.key[first], frontier.key[second])
            union = frontier.merge(first, second)
            self.commit(Window(first, second, union, cost, key))
            self.info.single_steps += 1

    def commit(self, window):
        order = window.order
        ids = self.num_points + self.made + np.arange(len(order))
        self.node[window.union[order]] = ids
        pairs = np.stack([self.node[window.first], self.node[window.second]], axis=1)
        rows = slice(self.made, self.made + len(order))
        self.children[rows] = np.sort(pairs[order], axis=1)
        self.costs[rows] = window.cost[order]
        self.made += len(order)
        if self.progress is not None:
            self.progress(self.made)

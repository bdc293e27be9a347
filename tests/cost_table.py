"""Living clusters whose costs are all in a table: what windows ask for, in NumPy."""

from typing import Any

import numpy as np


def of_counts(x):
    """Sums of the statistics of single counts; their weights are the last column."""
    return np.column_stack([x, np.ones(len(x))])


def of_gaussians(weight, mean, variance):
    """Sums of the statistics of Gaussians of a weight, and their weights."""
    weight = weight[:, None]
    return np.hstack([weight * mean, weight * (mean**2 + variance), weight])


def poisson_cost(a, b):
    """Σ_j x log(x / w) of both, less that of the union; 0 log 0 = 0."""

    def part(s):
        x, w = s[..., :-1], s[..., -1:]
        return np.sum(x * np.log(np.where(x > 0, x, 1) / w), axis=-1)

    return part(a) + part(b) - part(a + b)


def gaussian_cost(a, b):
    """½ Σ_j w log(variance) of the union, less that of both."""

    def part(s):
        (first, second), w = np.split(s[..., :-1], 2, axis=-1), s[..., -1:]
        return np.sum(w * np.log(second / w - (first / w) ** 2), axis=-1) / 2

    return part(a + b) - part(a) - part(b)


class CostTable:
    """A `Clusters` for windows, slow and plain: every cost of every pair is computed.

    Attributes:
        alive: Slots that hold a living cluster.
        members: The points of the cluster in each slot.
    """

    def __init__(self, sums, cost):
        m = len(sums)
        self.alive = np.arange(2 * m) < m
        self.members = [frozenset([i]) for i in range(m)]
        self._sums = np.zeros((2 * m, sums.shape[1]))
        self._sums[:m] = sums
        self._cost = cost

    @property
    def room(self):
        return len(self.alive) - len(self.members)

    def costs(self, u, v):
        """Costs of pairs of slots, the same in either order."""
        low, high = np.minimum(u, v), np.maximum(u, v)
        return self._cost(self._sums[low], self._sums[high])

    def snapshot(self) -> dict[str, Any]:
        return {"alive": self.alive.copy(), "used": len(self.members)}

    def restore(self, saved):
        self.alive = saved["alive"]
        del self.members[saved["used"] :]

    def refresh(self, threshold):
        """All costs are known."""

    def keys(self, first, second):
        return (np.minimum(first, second) * 1000 + np.maximum(first, second)).astype(
            np.uint32
        )

    def nearest(self):
        """Slots of living clusters, their nearest, and what these cost."""
        slots = np.flatnonzero(self.alive)
        u, v = np.meshgrid(slots, slots, indexing="ij")
        cost = np.where(u == v, np.inf, self.costs(u, v))
        best = np.lexsort((self.keys(u, v), cost), axis=1)[:, 0]
        return slots, slots[best], cost[np.arange(len(slots)), best]

    def mutual(self, threshold):
        slots, nearest, cost = self.nearest()
        back = nearest[np.searchsorted(slots, nearest)]
        chosen = (back == slots) & (slots < nearest) & (cost <= threshold)
        first, second = slots[chosen], nearest[chosen]
        keys = self.keys(first, second)
        return first, second, cost[chosen], keys, np.ones(len(first), bool)

    def merge(self, first, second, threshold):
        union = len(self.members) + np.arange(len(first))
        self._sums[union] = self._sums[first] + self._sums[second]
        for u, v in zip(first, second, strict=True):
            self.members.append(self.members[u] | self.members[v])
        self.alive[first] = self.alive[second] = False
        self.alive[union] = True
        return union

    def pairs_within(self, rows, among, limit, limit_of=None):
        for row, most in zip(rows, limit, strict=True):
            there = np.asarray(among(np.array([row])) if callable(among) else among)
            v = np.flatnonzero(there)
            u = np.full(len(v), row)
            limits = np.full(len(u), most) if limit_of is None else limit_of(u, v)
            counts = (u != v) & (limits > -np.inf)
            u, v, limits = u[counts], v[counts], limits[counts]
            cost = self.costs(u, v)
            near = cost <= limits
            yield u[near], v[near], cost[near]

    def pairs_among(self, slots, rows, among, limit, limit_of=None):
        return self.pairs_within(rows, among, limit, limit_of)

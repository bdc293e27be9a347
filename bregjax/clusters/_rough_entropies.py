"""Costs of entropies as differences, and how wrong rounding makes them.

With f(t) = t log t summed over columns, and c the mean of the union of a and b,

    Δ(a, b) = w_a f(a) + w_b f(b) − w f(c)

cancels where a and b are near, but in float64 it is off by 1e-12 or so: enough to tell
nearly all pairs apart. With p the larger share of weight

    Δ(a, b) ≥ (2 / (1 + p)) (w_a w_b / w) ‖√a − √b‖²,

which one product of matrices gives for all pairs. (In one column with b = 1 the ratio
of Δ to (w_a w_b / w) (√a − 1)² is 2 at a = 1 and falls to −log p / (1 − p) where the
lighter mean is 0, and that is at least 2 / (1 + p).)

Example: means 2 and 8 of weight 1. Δ = 2 · (½ · 1.386 + ½ · 16.64 − 5 log 5) = 1.927,
and the bound is (4/3) · ½ · (2.828 − 1.414)² = 1.333.
"""

import numpy as np
from typing_extensions import override

from bregjax.clusters._bregman_model import MeanState
from bregjax.clusters._rough_costs import RoughCosts
from bregjax.clusters._small_matrices import multiply

__all__ = ["RoughEntropies"]

_EPS = np.finfo(float).eps
_TINY = np.finfo(float).tiny
# Pairs that are bounded together, and whose costs are computed together: what a cache
# holds.
_BLOCK, _PAIRS = 2**16, 2**10
# Unions at a time, at most.
_ROOM = 256
# What slots have.
_KEPT = ("_weight", "_mean", "_roots", "_norm", "_own", "_size", "_depth")


class RoughEntropies(RoughCosts):
    """Clusters in slots: weights, means in one unit, their roots and entropies.

    `_own` is w Σ t log t, `_size` w Σ (|t log t| + t), which rounding goes by, and
    `_depth` the most unions on the way from a point: each adds roundings to means.
    """

    def __init__(self, points: MeanState) -> None:
        """Put points into slots.

        Args:
            points: Clusters with means of at least 0, `[m, n]`.
        """
        m = len(points.weight)
        self._slots = m
        self.room = max(min(_ROOM, m // 2), 1)
        slots = np.concatenate([np.arange(m), np.zeros(self.room, int)])
        mean = np.asarray(points.mean, float)
        unit = float(np.mean(mean))
        self._unit = unit if unit > 0 else 1.0
        self._weight = np.asarray(points.weight, float)[slots]
        self._mean = mean[slots] / self._unit
        self._roots, self._norm = np.empty_like(self._mean), np.empty(len(slots))
        self._own, self._size = np.empty((2, len(slots)))
        self._depth = np.zeros(len(slots))
        self._describe(slice(None))

    def _describe(self, some: slice) -> None:
        """Fill in what follows from weights and means."""
        weight, mean = self._weight[some], self._mean[some]
        self._roots[some] = np.sqrt(mean)
        self._norm[some] = np.sum(mean, axis=1)
        terms = mean * np.log(np.maximum(mean, _TINY))
        self._own[some] = weight * np.sum(terms, axis=1)
        self._size[some] = weight * np.sum(np.abs(terms) + mean, axis=1)

    @override
    def first_bounds(self) -> np.ndarray:
        m = self._slots
        bounds = np.empty((m, m))
        for start in range(0, m, step := max(_BLOCK // m, 1)):
            rows = slice(start, min(start + step, m))
            self._bound(rows, slice(0, m), bounds[rows])
        np.fill_diagonal(bounds, np.inf)
        return bounds

    def _bound(self, rows: slice, columns: slice, out: np.ndarray) -> None:
        """Bound costs of slots with others by roots, `[r, c]`."""
        multiply(self._roots[rows], -2 * self._roots[columns].T, out)
        depth = self._depth[rows, None] + self._depth[columns]
        norms = self._norm[rows, None] + self._norm[columns]
        # Rounding of the product, and of roots, in units of the norms.
        out += (1 - (2 * self._mean.shape[1] + 16 + 16 * depth) * _EPS) * norms
        np.maximum(out, 0, out=out)
        a, b = 1 / self._weight[rows, None], 1 / self._weight[columns]
        out *= 2 * (1 - 16 * _EPS) * self._unit
        out /= a + b + np.maximum(a, b)

    @override
    def costs(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cost, error = np.empty((2, len(low)))
        for start in range(0, len(low), _PAIRS):
            part = slice(start, start + _PAIRS)
            cost[part], error[part] = self._costs(low[part], high[part])
        return cost, error

    def _costs(
        self, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        weight, mean = self._joined(low, high)
        terms = mean * np.log(np.maximum(mean, _TINY))
        cost = self._own[low] + self._own[high] - weight * np.sum(terms, axis=1)
        size = self._size[low] + self._size[high]
        size += weight * np.sum(np.abs(terms) + mean, axis=1)
        depth = np.maximum(self._depth[low], self._depth[high])
        rounding = (mean.shape[1] + 16 + 8 * depth) * _EPS
        return self._unit * cost, self._unit * rounding * size

    def _joined(
        self, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights `[p]` and means `[p, n]` of unions."""
        a, b = self._weight[low], self._weight[high]
        weight = a + b
        mean = (a / weight)[:, None] * self._mean[low]
        mean += (b / weight)[:, None] * self._mean[high]
        return weight, mean

    @override
    def unite(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        some = slice(self._slots, self._slots + len(low))
        self._weight[some], self._mean[some] = self._joined(low, high)
        self._depth[some] = 1 + np.maximum(self._depth[low], self._depth[high])
        self._describe(some)
        return np.arange(some.start, some.stop)

    @override
    def bounds(
        self, unions: slice, others: slice, limit: np.ndarray, out: np.ndarray
    ) -> None:
        del limit
        rows = slice(self._slots + unions.start, self._slots + unions.stop)
        self._bound(rows, others, out)

    @override
    def take(self, slots: np.ndarray) -> None:
        some = slice(self._slots, self._slots + len(slots))
        for name in _KEPT:
            kept = getattr(self, name)
            kept[slots] = kept[some]

    @override
    def keep(self, slots: np.ndarray) -> None:
        spare = self._slots + np.arange(self.room)
        self._slots = len(slots)
        for name in _KEPT:
            setattr(self, name, getattr(self, name)[np.concatenate([slots, spare])])

    @override
    def pool(self, a: MeanState, b: MeanState) -> MeanState:
        weight = a.weight + b.weight
        share = (a.weight / weight)[:, None], (b.weight / weight)[:, None]
        return MeanState(weight, share[0] * a.mean + share[1] * b.mean)

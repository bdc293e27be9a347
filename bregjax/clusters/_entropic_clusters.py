"""Clusters by NumPy whose costs are those of entropies, as differences.

With f(t) = t log t summed over columns, and c the mean of the union of a and b,

    Δ(a, b) = w_a f(a) + w_b f(b) − w f(c)

takes one logarithm a column, and cancels where a and b are near: it is off by some n ε
of its terms. In float64 that is enough to tell nearly all pairs apart.
"""

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

__all__ = ["EntropicClusters"]

_EPS, _TINY = np.finfo(float).eps, np.finfo(float).tiny
# Numbers of the means of pairs that are worked on together: what a cache holds.
_NUMBERS = 2**14
# Below, a series has more digits.
_SMALL = 2e-3


@dataclass
class EntropicClusters:
    """Weights and means of clusters, and their shares of costs.

    Means are at most 1, so that costs have a unit: `of` takes the greatest mean for it.

    Attributes:
        weight: `[k]`.
        mean: `[k, n]`.
        own: w Σ t log t, `[k]`.
        size: w Σ (|t log t| + t), which the rounding of costs goes by, `[k]`.

    Examples:
        >>> clusters, unit = EntropicClusters.of(np.ones(2), np.array([[2.0], [8.0]]))
        >>> cost, size = clusters.costs(np.array([0]), np.array([1]))
        >>> print(unit, (unit * cost).round(4))
        8.0 [1.9274]
    """

    weight: np.ndarray
    mean: np.ndarray
    own: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, weight: np.ndarray, mean: np.ndarray) -> tuple[Self, float]:
        """Return clusters, and the unit of their means and costs.

        Args:
            weight: `[k]`.
            mean: Numbers of at least 0, `[k, n]`.
        """
        unit = float(np.max(mean, initial=0.0)) or 1.0
        return cls._described(np.asarray(weight, float), mean / unit), unit

    @classmethod
    def _described(cls, weight: np.ndarray, mean: np.ndarray) -> Self:
        terms = mean * np.log(np.maximum(mean, _TINY))
        own = weight * np.sum(terms, axis=1)
        return cls(weight, mean, own, weight * np.sum(np.abs(terms) + mean, axis=1))

    def costs(
        self, first: np.ndarray, second: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return costs of pairs, `[p]`, and the sizes of all their terms.

        Args:
            first: Slots `[p]`.
            second: Slots `[p]`.
        """
        a, b = self.weight[first], self.weight[second]
        weight = a + b
        p, q = (a / weight)[:, None], (b / weight)[:, None]
        union = np.empty(len(first))
        step = max(_NUMBERS // self.mean.shape[1], 1)
        for start in range(0, len(first), step):
            part = slice(start, start + step)
            mean, other = self.mean[first[part]], self.mean[second[part]]
            mean *= p[part]
            other *= q[part]
            mean += other
            np.log(np.maximum(mean, _TINY, out=other), out=other)
            union[part] = np.einsum("ij,ij->i", mean, other)
        cost = self.own[first] + self.own[second] - weight * union
        # −t log t is concave, and the cost at most log 2 of the masses: the union's
        # terms are at most 1.7 of the parts'.
        return cost, 2.7 * (self.size[first] + self.size[second])

    def steady_costs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return costs of pairs, `[p]`, that do not cancel where both are near.

        From the differences of means: with t_a = (a − c) / c and t_b,

            Δ = Σ c (w_a r(t_a) + w_b r(t_b)),  r(t) = (1 + t) log(1 + t) − t.
        """
        cost = np.empty(len(first))
        step = max(_NUMBERS // self.mean.shape[1], 1)
        for start in range(0, len(first), step):
            part = slice(start, start + step)
            i, j = first[part], second[part]
            w_a, w_b = self.weight[i, None], self.weight[j, None]
            p, q = w_a / (w_a + w_b), w_b / (w_a + w_b)
            a, b = self.mean[i], self.mean[j]
            union = p * a + q * b
            gap = (a - b) / np.maximum(union, _TINY)
            terms = w_a * _remainder(q * gap) + w_b * _remainder(-p * gap)
            cost[part] = np.einsum("ij,ij->i", union, terms)
        return cost

    def united(self, first: np.ndarray, second: np.ndarray) -> Self:
        """Return the unions of pairs, `[p]`."""
        a, b = self.weight[first], self.weight[second]
        # From the heavier mean, which a light one far away hardly moves.
        heavy, light = np.where(a >= b, (first, second), (second, first))
        share = (np.minimum(a, b) / (a + b))[:, None]
        step = self.mean[light] - self.mean[heavy]
        return self._described(a + b, self.mean[heavy] + share * step)

    def taken(self, slots: np.ndarray) -> Self:
        """Return copies of the clusters in slots."""
        return type(self)(*(getattr(self, field.name)[slots] for field in fields(self)))

    def put(self, slots: np.ndarray | slice, clusters: Self) -> None:
        """Write clusters into slots."""
        for field in fields(self):
            getattr(self, field.name)[slots] = getattr(clusters, field.name)


def _remainder(t: np.ndarray) -> np.ndarray:
    """(1 + t) log(1 + t) − t for t ≥ −1, to some 13 digits."""
    s = np.clip(t, -_SMALL, _SMALL)
    series = s * s * (1 / 2 - s * (1 / 6 - s * (1 / 12 - s * (1 / 20 - s / 30))))
    ratio = np.maximum(1 + t, 0)
    direct = ratio * np.log1p(np.maximum(t, _EPS / 2 - 1)) - t
    return np.where(np.abs(t) < _SMALL, series, direct)

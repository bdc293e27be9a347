"""Clusters by NumPy whose costs are those of entropies, as differences.

With f(t) = t log t summed over columns, and c the mean of the union of a and b,

    Δ(a, b) = w_a f(a) + w_b f(b) − w f(c)

takes one logarithm a column, and cancels where a and b are near: it is off by some n ε
of its terms. In float64 that is enough to tell nearly all pairs apart.
"""

import dataclasses
from typing import ClassVar, Self

import numpy as np
from typing_extensions import override

from bregjax.clusters._quick_clusters import QuickClusters, Sides
from bregjax.clusters._root_distances import ALPHA, BETA, root_points
from bregjax.clusters._squared_distances import less_norms

__all__ = ["EntropicClusters"]

_EPS, _TINY = np.finfo(float).eps, np.finfo(float).tiny
# Numbers of the means of pairs that are worked on together: what a cache holds.
_NUMBERS = 2**14
# Below, a series has more digits.
_SMALL = 2e-3
# Multiplications of one product (OpenBLAS deals larger ones out to threads of its own,
# which wait for each other), and its rows and columns; and bounds that are divided
# while in a cache.
_PRODUCT, _TALL, _WIDE, _PIECE = 2**17, (8, 64), (32, 256), 2**16
# Rows whose median is taken for that of all.
_SOME = 500
# Numbers in a row of a matrix of costs that takes less time than windows of bounds, and
# rows of it, at most.
_ROW, _FEW = 2**13, 128
# Roundings of a bound's denominator, and of its quotient.
_ROUNDINGS = 8


@dataclasses.dataclass
class EntropicClusters(QuickClusters):
    """Weights and means of clusters, and their shares of costs.

    Means are less than 1: the unit of means and costs is the next greater power of two.

    Attributes:
        weight: `[slots]`.
        mean: `[slots, n]`.
        own: w Σ t log t, `[slots]`.
        size: w Σ (|t log t| + t), which the rounding of costs goes by, `[slots]`.
        center: What points are less in products, `[1, 2 n]`.
        unit: That of means and costs.
        binary: Whether the second half of the columns has 1 less the first.

    Examples:
        >>> clusters = EntropicClusters.of(np.ones(2), np.array([[2.0], [8.0]]))
        >>> cost, _ = clusters.costs(np.array([0]), np.array([1]))
        >>> print(clusters.unit, (clusters.unit * cost).round(4))
        16.0 [1.9274]
    """

    by_slot: ClassVar[tuple[str, ...]] = ("weight", "mean", "own", "size")

    mean: np.ndarray
    own: np.ndarray
    size: np.ndarray
    center: np.ndarray
    unit: float
    binary: bool

    @classmethod
    def of(cls, weight: np.ndarray, mean: np.ndarray, *, binary: bool = False) -> Self:
        """Return clusters of weights `[m]` and means of at least 0, `[m, n]`.

        With `binary`, the means of 1 − x are added as columns.
        """
        if binary:
            mean = np.concatenate([mean, 1 - mean], axis=1)
        # A power of two, so that no difference of near means is rounded.
        unit = 2.0 ** np.frexp(np.max(mean, initial=0.0))[1]
        some = mean[:: max(len(mean) // _SOME, 1)] / unit
        center = np.median(root_points(some), axis=0, keepdims=True)
        mean, own, size = _described(weight, mean / unit)
        return cls(weight, mean, own, size, center, unit, binary)

    @property
    @override
    def wide(self) -> int:
        return _power_of_two(_PRODUCT / (_TALL[0] * (2 * self.mean.shape[1] + 2)))

    @property
    @override
    def few(self) -> int:
        return min(_ROW // self.mean.shape[1], _FEW)

    @property
    @override
    def places(self) -> np.ndarray:
        return self.mean

    @override
    def costs(
        self, first: np.ndarray, second: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        a, b = self.weight[first], self.weight[second]
        weight, n = a + b, self.mean.shape[1]
        p, q = (a / weight)[:, None], (b / weight)[:, None]
        union = np.empty(len(first))
        step = max(_NUMBERS // n, 1)
        for start in range(0, len(first), step):
            part = slice(start, start + step)
            mean, other = self.mean[first[part]], self.mean[second[part]]
            mean *= p[part]
            other *= q[part]
            mean += other
            np.log(np.maximum(mean, _TINY, out=other), out=other)
            union[part] = np.einsum("ij,ij->i", mean, other)
        cost = self.own[first] + self.own[second] - weight * union
        # −t log t is concave: the union's terms exceed the parts' by the cost at most.
        size = 2 * (self.size[first] + self.size[second]) + np.abs(cost)
        return cost, (n + 16) * _EPS * size

    @override
    def steady_costs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return costs from the differences of means.

        With t_a = (a − c) / c and t_b, and r(t) = (1 + t) log(1 + t) − t,
        Δ = Σ c (w_a r(t_a) + w_b r(t_b)).
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

    @override
    def united(self, first: np.ndarray, second: np.ndarray) -> Self:
        weight = self.weight[first] + self.weight[second]
        mean = self._mean_of_unions(self.mean, first, second)
        if self.binary:
            ones = mean.shape[1] // 2
            mean[:, ones:] = 1 / self.unit - mean[:, :ones]
        mean, own, size = _described(weight, mean)
        return dataclasses.replace(self, weight=weight, mean=mean, own=own, size=size)

    @override
    def sides(self, dtype: np.dtype) -> Sides:
        """Columns (e, ‖e‖², 1) of products, with less than the squared norm; and 1 / w.

        So a product with (−2 e, 1, ‖e‖²), as `bounds` makes of rows, is no more than
        the squared distance.
        """
        points = root_points(self.mean) - self.center
        columns = np.ones((len(points), points.shape[1] + 2), dtype)
        columns[:, :-2] = points
        # Points are off by d, so that a square s² is (s + d)² ≤ 1.02 s² + 51 d²; and of
        # near means bounds have 2.6 % to spare.
        off = np.sqrt(self.mean) * (1 + np.abs(np.log(np.maximum(self.mean, _TINY))))
        off *= 4 * _EPS
        columns[:, -2] = less_norms(points, dtype) - 102 * np.sum(off * off, axis=1)
        # inf where a weight is next to none in float32, and then bounds are 0.
        with np.errstate(over="ignore", divide="ignore"):
            return columns, (1 / self.weight).astype(dtype)

    @override
    def bounds(self, rows: Sides, panels: Sides) -> np.ndarray:
        """Return ‖e_a − e_b‖² / (α (1/w_a + 1/w_b) + β max(1/w_a, 1/w_b))."""
        with np.errstate(over="ignore"):
            return self._bounds(rows, panels)

    def _bounds(self, rows: Sides, panels: Sides) -> np.ndarray:
        (left, light_a), (right, light_b) = rows, panels
        count, dtype, wide = len(left), left.dtype, right.shape[2]
        # Products of as many rows each, as nearly as can be.
        products = -(-count // int(np.clip(_PRODUCT // right[0].size, *_TALL)))
        tall = -(-count // products)
        fill = np.minimum(np.arange(products * tall), count - 1)
        left = np.concatenate([-2 * left[:, :-2], left[:, :-3:-1]], axis=1)[fill]
        left = left.reshape(1, -1, tall, left.shape[1])
        low = np.empty((len(right), *left.shape[1:3], wide), dtype)
        light_a = light_a[fill].reshape(1, -1, tall, 1)
        light_b = light_b[:, None, None]
        up = 1 + _ROUNDINGS * float(np.finfo(dtype).eps)
        alpha, beta = (dtype.type(factor * up) for factor in (ALPHA, BETA))
        one = light_a[:, :1, :1]
        alike = np.all(light_a == one) and np.all(light_b == one)
        sums, most = (
            (alpha * light_a, alpha * light_b),
            (beta * light_a, beta * light_b),
        )
        step = max(_PIECE // low[0].size, 1)
        for start in range(0, len(right), step):
            part = slice(start, start + step)
            np.matmul(left, right[part, None], out=low[part])
            if alike:
                low[part] /= (2 * alpha + beta) * one
                continue
            weights = np.maximum(most[0], most[1][part])
            weights += sums[0]
            weights += sums[1][part]
            low[part] /= weights
        return low.reshape(len(right), -1, wide)[:, :count]


def _described(weight: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, ...]:
    """Means, and what costs need of them."""
    terms = mean * np.log(np.maximum(mean, _TINY))
    own = weight * np.sum(terms, axis=1)
    return mean, own, weight * np.sum(np.abs(terms) + mean, axis=1)


def _remainder(t: np.ndarray) -> np.ndarray:
    """(1 + t) log(1 + t) − t for t ≥ −1, to some 13 digits."""
    s = np.clip(t, -_SMALL, _SMALL)
    series = s * s * (1 / 2 - s * (1 / 6 - s * (1 / 12 - s * (1 / 20 - s / 30))))
    ratio = np.maximum(1 + t, 0)
    direct = ratio * np.log1p(np.maximum(t, _EPS / 2 - 1)) - t
    return np.where(np.abs(t) < _SMALL, series, direct)


def _power_of_two(fitting: float) -> int:
    return 2 ** int(np.log2(np.clip(fitting, *_WIDE)))

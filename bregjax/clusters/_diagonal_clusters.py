"""Diagonal Gaussians by NumPy: costs from logarithms, in float32 also as bounds.

With v the variances, v_c = p v_a + q v_b + p q δ² those of the union, of shares p and q
of weight and a distance δ of means,

    Δ(a, b) = ½ Σ (w log v_c − w_a log v_a − w_b log v_b)

cancels where a and b are near. In float32, of a few columns together whose product has
one logarithm, it is a bound when the most that rounding adds is taken off.
"""

import dataclasses
from typing import Any, ClassVar, Self, cast

import numpy as np
from typing_extensions import override

from bregjax.clusters._gaussian_state import GaussianState
from bregjax.clusters._moments import Moments
from bregjax.clusters._quick_clusters import ScreenedClusters, Sides
from bregjax.clusters._screens import Screen
from bregjax.clusters._screens.gaussian import DiagonalScreen

__all__ = ["DiagonalClusters"]

_EPS = np.finfo(float).eps
# Pairs, times columns, up to which bounds by NumPy serve, 1,448 × 32, and rows, or rows
# of any size: a first tree takes a quarter to two fifths of the time, and another 1.3
# to 1.6 times as long, as by compiled bounds; of 2,000 × 32 0.84 s instead of 1.9, and
# 0.67 instead of 0.39.
_MOST_PAIRS, _MANY_ROWS, _FEW_ROWS = 2**26, 2**12, 512
# Clusters that merge in less time over a matrix: bounds take as long as costs.
_FEW = 192
# Numbers of pairs that are worked on together: what a cache holds.
_NUMBERS, _PIECE = 2**14, 2**15
# Below, a series has more digits.
_SMALL = 2e-3
# Most columns that share a logarithm, and powers of two that their product may have.
_TOGETHER, _POWERS = 8, 110
# Powers of two that means and weights may have, and variances half as many again, so
# that no square or product of two is out of range.
_RANGE = {"float32": 60, "float64": 500}
# Roundings of all terms of a bound, in units of their sizes.
_ROUNDINGS = 64


@dataclasses.dataclass
class DiagonalClusters(ScreenedClusters):
    """Weights, means and variances of clusters, and their shares of costs.

    In units, a power of two for each column, of about the root of the mean variance: so
    no difference of near means is rounded.

    Attributes:
        weight: `[slots]`.
        mean: `[slots, n]`.
        variance: `[slots, n]`.
        logs: Σ log v, `[slots]`.
        size: Σ |log v|, which rounding goes by, `[slots]`.
        center: What means are less in bounds, `[1, n]`.
        together: How many columns share a logarithm in bounds.

    Examples:
        >>> mean, variance = np.array([[0.0], [2.0]]), np.ones((2, 1))
        >>> clusters = DiagonalClusters.of(np.ones(2), mean, variance)
        >>> cost, _ = clusters.costs(np.array([0]), np.array([1]))
        >>> print(cost.round(4))  # log 2
        [0.6931]
    """

    by_slot: ClassVar[tuple[str, ...]] = ("weight", "mean", "variance", "logs", "size")

    mean: np.ndarray
    variance: np.ndarray
    logs: np.ndarray
    size: np.ndarray
    center: np.ndarray
    together: int

    @classmethod
    def of(cls, weight: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Self:
        """Return clusters of weights `[m]`, means and positive variances `[m, n]`."""
        power = np.frexp(np.mean(variance, axis=0, keepdims=True))[1] // 2
        mean, variance = np.ldexp(mean, -power), np.ldexp(variance, -2 * power)
        # All unions have variances between the least and this.
        reach = np.max(mean, axis=0) - np.min(mean, axis=0)
        most = np.log2(np.max(variance, axis=0) + reach**2 / 4)
        least = np.log2(np.min(variance, axis=0))
        powers = max(float(np.max(most)), -float(np.min(least)), 1.0)
        together = int(np.clip(_POWERS // powers, 1, _TOGETHER))
        logs, size = _described(variance)
        center = np.mean(mean, axis=0, keepdims=True)
        return cls(weight, mean, variance, logs, size, center, together)

    @property
    @override
    def few(self) -> int:
        return _FEW

    @override
    def bounds_serve(self, count: int) -> bool:
        pairs = count**2 * self.mean.shape[1]
        return count <= _FEW_ROWS or (pairs <= _MOST_PAIRS and count <= _MANY_ROWS)

    @property
    @override
    def states(self) -> GaussianState:
        mean, variance, weight, logs = cast(
            tuple[Any, ...], (self.mean, self.variance, self.weight, self.logs)
        )
        return GaussianState(weight, Moments(mean, variance, "diagonal"), logs)

    @override
    def screen(self) -> Screen:
        center: Any = self.center
        in_range = self.together == _TOGETHER
        return DiagonalScreen(center, np.ones_like(center), in_range)

    @property
    @override
    def places(self) -> np.ndarray:
        return np.concatenate([self.mean, self.variance], axis=1)

    @override
    def costs(
        self, first: np.ndarray, second: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        a, b = self.weight[first], self.weight[second]
        weight, n = a + b, self.mean.shape[1]
        logs, size = np.empty((2, len(first)))
        step = max(_NUMBERS // n, 1)
        for start in range(0, len(first), step):
            part = slice(start, start + step)
            middle, spread = self._union(first[part], second[part])
            middle += spread
            np.log(middle, out=middle)
            logs[part] = np.sum(middle, axis=1)
            size[part] = np.sum(np.abs(middle), axis=1)
        cost = weight * logs - (a * self.logs[first] + b * self.logs[second])
        size = weight * (size + n) + a * self.size[first] + b * self.size[second]
        return 0.5 * cost, (n + 16) * _EPS * size

    @override
    def steady_costs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return costs as sums of terms of at least 0.

        With m = p v_a + q v_b, t_a = (v_a − m) / m and t_b, and s(t) = t − log(1 + t),
        Δ = ½ Σ (w log(1 + p q δ² / m) + w_a s(t_a) + w_b s(t_b)).
        """
        cost = np.empty(len(first))
        step = max(_NUMBERS // self.mean.shape[1], 1)
        for start in range(0, len(first), step):
            part = slice(start, start + step)
            i, j = first[part], second[part]
            w_a, w_b = self.weight[i, None], self.weight[j, None]
            p, q = w_a / (w_a + w_b), w_b / (w_a + w_b)
            middle, spread = self._union(i, j)
            v_a, v_b = self.variance[i], self.variance[j]
            gap = (v_a - v_b) / middle
            terms = (w_a + w_b) * np.log1p(spread / middle)
            terms += w_a * _remainder(q * gap, v_a / middle)
            terms += w_b * _remainder(-p * gap, v_b / middle)
            cost[part] = 0.5 * np.sum(terms, axis=1)
        return cost

    def _union(
        self, first: np.ndarray, second: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The two parts of variances of unions: p v_a + q v_b, and p q δ², `[p, n]`."""
        a, b = self.weight[first, None], self.weight[second, None]
        p, q = a / (a + b), b / (a + b)
        middle = p * self.variance[first]
        middle += q * self.variance[second]
        gap = self.mean[first] - self.mean[second]
        gap *= gap
        gap *= p * q
        return middle, gap

    @override
    def united(self, first: np.ndarray, second: np.ndarray) -> Self:
        weight = self.weight[first] + self.weight[second]
        mean = self._mean_of_unions(self.mean, first, second)
        middle, spread = self._union(first, second)
        variance = middle + spread
        logs, size = _described(variance)
        return dataclasses.replace(
            self, weight=weight, mean=mean, variance=variance, logs=logs, size=size
        )

    @override
    def sides(self, dtype: np.dtype) -> Sides:
        """Means; variances; and w, w Σ log v, their sizes, and errors of means.

        Rounding a mean m makes it wrong by eps |m|. That moves log v_c by at most
        2 eps (|m_a| / √v_a + |m_b| / √v_b), as v_c ≥ p v_a + p q δ²; four times as much
        is taken off.
        """
        eps = float(np.finfo(dtype).eps)
        mean = self.mean - self.center
        reach = np.sum(np.abs(mean) / np.sqrt(self.variance), axis=1)
        error = 8 * eps * reach + _ROUNDINGS * eps * self.size
        # Out of range nothing is said, as a NaN does.
        bits = _RANGE[dtype.name]
        fits = (np.abs(mean) < 2.0**bits).all(axis=1) & (self.weight > 2.0**-bits)
        fits &= (np.abs(np.log2(self.variance)) < 1.5 * bits).all(axis=1)
        numbers = np.stack([self.weight, self.weight * self.logs, error], axis=1)
        sides = mean, self.variance, numbers
        return tuple(np.where(fits[:, None], x, np.nan).astype(dtype) for x in sides)

    @override
    def bounds(self, rows: Sides, panels: Sides) -> np.ndarray:
        """Return costs, less 64 roundings of all their terms."""
        count, dtype = len(rows[0]), rows[0].dtype
        low = np.empty((len(panels[0]), count, panels[0].shape[2]), dtype)
        step = max(_PIECE // low[0].size, 1)
        for start in range(0, len(low), step):
            part = slice(start, start + step)
            self._bound(rows, tuple(panel[part] for panel in panels), low[part])
        return low

    def _bound(self, rows: Sides, panels: Sides, out: np.ndarray) -> None:
        """Bound the costs of rows with some panels."""
        mean_a, v_a, (w_a, log_a, error_a) = (
            *(x.T[..., None] for x in rows[:2]),
            (rows[2].T[..., None]),
        )
        mean_b, v_b = (np.moveaxis(x, 1, 0)[:, :, None] for x in panels[:2])
        w_b, log_b, error_b = np.moveaxis(panels[2], 1, 0)[:, :, None]
        n, roundings = len(mean_a), _ROUNDINGS * float(np.finfo(out.dtype).eps)
        total = w_a[None] + w_b
        p, q = w_a[None] / total, w_b / total
        spread = p * q
        logs, sizes = np.zeros_like(out), np.zeros_like(out)
        product, gap = np.empty_like(out), np.empty_like(out)
        factor = np.empty_like(out)
        for start in range(0, n, self.together):
            for k in range(start, min(start + self.together, n)):
                np.subtract(mean_a[k][None], mean_b[k], out=gap)
                np.multiply(gap, gap, out=gap)
                gap *= spread
                target = product if k == start else factor
                np.multiply(p, v_a[k][None], out=target)
                target += gap
                np.multiply(q, v_b[k], out=gap)
                target += gap
                if k > start:
                    product *= factor
            np.log(product, out=product)
            logs += product
            np.abs(product, out=product)
            sizes += product
        sizes += n
        sizes *= roundings
        sizes += error_a[None]
        sizes += error_b
        logs -= sizes
        logs *= total
        logs -= log_a[None]
        logs -= log_b
        np.multiply(logs, out.dtype.type(0.5), out=out)


def _described(variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What costs need of variances."""
    logs = np.log(variance)
    return np.sum(logs, axis=1), np.sum(np.abs(logs), axis=1)


def _remainder(t: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """t − log(1 + t), to some 13 digits; `ratio` is 1 + t, which may be tiny."""
    s = np.clip(t, -_SMALL, _SMALL)
    series = s * s * (1 / 2 - s * (1 / 3 - s * (1 / 4 - s * (1 / 5 - s / 6))))
    direct = t - np.where(t > -0.5, np.log1p(np.maximum(t, -0.5)), np.log(ratio))
    return np.where(np.abs(t) < _SMALL, series, direct)

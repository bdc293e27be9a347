"""Costs of full Gaussians by log-determinants, and how wrong rounding makes them.

Where all points have one covariance S = LLᵀ, as under one bandwidth, let means be
white: y = L⁻¹ (x − c). The covariance of a cluster is then I + C, with C that of its
points. Rounding changes an entry of Σ = I + C by at most γ √(Σ_ii Σ_jj), so that

    |δ log det Σ| ≤ Σ_ij |(Σ⁻¹)_ij| |δΣ_ij| ≤ γ (Σ_i √Σ_ii)²,     as Σ⁻¹ ≤ I.

Each union adds to γ: it grows with the number of merges from a leaf to the cluster. And
points far from the middle, c, are moved by up to ε = γ √d ‖y‖ / 8, which changes

    |δ log det Σ| ≤ 2 Σ_i π_i ε ‖Σ⁻¹ (y_i − ȳ)‖ + d ε² ≤ 2 √d ε + d ε².

A union adds one direction to C: w C = HᵀH, where the rows of H are those of both parts
and √(w_a w_b / w) (ȳ_a − ȳ_b). Of n < d points that are n − 1 rows, and det(I + C) =
det(I + HHᵀ / w) is that of a smaller matrix.

Example: of two points of weight 1 that are 2 apart H is one row of length √½ · 2, so
that det(I + C) = 1 + 2 / 2 = 2, whatever the dimension, and the cost is ½ · 2 · log 2.
"""

import math
from typing import Any, Self

import numpy as np
from typing_extensions import override

from bregjax.clusters._gaussian_state import GaussianState
from bregjax.clusters._moments import Moments
from bregjax.clusters._rough_costs import RoughCosts
from bregjax.clusters._small_matrices import log_dets, multiply
from bregjax.clusters._union_axes import UnionAxes

__all__ = ["RoughGaussians", "alike"]

_EPS = np.finfo(float).eps
# Roundings of an entry of a covariance and of its factorisation, for each column and
# for each union on the way.
_ROUNDINGS = 8
# Rows of H that are kept beside the covariance; no more than this share of the columns:
# a matrix of their products is cheaper than a covariance if it is smaller.
_MOST, _SHARE = 20, 0.5
# Where whitening loses nearly all digits, squares nearly overflow or products of
# weights nearly underflow, nothing is rough.
_WORST, _LARGEST, _LIGHTEST = 1e12, 1e280, 1e-140
# Pairs of points that are bounded together: what a cache holds.
_BLOCK = 2**17
# Unions of no more rows than these are treated apart where there are enough pairs.
_SIZES, _ENOUGH = (1, 3, 5, 7, 11, 15), 64
# The share of a cost that it may be off, where it is taken for one.
_SHARP = 1e-6
# Unions at a time, at most.
_ROOM = 256
# What slots have.
_KEPT = (
    "_weight",
    "_mean",
    "_norm",
    "_scatter",
    "_log_det",
    "_greatest",
    "_factors",
    "_rows",
    "_depth",
)


class RoughGaussians(RoughCosts):
    """Gaussians in slots, none of which has less covariance than the points.

    Attributes of all slots: `_weight` (in `_unit`), `_mean` (white), `_norm` (its
    square), `_scatter` (w Σ), `_log_det`, `_greatest` (an eigenvalue of Σ), `_factors`
    (the rows of H, and zeros), `_rows` (how many there are, or one more than there is
    room for) and `_depth`, the most unions on the way from a point.
    """

    def __init__(self, points: GaussianState, inverse: np.ndarray, condition: float):
        """Put points into slots.

        Args:
            points: Clusters whose covariance is S, `[m]`.
            inverse: L⁻¹, `[d, d]`.
            condition: The most that whitening magnifies rounding.
        """
        m, dim = points.moments.mean.shape
        self._size = m
        self.room = max(min(_ROOM, m // 2), 1)
        spare = np.zeros(self.room, int)
        slots = np.concatenate([np.arange(m), spare])
        # A power of two, so that products of weights stay in range and none is rounded.
        self._unit = float(np.ldexp(1.0, np.frexp(np.max(points.weight))[1]))
        self._weight = np.asarray(points.weight)[slots] / self._unit
        center = np.mean(points.moments.mean, axis=0)
        self._mean = ((points.moments.mean - center) @ inverse.T)[slots]
        self._norm = np.sum(self._mean**2, axis=1)
        self._scatter = self._weight[:, None, None] * np.eye(dim)
        self._log_det, self._greatest = np.zeros(len(slots)), np.ones(len(slots))
        room = max(min(_MOST, int(_SHARE * dim)), 1)
        self._factors = np.zeros((len(slots), room, dim))
        self._sizes = [size for size in _SIZES if size < room] + [room]
        self._rows, self._depth = np.zeros(len(slots), int), np.zeros(len(slots))
        # What a union adds to γ, and the γ of a point.
        self._one = _ROUNDINGS * condition * _EPS
        self._dim, self._rounding = dim, (dim + 4) * self._one
        self._work = np.empty(0)

    @classmethod
    def of(cls, points: GaussianState) -> Self | None:
        """Put points into slots; None unless all have one covariance."""
        covariance = np.asarray(points.moments.covariance)
        light = np.min(points.weight) < _LIGHTEST * np.max(points.weight)
        if light or not alike(covariance):
            return None
        try:
            root = np.linalg.cholesky(covariance[0])
            inverse = np.linalg.inv(root)
        except np.linalg.LinAlgError:
            return None
        # 1 if the columns are independent, whatever their scales.
        condition = np.max(np.sum(np.abs(inverse) @ np.abs(root), axis=1))
        if not condition < _WORST:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            slots = cls(points, inverse, condition)
            # Sums of squares must not overflow.
            return slots if np.sum(slots._norm) < _LARGEST else None

    @override
    def first_bounds(self) -> tuple[np.ndarray, float]:
        """Bound ½ w log(1 + pq ‖y − y′‖²) from below; the distances are a product.

        Their squares are off by no more than 16 γ ‖y‖², costs by ¼ w as much.
        """
        m = self._size
        bounds = np.empty((m, m))
        step = max(_BLOCK // m, 1)
        for start in range(0, m, step):
            rows = slice(start, min(start + step, m))
            self._bound_points(rows, bounds[rows])
        off = 4 * self._rounding * np.max(self._norm) * np.max(self._weight)
        return bounds, float(off * self._unit / _SHARP)

    def _bound_points(self, rows: slice, out: np.ndarray) -> None:
        """Fill in rows of `first_bounds`, `[r, m]`."""
        every = slice(0, self._size)
        self._weighted_squares(rows, every, out)
        total = self._weight[rows, None] + self._weight[every]
        out /= total
        out /= total
        np.log1p(out, out=out)
        out *= (0.5 - self._rounding) * self._unit
        out *= total
        np.maximum(out, 0, out=out)

    @override
    def costs(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w_a, w_b = self._weight[low], self._weight[high]
        weight = w_a + w_b
        log_det, error = np.empty_like(weight), np.empty_like(weight)
        count = self._rows[low] + self._rows[high] + 1
        # The smaller the matrices the better, if there are enough of a kind.
        kinds = np.searchsorted(self._sizes, count)
        if len(count) < _ENOUGH:
            kinds = np.where(count > self._sizes[-1], kinds, 0)
        for kind in np.flatnonzero(np.bincount(kinds)):
            some = np.flatnonzero(kinds == kind)
            few = kind < len(self._sizes)
            find = self._by_factors if few else self._by_scatters
            log_det[some], error[some] = find(low[some], high[some], weight[some])
        parts = w_a * self._log_det[low] + w_b * self._log_det[high]
        cost = 0.5 * self._unit * (weight * log_det - parts)
        far = self._moved(np.maximum(self._norm[low], self._norm[high]))
        far *= np.sqrt(self._dim)
        error += far * (2 + far)
        # w Σ_ii is at least the sum of those of the parts, whose errors are like it.
        error *= 1 + self._one / self._rounding * (self._depth[low] + self._depth[high])
        error = 3 * error + 8 * _EPS * np.abs(log_det)
        return cost, self._unit * weight * error

    def _moved(self, norm: np.ndarray) -> np.ndarray:
        """How far rounding moves points at most, from their squared norms."""
        return np.sqrt(self._dim * norm) / _ROUNDINGS * self._rounding

    def _by_factors(
        self, low: np.ndarray, high: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log det Σ of unions of few points, and the most that it is off, `[p]`."""
        size = int((self._rows[low] + self._rows[high]).max())
        factors = np.empty((len(low), size + 1, self._dim))
        # Rows of the second come from the end backwards; what fills up is 0.
        kept = self._factors[:, :size]
        np.add(kept[low], kept[high, ::-1], out=factors[:, :size])
        factors[:, size] = self._apart(low, high, weight)
        products = factors @ factors.swapaxes(1, 2)
        products /= weight[:, None, None]
        diagonal = np.einsum("pnn->pn", products)
        diagonal += 1
        return log_dets(products), self._error(products)

    def _apart(
        self, low: np.ndarray, high: np.ndarray, weight: np.ndarray
    ) -> np.ndarray:
        """√(w_a w_b / w) (ȳ_a − ȳ_b), `[p, d]`."""
        delta = self._mean[low]
        delta -= self._mean[high]
        delta *= np.sqrt(self._weight[low] / weight * self._weight[high])[:, None]
        return delta

    def _by_scatters(
        self, low: np.ndarray, high: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log det Σ of unions, and the most that it is off, `[p]`."""
        delta = self._apart(low, high, weight)
        scatter, part = self._room_for(2, (len(low), *self._scatter.shape[1:]))
        np.multiply(delta[:, :, None], delta[:, None, :], out=scatter)
        for slots in (low, high):
            scatter += self._scatter.take(slots, axis=0, out=part, mode="clip")
        log_det = log_dets(scatter) - scatter.shape[1] * np.log(weight)
        return log_det, self._error(scatter) / weight

    def _error(self, matrices: np.ndarray) -> np.ndarray:
        """The most that rounding changes log-determinants, `[p]`."""
        roots = np.sqrt(np.einsum("pdd->pd", matrices))
        return self._rounding * np.einsum("pd->p", roots) ** 2

    @override
    def unite(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        some = slice(self._size, self._size + len(low))
        w_a, w_b = self._weight[low], self._weight[high]
        weight = w_a + w_b
        self._weight[some] = weight
        apart = self._apart(low, high, weight)
        scatter = apart[:, :, None] * apart[:, None, :]
        scatter += self._scatter[low]
        scatter += self._scatter[high]
        self._scatter[some] = scatter
        mean = self._mean[low]
        mean += (w_b / weight)[:, None] * (self._mean[high] - mean)
        self._mean[some], self._norm[some] = mean, np.sum(mean**2, axis=1)
        depth = 1 + np.maximum(self._depth[low], self._depth[high])
        self._depth[some] = depth
        scatter /= weight[:, None, None]
        few = self._put_factors(some, low, high, apart)
        size = np.max(self._rows[few + self._size], initial=0)
        factors = self._factors[few + self._size, :size]
        factors /= np.sqrt(weight[few])[:, None, None]
        self._axes = UnionAxes.of(scatter, few, factors)
        self._log_det[some] = np.sum(np.log(self._axes.values), axis=1)
        rounding = self._rounding + self._one * depth
        self._greatest[some] = self._axes.values.max(axis=1) * (1 + rounding)
        return np.arange(some.start, some.stop)

    def _put_factors(
        self, some: slice, low: np.ndarray, high: np.ndarray, apart: np.ndarray
    ) -> np.ndarray:
        """Put rows of both parts and one more beside each other.

        Returns:
            Which unions there is room for, `[f]`.
        """
        room, count = self._factors.shape[1], self._rows[low] + self._rows[high]
        few = np.flatnonzero(count < room)
        self._rows[some] = np.minimum(count, room) + 1
        self._factors[some] = self._factors[low]
        first, second = low[few], high[few]
        row, place = np.nonzero(np.arange(room) < self._rows[second, None])
        union, later = few + some.start, self._rows[first[row]] + place
        self._factors[union[row], later] = self._factors[second[row], place]
        self._factors[union, count[few]] = apart[few]
        return few

    @override
    def take(self, slots: np.ndarray) -> None:
        some = slice(self._size, self._size + len(slots))
        for name in _KEPT:
            kept = getattr(self, name)
            kept[slots] = kept[some]

    def _noise(self, slots: slice) -> np.ndarray:
        """How wrong rounding of covariances and means makes bounds, `[c]`."""
        noise = self._rounding + self._one * self._depth[slots]
        far = self._moved(self._norm[slots]) / self._dim
        return noise * (1 + 4 / self._rounding * far)

    def _weighted_squares(self, rows: slice, columns: slice, out: np.ndarray) -> None:
        """w_i w_j ‖y_i − y_j‖² of slots, no more; `[r, c]`."""
        (a, norm_a), (b, norm_b) = (
            (self._mean[some], (1 - 4 * self._rounding) * self._norm[some, None])
            for some in (rows, columns)
        )
        first = np.concatenate([a, norm_a, np.ones_like(norm_a)], axis=1)
        second = np.concatenate([-2 * b, np.ones_like(norm_b), norm_b], axis=1)
        first *= self._weight[rows, None]
        second *= self._weight[columns, None]
        multiply(first, second.T, out)
        np.maximum(out, 0, out=out)

    def _room_for(self, count: int, shape: tuple[int, ...]) -> np.ndarray:
        """Arrays to write into: memory that is new each time is slow."""
        size = count * math.prod(shape)
        if size > len(self._work):
            self._work = np.empty(size)
        return self._work[:size].reshape(count, *shape)

    @override
    def raise_bounds(
        self, unions: slice, others: slice, limit: np.ndarray, out: np.ndarray
    ) -> None:
        """Raise bounds to that of the part of the cost that goes by means.

        With Σ_k ≤ λ_k I that is at least

            ½ w log(1 + pq Σ_e δ_e² / (p s_e + q λ_k)),

        s_e the eigenvalues of a union's covariance, δ in coordinates along its axes. At
        first the greatest stands for all s_e, which needs no rotation. Where that is
        below the limit axes are used, and one value for the small eigenvalues.
        """
        some = slice(self._size + unions.start, self._size + unions.stop)
        w, v = self._weight[some, None], self._weight[others]
        mean, greatest = self._mean[others], self._greatest[others]
        dim = mean.shape[1]
        # Of means so near that rounding has moved them, and of eigenvalues so far from
        # the greatest that rounding has: none is less than 1.
        slack = self._unit * dim * self._axes.slack[unions, None]
        low, size, total, noise = self._room_for(4, out.shape)
        np.multiply(slack, self._noise(others), out=noise)
        noise += slack * self._noise(some)[:, None]
        self._weighted_squares(some, others, low)
        np.add(w, v, out=total)
        np.add(w * self._greatest[some, None], v * greatest, out=size)
        size *= total
        low /= size
        np.log1p(low, out=low)
        low *= (0.5 - self._rounding) * self._unit
        low -= noise
        low *= total
        np.maximum(out, low, out=out)
        row, near = np.divmod(np.flatnonzero(out < limit), out.shape[1])
        weight, p, q = total[row, near], w[row, 0], v[near]
        p /= weight
        q /= weight
        # If all rows are kept the other eigenvalues are 1, else no more than the next.
        many = min(int(self._rows[some].max()), dim - 1)
        delta = self._mean[some][row]
        np.subtract(mean[near], delta, out=delta)
        spread = self._axes[unions].spread(row, delta, p, q * greatest[near], many)
        spread *= p * q * (1 - self._rounding)
        found = (0.5 - self._rounding) * self._unit * np.log1p(spread)
        found -= noise[row, near]
        out[row, near] = np.maximum(out[row, near], weight * found)

    @override
    def keep(self, slots: np.ndarray) -> None:
        self._size = len(slots)
        # What is in spare slots does not matter.
        slots = np.concatenate([slots, np.arange(self.room)])
        for name in _KEPT:
            setattr(self, name, getattr(self, name)[slots])

    @override
    def pool(self, a: GaussianState, b: GaussianState) -> GaussianState:
        weight = a.weight + b.weight
        p, q = (a.weight / weight)[:, None], (b.weight / weight)[:, None]
        first, second = a.moments, b.moments
        delta = first.mean - second.mean
        covariance = p[..., None] * first.covariance + q[..., None] * second.covariance
        covariance += (p * q * delta)[:, :, None] * delta[:, None, :]
        mean: Any = p * first.mean + q * second.mean
        unknown: Any = np.full(len(mean), np.inf)
        return GaussianState(weight, Moments(mean, covariance), unknown)


def alike(covariance: np.ndarray) -> bool:
    """Whether covariances `[m, d, d]` are one."""
    step = max(_BLOCK // covariance[0].size, 1)
    starts = range(0, len(covariance), step)
    return all((covariance[k : k + step] == covariance[0]).all() for k in starts)

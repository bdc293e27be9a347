"""The host model of full Gaussians: what is asked of many at once, by NumPy alone.

Costs are those of `FullGaussianModel.cost`, by the same formula, and nothing is traced
or compiled, which takes seconds at 50 columns.
"""

from typing import Any

import numpy as np
from typing_extensions import override

from bregjax._typing import PyTree
from bregjax.clusters._closed_host import ClosedHost
from bregjax.clusters._gaussian_state import GaussianState
from bregjax.clusters._host_model import rows_of
from bregjax.clusters._moments import Moments

__all__ = ["GaussianHost"]

# Numbers in the covariances of pairs that are looked at together: what a cache holds.
_BLOCK = 2**17
# Triangles of so many rows are inverted as any matrix is.
_SMALL = 8
# Up to here e − log(1 + e) is summed; so many terms are exact.
_NEAR, _TERMS = 0.5, 17


class GaussianHost(ClosedHost):
    """A model of full Gaussians, called for many clusters at a time.

    Examples:
        >>> import bregjax as bj
        >>> host = GaussianHost(bj.Gaussian().cluster_model())
        >>> one = Moments(np.zeros((1, 2)), np.eye(2)[None])
        >>> other = Moments(np.array([[2.0, 0.0]]), np.eye(2)[None])
        >>> a, b = (host.leaves(point, np.ones(1)) for point in (one, other))
        >>> print(host.merge_costs(a, b, a).round(3))  # log 2
        [0.693]
    """

    @override
    def leaves(self, statistics: Moments, weights: np.ndarray) -> GaussianState:
        covariance: Any = np.asarray(statistics.covariance)
        mean: Any = np.asarray(statistics.mean)
        alike = len(covariance) > 0 and (covariance == covariance[:1]).all()
        try:
            log_det: Any = _log_dets(covariance[:1] if alike else covariance)
        except np.linalg.LinAlgError:
            return super().leaves(statistics, weights)
        log_det = np.broadcast_to(log_det, weights.shape).copy()
        weight: Any = np.asarray(weights)
        return GaussianState(weight, Moments(mean, covariance), log_det)

    @override
    def settle(self, state: GaussianState) -> GaussianState:
        try:
            log_det: Any = _log_dets(np.asarray(state.moments.covariance))
        except np.linalg.LinAlgError:
            return super().settle(state)
        return GaussianState(state.weight, state.moments, log_det)

    @override
    def merge_costs(self, a: PyTree, b: PyTree, union: PyTree) -> np.ndarray:
        count, dim = a.moments.mean.shape
        step = max(_BLOCK // dim**2, 1)
        costs = np.empty(count)
        for start in range(0, count, step):
            some = slice(start, start + step)
            left, right = rows_of(a, some), rows_of(b, some)
            try:
                costs[some] = _costs(left, right)
            except np.linalg.LinAlgError:
                # That says which pair it is.
                costs[some] = super().merge_costs(left, right, rows_of(union, some))
        return costs


def _log_dets(covariance: np.ndarray) -> np.ndarray:
    factor = np.linalg.cholesky(covariance)
    return 2 * np.sum(np.log(np.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)


def _costs(a: Any, b: Any) -> np.ndarray:
    """`FullGaussianModel.cost` of two states `[p]`."""
    total = a.weight + b.weight
    p, q = (a.weight / total)[:, None, None], (b.weight / total)[:, None, None]
    first, second = a.moments, b.moments
    root = _inverse(np.linalg.cholesky(p * first.covariance + q * second.covariance))
    delta = (first.mean - second.mean)[:, :, None]
    spread = np.sum((root @ delta) ** 2, axis=(1, 2))
    cost = total * np.log1p(p[:, 0, 0] * q[:, 0, 0] * spread)
    gap = first.covariance - second.covariance
    apart = np.flatnonzero(gap.any(axis=(1, 2)))
    root, gap, p, q = root[apart], gap[apart], p[apart], q[apart]
    white = root @ gap @ root.swapaxes(1, 2)
    white = (white + white.swapaxes(1, 2)) / 2
    cost[apart] += a.weight[apart] * _remainder(q * white)
    cost[apart] += b.weight[apart] * _remainder(-p * white)
    return cost / 2


def _remainder(a: np.ndarray) -> np.ndarray:
    """B(I + A, I) = tr A − log det(I + A); see `convex._determinant`."""
    factor = np.linalg.cholesky(a + np.eye(a.shape[-1]))
    squares = np.sum(np.tril(factor, -1) ** 2, axis=-1)
    excess = np.diagonal(a, axis1=-2, axis2=-1) - squares
    return np.sum(squares + _less_log(excess), axis=-1)


def _less_log(e: np.ndarray) -> np.ndarray:
    """e − log(1 + e), to full relative precision.

    With t = e / (2 + e), log(1 + e) is 2 artanh t and e − 2t = et, so that it is
    et − 2t³ (1/3 + t²/5 + …).
    """
    near = np.abs(e) < _NEAR
    t = np.where(near, e, 0) / (2 + np.where(near, e, 0))
    square, sums = t**2, np.zeros_like(t)
    for k in range(_TERMS, 0, -1):
        sums = sums * square + 1 / (2 * k + 1)
    return np.where(near, e * t - 2 * t * square * sums, e - np.log1p(e))


def _inverse(lower: np.ndarray) -> np.ndarray:
    """Inverses of lower triangles, half by half."""
    size = lower.shape[-1]
    if size <= _SMALL:
        return np.linalg.inv(lower)
    inverse, half = np.zeros_like(lower), size // 2
    first = inverse[:, :half, :half] = _inverse(lower[:, :half, :half])
    second = inverse[:, half:, half:] = _inverse(lower[:, half:, half:])
    inverse[:, half:, :half] = -second @ (lower[:, half:, :half] @ first)
    return inverse

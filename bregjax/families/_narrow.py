"""How far the bandwidth of a full Gaussian lies below the range of the data.

Example in float64: a column with range 2, so s = 1. Under h = 1e-3 log-determinants
lose eps r² = 2e-16 · 1e6 = 2e-10 nats, less than 4e-9, and covariances are enough.
Under h = 1e-6 they lose 2e-4: clusters hold roots, which lose eps r = 2e-10. Under
h = 1e-9 eps r² = 222 is more than 64 and even roots are refused; the least bandwidth is
s √(eps / 64) = 1.9e-9.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from bregjax._checks import values_behind, works_in_double
from bregjax._geometry import PrecisionError
from bregjax._programs import program
from bregjax._typing import Array, PyTree
from bregjax.clusters import Moments
from bregjax.smoothing import StatisticMap
from bregjax.smoothing._maps import Blur

__all__ = ["least_bandwidth", "needs_roots"]

# Clusters hold roots where log-determinants of covariances would lose more nats, in
# single and in double precision. At half, more data take several times as long; at
# double, costs are half as exact.
_LOSS = {32: 4e-3, 64: 4e-9}
# The largest eps r² for which roots have enough digits.
_REACH = 64


def needs_roots(
    rows: Array,
    smoothing: StatisticMap | None,
    weights: Array | None,
    *,
    unknown: bool,
) -> bool:
    """Whether log-determinants of covariances lose digits that roots of them keep.

    With r the largest ratio s / h of a column, of half its range to its bandwidth,
    log-determinants are good to eps r² from covariances, and to eps r from roots.

    Args:
        rows: `[m, d]`.
        smoothing: A smoothing map, or None.
        weights: `[m]`, or None.
        unknown: The answer where values are not known.

    Raises:
        PrecisionError: If even roots would have too few digits.
    """
    arguments = rows, smoothing, weights
    known = values_behind(arguments)
    if smoothing is None or known is None:
        return unknown
    limits = _limits(arguments)
    bandwidths, half = _bandwidths(*known), _half_range(known[0])
    # Bandwidths of 0 and ranges that overflow are refused elsewhere, for all families.
    there = (bandwidths > 0) & np.isfinite(half)
    ratios = np.where(there, half, 0) / np.where(there, bandwidths, 1)
    column = int(np.argmax(ratios))
    loss = float(limits.eps) * ratios[column] ** 2
    if loss > _REACH:
        least = _rounded_up(_least(half, float(limits.eps))[column])
        double = limits.bits == 64
        raise PrecisionError(
            f"`smoothing` has a bandwidth of {bandwidths[column]:.3g} in column "
            f"{column}, whose range is {2 * half[column]:.3g}: too narrow for the "
            f"digits of float{limits.bits}. Take {least:.2g} or more, "
            f"{'' if double else 'turn on jax_enable_x64, '}or take a family without "
            "correlations, such as diagonal_gaussian."
        )
    return bool(loss > _LOSS[limits.bits])


def least_bandwidth(rows: Array) -> np.ndarray:
    """The least bandwidth of each column that `needs_roots` does not refuse, `[d]`."""
    eps = float(jnp.finfo(jnp.result_type(float)).eps)
    return 1.01 * _least(_half_range(rows), eps)  # a margin for rounding


def _least(half_range: np.ndarray, eps: float) -> np.ndarray:
    return half_range * np.sqrt(eps / _REACH)


def _rounded_up(value: float) -> float:
    """Round up to two digits."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(np.ceil(value / unit) * unit)


def _limits(arguments: PyTree) -> Any:
    """The `finfo` of the precision in which costs are computed."""
    double = works_in_double(arguments)
    return jnp.finfo(np.float64 if double else jnp.result_type(float))


def _half_range(rows: Array) -> np.ndarray:
    return np.ptp(np.asarray(rows), axis=0) / 2


def _bandwidths(
    rows: Array, smoothing: StatisticMap, weights: Array | None
) -> np.ndarray:
    """Deviation of each column given the columns before, least over leaves, `[d]`."""
    if isinstance(smoothing, Blur):
        bandwidth, d = np.asarray(smoothing.bandwidth), rows.shape[1]
        if bandwidth.shape in ((), (d,)):
            return np.broadcast_to(np.abs(bandwidth), d)
        if bandwidth.shape == (d, d):
            # B Bᵀ = RᵀR, without the squares.
            return np.abs(np.diagonal(np.linalg.qr(bandwidth.T, mode="r")))
    ones = np.ones(len(rows))
    return np.asarray(
        _least_pivots(rows, smoothing, ones if weights is None else weights)
    )


@program
def _least_pivots(
    rows: Array, smoothing: StatisticMap, weights: Array | np.ndarray
) -> Array:
    m, d = rows.shape
    zero = jnp.zeros((m, d, d), rows.dtype)
    points = Moments(jnp.asarray(rows), zero, root=zero)
    leaves = smoothing(points, jnp.asarray(weights))[0]
    root = leaves.root
    root = jnp.linalg.cholesky(leaves.covariance) if root is None else root
    return jnp.min(jnp.diagonal(root, axis1=-2, axis2=-1), axis=0)

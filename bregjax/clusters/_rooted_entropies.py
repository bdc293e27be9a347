"""Entropies of clusters by NumPy: costs as differences, and what is wrong with them.

With f(t) = t log t summed over columns, and c the mean of the union of a and b,

    Δ(a, b) = w_a f(a) + w_b f(b) − w f(c)

takes one logarithm a column. It cancels where a and b are near: rounding is at most a
few times n eps Σ w (|t log t| + t), and where Δ is not far more than that, it is left
to who asks. Means are in a unit of their own, so that logarithms are small.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["Entropies", "entropy_costs"]

_EPS, _TINY = np.finfo(float).eps, np.finfo(float).tiny
# Pairs whose means are together in a cache.
_NUMBERS = 2**14


@dataclass(frozen=True)
class Entropies:
    """Clusters as their costs need them.

    Attributes:
        weight: `[k]`.
        mean: In a unit, `[k, n]`.
        own: w Σ t log t, `[k]`.
        size: w Σ (|t log t| + t), `[k]`.
    """

    weight: np.ndarray
    mean: np.ndarray
    own: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, weight: np.ndarray, mean: np.ndarray) -> "Entropies":
        """Return clusters of weights and means."""
        terms = mean * np.log(np.maximum(mean, _TINY))
        own = weight * np.sum(terms, axis=1)
        return cls(weight, mean, own, weight * np.sum(np.abs(terms) + mean, axis=1))


def entropy_costs(
    clusters: Entropies, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return costs of pairs, `[p]`, and at most how wrong they are.

    Args:
        clusters: Those there are.
        first: Places of the first parts, `[p]`.
        second: Of the second parts.
    """
    n = clusters.mean.shape[1]
    a, b = clusters.weight[first], clusters.weight[second]
    weight = a + b
    p, q = (a / weight)[:, None], (b / weight)[:, None]
    union = np.empty(len(first))
    step = max(_NUMBERS // n, 1)
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        mean = clusters.mean[first[part]]
        mean *= p[part]
        other = clusters.mean[second[part]]
        other *= q[part]
        mean += other
        np.maximum(mean, _TINY, out=other)
        np.log(other, out=other)
        union[part] = np.einsum("ij,ij->i", mean, other)
    union *= weight
    cost = clusters.own[first] + clusters.own[second] - union
    # Terms of the union are no more than those of its parts, but for what the logarithm
    # of 2 adds.
    size = clusters.size[first] + clusters.size[second]
    return cost, (n + 16) * _EPS * 2.5 * size

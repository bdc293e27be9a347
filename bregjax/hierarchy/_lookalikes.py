"""Whether rows of data look like distances, or like correlations."""

import math

import numpy as np

from bregjax._problem import Problem
from bregjax.families import Product

__all__ = ["lookalike", "looks_like_distances"]

# Condensed distances are looked at among so many points, and entries are shuffled so
# often: distances keep the triangle inequality, and their order is why.
_POINTS, _SHUFFLES = 12, 3
_FEWEST_POINTS = 6


def looks_like_distances(problem: Problem) -> str:
    """A sentence if the rows of a problem look like distances or correlations."""
    rows = problem.x
    if not isinstance(rows, np.ndarray) or isinstance(problem.family, Product):
        return ""
    return lookalike(rows)


def lookalike(x: np.ndarray) -> str:
    """A sentence if the matrix looks like one of distances or correlations, or "".

    Square, symmetric to rounding and of more than two rows, with a diagonal of 0 and
    no negative entry (distances) or of 1 and no entry beyond ±1 (correlations,
    similarities); not of zeros and ones alone, as adjacency is. Or one row, or column,
    of k (k − 1)/2 entries that keep the triangle inequality, and would not in another
    order: what SciPy's `pdist` gives. O(size).

    Args:
        x: Rows `[m, d]`.
    """
    if x.ndim != 2 or np.isnan(x).any():
        return ""
    m, d = x.shape
    if m == d and m > 2:
        return _of_square(x)
    return _of_condensed(x.ravel()) if 1 in (m, d) else ""


def _of_square(x: np.ndarray) -> str:
    diagonal = np.diagonal(x)
    zero, unit = np.all(diagonal == 0), np.allclose(diagonal, 1, rtol=0, atol=1e-9)
    if not (zero or unit):
        return ""
    size = np.max(np.abs(x))
    # The first row and column refuse most tables before all of it is compared.
    for rows in (x[:1], x):
        other = x[:, :1].T if rows is not x else x.T
        if np.max(np.abs(rows - other)) > 1e-9 * size:
            return ""
    if np.all((x == 0) | (x == 1)):
        return ""
    form = f"square ({len(x)} × {len(x)}), symmetric, with"
    if zero and np.min(x) >= 0:
        return (
            f"`x` looks like a matrix of distances: {form} a zero diagonal. Its rows "
            f"are taken as points. {_REMEDY}"
        )
    if unit and size <= 1 + 1e-9:
        return (
            f"`x` looks like a matrix of correlations or similarities: {form} a unit "
            f"diagonal. Its rows are taken as points. {_REMEDY}"
        )
    return ""


_REMEDY = (
    "Pass the data that it was computed from; for distances alone take "
    "scipy.cluster.hierarchy.linkage."
)


def _of_condensed(entries: np.ndarray) -> str:
    points = (1 + math.isqrt(1 + 8 * len(entries))) // 2
    if points * (points - 1) // 2 != len(entries) or points < _FEWEST_POINTS:
        return ""
    if np.min(entries) < 0:
        return ""
    kept = min(points, _POINTS)
    first, second = np.triu_indices(kept, 1)
    # Pair (i, j) of k points is entry i k − i (i + 1)/2 + j − i − 1.
    place = first * points - first * (first + 1) // 2 + second - first - 1
    some = entries[place]
    if not _keeps_triangles(some, kept) or _falls(some):
        return ""
    rng = np.random.default_rng(0)
    if any(_keeps_triangles(rng.permutation(some), kept) for _ in range(_SHUFFLES)):
        return ""
    return (
        f"`x` looks like the condensed distances of {points} points, {len(entries)} "
        f"that keep the triangle inequality. They are taken as data. {_REMEDY}"
    )


def _falls(entries: np.ndarray) -> bool:
    """Whether entries tend downwards, as a curve may: falling ones keep triangles."""
    rank = np.argsort(np.argsort(entries))
    return bool(np.corrcoef(rank, np.arange(len(rank)))[0, 1] < -0.5)


def _keeps_triangles(condensed: np.ndarray, points: int) -> bool:
    square = np.zeros((points, points))
    square[np.triu_indices(points, 1)] = condensed
    square += square.T
    around = square[:, :, None] + square[None]
    return bool(np.all(square[:, None] <= around * (1 + 1e-9)))

"""The nearest of points of few columns, by a k-d tree.

A tree finds the k nearest by distance d in a time that hardly depends on how many
points there are. All others are at least as far as the last of these, d_k, so that they
cost at least d_k² / (1/w + 1/w_least). Where weights differ that may be less than the
nearest costs; then more are asked for.

Example: 0 of weight 4 against 1 of weight 4, 3 of weight 2 and 7 of weight 1, where one
is wanted. Of the two nearest, 1 costs 1 / (1/4 + 1/4) = 2, and all others at least
3² / (1/4 + 1) = 7.2: the nearest is known. Had 1 a weight of 80, it would cost 3.8, and
is known too; at a distance of 2 it would cost 15, and all three were looked at.
"""

from collections.abc import Callable

import numpy as np

from bregjax.clusters._squared_distances import lightness
from bregjax.hierarchy._mutual.neighbourhoods import Neighbourhoods

__all__ = ["nearest_by_tree", "serves"]

# A tree takes less time than products from 2^(n + 8) points of n columns on, and from
# so many that loading SciPy's is made up for.
_FEWEST, _WORTH = 8, 10
# How many more than are wanted are asked for at first, how many times more where that
# does not do, and at most.
_MORE, _TIMES, _MOST = 4, 4, 64
# So many rows one thread searches sooner than others start.
_FOR_ONE = 1024


def serves(num_points: int, num_columns: int, *, loaded: bool) -> bool:
    """Whether a tree takes less time than products of matrices.

    Args:
        num_points: How many there are.
        num_columns: Their coordinates.
        loaded: Whether trees have been used before.
    """
    return num_points >= 2 ** (num_columns + (_FEWEST if loaded else _WORTH))


def nearest_by_tree(
    points: np.ndarray,
    weight: np.ndarray,
    costs: Callable[[np.ndarray, np.ndarray], np.ndarray],
    rows: np.ndarray,
    count: int,
    threads: int,
) -> Neighbourhoods:
    """Find the nearest of some points among all others, where few have to be looked at.

    The others are left unsettled (see `Neighbourhoods.unsettled`).

    Args:
        points: Points `[m, n]`.
        weight: Their weights `[m]`.
        costs: Costs of pairs, from slots `[p]` of both.
        rows: Slots of some points, `[r]`.
        count: How many of the nearest of each.
        threads: How many threads may search.
    """
    # Loading takes a fourteenth of a second, which others need not wait for.
    from scipy.spatial import KDTree  # noqa: PLC0415

    # Made in less time so, and as quick to search where points are spread out.
    tree = KDTree(points, leafsize=16, compact_nodes=False, balanced_tree=False)
    found = Neighbourhoods.unknown(len(rows), count)
    light = lightness(weight)
    lightest, left = float(np.max(light)), np.arange(len(rows))
    k = count + 1 + _MORE
    while len(left) and k <= min(_MOST, len(points)):
        some = rows[left]
        workers = threads if len(some) > _FOR_ONE else 1
        far, slot = map(np.asarray, tree.query(points[some], k=k, workers=workers))
        cost = costs(np.repeat(some, k), slot.ravel()).reshape(slot.shape)
        cost[slot == some[:, None]] = np.inf
        # Less the rounding of distances and costs.
        square = far[:, -1] ** 2 * (1 - 2.0**-50 * (points.shape[1] + 8))
        bound = square / (light[some] + lightest)
        found.put(left, Neighbourhoods(slot, cost, bound).shortened(count))
        left = found.unsettled()
        k *= _TIMES
    return found

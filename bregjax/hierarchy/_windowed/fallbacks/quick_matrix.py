"""All merges that are left, over a matrix of costs, by NumPy.

Of few clusters a matrix of all costs takes less time than windows: no bounds, no check.
It does not depend on whether costs invert either.
"""

import numpy as np

from bregjax.clusters._quick_clusters import QuickClusters
from bregjax.hierarchy._windowed.neighbours.ties import mixed
from bregjax.hierarchy._windowed.store.base import runs

__all__ = ["merge_over_matrix"]

# Pairs whose costs are asked for together.
_PAIRS = 2**16


def merge_over_matrix(
    clusters: QuickClusters, key: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Merge clusters as greedy does, until one is left.

    Each row of the matrix knows its least cost. A union takes the place of its first
    part, and only rows whose nearest was one of the parts look at all their costs.
    Example, costs ab 1, bc 3, ac 5 and cd 4: ab is merged, and its costs take the place
    of a's. If it costs 6 with c, whose nearest was b, c finds its least again, 4, d.

    Args:
        clusters: k clusters.
        key: Their keys, which break ties (see `ties.mixed`), `[k]`, uint32.

    Returns:
        Children, numbers of clusters and then of merges, `[k − 1, 2]`, and costs.
    """
    k = len(key)
    # Slot k + t holds the union of merge t.
    clusters = clusters.taken(np.minimum(np.arange(2 * k - 1), k - 1))
    slot, key, lives = np.arange(k), key.copy(), np.ones(k, bool)
    children, costs = np.zeros((k - 1, 2), np.int64), np.zeros(k - 1)
    matrix = _all_costs(clusters, k)
    nearest = np.argmin(matrix, axis=1)
    least = matrix[np.arange(k), nearest]
    for step in range(k - 1):
        i, j = _first_pair(matrix, least, key)
        children[step], costs[step] = np.sort(slot[[i, j]]), least[i]
        union = k + step
        clusters.unite(slot[[i]], slot[[j]], slice(union, union + 1))
        slot[i], key[i] = union, mixed(key[[i]] + key[[j]])[0]
        lives[i] = lives[j] = False
        others = np.flatnonzero(lives)
        lives[i] = True
        row = clusters.sure_costs(np.full(len(others), union), slot[others])
        matrix[[i, j]] = matrix[:, [i, j]] = np.inf
        matrix[i, others] = matrix[others, i] = row
        least[j] = np.inf
        again = np.append(others[np.isin(nearest[others], (i, j))], i)
        nearer = others[row < least[others]]
        nearest[nearer], least[nearer] = i, matrix[i, nearer]
        nearest[again] = np.argmin(matrix[again], axis=1)
        least[again] = matrix[again, nearest[again]]
    return children, costs


def _all_costs(clusters: QuickClusters, k: int) -> np.ndarray:
    """Costs of all pairs of the first k clusters, `[k, k]`; inf for none."""
    matrix = np.full((k, k), np.inf)
    for rows in runs(np.arange(k), max(_PAIRS // k, 1)):
        place, second = np.nonzero(np.arange(k)[None] < rows[:, None])
        first = rows[place]
        cost = clusters.sure_costs(first, second)
        matrix[first, second] = matrix[second, first] = cost
    return matrix


def _first_pair(
    matrix: np.ndarray, least: np.ndarray, key: np.ndarray
) -> tuple[int, int]:
    """Places of the pair of least cost, and of least key among those that tie."""
    level = np.flatnonzero(least == np.min(least))
    row, column = np.nonzero(matrix[level] == least[level[0]])
    first, second = level[row], column
    before = np.lexsort((first, key[first] + key[second]))[0]
    return int(first[before]), int(second[before])

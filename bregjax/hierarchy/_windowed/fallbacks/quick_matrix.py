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

    Each row of the matrix knows its least cost, or less: where its nearest has merged,
    that cost stays as a bound, and the row is *stale*. It is looked through again
    only when that bound is the least of all. A union takes the place of its first part.
    Example, costs ab 1, bc 3, ac 5 and cd 4: ab is merged. If it costs 6 with c, whose
    nearest was b, c is stale at 3, and next: its least is 4, with d.

    Args:
        clusters: k clusters.
        key: Their keys, which break ties (see `ties.mixed`), `[k]`, uint32.

    Returns:
        Children, numbers of clusters and then of merges, `[k − 1, 2]`, and costs.
    """
    k = len(key)
    # Slot k + t holds the union of merge t.
    clusters = clusters.taken(np.minimum(np.arange(2 * k - 1), k - 1))
    slot, key = np.arange(k), key.copy()
    children, costs = np.zeros((k - 1, 2), np.int64), np.zeros(k - 1)
    rows = _Rows(_all_costs(clusters, k))
    for step in range(k - 1):
        i, j, cost = rows.first_pair(key)
        children[step], costs[step] = np.sort(slot[[i, j]]), cost
        union = k + step
        clusters.unite(slot[[i]], slot[[j]], slice(union, union + 1))
        slot[i], key[i] = union, mixed(key[[i]] + key[[j]])[0]
        others = rows.others(i, j)
        found = clusters.sure_costs(np.full(len(others), union), slot[others])
        rows.unite(i, j, others, found)
    return children, costs


class _Rows:
    """A matrix of costs, and of each row the least cost, or a bound of it."""

    def __init__(self, matrix: np.ndarray) -> None:
        """Take costs, `[k, k]`; inf for none."""
        k = len(matrix)
        self._matrix = matrix
        self._lives, self._stale = np.ones(k, bool), np.zeros(k, bool)
        self._nearest = np.zeros(k, np.int64)
        self._least = np.zeros(k)
        self._look(np.arange(k))

    def _look(self, rows: np.ndarray) -> None:
        self._nearest[rows] = np.argmin(self._matrix[rows], axis=1)
        self._least[rows] = self._matrix[rows, self._nearest[rows]]
        self._stale[rows] = False

    def first_pair(self, key: np.ndarray) -> tuple[int, int, float]:
        """Places of the pair of least cost, of these of least key; and the cost."""
        while True:
            level = np.flatnonzero(self._least == np.min(self._least))
            stale = level[self._stale[level]]
            if not len(stale):
                break
            self._look(stale)
        cost = self._least[level[0]]
        row, second = np.nonzero(self._matrix[level] == cost)
        first = level[row]
        before = np.lexsort((first, key[first] + key[second]))[0]
        return int(first[before]), int(second[before]), float(cost)

    def others(self, i: int, j: int) -> np.ndarray:
        """Places of living clusters but two."""
        places = np.flatnonzero(self._lives)
        return places[(places != i) & (places != j)]

    def unite(self, i: int, j: int, others: np.ndarray, costs: np.ndarray) -> None:
        """Let a union, of costs with others, take the place of its first part."""
        matrix = self._matrix
        matrix[[i, j]] = matrix[:, [i, j]] = np.inf
        matrix[i, others] = matrix[others, i] = costs
        self._lives[j], self._least[j], self._stale[j] = False, np.inf, False
        self._stale[others] |= np.isin(self._nearest[others], (i, j))
        nearer = others[costs <= self._least[others]]
        self._nearest[nearer], self._stale[nearer] = i, False
        self._least[nearer] = matrix[i, nearer]
        self._look(np.array([i]))


def _all_costs(clusters: QuickClusters, k: int) -> np.ndarray:
    """Costs of all pairs of the first k clusters, `[k, k]`; inf for none."""
    matrix = np.full((k, k), np.inf)
    for rows in runs(np.arange(k), max(_PAIRS // k, 1)):
        place, second = np.nonzero(np.arange(k)[None] < rows[:, None])
        first = rows[place]
        cost = clusters.sure_costs(first, second)
        matrix[first, second] = matrix[second, first] = cost
    return matrix

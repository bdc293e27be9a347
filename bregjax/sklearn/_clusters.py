"""Clusters of a partition as a mixture, and the numbers that estimators give them."""

import functools
from dataclasses import dataclass

import numpy as np

from bregjax._new_rows import new_rows
from bregjax._problem import Problem
from bregjax._sparse_rows import SparseRows
from bregjax._typing import TableLike
from bregjax.hierarchy._cut_states import Clusters
from bregjax.partition._labelled import clusters_of_labels
from bregjax.partition._mixture import log_densities_of_rows, shares_of_rows

__all__ = [
    "PartitionMixture",
    "by_weight",
    "inverse",
    "likeliest",
    "likeliest_or_none",
]


@dataclass(frozen=True, eq=False)
class PartitionMixture:
    """The mixture that a partition of a problem's rows stands for.

    Attributes:
        problem: Of the rows.
        labels: Cluster numbers `[m]`.
        num_clusters: How many there are.
    """

    problem: Problem
    labels: np.ndarray
    num_clusters: int

    @functools.cached_property
    def clusters(self) -> Clusters:
        """States and weights of the clusters."""
        return clusters_of_labels(self.problem, self.labels, self.num_clusters)

    @functools.cached_property
    def num_reassigned(self) -> int:
        """How many rows have another cluster that is likelier."""
        shares = shares_of_rows(self.problem, self.clusters, None)
        known = ~np.isnan(np.asarray(shares)).any(axis=1)
        best = np.argmax(np.asarray(shares), axis=1)
        return int(np.sum(known & (best != self.labels)))

    def shares(self, rows: TableLike | Problem) -> np.ndarray:
        """Posterior shares of the clusters for new rows, `[r, k]`."""
        others = rows if isinstance(rows, Problem) else new_rows(self.problem, rows)
        return np.asarray(shares_of_rows(others, self.clusters, None))

    def log_densities(self, rows: TableLike) -> np.ndarray:
        """Log-densities of new rows, `[r]`."""
        return np.asarray(
            log_densities_of_rows(new_rows(self.problem, rows), self.clusters)
        )


def likeliest_or_none(shares: np.ndarray) -> np.ndarray:
    """The cluster with the largest share, or −1 where none can be; int32 `[r]`."""
    unknown = np.isnan(shares).any(axis=1)
    return np.where(unknown, -1, np.argmax(shares, axis=1)).astype(np.int32)


def likeliest(shares: np.ndarray) -> np.ndarray:
    """The cluster with the largest share of each row, int32 `[r]`.

    Raises:
        ValueError: At the first row that no cluster can have made.
    """
    best = likeliest_or_none(shares)
    unknown = best < 0
    if unknown.any():
        raise ValueError(
            f"`X` has rows that no cluster can have made, {np.sum(unknown)} of "
            f"{len(shares)}, the first at row {int(np.argmax(unknown))}: they have "
            "what no row of a cluster has, such as a word. Pass `smoothing`, or leave "
            "such rows out."
        )
    return best


def by_weight(weights: np.ndarray, problem: Problem, labels: np.ndarray) -> np.ndarray:
    """Order clusters by decreasing weight; equal ones by their rows, column by column.

    The order depends on which rows the clusters hold, and not on the order of rows.

    Args:
        weights: Of the clusters, `[k]`.
        problem: Of the rows.
        labels: The cluster that each row belongs to, or most belongs to, `[m]`.

    Returns:
        The cluster that gets each number, `[k]`.
    """
    weights = np.asarray(weights)
    keys = [-weights]
    if len(np.unique(weights)) < len(weights):
        keys = [*_sums(problem, labels, len(weights)).T[::-1], -weights]
    return np.lexsort(keys)


def _sums(problem: Problem, labels: np.ndarray, count: int) -> np.ndarray:
    """Sums of the rows of each cluster, missing cells as 0, `[k, d]`."""
    weights, rows = np.asarray(problem.weights), problem.x
    sums = np.zeros((count, rows.shape[1]))
    if isinstance(rows, SparseRows):
        pattern = rows.pattern
        terms = weights[pattern.rows] * np.asarray(rows.values)
        np.add.at(sums, (labels[pattern.rows], pattern.columns), terms)
    else:
        np.add.at(sums, labels, weights[:, None] * np.nan_to_num(np.asarray(rows)))
    return sums


def inverse(order: np.ndarray) -> np.ndarray:
    """The number that each cluster gets, int32 `[k]`."""
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order))
    return number

"""Bregman hard clustering as an estimator."""

import dataclasses
import warnings
from typing import Any, Self

import jax
import numpy as np
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning

from bregjax._evaluation import equal_rows
from bregjax._family_like import FamilyLike
from bregjax._problem import Problem, unchecked
from bregjax._smoothing_like import SmoothingLike
from bregjax._typing import DataLike, TableLike
from bregjax.families._layout import Missing
from bregjax.partition import HardClustering, hard_clustering
from bregjax.sklearn._base import FamilyEstimator, check_number_of_clusters
from bregjax.sklearn._clusters import by_weight, inverse
from bregjax.sklearn._rows import checked_weights
from bregjax.sklearn._starts import Init, starts_of, warn_unless_converged
from bregjax.sklearn._weightless import in_rows_of_x, labels_of_all

__all__ = ["BregmanKMeans"]


class BregmanKMeans(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, FamilyEstimator
):
    """K clusters of least cost, by Lloyd's iterations under the costs of any family.

    `bregjax.hard_clustering` from the cut of a tree, or from seeds as k-means++ draws
    them. With the default family and seeds that is `sklearn.cluster.KMeans`, whose
    `inertia_` is 2 σ² times this one.

    Clusters are numbered by decreasing weight, so that the order of rows makes no
    difference; equal ones by the sums of their rows.

    Args:
        n_clusters: The number of clusters.
        init: "tree", the cut of the tree of `bregjax.agglomerate`, which always gives
            the same and takes time by the square of the rows, so some minutes for a
            hundred thousand; "divergence" for seeds drawn with probabilities in
            proportion to the cost of merging a row with the nearest seed before;
            "random" for seeds drawn by weight alone; or labels to start from, `[m]`.
        n_init: How many seedings are tried; the result of least cost is kept. A tree
            or labels are one start.
        max_iter: Most iterations.
        random_state: An integer, a `RandomState` or None, for the seeds; an integer is
            the `key` of `bregjax.hard_clustering` for the first seeding.
        family: A family or its name, a convex function, "auto" or a mapping by column;
            see `bregjax.Problem`. The default, or "ward", is k-means.
        smoothing: A smoothing map, "auto", None, a mapping by column; or a number, a
            bandwidth of Gaussians (`family.smoothing_of`), which suits grids.
        missing: How missing cells (NaN) count, for families of independent columns;
            "observed" where only new rows lack cells.

    Attributes:
        cluster_centers_: Mean parameters of the clusters: means of the statistics T(x)
            as smoothed, `[n_clusters, n]`, and so of the rows where T(x) = x. Of
            Gaussians the means alone; of gamma and inverse Gaussian columns the means
            of x; of columns of several kinds a tuple with such an array for each block.
        labels_: The cluster of each row, int32 `[m]`. Where several clusters hold equal
            rows, the first of them has all, as `predict` says; `partition_.labels`
            keeps them apart.
        inertia_: The cost Σ w B_f(τ(x), center) of all rows, in nats.
        n_iter_: How many iterations made the cost less; 1 at least.
        partition_: What `bregjax.hard_clustering` returned, of the rows of weight above
            0, with the clusters in this order.
        problem_: What was clustered.
        n_features_in_: The number of columns.
        feature_names_in_: Their names, if all are text.

    Examples:
        >>> from bregjax.sklearn import BregmanKMeans
        >>> x = [[0.0], [1.0], [2.0], [10.0], [12.0]]
        >>> model = BregmanKMeans(n_clusters=2).fit(x)
        >>> print(model.labels_, model.cluster_centers_.ravel(), model.inertia_)
        [0 0 0 1 1] [ 1. 11.] 2.0
        >>> print(model.transform([[3.0]]))
        [[ 2. 32.]]
    """

    labels_: np.ndarray

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Init | DataLike = "tree",
        n_init: int = 1,
        max_iter: int = 300,
        random_state: Any = None,
        family: FamilyLike | None = "spherical_gaussian",
        smoothing: SmoothingLike = "auto",
        missing: Missing = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.family = family
        self.smoothing = smoothing
        self.missing = missing

    def fit(self, X: TableLike, y: Any = None, sample_weight: Any = None) -> Self:
        """Partition the rows.

        Args:
            X: Rows `[m, d]`: arrays, data frames, lists; sparse where the family takes
                such.
            y: Ignored.
            sample_weight: Weights of the rows, `[m]`, 1 each if None. A row of weight 0
                is no part of any cluster, but must fit the family as all rows; its
                label is predicted, −1 where no cluster can have made it, such as one
                with a level that no other row has.

        Returns:
            The estimator.

        Raises:
            ValueError: If rows, weights or arguments do not fit.

        Warns:
            ConvergenceWarning: If `max_iter` was too small, or equal rows are in
                several clusters, as there are fewer distinct rows than `n_clusters`.
        """
        del y
        kept, rest = self._fit_problem(X, sample_weight)
        count = check_number_of_clusters("n_clusters", self.n_clusters, kept.sum())
        with in_rows_of_x(np.flatnonzero(kept)):
            found = [
                hard_clustering(
                    self.problem_, num_clusters=count, max_steps=self.max_iter, **start
                )
                for start in starts_of(self, self.problem_, count, kept)
            ]
        best = min(found, key=lambda one: one.objective[-1])
        warn_unless_converged(best.result, self.max_iter)
        self.partition_ = _numbered(best)
        assign = lambda rows: _cheapest_or_none(self.partition_, rows)
        labels = np.asarray(self.partition_.labels)
        distinct = _num_distinct(self.partition_)
        if distinct < count:
            warnings.warn(
                f"`X` has equal rows in several clusters: {distinct} are distinct of "
                f"n_clusters={count}. Ask for fewer.",
                ConvergenceWarning,
                stacklevel=2,
            )
            ones: Any = np.ones(len(labels))
            labels = assign(unchecked(self.problem_, weights=ones))
        self.labels_ = labels_of_all(kept, labels, rest, assign)
        self.cluster_centers_ = self.partition_.means
        self.inertia_ = float(best.objective[-1])
        self.n_iter_ = max(1, best.num_steps)
        return self

    def predict(self, X: TableLike) -> np.ndarray:
        """Assign rows to the clusters under which they cost least, int32 `[r]`.

        Args:
            X: Rows of the same kind, `[r, d]`.

        Raises:
            ValueError: If rows do not fit, or no cluster can hold a row.
        """
        rows = self._new_rows(X)
        return self.partition_.assign(rows)

    def transform(self, X: TableLike) -> np.ndarray:
        """Compute the cost of each row under each cluster, `[r, n_clusters]`.

        In nats: half the squared distances to the centers for k-means, where
        `sklearn.cluster.KMeans` has the distances.

        Args:
            X: Rows of the same kind, `[r, d]`.
        """
        rows = self._new_rows(X)
        return self.partition_.assignment_costs(rows)

    def score(self, X: TableLike, y: Any = None, sample_weight: Any = None) -> float:
        """Compute minus the cost of rows under their clusters, as `KMeans` does.

        It compares clusterings of one problem; costs under other smoothings or families
        are other costs.

        Args:
            X: Rows of the same kind, `[r, d]`.
            y: Ignored.
            sample_weight: Weights of the rows, `[r]`, 1 each if None.
        """
        del y
        rows = self._new_rows(X)
        costs = self.partition_.assignment_costs(rows).min(axis=1)
        weights = checked_weights(sample_weight, rows)
        return -float(costs.sum() if weights is None else weights @ costs)

    @property
    def _n_features_out(self) -> int:
        return self.partition_.num_clusters


def _cheapest_or_none(found: HardClustering, rows: Problem) -> np.ndarray:
    """The cluster under which each row costs least, −1 if under none; int32 `[r]`."""
    costs = dataclasses.replace(found, problem=rows).assignment_costs()
    costs = np.where(np.isnan(costs), np.inf, costs)
    best = np.argmin(costs, axis=1)
    return np.where(np.isinf(costs.min(axis=1)), -1, best).astype(np.int32)


def _num_distinct(found: HardClustering) -> int:
    """How many rows differ, of the first row of each cluster.

    All do, unless equal rows are in several clusters; where there are fewer distinct
    rows than clusters, some do not.
    """
    _, first = np.unique(np.asarray(found.labels), return_index=True)
    ones: Any = np.ones(len(first))
    rows = unchecked(found.problem, x=found.problem.x[first], weights=ones)
    return len(np.unique(equal_rows(rows)))


def _numbered(found: HardClustering) -> HardClustering:
    """The partition with clusters by decreasing weight."""
    old = np.asarray(found.labels)
    order = by_weight(np.asarray(found.weights), found.problem, old)
    labels: Any = inverse(order)[old]
    return dataclasses.replace(
        found,
        labels=labels,
        weights=found.weights[order],
        costs=found.costs[order],
        states=jax.tree.map(lambda leaf: leaf[order], found.states),
    )

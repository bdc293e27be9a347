"""Agglomerative clustering as an estimator."""

from typing import Any, Self, cast, get_args

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from bregjax._cut_criteria import Criterion
from bregjax._family_like import FamilyLike
from bregjax._num_clusters import choose_num_clusters
from bregjax._problem import Problem
from bregjax._smoothing_like import SmoothingLike
from bregjax._typing import TableLike
from bregjax.families._layout import Missing
from bregjax.hierarchy import Dendrogram, agglomerate
from bregjax.hierarchy._constraints import edges_of
from bregjax.sklearn._base import FamilyEstimator, check_number_of_clusters
from bregjax.sklearn._clusters import (
    PartitionMixture,
    by_weight,
    inverse,
    likeliest,
    likeliest_or_none,
)
from bregjax.sklearn._weightless import in_rows_of_x, labels_of_all

__all__ = ["BregmanAgglomerative"]


class BregmanAgglomerative(ClusterMixin, FamilyEstimator):
    """Agglomerative clustering: the tree of `bregjax.agglomerate`, and a cut of it.

    Two clusters merge where that costs the least log-likelihood. The whole tree is
    always built, so another cut is `dendrogram_.cut(…)`, and SciPy's linkage matrix
    `dendrogram_.linkage()`.

    The clusters of the cut stand for a mixture: a density of the family at the mean
    parameter of each cluster, and its share of the weight. `predict` assigns new rows
    to the largest share times density, as `bregjax.soft_assignments` does; `labels_`
    are those of the tree, which need not be the likeliest. `n_reassigned_` says for how
    many rows of `fit` the two differ.

    Clusters are numbered by decreasing weight, so that the order of rows makes no
    difference (equal ones by the sums of their rows): `cluster_nodes_` has the node of
    each in the tree. Rows of weight 0 are no part of the tree, but must fit the family
    as all rows; their labels are predicted, −1 where no cluster can have made a row,
    such as one with a level that no other row has.

    Args:
        n_clusters: The number of clusters; "bic" for the best by the BIC, or another
            criterion of `bregjax.choose_num_clusters`; None with `max_cost`.
        max_cost: Cut where merges cost more than this, in nats: the largest clusters
            inside which no merge does. Needs n_clusters=None.
        family: A family or its name, a convex function, "auto" or a mapping by column;
            see `bregjax.Problem`.
        smoothing: A smoothing map, "auto", None, a mapping by column; or a number, a
            bandwidth of Gaussians (`family.smoothing_of`), which suits grids.
        missing: How missing cells (NaN) count, for families of independent columns;
            "observed" where only new rows lack cells.
        connectivity: Which rows may share a cluster by way of which: as of
            `bregjax.agglomerate`, or a function that makes such a graph of the rows
            given to `fit`. What no edge joins stays apart: `dendrogram_` is then a
            forest, which can't be cut into fewer clusters than it has trees.
        engine: As of `bregjax.agglomerate`.

    Attributes:
        labels_: The cluster of each row, int32 `[m]`.
        n_clusters_: The number of clusters.
        children_: The two nodes of each merge, `[m − 1, 2]`, as in
            `AgglomerativeClustering`; fewer of a forest.
        distances_: What each merge costs, in nats, `[m − 1]`. They may decrease: trees
            of Bregman divergences can invert.
        n_leaves_: The number m of leaves, the rows of weight above 0.
        cluster_nodes_: The node of each cluster, `[n_clusters_]`.
        dendrogram_: The tree.
        problem_: What the tree is of, for functions such as `bregjax.explain`.
        choice_: What `bregjax.choose_num_clusters` returned, if `n_clusters` is a
            criterion: `print(model.choice_)` shows the criteria.
        n_features_in_: The number of columns.
        feature_names_in_: Their names, if all are text.

    Examples:
        >>> import numpy as np
        >>> from bregjax.sklearn import BregmanAgglomerative
        >>> counts = np.array([[9, 1], [8, 0], [7, 2], [1, 6], [0, 8]])
        >>> model = BregmanAgglomerative(n_clusters=2, family="poisson").fit(counts)
        >>> print(model.labels_, model.distances_.round(3))
        [0 0 0 1 1] [ 0.295  0.836  1.216 15.416]
        >>> print(model.predict([[4, 2], [2, 4]]))
        [0 1]
        >>> print(model.predict_proba([[3, 3]]))
        [[0.8 0.2]]
    """

    dendrogram_: Dendrogram
    labels_: np.ndarray

    def __init__(
        self,
        n_clusters: int | str | None = 2,
        *,
        max_cost: float | None = None,
        family: FamilyLike | None = "gaussian",
        smoothing: SmoothingLike = "auto",
        missing: Missing = "auto",
        connectivity: Any = None,
        engine: str = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.max_cost = max_cost
        self.family = family
        self.smoothing = smoothing
        self.missing = missing
        self.connectivity = connectivity
        self.engine = engine

    def fit(self, X: TableLike, y: Any = None, sample_weight: Any = None) -> Self:
        """Build the tree of the rows, and cut it.

        Args:
            X: Rows `[m, d]`: arrays, data frames, lists; sparse where the family takes
                such.
            y: Ignored.
            sample_weight: Weights of the rows, `[m]`, 1 each if None: a row of weight w
                counts as w rows.

        Returns:
            The estimator.

        Raises:
            ValueError: If `n_clusters` and `max_cost` are both given, or neither; rows,
                weights or arguments do not fit; or `connectivity` leaves more trees
                than `n_clusters`.
            ArithmeticError: If a criterion says nothing of any number, as "gap" of two
                rows.

        Warns:
            UserWarning: If `n_clusters` is a criterion: what to know before its number
                is taken, as of `bregjax.choose_num_clusters`.
        """
        del y
        vars(self).pop("choice_", None)
        self._check_arguments()
        kept, rest = self._fit_problem(X, sample_weight, least=2)
        graph = self._graph(X, kept)
        with in_rows_of_x(np.flatnonzero(kept)):
            tree = agglomerate(self.problem_, connectivity=graph, engine=self.engine)
        which = self._cut(self.problem_, tree)
        weights = np.asarray(self.problem_.weights)
        own = np.asarray(tree.cut(**which))
        order = by_weight(np.bincount(own, weights), self.problem_, own)
        labels = inverse(order)[own]
        self.dendrogram_ = tree
        self.children_ = np.asarray(tree.children)
        self.distances_ = np.asarray(tree.merge_costs)
        self.n_leaves_ = tree.num_leaves
        self.n_clusters_ = len(order)
        self.cluster_nodes_ = np.asarray(tree.cluster_nodes(**which))[order]
        self._mixture = PartitionMixture(self.problem_, labels, len(order))
        assign = lambda rows: likeliest_or_none(self._mixture.shares(rows))
        self.labels_ = labels_of_all(kept, labels, rest, assign)
        return self

    def predict(self, X: TableLike) -> np.ndarray:
        """Assign rows to the likeliest cluster: largest share times density.

        Of a row of `fit` that need not be its cluster in the tree; see
        `n_reassigned_`. Rows are not smoothed.

        Args:
            X: Rows of the same kind, `[r, d]`.

        Returns:
            Cluster numbers, int32 `[r]`.

        Raises:
            ValueError: If rows do not fit, or no cluster can have made a row.
        """
        rows = self._new_rows(X)
        return likeliest(self._mixture.shares(rows))

    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Compute the posterior share of each cluster for rows, `[r, n_clusters_]`.

        Args:
            X: Rows of the same kind, `[r, d]`.

        Returns:
            Shares that add up to 1 a row; NaN for a row that no cluster can have made.
        """
        rows = self._new_rows(X)
        return self._mixture.shares(rows)

    def score(self, X: TableLike, y: Any = None) -> float:
        """Compute the mean log-density of rows under the mixture of the clusters.

        On rows that were held out it compares smoothings, families of the same kind of
        data, and numbers of clusters, as `GridSearchCV` does.

        Args:
            X: Rows of the same kind, `[r, d]`.
            y: Ignored.

        Returns:
            In nats a row; the densities of a convex function lack a term that is the
            row's alone, and those with weights of columns (`Product(weights=…)`) are
            powers that do not integrate to 1: compare them under the same weights.
        """
        del y
        rows = self._new_rows(X)
        return float(np.mean(self._mixture.log_densities(rows)))

    @property
    def n_reassigned_(self) -> int:
        """How many rows of `fit` another cluster is likelier for than their own.

        The rows of weight above 0 whose `predict` is not their label; computed when it
        is first asked for.
        """
        check_is_fitted(self)
        return self._mixture.num_reassigned

    def _check_arguments(self) -> None:
        if (self.n_clusters is None) == (self.max_cost is None):
            raise ValueError(
                "Exactly one of `n_clusters` and `max_cost` must be given; got "
                f"n_clusters={self.n_clusters!r} and max_cost={self.max_cost!r}. Pass "
                "n_clusters=None with `max_cost`."
            )

    def _graph(self, x: TableLike, kept: np.ndarray) -> Any:
        """The graph of the rows of weight above 0."""
        graph = self.connectivity
        if callable(graph):
            graph = graph(x)
        if graph is None or isinstance(graph, str) or kept.all():
            return graph
        edges = edges_of(graph, len(kept))
        number = np.cumsum(kept) - 1
        return number[edges[kept[edges].all(axis=1)]]

    def _cut(self, problem: Problem, tree: Dendrogram) -> dict[str, Any]:
        """How to cut the tree, in the words of `Dendrogram.cut`."""
        if self.max_cost is not None:
            return {"max_cost": self.max_cost}
        if not isinstance(self.n_clusters, str):
            count = check_number_of_clusters(
                "n_clusters", self.n_clusters, problem.num_points
            )
            if count < tree.num_trees:
                raise ValueError(
                    f"`n_clusters` must be at least {tree.num_trees}, the number of "
                    f"parts that no edge of `connectivity` joins; got {count}. Add "
                    "edges, or ask for more clusters."
                )
            return {"num_clusters": count}
        if self.n_clusters not in get_args(Criterion):
            raise ValueError(
                "`n_clusters` must be a whole number or one of "
                f"{', '.join(get_args(Criterion))}; got {self.n_clusters!r}."
            )
        criterion = cast(Criterion, self.n_clusters)
        self.choice_ = choose_num_clusters(problem, tree, criterion=criterion)
        return {"num_clusters": self.choice_.num_clusters}

"""Features of rows by a tree, as a transformer."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from bregjax._checks import check_count
from bregjax._family_like import FamilyLike
from bregjax._features import dendrogram_features
from bregjax._smoothing_like import SmoothingLike
from bregjax._typing import TableLike
from bregjax.families._layout import Missing
from bregjax.hierarchy import Dendrogram, agglomerate
from bregjax.sklearn._base import FamilyEstimator
from bregjax.sklearn._weightless import in_rows_of_x

__all__ = ["DendrogramFeatures"]

# How many features are made unless a number is given.
_USUAL = 10


class DendrogramFeatures(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, FamilyEstimator
):
    """Costs of rows under the top clusters of a tree, as features for a classifier.

    Feature i is Δ(C_i, {x}): what it would cost cluster C_i to take the row in, with
    C_1 the whole, C_2 the cluster that was made last but one, and so on, as
    `bregjax.dendrogram_features` has it. Rows of `fit` are treated as new ones. Costs
    are at least 0, in nats, and infinite where a cluster cannot take the row in.

    Args:
        n_features: The number of clusters, from 1 to m − 1 for m rows; if None, 10, or
            as many as merges cost something, if these are fewer.
        family: A family or its name, a convex function, "auto" or a mapping by column;
            see `bregjax.Problem`.
        smoothing: A smoothing map, "auto", None, a mapping by column; or a number, a
            bandwidth of Gaussians (`family.smoothing_of`), which suits grids.
        missing: How missing cells (NaN) count, for families of independent columns;
            "observed" where only new rows lack cells.
        engine: As of `bregjax.agglomerate`.

    Attributes:
        feature_nodes_: The node of the tree that each feature is of.
        dendrogram_: The tree.
        problem_: What the tree is of.
        n_features_in_: The number of columns.
        feature_names_in_: Their names, if all are text.

    Examples:
        >>> from bregjax.sklearn import DendrogramFeatures
        >>> x = [[0.0], [1.0], [5.0]]
        >>> model = DendrogramFeatures(n_features=2, family="ward").fit(x)
        >>> print(model.transform([[6.0]]))
        [[ 6. 10.083]]
        >>> print(model.get_feature_names_out())
        ['dendrogramfeatures0' 'dendrogramfeatures1']

    References:
        Telgarsky and Dasgupta (2012), Section 7.2.
    """

    dendrogram_: Dendrogram

    def __init__(
        self,
        n_features: int | None = None,
        *,
        family: FamilyLike | None = "gaussian",
        smoothing: SmoothingLike = "auto",
        missing: Missing = "auto",
        engine: str = "auto",
    ) -> None:
        self.n_features = n_features
        self.family = family
        self.smoothing = smoothing
        self.missing = missing
        self.engine = engine

    def fit(self, X: TableLike, y: Any = None, sample_weight: Any = None) -> Self:
        """Build the tree of the rows.

        Args:
            X: Rows `[m, d]`: arrays, data frames, lists; sparse where the family takes
                such.
            y: Ignored.
            sample_weight: Weights of the rows, `[m]`, 1 each if None: a row of weight w
                counts as w rows, and a row of weight 0 not at all, though it must fit
                the family.

        Returns:
            The estimator.

        Raises:
            ValueError: If there are fewer than `n_features` merges, or rows, weights or
                arguments do not fit.
        """
        del y
        kept, _ = self._fit_problem(X, sample_weight, least=2)
        merges = self.problem_.num_points - 1
        if self.n_features is not None:
            check_count("n_features", self.n_features, merges, "merges")
        with in_rows_of_x(np.flatnonzero(kept)):
            tree = agglomerate(self.problem_, engine=self.engine)
        count = self.n_features
        if count is None:
            # A row of weight 2 has the features of two equal rows.
            count = max(1, min(_USUAL, int(np.sum(np.asarray(tree.merge_costs) > 0))))
        self.dendrogram_ = tree
        self.feature_nodes_ = tree.top_nodes(count)
        return self

    def transform(self, X: TableLike) -> np.ndarray:
        """Compute the features of rows, `[r, n_features]`.

        Args:
            X: Rows of the same kind, `[r, d]`.

        Raises:
            ValueError: If rows do not fit, or a row has no finite cost on its own.
        """
        rows = self._new_rows(X)
        # The children alone: that the costs are those of the problem is known.
        children = self.dendrogram_.children
        features = dendrogram_features(
            self.problem_, children, rows, num_features=self._n_features_out
        )
        return np.asarray(features)

    @property
    def _n_features_out(self) -> int:
        return len(self.feature_nodes_)

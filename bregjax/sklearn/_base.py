"""What all estimators share: how their arguments make a problem, tags, new rows."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from typing_extensions import override

from bregjax._family_like import FamilyLike, lacks_cells
from bregjax._problem import Problem
from bregjax._smoothing_like import SmoothingLike
from bregjax._typing import TableLike
from bregjax.families import Categorical, Product
from bregjax.families._layout import Missing
from bregjax.sklearn._rows import (
    checked_rows,
    checked_weights,
    is_positive,
    known_geometry,
    rows_at,
    takes_missing,
)
from bregjax.sklearn._weightless import Weightless, in_rows_of_x, weightless

__all__ = ["FamilyEstimator", "check_number_of_clusters"]


class FamilyEstimator(BaseEstimator):
    """An estimator that makes a problem of its rows.

    Attributes:
        family: As of `Problem`.
        smoothing: As of `Problem`.
        missing: As of `Problem`.
        problem_: The problem of the rows of weight above 0, once fitted.
    """

    family: FamilyLike | None
    smoothing: SmoothingLike
    missing: Missing
    problem_: Problem

    @override
    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        geometry, inputs = known_geometry(self.family), tags.input_tags
        by_column = geometry is None or geometry.encodes
        inputs.sparse = geometry is not None and geometry.takes_sparse
        inputs.allow_nan = takes_missing(geometry)
        inputs.categorical = inputs.string = by_column
        inputs.positive_only = geometry is not None and is_positive(geometry)
        return tags

    def _fit_problem(
        self, x: TableLike, sample_weight: Any, *, least: int = 1
    ) -> tuple[np.ndarray, Weightless | None]:
        """Make `problem_` of the rows of weight above 0; all rows must fit the family.

        Returns:
            Which rows these are, `[m]`, and the other rows that clusters may have made.
        """
        geometry = known_geometry(self.family)
        x = checked_rows(self, x, geometry=geometry, reset=True, least=least)
        weights = checked_weights(sample_weight, x)
        kept = np.ones(np.shape(x)[0], bool) if weights is None else weights > 0
        if np.sum(kept) < least:
            raise ValueError(
                f"Found {np.sum(kept)} sample(s) of non-zero weight while a minimum of "
                f"{least} is required by {type(self).__name__}."
            )
        places, others = np.flatnonzero(kept), np.flatnonzero(~kept)
        if not len(others):
            with in_rows_of_x(places):
                self.problem_ = self._problem(x, weights, self.missing)
            return kept, None
        missing: Missing = self.missing
        if missing == "auto" and lacks_cells(rows_at(x, others)):
            missing = "observed"
        with in_rows_of_x(places):
            own = None if weights is None else weights[kept]
            self.problem_ = self._problem(rows_at(x, places), own, missing)
        declared = isinstance(geometry, Categorical) and geometry.levels is not None
        return kept, weightless(self.problem_, x, others, declared=declared)

    def _problem(
        self, x: TableLike, weights: np.ndarray | None, missing: Missing
    ) -> Problem:
        return Problem(
            x,
            family=self.family,
            smoothing=self.smoothing,
            weights=weights,
            missing=missing,
        )

    def _new_rows(self, x: TableLike) -> TableLike:
        """Rows given to a fitted estimator.

        Raises:
            ValueError: If they do not fit, in scikit-learn's words.
        """
        check_is_fitted(self)
        geometry = known_geometry(self.family)
        x = checked_rows(self, x, geometry=geometry, reset=False)
        whole = not isinstance(self.problem_.family, Product)
        if whole and takes_missing(geometry) and lacks_cells(x):
            raise ValueError(
                "Input X contains NaN, which the rows of `fit` did not. Say "
                'missing="observed" before `fit`, or impute.'
            )
        return x


def check_number_of_clusters(name: str, count: Any, num_rows: int) -> int:
    """Return a number of clusters, from 1 to that of the rows.

    Raises:
        ValueError: In scikit-learn's words, if there are too few rows, or less than 1.
        TypeError: If it is no whole number.
    """
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise TypeError(f"`{name}` must be a whole number; got {count!r}.")
    if count < 1:
        raise ValueError(f"`{name}` must be 1 at least; got {count}.")
    if count > num_rows:
        raise ValueError(
            f"n_samples={num_rows} should be >= {name}={count}. Ask for fewer; rows of "
            "weight 0 do not count."
        )
    return int(count)

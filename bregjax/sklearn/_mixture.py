"""Mixtures of any family, fitted by EM, as an estimator."""

import dataclasses
from numbers import Real
from typing import Any, Self

import jax
import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bregjax._family_like import FamilyLike
from bregjax._new_rows import new_rows
from bregjax._result import Result
from bregjax._smoothing_like import SmoothingLike
from bregjax._typing import DataLike, TableLike
from bregjax.families import Family
from bregjax.families._cluster_samples import sample_clusters
from bregjax.families._layout import Missing
from bregjax.hierarchy._cut_states import Clusters
from bregjax.partition import SoftClustering
from bregjax.partition._mixture import log_densities_of_rows, shares_of_rows
from bregjax.partition._soft import fitted_clustering, warn_of_idle
from bregjax.sklearn._base import FamilyEstimator, check_number_of_clusters
from bregjax.sklearn._clusters import by_weight, likeliest, likeliest_or_none
from bregjax.sklearn._starts import Init, starts_of, warn_unless_converged
from bregjax.sklearn._weightless import Weightless, in_rows_of_x, labels_of_all
from bregjax.smoothing._lessened import check_share

__all__ = ["ExponentialFamilyMixture"]


class ExponentialFamilyMixture(DensityMixin, FamilyEstimator):
    """A mixture of k distributions of one family, fitted by EM.

    `bregjax.soft_clustering` from the cut of a tree, or from seeds. With Gaussians it
    is the model of `sklearn.mixture.GaussianMixture`, with the square of the bandwidth
    as `reg_covar`.

    Components are numbered by decreasing weight, so that the order of rows makes no
    difference.

    Args:
        n_components: The number of components.
        init: "tree", the cut of the tree of `bregjax.agglomerate`, which always gives
            the same and takes time by the square of the rows, so some minutes for a
            hundred thousand; "divergence" for seeds drawn with probabilities in
            proportion to the cost of merging a row with the nearest seed before;
            "random" for seeds drawn by weight alone; or labels `[m]` or
            responsibilities `[m, k]` to start from.
        n_init: How many seedings are tried; the result with the largest objective is
            kept. A tree, labels or responsibilities are one start.
        max_iter: Most iterations.
        tol: EM ends when a step gains no more than this, in nats per unit of weight.
        random_state: An integer, a `RandomState` or None, for the seeds and for
            `sample`; an integer is the `key` of `bregjax.soft_clustering` for the first
            seeding.
        family: A family or its name, "auto" or a mapping by column; see
            `bregjax.Problem`.
        smoothing: A smoothing map, None, a mapping by column; or a number, a bandwidth
            of Gaussians (`family.smoothing_of`), which suits grids. "auto" is a part of
            the default of the family. None is for counts and categories: under
            families of continuous columns a row alone has no finite density.
        smoothing_share: Which part with "auto": of the covariance of kernels, so a
            tenth of their bandwidth at 0.01, and of amounts. The default of a family
            suits trees, whose first clusters are single rows; components would be far
            too wide by it. The tree to start from has the whole.
        missing: How missing cells (NaN) count, for families of independent columns;
            "observed" where only new rows lack cells.

    Attributes:
        weights_: The mixing weight of each component, `[n_components]`.
        means_: Mean parameters of the components: means of the statistics T(x), as
            `BregmanKMeans.cluster_centers_`, `[n_components, n]`. For all parameters
            see `mixture_.states`.
        covariances_: Of Gaussians their covariances, as scikit-learn has them:
            `[n_components, d, d]`, variances `[n_components, d]` of
            "diagonal_gaussian", `[n_components]` of round ones.
        converged_: Whether EM came to an end.
        n_iter_: How many iterations made the objective larger; 1 at least.
        lower_bound_: The objective of EM per unit of weight, in nats: the mean
            log-likelihood of the rows, as smoothed, less a term that is the rows'
            alone. `score` has the log-likelihood of rows as they are.
        lower_bounds_: The same after each iteration, `[n_iter_]`.
        mixture_: What `bregjax.soft_clustering` returned, of the rows of weight above
            0, with the components in this order.
        problem_: What was fitted to.
        n_features_in_: The number of columns.
        feature_names_in_: Their names, if all are text.

    Examples:
        >>> from bregjax.sklearn import ExponentialFamilyMixture
        >>> counts = [[0], [1], [1], [2], [8], [9], [11]]
        >>> model = ExponentialFamilyMixture(2, family="poisson").fit(counts)
        >>> print(model.weights_, model.means_.ravel())
        [0.569 0.431] [0.996 9.283]
        >>> print(model.predict([[3], [5]]), model.predict_proba([[4]]))
        [0 1] [[0.41 0.59]]
        >>> print(model.score([[3], [5]]), model.bic(counts))
        -3.460 37.48
    """

    mixture_: SoftClustering

    def __init__(
        self,
        n_components: int = 1,
        *,
        init: Init | DataLike = "tree",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: Any = None,
        family: FamilyLike | None = "gaussian",
        smoothing: SmoothingLike = "auto",
        smoothing_share: float = 0.01,
        missing: Missing = "auto",
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.family = family
        self.smoothing = smoothing
        self.smoothing_share = smoothing_share
        self.missing = missing

    def fit(self, X: TableLike, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the mixture to rows.

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
            ValueError: If rows, weights or arguments do not fit, or the family has no
                densities (a convex function).

        Warns:
            ConvergenceWarning: If `max_iter` was too small.
            UserWarning: If some component is the likeliest of no row.
        """
        del y
        self._fit(X, sample_weight)
        return self

    def _fit(
        self, x: TableLike, sample_weight: Any
    ) -> tuple[np.ndarray, Weightless | None]:
        """Fit; return what `_fit_problem` does."""
        if not isinstance(self.tol, Real) or not float(self.tol) >= 0:
            raise ValueError(
                f"`tol` must be a number that is not negative; got {self.tol!r}."
            )
        check_share(self.smoothing_share)
        kept, rest = self._fit_problem(x, sample_weight, least=2)
        if not isinstance(self.problem_.family, Family):
            raise ValueError(
                "`family` must be a family, whose densities make a mixture; got "
                f"{self.problem_.family!r}. BregmanKMeans takes convex functions."
            )
        count = check_number_of_clusters("n_components", self.n_components, kept.sum())
        share = self.smoothing_share if isinstance(self.smoothing, str) else None
        with in_rows_of_x(np.flatnonzero(kept)):
            found = [
                fitted_clustering(
                    self.problem_,
                    num_clusters=count,
                    smoothing_share=1.0 if share is None else share,
                    tolerance=self.tol,
                    max_steps=self.max_iter,
                    **start,
                )
                for start in starts_of(
                    self, self.problem_, count, kept, name="n_components"
                )
            ]
        best = max(found, key=lambda one: one.objective[-1])
        warn_unless_converged(best.result, self.max_iter)
        self.mixture_ = _numbered(best)
        warn_of_idle(self.mixture_, share, stacklevel=4)
        self.problem_ = best.problem
        self.weights_ = np.asarray(self.mixture_.shares)
        self.means_ = self.mixture_.means
        self.converged_ = best.result is Result.CONVERGED
        self.n_iter_ = max(1, best.num_steps)
        bounds = np.asarray(best.objective) / np.sum(self.problem_.weights)
        self.lower_bound_ = float(bounds[-1])
        self.lower_bounds_ = bounds[-self.n_iter_ :]
        return kept, rest

    def fit_predict(
        self, X: TableLike, y: Any = None, sample_weight: Any = None
    ) -> np.ndarray:
        """Fit the mixture to rows; return what `predict` says of them, int32 `[m]`.

        Args:
            X: As of `fit`.
            y: Ignored.
            sample_weight: As of `fit`.

        Returns:
            Components; −1 for a row of weight 0 that none can have made, such as one
            with a level that no other row has.
        """
        del y
        kept, rest = self._fit(X, sample_weight)
        shares = lambda rows: np.asarray(shares_of_rows(rows, self._clusters, None))
        with in_rows_of_x(np.flatnonzero(kept)):
            labels = likeliest(shares(self.problem_))
        assign = lambda rows: likeliest_or_none(shares(rows))
        return labels_of_all(kept, labels, rest, assign)

    def predict(self, X: TableLike) -> np.ndarray:
        """Assign rows to the component of the largest share times density, int32 `[r]`.

        Args:
            X: Rows of the same kind, `[r, d]`.

        Raises:
            ValueError: If rows do not fit, or no component can have made a row.
        """
        return likeliest(self.predict_proba(X))

    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Compute the posterior share of each component, `[r, n_components]`.

        Args:
            X: Rows of the same kind, `[r, d]`.

        Returns:
            Shares that add up to 1 a row; NaN for a row that no component can have
            made.
        """
        rows = self._new_rows(X)
        return np.asarray(self.mixture_.assign(rows))

    def score_samples(self, X: TableLike) -> np.ndarray:
        """Compute the log-density of each row under the mixture, `[r]`, in nats.

        Rows are taken as they are: no smoothing applies to them. With weights of
        columns (`Product(weights=…)`) densities are taken to these powers, as in EM,
        and do not integrate to 1: compare such values, and `score`, `bic` and `aic`,
        under the same weights alone.

        Args:
            X: Rows of the same kind, `[r, d]`.
        """
        rows = new_rows(self.problem_, self._new_rows(X))
        return np.asarray(log_densities_of_rows(rows, self._clusters))

    def score(  # pyright: ignore[reportIncompatibleMethodOverride] - no types there
        self, X: TableLike, y: Any = None
    ) -> float:
        """Compute the mean log-density of rows, in nats.

        Args:
            X: Rows of the same kind, `[r, d]`.
            y: Ignored.
        """
        del y
        return float(np.mean(self.score_samples(X)))

    def bic(self, X: TableLike) -> float:
        """Compute the Bayesian information criterion of rows: the lower the better.

            −2 Σ log p(x) + ν log r,    ν = k p + k − 1

        with p the number of parameters of the family, `family.num_parameters`. As in
        scikit-learn each row counts once, whatever `sample_weight` was in `fit`;
        `bregjax.choose_num_clusters` counts the weights.

        Args:
            X: Rows of the same kind, `[r, d]`.
        """
        densities = self.score_samples(X)
        return float(
            -2 * np.sum(densities) + self._num_parameters * np.log(len(densities))
        )

    def aic(self, X: TableLike) -> float:
        """Compute Akaike's information criterion of rows: the lower the better.

            −2 Σ log p(x) + 2 ν,    ν as of `bic`

        As there each row counts once, whatever `sample_weight` was in `fit`.

        Args:
            X: Rows of the same kind, `[r, d]`.
        """
        return float(-2 * np.sum(self.score_samples(X)) + 2 * self._num_parameters)

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows from the mixture, component by component.

        An integer `random_state` draws the same rows each time. A row of `Multinomial`
        is one trial.

        Args:
            n_samples: How many rows, 1 at least.

        Returns:
            Rows `[n_samples, d]` in the columns that the family uses, categories by
            their names; and the component of each row, `[n_samples]`.

        Raises:
            ValueError: If the family is one of your own, which has no sampler here.
        """
        check_is_fitted(self)
        whole = isinstance(n_samples, int | np.integer)
        if isinstance(n_samples, bool) or not whole or n_samples < 1:
            raise ValueError(
                f"`n_samples` must be a whole number from 1; got {n_samples!r}."
            )
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        generator = np.random.default_rng(seed)
        counts = generator.multinomial(n_samples, self.weights_ / self.weights_.sum())
        rows = sample_clusters(
            self.problem_.family, self.mixture_.states, counts, generator
        )
        return rows, np.repeat(np.arange(len(counts)), counts)

    @property
    def covariances_(self) -> Any:
        """Covariances of Gaussian components; no other family has such."""
        check_is_fitted(self)
        return self.mixture_.covariances

    @property
    def _clusters(self) -> Clusters:
        return Clusters(self.mixture_.states, self.mixture_.weights)

    @property
    def _num_parameters(self) -> int:
        family: Any = self.problem_.family
        return len(self.weights_) * (family.num_parameters + 1) - 1


def _numbered(found: SoftClustering) -> SoftClustering:
    """The mixture with components by decreasing weight."""
    labels = np.asarray(found.labels)
    order = by_weight(np.asarray(found.weights), found.problem, labels)
    return dataclasses.replace(
        found,
        responsibilities=found.responsibilities[:, order],
        weights=found.weights[order],
        states=jax.tree.map(lambda leaf: leaf[order], found.states),
    )

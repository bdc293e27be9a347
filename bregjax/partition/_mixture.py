"""Rows under the mixture of some clusters, by their densities."""

import math
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from bregjax._checks import is_concrete
from bregjax._evaluation import padded_size, working
from bregjax._new_rows import new_rows
from bregjax._problem import Problem
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array, PyTree, TableLike
from bregjax.hierarchy._cut_densities import (
    log_likelihoods_by_density,
    row_log_likelihoods,
    row_shares,
    shares_by_density,
)
from bregjax.hierarchy._cut_states import Clusters
from bregjax.hierarchy._nested_cuts import mixture_sums, mixture_sums_by_density
from bregjax.partition._parameters import centers_of, covariances_of
from bregjax.partition._sparse_densities import log_densities

__all__ = [
    "Fitted",
    "check_known",
    "counted",
    "log_densities_of_rows",
    "shares_of_rows",
    "sums_of_rows",
]


class Fitted:
    """What hard and soft clusterings of a problem have in common.

    Attributes:
        problem: What was clustered.
        weights: Weights W_k of the clusters, `[k]`.
        states: The clusters in the form of the family's cluster model, `[k, ...]`.
        objective: Of the start and after each step, `[num_steps + 1]`.
    """

    problem: Problem
    weights: Array
    states: PyTree
    objective: Array

    @property
    def num_clusters(self) -> int:
        """The number k of clusters."""
        return self.weights.shape[0]

    @property
    def num_steps(self) -> int:
        """How often the clusters were fitted again."""
        return self.objective.shape[0] - 1

    @property
    def shares(self) -> Array:
        """Mixing weights π_k = W_k / W, `[k]`, which add up to 1."""
        return self.weights / self.weights.sum()

    @property
    def means(self) -> Any:
        """Mean parameters of the clusters: means of the statistic T(x), `[k, n]`.

        Of Gaussians, counts and yes/no columns these are the means of the columns, in
        their units, `[k, d]`; of categories the share of each level. Of a table of
        several families a tuple, with such an array for each block of columns
        (`problem.family.families`). Smoothing by counts and amounts is part of them;
        all other parameters are in `states`.

        Examples:
            >>> import bregjax as bj
            >>> problem = bj.Problem([[0.0], [1.0], [5.0]], family="ward")
            >>> print(bj.hard_clustering(problem, init=[0, 0, 1]).means.ravel())
            [0.5 5. ]
        """
        return centers_of(self.problem.family, self.states)

    @property
    def covariances(self) -> Any:
        """Covariances of Gaussian clusters.

        They are those that densities are computed with, so a bandwidth, a row's own
        blur, is part of them; `plot_ellipses` takes it away.

        Returns:
            `[k, d, d]` of "gaussian"; variances `[k, d]` of "diagonal_gaussian", and
            `[k]` of "isotropic_gaussian" and "ward", which knows its own. Of a table of
            several families a tuple, with None for blocks that are no Gaussians.

        Raises:
            AttributeError: If the family is no Gaussian.

        Examples:
            >>> import bregjax as bj
            >>> x = [[0.0, 1.0], [2.0, 1.0], [7.0, 5.0]]
            >>> problem = bj.Problem(x, family="gaussian", smoothing=bj.blur(0.5))
            >>> print(bj.hard_clustering(problem, init=[0, 0, 1]).covariances[0])
            [[1.25 0.  ]
             [0.   0.25]]
        """
        found = covariances_of(self.problem.family, self.states)
        if found is None:
            raise AttributeError(
                "`covariances` are those of Gaussian families; got "
                f"{type(self.problem.family).__name__}. See `means` and `states`."
            )
        return found

    def log_likelihood(self, rows: TableLike | None = None) -> Array:
        """Log-likelihood of rows under the mixture: Σ_rows log Σ_k π_k p(x; τ_k).

        As `held_out_log_likelihood` has it for a cut: rows are not smoothed.

        Args:
            rows: Rows of the same kind, `[r, d]`, of weight 1 each; those of the
                problem with their weights if None.

        Returns:
            Scalar, in nats; −inf if a row has no likelihood. The densities of a convex
            function lack a term that is x's alone; with weights of columns
            (`Product(weights=…)`) they are powers that do not integrate to 1.

        Raises:
            ValueError: If `rows` do not fit.

        Examples:
            >>> import bregjax as bj
            >>> problem = bj.Problem([[0.0], [1.0], [5.0]], family="ward")
            >>> found = bj.hard_clustering(problem, init=[0, 0, 1])
            >>> print(found.log_likelihood([[0.4]]))
            -1.3294
        """
        clusters = Clusters(self.states, self.weights)
        others = self.problem if rows is None else new_rows(self.problem, rows)
        each = log_densities_of_rows(others, clusters)
        if not is_concrete((others, each)):
            return jnp.sum(others.weights * each)
        return cast(Array, np.sum(np.asarray(others.weights) * np.asarray(each)))


def log_densities_of_rows(rows: Problem, clusters: Clusters) -> Array:
    """log Σ_k π_k p(x; τ_k) of each row of a problem, `[r]`; rows are not smoothed."""
    count = rows.num_points
    with working((rows, clusters)) as (rows, clusters):
        if isinstance(rows.x, SparseRows):
            densities = _known_densities("log_likelihood", rows, clusters)
            each = log_likelihoods_by_density(densities, clusters.weights)
        else:
            each = row_log_likelihoods(rows.family, clusters, rows.x)
        if not is_concrete((rows, each)):
            return each
        return cast(Array, np.asarray(each)[:count])


def shares_of_rows(
    problem: Problem, clusters: Clusters, rows: TableLike | None
) -> Array:
    """The posterior shares of clusters for each row, `[r, k]`."""
    others = problem if rows is None else new_rows(problem, rows)
    with working((others, clusters)) as (others, clusters):
        if isinstance(others.x, SparseRows):
            densities = _known_densities("assign", others, clusters)
            shares = shares_by_density(densities, clusters.weights, 1.0)
        else:
            shares = row_shares(others.family, clusters, others.x, 1.0)
        if not is_concrete(shares):
            return shares
        return cast(Array, np.asarray(shares)[: others.num_points])


def sums_of_rows(problem: Problem, clusters: Clusters) -> np.ndarray:
    """Log-likelihoods of known rows under a mixture, `[2]`; see `likelihoods_of_cuts`.

    Call it in the precision of the work.
    """
    weights, within = problem.weights, np.ones((1, clusters.weights.shape[0]), bool)
    if not isinstance(problem.x, SparseRows):
        rows = problem.x, weights
        return np.asarray(mixture_sums(problem.family, clusters, *rows, within))[:, 0]
    scores = _known_densities("choose_num_clusters", problem, clusters)
    extra = len(scores) - problem.num_points
    sums = mixture_sums_by_density(
        scores, clusters.weights, np.pad(weights, (0, extra)), within
    )
    return np.asarray(sums)[:, 0]


def _known_densities(name: str, rows: Problem, clusters: Clusters) -> np.ndarray:
    """Log-densities of sparse rows under clusters, `[p, k]`, from row r on filled up.

    Raises:
        TypeError: Under `jit` or another transformation.
    """
    if not is_concrete((rows, clusters)):
        raise TypeError(
            f"`{name}` takes sparse rows on the host: call it outside jit, grad and "
            "vmap. bregjax.soft_assignments and "
            "bregjax.objectives.held_out_log_likelihood, by a tree, can be traced."
        )
    found = log_densities(rows, clusters.states)
    extra = padded_size(len(found)) - len(found)
    return np.pad(found, ((0, extra), (0, 0)))


def counted(number: int, noun: str) -> str:
    """The number with its noun, in the plural unless it is 1."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def check_known(value: float) -> None:
    """Raise ArithmeticError unless an objective is finite."""
    if not math.isfinite(value):
        raise ArithmeticError(
            f"Costs of rows under clusters could not be computed: the objective is "
            f"{value}. `family.check(x)` says more; smoothing or rescaling the "
            "statistics may help."
        )

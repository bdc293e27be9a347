"""Rows under the mixture of some clusters, by their densities."""

import math
from typing import cast

import jax.numpy as jnp
import numpy as np

from bregjax._checks import is_concrete
from bregjax._evaluation import working
from bregjax._problem import Problem, new_rows
from bregjax._typing import Array, DataLike
from bregjax.hierarchy._cut_densities import row_log_likelihoods, row_shares
from bregjax.hierarchy._cut_states import Clusters

__all__ = ["check_known", "counted", "log_likelihood_of", "shares_of_rows"]


def log_likelihood_of(
    problem: Problem, clusters: Clusters, rows: DataLike | None
) -> Array:
    """Σ_rows w log Σ_k π_k p(x; τ_k), scalar; rows of the problem if None."""
    others = problem if rows is None else new_rows(problem, rows)
    with working((others, clusters)) as (others, clusters):
        each = row_log_likelihoods(others.family, clusters, others.x)
        total = jnp.sum(others.weights * each)
        return cast(Array, np.asarray(total)[()]) if is_concrete(total) else total


def shares_of_rows(
    problem: Problem, clusters: Clusters, rows: DataLike | None
) -> Array:
    """The posterior shares of clusters for each row, `[r, k]`."""
    others = problem if rows is None else new_rows(problem, rows)
    with working((others, clusters)) as (others, clusters):
        shares = row_shares(others.family, clusters, others.x, 1.0)
        return cast(Array, np.asarray(shares)) if is_concrete(shares) else shares


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

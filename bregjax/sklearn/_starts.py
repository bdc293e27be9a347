"""Where partitions of estimators start, and whether they came to an end."""

import warnings
from typing import Any, Literal, Protocol, get_args

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bregjax._problem import Problem
from bregjax._result import Result
from bregjax._typing import DataLike
from bregjax.hierarchy import agglomerate

__all__ = ["Init", "starts_of", "warn_unless_converged"]

Init = Literal["tree", "divergence", "random"]


class _Started(Protocol):
    init: Init | DataLike
    n_init: int
    max_iter: int
    random_state: Any


def starts_of(
    estimator: _Started,
    problem: Problem,
    num_clusters: int,
    kept: np.ndarray,
    *,
    name: str = "n_clusters",
) -> list[dict[str, Any]]:
    """`init` and `key` of each start, as `hard_clustering` takes them.

    Args:
        estimator: The estimator with its arguments.
        problem: What a tree is made of.
        num_clusters: How many clusters a tree is cut into.
        kept: Which rows of `fit` are part of the problem, `[m]`.
        name: What the estimator calls the number of clusters.

    Raises:
        ValueError: If `init`, `n_init` or `max_iter` does not fit.
    """
    for which in ("n_init", "max_iter"):
        value = getattr(estimator, which)
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < 1:
            raise ValueError(f"`{which}` must be a whole number from 1; got {value!r}.")
    init: Any = estimator.init
    if not isinstance(init, str):
        if np.shape(init)[:1] != kept.shape:
            raise ValueError(
                f"`init` must have an entry for each of the {len(kept)} rows; got "
                f"shape {np.shape(init)}."
            )
        start = np.asarray(init)[kept]
        without = "" if kept.all() else "; rows of weight 0 do not count"
        _check_start(start, num_clusters, name, without)
        return [{"init": start}]
    if init not in get_args(Init):
        raise ValueError(
            f"`init` must be one of {', '.join(get_args(Init))}, or an entry for each "
            f"row; got {init!r}."
        )
    if num_clusters == 1:
        # One cluster has all rows, wherever it starts.
        return [{"init": np.zeros(problem.num_points, np.int32)}]
    if init == "tree":
        return [{"init": agglomerate(problem).cut(num_clusters)}]
    seeds = _seeds(estimator.random_state, estimator.n_init)
    return [{"init": init, "key": seed} for seed in seeds]


def _check_start(start: np.ndarray, num_clusters: int, name: str, without: str) -> None:
    """Raise ValueError unless labels or responsibilities use every cluster."""
    if start.ndim == 1 and np.issubdtype(start.dtype, np.integer):
        used = np.unique(start)
        if not np.array_equal(used, np.arange(num_clusters)):
            shown = np.array2string(used, threshold=8, edgeitems=3)
            raise ValueError(
                f"`init` must use each of the labels from 0 to {num_clusters - 1}, as "
                f"{name}={num_clusters}{without}; got {shown}. Number them by "
                f"numpy.unique(labels, return_inverse=True)[1], or change `{name}`."
            )
    if start.ndim == 2:
        if start.shape[1] != num_clusters:
            raise ValueError(
                f"`init` must have a column for each component, {name}="
                f"{num_clusters}; got shape {start.shape}. Change `{name}`."
            )
        empty = np.flatnonzero((start == 0).all(axis=0))
        if len(empty):
            raise ValueError(
                f"`init` must give each component a part of some row{without}; got 0 "
                f"throughout in column {empty[0]}. Drop such columns."
            )


def warn_unless_converged(result: Result, max_iter: int) -> None:
    """Warn where iterations were cut short, or made nothing better."""
    words = {
        Result.STEP_LIMIT: (
            f"No end after `max_iter` = {max_iter} iterations. Pass a larger one."
        ),
        Result.STALLED: (
            "A further iteration would have made the objective worse, as rounding or "
            "kinks of a function may; the best is kept. Smooth more, or end sooner by "
            "a larger tolerance."
        ),
    }
    if result in words:
        warnings.warn(words[result], ConvergenceWarning, stacklevel=3)


def _seeds(random_state: Any, count: int) -> list[int]:
    """Integers that JAX keys are made of; the first of an integer is that integer."""
    draws = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=count)
    seeds = [int(seed) for seed in draws]
    if isinstance(random_state, int | np.integer):
        seeds[0] = int(random_state)
    return seeds

"""Where hard clustering and EM start: a tree, labels, responsibilities or seeds."""

from typing import Literal, SupportsIndex, get_args

import numpy as np

from bregjax._checks import as_key, check_count, is_concrete
from bregjax._problem import Problem
from bregjax._typing import ArrayLike, DataLike
from bregjax.hierarchy import Dendrogram
from bregjax.hierarchy._provenance import check_same_problem
from bregjax.hierarchy._tree_costs import children_of
from bregjax.partition._base import Points
from bregjax.partition._seeding import labels_of_seeds

__all__ = ["Seeding", "Start", "starting_labels", "starting_shares"]

Seeding = Literal["divergence", "random"]

Start = Dendrogram | DataLike | Seeding

# The part of each row that all clusters share alike where EM starts from seeds. At 0, a
# count that no row of a seed has would never come into its cluster; at half and at
# double EM ended as well, in about as many steps.
_SPREAD = 0.1


def starting_labels(
    problem: Problem,
    points: Points,
    init: Start,
    num_clusters: SupportsIndex | None,
    key: ArrayLike | None,
) -> tuple[np.ndarray, int]:
    """Labels `[m]` to start from, each of the numbers below k used, and k.

    Raises:
        ValueError: If `init` does not fit, `num_clusters` or `key` is missing, or
            `num_clusters` contradicts `init`.
        TypeError: If `init` is of no kind known here.
    """
    m = problem.num_points
    if isinstance(init, Dendrogram):
        children_of(init, m, name="init")
        check_same_problem(init, problem)
        count = _needed_count(num_clusters, m, "a tree")
        return np.asarray(init.cut(num_clusters=count)), count
    if isinstance(init, str):
        if init not in get_args(Seeding):
            raise ValueError(
                f"`init` must be a tree, labels or one of {list(get_args(Seeding))}; "
                f"got {init!r}."
            )
        count = _needed_count(num_clusters, m, f"init={init!r}")
        if key is None:
            raise ValueError(
                f"`key` must be given with init={init!r}, whose seeds are drawn. Pass "
                "a JAX key or an integer, or init=agglomerate(problem)."
            )
        seed = as_key(key)
        return labels_of_seeds(points, m, count, seed, by_cost=init == "divergence")
    return _given_labels(init, m, num_clusters)


def starting_shares(
    problem: Problem,
    points: Points,
    init: Start,
    num_clusters: SupportsIndex | None,
    key: ArrayLike | None,
) -> np.ndarray:
    """Responsibilities `[m, k]` to start from, which add up to 1 a row.

    Raises:
        ValueError: As `starting_labels`, or if responsibilities are negative or do not
            add up to 1, or a cluster has none.
        TypeError: As `starting_labels`.
    """
    if isinstance(init, (str, Dendrogram)) or np.ndim(init) != 2:
        labels, count = starting_labels(problem, points, init, num_clusters, key)
        shares = np.eye(count)[labels]
        if isinstance(init, str):
            shares = (1 - _SPREAD) * shares + _SPREAD / count
        return shares
    return _given_shares(init, problem.num_points, num_clusters)


def _needed_count(num_clusters: SupportsIndex | None, m: int, start: str) -> int:
    if num_clusters is None:
        raise ValueError(
            f"`num_clusters` must be given with {start}; only labels and "
            "responsibilities say how many clusters there are."
        )
    return check_count("num_clusters", num_clusters, m, "rows")


def _given_labels(
    init: DataLike, m: int, num_clusters: SupportsIndex | None
) -> tuple[np.ndarray, int]:
    labels = _known(init)
    whole = np.issubdtype(labels.dtype, np.integer)
    if labels.shape != (m,) or not whole:
        raise ValueError(
            f"`init` must be a label for each of the {m} rows, integers of shape "
            f"({m},), or a tree, or the name of a seeding; got {labels.dtype} of shape "
            f"{labels.shape}. Number names by numpy.unique(names, return_inverse=True)."
        )
    count = int(labels.max()) + 1
    if num_clusters is not None:
        count = check_count("num_clusters", num_clusters, m, "rows")
    used = np.unique(labels)
    if not np.array_equal(used, np.arange(count)):
        raise ValueError(
            f"`init` must use each of the labels from 0 to {count - 1}; got "
            f"{np.array2string(used, threshold=8, edgeitems=3)}. Number them without "
            "gaps, numpy.unique(labels, return_inverse=True)[1], and leave "
            "`num_clusters` out."
        )
    return labels.astype(np.int32), count


def _given_shares(
    init: DataLike, m: int, num_clusters: SupportsIndex | None
) -> np.ndarray:
    shares = _known(init).astype(float)
    if len(shares) != m:
        raise ValueError(
            f"`init` must have responsibilities for each of the {m} rows; got shape "
            f"{shares.shape}."
        )
    count = shares.shape[1]
    if (
        num_clusters is not None
        and check_count("num_clusters", num_clusters, m, "rows") != count
    ):
        raise ValueError(
            f"`num_clusters` must be {count}, the number of columns of `init`, or left "
            f"out; got {num_clusters}."
        )
    total = shares.sum(axis=1)
    wrong = np.any(~(shares >= 0), axis=1) | ~(np.abs(total - 1) < 1e-3)
    if np.any(wrong):
        row = int(np.argmax(wrong))
        raise ValueError(
            f"`init` must be non-negative responsibilities that add up to 1 a row; got "
            f"{np.array2string(shares[row], threshold=8, edgeitems=3)} at row {row}. "
            "Divide by init.sum(axis=1, keepdims=True)."
        )
    empty = np.flatnonzero(shares.sum(axis=0) == 0)
    if len(empty):
        raise ValueError(
            f"`init` must give each cluster a part of some row; got 0 throughout in "
            f"column {empty[0]}. Drop such columns."
        )
    return shares / total[:, None]


def _known(init: DataLike) -> np.ndarray:
    if not is_concrete(init):
        raise TypeError("`init` must be known values; got a tracer.")
    return np.asarray(init)

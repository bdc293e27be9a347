"""Features and soft assignments of rows, old or new, by a tree."""

from typing import Any, SupportsIndex

import numpy as np

from bregjax._centers import sparse_fault
from bregjax._checks import check_count, is_concrete
from bregjax._columns import ColumnBlocks, by_columns
from bregjax._evaluation import (
    build_leaves,
    check_leaves,
    evaluate,
    leaf_codes,
    padded_if_sparse,
    working,
)
from bregjax._new_rows import new_rows
from bregjax._problem import Problem, check_problem
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array, DataLike, TableLike
from bregjax.hierarchy import Dendrogram
from bregjax.hierarchy._cut_densities import row_shares, shares_by_density
from bregjax.hierarchy._cut_states import clusters_at, clusters_of_cut
from bregjax.hierarchy._cuts import check_cut
from bregjax.hierarchy._provenance import check_same_problem
from bregjax.hierarchy._sparse.densities import scores_of_cut
from bregjax.hierarchy._sparse.features import sparse_features
from bregjax.hierarchy._steps import costs_to_clusters
from bregjax.hierarchy._tree_costs import children_of

__all__ = ["dendrogram_features", "soft_assignments"]


def dendrogram_features(
    problem: Problem,
    tree: Dendrogram | DataLike,
    rows: TableLike | None = None,
    *,
    num_features: SupportsIndex,
) -> Array:
    """Compute features Δ(C_i, {x}): what it would cost each cluster to take a row in.

    The clusters are the top of the tree, those made last: C_1 is the whole, C_2 the
    last but one to be made, and so on; they are nested. Of a forest too they are those
    made last, and no cluster is the whole. A row of the tree's own is
    treated as a new one. Differentiable in the rows, in the data that the tree is of,
    and in the leaves of family and smoothing; the tree is held fixed.

    Args:
        problem: What the tree is of.
        tree: A dendrogram of the problem, or its children `[m − 1, 2]`.
        rows: Rows to describe, `[r, d]`, of weight 1 each; those of the problem if
            None.
        num_features: The number k of clusters, from 1 to that of merges.

    Returns:
        Costs in nats, `[r, k]`: a NumPy array when everything is concrete, float64 on
        a CPU; else a JAX array.

    Raises:
        ValueError: If the tree has another number of leaves or merge costs of another
            problem, `rows` do not fit the family, there are fewer than `num_features`
            merges, or a row has no finite cost.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> tree = [[0, 1], [2, 3]]
        >>> print(dendrogram_features(problem, tree, [[6.0]], num_features=2))
        [[ 6. 10.083]]

    References:
        Telgarsky and Dasgupta (2012), Section 7.2.
    """
    problem = check_problem(problem)
    children = children_of(tree, problem.num_points)
    if problem.num_points == 1:
        raise ValueError(
            "`problem` must have two rows at least: one row makes no merge."
        )
    if not len(children):
        raise ValueError(
            "`tree` must have a merge at least, whose cluster is the first feature; "
            "got none."
        )
    check_same_problem(tree, problem)
    count = check_count("num_features", num_features, len(children), "merges")
    others = new_rows(problem, rows)
    if isinstance(problem.x, SparseRows) and is_concrete((problem, children, others)):
        weights: Any = np.concatenate([problem.weights, others.weights])
        # The rows weigh 1: beside others the floors of pseudo-counts may differ.
        if not sparse_fault(problem.smoothing, problem.family, weights):
            return _sparse_features(problem, np.asarray(children), others, count)
    return evaluate(
        _features, problem, children, others, in_steps=True, num_features=count
    )


def soft_assignments(
    problem: Problem,
    tree: Dendrogram | DataLike,
    rows: TableLike | None = None,
    *,
    num_clusters: SupportsIndex,
    temperature: DataLike = 1.0,
) -> Array:
    """Compute the responsibilities of the clusters of a cut for rows, old or new.

        r_k(x) ∝ (π_k p(x; τ_k))^(1/T),   π_k = W_k / W

    with the density of the family at the cluster's mean parameter: at T = 1 the
    posterior of the mixture that the cut stands for; towards T = 0 the cluster of
    greatest likelihood, towards infinity all alike. For a convex function in the place
    of a family p(x; τ) is exp(−B_f(x, τ)). Rows are not smoothed.

    Args:
        problem: What the tree is of.
        tree: A dendrogram of the problem, or its children `[m − 1, 2]`.
        rows: Rows to assign, `[r, d]`; those of the problem if None.
        num_clusters: The number k of clusters of the cut, from 1, or the number of
            trees of a forest, to m; static.
        temperature: T > 0.

    Returns:
        Shares `[r, k]` that add up to 1 a row, columns as `tree.cut` numbers the
        clusters: a NumPy array when everything is concrete, float64 on a CPU; else a
        JAX array. NaN for a row that no cluster can have made.

    Raises:
        ValueError: If the tree has another number of leaves or merge costs of another
            problem, `rows` do not fit the family, the temperature is not positive, or a
            row has no finite cost.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> tree = [[0, 1], [2, 3]]
        >>> print(soft_assignments(problem, tree, [[2.9], [4.0]], num_clusters=2))
        [[0.505 0.495]
         [0.007 0.993]]
    """
    problem = check_problem(problem)
    children = children_of(tree, problem.num_points)
    check_same_problem(tree, problem)
    if is_concrete(temperature) and not float(temperature) > 0:  # pyright: ignore[reportArgumentType]
        raise ValueError(f"`temperature` must be positive; got {temperature}.")
    others = new_rows(problem, rows)
    shares = evaluate(
        _responsibilities,
        problem,
        children,
        padded_if_sparse(others).x,
        temperature,
        in_steps=True,
        num_clusters=check_cut(num_clusters, problem.num_points, len(children)),
    )
    return shares[: others.num_points]


def _top(problem: Problem, num_merges: int, num_features: int) -> np.ndarray:
    """The clusters that were made last, the last one first, `[k]`."""
    return problem.num_points + num_merges - 1 - np.arange(num_features)


def _sparse_features(
    problem: Problem, children: np.ndarray, others: Problem, num_features: int
) -> Any:
    with working((problem, others)) as (problem, others):
        for name, table in {"x": problem, "rows": others}.items():
            check_leaves(leaf_codes(table), table, name=name)
        top = _top(problem, len(children), num_features)
        return sparse_features(problem, children, others, top)


def _features(
    problem: Problem, children: Array, others: Problem, *, num_features: int
) -> Array:
    top = _top(problem, children.shape[0], num_features)

    def costs(part: Problem, rows: Problem) -> Array:
        clusters = clusters_at(part, children, top).states
        return costs_to_clusters(*build_leaves(rows), clusters)

    return by_columns(costs, problem, others)


def _responsibilities(
    problem: Problem,
    children: Array,
    rows: Array,
    temperature: Array,
    *,
    num_clusters: int,
) -> Array:
    if isinstance(problem.x, ColumnBlocks):
        scores, weights = scores_of_cut(
            problem, children, rows, num_clusters, num_clusters
        )
        return shares_by_density(scores, weights, temperature)
    clusters, _ = clusters_of_cut(problem, children, num_clusters, num_clusters)
    return row_shares(problem.family, clusters, rows, temperature)

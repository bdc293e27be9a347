"""Objectives for tuning: how good a smoothing, a family or an encoder is.

Pure functions of a given tree and its data, differentiable in the data, the weights and
the leaves of family and smoothing. Of likelihoods more is better, of losses and
costs less.
"""

from typing import SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import check_support, is_concrete
from bregjax._columns import ColumnBlocks
from bregjax._evaluation import evaluate, padded_if_sparse
from bregjax._new_rows import new_rows
from bregjax._problem import Problem, check_problem
from bregjax._typing import Array, DataLike, TableLike
from bregjax.hierarchy import Dendrogram, replay
from bregjax.hierarchy._cut_densities import (
    log_likelihoods_by_density,
    row_log_likelihoods,
)
from bregjax.hierarchy._cut_states import clusters_of_cut, cut_size
from bregjax.hierarchy._cuts import check_cut
from bregjax.hierarchy._left_out import leave_one_out
from bregjax.hierarchy._sparse.densities import scores_of_cut
from bregjax.hierarchy._tree_costs import children_of

__all__ = [
    "classification_loss",
    "cut_cost",
    "held_out_log_likelihood",
    "leave_one_out_log_likelihood",
    "ridge_loss",
]


def __dir__() -> list[str]:
    return __all__


def held_out_log_likelihood(
    problem: Problem,
    tree: Dendrogram | DataLike,
    rows: TableLike,
    *,
    num_clusters: SupportsIndex,
) -> Array:
    """Log-likelihood of new rows under the mixture that a cut stands for.

        Σ_rows log Σ_k π_k p(x; τ_k),   π_k = W_k / W

    Args:
        problem: Data, family, smoothing and weights. The densities of a convex function
            lack a term that is x's alone.
        tree: A dendrogram over its rows, or the children of one `[m − 1, 2]`.
        rows: Rows that it is not of, `[r, d]`.
        num_clusters: The number k of clusters of the cut, from 1, or the number of
            trees of a forest, to m; known, not traced.

    Returns:
        Scalar, in nats; −inf if a row has no likelihood.

    Raises:
        ValueError: If tree or rows do not fit, or as `agglomerate` does.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> tree = [[0, 1], [2, 3]]
        >>> print(held_out_log_likelihood(problem, tree, [[0.4]], num_clusters=2))
        -1.3294
    """
    problem = check_problem(problem)
    others = padded_if_sparse(new_rows(problem, rows))
    children = children_of(tree, problem.num_points)
    count = check_cut(num_clusters, problem.num_points, len(children))
    return evaluate(
        _held_out,
        problem,
        children,
        others.x,
        others.weights,
        np.int32(count),
        size=cut_size(count, problem.num_points),
    )


def leave_one_out_log_likelihood(
    problem: Problem,
    tree: Dendrogram | DataLike,
    *,
    num_clusters: SupportsIndex,
) -> Array:
    """Log-likelihood of each row under the mixture of a cut that lacks it.

        Σ_i w_i log Σ_k π_k⁽ⁱ⁾ p(x_i; τ_k⁽ⁱ⁾)

    π⁽ⁱ⁾ and τ⁽ⁱ⁾ are those of the clusters without row i: weight W_k − w_i[i ∈ k] of
    W − w_i in all, and the mean of the smoothed statistics that are left, pooled from
    these and never subtracted. Clusters left empty drop out. The tree is that of all
    rows. With a cluster each, `num_clusters = m`, it is the leave-one-out
    likelihood of a kernel density estimate.

    It grows without bound as a bandwidth falls where rows have duplicates: give those
    weights instead.

    Args:
        problem: Data, family, smoothing and weights; two rows at least. The densities
            of a convex function lack a term that is x's alone.
        tree: A dendrogram over its rows, or the children of one `[m − 1, 2]`.
        num_clusters: The number k of clusters of the cut, from 1, or the number of
            trees of a forest, to m; known, not traced.

    Returns:
        Scalar, in nats; −inf if a row has no likelihood without itself.

    Raises:
        ValueError: If the tree does not fit, there is one row, or as `agglomerate`
            does.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> tree = [[0, 1], [2, 3]]
        >>> print(leave_one_out_log_likelihood(problem, tree, num_clusters=2))
        -15.268
    """
    problem = check_problem(problem)
    if problem.num_points < 2:
        raise ValueError(
            "`problem` must have two rows at least: nothing is left of one without it."
        )
    children = children_of(tree, problem.num_points)
    count = check_cut(num_clusters, problem.num_points, len(children))
    size = cut_size(count, problem.num_points)
    return evaluate(leave_one_out, problem, children, np.int32(count), size=size)


def cut_cost(
    problem: Problem,
    tree: Dendrogram | DataLike,
    *,
    num_clusters: SupportsIndex,
) -> Array:
    """Cost of the clusters of a cut, Σ_k φ(C_k): the log-likelihood lost by sharing.

    The costs of the first m − k merges, which add up to Σ_i w_i B_f(τ_i, τ(C)) over all
    rows in their clusters (Definition 3.2).

    Args:
        problem: Data, family, smoothing and weights. The densities of a convex function
            lack a term that is x's alone.
        tree: A dendrogram over its rows, or the children of one `[m − 1, 2]`.
        num_clusters: The number k of clusters of the cut, from 1, or the number of
            trees of a forest, to m; known, not traced.

    Returns:
        Scalar, in nats, at least 0.

    Raises:
        ValueError: As `replay` does.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> tree = [[0, 1], [2, 3]]
        >>> print(cut_cost(problem, tree, num_clusters=2))
        0.25
    """
    costs = replay(problem, tree)
    m = check_problem(problem).num_points
    return costs[: m - check_cut(num_clusters, m, len(costs))].sum()


def classification_loss(
    assignments: DataLike,
    classes: DataLike,
    *,
    num_classes: int,
    pseudo_count: float = 1.0,
) -> Array:
    """Measure how badly soft clusters predict classes: mean cross-entropy, in nats.

    Each cluster predicts the classes of the other rows that it holds,

        −(1/m) Σ_i log Σ_k r_ik q_k⁽ⁱ⁾(y_i),
        q_k⁽ⁱ⁾(y) = (Σ_{j≠i} r_jk [y_j = y] + a/c) / (Σ_{j≠i} r_jk + a)

    so that a cluster of one row says nothing about that row.

    Args:
        assignments: r, shares of k clusters, `[m, k]`: see `soft_assignments`.
        classes: Known classes, integers from 0 to c − 1, `[m]`.
        num_classes: c.
        pseudo_count: a > 0, shared by the classes.

    Returns:
        Scalar.

    Raises:
        ValueError: At a known number that is none of the classes.

    Examples:
        >>> shares = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> print(classification_loss(shares, np.array([0, 0, 1, 1]), num_classes=2))
        0.288
    """
    _check_classes(classes, num_classes)
    return evaluate(
        _classification_loss,
        assignments,
        classes,
        pseudo_count,
        num_classes=num_classes,
    )


def ridge_loss(
    features: DataLike, classes: DataLike, *, num_classes: int, ridge: float = 1e-2
) -> Array:
    """Measure how badly a linear rule predicts classes: a share of variance.

    With F the features and Y the one-hot classes, both centered, F scaled to variance 1
    a column,

        min over A of (‖Y − F A‖² + λ m ‖A‖²) / ‖Y‖²

    from 0 to 1; in closed form, so that its derivatives need no inner loop.

    Args:
        features: `[m, k]`, such as `dendrogram_features`.
        classes: Known classes, integers from 0 to c − 1, `[m]`, two of them at least.
        num_classes: c.
        ridge: λ > 0.

    Returns:
        Scalar.

    Raises:
        ValueError: At a known number that is none of the classes, or if all agree.

    Examples:
        >>> features = np.array([[0.1], [0.2], [5.0], [5.5]])
        >>> print(ridge_loss(features, np.array([0, 0, 1, 1]), num_classes=2))
        0.01482
    """
    _check_classes(classes, num_classes)
    if is_concrete(classes) and np.ptp(np.asarray(classes)) == 0:
        raise ValueError(
            f"`classes` must have two classes at least; all are {np.ravel(classes)[0]}."
        )
    return evaluate(_ridge_loss, features, classes, ridge, num_classes=num_classes)


def _check_classes(classes: DataLike, num_classes: int) -> None:
    if is_concrete(classes):
        array = np.asarray(classes)
        check_support(
            "classes",
            array,
            (array >= 0) & (array < num_classes) & (array == np.round(array)),
            rule=f"must be integers from 0 to {num_classes - 1}",
            remedy="Number the classes, as np.unique(y, return_inverse=True)[1] does",
        )


def _classification_loss(
    assignments: Array, classes: Array, pseudo_count: Array, *, num_classes: int
) -> Array:
    one_hot = jax.nn.one_hot(classes, num_classes, dtype=assignments.dtype)
    counts = jnp.matmul(assignments.T, one_hot, precision="highest")
    own = counts.T[classes] - assignments
    total = jnp.sum(counts, axis=1)[None] - assignments
    predicted = (own + pseudo_count / num_classes) / (total + pseudo_count)
    return -jnp.mean(jnp.log(jnp.sum(assignments * predicted, axis=1)))


def _ridge_loss(
    features: Array, classes: Array, ridge: Array, *, num_classes: int
) -> Array:
    m, k = features.shape
    y = jax.nn.one_hot(classes, num_classes, dtype=features.dtype)
    y = y - jnp.mean(y, axis=0, keepdims=True)
    f = features - jnp.mean(features, axis=0, keepdims=True)
    variance = jnp.mean(f**2, axis=0, keepdims=True)
    flat = variance == 0
    f = jnp.where(flat, 0, f / jnp.sqrt(jnp.where(flat, 1, variance)))
    # ‖Y‖² − ⟨Y, F A⟩ at the minimum, where FᵀF A + λ m A = FᵀY.
    gram = jnp.matmul(f.T, f, precision="highest")
    gram = gram + ridge * m * jnp.eye(k, dtype=f.dtype)
    cross = jnp.matmul(f.T, y, precision="highest")
    explained = jnp.sum(cross * jnp.linalg.solve(gram, cross))
    return 1 - explained / jnp.sum(y**2)


def _held_out(
    problem: Problem,
    children: Array,
    rows: Array,
    row_weights: Array,
    num_clusters: Array,
    *,
    size: int,
) -> Array:
    if isinstance(problem.x, ColumnBlocks):
        scores, weights = scores_of_cut(problem, children, rows, num_clusters, size)
        by_row = log_likelihoods_by_density(scores, weights)
    else:
        clusters, _ = clusters_of_cut(problem, children, num_clusters, size)
        by_row = row_log_likelihoods(problem.family, clusters, rows)
    # Weights are 1, and 0 of rows that fill up.
    return jnp.sum(jnp.where(row_weights > 0, by_row, 0))

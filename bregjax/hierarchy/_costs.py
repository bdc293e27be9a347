"""The costs of a cluster and of a merge, from points."""

from collections.abc import Sequence
from typing import SupportsIndex, cast

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import is_concrete
from bregjax._columns import ColumnBlocks, by_columns
from bregjax._evaluation import build_leaves, evaluate
from bregjax._geometry import FunctionGeometry
from bregjax._problem import Problem, check_problem, unchecked
from bregjax._typing import Array, PyTree
from bregjax.clusters import ClusterModel, Merges
from bregjax.convex._plain import straight
from bregjax.hierarchy._search import take
from bregjax.hierarchy._steps import merge_costs, settled_along
from bregjax.hierarchy._tree_costs import replay_costs

__all__ = ["cluster_cost", "merge_cost"]

RowNumbers = SupportsIndex | Sequence[SupportsIndex] | np.ndarray


def cluster_cost(problem: Problem, members: RowNumbers | None = None) -> Array:
    """Cost of rows as one cluster, φ(C) = Σ w_i B_f(τ_i, τ(C)), in nats.

    The log-likelihood lost when the rows share one distribution. For a family it is
    added up merge by merge, which telescopes to φ and does not cancel; for a convex
    function it is the definition, kinks included.

    Args:
        problem: Data, family, smoothing and weights. A bandwidth that "auto" chose is
            that of the whole sample.
        members: Numbers of the rows of the cluster, or booleans `[m]`; all rows if
            None.

    Returns:
        Scalar: a NumPy float64 when everything is concrete and on a CPU.

    Raises:
        ValueError: If `members` are no row numbers, come twice, or a row has no finite
            cost.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> print(cluster_cost(problem), cluster_cost(problem, [0, 1]))
        7.0 0.25

    References:
        Telgarsky and Dasgupta (2012), Definition 3.2.
    """
    problem = check_problem(problem)
    if members is None:
        return cast(Array, evaluate(_cluster_cost, problem)[()])
    part, numbers = _part(problem, "members", members)
    return cast(Array, evaluate(_cluster_cost, part, numbers=(numbers,))[()])


def merge_cost(
    problem: Problem, a: RowNumbers, b: RowNumbers, *, direct: bool = False
) -> Array:
    """Cost of merging two clusters of rows, Δ(A, B), in nats.

    Σ_j w_j B_f(τ_j, mean of the union) over the two clusters' means (Proposition 3.8);
    with `direct`, φ(A ∪ B) − φ(A) − φ(B) (Definition 3.7), which needs no
    differentiability, cancels where clusters are large, and may be negative at kinks.

    Args:
        problem: Data, family, smoothing and weights.
        a: Numbers of the rows of the first cluster, one or several, or booleans `[m]`.
        b: Those of the second, which shares no row with the first.
        direct: Whether to take the definition.

    Returns:
        Scalar: a NumPy float64 when everything is concrete and on a CPU.

    Raises:
        ValueError: If `a` or `b` are no row numbers, share one, or a row has no finite
            cost.
        ArithmeticError: If the function has a kink at the mean of the union, and not
            `direct`.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> print(merge_cost(problem, [0, 1], 2))
        6.75

    References:
        Telgarsky and Dasgupta (2012), Definition 3.7 and Proposition 3.8.
    """
    problem = check_problem(problem)
    part_a, numbers_a = _part(problem, "a", a)
    part_b, numbers_b = _part(problem, "b", b)
    shared = np.intersect1d(numbers_a, numbers_b)
    if len(shared):
        raise ValueError(
            f"`a` and `b` must have no row in common; got row {shared[0]} in both."
        )
    if direct:
        both = np.concatenate([numbers_a, numbers_b])
        parts = cluster_cost(problem, numbers_a) + cluster_cost(problem, numbers_b)
        return cluster_cost(problem, both) - parts
    cost, is_straight = evaluate(
        _merge_cost, part_a, part_b, numbers=(numbers_a, numbers_b)
    )
    if is_concrete((cost, is_straight)) and not is_straight:
        raise ArithmeticError(
            "`family` has a kink at the mean of the union, where Proposition 3.8 "
            "does not hold. Pass direct=True for Definition 3.7."
        )
    return cast(Array, cost[()])


def _part(problem: Problem, name: str, rows: RowNumbers) -> tuple[Problem, np.ndarray]:
    """The problem of some rows, and their numbers, `[k]`."""
    m = problem.num_points
    if not is_concrete(rows):
        raise TypeError(
            f"`{name}` must be known row numbers, static under jit; got a tracer."
        )
    numbers = np.atleast_1d(np.asarray(rows))
    if numbers.dtype == bool and numbers.shape == (m,):
        numbers = np.flatnonzero(numbers)
    whole = numbers.ndim == 1 and np.issubdtype(numbers.dtype, np.integer)
    if not whole or not len(numbers):
        raise ValueError(
            f"`{name}` must be numbers of rows, one or several, or {m} booleans; got "
            f"{rows!r}."
        )
    wrong = numbers[(numbers < 0) | (numbers >= m)]
    if len(wrong):
        raise ValueError(
            f"`{name}` must be row numbers from 0 to {m - 1}; got {wrong[0]}."
        )
    values, counts = np.unique(numbers, return_counts=True)
    if len(values) < len(numbers):
        raise ValueError(
            f"`{name}` must name each row once; got row {values[counts > 1][0]} twice. "
            "Say so by its weight."
        )
    part = unchecked(problem, x=problem.x[numbers], weights=problem.weights[numbers])
    return part, numbers


def _cluster_cost(problem: Problem) -> Array:
    """φ of all rows."""
    return by_columns(_cluster_cost_of_columns, problem)


def _cluster_cost_of_columns(problem: Problem) -> Array:
    model, leaves = build_leaves(problem)
    if isinstance(problem.family, FunctionGeometry):
        f = problem.family.function
        axes = tuple(range(-f.event_ndim, 0))
        weight = jnp.expand_dims(leaves.weight, axes)
        total = jnp.sum(weight * leaves.mean, axis=0, keepdims=True)
        center = total / jnp.sum(leaves.weight)
        divergences = f.remainder(center, leaves.mean - center, x=leaves.mean)
        return jnp.sum(leaves.weight * divergences)
    if model.solves:
        m = problem.num_points
        return jnp.sum(replay_costs(model, leaves, _chain(m), m))

    def step(union: PyTree, leaf: PyTree) -> tuple[PyTree, Array]:
        leaf = take(leaf, None)
        after = model.union(union, leaf)
        return after, model.cost(union, leaf, after)

    first, rest = take(leaves, slice(1)), take(leaves, slice(1, None))
    return jnp.sum(jax.lax.scan(step, first, rest)[1])


def _merge_cost(a: Problem, b: Problem) -> tuple[Array, Array]:
    """Δ, and whether the function is straight there."""
    if isinstance(a.x, ColumnBlocks):
        # The functions that sparse rows may have are smooth.
        cost = lambda a, b: _merge_cost(a, b)[0]
        return by_columns(cost, a, b), jnp.ones((), bool)
    model, leaves_a = build_leaves(a)
    _, leaves_b = build_leaves(b)
    union_a, union_b = _union(model, leaves_a), _union(model, leaves_b)
    smooth = jnp.ones((), bool)
    if isinstance(a.family, FunctionGeometry):
        line = union_a.mean - union_b.mean
        center = model.pool(union_a, union_b).mean
        smooth = straight(a.family.function, center, line) | jnp.all(line == 0)
        smooth = jnp.all(smooth)
    return merge_costs(model, union_a, union_b)[0], smooth


def _union(model: ClusterModel, leaves: PyTree) -> PyTree:
    """The settled union of all leaves, `[1]`."""
    count = jax.tree.leaves(leaves)[0].shape[0]
    if count == 1:
        return leaves
    if model.solves:
        root = np.array([2 * count - 2])
        return settled_along(model, Merges(_chain(count), count), leaves, root)
    # One after the other: states may be matrices, and all unions are many.
    pool = lambda union, leaf: (model.pool(union, take(leaf, None)), None)
    first, rest = take(leaves, slice(1)), take(leaves, slice(1, None))
    return model.settle(jax.lax.scan(pool, first, rest)[0])


def _chain(count: int) -> np.ndarray:
    """The merges that take in one point after the other, `[count − 1, 2]`."""
    step = np.arange(count - 1)
    before = np.where(step == 0, 0, count + step - 1)
    return np.stack([before, step + 1], axis=1).astype(np.int32)

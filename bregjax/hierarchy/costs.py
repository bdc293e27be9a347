"""The costs of a cluster and of a merge, from points."""

from dataclasses import replace
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import is_concrete
from bregjax._data_model import FunctionModel
from bregjax._inputs import check_table
from bregjax._problem import FamilyLike, Problem, build_leaves, evaluate, resolve
from bregjax._typing import Array, DataLike, PyTree
from bregjax.clusters.base import ClusterModel
from bregjax.clusters.merges import Merges
from bregjax.convex._plain import straight
from bregjax.hierarchy._search import take
from bregjax.hierarchy._steps import merge_costs, settled_along
from bregjax.hierarchy.tree_costs import replay_costs
from bregjax.smoothing import StatisticMap

__all__ = ["cluster_cost", "merge_cost"]


def cluster_cost(
    x: DataLike,
    *,
    family: FamilyLike,
    smoothing: StatisticMap | None = None,
    weights: DataLike | None = None,
) -> Array:
    """Cost of the rows as one cluster, φ(C) = Σ w_i B_f(τ_i, τ(C)), in nats.

    The log-likelihood lost when all rows share one distribution. For a family it is
    added up merge by merge, which telescopes to φ and does not cancel; for a convex
    function it is the definition, kinks included.

    Args:
        x: Rows of the cluster, `[m, d]`.
        family: As for `agglomerate`.
        smoothing: A smoothing map, or None. (No "auto": a bandwidth belongs to a whole
            sample, not to one cluster of it.)
        weights: Positive weights, `[m]`; 1 each by default.

    Returns:
        Scalar: a NumPy float64 when everything is concrete and on a CPU.

    Raises:
        ValueError: As `agglomerate` does.

    References:
        Telgarsky and Dasgupta (2012), Definition 3.2.
    """
    _refuse_auto(smoothing)
    problem = resolve(x, family, smoothing, weights)
    return cast(Array, evaluate(_cluster_cost, problem)[()])


def merge_cost(
    x_a: DataLike,
    x_b: DataLike,
    *,
    family: FamilyLike,
    smoothing: StatisticMap | None = None,
    weights_a: DataLike | None = None,
    weights_b: DataLike | None = None,
    direct: bool = False,
) -> Array:
    """Cost of merging two clusters of rows, Δ(A, B), in nats.

    Σ_j w_j B_f(τ_j, mean of the union) over the two clusters' means (Proposition 3.8);
    with `direct`, φ(A ∪ B) − φ(A) − φ(B) (Definition 3.7), which needs no
    differentiability, cancels where clusters are large, and may be negative at kinks.

    Args:
        x_a: Rows of the first cluster, `[k, d]`.
        x_b: Rows of the second, `[l, d]`.
        family: As for `agglomerate`.
        smoothing: A smoothing map, or None.
        weights_a: Positive weights `[k]`; 1 each by default.
        weights_b: Positive weights `[l]`; 1 each by default.
        direct: Whether to take the definition.

    Returns:
        Scalar: a NumPy float64 when everything is concrete and on a CPU.

    Raises:
        ValueError: As `agglomerate` does.
        ArithmeticError: If the function has a kink at the mean of the union, and not
            `direct`.

    References:
        Telgarsky and Dasgupta (2012), Definition 3.7 and Proposition 3.8.
    """
    _refuse_auto(smoothing)
    widths = [check_table(n, x)[1:] for n, x in (("x_a", x_a), ("x_b", x_b))]
    if widths[0] != widths[1]:
        raise ValueError(
            "`x_a` and `x_b` must have the same columns; got rows of shapes "
            f"{widths[0]} and {widths[1]}."
        )
    if direct:
        xp = np if is_concrete((x_a, x_b, weights_a, weights_b)) else jnp
        both = lambda a, b: xp.concatenate([xp.asarray(a), xp.asarray(b)])
        w_a = np.ones(np.shape(x_a)[0]) if weights_a is None else weights_a
        w_b = np.ones(np.shape(x_b)[0]) if weights_b is None else weights_b
        cost = lambda x, w: cluster_cost(
            x, family=family, smoothing=smoothing, weights=w
        )
        union = cost(both(x_a, x_b), both(w_a, w_b))
        return union - cost(x_a, w_a) - cost(x_b, w_b)
    a = resolve(x_a, family, smoothing, weights_a)
    b = resolve(x_b, family, smoothing, weights_b)
    a, b = _beside_each_other(a, b)
    if jax.tree.structure(a.data_model) != jax.tree.structure(b.data_model):
        raise ValueError(
            "`family` takes from the rows of each cluster what differs between them: "
            f"{a.data_model} and {b.data_model}. Take it from all rows at once, "
            "family=family.for_data(x)."
        )
    cost, is_straight = evaluate(_merge_cost, a, b)
    if is_concrete((cost, is_straight)) and not is_straight:
        raise ArithmeticError(
            "`family` has a kink at the mean of the union, where Proposition 3.8 "
            "does not hold. Pass direct=True for Definition 3.7."
        )
    return cast(Array, cost[()])


def _beside_each_other(a: Problem, b: Problem) -> tuple[Problem, Problem]:
    """Both in the arithmetic that the rows of both together need."""
    stacked = lambda *parts: (np if is_concrete(parts) else jnp).concatenate(parts)
    if np.shape(a.rows)[1:] != np.shape(b.rows)[1:]:
        return a, b
    rows, weights = stacked(a.rows, b.rows), stacked(a.weights, b.weights)
    suited = lambda p: p.data_model.suited_to(rows, p.smoothing, weights)
    return replace(a, data_model=suited(a)), replace(b, data_model=suited(b))


def _refuse_auto(smoothing: StatisticMap | None) -> None:
    if isinstance(smoothing, str):
        raise TypeError(
            f"`smoothing` must be a smoothing map or None here; got {smoothing!r}. A "
            "bandwidth belongs to a whole sample: pass normal_reference(all_of_x)."
        )


def _cluster_cost(problem: Problem) -> Array:
    """φ of all rows."""
    model, leaves = build_leaves(problem)
    if isinstance(problem.data_model, FunctionModel):
        f = problem.data_model.function
        axes = tuple(range(-f.event_ndim, 0))
        weight = jnp.expand_dims(leaves.weight, axes)
        total = jnp.sum(weight * leaves.mean, axis=0, keepdims=True)
        centre = total / jnp.sum(leaves.weight)
        divergences = f.remainder(centre, leaves.mean - centre, x=leaves.mean)
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
    model, leaves_a = build_leaves(a)
    _, leaves_b = build_leaves(b)
    union_a, union_b = _union(model, leaves_a), _union(model, leaves_b)
    smooth = jnp.ones((), bool)
    if isinstance(a.data_model, FunctionModel):
        line = union_a.mean - union_b.mean
        centre = model.pool(union_a, union_b).mean
        smooth = straight(a.data_model.function, centre, line) | jnp.all(line == 0)
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

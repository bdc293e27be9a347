"""The points of a problem as leaves, and the two steps of hard clustering and of EM."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import is_concrete
from bregjax._evaluation import (
    check_leaves,
    leaf_codes,
    padded,
    refuse_sparse,
    smoothed_statistics,
)
from bregjax._problem import Problem, check_problem
from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters import ClusterModel
from bregjax.hierarchy._search import take

__all__ = [
    "Points",
    "assignment_costs",
    "checked_on_host",
    "points_of",
    "unions_of",
]

# Numbers that a block of points works on, 16 MiB in float64.
_BLOCK_ENTRIES = 2**21


@register_pytree
@dataclass(frozen=True)
class Points:
    """Leaves of a problem, filled up to a size that many problems share.

    Attributes:
        model: The cluster model.
        statistics: Statistics as smoothed, `[p, ...]`.
        leaves: States, `[p, ...]`.
        weights: Weights w of the rows, `[p]`, 0 from row m on.
        smoothed_weights: Weights v as the smoothing changes them, `[p]`, 0 from row m
            on.
    """

    model: ClusterModel
    statistics: PyTree
    leaves: PyTree
    weights: Array
    smoothed_weights: Array


def checked_on_host(name: str, problem: Problem) -> Problem:
    """Return a problem that is checked, and known.

    Raises:
        TypeError: Under `jit` or another transformation, or if it is no problem.
    """
    problem = check_problem(problem)
    refuse_sparse(name, problem)
    if not is_concrete(problem):
        raise TypeError(
            f"`{name}` loops on the host: call it outside jit and vmap. Inside, take "
            "what it returns as constants."
        )
    return problem


def points_of(problem: Problem, *, name: str = "x") -> Points:
    """The points of a known problem; call it in the precision of the work.

    Raises:
        ValueError: At the first row without a finite cost.
    """
    count = problem.num_points
    whole = padded(problem)
    check_leaves(np.asarray(leaf_codes(whole))[:count], problem, name=name)
    model = problem.family.cluster_model()
    statistics, smoothed_weights = smoothed_statistics(whole)
    make = _compiled_leaves if not model.solves else type(model).leaves
    leaves = make(model, statistics, smoothed_weights)
    there = np.arange(whole.num_points) < count
    return Points(
        model,
        statistics,
        leaves,
        jnp.where(there, whole.weights, 0),
        jnp.where(there, smoothed_weights, 0),
    )


def unions_of(points: Points, weights: Array) -> PyTree:
    """States `[k, ...]` of clusters with weights `[k, p]` of the points."""
    model = points.model
    if model.solves:
        return model.unions(points.statistics, weights)
    return _compiled_unions(model, points.statistics, weights)


@jax.jit
def assignment_costs(points: Points, states: PyTree) -> Array:
    """Costs of each point under each cluster, `[p, k]`, a block of points at a time.

    Infinite where a cluster cannot have made the point; NaN where a cost is not known.
    """
    model, count = points.model, len(points.weights)
    blocks = -(-count // max(_BLOCK_ENTRIES // model.assignment_size(states), 1))
    size = -(-count // blocks)
    rows = np.minimum(np.arange(blocks * size), count - 1).reshape(blocks, size)
    costs = lambda block: model.assignment_cost(take(points.leaves, block), states)
    return jax.lax.map(costs, jnp.asarray(rows)).reshape(blocks * size, -1)[:count]


@jax.jit
def _compiled_leaves(model: ClusterModel, statistics: PyTree, weights: Array) -> PyTree:
    return model.leaves(statistics, weights)


@jax.jit
def _compiled_unions(model: ClusterModel, statistics: PyTree, weights: Array) -> PyTree:
    return model.unions(statistics, weights)

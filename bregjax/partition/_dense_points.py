"""Points of dense rows: leaves of any cluster model."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._evaluation import smoothed_statistics
from bregjax._problem import Problem
from bregjax._programs import program
from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters import ClusterModel
from bregjax.hierarchy._blocks import map_rows
from bregjax.hierarchy._search import take
from bregjax.hierarchy._steps import costs_to_clusters
from bregjax.partition._base import Points

__all__ = ["DensePoints"]

# Numbers that a block of points works on, 16 MiB in float64.
_BLOCK_ENTRIES = 2**21


@register_pytree
@dataclass(frozen=True)
class DensePoints(Points):
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

    @classmethod
    def of(cls, problem: Problem, num_points: int) -> "DensePoints":
        """The first rows of a known problem; what comes behind only fills up."""
        model = problem.family.cluster_model()
        statistics, smoothed_weights = smoothed_statistics(problem)
        make = _leaves if not model.solves else type(model).leaves
        leaves = make(model, statistics, smoothed_weights)
        there = np.arange(problem.num_points) < num_points
        return cls(
            model,
            statistics,
            leaves,
            jnp.where(there, problem.weights, 0),
            jnp.where(there, smoothed_weights, 0),
        )

    @override
    def unions(self, members: Array) -> PyTree:
        model = self.model
        if model.solves:
            return model.unions(self.statistics, members)
        return _unions(model, self.statistics, members)

    @override
    def costs(self, states: PyTree) -> Array:
        return _costs(self, states)

    @override
    def merge_costs(self, point: int) -> np.ndarray:
        cluster = take(self.leaves, slice(point, point + 1))
        if self.model.solves:
            costs = costs_to_clusters(self.model, self.leaves, cluster)[:, 0]
        else:
            costs = _search_costs(self, cluster)
        return np.asarray(costs, np.float64)


@program
def _costs(points: DensePoints, states: PyTree) -> Array:
    """Costs of points under clusters, a block of points at a time."""
    model, count = points.model, len(points.weights)
    blocks = -(-count // max(_BLOCK_ENTRIES // model.assignment_size(states), 1))
    size = -(-count // blocks)
    rows = np.minimum(np.arange(blocks * size), count - 1).reshape(blocks, size)
    costs = lambda block: model.assignment_cost(take(points.leaves, block), states)
    return jax.lax.map(costs, jnp.asarray(rows)).reshape(blocks * size, -1)[:count]


@program
def _search_costs(points: DensePoints, cluster: PyTree) -> Array:
    """Costs as engines search with them, which suffice where costs are chances."""
    model = points.model
    cost = lambda leaf: model.cross_cost(cluster, take(leaf, None))[0, 0]
    size = model.pair_size(cluster)
    return map_rows(cost, points.leaves, size)


@program
def _leaves(model: ClusterModel, statistics: PyTree, weights: Array) -> PyTree:
    return model.leaves(statistics, weights)


@program
def _unions(model: ClusterModel, statistics: PyTree, weights: Array) -> PyTree:
    return model.unions(statistics, weights)

"""Leaves, nodes and merge costs of a tree where costs are solved for, on the host."""

import jax
import numpy as np

from bregjax._problem import Problem, check_leaves, smoothed_statistics, working_copy
from bregjax._typing import PyTree
from bregjax.host_model import HostModel, rows_of

__all__ = ["host_leaves", "host_of", "nodes_along", "settled_costs"]

_statistics = jax.jit(smoothed_statistics)


def host_of(problem: Problem) -> HostModel | None:
    """The cluster model on the host, where its costs are solved for."""
    return problem.data_model.cluster_model().host()


def host_leaves(
    host: HostModel, problem: Problem, num_points: int | None = None
) -> PyTree:
    """Settled states `[m]` of the rows.

    Args:
        host: The cluster model.
        problem: The rows.
        num_points: How many of them are points, where the rest is padding.

    Raises:
        ValueError: At the first row without a finite cost.
    """
    statistics, weights = _statistics(working_copy(problem))
    leaves = host.leaves(statistics, np.asarray(weights))
    check_leaves(host.result(leaves)[:num_points], problem)
    return leaves


def nodes_along(host: HostModel, leaves: PyTree, children: np.ndarray) -> PyTree:
    """States of all nodes `[2m − 1]`, the unions to be settled."""
    count = len(children)
    room = lambda leaf: np.concatenate([leaf, np.repeat(leaf[:1], count, axis=0)])
    nodes = jax.tree.map(room, leaves)
    for node, pair in enumerate(children, start=count + 1):
        a, b = (rows_of(nodes, pair[k : k + 1]) for k in range(2))
        union = host.pool(a, b)
        jax.tree.map(
            lambda all_, new, i=node: all_.__setitem__(i, new[0]), nodes, union
        )
    return nodes


def settled_costs(
    host: HostModel, nodes: PyTree, children: np.ndarray
) -> tuple[PyTree, np.ndarray]:
    """States of all nodes, the unions settled too, and costs of merges `[m − 1]`."""
    m = len(children) + 1
    unions = host.settle(rows_of(nodes, slice(m, None)))
    join = lambda all_, new: np.concatenate([all_[:m], new])
    nodes = jax.tree.map(join, nodes, unions)
    left, right = (rows_of(nodes, children[:, k]) for k in range(2))
    return nodes, host.merge_costs(left, right, unions)

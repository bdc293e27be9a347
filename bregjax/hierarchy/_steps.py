"""Steps on clusters: pool, settle, cost, each compiled as a program of its own.

A model that solves for what it settles (`ClusterModel.solves`) does so on the host
where values are known, so that the work before a solve and the work after it are two
programs. Under a caller's `jit` they become part of the caller's program.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import is_under_jit
from bregjax._programs import program
from bregjax._typing import Array, PyTree
from bregjax.clusters import ClusterModel, Merges
from bregjax.hierarchy._blocks import map_rows
from bregjax.hierarchy._search import take

__all__ = ["cost", "costs_to_clusters", "merge_costs", "settled_along"]

# Numbers in the states of a block of pairs that is solved for at a time.
_BLOCK_ENTRIES = 2**22


def settled_along(
    model: ClusterModel, merges: Merges, leaves: PyTree, nodes: Array | np.ndarray
) -> PyTree:
    """Settled states of some nodes of a tree, in their order."""
    settle = model.settle if model.solves else functools.partial(_settled, model)
    # All nodes are pooled, whichever are asked for: other ones compile nothing anew.
    return settle(_taken(_pooled_along(model, merges, leaves), nodes))


def merge_costs(model: ClusterModel, a: PyTree, b: PyTree) -> Array:
    """Merge costs Δ of clusters that broadcast; see `ClusterModel.merge_cost`."""
    return cost(model, a, b, model.settle(_pooled(model, a, b)))


def costs_to_clusters(model: ClusterModel, points: PyTree, clusters: PyTree) -> Array:
    """Merge costs of all pairs of points and clusters, `[r, k]`, a block at a time."""
    if not model.solves or is_under_jit():
        return _mapped_costs(model, points, clusters)
    count = jax.tree.leaves(points)[0].shape[0]
    columns = jax.tree.map(lambda leaf: leaf[None], clusters)
    row = sum(leaf.size for leaf in jax.tree.leaves(clusters))
    size = int(np.clip(_BLOCK_ENTRIES // row, 1, count))
    found = []
    for start in range(0, count, size):
        # The last block is filled up, so that it compiles nothing.
        chosen = np.minimum(np.arange(start, start + size), count - 1)
        rows = jax.tree.map(lambda leaf, chosen=chosen: leaf[chosen, None], points)
        found.append(merge_costs(model, rows, columns))
    return found[0] if len(found) == 1 else jnp.concatenate(found)[:count]


@program
def _mapped_costs(model: ClusterModel, points: PyTree, clusters: PyTree) -> Array:
    def costs(point: PyTree) -> Array:
        return model.merge_cost(clusters, jax.tree.map(lambda leaf: leaf[None], point))

    count = jax.tree.leaves(clusters)[0].shape[0]
    return map_rows(costs, points, count * model.pair_size(take(points, slice(1))))


@program
def _settled(model: ClusterModel, states: PyTree) -> PyTree:
    return model.settle(states)


@program
def _pooled_along(model: ClusterModel, merges: Merges, leaves: PyTree) -> PyTree:
    """States of all nodes of a tree, to be settled."""
    return model.pool_along(merges, leaves)


_taken = program(take)


@program
def cost(model: ClusterModel, a: PyTree, b: PyTree, union: PyTree) -> Array:
    """Merge costs Δ of clusters, given their settled unions."""
    return model.cost(a, b, union)


@program
def _pooled(model: ClusterModel, a: PyTree, b: PyTree) -> PyTree:
    return model.pool(a, b)

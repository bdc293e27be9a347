"""Clusters of a cut, and each without one of its points, as states of a model."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from bregjax._evaluation import build_leaves
from bregjax._problem import Problem
from bregjax._programs import program
from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters import Merges
from bregjax.hierarchy._dendrogram import Dendrogram
from bregjax.hierarchy._steps import settled_along

__all__ = [
    "Clusters",
    "clusters_at",
    "clusters_of_cut",
    "clusters_without",
    "rests_of_cut",
    "weights_of_cut",
]


@register_pytree
@dataclass(frozen=True)
class Clusters:
    """Clusters with the weights of their points.

    Attributes:
        states: Settled states, `[k, ...]`.
        weights: Sums of the points' own weights, `[k]`: smoothing adds nothing to them.
    """

    states: PyTree
    weights: Array


def clusters_at(
    problem: Problem, children: Array, nodes: Array | np.ndarray
) -> Clusters:
    """The clusters that nodes of a tree stand for, in their order."""
    model, leaves = build_leaves(problem)
    merges = Merges(children, problem.num_points)
    states = settled_along(model, merges, leaves, nodes)
    return Clusters(states, _weights(merges, problem.weights, nodes))


def clusters_of_cut(
    problem: Problem, children: Array, num_clusters: int
) -> tuple[Clusters, Array]:
    """The clusters of a cut `[k]`, and each point's own by its place there `[m]`.

    They are numbered as `Dendrogram.cut` does.
    """
    nodes, labels = _cut(children, m=problem.num_points, num_clusters=num_clusters)
    return clusters_at(problem, children, nodes), labels


def clusters_without(
    problem: Problem, children: Array, num_clusters: int
) -> tuple[Clusters, Array]:
    """For each point the rest of its cluster of a cut, `[m]`, and whether there is one.

    What is left is pooled, never subtracted: a rest of zeros is a rest of zeros, and a
    rest of one point is that point to the last bit. From a cluster's root down, the
    rest of each node is that of its parent, pooled with its sibling.
    """
    m = problem.num_points
    merges, rest = _with_rests(children, m=m, num_clusters=num_clusters)
    model, leaves = build_leaves(problem)
    states = settled_along(model, merges, leaves, rest)
    weights = _weights(merges, problem.weights, rest)
    return Clusters(states, weights), rest != jnp.arange(m, dtype=rest.dtype)


def weights_of_cut(problem: Problem, children: Array, num_clusters: int) -> Array:
    """Sums of the points' own weights in the clusters of a cut, `[k]`."""
    nodes, _ = _cut(children, m=problem.num_points, num_clusters=num_clusters)
    return _weights(Merges(children, problem.num_points), problem.weights, nodes)


def rests_of_cut(
    problem: Problem, children: Array, num_clusters: int
) -> tuple[Array, Array, Array]:
    """Of each point its cluster of a cut, the weight of the rest, and whether any is.

    Returns:
        Places of clusters, weights and booleans, `[m]` each.
    """
    m = problem.num_points
    _, labels = _cut(children, m=m, num_clusters=num_clusters)
    merges, rest = _with_rests(children, m=m, num_clusters=num_clusters)
    there = rest != jnp.arange(m, dtype=rest.dtype)
    return labels, _weights(merges, problem.weights, rest), there


@program
def _cut(children: Array, *, m: int, num_clusters: int) -> tuple[Array, Array]:
    """The nodes that are the clusters of a cut, and each point's cluster."""
    tree = Dendrogram(children, jnp.zeros(children.shape[0]), jnp.ones(m))
    nodes = tree.cluster_nodes(num_clusters=num_clusters)
    return jnp.asarray(nodes), jnp.asarray(tree.cut(num_clusters=num_clusters))


@program
def _weights(merges: Merges, weights: Array, nodes: Array) -> Array:
    """Sums of the weights of points in some nodes of a tree."""
    return merges.sum(weights)[nodes]


@program
def _with_rests(children: Array, *, m: int, num_clusters: int) -> tuple[Merges, Array]:
    """The merges of a tree, then those of rests; and the rest of each leaf, `[m]`.

    A leaf that is a cluster has no rest, and its own number stands for it.
    """
    children = jnp.asarray(children, jnp.int32)
    count = children.shape[0]
    nodes = jnp.arange(m + count, dtype=jnp.int32)
    # The merge that a node is a part of (that of a root is undone, as those above the
    # cut are), which part it is, and the other part.
    merge = jnp.full_like(nodes, count).at[children].set(nodes[:count, None])
    side = jnp.zeros_like(nodes).at[children[:, 1]].set(1)
    sibling = nodes.at[children].set(children[:, ::-1])
    inside = merge < m - num_clusters
    below_root = inside & ~inside[jnp.minimum(m + merge, m + count - 1)]
    # Rests are made from the last merge down, two for each, behind all nodes.
    made = m + count + 2 * (count - 1 - merge) + side
    rest = jnp.where(inside, jnp.where(below_root, sibling, made), nodes)
    above = rest[m:][:, None]
    base = jnp.where(inside[m:][:, None], above, children[:, ::-1])
    pairs = jnp.stack([base, children[:, ::-1]], axis=-1)[::-1].reshape(-1, 2)
    return Merges(jnp.concatenate([children, pairs]), m), rest[:m]

"""Clusters of a cut, and each without one of its points, as states of a model."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from bregjax._evaluation import build_leaves, padded_size
from bregjax._problem import Problem
from bregjax._programs import program
from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters import Merges
from bregjax.hierarchy._cuts import labels_of
from bregjax.hierarchy._search import take
from bregjax.hierarchy._steps import settled_along
from bregjax.hierarchy._walk import firsts, parents, roots_below

__all__ = [
    "Clusters",
    "clusters_at",
    "clusters_of_cut",
    "clusters_without",
    "cut_size",
    "rests_of_cut",
    "weights_at",
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
    return Clusters(states, weights_at(problem, children, nodes))


def weights_at(problem: Problem, children: Array, nodes: Array | np.ndarray) -> Array:
    """Sums of the points' own weights in some nodes of a tree."""
    return _weights(Merges(children, problem.num_points), problem.weights, nodes)


def cut_size(num_clusters: int, num_points: int) -> int:
    """How many clusters a program has room for: one size for many numbers.

    16, or the next of eight sizes an octave, but no more than there are points.
    """
    return min(max(padded_size(num_clusters), 16), num_points)


def clusters_of_cut(
    problem: Problem, children: Array, num_clusters: Array | int, size: int
) -> tuple[Clusters, Array]:
    """The clusters of a cut `[size]`, and each point's own by its place there `[m]`.

    They are numbered as `Dendrogram.cut` does. Those behind the first `num_clusters`,
    which may be traced, fill up: clusters of the cut once more, of weight 0.
    """
    nodes, labels = _cut(children, num_clusters, m=problem.num_points, size=size)
    clusters = clusters_at(problem, children, nodes)
    there = jnp.arange(size) < num_clusters
    return Clusters(clusters.states, jnp.where(there, clusters.weights, 0)), labels


def clusters_without(
    problem: Problem, children: Array, num_clusters: Array | int
) -> tuple[Clusters, Array]:
    """For each point the rest of its cluster of a cut, `[m]`, and whether there is one.

    What is left is pooled, never subtracted: a rest of zeros is a rest of zeros, and a
    rest of one point is that point to the last bit. From a cluster's root down, the
    rest of each node is that of its parent, pooled with its sibling.
    """
    m = problem.num_points
    merges, rest = _with_rests(children, num_clusters, m=m)
    model, leaves = build_leaves(problem)
    states = settled_along(model, merges, leaves, rest)
    weights = _weights(merges, problem.weights, rest)
    return Clusters(states, weights), rest != jnp.arange(m, dtype=rest.dtype)


def weights_of_cut(
    problem: Problem, children: Array, num_clusters: Array | int, size: int
) -> Array:
    """The weights of `clusters_of_cut`, `[size]`."""
    nodes, _ = _cut(children, num_clusters, m=problem.num_points, size=size)
    weights = weights_at(problem, children, nodes)
    return jnp.where(jnp.arange(size) < num_clusters, weights, 0)


def rests_of_cut(
    problem: Problem, children: Array, num_clusters: Array | int
) -> tuple[Array, Array, Array]:
    """Of each point its cluster of a cut, the weight of the rest, and whether any is.

    Returns:
        Places of clusters, weights and booleans, `[m]` each.
    """
    m = problem.num_points
    _, labels = _cut(children, num_clusters, m=m, size=1)
    merges, rest = _with_rests(children, num_clusters, m=m)
    there = rest != jnp.arange(m, dtype=rest.dtype)
    return labels, _weights(merges, problem.weights, rest), there


@program
def _cut(
    children: Array, num_clusters: Array | int, *, m: int, size: int
) -> tuple[Array, Array]:
    """The nodes that are the clusters of a cut `[size]`, and each point's cluster."""
    num_nodes = m + len(children)
    # A forest has m − t trees uncut; for each cluster more, a merge is undone.
    num_undone = num_clusters - (m - len(children))
    whole = jnp.arange(num_nodes) < num_nodes - num_undone
    node = roots_below(parents(jnp.asarray(children), m), whole, m)
    nodes = firsts(node, size)
    return jnp.where(nodes < 0, nodes[0], nodes), labels_of(node)


def _weights(merges: Merges, weights: Array, nodes: Array | np.ndarray) -> Array:
    """Sums of the weights of points in some nodes of a tree."""
    return _taken(_sums(merges, weights), nodes)


@program
def _sums(merges: Merges, weights: Array) -> Array:
    return merges.sum(weights)


_taken = program(take)


@program
def _with_rests(
    children: Array, num_clusters: Array | int, *, m: int
) -> tuple[Merges, Array]:
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

"""The mixtures of all cuts up to K clusters at once: they share 2K − 1 nodes."""

import jax
import jax.numpy as jnp

from bregjax._columns import ColumnBlocks
from bregjax._geometry import Geometry
from bregjax._mixtures import log_total, log_weights
from bregjax._problem import Problem
from bregjax._programs import program
from bregjax._typing import Array
from bregjax.hierarchy._blocks import map_rows
from bregjax.hierarchy._cut_states import Clusters, clusters_at, weights_at
from bregjax.hierarchy._sparse.densities import sparse_log_densities

__all__ = ["likelihoods_of_cuts", "mixture_sums", "mixture_sums_by_density"]


def likelihoods_of_cuts(problem: Problem, children: Array, *, size: int) -> Array:
    """Log-likelihoods of the rows under the cuts into 1 … `size` clusters.

    Each cut replaces a node by its two children, so that all densities are those of
    `2 size − 1` nodes, computed once. A core of `evaluate`; O(m · size · (d + size))
    time, in blocks of rows.

    Args:
        problem: Data, family, smoothing and weights.
        children: `[m − 1, 2]`.
        size: The largest number of clusters, at most m.

    Returns:
        `[2, size]`: Σ w log Σ_k π_k p(x; τ_k) of mixtures, and of rows each in its
        likeliest cluster, Σ w max_k log π_k p(x; τ_k).
    """
    nodes, within = _nodes_of_cuts(children, size)
    if not isinstance(problem.x, ColumnBlocks):
        clusters, rows = clusters_at(problem, children, nodes), problem.x
        return mixture_sums(problem.family, clusters, rows, problem.weights, within)
    states_of = lambda part: clusters_at(part, children, nodes).states
    scores = sparse_log_densities(problem, problem.x, states_of)
    weights = weights_at(problem, children, nodes)
    return mixture_sums_by_density(scores, weights, problem.weights, within)


def _nodes_of_cuts(children: Array, size: int) -> tuple[Array, Array]:
    """The nodes of cuts `[2 size − 1]`, and which are in each, `[size, 2 size − 1]`.

    From the root down: the root is the cut into one, and the parts of the merge that
    was made last but j are in the cuts from j + 2 on. Node n is in cuts up to
    2m − 1 − n, from where its own merge is undone.
    """
    num_nodes = 2 * len(children) + 1
    last = jnp.asarray(children, jnp.int32)[::-1][: size - 1].ravel()
    nodes = jnp.concatenate([jnp.full(1, num_nodes - 1, jnp.int32), last])
    first = 1 + (jnp.arange(2 * size - 1) + 1) // 2
    count = jnp.arange(1, size + 1)[:, None]
    return nodes, (count >= first[None]) & (count <= num_nodes - nodes[None])


@program
def mixture_sums(
    model: Geometry, clusters: Clusters, rows: Array, weights: Array, within: Array
) -> Array:
    """Log-likelihoods of rows under several mixtures of some clusters, `[2, c]`.

    Args:
        model: The family.
        clusters: `[k]`, of weight 0 where they have no part.
        rows: `[m, d]`.
        weights: Of the rows, `[m]`.
        within: Which clusters are in each mixture, `[c, k]`.

    Returns:
        As `likelihoods_of_cuts`.
    """
    parameters = model.density_parameters(clusters.states)
    shares = log_weights(clusters.weights) - jnp.log(jnp.sum(weights))
    entries = within.size + within.shape[1] * (rows.size // rows.shape[0])

    def by_row(row: Array) -> Array:
        return _totals(shares + model.log_densities(row, parameters), within)

    return _summed(map_rows(by_row, rows, entries), weights)


@program
def mixture_sums_by_density(
    scores: Array, cluster_weights: Array, weights: Array, within: Array
) -> Array:
    """The same by log-densities `[m, k]` of the rows under the clusters."""
    shares = log_weights(cluster_weights) - jnp.log(jnp.sum(weights))
    by_row = lambda terms: _totals(shares + terms, within)
    return _summed(map_rows(by_row, scores, within.size), weights)


def _totals(terms: Array, within: Array) -> Array:
    """log Σ exp and the maximum of the terms of each mixture, `[2, c]`."""
    terms = jnp.where(within, terms[None], -jnp.inf)
    return jnp.stack([jax.vmap(log_total)(terms), jnp.max(terms, axis=1)])


def _summed(by_row: Array, weights: Array) -> Array:
    # A row of weight 0 fills up, and may have no likelihood.
    there = (weights > 0)[:, None, None]
    terms = jnp.where(there, weights[:, None, None] * by_row, 0)
    return jnp.sum(terms, axis=0)

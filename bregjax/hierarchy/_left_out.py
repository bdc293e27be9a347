"""The likelihood of each row under the mixture of a cut that lacks it."""

import jax
import jax.numpy as jnp

from bregjax._columns import ColumnBlocks
from bregjax._mixtures import log_total, log_weights
from bregjax._problem import Problem
from bregjax._programs import program
from bregjax._typing import Array
from bregjax.hierarchy._blocks import map_rows
from bregjax.hierarchy._cut_states import (
    Clusters,
    clusters_of_cut,
    clusters_without,
    rests_of_cut,
)
from bregjax.hierarchy._search import take
from bregjax.hierarchy._sparse.densities import own_log_densities, scores_of_cut

__all__ = ["leave_one_out"]


def leave_one_out(
    problem: Problem,
    children: Array,
    num_clusters: Array,
    counts: Array | None = None,
    *,
    size: int,
) -> Array:
    """Σ_i n_i log p(x_i) under the clusters of a cut without row i; for `evaluate`.

    Args:
        problem: Data, family, smoothing and weights.
        children: `[m − 1, 2]`.
        num_clusters: k, perhaps traced: one program for all k up to `size`.
        counts: How much the term of each row counts, n, `[m]`; its weight if None. A
            row that counts 0 is in clusters all the same.
        size: How many clusters there is room for; see `cut_size`.
    """
    if isinstance(problem.x, ColumnBlocks):
        by_row = _of_sparse(problem, children, num_clusters, size)
    else:
        clusters, labels = clusters_of_cut(problem, children, num_clusters, size)
        rests, there = clusters_without(problem, children, num_clusters)
        by_row = _log_likelihoods_of_others(problem, clusters, labels, rests, there)
    return _total(problem.weights if counts is None else counts, by_row)


@program
def _total(counts: Array, by_row: Array) -> Array:
    # A row that does not count may have no likelihood.
    return jnp.vdot(counts, jnp.where(counts > 0, by_row, 0))


def _of_sparse(
    problem: Problem, children: Array, num_clusters: Array, size: int
) -> Array:
    """Log-likelihoods of sparse rows, `[m]`."""
    scores, weights = scores_of_cut(problem, children, problem.x, num_clusters, size)
    labels, rest_weights, there = rests_of_cut(problem, children, num_clusters)
    rests_of = lambda part: clusters_without(part, children, num_clusters)[0].states
    own = own_log_densities(problem, rests_of)
    log_likelihood = lambda row: _log_likelihood_without(weights, *row)
    return jax.vmap(log_likelihood)((scores, own, labels, rest_weights, there))


def _log_likelihood_without(
    weights: Array,
    scores: Array,
    own: Array,
    label: Array,
    weight: Array,
    is_there: Array,
) -> Array:
    """Log-likelihood of a row whose cluster of a cut is without it.

    Args:
        weights: Of all clusters, `[k]`; 0 of those that fill up.
        scores: Log-densities of the row under these, `[k]`.
        own: Its log-density under the rest of its own cluster.
        label: Which is its own.
        weight: Of the rest.
        is_there: Whether there is a rest.
    """
    with_own = lambda terms, own: terms.at[label].set(
        jnp.where(is_there, own, -jnp.inf)
    )
    logs = with_own(log_weights(weights), jnp.log(weight))
    terms = with_own(scores, own)
    return log_total(logs + terms) - log_total(logs)


@program
def _log_likelihoods_of_others(
    problem: Problem, clusters: Clusters, labels: Array, rests: Clusters, there: Array
) -> Array:
    """Log-likelihoods of dense rows, `[m]`."""
    model, size = problem.family, clusters.weights.shape[0]
    # All in one: what factorises matrices does so once, see `map_rows`.
    join = lambda a, b: jnp.concatenate([a, b])
    states = jax.tree.map(join, clusters.states, rests.states)
    parameters = model.density_parameters(states)
    of_clusters = take(parameters, slice(None, size))
    of_rests = take(parameters, slice(size, None))

    def log_likelihood(point):
        row, label, rest, weight, is_there = point
        one = jax.tree.map(lambda leaf: leaf[None], rest)
        own = model.log_densities(row, one)[0]
        scores = model.log_densities(row, of_clusters)
        return _log_likelihood_without(
            clusters.weights, scores, own, label, weight, is_there
        )

    points = (problem.x, labels, of_rests, rests.weights, there)
    entries = size * problem.x[0].size
    return map_rows(log_likelihood, points, entries)

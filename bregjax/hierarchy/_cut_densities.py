"""Shares and likelihoods of rows under the mixture of some clusters."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from bregjax._geometry import Geometry
from bregjax._mixtures import log_shares, log_total, shares_of
from bregjax._programs import program
from bregjax._typing import Array
from bregjax.hierarchy._blocks import map_rows
from bregjax.hierarchy._cut_states import Clusters

__all__ = [
    "log_likelihoods_by_density",
    "row_log_likelihoods",
    "row_shares",
    "shares_by_density",
]


@program
def row_shares(
    model: Geometry, clusters: Clusters, rows: Array, temperature: Array | float
) -> Array:
    """Responsibilities of the clusters for each row at a temperature, `[r, k]`."""
    scores_of = _scores(model, clusters)
    shares = lambda row: _tempered(scores_of(row), temperature)
    return map_rows(shares, rows, _entries(clusters, rows))


@program
def row_log_likelihoods(model: Geometry, clusters: Clusters, rows: Array) -> Array:
    """The log-likelihood of each row under the mixture of the clusters, `[r]`."""
    scores_of = _scores(model, clusters)
    return map_rows(
        lambda row: log_total(scores_of(row)), rows, _entries(clusters, rows)
    )


@program
def shares_by_density(
    log_densities: Array, weights: Array, temperature: Array | float
) -> Array:
    """Responsibilities `[r, k]` from log-densities `[r, k]` and weights of clusters."""
    scores = log_shares(weights)[None] + log_densities
    return jax.vmap(lambda row: _tempered(row, temperature))(scores)


@program
def log_likelihoods_by_density(log_densities: Array, weights: Array) -> Array:
    """Log-likelihoods `[r]` from log-densities `[r, k]` and weights of clusters."""
    return jax.vmap(log_total)(log_shares(weights)[None] + log_densities)


def _scores(model: Geometry, clusters: Clusters) -> Callable[[Array], Array]:
    """From a row to log π_k p(x; τ_k), `[k]`."""
    parameters = model.density_parameters(clusters.states)
    shares = log_shares(clusters.weights)
    return lambda row: shares + model.log_densities(row, parameters)


def _entries(clusters: Clusters, rows: Array) -> int:
    return clusters.weights.shape[0] * (rows.size // rows.shape[0])


def _tempered(scores: Array, temperature: Array | float) -> Array:
    # Scores of −inf stay: divided, they would have a derivative of inf by T.
    finite = jnp.isfinite(scores)
    divided = jnp.where(finite, scores, 0) / temperature
    return shares_of(jnp.where(finite, divided, scores))

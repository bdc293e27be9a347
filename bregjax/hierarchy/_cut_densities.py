"""Shares and likelihoods of rows under the mixture of some clusters."""

import jax
import jax.numpy as jnp

from bregjax._geometry import Geometry
from bregjax._mixtures import log_total, shares_of
from bregjax._typing import Array
from bregjax.hierarchy._blocks import map_rows
from bregjax.hierarchy._cut_states import Clusters

__all__ = ["row_log_likelihoods", "row_shares"]


@jax.jit
def row_shares(
    model: Geometry, clusters: Clusters, rows: Array, temperature: Array | float
) -> Array:
    """Responsibilities of the clusters for each row at a temperature, `[r, k]`."""
    log_share = jnp.log(clusters.weights) - jnp.log(jnp.sum(clusters.weights))
    num_clusters = clusters.weights.shape[0]
    parameters = model.density_parameters(clusters.states)

    def shares(row):
        scores = log_share + model.log_densities(row, parameters)
        # Scores of −inf stay: divided, they would have a derivative of inf by T.
        finite = jnp.isfinite(scores)
        divided = jnp.where(finite, scores, 0) / temperature
        return shares_of(jnp.where(finite, divided, scores))

    return map_rows(shares, rows, num_clusters * (rows.size // rows.shape[0]))


@jax.jit
def row_log_likelihoods(model: Geometry, clusters: Clusters, rows: Array) -> Array:
    """The log-likelihood of each row under the mixture of the clusters, `[r]`."""
    log_share = jnp.log(clusters.weights) - jnp.log(jnp.sum(clusters.weights))
    num_clusters = clusters.weights.shape[0]
    parameters = model.density_parameters(clusters.states)
    log_likelihood = lambda row: log_total(
        log_share + model.log_densities(row, parameters)
    )
    return map_rows(log_likelihood, rows, num_clusters * rows[0].size)

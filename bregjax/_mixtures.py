"""Sums of likelihoods of which some, or all, are 0.

For the terms (−inf, 0, log 3), the likelihoods 0, 1 and 3, the total is log 4 and the
shares are 0, ¼ and ¾; the first term has no derivative, whatever its own slope.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from bregjax._typing import Array

__all__ = ["log_shares", "log_total", "log_weights", "shares_of"]


@jax.custom_jvp
def log_total(terms: Array) -> Array:
    """log Σ_k exp(terms_k), scalar, of terms `[k]` that may be −inf.

    The derivative is Σ_k share_k dterms_k with `shares_of`; a term of −inf among finite
    terms adds nothing to it, whatever its own slope. Where all terms are −inf each has
    the same share: the slopes of terms that are −inf for a mean on its boundary are
    ±inf, and so is their sum.
    """
    return logsumexp(terms)


@log_total.defjvp
def _log_total_jvp(primals, tangents):
    (terms,), (d_terms,) = primals, tangents
    none = jnp.all(jnp.isneginf(terms))
    shares = jnp.where(none, 1 / terms.shape[0], jax.nn.softmax(terms))
    return log_total(terms), jnp.sum(_by_share(shares, d_terms))


@jax.custom_jvp
def shares_of(terms: Array) -> Array:
    """exp(terms_k) / Σ exp(terms), `[k]`, of terms that may be −inf; NaN if all are.

    A share of 0 has no derivative, and no derivative goes through its term.
    """
    return jax.nn.softmax(terms)


@shares_of.defjvp
def _shares_of_jvp(primals, tangents):
    (terms,), (d_terms,) = primals, tangents
    shares = shares_of(terms)
    moved = _by_share(shares, d_terms)
    return shares, moved - shares * jnp.sum(moved)


def _by_share(shares: Array, tangents: Array) -> Array:
    """shares · tangents, with 0 · ±inf = 0."""
    return jnp.where(shares == 0, 0, shares * jnp.where(shares == 0, 0, tangents))


def log_shares(weights: Array) -> Array:
    """Logarithms of the shares of clusters in all weight, `[k]`; −inf of weight 0."""
    return log_weights(weights) - jnp.log(jnp.sum(weights))


def log_weights(weights: Array) -> Array:
    """Logarithms of weights; −inf, without a derivative, of weight 0."""
    there = weights > 0
    return jnp.where(there, jnp.log(jnp.where(there, weights, 1)), -jnp.inf)

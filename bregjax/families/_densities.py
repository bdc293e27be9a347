"""Log-densities of a row under each of many clusters, from the clusters' states."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from bregjax._numerics import scale_tangent
from bregjax._typing import Array, PyTree
from bregjax.clusters import MeanState, NaturalState
from bregjax.clusters._bregman_model import divergences_from
from bregjax.convex import ConvexFunction
from bregjax.families._distribution import Distribution

__all__ = ["by_divergence", "by_natural", "naturals_of"]


def naturals_of(
    family: Distribution, clusters: NaturalState | MeanState
) -> tuple[PyTree, Array]:
    """θ_k and ψ(θ_k), `[k, ...]` and `[k]`, of means inside the mean domain.

    A mean on the boundary has no θ. The last iterate of the solver takes its place,
    with densities that are tiny where they should be 0.
    """
    if isinstance(clusters, MeanState):
        solve = lambda mean: family.conjugate(mean).maximiser
        natural = jax.vmap(solve)(clusters.mean)
    else:
        natural = jax.vmap(ravel_pytree(family.natural_init)[1])(clusters.natural)
    return natural, jax.vmap(family.log_partition)(natural)


def by_natural(
    family: Distribution, row: Array, parameters: tuple[PyTree, Array]
) -> Array:
    """⟨T(x), θ_k⟩ − ψ(θ_k) + log h(x), `[k]`; −inf off the support."""
    natural, psi = parameters
    statistics = ravel_pytree(family.sufficient_statistics(row))[0]
    flat = jax.vmap(lambda theta: ravel_pytree(theta)[0])(natural)
    base = family.log_base_measure(row)
    # Only infinite θ are masked: a finite θ is the derivative by T, also at T = 0.
    idle = (statistics[None] == 0) & jnp.isinf(flat)
    value = jnp.sum(statistics[None] * jnp.where(idle, 0, flat), axis=-1) - psi
    return jnp.where(jnp.isneginf(base), -jnp.inf, value + base)


def by_divergence(family: Distribution, row: Array, means: Array) -> Array:
    """f(τ_k) + ⟨∇f(τ_k), T(x) − τ_k⟩ + log h(x), `[k]`; see `tangent_values`.

    f is the function of the family's cluster model. If f is ψ*, that is the
    log-density; if f is ψ* plus a linear term, subtract the linear term at T(x).
    """
    function = family.cluster_model().function  # pyright: ignore[reportAttributeAccessIssue]
    statistics = family.sufficient_statistics(row)
    values = tangent_values(function, statistics, means)
    return values + family.log_base_measure(row)


@jax.custom_jvp
def tangent_values(function: ConvexFunction, x: Array, means: Array) -> Array:
    """f(τ_k) + ⟨∇f(τ_k), x − τ_k⟩, `[k]`: the values at x of the tangents at τ_k.

    Computed as f(x) − B_f(x, τ_k), which also holds for means on the boundary of dom f,
    where the slope is infinite: a count of 0 under a rate of 0. Derivatives by x are
    the slopes ∇f(τ_k), derivatives by τ_k those of the divergence; x may be on the
    boundary.
    """
    return function(x) - divergences_from(function, x, means)


@tangent_values.defjvp
def _tangent_values_jvp(primals, tangents):
    function, x, means = primals
    d_function, dx, d_means = tangents
    value, change = jax.jvp(
        lambda f, means: f(x) - divergences_from(f, x, means),
        (function, means),
        (d_function, d_means),
    )
    slopes = function.gradient(means)
    axes = tuple(range(1, means.ndim))
    along = scale_tangent(slopes, jnp.broadcast_to(dx[None], slopes.shape))
    return value, change + jnp.sum(along, axis=axes)

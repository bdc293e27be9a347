"""Log-densities of a row under each of many clusters, from the clusters' states."""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from bregjax._typing import Array, PyTree
from bregjax.cluster_model import MeanState, divergences_from
from bregjax.families._natural_state import NaturalState

if TYPE_CHECKING:
    from bregjax.families.base import Family

__all__ = ["by_divergence", "by_natural", "naturals_of"]


def naturals_of(
    family: "Family", clusters: NaturalState | MeanState
) -> tuple[PyTree, Array]:
    """θ_k and ψ(θ_k), `[k, ...]` and `[k]`, of means inside the mean domain."""
    if isinstance(clusters, MeanState):
        solve = lambda mean: family.conjugate(mean).maximiser
        natural = jax.vmap(solve)(clusters.mean)
    else:
        natural = jax.vmap(ravel_pytree(family.natural_init)[1])(clusters.natural)
    return natural, jax.vmap(family.log_partition)(natural)


def by_natural(family: "Family", row: Array, parameters: tuple[PyTree, Array]) -> Array:
    """⟨T(x), θ_k⟩ − ψ(θ_k) + log h(x), `[k]`; −inf off the support."""
    natural, psi = parameters
    statistics = ravel_pytree(family.sufficient_statistics(row))[0]
    flat = jax.vmap(lambda theta: ravel_pytree(theta)[0])(natural)
    base = family.log_base_measure(row)
    # Of finite θ nothing is masked: T = 0 still has the derivative θ.
    idle = (statistics[None] == 0) & jnp.isinf(flat)
    value = jnp.sum(statistics[None] * jnp.where(idle, 0, flat), axis=-1) - psi
    return jnp.where(jnp.isneginf(base), -jnp.inf, value + base)


def by_divergence(
    family: "Family", row: Array, means: Array, peak: Array | None = None
) -> Array:
    """log p̂(x) − B_ψ*(T(x), τ_k), where p̂(x) = sup over θ of p(x; θ) is finite; `[k]`.

    Right, with its derivatives, for means on the boundary too; exactly log p̂(x) where
    the mean is T(x).

    Args:
        family: A family whose cluster model is that of a convex function.
        row: x.
        means: τ_k, `[k, n]`.
        peak: log p̂(x), ψ*(T(x)) + log h(x) if None.
    """
    function = family.cluster_model().function  # pyright: ignore[reportAttributeAccessIssue]
    statistics = family.sufficient_statistics(row)
    if peak is None:
        peak = family.conjugate(statistics).value + family.log_base_measure(row)
    return peak - divergences_from(function, statistics, means)

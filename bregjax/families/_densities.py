"""Log-densities of a row under each of many clusters, from the clusters' states."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
from jax.flatten_util import ravel_pytree

from bregjax._typing import Array
from bregjax.cluster_model import MeanState, divergences_from
from bregjax.families._natural_state import NaturalState

if TYPE_CHECKING:
    from bregjax.families.base import Family

__all__ = ["by_divergence", "by_natural"]


def by_natural(
    family: "Family", clusters: NaturalState | MeanState
) -> Callable[[Array], Array]:
    """⟨T(x), θ_k⟩ − ψ(θ_k) + log h(x), for means inside the mean domain."""
    if isinstance(clusters, MeanState):
        solve = lambda mean: family.conjugate(mean).maximiser
        natural = jax.vmap(solve)(clusters.mean)
    else:
        natural = jax.vmap(ravel_pytree(family.natural_init)[1])(clusters.natural)
    return lambda row: jax.vmap(lambda theta: family.log_prob(row, theta))(natural)


def by_divergence(
    family: "Family", clusters: MeanState, peak: Callable[[Array], Array] | None = None
) -> Callable[[Array], Array]:
    """log p̂(x) − B_ψ*(T(x), τ_k), where p̂(x) = sup over θ of p(x; θ) is finite.

    Right, with its derivatives, for means on the boundary too; exactly log p̂(x) where
    the mean is T(x).

    Args:
        family: A family whose cluster model is that of a convex function.
        clusters: `[k]`.
        peak: x to log p̂(x), ψ*(T(x)) + log h(x) if None.
    """
    function = family.cluster_model().function  # pyright: ignore[reportAttributeAccessIssue]

    def own_peak(row):
        statistics = family.sufficient_statistics(row)
        return family.conjugate(statistics).value + family.log_base_measure(row)

    def log_densities(row):
        statistics = family.sufficient_statistics(row)
        lost = divergences_from(function, statistics, clusters.mean)
        return (peak or own_peak)(row) - lost

    return log_densities

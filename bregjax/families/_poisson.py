"""Independent Poisson counts."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from typing_extensions import override

from bregjax._numerics import xlogx
from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters import BregmanModel, MeanState
from bregjax.convex import ConjugateSolution, NegativeEntropy
from bregjax.families._closed_form import all_finite, closed_form
from bregjax.families._densities import by_divergence
from bregjax.families._vector_family import VectorFamily
from bregjax.smoothing import StatisticMap, adding

__all__ = ["Poisson"]


@register_pytree
@dataclass(frozen=True)
class Poisson(VectorFamily):
    """Rows of d independent Poisson counts, p(x) = Π μ_i^{x_i} e^{−μ_i} / x_i!.

    ψ(θ) = Σ e^θ, T(x) = x, μ = e^θ > 0, ψ*(μ) = Σ μ log μ − μ, finite on the boundary
    μ_i = 0: counts of zero need no smoothing. x may be any non-negative numbers.

    Attributes:
        dim: d; taken from the data if None.

    Examples:
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> print(bj.Poisson(dim=2).natural_to_mean(jnp.array([0.0, 1.0])))
        [1.000 2.718]
    """

    dim: int | None = jax.tree.static(default=None)

    @property
    @override
    def takes_sparse(self) -> bool:
        return True

    @property
    @override
    def separable(self) -> bool:
        return True

    @property
    @override
    def num_parameters(self) -> int:
        return self.known_dim

    @property
    @override
    def natural_init(self) -> Array:
        """Rate 1 in every coordinate."""
        return jnp.zeros(self.known_dim)

    @override
    def log_partition(self, natural: Array) -> Array:
        """Σ e^θ."""
        return jnp.sum(jnp.exp(natural))

    @override
    def sufficient_statistics(self, x: Array) -> Array:
        return jnp.asarray(x, dtype=float)

    @override
    def log_base_measure(self, x: Array) -> Array:
        """−Σ log x!; −inf where a count is negative."""
        x = jnp.asarray(x, dtype=float)
        inside = x >= 0
        log_factorial = gammaln(jnp.where(inside, x, 0) + 1)
        return -jnp.sum(jnp.where(inside, log_factorial, jnp.inf))

    @override
    def conjugate(
        self, mean: Array, *, start: Array | None = None
    ) -> ConjugateSolution:
        """Σ μ log μ − μ at θ = log μ."""
        del start
        closure = jnp.all(mean >= 0)
        return closed_form(
            jnp.sum(xlogx(mean) - mean),
            jnp.log(mean),
            inside=jnp.all(mean > 0),
            closure=closure,
            valid=all_finite(mean),
        )

    @override
    def density_parameters(self, clusters: MeanState) -> Array:
        return clusters.mean

    @override
    def log_densities(self, row: Array, parameters: Array) -> Array:
        """ψ*(x) − B_ψ*(x, μ_k) + log h(x), which takes means on the boundary."""
        statistics = self.sufficient_statistics(row)
        return by_divergence(self, row, parameters) - jnp.sum(statistics)

    @override
    def cluster_model(self) -> BregmanModel:
        """Clusters by the generalised Kullback–Leibler divergence of rates."""
        return BregmanModel(NegativeEntropy())

    @override
    def support(self, x: np.ndarray) -> tuple[np.ndarray, str, str]:
        return x >= 0, "must be non-negative for Poisson counts", "Drop such rows"

    @override
    def smoothing_of(self, amount: float) -> StatisticMap:
        """Adding `amount` to every entry."""
        return adding(np.ones(self.known_dim), amount)

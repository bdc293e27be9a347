"""Independent binary variables."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._numerics import xlogx
from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters import BregmanModel, MeanState
from bregjax.convex import BinaryEntropy, ConjugateSolution
from bregjax.families._cell_form import BinaryCells
from bregjax.families._closed_form import all_finite, closed_form
from bregjax.families._densities import by_divergence
from bregjax.families._vector_family import VectorFamily

__all__ = ["Bernoulli"]


@register_pytree
@dataclass(frozen=True)
class Bernoulli(VectorFamily):
    """Rows of d independent binary variables with probabilities μ.

    ψ(θ) = Σ log(1 + e^θ), T(x) = x, μ = 1 / (1 + e^{−θ}) in (0, 1),
    ψ*(μ) = Σ μ log μ + (1 − μ) log(1 − μ), finite at 0 and 1. x may be any fractions in
    [0, 1].

    Attributes:
        dim: d; taken from the data if None.

    Examples:
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> print(bj.Bernoulli(dim=2).natural_to_mean(jnp.array([0.0, 1.0])))
        [0.500 0.731]
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
        """Probability ½ in every coordinate."""
        return jnp.zeros(self.known_dim)

    @override
    def log_partition(self, natural: Array) -> Array:
        """Σ log(1 + e^θ)."""
        return jnp.sum(jax.nn.softplus(natural))

    @override
    def sufficient_statistics(self, x: Array) -> Array:
        return jnp.asarray(x, dtype=float)

    @override
    def log_base_measure(self, x: Array) -> Array:
        """0; −inf where an entry lies outside [0, 1]."""
        x = jnp.asarray(x)
        return jnp.where(jnp.all((x >= 0) & (x <= 1)), 0.0, -jnp.inf)

    @override
    def conjugate(
        self, mean: Array, *, start: Array | None = None
    ) -> ConjugateSolution:
        """Σ μ log μ + (1 − μ) log(1 − μ) at θ = log μ / (1 − μ)."""
        del start
        return closed_form(
            jnp.sum(xlogx(mean) + xlogx(1 - mean)),
            jnp.log(mean) - jnp.log1p(-mean),
            inside=jnp.all((mean > 0) & (mean < 1)),
            closure=jnp.all((mean >= 0) & (mean <= 1)),
            valid=all_finite(mean),
        )

    @override
    def density_parameters(self, clusters: MeanState) -> Array:
        return clusters.mean

    @override
    def log_densities(self, row: Array, parameters: Array) -> Array:
        return by_divergence(self, row, parameters)

    @override
    def cells(self) -> BinaryCells:
        return BinaryCells(self.known_dim)

    @override
    def cluster_model(self) -> BregmanModel:
        """Clusters by binary relative entropy."""
        return BregmanModel(BinaryEntropy())

    @override
    def support(self, x: np.ndarray) -> tuple[np.ndarray, str, str]:
        return (x >= 0) & (x <= 1), "must lie in [0, 1] for Bernoulli", "Code it 0 or 1"

"""Proportions of categories."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from typing_extensions import override

from bregjax._checks import check_support, is_concrete
from bregjax._geometry import Sparse
from bregjax._numerics import proportions, xlogx
from bregjax._pytree import register_pytree
from bregjax._sparse_rows import row_totals
from bregjax._typing import Array, DataLike
from bregjax.clusters import BregmanModel, MeanState
from bregjax.convex import ConjugateSolution, NegativeEntropy
from bregjax.convex._categories import on_simplex
from bregjax.families._closed_form import all_finite, closed_form
from bregjax.families._densities import by_divergence
from bregjax.families._vector_family import VectorFamily

__all__ = ["Multinomial"]


@register_pytree
@dataclass(frozen=True)
class Multinomial(VectorFamily):
    """Rows of counts or proportions over n categories.

    ψ(θ) = log Σ e^θ, T(x) = x / Σ x, μ on the simplex, ψ*(μ) = Σ μ log μ, finite on the
    boundary. θ is overcomplete: θ + c gives the same distribution. A row is one point
    of weight 1 at its proportions, whatever its total; pass weights=x.sum(1) to weight
    rows by their totals, which makes the merge cost the multinomial log-likelihood
    lost. A one-hot row is a categorical observation, and `log_prob` is per trial.

    Attributes:
        dim: n; taken from the data if None.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> family = bj.Multinomial(dim=2)
        >>> mean = jax.jit(family.sufficient_statistics)(jnp.array([1.0, 3.0]))
        >>> print(mean, jax.jit(family.mean_to_natural)(mean))
        [0.250 0.750] [-1.386 -0.288]
    """

    dim: int | None = jax.tree.static(default=None)

    @property
    @override
    def takes_sparse(self) -> bool:
        return True

    @property
    @override
    def num_parameters(self) -> int:
        """d − 1, as probabilities add up to 1."""
        return self.known_dim - 1

    @property
    @override
    def natural_init(self) -> Array:
        """The uniform distribution."""
        return jnp.zeros(self.known_dim)

    @override
    def log_partition(self, natural: Array) -> Array:
        """log Σ e^θ."""
        return logsumexp(natural)

    @override
    def sufficient_statistics(self, x: Array) -> Array:
        """Proportions x / Σ x."""
        return proportions(jnp.asarray(x, dtype=float))

    @override
    def sparse_statistics(self, x: Sparse) -> Sparse:
        return x.by_totals()

    @override
    def base_terms(self, statistics: Array, columns: Array) -> Array:
        del columns
        return jnp.zeros(statistics.shape)

    @override
    def own_terms(self, statistics: Array, columns: Array) -> Array:
        """Σ p log p of proportions, which are no density column by column."""
        del columns
        return xlogx(statistics)

    @override
    def conjugate(
        self, mean: Array, *, start: Array | None = None
    ) -> ConjugateSolution:
        """Σ μ log μ at θ = log μ, if μ adds up to 1 to rounding."""
        del start
        closure = on_simplex(mean)
        return closed_form(
            jnp.sum(xlogx(mean)),
            jnp.log(mean),
            inside=closure & jnp.all(mean > 0),
            closure=closure,
            valid=all_finite(mean),
        )

    @override
    def density_parameters(self, clusters: MeanState) -> Array:
        return clusters.mean

    @override
    def log_densities(self, row: Array, parameters: Array) -> Array:
        return by_divergence(self, row, parameters)

    @override
    def cluster_model(self) -> BregmanModel:
        """Clusters by the relative entropy of proportions."""
        return BregmanModel(NegativeEntropy())

    @override
    def check_support(self, x: DataLike) -> None:
        """Raise ValueError at a negative entry or an empty row."""
        super().check_support(x)
        if is_concrete(x):
            totals = row_totals(self.as_rows(x))
            check_support(
                "x",
                totals,
                totals > 0,
                rule="must have a positive total in every row for Multinomial",
                remedy="Drop the empty rows first: they have no proportions",
            )

    @override
    def support(self, x: np.ndarray) -> tuple[np.ndarray, str, str]:
        return x >= 0, "must be non-negative for Multinomial", "Drop such rows"

"""Independent exponential waiting times."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters import BregmanModel
from bregjax.convex import Burg, ConjugateSolution
from bregjax.families._closed_form import all_finite, closed_form
from bregjax.families._vector_family import VectorFamily
from bregjax.smoothing import StatisticMap, adding

__all__ = ["Exponential"]


@register_pytree
@dataclass(frozen=True)
class Exponential(VectorFamily):
    """Rows of d independent exponentials, p(x) = Π λ_i e^{−λ_i x_i}, λ = −θ.

    ψ(θ) = −Σ log(−θ), T(x) = x, μ = −1/θ > 0, ψ*(μ) = −Σ (1 + log μ), whose divergence
    is that of Itakura and Saito; ψ* = +inf at μ_i = 0, so that zeros need smoothing.

    Attributes:
        dim: d; taken from the data if None.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> family = bj.Exponential(dim=2)
        >>> print(jax.jit(family.natural_to_mean)(jnp.array([-1.0, -2.0])))
        [1.000 0.500]
    """

    dim: int | None = jax.tree.static(default=None)

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
        return -jnp.ones(self.known_dim)

    @override
    def log_partition(self, natural: Array) -> Array:
        """−Σ log(−θ), +inf for θ ≥ 0."""
        inside = natural < 0
        safe = jnp.where(inside, -natural, 1)
        return jnp.sum(jnp.where(inside, -jnp.log(safe), jnp.inf))

    @override
    def sufficient_statistics(self, x: Array) -> Array:
        return jnp.asarray(x, dtype=float)

    @override
    def log_base_measure(self, x: Array) -> Array:
        """0; −inf where a time is negative."""
        return jnp.where(jnp.all(jnp.asarray(x) >= 0), 0.0, -jnp.inf)

    @override
    def conjugate(
        self, mean: Array, *, start: Array | None = None
    ) -> ConjugateSolution:
        """−Σ (1 + log μ) at θ = −1/μ."""
        del start
        return closed_form(
            -jnp.sum(1 + jnp.log(mean)),
            -1 / mean,
            inside=jnp.all(mean > 0),
            closure=jnp.all(mean >= 0),
            valid=all_finite(mean),
        )

    @override
    def cluster_model(self) -> BregmanModel:
        """Clusters by the Itakura–Saito divergence of means."""
        return BregmanModel(Burg())

    @override
    def support(self, x: np.ndarray) -> tuple[np.ndarray, str, str]:
        return x >= 0, "must be non-negative for exponential times", "Drop such rows"

    @property
    @override
    def smoothing_hint(self) -> str:
        return (
            "A time of 0 has a likelihood without bound: pass "
            "smoothing=adding(numpy.ones(d), amount) with an amount in the units of "
            "the data, such as half its resolution"
        )

    @override
    def smoothing_of(self, amount: float) -> StatisticMap:
        """Adding `amount` to every entry."""
        return adding(np.ones(self.known_dim), amount)

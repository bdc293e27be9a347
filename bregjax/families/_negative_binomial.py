"""Independent counts of a variance larger than the mean, of known dispersion."""

from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from typing_extensions import override

from bregjax._checks import is_concrete
from bregjax._numerics import burg_remainder
from bregjax._pytree import register_pytree
from bregjax._typing import Array, ArrayLike, DataLike
from bregjax.clusters import BregmanModel, MeanState
from bregjax.convex import (
    ConjugateSolution,
    NegativeBinomialCumulant,
    NegativeBinomialEntropy,
)
from bregjax.families._closed_form import all_finite, closed_form
from bregjax.families._densities import by_divergence
from bregjax.families._vector_family import VectorFamily
from bregjax.smoothing import StatisticMap, adding

__all__ = ["Geometric", "NegativeBinomial"]

# From this r on the asymptotic series of log Γ is good to the last bit of float64.
_LARGE = 20.0


@register_pytree
@dataclass(frozen=True)
class NegativeBinomial(VectorFamily):
    """Rows of d independent negative binomial counts of known dispersion r.

    p(x) = Π Γ(x_i + r_i) / (Γ(r_i) x_i!) · p_i^{r_i} (1 − p_i)^{x_i}: for whole r the
    failures before success number r, for any r > 0 a Poisson count whose rate has a
    gamma distribution of shape r. The mean is μ and the variance μ + μ²/r, more than
    that of a Poisson count, which is the limit r → ∞.

    θ = log(1 − p) = log μ / (μ + r) < 0, ψ(θ) = −Σ r log(1 − e^θ), T(x) = x,
    ψ*(μ) = Σ μ log μ − (μ + r) log(μ + r) + r log r, finite at μ_i = 0: counts of zero
    need no smoothing. x may be any non-negative numbers.

    With r unknown this is no exponential family, and costs under different r must not
    be compared: a cost goes to 0 with r. Take r from a fit to all the data, or choose
    it by `log_prob`, whose base measure depends on r; do not minimise merge costs over
    r.

    Attributes:
        dispersion: r > 0, a number or one a column `[d]`; a leaf, by which costs
            differentiate.
        dim: d; taken from the data if None.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> family = bj.NegativeBinomial(dispersion=2.0, dim=1)
        >>> print(jax.jit(family.mean_to_natural)(jnp.array([2.0])))  # log 2/(2 + 2)
        [-0.693]

    References:
        McCullagh and Nelder (1989), Generalized Linear Models, Section 6.2.3.
    """

    dispersion: ArrayLike = 1.0
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
        """Probability p = ½, so mean r, in every coordinate."""
        return jnp.full(self.known_dim, -np.log(2))

    @override
    def log_partition(self, natural: Array) -> Array:
        """−Σ r log(1 − e^θ), +inf for θ ≥ 0."""
        return NegativeBinomialCumulant(self.dispersion)(natural)

    @override
    def sufficient_statistics(self, x: Array) -> Array:
        return jnp.asarray(x, dtype=float)

    @override
    def log_base_measure(self, x: Array) -> Array:
        """Σ log Γ(x + r) / (Γ(r) x!); −inf where a count is negative."""
        x = jnp.asarray(x, dtype=float)
        inside = x >= 0
        safe = jnp.where(inside, x, 0)
        r = jnp.broadcast_to(jnp.asarray(self.dispersion, x.dtype), x.shape)
        terms = _log_rising(r, safe) - gammaln(safe + 1)
        return jnp.sum(jnp.where(inside, terms, -jnp.inf))

    @override
    def conjugate(
        self, mean: Array, *, start: Array | None = None
    ) -> ConjugateSolution:
        """Σ μ log μ − (μ + r) log(μ + r) + r log r at θ = log μ / (μ + r)."""
        del start
        function = NegativeBinomialEntropy(self.dispersion)
        return closed_form(
            function(mean),
            function.gradient(mean),
            inside=jnp.all(mean > 0),
            closure=jnp.all(mean >= 0),
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
        """Clusters by the divergence of means of dispersion r."""
        return BregmanModel(NegativeBinomialEntropy(self.dispersion))

    @override
    def for_data(self, x: DataLike) -> Self:
        """The family with `dim` set.

        Raises:
            ValueError: If a dispersion is not positive and finite, or their number is
                not that of the columns, or `x` does not fit.
        """
        family = super().for_data(x)
        shape = np.shape(self.dispersion)
        if shape not in ((), (family.dim,)):
            raise ValueError(
                "`dispersion` must be one number, or one for each of the "
                f"{family.dim} columns; got shape {shape}."
            )
        if is_concrete(self.dispersion):
            values = np.atleast_1d(np.asarray(self.dispersion, float))
            allowed = (values > 0) & np.isfinite(values)
            if not allowed.all():
                column = int(np.argmin(allowed))
                where = f" for column {column}" if shape else ""
                raise ValueError(
                    "`dispersion` must be positive and finite; got "
                    f"{values[column]}{where}. Counts of no more variance than mean "
                    "have none: use Poisson()."
                )
        return family

    @override
    def support(self, x: np.ndarray) -> tuple[np.ndarray, str, str]:
        rule = f"must be non-negative for {type(self).__name__} counts"
        return x >= 0, rule, "Drop such rows"

    @override
    def smoothing_of(self, amount: float) -> StatisticMap:
        """Adding `amount` to every entry."""
        return adding(np.ones(self.known_dim), amount)


@register_pytree
@dataclass(frozen=True)
class Geometric(VectorFamily):
    """Rows of d independent geometric counts of failures, p(x) = Π p_i (1 − p_i)^{x_i}.

    `NegativeBinomial` of dispersion 1: ψ(θ) = −Σ log(1 − e^θ), θ = log(1 − p),
    T(x) = x ≥ 0, ψ*(μ) = Σ μ log μ − (μ + 1) log(μ + 1), finite at μ_i = 0. If x counts
    trials, which start at 1, pass x − 1.

    Attributes:
        dim: d; taken from the data if None.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> family = bj.Geometric(dim=1)
        >>> half = family.natural_init  # p = ½
        >>> print(jax.jit(family.log_prob)(jnp.array([3.0]), half))  # 4 log ½
        -2.773
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
    def _general(self) -> NegativeBinomial:
        return NegativeBinomial(1.0, self.dim)

    @property
    @override
    def num_parameters(self) -> int:
        return self.known_dim

    @property
    @override
    def natural_init(self) -> Array:
        """Probability p = ½, so mean 1, in every coordinate."""
        return self._general.natural_init

    @override
    def log_partition(self, natural: Array) -> Array:
        """−Σ log(1 − e^θ), +inf for θ ≥ 0."""
        return self._general.log_partition(natural)

    @override
    def sufficient_statistics(self, x: Array) -> Array:
        return jnp.asarray(x, dtype=float)

    @override
    def log_base_measure(self, x: Array) -> Array:
        """0; −inf where a count is negative."""
        return jnp.where(jnp.all(jnp.asarray(x) >= 0), 0.0, -jnp.inf)

    @override
    def conjugate(
        self, mean: Array, *, start: Array | None = None
    ) -> ConjugateSolution:
        """Σ μ log μ − (μ + 1) log(μ + 1) at θ = log μ / (μ + 1)."""
        return self._general.conjugate(mean, start=start)

    @override
    def density_parameters(self, clusters: MeanState) -> Array:
        return clusters.mean

    @override
    def log_densities(self, row: Array, parameters: Array) -> Array:
        return by_divergence(self, row, parameters)

    @override
    def cluster_model(self) -> BregmanModel:
        """Clusters by the divergence of means of dispersion 1."""
        return self._general.cluster_model()

    @override
    def support(self, x: np.ndarray) -> tuple[np.ndarray, str, str]:
        rule = "must be non-negative for Geometric counts of failures"
        return x >= 0, rule, "Drop such rows"

    @override
    def smoothing_of(self, amount: float) -> StatisticMap:
        """Adding `amount` to every entry."""
        return adding(np.ones(self.known_dim), amount)


def _log_rising(r: Array, x: Array) -> Array:
    """log Γ(r + x) / Γ(r), elementwise, without cancellation where r is large.

    The difference of two series of Stirling, with z = x/r, φ(z) = z − log(1 + z) and
    t the tail of the series: x log(r + x) − (r − ½) φ(z) − z/2 + t(r + x) − t(r).
    """
    large = r > _LARGE
    safe = jnp.where(large, r, _LARGE)
    z = x / safe
    series = x * jnp.log(safe + x) - (safe - 0.5) * burg_remainder(jnp.ones_like(z), z)
    series += _stirling_tail(safe + x) - _stirling_tail(safe) - z / 2
    small = jnp.where(large, 1, r)
    return jnp.where(large, series, gammaln(small + x) - gammaln(small))


def _stirling_tail(t: Array) -> Array:
    """log Γ(t) − (t − ½) log t + t − ½ log 2π for t ≥ 20."""
    z = 1 / t
    z2 = z * z
    return z * (1 / 12 - z2 * (1 / 360 - z2 * (1 / 1260 - z2 / 1680)))

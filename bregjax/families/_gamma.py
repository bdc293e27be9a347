"""Independent gamma variables of free shape and rate."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._gamma_entropy import entropy_of_scatter, shape_of_scatter
from bregjax.clusters._scatters import Spread
from bregjax.convex import ConjugateSolution
from bregjax.families._closed_form import all_finite, closed_form
from bregjax.families._positive_family import PositiveFamily, log_bandwidth
from bregjax.smoothing import StatisticMap, adding
from bregjax.smoothing._maps import Adding

__all__ = ["Gamma"]


@register_pytree
@dataclass(frozen=True)
class Gamma(PositiveFamily):
    """Rows of d independent gamma variables of shape k and rate r.

    θ = (k − 1, −r), T(x) = (log x, x), ψ(θ) = Σ log Γ(θ₁ + 1) − (θ₁ + 1) log(−θ₂). The
    mean domain is E log x < log E x; a single point lies on its boundary, where
    ψ* = +inf, and needs smoothing. Clusters hold means and the scatters
    log E x − E log x, so that columns of any small variation keep their digits. Merge
    costs do not depend on the units of columns.

    Attributes:
        dim: d; taken from the data if None.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> theta = jnp.array([1.0]), jnp.array([-2.0])  # shape 2, rate 2
        >>> print(*jax.jit(bj.Gamma(dim=1).natural_to_mean)(theta))
        [-0.270] [1.000]
    """

    dim: int | None = jax.tree.static(default=None)

    @property
    @override
    def spread(self) -> Spread:
        return "log"

    @property
    @override
    def num_parameters(self) -> int:
        return 2 * self.known_dim

    @property
    @override
    def natural_init(self) -> tuple[Array, Array]:
        """Shape 1 and rate 1 in every column."""
        return jnp.zeros(self.known_dim), -jnp.ones(self.known_dim)

    @override
    def log_partition(self, natural: tuple[Array, Array]) -> Array:
        """Σ log Γ(k) − k log r, +inf for k ≤ 0 or r ≤ 0."""
        shape, rate = natural[0] + 1, -natural[1]
        inside = (shape > 0) & (rate > 0)
        shape, rate = jnp.where(inside, shape, 1), jnp.where(inside, rate, 1)
        return jnp.sum(
            jnp.where(inside, gammaln(shape) - shape * jnp.log(rate), jnp.inf)
        )

    @override
    def sufficient_statistics(self, x: Array) -> tuple[Array, Array]:
        """(log x, x)."""
        x = jnp.asarray(x, dtype=float)
        return jnp.log(x), x

    @override
    def log_base_measure(self, x: Array) -> Array:
        """0; −inf unless every x is positive."""
        return jnp.where(jnp.all(jnp.asarray(x) > 0), 0.0, -jnp.inf)

    @override
    def conjugate(
        self,
        mean: tuple[Array, Array],
        *,
        start: tuple[Array, Array] | None = None,
    ) -> ConjugateSolution:
        """ψ*(μ) = Σ k log k − k − log Γ(k) − k s − μ₁, at θ = (k − 1, −k / μ₂).

        The shape k solves log k − digamma(k) = s, with s = log μ₂ − μ₁ the scatter.
        """
        del start
        log_mean, average = mean
        positive = average > 0
        average = jnp.where(positive, average, 1)
        gap = jnp.log(average) - log_mean
        noise = 4 * jnp.finfo(gap.dtype).eps * (1 + jnp.abs(log_mean))
        inside = positive & (gap > noise)
        scatter = jnp.where(inside, gap, 1)
        shape = shape_of_scatter(scatter)
        value = -entropy_of_scatter(scatter) - log_mean
        return closed_form(
            jnp.sum(jnp.where(inside, value, jnp.inf)),
            (shape - 1, -shape / average),
            inside=jnp.all(inside),
            closure=jnp.all(positive & (gap >= -noise)),
            valid=all_finite(*mean),
        )

    @override
    def default_smoothing(self, x: Array, weights: Array | None) -> Adding:
        """Lower each log by h²/2, with h the normal-reference bandwidth of log x.

        Blurring log x by h at a given mean of x adds (−h²/2, 0) to E T, to first order,
        whatever the units of the column.
        """
        bandwidth = log_bandwidth(x, weights)
        return adding((-(bandwidth**2) / 2, np.zeros(bandwidth.shape)))

    @property
    @override
    def smoothing_hint(self) -> str:
        return (
            'Pass smoothing="auto", or smoothing=adding((-amount, 0 · amount)) with '
            "one positive amount a column, which lowers E log x"
        )

    @override
    def smoothing_of(self, amount: float) -> StatisticMap:
        """Lowering E log x by `amount`."""
        down = -np.ones(self.known_dim)
        return adding((down, np.zeros(self.known_dim)), amount)

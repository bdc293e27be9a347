"""Independent inverse Gaussian (Wald) variables of free mean and shape."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._scatters import Spread
from bregjax.convex import ConjugateSolution
from bregjax.families._closed_form import all_finite, closed_form
from bregjax.families._positive_family import (
    PositiveFamily,
    log_bandwidth,
    log_of_rows,
)
from bregjax.smoothing import StatisticMap, adding
from bregjax.smoothing._maps import Adding

__all__ = ["InverseGaussian"]


@register_pytree
@dataclass(frozen=True)
class InverseGaussian(PositiveFamily):
    """Rows of d independent inverse Gaussians of mean μ and shape λ.

    p(x) = √(λ / 2π x³) exp(−λ (x − μ)² / (2 μ² x)) for x > 0: first passage times of a
    Brownian motion with drift, and positive columns of a longer tail than gamma's.
    θ = (−λ / 2μ², −λ/2), T(x) = (x, 1/x), ψ(θ) = Σ −2 √(θ₁θ₂) − ½ log(−2θ₂),

        ψ*(μ, E 1/x) = −½ Σ (1 + log s),    s = E 1/x − 1/μ = 1/λ.

    The mean domain is s > 0; a single point lies on its boundary, where ψ* = +inf, and
    needs smoothing. Clusters hold means and s. Merge costs do not depend on the units
    of columns.

    Attributes:
        dim: d; taken from the data if None.

    References:
        Tweedie (1957), Statistical properties of inverse Gaussian distributions I.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> mean = jnp.array([2.0]), jnp.array([0.75])  # E x = 2, E 1/x = 1/2 + 1/λ
        >>> print(*jax.jit(bj.InverseGaussian(dim=1).mean_to_natural)(mean))
        [-0.500] [-2.000]
    """

    dim: int | None = jax.tree.static(default=None)

    @property
    @override
    def spread(self) -> Spread:
        return "reciprocal"

    @property
    @override
    def num_parameters(self) -> int:
        return 2 * self.known_dim

    @property
    @override
    def natural_init(self) -> tuple[Array, Array]:
        """Mean 1 and shape 1 in every column."""
        return jnp.full(self.known_dim, -0.5), jnp.full(self.known_dim, -0.5)

    @override
    def log_partition(self, natural: tuple[Array, Array]) -> Array:
        """Σ −2 √(θ₁θ₂) − ½ log(−2θ₂), +inf unless both are negative."""
        first, second = natural
        inside = (first < 0) & (second < 0)
        first, second = jnp.where(inside, first, -1), jnp.where(inside, second, -1)
        # Two roots, because the product θ₁θ₂ may overflow where they do not.
        value = -2 * jnp.sqrt(-first) * jnp.sqrt(-second) - 0.5 * jnp.log(-2 * second)
        return jnp.sum(jnp.where(inside, value, jnp.inf))

    @override
    def sufficient_statistics(self, x: Array) -> tuple[Array, Array]:
        """(x, 1/x)."""
        x = jnp.asarray(x, dtype=float)
        return x, 1 / x

    @override
    def log_base_measure(self, x: Array) -> Array:
        """−½ Σ log(2π x³); −inf unless every x is positive."""
        x = jnp.asarray(x, dtype=float)
        positive = x > 0
        logs = math.log(2 * math.pi) + 3 * jnp.log(jnp.where(positive, x, 1))
        return jnp.where(jnp.all(positive), -0.5 * jnp.sum(logs), -jnp.inf)

    @override
    def conjugate(
        self,
        mean: tuple[Array, Array],
        *,
        start: tuple[Array, Array] | None = None,
    ) -> ConjugateSolution:
        """−½ Σ (1 + log s), s = μ₂ − 1/μ₁, at θ = (−1 / (2 s μ₁²), −1 / (2 s))."""
        del start
        average, reciprocal = mean
        positive = average > 0
        average = jnp.where(positive, average, 1)
        gap = reciprocal - 1 / average
        noise = 4 * jnp.finfo(gap.dtype).eps * (jnp.abs(reciprocal) + 1 / average)
        inside = positive & (gap > noise)
        scatter = jnp.where(inside, gap, 1)
        value = jnp.where(inside, -0.5 * (1 + jnp.log(scatter)), jnp.inf)
        half = -0.5 / scatter
        return closed_form(
            jnp.sum(value),
            (half / average / average, half),
            inside=jnp.all(inside),
            closure=jnp.all(positive & (gap >= -noise)),
            valid=all_finite(*mean),
        )

    @override
    def default_smoothing(self, x: Array, weights: Array | None) -> Adding:
        """Raise each 1/x by h²/g, with h the normal-reference bandwidth of log x.

        g is the geometric mean of the column. Blurring log x by h where the mean of x
        is g adds (0, h²/g) to E T, to first order. The amount changes with the units of
        the column as 1/x does.
        """
        bandwidth = log_bandwidth(x, weights)
        logs = log_of_rows(x)
        xp = np if isinstance(logs, np.ndarray) else jnp
        ones = xp.ones(len(logs))
        middle = _average(logs, ones if weights is None else weights)
        amount = bandwidth**2 * xp.exp(-middle)
        return adding((np.zeros(bandwidth.shape), amount))

    @property
    @override
    def smoothing_hint(self) -> str:
        return (
            'Pass smoothing="auto", or smoothing=adding((0 · amount, amount)) with '
            "one positive amount a column, which raises E 1/x"
        )

    @override
    def smoothing_of(self, amount: float) -> StatisticMap:
        """Raising E 1/x by `amount`."""
        up = np.ones(self.known_dim)
        return adding((np.zeros(self.known_dim), up), amount)


def _average(x: Any, weights: Any) -> Any:
    """Weighted averages of columns over the cells that are not NaN, `[d]`."""
    xp = np if isinstance(x, np.ndarray) else jnp
    seen = ~xp.isnan(x)
    return weights @ xp.where(seen, x, 0) / (weights @ seen.astype(x.dtype))

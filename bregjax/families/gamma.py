"""Independent gamma variables of free shape and rate."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln, polygamma

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.convex import ConjugateSolution
from bregjax.families._closed_form import all_finite, closed_form
from bregjax.families._vector_family import VectorFamily
from bregjax.smoothing import Adding, adding, normal_reference

__all__ = ["Gamma"]

# From here on the asymptotic series are good to the last bit of float64.
_LARGE_SHAPE = 20.0
_NEWTON_STEPS = 8


@register_pytree
@dataclass(frozen=True)
class Gamma(VectorFamily):
    """Rows of d independent gamma variables of shape k and rate r.

    θ = (k − 1, −r), T(x) = (log x, x), ψ(θ) = Σ log Γ(θ₁ + 1) − (θ₁ + 1) log(−θ₂). The
    mean domain is log-mean < log mean; a single point lies on its boundary, where
    ψ* = +inf, and needs smoothing.

    Attributes:
        dim: d; taken from the data if None.
    """

    dim: int | None = jax.tree.static(default=None)

    @property
    def columnwise(self) -> bool:
        """Columns are independent."""
        return True

    @property
    def natural_init(self) -> tuple[Array, Array]:
        """Shape 1, rate 1."""
        return jnp.zeros(self.known_dim), -jnp.ones(self.known_dim)

    def log_partition(self, natural: tuple[Array, Array]) -> Array:
        """Σ log Γ(k) − k log r, +inf for k ≤ 0 or r ≤ 0."""
        shape, rate = natural[0] + 1, -natural[1]
        inside = (shape > 0) & (rate > 0)
        shape, rate = jnp.where(inside, shape, 1), jnp.where(inside, rate, 1)
        return jnp.sum(
            jnp.where(inside, gammaln(shape) - shape * jnp.log(rate), jnp.inf)
        )

    def sufficient_statistics(self, x: Array) -> tuple[Array, Array]:
        """(log x, x)."""
        x = jnp.asarray(x, dtype=float)
        return jnp.log(x), x

    def log_base_measure(self, x: Array) -> Array:
        """0; −inf unless x is positive."""
        return jnp.where(jnp.all(jnp.asarray(x) > 0), 0.0, -jnp.inf)

    def conjugate(
        self,
        mean: tuple[Array, Array],
        *,
        start: tuple[Array, Array] | None = None,
    ) -> ConjugateSolution:
        """ψ* by the shape k that solves log k − digamma(k) = log μ₂ − μ₁ =: s.

        ψ*(μ) = Σ k log k − k − log Γ(k) − k s − μ₁, at θ = (k − 1, −k / μ₂).
        """
        del start
        log_mean, average = mean
        positive = average > 0
        average = jnp.where(positive, average, 1)
        gap = jnp.log(average) - log_mean
        noise = 4 * jnp.finfo(gap.dtype).eps * (1 + jnp.abs(log_mean))
        inside = positive & (gap > noise)
        shape = _shape_of_gap(jnp.where(inside, gap, 1))
        entropy = _minus_stirling(shape) - shape * gap - log_mean
        return closed_form(
            jnp.sum(jnp.where(inside, entropy, jnp.inf)),
            (shape - 1, -shape / average),
            inside=jnp.all(inside),
            closure=jnp.all(positive & (gap >= -noise)),
            valid=all_finite(*mean),
        )

    def default_smoothing(self, x: Array, weights: Array | None) -> Adding:
        """Lower each log by h²/2, h the normal-reference bandwidth of log x.

        The centre (−h²/2, 0) is what blurring log x by h does to E log x at a given
        mean, to first order; it does not depend on units.
        """
        bandwidth = normal_reference(
            _log(x), per_coordinate=True, weights=weights
        ).bandwidth
        return adding((-(bandwidth**2) / 2, jnp.zeros_like(bandwidth)))

    def support(self, x: np.ndarray) -> tuple[np.ndarray, str, str]:
        """Positive entries."""
        remedy = "Drop such rows or shift the column"
        return x > 0, "must be positive for Gamma", remedy

    @property
    def smoothing_hint(self) -> str:
        """A point, or equal points, have an infinite shape."""
        return (
            'Pass smoothing="auto", or smoothing=adding((-amount, 0 · amount)) with '
            "one positive amount a column, which lowers E log x"
        )


def _log(x: Array) -> Array:
    return np.log(x) if isinstance(x, np.ndarray) else jnp.log(x)  # pyright: ignore[reportReturnType]


@jax.custom_jvp
def _shape_of_gap(gap: Array) -> Array:
    """The k > 0 with log k − digamma(k) = gap, elementwise, for gap > 0.

    Newton's method on 1/k (Minka, "Estimating a gamma distribution", 2002), which
    converges in four steps from its start at every gap.
    """
    start = (3 - gap + jnp.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)

    def step(_, shape):
        error = _log_minus_digamma(shape) - gap
        inverse = 1 / shape + error / (shape**2 * _slope(shape))
        return 1 / jnp.maximum(inverse, 0.1 / shape)

    return jax.lax.fori_loop(0, _NEWTON_STEPS, step, start)


@_shape_of_gap.defjvp
def _shape_of_gap_jvp(primals, tangents):
    shape = _shape_of_gap(*primals)
    return shape, tangents[0] / _slope(shape)


def _log_minus_digamma(k: Array) -> Array:
    large = k > _LARGE_SHAPE
    z = 1 / jnp.where(large, k, 1)
    z2 = z * z
    series = z / 2 + z2 * (1 / 12 - z2 * (1 / 120 - z2 * (1 / 252 - z2 / 240)))
    safe = jnp.where(large, 1, k)
    return jnp.where(large, series, jnp.log(safe) - digamma(safe))


def _slope(k: Array) -> Array:
    """Derivative of log k − digamma(k): 1/k − trigamma(k) < 0."""
    large = k > _LARGE_SHAPE
    z = 1 / jnp.where(large, k, 1)
    z2 = z * z
    series = -z2 * (1 / 2 + z * (1 / 6 - z2 * (1 / 30 - z2 * (1 / 42 - z2 / 30))))
    safe = jnp.where(large, 1, k)
    return jnp.where(large, series, 1 / safe - polygamma(1, safe))


def _minus_stirling(k: Array) -> Array:
    """k log k − k − log Γ(k), by Stirling's series for large k."""
    large = k > _LARGE_SHAPE
    safe = jnp.where(large, k, 1)
    z = 1 / safe
    z2 = z * z
    tail = z * (1 / 12 - z2 * (1 / 360 - z2 * (1 / 1260 - z2 / 1680)))
    series = 0.5 * jnp.log(safe / (2 * np.pi)) - tail
    small = jnp.where(large, 1, k)
    return jnp.where(large, series, small * jnp.log(small) - small - gammaln(small))

"""Screens of the merge costs of Gaussians, a variance a coordinate or one for all."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._gaussian_state import GaussianState
from bregjax.clusters._screens import Screen
from bregjax.clusters._screens.kernels import (
    distance_features,
    in_range,
    less_rounding,
    log_of_product,
    squared_distances,
)

__all__ = ["DiagonalScreen", "SphericalScreen"]


@register_pytree
@dataclass(frozen=True)
class DiagonalScreen(Screen):
    """The cost itself, ½ [w Σ log v − w_a Σ log v_a − w_b Σ log v_b], less rounding.

    Several coordinates share a logarithm, of the product of their variances in units of
    u². Example: two points of weight 1 with variance 1 in eight coordinates, in each of
    which the means differ by 2. The variances of the union are 1 + ¼ · 2² = 2, their
    product 2⁸ = 256, and the cost ½ [2 log 256 − 0 − 0] = 5.545 takes one logarithm.

    Rounding makes means m in units of u wrong by eps |m|. That moves log v by at most
    2 eps (|m_a| / √v_a + |m_b| / √v_b), as v ≥ p v_a + pq δ²; four times as much is
    taken off.

    Attributes:
        center: Subtracted from means, `[1, n]`.
        unit: u², `[1, n]`.
        in_range: Whether all products of eight variances are known to be in range, in
            float32 too.
    """

    center: Array
    unit: Array
    in_range: bool = jax.tree.static(default=False)

    @classmethod
    def of(cls, leaves: GaussianState) -> "DiagonalScreen":
        """The screen about the mean of the leaves, in units of their mean variance."""
        mean, variance = leaves.moments.mean, leaves.moments.covariance
        center = jnp.mean(mean, axis=0, keepdims=True)
        return cls(center, jnp.mean(variance, axis=0, keepdims=True))

    @property
    @override
    def factorises(self) -> bool:
        return False

    @override
    def features(self, state: GaussianState, dtype: jnp.dtype) -> tuple[Array, ...]:
        """Weights; means and variances in units; sums of logarithms; errors."""
        mean = (state.moments.mean - self.center) / jnp.sqrt(self.unit)
        variance = (state.moments.covariance / self.unit).astype(dtype)
        mean = mean.astype(dtype)
        reach = jnp.sum(jnp.abs(mean) / jnp.sqrt(variance), axis=-1)
        logs = jnp.sum(jnp.log(variance), axis=-1) + in_range(variance)
        error = 8 * float(jnp.finfo(dtype).eps) * reach
        return state.weight.astype(dtype), mean, variance, logs, error

    @override
    def against(self, rows: tuple[Array, ...]) -> Callable[[tuple[Array, ...]], Array]:
        w_a, mean_a, v_a, log_a, error_a = rows
        mean_a, v_a = mean_a.T, v_a.T
        w_a, log_a, error_a = w_a[:, None], log_a[:, None], error_a[:, None]

        def bound(columns: tuple[Array, ...]) -> Array:
            w_b, mean_b, v_b, log_b, error_b = columns
            mean_b, v_b = mean_b.T, v_b.T
            w_b, log_b, error_b = w_b[None], log_b[None], error_b[None]
            total = w_a + w_b
            p, q = w_a / total, w_b / total
            spread = p * q

            def variance(k: Array) -> Array:
                delta = mean_a[k][:, None] - mean_b[k][None]
                inner = p * v_a[k][:, None] + q * v_b[k][None]
                return inner + spread * (delta * delta)

            n = len(v_a)
            logs = log_of_product(variance, n, p, fits=self.in_range)
            logs = logs - (error_a + error_b)
            return 0.5 * less_rounding(total, logs, w_a, log_a, w_b, log_b, n)

        return bound


@register_pytree
@dataclass(frozen=True)
class SphericalScreen(Screen):
    """The cost itself, ½ d [w log v − w_a log v_a − w_b log v_b], less rounding.

    From a matrix product and one logarithm a pair.

    Attributes:
        center: Subtracted from means, `[1, d]`.
        unit: Divides variances.
    """

    center: Array
    unit: Array

    @classmethod
    def of(cls, leaves: GaussianState) -> "SphericalScreen":
        """The screen about the mean of the leaves, in units of their mean variance."""
        center = jnp.mean(leaves.moments.mean, axis=0, keepdims=True)
        return cls(center, jnp.mean(leaves.moments.covariance))

    @property
    @override
    def factorises(self) -> bool:
        return False

    @override
    def features(self, state: GaussianState, dtype: jnp.dtype) -> tuple[Array, ...]:
        """Weights, variances in units, logarithms of variances, means."""
        variance = (state.moments.covariance / self.unit).astype(dtype)
        means = distance_features(state.moments.mean - self.center, dtype)
        return state.weight.astype(dtype), variance, jnp.log(variance), means

    @override
    def against(self, rows: tuple[Array, ...]) -> Callable[[tuple[Array, ...]], Array]:
        w_a, v_a, log_a, a = rows
        w_a, v_a, log_a = w_a[:, None], v_a[:, None], log_a[:, None]
        dim = self.center.shape[-1]
        unit = (1 / (dim * self.unit)).astype(a.dtype)

        def bound(columns: tuple[Array, ...]) -> Array:
            w_b, v_b, log_b, b = columns
            w_b, v_b, log_b = w_b[None], v_b[None], log_b[None]
            total = w_a + w_b
            p, q = w_a / total, w_b / total
            between = unit * jnp.maximum(squared_distances(a, b), 0)
            logs = jnp.log(p * v_a + q * v_b + p * q * between)
            cost = less_rounding(total, logs, w_a, log_a, w_b, log_b, 1)
            return 0.5 * dim * cost

        return bound

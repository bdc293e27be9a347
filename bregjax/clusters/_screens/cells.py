"""Screens of merge costs of columns that have a weight each.

With w_aj, w_bj the weights of both clusters in column j and c_j the mean of their
union, bounds are sums over columns of terms that are 0 where one weight is 0. As
weights differ by column, neither a matrix product will do nor a logarithm of a product
of several columns.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._bregman_model import BregmanModel, MeanState
from bregjax.clusters._gaussian_models import VarianceModel
from bregjax.clusters._gaussian_state import GaussianState
from bregjax.clusters._screens.base import Screen
from bregjax.clusters._screens.functions import ScaledScreen
from bregjax.clusters._screens.kernels import log, sum_last, sum_of, sum_of_fractions
from bregjax.convex import (
    Burg,
    ConvexFunction,
    NegativeEntropy,
    Scaled,
    SquaredNorm,
)

__all__ = ["cell_screen_of"]

# As in `functions`: means below it count as 0 in logarithms, and what is added to a sum
# before division.
_LEAST = 1e-30
_LEAST_SUM = 1e-9


def cell_screen_of(column: Any, leaves: Any) -> Screen | None:
    """The screen for the model of one column; None where there is none.

    Args:
        column: The model of one column.
        leaves: States with the axes `[m, c]`.
    """
    if isinstance(column, VarianceModel):
        return LogScreen.of_gaussians(leaves)
    if isinstance(column, BregmanModel):
        return _screen_of(column.function, leaves)
    return None


@functools.singledispatch
def _screen_of(function: ConvexFunction, leaves: MeanState) -> Screen | None:
    del function, leaves
    return None


@_screen_of.register
def _squared_norm(function: SquaredNorm, leaves: MeanState) -> Screen:
    del function
    return GapScreen(_center(leaves.weight, leaves.mean[..., 0]))


@_screen_of.register(NegativeEntropy)
def _entropy(function: ConvexFunction, leaves: MeanState) -> Screen:
    del function
    unit = _center(leaves.weight, leaves.mean[..., 0])
    return FractionScreen(jnp.where(unit > 0, unit, 1))


@_screen_of.register
def _burg(function: Burg, leaves: MeanState) -> Screen:
    del function
    return LogScreen(None, _least(leaves.weight, leaves.mean[..., 0]), 1.0)


@_screen_of.register
def _scaled(function: Scaled, leaves: MeanState) -> Screen | None:
    inner = _screen_of(function.function, leaves)
    return None if inner is None else ScaledScreen(inner, jnp.asarray(function.factor))


def _center(weight: Array, values: Array) -> Array:
    """Averages over observed cells, `[c]`; 1 in a column without any."""
    total = jnp.sum(weight, axis=0)
    mean = jnp.sum(weight * values, axis=0) / jnp.where(total > 0, total, 1)
    return jnp.where(total > 0, mean, 1)


@register_pytree
@dataclass(frozen=True)
class GapScreen(Screen):
    """The cost itself, ½ Σ (w_a w_b / w) (a − b)², less its rounding.

    Attributes:
        center: Subtracted from means, `[c]`.
    """

    center: Array

    @property
    @override
    def factorises(self) -> bool:
        return False

    @override
    def features(self, state: MeanState, dtype: jnp.dtype) -> tuple[Array, ...]:
        """1 / w, infinite for a weight of 0; means; what rounding moves a bound by."""
        mean = state.mean[..., 0] - self.center[None]
        weight = state.weight.astype(dtype)
        mean = jnp.where(weight > 0, mean.astype(dtype), 0)
        eps = float(jnp.finfo(dtype).eps)
        error = 4 * eps**1.5 * jnp.sum(weight * mean**2, axis=-1)
        return 1 / weight, mean, error

    @override
    def against(self, rows: tuple[Array, ...]) -> Callable[[tuple[Array, ...]], Array]:
        light_a, a, error_a = rows
        light_a, a, error_a = light_a.T, a.T, error_a[:, None]
        eps = float(jnp.finfo(a.dtype).eps)
        half = 0.5 * (1 - 2 * eps**0.5 - (len(a) + 32) * eps)

        def bound(columns: tuple[Array, ...]) -> Array:
            light_b, b, error_b = columns
            light_b, b, error_b = light_b.T, b.T, error_b[None]

            def term(k: Array) -> Array:
                gap = a[k][:, None] - b[k][None]
                return gap * gap / (light_a[k][:, None] + light_b[k][None])

            like = error_a + error_b
            return half * sum_of(term, len(a), like) - like

        return bound

    @override
    def closer(self, a: tuple[Array, ...], b: tuple[Array, ...]) -> Array:
        """The same bound, of pairs."""
        (light_a, mean_a, error_a), (light_b, mean_b, error_b) = a, b
        eps = float(jnp.finfo(mean_a.dtype).eps)
        half = 0.5 * (1 - 2 * eps**0.5 - (mean_a.shape[-1] + 32) * eps)
        sums = sum_last((mean_a - mean_b) ** 2 / (light_a + light_b))
        return half * sums - (error_a + error_b)


@register_pytree
@dataclass(frozen=True)
class FractionScreen(Screen):
    """Bounds of Σ w_a f(a) + w_b f(b) − w f(c), f(t) = t log t: see `EntropyScreen`.

    In each column (3/2) p q w (a − b)² / (a + b + c), which is

        (3/2) w_a w_b (a − b)² / ((2 w_a + w_b) a + (w_a + 2 w_b) b),

    as w (a + b + c) is the denominator: no weight is divided by.

    Means are measured in the unit u of their column, and weights multiplied by u, which
    changes no term.

    Attributes:
        unit: u, the mean of each column, `[c]`.
    """

    unit: Array

    @property
    @override
    def factorises(self) -> bool:
        return False

    @override
    def features(self, state: MeanState, dtype: jnp.dtype) -> "_Fractional":
        weight, t = state.weight * self.unit[None], state.mean[..., 0] / self.unit[None]
        eps = float(jnp.finfo(dtype).eps)
        terms = t * jnp.log(jnp.maximum(t, _LEAST))
        size = t + jnp.maximum(terms - t + 1, 0) + jnp.abs(t - 1)
        error = (72 + t.shape[-1] / 8) * eps * jnp.sum(weight * size, axis=-1)
        own = jnp.sum(weight * terms, axis=-1)
        lost = 4 * eps**1.5 * jnp.sum(weight * t, axis=-1)
        return _Fractional(
            weight=weight.astype(dtype),
            mean=t.astype(dtype),
            own=own.astype(dtype) - error.astype(dtype),
            lost=lost.astype(dtype),
        )

    @override
    def against(self, rows: "_Fractional") -> Callable[["_Fractional"], Array]:
        w_a, a, lost_a = rows.weight.T, rows.mean.T, rows.lost[:, None]
        eps = float(jnp.finfo(a.dtype).eps)
        double_a = 2 * w_a * a + _LEAST_SUM
        factor = 1.5 * (1 - 2 * eps**0.5 - (len(a) + 32) * eps)

        def bound(columns: "_Fractional") -> Array:
            w_b, b, lost_b = columns.weight.T, columns.mean.T, columns.lost[None]
            double_b = 2 * w_b * b

            def fraction(k: Array) -> tuple[Array, Array]:
                u, v = w_a[k][:, None], w_b[k][None]
                x, y = a[k][:, None], b[k][None]
                below = (double_a[k][:, None] + double_b[k][None]) + (v * x + u * y)
                return (u * v) * ((x - y) * (x - y)), below

            like = lost_a + lost_b
            return factor * sum_of_fractions(fraction, len(a), like) - like

        return bound

    @override
    def closer(self, a: "_Fractional", b: "_Fractional") -> Array:
        """The cost itself, less its rounding."""
        total = a.weight + b.weight
        sums = a.weight * a.mean + b.weight * b.mean
        c = jnp.maximum(sums / jnp.where(total > 0, total, 1), _LEAST)
        return a.own + b.own - sum_last(total * c * log(c))


@register_pytree
@dataclass(frozen=True)
class _Fractional:
    """Features of clusters; all but weights in units.

    Attributes:
        weight: Weights of columns `[m, n]`.
        mean: Means `[m, n]`.
        own: Σ w t log t, less the cluster's share of the error of a cost, `[m]`.
        lost: The most that rounding of the means adds to a bound, `[m]`.
    """

    weight: Array
    mean: Array
    own: Array
    lost: Array


@register_pytree
@dataclass(frozen=True)
class LogScreen(Screen):
    """The cost itself, s Σ w log v − w_a log v_a − w_b log v_b, less its rounding.

    With v = p v_a + q v_b + pq δ² the variance of the union, δ the gap of the means,
    and s = ½; or with v the mean and no gap, and s = 1 (`Burg`). Variances are measured
    in the least of the leaves, so that no logarithm is negative and rounding is a share
    of the sums themselves.

    Example: the variances 1, 1 and means 0, 2 of weight 1 have v = 1 + ¼ · 2² = 2, and
    cost ½ · 2 log 2 = 0.693.

    Attributes:
        center: Subtracted from means, `[c]`; None where there is no gap.
        unit: Divides variances, `[c]`.
        scale: s.
    """

    center: Array | None
    unit: Array
    scale: float = jax.tree.static()

    @classmethod
    def of_gaussians(cls, leaves: GaussianState) -> "LogScreen":
        """The screen about the average of the leaves."""
        mean, variance = leaves.moments.mean[..., 0], leaves.moments.covariance[..., 0]
        center = _center(leaves.weight, mean)
        return cls(center, _least(leaves.weight, variance), 0.5)

    @property
    @override
    def factorises(self) -> bool:
        return False

    @override
    def features(self, state: Any, dtype: jnp.dtype) -> "_Logarithmic":
        weight = state.weight
        if self.center is None:
            mean, variance = jnp.zeros(()), state.mean[..., 0]
        else:
            mean = state.moments.mean[..., 0] - self.center[None]
            mean = mean / jnp.sqrt(self.unit)[None]
            variance = state.moments.covariance[..., 0]
        seen = weight > 0
        variance = jnp.where(seen, variance / self.unit[None], 1)
        mean = jnp.where(seen, mean, 0)
        eps = float(jnp.finfo(dtype).eps)
        own = jnp.sum(weight * jnp.log(variance), axis=-1)
        reach = jnp.sum(jnp.abs(mean) / jnp.sqrt(variance), axis=-1)
        return _Logarithmic(
            weight=weight.astype(dtype),
            mean=mean.astype(dtype),
            variance=variance.astype(dtype),
            own=own.astype(dtype),
            most=jnp.max(weight, axis=-1).astype(dtype),
            size=jnp.sum(weight, axis=-1).astype(dtype),
            error=(8 * eps * reach).astype(dtype),
        )

    @override
    def against(self, rows: "_Logarithmic") -> Callable[["_Logarithmic"], Array]:
        w_a, mean_a, v_a = rows.weight.T, rows.mean.T, rows.variance.T
        tiny = float(jnp.finfo(v_a.dtype).tiny)

        def bound(columns: "_Logarithmic") -> Array:
            w_b, mean_b, v_b = columns.weight.T, columns.mean.T, columns.variance.T

            def term(k: Array) -> Array:
                u, v = w_a[k][:, None], w_b[k][None]
                total = u + v
                share = 1 / jnp.maximum(total, tiny)
                inner = u * v_a[k][:, None] + v * v_b[k][None]
                if self.center is not None:
                    gap = mean_a[k][:, None] - mean_b[k][None]
                    inner = inner + (u * share) * v * (gap * gap)
                return total * log(jnp.maximum(inner * share, 1))

            own = rows.own[:, None] + columns.own[None]
            sums = sum_of(term, len(v_a), own)
            most = rows.most[:, None] + columns.most[None]
            size = rows.size[:, None] + columns.size[None]
            error = rows.error[:, None] + columns.error[None]
            return self._less_rounding(sums, own, most * error, size, len(v_a))

        return bound

    @override
    def closer(self, a: "_Logarithmic", b: "_Logarithmic") -> Array:
        """The same bound, of pairs."""
        total = a.weight + b.weight
        share = 1 / jnp.maximum(total, float(jnp.finfo(total.dtype).tiny))
        inner = a.weight * a.variance + b.weight * b.variance
        if self.center is not None:
            gap = a.mean - b.mean
            inner = inner + (a.weight * share) * b.weight * (gap * gap)
        sums = sum_last(total * log(jnp.maximum(inner * share, 1)))
        moved = (a.most + b.most) * (a.error + b.error)
        count = total.shape[-1]
        return self._less_rounding(sums, a.own + b.own, moved, a.size + b.size, count)

    def _less_rounding(
        self, sums: Array, own: Array, moved: Array, size: Array, count: int
    ) -> Array:
        """s (Σ w log v − own), less what rounding of means and of the terms adds."""
        eps = float(jnp.finfo(sums.dtype).eps)
        lost = (64 + count) * eps * (size + sums + own)
        return self.scale * (sums - own - moved - lost)


@register_pytree
@dataclass(frozen=True)
class _Logarithmic:
    """Features of clusters, variances and means in units.

    Attributes:
        weight: Weights of columns `[m, c]`.
        mean: Means `[m, c]`.
        variance: Variances `[m, c]`.
        own: Σ w log v, `[m]`.
        most: The largest weight of a column, `[m]`.
        size: The sum of all weights, `[m]`.
        error: What rounding of the means moves a logarithm by, added up, `[m]`.
    """

    weight: Array
    mean: Array
    variance: Array
    own: Array
    most: Array
    size: Array
    error: Array


def _least(weight: Array, values: Array) -> Array:
    """The least of the observed values, `[c]`; 1 in a column without any."""
    least = jnp.min(jnp.where(weight > 0, values, jnp.inf), axis=0)
    return jnp.where(least < jnp.inf, least, 1)

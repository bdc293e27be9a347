"""Screens of the merge costs of convex functions, Δ = w_a f(a) + w_b f(b) − w f(c)."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp

from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.convex import (
    BinaryEntropy,
    Burg,
    ConvexFunction,
    NegativeEntropy,
    Scaled,
    SimplexEntropy,
    SquaredNorm,
)
from bregjax.screening.base import Screen
from bregjax.screening.kernels import (
    distance_features,
    in_range,
    less_rounding,
    log,
    log_of_product,
    squared_distances,
    sum_of,
)

__all__ = ["screen_of"]

# A mean, in units, that is as good as none.
_LEAST = 1e-30


class WeightedMeans(Protocol):
    """Clusters by weight `[m]` and mean `[m, n]`."""

    @property
    def weight(self) -> Array:
        """Weights."""
        ...

    @property
    def mean(self) -> Array:
        """Weighted means."""
        ...


@functools.singledispatch
def screen_of(function: ConvexFunction, leaves: WeightedMeans) -> Screen | None:
    """The screen for a convex function; None where nothing beats the cost itself."""
    del function, leaves
    return None


# --- Squared distances ----------------------------------------------------------------


@screen_of.register
def _squared_norm(function: SquaredNorm, leaves: WeightedMeans) -> Screen:
    del function
    return SquaredDistanceScreen(jnp.mean(leaves.mean, axis=0, keepdims=True))


@register_pytree
@dataclass(frozen=True)
class SquaredDistanceScreen(Screen):
    """The cost itself, ½ (w_a w_b / w) ‖a − b‖², by a matrix product.

    Attributes:
        centre: What means are taken about, `[1, n]`.
    """

    centre: Array

    def features(self, state: WeightedMeans, dtype: jnp.dtype) -> tuple[Array, Array]:
        """1 / w and means."""
        means = distance_features(state.mean - self.centre, dtype)
        return 1 / state.weight.astype(dtype), means

    def against(
        self, rows: tuple[Array, Array]
    ) -> Callable[[tuple[Array, Array]], Array]:
        """With w_a w_b / w = 1 / (1/w_a + 1/w_b)."""
        light_a, a = rows
        half = 0.5 * (1 - 16 * float(jnp.finfo(a.dtype).eps))

        def bound(columns: tuple[Array, Array]) -> Array:
            light_b, b = columns
            return half * squared_distances(a, b) / (light_a[:, None] + light_b[None])

        return bound


# --- Entropies ------------------------------------------------------------------------


@screen_of.register(NegativeEntropy)
@screen_of.register(SimplexEntropy)
def _entropy(function: ConvexFunction, leaves: WeightedMeans) -> Screen:
    del function
    return EntropyScreen(_unit(leaves.mean), binary=False)


@screen_of.register
def _binary_entropy(function: BinaryEntropy, leaves: WeightedMeans) -> Screen:
    del function
    return EntropyScreen(_unit(_both(leaves.mean)), binary=True)


@register_pytree
@dataclass(frozen=True)
class EntropyScreen(Screen):
    """The cost, w_a Σ a log a + w_b Σ b log b − w Σ c log c, less its rounding.

    In one unit u for all columns, in which the three nearly cancel less. c log(c/u) is
    good to so many roundings of c (1 + |log(c/u)|), and with φ(x) = x log x − x + 1
    that is at most c + u φ(c/u) + |c − u|, convex in c: no more than of a and of b.

    Attributes:
        unit: u.
        binary: Whether t stands for the pair (t, 1 − t).
    """

    unit: Array
    binary: bool = jax.tree.static()

    def features(self, state: WeightedMeans, dtype: jnp.dtype) -> tuple[Array, ...]:
        """Weights, means in units, own terms less the errors of all they are in."""
        t = _both(state.mean) if self.binary else state.mean
        # So that logarithms exist: means as small as that are lost in the error.
        x = jnp.maximum(t / self.unit, _LEAST)
        terms = t * jnp.log(x)
        gap = jnp.abs(t - self.unit)
        size = jnp.sum(t + jnp.maximum(terms - t + self.unit, 0) + gap, axis=-1)
        error = (72 + t.shape[-1] / 8) * jnp.finfo(dtype).eps * state.weight * size
        own = state.weight * jnp.sum(terms, axis=-1)
        # Apart, so that what overflows in both is NaN.
        own = (own / self.unit).astype(dtype) - (error / self.unit).astype(dtype)
        return state.weight.astype(dtype), x.astype(dtype), own

    def against(self, rows: tuple[Array, ...]) -> Callable[[tuple[Array, ...]], Array]:
        """One logarithm a coordinate."""
        w_a, a, own_a = rows
        a, w_a, own_a = a.T, w_a[:, None], own_a[:, None]
        unit = self.unit.astype(a.dtype)

        def bound(columns: tuple[Array, ...]) -> Array:
            w_b, b, own_b = columns
            b, w_b, own_b = b.T, w_b[None], own_b[None]
            total = w_a + w_b
            p, q = w_a / total, w_b / total

            def term(k: Array) -> Array:
                c = p * a[k][:, None] + q * b[k][None]
                return c * log(c)

            return unit * (own_a + own_b - total * sum_of(term, len(a), p))

        return bound


def _both(t: Array) -> Array:
    return jnp.concatenate([t, 1 - t], axis=-1)


def _unit(mean: Array) -> Array:
    unit = jnp.mean(mean)
    return jnp.where(unit > 0, unit, 1)


# --- Burg -----------------------------------------------------------------------------


@screen_of.register
def _burg(function: Burg, leaves: WeightedMeans) -> Screen:
    del function
    return BurgScreen(jnp.mean(leaves.mean, axis=0, keepdims=True))


@register_pytree
@dataclass(frozen=True)
class BurgScreen(Screen):
    """The cost, w Σ log c − w_a Σ log a − w_b Σ log b, less its rounding.

    Attributes:
        unit: What means are measured in, `[1, n]`.
    """

    unit: Array

    def features(self, state: WeightedMeans, dtype: jnp.dtype) -> tuple[Array, ...]:
        """Weights, means in units, sums of their logarithms."""
        x = (state.mean / self.unit).astype(dtype)
        logs = jnp.sum(jnp.log(x), axis=-1) + in_range(x)
        return state.weight.astype(dtype), x, logs

    def against(self, rows: tuple[Array, ...]) -> Callable[[tuple[Array, ...]], Array]:
        """One logarithm for several coordinates."""
        w_a, a, log_a = rows
        a, w_a, log_a = a.T, w_a[:, None], log_a[:, None]

        def bound(columns: tuple[Array, ...]) -> Array:
            w_b, b, log_b = columns
            b, w_b, log_b = b.T, w_b[None], log_b[None]
            total = w_a + w_b
            p, q = w_a / total, w_b / total
            term = lambda k: p * a[k][:, None] + q * b[k][None]
            logs = log_of_product(term, len(a), p)
            return less_rounding(total, logs, w_a, log_a, w_b, log_b, len(a))

        return bound


# --- Scaled functions -----------------------------------------------------------------


@screen_of.register
def _scaled(function: Scaled, leaves: WeightedMeans) -> Screen | None:
    inner = screen_of(function.function, leaves)
    return None if inner is None else ScaledScreen(inner, jnp.asarray(function.factor))


@register_pytree
@dataclass(frozen=True)
class ScaledScreen(Screen):
    """Bounds times a positive factor."""

    inner: Screen
    factor: Array

    @property
    def group(self) -> int:
        """As of the function that is scaled."""
        return self.inner.group

    def pair_size(self, state: WeightedMeans) -> int:
        """As of the function that is scaled."""
        return self.inner.pair_size(state)

    def features(self, state: WeightedMeans, dtype: jnp.dtype) -> PyTree:
        """As of the function that is scaled."""
        return self.inner.features(state, dtype)

    def against(self, rows: PyTree) -> Callable[[PyTree], Array]:
        """The bound, scaled."""
        bound = self.inner.against(rows)

        def scaled(columns: PyTree) -> Array:
            low = bound(columns)
            return self.factor.astype(low.dtype) * low

        return scaled

"""Screens of the merge costs of convex functions, Δ = w_a f(a) + w_b f(b) − w f(c).

With p = w_a / w and q = w_b / w the shares of weight and c = p a + q b the mean of the
union. Two of the bounds in numbers, with w_a = w_b = 1:

- t log t: the means 2 and 8 cost 2 · 0.964 = 1.93. The bound needs no logarithm:
  2 · (3/2) · ¼ · 6² / (2 + 8 + 5) = 1.8. The nearer the means, the closer the bound:
  0.2014 and 0.2000 for the means 4 and 6.
- ½‖x‖²: the points (0, 0) and (3, 4) cost ½ · ½ · 25 = 6.25. Less their mean (1.5, 2)
  they have ‖a‖² + ‖b‖² − 2⟨a, b⟩ = 6.25 + 6.25 + 2 · 6.25 = 25. With 10⁴ added to all
  coordinates and no center subtracted the squares would be 2 · 10⁸, which float32 holds
  in steps of 16: too coarse for a distance of 25.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters._screens.base import Screen
from bregjax.clusters._screens.kernels import (
    distance_features,
    in_range,
    less_rounding,
    log,
    log_of_product,
    squared_distances,
    sum_last,
    sum_of_fractions,
)
from bregjax.convex import (
    BinaryEntropy,
    Burg,
    ConvexFunction,
    NegativeEntropy,
    Scaled,
    SimplexEntropy,
    SquaredNorm,
)

__all__ = ["ScaledScreen", "screen_of"]

# Means below it, in units, count as 0: keeps logarithms finite. Any number far below
# eps does, as t log t of it is lost in the error.
_LEAST = 1e-30
# Added to a sum of means, in units, before division by it: keeps 0 / 0 away. At double,
# bounds between means that small are looser; below 1e-19 the product of two such sums
# would underflow in float32.
_LEAST_SUM = 1e-9


class WeightedMeans(Protocol):
    """States with weights `[m]` and means `[m, n]`."""

    @property
    def weight(self) -> Array:
        """Weights `[m]`."""
        ...

    @property
    def mean(self) -> Array:
        """Weighted means of statistics, `[m, n]`."""
        ...


@functools.singledispatch
def screen_of(function: ConvexFunction, leaves: WeightedMeans) -> Screen | None:
    """The screen of a convex function; None where no bound is cheaper than the cost."""
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
    """The cost itself, ½ (w_a w_b / w) ‖a − b‖², from a matrix product.

    Attributes:
        center: Subtracted from means, so that squares stay small, `[1, n]`.
    """

    center: Array

    @property
    @override
    def factorises(self) -> bool:
        return False

    @override
    def features(self, state: WeightedMeans, dtype: jnp.dtype) -> tuple[Array, Array]:
        """1 / w `[m]`, and means ready for distances."""
        means = distance_features(state.mean - self.center, dtype)
        return 1 / state.weight.astype(dtype), means

    @override
    def against(
        self, rows: tuple[Array, Array]
    ) -> Callable[[tuple[Array, Array]], Array]:
        # w_a w_b / w = 1 / (1/w_a + 1/w_b).
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
    return EntropyScreen(_unit(leaves.mean), jnp.asarray(_LEAST_SUM), binary=False)


@screen_of.register
def _binary_entropy(function: BinaryEntropy, leaves: WeightedMeans) -> Screen:
    del function
    # The cost takes 1 − c of a mean c that is good to eps, and so 1 − c to eps alone:
    # sums to divide by are raised by a few eps, so that no bound exceeds the cost.
    eps = float(jnp.finfo(leaves.mean.dtype).eps)
    unit = _unit(_both(leaves.mean))
    least_sum = jnp.maximum(_LEAST_SUM, 64 * eps / unit)
    return EntropyScreen(unit, least_sum, binary=True)


@register_pytree
@dataclass(frozen=True)
class EntropyScreen(Screen):
    """Bounds of w_a Σ f(a) + w_b Σ f(b) − w Σ f(c) with f(t) = t log t.

    The bounds of all pairs are fractions. p f(a) + q f(b) − f(c) is the integral of f''
    times a hat function, which is 0 at a and b and greatest at c: its area is
    p q (a − b)² / 2, its center of mass (a + b + c) / 3. As f''(t) = 1 / t is convex,
    Jensen's inequality gives

        p f(a) + q f(b) − f(c) ≥ (3/2) p q (a − b)² / (a + b + c),

    a bound in which nothing cancels, the closer the nearer a and b are. Rounding of a
    and b changes (a − b)² by at most √eps (a − b)² + eps^1.5 (a + b)²: the first term
    is taken off as a share of the bound, the second as `lost`.

    The closer bounds are the cost itself, less its rounding. Means are measured in one
    unit u for all columns, which makes the three terms of the cost smaller, so that
    less cancels. c log(c/u) is good to a few roundings of c (1 + |log(c/u)|), and with
    φ(x) = x log x − x + 1 that is at most c + u φ(c/u) + |c − u|. This is convex in c,
    and so at most the average of its values at a and b.

    Attributes:
        unit: u, the mean of all means.
        least_sum: Added to a + b + c, in units; at least a few roundings of c.
        binary: Whether t stands for the pair (t, 1 − t).
    """

    unit: Array
    least_sum: Array
    binary: bool = jax.tree.static()

    @property
    @override
    def factorises(self) -> bool:
        return False

    @override
    def features(self, state: WeightedMeans, dtype: jnp.dtype) -> "_Entropic":
        t = _both(state.mean) if self.binary else state.mean
        eps = float(jnp.finfo(dtype).eps)
        # Keeps logarithms finite: means below _LEAST are lost in the error.
        terms = t * jnp.log(jnp.maximum(t / self.unit, _LEAST))
        gap = jnp.abs(t - self.unit)
        size = jnp.sum(t + jnp.maximum(terms - t + self.unit, 0) + gap, axis=-1)
        error = (72 + t.shape[-1] / 8) * eps * state.weight * size
        own = state.weight * jnp.sum(terms, axis=-1)
        lost = 4 * eps**1.5 * state.weight * jnp.sum(t, axis=-1)
        return _Entropic(
            weight=state.weight.astype(dtype),
            mean=(t / self.unit).astype(dtype),
            # Rounded one by one, so that ∞ − ∞ gives NaN, which rules nothing out.
            own=(own / self.unit).astype(dtype) - (error / self.unit).astype(dtype),
            lost=(lost / self.unit).astype(dtype),
        )

    @override
    def against(self, rows: "_Entropic") -> Callable[["_Entropic"], Array]:
        w_a, a, lost_a = rows.weight[:, None], rows.mean.T, rows.lost[:, None]
        eps = float(jnp.finfo(a.dtype).eps)
        above = a + self.least_sum.astype(a.dtype)
        factor = (1.5 * (1 - 2 * eps**0.5 - (len(a) + 32) * eps)) * self.unit

        def bound(columns: "_Entropic") -> Array:
            w_b, b, lost_b = columns.weight[None], columns.mean.T, columns.lost[None]
            total = w_a + w_b
            p, q = w_a / total, w_b / total
            ratio = (1 + q) / (1 + p)

            def fraction(k: Array) -> tuple[Array, Array]:
                y = b[k][None]
                return (a[k][:, None] - y) ** 2, above[k][:, None] + ratio * y

            sum_ = sum_of_fractions(fraction, len(a), p) / (1 + p)
            scale, unit = factor.astype(a.dtype), self.unit.astype(a.dtype)
            return scale * (w_a * q) * sum_ - unit * (lost_a + lost_b)

        return bound

    @override
    def closer(self, a: "_Entropic", b: "_Entropic") -> Array:
        total = a.weight + b.weight
        p, q = (a.weight / total)[:, None], (b.weight / total)[:, None]
        c = jnp.maximum(p * a.mean + q * b.mean, _LEAST)
        cost = a.own + b.own - total * sum_last(c * log(c))
        return self.unit.astype(cost.dtype) * cost


@register_pytree
@dataclass(frozen=True)
class _Entropic:
    """Features of clusters; all but weights in units.

    Attributes:
        weight: Weights `[m]`.
        mean: Means `[m, n]`.
        own: w Σ t log t, less the cluster's share of the error of a cost, `[m]`.
        lost: The most that rounding of the means adds to a bound, `[m]`.
    """

    weight: Array
    mean: Array
    own: Array
    lost: Array


def _both(t: Array) -> Array:
    """Append 1 − t, `[..., 2n]`."""
    return jnp.concatenate([t, 1 - t], axis=-1)


def _unit(mean: Array) -> Array:
    """The mean of all means, or 1 where that is 0."""
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
        unit: Divides means, to keep products in range, `[1, n]`.
    """

    unit: Array

    @property
    @override
    def factorises(self) -> bool:
        return False

    @override
    def features(self, state: WeightedMeans, dtype: jnp.dtype) -> tuple[Array, ...]:
        """Weights, means in units, sums of logarithms of means."""
        x = (state.mean / self.unit).astype(dtype)
        logs = jnp.sum(jnp.log(x), axis=-1) + in_range(x)
        return state.weight.astype(dtype), x, logs

    @override
    def against(self, rows: tuple[Array, ...]) -> Callable[[tuple[Array, ...]], Array]:
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
    """The bounds of another screen times a positive factor.

    Attributes:
        inner: The screen of the unscaled function.
        factor: The factor.
    """

    inner: Screen
    factor: Array

    @property
    @override
    def group(self) -> int:
        return self.inner.group

    @property
    @override
    def factorises(self) -> bool:
        return self.inner.factorises

    @override
    def pair_size(self, state: WeightedMeans) -> int:
        return self.inner.pair_size(state)

    @override
    def features(self, state: WeightedMeans, dtype: jnp.dtype) -> PyTree:
        return self.inner.features(state, dtype)

    @override
    def against(self, rows: PyTree) -> Callable[[PyTree], Array]:
        bound = self.inner.against(rows)

        def scaled(columns: PyTree) -> Array:
            low = bound(columns)
            return self.factor.astype(low.dtype) * low

        return scaled

    @override
    def closer(self, a: PyTree, b: PyTree) -> Array | None:
        low = self.inner.closer(a, b)
        return None if low is None else self.factor.astype(low.dtype) * low

"""The screen of negative binomial entropies of known dispersion r."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._screens.base import Screen
from bregjax.clusters._screens.functions import WeightedMeans, screen_of
from bregjax.clusters._screens.kernels import sum_last, sum_of_fractions
from bregjax.convex import NegativeBinomialEntropy

__all__ = ["DispersionScreen"]

# Means below it, in units, count as 0: keeps logarithms finite.
_LEAST = 1e-30
# Added to a sum of means, in units, before division by it: keeps 0 / 0 away.
_LEAST_SUM = 1e-9
# The largest r in units: products of r and counts stay in the range of float32. Counts
# of such an r are as good as Poisson's; costs increase with r, so that a smaller r
# gives lower bounds.
_MOST_DISPERSION = 1e12


@screen_of.register
def _dispersed(function: NegativeBinomialEntropy, leaves: WeightedMeans) -> Screen:
    unit = jnp.mean(leaves.mean)
    unit = jnp.where(unit > 0, unit, 1)
    r = jnp.asarray(function.dispersion, leaves.mean.dtype) / unit
    r = jnp.minimum(jnp.broadcast_to(r, leaves.mean.shape[1:]), _MOST_DISPERSION)
    return DispersionScreen(unit, r)


@register_pytree
@dataclass(frozen=True)
class DispersionScreen(Screen):
    """Bounds of w Σ g(c) − w_a Σ g(a) − w_b Σ g(b) with g = −f, f'' = r / (t (t + r)).

    The bounds of all pairs are fractions, as those of `EntropyScreen` are: with
    p = w_a / w and q = w_b / w, g(c) − p g(a) − q g(b) is the integral of f'' times a
    hat function of area p q (a − b)² / 2 and center of mass s/3, s = a + b + c. f'' is
    a product of two positive, decreasing convex functions and so convex:

        g(c) − p g(a) − q g(b) ≥ (9/2) p q (a − b)² r / (s (s + 3r)).

    Rounding of a and b changes (a − b)² by at most √eps (a − b)² + eps^1.5 (a + b)².

    Example: the means 2 and 8 of weight 1 under r = 2 cost 2 · 0.300 = 0.599. Here
    s = 2 + 8 + 5 = 15, and the bound is 2 · 4.5 · ¼ · 36 · 2 / (15 · 21) = 0.514.

    The closer bounds are the cost itself, less its rounding:
    g(c) = c log(1 + r/c) + r log(1 + c/r) is a sum of positive terms, so that its error
    is a few roundings of g(c).

    Attributes:
        unit: Divides means and r, one number for all columns.
        dispersion: r in units, `[n]`.
    """

    unit: Array
    dispersion: Array

    @property
    @override
    def factorises(self) -> bool:
        return False

    @override
    def features(self, state: WeightedMeans, dtype: jnp.dtype) -> "_Dispersed":
        t, r = state.mean / self.unit, self.dispersion[None]
        eps = jnp.finfo(dtype).eps
        own = state.weight * jnp.sum(_minus_entropy(t, r), axis=-1)
        lost = 6 * eps**1.5 * state.weight * jnp.sum(r * (t / (t + 3 * r)), axis=-1)
        return _Dispersed(
            weight=state.weight.astype(dtype),
            mean=t.astype(dtype),
            own=((1 + self._slack(dtype)) * own).astype(dtype),
            lost=lost.astype(dtype),
        )

    @override
    def against(self, rows: "_Dispersed") -> Callable[["_Dispersed"], Array]:
        w_a, a, lost_a = rows.weight[:, None], rows.mean.T, rows.lost[:, None]
        eps = float(jnp.finfo(a.dtype).eps)
        above = a + _LEAST_SUM
        r = self.dispersion.astype(a.dtype)
        unit = self.unit.astype(a.dtype)
        factor = 4.5 * (1 - 2 * eps**0.5 - (len(a) + 48) * eps)

        def bound(columns: "_Dispersed") -> Array:
            w_b, b, lost_b = columns.weight[None], columns.mean.T, columns.lost[None]
            total = w_a + w_b
            p, q = w_a / total, w_b / total
            # s = (1 + p) (a + ratio b).
            ratio, thrice = (1 + q) / (1 + p), 3 / (1 + p)

            def fraction(k: Array) -> tuple[Array, Array]:
                y = b[k][None]
                share = above[k][:, None] + ratio * y
                gap = a[k][:, None] - y
                return r[k] * (gap * gap), share * (share + thrice * r[k])

            sum_ = sum_of_fractions(fraction, len(a), p) / (1 + p) ** 2
            return unit * (factor * (w_a * q) * sum_ - (lost_a + lost_b))

        return bound

    @override
    def closer(self, a: "_Dispersed", b: "_Dispersed") -> Array:
        total = a.weight + b.weight
        p, q = (a.weight / total)[:, None], (b.weight / total)[:, None]
        dtype = a.mean.dtype
        r = self.dispersion.astype(dtype)[None]
        union = total * sum_last(_minus_entropy(p * a.mean + q * b.mean, r))
        cost = (1 - self._slack(dtype)) * union - (a.own + b.own)
        return self.unit.astype(dtype) * jnp.where(cost < jnp.inf, cost, jnp.nan)

    def _slack(self, dtype: jnp.dtype) -> float:
        """The relative error of a sum over coordinates of positive terms, at most."""
        return (64 + self.dispersion.shape[0]) * float(jnp.finfo(dtype).eps)


@register_pytree
@dataclass(frozen=True)
class _Dispersed:
    """Features of clusters; all but weights in units.

    Attributes:
        weight: Weights `[m]`.
        mean: Means `[m, n]`.
        own: w Σ g(t), raised by the most that rounding may have taken off, `[m]`.
        lost: The most that rounding of the means adds to a bound, `[m]`.
    """

    weight: Array
    mean: Array
    own: Array
    lost: Array


def _minus_entropy(t: Array, r: Array) -> Array:
    """g(t) = t log(1 + r/t) + r log(1 + t/r) ≥ 0; 0 for t up to _LEAST."""
    some = t > _LEAST
    safe = jnp.where(some, t, 1)
    return jnp.where(some, safe * jnp.log1p(r / safe) + r * jnp.log1p(safe / r), 0)

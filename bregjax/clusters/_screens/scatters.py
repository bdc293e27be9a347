"""The screen of merge costs of gamma and inverse Gaussian columns."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._numerics import burg_remainder
from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._gamma_entropy import screening_rates
from bregjax.clusters._scatters import Scatters, ScatterState, Spread
from bregjax.clusters._screens import Screen
from bregjax.clusters._screens.kernels import in_range, less_rounding, log_of_product

__all__ = ["ScatterScreen"]

# A column is centered if its least mean is at least this share of its largest: means
# less the center are then smaller than the means, and keep more digits in float32. At
# double no column is centered; at half, columns are for which centering gains little.
_NARROW = 0.5


@register_pytree
@dataclass(frozen=True)
class ScatterScreen(Screen):
    """Bounds ½ [w Σ log f(s_c) − w_a Σ log f(s_a) − w_b Σ log f(s_b)], less rounding.

    For "reciprocal" scatters f(s) = s, and the bound is the cost. For "log" scatters
    f(s) = s (1 + c s), with c such that H = G − ½ log f is concave and increasing at
    all scatters that unions of the leaves can have. Then Δ is the bound plus
    Σ w H(s_c) − w_a H(s_a) − w_b H(s_b), which is at least 0. Furthermore the gap in
    s_c = p s_a + q s_b + gap is replaced by a lower bound of it,

        gap = log μ_c − p log μ_a − q log μ_b
            ≥ (9/2) p q (μ_a − μ_b)² / (μ_a + μ_b + μ_c)²,

    by the argument of `EntropyScreen`: the gap is the integral of the convex 1 / t²
    times a hat function of area p q (μ_a − μ_b)² / 2 and center of mass
    (μ_a + μ_b + μ_c) / 3. The nearer μ_a and μ_b, the closer the bound.

    Example: the means 1 and 3 of weight 1 with scatters 0.1 have the "log" gap 0.1438,
    the scatter 0.2438 and the cost 0.936. The bound of the gap is
    4.5 · ¼ · 4 / (1 + 3 + 2)² = 0.125; with c = 0.328 as these leaves have it,
    f(0.225) / f(0.1) = 2.34, and the bound is log 2.34 = 0.850.

    Of means between l and L the largest possible log scatter is the logarithm of
    Specht's ratio: x − 1 − log x with x = r / (eʳ − 1), r = log(L / l). The largest
    scatter of a leaf is added to it.

    Rounding makes m, a mean less the center in units of u, wrong by eps |m| / 2. That
    moves log s_c by at most 3 eps (|m| u / μ) (1 + 1/√s), with s μ in the place of s
    for "reciprocal" scatters, and log f by twice that. 8 eps is taken off.

    Attributes:
        center: Subtracted from means, `[1, d]`.
        unit: u, which divides means, `[1, d]`.
        scatter_unit: Divides scatters, `[1, d]`.
        rate: c, `[d]`.
        spread: The kind of the scatters.
    """

    center: Array
    unit: Array
    scatter_unit: Array
    rate: Array
    spread: Spread = jax.tree.static()

    @classmethod
    def of(cls, leaves: ScatterState) -> "ScatterScreen":
        """The screen in units of the means and scatters of the leaves."""
        mean, scatter = leaves.statistics.location, leaves.statistics.scatter
        unit = jnp.mean(mean, axis=0, keepdims=True)
        low, high = jnp.min(mean, axis=0), jnp.max(mean, axis=0)
        center = jnp.where(low >= _NARROW * high, unit, 0)
        rate = jnp.zeros_like(low)
        spread = leaves.statistics.spread
        if spread == "log":
            rate = _rate(_specht(low, high) + jnp.max(scatter, axis=0))
        scatter_unit = jnp.mean(scatter, axis=0, keepdims=True)
        return cls(center, unit, scatter_unit, rate, spread)

    @property
    @override
    def factorises(self) -> bool:
        return False

    @override
    def features(self, state: ScatterState, dtype: jnp.dtype) -> tuple[Array, ...]:
        """Weights, means less their center, means, scatters, Σ log f, errors."""
        statistics: Scatters = state.statistics
        mean, scatter = statistics.location, statistics.scatter
        apart = (mean - self.center) / self.unit
        size = scatter if self.spread == "log" else scatter * mean
        reach = jnp.abs(apart) * self.unit / mean * (1 + 1 / jnp.sqrt(size))
        logs = jnp.log(scatter / self.scatter_unit) + jnp.log1p(
            self.rate[None] * scatter
        )
        in_units = (scatter / self.scatter_unit).astype(dtype)
        error = 8 * float(jnp.finfo(dtype).eps) * jnp.sum(reach, axis=-1)
        return (
            state.weight.astype(dtype),
            apart.astype(dtype),
            (mean / self.unit).astype(dtype),
            in_units,
            jnp.sum(logs, axis=-1).astype(dtype) + in_range(in_units),
            error.astype(dtype),
        )

    @override
    def against(self, rows: tuple[Array, ...]) -> Callable[[tuple[Array, ...]], Array]:
        w_a, m_a, y_a, s_a, log_a, error_a = rows
        m_a, y_a, s_a = m_a.T, y_a.T, s_a.T
        w_a, log_a, error_a = w_a[:, None], log_a[:, None], error_a[:, None]
        log_kind = self.spread == "log"
        # Puts the gap, too, in units of scatters.
        if log_kind:
            scale = 4.5 / self.scatter_unit[0]
        else:
            scale = 1 / self.scatter_unit[0] / self.unit[0]
        scale = scale.astype(w_a.dtype)
        rate = (self.rate * self.scatter_unit[0]).astype(w_a.dtype)
        n = len(s_a) * (2 if log_kind else 1)

        def bound(columns: tuple[Array, ...]) -> Array:
            w_b, m_b, y_b, s_b, log_b, error_b = columns
            m_b, y_b, s_b = m_b.T, y_b.T, s_b.T
            w_b, log_b, error_b = w_b[None], log_b[None], error_b[None]
            total = w_a + w_b
            p, q = w_a / total, w_b / total
            spread = p * q

            def factor(k: Array) -> Array:
                delta = m_a[k][:, None] - m_b[k][None]
                a, b = y_a[k][:, None], y_b[k][None]
                center = p * a + q * b
                if log_kind:
                    ratio = delta / (a + b + center)
                    gap = ratio * ratio
                else:
                    gap = delta * delta / (a * b * center)
                inner = p * s_a[k][:, None] + q * s_b[k][None]
                s = inner + scale[k] * (spread * gap)
                return s * (1 + rate[k] * s) if log_kind else s

            logs = log_of_product(factor, len(s_a), p) - (error_a + error_b)
            return 0.5 * less_rounding(total, logs, w_a, log_a, w_b, log_b, n)

        return bound


def _specht(low: Array, high: Array) -> Array:
    """The largest possible log E x − E log x for low ≤ x ≤ high."""
    r = jnp.maximum(jnp.log(high) - jnp.log(low), 0.1)
    x = r / jnp.expm1(r)
    return burg_remainder(jnp.ones_like(x), x - 1)


def _rate(largest: Array) -> Array:
    """The rate c for "log" scatters up to `largest`."""
    knots, rates = screening_rates()
    place = jnp.searchsorted(jnp.asarray(knots), jnp.log(largest))
    rates = np.append(rates, 0.0)
    return jnp.asarray(rates, largest.dtype)[jnp.minimum(place, len(rates) - 1)]

"""The log-partition function of directions, and its conjugate.

Both depend on lengths alone. The conjugate is f(x) = F(ρ), ρ = ‖x‖ < 1, with F' = κ(ρ),
the inverse of A = I_{n/2} / I_{n/2−1}. With h = κ/ρ and ρ_x − ρ_y = d,

    B(x, y) = [F(ρ_x) − F(ρ_y) − κ_y d] + (h(ρ_y) / 2) (‖x − y‖² − d²):

a divergence of the lengths and a cost of the turn, neither of them negative. For n = 3,
y = (0.5, 0, 0) and x = (0, 0.6, 0): κ_y = 1.796756, h_y = 3.593512 and d = 0.1; the
lengths cost 0.028565, the turn 3.593512 / 2 · (0.61 − 0.01) = 1.078054.
"""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._numerics import safe_norm
from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.convex._base import ConvexFunction
from bregjax.convex._bessel import (
    bessel_parts,
    log_bessel,
    solve_mean_length,
)

__all__ = ["SphereCumulant", "SphereEntropy"]

# Nodes on (0, 1) and weights of the Gauss–Legendre rule with 8 points.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
# A is analytic up to the zeros of I_ν at ±i j, j ≥ 2 and about ν. Between lengths whose
# κ differ by this share of √(κ² + j²) the rule is good to rounding in float64.
_NEAR = 0.4


def _order(x: Array) -> float:
    return x.shape[-1] / 2 - 1


def _zero(order: float) -> float:
    """A lower bound of the distance of the singularities of A from 0."""
    return max(2.0, order)


def _inside(length: Array) -> Array:
    """Whether a length is below 1 by more than the rounding of a unit vector."""
    return length < 1 - 4 * jnp.finfo(length.dtype).eps


def _stretch(order: float, length: Array) -> tuple[Array, Array]:
    """κ and h = κ/ρ; h is n at ρ = 0."""
    kappa = solve_mean_length(order, length)
    return kappa, 1 / bessel_parts(order, kappa * kappa).ratio


# --- Lengths -------------------------------------------------------------------------


def _length_value(order: float, length: Array) -> Array:
    """F(ρ) = ρ κ − L(κ²), whose derivative is κ."""
    kappa = solve_mean_length(order, length)
    return length * kappa - log_bessel(order, kappa * kappa)


def _kappa_rise(
    order: float, kappa: Array, plain: Array, d: Array
) -> tuple[Array, Array, Array]:
    """u = κ_x − κ_y from d = ρ_x − ρ_y, u² ∫₀¹ t a(κ_y + t u) dt, and if both hold.

    `plain`, the difference of two κ, is good to a rounding of κ. The mean G of a
    between κ_y and κ_y + `plain` is then good to rounding, and so is u = d / G.
    """
    near = jnp.abs(plain) <= _NEAR * jnp.hypot(kappa, _zero(order))
    step = jnp.where(near, plain, 0)
    nodes = jnp.asarray(_NODES, kappa.dtype).reshape((-1,) + (1,) * kappa.ndim)
    at = kappa[None] + nodes * step[None]
    slope = bessel_parts(order, at * at).slope
    rule = lambda weights: jnp.tensordot(jnp.asarray(weights, kappa.dtype), slope, 1)
    rise = d / rule(_WEIGHTS)
    return rise, rise * rise * rule(_WEIGHTS * _NODES), near


def _lengths(order: float, x: Array, y: Array, delta: Array):
    """ρ_x, ρ_y and d = ρ_x − ρ_y without cancellation; κ_x, κ_y, h_x and h_y.

    Lengths outside the domain count as 0.
    """
    length_x, length_y = safe_norm(x), safe_norm(y)
    inside = _inside(length_x) & _inside(length_y)
    length_x, length_y = (jnp.where(inside, v, 0) for v in (length_x, length_y))
    total = length_x + length_y
    d = jnp.sum(delta * (x + y), -1) / jnp.where(total > 0, total, 1)
    d = jnp.where(inside, d, 0)
    ends = (*_stretch(order, length_x), *_stretch(order, length_y))
    return length_x, length_y, d, ends, inside


def _remainder_value(x: Array, y: Array, delta: Array) -> Array:
    order = _order(y)
    length_x, length_y, d, ends, inside = _lengths(order, x, y, delta)
    kappa_x, _, kappa_y, h_y = ends
    _, close, near = _kappa_rise(order, kappa_y, kappa_x - kappa_y, d)
    values = [
        length * kappa - log_bessel(order, kappa * kappa)
        for length, kappa in ((length_x, kappa_x), (length_y, kappa_y))
    ]
    plain = jnp.maximum(values[0] - values[1] - kappa_y * d, 0)
    turned = jnp.maximum(jnp.sum(delta * delta, -1) - d * d, 0)
    value = jnp.where(near, close, plain) + h_y / 2 * turned
    return jnp.where(inside, value, jnp.inf)


def _gradient_rise(x: Array, y: Array, delta: Array) -> Array:
    """∇f(x) − ∇f(y) = h_x δ + (h_x − h_y) y, with h_x − h_y = (u − h_y d) / ρ_x."""
    order = _order(y)
    length_x, length_y, d, ends, inside = _lengths(order, x, y, delta)
    kappa_x, h_x, kappa_y, h_y = ends
    exact, _, near = _kappa_rise(order, kappa_y, kappa_x - kappa_y, d)
    rise = jnp.where(near, exact, kappa_x - kappa_y)
    # Where x is much the shorter, h_x − h_y may cancel: y is then no longer than δ.
    alike = near & (length_x >= length_y / 2) & (length_x > 0)
    divided = (rise - h_y * d) / jnp.where(alike, length_x, 1)
    stretch = jnp.where(alike, divided, h_x - h_y)
    value = h_x[..., None] * delta + stretch[..., None] * y
    return jnp.where(inside[..., None], value, jnp.nan)


def _curve(y: Array, delta: Array) -> Array:
    """∇²f(y) δ = h δ + (1/a − h) ⟨e, δ⟩ e, e = y/ρ."""
    order, length = _order(y), safe_norm(y)
    kappa, h = _stretch(order, length)
    bend = 1 / bessel_parts(order, kappa * kappa).slope - h
    unit = y / jnp.where(length > 0, length, 1)[..., None]
    along = jnp.sum(unit * delta, -1)
    return h[..., None] * delta + (bend * along)[..., None] * unit


@jax.custom_jvp
def _between(x: Array, y: Array, delta: Array) -> Array:
    return _remainder_value(x, y, delta)


@_between.defjvp
def _between_jvp(primals, tangents):
    # ∂x = ∇f(x) − ∇f(y) and ∂y = −∇²f(y) δ; δ = x − y is no third variable.
    (x, y, delta), (dx, dy, _) = primals, tangents
    change = jnp.sum(_gradient_rise(x, y, delta) * dx - _curve(y, delta) * dy, -1)
    return _between(x, y, delta), change


# --- The cumulant: the same of L, A and g = A/κ --------------------------------------


def _cumulant_parts(x: Array, y: Array, delta: Array):
    """B(x, y), and g_x and g_x − g_y."""
    order = _order(y)
    kappa_x, kappa_y = safe_norm(x), safe_norm(y)
    total = kappa_x + kappa_y
    d = jnp.sum(delta * (x + y), -1) / jnp.where(total > 0, total, 1)
    near = jnp.abs(d) <= _NEAR * jnp.hypot(kappa_y, _zero(order))
    nodes = jnp.asarray(_NODES, d.dtype).reshape((-1,) + (1,) * d.ndim)
    at = kappa_y[None] + nodes * jnp.where(near, d, 0)[None]
    slope = bessel_parts(order, at * at).slope
    rule = lambda weights: jnp.tensordot(jnp.asarray(weights, d.dtype), slope, 1)
    end, start = (bessel_parts(order, k * k) for k in (kappa_x, kappa_y))
    plain = end.log_value - start.log_value - kappa_y * start.ratio * d
    close = d * d * rule(_WEIGHTS * (1 - _NODES))
    turned = jnp.maximum(jnp.sum(delta * delta, -1) - d * d, 0)
    value = jnp.where(near, close, jnp.maximum(plain, 0)) + start.ratio / 2 * turned
    alike = near & (kappa_x >= kappa_y / 2) & (kappa_x > 0)
    divided = d * (rule(_WEIGHTS) - start.ratio) / jnp.where(alike, kappa_x, 1)
    return value, end.ratio, jnp.where(alike, divided, end.ratio - start.ratio)


@jax.custom_jvp
def _cumulant_between(x: Array, y: Array, delta: Array) -> Array:
    return _cumulant_parts(x, y, delta)[0]


@_cumulant_between.defjvp
def _cumulant_between_jvp(primals, tangents):
    (x, y, delta), (dx, dy, _) = primals, tangents
    kappa = safe_norm(y)
    start = bessel_parts(_order(y), kappa * kappa)
    unit = y / jnp.where(kappa > 0, kappa, 1)[..., None]
    bend = (start.slope - start.ratio) * jnp.sum(unit * delta, -1)
    curve = start.ratio[..., None] * delta + bend[..., None] * unit
    change = jnp.sum(_cumulant_rise(x, y, delta) * dx - curve * dy, -1)
    return _cumulant_between(x, y, delta), change


def _cumulant_rise(x: Array, y: Array, delta: Array) -> Array:
    """∇ψ(x) − ∇ψ(y) = g_x δ + (g_x − g_y) y."""
    _, ratio, stretch = _cumulant_parts(x, y, delta)
    return ratio[..., None] * delta + stretch[..., None] * y


# --- The two functions ---------------------------------------------------------------


@final
@register_pytree
@dataclass(frozen=True)
class SphereEntropy(ConvexFunction):
    """F(‖x‖) over ‖x‖ < 1, with F the integral of κ(ρ), A(κ) = ρ: of mean directions.

    The conjugate of log ∫ exp⟨y, u⟩ du over the unit sphere of R^n with its uniform
    probability (`SphereCumulant`). f(0) = 0, near 0 it is n ‖x‖²/2, and it grows like
    −(n − 1)/2 · log(1 − ‖x‖): +inf on the sphere, within four roundings of it.

    Examples:
        >>> import jax.numpy as jnp
        >>> print(SphereEntropy().gradient(jnp.array([0.0, 0.0, 0.9])))
        [0. 0. 10.]
    """

    @override
    def _value(self, x: Array) -> Array:
        length = safe_norm(x)
        inside = _inside(length)
        value = _length_value(_order(x), jnp.where(inside, length, 0))
        return jnp.where(inside, value, jnp.where(jnp.isnan(length), length, jnp.inf))

    @override
    def _inside(self, x: Array) -> Array:
        return _inside(safe_norm(x))

    @override
    def _gradient(self, x: Array) -> Array:
        return _stretch(_order(x), safe_norm(x))[1][..., None] * x

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        return jnp.sum(self._gradient(x) * v, -1)

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        return _between(y + delta if x is None else x, y, delta)

    @override
    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        return _gradient_rise(y + delta, y, delta)

    @override
    def conjugate(self) -> "SphereCumulant":
        """log ∫ exp⟨y, u⟩ du over the unit sphere."""
        return SphereCumulant()


@final
@register_pytree
@dataclass(frozen=True)
class SphereCumulant(ConvexFunction):
    """log ∫ exp⟨x, u⟩ du over the unit sphere with its uniform probability.

    log Γ(n/2) (2/κ)^ν I_ν(κ), ν = n/2 − 1 and κ = ‖x‖, which is log 0F1(; n/2; κ²/4);
    log sinh(κ)/κ for n = 3. Conjugate `SphereEntropy`. B(x, y) is that of the conjugate
    between the means A(‖y‖) y/‖y‖ and A(‖x‖) x/‖x‖, in this order.

    Examples:
        >>> import jax.numpy as jnp
        >>> print(SphereCumulant()(jnp.array([0.0, 0.0, 2.0])))
        0.5952
    """

    @override
    def _value(self, x: Array) -> Array:
        return log_bessel(_order(x), jnp.sum(x * x, -1))

    @override
    def _inside(self, x: Array) -> Array:
        return jnp.all(jnp.isfinite(x), -1)

    @override
    def _gradient(self, x: Array) -> Array:
        ratio = bessel_parts(_order(x), jnp.sum(x * x, -1)).ratio
        return ratio[..., None] * x

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        return jnp.sum(self._gradient(x) * v, -1)

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        return _cumulant_between(y + delta if x is None else x, y, delta)

    @override
    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        return _cumulant_rise(y + delta, y, delta)

    @override
    def conjugate(self) -> SphereEntropy:
        """F(‖y‖) over ‖y‖ < 1."""
        return SphereEntropy()

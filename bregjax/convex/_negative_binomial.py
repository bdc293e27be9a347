"""The log-partition function of negative binomial counts, and its conjugate.

With u(t) = t / (t + r), the share that a mean t has of t + r:

    f(t) = t log u(t) − r log(1 + t/r),   f'(t) = log u(t),   f''(t) = r / (t (t + r)).

With δ = x − y, s = δ / (y + r) and e = r δ / (y (x + r)), so that 1 + s = (x + r) /
(y + r) and 1 + e = u(x) / u(y),

    B(x, y) = x log(1 + e) − r log(1 + s)
            = r φ(s) + r s e − x φ(e),   φ(z) = z − log(1 + z) ≥ 0.

The second line is used where x and y are close: its terms have the size of B, whichever
of y and r is the larger. The first line is used elsewhere.

For r = 2, y = 3 and x = 3.5: s = 0.1 and e = 0.060606. By the first line B is 0.205942
− 0.190620 = 0.015321, with one digit lost; by the second 0.009380 + 0.012121 −
0.006179.
"""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._numerics import burg_remainder, scale_tangent
from bregjax._pytree import register_pytree
from bregjax._typing import Array, ArrayLike
from bregjax.convex._base import SeparableFunction

__all__ = ["NegativeBinomialCumulant", "NegativeBinomialEntropy"]

# |δ| / (2y + δ) up to which x and y count as close. At twice as much φ(e) is nearly all
# of r s e where y is small; at half, twice as many digits are lost by the first line.
_CLOSE = 1 / 6
# A fall of θ after which the mean is 0 to rounding beside the mean before.
_FAR = 50.0


def _positive_part(x: Array) -> tuple[Array, Array]:
    """Whether x > 0, and x with 1 in the other places."""
    positive = x > 0
    return positive, jnp.where(positive, x, 1)


def _end_point(y: Array, delta: Array) -> Array:
    """The sum y + δ; one that is negative by rounding of y alone counts as 0."""
    x = y + delta
    slack = 4 * jnp.finfo(x.dtype).eps * y
    return jnp.where((x < 0) & (x >= -slack), 0, x)


def _log1p(z: Array) -> Array:
    """log(1 + z) for z ≥ −½; XLA's `log1p` is 50 roundings off near 1 − √2 on a CPU."""
    low = z < -0.25
    return jnp.where(low, jnp.log(1 + z), jnp.log1p(jnp.where(low, 0, z)))


# --- f -------------------------------------------------------------------------------


@jax.custom_jvp
def _entropy(x: Array, r: Array) -> Array:
    """f(x), with 0 at 0 and +inf below; both terms of the sum are at most 0."""
    positive, safe = _positive_part(x)
    value = safe * _log_share(safe, r) - r * jnp.log1p(safe / r)
    return jnp.where(positive, value, jnp.where(x < 0, jnp.inf, x))


@_entropy.defjvp
def _entropy_jvp(primals, tangents):
    (x, r), (dx, dr) = primals, tangents
    by_r = -jnp.log1p(jnp.maximum(x, 0) / r)
    return _entropy(x, r), scale_tangent(_log_share(x, r), dx) + by_r * dr


@jax.custom_jvp
def _log_share(x: Array, r: Array) -> Array:
    """log x / (x + r) = f'(x), to full relative precision; −inf at 0."""
    large = x > r
    few = jnp.where(large, 1, x / r)
    many = jnp.where(large, r / jnp.where(large, x, 1), 1)
    return jnp.where(large, -jnp.log1p(many), jnp.log(few) - jnp.log1p(few))


@_log_share.defjvp
def _log_share_jvp(primals, tangents):
    (x, r), (dx, dr) = primals, tangents
    total = x + r
    return _log_share(x, r), scale_tangent(r / total / x, dx) - dr / total


# --- f'(x) − f'(y) = log(1 + e) ------------------------------------------------------


def _excess(x: Array, y: Array, delta: Array, r: Array) -> Array:
    """e of the module's formulas; 0 where x = y = 0."""
    same_edge = (delta == 0) & (y == 0)
    return delta / jnp.where(same_edge, 1, y) * (r / (x + r))


@jax.custom_jvp
def _log_ratio(x: Array, y: Array, delta: Array, r: Array) -> Array:
    """log u(x) / u(y) to full relative precision; −inf at x = 0 < y, 0 at x = y."""
    e = _excess(x, y, delta, r)
    low = e < -0.5
    ratio = x / (x + r) * ((y + r) / jnp.where(low, y, 1))
    return jnp.where(low, jnp.log(ratio), _log1p(jnp.where(low, 0, e)))


@_log_ratio.defjvp
def _log_ratio_jvp(primals, tangents):
    # δ = x − y is no third variable: all derivatives go through x, y and r.
    (x, y, delta, r), (dx, dy, _, dr) = primals, tangents
    both_zero = (x == 0) & (y == 0)
    by_x = jnp.where(both_zero, 0, r / (x + r) / x)
    by_y = jnp.where(both_zero, 0, -r / (y + r) / y)
    tangent = scale_tangent(by_x, dx) + scale_tangent(by_y, dy)
    return _log_ratio(x, y, delta, r), tangent + delta / (x + r) / (y + r) * dr


# --- B -------------------------------------------------------------------------------


def _remainder_value(x: Array, y: Array, delta: Array, r: Array) -> Array:
    near = jnp.abs(delta) <= _CLOSE * (2 * y + delta)
    s = delta / (y + r)
    e = _excess(x, y, jnp.where(near, delta, 0), r)
    one = jnp.ones_like(e)
    close = r * burg_remainder(y + r, jnp.where(near, delta, 0))
    close += r * s * e - x * burg_remainder(one, e)
    low = s < -0.5
    rise = jnp.where(low, jnp.log((x + r) / (y + r)), _log1p(jnp.where(low, 0, s)))
    live = ~(x <= 0)  # NaN counts as live, and stays NaN
    slope = _log_ratio(jnp.where(live, x, 1), y, jnp.where(live, delta, 0), r)
    far = jnp.where(live, x * slope, 0) - r * rise
    value = jnp.where(near, close, far)
    return jnp.where((x < 0) | (y < 0), jnp.inf, value)


@jax.custom_jvp
def _between(x: Array, y: Array, delta: Array, r: Array) -> Array:
    return _remainder_value(x, y, delta, r)


@_between.defjvp
def _between_jvp(primals, tangents):
    # ∂x = log u(x)/u(y), ∂y = −f''(y) δ, ∂r = φ(s); δ is no third variable.
    (x, y, delta, r), (dx, dy, _, dr) = primals, tangents
    same_edge = (delta == 0) & (y == 0)
    by_y = -delta / jnp.where(same_edge, 1, y) * (r / (y + r))
    tangent = scale_tangent(_log_ratio(x, y, delta, r), dx)
    tangent += scale_tangent(by_y, dy) + burg_remainder(y + r, delta) * dr
    return _between(x, y, delta, r), tangent


@jax.custom_jvp
def _from(y: Array, delta: Array, r: Array) -> Array:
    return _remainder_value(_end_point(y, delta), y, delta, r)


@_from.defjvp
def _from_jvp(primals, tangents):
    # ∂δ = log u(x)/u(y) and ∂y = ∂δ − f''(y) δ = −φ(e) − s e, which does not cancel.
    # At x = 0 both are −inf, but only through x = y + δ: with the two tangents added
    # first, a motion along which x stays 0 has the slope of B(0, y) = r log(1 + y/r),
    # r / (y + r).
    (y, delta, r), (dy, ddelta, dr) = primals, tangents
    x = _end_point(y, delta)
    at_zero = (x == 0) & (y != 0)
    inner, step = jnp.where(at_zero, y, x), jnp.where(at_zero, 0, delta)
    e = _excess(inner, y, step, r)
    by_y = -burg_remainder(jnp.ones_like(e), e) - step / (y + r) * e
    by_y = jnp.where(at_zero, r / (y + r), by_y)
    by_y = jnp.where(y == 0, jnp.where(delta == 0, 0, -jnp.inf), by_y)
    tangent = scale_tangent(jnp.where(at_zero, -jnp.inf, 0), dy + ddelta)
    tangent += scale_tangent(_log_ratio(inner, y, step, r), ddelta)
    tangent += scale_tangent(by_y, dy) + burg_remainder(y + r, delta) * dr
    return _from(y, delta, r), tangent


# --- The two functions ---------------------------------------------------------------


def _beside(dispersion: ArrayLike, x: Array) -> Array:
    """r in the precision of x; with as many axes as x unless r is a scalar."""
    r = jnp.asarray(dispersion, x.dtype)
    return r.reshape((1,) * (x.ndim - r.ndim) + r.shape) if r.ndim else r


@final
@register_pytree
@dataclass(frozen=True, eq=False)
class NegativeBinomialEntropy(SeparableFunction):
    """Σ x log x − (x + r) log(x + r) + r log r over x ≥ 0, with 0 log 0 = 0; in nats.

    Conjugate Σ −r log(1 − exp(y)) over y < 0 (`NegativeBinomialCumulant`). B(x, y) =
    Σ x log(x/y) − (x + r) log((x + r)/(y + r)), close to the generalised
    Kullback–Leibler divergence where x, y ≪ r, and to r times the Itakura–Saito
    divergence where x, y ≫ r; +inf where y = 0 < x, 0 where both are 0. The gradient is
    −inf at 0.

    Attributes:
        dispersion: r > 0, a scalar or one for each coordinate `[n]`; a leaf.

    Examples:
        >>> import jax.numpy as jnp
        >>> f = NegativeBinomialEntropy(2.0)
        >>> print(f.remainder(jnp.array([1.0]), jnp.array([3.0])))
        1.3862944
    """

    dispersion: ArrayLike = 1.0

    @override
    def _scalar(self, x: Array) -> Array:
        return _entropy(x, _beside(self.dispersion, x))

    @override
    def _scalar_gradient(self, x: Array) -> Array:
        return _log_share(x, _beside(self.dispersion, x))

    @override
    def _scalar_inside(self, x: Array) -> Array:
        return (x >= 0) & (x < jnp.inf)

    @override
    def _scalar_remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        r = _beside(self.dispersion, y)
        return _from(y, delta, r) if x is None else _between(x, y, delta, r)

    @override
    def _scalar_difference(self, y: Array, delta: Array) -> Array:
        return _log_ratio(_end_point(y, delta), y, delta, _beside(self.dispersion, y))

    @override
    def conjugate(self) -> "NegativeBinomialCumulant":
        """Σ −r log(1 − exp(y))."""
        return NegativeBinomialCumulant(self.dispersion)


@final
@register_pytree
@dataclass(frozen=True, eq=False)
class NegativeBinomialCumulant(SeparableFunction):
    """Σ −r log(1 − exp(x)) over x < 0, the log-partition function of the counts.

    Conjugate `NegativeBinomialEntropy`. B(x, y) is B of the conjugate between the means
    r / (exp(−y) − 1) and r / (exp(−x) − 1), in this order.

    Attributes:
        dispersion: r > 0, a scalar or one for each coordinate `[n]`; a leaf.

    Examples:
        >>> import jax.numpy as jnp
        >>> f, x = NegativeBinomialCumulant(2.0), jnp.log(jnp.array([0.5]))
        >>> print(f(x), f.gradient(x))
        1.3863 [2.]
    """

    dispersion: ArrayLike = 1.0

    @override
    def _scalar(self, x: Array) -> Array:
        inside = x < 0
        safe = jnp.where(inside, x, -1)
        steep = safe > -0.7
        high, low = jnp.where(steep, safe, -1), jnp.where(steep, -1, safe)
        log = jnp.where(steep, jnp.log(-jnp.expm1(high)), jnp.log1p(-jnp.exp(low)))
        return jnp.where(inside, -_beside(self.dispersion, x) * log, jnp.inf)

    @override
    def _scalar_gradient(self, x: Array) -> Array:
        return _beside(self.dispersion, x) / jnp.expm1(-x)

    @override
    def _scalar_inside(self, x: Array) -> Array:
        return (x < 0) & (x > -jnp.inf)

    @override
    def _scalar_remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        end = y + delta if x is None else x
        inside = (y < 0) & (end < 0)
        y, end = jnp.where(inside, y, -1), jnp.where(inside, end, -1)
        delta = jnp.where(inside, delta, 0)
        r = _beside(self.dispersion, y)
        start_mean, end_mean = self._scalar_gradient(y), self._scalar_gradient(end)
        rise = self._rise(y, delta, start_mean, end_mean)
        # Far below y the end's mean vanishes, and nothing is left to cancel.
        far = delta < -_FAR
        value = _between(start_mean, jnp.where(far, 1, end_mean), -rise, r)
        plain = self._scalar(end) - self._scalar(y) - start_mean * delta
        return jnp.where(inside, jnp.where(far, plain, value), jnp.inf)

    @override
    def _scalar_difference(self, y: Array, delta: Array) -> Array:
        means = self._scalar_gradient(y), self._scalar_gradient(y + delta)
        return self._rise(y, delta, *means)

    def _rise(self, y: Array, delta: Array, start: Array, end: Array) -> Array:
        """Rise of the mean from y to y + δ, without cancellation."""
        falls = delta < -1
        step = jnp.where(falls, 0, delta)
        exact = end * (jnp.expm1(-step) / jnp.expm1(y))
        return jnp.where(falls, end - start, exact)

    @override
    def conjugate(self) -> NegativeBinomialEntropy:
        """Σ x log x − (x + r) log(x + r) + r log r."""
        return NegativeBinomialEntropy(self.dispersion)

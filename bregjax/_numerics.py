"""Elementwise kernels that do not cancel, with derivatives that are never 0 · inf.

Remainders take the difference δ = x − y, which is known to more digits than x and y
tell, and expand in t = δ / (2y + δ) where t is small. For y = 1 and δ = 0.25, where t =
1/9, x log(x/y) − δ = 0.278929 − 0.25 = 0.028929 has lost one digit; t δ (1 + t (1 + t)
(1/3 + t²/5 + …)) = 0.028929 has lost none. For y = 1 and δ = 1e-4 in float32 the first
form gives 2.2e-8, the second 4.99983e-9, which is right.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from bregjax._typing import Array, ArrayLike

# The |t|, t = δ / (2y + δ), up to which logarithms come from the series of atanh.
# Above it the plain formulas cancel by a factor of about 30 at most; below it the
# series needs 9 terms (float64) or 4 terms (float32).
_SERIES_LIMIT = 1 / 6


def float_arrays(*values: ArrayLike) -> tuple[Array, ...]:
    """Arrays of one floating dtype and of one rank, leading axes of 1 added."""
    arrays = [jnp.asarray(value) for value in values]
    dtype = jnp.result_type(*arrays)
    if not jnp.issubdtype(dtype, jnp.floating):
        dtype = jnp.result_type(float)
    rank = max(array.ndim for array in arrays)
    return tuple(
        jnp.expand_dims(array.astype(dtype), tuple(range(rank - array.ndim)))
        for array in arrays
    )


def scale_tangent(slope: Array, tangent: Array) -> Array:
    """`slope · tangent` with ±inf · 0 = 0, linear in the tangent.

    An infinite slope multiplies in two finite steps: a tangent (or, transposed, a
    cotangent) of 0 stays 0, any other still becomes ±inf.
    """
    infinite = jnp.isinf(slope)
    largest = jnp.finfo(slope.dtype).max
    first = jnp.where(infinite, jnp.sign(slope) * largest, slope)
    second = jnp.where(infinite, largest, 1)
    return (tangent * first) * second


def finite_cotangents(x: Array, where: Array) -> Array:
    """Return `x`; at entries of `where` make its cotangents finite.

    For products with a factor of exactly 0, which must be 0 when the other factor is
    infinite: a cotangent of ±inf becomes the largest float, NaN (inf · 0) becomes 0.
    """

    def largest(_, cotangent: Array) -> Array:
        most = jnp.finfo(cotangent.dtype).max
        finite = jnp.nan_to_num(cotangent, posinf=most, neginf=-most)
        return jnp.where(where, finite, cotangent)

    identity = lambda vector: vector
    # A linear system is the one linear map whose transpose can be given.
    return jax.lax.custom_linear_solve(
        identity, x, solve=lambda _, right: right, transpose_solve=largest
    )


def _horner(coefficients: Sequence[float], x: Array) -> Array:
    """Value at x of a polynomial, whose constant coefficient comes first."""
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def _atanh_series(t: Array) -> Array:
    """(atanh(t)/t − 1)/t² = 1/3 + t²/5 + … for |t| ≤ 1/6, to full precision."""
    terms = 9 if t.dtype == jnp.float64 else 4
    return _horner([1 / (2 * k + 3) for k in range(terms)], t * t)


def _half_ratio(y: Array, delta: Array) -> tuple[Array, Array]:
    """t = δ/(2y + δ), of log((y + δ)/y) = 2 atanh(t), and whether t is small."""
    total = 2 * y + delta
    t = delta / jnp.where(total == 0, 1, total)
    near = jnp.abs(t) <= _SERIES_LIMIT
    return jnp.where(near, t, 0), near


def _end_point(y: Array, delta: Array) -> Array:
    """The sum y + δ; a sum that is negative by rounding of y alone counts as 0.

    A fused multiply-add may round y and δ apart, so that −y + y is −1e−17 y.
    """
    x = y + delta
    slack = 4 * jnp.finfo(x.dtype).eps * y
    return jnp.where((x < 0) & (x >= -slack), 0, x)


def _safe_quotient(numerator: Array, denominator: Array) -> Array:
    """Quotient with 0/0 = 0."""
    both = (numerator == 0) & (denominator == 0)
    return jnp.where(both, 0, numerator / jnp.where(both, 1, denominator))


# --- x log x -------------------------------------------------------------------------


@jax.custom_jvp
def _xlogx(x: Array) -> Array:
    value = x * jnp.log(jnp.where(x > 0, x, 1))
    return jnp.where(x < 0, jnp.inf, value)


@_xlogx.defjvp
def _xlogx_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return _xlogx(x), scale_tangent(jnp.log(x) + 1, dx)


def xlogx(x: ArrayLike) -> Array:
    """Elementwise x log x, with 0 log 0 = 0, and +inf for x < 0.

    The derivative is log x + 1: −inf at 0, and 0 · (−inf) = 0 in products with it.
    """
    return _xlogx(*float_arrays(x))


# --- log((y + δ) / y) ----------------------------------------------------------------


def _log_ratio_value(x: Array, y: Array, delta: Array) -> Array:
    t, near = _half_ratio(y, delta)
    both_zero = (x == 0) & (y == 0)
    far = jnp.log(jnp.where(near | both_zero, 1, x) / jnp.where(both_zero, 1, y))
    return jnp.where(near, 2 * t * (1 + t * t * _atanh_series(t)), far)


@jax.custom_jvp
def _log_ratio(x: Array, y: Array, delta: Array) -> Array:
    return _log_ratio_value(x, y, delta)


@_log_ratio.defjvp
def _log_ratio_jvp(primals, tangents):
    # δ = x − y is known to more digits than x and y tell, but it is no third variable:
    # all derivatives go through x and y.
    (x, y, delta), (dx, dy, _) = primals, tangents
    both_zero = (x == 0) & (y == 0)
    slope_x = jnp.where(both_zero, 0, 1 / x)
    slope_y = jnp.where(both_zero, 0, -1 / y)
    tangent = scale_tangent(slope_x, dx) + scale_tangent(slope_y, dy)
    return _log_ratio(x, y, delta), tangent


def log_ratio(y: ArrayLike, delta: ArrayLike) -> Array:
    """log((y + δ)/y) elementwise, to full relative precision however small δ is.

    The value is 0 where y = δ = 0, −inf where y + δ = 0 < y, +inf where y = 0 < δ, and
    NaN where exactly one of y and y + δ is negative. A ratio beyond the largest float
    gives +inf.

    Args:
        y: Reference, any shape, at least 0.
        delta: Exact difference to the reference; broadcast against `y`.
    """
    y, delta = float_arrays(y, delta)
    return _log_ratio(_end_point(y, delta), y, delta)


# --- Kullback–Leibler: (y + δ) log((y + δ)/y) − δ ------------------------------------
#
# With t = δ/(2y + δ) the remainder is t δ (1 + t (1 + t) (1/3 + t²/5 + …)), because
# y + δ = (2y + δ)(1 + t)/2 and log((y + δ)/y) = 2 (t + t³/3 + …).


def _kl_value(x: Array, y: Array, delta: Array) -> Array:
    t, near = _half_ratio(y, delta)
    series = t * delta * (1 + t * (1 + t) * _atanh_series(t))
    live = ~(x <= 0)  # NaN counts as live, and stays NaN
    ratio = jnp.where(live & ~near, x, 1) / jnp.where(live, y, 1)
    far = jnp.where(live, x * jnp.log(ratio), 0) - delta
    value = jnp.where(near, series, far)
    return jnp.where((x < 0) | (y < 0), jnp.inf, value)


@jax.custom_jvp
def _kl_between(x: Array, y: Array, delta: Array) -> Array:
    return _kl_value(x, y, delta)


@_kl_between.defjvp
def _kl_between_jvp(primals, tangents):
    # x log(x/y) − x + y: ∂x = log(x/y), ∂y = 1 − x/y; δ is no third variable.
    (x, y, delta), (dx, dy, _) = primals, tangents
    tangent = scale_tangent(_log_ratio(x, y, delta), dx)
    tangent += scale_tangent(-_safe_quotient(delta, y), dy)
    return _kl_between(x, y, delta), tangent


@jax.custom_jvp
def _kl_from(y: Array, delta: Array) -> Array:
    return _kl_value(_end_point(y, delta), y, delta)


@_kl_from.defjvp
def _kl_from_jvp(primals, tangents):
    # ∂δ = log(x/y) and ∂y = log(x/y) − δ/y, the second as a remainder that does not
    # cancel. At x = 0 both are −inf, but only through x = y + δ: with the two tangents
    # added first, a motion along which x stays 0 has the finite derivative −δ/y · dy.
    (y, delta), (dy, ddelta) = primals, tangents
    x = _end_point(y, delta)
    at_zero = (x == 0) & (y != 0)
    inner = jnp.where(at_zero, y, x)
    slope_x = jnp.where(at_zero, -jnp.inf, 0)
    slope_delta = _log_ratio(inner, y, jnp.where(at_zero, 0, delta))
    slope_y = jnp.where(
        at_zero, 1, -_burg_between(inner, y, jnp.where(at_zero, 0, delta))
    )
    slope_y = jnp.where(y == 0, jnp.where(delta == 0, 0, -jnp.inf), slope_y)
    tangent = scale_tangent(slope_x, dy + ddelta)
    tangent += scale_tangent(slope_delta, ddelta) + scale_tangent(slope_y, dy)
    return _kl_from(y, delta), tangent


def kl_remainder(
    y: ArrayLike, delta: ArrayLike, *, x: ArrayLike | None = None
) -> Array:
    """(y + δ) log((y + δ)/y) − δ ≥ 0 elementwise, to full relative precision.

    The value is 0 at δ = 0 (also where y = 0), y at δ = −y, +inf where y = 0 < δ, and
    +inf where y or y + δ is negative (by more than rounding).

    With `x` the derivatives are taken with respect to x and y, log(x/y) and −δ/y, and
    none goes through `delta`. Give `x` where it is a variable of its own and y + δ only
    recomputes it: at x = 0 < y the derivative with respect to x is −inf, and reverse
    mode through both y and δ would add −inf and +inf. Where x = y = 0 both are 0.

    Args:
        y: Reference, any shape, at least 0.
        delta: Exact difference to the reference; broadcast against `y`.
        x: y + δ, as a variable that derivatives are taken by.
    """
    if x is None:
        return _kl_from(*float_arrays(y, delta))
    y, delta, x = float_arrays(y, delta, x)
    return _kl_between(x, y, delta)


# --- Itakura–Saito: δ/y − log(1 + δ/y) -----------------------------------------------
#
# With r = δ/y = 2t/(1 − t) the remainder is r − 2 (t + t³/3 + …) =
# t (r − 2 t² (1/3 + t²/5 + …)).


def _burg_value(x: Array, y: Array, delta: Array) -> Array:
    t, near = _half_ratio(y, delta)
    outside = (x <= 0) | (y <= 0)
    safe_y = jnp.where(outside, 1, y)
    r = delta / safe_y
    series = t * (r - 2 * t * t * _atanh_series(t))
    far = r - jnp.log(jnp.where(outside | near, safe_y, x) / safe_y)
    return jnp.where(outside, jnp.inf, jnp.where(near, series, far))


@jax.custom_jvp
def _burg_between(x: Array, y: Array, delta: Array) -> Array:
    return _burg_value(x, y, delta)


@_burg_between.defjvp
def _burg_between_jvp(primals, tangents):
    # x/y − 1 − log(x/y): ∂x = δ/(x y), ∂y = −δ/y².
    (x, y, delta), (dx, dy, _) = primals, tangents
    r = _safe_quotient(delta, y)
    tangent = scale_tangent(_safe_quotient(r, x), dx)
    tangent -= scale_tangent(_safe_quotient(r, y), dy)
    return _burg_between(x, y, delta), tangent


@jax.custom_jvp
def _burg_from(y: Array, delta: Array) -> Array:
    return _burg_value(y + delta, y, delta)


@_burg_from.defjvp
def _burg_from_jvp(primals, tangents):
    # ∂δ = δ/(x y); ∂y = δ/(x y) − δ/y² = −δ²/(x y²), written without the difference.
    (y, delta), (dy, ddelta) = primals, tangents
    r = _safe_quotient(delta, y)
    slope = _safe_quotient(r, y + delta)
    tangent = scale_tangent(slope, ddelta) + scale_tangent(-r * slope, dy)
    return _burg_from(y, delta), tangent


def burg_remainder(
    y: ArrayLike, delta: ArrayLike, *, x: ArrayLike | None = None
) -> Array:
    """δ/y − log(1 + δ/y) ≥ 0 elementwise, to full relative precision.

    A function of δ/y alone; +inf where y or y + δ is not positive.

    Args:
        y: Reference, any shape, positive.
        delta: Exact difference to the reference; broadcast against `y`.
        x: y + δ, as a variable that derivatives are taken by (see `kl_remainder`).
    """
    if x is None:
        return _burg_from(*float_arrays(y, delta))
    y, delta, x = float_arrays(y, delta, x)
    return _burg_between(x, y, delta)


# --- exp(z) − 1 − z ------------------------------------------------------------------


def _exp_series(z: Array) -> Array:
    """Σ z^k / (k + 2)! for |z| ≤ 1/2, to full precision."""
    coefficients = [0.5]
    for k in range(1, 13 if z.dtype == jnp.float64 else 7):
        coefficients.append(coefficients[-1] / (k + 2))
    return _horner(coefficients, z)


@jax.custom_jvp
def _exp_remainder(z: Array) -> Array:
    near = jnp.abs(z) <= 0.5
    small = jnp.where(near, z, 0)
    return jnp.where(near, small * small * _exp_series(small), jnp.expm1(z) - z)


@_exp_remainder.defjvp
def _exp_remainder_jvp(primals, tangents):
    (z,), (dz,) = primals, tangents
    return _exp_remainder(z), scale_tangent(jnp.expm1(z), dz)


def exp_remainder(z: ArrayLike) -> Array:
    """exp(z) − 1 − z ≥ 0 elementwise, to full relative precision."""
    return _exp_remainder(*float_arrays(z))


# --- shares of a total ---------------------------------------------------------------


@jax.custom_jvp
def proportions(x: Array) -> Array:
    """Shares x / Σx over the last axis, of entries at least 0.

    The derivative of a function g of the shares p is (∂g/∂p_k − Σ p_i ∂g/∂p_i) / Σx. An
    infinite slope ∂g/∂p_i at a share of 0 gives entry i the derivative ±inf, and counts
    as p_i ∂g/∂p_i = 0 in those of the other entries, as p log p does.
    """
    return x / jnp.sum(x, -1, keepdims=True)


@proportions.defjvp
def _proportions_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    share, total = proportions(x), jnp.sum(x, -1, keepdims=True)
    growth = share * (jnp.sum(dx, -1, keepdims=True) / total)
    return share, dx / total - finite_cotangents(growth, share == 0)


# --- vectors and matrices ------------------------------------------------------------


def safe_norm(x: ArrayLike, axis: int = -1) -> Array:
    """Euclidean norm along an axis, with gradient 0 (a subgradient) at 0."""
    (x,) = float_arrays(x)
    square = jnp.sum(x * x, axis)
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), 0)


def sum_extended(values: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """Sum of numbers in (−inf, inf] ∪ {−inf} in which +inf beats −inf.

    For slopes of convex functions: a direction that leaves the domain has slope +inf,
    however steeply the function falls in other coordinates.
    """
    leaves = jnp.isposinf(values)
    total = jnp.sum(jnp.where(leaves, 0, values), axis)
    return jnp.where(jnp.any(leaves, axis), jnp.inf, total)


def multiply_matrix(matrix: Array, x: Array) -> Array:
    """A x over the last axis of x `[..., n]`, for A `[k, n]`, in full precision."""
    return jnp.einsum("kn,...n->...k", matrix, x, precision="highest")


def symmetric_part(x: Array) -> Array:
    """(x + xᵀ)/2 over the last two axes."""
    return (x + jnp.swapaxes(x, -1, -2)) / 2

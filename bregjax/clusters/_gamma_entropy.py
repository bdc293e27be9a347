"""The entropy of a gamma distribution and its shape, as functions of the scatter.

With s = log E x − E log x and k the shape that solves log k − digamma(k) = s,

    G(s) = k s − (k log k − k − log Γ(k)),   G'(s) = k,

is concave and increasing, and ψ*(μ₁, μ₂) = −G(s) − μ₁. The slope of G in u = log s is
k s and goes from ½ (s → 0, a normal distribution) to 1 (s → ∞). So does the slope of

    g(s) = G₀ + ½ log(s (1 + s/3)),   G₀ = ½ (1 + log 4π),

which agrees with G to order s³ at 0 and up to a constant at ∞: the rest E = G − g runs
from 0 to −0.2162, and three tables in u hold E, E' and η = −s² E''(s).

Example: the scatter 0.2438 has k = 2.203, G = 1.09870 and g = 1.09888, and the rest is
E = −0.00017.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._numerics import burg_remainder, log_ratio
from bregjax._typing import Array
from bregjax.convex._pieces import Pieces, fit_pieces

__all__ = [
    "entropy_of_scatter",
    "entropy_remainder",
    "rest_of_entropy",
    "rest_tables",
    "screening_rates",
    "shape_difference",
    "shape_of_scatter",
]

# Range of the tables in u = log s. Outside of it E is constant to rounding of float64:
# it changes as s³ / 60 below, and as log(s) / s above.
_LOW, _HIGH = -12.0, 44.0
# Pieces and degree with which the tables are good to 2e-16; see `largest_error`.
_COUNT, _DEGREE = 224, 9
# Recurrences raise k by so much, to where the asymptotic series of digamma and log Γ
# with the numbers B_2n / 2n of _SERIES are good to the last bit of extended precision.
_SHIFT = 16
_SERIES = (
    (1, 12),
    (-1, 120),
    (1, 252),
    (-1, 240),
    (1, 132),
    (-691, 32760),
    (1, 12),
    (-3617, 8160),
)
_NEWTON_STEPS = 6

_G_0 = 0.5 * (1 + float(np.log(4 * np.pi)))

# Remainders between scatters that differ by less than this share come from a Gauss rule
# of four nodes, good to 2e-16; beyond it from differences of E, in which a factor of up
# to 100 cancels. At double the rule is less exact, at half more digits cancel.
_NEAR = 0.1
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2


# --- Values of the tables, in NumPy, to rounding --------------------------------------


def _shape_facts(k: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """s = log k − digamma(k), −ds/dk, and t = log Γ(k) less Stirling's formula.

    By recurrences down from k + 16, all of whose terms are positive:

        s(k) = s(k+1) + z − log(1 + z), z = 1/k,
        t(k) = t(k+1) + (k + ½) log(1 + z) − 1.
    """
    one = np.ones((), k.dtype)
    far = k + _SHIFT
    z2 = 1 / far**2
    scatter, slope, tail = (np.zeros_like(k) for _ in range(3))
    for i in reversed(range(len(_SERIES))):
        b = one * _SERIES[i][0] / _SERIES[i][1]
        scatter = scatter * z2 + b
        slope = slope * z2 + (2 * i + 2) * b
        tail = tail * z2 + b / (2 * i + 1)
    scatter = scatter * z2 + 1 / (2 * far)
    slope = slope * z2 / far + z2 / 2
    tail = tail / far
    for j in range(_SHIFT):
        z = 1 / (k + j)
        # log(1 + z) = 2 atanh(x), by the series where x is small.
        x = z / (2 + z)
        near = x < 0.2
        small = np.where(near, x, 0) ** 2
        series = np.zeros_like(k)
        for i in reversed(range(14)):
            series = series * small + one / (2 * i + 3)
        apart = np.where(near, 1, z)
        log = np.log1p(apart)
        scatter = scatter + np.where(near, x * (z - 2 * small * series), apart - log)
        tail = tail + np.where(near, small * series, (1 / apart + 0.5) * log - 1)
        slope = slope + z * z / (k + j + 1)
    return scatter, slope, tail


def _shape_by_newton(s: np.ndarray) -> np.ndarray:
    """The k > 0 with log k − digamma(k) = s, elementwise, for s > 0.

    Newton's method on 1/k (Minka, "Estimating a gamma distribution", 2002), which
    converges in four steps from its start at every s; the last step is made in the
    precision of s.
    """

    def step(k: np.ndarray, s: np.ndarray) -> np.ndarray:
        found, slope, _ = _shape_facts(k)
        inverse = 1 / k - (found - s) / (k * k * slope)
        return 1 / np.maximum(inverse, 0.1 / k)

    low = s.astype(float)
    root, less = np.sqrt((low - 3) ** 2 + 24 * low), np.minimum(low, 3)
    k = np.where(low < 3, (3 - less + root) / (12 * low), 2 / (low - 3 + root))
    for _ in range(_NEWTON_STEPS):
        k = step(k, low)
    return step(k.astype(s.dtype), s)


def rest_of_entropy(u: np.ndarray) -> np.ndarray:
    """E, E' and η at u = log s `[k]`, `[3, k]`; in extended precision if there is one.

    To 1e-18 in extended precision, to 2e-15 without it.
    """
    s = np.exp(np.asarray(u, np.longdouble))
    k = _shape_by_newton(s)
    _, slope, tail = _shape_facts(k)
    rise, share = k * s - 0.5, s / (3 + s)
    value = tail + rise - 0.5 * (np.log1p(2 * rise) + np.log1p(s / 3))
    bend = s * s / slope - 0.5 - 0.5 * share**2
    return np.stack([value, rise - 0.5 * share, bend])


@functools.cache
def rest_tables() -> tuple[Pieces, ...]:
    """The tables of E, E' and η, polynomials by pieces."""
    return fit_pieces(rest_of_entropy, _LOW, _HIGH, count=_COUNT, degree=_DEGREE)


@functools.cache
def screening_rates() -> tuple[np.ndarray, np.ndarray]:
    """Knots of log s and rates c for which G − ½ log(s (1 + c s)) is concave up to s.

    That function is concave and increasing up to a knot if, at all scatters s up to it,

        ½ (c s / (1 + c s))² ≤ −s² G''(s) − ½,   ½ c s / (1 + c s) ≤ s G'(s) − ½.

    Rates are the largest such c, less a thousandth, and decrease from 1/3 to 0.
    """
    u = np.linspace(-6, 30, 1441)
    _, rise, bend = rest_of_entropy(u).astype(float)
    s = np.exp(u)
    share = s / (3 + s)
    share = np.minimum(2 * rise + share, np.sqrt(2 * bend + share**2))
    rates = np.minimum(share / (s * (1 - share)), 1 / 3)
    # Half of the thousandth allows for scatters between two knots.
    return u, 0.999 * np.minimum.accumulate(rates)


# --- Functions from the tables, in JAX ------------------------------------------------


@jax.custom_jvp
def _rest_value(u: Array) -> Array:
    return rest_tables()[0](u)


@_rest_value.defjvp
def _rest_value_jvp(primals, tangents):
    (u,), (du,) = primals, tangents
    return _rest_value(u), _rest_slope(u) * du


@jax.custom_jvp
def _rest_slope(u: Array) -> Array:
    return rest_tables()[1](u)


@_rest_slope.defjvp
def _rest_slope_jvp(primals, tangents):
    # d²E/du² = s E' + s² E'' = slope − η.
    (u,), (du,) = primals, tangents
    slope = _rest_slope(u)
    return slope, (slope - _rest_bend(u)) * du


def _rest_bend(u: Array) -> Array:
    return rest_tables()[2](u)


def entropy_of_scatter(s: Array) -> Array:
    """G(s), elementwise, for s > 0; −inf at 0.

    Differentiable three times, forward and reverse; good to rounding of |log s|.
    """
    # Not log(s (1 + s/3)), which overflows where s² does.
    u = jnp.log(s)
    return _G_0 + 0.5 * (u + jnp.log1p(s / 3)) + _rest_value(u)


def shape_of_scatter(s: Array) -> Array:
    """k = G'(s), elementwise, to relative rounding, for s > 0."""
    return (0.5 + 0.5 * s / (3 + s) + _rest_slope(jnp.log(s))) / s


def _curvature(s: Array) -> Array:
    """−s² G''(s), between ½ and 1."""
    return 0.5 + 0.5 * (s / (3 + s)) ** 2 + _rest_bend(jnp.log(s))


def _along(y: Array, length: Array, weigh) -> Array:
    """The integral of η(log y + v) weigh(v) for v from 0 to a small `length`."""
    u = jnp.log(y)
    total = jnp.zeros_like(length)
    for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
        v = node * length
        total = total + weight * _rest_bend(u + v) * weigh(v)
    return length * total


@jax.custom_jvp
def entropy_remainder(s: Array, y: Array, delta: Array) -> Array:
    """G(y) + k(y) (s − y) − G(s) ≥ 0, elementwise, without cancellation.

    The remainder of g, ½ φ(s/y) + ½ φ((3+s)/(3+y)) with φ(r) = r − 1 − log r, plus the
    remainder of E: where s and y are near, the integral of (s/t − 1) η(log t) over
    log t from log y to log s.

    Args:
        s: Scatters, positive.
        y: Scatters to expand about, positive.
        delta: s − y with all its digits, used where s and y are near; no variable of
            its own to derivatives.
    """
    near = jnp.abs(delta) < _NEAR * y
    small = log_ratio(y, jnp.where(near, delta, 0))
    integral = _along(y, small, lambda v: jnp.expm1(small - v))
    u = jnp.log(y)
    plain = _rest_value(u) - _rest_value(jnp.log(s)) + _rest_slope(u) * (delta / y)
    rest = jnp.where(near, integral, plain)
    normal = burg_remainder(y, delta, x=s) + burg_remainder(3 + y, delta, x=3 + s)
    return 0.5 * normal + rest


@entropy_remainder.defjvp
def _entropy_remainder_jvp(primals, tangents):
    (s, y, delta), (ds, dy, _) = primals, tangents
    value = entropy_remainder(s, y, delta)
    by_y = -_curvature(y) * (delta / y) / y
    return value, shape_difference(s, y, delta) * ds + by_y * dy


@jax.custom_jvp
def shape_difference(s: Array, y: Array, delta: Array) -> Array:
    """k(y) − k(s), elementwise, without cancellation; see `entropy_remainder`."""
    near = jnp.abs(delta) < _NEAR * y
    small = log_ratio(y, jnp.where(near, delta, 0))
    integral = _along(y, small, lambda v: jnp.exp(-v)) / y
    plain = _rest_slope(jnp.log(y)) / y - _rest_slope(jnp.log(s)) / s
    rest = jnp.where(near, integral, plain)
    ratios = delta / y / s + delta / (3 + y) / (3 + s)
    return 0.5 * ratios + rest


@shape_difference.defjvp
def _shape_difference_jvp(primals, tangents):
    (s, y, delta), (ds, dy, _) = primals, tangents
    value = shape_difference(s, y, delta)
    return value, _curvature(s) / s / s * ds - _curvature(y) / y / y * dy

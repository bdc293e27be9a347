"""Modified Bessel functions I_ν of any order ν ≥ −½: log, ratio and its derivative.

With z = κ², in which all of them are analytic:

    L(z) = log Γ(ν + 1) (2/κ)^ν I_ν(κ),   A(κ) = I_{ν+1}(κ) / I_ν(κ) = dL/dκ,
    g(z) = A/κ = 2 dL/dz > 0,             a(z) = dA/dκ > 0.

At an order N ≥ 30 (10 in float32) the uniform expansion of Debye is good to rounding at
every z: with w = √(N² + z), p = N/w and S(p) = Σ_k D_k(p) / N^k,

    L = (w − N) − N log((w + N) / 2N) − ½ log(w/N) + S(p) − S(1),

and its derivatives. Smaller orders follow by the recurrence I_{ν−1} = I_{ν+1} +
(2ν/κ) I_ν, downwards, which is stable: with c = 2ν and at ν on the right

    g_{ν−1} = 1 / (c + z g),   a_{ν−1} = (c − z a) / (c + z g)²,
    L_{ν−1} = L + log(1 + z g / c).

For κ = 2 (z = 4) at ν = ³⁄₂, where c = 3: L = 0.379514, g = 0.180553, a = 0.147389. One
step down, 1 / (3 + 4 g) = 0.268657, (3 − 4 a) / (3 + 4 g)² = 0.173978 and L + log(1 + 4
g / 3) = 0.595220 are g, a and L at ν = ½, where L = log(sinh 2 / 2).

References:
    DLMF, 10.41.3 (expansion), 10.41.9 (U_k) and 10.29.1 (recurrence).
"""

import functools
import math
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._numerics import burg_remainder
from bregjax._typing import Array

__all__ = ["bessel_parts", "log_bessel", "solve_mean_length"]

# Numbers that decide, by precision. The least order of the expansion and the number of
# its terms guard its error, measured against 40 digits: at half the order the last term
# is 2e-13 (float64) and 2e-6 (float32).
_LEAST_ORDER = {"float64": 30, "float32": 10}
_NUM_TERMS = {"float64": 14, "float32": 7}
# Newton's method doubles its digits from a start with an error of 5 %.
_NEWTON_STEPS = 6


class Parts(NamedTuple):
    """L, g and a of the module's text at z, each of the shape of z."""

    log_value: Array
    ratio: Array
    slope: Array


# --- The expansion -------------------------------------------------------------------


@functools.cache
def _logarithm_terms(count: int) -> list[list[Fraction]]:
    """Coefficients of D_1 … D_count, log Σ U_k(p) / N^k = Σ D_k(p) / N^k."""
    terms, logs = [[Fraction(1)]], [[Fraction(0)]]
    for k in range(1, count + 1):
        before = terms[-1]
        # U_k = ½ p² (1 − p²) U'_{k−1} + ⅛ ∫₀^p (1 − 5t²) U_{k−1} dt.
        term = [Fraction(0)] * (3 * k + 1)
        for power, c in enumerate(before):
            term[power + 1] += c * (Fraction(power, 2) + Fraction(1, 8 * (power + 1)))
            term[power + 3] -= c * (Fraction(power, 2) + Fraction(5, 8 * (power + 3)))
        terms.append(term)
        # k (log Σ)_k = k U_k − Σ j D_j U_{k−j}.
        log = list(term)
        for j in range(1, k):
            for power, c in enumerate(logs[j]):
                for other, d in enumerate(terms[k - j]):
                    if c and d:
                        log[power + other] -= Fraction(j, k) * c * d
        logs.append(log)
    return logs[1:]


@functools.cache
def _expansion(order: float, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients of (S(p) − S(1)) / (p − 1), S' and S'' at an order."""
    total = np.zeros(3 * count + 1)
    for k, log in enumerate(_logarithm_terms(count), start=1):
        total[: len(log)] += np.array([float(c) for c in log]) / order**k
    quotient = np.cumsum(total[:0:-1])[::-1]
    first = np.polynomial.polynomial.polyder(total)
    second = np.polynomial.polynomial.polyder(first)
    return _economized(quotient), _economized(first), _economized(second)


def _economized(coefficients: np.ndarray) -> np.ndarray:
    """Coefficients in 2p − 1 of a polynomial as good on [0, 1], a third of the degree.

    Coefficients of Chebyshev polynomials fall fast; those below 1e-18 are left out.
    """
    exact = np.polynomial.Polynomial(coefficients)
    series = exact.convert(kind=np.polynomial.Chebyshev, domain=[0, 1])
    short = series.trim(1e-18)
    return np.polynomial.chebyshev.cheb2poly(short.coef)


def _polynomial(coefficients: np.ndarray, x: Array) -> Array:
    out = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        out = out * x + float(coefficient)
    return out


def _expanded(order: float, z: Array) -> Parts:
    quotient, first, second = _expansion(order, _NUM_TERMS[str(z.dtype)])
    w = jnp.sqrt(order**2 + z)
    p = order / w
    middle = 2 * p - 1
    rise = z / (w + order)  # w − N
    v = rise / (2 * order)
    log_value = order * (v + burg_remainder(jnp.ones_like(v), v))
    log_value -= 0.5 * jnp.log1p(2 * v) + (rise / w) * _polynomial(quotient, middle)
    by_p, bend = _polynomial(first, middle), _polynomial(second, middle)
    square = w * w
    share = z / square
    ratio = 1 / (w + order) - (0.5 + p * by_p) / square
    slope = p / (w + order) + (share - p * p) / (2 * square)
    slope += p * ((3 * share - 1) * by_p + p * share * bend) / square
    return Parts(log_value, ratio, slope)


@functools.cache
def _expansion_in_inverse(order: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of S' and S'' as functions of 1/w, for an order of any size."""
    total = np.zeros(3 * count + 1)
    for k, log in enumerate(_logarithm_terms(count), start=1):
        for power in range(k, 3 * k + 1, 2):
            total[power] += float(log[power]) * order ** (power - k)
    first = np.polynomial.polynomial.polyder(total)
    return first, np.polynomial.polynomial.polyder(first)


def _far_slope(order: float, z: Array) -> Array:
    """The slope a by the expansion at the order itself, for κ from `_LEAST_ORDER` on.

    There the recurrence loses digits, since a falls like 1/z: 3,000 roundings at ν = 0.
    """
    first, second = _expansion_in_inverse(order, _NUM_TERMS[str(z.dtype)])
    w = jnp.sqrt(order**2 + z)
    y = 1 / w
    square, share = y * y, z / (w * w)
    by_y, bend = _polynomial(first, y), _polynomial(second, y)
    slope = order * y / (w + order) + (share - order**2 * square) * square / 2
    return slope + y * square * ((3 * share - 1) * by_y + share * y * bend)


@functools.partial(jax.jit, static_argnums=0)
def bessel_parts(order: float, z: Array) -> Parts:
    """L, g and a of the order ν ≥ −½ at z ≥ 0; good to rounding, a to 200 roundings.

    Compiled as a function of its own, since eager calls would run its few hundred steps
    one by one.

    Args:
        order: ν, known before tracing.
        z: κ², any shape.
    """
    steps = max(0, math.ceil(_LEAST_ORDER[str(z.dtype)] - order))
    log_value, ratio, slope = _expanded(order + steps, z)

    def lower(step: Array, parts: Parts) -> Parts:
        c = 2 * (order + steps - jnp.asarray(step, z.dtype))
        total = c + z * parts.ratio
        return Parts(
            parts.log_value + jnp.log1p(z * parts.ratio / c),
            1 / total,
            (c - z * parts.slope) / total / total,
        )

    if steps:
        start = Parts(log_value, ratio, slope)
        log_value, ratio, slope = jax.lax.fori_loop(0, steps, lower, start)
        least = _LEAST_ORDER[str(z.dtype)] ** 2
        far = _far_slope(order, jnp.maximum(z, least))
        slope = jnp.where(z >= least, far, slope)
    return Parts(log_value, ratio, slope)


# --- L, and the inverse of A ---------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def log_bessel(order: float, z: Array) -> Array:
    """L(z), whose derivative is g/2."""
    return bessel_parts(order, z).log_value


@log_bessel.defjvp
def _log_bessel_jvp(order, primals, tangents):
    (z,), (dz,) = primals, tangents
    return log_bessel(order, z), bessel_parts(order, z).ratio / 2 * dz


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def solve_mean_length(order: float, length: Array) -> Array:
    """The κ ≥ 0 with A(κ) = length, elementwise, for lengths in [0, 1).

    By Newton's method from ρ (n − ρ²) / (1 − ρ²), ρ the length and n = 2ν + 2, which
    tends to κ at both ends.

    References:
        Banerjee, Dhillon, Ghosh, Sra (2005), Clustering on the unit hypersphere using
        von Mises–Fisher distributions, Equation (4.4).
    """
    n = 2 * order + 2
    start = length * (n - length * length) / ((1 - length) * (1 + length))

    def step(_, kappa):
        _, ratio, slope = bessel_parts(order, kappa * kappa)
        move = (kappa * ratio - length) / slope
        return jnp.clip(kappa - move, kappa / 2, 2 * kappa)

    return jax.lax.fori_loop(0, _NEWTON_STEPS, step, start)


@solve_mean_length.defjvp
def _solve_mean_length_jvp(order, primals, tangents):
    (length,), (dlength,) = primals, tangents
    kappa = solve_mean_length(order, length)
    return kappa, dlength / bessel_parts(order, kappa * kappa).slope

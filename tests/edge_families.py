"""Functions whose conjugates are hard at the edge, with references to 40 digits.

A piece is a function of one or two parameters, its start, its conjugate at a point as
rounded, and points: inside, on the boundary of the mean domain and outside its closure,
and beyond the gradients of a domain that ends with a finite one. `product` sums pieces.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
from own_potentials import truncated_poisson

mp.mp.dps = max(mp.mp.dps, 40)  # of whichever module asks for most
INF = mp.inf


class Piece(NamedTuple):
    """A function of `start.size` parameters, a sum of one term of them."""

    psi: Callable
    start: np.ndarray
    reference: Callable  # of a list of mp numbers
    points: tuple


def _guard(inside, value):
    return jnp.where(inside, value, jnp.inf)


def _plain(inside, value):
    return value


def _xlogx(v):
    return v * mp.log(v) if v > 0 else mp.mpf(0)


# Smooth pieces with a boundary where the conjugate is finite


def negative_binomial(r, *, guarded=False):
    def psi(theta):
        (t,) = theta
        value = -r * jnp.log(1 - jnp.exp(t))
        return _guard(t < 0, value) if guarded else value

    def reference(y):
        (v,) = y
        if v < 0:
            return INF
        size = mp.mpf(r)
        return _xlogx(v) - _xlogx(v + size) + size * mp.log(size)

    points = tuple((v,) for v in (0, 1e-6, 0.3, 1, 2, 7, 12, 100, 1e4, -0.5, -1e-3))
    return Piece(psi, np.array([-1.0]), reference, points)


def _poisson(theta):
    return jnp.exp(theta[0])


def _poisson_reference(y):
    return INF if y[0] < 0 else _xlogx(y[0]) - y[0]


POISSON = Piece(
    _poisson,
    np.zeros(1),
    _poisson_reference,
    ((0,), (1e-5,), (1,), (40,), (1e5,), (-1e-3,), (-2,)),
)


def _bernoulli(theta):
    return jax.nn.softplus(theta[0])


def _bernoulli_reference(y):
    (v,) = y
    return INF if not 0 <= v <= 1 else _xlogx(v) + _xlogx(1 - v)


BERNOULLI = Piece(
    _bernoulli,
    np.zeros(1),
    _bernoulli_reference,
    ((0,), (1,), (0.5,), (1e-4,), (0.999,), (1.01,), (-0.2,)),
)


# Pieces whose conjugate is infinite on the boundary


def exponential(*, guarded=False):
    def psi(theta):
        (t,) = theta
        return _guard(t < 0, -jnp.log(-t)) if guarded else -jnp.log(-t)

    def reference(y):
        return INF if y[0] <= 0 else -1 - mp.log(y[0])

    points = ((0,), (1e-6,), (1,), (1e5,), (-1e-2,), (-3,))
    return Piece(psi, -np.ones(1), reference, points)


def _truncated_exponential(theta):
    """log((exp θ − 1) / θ): of a density on [0, 1]."""
    (t,) = theta
    size = jnp.abs(t)
    far = size > 0.1
    safe = jnp.where(far, size, 1)
    large = jnp.maximum(t, 0) + jnp.log(-jnp.expm1(-safe) / safe)
    square = jnp.where(far, 0, t) ** 2
    near = square / 24 * (1 - square / 120 * (1 - square / 63 * (1 - square * 3 / 160)))
    return jnp.where(far, large, t / 2 + near)


def _centerd_exponential(theta):
    """The same, with a derivative that loses all digits of a mean near 0."""
    (t,) = theta
    size = jnp.abs(t)
    safe = jnp.where(size > 0.1, size, 1)
    large = t / 2 + (safe / 2 + jnp.log(-jnp.expm1(-safe) / safe))
    return jnp.where(size > 0.1, large, _truncated_exponential(theta))


def _truncated_exponential_reference(y):
    (v,) = y
    if not 0 < v < 1:
        return INF
    if v == mp.mpf("0.5"):
        return mp.mpf(0)
    low = min(v, 1 - v)  # of −θ > 0

    def mean(t):
        return 1 / t - 1 / mp.expm1(t)

    def gap(u):
        return mp.log(mean(mp.exp(u))) - mp.log(low)

    guess = 1 / low if low < 0.3 else 12 * (mp.mpf("0.5") - low)
    t = mp.exp(mp.findroot(gap, mp.log(guess)))
    return -low * t - mp.log(-mp.expm1(-t) / t)


TRUNCATED_EXPONENTIAL = Piece(
    _truncated_exponential,
    np.zeros(1),
    _truncated_exponential_reference,
    (
        (0,), (1,), (0.5,), (0.3,), (0.9,), (0.0029343694,), (1e-5,), (0.9999,),
        (1.001,), (-1e-3,), (2,),
    ),
)  # fmt: skip
CENTERED_EXPONENTIAL = TRUNCATED_EXPONENTIAL._replace(psi=_centerd_exponential)


def _truncated_poisson(theta):
    return truncated_poisson(theta[0])


def _truncated_poisson_reference(y):
    (v,) = y
    if v < 1:
        return INF
    if v == 1:
        return mp.mpf(0)

    def gap(t):
        z = mp.exp(t)
        return mp.log(z / -mp.expm1(-z)) - mp.log(v)

    t = mp.findroot(gap, mp.log(2 * (v - 1)) if v < 1.5 else mp.log(v))
    z = mp.exp(t)
    return v * t - z - mp.log(-mp.expm1(-z))


TRUNCATED_POISSON = Piece(
    _truncated_poisson,
    np.zeros(1),
    _truncated_poisson_reference,
    ((1,), (1.5,), (3,), (100,), (0.5,)),
)


# Pieces whose gradient stays finite at the edge of the domain


def _box(theta):
    (t,) = theta
    return jnp.where(jnp.abs(t) <= 1, t**2 / 2, jnp.inf)


def _box_reference(y):
    size = abs(y[0])
    return size**2 / 2 if size <= 1 else size - mp.mpf("0.5")


BOX = Piece(
    _box,
    np.zeros(1),
    _box_reference,
    ((0,), (0.4,), (0.999,), (1.5,), (-1.5,), (30,), (-1e3,)),
)


def _capped(theta):
    """Poisson counts whose natural parameter is at most 0."""
    (t,) = theta
    return jnp.where(t <= 0, jnp.exp(t), jnp.inf)


def _capped_reference(y):
    (v,) = y
    if v < 0:
        return INF
    return _xlogx(v) - v if v <= 1 else mp.mpf(-1)


CAPPED = Piece(
    _capped,
    -np.ones(1),
    _capped_reference,
    ((0,), (0.2,), (0.9,), (1.5,), (40,), (-0.1,)),
)


def half_normal(*, guarded=False):
    """log ∫ exp(ax + bx²) over x > 0; finite, gradient and all, at b = 0 > a."""

    def psi(theta):
        linear, square = theta
        inside = square < 0
        scale = jnp.where(inside, -square, 1) if guarded else -square
        z = linear / jnp.sqrt(2 * scale)
        value = z**2 / 2 + jnp.log(jnp.pi / scale) / 2 + jax.scipy.stats.norm.logcdf(z)
        return _guard(inside, value) if guarded else value

    points = (
        (5, 25.5), (10, 150), (1, 1.5), (1, 1.1), (0.3, 0.1), (2, 4.0), (1, 0.9),
        (20, 401), (3, 12), (1, 1.9),
    )  # fmt: skip
    return Piece(psi, np.array([0.0, -1]), _half_normal_reference, points)


def _half_normal_reference(y):
    mean, second = y
    ratio = second / mean**2
    if ratio <= 1:
        return INF
    if ratio >= 2:
        return -1 - mp.log(mean)

    def moments(a):  # of a normal with mean a, deviation 1, above 0
        h = mp.npdf(a) / (mp.erfc(-a / mp.sqrt(2)) / 2)
        first = a + h
        return first, 1 + a * first

    def gap(a):
        first, square = moments(a)
        return mp.log(square / first**2 - 1) - mp.log(ratio - 1)

    low, high = mp.mpf(-200), mp.mpf(1) / mp.sqrt(ratio - 1) + 5
    a = mp.findroot(gap, (low, high), solver="anderson", tol=1e-60, maxsteps=400)
    first, _ = moments(a)
    scale = mean / first
    linear, square = a / scale, -1 / (2 * scale**2)
    psi = a**2 / 2 + mp.log(2 * mp.pi * scale**2) / 2
    psi += mp.log(mp.erfc(-a / mp.sqrt(2)) / 2)
    return mean * linear + second * square - psi


# Sums of pieces


def product(*pieces):
    """ψ of all parameters, one piece after the other."""
    sizes = [piece.start.size for piece in pieces]
    ends = np.cumsum([0, *sizes])

    def psi(theta):
        total = jnp.zeros((), theta.dtype)
        for piece, a, b in zip(pieces, ends[:-1], ends[1:], strict=True):
            total = total + piece.psi([theta[k] for k in range(a, b)])
        return total

    def reference(y):
        y = [mp.mpf(float(v)) for v in np.ravel(y)]
        parts = [
            piece.reference(y[a:b])
            for piece, a, b in zip(pieces, ends[:-1], ends[1:], strict=True)
        ]
        return INF if any(part == INF for part in parts) else sum(parts)

    start = np.concatenate([piece.start for piece in pieces])
    return psi, start, reference

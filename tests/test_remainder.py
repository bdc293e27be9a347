"""Remainders B_f(y + δ, y) and gradient differences: closed forms and the default."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from cases import CONVEX

from bregjax import convex
from bregjax.convex import (
    ConvexFunction,
    Logistic,
    LogSumExp,
    NegativeEntropy,
    NegativeLogDeterminant,
    bregman_remainder,
)

mpmath.mp.dps = max(mpmath.mp.dps, 50)  # of whichever module asks for most

SMOOTH = [name for name in CONVEX if CONVEX[name].make().differentiable]
STRICT = [name for name in SMOOTH if CONVEX[name].strict]
KINKED = [name for name in CONVEX if len(CONVEX[name].kinks)]
WRAPPERS = ("scaled", "tilted", "sum")
SIMPLEX = ("simplex", "simplex_entropy")

smooth_functions = pytest.mark.parametrize("name", SMOOTH)


def _inner(f: ConvexFunction, a, b):
    axes = tuple(range(-f.event_ndim, 0))
    return (np.asarray(a) * np.asarray(b)).sum(axes)


def _inward(case, rng, x):
    """Directions along which x can move both ways: differences of domain points."""
    v = case.sample(rng, len(x)) - case.sample(rng, len(x))
    return v * 0.01 / np.abs(v).max()


# --- remainders ----------------------------------------------------------------------


def _separable_exact(value, slope):
    def exact(y, delta):
        return sum(
            value(a + d) - value(a) - slope(a) * d
            for a, d in zip(y, delta, strict=True)
        )

    return exact


def _mp_xlogx(x):
    return x * mpmath.log(x) if x else mpmath.mpf(0)


def _mp_log_sum_exp(y, delta):
    lse = lambda x: mpmath.log(sum(mpmath.exp(a) for a in x))
    end = [a + d for a, d in zip(y, delta, strict=True)]
    slope = sum(mpmath.exp(a - lse(y)) * d for a, d in zip(y, delta, strict=True))
    return lse(end) - lse(y) - slope


def _mp_norm(x):
    return mpmath.sqrt(sum(a * a for a in x))


def _mp_sphere_cumulant(y, delta):
    f = lambda x: mpmath.log(mpmath.sinh(_mp_norm(x)) / _mp_norm(x))
    end = [a + d for a, d in zip(y, delta, strict=True)]
    kappa = _mp_norm(y)
    along = sum(a * d for a, d in zip(y, delta, strict=True)) / kappa
    return f(end) - f(y) - (mpmath.coth(kappa) - 1 / kappa) * along


def _mp_sphere_entropy(y, delta):
    def kappa_of(length):
        gap = lambda k: mpmath.coth(k) - 1 / k - length
        return mpmath.findroot(gap, length * (3 - length**2) / (1 - length**2))

    def f(x):
        length = _mp_norm(x)
        kappa = kappa_of(length)
        return length * kappa - mpmath.log(mpmath.sinh(kappa) / kappa)

    end = [a + d for a, d in zip(y, delta, strict=True)]
    along = sum(a * d for a, d in zip(y, delta, strict=True)) / _mp_norm(y)
    return f(end) - f(y) - kappa_of(_mp_norm(y)) * along


def _mp_log_det(y, delta):
    start, step = mpmath.matrix(3, 3), mpmath.matrix(3, 3)
    for k in range(9):
        start[k // 3, k % 3], step[k // 3, k % 3] = y[k], delta[k]
    ratio = mpmath.inverse(start) * step
    trace = sum(ratio[k, k] for k in range(3))
    return trace - mpmath.log(mpmath.det(mpmath.eye(3) + ratio))


_log = mpmath.log
EXACT = {
    "negative_entropy": _separable_exact(_mp_xlogx, lambda x: _log(x) + 1),
    "burg": _separable_exact(lambda x: -_log(x), lambda x: -1 / x),
    "exponential": _separable_exact(
        lambda x: mpmath.exp(x + mpmath.mpf(0.3)),
        lambda x: mpmath.exp(x + mpmath.mpf(0.3)),
    ),
    "logistic": _separable_exact(
        lambda x: mpmath.log1p(mpmath.exp(x)), lambda x: 1 / (1 + mpmath.exp(-x))
    ),
    "binary_entropy": _separable_exact(
        lambda x: _mp_xlogx(x) + _mp_xlogx(1 - x), lambda x: _log(x) - _log(1 - x)
    ),
    "negative_binomial_entropy": _separable_exact(
        lambda x: _mp_xlogx(x) - _mp_xlogx(x + mpmath.mpf(2.5)),
        lambda x: _log(x) - _log(x + mpmath.mpf(2.5)),
    ),
    "negative_binomial_cumulant": _separable_exact(
        lambda x: -mpmath.mpf(2.5) * _log(-mpmath.expm1(x)),
        lambda x: mpmath.mpf(2.5) / mpmath.expm1(-x),
    ),
    "sphere_entropy": _mp_sphere_entropy,
    "sphere_cumulant": _mp_sphere_cumulant,
    "log_sum_exp": _mp_log_sum_exp,
    "log_det": _mp_log_det,
    "separable_sum": _separable_exact(
        lambda x: x**2 / 2 + x**4 / 4, lambda x: x + x**3
    ),
}


@pytest.mark.parametrize("name", list(EXACT))
@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e-2, 0.3, 0.9])
def test_remainder_to_fifty_digits(name, size, rng, dtype):
    case, f = CONVEX[name], CONVEX[name].make()
    y = case.sample(rng, 6).astype(dtype)
    delta = (size * (case.sample(rng, 6) - y)).astype(dtype)
    values = np.asarray(f.remainder(y, delta), float)
    bound = 1e-13 if dtype == np.float64 else 1e-5
    for k in range(6):
        point, step = (
            [mpmath.mpf(float(entry)) for entry in array[k].ravel()]
            for array in (y, delta)
        )
        exact = EXACT[name](point, step)
        # The matrix Y itself is known to eps times its condition number only.
        loss = np.linalg.cond(y[k]) / 10 if name == "log_det" else 1
        assert abs(values[k] - exact) <= bound * max(loss, 1) * abs(exact)


@pytest.mark.parametrize("offset", [-40.0, -10.0, 0.0, 30.0])
@pytest.mark.parametrize("size", [1e-9, 0.5, 1.5, 50.0])
def test_logistic_remainder_in_the_tails(offset, size, dtype):
    y = np.array([offset], dtype)
    for sign in (-1, 1):
        delta = np.array([sign * size], dtype)
        exact = EXACT["logistic"]([mpmath.mpf(offset)], [mpmath.mpf(float(delta[0]))])
        bound = 1e-13 if dtype == np.float64 else 1e-5
        value = float(Logistic().remainder(y, delta))
        # Far out in the flat tail exp(x) itself carries the rounding of x.
        assert abs(value - exact) <= 40 * bound * abs(exact)


def test_log_sum_exp_remainder_far_beyond_overflow(dtype):
    f, big = LogSumExp(), 1e4 if dtype == np.float64 else 500
    y, delta = np.array([0, -big, 3], dtype), np.array([0, 3 * big, -1], dtype)
    value = f.remainder(y, delta)
    expected = 2 * big - (3 + np.log1p(np.exp(-3))) + 1 / (1 + np.exp(-3))
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    difference = f.gradient_difference(y, delta)
    share = 1 / (1 + np.exp(-3))
    np.testing.assert_allclose(difference, [share - 1, 1, -share], rtol=1e-6)


@smooth_functions
def test_remainder_is_the_definition_and_zero_at_zero(name, rng, x64):
    case, f = CONVEX[name], CONVEX[name].make()
    y = case.sample(rng, 6)
    delta = case.sample(rng, 6) - y
    axes = (slice(None),) + (None,) * f.event_ndim
    plain = f(y + delta) - f(y) - _inner(f, f.gradient(y), delta)
    np.testing.assert_allclose(f.remainder(y, delta), plain, rtol=1e-9, atol=1e-11)
    jump = f.gradient(y + delta) - f.gradient(y)
    np.testing.assert_allclose(f.gradient_difference(y, delta), jump, atol=1e-9)
    np.testing.assert_array_equal(f.remainder(y, 0 * delta), 0)
    np.testing.assert_array_equal(f.gradient_difference(y, 0 * delta), 0 * delta)
    assert f.remainder(y[axes[:1]][:, None], delta[None]).shape == (6, 6)


@pytest.mark.parametrize("name", [name for name in SMOOTH if name not in WRAPPERS])
def test_closed_remainders_against_the_default(name, rng, x64):
    case, f = CONVEX[name], CONVEX[name].make()
    if name in SIMPLEX:
        f = NegativeEntropy()  # a gradient is no one vector on the simplex
    size = np.repeat([1e-9, 0.1, 0.9], 2).reshape((6,) + (1,) * f.event_ndim)
    y = case.sample(rng, 6)
    delta = size * (case.sample(rng, 6) - y)
    default = jax.jit(lambda y, d: ConvexFunction._remainder(f, y, d, None))
    np.testing.assert_allclose(f.remainder(y, delta), default(y, delta), rtol=1e-8)
    slopes = jax.jit(lambda y, d: ConvexFunction._gradient_difference(f, y, d))
    closed = np.asarray(f.gradient_difference(y, delta))
    scale = np.abs(closed).max(tuple(range(1, 1 + f.event_ndim)), keepdims=True)
    np.testing.assert_allclose(closed / scale, slopes(y, delta) / scale, atol=1e-7)


@pytest.mark.parametrize("name", STRICT)
def test_derivatives_of_remainders(name, rng, x64):
    case, f = CONVEX[name], CONVEX[name].make()
    if name in SIMPLEX:
        f = NegativeEntropy()
    y = case.sample(rng, 1)[0]
    delta, u, v = (0.3 * _inward(case, rng, y[None])[0] for _ in range(3))
    by_y, by_delta = jax.grad(f.remainder, (0, 1))(y, delta)
    h = 1e-4
    along_y = (f.remainder(y + h * u, delta) - f.remainder(y - h * u, delta)) / (2 * h)
    along = (f.remainder(y, delta + h * v) - f.remainder(y, delta - h * v)) / (2 * h)
    np.testing.assert_allclose(_inner(f, by_y, u), along_y, rtol=1e-4, atol=1e-11)
    np.testing.assert_allclose(_inner(f, by_delta, v), along, rtol=1e-4, atol=1e-11)


def test_remainder_of_the_determinant_at_equal_eigenvalues(x64):
    # Second derivatives too: an eigendecomposition would divide by their gap.
    f, eye = NegativeLogDeterminant(), jnp.eye(2)
    hessian = jax.jit(jax.hessian(lambda d: f.remainder(eye, d)))(jnp.zeros((2, 2)))
    v = np.array([[1.0, 0.3], [0.3, -0.5]])
    quadratic = np.einsum("ij,ijkl,kl", v, hessian, v)
    assert quadratic == pytest.approx((v**2).sum(), rel=1e-12)
    by_y = jax.grad(lambda y: f.remainder(y, 0.5 * eye))(eye)
    # tr Δ/y − log det(1 + Δ/y) at y = 1: d/dy = −δ + δ/(1 + δ) each.
    np.testing.assert_allclose(by_y, (-0.5 + 0.5 / 1.5) * np.eye(2), atol=1e-14)


def test_entropy_gradient_difference_at_the_boundary(dtype):
    y, delta = np.array([0, 3, 2], dtype), np.array([0, -3, 0], dtype)
    difference = NegativeEntropy().gradient_difference(y, delta)
    np.testing.assert_array_equal(difference, [0, -np.inf, 0])
    value = NegativeEntropy().remainder(y, delta)
    assert value == 3


def test_kink_remainders_follow_the_definition(rng, x64):
    for name in KINKED:
        case, f = CONVEX[name], CONVEX[name].make()
        y = jnp.asarray(case.kinks)
        x = rng.integers(-2, 3, y.shape).astype(float)
        defined = ConvexFunction._remainder(f, y, x - y, None)
        np.testing.assert_allclose(f.remainder(y, x - y), defined, atol=1e-12)


# --- the default remainder -----------------------------------------------------------


def _cosh(x):
    return jnp.sum(jnp.cosh(x))


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e-3, 0.03, 0.3, 1.0, 3.0, 30.0])
def test_default_remainder_on_both_sides_of_the_switch(size, rng, dtype):
    y = rng.normal(size=3).astype(dtype)
    delta = (size * rng.normal(size=3)).astype(dtype)
    value = float(convex.bregman_remainder(_cosh, y, delta))
    exact = _separable_exact(mpmath.cosh, mpmath.sinh)(
        *([mpmath.mpf(float(a)) for a in array] for array in (y, delta))
    )
    bound = 1e-13 if dtype == np.float64 else 3e-5
    assert abs(value - exact) <= bound * exact


def test_default_remainder_keeps_single_precision_in_64_bit_mode(x64):
    point, step = jnp.ones(1, jnp.float32), jnp.full(1, 1e-3, jnp.float32)
    value = bregman_remainder(lambda t: jnp.sum(jnp.exp(t)), point, step)
    assert value.dtype == np.float32
    exact = np.e * (np.expm1(1e-3) - 1e-3)
    np.testing.assert_allclose(value, exact, rtol=1e-5)


def test_default_remainder_takes_pytrees(x64):
    f = lambda tree: jnp.sum(jnp.exp(tree["a"])) + tree["b"] ** 2
    y, delta = {"a": jnp.ones(2), "b": 2.0}, {"a": jnp.full(2, 1e-8), "b": 1e-8}
    value = convex.bregman_remainder(f, y, delta)
    assert float(value) == pytest.approx((np.e + 1) * 1e-16, rel=1e-7)


def test_default_remainder_sees_kinks_between_the_points(dtype):
    f = lambda x: jnp.sum(jnp.maximum(x, 0)) + 0.1 * jnp.sum(x**2)
    y, delta = np.array([-1.0], dtype), np.array([1.0 + 1e-3], dtype)
    value = convex.bregman_remainder(f, y, delta)
    expected = 1e-3 + 0.1 * (1 + 1e-3) ** 2
    np.testing.assert_allclose(value, expected, rtol=1e-4)


def test_default_remainder_is_inf_outside_and_differentiable_inside(x64):
    f = lambda x: jnp.sum(jnp.where(x > 0, -jnp.log(jnp.where(x > 0, x, 1)), jnp.inf))
    assert convex.bregman_remainder(f, jnp.ones(2), -jnp.ones(2)) == np.inf
    y, delta = jnp.array([1.0, 2.0]), jnp.array([1e-5, -0.7])
    by_delta = jax.grad(lambda d: convex.bregman_remainder(f, y, d))(delta)
    np.testing.assert_allclose(by_delta, delta / y / (y + delta), rtol=1e-8)

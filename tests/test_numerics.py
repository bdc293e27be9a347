import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from bregjax._numerics import (
    burg_remainder,
    exp_remainder,
    kl_remainder,
    log_ratio,
    safe_norm,
    scale_tangent,
    sum_extended,
    xlogx,
)

mpmath.mp.dps = max(mpmath.mp.dps, 60)  # of whichever module asks for most


def _kl(y, delta):
    x = y + delta
    return (x * mpmath.log(x / y) if x else 0) - delta


def _burg(y, delta):
    return delta / y - mpmath.log((y + delta) / y)


def _log(y, delta):
    return mpmath.log((y + delta) / y)


def _exact(function, *columns):
    """The function at 60 digits of the arguments as they are rounded."""
    rows = zip(*(np.asarray(column, float) for column in columns), strict=True)
    return [function(*map(mpmath.mpf, row)) for row in rows]


def _relative_error(values, exact):
    pairs = zip(np.asarray(values, float), exact, strict=True)
    return max(
        float(abs(mpmath.mpf(value) - true) / abs(true)) if true else abs(value)
        for value, true in pairs
    )


@pytest.fixture
def ratios(rng):
    """δ/y from 1e−12 to 1e3 on both sides, and thick around the switch."""
    size = 10 ** rng.uniform(-12, 3, 300)
    below = -np.minimum(size[:150], rng.uniform(0.3, 0.999, 150))
    return np.concatenate([size[150:], below, rng.uniform(-0.4, 0.5, 200)])


@pytest.mark.parametrize(
    ("kernel", "exact"),
    [(kl_remainder, _kl), (burg_remainder, _burg), (log_ratio, _log)],
)
def test_kernels_keep_their_relative_accuracy(kernel, exact, ratios, rng, dtype):
    y = (10 ** rng.uniform(-3, 3, ratios.size)).astype(dtype)
    delta = (y * ratios).astype(dtype)
    bound = 5e-15 if dtype == np.float64 else 3e-6
    error = _relative_error(kernel(y, delta), _exact(exact, y, delta))
    assert error < bound
    with_end = _relative_error(jax.jit(kernel)(y, delta), _exact(exact, y, delta))
    assert with_end < bound


def test_exp_remainder_keeps_its_relative_accuracy(rng, dtype):
    size = 10 ** rng.uniform(-12, 1.5, 300) * rng.choice([-1, 1], 300)
    z = np.concatenate([size, rng.uniform(-1, 1, 100)]).astype(dtype)
    exact = _exact(lambda v: mpmath.expm1(v) - v, z)
    bound = 5e-15 if dtype == np.float64 else 3e-6
    assert _relative_error(exp_remainder(z), exact) < bound


def test_kl_remainder_at_the_boundary(dtype):
    y = np.array([0, 0, 3, 1, 2, -1, np.nan], dtype)
    delta = np.array([0, 2, -3, 0, -3, 1, 1], dtype)
    expected = [0, np.inf, 3, 0, np.inf, np.inf, np.nan]
    for value in (kl_remainder(y, delta), kl_remainder(y, delta, x=y + delta)):
        np.testing.assert_array_equal(value, expected)
        assert value.dtype == dtype


def test_log_ratio_and_burg_remainder_at_the_boundary(dtype):
    y = np.array([0, 0, 3, 2], dtype)
    delta = np.array([0, 2, -3, 0], dtype)
    np.testing.assert_array_equal(log_ratio(y, delta), [0, np.inf, -np.inf, 0])
    np.testing.assert_array_equal(burg_remainder(y, delta), [np.inf] * 3 + [0])


def test_a_sum_that_rounding_makes_negative_counts_as_zero(dtype):
    y = dtype.type(0.7)
    delta = np.nextafter(-y, -np.inf, dtype=dtype)
    assert float(kl_remainder(y, delta)) == pytest.approx(float(y))
    assert kl_remainder(y, dtype.type(-0.71)) == np.inf


@pytest.mark.parametrize("kernel", [kl_remainder, burg_remainder, log_ratio])
def test_kernel_derivatives_match_finite_differences(kernel, x64):
    y, delta = jnp.array([0.7, 2.0, 1.3, 0.5]), jnp.array([0.3, -1.2, 1e-3, 4.0])
    h = 1e-5
    by_y, by_delta = jax.grad(lambda a, d: kernel(a, d).sum(), (0, 1))(y, delta)
    along_y = (kernel(y + h, delta) - kernel(y - h, delta)) / (2 * h)
    along_delta = (kernel(y, delta + h) - kernel(y, delta - h)) / (2 * h)
    np.testing.assert_allclose(by_y, along_y, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(by_delta, along_delta, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kernel", [kl_remainder, burg_remainder])
def test_derivatives_by_the_end_point_agree_with_those_by_the_difference(kernel, x64):
    x, y = jnp.array([0.7, 2.0, 1.3]), jnp.array([0.6, 2.5, 1.3001])
    by_end = jax.grad(lambda a, b: kernel(b, a - b, x=a).sum(), (0, 1))(x, y)
    by_delta = jax.grad(lambda a, b: kernel(b, a - b).sum(), (0, 1))(x, y)
    np.testing.assert_allclose(by_end, by_delta, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1, 2.0])
def test_second_derivatives_of_the_remainders(delta, x64):
    # By y alone at fixed δ: ∂²/∂y² of x log(x/y) − δ is δ²/(x y²).
    y = 0.8
    second = jax.hessian(kl_remainder)(y, delta)
    assert second == pytest.approx(delta**2 / ((y + delta) * y**2), rel=1e-6)
    cross = jax.grad(jax.grad(burg_remainder, 1))(y, delta)
    step = 1e-6
    slope = lambda a: float(jax.grad(burg_remainder, 1)(a, delta))
    quotient = (slope(y + step) - slope(y - step)) / (2 * step)
    assert float(cross) == pytest.approx(quotient, rel=1e-4)


def test_derivatives_at_zeros_are_true_or_infinite_never_nan(dtype):
    # Parts (0, 0), (0, 6), (6, 0) of a merge: x, and the mean y of the two.
    x, other = np.array([0, 0, 6], dtype), np.array([0, 6, 0], dtype)

    def cost(a, b):
        middle = (a + b) / 2
        return jnp.sum(
            kl_remainder(middle, (a - b) / 2, x=a)
            + kl_remainder(middle, (b - a) / 2, x=b)
        )

    by_x, by_other = jax.grad(cost, (0, 1))(x, other)
    np.testing.assert_allclose(by_x, [0, -np.inf, np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(by_other, [0, np.log(2), -np.inf], rtol=1e-6)


def test_infinite_slopes_meet_no_motion_and_no_cotangent(dtype):
    zero, one = dtype.type(0), dtype.type(1)
    assert jax.jvp(xlogx, (zero,), (zero,))[1] == 0
    assert jax.jvp(xlogx, (zero,), (one,))[1] == -np.inf
    assert jax.grad(lambda x: 0 * xlogx(x))(zero) == 0
    assert jax.grad(xlogx)(zero) == -np.inf
    slope = jnp.array([np.inf, -np.inf, 2], dtype)
    tangent = jnp.array([0, 3, 5], dtype)
    np.testing.assert_array_equal(scale_tangent(slope, tangent), [0, -np.inf, 10])


def test_motion_along_the_boundary_has_a_finite_derivative(dtype):
    # x = y + δ stays 0 while y moves: K = y, so the derivative is 1.
    y = dtype.type(3)
    along = lambda a: kl_remainder(a, -a)
    assert jax.jvp(along, (y,), (dtype.type(1),))[1] == 1


def test_xlogx(dtype):
    x = np.array([0, 1, 2, -1], dtype)
    np.testing.assert_allclose(xlogx(x), [0, 0, 2 * np.log(2), np.inf], rtol=1e-6)
    assert xlogx(np.array([2, 3])).dtype == jnp.result_type(float)


def test_safe_norm_has_a_gradient_at_zero(dtype):
    x = np.array([[3, 4], [0, 0]], dtype)
    np.testing.assert_allclose(safe_norm(x), [5, 0])
    gradient = jax.grad(lambda a: safe_norm(a).sum())(x)
    np.testing.assert_allclose(gradient, [[0.6, 0.8], [0, 0]], rtol=1e-6)


def test_leaving_the_domain_beats_falling_without_bound():
    slopes = jnp.array([[-np.inf, np.inf, 1], [-np.inf, 1, 2], [1, 2, 3]])
    np.testing.assert_array_equal(sum_extended(slopes), [np.inf, -np.inf, 6])

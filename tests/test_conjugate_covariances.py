"""Full covariances in any orientation: where the conjugate solver is worst conditioned.

In (x, xxᵀ) the Hessian of a Gaussian has the square of the covariance's condition.
Dozens of random ones in the default run, hundreds in the slow one.
"""

from collections import Counter
from fractions import Fraction

import conjugate_cases as cases
import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from bregjax import Result
from bregjax.convex import conjugate
from bregjax.convex._solvers.outcome import inner_product

TOLERANCE = {4: 1e-5, 8: 1e-10}
COUNTS = [15, pytest.param(150, marks=pytest.mark.slow)]


@pytest.fixture
def solve(dtype):
    start = cases.gaussian_start(3)()
    conj = conjugate(
        cases.gaussian, jax.tree.map(lambda v: jnp.asarray(v, dtype), start)
    )
    return lambda y: conj(jax.tree.map(jnp.asarray, y))


def moments(rng, variances, dtype, distance=5.0):
    """Moments with these variances along random axes, as rounded to `dtype`."""
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    covariance = (turn * np.asarray(variances)) @ turn.T
    mean = rng.choice([0.0, 1.0, distance]) * rng.normal(size=3)
    second = (covariance + covariance.T) / 2 + np.outer(mean, mean)
    return mean.astype(dtype), second.astype(dtype)


def least_variance(y):
    """Least eigenvalue of the covariance of rounded moments, in roundings of them."""
    mean, second = (np.asarray(part, np.float64) for part in y)
    mu = mp.matrix([mp.mpf(v) for v in mean])
    both = mp.matrix(second.tolist())
    values = mp.eigsy((both + both.T) / 2 - mu * mu.T, eigvals_only=True)
    eps = np.finfo(y[0].dtype).eps
    return float(min(values)) / (eps * np.max(np.abs(second)))


def share(solution, y):
    """Error of the value as a share of |<y, θ>| + |f(θ)|."""
    exact = float(cases.gaussian_reference(jax.tree.map(np.float64, y))[0])
    pairs = zip(y, solution.maximiser, strict=True)
    inner = sum(np.sum(np.float64(a) * np.float64(b)) for a, b in pairs)
    return abs(float(solution.value) - exact) / (abs(inner) + abs(inner - exact))


def code(solution):
    return Result(int(solution.result))


@pytest.mark.parametrize("count", COUNTS)
def test_singular_covariances_are_on_the_boundary(solve, dtype, rng, count):
    missed = 0
    for _ in range(count):
        variances = (
            (0, 1, 1) if rng.random() < 0.5 else (0, *10 ** rng.uniform(-2, 2, 2))
        )
        solution = solve(moments(rng, variances, dtype))
        if code(solution) is Result.BOUNDARY:
            assert np.isposinf(solution.value)
        else:
            assert code(solution) is Result.STALLED
            missed += 1
    assert missed <= (0 if dtype.itemsize == 8 else 0.01) * count


@pytest.mark.parametrize("count", COUNTS)
def test_one_dimensional_spread_never_converges(solve, dtype, rng, count):
    codes = Counter(
        code(solve(moments(rng, (0, 0, rng.uniform(0.1, 10)), dtype)))
        for _ in range(count)
    )
    assert codes[Result.BOUNDARY] >= 0.9 * count
    assert set(codes) <= {Result.BOUNDARY, Result.STALLED, Result.STEP_LIMIT}


@pytest.mark.parametrize("count", COUNTS)
def test_negative_variances_are_outside(solve, dtype, rng, count):
    codes, clear = Counter(), 0
    for _ in range(count):
        y = moments(rng, (-1e-3, *10 ** rng.uniform(-1, 1, 2)), dtype)
        solution = solve(y)
        # Fewer roundings leave single precision too short a way to tell.
        if least_variance(y) < -1e4:
            assert code(solution) in {Result.OUTSIDE, Result.STALLED}, y
            clear += 1
        assert np.isposinf(solution.value) or code(solution) is Result.STALLED
        codes[code(solution)] += 1
    assert set(codes) <= {Result.OUTSIDE, Result.BOUNDARY, Result.STALLED}
    assert codes[Result.OUTSIDE] >= 0.95 * clear > 0


@pytest.mark.parametrize("count", COUNTS)
def test_no_converged_value_is_wrong(solve, dtype, rng, count):
    """Deviations from 0.01 to 10, mean up to 10: condition to 1e6."""
    codes, inside = Counter(), 0
    for _ in range(count):
        y = moments(rng, 100.0 ** rng.uniform(-2, 1, 3), dtype, 10.0)
        roundings = least_variance(y)
        solution = solve(y)
        if code(solution) is Result.CONVERGED:
            assert share(solution, y) <= TOLERANCE[dtype.itemsize]
        elif code(solution) is Result.BOUNDARY:
            assert roundings < 500
        else:
            assert code(solution) is Result.STALLED
        inside += roundings > 500
        codes[code(solution)] += 1
    # The rest is lost to the rounding of f, some eps times the condition.
    assert codes[Result.CONVERGED] >= (1 if dtype.itemsize == 8 else 0.8) * inside


def test_condition_twelve_is_beyond_double_precision(x64, rng):
    """Roundings of f next to the solution are far above 1e-10: no value to certify."""
    start = jax.tree.map(jnp.asarray, cases.gaussian_start(3)())
    conj = conjugate(cases.gaussian, start)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    covariance = (turn * np.array([1e-6, 1.0, 1e6])) @ turn.T
    y = np.zeros(3), (covariance + covariance.T) / 2
    solution = conj(jax.tree.map(jnp.asarray, y))
    exact, theta = cases.gaussian_reference(y)
    assert code(solution) is Result.STALLED
    # The reference maximiser, rounded, does no better.
    best = np.array([float(v) for v in theta[3:]]).reshape(3, 3)
    values = []
    for _ in range(20):
        near = best * (1 + rng.uniform(-1, 1, (3, 3)) * np.finfo(float).eps)
        values.append(float(cases.gaussian((jnp.zeros(3), jnp.asarray(near)))))
    assert np.std(values) > 1e3 * TOLERANCE[8] * abs(float(exact))


@pytest.mark.parametrize("size", [1, 12, 1000])
def test_inner_product_has_twice_the_precision(dtype, rng, size):
    left, right = (
        (rng.normal(size=size) * 10 ** rng.uniform(-6, 6, size)).astype(dtype)
        for _ in range(2)
    )
    high, low = jax.jit(inner_product)(left, right)
    exact = [
        Fraction(float(a)) * Fraction(float(b))
        for a, b in zip(left, right, strict=True)
    ]
    found = Fraction(float(high)) + Fraction(float(low))
    total = sum(abs(v) for v in exact)
    assert abs(found - sum(exact)) <= 4 * size * float(np.finfo(dtype).eps) ** 2 * total


def test_inner_product_next_to_the_largest_number(dtype):
    """Half of the largest number is finite; its parts, rounded up, are not."""
    largest = np.finfo(dtype).max
    high, low = inner_product(jnp.array([largest]), jnp.array([0.5], dtype))
    assert (high, low) == (largest / 2, 0)

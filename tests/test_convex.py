"""Every function of the stock against its closed form, and against the others."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CONVEX, MAP

from bregjax import convex
from bregjax.convex import (
    Affine,
    Burg,
    ConvexFunction,
    L1Norm,
    LogSumExp,
    Mahalanobis,
    NegativeEntropy,
    NegativeLogDeterminant,
    NumericalConjugate,
    Scaled,
    SeparableSum,
    SimplexEntropy,
    SquaredNorm,
    Sum,
    SumExp,
    Tilted,
    conjugate,
)

NAMES = list(CONVEX)
SMOOTH = [name for name in NAMES if CONVEX[name].make().differentiable]
# One of each kind by default; the solver has tests of its own.
QUICK = ("negative_entropy", "affine")
NUMERIC = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
    for name in NAMES
    if CONVEX[name].start is not None
]
KINKED = [name for name in NAMES if len(CONVEX[name].kinks)]
EDGED = [name for name in NAMES if len(CONVEX[name].edge)]
BOUNDED = [name for name in NAMES if len(CONVEX[name].outside)]
SOLVED = ("sum", "separable_sum")

all_functions = pytest.mark.parametrize("name", NAMES)
smooth_functions = pytest.mark.parametrize("name", SMOOTH)


def _inner(f: ConvexFunction, a, b):
    axes = tuple(range(-f.event_ndim, 0))
    return (np.asarray(a) * np.asarray(b)).sum(axes)


def _close(actual, expected, dtype, scale=1.0):
    tolerance = (2e-12 if dtype == np.float64 else 2e-5) * scale
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def _inward(case, rng, x):
    """Directions along which x can move both ways: differences of domain points."""
    v = case.sample(rng, len(x)) - case.sample(rng, len(x))
    return v * 0.01 / np.abs(v).max()


# --- values and domains --------------------------------------------------------------


@all_functions
def test_value_is_the_closed_form_on_batches(name, rng, dtype):
    case, f = CONVEX[name], CONVEX[name].make()
    x = case.sample(rng, 6).astype(dtype)
    batch = x.reshape((2, 3, *x.shape[1:]))
    value = f(batch)
    assert value.shape == (2, 3)
    assert value.dtype == dtype
    _close(value, case.value(batch.astype(float)), dtype, 10)
    assert f.contains(batch).all()
    _close(f(x[0]), value[0, 0], dtype)


@pytest.mark.parametrize("name", BOUNDED)
def test_value_outside_the_domain_is_inf(name, dtype):
    f, x = CONVEX[name].make(), CONVEX[name].outside.astype(dtype)
    np.testing.assert_array_equal(f(x), np.inf)
    assert not f.contains(x).any()


@pytest.mark.parametrize("name", EDGED)
def test_value_on_the_boundary_is_the_limit(name, rng, dtype):
    case, f = CONVEX[name], CONVEX[name].make()
    edge = case.edge.astype(dtype)
    inside = case.sample(rng, 1).astype(dtype)
    assert f.contains(edge).all()
    _close(f(edge), case.value(edge.astype(float)), dtype)
    near = edge + 1e-5 * (inside - edge)
    np.testing.assert_allclose(f(edge), case.value(near.astype(float)), atol=2e-3)


@all_functions
def test_convex_on_segments(name, rng, x64):
    case, f = CONVEX[name], CONVEX[name].make()
    x, y = case.sample(rng, 40), case.sample(rng, 40)
    share = rng.uniform(0, 1, (40,) + (1,) * f.event_ndim)
    weight = share.reshape(-1)
    chord = weight * np.asarray(f(x)) + (1 - weight) * np.asarray(f(y))
    slack = 50 * np.finfo(float).eps * (1 + np.abs(chord))
    assert (np.asarray(f(share * x + (1 - share) * y)) <= chord + slack).all()


@all_functions
def test_event_axes_must_agree(name):
    f = CONVEX[name].make()
    point, longer = np.ones((3,) * f.event_ndim), np.ones((4,) * f.event_ndim)
    for call in (f.directional_derivative, f.remainder, f.gradient_difference):
        with pytest.raises(ValueError, match="axes exist and agree"):
            call(point, longer)
    with pytest.raises(ValueError, match="axes exist and agree"):
        f(np.ones((3,) * (f.event_ndim - 1)))


def test_integers_are_taken_as_floats():
    assert Burg()(np.array([1, 2])) == pytest.approx(-np.log(2))
    gradient = NegativeEntropy().gradient(np.array([1, 2], np.uint16))
    np.testing.assert_allclose(gradient, [1, 1 + np.log(2)], rtol=1e-6)


def test_separability_is_declared_where_it_holds(rng, x64):
    for case in CONVEX.values():
        f = case.make()
        if not f.separable:
            continue
        x = case.sample(rng, 1)[0]
        parts = sum(float(f(number[None])) for number in x)
        # The constant of a conjugate counts coordinates.
        assert float(f(x)) == pytest.approx(parts, rel=1e-12, abs=1e-12)


def test_negative_log_determinant_refuses_what_a_determinant_accepts(dtype):
    f = NegativeLogDeterminant()
    two_flips, skew = -np.eye(2, dtype=dtype), np.eye(2, dtype=dtype)
    skew[0, 1] = 0.5
    assert f(two_flips) == np.inf
    assert f(skew) == np.inf
    rounded = np.array([[1, 0.5], [0.5 * (1 + np.finfo(dtype).eps), 1]], dtype)
    assert np.isfinite(f(rounded))


# --- gradients and one-sided derivatives ---------------------------------------------


@smooth_functions
def test_gradient_matches_finite_differences_and_jax(name, rng, x64):
    case, f = CONVEX[name], CONVEX[name].make()
    x = case.sample(rng, 6)
    v = _inward(case, rng, x)
    h = 1e-5
    quotient = (f(x + h * v) - f(x - h * v)) / (2 * h)
    slope = _inner(f, f.gradient(x), v)
    np.testing.assert_allclose(slope, quotient, rtol=1e-5, atol=1e-9)
    _close(f.directional_derivative(x, v), slope, x64)
    traced = jax.vmap(jax.grad(f))(x)
    _close(_inner(f, traced, v), slope, x64)
    assert f.gradient(x).shape == x.shape


@all_functions
def test_one_sided_derivative_is_the_limit_of_quotients(name, rng, x64):
    case, f = CONVEX[name], CONVEX[name].make()
    inside = case.sample(rng, 6)
    singular = [points for points in (case.kinks, case.edge) if len(points)]
    x = np.concatenate([inside, *singular])
    v = case.sample(rng, len(x)) - x  # towards the domain, wherever x is
    h = 1e-7
    quotient = (f(x + h * v) - f(x)) / h
    slope = np.asarray(f.directional_derivative(x, v))
    finite = np.isfinite(slope)
    np.testing.assert_allclose(slope[finite], quotient[finite], rtol=1e-4, atol=1e-5)
    # x log x at 0 falls without bound: nearer quotients are lower by a fixed amount.
    nearer = (f(x + 1e-3 * h * v) - f(x)) / (1e-3 * h)
    assert (nearer[~finite] < quotient[~finite] - 1e-2).all()
    assert (slope[~finite] == -np.inf).all()


@pytest.mark.parametrize("name", KINKED)
def test_one_sided_derivative_agrees_with_the_transformation(name, rng, x64):
    case, f = CONVEX[name], CONVEX[name].make()
    x = np.concatenate([case.kinks, case.sample(rng, 6)])
    v = rng.integers(-2, 3, x.shape).astype(float)
    by_rule = jax.vmap(lambda a, b: convex.directional_derivative(f._value, a, b))(x, v)
    np.testing.assert_array_equal(f.directional_derivative(x, v), by_rule)


@pytest.mark.parametrize("name", EDGED)
def test_leaving_the_domain_has_slope_inf(name, rng, dtype):
    case, f = CONVEX[name], CONVEX[name].make()
    edge = case.edge.astype(dtype)
    v = (edge - case.sample(rng, len(edge))).astype(dtype)
    np.testing.assert_array_equal(f.directional_derivative(edge, v), np.inf)


def test_leaving_in_one_coordinate_beats_falling_in_another(dtype):
    zero, v = np.zeros(2, dtype), np.array([1, -1], dtype)
    assert NegativeEntropy().directional_derivative(zero, v) == np.inf
    assert NegativeEntropy().directional_derivative(zero, abs(v)) == -np.inf
    assert NegativeEntropy().directional_derivative(zero, 0 * v) == 0


# --- conjugates ----------------------------------------------------------------------


@smooth_functions
def test_fenchel_young_equality_and_inverse_gradients(name, rng, x64):
    case, f = CONVEX[name], CONVEX[name].make()
    x = case.sample(rng, 6)
    dual, y = f.conjugate(), f.gradient(x)
    _close(f(x) + dual(y), _inner(f, x, y), x64, 50)
    back = dual.gradient(y)
    if case.strict and name != "simplex_entropy":
        np.testing.assert_allclose(back, x, rtol=1e-9)
    again = f.gradient(back)
    np.testing.assert_allclose(again, y, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SOLVED])
def test_fenchel_young_inequality(name, rng, x64):
    case, f = CONVEX[name], CONVEX[name].make()
    x, other = case.sample(rng, 6), case.sample(rng, 6)
    dual = f.conjugate()
    y = np.asarray(f.gradient(other))
    gap = f(x) + dual(y) - _inner(f, x, y)
    assert (gap > -1e-9).all()
    assert np.isfinite(gap).all()


@all_functions
def test_the_conjugate_of_the_conjugate_is_the_function(name, rng, dtype):
    case, f = CONVEX[name], CONVEX[name].make()
    x = case.sample(rng, 6).astype(dtype)
    _close(f.conjugate().conjugate()(x), f(x), dtype, 10)


@pytest.mark.parametrize("name", NUMERIC)
def test_closed_conjugate_against_the_numerical_one(name, rng, x64):
    case, f = CONVEX[name], CONVEX[name].make()
    y = f.gradient(case.sample(rng, 6))
    # Column by column where f is a sum: that solver compiles in no time.
    solve = conjugate(f, case.start, separable=f.separable)
    solution = jax.vmap(solve)(y)
    _close(f.conjugate()(y), solution.value, x64, 100)
    # By their images: the maximiser of an overcomplete function is not the only one.
    back = f.gradient(f.conjugate().gradient(y))
    _close(back, f.gradient(solution.maximiser), x64, 1e4)


def test_conjugates_of_norms_and_max_are_indicators(dtype):
    y = np.array([[0.5, -0.5, 0], [1, -1, 1], [0.2, 0.3, 0.5], [1.1, 0, 0]], dtype)
    in_max_ball, in_l1_ball, in_simplex = [
        [0 if inside else np.inf for inside in row]
        for row in ([1, 1, 1, 0], [1, 0, 1, 0], [0, 0, 1, 0])
    ]
    np.testing.assert_array_equal(L1Norm().conjugate()(y), in_max_ball)
    np.testing.assert_array_equal(convex.MaxNorm().conjugate()(y), in_l1_ball)
    np.testing.assert_array_equal(convex.Max().conjugate()(y), in_simplex)


def test_simplex_membership_allows_for_rounding(rng, dtype):
    x = rng.dirichlet(np.ones(2000), 20).astype(dtype)
    assert SimplexEntropy().contains(x).all()
    assert not SimplexEntropy().contains(x * (1 + 3e-2)).any()


def test_operations_without_a_closed_conjugate_say_what_to_do():
    with pytest.raises(ValueError, match="give `Sum` a `start`"):
        Sum((SquaredNorm(), LogSumExp())).conjugate()
    with pytest.raises(ValueError, match="only for a square `matrix`; got shape"):
        Affine(SquaredNorm(), MAP[:2]).conjugate()
    with pytest.raises(ValueError, match="`matrix` of shape"):
        Affine(SquaredNorm(), MAP)(np.ones(2))


def test_numerical_conjugate_far_apart_and_close(rng, x64):
    # Exp has a closed conjugate: y log y − y.
    f = NumericalConjugate(SeparableSum(jnp.exp), 0.0)
    closed = NegativeEntropy(-1.0)
    y = 10 ** rng.uniform(-4, 4, (5, 3))
    for size in (1e-10, 1e-3, 3.0):
        delta = y * size * rng.uniform(0.5, 1, (5, 3))
        _close(f.remainder(y, delta) / closed.remainder(y, delta), 1, x64)
        ratio = f.gradient_difference(y, delta) / closed.gradient_difference(y, delta)
        _close(ratio, 1, x64)
    assert f.solve(y).result.shape == (5,)


def test_numerical_conjugate_of_a_coupled_function(rng, x64):
    # Overcomplete: the gradient of logsumexp has no unique inverse.
    f = NumericalConjugate(LogSumExp(), 0.0)
    y, end = rng.dirichlet(np.ones(3), 4), rng.dirichlet(np.ones(3), 4)
    for share in (1e-9, 1e-4, 0.9):
        delta = share * (end - y)
        closed = SimplexEntropy().remainder(y, delta)
        np.testing.assert_allclose(f.remainder(y, delta), closed, rtol=1e-6)
    # Towards the boundary only the value is left.
    vertex = np.array([0.0, 0.0, 1.0])
    ends = f.remainder(y, vertex - y)
    np.testing.assert_allclose(ends, -np.log(y[:, 2]), rtol=1e-6)


# --- under transformations -----------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SOLVED])
def test_jit_and_vmap_change_nothing_and_nothing_retraces(name, rng, x64):
    case = CONVEX[name]
    f = case.make()
    y, other = case.sample(rng, 6), case.sample(rng, 6)
    delta = 0.3 * (other - y)
    chex.clear_trace_counter()

    @jax.jit
    @chex.assert_max_traces(1)
    def everything(f, y, delta):
        return f(y), f.gradient(y), f.remainder(y, delta), f.conjugate()(f.gradient(y))

    compiled = everything(f, y, delta)
    everything(case.make(), other, delta)
    plain = f(y), f.gradient(y), f.remainder(y, delta), f.conjugate()(f.gradient(y))
    for a, b in zip(compiled, plain, strict=True):
        _close(a, b, x64, 10)
    mapped = jax.vmap(f.remainder)(y, delta)
    _close(mapped, plain[2], x64, 10)


def test_derivatives_by_the_leaves_of_a_function(x64):
    x, y = jnp.array([0.5, 2.0, 1.0]), jnp.array([1.0, 1.5, 1.1])
    by_matrix = jax.grad(lambda f: f.remainder(y, x - y))(Mahalanobis(jnp.eye(3)))
    np.testing.assert_allclose(by_matrix.matrix, np.outer(x - y, x - y) / 2)
    by_factor = jax.grad(lambda f: f(x))(Scaled(Burg(), 2.0))
    assert float(by_factor.factor) == pytest.approx(float(Burg()(x)))
    by_shift = jax.grad(lambda f: f.conjugate()(x))(SumExp(0.3))
    assert float(by_shift.shift) == pytest.approx(-float(x.sum()))
    tilted = jax.grad(lambda f: f.conjugate()(-x))(Tilted(Burg(), 0.0 * x, 0.0))
    np.testing.assert_allclose(tilted.slope, -1 / x, rtol=1e-12)


def test_log_sum_exp_of_large_parameters_is_finite_with_its_gradient(dtype):
    x = np.array([800, 810, 0], dtype)
    assert float(LogSumExp()(x)) == pytest.approx(810.0000454, rel=1e-6)
    for gradient in (LogSumExp().gradient(x), jax.grad(LogSumExp())(x)):
        np.testing.assert_allclose(
            gradient, [4.53978687e-5, 0.9999546, 0], rtol=2e-5, atol=1e-30
        )


@pytest.mark.parametrize("name", KINKED + EDGED)
def test_gradients_at_zeros_and_ties_are_not_nan(name):
    case, f = CONVEX[name], CONVEX[name].make()
    points = np.float32(case.kinks if len(case.kinks) else case.edge)
    assert not np.isnan(jax.vmap(jax.grad(f))(points)).any()
    assert not np.isnan(f.gradient(points)).any()

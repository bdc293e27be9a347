"""Gamma and inverse Gaussian clusters against 60 digits; the gamma's entropy."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import bregjax as bj
from bregjax import Result
from bregjax.clusters import Moments, ScatterModel
from bregjax.clusters._gamma_entropy import (
    entropy_of_scatter,
    entropy_remainder,
    rest_of_entropy,
    rest_tables,
    screening_rates,
    shape_difference,
    shape_of_scatter,
)
from bregjax.clusters._scatters import Scatters, ScatterState, Spread
from bregjax.convex._pieces import fit_pieces, largest_error
from bregjax.families import FAMILIES, DiagonalGaussian, Gamma, InverseGaussian
from bregjax.smoothing import adding, mixing, pseudo_count

mp.mp.dps = max(mp.mp.dps, 80)  # of whichever module asks for most
SPREADS: tuple[Spread, ...] = ("log", "reciprocal")
both_spreads = pytest.mark.parametrize("spread", SPREADS)


# --- In 80 digits --------------------------------------------------------------------


@functools.cache
def mp_shape(s):
    """The k with log k − digamma(k) = s, for a number of many digits."""
    start = (3 - s + mp.sqrt((s - 3) ** 2 + 24 * s)) / (12 * s)
    gap = lambda l: mp.log((l - mp.digamma(mp.exp(l))) / s)
    return mp.exp(mp.findroot(gap, mp.log(start)))


def mp_entropy(s, spread="log"):
    if spread == "reciprocal":
        return mp.log(s) / 2
    k = mp_shape(s)
    return k * s - k * mp.log(k) + k + mp.loggamma(k)


def mp_gap(spread, p, a, q, b):
    c = p * a + q * b
    if spread == "log":
        return mp.log(c) - p * mp.log(a) - q * mp.log(b)
    return p / a + q / b - 1 / c


def mp_cost(spread, w_a, m_a, s_a, w_b, m_b, s_b):
    """w G(s) − w_a G(s_a) − w_b G(s_b) of one column."""
    w = w_a + w_b
    s = (w_a * s_a + w_b * s_b) / w + mp_gap(spread, w_a / w, m_a, w_b / w, m_b)
    G = lambda s: mp_entropy(s, spread)
    return w * G(s) - w_a * G(s_a) - w_b * G(s_b)


def exactly(*numbers):
    return [mp.mpf(float(v)) for v in numbers]


def relative(found, expected):
    return float(abs(mp.mpf(float(found)) - expected) / abs(expected))


# --- Pieces --------------------------------------------------------------------------


def test_pieces_of_a_sine(dtype):
    both = lambda u: np.stack([np.sin(u), np.cos(u)])
    pieces = fit_pieces(both, 0.0, 4.0, count=16, degree=9)
    assert np.all(largest_error(pieces, both) < 1e-15)
    u = jnp.linspace(0, 4, 1001, dtype=dtype)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(pieces[0](u), np.sin(u), atol=4 * eps)
    ends = jax.jit(pieces[0])(jnp.array([-3.0, 7.0, jnp.inf, jnp.nan], dtype))
    expected = [0, np.sin(4), np.sin(4), np.nan]
    np.testing.assert_allclose(ends, expected, atol=4 * eps)
    coarse = fit_pieces(both, 0.0, 4.0, count=4, degree=3)
    assert np.all(largest_error(coarse, both) > 1e-4)


def test_tables_are_good_to_rounding():
    assert np.all(largest_error(rest_tables(), rest_of_entropy) < 3e-16)
    u = np.array([-9.0, -2.0, 0.0, 0.7, 3.0, 11.0, 30.0])
    value, slope, bend = rest_of_entropy(u)
    for i, place in enumerate(u):
        s = mp.exp(mp.mpf(place))
        rest = mp_entropy(s) - (1 + mp.log(4 * mp.pi) + mp.log(s * (1 + s / 3))) / 2
        share = s / (3 + s)
        k = mp_shape(s)
        curvature = s * s / (mp.polygamma(1, k) - 1 / k)
        assert abs(float(value[i]) - float(rest)) < 1e-15
        assert abs(float(slope[i]) - float(k * s - (1 + share) / 2)) < 1e-15
        assert abs(float(bend[i]) - float(curvature - (1 + share**2) / 2)) < 1e-15


def test_screening_rates_leave_a_concave_rest():
    """G − ½ log(s (1 + c s)) up to the scatter that c is for: slope and curvature."""
    knots, rates = screening_rates()
    assert np.all(np.diff(rates) <= 0)
    for u in (-5.0, -1.0, 1.0, 4.0, 12.0):
        c = float(rates[np.searchsorted(knots, u)])
        for below in (0.0, 0.01, 0.5, 3.0, 9.0):
            s = mp.exp(u - mp.mpf(below))
            k = mp_shape(s)
            share = c * s / (1 + c * s)
            assert k * s >= (1 + share) / 2
            assert s * s / (mp.polygamma(1, k) - 1 / k) >= (1 + share**2) / 2
        s = mp.exp(mp.mpf(u) + 1)  # and c is not much less than could be
        assert c > 0.5 * min(2 * mp_shape(s) * s - 1, 1) / s


# --- The entropy ---------------------------------------------------------------------


def _points(dtype, count=40):
    rng = np.random.default_rng(3)
    reach = (14, 12) if dtype == np.float64 else (10, 8)
    y = (10 ** rng.uniform(-reach[0], reach[1], count)).astype(dtype)
    apart = 10 ** np.concatenate(
        [rng.uniform(-9, -1, count // 2), rng.uniform(-1, 2, count - count // 2)]
    )
    apart[::2] = -np.minimum(apart[::2], 0.9)
    return y, (y * apart).astype(dtype)


def test_entropy_and_shape_in_80_digits(dtype):
    y, _ = _points(dtype)
    eps = np.finfo(dtype).eps
    value, shape = entropy_of_scatter(jnp.asarray(y)), shape_of_scatter(jnp.asarray(y))
    assert value.dtype == dtype
    for i, s in enumerate(exactly(*y)):
        expected = mp_entropy(s)
        size = 1 + abs(float(mp.log(s)))
        assert abs(float(value[i]) - float(expected)) < 3 * eps * size
        assert relative(shape[i], mp_shape(s)) < 4 * eps


def test_remainders_keep_their_digits(dtype):
    y, delta = _points(dtype)
    eps = np.finfo(dtype).eps
    s = (y + delta).astype(dtype)
    found = jax.jit(entropy_remainder)(s, y, delta)
    slopes = jax.jit(shape_difference)(s, y, delta)
    for i in range(len(y)):
        (at, step) = exactly(y[i], delta[i])
        exact = mp_entropy(at) - mp_entropy(at + step) + mp_shape(at) * step
        assert relative(found[i], exact) < 100 * eps, (y[i], delta[i])
        exact = mp_shape(at) - mp_shape(at + step)
        assert relative(slopes[i], exact) < 100 * eps, (y[i], delta[i])
    zero = entropy_remainder(*jnp.asarray([1.0, 1.0, 0.0], dtype))
    assert zero == 0


def test_derivatives_of_the_entropy_are_those_of_80_digits(x64):
    """Three times, in forward and in reverse mode."""
    orders = [entropy_of_scatter]
    for _ in range(3):
        orders.append(jax.grad(orders[-1]))
    twice = jax.jit(jax.jacfwd(jax.jacfwd(entropy_of_scatter)))
    for s in (1e-9, 0.02, 1.3, 50.0, 1e7):
        (exact,) = exactly(s)
        k = mp_shape(exact)
        rate = 1 / k - mp.polygamma(1, k)
        expected = [mp_entropy(exact), k, 1 / rate]
        expected.append((1 / k**2 + mp.polygamma(2, k)) / rate**3)
        for order, value in enumerate(expected):
            found = jax.jit(orders[order])(s)
            assert relative(found, value) < (1e-15, 1e-15, 1e-14, 1e-9)[order] * 30
        assert relative(twice(s), expected[2]) < 1e-13


# --- Costs ---------------------------------------------------------------------------


@jax.jit
def _cost(model, means, scatters, weights):
    """Of two clusters `[2, d]`."""
    leaves = model.leaves(Scatters(means, scatters, model.spread), weights)
    a, b = (jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], leaves) for i in (0, 1))
    return model.merge_cost(a, b)[0]


PAIRS = {
    "near": ([3.0, 3.0 * (1 + 1e-9)], [0.2, 0.2 * (1 - 1e-9)]),
    "near_means": ([3.0, 3.0 * (1 + 1e-7)], [0.2, 0.2]),
    "near_scatters": ([3.0, 3.0], [0.2, 0.2 * (1 + 1e-7)]),
    "far": ([3e-4, 70.0], [0.2, 1.5]),
    "tiny": ([2.0, 2.0 * (1 + 3e-7)], [1e-14, 3e-14]),
    "tiny_and_far": ([2.0, 9.0], [1e-14, 3e-10]),
    "huge": ([2.0, 9.0], [1e9, 3e7]),
    "tiny_and_huge": ([2.0, 2.1], [1e-9, 1e9]),
}


@both_spreads
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("weights", [(1.0, 1.0), (1e6, 2.0)])
def test_costs_in_80_digits(spread, name, weights, dtype):
    means, scatters = (np.array(v, dtype)[:, None] for v in PAIRS[name])
    cost = _cost(ScatterModel(spread), means, scatters, np.array(weights, dtype))
    assert cost.dtype == dtype
    (w_a, w_b), (m_a, m_b), (s_a, s_b) = (
        exactly(*v) for v in (weights, means[:, 0], scatters[:, 0])
    )
    expected = mp_cost(spread, w_a, m_a, s_a, w_b, m_b, s_b)
    if abs(expected) < 1e-60:  # what is near in float64 may be equal in float32
        assert cost == 0
    else:
        assert relative(cost, expected) < 100 * np.finfo(dtype).eps


@both_spreads
def test_equal_clusters_cost_nothing(spread, dtype):
    means, scatters = np.full((2, 3), 1.7, dtype), np.full((2, 3), 0.3, dtype)
    model, weights = ScatterModel(spread), np.array([0.3, 4.1], dtype)
    assert _cost(model, means, scatters, weights) == 0
    gradient = jax.grad(_cost, (1, 2, 3))(model, means, scatters, weights)
    for part in gradient:
        np.testing.assert_array_equal(part, 0)


@both_spreads
@pytest.mark.parametrize("name", ["near", "far", "tiny", "huge"])
def test_gradients_in_80_digits(spread, name, x64):
    """By means, scatters and weights, near clusters included."""
    means, scatters = (np.array(v)[:, None] for v in PAIRS[name])
    weights = np.array([3.0, 2.0])
    found = jax.jit(jax.grad(_cost, (1, 2, 3)))(
        ScatterModel(spread), means, scatters, weights
    )
    point = exactly(3, means[0, 0], scatters[0, 0], 2, means[1, 0], scatters[1, 0])
    function = lambda *v: mp_cost(spread, *v)
    slopes = []
    for i, value in enumerate(point):
        step = value * mp.mpf(10) ** -30
        moved = lambda sign, i=i, step=step: function(
            *[v + sign * step * (j == i) for j, v in enumerate(point)]
        )
        slopes.append((moved(1) - moved(-1)) / (2 * step))
    by_mean, by_scatter, by_weight = (np.ravel(part) for part in found)
    order = [by_weight[0], by_mean[0], by_scatter[0]]
    order += [by_weight[1], by_mean[1], by_scatter[1]]
    for i, value in enumerate(order):
        assert relative(value, slopes[i]) < 1e-12, i


@both_spreads
def test_states_on_and_beyond_the_boundary_have_codes(spread, x64):
    scatter: Any = np.array([[0.1, 0.1], [0.0, 0.1], [-0.1, 0.1]])
    statistics = Scatters(np.ones((3, 2)), scatter, spread)  # pyright: ignore[reportArgumentType]
    model = ScatterModel(spread)
    codes = model.result(model.leaves(statistics, jnp.ones(3)))
    expected = [Result.CONVERGED, Result.BOUNDARY, Result.OUTSIDE]
    np.testing.assert_array_equal(codes, expected)


# --- Columns that hardly vary --------------------------------------------------------


@pytest.mark.parametrize("family", ["gamma", "inverse_gaussian"])
@pytest.mark.parametrize("variation", [1e-3, 1e-5, 1e-6, 1e-7])
def test_small_variations_keep_their_digits(family, variation):
    """Every merge cost in 80 digits, from the rows and the smoothing as they are.

    Before clusters held scatters, costs were 4e-4 off at a variation of 1e-5.
    """
    rng = np.random.default_rng(0)
    x = 2 * (1 + variation * rng.normal(size=(40, 2)))
    tree = bj.agglomerate(x, family=family)
    smoothing: Any = FAMILIES[family]().for_data(x).default_smoothing(x, None)
    column = 0 if family == "gamma" else 1
    amounts = exactly(*np.abs(smoothing.center[column]))
    spread = "log" if family == "gamma" else "reciprocal"
    point = lambda row: list(zip(exactly(1, 1), exactly(*row), amounts, strict=True))
    nodes = [point(row) for row in x]
    # Means of unions are rounded, by a share eps / variation of their differences.
    tolerance = 1e-12 + 4 * np.finfo(float).eps / variation
    for children, cost in zip(tree.children, tree.merge_costs, strict=True):
        a, b = (nodes[child] for child in children)
        exact = sum(mp_cost(spread, *p, *q) for p, q in zip(a, b, strict=True))
        assert relative(cost, exact) < tolerance
        nodes.append([_united(spread, p, q) for p, q in zip(a, b, strict=True)])


def _united(spread, a, b):
    (w_a, m_a, s_a), (w_b, m_b, s_b) = a, b
    w = w_a + w_b
    s = (w_a * s_a + w_b * s_b) / w + mp_gap(spread, w_a / w, m_a, w_b / w, m_b)
    return w, (w_a * m_a + w_b * m_b) / w, s


@pytest.mark.parametrize("family", ["gamma", "inverse_gaussian"])
def test_small_variations_are_gaussian(family, rng):
    """The nearer, the smaller the variation: trees and costs of the diagonal one."""
    x = 2 * (1 + 1e-7 * rng.normal(size=(100, 3)))
    tree, normal = (bj.agglomerate(x, family=f) for f in (family, "diagonal_gaussian"))
    np.testing.assert_array_equal(tree.children, normal.children)
    np.testing.assert_allclose(tree.merge_costs, normal.merge_costs, rtol=1e-6)


@pytest.mark.parametrize("family", ["gamma", "inverse_gaussian"])
def test_units_change_nothing(family, rng):
    x = rng.gamma(2.0, size=(60, 3)) + 0.05
    tree = bj.agglomerate(x, family=family)
    other = bj.agglomerate(x * [1e-6, 1.0, 1e6], family=family)
    np.testing.assert_array_equal(tree.children, other.children)
    np.testing.assert_allclose(tree.merge_costs, other.merge_costs, rtol=1e-9)


# --- Smoothing -----------------------------------------------------------------------

MAPS = {
    "log": [
        adding((-np.array([0.1, 1e-9]), np.zeros(2))),
        adding((-np.array([0.1, 0.3]), np.array([0.2, 5.0])), 0.5),
        mixing((np.array([0.0, 1.0]), np.array([1.5, 4.0])), 0.2),
        pseudo_count((np.array([0.0, 1.0]), np.array([1.5, 4.0])), 0.3),
    ],
    "reciprocal": [
        adding((np.zeros(2), np.array([0.1, 1e-9]))),
        adding((np.array([0.2, 5.0]), np.array([0.1, 0.3])), 0.5),
        mixing((np.array([1.5, 4.0]), np.array([1.0, 0.3])), 0.2),
        pseudo_count((np.array([1.5, 4.0]), np.array([1.0, 0.3])), 0.3),
    ],
}


@both_spreads
@pytest.mark.parametrize("number", range(4))
def test_maps_act_on_scatters_as_on_statistics(spread, number, rng, x64):
    """In 80 digits, from the plain statistics."""
    smoothing: Any = MAPS[spread][number]
    family = Gamma(2) if spread == "log" else InverseGaussian(2)
    x: Any = rng.gamma(2.0, size=(5, 2)) + 0.1
    weights = rng.uniform(0.5, 2, 5)
    found, total = smoothing(family.leaf_statistics(x), weights)
    for i, column in np.ndindex(5, 2):
        (v,) = exactly(x[i, column])
        point = [mp.log(v), v] if spread == "log" else [v, 1 / v]
        center = exactly(*(z[column] for z in smoothing.center))
        if hasattr(smoothing, "count"):
            share = exactly(smoothing.count)[0] / exactly(total[i])[0]
        else:
            (share,) = exactly(smoothing.amount)
        kept = 1 if number < 2 else 1 - share
        first, second = (
            kept * t + share * z for t, z in zip(point, center, strict=True)
        )
        mean = second if spread == "log" else first
        scatter = mp.log(mean) - first if spread == "log" else second - 1 / mean
        assert relative(found.location[i, column], mean) < 1e-15
        assert relative(found.scatter[i, column], scatter) < 2e-14


def test_centers_of_another_form_are_refused():
    smoothing = mixing(np.ones(2), 0.1)
    with pytest.raises(TypeError, match="`center` must be a pair of arrays"):
        smoothing(Gamma(2).leaf_statistics(jnp.ones((3, 2))), jnp.ones(3))


@pytest.mark.parametrize("weighted", [False, True])
def test_what_auto_adds(weighted, rng):
    """h²/2 off E log x; h²/g to E 1/x, g the geometric mean."""
    x = rng.gamma(2.0, size=(30, 2)) + 0.1
    weights = rng.uniform(1, 2, 30) if weighted else None
    rule = bj.normal_reference(np.log(x), per_coordinate=True, weights=weights)
    square = np.asarray(rule.bandwidth) ** 2
    gamma: Any = Gamma(2).default_smoothing(x, weights)
    np.testing.assert_allclose(gamma.center[0], -square / 2, rtol=1e-12)
    np.testing.assert_array_equal(gamma.center[1], 0)
    wald: Any = InverseGaussian(2).default_smoothing(x, weights)
    middle = np.exp(np.average(np.log(x), axis=0, weights=weights))
    np.testing.assert_array_equal(wald.center[0], 0)
    np.testing.assert_allclose(wald.center[1], square / middle, rtol=1e-12)


# --- Densities -----------------------------------------------------------------------


@both_spreads
def test_densities_of_narrow_clusters_keep_their_digits(spread, x64):
    """A shape of 5e13, where k log k and log Γ(k) cancel; next to a normal density."""
    family = Gamma(1) if spread == "log" else InverseGaussian(1)
    model = family.cluster_model()
    mean, size = jnp.array([[2.0], [2.0]]), jnp.array([[1e-14], [1e-6]])
    scatter = size if spread == "log" else size / 2
    # s is half the squared variation, or that itself over the mean.
    sigma = 2 * np.sqrt(np.asarray(size) * (2 if spread == "log" else 1))[:, 0]
    clusters = model.leaves(Scatters(mean, scatter, spread), jnp.ones(2))
    parameters = family.density_parameters(clusters)
    for z in (-1.0, 0.5):
        x = 2 + z * sigma
        found = [family.log_densities(jnp.array([v]), parameters) for v in x]
        for k in range(2):
            step = (x[k] - 2) / sigma[k]
            normal = -0.5 * step**2 - np.log(sigma[k]) - 0.5 * np.log(2 * np.pi)
            tolerance = 10 * sigma[k] + 1e-12
            np.testing.assert_allclose(found[k][k], normal, atol=tolerance)
    off = family.log_densities(jnp.array([-1.0]), parameters)
    np.testing.assert_array_equal(off, -np.inf)


def test_statistics_are_held_centered():
    for family, kind in [(Gamma(2), Scatters), (DiagonalGaussian(2), Moments)]:
        assert isinstance(family.leaf_statistics(jnp.ones((1, 2))), kind)
    state = (
        Gamma(1)
        .cluster_model()
        .leaves(Scatters(jnp.ones((1, 1)), jnp.ones((1, 1)), "log"), jnp.ones(1))
    )
    assert isinstance(state, ScatterState)

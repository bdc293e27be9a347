"""Cluster models at the edge of the mean domain: codes, digits, derivatives."""

from typing import Any

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import own_potentials
import pytest
from cluster_states import PLAIN_POISSON, pair_cost, pair_cost_jit, pair_slopes, take
from family_cases import truncated_poisson
from many_digits import digits, exact_cost, mp_cost, mp_entropy, mp_truncated
from own_potentials import identity

from bregjax import Result
from bregjax.clusters import NaturalModel
from bregjax.families import (
    DiagonalGaussian,
    Exponential,
    ExponentialFamily,
    Gamma,
    Gaussian,
    InverseGaussian,
    IsotropicGaussian,
)


@jax.jit
def _leaves_and_union(model, x):
    leaves = model.leaves(x, jnp.ones(2))
    return leaves, model.union(take(leaves, [0]), take(leaves, [1]))


@pytest.mark.parametrize(
    ("row", "code"), [([-1.0, 1.0], Result.OUTSIDE), ([2.0, np.nan], Result.INVALID)]
)
def test_failed_solves_are_no_costs(row, code, x64):
    model, x = NaturalModel(PLAIN_POISSON), jnp.array([row, [1.0, 1.0]])
    leaves, _ = _leaves_and_union(model, x)
    np.testing.assert_array_equal(model.result(leaves), [code, Result.CONVERGED])
    assert not np.isfinite(pair_cost_jit(model, x, jnp.ones(2)))


def test_unions_of_boundary_points_start_afresh(x64):
    """A boundary of finite cost counts as solved; a union does not start from there."""
    model, x = NaturalModel(PLAIN_POISSON), jnp.array([[0.0, 3.0], [5.0, 0.0]])
    leaves, union = _leaves_and_union(model, x)
    np.testing.assert_array_equal(leaves.result, Result.BOUNDARY)
    np.testing.assert_array_equal(model.result(leaves), Result.CONVERGED)
    np.testing.assert_array_equal(union.result, Result.CONVERGED)
    np.testing.assert_allclose(union.natural, np.log([[2.5, 1.5]]), rtol=1e-12)
    cost = pair_cost_jit(model, x, jnp.ones(2))
    np.testing.assert_allclose(cost, 8 * np.log(2), rtol=1e-13)


@pytest.mark.parametrize(
    "family",
    [
        Gaussian(2),
        DiagonalGaussian(2),
        IsotropicGaussian(2),
        Gamma(2),
        InverseGaussian(2),
        Exponential(2),
    ],
)
def test_points_of_infinite_cost_have_a_code(family, x64):
    x = np.ones((2, 2)) * (not isinstance(family, Exponential))
    leaves, _ = _leaves_and_union(family.cluster_model(), family.leaf_statistics(x))
    codes = np.asarray(family.cluster_model().result(leaves))
    assert (codes != Result.CONVERGED).all()


# A count of the lowest kind, whose mean is on the boundary, and large ones inside.
EDGES = {
    "poisson": (NaturalModel(PLAIN_POISSON), 0.0, mp_entropy),
    "truncated": (NaturalModel(truncated_poisson(separable=True)), 1.0, mp_truncated),
}
every_edge = pytest.mark.parametrize("name", EDGES)


@every_edge
@pytest.mark.parametrize("large", [1e6, 1e8])
@pytest.mark.parametrize("apart", [0.0, 1e-3, 4.0])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 500.0)])
def test_boundary_coordinates_leave_the_others_their_digits(
    name, large, apart, weights, x64
):
    model, end, value = EDGES[name]
    a, b = np.array([end, large]), np.array([end + apart, large + 1])
    cost = pair_cost_jit(model, jnp.stack([a, b]), np.array(weights))
    expected = exact_cost(value, weights, a, b)
    np.testing.assert_allclose(cost, expected, rtol=1e-10)


@every_edge
@pytest.mark.parametrize("apart", [0.0, 4.0])
def test_boundary_coordinates_leave_the_others_their_digits_in_float32(name, apart):
    model, end, value = EDGES[name]
    a = np.array([end, 1e3], np.float32)
    b = np.array([end + apart, 1001], np.float32)
    cost = pair_cost_jit(model, jnp.stack([a, b]), jnp.ones(2))
    assert cost.dtype == np.float32
    np.testing.assert_allclose(cost, exact_cost(value, (1, 1), a, b), rtol=1e-5)


@pytest.mark.parametrize("excess", [0.0, 1e-14, 1e-12, 1e-8, 1e-3])
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_costs_go_on_across_the_boundary_to_rounding(excess, factor, x64):
    """From a mean that counts as on the boundary to one that has a θ."""
    cost, exact = _cost_beside_the_boundary(excess, factor)
    np.testing.assert_allclose(cost, exact, rtol=1e-7)


@pytest.mark.parametrize("excess", [4e-16, 1e-15, 1.6e-15, 2e-15, 4e-15])
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_costs_within_roundings_of_the_boundary_are_right_or_nan(excess, factor, x64):
    """A solve may stall there, as the compiler rounds; a number is never wrong."""
    cost, exact = _cost_beside_the_boundary(excess, factor)
    assert np.isnan(cost) or abs(cost / exact - 1) < 1e-7


def _cost_beside_the_boundary(excess, factor):
    model, end, value = EDGES["truncated"]
    a = np.array([end + excess, 1e6])
    b = np.array([end + factor * (a[0] - end), 1e6 + 1])
    cost = pair_cost_jit(model, jnp.stack([a, b]), jnp.ones(2))
    return cost, exact_cost(value, (1, 1), a, b)


def test_boundary_faces_of_any_psi_leave_the_others_their_digits(x64):
    """ψ not known to be a sum: the last iterates of the solver serve on a face."""
    model, _, value = EDGES["truncated"]
    model = NaturalModel(truncated_poisson(separable=False))
    # At 1e6 the solver says BOUNDARY with +inf: roundings of the large mean reach it.
    x = jnp.array([[1.0, 1e3], [1.0, 1e3 + 1]])
    cost = pair_cost_jit(model, x, jnp.ones(2))
    np.testing.assert_allclose(cost, exact_cost(value, (1, 1), *x), rtol=1e-9)
    assert pair_cost_jit(model, x[:1].repeat(2, axis=0), jnp.ones(2)) == 0


@every_edge
@pytest.mark.parametrize("apart", [0.0, 4.0])
def test_gradients_beside_boundary_coordinates(name, apart, x64):
    """By the large counts and the weights, against differences in 60 digits."""
    model, end, value = EDGES[name]
    a, b = [end, 1e4], [end + apart, 1e4 + 100]
    weights = jnp.array([1.0, 2.0])
    _, (by_x, by_w) = pair_slopes(model, jnp.array([a, b]), weights)

    def cost(w_a, w_b, u, v):
        low_a, low_b = digits([a[0], b[0]])
        return mp_cost(value, w_a, w_b, [low_a, u], [low_b, v])

    point: Any = (1, 2, *digits([a[1], b[1]]))
    axes = np.eye(4, dtype=int)
    slopes = [float(mp.diff(cost, point, tuple(axis.tolist()))) for axis in axes]
    np.testing.assert_allclose(by_w, slopes[:2], rtol=1e-9)
    np.testing.assert_allclose(by_x[:, 1], slopes[2:], rtol=1e-9)
    np.testing.assert_array_equal(by_x[0, 0], -np.inf if apart else 0)
    assert by_x[1, 0] > 0 if apart else by_x[1, 0] == 0


def test_derivatives_by_a_parameter_beside_boundary_coordinates(x64):
    """By the dispersion of negative binomial counts, one of them 0."""

    @jax.jit
    @jax.value_and_grad
    def cost(dispersion, x):
        family = ExponentialFamily(
            own_potentials.negative_binomial,
            identity,
            np.full(2, -1.0),
            params=dispersion,
            separable=True,
        )
        return pair_cost(NaturalModel(family), x)

    def expected(r, a, b):
        rise = lambda m: m * mp.log(m / (m + r)) if m else mp.mpf(0)
        value = lambda p: sum(rise(m) + r * mp.log(r / (r + m)) for m in p)
        return mp_cost(value, 1, 1, digits(a), digits(b))

    for apart in (0.0, 4.0):
        a, b = [0.0, 300.0], [apart, 400.0]
        value, slope = cost(2.5, jnp.array([a, b]))
        exact = lambda r, a=a, b=b: expected(r, a, b)
        np.testing.assert_allclose(value, float(exact(mp.mpf(2.5))), rtol=1e-10)
        np.testing.assert_allclose(slope, float(mp.diff(exact, 2.5)), rtol=1e-8)

"""Laplace variables of known location: exponential distances, and what smooths them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import bregjax as bj
from bregjax.families import Laplace
from bregjax.smoothing._maps import Adding

LOCATION = np.array([0.5, -2.0])


def test_trees_are_those_of_exponential_distances(rng):
    x = rng.laplace(LOCATION, size=(40, 2))
    tree = bj.agglomerate(x, family=Laplace(LOCATION), smoothing=None)
    times = bj.agglomerate(np.abs(x - LOCATION), family="exponential")
    np.testing.assert_array_equal(tree.children, times.children)
    np.testing.assert_array_equal(tree.merge_costs, times.merge_costs)


def test_cost_is_the_likelihood_lost(rng):
    x = rng.laplace(size=(6, 1))
    cost = bj.cluster_cost(bj.Problem(x, family=Laplace(), smoothing=None))
    log_p = lambda rows, scale: np.sum(scipy.stats.laplace.logpdf(rows, scale=scale))
    own = sum(log_p(row, np.abs(row[0])) for row in x)
    np.testing.assert_allclose(cost, own - log_p(x, np.abs(x).mean()), rtol=1e-12)


def test_auto_adds_the_mean_distance_of_the_kernel(rng):
    """E |h Z| by a draw, and in the units of each column."""
    x = rng.laplace(LOCATION, size=(50, 2)) * [1, 1000]
    h = 4 ** (1 / 6) * x.std(axis=0, ddof=1) * (4 * 50) ** (-1 / 6)
    kernel = np.abs(rng.normal(size=200_000)).mean()
    smoothing = Laplace(LOCATION).for_data(x).default_smoothing(x, None)
    assert isinstance(smoothing, Adding)
    np.testing.assert_allclose(
        smoothing.amount * smoothing.center, h * kernel, rtol=0.01
    )


def test_rows_at_the_location_need_smoothing_and_have_it():
    x = np.array([[0.0, 1.0], [2.0, 3.0], [0.0, -1.0]])
    with pytest.raises(ValueError, match='row 0.*Pass smoothing="auto", or'):
        bj.agglomerate(x, family="laplace", smoothing=None)
    tree = bj.agglomerate(x, family="laplace")
    assert np.all(np.isfinite(tree.merge_costs))
    # Alike in their distances.
    np.testing.assert_array_equal(tree.children[0], [0, 2])
    assert tree.merge_costs[0] == 0


def test_derivative_by_the_location(rng, x64):
    x = rng.laplace(size=(5, 2)) + 0.1
    cost = lambda a: bj.cluster_cost(bj.Problem(x, family=Laplace(a), smoothing=None))
    for a in (np.float64(0.02), np.array([0.01, -0.03])):
        slope = np.asarray(jax.grad(cost)(a))
        for k in np.ndindex(np.shape(a)):
            step = np.zeros(np.shape(a))
            step[k] = 1e-6
            quotient = float(cost(a + step) - cost(a - step)) / 2e-6
            assert slope[k] == pytest.approx(quotient, rel=1e-7)
    at_location = jax.grad(lambda a: Laplace(a).sufficient_statistics(jnp.ones(1))[0])
    assert at_location(1.0) == -1


@pytest.mark.parametrize(
    ("location", "message"),
    [
        (np.zeros(3), r"one for each of the 2 columns; got shape \(3,\)"),
        (np.nan, "`location` must be finite; got nan"),
    ],
)
def test_locations_that_are_none(location, message):
    with pytest.raises(ValueError, match=message):
        bj.agglomerate(np.ones((3, 2)), family=Laplace(location))

"""Negative binomial and geometric counts: digits, dispersions, errors."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import scipy.stats

import bregjax as bj
from bregjax.convex import NegativeBinomialCumulant, NegativeBinomialEntropy
from bregjax.families import Geometric, NegativeBinomial

stats: Any = scipy.stats  # its stubs do not know frozen distributions


def _mp_divergence(x, y, r):
    log_of = lambda a: mp.log(a) if a else mp.mpf(0)
    return x * log_of(x / y) - (x + r) * log_of((x + r) / (y + r))


def _points(dtype) -> Any:
    """Means, steps and dispersions across all orders, zeros among the ends."""
    reach = 8 if dtype == np.float64 else 3
    sizes = 10.0 ** np.array([-reach, -1, 0.3, reach])
    steps = [-1.0, -0.999, -0.4, -1e-3, -1e-9, 1e-12, 1e-5, 0.39, 0.41, 3.0, 1e4]
    grid = np.array(list(itertools.product(sizes, steps, sizes)))
    y, r = grid[:, 0].astype(dtype), grid[:, 2].astype(dtype)
    return y, (y * grid[:, 1].astype(dtype)), r


def test_divergence_to_sixty_digits_whichever_of_mean_and_dispersion_is_larger(dtype):
    y, delta, r = _points(dtype)
    f = NegativeBinomialEntropy(r)
    values = np.asarray(f._scalar_remainder(y, delta, None), float)
    slopes = np.asarray(f.gradient_difference(y, delta), float)
    # Beyond what counts as close, terms cancel by a factor 30 at most.
    bound = 60 * np.finfo(dtype).eps
    with mp.workdps(60):
        for k in range(len(y)):
            a, d, s = (mp.mpf(float(v)) for v in (y[k], delta[k], r[k]))
            exact = _mp_divergence(a + d, a, s)
            assert abs(values[k] - exact) <= bound * exact
            if a + d > 0:
                exact = mp.log((a + d) / a) - mp.log((a + d + s) / (a + s))
                assert abs(slopes[k] - exact) <= bound * abs(exact)
            else:
                assert slopes[k] == -np.inf


def test_cumulant_divergence_from_the_edge_to_far_below(dtype):
    theta = -np.array([1e-6, 0.03, 0.7, 4.0, 30.0], dtype)
    steps = np.array([-800.0, -60, -1.5, -0.3, -1e-8, 1e-9, 0.3, 0.9], dtype)
    pairs = [(t, s if s < 0 else -s * t) for t in theta for s in steps]
    y, delta = jnp.array(pairs, dtype).T
    f = NegativeBinomialCumulant(jnp.full(len(y), 2.5, dtype))
    values = np.asarray(f._scalar_remainder(y, delta, None), float)
    with mp.workdps(60):
        psi = lambda t: -mp.mpf(2.5) * mp.log(-mp.expm1(t))
        for k in range(len(y)):
            a, d = mp.mpf(float(y[k])), mp.mpf(float(delta[k]))
            exact = psi(a + d) - psi(a) - mp.mpf(2.5) / mp.expm1(-a) * d
            # The mean e^θ itself carries the rounding of θ.
            bound = 40 * np.finfo(dtype).eps * (1 + abs(float(a)))
            assert abs(values[k] - exact) <= bound * exact


def test_a_large_dispersion_is_poisson_and_a_small_one_exponential(rng, x64):
    x = rng.gamma(2.0, size=(30, 2)) + 0.1
    many = bj.agglomerate(x, family=NegativeBinomial(1e12))
    poisson = bj.agglomerate(x, family="poisson")
    np.testing.assert_allclose(many.merge_costs, poisson.merge_costs, rtol=1e-9)
    few = bj.agglomerate(x, family=NegativeBinomial(1e-12))
    times = bj.agglomerate(x, family="exponential")
    scaled = 1e12 * few.merge_costs
    np.testing.assert_allclose(scaled, times.merge_costs, rtol=1e-9)


@pytest.mark.parametrize("dispersion", [0.3, 19.0, 21.0, 1e4, 1e9])
def test_base_measure_at_every_dispersion(dispersion, dtype):
    x = np.array([0.0, 1, 7, 300], dtype)
    family = NegativeBinomial(jnp.asarray(dispersion, dtype), dim=1)
    values = [float(family.log_base_measure(row[None])) for row in x]
    r = mp.mpf(float(np.asarray(dispersion, dtype)))
    with mp.workdps(40):
        for value, count in zip(values, x, strict=True):
            n = mp.mpf(float(count))
            factorial = mp.loggamma(n + 1)
            exact = mp.loggamma(n + r) - mp.loggamma(r) - factorial
            bound = 40 * np.finfo(dtype).eps * (1 + abs(exact) + factorial)
            assert abs(value - exact) <= bound


def test_derivatives_by_the_dispersion(x64):
    """Of a cost, with and without zeros, and of a density; per column and shared."""
    x = np.array([[0.0, 3.0], [4.0, 0.0], [2.0, 50.0]])

    def cost(r):
        return bj.cluster_cost(bj.Problem(x, family=NegativeBinomial(r)))

    def density(r):
        family = NegativeBinomial(r, dim=2)
        natural = jnp.log(jnp.array([3.0, 5.0]) / (jnp.array([3.0, 5.0]) + r))
        return family.log_prob(jnp.array([0.0, 7.0]), natural)

    for function in (cost, density):
        for r in (np.float64(1.7), np.array([0.4, 30.0])):
            slope = np.asarray(jax.grad(function)(r))
            for k in np.ndindex(np.shape(r)):
                step = np.zeros(np.shape(r))
                step[k] = 1e-5 * np.asarray(r)[k]
                rise = function(r + step) - function(r - step)
                quotient = float(rise) / (2 * step[k])
                assert slope[k] == pytest.approx(quotient, rel=1e-7)


def test_gradients_at_zero_counts_are_limits_and_never_nan(x64):
    def cost(x):
        model = NegativeBinomial(2.0, dim=3).cluster_model()
        leaves = model.leaves(x, jnp.ones(2))
        a, b = (jax.tree.map(lambda v, i=i: v[i : i + 1], leaves) for i in (0, 1))
        return model.merge_cost(a, b)[0]

    slope = np.asarray(jax.grad(cost)(jnp.array([[0.0, 0.0, 1.0], [0.0, 3.0, 5.0]])))
    assert np.all(slope[:, 0] == 0)
    assert slope[0, 1] == -np.inf
    assert np.all(np.isfinite(slope[1]))
    assert np.all(np.isfinite(slope[:, 2]))
    # At (0, y): log u(y)/u(c), c = y/2, with u(t) = t / (t + 2).
    assert slope[1, 1] == pytest.approx(np.log(0.6 / (1.5 / 3.5)), rel=1e-13)


def test_merge_cost_of_counts_is_the_likelihood_lost(x64):
    x = np.array([[0.0], [3.0], [11.0]])
    r = 1.3
    cost = bj.cluster_cost(bj.Problem(x, family=NegativeBinomial(r)))
    of_mean = lambda mean: stats.nbinom(r, r / (r + mean))
    own = sum(of_mean(max(row, 1e-300)).logpmf(row) for row in x[:, 0])
    lost = own - of_mean(x.mean()).logpmf(x[:, 0]).sum()
    np.testing.assert_allclose(cost, lost, rtol=1e-12)


def test_geometric_is_dispersion_one(rng):
    x = rng.geometric(0.2, size=(40, 3)) - 1
    one = bj.agglomerate(x, family=NegativeBinomial(1.0))
    other = bj.agglomerate(x, family="geometric")
    np.testing.assert_array_equal(one.children, other.children)
    np.testing.assert_array_equal(one.merge_costs, other.merge_costs)
    assert jax.tree.leaves(Geometric()) == []


@pytest.mark.parametrize(
    ("dispersion", "message"),
    [
        (0.0, r"`dispersion` must be positive and finite; got 0.0. Counts"),
        ([1.0, -2.0], r"positive and finite; got -2.0 for column 1. Counts"),
        ([1.0, np.inf], r"got inf for column 1.*use Poisson"),
        (np.ones(3), r"one for each of the 2 columns; got shape \(3,\)"),
    ],
)
def test_dispersions_that_are_none(dispersion, message):
    with pytest.raises(ValueError, match=message):
        bj.agglomerate(np.ones((3, 2)), family=NegativeBinomial(np.array(dispersion)))


def test_negative_counts_are_refused():
    x = np.array([[1.0, 2.0], [0.0, -1.0]])
    for family in (NegativeBinomial(), Geometric()):
        with pytest.raises(ValueError, match="non-negative for .*got -1.0 at row 1"):
            bj.agglomerate(x, family=family)

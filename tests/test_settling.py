"""Conjugates of many means: solved on the host, differentiated as if they were not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from own_potentials import diagonal_gaussian, full_gaussian, identity, negative_binomial

import bregjax as bj
from bregjax import Result
from bregjax.clusters._natural.settling import conjugates
from bregjax.convex._solvers import newton
from bregjax.families import ExponentialFamily


def by_dispersion(theta, r):
    return -r * jnp.sum(jnp.log(-jnp.expm1(theta)))


def moments(x):
    return jnp.concatenate([x, x**2 + 0.3**2])


def own_gaussian(d=2):
    return ExponentialFamily(
        diagonal_gaussian, moments, np.repeat([0.0, -0.5], d).astype(float)
    )


CASES = {
    "dense": (own_gaussian(1), [[0.3, 1.2], [-1.0, 4.0]]),
    "separable": (
        ExponentialFamily(negative_binomial, identity, -np.ones(2), separable=True),
        [[0.5, 3.0], [9.0, 0.2]],
    ),
    "overcomplete": (
        ExponentialFamily(full_gaussian, identity, np.array([0, 0, -0.5, 0, 0, -0.5])),
        [[0.1, -0.2, 1.4, 0.3, 0.3, 0.9]],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_every_order(name, x64):
    family, means = CASES[name]
    means = jnp.asarray(means)
    start = jnp.broadcast_to(family.natural_init, means.shape)
    # Off the affine hull nothing is defined: move along it.
    ahead = jnp.asarray([[0.3, -0.1, 0.2, 0.05, 0.05, 0.4]])[:, : means.shape[1]]

    def path(t):
        return conjugates(family, None, means + t * ahead, start)

    def values(t):
        natural, value, _ = path(t)
        return jnp.concatenate([value, jnp.ravel(natural)])

    assert np.all(np.asarray(path(0.0)[2]) == Result.CONVERGED)
    slope = jax.jacfwd(values)
    for function, derivative in ((values, slope), (slope, jax.jacfwd(slope))):
        found = derivative(0.0)
        expected = (function(1e-5) - function(-1e-5)) / 2e-5
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    if name == "overcomplete":
        # Under `jit` the careful solver solves; θ and its derivatives are the same.
        for function in (values, slope):
            traced = jax.jit(function)(0.0)
            np.testing.assert_allclose(traced, function(0.0), rtol=1e-7, atol=1e-8)
    by_means = jax.grad(
        lambda means: jnp.sum(conjugates(family, None, means, start)[1])
    )
    np.testing.assert_allclose(by_means(means), path(0.0)[0], rtol=1e-9, atol=1e-9)


def test_derivatives_by_parameters_of_each_mean(x64):
    family = ExponentialFamily(by_dispersion, identity, -np.ones(1), params=2.0)
    means, start = jnp.array([[0.7], [3.0]]), -jnp.ones((2, 1))
    r = jnp.array([1.5, 4.0])

    def solved(r, means):
        natural, value, _ = conjugates(family, r, means, start)
        return natural[:, 0], value

    mu = means[:, 0]
    # θ = log(μ / (μ + r)), ψ* = μ log μ + r log r − (μ + r) log(μ + r).
    natural, value = solved(r, means)
    np.testing.assert_allclose(natural, jnp.log(mu / (mu + r)), rtol=1e-9)
    closed = mu * jnp.log(mu) + r * jnp.log(r) - (mu + r) * jnp.log(mu + r)
    np.testing.assert_allclose(value, closed, rtol=1e-9)
    by_r, value_by_r = jax.jacfwd(solved)(r, means)
    np.testing.assert_allclose(by_r, np.diag(-1 / (mu + r)), rtol=1e-9, atol=1e-12)
    expected = np.diag(jnp.log(r) - jnp.log(mu + r))
    np.testing.assert_allclose(value_by_r, expected, rtol=1e-9, atol=1e-12)


def test_gradients_compile_no_careful_solver(x64, rng, monkeypatch):
    family, x = own_gaussian(), rng.normal(size=(13, 2))
    tree = bj.agglomerate(x, family=family)

    def loss(x, scale):
        problem = bj.Problem(scale * x, family=family)
        costs = bj.replay(problem, tree)
        features = bj.dendrogram_features(problem, tree.children, num_features=3)
        return jnp.sum(jnp.log(costs)) + jnp.mean(features)

    def refuse(*args):
        raise AssertionError("traced")

    monkeypatch.setattr(newton, "minimise", refuse)
    with pytest.raises(AssertionError, match="traced"):
        jax.jit(loss)(jnp.asarray(x), 1.1)
    by_x, by_scale = jax.grad(loss, argnums=(0, 1))(jnp.asarray(x), 1.1)
    slope = (loss(x, 1.1 + 1e-5) - loss(x, 1.1 - 1e-5)) / 2e-5
    np.testing.assert_allclose(by_scale, slope, rtol=1e-6)
    moved = rng.normal(size=x.shape)
    ends = [loss(x + sign * 1e-5 * moved, 1.1) for sign in (1, -1)]
    along = (ends[0] - ends[1]) / 2e-5
    np.testing.assert_allclose(jnp.vdot(by_x, moved), along, rtol=1e-5)


@pytest.mark.parametrize(
    "family", [pytest.param("own", marks=pytest.mark.slow), "poisson"]
)
def test_constants_of_a_callers_program(family, rng):
    family = own_gaussian() if family == "own" else family
    problem = bj.Problem(rng.poisson(4, size=(9, 2)) + 0.5, family=family)
    tree = bj.agglomerate(problem)

    @jax.jit
    def inside(s):
        costs = bj.replay(problem, tree)
        features = bj.dendrogram_features(problem, tree, num_features=2)
        again = bj.agglomerate(problem).merge_costs
        return s * (jnp.sum(costs) + jnp.sum(features) + jnp.sum(again))

    features = bj.dendrogram_features(problem, tree, num_features=2)
    expected = 2 * (2 * np.sum(tree.merge_costs) + np.sum(features))
    np.testing.assert_allclose(inside(2.0), expected, rtol=1e-5)


@pytest.mark.parametrize("m", [2, 3])
def test_as_many_means_as_parameters(m, x64, rng):
    family, x = own_gaussian(1), rng.normal(size=(m, 1))
    children = [[0, 1], [2, 3]][: m - 1]
    costs = lambda x: jnp.sum(
        jnp.asarray(bj.replay(bj.Problem(x, family=family), children))
    )
    along = rng.normal(size=x.shape)
    ends = [costs(x + sign * 1e-6 * along) for sign in (1, -1)]
    slope = jnp.vdot(jax.grad(costs)(jnp.asarray(x)), along)
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_dispersions_under_strict_promotion(rng):
    x = rng.poisson(3, size=(6, 2)) + 0.0

    def loss(r):
        family = ExponentialFamily(by_dispersion, identity, -np.ones(2), params=r)
        return jnp.sum(bj.replay(bj.Problem(x[:2], family=family), np.array([[0, 1]])))

    with jax.numpy_dtype_promotion("strict"):
        assert np.isfinite(jax.grad(loss)(2.0))


def test_columns_of_several_parameters_have_densities(rng):
    def one(theta):
        return -(theta[0] ** 2) / (4 * theta[1]) - jnp.log(-2 * theta[1]) / 2

    pair = lambda x: (x, x**2 + 0.3**2)
    columns = bj.Columnwise(ExponentialFamily(one, pair, (0.0, -0.5)))
    x = rng.normal(size=(9, 2))
    problem = bj.Problem(x, family=columns)
    tree = bj.agglomerate(problem)
    found = bj.soft_assignments(problem, tree, num_clusters=2)
    other = bj.Problem(x, family=own_gaussian())
    same = bj.soft_assignments(other, tree, num_clusters=2)
    np.testing.assert_allclose(found, same, rtol=1e-9)

"""What hard clustering and EM ask of cluster models, against merges and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cluster_states import every_family
from family_cases import FAMILIES

from bregjax import Categorical, Problem, cluster_cost
from bregjax.clusters import ClusterModel, Moments, RootedGaussianModel
from bregjax.clusters._moments import average

M, K = 16, 3


def problem_of(name, rng, count, weights=None):
    """Rows of a family, in the form in which users give them."""
    case = FAMILIES[name]
    family = Categorical() if name == "categories" else case.make()
    return Problem(case.data(rng, count), family=family, weights=weights)


@jax.jit
def parts_of(model, statistics, weights, shares):
    leaves = model.leaves(statistics, weights)
    clusters = model.unions(statistics, shares)
    return leaves, clusters, model.assignment_cost(leaves, clusters)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@every_family
def test_assignment_costs_are_those_of_the_definitions(name, dtype):
    """φ(C) = Σ w B(τ, τ(C)) from the merges; and B as the limit of merge costs."""
    rng = np.random.default_rng(3)
    weights, labels = rng.uniform(0.5, 2, M), np.arange(M) % K
    problem = problem_of(name, rng, M, weights)
    with jax.enable_x64(dtype == "float64"):
        convert = lambda tree: jax.tree.map(lambda a: jnp.asarray(a, dtype), tree)
        model = problem.family.cluster_model()
        statistics, w, shares = convert(
            (smoothed_of(problem), weights, weights * (labels == np.arange(K)[:, None]))
        )
        leaves, clusters, costs = parts_of(model, statistics, w, shares)
        assert costs.dtype == dtype
        assert np.all(costs >= 0)
        rtol = 1e-9 if dtype == "float64" else 2e-3
        for k in range(K):
            expected = cluster_cost(problem, labels == k)
            np.testing.assert_allclose(costs[labels == k, k].sum(), expected, rtol=rtol)
        if dtype == "float64" and not model.solves:
            slow = jax.jit(lambda m, a, b: ClusterModel.assignment_cost(m, a, b))
            limits = slow(model, leaves, clusters)
            far = np.isinf(costs)
            np.testing.assert_allclose(limits[~far], costs[~far], rtol=1e-5, atol=1e-9)
            # Towards infinity with the logarithm of n, here 18.
            assert np.all(limits[far] > 5)


def smoothed_of(problem):
    statistics = problem.family.leaf_statistics(jnp.asarray(problem.x))
    if problem.smoothing is None:
        return statistics
    return problem.smoothing(statistics, jnp.asarray(problem.weights))[0]


@pytest.mark.parametrize(
    "name", ["gaussian", "diagonal_gaussian", "gamma", "inverse_gaussian", "poisson"]
)
def test_unions_are_pooled_leaves(name, x64):
    """Averages of statistics against unions of leaves, shares of 0 too."""
    del x64
    rng = np.random.default_rng(4)
    problem = problem_of(name, rng, 7)
    shares = rng.uniform(0, 1, (K, 7)) * (rng.uniform(size=(K, 7)) < 0.6)
    shares[:, 0] = 0.3
    shares[2, 1:] = 0
    model, statistics = problem.family.cluster_model(), smoothed_of(problem)
    got = jax.jit(lambda m, t, w: m.unions(t, w))(model, statistics, shares)
    slow = jax.jit(lambda m, t, w: ClusterModel.unions(m, t, w))
    expected = slow(model, statistics, shares)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


def test_roots_of_unions(rng, x64):
    """Unequal roots and equal ones, against covariances where these have digits."""
    del x64
    mean = rng.normal(size=(9, 2))
    roots = np.triu(rng.normal(size=(9, 2, 2))) + 2 * np.eye(2)
    shares = rng.dirichlet(np.ones(9), K)
    for root in (roots, np.broadcast_to(roots[:1], roots.shape)):
        covariance = np.swapaxes(root, 1, 2) @ root
        arrays = [jnp.asarray(array) for array in (mean, covariance, root)]
        points = Moments(arrays[0], arrays[1], "full", arrays[2])
        got = jax.jit(RootedGaussianModel().unions)(points, shares)
        squared = np.swapaxes(got.root, 1, 2) @ got.root
        np.testing.assert_allclose(squared, got.moments.covariance, rtol=1e-12)
        for k in range(K):
            center = shares[k] @ mean
            gap = mean - center
            expected = np.einsum("i,ijk->jk", shares[k], covariance)
            expected = expected + (shares[k][:, None] * gap).T @ gap
            np.testing.assert_allclose(got.moments.covariance[k], expected, rtol=1e-12)


def test_averages_stay_among_the_values(dtype):
    """Shares of a third add up to more than 1 or less; averages of ones are 1."""
    count = np.arange(1, 65)
    shares = np.tri(64, dtype=dtype) / count[:, None].astype(dtype)
    assert np.any(np.abs(shares.sum(1) - 1) > 0)
    values = np.broadcast_to(np.array([1.0, 0.1], dtype), (64, 2))
    got = jax.jit(average)(values, shares)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, values)

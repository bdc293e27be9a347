"""Derivatives of cluster costs by rows, weights, smoothing and parameters."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cluster_states import DENSE, NAMES, PLAIN_POISSON, pair_cost, pair_slopes, take
from family_cases import (
    FAMILIES,
)
from own_potentials import identity

from bregjax.clusters import BregmanModel, Moments, NaturalModel
from bregjax.families import (
    DiagonalGaussian,
    ExponentialFamily,
    Gaussian,
    IsotropicGaussian,
    Poisson,
    SphericalGaussian,
)
from bregjax.smoothing import blur


def _cost_of_rows(family, smoothing, x, weights):
    """Δ between the union of the first two rows and the union of the rest (two)."""
    statistics = family.leaf_statistics(x)
    if smoothing is not None:
        statistics, weights = smoothing(statistics, weights)
    model = family.cluster_model()
    leaves = model.leaves(statistics, weights)
    pairs = model.union(take(leaves, [0, 2]), take(leaves, [1, 3]))
    return model.merge_cost(take(pairs, [0]), take(pairs, [1]))[0]


_value_and_gradients = jax.jit(jax.value_and_grad(_cost_of_rows, argnums=(0, 1, 2, 3)))
DIFFERENTIATED = [n for n in NAMES if n not in ("truncated_poisson", *DENSE)]


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients_match_finite_differences(name, rng, x64):
    """By the data, the weights, the smoothing, and the family's own parameters."""
    case = FAMILIES[name]
    family, x = case.make(), case.data(rng, 4) + (0.5 if "poisson" in name else 0)
    smoothing = family.default_smoothing(x, None)
    if isinstance(family, (Gaussian, DiagonalGaussian, IsotropicGaussian)):
        smoothing = blur(np.array([0.4, 0.7]))
    weights = rng.uniform(0.5, 2, 4)
    arguments = (family, smoothing, x, weights)
    _, gradients = _value_and_gradients(*arguments)
    leaves, treedef = jax.tree.flatten(arguments)
    moved = [rng.normal(size=np.shape(leaf)) * 0.1 for leaf in leaves]
    step = 1e-4

    def shifted(share):
        values = [leaf + share * move for leaf, move in zip(leaves, moved, strict=True)]
        return float(_value_and_gradients(*jax.tree.unflatten(treedef, values))[0])

    slope = (8 * (shifted(step) - shifted(-step)) - shifted(2 * step)) / (12 * step)
    slope += shifted(-2 * step) / (12 * step)
    expected = sum(
        np.sum(np.asarray(g) * m)
        for g, m in zip(jax.tree.leaves(gradients), moved, strict=True)
    )
    np.testing.assert_allclose(expected, slope, rtol=2e-7, atol=1e-9)


def test_derivative_by_the_variance_of_ward(x64):
    """Δ = c / σ²."""
    x, weights = np.array([[0.0], [1.0], [5.0], [9.0]]), np.ones(4)
    cost = lambda v: _cost_of_rows(SphericalGaussian(v, dim=1), None, x, weights)
    value, slope = jax.jit(jax.value_and_grad(cost))(2.0)
    np.testing.assert_allclose(value, 6.5**2 / 4, rtol=1e-14)
    np.testing.assert_allclose(slope, -value / 2, rtol=1e-14)
    bend = jax.jit(jax.grad(jax.grad(cost)))(2.0)
    np.testing.assert_allclose(bend, value / 2, rtol=1e-14)


ZEROS = [BregmanModel, NaturalModel]


@pytest.mark.parametrize("kind", ZEROS)
def test_gradients_at_zero_counts(kind, x64):
    """0 where both parts are 0, −inf where exactly one is, never NaN."""
    model = Poisson(2).cluster_model()
    if kind is NaturalModel:
        model = NaturalModel(PLAIN_POISSON)
    for first, second, slope in [
        ([0.0, 2.0], [0.0, 5.0], [0, np.log(2 / 3.5)]),
        ([0.0, 2.0], [6.0, 2.0], [-np.inf, 0]),
        ([6.0, 2.0], [0.0, 2.0], [np.log(2.0), 0]),
        ([0.0, 0.0], [0.0, 0.0], [0, 0]),
        ([4.0, 2.0], [4.0, 2.0], [0, 0]),
    ]:
        x = jnp.array([first, second])
        value, (by_x, by_w) = pair_slopes(model, x, jnp.ones(2))
        assert np.isfinite(value)
        np.testing.assert_allclose(by_x[0], slope, rtol=1e-9, atol=1e-9)
        assert np.isfinite(np.asarray(by_w)).all()


def test_pseudo_count_keeps_gradients_finite(x64):
    """A count of 0 with a pseudo-count a on each: by hand."""
    model = Poisson(1).cluster_model()
    cost = lambda a: pair_cost(model, jnp.array([[0.0], [6.0]]) + a)
    value, slope = jax.value_and_grad(cost)(0.5)
    np.testing.assert_allclose(value, 3.05079978, rtol=1e-8)
    np.testing.assert_allclose(slope, -1.32687094, rtol=1e-8)
    value, slope = jax.value_and_grad(cost)(0.0)
    np.testing.assert_allclose(value, 6 * np.log(2), rtol=1e-14)
    np.testing.assert_array_equal(slope, -np.inf)


@pytest.mark.parametrize(
    "name", ["multinomial", "gaussian", "gamma", "inverse_gaussian"]
)
def test_second_derivatives_match_differences_of_gradients(name, rng, x64):
    case = FAMILIES[name]
    family, x = case.make(), case.data(rng, 4)
    smoothing = family.default_smoothing(x, None)
    weights = np.ones(4)
    gradient = jax.jit(jax.grad(functools.partial(_cost_of_rows, family, smoothing)))
    move = rng.normal(size=x.shape)
    if name == "multinomial":
        move -= move.mean(axis=1, keepdims=True)
    along = jax.jvp(lambda x: gradient(x, weights), (x,), (move,))[1]
    step = 1e-5
    difference = gradient(x + step * move, weights) - gradient(x - step * move, weights)
    np.testing.assert_allclose(along, difference / (2 * step), rtol=1e-5, atol=1e-5)


def test_gradient_where_the_covariance_has_equal_eigenvalues(x64):
    """Four points (±1, ±1): the gradient of −(n/2) log det S at each is −x."""
    x = jnp.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    model = Gaussian(2).cluster_model()

    def value(x):
        statistics = Moments(x, jnp.zeros((4, 2, 2)))
        leaves = model.leaves(statistics, jnp.ones(4))
        whole = model.union(take(leaves, [0]), take(leaves, [1]))
        whole = model.union(whole, take(leaves, [2]))
        whole = model.union(whole, take(leaves, [3]))
        return -0.5 * whole.weight[0] * whole.log_det[0]

    np.testing.assert_allclose(jax.jit(jax.grad(value))(x), -x, rtol=1e-13)


@pytest.mark.parametrize(
    "name", ["poisson", pytest.param("dense", marks=pytest.mark.slow)]
)
def test_second_derivatives_where_means_agree(name, x64):
    """The curvature of ψ* is there in coordinates that add nothing to the cost."""
    family = PLAIN_POISSON
    if name == "dense":
        family = ExponentialFamily(lambda t: jnp.sum(jnp.exp(t)), identity, np.zeros(2))
    models = NaturalModel(family), Poisson(2).cluster_model()
    x, weights = jnp.array([[2.0, 5.0], [3.0, 5.0]]), jnp.array([1.0, 2.0])
    found, expected = (
        jax.jit(jax.hessian(functools.partial(pair_cost, model)))(x, weights)
        for model in models
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)

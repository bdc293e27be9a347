"""jit, vmap and derivatives of the public functions, and no second trace."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bregjax as bj
from bregjax.objectives import (
    cut_cost,
    leave_one_out_log_likelihood,
)

M, D, K = 10, 2, 3
FAMILY = bj.DiagonalGaussian()

FUNCTIONS = {
    "features": functools.partial(bj.dendrogram_features, num_features=4),
    "leave_one_out": functools.partial(leave_one_out_log_likelihood, num_clusters=K),
}


def problem_of(x, weights, bandwidth):
    smoothing = bj.blur(bandwidth)
    return bj.Problem(x, family=FAMILY, smoothing=smoothing, weights=weights)


def summary(name, children, *numbers):
    out = FUNCTIONS[name](problem_of(*numbers), children)
    return jnp.sum(jnp.sin(out + jnp.arange(out.size).reshape(out.shape)))


@pytest.fixture
def arguments(rng, x64):
    del x64
    x = rng.normal(size=(M, D)) + 2
    weights = rng.uniform(1, 2, M)
    tree = bj.agglomerate(problem_of(x, weights, 0.5))
    return jnp.asarray(tree.children), jnp.asarray(x), jnp.asarray(weights), 0.5


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_modes_agree(name, arguments):
    """Forward against reverse, second order against differences, a batch, one trace."""
    children, *numbers = arguments
    numbers = [jnp.asarray(n) for n in numbers]
    chex.clear_trace_counter()

    @jax.jit
    @chex.assert_max_traces(n=1)
    def everything(children, x, weights, bandwidth):
        f = lambda *args: summary(name, children, *args)
        gradient = jax.grad(f, (0, 1, 2))(x, weights, bandwidth)
        direction = (jnp.cos(x), jnp.sin(weights), jnp.ones_like(bandwidth))
        value, along = jax.jvp(f, (x, weights, bandwidth), direction)
        second = jax.jvp(lambda h: jax.grad(f, 2)(x, weights, h), (bandwidth,), (1.0,))
        return value, gradient, direction, along, second[1]

    value, gradient, direction, along, second = everything(children, *numbers)
    expected = sum(jnp.vdot(g, d) for g, d in zip(gradient, direction, strict=True))
    np.testing.assert_allclose(along, expected, rtol=1e-9)
    x, weights, bandwidth = numbers
    step = 1e-5
    slopes = [
        everything(children, x, weights, bandwidth + s)[1][2] for s in (step, -step)
    ]
    np.testing.assert_allclose(second, (slopes[0] - slopes[1]) / (2 * step), rtol=1e-5)
    batch = jax.vmap(everything, in_axes=(None, 0, None, 0))
    both = batch(children, jnp.stack([x, x + 1]), weights, jnp.stack([bandwidth] * 2))
    np.testing.assert_allclose(both[0][0], value, rtol=1e-9)
    np.testing.assert_allclose(both[1][0][0], gradient[0], rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("name", ["features", "leave_one_out"])
def test_eager_calls_are_float64_and_the_same(name, arguments):
    children, *numbers = arguments
    expected = FUNCTIONS[name](problem_of(*numbers), children)
    with jax.enable_x64(False):
        problem = problem_of(*map(np.asarray, numbers))
        got = FUNCTIONS[name](problem, np.asarray(children))
    assert isinstance(got, np.ndarray)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_batches_of_data_weights_and_bandwidths(rng, x64):
    """Trees, and what is made of them, in one call each."""
    del x64
    x = jnp.asarray(rng.normal(size=(3, M, D)))
    weights = jnp.asarray(rng.uniform(1, 2, (3, M)))
    bandwidths = jnp.array([0.3, 0.5, 0.9])

    @jax.jit
    @jax.vmap
    def of_one(*numbers):
        problem = problem_of(*numbers)
        tree = bj.agglomerate(problem)
        return tree, leave_one_out_log_likelihood(problem, tree, num_clusters=K)

    trees, likelihoods = of_one(x, weights, bandwidths)
    for k in range(3):
        problem = problem_of(x[k], weights[k], bandwidths[k])
        one = bj.agglomerate(problem)
        np.testing.assert_array_equal(trees.children[k], one.children)
        expected = leave_one_out_log_likelihood(problem, one, num_clusters=K)
        np.testing.assert_allclose(likelihoods[k], expected, rtol=1e-10)


def test_the_gradient_with_the_tree_held_fixed_is_the_gradient(rng, x64):
    """Where no merges tie: against differences in which the tree is found anew."""
    del x64
    problem = bj.Problem(rng.normal(size=(M, D)), family=FAMILY)
    at = lambda bandwidth: problem.replace(smoothing=bj.blur(bandwidth))

    def objective(bandwidth):
        tree = bj.agglomerate(at(bandwidth))
        return cut_cost(at(bandwidth), tree, num_clusters=K)

    tree = bj.agglomerate(at(0.5))
    fixed = lambda bandwidth: cut_cost(at(bandwidth), tree, num_clusters=K)
    step = 1e-5
    expected = (objective(0.5 + step) - objective(0.5 - step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(fixed)(0.5), expected, rtol=1e-7)

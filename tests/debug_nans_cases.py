"""Derivatives under `jax_debug_nans`: tests for a process of their own.

Switching the flag on and off leaves programs behind that other tests stumble over.
"""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bregjax import ExponentialFamily, Problem, merge_cost, replay
from bregjax.smoothing import blur

X = np.array([[0.3, 1.0], [-1.2, 0.4], [2.0, -0.7], [0.9, 1.8]])
COUNTS = np.array([[0.0, 1, 3], [1, 1, 1], [0, 4, 2], [5, 0, 1]])
CHILDREN = np.array([[0, 3], [1, 4], [2, 5]])


@contextlib.contextmanager
def _debug_nans():
    """The flag as users set it, restored."""
    jax.config.update("jax_debug_nans", True)
    try:
        yield
    finally:
        jax.config.update("jax_debug_nans", False)


def _sum_exp(theta):
    return jnp.sum(jnp.exp(theta))


def _identity(x):
    return x


OWN = ExponentialFamily(_sum_exp, _identity, np.zeros(3), separable=True)

CASES = {
    "diagonal_gaussian": ("diagonal_gaussian", X, blur(0.5)),
    "gaussian": ("gaussian", X, blur(0.5)),
    "isotropic_gaussian": ("isotropic_gaussian", X, blur(0.5)),
    "poisson": ("poisson", COUNTS, None),
    "multinomial": ("multinomial", COUNTS, None),
    "bernoulli": ("bernoulli", (COUNTS > 1).astype(float), None),
    "own": (OWN, COUNTS, None),
}


def _slopes(name):
    """Derivatives by data and weights; eagerly each primitive's result is checked."""
    family, x, smoothing = CASES[name]

    def total(x, weights):
        problem = Problem(x, family=family, smoothing=smoothing, weights=weights)
        return replay(problem, CHILDREN).sum()

    return jax.grad(total, (0, 1))(jnp.asarray(x), jnp.ones(4))


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_what_they_are_without(name):
    with _debug_nans():
        by_x, by_weight = _slopes(name)
    jitted = jax.jit(_slopes, static_argnums=0)(name)
    assert not np.isnan(by_x).any()
    np.testing.assert_allclose(by_x, jitted[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_weight, jitted[1], rtol=1e-4, atol=1e-5)


def test_the_gradient_by_a_bandwidth():
    problem = Problem(X, family="diagonal_gaussian")

    def total(bandwidth):
        return replay(problem.replace(smoothing=blur(bandwidth)), CHILDREN).sum()

    step = 1e-6
    wanted = (total(0.5 + step) - total(0.5 - step)) / (2 * step)
    with _debug_nans():
        slope = jax.grad(total)(jnp.asarray(0.5))
    assert float(slope) == pytest.approx(wanted, rel=1e-5)


def test_the_cost_of_a_merge_by_weights_at_shared_zeros():
    """The slope −inf of row 1 alone meets the zero that rows 0 and 2 share."""
    problem = Problem(COUNTS[:3], family="poisson")

    def cost(weights):
        return merge_cost(problem.replace(weights=weights), [0, 2], 1)

    with _debug_nans():
        slopes = jax.grad(cost)(jnp.ones(3))
    step = 1e-3 * np.eye(3)
    wanted = [(cost(1 + s) - cost(1 - s)) / 2e-3 for s in step]
    np.testing.assert_allclose(slopes, wanted, rtol=1e-4)

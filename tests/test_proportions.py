"""Gradients through the proportions of counts, at zeros of them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trees import merge_cost_of

from bregjax import Problem, dendrogram_features, mixing, replay
from bregjax._numerics import proportions
from bregjax.hierarchy import cluster_cost

PAIR = np.array([[0, 1]])


def _by_hand(x, weights):
    """w (log(p/c) − Σ p log(p/c)) / Σx, the logarithm 0 where p = c = 0."""
    p = x / x.sum(axis=1, keepdims=True)
    center = weights @ p / weights.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = np.where(center > 0, np.log(p / center), 0)
        kept = np.where(p > 0, p * log_ratio, 0).sum(axis=1, keepdims=True)
    return weights[:, None] * (log_ratio - kept) / x.sum(axis=1, keepdims=True)


def _cost(x, weights, smoothing=None):
    options = {"smoothing": smoothing, "weights": weights}
    return replay(Problem(x, family="multinomial", **options), PAIR).sum()


@jax.jit
def _slopes(x, weights):
    return jax.grad(_cost)(x, weights), jax.jacfwd(_cost)(x, weights)


ROWS = {
    "counts": ([[0.0, 1, 3], [1, 1, 1]], [1.0, 1.0]),
    "shares": ([[0.25, 0, 0.75], [0.5, 0.5, 0]], [2.0, 3.0]),
    "shared zero": ([[0.0, 2, 5, 1], [0, 3, 0, 1]], [1.0, 4.0]),
    "no zero": ([[1.0, 2, 5], [2, 3, 9]], [1.0, 4.0]),
}


@pytest.mark.parametrize("name", ROWS)
def test_gradients_are_those_by_hand(name, dtype):
    """−inf in an entry that is 0 in one row alone; the others are finite."""
    x, weights = (np.array(part, dtype) for part in ROWS[name])
    wanted = _by_hand(x.astype(float), weights.astype(float))
    assert not np.isnan(wanted).any()
    tight: Any = {"rtol": 1e-12 if dtype == np.float64 else 2e-5, "atol": 1e-6}
    for slopes in _slopes(x, weights):
        np.testing.assert_allclose(slopes, wanted, **tight)


def test_costs_of_points_have_the_gradients_of_replay(x64):
    del x64
    x, weights = (np.array(part) for part in ROWS["counts"])
    wanted = _by_hand(x, weights)
    tight: Any = {"rtol": 1e-12}

    def merging(a, b):
        parts: Any = {"weights_a": weights[:1], "weights_b": weights[1:]}
        return merge_cost_of(a, b, family="multinomial", **parts)

    parts = jax.grad(merging, (0, 1))(x[:1], x[1:])
    np.testing.assert_allclose(np.concatenate(parts), wanted, **tight)
    problem = Problem(x, family="multinomial", weights=weights)
    np.testing.assert_allclose(jax.grad(cluster_cost)(problem).x, wanted, **tight)


def test_the_gradients_that_were_nan(x64):
    del x64
    x, weights = ROWS["shares"]
    wanted = [[-2.0794415, -np.inf, 0.6931472], [-0.4315231, 0.4315231, -np.inf]]
    slopes = jax.grad(_cost)(jnp.array(x), jnp.array(weights))
    np.testing.assert_allclose(slopes, wanted, atol=1e-6)
    x, weights = ROWS["counts"]
    slopes = jax.grad(_cost)(jnp.array(x), jnp.array(weights))
    np.testing.assert_allclose(slopes[0], [-np.inf, -0.08991995, 0.02997332], atol=1e-7)


def test_features_have_no_nan(x64):
    del x64
    x = jnp.array([[0.0, 1, 3], [1, 1, 1], [0, 4, 4]])

    def loss(rows):
        features = dendrogram_features(
            Problem(x, family="multinomial"),
            np.array([[0, 2], [1, 3]]),
            rows,
            num_features=2,
        )
        return jnp.sum(features)

    slopes = jax.grad(loss)(x)
    assert not np.isnan(slopes).any()
    # The first cluster, {0, 2}, lacks the first category too.
    assert np.isfinite(slopes[:, 1:]).all()


def test_second_derivatives_at_zeros(x64):
    """Smoothed costs are smooth at zeros: every order of modes, and differences."""
    del x64
    x, weights = (jnp.array(part) for part in ROWS["counts"])
    smoothing = mixing(jnp.ones(3) / 3, 0.1)
    cost = lambda x: _cost(x, weights, smoothing)
    step = 1e-5 * jnp.eye(6).reshape(6, 2, 3)

    @jax.jit
    def everything(x):
        twice = jax.jacrev(jax.jacrev(cost)), jax.jacfwd(jax.jacfwd(cost))
        slopes = jax.vmap(jax.grad(cost))(
            jnp.concatenate([x[None] + step, x[None] - step])
        )
        return jax.hessian(cost)(x), [other(x) for other in twice], slopes

    hessian, others, slopes = everything(x)
    for other in others:
        np.testing.assert_allclose(other, hessian, atol=1e-12)
    differences = (slopes[:6] - slopes[6:]) / 2e-5
    np.testing.assert_allclose(
        differences.reshape(2, 3, 2, 3), hessian, rtol=1e-6, atol=1e-8
    )


def test_shares_and_their_derivative(rng, dtype):
    x = rng.uniform(size=(4, 3)).astype(dtype)
    np.testing.assert_allclose(proportions(x), x / x.sum(1, keepdims=True), rtol=1e-6)
    plain = lambda x: x / jnp.sum(x, -1, keepdims=True)
    np.testing.assert_allclose(
        jax.jacrev(proportions)(x), jax.jacrev(plain)(x), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("family", ["poisson", "multinomial"])
def test_every_zero_beside_others_has_slope_minus_infinity(family, dtype):
    """The mean of a union plus its distance to 0 is 1e-17 as often as 0."""
    x = jnp.array([[0.0, 2], [1, 1], [0, 4], [3, 5], [0, 1]], dtype)
    slopes = jax.grad(cluster_cost)(Problem(x, family=family)).x
    np.testing.assert_array_equal(jnp.isneginf(slopes), x == 0)
    assert np.isfinite(slopes[x > 0]).all()

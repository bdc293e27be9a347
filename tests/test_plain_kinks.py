"""Plain functions with kinks: Definition 2.1 wherever a divergence of one is taken."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bregjax import (
    Problem,
    agglomerate,
    bregman_divergence,
    dendrogram_features,
    replay,
)
from bregjax.convex import L1Norm, MaxNorm, Sum
from bregjax.convex._plain import PlainFunction, by_gradients
from bregjax.hierarchy import cluster_cost, merge_cost


def _absolute(v):
    return jnp.sum(jnp.abs(v))


def _largest(v):
    return jnp.max(jnp.abs(v))


def _euclidean(v):
    return jnp.linalg.norm(v)


PAIRS = {
    # φ = Σ f(x) + f'(0; −x), twice f of each of two points ±x.
    "absolute": (_absolute, [1.0, 1.0], 8.0),
    "largest": (_largest, [1.0, 1.0], 4.0),
    "euclidean": (_euclidean, [3.0, 4.0], 20.0),
    # f(x) + max(−x) at each: (2 + −1) and (−1 + 2).
    "max": (jnp.max, [1.0, 2.0], 2.0),
    # Half of it is smooth, with divergences x²/2 of its own.
    "hinged": (lambda v: jnp.sum(jnp.abs(v) + v**2 / 2), [1.0, 1.0], 10.0),
}


@pytest.mark.parametrize("name", PAIRS)
def test_costs_at_a_kink_are_those_of_the_definition(name):
    f, point, cost = PAIRS[name]
    x, children = np.array([point, -np.array(point)]), np.array([[0, 1]])
    problem = Problem(x, family=f)
    assert cluster_cost(problem) == pytest.approx(cost)
    assert merge_cost(problem, 0, 1, direct=True) == pytest.approx(cost)
    assert replay(problem, children) == pytest.approx(cost)
    traced = jax.jit(replay)(problem, children)
    assert float(traced[0]) == pytest.approx(cost, rel=1e-6)
    traced = jax.jit(cluster_cost)(problem)
    assert float(traced) == pytest.approx(cost, rel=1e-6)


@pytest.mark.parametrize(("plain", "known"), [(_absolute, L1Norm), (_largest, MaxNorm)])
def test_they_are_those_of_the_class(plain, known, rng, dtype):
    y = np.concatenate([rng.integers(-1, 2, (12, 3)), rng.normal(size=(4, 3))])
    x = rng.normal(size=(16, 3)).astype(dtype)
    y = y.astype(dtype)
    wanted = bregman_divergence(known(), x, y)
    got = PlainFunction(plain).remainder(y, x - y, x=x)
    tight = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(got, wanted, rtol=tight, atol=tight)
    np.testing.assert_allclose(bregman_divergence(plain, x, y), wanted, atol=tight)


SMOOTH = {
    "logsumexp": jax.nn.logsumexp,
    "centered": lambda v: jax.nn.logsumexp(v) - jnp.mean(v),
    "softplus": lambda v: jnp.sum(jax.nn.softplus(v)),
    "huber": lambda v: jnp.sum(jnp.where(abs(v) < 1, v * v / 2, abs(v) - 0.5)),
    "squared hinge": lambda v: jnp.sum(jnp.maximum(v - 1, 0) ** 2) + v @ v,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_keep_all_their_digits(name, rng, dtype):
    """Also where the maximum inside them ties, as at (1, 1, 1)."""
    y = np.concatenate([np.ones((9, 3)), np.zeros((9, 3)), rng.normal(size=(9, 3))])
    size = np.resize([1e-9, 1e-3, 1.0], (27, 1))
    y, delta = y.astype(dtype), (size * rng.normal(size=y.shape)).astype(dtype)
    f = PlainFunction(SMOOTH[name])
    plain = by_gradients(f).remainder(y, delta)
    np.testing.assert_array_equal(f.remainder(y, delta), plain)
    by_delta = lambda f: jax.grad(lambda d: jnp.sum(f.remainder(y, d)))(delta)
    np.testing.assert_allclose(by_delta(f), by_delta(by_gradients(f)), rtol=1e-6)


def test_merges_at_kinks_are_refused_of_sums_too():
    x = np.array([[1.0, 1.0], [-1.0, -1.0]])
    with pytest.raises(ArithmeticError, match="has a kink at"):
        agglomerate(x, family=_absolute)
    with pytest.raises(ArithmeticError, match="has a kink at"):
        agglomerate(x, family=Sum((PlainFunction(_absolute), PlainFunction(jnp.sum))))


def test_features_at_a_kink():
    """The union of the cluster {2, 4} with the row −6 has its mean at 0."""
    x, row = np.array([[2.0], [4.0]]), np.array([[-6.0]])
    problem = Problem(x, family=_absolute)
    tree = agglomerate(problem)
    features = dendrogram_features(problem, tree, row, num_features=1)
    # Σ w (f(c) + f'(0; −c)): 2 (3 + 3), and 6 + 6.
    assert float(features[0, 0]) == pytest.approx(24)

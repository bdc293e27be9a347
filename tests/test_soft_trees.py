"""Sampled trees against all sequences of merges of tiny problems."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_replay import difference

from bregjax import Problem
from bregjax._soft_trees import (
    co_clustering,
    sample_tree,
    score_function_loss,
    sequence_log_prob,
)
from bregjax.families import Gaussian, Poisson, SphericalGaussian
from bregjax.hierarchy import Dendrogram, agglomerate, merge_cost
from bregjax.smoothing import blur

M = 4


def sequences(m):
    """Children of all sequences of merges of m leaves."""
    done = [([], list(range(m)))]
    for t in range(m - 1):
        done = [
            ([*steps, pair], [n for n in alive if n not in pair] + [m + t])
            for steps, alive in done
            for pair in itertools.combinations(alive, 2)
        ]
    return np.array([steps for steps, _ in done], np.int32)


def log_prob_by_hand(problem, children, temperature):
    """By costs of sets of rows, one step after the other."""
    m = problem.num_points
    members = {i: [i] for i in range(m)}
    total = 0.0
    for t, (a, b) in enumerate(children.tolist()):
        costs = {
            pair: merge_cost(problem, members[pair[0]], members[pair[1]])
            for pair in itertools.combinations(sorted(members), 2)
        }
        scores = {pair: np.exp(-cost / temperature) for pair, cost in costs.items()}
        total += np.log(scores[a, b] / sum(scores.values()))
        members[m + t] = members.pop(a) + members.pop(b)
    return total


ALL = sequences(M)
CASES = {
    "gaussian": (Gaussian(), blur(0.7)),
    "ward": (SphericalGaussian(2.0), None),
    "poisson": (Poisson(), None),
}


def data(name, rng):
    x = rng.normal(size=(M, 2))
    return np.round(np.exp(x)) if name == "poisson" else x


@pytest.mark.parametrize("name", sorted(CASES))
def test_probabilities_of_all_sequences(name, rng, x64):
    del x64
    family, smoothing = CASES[name]
    x = data(name, rng)
    problem = Problem(x, family=family, smoothing=smoothing)
    assert len(ALL) == 18
    log_probs = jax.jit(
        jax.vmap(lambda c: sequence_log_prob(problem, c, temperature=0.8))
    )(jnp.asarray(ALL))
    np.testing.assert_allclose(np.exp(log_probs).sum(), 1, rtol=1e-12)
    for children, got in list(zip(ALL, log_probs, strict=True))[::5]:
        expected = log_prob_by_hand(problem, children, 0.8)
        np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_draws_follow_the_probabilities(rng, x64):
    """20,000 draws, each sequence within five standard errors of its share."""
    del x64
    problem = Problem(rng.normal(size=(M, 2)), family="ward")
    keys = jax.random.split(jax.random.key(1), 20_000)
    trees, log_probs = jax.jit(
        jax.vmap(lambda k: sample_tree(problem, key=k, temperature=0.5))
    )(keys)
    log_prob_of = functools.partial(sequence_log_prob, problem, temperature=0.5)
    drawn = np.asarray(trees.children)
    for children in ALL:
        share = np.mean(np.all(drawn == children, axis=(1, 2)))
        p = np.exp(log_prob_of(children))
        assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / len(keys)) + 1e-12
    np.testing.assert_allclose(log_probs[7], log_prob_of(drawn[7]), rtol=1e-12)
    # Expected co-clustering, against the sum over all sequences.
    exact = np.zeros((M, M))
    for children in ALL:
        label = Dendrogram(children, np.zeros(M - 1), np.ones(M)).cut(num_clusters=2)
        p = np.exp(log_prob_of(children))
        exact += p * (label[:, None] == label[None])
    got = co_clustering(trees, num_clusters=2)
    np.testing.assert_allclose(got, exact, atol=0.02)
    np.testing.assert_array_equal(np.diag(got), 1)


@pytest.mark.parametrize("name", ["poisson", "ward"])
def test_cold_trees_are_greedy(name, rng):
    family, smoothing = CASES[name]
    x = rng.normal(size=(30, 2))
    x = np.round(np.exp(x + 2)) + rng.uniform(size=(30, 2)) if name == "poisson" else x
    problem = Problem(x, family=family, smoothing=smoothing)
    greedy = agglomerate(problem)
    tree, log_prob = sample_tree(problem, key=0, temperature=1e-9)
    np.testing.assert_array_equal(tree.children, greedy.children)
    np.testing.assert_allclose(tree.merge_costs, greedy.merge_costs, rtol=1e-10)
    assert -1e-6 < log_prob <= 0


def test_gradient_of_the_log_probability(rng, x64):
    del x64
    x = rng.normal(size=(6, 2))
    problem = Problem(x, family="gaussian")
    tree, _ = sample_tree(problem, key=3, temperature=1.0)

    @jax.jit
    def log_prob(x, bandwidth, temperature):
        moved = problem.replace(x=x, smoothing=blur(bandwidth))
        return sequence_log_prob(moved, tree, temperature=temperature)

    at = (jnp.asarray(x), jnp.asarray(0.6), jnp.asarray(0.9))
    got = jax.jit(jax.grad(log_prob, (0, 1, 2)))(*at)
    for k in range(3):
        along = lambda v, k=k: log_prob(*[v if i == k else at[i] for i in range(3)])
        np.testing.assert_allclose(
            got[k], difference(along, at[k]), rtol=1e-6, atol=1e-7
        )


def test_gradient_of_an_expected_loss(rng, x64):
    """The score-function estimate against the gradient of Σ P(sequence) · loss."""
    del x64
    x = jnp.asarray(rng.normal(size=(M, 2)))
    temperature = 0.7

    def loss_of(tree, x):
        """Depends on the tree, and by itself on x."""
        label = tree.cut(num_clusters=2)
        return jnp.sum((label[0] == label[1]) * x[:, 0] ** 2) + 3.0 * (
            label[0] != label[2]
        )

    def expected(x):
        problem = Problem(x, family="ward")

        def term(children):
            tree = Dendrogram(children, jnp.zeros(M - 1), jnp.ones(M))
            p = jnp.exp(sequence_log_prob(problem, tree, temperature=temperature))
            return p * loss_of(tree, x)

        return jnp.sum(jax.vmap(term)(jnp.asarray(ALL)))

    def estimate(x, key):
        keys = jax.random.split(key, 2000)
        problem = Problem(x, family="ward")
        trees, log_probs = jax.vmap(
            lambda k: sample_tree(problem, key=k, temperature=temperature)
        )(keys)
        losses = jax.vmap(lambda tree: loss_of(tree, x))(trees)
        return score_function_loss(losses, log_probs)

    exact = jax.jit(jax.grad(expected))(x)
    estimates = jax.jit(
        jax.vmap(jax.grad(estimate), (None, 0)),
    )(x, jax.random.split(jax.random.key(2), 12))
    error = np.std(estimates, axis=0, ddof=1) / np.sqrt(len(estimates))
    assert np.all(np.abs(np.mean(estimates, axis=0) - exact) < 5 * error + 1e-3)
    assert np.all(error < 0.1)


def test_score_function_loss_by_hand():
    """Two draws: each is the other's baseline."""
    value, gradient = jax.value_and_grad(score_function_loss, 1)(
        jnp.array([1.0, 4.0]), jnp.array([-2.0, -1.0])
    )
    assert value == 2.5
    np.testing.assert_allclose(gradient, [-1.5, 1.5])


def test_errors(rng):
    x = rng.normal(size=(4, 2))
    problem = Problem(x, family="ward")
    with pytest.raises(ValueError, match="`temperature` must be positive"):
        sample_tree(problem, key=0, temperature=0.0)
    with pytest.raises(ValueError, match="positive and finite"):
        sample_tree(problem, key=0, temperature=np.inf)
    for key in (0.5, np.zeros(2), jax.random.split(jax.random.key(0))):
        with pytest.raises((TypeError, ValueError)):
            sample_tree(problem, key=key)
    with pytest.raises(ValueError, match="without a finite cost"):
        sample_tree(Problem(x, family="gaussian", smoothing=None), key=0)
    with pytest.raises(ValueError, match="two draws at least"):
        score_function_loss(jnp.ones(1), jnp.ones(1))


def test_keys_of_all_kinds(rng):
    problem = Problem(rng.normal(size=(5, 2)), family="ward")
    keys = [
        3,
        np.int64(3),
        jax.random.key(3),
        jax.random.PRNGKey(3),
        np.asarray(jax.random.PRNGKey(3)),
    ]
    trees = [sample_tree(problem, key=key)[0].children for key in keys]
    for other in trees[1:]:
        np.testing.assert_array_equal(other, trees[0])
    sample_tree(problem, key=jax.random.key(3, impl="rbg"))


def test_hot_trees_are_trees(rng):
    """At the largest temperature all pairs are alike: P is one in their number."""
    x = rng.normal(size=(7, 2))
    tree, log_prob = sample_tree(Problem(x, family="ward"), key=0, temperature=1e300)
    assert sorted(tree.children.ravel()) == list(range(12))
    pairs = np.array([k * (k - 1) / 2 for k in range(7, 1, -1)])
    np.testing.assert_allclose(log_prob, -np.log(pairs).sum(), rtol=1e-12)

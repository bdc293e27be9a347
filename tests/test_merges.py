"""Sums and averages over the nodes of a tree, and all their derivatives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family_cases import FAMILIES, smoothed_leaves
from trees import chain, leaf_sets, random_tree

from bregjax import Problem
from bregjax.clusters import ClusterModel, Merges, NaturalModel
from bregjax.hierarchy import agglomerate, replay

M, D = 7, 2


def merges_of(tree):
    return Merges(jnp.asarray(tree.children), tree.num_leaves)


def brute_force(tree, weights, leaves):
    members = [sorted(leaf_set) for leaf_set in leaf_sets(tree)]
    sums = np.stack([weights[m].sum() for m in members])
    means = np.stack(
        [np.average(leaves[m], axis=0, weights=weights[m]) for m in members]
    )
    return sums, means


@pytest.mark.parametrize("shape", ["random", "chain"])
def test_against_brute_force(shape, rng, x64):
    del x64
    tree = chain(M) if shape == "chain" else random_tree(rng, M)
    weights, leaves = rng.uniform(0.5, 2, M), rng.normal(size=(M, D)) + 1e4
    merges = merges_of(tree)
    sums = merges.sum(jnp.asarray(weights))
    means = merges.average(sums, jnp.asarray(leaves))
    expected = brute_force(tree, weights, leaves)
    np.testing.assert_allclose(sums, expected[0], rtol=1e-14)
    np.testing.assert_allclose(means, expected[1], rtol=1e-14)


def test_padding_leaves_the_tree_as_it_is(rng, x64):
    del x64
    tree = random_tree(rng, M)
    weights, leaves = rng.uniform(0.5, 2, M), rng.normal(size=(M, D))
    children = np.pad(tree.children, ((0, 3), (0, 0)))
    merges = Merges(jnp.asarray(children), jnp.int32(M))
    more = lambda a: jnp.asarray(np.concatenate([a, a[-1:], a[-1:], a[-1:]]))
    sums = merges.sum(more(weights))
    means = merges.average(sums, more(leaves))
    expected = brute_force(tree, weights, leaves)
    np.testing.assert_allclose(sums[: 2 * M - 1], expected[0], rtol=1e-14)
    np.testing.assert_allclose(means[: 2 * M - 1], expected[1], rtol=1e-14)


def test_equal_leaves_have_their_own_average_exactly(rng, dtype):
    tree = random_tree(rng, M)
    merges = merges_of(tree)
    weights = jnp.asarray(rng.uniform(0.1, 7, M), dtype)
    value = jnp.asarray(rng.normal(size=D), dtype)
    means = merges.average(merges.sum(weights), jnp.broadcast_to(value, (M, D)))
    assert np.all(np.asarray(means) == np.asarray(value))


def test_derivatives(rng, x64):
    """Reverse, forward, second order and batched, against dense linear algebra."""
    del x64
    tree = random_tree(rng, M)
    merges = merges_of(tree)
    weights, leaves = jnp.asarray(rng.uniform(0.5, 2, M)), rng.normal(size=(M, D))
    leaves, added = jnp.asarray(leaves), jnp.asarray(rng.normal(size=(M - 1, D)))
    members = np.zeros((2 * M - 1, M))
    for node, leaf_set in enumerate(leaf_sets(tree)):
        members[node, sorted(leaf_set)] = 1

    def by_merges(weights, leaves, added):
        means = merges.average(merges.sum(weights), leaves, added=added)
        return jnp.sum(jnp.sin(means))

    def dense(weights, leaves, added):
        """Σ w x / W, and each addition to the nodes above it by its share."""
        total = members @ weights
        own = members @ (weights[:, None] * leaves) / total[:, None]
        inside = (members @ members[M:].T) == members[M:].sum(1)[None]
        shares = inside * total[None, M:] / total[:, None]
        return jnp.sum(jnp.sin(own + shares @ added))

    arguments = (weights, leaves, added)
    everything = (0, 1, 2)
    np.testing.assert_allclose(by_merges(*arguments), dense(*arguments), rtol=1e-13)
    for transform in (
        lambda f: jax.grad(f, everything),
        lambda f: jax.jacfwd(f, everything),
        lambda f: jax.hessian(f, everything),
    ):
        got = jax.jit(transform(by_merges))(*arguments)
        expected = jax.jit(transform(dense))(*arguments)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12),
            got,
            expected,
        )
    batch = jax.tree.map(lambda a: jnp.stack([a, a + 0.5]), arguments)
    got = jax.vmap(jax.grad(by_merges, everything))(*batch)
    for k in range(2):
        one = jax.tree.map(lambda a, k=k: a[k], batch)
        expected = jax.grad(dense, everything)(*one)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a[k], b, rtol=1e-10, atol=1e-12)


def test_infinite_cotangents_meet_no_difference_of_zero(x64):
    """Two zeros under an infinite slope say nothing of the weights; others do."""
    del x64
    merges = Merges(jnp.array([[0, 1], [2, 3]]), 3)
    leaves = jnp.array([[0.0, 1.0], [0.0, 2.0], [4.0, 3.0]])

    def first_mean(weights, leaves):
        zero = lambda nodes: nodes == 0
        return merges.average(merges.sum(weights), leaves, rigid=zero)[3]

    _, pull = jax.vjp(first_mean, jnp.ones(3), leaves)
    by_weight, by_leaf = pull(jnp.array([-jnp.inf, 1.0]))
    np.testing.assert_allclose(by_weight, [-0.25, 0.25, 0])
    np.testing.assert_array_equal(by_leaf[:2], [[-np.inf, 0.5], [-np.inf, 0.5]])


@pytest.mark.parametrize(
    "name",
    ["diagonal_gaussian", "gaussian", "isotropic_gaussian", "poisson"]
    + ["gamma", "inverse_gaussian", "truncated_poisson"],
)
def test_models_sum_what_a_scan_pools(name, rng, x64):
    del x64
    case = FAMILIES[name]
    family = case.make()
    model = family.cluster_model()
    statistics = smoothed_leaves(family, jnp.asarray(case.data(rng, M), float))
    leaves = model.leaves(statistics, jnp.asarray(rng.uniform(0.5, 2, M)))
    merges = merges_of(random_tree(rng, M))
    summed = jax.jit(lambda: model.pool_along(merges, leaves))()
    pooled = jax.jit(lambda: ClusterModel.pool_along(model, merges, leaves))()
    if isinstance(model, NaturalModel):  # where a solve starts is no result
        summed, pooled = ((s.weight, s.mean) for s in (summed, pooled))
    else:
        summed, pooled = model.settle(summed), model.settle(pooled)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13),
        summed,
        pooled,
    )


def test_reverse_mode_keeps_no_copy_a_merge(rng, x64):
    """Memory of the compiled gradient grows as m, of chains too."""
    del x64
    sizes = (200, 400)
    used = []
    for m in sizes:
        x = jnp.asarray(rng.normal(size=(m, 20)))
        children = jnp.asarray(chain(m).children)
        weighed = lambda x, c=children, m=m: jnp.vdot(
            jnp.arange(m - 1.0), replay(Problem(x, family="diagonal_gaussian"), c)
        )
        compiled = jax.jit(jax.grad(weighed)).lower(x).compile()
        analysis: Any = compiled.memory_analysis()
        used.append(analysis.temp_size_in_bytes)
    assert used[1] < 2.2 * used[0]
    assert used[1] < 60 * 8 * 400 * 20


def test_an_inverted_tree_of_counts(rng):
    """Costs of the tree are those that the engine found, merge by merge."""
    problem = Problem(rng.poisson(2.0, size=(40, 5)), family="poisson")
    tree = agglomerate(problem)
    np.testing.assert_allclose(replay(problem, tree), tree.merge_costs, rtol=1e-12)

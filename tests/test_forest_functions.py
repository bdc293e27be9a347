"""Functions of a problem and a tree, of a forest: the tree that was stopped early."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import sparse
from trees import stopped, tree_of

import bregjax as bj
from bregjax.objectives import (
    cut_cost,
    held_out_log_likelihood,
    leave_one_out_log_likelihood,
)
from bregjax.plotting import plot_dendrogram

M, TREES = 9, 3


def softplus(theta):
    """Σ log(1 + e^θ), a ψ of one's own, whose costs are solved for."""
    return jnp.sum(jnp.logaddexp(0.0, theta))


def identity(x):
    return x


@functools.cache
def example(kind):
    """A problem, its tree, and the forest before the last merges."""
    rng = np.random.default_rng(11)
    x = rng.poisson(rng.gamma(2.0, 2.0, (M, 3))).astype(float)
    x[:, 0] += 1
    weights = rng.integers(1, 4, M).astype(float)
    family = "poisson" if kind == "sparse" else kind
    if kind == "own":
        family = bj.ExponentialFamily(softplus, identity, np.zeros(3))
        x = np.where(x > 2, 0.8, 0.2) + rng.uniform(0, 0.1, x.shape)
    table = sparse.csr_array(x) if kind == "sparse" else x
    problem = bj.Problem(table, family=family, weights=weights)
    tree = bj.agglomerate(problem)
    return problem, tree, stopped(tree, TREES)


KINDS = ("poisson", "diagonal_gaussian", "sparse", "own")


@pytest.mark.parametrize("kind", KINDS)
def test_replay_and_cut_costs(kind):
    problem, tree, forest = example(kind)
    costs = np.asarray(bj.replay(problem, forest))
    np.testing.assert_allclose(costs, tree.merge_costs[: M - TREES], rtol=1e-9)
    for k in range(TREES, M + 1):
        expected = cut_cost(problem, tree, num_clusters=k)
        found = cut_cost(problem, forest, num_clusters=k)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="from 3, the number of trees.* to 9.* rows"):
        cut_cost(problem, forest, num_clusters=2)
    apart = stopped(tree, M)
    assert bj.replay(problem, apart).shape == (0,)
    assert cut_cost(problem, apart, num_clusters=M) == 0


def test_replay_of_traced_values():
    problem, tree, forest = example("poisson")

    def total(weights, tree, count):
        return bj.replay(problem.replace(weights=weights), tree)[:count].sum()

    of_tree = jax.grad(total)(jnp.asarray(problem.weights), tree, M - TREES)
    of_forest = jax.jit(jax.grad(total), static_argnums=2)(
        jnp.asarray(problem.weights), forest, M
    )
    np.testing.assert_allclose(of_forest, of_tree, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_the_last_merges(kind):
    problem, tree, forest = example(kind)
    of_tree = bj.dendrogram_features(problem, tree, num_features=M - 1)
    of_forest = bj.dendrogram_features(problem, forest, num_features=M - TREES)
    np.testing.assert_allclose(of_forest, of_tree[:, TREES - 1 :], rtol=1e-9)
    with pytest.raises(ValueError, match="`num_features` .* 1 to 6.*got 7"):
        bj.dendrogram_features(problem, forest, num_features=7)
    with pytest.raises(ValueError, match="`tree` must have a merge at least"):
        bj.dendrogram_features(problem, stopped(tree, M), num_features=1)


@pytest.mark.parametrize(("kind", "num_clusters"), [("poisson", TREES), ("sparse", 5)])
def test_what_looks_at_a_cut_sees_that_of_the_tree(kind, num_clusters):
    problem, tree, forest = example(kind)
    cut = {"num_clusters": num_clusters}
    for function in (
        bj.soft_assignments,
        leave_one_out_log_likelihood,
        lambda p, t, **k: held_out_log_likelihood(p, t, [[2.0, 3.0, 1.0]], **k),
    ):
        expected = function(problem, tree, **cut)
        np.testing.assert_allclose(
            function(problem, forest, **cut), expected, rtol=1e-9
        )
        with pytest.raises(ValueError, match="from 3, the number of trees"):
            function(problem, forest, num_clusters=TREES - 1)


def test_partitions_start_from_forests():
    problem, tree, forest = example("poisson")
    found = bj.hard_clustering(problem, num_clusters=4, init=forest)
    expected = bj.hard_clustering(problem, num_clusters=4, init=tree)
    np.testing.assert_array_equal(found.labels, expected.labels)
    with pytest.raises(ValueError, match="from 3, the number of trees"):
        bj.hard_clustering(problem, num_clusters=2, init=forest)


def test_support_of_the_clusters_there_are():
    problem, tree, forest = example("poisson")
    options = {"resampled": "points", "num_replicates": 6, "key": 1}
    expected = bj.support_values(problem, tree, **options)[: M - TREES]
    assert 0 < expected.mean() < 1
    np.testing.assert_array_equal(
        bj.support_values(problem, forest, **options), expected
    )
    assert bj.support_values(problem, stopped(tree, M), **options).shape == (0,)


def test_explanations_of_nodes():
    problem, tree, forest = example("poisson")
    last = M + forest.num_merges - 1
    found = bj.explain(problem, forest, -1)
    assert found.node == last
    assert found.merge is not None
    np.testing.assert_allclose(found.merge.cost, tree.merge_costs[last - M], rtol=1e-6)
    assert found.against_rest is not None
    with pytest.raises(ValueError, match=f"from 0 to {last}.*got {last + 1}"):
        bj.explain(problem, forest, last + 1)
    assert bj.explain(problem, stopped(tree, M), 2).merge is None


def test_joined_trees_are_of_the_problem():
    """Where costs are infinite nothing is compared, whichever the problem."""
    problem, _, forest = example("poisson")
    tree = forest.joined()
    found = bj.hard_clustering(problem, num_clusters=4, init=tree)
    expected = bj.hard_clustering(problem, num_clusters=4, init=forest)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert bj.explain(problem, tree, -1).merge is not None
    certificate = bj.certify(problem, tree)
    assert np.isfinite(certificate.sum_of_costs)
    numbers = bj.choose_num_clusters(problem, tree, criterion="gap")
    of_forest = bj.choose_num_clusters(problem, forest, criterion="gap")
    assert numbers.num_clusters == of_forest.num_clusters
    assert bj.hard_clustering(problem, num_clusters=9, init=stopped(tree, 9).joined())
    with pytest.raises(ValueError, match=r"2 of 8 differ.* 1e\+06 .*If `joined` made"):
        bj.explain(problem, forest.joined(cost=1e6), 3)
    other = bj.Problem(np.asarray(problem.x) + 1, family="poisson")
    with pytest.raises(ValueError, match=r"another problem: \d of 8 differ.*alone"):
        bj.explain(other, tree, 3)


def test_log_probabilities_of_first_merges():
    problem = bj.Problem([[0.0], [1.0], [5.0], [7.0]], family="ward")
    log_prob = functools.partial(bj.sequence_log_prob, problem, temperature=3.0)
    firsts = [
        tree_of([pair], num_leaves=4)
        for pair in zip(*np.triu_indices(4, 1), strict=True)
    ]
    assert len(firsts) == 6
    total = sum(np.exp(log_prob(first)) for first in firsts)
    np.testing.assert_allclose(total, 1, rtol=1e-6)
    # After two merges there is one pair, which costs nothing to choose.
    tree = tree_of([[0, 1], [2, 3], [4, 5]])
    np.testing.assert_allclose(log_prob(stopped(tree, 2)), log_prob(tree), rtol=1e-6)
    assert log_prob(stopped(tree, 3)) > log_prob(tree)
    assert log_prob(stopped(tree, 4)) == 0


def test_co_clustering_of_forests():
    problem = bj.Problem([[0.0], [1.0], [5.0], [7.0]], family="ward")
    draw = lambda key: bj.sample_tree(problem, key=key, temperature=2.0)[0]
    trees = jax.vmap(draw)(jax.random.split(jax.random.key(0), 5))
    forests = jax.vmap(lambda tree: stopped(tree, 2))(trees)
    np.testing.assert_array_equal(
        bj.co_clustering(forests, num_clusters=3),
        bj.co_clustering(trees, num_clusters=3),
    )
    with pytest.raises(ValueError, match="from 2, the number of trees"):
        bj.co_clustering(forests, num_clusters=1)


def test_what_takes_one_tree_says_so():
    problem, _, forest = example("poisson")
    message = "takes one tree; `tree` is a forest of 3 trees over 9 leaves"
    with pytest.raises(ValueError, match="`sample` must be None for a forest"):
        bj.certify(problem, forest, sample=3)
    assert bj.certify(problem, forest).holds()
    classes = np.arange(M) % 2
    with pytest.raises(ValueError, match=rf"_purity` {message}. Join.*tree\.joined"):
        bj.dendrogram_purity(forest, classes)
    assert 0 < bj.dendrogram_purity(forest.joined(), classes) < 1
    # Children alone do not say how many leaves there are.
    with pytest.raises(ValueError, match=r"8 merges for the 9 rows.*\(6, 2\)"):
        bj.replay(problem, forest.children)
    other = bj.Problem(np.ones((8, 3)), family="poisson")
    with pytest.raises(ValueError, match=r"7 merges for the 8 rows.*\(6, 2\)"):
        bj.replay(other, forest)


def test_check_table_and_pictures():
    problem, tree, forest = example("poisson")
    # Two clusters can't be had, so that it looks at three.
    found = bj.check_table(problem, forest, num_clusters=2).findings
    assert found == bj.check_table(problem, tree, num_clusters=TREES).findings
    ax = Figure().subplots()
    plot_dendrogram(forest, ax, labels=forest.cut(TREES), names=list("abcdefghi"))
    [lines] = (c for c in ax.collections if c.get_gid() == "branches")
    corners = np.array([path.vertices for path in lines.get_paths()])
    assert corners.shape == (M - TREES, 4, 2)
    # No bracket reaches over another tree.
    order = np.argsort(forest.leaf_order())
    for root in forest.roots:
        if root >= M:
            places = order[forest.members(root)]
            bracket = corners[root - M, :, 0]
            assert places.min() <= bracket.min() <= bracket.max() <= places.max()

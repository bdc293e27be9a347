"""Dendrogram: cuts and heights; SciPy and sets of leaves as references."""

import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.cluster import hierarchy as sch
from trees import INVERTED, chain, leaf_sets, random_tree, tree_of

from bregjax.hierarchy import Dendrogram


def clusters(labels):
    labels = np.asarray(labels)
    return {frozenset(np.flatnonzero(labels == k).tolist()) for k in set(labels)}


FIVE_COUNTS = tree_of(  # rows 3 and 49, Poisson counts 0, 0, 3, 5, 40
    [[0, 1], [2, 3], [5, 6], [4, 7]], [0, 0.25267154, 5.54517744, 44.53572688]
)


# Cuts


@pytest.mark.parametrize("seed", range(20))
def test_cuts_against_sets_of_leaves(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, int(rng.integers(2, 14)))
    sets, m = leaf_sets(tree), tree.num_leaves

    def check(labels, nodes, expected):
        assert clusters(labels) == expected
        assert [sets[node] for node in nodes] == sorted(expected, key=min)
        assert all(leaf in sets[nodes[labels[leaf]]] for leaf in range(m))
        assert labels.dtype == nodes.dtype == np.int32

    alive = set(sets[:m])
    check(tree.cut(num_clusters=m), tree.cluster_nodes(num_clusters=m), alive)
    for merge, (left, right) in enumerate(tree.children):
        alive = alive - {sets[left], sets[right]} | {sets[m + merge]}
        k = m - merge - 1
        check(tree.cut(num_clusters=k), tree.cluster_nodes(num_clusters=k), alive)

    for limit in np.arange(-0.5, m):
        inside = {
            node: all(
                cost <= limit
                for cost, below in zip(tree.merge_costs, sets[m:], strict=True)
                if below <= sets[node]
            )
            for node in range(2 * m - 1)
        }
        whole = [sets[node] for node, holds in inside.items() if holds]
        largest = {a for a in whole if not any(a < b for b in whole)}
        nodes = tree.cluster_nodes(max_cost=limit)
        check(tree.cut(max_cost=limit), nodes, largest)


def test_cut_gives_the_number_asked_where_costs_invert():
    np.testing.assert_array_equal(INVERTED.cut(num_clusters=2), [0, 1, 0])
    assert INVERTED.num_inversions() == 1
    scipys = sch.fcluster(INVERTED.linkage(), 2, criterion="maxclust")
    assert len(set(scipys)) == 1  # why `cut` does not ask SciPy


def test_cut_gives_the_number_asked_where_costs_are_zero():
    tree = tree_of([[0, 1], [2, 3]], [0, 3.48522802])  # of counts 2, 2, 9
    np.testing.assert_array_equal(tree.cut(num_clusters=3), [0, 1, 2])
    np.testing.assert_array_equal(tree.cut(num_clusters=2), [0, 0, 1])


def test_cut_at_a_cost():
    np.testing.assert_array_equal(FIVE_COUNTS.cut(max_cost=1), [0, 0, 1, 1, 2])
    np.testing.assert_array_equal(FIVE_COUNTS.cut(max_cost=6), [0, 0, 0, 0, 1])
    at_a_tie = float(FIVE_COUNTS.merge_costs[2])
    np.testing.assert_array_equal(FIVE_COUNTS.cut(max_cost=at_a_tie), [0, 0, 0, 0, 1])


def test_cut_at_a_cost_agrees_with_scipy_on_inverted_trees(rng):
    z = sch.linkage(rng.normal(size=(60, 5)), "centroid")
    tree = Dendrogram.from_linkage(z)
    assert tree.num_inversions() > 0
    for limit in np.quantile(z[:, 2], [0.0, 0.3, 0.6, 0.9, 1.0]):
        expected = clusters(sch.fcluster(z, limit, criterion="distance"))
        assert clusters(tree.cut(max_cost=limit)) == expected


def test_cut_ends_of_the_range(rng):
    tree = random_tree(rng, 7)
    np.testing.assert_array_equal(tree.cut(num_clusters=1), np.zeros(7))
    np.testing.assert_array_equal(tree.cut(num_clusters=np.int64(7)), np.arange(7))
    for k in (0, 8, -1):
        with pytest.raises(ValueError, match=rf"`num_clusters` .* 1 to 7.*got {k}"):
            tree.cut(num_clusters=k)
    with pytest.raises(TypeError):
        tree.cut(num_clusters=2.0)  # pyright: ignore[reportArgumentType]


def test_cut_takes_exactly_one_argument():
    for give in ({}, {"num_clusters": 2, "max_cost": 1.0}):
        for method in (INVERTED.cut, INVERTED.cluster_nodes):
            with pytest.raises(ValueError, match="exactly one of `num_clusters`"):
                method(**give)
    with pytest.raises(ValueError, match="`max_cost` must be a number.*nan"):
        INVERTED.cut(max_cost=np.nan)


# Under jit, vmap and grad


def test_traced_cuts_equal_eager_ones(dtype):
    rng = np.random.default_rng(3)
    trees = [random_tree(rng, 9) for _ in range(4)]
    batch = jax.tree.map(lambda *a: jnp.stack(a).astype(_traced(a[0], dtype)), *trees)
    num_traces = 0

    @jax.jit
    @jax.vmap
    def run(tree):
        nonlocal num_traces
        num_traces += 1
        by_number = tree.cut(num_clusters=4), tree.cluster_nodes(num_clusters=4)
        return (*by_number, tree.cut(max_cost=3.0), tree.heights("monotone"))

    run(batch)
    labels, nodes, limited, heights = run(batch)
    assert num_traces == 1
    assert heights.dtype == dtype
    for index, tree in enumerate(trees):
        np.testing.assert_array_equal(labels[index], tree.cut(num_clusters=4))
        np.testing.assert_array_equal(nodes[index], tree.cluster_nodes(num_clusters=4))
        np.testing.assert_array_equal(limited[index], tree.cut(max_cost=3.0))
        np.testing.assert_array_equal(heights[index], tree.heights("monotone"))


def _traced(array, dtype):
    return np.int32 if np.issubdtype(array.dtype, np.integer) else dtype


def test_only_some_fields_traced(rng):
    tree = random_tree(rng, 9)

    def of_costs(costs):
        traced = dataclasses.replace(tree, merge_costs=costs, ward_scale=2.0)
        assert isinstance(traced.cut(num_clusters=3), np.ndarray)  # needs no costs
        return traced.heights("monotone").sum(), traced.cut(max_cost=4.0)

    costs = jnp.asarray(tree.merge_costs, dtype=jnp.float32)
    (_, labels), gradient = jax.value_and_grad(of_costs, has_aux=True)(costs)
    np.testing.assert_array_equal(labels, tree.cut(max_cost=4.0))
    np.testing.assert_allclose(gradient.sum(), tree.num_merges)
    np.testing.assert_array_equal(
        jax.jit(lambda limit: tree.cut(max_cost=limit))(4.0), tree.cut(max_cost=4.0)
    )
    np.testing.assert_array_equal(
        jax.jit(
            lambda c: dataclasses.replace(tree, children=c).cut(max_cost=jnp.float32(4))
        )(tree.children),
        tree.cut(max_cost=4.0),
    )


def test_ward_heights_differentiate_in_the_scale():
    def total(scale):
        return dataclasses.replace(INVERTED, ward_scale=scale).heights("ward").sum()

    # d/ds 2√(sΔ) = √(Δ/s)
    expected = np.sqrt(INVERTED.merge_costs / 4.0).sum()
    np.testing.assert_allclose(jax.grad(total)(4.0), expected, rtol=1e-6)


def test_passes_through_jit_and_keeps_its_numpy_interface(x64):
    tree = dataclasses.replace(FIVE_COUNTS, ward_scale=0.5)
    same = jax.jit(lambda t: t)(tree)
    assert isinstance(same.children, jax.Array)
    for field in dataclasses.fields(tree):
        np.testing.assert_array_equal(
            getattr(same, field.name), getattr(tree, field.name)
        )
    labels = same.cut(num_clusters=3)
    assert isinstance(labels, np.ndarray)  # concrete: nothing is compiled
    np.testing.assert_array_equal(same.linkage(), tree.linkage())
    np.testing.assert_array_equal(same.heights("ward"), tree.heights("ward"))


def test_a_batch_is_refused_outside_vmap():
    batch = jax.tree.map(lambda *a: np.stack(a), INVERTED, INVERTED)
    assert batch.num_leaves == 3
    for call in (batch.linkage, batch.leaf_order, lambda: batch.cut(num_clusters=1)):
        with pytest.raises(ValueError, match=r"`children` must have.*\[2, 2, 2\]"):
            call()


# Heights and SciPy


def test_ward_heights_are_scipys():
    points = np.array([[0, 0], [1, 0], [4, 0], [4, 3]], dtype=float)
    children = [[0, 1], [2, 3], [4, 5]]
    z = sch.linkage(points, "ward")
    np.testing.assert_array_equal(z[:, :2], [[0, 1], [2, 3], [4, 5]])
    # Means (0.5, 0) and (4, 1.5): Δ = ½ · (2 · 2/4) · (3.5² + 1.5²) = 7.25
    tree = tree_of(children, [0.25, 2.25, 7.25], ward_scale=1.0)
    np.testing.assert_allclose(tree.linkage(heights="ward"), z, rtol=1e-12)
    np.testing.assert_allclose(z[:, 2], [1, 3, 5.38516481], rtol=1e-8)
    wider = tree_of(children, np.array([0.25, 2.25, 7.25]) / 9, ward_scale=9.0)
    np.testing.assert_allclose(wider.linkage(heights="ward"), z, rtol=1e-12)


def test_heights_of_each_kind():
    np.testing.assert_array_equal(INVERTED.heights(), [7.39129752, 6.86188641])
    np.testing.assert_array_equal(INVERTED.heights("monotone"), [7.39129752] * 2)
    np.testing.assert_array_equal(INVERTED.heights("merge_index"), [1, 2])
    with pytest.raises(ValueError, match="'ward' is for trees of SphericalGaussian"):
        INVERTED.heights("ward")
    negative = tree_of([[0, 1], [2, 3], [4, 5]], [0.25, -2.0, 7.25], ward_scale=1.0)
    with pytest.raises(ValueError, match="square roots; merge 1 has -2.* Take 'cost'"):
        negative.heights("ward")
    with pytest.raises(ValueError, match="`heights` must be one of.*got 'height'"):
        INVERTED.linkage(heights="height")  # pyright: ignore[reportArgumentType]


def test_monotone_heights_are_maxima_over_subtrees_alone(rng):
    tree = random_tree(rng, 30)
    sets = leaf_sets(tree)[30:]
    expected = [
        max(c for c, inner in zip(tree.merge_costs, sets, strict=True) if inner <= s)
        for s in sets
    ]
    np.testing.assert_array_equal(tree.heights("monotone"), expected)
    assert np.any(np.diff(expected) < 0)  # not the running maximum over all merges
    assert tree.num_inversions() > 0


def test_num_inversions_counts_merges_and_passes_over_rounding():
    tree = tree_of([[0, 1], [2, 3], [4, 6], [5, 7]], [2.0, 3.0, 1.0, 0.5])
    assert tree.num_inversions() == 2
    rounded = tree_of([[0, 1], [2, 3]], [1 + 1e-12, 1.0])
    assert rounded.num_inversions() == 1
    assert rounded.num_inversions(rtol=1e-9) == 0
    assert FIVE_COUNTS.num_inversions() == 0


@pytest.mark.parametrize("method", ["single", "average", "ward", "centroid"])
def test_scipys_trees_there_and_back(rng, method):
    points = rng.normal(size=(40, 3))
    z = sch.linkage(points, method, optimal_ordering=method == "average")
    tree = Dendrogram.from_linkage(z)
    np.testing.assert_array_equal(tree.linkage(), z)
    assert tree.linkage().dtype == np.float64
    np.testing.assert_array_equal(tree.leaf_order(), sch.leaves_list(z))
    np.testing.assert_allclose(tree.cophenetic(), sch.cophenet(z), rtol=0)
    for heights in ("cost", "monotone", "merge_index"):
        assert sch.is_valid_linkage(tree.linkage(heights=heights))
    if method != "centroid":
        expected = sch.cut_tree(z, n_clusters=[7])[:, 0]
        np.testing.assert_array_equal(tree.cut(num_clusters=7), expected)


def test_cophenetic_of_any_tree(rng):
    tree = random_tree(rng, 25)
    for heights in ("cost", "monotone", "merge_index"):
        expected = sch.cophenet(tree.linkage(heights=heights))
        np.testing.assert_array_equal(tree.cophenetic(heights=heights), expected)


def test_cophenetic_says_what_it_would_take():
    with pytest.raises(
        ValueError, match=r"100000 leaves has 4999950000 pairs and takes 37\.3 GiB"
    ):
        chain(100_000).cophenetic()
    with pytest.raises(ValueError, match="over `max_gib` = 1e-09"):
        INVERTED.cophenetic(max_gib=1e-9)


def test_leaf_order_has_no_crossings(rng):
    tree = random_tree(rng, 40)
    position = np.argsort(tree.leaf_order())
    for node, leaves in enumerate(leaf_sets(tree)):
        places = sorted(position[sorted(leaves)])
        assert places == list(range(places[0], places[0] + len(leaves)))
        np.testing.assert_array_equal(tree.members(node), sorted(leaves))


def test_top_nodes_are_the_last_made():
    np.testing.assert_array_equal(FIVE_COUNTS.top_nodes(3), [8, 7, 6])
    np.testing.assert_array_equal(FIVE_COUNTS.top_nodes(9), np.arange(9)[::-1])
    for count in (0, 10):
        with pytest.raises(ValueError, match=f"`num_nodes` .* 1 to 9.*got {count}"):
            FIVE_COUNTS.top_nodes(count)


def test_members_of_no_node():
    for node in (-1, 9):
        with pytest.raises(ValueError, match=f"`node` must be from 0 to 8; got {node}"):
            FIVE_COUNTS.members(node)


# Sizes


def test_one_leaf(tmp_path):
    tree = tree_of([], [])
    assert (tree.num_leaves, tree.num_merges, tree.num_inversions()) == (1, 0, 0)
    for labels in (
        tree.cut(num_clusters=1),
        tree.cut(max_cost=0.0),
        jax.jit(lambda t: t.cut(num_clusters=1))(tree),
        tree.cluster_nodes(num_clusters=1),
        tree.leaf_order(),
        tree.top_nodes(1),
        tree.members(0),
    ):
        np.testing.assert_array_equal(labels, [0])
    assert tree.linkage().shape == (0, 4)
    assert tree.heights("monotone").shape == tree.cophenetic().shape == (0,)
    assert tree.to_newick(["a b"]) == "'a b';"
    assert Dendrogram.from_linkage(tree.linkage()).num_leaves == 1
    tree.save(tmp_path / "t")
    assert Dendrogram.load(tmp_path / "t").num_leaves == 1


def test_two_leaves():
    tree = tree_of([[0, 1]], [0.5])
    np.testing.assert_array_equal(tree.cut(num_clusters=2), [0, 1])
    np.testing.assert_array_equal(tree.cophenetic(), [0.5])
    assert tree.to_newick() == "(0:0.5,1:0.5);"


def test_a_long_chain_in_seconds(tmp_path):
    m = 100_000
    tree = chain(m)
    started = time.perf_counter()
    labels = tree.cut(num_clusters=2)
    assert labels.sum() == 1
    assert labels[-1] == 1  # the last leaf alone
    np.testing.assert_array_equal(
        tree.cut(max_cost=m / 2 - 1), np.r_[[0] * (m // 2), 1 : m // 2 + 1]
    )
    np.testing.assert_array_equal(tree.heights("monotone"), tree.merge_costs)
    np.testing.assert_array_equal(
        tree.cluster_nodes(num_clusters=2), [2 * m - 3, m - 1]
    )
    order = tree.leaf_order()
    np.testing.assert_array_equal(order, np.r_[np.arange(m - 1, 1, -1), 0, 1])
    np.testing.assert_array_equal(tree.members(2 * m - 3), np.arange(m - 1))
    assert tree.num_inversions() == 0
    text = tree.to_newick()
    assert text.startswith(f"({m - 1}:{m - 1}.0,({m - 2}:")
    assert text.count("(") == m - 1
    z = tree.linkage()
    np.testing.assert_array_equal(z[:, 3], np.arange(2, m + 1))
    np.testing.assert_array_equal(Dendrogram.from_linkage(z).children, tree.children)
    tree.save(tmp_path / "t")
    np.testing.assert_array_equal(Dendrogram.load(tmp_path / "t").children, z[:, :2])
    assert time.perf_counter() - started < 20  # 1 s alone on one core


@pytest.mark.parametrize("num_leaves", [2, 3, 4, 5, 8, 9, 16, 17, 33])
def test_every_length_of_chain_is_seen_to_its_end(num_leaves):
    tree = chain(num_leaves)
    np.testing.assert_array_equal(tree.cut(num_clusters=1), np.zeros(num_leaves))
    falling = dataclasses.replace(tree, merge_costs=-tree.merge_costs)
    np.testing.assert_array_equal(falling.heights("monotone"), -np.ones(num_leaves - 1))
    assert falling.num_inversions() == num_leaves - 2

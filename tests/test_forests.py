"""Dendrogram of a forest: sets of leaves as the reference."""

import itertools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.cluster import hierarchy as sch
from trees import chain, leaf_sets, random_tree, stopped, tree_of

from bregjax.hierarchy import Dendrogram
from bregjax.plotting import plot_costs

# Leaves 0 and 3 join, 1 stays alone, 2, 4 and 5 join.
SMALL = tree_of([[0, 3], [4, 5], [2, 7]], [1.0, 2.0, 0.5], num_leaves=6)
APART = tree_of([], num_leaves=4)


def forests(count, seed=0):
    """Of any shape, some of them trees and some without merges."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        m = int(rng.integers(1, 14))
        yield stopped(random_tree(rng, m), int(rng.integers(1, m + 1)))


def clusters(labels):
    labels = np.asarray(labels)
    return {frozenset(np.flatnonzero(labels == k).tolist()) for k in set(labels)}


def roots_by_definition(tree):
    """Nodes that are nobody's child, by their smallest leaves."""
    sets = leaf_sets(tree)
    nodes = set(range(len(sets))) - set(np.ravel(tree.children).tolist())
    return sorted(nodes, key=lambda node: min(sets[node]))


def test_counts_and_roots():
    assert (SMALL.num_leaves, SMALL.num_merges, SMALL.num_trees) == (6, 3, 3)
    np.testing.assert_array_equal(SMALL.roots, [6, 1, 8])
    np.testing.assert_array_equal(APART.roots, np.arange(4))
    np.testing.assert_array_equal(chain(5).roots, [8])
    for tree in forests(60):
        expected = roots_by_definition(tree)
        assert tree.num_trees == len(expected)
        np.testing.assert_array_equal(tree.roots, expected)
        np.testing.assert_array_equal(
            tree.roots, tree.cluster_nodes(num_clusters=tree.num_trees)
        )


def test_cuts_by_number_undo_the_last_merges():
    for tree in forests(60, 1):
        sets, m = leaf_sets(tree), tree.num_leaves
        alive = set(sets[:m])
        for merge in range(tree.num_merges + 1):
            labels = tree.cut(m - merge)
            assert clusters(labels) == alive
            nodes = tree.cluster_nodes(num_clusters=m - merge)
            assert [sets[node] for node in nodes] == sorted(alive, key=min)
            assert all(leaf in sets[nodes[labels[leaf]]] for leaf in range(m))
            if merge < tree.num_merges:
                left, right = tree.children[merge]
                alive = alive - {sets[left], sets[right]} | {sets[m + merge]}


def largest(tree, fits):
    """The largest sets of leaves of nodes that fit, by every node's own test."""
    sets = leaf_sets(tree)
    whole = [sets[node] for node in range(len(sets)) if fits(node)]
    return {a for a in whole if not any(a < b for b in whole)}


@pytest.mark.parametrize("seed", range(3))
def test_cuts_by_cost_height_and_size(seed):
    for tree in forests(20, seed):
        sets, m = leaf_sets(tree), tree.num_leaves

        def costs_within(node, tree=tree, sets=sets):
            below = zip(tree.merge_costs, sets[tree.num_leaves :], strict=True)
            return [cost for cost, inner in below if inner <= sets[node]]

        for limit in np.arange(-0.5, m):
            fits = lambda node: all(cost <= limit for cost in costs_within(node))  # noqa: B023
            assert clusters(tree.cut(max_cost=limit)) == largest(tree, fits)
            nodes = tree.cluster_nodes(max_height=limit, heights="monotone")
            expected = sorted(largest(tree, fits), key=min)
            assert [sets[node] for node in nodes] == expected
        for most in range(1, m + 1):
            fits = lambda node: len(sets[node]) <= most  # noqa: B023
            expected = largest(tree, fits)
            assert clusters(tree.cut(max_size=most)) == expected
            nodes = tree.cluster_nodes(max_size=most)
            assert [sets[node] for node in nodes] == sorted(expected, key=min)


def cut_by_hand(tree, num_clusters, min_size):
    """Clusters of a cut by number whose splinters are taken off, or None."""
    sets, m = leaf_sets(tree), tree.num_leaves
    size = [len(leaves) for leaves in sets]
    found = {node for node in roots_by_definition(tree) if size[node] >= min_size}
    for node in reversed(range(m, len(sets))):
        if len(found) >= num_clusters:
            break
        if node not in found:
            continue
        large = {p for p in tree.children[node - m].tolist() if size[p] >= min_size}
        if large:
            found = found - {node} | large
    return {sets[node] for node in found} if len(found) == num_clusters else None


@pytest.mark.parametrize("seed", range(3))
def test_cuts_into_clusters_of_a_least_size(seed):
    seen = {True: 0, False: 0}
    for tree in forests(25, seed):
        m, sets = tree.num_leaves, leaf_sets(tree)
        for count, least in itertools.product(range(1, m + 1), repeat=2):
            expected = cut_by_hand(tree, count, least)
            seen[expected is None] += 1
            if expected is None:
                with pytest.raises(ValueError, match=r"`(num_clusters|min_size)` must"):
                    tree.cut(count, min_size=least)
                continue
            labels = tree.cut(count, min_size=least)
            assert clusters(labels[labels >= 0]) == _renumbered(expected, labels)
            assert set(labels[labels >= 0]) == set(range(count))
            nodes = tree.cluster_nodes(count, min_size=least)
            assert {sets[node] for node in nodes} == expected
            assert all(
                leaf in sets[nodes[labels[leaf]]]
                for leaf in np.flatnonzero(labels >= 0)
            )
    assert min(seen.values()) > 50


def _renumbered(expected, labels):
    """Sets of leaves as places among those that have a label."""
    place = np.cumsum(labels >= 0) - 1
    assert set().union(*expected) == set(np.flatnonzero(labels >= 0).tolist())
    return {frozenset(place[sorted(leaves)].tolist()) for leaves in expected}


def test_limits_with_a_least_size_leave_small_clusters_out():
    for tree in forests(30, 4):
        for least in range(1, tree.num_leaves + 1):
            limits: list[dict[str, Any]] = [{"max_cost": 2.0}]
            limits += [{"max_size": min(3, tree.num_leaves)}]
            for limit in limits:
                plain = np.asarray(tree.cut(**limit))
                sizes = np.bincount(plain)
                labels = tree.cut(**limit, min_size=least)
                np.testing.assert_array_equal(labels < 0, sizes[plain] < least)
                kept = np.cumsum(sizes >= least) - 1
                expected = np.where(labels < 0, -1, kept[plain])
                np.testing.assert_array_equal(labels, expected)
                nodes = tree.cluster_nodes(**limit, min_size=least)
                of_all = tree.cluster_nodes(**limit)
                np.testing.assert_array_equal(nodes, of_all[sizes >= least])


def test_a_small_part_is_a_splinter_and_two_small_parts_stay():
    # 0, 1 | 2, 3 | 4 alone, which joins last; of three leaves the clusters can't be.
    tree = tree_of([[0, 1], [2, 3], [5, 6], [4, 7]], [1.0, 1.0, 5.0, 9.0])
    np.testing.assert_array_equal(tree.cut(2, min_size=2), [0, 0, 1, 1, -1])
    np.testing.assert_array_equal(tree.cut([1, 2], min_size=2)[:, 0], np.zeros(5))
    with pytest.raises(
        ValueError,
        match=r"`num_clusters` must be from 1 to 2 with min_size=2.*got 3\. Lower",
    ):
        tree.cut(3, min_size=2)
    for least in (0, 6):
        with pytest.raises(ValueError, match=f"`min_size` .* 1 to 5.*got {least}"):
            tree.cut(2, min_size=least)
    with pytest.raises(ValueError, match="`min_size` must be at most 3.*got 4"):
        SMALL.cut(3, min_size=4)
    for most in (0, 6):
        with pytest.raises(ValueError, match=f"`max_size` .* 1 to 5.*got {most}"):
            tree.cut(max_size=most)
    with pytest.raises(ValueError, match="exactly one of .*`max_size`; got none"):
        tree.cut(min_size=2)


def test_fewer_clusters_than_trees_are_refused():
    for method in (SMALL.cut, SMALL.cluster_nodes):
        with pytest.raises(
            ValueError, match=r"from 3, the number of trees.*to 6.*got 2.*tree\.joined"
        ):
            method(num_clusters=2)
    with pytest.raises(ValueError, match="`num_clusters` .* 1 to 6.*got 7"):
        SMALL.cut(7)


@pytest.mark.parametrize("x64", [False, True])
def test_traced_forests_equal_eager_ones(x64):
    rng = np.random.default_rng(3)
    trees = [stopped(random_tree(rng, 9), 3) for _ in range(4)]
    as_arrays = lambda *a: jnp.stack([jnp.asarray(x) for x in a])
    batch = jax.tree.map(as_arrays, *trees)
    assert (batch.num_leaves, batch.num_trees) == (9, 3)

    def run(tree):
        joined = tree.joined(cost=20.0)
        return (
            tree.cut(5),
            tree.cut(max_cost=3.0),
            tree.cut(max_size=3),
            tree.cut(max_size=3, min_size=2),
            tree.cut(max_height=3, heights="merge_index"),
            tree.cluster_nodes(num_clusters=3),
            tree.heights("monotone"),
            tree.roots,
            joined.children,
            joined.cut(2),
        )

    with jax.enable_x64(x64), jax.numpy_dtype_promotion("strict"):
        found = jax.jit(jax.vmap(run))(batch)
    for index, tree in enumerate(trees):
        for traced, eager in zip(found, run(tree), strict=True):
            np.testing.assert_array_equal(traced[index], eager)


@pytest.mark.parametrize("x64", [False, True])
def test_traced_cuts_of_a_least_size_give_as_many_clusters_as_there_are(x64):
    rng = np.random.default_rng(5)
    trees = [stopped(random_tree(rng, 12), 2) for _ in range(8)]
    batch = jax.tree.map(lambda *a: jnp.stack([jnp.asarray(x) for x in a]), *trees)

    @jax.vmap
    def run(tree):
        cut = {"num_clusters": 3, "min_size": 3}
        return tree.cut(**cut), tree.cluster_nodes(**cut)

    with jax.enable_x64(x64), jax.numpy_dtype_promotion("strict"):
        labels, nodes = jax.jit(run)(batch)
    counts = []
    for index, tree in enumerate(trees):
        counts += [k for k in (1, 2, 3) if cut_by_hand(tree, k, 3) is not None][-1:]
        expected = tree.cut(counts[-1], min_size=3)
        np.testing.assert_array_equal(labels[index], expected)
        of_tree = tree.cluster_nodes(counts[-1], min_size=3)
        filled = np.append(of_tree, np.full(3 - counts[-1], -1))
        np.testing.assert_array_equal(nodes[index], filled)
    assert len(set(counts)) > 1


def test_members_top_nodes_and_heights():
    for tree in forests(20, 6):
        n = tree.num_leaves + tree.num_merges
        for node, leaves in enumerate(leaf_sets(tree)):
            np.testing.assert_array_equal(tree.members(node), sorted(leaves))
        np.testing.assert_array_equal(tree.top_nodes(n), np.arange(n)[::-1])
        for kind in ("cost", "monotone", "merge_index"):
            assert tree.heights(kind).shape == (tree.num_merges,)
    np.testing.assert_array_equal(SMALL.heights("monotone"), [1, 2, 2])
    np.testing.assert_array_equal(SMALL.heights("merge_index"), [1, 2, 3])
    assert (SMALL.num_inversions(), APART.num_inversions()) == (1, 0)
    with pytest.raises(ValueError, match="`node` must be from 0 to 8; got 9"):
        SMALL.members(9)
    with pytest.raises(ValueError, match="`num_nodes` .* 1 to 9"):
        SMALL.top_nodes(10)


def test_trees_stand_side_by_side():
    np.testing.assert_array_equal(SMALL.leaf_order(), [0, 3, 1, 2, 4, 5])
    for tree in forests(30, 7):
        order = tree.leaf_order()
        position = np.argsort(order)
        sets = leaf_sets(tree)
        for leaves in sets:
            places = sorted(position[sorted(leaves)])
            assert places == list(range(places[0], places[0] + len(leaves)))
        firsts = [position[sorted(sets[root])].min() for root in tree.roots]
        assert firsts == sorted(firsts)


def test_leaves_that_never_join_are_infinitely_far():
    for tree in forests(30, 8):
        m, sets = tree.num_leaves, leaf_sets(tree)
        expected = []
        for pair in itertools.combinations(range(m), 2):
            joins = [
                cost
                for cost, leaves in zip(tree.merge_costs, sets[m:], strict=True)
                if set(pair) <= leaves
            ]
            expected.append(joins[0] if joins else np.inf)
        np.testing.assert_array_equal(tree.cophenetic(), expected)


def test_joined():
    tree = SMALL.joined(cost=7.0)
    expected = [*SMALL.children.tolist(), [6, 1], [9, 8]]
    assert tree.children.tolist() == expected
    np.testing.assert_array_equal(tree.merge_costs, [1.0, 2.0, 0.5, 7.0, 7.0])
    assert sch.is_valid_linkage(tree.linkage())
    for forest in forests(30, 9):
        tree = forest.joined()
        np.testing.assert_array_equal(tree.leaf_order(), forest.leaf_order())
        assert tree.num_trees == 1
        for k in range(forest.num_trees, forest.num_leaves + 1):
            np.testing.assert_array_equal(tree.cut(k), forest.cut(k))
        np.testing.assert_array_equal(tree.cophenetic(), forest.cophenetic())
        assert tree.num_inversions() == forest.num_inversions()
    tree = chain(4)
    assert tree.joined() is tree


def test_joined_at_whole_costs():
    forest = Dendrogram(np.array([[0, 2]]), np.array([3]), np.ones(4))
    tree = forest.joined()
    np.testing.assert_array_equal(tree.merge_costs, [3, np.inf, np.inf])
    assert forest.heights().dtype == float


def plot_of_costs(tree):
    return plot_costs(tree, Figure().subplots())


@pytest.mark.parametrize(
    "export",
    [
        Dendrogram.linkage,
        Dendrogram.to_newick,
        Dendrogram.to_networkx,
        lambda tree, **heights: tree.plot(Figure().subplots(), **heights),
        plot_of_costs,
    ],
)
def test_what_knows_no_infinite_heights(export):
    with pytest.raises(ValueError, match=r"heights; merge 3 has inf.*joined\(cost"):
        export(SMALL.joined())
    export(SMALL.joined(cost=9.0))
    if export is not plot_of_costs:
        export(SMALL.joined(), heights="merge_index")
    assert np.isinf(SMALL.joined().to_table()["cost"]).sum() == 2


def test_scipy_knows_no_forests():
    with pytest.raises(ValueError, match=r"3 trees over 6 leaves.*tree\.joined\(cost"):
        SMALL.linkage()


def test_newick_has_a_line_for_each_tree():
    assert SMALL.to_newick(list("abcdef")) == (
        "(a:1.0,d:1.0);\nb;\n(c:2.0,(e:2.0,f:2.0):0.0);"
    )
    assert APART.to_newick() == "0;\n1;\n2;\n3;"
    for tree in forests(30, 10):
        names = [f"leaf_{i}" for i in range(tree.num_leaves)]
        back, found = Dendrogram.from_newick(tree.to_newick(names), names=names)
        assert found == names
        assert sorted(map(sorted, leaf_sets(back))) == sorted(
            map(sorted, leaf_sets(tree))
        )
        np.testing.assert_allclose(
            np.sort(back.merge_costs), np.sort(tree.heights("monotone")), atol=1e-12
        )


def test_saved_and_loaded(tmp_path):
    path = tmp_path / "forest"
    for tree in (SMALL, APART):
        tree.save(path)
        loaded = Dendrogram.load(path)
        for name in ("children", "merge_costs", "weights"):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(tree, name))
    with np.load(path) as archive:
        assert archive["bregjax_dendrogram_version"] == 2
        saved: dict[str, Any] = {name: archive[name] for name in archive.files}
    chain(3).save(path)  # as an older release reads it
    with np.load(path) as archive:
        assert archive["bregjax_dendrogram_version"] == 1
    saved["bregjax_dendrogram_version"] = 1
    np.savez(tmp_path / "old.npz", **saved)
    with pytest.raises(ValueError, match="do not fit together"):
        Dendrogram.load(tmp_path / "old.npz")


def test_repr_says_how_many_trees():
    assert repr(SMALL) == (
        "Dendrogram of 6 leaves in 3 trees, weights 1 each\n"
        "  merge costs  0.5 to 2 nats, 3.5 in all, 1 inverted"
    )
    assert repr(APART) == "Dendrogram of 4 leaves in 4 trees, weights 1 each"
    assert re.match("Dendrogram of 3 leaves, weights", repr(chain(3)))

"""Trees under constraints against one-at-a-time greedy, and scikit-learn's Ward."""

import itertools
import re
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
import scipy.sparse
from constraint_reference import Rules, cost_of, excess, greedy
from matplotlib.figure import Figure
from own_potentials import identity, truncated_poisson
from scipy.cluster.hierarchy import leaves_list
from sklearn.cluster import AgglomerativeClustering
from sklearn.feature_extraction.image import grid_to_graph
from sklearn.neighbors import kneighbors_graph

import bregjax as bj
from bregjax.hierarchy import _forest
from bregjax.hierarchy._constraints import constraints_of
from bregjax.plotting import plot_dendrogram

M = 22


def rows(family, rng, m=M):
    """Rows in the sample space, without ties."""
    x = rng.gamma(2.0, size=(m, 3)) + 0.05
    if family == "bernoulli":
        return x / (1 + x)
    if family in ("ward", "gaussian", "diagonal_gaussian", "isotropic_gaussian"):
        return rng.normal(size=(m, 3)) + 3 * rng.integers(0, 3, size=(m, 1))
    return x


SMOOTHED = ("gaussian", "diagonal_gaussian", "isotropic_gaussian")


def problem_of(family, x, weights):
    smoothing = bj.blur(0.5) if family in SMOOTHED else None
    return bj.Problem(x, family=family, smoothing=smoothing, weights=weights)


def reference_cost(family, problem):
    """Merge costs of two tuples of rows by values of ψ*, in extended precision."""
    bandwidth = 0.5 if family in SMOOTHED else 0.0
    points = reference.statistics(family, np.asarray(problem.x), bandwidth)
    weights = np.asarray(problem.weights, float)
    return cost_of(reference.FUNCTIONS[family], points, weights)


def drawn(rng, m=M, *, edges: Any = 0.15, must=3, cannot=6):
    """Random constraints that do not contradict each other."""
    pairs = np.array(list(itertools.combinations(range(m), 2)))
    graph = None if edges is None else pairs[rng.random(len(pairs)) < edges]
    links = pairs[rng.choice(len(pairs), must, replace=False)]
    group = constraints_of(m, must_link=links).group
    apart = pairs[group[pairs[:, 0]] != group[pairs[:, 1]]]
    apart = apart[rng.choice(len(apart), cannot, replace=False)]
    return graph, links, apart


@pytest.mark.parametrize("with_graph", [True, False])
@pytest.mark.parametrize(
    "family",
    ["ward", "gaussian", "diagonal_gaussian", "poisson", "exponential", "bernoulli"],
)
def test_it_is_greedy(family, with_graph, rng):
    """The cheapest of all merges that may be: links, weights, inversions, forests."""
    inverted, forests = 0, 0
    for _ in range(3):
        edges, must, cannot = drawn(rng, edges=0.15 if with_graph else None)
        weights = rng.uniform(0.3, 3, M)
        problem = problem_of(family, rows(family, rng), weights)
        links: Any = {"must_link": must, "cannot_link": cannot, "connectivity": edges}
        tree, info = bj.agglomerate(problem, **links, return_info=True)
        assert info.engine == ("graph" if with_graph else "numpy")
        rules = Rules(M, edges, must, cannot)
        assert excess(reference_cost(family, problem), rules, tree) < 1e-9
        np.testing.assert_allclose(tree.merge_costs, bj.replay(problem, tree), 1e-9)
        certificate = bj.certify(problem, tree, **links)
        assert certificate.holds()
        inverted += tree.num_inversions(rtol=1e-9)
        forests += tree.num_trees > 1
    assert inverted > 0
    assert forests > 0


@pytest.mark.parametrize("family", ["ward", "gaussian", "poisson"])
def test_chains(family, rng):
    """The tree itself, merge by merge, and the same of an engine that looks ahead."""
    m = 60
    x = rows(family, rng, m)
    problem = problem_of(family, x, rng.uniform(0.3, 3, m))
    rules = Rules(m, [(i, i + 1) for i in range(m - 1)], k=4)
    children, costs = greedy(reference_cost(family, problem), rules)
    tree = bj.agglomerate(problem, connectivity="chain", num_clusters=4)
    np.testing.assert_array_equal(np.sort(tree.children, axis=1), children)
    np.testing.assert_allclose(tree.merge_costs, costs.astype(float), 1e-9, 1e-12)
    assert np.all(np.diff(tree.cut(4)) >= 0)


def test_a_series_is_drawn_in_its_order(rng):
    """Leaves of the tree, of its forests, of SciPy's matrix and of Newick."""
    x = np.repeat([0.0, 5.0, 1.0], 20)[:, None] + rng.normal(size=(60, 1))
    tree = bj.agglomerate(x, family="ward", connectivity="chain")
    rows = np.arange(60)
    assert (tree.children[:, 0] > tree.children[:, 1]).any()
    np.testing.assert_array_equal(tree.leaf_order(), rows)
    np.testing.assert_array_equal(leaves_list(tree.linkage()), rows)
    assert re.findall(r"[(,](\d+)", tree.to_newick()) == [str(row) for row in rows]
    apart: Any = {"connectivity": "chain", "cannot_link": [[0, 19], [20, 59]]}
    forest = bj.agglomerate(x, family="ward", **apart)
    assert forest.num_trees == 3
    for other in (forest, forest.joined()):
        np.testing.assert_array_equal(other.leaf_order(), rows)
    # Pictures of its top have the ends in this order, too.
    ax = plot_dendrogram(tree, Figure().subplots(), max_leaves=4)
    shown = [label.get_text() for label in ax.get_xticklabels()]
    sizes = [int(text[1:-1]) if text[0] == "(" else 1 for text in shown]
    assert sizes == np.bincount(tree.cut(4)).tolist()


def graphs(rng):
    """Graphs as scikit-learn makes them, rows and how many components they have."""
    grid = rng.normal(size=(64, 3)).cumsum(axis=0)
    yield grid_to_graph(8, 8), grid
    for count in (2, 3, 6):
        x = rng.normal(size=(50, 2))
        yield kneighbors_graph(x, count, include_self=False), x
    dense = rng.random((40, 40)) < 0.05
    yield scipy.sparse.csr_array(dense), rng.normal(size=(40, 4))


@pytest.mark.filterwarnings("ignore:the number of connected components")
def test_it_is_scikit_learns_ward(rng):
    """Heights are 2√Δ for costs ½ w_a w_b ‖a − b‖² / (w_a + w_b)."""
    for graph, x in graphs(rng):
        tree = bj.agglomerate(x, family="ward", connectivity=graph)
        model = AgglomerativeClustering(
            connectivity=graph, linkage="ward", compute_distances=True
        ).fit(x)
        # The other completes a graph of several parts by edges of its own.
        count = tree.num_merges if tree.num_trees == 1 else 0
        same = np.sort(tree.children, axis=1)[:count]
        np.testing.assert_array_equal(same, np.sort(model.children_, axis=1)[:count])
        heights = tree.heights("ward")[:count]
        np.testing.assert_allclose(heights, model.distances_[:count], rtol=1e-9)


TIES = np.array([[0.0], [1], [2], [3], [4], [5], [5], [6]])


def test_ties_go_to_the_smallest_rows():
    """Equal rows first; then by the smallest row of the first, then of the second."""
    rules = Rules(8, [(i, i + 1) for i in range(7)])
    problem = bj.Problem(TIES, family="ward")
    children, _ = greedy(reference_cost("ward", problem), rules)
    tree = bj.agglomerate(problem, connectivity="chain")
    np.testing.assert_array_equal(np.sort(tree.children, axis=1), children)
    assert tree.children[:3].tolist() == [[5, 6], [0, 1], [2, 3]]


def test_equal_rows_merge_along_edges(rng):
    """At no cost, where an edge joins them and nothing keeps them apart."""
    x = np.array([[1.0], [1], [4], [1], [1], [4], [4]])
    problem = bj.Problem(x, family="ward")
    links: Any = {"connectivity": "chain", "cannot_link": [[3, 4]]}
    tree, info = bj.agglomerate(problem, **links, return_info=True)
    assert info.graph is not None
    assert info.graph.duplicates == 2
    assert tree.children[:2].tolist() == [[0, 1], [5, 6]]
    assert tree.merge_costs[:2].tolist() == [0, 0]
    assert tree.cut(2).tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert bj.certify(problem, tree, **links).holds()


def exact_cost(x):
    """Ward's costs of rows of whole numbers, in fractions: equal rows cost 0."""

    def cost(a, b):
        means = [Fraction(sum(x[i] for i in rows), len(rows)) for rows in (a, b)]
        return Fraction(len(a) * len(b), len(a) + len(b)) * (means[0] - means[1]) ** 2

    return cost


def test_equal_rows_go_to_the_smallest_rows(rng):
    """In a graph too: the smallest that an edge joins with the union so far."""
    x = np.zeros((4, 1))
    tree = bj.agglomerate(x, family="ward", connectivity=[(0, 2), (2, 1), (0, 3)])
    assert tree.children.tolist() == [[0, 2], [1, 4], [3, 5]]
    pairs = np.array(list(itertools.combinations(range(9), 2)))
    for _ in range(5):
        x = rng.integers(0, 2, 9).tolist()
        edges = pairs[rng.random(len(pairs)) < 0.3]
        children, _ = greedy(exact_cost(x), Rules(9, edges))
        tree = bj.agglomerate(np.array(x)[:, None], family="ward", connectivity=edges)
        np.testing.assert_array_equal(tree.children, children)


def test_linked_rows_merge_with_their_equals(rng):
    """What links make of equal rows is equal to others still."""
    x = [0, 3, 0, 0, 3, 2]
    problem = bj.Problem(np.array(x)[:, None], family="ward")
    for edges in (None, list(itertools.combinations(range(6), 2))):
        rules = Rules(6, edges, [(2, 3)])
        tree, info = bj.agglomerate(
            problem, must_link=[(2, 3)], connectivity=edges, return_info=True
        )
        children, _ = greedy(exact_cost(x), rules)
        np.testing.assert_array_equal(tree.children, children)
        found = info.bounded if edges is None else info.graph
        assert found is not None
        assert found.duplicates == 2


@pytest.mark.parametrize("family", ["ward", "gaussian"])
def test_flat_images(family, rng):
    """Plateaus of equal rows, whose states are pooled at once."""
    image = np.kron(rng.normal(size=(3, 3)), np.ones((4, 4)))
    x = np.stack([image.ravel(), np.round(image.ravel())], axis=1)
    graph = grid_to_graph(12, 12)
    problem = problem_of(family, x, np.ones(len(x)))
    tree, info = bj.agglomerate(problem, connectivity=graph, return_info=True)
    assert info.graph is not None
    assert info.graph.duplicates == 9 * 15
    np.testing.assert_allclose(
        tree.merge_costs, bj.replay(problem, tree), rtol=1e-9, atol=1e-12
    )
    assert bj.certify(problem, tree, connectivity=graph).holds()
    blocks = np.kron(np.arange(9).reshape(3, 3), np.ones((4, 4))).ravel()
    np.testing.assert_array_equal(tree.cut(9), blocks)


def own_family():
    return bj.ExponentialFamily(
        truncated_poisson, identity, np.zeros(2), separable=True
    )


def mixed(rng, m):
    """A table of numbers, counts and levels with missing cells."""
    table = {
        "size": rng.normal(size=m),
        "visits": rng.poisson(3.0, m).astype(float),
        "town": rng.choice(["a", "b", "c"], m).astype(object),
    }
    table["size"][::5] = np.nan
    table["visits"][2::7] = np.nan
    return table


def other_problem(name, rng):
    """A problem with solved or scaled costs, missing cells or sparse rows."""
    counts = rng.poisson(2.0, (M, 2)) + 1 + rng.gamma(1.0, size=(M, 2))
    if name == "own":
        return bj.Problem(counts, family=own_family())
    if name in ("observed", "scaled"):
        return bj.Problem(mixed(rng, M), family="auto", missing=name)
    sphere = rng.normal(size=(M, 3))
    sphere = sphere / np.linalg.norm(sphere, axis=1, keepdims=True)
    if name == "sphere":
        return bj.Problem(sphere, family="von_mises_fisher")
    sparse = scipy.sparse.csr_array(rng.poisson(0.7, (M, 6)) + np.eye(M, 6))
    return bj.Problem(sparse, family="poisson")


@pytest.mark.filterwarnings("ignore:`x` lacks")
@pytest.mark.parametrize("with_graph", [True, False])
@pytest.mark.parametrize("case", ["own", "observed", "scaled", "sphere", "sparse"])
def test_other_costs(case, with_graph, rng):
    """Compared with the costs of all pairs of nodes that may merge."""
    problem = other_problem(case, rng)
    edges, must, cannot = drawn(rng, edges=0.2 if with_graph else None)
    links: Any = {"must_link": must, "cannot_link": cannot, "connectivity": edges}
    tree, info = bj.agglomerate(problem, **links, return_info=True)
    assert info.engine in ("graph", "numpy", "matrix")
    assert bj.certify(problem, tree, **links).holds(1e-7)
    excess(lambda a, b: 0.0, Rules(M, edges, must, cannot), tree)
    np.testing.assert_allclose(
        tree.merge_costs, bj.replay(problem, tree), rtol=1e-7, atol=1e-10
    )


def test_a_certificate_refuses_other_trees(rng):
    x = np.arange(6.0)[:, None] ** 2
    problem = bj.Problem(x, family="ward")
    tree = bj.agglomerate(problem)
    assert bj.certify(problem, tree, connectivity="chain").holds()
    with pytest.raises(ValueError, match="merge 0 joins nodes 0 and 1, which `cannot"):
        bj.certify(problem, tree, cannot_link=[[0, 1]])
    with pytest.raises(ValueError, match="merge 0 joins nodes 0 and 1, which no edge"):
        bj.certify(problem, tree, connectivity=[[0, 2], [1, 3]])
    with pytest.raises(ValueError, match="before all links"):
        bj.certify(problem, tree, must_link=[[0, 5]])
    with pytest.raises(ValueError, match="`sample` must be None"):
        bj.certify(problem, tree, connectivity="chain", sample=2)
    late = bj.certify(problem, [[4, 5], [3, 6], [2, 7], [1, 8], [0, 9]],
                      connectivity="chain")  # fmt: skip
    assert not late.holds()
    assert late.pair is not None


@pytest.mark.parametrize("engine", ["numpy", "matrix", "windowed", "recompute"])
def test_stopping_early_is_the_beginning_of_the_tree(engine, rng):
    problem = bj.Problem(rng.normal(size=(20, 2)), family="ward")
    tree = bj.agglomerate(problem, engine=engine)
    some = bj.agglomerate(problem, engine=engine, num_clusters=6)
    assert some.num_trees == 6
    np.testing.assert_array_equal(some.children, tree.children[:14])
    np.testing.assert_array_equal(some.cut(6), tree.cut(6))
    assert bj.certify(problem, some).holds()


def test_stopping_early_inside_jit(rng):
    x = rng.normal(size=(12, 2))
    fast = jax.jit(lambda x: bj.agglomerate(x, family="ward", num_clusters=3).cut(3))
    np.testing.assert_array_equal(
        fast(jnp.asarray(x)), bj.agglomerate(x, family="ward").cut(3)
    )


def test_stopping_early_with_links(rng):
    x = rng.normal(size=(12, 2))
    links: Any = {"must_link": [[0, 7], [3, 4]], "cannot_link": [[0, 1], [1, 2]]}
    for graph in (None, np.ones((12, 12), bool)):
        problem = bj.Problem(x, family="ward")
        tree = bj.agglomerate(problem, **links, connectivity=graph, num_clusters=4)
        assert tree.num_trees == 4
        labels = tree.cut(4)
        assert labels[0] == labels[7] != labels[1] != labels[2]
        assert labels[3] == labels[4]
        assert bj.certify(problem, tree, **links, connectivity=graph).holds()


def test_clusters_that_can_not_be_had_are_a_warning():
    x = [[0.0], [1], [2], [9]]
    with pytest.warns(UserWarning, match="`num_clusters` is 1, and 2 clusters .* edge"):
        tree = bj.agglomerate(
            x, family="ward", connectivity=[[0, 1], [2, 3]], num_clusters=1
        )
    assert tree.num_trees == 2
    with pytest.warns(UserWarning, match="`cannot_link` keeps apart"):
        bj.agglomerate(x, family="ward", cannot_link=[[0, 3]], num_clusters=1)
    assert bj.agglomerate(x, family="ward", cannot_link=[[0, 3]]).num_trees == 2


def test_graphs_in_any_form(rng):
    x = rng.normal(size=(7, 2))
    pairs = np.array([[0, 3], [3, 6], [1, 2], [2, 4], [4, 5], [0, 5]])
    upper = np.zeros((7, 7))
    upper[tuple(pairs.T)] = 2.5
    forms = [
        pairs,
        pairs[::-1, ::-1].tolist(),
        np.concatenate([pairs, pairs, [[4, 4]]]),
        upper != 0,
        (upper + upper.T + np.eye(7)) != 0,
        upper,
        *(scipy.sparse.coo_matrix(upper).asformat(f) for f in ("csr", "lil", "dok")),
        scipy.sparse.csc_array(upper.T),
    ]
    trees = [bj.agglomerate(x, family="ward", connectivity=form) for form in forms]
    for tree in trees:
        np.testing.assert_array_equal(tree.children, trees[0].children)
    chain = bj.agglomerate(x, family="ward", connectivity="chain")
    same = bj.agglomerate(x, family="ward", connectivity=[(i, i + 1) for i in range(6)])
    np.testing.assert_array_equal(chain.children, same.children)
    assert bj.agglomerate(x, family="ward", connectivity=[]).num_trees == 7
    assert bj.agglomerate(x[:1], family="ward", connectivity="chain").num_trees == 1


@pytest.mark.parametrize(
    ("table", "num_trees"),
    [
        ([[1, 1], [1, 1]], 1),
        ([[0, 0], [1, 1]], 1),
        ([[0, 1], [1, 0]], 1),
        ([[0, 0.3], [0.3, 0]], 1),
        ([[1, 0], [0, 1]], 1),  # pairs
        ([[0, 0], [0, 0]], 2),
        ([[7, 0], [0, 7]], 2),
    ],
)
def test_two_rows_are_joined_if_pairs_or_a_matrix_join_them(table, num_trees):
    tree = bj.agglomerate([[0.0], [1]], family="ward", connectivity=table)
    assert tree.num_trees == num_trees


def test_entries_of_one_place_add_up():
    places = [0, 0, 1], [1, 1, 2]
    graph = scipy.sparse.coo_array(([1.0, -1.0, 1.0], places), shape=(3, 3))
    x = [[0.0], [1], [2]]
    trees = [
        bj.agglomerate(x, family="ward", connectivity=form)
        for form in (graph, graph.tocsr(), {(1, 2)})
    ]
    assert [tree.children.tolist() for tree in trees] == [[[1, 2]]] * 3
    assert len(graph.data) == 3  # as it was


@pytest.mark.parametrize("pairs", [0, 100])
def test_links_merge_before_all_else(pairs, monkeypatch):
    """The worked example of `_forest`: the cheapest of all groups first.

    Groups are merged apart, or in one search.
    """
    monkeypatch.setattr(_forest, "_PAIRS", pairs)
    x = [[0.0], [5.0], [1.0], [9.0], [4.0]]
    tree = bj.agglomerate(x, family="ward", must_link=[[2, 0], [1, 3], [3, 4]])
    assert tree.children.tolist() == [[0, 2], [1, 4], [3, 6], [5, 7]]
    np.testing.assert_allclose(tree.merge_costs[:3], [0.25, 0.25, 4.5**2 / 3])
    # In a chain what links jump over is joined with either.
    tree = bj.agglomerate(x, family="ward", must_link=[[0, 3]], connectivity="chain")
    assert tree.children[0].tolist() == [0, 3]
    assert tree.num_trees == 1


ERRORS: dict[str, Any] = {
    "word": ({"connectivity": "ring"}, "got the word 'ring'"),
    "shape": ({"connectivity": np.ones((3, 3), bool)}, "`connectivity` must be"),
    "sparse shape": (
        {"connectivity": scipy.sparse.eye_array(3)}, r"shape \[4, 4\].*got \[3, 3\]"
    ),
    "outside": ({"connectivity": [[0, 4]]}, r"`connectivity` .* 0 to 3; got \[0, 4\]"),
    "negative": ({"must_link": [[0, 1], [-1, 2]]}, r"`must_link`.*\[-1, 2\] at pair 1"),
    "halves": ({"cannot_link": [[0, 1.5]]}, r"`cannot_link` must hold whole numbers"),
    "triples": ({"must_link": [[0, 1, 2]]}, r"shape \[p, 2\]; got shape \[1, 3\]"),
    "NaN": (
        {"connectivity": scipy.sparse.csr_array(np.diag([np.nan] * 3, 1))},
        "must be finite; got nan at row 0, column 1",
    ),
    "itself": ({"cannot_link": [[2, 2]]}, "got row 2 twice at pair 0"),
    "contradiction": (
        {"must_link": [[0, 1], [1, 3]], "cannot_link": [[1, 2], [0, 3]]},
        r"rows 0 and 3 \(pair 1\).*2 of the pairs.*rows 0, 1, 3",
    ),
    "no clusters": ({"num_clusters": 0}, "`num_clusters` must be from 1 to 4"),
    "many clusters": (
        {"num_clusters": 3, "must_link": [[0, 1], [1, 3]]}, "at most 2, the number"
    ),
    "engine": ({"connectivity": "chain", "engine": "windowed"}, '"auto" or "graph"'),
    "engine of links": ({"cannot_link": [[0, 1]], "engine": "graph"}, '"numpy"'),
    "no graph": ({"engine": "graph"}, "without `connectivity`"),
    "mesh": (
        {"connectivity": "chain", "mesh": jax.sharding.Mesh(jax.devices()[:1], "c")},
        "`mesh` must be None where `connectivity`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    options, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        bj.agglomerate([[0.0], [1], [3], [7]], family="ward", **options)


def test_other_kinds_of_graphs_are_refused():
    class Graph:
        adjacency = None

    for graph, remedy in ((Graph(), "networkx"), (lambda x: x, r"connectivity\(x\)")):
        with pytest.raises(TypeError, match=remedy):
            bj.agglomerate([[0.0], [1]], family="ward", connectivity=graph)


def test_constraints_inside_jit_are_refused():
    def tree(x):
        return bj.agglomerate(x, family="ward", connectivity="chain").children

    with pytest.raises(ValueError, match="inside jit, vmap or grad"):
        jax.jit(tree)(jnp.ones((3, 1)))


@pytest.mark.parametrize("family", ["ward", "gaussian"])
def test_large_groups_are_merged_as_small_ones(family, monkeypatch, rng):
    """Weights, ties of whole numbers and inversions; the same tree in either way."""
    for shape in ((40, 2), (40, 1)):
        x = np.round(rng.normal(size=shape) * 3) if shape[1] == 1 else None
        x = rng.normal(size=shape) if x is None else x
        problem = problem_of(family, x, rng.uniform(0.5, 2, 40))
        must = np.stack([np.arange(36), (np.arange(36) * 7 + 5) % 4 + 36], axis=1)
        trees = []
        for pairs in (0, 2**19):
            monkeypatch.setattr(_forest, "_PAIRS", pairs)
            trees.append(bj.agglomerate(problem, must_link=must))
        np.testing.assert_array_equal(trees[0].children, trees[1].children)
        rules = Rules(40, None, must)
        assert excess(reference_cost(family, problem), rules, trees[0]) < 1e-9


def test_progress_counts_merges(capfd, rng):
    x = rng.normal(size=(30, 2))
    bj.agglomerate(
        x, family="ward", connectivity="chain", num_clusters=5, progress=True
    )
    assert "25.0/25.0" in capfd.readouterr().err

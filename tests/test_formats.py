"""Trees from R and Newick, to tables and networkx: by hand, or there and back."""

import pathlib
import sys
import time

import jax
import networkx
import numpy as np
import pandas
import polars
import pytest
from matplotlib.figure import Figure
from scipy.cluster import hierarchy as sch
from trees import INVERTED, balanced, chain, leaf_sets, random_tree, stopped, tree_of

from bregjax.hierarchy import Dendrogram
from bregjax.metrics import adjusted_rand, robinson_foulds
from bregjax.plotting import plot_costs, plot_dendrogram

# R's hclust


def merge_of(z):
    """R's numbers of SciPy's: −1 … −m for leaves, 1 … for rows."""
    m = len(z) + 1
    nodes = z[:, :2].astype(int)
    return np.where(nodes < m, -nodes - 1, nodes - m + 1)


def test_hclust_of_four_points():
    # What R gives for single linkage of the points 1, 2, 4 and 7.
    tree = Dendrogram.from_hclust([[-1, -2], [-3, 1], [-4, 2]], [1.0, 2.0, 3.0])
    assert tree.children.tolist() == [[0, 1], [2, 4], [3, 5]]
    assert tree.children.dtype == np.int32
    np.testing.assert_array_equal(tree.merge_costs, [1, 2, 3])
    np.testing.assert_array_equal(tree.leaf_order() + 1, [4, 3, 1, 2])  # R's order
    np.testing.assert_array_equal(tree.weights, np.ones(4))
    assert Dendrogram.from_hclust(np.zeros((0, 2)), []).num_leaves == 1


def test_hclust_and_linkage_agree(rng):
    z = sch.linkage(rng.normal(size=(30, 2)), "average")
    weights = rng.integers(1, 5, 30)
    tree = Dendrogram.from_hclust(merge_of(z), z[:, 2], weights=weights)
    np.testing.assert_array_equal(tree.linkage(), z)
    np.testing.assert_array_equal(tree.weights, weights)
    same = Dendrogram.from_linkage(z, weights=weights)
    np.testing.assert_array_equal(same.weights, weights)


def test_hclust_there_and_back(rng):
    z = sch.linkage(rng.normal(size=(30, 2)), "average")
    tree = Dendrogram.from_linkage(z)
    merge, height, order = tree.to_hclust()
    np.testing.assert_array_equal(merge, merge_of(z))
    np.testing.assert_array_equal(order - 1, sch.leaves_list(z))
    back = Dendrogram.from_hclust(merge, height)
    np.testing.assert_array_equal(back.children, tree.children)
    np.testing.assert_array_equal(back.merge_costs, tree.merge_costs)
    assert [len(part) for part in tree_of([]).to_hclust()] == [0, 0, 1]


def test_hclust_of_trees_that_invert(rng):
    """By ascending heights, as R's cutree asks; or merge by merge, as they are."""
    for _ in range(20):
        tree = random_tree(rng, 12)
        merge, height, order = tree.to_hclust()
        assert np.all(np.diff(height) >= 0)
        back = Dendrogram.from_hclust(merge, height)
        np.testing.assert_array_equal(back.leaf_order(), order - 1)
        np.testing.assert_array_equal(
            back.cophenetic(), tree.cophenetic(heights="monotone")
        )
        merge, height, order = tree.to_hclust(heights="cost")
        np.testing.assert_array_equal(height, tree.merge_costs)
        back = Dendrogram.from_hclust(merge, height)
        np.testing.assert_array_equal(back.children, tree.children)
        np.testing.assert_array_equal(back.leaf_order(), order - 1)
    with pytest.raises(ValueError, match=r"2 trees over 12 leaves.*joined\(cost"):
        stopped(random_tree(rng, 12), 2).to_hclust()


# Trees from elsewhere


def test_heights_from_elsewhere_are_no_nats(rng, tmp_path):
    z = sch.linkage(rng.normal(size=(30, 2)), "average")
    tree = Dendrogram.from_linkage(z)
    merge, height, _ = tree.to_hclust()
    read, _ = Dendrogram.from_newick(tree.to_newick(), names=range(30))
    forest = stopped(tree, 3)
    tree.save(tmp_path / "tree.npz")
    loaded = Dendrogram.load(tmp_path / "tree.npz")
    np.testing.assert_array_equal(loaded.merge_costs, tree.merge_costs)
    mapped = jax.tree.map(np.asarray, tree)
    taken = Dendrogram.from_hclust(merge, height)
    for one in (tree, taken, read, loaded, mapped, forest, forest.joined(cost=9.0)):
        assert one.unit == "height"
        assert "nats" not in repr(one)
        assert "\n  heights  " in repr(one)
        label = plot_dendrogram(one, Figure().subplots()).get_ylabel()
        assert label == "height"
        assert "nats" not in plot_costs(one, Figure().subplots()).get_ylabel()
    ax = plot_dendrogram(tree, Figure().subplots(), scale="root")
    assert ax.get_ylabel() == "height (√ scale)"
    assert ax.get_yscale() == "function"
    assert plot_dendrogram(tree, Figure().subplots()).get_yscale() == "linear"
    costs = Dendrogram.from_linkage(z, unit="nats")
    assert "nats, " in repr(costs)
    label = plot_dendrogram(costs, Figure().subplots()).get_ylabel()
    assert label == "merge cost (nats, √ scale)"
    with pytest.raises(ValueError, match="`unit` must be one of .*; got 'metres'"):
        Dendrogram.from_linkage(z, unit="metres")  # pyright: ignore[reportArgumentType]


def test_ward_heights_from_elsewhere_are_as_they_are(rng):
    x = rng.normal(size=(30, 2))
    z = sch.linkage(x, "ward")
    tree = Dendrogram.from_linkage(z)
    with pytest.raises(ValueError, match=r"from elsewhere.*tree\.cut\(max_height=5\)"):
        tree.cut(max_height=2, heights="ward")
    flat = sch.fcluster(z, 2.0, "distance")
    assert adjusted_rand(tree.cut(max_height=2), flat) == 1
    assert len(set(flat)) > 2


@pytest.mark.parametrize(
    ("merge", "message"),
    [
        ([[-1, -2], [-3, 2], [-4, 1]], "counted from 0.*row 1 merges node 5, which is"),
        ([[-1, -2], [-2, 1], [-4, 2]], "row 1 merges node 1, which an earlier"),
        ([[-1, -2], [-3, 1], [-5, 2]], "leaves from -1 to -4; got -5.0 at row 2"),
        ([[0, 1], [2, 4], [3, 5]], r"whole numbers, .*; got 0\.0 at row 0"),
        ([[-1, -2], [-3, 1.5], [-4, 2]], r"whole numbers, .*; got 1\.5 at row 1"),
        ([[-1, -2], [-3, 1], [-4, np.nan]], "be finite; got nan at row 2"),
        ([[-1, -2], [-3, 1]], r"got \[2, 2\] and \[3\]"),
    ],
)
def test_hclust_refuses(merge, message):
    with pytest.raises(ValueError, match=f"`merge` must.*{message}"):
        Dendrogram.from_hclust(merge, [1.0, 2.0, 3.0])


def test_hclust_refuses_negative_heights():
    with pytest.raises(ValueError, match="`height` must not be negative; got -1.0"):
        Dendrogram.from_hclust([[-1, -2], [-3, 1]], [1.0, -1.0])


def test_weights_are_checked():
    z = [[0, 1, 1.0, 2], [2, 3, 2.0, 3]]
    with pytest.raises(ValueError, match=r"each of the 3 leaves; got shape \[2\]"):
        Dendrogram.from_linkage(z, weights=[1.0, 2.0])
    with pytest.raises(ValueError, match="`weights` must be positive; got 0.0 at row"):
        Dendrogram.from_linkage(z, weights=[1.0, 0.0, 2.0])


# Newick


@pytest.mark.parametrize("heights", ["monotone", "cost"])
def test_newick_there_and_back(rng, heights):
    for _ in range(20):
        tree = random_tree(rng, int(rng.integers(1, 20)))
        names = [f"it's {i % 3}" for i in range(tree.num_leaves)]  # some come again
        text = tree.to_newick(names, heights=heights)
        back, found = Dendrogram.from_newick(text, names=names)
        assert len(set(found)) == tree.num_leaves
        assert back.num_trees == 1
        expected = dict(
            zip(leaf_sets(tree)[tree.num_leaves :], tree.heights(heights), strict=True)
        )
        got = dict(
            zip(leaf_sets(back)[tree.num_leaves :], back.merge_costs, strict=True)
        )
        assert got.keys() == expected.keys()
        for leaves, height in expected.items():
            np.testing.assert_allclose(got[leaves], height, atol=1e-12)
        if heights == "monotone":
            assert np.all(np.diff(back.merge_costs) >= -1e-12)


def test_newick_keeps_the_order_of_distinct_heights(rng):
    z = sch.linkage(rng.normal(size=(40, 3)), "average")
    tree = Dendrogram.from_linkage(z)
    back, _ = Dendrogram.from_newick(tree.to_newick(), names=range(40))
    np.testing.assert_array_equal(back.children, tree.children)
    np.testing.assert_allclose(back.merge_costs, tree.merge_costs, rtol=1e-13)
    np.testing.assert_array_equal(back.leaf_order(), tree.leaf_order())


def test_newick_names_decide_how_leaves_are_numbered(rng):
    tree = random_tree(rng, 30)
    names = [f"row {i}" for i in range(30)]
    text = tree.to_newick(names)
    back, found = Dendrogram.from_newick(text, names=names)
    assert found == names
    assert robinson_foulds(tree, back) == 0
    other, found = Dendrogram.from_newick(text)
    assert found == [names[leaf] for leaf in tree.leaf_order()]
    assert robinson_foulds(tree, other) > 0


def test_newick_keeps_inversions():
    back, _ = Dendrogram.from_newick(INVERTED.to_newick(heights="cost"), range(3))
    np.testing.assert_array_equal(back.children, INVERTED.children)
    np.testing.assert_allclose(back.merge_costs, INVERTED.merge_costs, rtol=1e-14)


def test_newick_of_other_programs():
    text = """
    [&R] ((Homo_sapiens:6.5e0[&rate=1],'Pan ''t''':4)0.98:1e+1 ,
      Mus_musculus:20.5 )root:0.1 ;
    """
    tree, names = Dendrogram.from_newick(text)
    assert names == ["Homo sapiens", "Pan 't'", "Mus musculus"]
    assert tree.children.tolist() == [[0, 1], [3, 2]]
    np.testing.assert_array_equal(tree.merge_costs, [6.5, 20.5])  # the longest ways


def test_newick_without_lengths_or_names():
    tree, names = Dendrogram.from_newick("((a,b),((c,d),e));")
    assert names == list("abcde")
    np.testing.assert_array_equal(tree.merge_costs, [1, 1, 2, 3])
    assert tree.children.tolist() == [[0, 1], [2, 3], [6, 4], [5, 7]]
    _, names = Dendrogram.from_newick("((:1,:1):1,:2);")
    assert names == ["", "", ""]
    tree, names = Dendrogram.from_newick("(,);")
    assert (tree.num_leaves, names) == (2, ["", ""])
    tree, names = Dendrogram.from_newick("'a b';\n")
    assert (tree.num_leaves, names) == (1, ["a b"])


def test_newick_comments_inside_of_comments():
    _, names = Dendrogram.from_newick("(a[x[y]z],b)[[]];")
    assert names == ["a", "b"]
    with pytest.raises(ValueError, match="never closed at character 2"):
        Dendrogram.from_newick("(a[x[y],b);")


def test_newick_is_text():
    for text, message in (
        (pathlib.Path("tree.nwk"), r"PosixPath\. Read the file.*read_text"),
        (b"(a,b);", r"bytes\. Decode it"),
    ):
        with pytest.raises(TypeError, match=f"`text` must be a string.*{message}"):
            Dendrogram.from_newick(text)  # pyright: ignore


def test_several_newick_trees_are_a_forest():
    tree, names = Dendrogram.from_newick("(a:2,b:2);c;\n(d:1,e:1);")
    assert names == list("abcde")
    assert tree.children.tolist() == [[3, 4], [0, 1]]
    assert tree.num_trees == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(a:1,b:1)", "no ';' at the end at character 9"),
        ("", "no ';' at the end at character 0"),
        (
            "(a,b,c);",
            r"a node of 3 children\. .*multi2di.* at character 6, in '\(a,b,c",
        ),
        ("((a),b);", "a node of 1 children"),
        ("(a,b));", r"'\)' that closes nothing at character 5"),
        ("((a,b);", "';' inside of parentheses"),
        ("a,b;", "',' outside of parentheses"),
        (";", "';' where a tree should begin"),
        ("(a,b);;", "';' where a tree should begin at character 6"),
        ("(a b,c);", "'b' after another name"),
        ("(a:x,b:1);", "'x' where the length of a branch should be at character 3"),
        ("(a:1_0,b:1);", "'1_0' where the length of a branch should be"),
        ("(a:nan,b:1);", "'nan' where the length"),
        ("(a:1:2,b:1);", "a second length"),
        ("(a:1,b);", "give each branch a length, or none; 1 of 2 have none.*'b'"),
        ("('a,b);", "a quote or bracket that is never closed at character 1"),
        ("(a(b,c),d);", r"'\(' without a comma before it"),
    ],
)
def test_newick_refuses(text, message):
    with pytest.raises(ValueError, match=f"`text` must.*{message}"):
        Dendrogram.from_newick(text)


def test_newick_refuses_other_names():
    with pytest.raises(ValueError, match="`names` must be those of the 2 leaves"):
        Dendrogram.from_newick("(a,b);", names=["a", "c"])
    with pytest.raises(ValueError, match="name each leaf once.*got 'a' twice"):
        Dendrogram.from_newick("(a,a);", names=["a", "b"])


# Tables and graphs


def some_tree():
    tree = stopped(random_tree(np.random.default_rng(2), 9), 2)
    return Dendrogram(tree.children, tree.merge_costs, np.arange(1.0, 10.0))


def test_table_against_sets_of_leaves():
    tree = some_tree()
    m, sets = 9, leaf_sets(tree)
    table = tree.to_table(list("abcdefghi"), heights="monotone")
    assert all(len(column) == len(sets) for column in table.values())
    roots = tree.roots.tolist()
    for node, leaves in enumerate(sets):
        row = {name: column[node] for name, column in table.items()}
        above = [other for other, s in enumerate(sets) if leaves < s]
        assert row["node"] == node
        assert row["depth"] == len(above)
        assert row["parent"] == (min(above) if above else -1)
        assert row["size"] == len(leaves)
        assert row["smallest"] == min(leaves)
        assert row["weight"] == sum(leaf + 1 for leaf in leaves)
        assert row["tree"] == roots.index(max([node, *above]))
        if node < m:
            assert (row["left"], row["right"], row["height"]) == (-1, -1, 0)
            assert np.isnan(row["cost"])
            assert row["name"] == "abcdefghi"[node]
        else:
            assert [row["left"], row["right"]] == tree.children[node - m].tolist()
            assert row["cost"] == tree.merge_costs[node - m]
            assert row["height"] == tree.heights("monotone")[node - m]
            assert row["name"] == ""
    assert "name" not in tree.to_table()
    with pytest.raises(ValueError, match="`names` must name each of the 9 leaves"):
        tree.to_table(["a"])


def test_tables_are_data_frames():
    tree = some_tree()
    names = [f"row {i}" for i in range(9)]
    ours = tree.to_table(names)
    for frame in (pandas.DataFrame(ours), polars.DataFrame(ours)):
        assert frame.shape == (16, 12)
        assert list(frame["name"])[:9] == names
        np.testing.assert_array_equal(np.asarray(frame["parent"]), ours["parent"])


def test_graph():
    tree = some_tree()
    graph = tree.to_networkx(list("abcdefghi"), heights="merge_index")
    table = tree.to_table(heights="merge_index")
    assert networkx.is_branching(graph)
    assert networkx.number_weakly_connected_components(graph) == tree.num_trees
    for root in tree.roots.tolist():
        below = networkx.descendants(graph, root) | {root}
        assert {node for node in below if node < 9} == set(tree.members(root).tolist())
    for node in range(16):
        attributes = dict(graph.nodes[node])
        assert attributes.pop("name", None) == ("abcdefghi"[node] if node < 9 else None)
        assert attributes.pop("cost", None) == (
            tree.merge_costs[node - 9] if node >= 9 else None
        )
        for key in ("height", "size", "weight"):
            assert attributes.pop(key) == table[key][node]
        assert not attributes
        if node >= 9:
            assert list(graph.successors(node)) == tree.children[node - 9].tolist()
    for parent, child, length in graph.edges.data("length"):
        assert length == table["height"][parent] - table["height"][child]
    # Other programs read it: all are plain numbers and strings.
    assert "<graph " in "\n".join(networkx.generate_graphml(graph))


def test_graph_without_networkx(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match=r"pip install 'bregjax\[export\]'"):
        INVERTED.to_networkx()


@pytest.mark.parametrize("shape", [chain, balanced])
def test_large_trees_in_seconds(shape):
    m = 2**14
    tree = shape(m)
    started = time.perf_counter()
    back, names = Dendrogram.from_newick(tree.to_newick(), names=range(m))
    np.testing.assert_allclose(back.merge_costs, tree.merge_costs, rtol=1e-9)
    np.testing.assert_array_equal(back.children, tree.children)
    assert names[:2] == ["0", "1"]
    table = tree.to_table()
    assert table["depth"].max() == (m - 1 if shape is chain else 14)
    graph = tree.to_networkx()
    assert graph.number_of_nodes() == 2 * m - 1
    merge = merge_of(tree.linkage())
    same = Dendrogram.from_hclust(merge, tree.merge_costs)
    np.testing.assert_array_equal(same.children, tree.children)
    labels = tree.cut(3, min_size=2) if shape is balanced else tree.cut(1, min_size=5)
    assert labels.max() == (2 if shape is balanced else 0)
    assert tree.cut(max_size=4).max() + 1 == (m - 3 if shape is chain else m // 4)
    assert time.perf_counter() - started < 20  # 1 s alone on one core


def test_forests_are_tables_too():
    forest = tree_of([[0, 2]], [1.0], num_leaves=4)
    table = forest.to_table()
    np.testing.assert_array_equal(table["tree"], [0, 1, 0, 2, 0])
    np.testing.assert_array_equal(table["parent"], [4, -1, 4, -1, -1])
    assert forest.to_networkx().number_of_edges() == 2

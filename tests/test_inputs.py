"""What users pass that is no plain table of numbers, and what they are told of it."""

import os
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

import bregjax as bj
from bregjax import _soft_trees as soft_trees
from bregjax.hierarchy import _memory
from bregjax.hierarchy._lookalikes import lookalike

X = np.random.default_rng(0).normal(size=(6, 2))
TREE = bj.Dendrogram.from_linkage([[0, 1, 1.0, 2], [2, 3, 2.0, 2], [4, 5, 3.0, 4]])


class NAType:
    """Like the NA of pandas: no number, and comparisons have no truth value."""

    def __repr__(self):
        return "<NA>"

    def __ge__(self, other):
        return self

    __lt__ = __gt__ = __le__ = __ge__

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


class Frame:
    """Like a data frame: an array with names of columns."""

    def __init__(self, values, columns):
        self.values, self.columns = np.asarray(values, dtype=object), columns
        self.shape, self.ndim = self.values.shape, self.values.ndim

    def __array__(self, dtype=None, copy=None):
        return self.values.astype(dtype or object)


def masked(values, *place):
    table = np.ma.array(values)
    table[place] = np.ma.masked
    return table


def with_entry(value, row=1, column=1):
    table = np.abs(X).astype(object)
    table[row, column] = value
    return table


LACKING = {
    "mask": masked(np.abs(X), 1, 1),
    "rows of masks": [np.ma.array(row) for row in masked(np.abs(X), 1, 1)],
    "None": with_entry(None),
    "object NaN": with_entry(np.nan),
    "NaN": with_entry(np.nan).astype(float),
    "NA": with_entry(NAType()),
    "frame": Frame(with_entry(np.nan), ["size", "age"]),
    "JAX": jnp.asarray(with_entry(np.nan).astype(float)),
}


@pytest.mark.parametrize("family", ["ward", "poisson"])
@pytest.mark.parametrize("case", LACKING)
def test_missing_cells_are_read_alike(case, family):
    found = bj.agglomerate(LACKING[case], family=family)
    tree = bj.agglomerate(LACKING["NaN"], family=family)
    np.testing.assert_allclose(found.merge_costs, tree.merge_costs, rtol=1e-5)


@pytest.mark.parametrize("family", ["gaussian", "isotropic_gaussian", "multinomial"])
@pytest.mark.parametrize("case", LACKING)
def test_missing_cells_are_refused_where_rows_are_whole(case, family):
    message = "no missing cells under .*whole rows; got nan at row 1, column 1. Take"
    with pytest.raises(ValueError, match=message):
        bj.agglomerate(LACKING[case], family=family)


REFUSED = {
    "text": ([["red"], ["blue"]], "must hold numbers; got 'red' at row 0, column 0"),
    "some text": ([[1, 2], [3, "b"]], "got 'b' at row 1, column 1. Drop such columns"),
    "numbers as text": ([["1"], ["2"]], r"got '1' at row 0.*Convert .*astype\(float\)"),
    "frame": (
        Frame([[1, "red"], [2, "blue"]], ["size", "colour"]),
        "got 'red' at row 0, column 'colour'. Drop such columns or code them",
    ),
    "dates": (np.array(["2020-01-01"], "M8[D]"), "must hold numbers; got .*date"),
    "ragged": ([[1, 2], [3]], "rows of one length; got 1 entries in row 1 and 2"),
    "no columns": (np.ones((3, 0)), r"at least one column; got shape \(3, 0\)"),
    "no rows": (np.ones((0, 3)), r"at least one row; got shape \(0, 3\)"),
    "a name": ("table.csv", "got 'table.csv'. Read the file first"),
}


@pytest.mark.parametrize("family", ["ward", "poisson"])
@pytest.mark.parametrize("case", REFUSED)
def test_tables_are_refused(case, family):
    x, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        bj.agglomerate(x, family=family)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (masked(np.ones(6), 2), "`weights` must have no masked entries.* row 2"),
        ([1, None, 1, 1, 1, 1], "`weights` must be finite; got nan at row 1"),
        ([1, 1, NAType(), 1, 1, 1], "`weights` must be finite; got <NA> at row 2"),
        (["a"] * 6, "`weights` must hold numbers; got 'a' at row 0. Convert"),
    ],
)
def test_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        bj.agglomerate(X, family="ward", weights=weights)
    with pytest.raises(ValueError, match=message):
        bj.normal_reference(X, weights=weights)


def test_masks_are_refused_wherever_data_enter():
    hidden = masked(X, 3, 1)
    with pytest.raises(ValueError, match="`x` must have no masked"):
        bj.normal_reference(hidden)
    with pytest.raises(ValueError, match="`bandwidth` must have no masked"):
        bj.blur(masked([1.0, 2.0], 0))
    with pytest.raises(ValueError, match="`z` must have no masked"):
        bj.Dendrogram.from_linkage(masked([[0, 1, 1.0, 2]], 0, 2))
    with pytest.raises(ValueError, match="`classes` must have no masked"):
        bj.dendrogram_purity(TREE, masked([0, 0, 1, 1], 0))
    problem = bj.Problem(X[:4], family="ward")
    with pytest.raises(ValueError, match="`rows` must have no masked"):
        bj.dendrogram_features(problem, TREE.children, hidden, num_features=1)


def test_a_mask_that_hides_nothing_is_none():
    plain = bj.agglomerate(X, family="ward")
    tree = bj.agglomerate(np.ma.array(X), family="ward")
    np.testing.assert_array_equal(tree.merge_costs, plain.merge_costs)


def test_objects_that_are_numbers_pass():
    counts = [[1, True], [2, False], [9, True]]
    tree = bj.agglomerate(np.array(counts, dtype=object), family="poisson")
    plain = bj.agglomerate(np.array(counts, dtype=float), family="poisson")
    np.testing.assert_array_equal(tree.merge_costs, plain.merge_costs)


def test_sparse_arrays_of_jax_are_refused():
    class BCOO:  # the one of JAX is experimental
        shape, ndim = (6, 2), 2

        def todense(self):
            return X

    with pytest.raises(TypeError, match=r"sparse BCOO of 6 × 2\. x\.todense\(\) takes"):
        bj.agglomerate(BCOO(), family="ward")
    with pytest.raises(TypeError, match=r"sparse BCOO of 6 × 2"):
        bj.normal_reference(BCOO())  # pyright: ignore[reportArgumentType]


# Numbers out of range


@pytest.mark.parametrize("family", ["gaussian", "diagonal_gaussian", "ward"])
@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (1e160, r"as large as 1\.3e\+160, at row 3, column 0, overflow float64\. Resc"),
        (1e-155, "differences as small as 2.01e-155, in column 0, underflow float64"),
    ],
)
def test_squares_out_of_range_are_named(family, factor, message):
    with pytest.raises((ValueError, ArithmeticError), match=message) as error:
        bj.agglomerate(factor * X, family=family)
    assert "smoothing" not in str(error.value)


def test_only_the_column_out_of_range_is_named():
    table = np.column_stack([X, 1e-160 * X[:, 0]])
    with pytest.raises(ValueError, match="in column 2, underflow"):
        bj.agglomerate(table, family="diagonal_gaussian")


def test_equal_rows_are_no_underflow():
    tree = bj.agglomerate(np.ones((4, 2)), family="ward")
    assert np.asarray(tree.merge_costs).tolist() == [0, 0, 0]


def test_a_bandwidth_without_variances_names_the_family():
    for family, name in (("ward", "SphericalGaussian"), ("poisson", "Poisson")):
        with pytest.raises(TypeError, match=f"needs a Gaussian family.*; {name} has"):
            bj.agglomerate(np.abs(X), family=family, smoothing=bj.blur(0.5))
    with pytest.raises(TypeError, match="; SphericalGaussian has none"):
        jax.jit(lambda x: bj.Problem(x, family="ward", smoothing=bj.blur(1.0)).weights)(
            X
        )


# Memory


def test_without_proc_and_sysconf_nothing_is_refused(monkeypatch):
    """As on Windows."""
    monkeypatch.setattr(_memory, "_SYSTEM", Path("/no/such/file"))
    monkeypatch.setattr(_memory, "_CONTAINER_LIMIT", Path("/no/such/file"))
    monkeypatch.delattr(os, "sysconf")
    assert _memory.available_memory() == np.inf
    assert bj.agglomerate(X, family="ward").num_leaves == 6


def test_trees_at_random_say_what_memory_they_take(monkeypatch):
    monkeypatch.setattr(soft_trees, "available_memory", lambda: 2.0**30)
    problem = bj.Problem(np.zeros((60_000, 1)), family="ward")
    message = (
        r"`sample_tree` needs 228\.0 GiB for 60,000 points and 1\.0 GiB .* 3,554 p"
    )
    with pytest.raises(ValueError, match=message):
        bj.sample_tree(problem, key=0)
    chain = np.zeros((59_999, 2), np.int32)
    with pytest.raises(ValueError, match="`sequence_log_prob` needs 228.0 GiB"):
        soft_trees.sequence_log_prob(problem, chain)


# What is taken for data, and is something made of data


def test_distances_and_correlations_are_warned_of():
    square = squareform(pdist(X))
    with pytest.warns(UserWarning, match=r"distances: square \(6 × 6\), symmetric, wi"):
        bj.agglomerate(square, family="ward")
    with pytest.warns(UserWarning, match="correlations or similarities: .* unit diag"):
        bj.agglomerate(np.corrcoef(X), family="ward")
    with pytest.warns(UserWarning, match="condensed distances of 6 points, 15 that"):
        bj.agglomerate(pdist(X), family="ward")


def test_data_are_not_warned_of():
    rng = np.random.default_rng(1)
    graph = np.triu(rng.integers(0, 2, (6, 6)), 1)
    tables = [np.eye(5), graph + graph.T, np.zeros((4, 4)), X @ X.T, X[:3, :2], X[:1]]
    for points in range(6, 16):
        n = points * (points - 1) // 2
        drawn = [rng.random(n), rng.poisson(3.0, n), rng.normal(10, 2, n), np.arange(n)]
        drawn += [np.sort(drawn[0])[::-1], np.ones(n)]
        tables += [np.asarray(column, float)[:, None] for column in drawn]
    assert [lookalike(table) for table in tables] == [""] * len(tables)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bj.agglomerate([[0.0, 1.0], [1.0, 0.0]], family="ward")


# Cuts


def test_several_numbers_of_clusters_give_a_column_each():
    columns = TREE.cut([2, 3, 4])
    assert columns.shape == (4, 3)
    for column, k in zip(columns.T, (2, 3, 4), strict=True):
        np.testing.assert_array_equal(column, TREE.cut(k))
        np.testing.assert_array_equal(column, TREE.cut(num_clusters=k))
    costs = TREE.cut(max_cost=[0.5, 1.5])
    np.testing.assert_array_equal(costs[:, 1], TREE.cut(max_cost=1.5))
    traced = jax.jit(lambda tree: tree.cut([2, 3]))(TREE)
    np.testing.assert_array_equal(traced, columns[:, :2])


def test_cuts_that_are_none():
    with pytest.raises(ValueError, match="`num_clusters` must have at least one num"):
        TREE.cut([])
    with pytest.raises(ValueError, match="exactly one of `num_clusters` or `max_cost`"):
        TREE.cut([2], max_cost=[1.0])
    with pytest.raises(
        TypeError, match=r"`num_clusters` must be one whole .* \[2, 3\]"
    ):
        TREE.cluster_nodes(num_clusters=[2, 3])  # pyright: ignore[reportArgumentType]


def test_cuts_by_arrays():
    np.testing.assert_array_equal(TREE.cut(np.array([2, 3])), TREE.cut([2, 3]))
    costs = TREE.cut(max_cost=np.array([0.5, 1.5]))
    np.testing.assert_array_equal(costs, TREE.cut(max_cost=[0.5, 1.5]))


# Centers of another form


@pytest.mark.parametrize("kind", [bj.adding, bj.mixing, bj.pseudo_count])
def test_a_center_of_plain_numbers_is_none_for_gaussians(kind):
    with pytest.raises(TypeError, match="`center` must be Moments.*; got an array"):
        bj.agglomerate(X, family="gaussian", smoothing=kind(np.ones(2), 0.5))


def test_many_trees_at_random_say_what_memory_they_take(monkeypatch):
    monkeypatch.setattr(soft_trees, "available_memory", lambda: 2.0**20)
    problem = bj.Problem(np.zeros((40, 1)), family="ward")
    draw = lambda key: bj.sample_tree(problem, key=key)[1]
    keys = jax.random.split(jax.random.key(0), (4, 5))
    with pytest.raises(ValueError, match="`sample_tree` needs .* for 40 points"):
        jax.eval_shape(jax.vmap(jax.vmap(draw)), keys)
    assert jax.eval_shape(jax.vmap(draw), keys[0, :2]).shape == (2,)
    trees = bj.Dendrogram(
        np.zeros((1, 599, 2), np.int32), np.zeros((1, 599)), np.ones((1, 600))
    )
    with pytest.raises(ValueError, match="`co_clustering` needs .* for 600 points"):
        soft_trees.co_clustering(trees, num_clusters=2)

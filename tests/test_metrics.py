"""Dendrogram purity against its definition, pair by pair."""

import itertools
import time
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from trees import chain, leaf_sets, random_tree, tree_of

from bregjax.hierarchy import Dendrogram
from bregjax.metrics import dendrogram_purity

GLASS = Path(__file__).parents[2] / "shared" / "data" / "glass.npz"


def pair_by_pair(tree, classes):
    """The definition, in fractions."""
    sets = leaf_sets(tree)
    purities = []
    for i, j in itertools.combinations(range(tree.num_leaves), 2):
        if classes[i] == classes[j]:
            smallest = min((s for s in sets if {i, j} <= s), key=len)
            alike = sum(classes[leaf] == classes[i] for leaf in smallest)
            purities.append(Fraction(alike, len(smallest)))
    return float(sum(purities) / len(purities))


@pytest.mark.parametrize("seed", range(10))
def test_against_the_definition(seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        tree = random_tree(rng, int(rng.integers(3, 20)))
        # Fewer classes than leaves, so that there is a pair.
        num_classes = int(rng.integers(1, tree.num_leaves))
        classes = rng.integers(0, num_classes, tree.num_leaves)
        expected = pair_by_pair(tree, classes)
        np.testing.assert_allclose(
            dendrogram_purity(tree, classes), expected, rtol=1e-15
        )


def closed_form(num_leaves, num_first):
    """Of a chain whose first leaves are of one class, the rest of another."""
    n, m = num_leaves, num_first
    mixed = sum(Fraction((j - m) * (j - m + 1), j + 1) for j in range(m + 1, n))
    pairs = m * (m - 1) // 2 + (n - m) * (n - m - 1) // 2
    return float((m * (m - 1) // 2 + mixed) / pairs)


def test_of_a_short_chain():
    purity = dendrogram_purity(chain(6), [0, 0, 0, 1, 1, 1])
    np.testing.assert_allclose(purity, closed_form(6, 3), rtol=1e-15)
    np.testing.assert_allclose(purity, 0.73333333, rtol=1e-8)


def test_of_a_long_chain_in_little_memory():
    tree, classes = chain(20_000), np.arange(20_000) < 10_000
    tracemalloc.start()
    purity = dendrogram_purity(tree, classes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_allclose(purity, 0.69316081, rtol=1e-8)
    assert peak < 400 * 20_000  # bytes: O(m)


def test_many_classes_take_no_table_of_classes_by_nodes():
    rng = np.random.default_rng(5)
    tree, classes = random_tree(rng, 20_000), np.arange(20_000) // 2
    tracemalloc.start()
    purity = dendrogram_purity(tree, classes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0 < purity < 0.01  # pairs are strewn over the tree
    assert peak < 350 * 20_000  # bytes: 260 a leaf; a table would take 3.2 GB


def test_many_classes_on_a_chain_in_seconds():
    tree, classes = chain(40_000), np.arange(40_000) // 2
    started = time.perf_counter()
    purity = dendrogram_purity(tree, classes)
    flipped = dendrogram_purity(tree_of(np.asarray(tree.children)[:, ::-1]), classes)
    assert time.perf_counter() - started < 10  # 0.2 s; quadratic would take a minute
    # Pair j joins in the cluster of the first 2j leaves, at purity 1/j.
    expected = np.mean(1 / np.arange(1, 20_001))
    np.testing.assert_allclose([purity, flipped], expected, rtol=1e-12)


def test_pairs_beyond_32_bits():
    tree = chain(70_000)
    assert dendrogram_purity(tree, np.zeros(70_000)) == 1.0
    classes = np.arange(70_000) < 65_537
    mixed = np.arange(65_537, 70_000) - 65_536.0
    pairs = 65_537 * 65_536 // 2
    assert pairs == 2_147_516_416  # row 21: above 2³¹ − 1
    expected = pairs + np.sum(mixed * (mixed - 1) / (mixed + 65_537))
    expected /= pairs + 4_463 * 4_462 // 2
    np.testing.assert_allclose(dendrogram_purity(tree, classes), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("method", "expected"), [("single", 0.466), ("complete", 0.470), ("ward", 0.505)]
)
def test_of_scipys_trees_on_glass(method, expected):
    if not GLASS.exists():
        pytest.skip("the data sets do not lie beside the repository")
    with np.load(GLASS) as data:
        tree = Dendrogram.from_linkage(linkage(data["X"], method))
        purity = dendrogram_purity(tree, data["y"])
    assert abs(purity - expected) < 5e-4


def test_order_and_names_change_nothing():
    rng = np.random.default_rng(8)
    z = linkage(rng.normal(size=(50, 2)), "average")
    classes = rng.integers(0, 4, 50)
    tree = Dendrogram.from_linkage(z)
    purity = dendrogram_purity(tree, classes)
    names = np.array(["a", "b", "c", "d"])[classes]
    tuples = [("class", int(number)) for number in classes]
    mixed = [("1", 1, 2.5, ())[number] for number in classes]  # "1" is not 1
    for same in (
        names,
        list(names),
        tuples,
        mixed,
        jnp.asarray(classes),
        classes + 0.5,
    ):
        assert dendrogram_purity(tree, same) == purity
    flipped = tree_of(np.asarray(tree.children)[:, ::-1])
    assert dendrogram_purity(flipped, classes) == purity


def test_pure_subtrees_give_one():
    tree = tree_of([[0, 1], [2, 3], [4, 6], [5, 7]])
    assert dendrogram_purity(tree, ["a", "a", "b", "b", "b"]) == 1.0


def test_refuses_labels():
    tree = chain(3)
    cases: tuple[tuple[Any, str], ...] = (
        ([0, 0], "each of the 3 leaves; got 2"),
        (np.zeros((3, 2)), r"shape \[3\]; got shape \[3, 2\]"),
        ([0.0, np.nan, 0.0], "got nan at index 1"),
        (np.array([0.0, 0.0, np.nan]), "got nan at index 2"),
        (["a", None, "a"], "got None at index 1"),
        (np.array(["2020-01-01", "NaT", "NaT"], dtype="datetime64[ns]"), "index 1"),
        ([[0], [0], [1]], r"got \[0\] at index 0"),
        ([0, 1, 2], "all 3 differ, so there are no pairs"),
    )
    for classes, message in cases:
        with pytest.raises(ValueError, match=f"`classes` must .*{message}"):
            dendrogram_purity(tree, classes)


def test_refuses_an_ambiguous_missing_value():
    class NotAvailable:
        """Like the NA of pandas, comparisons with it have no truth value."""

        def __ne__(self, other) -> Any:
            return self

        __hash__ = object.__hash__

        def __bool__(self):
            raise TypeError("boolean value of NA is ambiguous")

    with pytest.raises(ValueError, match="`classes` must be hashable and present"):
        dendrogram_purity(chain(2), [NotAvailable(), 1])


def test_refuses_one_leaf_and_a_batch():
    with pytest.raises(ValueError, match="there are no pairs"):
        dendrogram_purity(tree_of([]), [0])
    batch = Dendrogram(np.zeros((2, 1, 2)), np.zeros((2, 1)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"`tree` must be one tree.*\[2\]"):
        dendrogram_purity(batch, [0, 0])

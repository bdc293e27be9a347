"""Metrics of two trees, or of labels: by definition, by SciPy and scikit-learn."""

import itertools
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.cluster import hierarchy as sch
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score, fowlkes_mallows_score
from trees import balanced, chain, leaf_sets, random_tree, stopped, tree_of

from bregjax.hierarchy import Dendrogram
from bregjax.metrics import (
    adjusted_rand,
    bakers_gamma,
    cophenetic_correlation,
    fowlkes_mallows,
    robinson_foulds,
)


def pairs_of_trees(count, seed, *, least=3, forests=True):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        m = int(rng.integers(least, 16))
        trees = [random_tree(rng, m) for _ in range(2)]
        if forests:
            trees = [stopped(tree, int(rng.integers(1, m))) for tree in trees]
        yield trees


# Robinson–Foulds


def test_robinson_foulds_against_sets():
    seen = set()
    for a, b in pairs_of_trees(80, 0):
        m = a.num_leaves
        sets = [{s for s in leaf_sets(t)[m:] if len(s) < m} for t in (a, b)]
        expected = len(sets[0] ^ sets[1])
        total = len(sets[0]) + len(sets[1])
        assert robinson_foulds(a, b) == robinson_foulds(b, a) == expected
        share = robinson_foulds(a, b, normalized=True)
        assert share == (expected / total if total else 0.0)
        seen.add(share)
    assert len(seen) > 10


def test_robinson_foulds_of_the_same_clusters():
    a, b = tree_of([[0, 1], [2, 3], [4, 5]]), tree_of([[3, 2], [1, 0], [5, 4]])
    assert robinson_foulds(a, b) == 0
    assert robinson_foulds(a.children, b) == 0
    assert robinson_foulds(chain(2), chain(2), normalized=True) == 0.0
    assert isinstance(robinson_foulds(a, b), int)


def test_robinson_foulds_of_large_trees_in_seconds():
    m = 2**16
    started = time.perf_counter()
    a, b = chain(m), balanced(m)
    # {0, 1}, {0, …, 3}, …, {0, …, m/2 − 1} are clusters of both.
    assert robinson_foulds(a, b) == 2 * (m - 2 - 15)
    assert time.perf_counter() - started < 10  # 0.5 s alone


# Baker's γ


def level_correlation(a, b):
    """Spearman's of the largest k whose cut leaves a pair together."""
    m = a.num_leaves
    levels = []
    for tree in (a, b):
        cuts = {k: tree.cut(k) for k in range(tree.num_trees, m + 1)}
        levels.append(
            [
                max((k for k, c in cuts.items() if c[i] == c[j]), default=0)
                for i, j in itertools.combinations(range(m), 2)
            ]
        )
    if min(map(np.ptp, levels)) == 0:
        return None
    found: Any = spearmanr(*levels)
    return found.statistic


def test_bakers_gamma_against_cuts():
    for a, b in pairs_of_trees(60, 1):
        expected = level_correlation(a, b)
        if expected is None:
            with pytest.raises(
                ValueError, match="`[ab]` must have two different level"
            ):
                bakers_gamma(a, b)
        else:
            np.testing.assert_allclose(bakers_gamma(a, b), expected, atol=1e-12)
            np.testing.assert_allclose(bakers_gamma(b, a), expected, atol=1e-12)


def test_bakers_gamma_by_hand():
    a, b = tree_of([[0, 1], [2, 3], [4, 5]]), tree_of([[0, 1], [2, 4], [3, 5]])
    ranks = np.array([[6, 2.5, 2.5, 2.5, 2.5, 5], [6, 4.5, 2, 4.5, 2, 2]])
    expected = np.corrcoef(ranks)[0, 1]
    np.testing.assert_allclose(bakers_gamma(a, b), expected, rtol=1e-12)
    np.testing.assert_allclose(bakers_gamma(a, a), 1, rtol=1e-15)


# Cophenetic correlation


def test_cophenetic_correlation_against_all_pairs():
    for a, b in pairs_of_trees(40, 2, forests=False):
        if min(np.ptp(a.merge_costs), np.ptp(b.merge_costs)) == 0:
            continue
        for heights in ("cost", "monotone", "merge_index"):
            of_pairs = [tree.cophenetic(heights=heights) for tree in (a, b)]
            if min(map(np.ptp, of_pairs)) == 0:
                continue
            expected = np.corrcoef(of_pairs)[0, 1]
            found = cophenetic_correlation(a, b, heights=heights)
            np.testing.assert_allclose(found, expected, atol=1e-12)
            same = cophenetic_correlation(a, of_pairs[1], heights=heights)
            np.testing.assert_allclose(same, expected, atol=1e-12)


def test_cophenetic_correlation_is_scipys(rng):
    distances = pdist(rng.normal(size=(40, 3)))
    z = sch.linkage(distances, "average")
    tree = Dendrogram.from_linkage(z)
    expected, _ = sch.cophenet(z, distances)
    np.testing.assert_allclose(
        cophenetic_correlation(tree, distances), expected, rtol=1e-12
    )


@pytest.mark.parametrize("unit", [1e-320, 1e-200, 1e160, 5e307])
@pytest.mark.parametrize("of", ["heights", "distances"])
def test_cophenetic_correlation_in_any_unit(unit, of):
    scales = (unit, 1.0) if of == "heights" else (1.0, unit)
    tree = tree_of([[0, 1], [2, 3]], np.array([1.0, 2]) * scales[0])
    found = cophenetic_correlation(tree, np.array([1.0, 2, 3]) * scales[1])
    np.testing.assert_allclose(found, np.sqrt(3) / 2, rtol=1e-3)


def test_children_have_no_heights():
    children: Any = [[0, 1], [2, 3]]
    with pytest.raises(TypeError, match="`a` must be a Dendrogram.*got list.*bakers"):
        cophenetic_correlation(children, tree_of(children))


def test_masked_columns_of_labels_are_refused():
    labels = np.ma.array([[0, 1], [1, 1]], mask=[[False, True], [False, False]])
    with pytest.raises(ValueError, match="`labels_a`.*mask"):
        adjusted_rand(labels, labels)


def test_correlations_take_little_memory(rng):
    m = 2000
    a, b = random_tree(rng, m), random_tree(rng, m)
    tracemalloc.start()
    found = cophenetic_correlation(a, b), bakers_gamma(a, b)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2000 * m  # bytes: all pairs would take 16 MB a tree
    assert max(map(abs, found)) < 0.2


def test_comparisons_refuse():
    a = chain(4)
    for function in (robinson_foulds, bakers_gamma, cophenetic_correlation):
        with pytest.raises(ValueError, match=r"`b` must be a tree over.*4.*over 5"):
            function(a, chain(5))
    for function in (robinson_foulds, bakers_gamma):
        with pytest.raises(
            ValueError, match=r"`a` must hold the merges.*node 5, which"
        ):
            function([[0, 1], [2, 5], [4, 3]], a)
        with pytest.raises(
            ValueError, match=r"`b` must be one tree.*\[3, 4\].*linkage"
        ):
            function(a, a.linkage())
    with pytest.raises(ValueError, match=r"`b` .*6 distances.*shape \[4, 4\].*squaref"):
        cophenetic_correlation(a, np.zeros((4, 4)))
    with pytest.raises(
        ValueError, match="`b` must be finite; got nan at (index|row) 1"
    ):
        cophenetic_correlation(a, [1.0, np.nan, 1.0, 1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="`b` must have two different distances"):
        cophenetic_correlation(a, np.ones(6))
    with pytest.raises(ValueError, match="`a` must have two different heights"):
        cophenetic_correlation(tree_of([[0, 1], [2, 3]]), chain(3))
    with pytest.raises(ValueError, match=r"`b` must be one tree: in a forest of 2"):
        cophenetic_correlation(a, stopped(a, 2))
    with pytest.raises(ValueError, match="`a` must have two different levels"):
        bakers_gamma(chain(2), chain(2))


# Labels


def test_labels_against_scikit_learn(rng):
    for _ in range(60):
        m = int(rng.integers(2, 30))
        a, b = (rng.integers(0, rng.integers(1, m + 1), m) for _ in range(2))
        np.testing.assert_allclose(
            adjusted_rand(a, b), adjusted_rand_score(a, b), atol=1e-14
        )
        np.testing.assert_allclose(
            fowlkes_mallows(a, b), fowlkes_mallows_score(a, b), rtol=1e-14
        )


def test_labels_of_cuts_column_by_column(rng):
    a, b = random_tree(rng, 20), random_tree(rng, 20)
    ks = [1, 2, 5, 20]
    cuts = a.cut(ks), b.cut(ks)
    for index, reference in (
        (adjusted_rand, adjusted_rand_score),
        (fowlkes_mallows, fowlkes_mallows_score),
    ):
        found = index(*cuts)
        expected = [
            reference(x, y) for x, y in zip(*map(np.transpose, cuts), strict=True)
        ]
        np.testing.assert_allclose(found, expected, atol=1e-14)
        one = index(a.cut(3), cuts[1])
        expected = [reference(a.cut(3), column) for column in cuts[1].T]
        np.testing.assert_allclose(one, expected, atol=1e-14)
        np.testing.assert_allclose(index(cuts[1], a.cut(3)), one, atol=1e-14)


def test_labels_may_be_anything():
    assert adjusted_rand(["x", "x", "y"], [7, 7, ("z",)]) == 1.0
    assert adjusted_rand([0, 1, 2], [2, 1, 0]) == 1.0
    assert adjusted_rand([0], [3]) == 1.0
    assert fowlkes_mallows([0, 1, 2], [0, 1, 2]) == 0.0
    assert isinstance(adjusted_rand(np.zeros(4), np.zeros(4)), float)


def test_many_points_do_not_overflow():
    m = 200_000
    a = np.zeros(m, int)
    b = np.arange(m) % 2
    assert adjusted_rand(a, b) == 0.0
    np.testing.assert_allclose(fowlkes_mallows(a, b), np.sqrt(0.5), rtol=1e-5)


def test_labels_refuse():
    for function in (adjusted_rand, fowlkes_mallows):
        with pytest.raises(ValueError, match="`labels_b` must .* 3 leaves; got 2"):
            function([0, 1, 2], [0, 1])
        with pytest.raises(ValueError, match="`labels_a` must be hashable and present"):
            function([0, None, 2], [0, 1, 2])
        with pytest.raises(ValueError, match="as many columns as `labels_a`, 2.*got 3"):
            function(np.zeros((4, 2)), np.zeros((4, 3)))
        with pytest.raises(ValueError, match=r"`labels_a` .*\[m, k\]; got \[2, 2, 2\]"):
            function(np.zeros((2, 2, 2)), [0, 1])

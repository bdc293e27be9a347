"""Ctrl-C leaves the merges that were made, and `start` goes on from there."""

import _thread
import contextlib
import threading

import numpy as np
import pytest
import scipy.sparse

import bregjax as bj
from bregjax.hierarchy import _runs

rng = np.random.default_rng(0)
COUNTS = rng.poisson(4.0, size=(60, 3)) + 1
POINTS = rng.normal(size=(60, 3))
SPARSE = scipy.sparse.csr_array(rng.poisson(0.3, size=(60, 20)) + np.eye(60, 20))
ENGINES = [
    (COUNTS, "poisson", "numpy"),
    (COUNTS, "poisson", "matrix"),
    (POINTS, "diagonal_gaussian", "matrix"),
    (POINTS, "gaussian", "numpy"),
    (COUNTS, "poisson", "windowed"),
    (POINTS, "ward", "windowed"),
    (SPARSE, "poisson", "sparse"),
    pytest.param(COUNTS, "poisson", "recompute", marks=pytest.mark.slow),
]


@pytest.fixture
def stopped(monkeypatch):
    """A function that agglomerates and presses Ctrl-C after some merges."""

    def run(problem, after, **options):
        def report(made):
            if made >= after:
                raise KeyboardInterrupt

        bar = lambda *_, **__: contextlib.nullcontext(report)
        with monkeypatch.context() as patch:
            patch.setattr(_runs, "progress_shown", bar)
            patch.setattr("bregjax.hierarchy._searches._PART", 7)
            with pytest.raises(bj.Interrupted) as caught:
                bj.agglomerate(problem, **options)
        return caught.value

    return run


@pytest.mark.parametrize(("x", "family", "engine"), ENGINES)
def test_what_is_left_goes_on_to_the_same_tree(stopped, x, family, engine):
    problem = bj.Problem(x, family=family)
    whole = bj.agglomerate(problem, engine=engine)
    stop = stopped(problem, 20, engine=engine)
    forest = stop.tree
    assert 20 <= forest.num_merges < 59
    np.testing.assert_array_equal(forest.children, whole.children[: forest.num_merges])
    np.testing.assert_allclose(
        forest.merge_costs, whole.merge_costs[: forest.num_merges], rtol=1e-6
    )
    assert f"{forest.num_merges} of 59 merges were made" in str(stop)
    again = stopped(problem, 40, engine=engine, start=forest).tree
    assert forest.num_merges < again.num_merges < 59
    tree = bj.agglomerate(problem, engine=engine, start=again)
    np.testing.assert_array_equal(tree.children, whole.children)
    np.testing.assert_allclose(tree.merge_costs, whole.merge_costs, rtol=1e-6)


def test_costs_that_are_solved_for(stopped):
    problem = bj.Problem(rng.beta(2, 3, size=(12, 1)), family="beta")
    whole = bj.agglomerate(problem)
    forest = stopped(problem, 5).tree
    tree = bj.agglomerate(problem, start=forest)
    np.testing.assert_array_equal(tree.children, whole.children)
    np.testing.assert_allclose(tree.merge_costs, whole.merge_costs, rtol=1e-6)


@pytest.mark.parametrize(
    "constraints",
    [
        {"connectivity": "chain"},
        {"connectivity": "chain", "must_link": [[0, 9], [3, 4]]},
        {"must_link": [[0, 9]], "cannot_link": [[1, 2], [5, 50]]},
    ],
)
def test_constraints(monkeypatch, constraints):
    def bar_until(after):
        def report(made):
            if made >= after:
                raise KeyboardInterrupt

        return lambda *_, **__: contextlib.nullcontext(report)

    problem = bj.Problem(POINTS, family="ward")
    whole = bj.agglomerate(problem, **constraints)
    name = "bregjax.hierarchy._constrained.progress_shown"
    with monkeypatch.context() as patch:
        patch.setattr(name, bar_until(20))
        with pytest.raises(bj.Interrupted) as caught:
            bj.agglomerate(problem, **constraints)
    forest = caught.value.tree
    assert forest is not None
    assert 20 <= forest.num_merges < 58
    np.testing.assert_array_equal(forest.children, whole.children[: forest.num_merges])
    tree = bj.agglomerate(problem, **constraints, start=forest)
    np.testing.assert_array_equal(tree.children, whole.children)
    np.testing.assert_allclose(tree.merge_costs, whole.merge_costs, rtol=1e-9)
    # What stopped before the links were merged can't be gone on with.
    first = bj.Dendrogram(np.array([[5, 6]]), np.zeros(1), np.ones(60))
    if "must_link" in constraints:
        with pytest.raises(ValueError, match="`start` must have merged all"):
            bj.agglomerate(problem, **constraints, start=first)
    if "cannot_link" in constraints:
        both = bj.Dendrogram(np.array([[0, 9], [1, 2]]), np.zeros(2), np.ones(60))
        with pytest.raises(ValueError, match="`start` must keep apart .* 1 and 2"):
            bj.agglomerate(problem, **constraints, start=both)


def test_merges_from_elsewhere_stand_whatever_they_cost():
    x = np.array([[0.0], [10.0], [1.0], [11.0]])
    start = bj.Dendrogram(np.array([[0, 1]]), np.zeros(1), np.ones(4))
    tree = bj.agglomerate(x, family="ward", start=start)
    # The center 5 of two points, at 4² · 2 / 6 from the point 1; then 11/3 of three.
    assert tree.children.tolist() == [[0, 1], [2, 4], [3, 5]]
    np.testing.assert_allclose(tree.merge_costs, [25, 16 / 3, 3 / 8 * (22 / 3) ** 2])


@pytest.mark.parametrize(
    ("start", "error", "words"),
    [
        ([[0, 1]], TypeError, "must be a Dendrogram; got list"),
        (bj.agglomerate(POINTS[:5], family="ward"), ValueError, "60 rows .* 5 leaves"),
    ],
)
def test_what_cannot_be_gone_on_with(start, error, words):
    with pytest.raises(error, match=words):
        bj.agglomerate(POINTS, family="ward", start=start)


def test_a_whole_tree_stays():
    problem = bj.Problem(POINTS, family="ward")
    tree = bj.agglomerate(problem)
    same = bj.agglomerate(problem, start=tree)
    np.testing.assert_array_equal(same.children, tree.children)
    np.testing.assert_allclose(same.merge_costs, tree.merge_costs, rtol=1e-9)


@pytest.mark.slow
def test_a_real_interrupt():
    problem = bj.Problem(rng.poisson(4.0, size=(6000, 20)) + 1, family="poisson")
    timer = threading.Timer(4.0, _thread.interrupt_main)
    timer.start()
    try:
        with pytest.raises(bj.Interrupted) as caught:
            bj.agglomerate(problem, engine="matrix")
    finally:
        timer.cancel()
    forest = caught.value.tree
    assert forest is not None
    assert forest.num_leaves == 6000

"""Ctrl-C leaves the merges that were made, and `start` goes on from there."""

import _thread
import contextlib
import threading
from typing import Any

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
    (POINTS, "ward", "mutual"),
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


@pytest.mark.usefixtures("windows_of_few")
@pytest.mark.parametrize(("x", "family", "engine"), ENGINES)
def test_what_is_left_goes_on_to_the_same_tree(stopped, x, family, engine):
    problem = bj.Problem(x, family=family)
    whole = bj.agglomerate(problem, engine=engine)
    stop = stopped(problem, 20, engine=engine)
    forest = stop.tree
    # Its rounds make merges before others that come first.
    least = 1 if engine == "mutual" else 20
    assert least <= forest.num_merges < 59
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
    # Other rows may not have merged before those that links join.
    first = bj.Dendrogram(np.array([[5, 6]]), np.zeros(1), np.ones(60))
    if "must_link" in constraints:
        words = r"`start` must merge .* rows \d and \d .* merge 0 joins rows 5 and 6"
        with pytest.raises(ValueError, match=words):
            bj.agglomerate(problem, **constraints, start=first)
    if "cannot_link" in constraints:
        both = bj.Dendrogram(np.array([[0, 9], [1, 2]]), np.zeros(2), np.ones(60))
        with pytest.raises(ValueError, match="`start` must keep apart .* 1 and 2"):
            bj.agglomerate(problem, **constraints, start=both)


LATE: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("_runs.settled_costs", "poisson", COUNTS, {"engine": "numpy"}),
    ("_runs.settled_costs", "ward", POINTS, {"engine": "mutual"}),
    ("_searches._costs", "poisson", COUNTS, {"engine": "matrix"}),
    ("_sparse.agglomeration.sparse_costs_along", "poisson", SPARSE, {}),
    ("_runs.check_kinks", "poisson", COUNTS, {"engine": "numpy"}),
    ("_constrained.settled_costs", "ward", POINTS, {"connectivity": "chain"}),
]


@pytest.mark.parametrize(("place", "family", "x", "options"), LATE)
def test_after_the_last_merge_all_are_left(monkeypatch, place, family, x, options):
    """Ctrl-C while the costs of the finished tree are computed."""

    def press(*_, **__):
        raise KeyboardInterrupt

    problem = bj.Problem(x, family=family)
    monkeypatch.setattr(f"bregjax.hierarchy.{place}", press)
    cases: list[dict[str, Any]] = [{}, {"num_clusters": 4}]
    forest = None
    for more in cases:
        with pytest.raises(bj.Interrupted) as caught:
            bj.agglomerate(problem, **options, **more)
        forest = caught.value.tree
        assert forest is not None
        assert forest.num_trees == more.get("num_clusters", 1)
    monkeypatch.undo()
    assert forest is not None
    whole = bj.agglomerate(problem, **options)
    np.testing.assert_array_equal(forest.children, whole.children[:56])
    np.testing.assert_allclose(forest.merge_costs, whole.merge_costs[:56], rtol=1e-6)
    tree = bj.agglomerate(problem, **options, start=forest)
    np.testing.assert_array_equal(tree.children, whole.children)


def test_solved_costs_of_all_pairs(stopped):
    problem = bj.Problem(rng.beta(2, 3, size=(7, 1)), family="beta")
    whole = bj.agglomerate(problem, engine="recompute")
    forest = stopped(problem, 3, engine="recompute").tree
    np.testing.assert_array_equal(forest.children, whole.children[:3])


def test_before_the_first_merge_there_is_none(monkeypatch):
    def press(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("bregjax.hierarchy._runs.host_leaves", press)
    with pytest.raises(bj.Interrupted) as caught:
        bj.agglomerate(POINTS[:9], family="ward")
    forest = caught.value.tree
    assert forest is not None
    assert forest.num_trees == 9


@pytest.mark.parametrize("rules", [{}, {"cannot_link": [[0, 1]]}])
def test_fewer_trees_than_clusters_asked_for(rules):
    """The merges of a start stand: none is undone."""
    start = bj.Dendrogram(np.array([[0, 3], [1, 2]]), np.zeros(2), np.ones(4))
    x = [[0.0], [10], [1], [11]]
    with pytest.raises(ValueError, match="`start` .* `num_clusters` = 3 .* got 2"):
        bj.agglomerate(x, family="ward", start=start, num_clusters=3, **rules)
    tree = bj.agglomerate(x, family="ward", start=start, num_clusters=2, **rules)
    np.testing.assert_array_equal(tree.children, start.children)


def test_a_faulty_start_is_called_by_its_name():
    start = bj.Dendrogram(np.array([[0, 7]]), np.zeros(1), np.ones(4))
    with pytest.raises(ValueError, match="`start` must hold the merges"):
        bj.agglomerate([[0.0], [10], [1], [11]], family="ward", start=start)


# Links of three groups, equal rows that links and edges join, and the rest.
GROUPED = np.array([[0.0], [50], [100], [100.5], [101.5], [7], [8], [50], [50], [50]])
LINKS = [[2, 3], [3, 4], [5, 6], [7, 8]]


@pytest.mark.parametrize("graph", [None, "chain"])
@pytest.mark.parametrize("pairs", [0, 2**19])
def test_links_and_equal_rows_stopped_at_every_merge(monkeypatch, pairs, graph):
    """In one search of all groups, or in one of each."""
    monkeypatch.setattr("bregjax.hierarchy._forest._PAIRS", pairs)
    rules: Any = {"must_link": LINKS, "cannot_link": [[0, 1]], "connectivity": graph}
    problem = bj.Problem(GROUPED, family="ward")
    whole = bj.agglomerate(problem, **rules)
    stop = 0

    def report(made):
        if made >= stop:
            raise KeyboardInterrupt

    name = "bregjax.hierarchy._constrained.progress_shown"
    monkeypatch.setattr(name, lambda *_, **__: contextlib.nullcontext(report))
    for made in range(1, whole.num_merges + 1):
        stop = made
        with pytest.raises(bj.Interrupted) as caught:
            bj.agglomerate(problem, **rules)
        forest = caught.value.tree
        assert forest is not None
        assert forest.num_merges == made
        np.testing.assert_array_equal(forest.children, whole.children[:made])
        stop = len(GROUPED)
        tree = bj.agglomerate(problem, **rules, start=forest)
        np.testing.assert_array_equal(tree.children, whole.children)
        np.testing.assert_allclose(tree.merge_costs, whole.merge_costs, atol=1e-12)


def test_a_search_of_one_group_says_nothing_of_all(monkeypatch):
    """Its merges are numbered by the group, and others may come before them."""

    def stopped(*_, **__):
        raise bj.Interrupted(np.array([[0, 1]]), 2)

    monkeypatch.setattr("bregjax.hierarchy._forest._PAIRS", 0)
    monkeypatch.setattr("bregjax.hierarchy._forest.bounded", stopped)
    with pytest.raises(bj.Interrupted) as caught:
        bj.agglomerate(GROUPED, family="ward", must_link=LINKS)
    assert len(caught.value.children) == 0
    assert caught.value.num_points == len(GROUPED)


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

"""Ward's trees by rounds of mutual nearest neighbours."""

import contextlib
from typing import Any

import jax
import numpy as np
import pytest
import scipy.sparse
from scipy.cluster.hierarchy import linkage

import bregjax as bj
from bregjax.convex import SquaredNorm
from bregjax.hierarchy import _engine_mutual, _runs
from bregjax.hierarchy._engine_mutual import MutualInfo, mutual
from bregjax.hierarchy._mutual import near_points, panels, point_tree
from bregjax.hierarchy._mutual.near_points import NearPoints
from bregjax.hierarchy._mutual.neighbourhoods import Neighbourhoods

rng = np.random.default_rng(0)
ANGLES = np.arange(90) * 2 * np.pi / 90


def with_outlier(exponent: int) -> np.ndarray:
    """Points about 0, and one far away."""
    x = 300 * rng.normal(size=(90, 2))
    x[0] = 10.0**exponent
    return x


# Points that are hard for bounds: ties, squares that cancel, underflow or overflow.
HARD: dict[str, np.ndarray] = {
    "normal": rng.normal(size=(90, 3)),
    "one column": rng.normal(size=(90, 1)),
    "many columns": rng.normal(size=(30, 500)),
    "grid": np.argwhere(np.ones((9, 10))).astype(float),
    "equal": rng.integers(0, 3, size=(90, 2)).astype(float),
    "one-hot": np.eye(80),
    "circle": np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1),
    "powers of two": 2.0 ** np.arange(-40, 40)[:, None],
    "near-duplicates": np.repeat(rng.normal(size=(30, 3)), 3, axis=0)
    + 1e-9 * rng.normal(size=(90, 3)),
    "far from 0": rng.integers(0, 20, size=(90, 2)) + 1e6,
    "two places": rng.normal(size=(90, 2)) + 1e8 * (np.arange(90) % 2)[:, None],
    "outlier 1e12": with_outlier(12),
    # Beside these, squares of the others are less than float32 has.
    "outlier 1e21": with_outlier(21),
    "outlier 1e22": with_outlier(22),
    "outlier 1e25": with_outlier(25),
    "great": 1e152 * rng.normal(size=(40, 2)),
}
WEIGHTS: dict[str, np.ndarray] = {
    "alike": np.ones(90),
    "small numbers": rng.integers(1, 4, size=90).astype(float),
    "1e-12 to 1e12": 10.0 ** rng.uniform(-12, 12, size=90),
    # More than float32 has, or their reciprocals are.
    "1e38 to 1e42": 10.0 ** rng.uniform(38, 42, size=90),
    "1e-60 to 1e-40": 10.0 ** rng.uniform(-60, -40, size=90),
}


@pytest.fixture(params=["products", "tree"])
def search(request, monkeypatch):
    """By products of matrices, as of few points or many columns, or by a k-d tree."""
    by_tree = request.param == "tree"
    monkeypatch.setattr(near_points, "serves", lambda *_, loaded: by_tree)
    return request.param


def costs_of_all(points: NearPoints) -> np.ndarray:
    """Costs of all pairs, from differences, `[m, m]`; inf on the diagonal."""
    square = np.sum((points.mean[:, None] - points.mean[None]) ** 2, axis=2)
    light = 1 / points.weight
    cost = square / (light[:, None] + light[None])
    np.fill_diagonal(cost, np.inf)
    return cost


def check_lists(found: Neighbourhoods, cost: np.ndarray) -> None:
    """All that are not on a list cost at least the bound."""
    row, place = np.nonzero(found.cost < np.inf)
    slot = found.index[row, place]
    np.testing.assert_allclose(found.cost[row, place], cost[row, slot], rtol=1e-12)
    others = cost.copy()
    others[row, slot] = np.inf
    assert np.all(found.bound <= np.min(others, axis=1) * (1 + 1e-12))


def check_nearest(found: Neighbourhoods, cost: np.ndarray) -> None:
    """The nearest is there, too."""
    check_lists(found, cost)
    least = np.min(cost, axis=1)
    np.testing.assert_allclose(np.min(found.cost, axis=1), least, rtol=1e-12)


@pytest.mark.parametrize("shape", [(2, 1), (3, 1), (3, 2), (5, 4), (60, 1), (60, 80)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_costs_are_scipys(shape, dtype):
    x = rng.normal(size=shape).astype(dtype)
    tree, info = bj.agglomerate(x, family="ward", return_info=True)
    assert info.engine == "mutual"
    expected = linkage(x.astype(float), "ward")[:, 2] ** 2 / 4
    np.testing.assert_allclose(tree.merge_costs, expected, rtol=1e-11)


def test_lists_of_one_and_of_four_find_the_same_tree(monkeypatch):
    x = rng.normal(size=(700, 3))
    whole = bj.agglomerate(x, family="ward")
    expected = linkage(x, "ward")[:, 2] ** 2 / 4
    np.testing.assert_allclose(whole.merge_costs, expected, rtol=1e-10)
    for few in (8, 10_000):
        monkeypatch.setattr(_engine_mutual, "_FEW", few)
        tree = bj.agglomerate(x, family="ward")
        np.testing.assert_array_equal(tree.children, whole.children)


@pytest.mark.parametrize("few", [8, 512])
@pytest.mark.parametrize("name", HARD)
def test_hard_points(monkeypatch, search, name, few):
    monkeypatch.setattr(_engine_mutual, "_FEW", few)
    problem = bj.Problem(HARD[name], family="ward")
    tree = bj.agglomerate(problem, engine="mutual")
    assert bj.certify(problem, tree).relative <= 1e-12


@pytest.mark.parametrize("few", [8, 512])
@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("points", ["normal", "equal", "outlier 1e12"])
def test_weights(monkeypatch, search, name, points, few):
    monkeypatch.setattr(_engine_mutual, "_FEW", few)
    problem = bj.Problem(HARD[points], family="ward", weights=WEIGHTS[name])
    tree = bj.agglomerate(problem, engine="mutual")
    assert bj.certify(problem, tree).holds(1e-11)


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_few_points_of_very_different_weight(m):
    """A list has all others, whose bound is ∞, at a share of 0: no warning of it."""
    weights = np.where(np.arange(m) % 2, 1e-12, 1e12)
    problem = bj.Problem(rng.normal(size=(m, 2)), family="ward", weights=weights)
    assert bj.certify(problem, bj.agglomerate(problem)).holds(1e-12)


def test_a_light_point_far_away_hardly_moves_its_union():
    """The mean is 2; from the light point the heavy one is seen to 1e-4."""
    points = NearPoints(np.array([[1e12], [1.0]]), np.array([1e-12, 1.0]))
    points.unite(np.array([0]), np.array([1]))
    assert abs(points.mean[0, 0] - 2) <= 1e-11


def test_squares_that_overflow():
    x = np.array([[1.2e154], [1e153], [-1.2e154], [0], [1.0]])
    tree = bj.agglomerate(x, family="ward", engine="mutual")
    assert tree.children.tolist() == [[3, 4], [1, 5], [0, 6], [2, 7]]


def test_squares_that_underflow_are_reported():
    with pytest.raises(ValueError, match="underflow float64"):
        bj.agglomerate(1e-170 * HARD["normal"], family="ward")


@pytest.mark.usefixtures("search")
def test_costs_that_are_no_numbers_end_in_a_tree():
    """Which costs these are, is for `replay` to say."""
    mean = np.array([[0.0], [np.nan], [1.0], [np.nan], [5.0]])
    with np.errstate(invalid="ignore"):
        children, _ = mutual(mean, np.ones(5), np.arange(5))
    assert sorted(children.ravel()) == list(range(8))


@pytest.mark.parametrize("finer", [False, True])
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("name", HARD)
def test_nearest(monkeypatch, search, name, count, finer):
    """By float32 first or by float64 alone; in one block of rows or in several."""
    monkeypatch.setattr(panels, "_BLOCK", 2**12 if finer else 2**20)
    x = HARD[name]
    points = NearPoints(x, np.ones(len(x)))
    points._float32_serves = not finer
    rows = np.random.default_rng(1).permutation(len(x))[: len(x) - 5]
    check_nearest(points.nearest(rows, count), costs_of_all(points)[rows])


@pytest.mark.parametrize("finer", [False, True])
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("name", WEIGHTS)
def test_nearest_by_weights(search, name, count, finer):
    points = NearPoints(HARD["normal"], WEIGHTS[name])
    points._float32_serves = not finer
    check_nearest(points.nearest(np.arange(90), count), costs_of_all(points))


def test_a_tree_settles_all_but_points_beside_much_heavier_ones():
    """More are asked for where weights differ, and few are left to products."""
    x = np.random.default_rng(2).random((900, 2))
    weight = 1.0 + np.arange(900) % 7
    for k, most in ((weight, 0), (10.0 ** (3 * (np.arange(900) % 2)), 450)):
        points = NearPoints(x, k)
        found = point_tree.nearest_by_tree(
            points.mean, points.weight, points.costs, np.arange(900), 4, 1
        )
        check_lists(found, costs_of_all(points))
        assert len(found.unsettled()) <= most


def test_a_tree_is_not_made_for_few_rows_or_in_vain(monkeypatch):
    made: list[int] = []

    def none(points, weight, costs, rows, count, threads):
        made.append(len(rows))
        return Neighbourhoods.unknown(len(rows), count)

    monkeypatch.setattr(near_points, "nearest_by_tree", none)
    points = NearPoints(np.random.default_rng(2).random((3000, 1)), np.ones(3000))
    points._by_tree = True
    for rows in (255, 256, 300):
        check_nearest(points.nearest(np.arange(rows), 1), costs_of_all(points)[:rows])
    assert made == [256]


def test_when_a_tree_is_taken():
    for columns, first, later in ((1, 2048, 512), (2, 4096, 1024), (6, 65536, 16384)):
        for loaded, fewest in ((False, first), (True, later)):
            assert point_tree.serves(fewest, columns, loaded=loaded)
            assert not point_tree.serves(fewest - 1, columns, loaded=loaded)


def test_many_points_of_few_columns_are_scipys():
    x = np.random.default_rng(3).random((4100, 2))
    tree = bj.agglomerate(x, family="ward")
    expected = linkage(x, "ward")[:, 2] ** 2 / 4
    np.testing.assert_allclose(tree.merge_costs, expected, rtol=1e-9)


@pytest.mark.parametrize(("name", "serves"), [("normal", True), ("two places", False)])
def test_float32_is_given_up_where_it_decides_little(monkeypatch, name, serves):
    monkeypatch.setattr(near_points, "_TRIED", 20)
    monkeypatch.setattr(panels, "_MANY", 8)
    points = NearPoints(HARD[name], np.ones(90))
    points.nearest(np.arange(90), 1)
    assert points._float32_serves == serves


@pytest.mark.parametrize("few", [8, 512])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", ["normal", "grid", "circle", "outlier 1e22"])
def test_bounds_hold_after_every_round(monkeypatch, search, name, weights, few):
    """Lists that unions take over, and those that are not searched again."""
    monkeypatch.setattr(_engine_mutual, "_FEW", few)
    run = _engine_mutual._Run(HARD[name], WEIGHTS[weights], None)
    clusters = 0
    while run.left > 1:
        clusters += run.left
        run.round()
        check_lists(run._near, costs_of_all(run._points))
    assert run.info.searches < clusters


def test_lists():
    lists = Neighbourhoods.unknown(2, 3)
    lists.bound[:] = 9
    rows, rank = np.array([0, 0, 0, 0, 1]), np.array([0, 1, 2, 3, 0])
    lists.enter(rows, rank, np.array([4, 5, 6, 7, 8]), np.array([1.0, 2, 3, 4, 5]))
    assert lists.index.tolist() == [[4, 5, 6], [8, 0, 0]]
    assert lists.cost.tolist() == [[1, 2, 3], [5, np.inf, np.inf]]
    assert lists.bound.tolist() == [4, 9]
    shorter = lists.shortened(1)
    assert shorter.index.tolist() == [[4], [8]]
    assert shorter.bound.tolist() == [2, 9]
    assert len(shorter.unsettled()) == 0
    shorter.bound[:] = 0.5, np.nan
    assert shorter.unsettled().tolist() == [0, 1]


def test_equal_rows_of_any_weight_come_first():
    x = np.repeat(rng.normal(size=(7, 2)), 30, axis=0)
    weights = rng.uniform(1, 2, size=len(x))
    problem = bj.Problem(x, family="ward", weights=weights)
    tree, info = bj.agglomerate(problem, return_info=True)
    assert info.mutual is not None
    assert info.mutual.duplicates == 203
    assert np.all(tree.merge_costs[:203] == 0)
    assert np.all(tree.merge_costs[203:] > 0)
    start = bj.Dendrogram(np.array([[0, 1], [2, 210]]), np.zeros(2), weights)
    tree, info = bj.agglomerate(problem, start=start, return_info=True)
    assert info.mutual is not None
    assert info.mutual.duplicates == 201
    assert bj.certify(problem, tree).holds()


def test_all_rows_equal_and_one_row():
    tree, info = bj.agglomerate(np.ones((70, 2)), family="ward", return_info=True)
    assert info.mutual == MutualInfo(duplicates=69, rounds=0, searches=0)
    assert np.all(tree.merge_costs == 0)
    assert bj.agglomerate([[3.0]], family="ward", engine="mutual").num_merges == 0


def test_number_of_clusters():
    x = HARD["normal"]
    whole = bj.agglomerate(x, family="ward")
    forest = bj.agglomerate(x, family="ward", num_clusters=7)
    np.testing.assert_array_equal(forest.children, whole.children[:83])


def test_what_was_done_is_told():
    """0 merges with 1 and 10 with 12; then these, which are searched again."""
    x = [[0.0], [1.0], [10.0], [12.0]]
    _, info = bj.agglomerate(x, family="ward", engine="mutual", return_info=True)
    assert info.mutual == MutualInfo(duplicates=0, rounds=2, searches=6)
    assert (info.windowed, info.bounded, info.graph) == (None, None, None)


@pytest.mark.parametrize("after", range(0, 59, 9))
def test_what_ctrl_c_leaves_begins_the_tree(monkeypatch, after):
    """Rounds make dear merges before cheap ones; only what is certain is left."""
    x = np.concatenate([HARD["normal"][:50], HARD["normal"][:10]])
    problem = bj.Problem(x, family="ward")
    whole = bj.agglomerate(problem)
    made = []

    def report(count):
        made.append(count)
        if count > after:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        bar = lambda *_, **__: contextlib.nullcontext(report)
        patch.setattr(_runs, "progress_shown", bar)
        with pytest.raises(bj.Interrupted) as caught:
            bj.agglomerate(problem)
    children = caught.value.children
    assert 0 < len(children) <= made[-1]
    np.testing.assert_array_equal(children, whole.children[: len(children)])
    tree = bj.agglomerate(problem, start=caught.value.tree)
    np.testing.assert_array_equal(tree.children, whole.children)


@pytest.mark.parametrize("family", [SquaredNorm(), bj.SphericalGaussian(variance=4.0)])
def test_the_same_tree_by_functions_like_wards(family):
    tree, info = bj.agglomerate(HARD["normal"], family=family, return_info=True)
    assert info.engine == "mutual"
    ward = bj.agglomerate(HARD["normal"], family="ward")
    np.testing.assert_array_equal(tree.children, ward.children)


def test_other_costs_that_are_said_to_be_reducible(monkeypatch):
    """A model from outside may say so, and its costs need not be Ward's."""
    problem = bj.Problem(HARD["normal"], family="diagonal_gaussian")
    expected = bj.agglomerate(problem)
    kind = type(problem.family.cluster_model())
    monkeypatch.setattr(kind, "reducible", property(lambda _: True))
    tree, info = bj.agglomerate(problem, return_info=True)
    assert info.engine != "mutual"
    np.testing.assert_array_equal(tree.children, expected.children)


X = HARD["normal"][:8]
MESH = jax.sharding.Mesh(jax.devices()[:1], ("clusters",))
ERRORS: list[tuple[Any, dict[str, Any], str]] = [
    (np.ones((3, 2)), {"family": "poisson"}, 'not be "mutual" under Poisson.* Take'),
    (X, {"family": bj.Product({(0, 1, 2): "ward"})}, "under Product"),
    (np.where(X > 1, np.nan, X), {}, "under Product"),
    (scipy.sparse.csr_array(np.eye(4)), {}, "rows are sparse"),
    (X, {"mesh": MESH}, "with a mesh"),
    (X, {"connectivity": "chain"}, "with `connectivity`"),
    (X, {"must_link": [[0, 1]]}, "with `must_link`"),
]


@pytest.mark.parametrize(("x", "options", "words"), ERRORS)
def test_where_it_does_not_serve(x, options, words):
    with pytest.raises(ValueError, match=f"`engine` must .*{words}"):
        bj.agglomerate(x, engine="mutual", **({"family": "ward"} | options))


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad])
def test_not_inside_of_transformations(transform):
    function = lambda x: bj.agglomerate(x, family="ward", engine="mutual").merge_costs
    with pytest.raises(ValueError, match='inside jit, vmap or grad; got "mutual"'):
        transform(function)(X[None] if transform is jax.vmap else X)

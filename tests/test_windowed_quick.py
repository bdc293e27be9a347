"""Windows by NumPy: bounds, costs, and the trees they lead to."""

import itertools
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from many_digits import mp

import bregjax as bj
from bregjax.clusters import _diagonal_clusters, _entropic_clusters
from bregjax.clusters._diagonal_clusters import DiagonalClusters
from bregjax.clusters._entropic_clusters import EntropicClusters
from bregjax.clusters._quick_clusters import QuickClusters, ScreenedClusters
from bregjax.clusters._root_distances import ALPHA, BETA, root_points
from bregjax.convex import NegativeEntropy, Scaled
from bregjax.hierarchy import Interrupted, _host_costs
from bregjax.hierarchy._windowed.fallbacks import quick_matrix
from bregjax.hierarchy._windowed.store import quick_store
from bregjax.hierarchy._windowed.store.quick_store import QuickStore

pytestmark = pytest.mark.usefixtures("windows_of_few")

made = np.random.default_rng(0)
PROFILES = made.gamma(1.0, 4.0, size=(5, 4))
# Rows that are hard for bounds or costs: zeros, ties, columns of other sizes, and
# counts beside which those of others vanish.
HARD: dict[str, np.ndarray] = {
    "counts": made.poisson(PROFILES[made.integers(0, 5, 150)]).astype(float),
    "rates": made.gamma(3 * PROFILES[made.integers(0, 5, 150)] + 0.1),
    "ties": made.poisson(2.0, size=(150, 2)).astype(float),
    "one column": made.gamma(2.0, size=(100, 1)),
    "two rows": np.array([[0.0, 1.0], [2.0, 0.0]]),
    "many columns": made.poisson(0.3, size=(40, 700)).astype(float),
    "one-hot": np.eye(60) + 0.0,
    "near-equal": 1 + 1e-7 * made.random((120, 3)),
    "near-duplicates": np.repeat(made.gamma(2.0, size=(40, 3)), 3, axis=0)
    + 1e-12 * made.random((120, 3)),
    "large counts": made.poisson(1e9, size=(120, 3)).astype(float),
    "a large column": np.c_[np.full(120, 1e12), made.poisson(4.0, size=(120, 3))],
    "scales": made.gamma(1.0, size=(120, 4)) * 10.0 ** np.array([-200, -8, 0, 8]),
    "two places": made.poisson(np.repeat([[5.0], [5e8]], 60, axis=0), (120, 4)) * 1.0,
}
WEIGHTS: dict[str, Any] = {
    "alike": np.ones,
    "small numbers": lambda m: 1.0 + np.arange(m) % 4,
    "1e-12 to 1e12": lambda m: 10.0 ** np.random.default_rng(1).uniform(-12, 12, m),
    "1e-60 to 1": lambda m: 10.0 ** np.random.default_rng(1).uniform(-60, 0, m),
}


# Of trees, those of extreme weights take time.
FEW_WEIGHTS = [
    pytest.param(name, marks=[pytest.mark.slow] if " to " in name else [])
    for name in WEIGHTS
]


def points(name: str, kind: str, weights: str = "alike") -> QuickClusters:
    """Rows as clusters, with variances of other sizes where these are Gaussians."""
    x = HARD[name]
    weight = WEIGHTS[weights](len(x))
    weight = weight / np.max(weight)
    if kind == "entropic":
        return EntropicClusters.of(weight, x)
    if name == "scales":  # Of which variances would underflow.
        x = x[:, 1:]
    ratio = np.random.default_rng(4).choice(RATIOS[kind], size=x.shape)
    spread = np.maximum(np.std(x, axis=0), 1e-9 * np.max(x, axis=0))
    return DiagonalClusters.of(weight, x, ratio * (0.3 * spread) ** 2)


RATIOS = {"diagonal": [1.0], "narrow": [1e-12], "unlike": [1e-6, 1.0, 10.0]}
KINDS = ("entropic", *RATIOS)


def exact(w_a, a, w_b, b):
    """The cost of entropies in 60 digits."""
    with mp.workdps(60):
        f = lambda t: t * mp.log(t) if t > 0 else mp.mpf(0)
        w_a, w_b = mp.mpf(float(w_a)), mp.mpf(float(w_b))
        total = mp.mpf(0)
        for x, y in zip(a.tolist(), b.tolist(), strict=True):
            x, y = mp.mpf(x), mp.mpf(y)
            c = (w_a * x + w_b * y) / (w_a + w_b)
            total += w_a * f(x) + w_b * f(y) - (w_a + w_b) * f(c)
        return total


def exact_cost(clusters: QuickClusters, i: int, j: int):
    """The cost of two clusters in 60 digits."""
    w_a, w_b = (mp.mpf(float(clusters.weight[k])) for k in (i, j))
    if isinstance(clusters, EntropicClusters):
        return exact(w_a, clusters.mean[i], w_b, clusters.mean[j])
    assert isinstance(clusters, DiagonalClusters)
    with mp.workdps(60):
        p, q, total = w_a / (w_a + w_b), w_b / (w_a + w_b), mp.mpf(0)
        of = lambda k: (clusters.mean[k].tolist(), clusters.variance[k].tolist())
        for m_a, v_a, m_b, v_b in zip(*of(i), *of(j), strict=True):
            m_a, v_a, m_b, v_b = map(mp.mpf, (m_a, v_a, m_b, v_b))
            c = p * v_a + q * v_b + p * q * (m_a - m_b) ** 2
            total += (w_a + w_b) * mp.log(c) - w_a * mp.log(v_a) - w_b * mp.log(v_b)
        return total / 2


def test_the_bound_holds_for_all_shares_and_ratios():
    """Of one column, means 1 and r: F(p) is the least quotient, and 1 / F is known."""
    tau = np.concatenate([np.linspace(1e-3, 8, 8000), np.linspace(8, 60, 600)])
    root = np.exp(-tau)
    square = 1 + root**2 - 2 * root * np.cos(2 * 0.4 * tau)
    share = np.linspace(0.5, 1, 1001)[:-1]
    # The cost is less where the lighter mean is the lesser; see the other way below.
    p, q = share[:, None], 1 - share[:, None]
    union = q * root**2 + p
    cost = (q * root**2 * np.log(root**2) - union * np.log(union)) / (p * q)
    inverse = np.max(square / cost, axis=1)
    assert np.all(np.diff(inverse) > 0)
    assert np.all(inverse[1:] <= ALPHA + BETA * share[:-1])
    other = q + p * root**2
    swapped = (p * root**2 * np.log(root**2) - other * np.log(other)) / (p * q)
    assert np.all(swapped >= cost * (1 - 1e-6))
    # At p = 1 the lighter mean costs r log r − r + 1.
    last = np.max(square / (root**2 * np.log(root**2) - root**2 + 1))
    assert last <= ALPHA + BETA * share[-1]
    # Close to the bound: little is given away at any share.
    assert np.all(inverse >= 0.99 * (ALPHA + BETA * share))


def test_the_bound_at_one_and_at_zero():
    for mean in ([[1.0], [0.0]], [[1.0], [1 + 1e-6]]):
        a, b = root_points(np.array(mean))
        bound = np.sum((a - b) ** 2) / (2 * ALPHA + BETA)
        true = float(exact(1.0, np.array(mean[0]), 1.0, np.array(mean[1])))
        assert 0.84 * true < bound < true


@pytest.mark.parametrize("spread", [1e-9, 1e-3, 1.0, 30.0])
@pytest.mark.parametrize("kind", ["entropic", "diagonal"])
def test_costs_and_their_errors(kind, spread, rng):
    mean = 3 * np.exp(spread * rng.normal(size=(12, 5)))
    weight = np.exp(2 * rng.normal(size=12))
    if kind == "entropic":
        mean[rng.random((12, 5)) < 0.1] = 0
        clusters = EntropicClusters.of(weight, mean)
        assert np.max(mean) <= clusters.unit <= 2 * np.max(mean)
    else:
        variance = np.exp(spread * rng.normal(size=(12, 5)))
        clusters = DiagonalClusters.of(weight, mean, variance)
    # Means in their unit are rounded: of these the costs are.
    first, second = np.triu_indices(12, 1)
    cost, error = clusters.costs(first, second)
    steady = clusters.steady_costs(first, second)
    for i, j, c, e, t in zip(first, second, cost, error, steady, strict=True):
        true = exact_cost(clusters, int(i), int(j))
        assert abs(c - true) <= e
        assert abs(t - true) <= 1e-12 * true
    assert np.array_equal(clusters.costs(second, first)[0], cost)


@pytest.mark.parametrize("kind", KINDS)
def test_steady_costs_are_0_where_all_is_equal(kind):
    clusters = points("counts", kind, "small numbers").taken(np.array([5, 5]))
    clusters.weight = np.array([1.0, 3.0])
    assert clusters.steady_costs(np.array([0]), np.array([1])) == 0


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_of_blocks_are_not_above_costs(kind, name, weights):
    store = QuickStore(points(name, kind, weights))
    store.append(np.array([0]), np.array([1]))
    for dtype in (np.float32, np.float64):
        store._bound_in(np.dtype(dtype))
        rows = np.arange(min(store.used, store.block))
        among = np.arange(store.capacity) < store.used
        (block,) = store.screened([(rows, among)])
        low = block.low.swapaxes(0, 1).reshape(len(rows), -1)[:, : store.used]
        first, second = np.triu_indices(store.used, 1)
        first, second = first[first < len(rows)], second[first < len(rows)]
        cost = store.costs(first, second)
        # Limits have a tiny number added, so that what underflows is within them.
        tiny = float(np.finfo(dtype).tiny)
        assert not np.any(low[first, second] > cost * (1 + 1e-12) + tiny)
        assert np.all(low[rows, rows] == np.inf)
        assert low.dtype == dtype
    if weights == "alike" and name not in ("near-duplicates", "scales"):
        apart = cost > 0
        assert np.median(low[first, second][apart] / cost[apart]) > 0.8


def least_by_brute_force(store, rows, among, count):
    """Costs of each row's nearest, `[r, count]`."""
    others = np.flatnonzero(among)
    first, second = (v.ravel() for v in np.meshgrid(rows, others, indexing="ij"))
    cost = np.where(first == second, np.inf, store.costs(first, second))
    return np.sort(cost.reshape(len(rows), -1), axis=1)[:, :count]


@pytest.mark.parametrize("name", ["counts", "ties", "two places", "many columns"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_search_finds_the_nearest_and_whom_they_are_near_to(kind, name):
    x = HARD[name]
    store = QuickStore(points(name, kind))
    among = np.arange(store.capacity) < store.used
    among[7] = False
    rows = np.arange(min(20, len(x)))
    limit = np.full(store.capacity, -np.inf)
    limit[5:30] = 0.4 * np.median(store.costs(np.arange(9), np.arange(9) + 9))
    (found,) = store.searched([(rows, among, 10)], limit)
    wanted = least_by_brute_force(store, rows, among, store.near)
    for row, costs in zip(rows, wanted, strict=True):
        ours = np.sort(found.ours.cost[found.ours.first == row])
        assert np.array_equal(ours[: store.near], costs)
    first, second = np.meshgrid(np.flatnonzero(among), rows[:10], indexing="ij")
    cost = store.costs(first.ravel(), second.ravel())
    near = (cost <= limit[first.ravel()]) & (first.ravel() != second.ravel())
    pairs = set(zip(first.ravel()[near], second.ravel()[near], strict=True))
    assert set(zip(found.theirs.first, found.theirs.second, strict=True)) == pairs


def test_full_precision_where_float32_is_lost():
    x = np.tile(HARD["two places"], (4, 1)) + made.random((480, 4))
    store = QuickStore(EntropicClusters.of(np.ones(len(x)), x))
    among = np.arange(store.capacity) < store.used
    limit = np.full(store.capacity, -np.inf)
    rows = np.arange(64)
    (found,) = store.searched([(rows, among, 0)], limit)
    store._many_left = 16
    (again,) = store.searched([(rows, among, 0)], limit)
    assert store.screen_dtype == np.float64
    assert np.array_equal(found.ours.cost, again.ours.cost)
    (last,) = store.searched([(rows, among, 0)], limit)
    assert last.left < found.left / 2


def test_full_precision_is_given_up_where_it_does_not_help():
    store = QuickStore(points("ties", "entropic"))
    store._many_left = 0
    among = np.arange(store.capacity) < store.used
    limit = np.full(store.capacity, -np.inf)
    (found,) = store.searched([(np.arange(64), among, 0)], limit)
    assert store.screen_dtype == np.float32
    assert store._many_left == 4 * found.left // 64


@pytest.mark.parametrize("kind", KINDS)
def test_unions_and_compacting(kind):
    clusters: Any = points("counts", kind, "small numbers")
    m, w = len(clusters.weight), clusters.weight
    store = QuickStore(clusters)
    union = store.append(np.array([0, 4]), np.array([1, 2]))
    p, q = w[4] / (w[4] + w[2]), w[2] / (w[4] + w[2])
    mean = p * clusters.mean[4] + q * clusters.mean[2]
    found: Any = store._clusters
    np.testing.assert_allclose(found.mean[union[1]], mean)
    if isinstance(clusters, DiagonalClusters):
        gap = clusters.mean[4] - clusters.mean[2]
        variance = p * clusters.variance[4] + q * clusters.variance[2] + p * q * gap**2
        np.testing.assert_allclose(found.variance[union[1]], variance)
    kept = np.array([3, union[1], 9])
    before = store.costs(np.repeat(kept, 3), np.tile(kept, 3))
    other, moved = store.copied(kept)
    assert np.array_equal(other.costs(np.repeat(moved, 3), np.tile(moved, 3)), before)
    assert store.used == m + 2
    moved = store.compact(kept)
    assert store.used == 3
    assert np.array_equal(store.costs(np.repeat(moved, 3), np.tile(moved, 3)), before)


@pytest.mark.parametrize("bandwidth", [None, 1e-6])
@pytest.mark.parametrize("weights", FEW_WEIGHTS)
@pytest.mark.parametrize("name", [n for n in HARD if n not in ("scales", "one-hot")])
def test_trees_of_diagonal_gaussians_are_greedys(name, weights, bandwidth):
    x = HARD[name]
    spread = np.std(x, axis=0) + 1e-3 * np.max(x, axis=0)
    smoothing = None if bandwidth is None else bj.blur(bandwidth * spread)
    problem = bj.Problem(
        x,
        family="diagonal_gaussian",
        weights=WEIGHTS[weights](len(x)),
        smoothing=bj.normal_reference(x) if smoothing is None else smoothing,
    )
    tree, info = bj.agglomerate(problem, engine="windowed", return_info=True)
    assert info.windowed is not None
    assert bj.certify(problem, tree).relative < 1e-12


@pytest.mark.parametrize("weights", FEW_WEIGHTS)
@pytest.mark.parametrize("name", HARD)
def test_trees_are_greedys(name, weights):
    x = HARD[name]
    problem = bj.Problem(
        x, family="poisson", smoothing=None, weights=WEIGHTS[weights](len(x))
    )
    tree, info = bj.agglomerate(problem, engine="windowed", return_info=True)
    assert info.windowed is not None
    certificate = bj.certify(problem, tree)
    assert certificate.relative < 1e-12
    costs = np.asarray(tree.merge_costs)
    np.testing.assert_allclose(costs, bj.replay(problem, tree), rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", RATIOS)
@pytest.mark.parametrize("name", ["counts", "near-equal", "a large column"])
def test_compiled_bounds_are_not_above_costs(name, kind, dtype, x64):
    clusters = points(name, kind, "small numbers")
    assert isinstance(clusters, ScreenedClusters)
    m = len(clusters.weight)
    screen = clusters.screen()
    features = screen.features(jax.tree.map(jnp.asarray, clusters.states), dtype)
    low = np.asarray(jax.jit(lambda s, f: s.against(f)(f))(screen, features))
    first, second = np.tril_indices(m, -1)
    cost = clusters.sure_costs(first, second)
    bound = low[first, second]
    assert not np.any(bound > cost * (1 + 1e-9))
    if name == "counts" and kind != "narrow":
        some = cost > 0
        assert np.median(bound[some] / cost[some]) > 0.999
        assert cast(Any, screen).in_range == (kind == "diagonal")


@pytest.mark.parametrize("bandwidth", [1.0, 1e-2, 1e-5])
def test_compiled_bounds_lead_to_the_same_tree(bandwidth, monkeypatch):
    """Narrow bandwidths invert, so that all fallbacks are taken."""
    x = made.normal(size=(300, 4)) * np.array([1, 10, 0.1, 1])
    problem = bj.Problem(
        x, family="diagonal_gaussian", smoothing=bj.blur(bandwidth * x.std(axis=0))
    )
    whole = bj.agglomerate(problem)
    for most in (0, 150**2 * 4):
        monkeypatch.setattr(_diagonal_clusters, "_MOST_PAIRS", most)
        monkeypatch.setattr(_diagonal_clusters, "_FEW_ROWS", 0)
        tree, info = bj.agglomerate(problem, return_info=True)
        assert info.engine == "windowed"
        assert np.array_equal(tree.children, whole.children)
        np.testing.assert_allclose(tree.merge_costs, whole.merge_costs)
        assert bj.certify(problem, tree).relative < 1e-12


@pytest.mark.parametrize("family", ["poisson", "diagonal_gaussian"])
@pytest.mark.parametrize("weights", FEW_WEIGHTS)
@pytest.mark.parametrize("name", [n for n in HARD if n != "scales"])
def test_a_matrix_leads_to_the_same_tree(name, weights, family, monkeypatch):
    x = HARD[name]
    smoothing = None if family == "poisson" else bj.blur(np.std(x, axis=0) + 0.1)
    problem = bj.Problem(
        x, family=family, smoothing=smoothing, weights=WEIGHTS[weights](len(x))
    )
    monkeypatch.setattr(_diagonal_clusters, "_FEW", 10**9)
    monkeypatch.setattr(_entropic_clusters, "_FEW", 10**9)
    monkeypatch.setattr(_entropic_clusters, "_ROW", 10**9)
    tree, info = bj.agglomerate(problem, engine="windowed", return_info=True)
    by_windows = info.windowed
    assert by_windows is not None
    assert by_windows.windows == by_windows.searches == 0
    assert by_windows.by_matrix == len(x) - 1 - by_windows.duplicates
    assert bj.certify(problem, tree).relative < 1e-12


def test_windows_that_fail_lead_to_a_matrix():
    """Narrow Gaussians come nearer as they merge, again and again."""
    x = made.normal(size=(300, 5))
    problem = bj.Problem(x, family="diagonal_gaussian", smoothing=bj.blur(1e-6))
    tree, info = bj.agglomerate(problem, return_info=True)
    assert info.windowed is not None
    assert info.windowed.by_matrix > 200
    assert bj.certify(problem, tree).relative < 1e-12


# Whose means are nearly equal, or unions nearly 1.
NEAR = {
    "poisson 1000": ("poisson", 1000.3 + 1e-6 * made.random((300, 2))),
    "poisson 3": ("poisson", 3 + 1e-10 * made.random((300, 1))),
    "poisson 5": ("poisson", 5 + 1e-14 * made.random((130, 3))),
    "poisson 1e12": ("poisson", 1e12 + np.arange(130.0)[:, None]),
    "poisson, tiny columns": (
        "poisson",
        np.c_[np.ones(130), 1e-100 * (1 + 1e-12 * made.random((130, 2)))],
    ),
    "bernoulli, saturated": (
        "bernoulli",
        1 / (1 + np.exp(-40 * made.normal(size=(200, 2)))),
    ),
    "bernoulli 1 - 1e-6": ("bernoulli", 1 - 1e-6 * (1 + 1e-6 * made.random((200, 2)))),
    "bernoulli 1 - 1e-12": ("bernoulli", 1 - 1e-12 * made.random((200, 2))),
}


@pytest.mark.parametrize("name", NEAR)
def test_rows_that_are_nearly_equal(name):
    family, x = NEAR[name]
    problem = bj.Problem(x, family=family, smoothing=None)
    tree = bj.agglomerate(problem)
    assert bj.certify(problem, tree).relative < 1e-14


@pytest.mark.parametrize("bandwidth", [1e-18, 1e-22, 1e-60, 1e-100])
def test_bandwidths_beside_which_float32_ends(bandwidth):
    x = made.normal(size=(120, 2)) + 1e6 * (np.arange(120) % 2)[:, None]
    smoothing = bj.blur(bandwidth)
    problem = bj.Problem(x, family="diagonal_gaussian", smoothing=smoothing)
    tree = bj.agglomerate(problem)
    assert bj.certify(problem, tree).relative < 1e-12


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("m", [150, 700])
def test_costs_that_overflow_are_told(rows, m):
    far = 10.0 ** (160 + np.arange(rows))[:, None] * np.array([[1.0, 0.0]])
    x = np.concatenate([made.normal(size=(m, 2)), far])
    problem = bj.Problem(x, family="diagonal_gaussian", smoothing=bj.blur(1.0))
    with pytest.raises(ValueError, match="could not be computed"):
        bj.agglomerate(problem)


@pytest.mark.parametrize("family", ["poisson", "diagonal_gaussian"])
def test_weights_beside_which_others_vanish_go_another_way(family):
    x = made.poisson(3.0, size=(120, 3)) * 1.0
    weights = 10.0 ** made.integers(-200, 200, 120)
    smoothing = None if family == "poisson" else bj.blur(0.3)
    problem = bj.Problem(x, family=family, weights=weights, smoothing=smoothing)
    tree, info = bj.agglomerate(problem, return_info=True)
    assert info.engine == "numpy"
    assert bj.certify(problem, tree).relative < 1e-12


def test_a_matrix_of_narrow_gaussians_looks_through_few_rows(monkeypatch):
    """Rows are looked through once, and few of them again."""
    looked = []
    look = quick_matrix._Rows._look
    monkeypatch.setattr(
        quick_matrix._Rows,
        "_look",
        lambda self, rows: (looked.append(len(rows)), look(self, rows))[1],
    )
    x = made.normal(size=(300, 5))
    problem = bj.Problem(x, family="diagonal_gaussian", smoothing=bj.blur(1e-5))
    tree = bj.agglomerate(problem)
    assert bj.certify(problem, tree).relative < 1e-12
    assert len(x) < sum(looked) < 4 * len(x)


@pytest.mark.parametrize(("near", "quick"), [(0.9, True), (1 - 1e-7, False)])
def test_binary_rows_near_1_go_another_way(near, quick):
    problem = bj.Problem([[near], [0.5], [1.0]], family="bernoulli", smoothing=None)
    assert (_host_costs._quick_host(problem, "windowed") is not None) == quick


def test_weights_whose_sums_of_reciprocals_overflow():
    x, weights = made.random((130, 4)), 10.0 ** made.uniform(-38.2, 0, 130)
    problem = bj.Problem(x, family="poisson", smoothing=None, weights=weights)
    assert bj.certify(problem, bj.agglomerate(problem)).relative < 1e-12


FAMILIES = {
    "poisson": made.poisson(PROFILES[made.integers(0, 5, 120)]).astype(float),
    "multinomial": made.multinomial(30, made.dirichlet(np.ones(6)), 120) * 1.0,
    "bernoulli": (made.random((120, 9)) < made.random(9)) * 1.0,
    "categorical": made.integers(0, 4, 120),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_families_whose_costs_are_entropies(family):
    x = FAMILIES[family]
    problem = bj.Problem(x, family=family)
    tree, info = bj.agglomerate(problem, return_info=True)
    other = bj.agglomerate(problem, engine="matrix")
    assert info.engine == "windowed"
    assert bj.certify(problem, tree).relative < 1e-12
    total = np.sum(other.merge_costs)
    np.testing.assert_allclose(np.sum(tree.merge_costs), total, rtol=0.02)


def test_a_multiple_of_an_entropy():
    x = HARD["rates"]
    tree, info = bj.agglomerate(
        x, family=Scaled(NegativeEntropy(0.5), 3.0), return_info=True
    )
    assert info.engine == "windowed"
    same = bj.agglomerate(x, family=NegativeEntropy())
    assert np.array_equal(tree.children, same.children)
    np.testing.assert_allclose(tree.merge_costs, 3 * np.asarray(same.merge_costs))


def compilations(caplog, x, **options) -> list[str]:
    caplog.clear()
    with jax.log_compiles(True), caplog.at_level("WARNING", logger="jax"):
        bj.agglomerate(x, **options)
    messages = [record.getMessage() for record in caplog.records]
    return [message for message in messages if "XLA compilation" in message]


@pytest.mark.parametrize("family", ["poisson", "diagonal_gaussian"])
def test_nothing_compiles(family, caplog):
    x = made.poisson(3.0, size=(133, 3)) * 1.0
    assert not compilations(caplog, x, family=family)
    assert compilations(caplog, x, family=family, engine="matrix")


def test_the_same_tree_by_other_threads_and_longer_lists(monkeypatch):
    x = HARD["rates"]
    one = bj.agglomerate(x, family="poisson")
    monkeypatch.setattr(quick_store, "_MANY", 50)
    monkeypatch.setattr(quick_store, "_ROWS", (8, 16))
    other = bj.agglomerate(x, family="poisson")
    assert np.array_equal(one.children, other.children)
    assert np.array_equal(one.merge_costs, other.merge_costs)


def test_rows_of_equal_points_with_other_weights_merge_first():
    x = made.integers(1, 3, size=(200, 2)).astype(float)
    tree, info = bj.agglomerate(
        bj.Problem(x, family="poisson", smoothing=None, weights=made.random(200)),
        return_info=True,
    )
    assert info.windowed is not None
    assert info.windowed.duplicates == 196
    assert np.array_equal(np.asarray(tree.merge_costs)[:196], np.zeros(196))


def test_a_tree_that_goes_on():
    x = HARD["rates"]
    whole = bj.agglomerate(x, family="poisson")
    forest = bj.agglomerate(x, family="poisson", num_clusters=30)
    rest, info = bj.agglomerate(x, family="poisson", start=forest, return_info=True)
    assert info.engine == "windowed"
    assert np.array_equal(rest.children, whole.children)
    np.testing.assert_allclose(rest.merge_costs, whole.merge_costs)


def test_ctrl_c_leaves_the_first_merges(monkeypatch):
    x = HARD["rates"]
    whole = bj.agglomerate(x, family="poisson")
    calls = itertools.count()
    search = QuickStore._search

    def stopped(*args):
        if next(calls) == 9:
            raise KeyboardInterrupt
        return search(*args)

    monkeypatch.setattr(QuickStore, "_search", stopped)
    with pytest.raises(Interrupted) as stop:
        bj.agglomerate(x, family="poisson")
    monkeypatch.undo()
    assert stop.value.tree is not None
    made_so_far = np.asarray(stop.value.tree.children)
    assert 0 < len(made_so_far) < len(x) - 1
    assert np.array_equal(made_so_far, whole.children[: len(made_so_far)])


@pytest.mark.parametrize("factor", [1.2, 1.5])
def test_a_bound_above_the_cost_is_found_out(factor, monkeypatch):
    """The test of bounds and the certificate can fail."""
    monkeypatch.setattr(_entropic_clusters, "ALPHA", ALPHA / factor**2)
    monkeypatch.setattr(_entropic_clusters, "BETA", BETA / factor**2)
    with pytest.raises(AssertionError):
        test_bounds_of_blocks_are_not_above_costs("entropic", "counts", "alike")


def test_other_engines_are_there(monkeypatch):
    """Compiled windows, as on a GPU or with a mesh, have the same tree."""
    x = HARD["rates"]
    one = bj.agglomerate(x, family="poisson")
    monkeypatch.setattr(_host_costs, "_quick_host", lambda *_: None)
    other, info = bj.agglomerate(
        x, family="poisson", engine="windowed", return_info=True
    )
    assert info.engine == "windowed"
    assert np.array_equal(one.children, other.children)

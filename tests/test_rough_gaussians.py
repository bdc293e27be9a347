"""Rough costs of full Gaussians: what they may be off, bounds, the trees they find."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bregjax as bj
from bregjax._evaluation import working
from bregjax.clusters._closed_host import ClosedHost
from bregjax.clusters._host_model import rows_of
from bregjax.clusters._moments import Moments
from bregjax.clusters._rough_gaussians import RoughGaussians
from bregjax.clusters._union_axes import UnionAxes
from bregjax.hierarchy._engine_bounded import bounded
from bregjax.hierarchy._host_costs import host_leaves, put, rough_host

TABLES = {
    "groups": lambda rng: rng.normal(size=(60, 6)) + 5 * rng.integers(3, size=(60, 1)),
    "forty columns": lambda rng: rng.normal(size=(30, 40)) * (1 + 9 * rng.random(40)),
    "one cloud": lambda rng: rng.normal(size=(40, 21)),
    "units": lambda rng: rng.normal(size=(40, 3)) * [1e-6, 1.0, 1e6] + [1e-6, 9, 1e8],
    "dependent": lambda rng: rng.normal(size=(50, 2)) @ [[1, 1, 0], [0, 1e-3, 1]],
    "one column": lambda rng: rng.gamma(0.3, size=(50, 1)),
}


def gaussian(x, **options):
    return bj.Problem(x, family="gaussian", **options)


def problem_of(name, factor, rng):
    """A table, under a share of the bandwidth of its columns."""
    x = TABLES[name](rng)
    blur = bj.blur(factor * np.std(x, axis=0))
    return gaussian(x, smoothing=blur, weights=rng.uniform(0.2, 5, len(x)))


def slots_of(problem):
    """The clusters of a problem in slots, and on the host."""
    host = ClosedHost(problem.family.cluster_model())
    leaves = host_leaves(host, problem)
    rough = RoughGaussians.of(leaves)
    assert rough is not None
    return host, leaves, rough


@pytest.mark.parametrize("factor", [1e4, 0.5, 1e-3])
@pytest.mark.parametrize("name", TABLES)
def test_costs_are_off_by_no_more_than_they_say(name, factor, rng):
    """After random merges; bounds are below costs, and close for single points."""
    with working(problem_of(name, factor, rng)) as problem:
        host, nodes, rough = slots_of(problem)
        m = problem.num_points
        low, high = np.triu_indices(m, 1)
        costs = cost_of(host, nodes, low, high)
        bounds, sharp = rough.first_bounds()
        first = bounds[low, high]
        assert np.all(first <= costs)
        off = costs[first >= sharp] - first[first >= sharp]
        assert np.all(off <= 1e-6 * costs[first >= sharp])
        np.testing.assert_allclose(first, costs, rtol=1e-6, atol=1e-4)
        slots = list(range(m))
        while len(slots) > 2:
            a, b = sorted(rng.choice(slots, 2, replace=False).tolist())
            join(host, nodes, rough, a, b)
            slots.remove(b)
            others = np.array([slot for slot in slots if slot != a])
            here = np.full(len(others), a)
            cost = cost_of(host, nodes, here, others)
            found, error = rough.costs(here, others)
            assert np.all(np.abs(found - cost) <= error + 1e-13 * cost)
            assert np.all(error <= 1e-3 * (1 + cost))
            for limit in (0.0, np.inf):
                bounds = bounds_of_union(rough, m, limit)[others]
                assert np.all(bounds <= cost * (1 + 1e-12))


@pytest.mark.parametrize("far", [1e3, 1e5, 1e7])
def test_points_far_from_the_middle_are_moved_by_rounding(far, rng):
    """Two groups, each of which is narrow beside how far it is from the middle."""
    x = rng.normal(size=(20, 3)) + far * (np.arange(20) % 2)[:, None]
    family = bj.Gaussian(roots=False)
    smoothing = bj.blur([0.3, 1.1, 1.7])
    with working(bj.Problem(x, family=family, smoothing=smoothing)) as problem:
        host, nodes, rough = slots_of(problem)
        slots = np.arange(20)
        # Of two of a group, of three, and of one of each.
        for a, b in ((0, 0), (0, 2), (0, 4), (1, 3), (5, 6)):
            if a < b:
                join(host, nodes, rough, a, b)
                slots = slots[slots != b]
                others = slots[slots != a]
                cost = cost_of(host, nodes, np.full(len(others), a), others)
                bounds = bounds_of_union(rough, 20, np.inf)[others]
                assert np.all(bounds <= cost * (1 + 1e-12))
            low, high = (slots[k] for k in np.triu_indices(len(slots), 1))
            cost = cost_of(host, nodes, low, high)
            found, error = rough.costs(low, high)
            assert np.all(np.abs(found - cost) <= error + 1e-13 * cost)


def cost_of(host, nodes, low, high):
    """Costs of pairs of slots, by the model."""
    return host.search_costs(rows_of(nodes, low), rows_of(nodes, high))[0]


def join(host, nodes, rough, low, high):
    """Put the union of two slots into the first."""
    parts = (rows_of(nodes, slice(k, k + 1)) for k in (low, high))
    put(nodes, slice(low, low + 1), host.settle(rough.pool(*parts)))
    rough.unite(np.array([low]), np.array([high]))
    rough.take(np.array([low]))


def bounds_of_union(rough, m, limit):
    """Bounds of the costs of the union made last, with all slots."""
    bounds = np.zeros((1, m))
    limits = np.full((1, m), limit)
    rough.raise_bounds(slice(0, 1), slice(0, m), limits, bounds)
    return bounds[0]


def test_the_worked_example():
    problem = gaussian([[0.0, 0.0], [2.0, 0.0]], smoothing=bj.blur(1.0))
    with working(problem) as copy:
        _, _, rough = slots_of(copy)
    cost, error = rough.costs(np.array([0]), np.array([1]))
    np.testing.assert_allclose(cost, np.log(2), rtol=1e-14)
    first = rough.first_bounds()[0]
    np.testing.assert_allclose(first[0, 1], np.log(2), rtol=1e-12)
    assert 0 < error[0] < 1e-12


@pytest.mark.parametrize("factor", [0.5, 1e-3])
@pytest.mark.parametrize("name", TABLES)
def test_trees_are_greedy(name, factor, rng):
    problem = problem_of(name, factor, rng)
    tree, info = bj.agglomerate(problem, return_info=True)
    assert info.engine == "numpy"
    assert info.bounded is not None
    assert info.bounded.rough_costs > 0
    assert info.bounded.first_costs == 0
    assert bj.certify(problem, tree).excess <= 1e-12
    if problem.x.shape[1] < 7:
        other = bj.agglomerate(problem, engine="matrix")
        np.testing.assert_array_equal(tree.children, other.children)
        np.testing.assert_allclose(tree.merge_costs, other.merge_costs, rtol=1e-6)


def test_ties_are_settled_by_costs(rng):
    """Points of a grid, some of them twice."""
    x = rng.integers(4, size=(60, 2)).astype(float)
    problem = gaussian(x, smoothing=bj.blur(0.7))
    tree, info = bj.agglomerate(problem, return_info=True)
    assert info.bounded is not None
    assert info.bounded.later_costs > 0
    assert info.bounded.duplicates > 0
    assert bj.certify(problem, tree).excess <= 1e-12


@pytest.mark.parametrize("light", [1e-100, 1e-161, 1e-163])
def test_weights_whose_products_underflow(light, rng):
    x = rng.normal(size=(110, 3))
    weights = light * rng.uniform(0.5, 2, 110)
    weights[0] = 1
    problem = gaussian(x, weights=weights, smoothing=bj.blur(0.7))
    tree, other = (bj.agglomerate(problem, engine=e) for e in ("numpy", "matrix"))
    np.testing.assert_array_equal(tree.children, other.children)


def test_eigenvalues_are_no_less_than_one():
    """Those that rounding takes below 0, of a spread of 1e9."""
    root = 1e9 * np.random.default_rng(0).normal(size=(5, 1, 4))
    covariance = np.eye(4) + root.swapaxes(1, 2) @ root
    none = np.zeros(0, int)
    axes = UnionAxes.of(covariance, none, np.zeros((0, 0, 4)))
    assert np.all(axes.values >= 1)
    assert np.linalg.eigvalsh(covariance).min() < 1


@pytest.mark.parametrize("unit", [1e-140, 1e140])
def test_units_change_nothing(unit, rng):
    x = rng.normal(size=(30, 2))
    one, other = (bj.agglomerate(gaussian(rows)) for rows in (x, unit * x))
    np.testing.assert_array_equal(one.children, other.children)
    np.testing.assert_allclose(one.merge_costs, other.merge_costs, rtol=1e-9)


def test_errors_grow_with_the_merges_on_the_way(rng):
    """A chain of 300 merges: each adds a rounding."""
    x = np.sort(rng.normal(size=300))[:, None] * [1.0, 0.3]
    with working(gaussian(x)) as problem:
        host, nodes, rough = slots_of(problem)
        low, last = np.array([0]), np.array([299])
        first = rough.costs(low, last)[1]
        for slot in range(1, 299):
            join(host, nodes, rough, 0, slot)
        cost = cost_of(host, nodes, low, last)
        found, error = rough.costs(low, last)
        assert np.all(np.abs(found - cost) <= error)
        assert np.all(error > 10 * first)
        assert np.all(bounds_of_union(rough, 300, np.inf)[last] <= cost)


def test_points_that_stay_apart(rng):
    x = rng.normal(size=(30, 3))
    apart = [[0, 1], [2, 3]]
    forest = bj.agglomerate(gaussian(x), cannot_link=apart)
    assert bj.certify(gaussian(x), forest, cannot_link=apart).excess <= 1e-12
    labels = forest.cut(forest.num_trees)
    assert labels[0] != labels[1]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_left_stays_apart(seed):
    """Rounds end where no two of the last clusters may merge: no loop for ever."""
    x = np.random.default_rng(seed).normal(size=(40, 2))
    apart = list(itertools.combinations(range(4), 2))
    forest, info = bj.agglomerate(gaussian(x), cannot_link=apart, return_info=True)
    assert info.bounded is not None
    assert forest.num_trees == 4


def test_slots_are_left_out_on_the_way(rng):
    """The tree is that of the engine without rough costs, which keeps all slots."""
    x = rng.normal(size=(150, 3))

    class Plain(ClosedHost):
        def rough(self, leaves):
            return None

    with working(gaussian(x)) as problem:
        leaves = host_leaves(Plain(problem.family.cluster_model()), problem)
        trees = [
            bounded(kind(problem.family.cluster_model()), leaves, np.arange(150))[0]
            for kind in (ClosedHost, Plain)
        ]
    np.testing.assert_array_equal(trees[0], trees[1])


def test_what_has_no_rough_costs(rng):
    x = rng.normal(size=(8, 2))
    center: Any = jax.tree.map(np.asarray, Moments(jnp.zeros(2), jnp.eye(2)))
    for problem in (
        bj.Problem(x, family="diagonal_gaussian"),
        gaussian(x, smoothing=bj.mixing(center, 0.1)),
    ):
        with working(problem) as copy:
            host = rough_host(copy)
            if host is not None:
                assert host.rough(host_leaves(host, copy)) is None
        assert bj.agglomerate(problem).num_leaves == 8


@pytest.mark.parametrize("made", [0, 1, 37, 58])
def test_going_on_gives_the_same_tree(made, rng):
    """After merges of twins, of points and of clusters."""
    x = rng.normal(size=(60, 3))
    x[40:] = x[:20]
    problem = gaussian(x, weights=rng.integers(1, 4, 60).astype(float))
    tree = bj.agglomerate(problem)
    start = bj.Dendrogram(tree.children[:made], tree.merge_costs[:made], tree.weights)
    again, info = bj.agglomerate(problem, start=start, return_info=True)
    assert info.engine == "numpy"
    np.testing.assert_array_equal(again.children, tree.children)
    np.testing.assert_array_equal(again.merge_costs, tree.merge_costs)


def test_a_start_of_ones_own_is_gone_on_with_greedily(rng):
    x = rng.normal(size=(20, 2))
    start = bj.Dendrogram(np.array([[3, 7], [1, 20]]), np.zeros(2), np.ones(20))
    tree = bj.agglomerate(gaussian(x), start=start)
    other = bj.agglomerate(gaussian(x), start=start, engine="matrix")
    np.testing.assert_array_equal(tree.children[:2], start.children)
    np.testing.assert_array_equal(tree.children, other.children)

"""The engine of lower bounds: exact greedy, with few costs."""

import os
import pathlib
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import reference
from own_potentials import (
    diagonal_gaussian,
    identity,
    negative_binomial,
    von_mises_fisher,
)

from bregjax import ExponentialFamily, Problem, agglomerate, blur, certify, replay
from bregjax.clusters import HostModel
from bregjax.clusters._natural.host import NaturalHost
from bregjax.hierarchy._engine_bounded import bounded
from bregjax.hierarchy._engine_recompute import exhaustive
from bregjax.hierarchy._engines import numbers_needed


class PlainHost(HostModel):
    """Clusters (weight, mean) under a NumPy function f, by Definition 3.7."""

    def __init__(self, f):
        self.f = f
        self.asked = 0

    def leaves(self, statistics, weights):
        return np.asarray(weights), np.asarray(statistics)

    def pool(self, a, b):
        weight = a[0] + b[0]
        return weight, (a[0][:, None] * a[1] + b[0][:, None] * b[1]) / weight[:, None]

    def settle(self, state):
        return state

    def result(self, state):
        return np.zeros(len(state[0]), np.int32)

    def merge_costs(self, a, b, union):
        parts = a[0] * self.f(a[1]) + b[0] * self.f(b[1])
        return np.maximum(parts - union[0] * self.f(union[1]), 0)

    def search_costs(self, a, b):
        self.asked += len(a[0])
        union = self.pool(a, b)
        return self.merge_costs(a, b, union), union

    def noise(self, state):
        return 1e-15 * state[0] * (1 + np.abs(self.f(state[1])))


H = 0.4  # the bandwidth of own Gaussians

FUNCTIONS = {
    "poisson": lambda x: np.sum(x * np.log(x) - x, axis=-1),
    "exponential": lambda x: -np.sum(np.log(x), axis=-1),
    "quartic": lambda x: np.sum(x**4, axis=-1),
    "steep": lambda x: np.log(np.sum(np.exp(8 * x), axis=-1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_greedy(name, rng):
    """40 random sets each; costs that invert among them."""
    f, inverted = FUNCTIONS[name], 0
    for _ in range(40):
        m = int(rng.integers(2, 30))
        x = rng.gamma(0.4, size=(m, 3)) + 1e-3
        weights = rng.uniform(0.2, 5, m)
        host = PlainHost(f)
        leaves = host.leaves(x, weights)
        children, nodes, info = bounded(host, leaves, np.arange(m))
        slow, _ = exhaustive(PlainHost(f), leaves)
        np.testing.assert_array_equal(children, slow)
        left, right = (tuple(leaf[children[:, k]] for leaf in nodes) for k in (0, 1))
        costs = host.merge_costs(left, right, tuple(leaf[m:] for leaf in nodes))
        inverted += np.any(np.diff(costs) < -1e-9)
        assert info.first_costs == m * (m - 1) // 2
        # Unions of nearest points are found twice, and some at their merge.
        assert host.asked <= info.first_costs + info.later_costs + 2 * m
    assert inverted > 0 or name in ("poisson", "steep")


def test_bounds_spare_most_costs(rng):
    x = rng.gamma(3.0, size=(150, 3)) + 20 * rng.integers(1, 6, size=(150, 1))
    host = PlainHost(FUNCTIONS["poisson"])
    _, _, info = bounded(host, host.leaves(x, np.ones(150)), np.arange(150))
    # All pairs with a union are as many as the first ones.
    assert info.later_costs < 0.8 * info.first_costs


def test_the_worked_example():
    """Of the module: bounds 2 and 12, of which the first is evaluated."""
    x = np.array([[0.0], [1], [3], [7]])
    host = PlainHost(lambda x: np.sum(x**2, axis=-1) / 2)
    children, nodes, _ = bounded(host, host.leaves(x, np.ones(4)), np.arange(4))
    np.testing.assert_array_equal(children, [[0, 1], [2, 4], [3, 5]])
    np.testing.assert_allclose(nodes[1][4:, 0], [0.5, 4 / 3, 2.75])


def test_ties_go_to_the_lowest_slots():
    host = PlainHost(lambda x: np.sum(x**2, axis=-1) / 2)
    line = host.leaves(np.arange(6.0)[:, None], np.ones(6))
    children, _, _ = bounded(host, line, np.arange(6))
    assert children[:3].tolist() == [[0, 1], [2, 3], [4, 5]]
    square = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    children, _, _ = bounded(host, host.leaves(square, np.ones(4)), np.arange(4))
    assert children[:2].tolist() == [[0, 1], [2, 3]]


def test_equal_points_merge_first():
    host = PlainHost(lambda x: np.sum(x**2, axis=-1) / 2)
    x = np.array([[5.0], [0], [5], [0], [5], [9]])
    leaves = host.leaves(x, np.ones(6))
    children, nodes, info = bounded(host, leaves, np.array([0, 1, 0, 1, 0, 2]))
    assert children.tolist() == [[0, 2], [4, 6], [1, 3], [5, 7], [8, 9]]
    assert info.duplicates == 3
    np.testing.assert_allclose(nodes[0][6:], [2, 3, 2, 4, 6])


def test_one_point_and_none_that_differ():
    host = PlainHost(lambda x: np.sum(x**2, axis=-1) / 2)
    one = host.leaves(np.ones((1, 1)), np.ones(1))
    assert bounded(host, one, np.arange(1))[0].shape == (0, 2)
    same = host.leaves(np.ones((3, 1)), np.ones(3))
    assert bounded(host, same, np.zeros(3, int))[0].tolist() == [[0, 1], [2, 3]]


def test_costs_that_can_not_be_had_merge_last():
    class Failing(PlainHost):
        def search_costs(self, a, b):
            costs, union = super().search_costs(a, b)
            lost = (a[1][:, 0] == 0) & (b[1][:, 0] == 1)
            return np.where(lost, np.nan, costs), union

    host = Failing(lambda x: np.sum(x**2, axis=-1) / 2)
    leaves = host.leaves(np.array([[0.0], [1], [50]]), np.ones(3))
    assert bounded(host, leaves, np.arange(3))[0][0].tolist() == [1, 2]


def test_a_cost_that_can_not_be_had_bounds_nothing():
    """Points 0 and 9 have no cost; yet 9 joins the union of 0 and 1, not of the far."""

    class Failing(PlainHost):
        def search_costs(self, a, b):
            costs, union = super().search_costs(a, b)
            lost = (a[1][:, 0] == 0) & (b[1][:, 0] == 9)
            return np.where(lost, np.nan, costs), union

    host = Failing(lambda x: np.sum(x**2, axis=-1) / 2)
    leaves = host.leaves(np.array([[0.0], [1], [9], [40]]), np.ones(4))
    children, _, _ = bounded(host, leaves, np.arange(4))
    assert children.tolist() == [[0, 1], [2, 4], [3, 5]]


def moments(x):
    return jnp.concatenate([x, x**2 + H**2])


def test_own_gaussians_are_the_built_in(rng):
    x = rng.normal(size=(40, 2)) + 3 * rng.integers(0, 3, (40, 1))
    start = np.array([0, 0, -0.5, -0.5])
    family = ExponentialFamily(diagonal_gaussian, moments, start)
    tree = agglomerate(x, family=family)
    same = agglomerate(x, family="diagonal_gaussian", smoothing=blur(H))
    np.testing.assert_array_equal(tree.children, same.children)
    np.testing.assert_allclose(tree.merge_costs, same.merge_costs, rtol=1e-11)
    slow = agglomerate(x[:12], family=family, engine="recompute")
    fast = agglomerate(x[:12], family=family, engine="matrix")
    np.testing.assert_array_equal(slow.children, fast.children)
    assert certify(Problem(x, family=family), tree).holds(1e-10)


def test_own_counts_with_zeros(rng):
    """Leaves and unions on faces of the mean domain, weights, duplicates."""
    x = rng.poisson(1.5, size=(60, 3))
    weights = rng.integers(1, 4, 60).astype(float)
    own = ExponentialFamily(negative_binomial, identity, -np.ones(3))
    tree = agglomerate(x, family=own, weights=weights)
    f = lambda t: (
        np.where(t > 0, t * np.log(np.where(t > 0, t, 1)), 0) - (t + 2) * np.log(t + 2)
    )
    excess = reference.excess(
        lambda t: np.sum(f(np.asarray(t)), axis=-1), x.astype(float), weights,
        tree.children,
    )  # fmt: skip
    assert excess < 1e-9
    assert certify(Problem(x, family=own, weights=weights), tree).holds(1e-9)


def test_near_duplicates_far_from_the_origin_keep_their_order(rng):
    """Costs of 1e-12 beside values of ψ* of 1e5: by values they would all be 0."""
    x = 1e4 + np.array([0, 1, 3, 7, 12, 20])[:, None] * 1e-4
    own = ExponentialFamily(negative_binomial, identity, -np.ones(1))
    tree = agglomerate(x, family=own)
    np.testing.assert_array_equal(tree.children[0], [0, 1])
    r, t = 2.0, 1e4
    curvature = r / (t * (t + r))
    np.testing.assert_allclose(tree.merge_costs[0], curvature * 1e-8 / 4, rtol=1e-4)


def test_directions_on_a_sphere(rng):
    x = rng.normal(size=(30, 3)) + [2, 0, 0]
    x = 0.9 * x / np.linalg.norm(x, axis=1, keepdims=True)
    own = ExponentialFamily(von_mises_fisher, identity, np.full(3, 0.1))
    tree = agglomerate(x, family=own)
    assert certify(Problem(x, family=own), tree).holds(1e-10)


def test_windowed_by_a_table_gives_the_same_tree(rng):
    """Costs and unions from the host there too; zeros and large counts together."""
    x = rng.poisson(np.exp(rng.normal(size=(90, 3)) * 2))
    own = ExponentialFamily(negative_binomial, identity, -np.ones(3), separable=True)
    tree = agglomerate(x, family=own, engine="matrix")
    other, info = agglomerate(x, family=own, engine="windowed", return_info=True)
    assert info.windowed is not None
    costs = np.sort(tree.merge_costs), np.sort(other.merge_costs)
    np.testing.assert_allclose(*costs, rtol=1e-9, atol=1e-12)
    assert certify(Problem(x, family=own), other).holds(1e-9)


def sum_exp(theta):
    return jnp.sum(jnp.exp(theta))


@pytest.mark.parametrize("scale", [1, 1e-6, 1e-12])
def test_rare_events_of_large_weight(scale, rng):
    """λ² is as small as the means here, long before θ is right."""
    x = scale * rng.gamma(0.7, size=(80, 1))
    weights = np.full(80, 1 / scale)
    own = ExponentialFamily(sum_exp, identity, np.zeros(1), separable=True)
    problem = Problem(x, family="poisson", weights=weights)
    for engine in ("matrix", "windowed"):
        tree = agglomerate(x, family=own, weights=weights, engine=engine)
        same = replay(problem, tree)
        np.testing.assert_allclose(tree.merge_costs, same, rtol=1e-9, atol=1e-13)
        assert certify(problem, tree).holds(1e-9)


@pytest.mark.parametrize("engine", ["matrix", "recompute", "windowed"])
def test_one_row(engine):
    own = ExponentialFamily(sum_exp, identity, np.zeros(1), separable=True)
    assert agglomerate([[1.0]], family=own, engine=engine).merge_costs.shape == (0,)


def test_windowed_without_a_table_is_refused():
    own = ExponentialFamily(sum_exp, identity, np.zeros(1))
    with pytest.raises(ValueError, match='must be "matrix"'):
        agglomerate([[1.0], [2.0]], family=own, engine="windowed")


@pytest.mark.parametrize("scale", [1e-6, 1e3, 1e7])
def test_units_are_no_matter(scale, rng):
    def half_square(theta):
        return jnp.sum(theta**2) / 2

    own = ExponentialFamily(half_square, identity, np.zeros(2))
    x = scale * rng.normal(size=(30, 2))
    tree, same = agglomerate(x, family=own), agglomerate(x, family="ward")
    np.testing.assert_array_equal(tree.children, same.children)
    np.testing.assert_allclose(tree.merge_costs, same.merge_costs, rtol=1e-10)


def test_a_certificate_takes_no_cost_for_granted(rng, monkeypatch):
    own = ExponentialFamily(sum_exp, identity, np.zeros(2))
    x = rng.gamma(3.0, size=(8, 2))
    tree = agglomerate(x, family=own)
    whole = NaturalHost.search_costs

    def failing(self, a, b):
        costs, unions = whole(self, a, b)
        costs[0] = np.nan
        return costs, unions

    monkeypatch.setattr(NaturalHost, "search_costs", failing)
    with pytest.raises(ArithmeticError, match="could not be computed"):
        certify(Problem(x, family=own), tree)


MEMORY = r"""
import re, sys
import jax.numpy as jnp, numpy as np
import bregjax as bj
from own_potentials import diagonal_gaussian

def moments(x):
    return jnp.concatenate([x, x**2 + 0.01])

own = bj.ExponentialFamily(diagonal_gaussian, moments, np.array([0.0, -0.5]))
x = np.random.default_rng(0).normal(size=(int(sys.argv[1]), 1))

# Of this program alone: ru_maxrss begins at the peak of the process that forked it.
def peak():
    return 1024 * int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])

bj.agglomerate(x[:20], family=own)
before = peak()
bj.agglomerate(x, family=own)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not os.path.exists("/proc/self/status"), reason="peaks are read from /proc"
)
def test_memory_is_what_is_told():
    """Told beforehand, so that it is no more; and not many times too much."""
    m = 5000
    command = [sys.executable, "-c", MEMORY, str(m)]
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parent)}
    out = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    )
    told = 8 * numbers_needed("matrix", m, 2 * 2 + 3, 8 * 2, solves=True)
    assert 0.5 * told < int(out.stdout) < 1.25 * told

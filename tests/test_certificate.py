"""The certificate of a tree, against a look at every step and by hand."""

import jax
import numpy as np
import pytest
import reference
from hostile_cases import ORDINARY
from trees import random_tree

from bregjax import Problem, blur
from bregjax.families import FAMILIES
from bregjax.hierarchy import Dendrogram, agglomerate, certify, cluster_cost
from bregjax.hierarchy._windowed.windows.range_max import RangeMax

M = 48  # one size for all tests: they share what compiles
# The tests of ties here, and those of the windowed engine, have the others.
FAST = ("ward", "exponential")
ALL = [
    name if name in FAST else pytest.param(name, marks=pytest.mark.slow)
    for name in sorted(ORDINARY)
]


@pytest.mark.parametrize(
    ("family", "weighted"), [("poisson", True), ("exponential", False)]
)
def test_excess_is_the_worst_of_all_steps(family, weighted, rng):
    """Any tree at all, against the least cost of each step in extended precision."""
    x = rng.gamma(2.0, size=(M, 2)) + 0.05
    weights = rng.uniform(1, 5, M) if weighted else np.ones(M)
    points = reference.statistics(family, x)
    f = reference.FUNCTIONS[family]
    tree = _nearly_greedy(x, family, rng) if weighted else random_tree(rng, M)
    found = certify(Problem(x, family=family, weights=weights), tree.children)
    worst = reference.excess(f, points, weights, tree.children)
    np.testing.assert_allclose(found.excess, worst, rtol=1e-9)
    assert found.excess > 0
    assert found.pair is not None
    assert found.num_pairs == (M - 1) ** 2
    assert 0 < found.relative <= 1
    assert found.sum_error < 1e-12
    assert not found.holds()


def _nearly_greedy(x, family, rng):
    """The tree of the same rows, a little moved."""
    return agglomerate(x * rng.uniform(0.8, 1.25, x.shape), family=family)


def test_equal_rows_of_unequal_weights(rng):
    """All costs are 0, but for a rounding that engines differ in."""
    x = np.tile([0.1, 0.7, 0.3], (60, 1))
    smoothing = blur(np.array([0.1, 0.03, 0.7]))
    weights = rng.uniform(0.2, 5, 60)
    problem = Problem(x, family="gaussian", weights=weights, smoothing=smoothing)
    tree = agglomerate(problem, engine="numpy")
    assert np.max(tree.merge_costs) < 1e-24
    assert certify(problem, tree).excess < 1e-24


def test_the_pair_is_the_one_that_costs_too_little(rng):
    x = rng.gamma(2.0, size=(M, 2))
    tree = random_tree(rng, M)
    found = certify(Problem(x, family="poisson"), tree.children)
    assert found.pair is not None
    first, second = found.pair
    costs = [poisson_cost(x, tree, *pair) for pair in tree.children]
    death = {node: step for step, pair in enumerate(tree.children) for node in pair}
    birth = max(0, max(found.pair) - M + 1)
    assert death[first] <= death.get(second, M)
    own = death[first] == death.get(second)
    dearest = max(costs[birth : death[first] + 1 - own])
    cost = poisson_cost(x, tree, first, second)
    np.testing.assert_allclose(dearest - cost, found.excess, rtol=1e-9)


def poisson_cost(x, tree, *nodes):
    """A merge cost from the definition, Σ s_j log(s_j / w_j) − s log(s / w)."""
    parts = [x[tree.members(node)] for node in nodes]
    parts.append(np.concatenate(parts))
    a, b, both = (np.sum(p.sum(0) * np.log(p.mean(0))) for p in parts)
    return a + b - both


@pytest.mark.parametrize("name", ALL)
def test_greedy_trees_are_certified(name, rng):
    case = ORDINARY[name]
    problem = Problem(case.rows(rng, M), family=case.family)
    tree = agglomerate(problem, engine="windowed")
    found = certify(problem, tree)
    assert found.excess <= 1e-12 * tree.merge_costs.max()
    assert found.holds(1e-9)
    assert found.num_pairs == (M - 1) ** 2


def test_the_order_of_merges_counts():
    """By hand: pairs at distance 1 and 2, the dearer merged first; Δ = 1/4 and 1."""
    problem = Problem([[0.0], [1.0], [10.0], [12.0]], family="ward")
    right = certify(problem, [[0, 1], [2, 3], [4, 5]])
    assert right.holds()
    assert right.pair is None
    wrong = certify(problem, [[2, 3], [0, 1], [4, 5]])
    np.testing.assert_allclose([wrong.excess, wrong.relative], 0.75)
    assert wrong.pair in ((0, 1), (1, 0))
    assert wrong.holds(0.75)
    assert not wrong.holds(0.74)


def test_inversions_are_no_fault():
    """Counts whose second merge costs less than the first: 7.39, then 6.86."""
    problem = Problem([[5, 0], [0, 7], [11, 9]], family="poisson")
    tree = agglomerate(problem)
    assert tree.num_inversions() == 1
    found = certify(problem, tree)
    assert (found.excess, found.pair) == (0, None)
    assert found.holds(1e-15)


@pytest.mark.parametrize("family", ["ward", "poisson", "diagonal_gaussian"])
def test_a_tree_in_single_precision_holds(family, rng):
    """Made inside a float32 `jit`; its sum of costs is off by about 1e-6."""
    x = rng.poisson(50.0, size=(M, 3)).astype(np.float32)
    tree = jax.jit(lambda x: agglomerate(x, family=family, engine="matrix"))(x)
    assert tree.merge_costs.dtype == np.float32
    found = certify(Problem(x, family=family), tree)
    assert found.rounding == 1e-4
    assert found.holds()
    assert not found.holds(1e-10)


def _whole(high):
    return np.random.default_rng(0).integers(0, high, size=(M, 2))


@pytest.mark.parametrize(
    ("family", "x", "engine"),
    [
        ("ward", np.argwhere(np.ones((6, 8))), "windowed"),
        ("ward", np.argwhere(np.ones((6, 8))), "matrix"),
        ("ward", np.argwhere(np.ones((6, 8))), "recompute"),
        ("ward", np.stack([np.arange(M), np.zeros(M)], axis=1), "windowed"),
        ("ward", np.stack([np.arange(M), np.zeros(M)], axis=1), "matrix"),
        ("poisson", _whole(9), "windowed"),
        ("poisson", _whole(9), "matrix"),
        ("bernoulli", _whole(2), "windowed"),
        ("gaussian", _whole(5), "windowed"),
    ],
)
def test_ties_may_be_broken_in_any_way(family, x, engine):
    problem = Problem(x, family=family)
    found = certify(problem, agglomerate(problem, engine=engine))
    assert found.relative <= 1e-10
    assert found.holds(1e-10)


def test_a_sample_of_nodes(rng):
    problem = Problem(rng.gamma(2.0, size=(M, 2)), family="poisson")
    children = random_tree(rng, M).children
    whole = certify(problem, children)
    parts = [certify(problem, children, sample=7, key=s) for s in range(60)]
    assert all(part.excess <= whole.excess for part in parts)
    assert max(part.excess for part in parts) == whole.excess
    assert len({part.excess for part in parts}) > 5
    assert all(7 <= part.num_pairs < whole.num_pairs for part in parts)
    mean = np.mean([part.num_pairs for part in parts])
    assert abs(mean / whole.num_pairs - 7 / (2 * M - 2)) < 0.05
    assert certify(problem, children, sample=7, key=3) == parts[3]
    assert certify(problem, children, sample=10 * M) == whole


def test_the_costs_of_a_tree_are_checked_by_their_sum(rng):
    x = rng.gamma(2.0, size=(M, 2))
    weights = rng.uniform(1, 5, M)
    problem = Problem(x, family="exponential", weights=weights)
    tree = agglomerate(problem)
    found = certify(problem, tree)
    np.testing.assert_allclose(found.cost_of_all, cluster_cost(problem), rtol=1e-12)
    np.testing.assert_allclose(found.sum_of_costs, tree.merge_costs.sum(), rtol=1e-15)
    assert found.holds(1e-12)
    false = Dendrogram(tree.children, tree.merge_costs * (1 + 1e-6), weights)
    found = certify(problem, false)
    np.testing.assert_allclose(found.sum_error, 1e-6, rtol=1e-6)
    assert not found.holds()
    assert found.excess == 0


def test_few_points_and_equal_ones():
    one = certify(Problem([[2.0]], family="poisson"), np.zeros((0, 2), int))
    assert (one.excess, one.num_pairs, one.cost_of_all) == (0, 0, 0)
    assert one.holds(0)
    two = certify(Problem([[2.0], [3.0]], family="poisson"), [[0, 1]])
    assert (two.excess, two.num_pairs) == (0, 1)
    equal = certify(Problem(np.ones((4, 2)), family="ward"), [[0, 1], [2, 3], [4, 5]])
    assert (equal.excess, equal.relative, equal.sum_error) == (0, 0, 0)
    assert equal.holds(0)
    late = certify(Problem([[0.0], [0.0], [1.0]], family="ward"), [[0, 2], [1, 3]])
    assert (late.excess, late.pair) == (0.25, (0, 1))


def test_chunks_of_steps_leave_no_pair_out(rng):
    """More steps than one chunk; one wrong merge late and one early are both found."""
    problem = Problem(rng.normal(size=(700, 2)), family="ward")
    tree = agglomerate(problem)
    assert certify(problem, tree).holds(1e-12)
    for step in (3, 300, 600):
        children = tree.children.copy()
        swapped = children[[step + 1, step]]
        if 700 + step in swapped:
            continue
        renamed = {700 + step: 701 + step, 701 + step: 700 + step}
        children[[step, step + 1]] = swapped
        later = children[step + 2 :]
        children[step + 2 :] = np.vectorize(lambda n, r=renamed: r.get(n, n))(later)
        found = certify(problem, children)
        gap = tree.merge_costs[step + 1] - tree.merge_costs[step]
        np.testing.assert_allclose(found.excess, gap, rtol=1e-6)


def test_errors(rng):
    problem = Problem(rng.normal(size=(4, 2)), family="ward")
    children = np.array([[0, 1], [2, 3], [4, 5]])
    with pytest.raises(ValueError, match=r"3 merges for the 4 rows.*\(2, 2\)"):
        certify(problem, children[:2])
    with pytest.raises(ValueError, match="`tree` must hold the merges.*row 1 merges"):
        certify(problem, [[0, 1], [1, 2], [4, 5]])
    with pytest.raises(ValueError, match="`sample` must be positive.*got 0"):
        certify(problem, children, sample=0)
    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(lambda p: certify(p, children).excess)(problem)
    with pytest.raises(ValueError, match="smoothing|adding"):
        certify(Problem(np.zeros((4, 2)), family="exponential"), children)


def test_range_maxima(rng):
    values = rng.permutation(37)
    begin, end = (grid.ravel() for grid in np.mgrid[0:38, 0:38])
    expected = [
        values[b:e].max() if b < e else -1 for b, e in zip(begin, end, strict=True)
    ]
    np.testing.assert_array_equal(RangeMax(values)(begin, end), expected)


def _rows(family, rng, m):
    x = rng.normal(size=(m, 4)) + 3 * rng.normal(size=(20, 4))[rng.integers(0, 20, m)]
    counts = ("poisson", "negative_binomial", "geometric", "multinomial")
    if family in (*counts, "exponential", "gamma", "inverse_gaussian"):
        return np.exp(x / 2)
    if family == "von_mises_fisher":
        return x / np.linalg.norm(x, axis=1, keepdims=True)
    if family == "bernoulli":
        return 1 / (1 + np.exp(-x))
    return (x > 0).astype(float) if family in ("ising", "categorical") else x


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", sorted(set(FAMILIES) - {"ising", "beta", "dirichlet"})
)
def test_many_points(family, rng):
    """`benchmarks/certificates.py` has larger ones."""
    m = 1500
    problem = Problem(_rows(family, rng, m), family=family)
    found = certify(problem, agglomerate(problem, engine="windowed"))
    assert found.num_pairs == (m - 1) ** 2
    assert found.relative <= 1e-9
    assert found.sum_error <= 1e-10


@pytest.mark.slow
def test_very_many_points(rng):
    problem = Problem(_rows("ward", rng, 10_000), family="ward")
    found = certify(problem, agglomerate(problem))
    assert found.num_pairs == 9_999**2
    assert found.relative <= 1e-9
    assert found.sum_error <= 1e-11

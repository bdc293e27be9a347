"""What the windowed engine is made of: bounds in groups, work ahead on threads."""

import threading
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hostile_cases import greedy as one_at_a_time
from hostile_cases import leaves_of

from bregjax import Problem
from bregjax._pytree import register_pytree
from bregjax.clusters import BregmanModel, CostScreen
from bregjax.convex import NegativeEntropy, SquaredNorm
from bregjax.families import Gaussian
from bregjax.hierarchy import agglomerate, certify
from bregjax.hierarchy._engine_windowed import windowed
from bregjax.hierarchy._windowed.neighbours.nearest import Nearest, push_least
from bregjax.hierarchy._windowed.neighbours.neighbours import Neighbours
from bregjax.hierarchy._windowed.store.prefetch import Prefetch
from bregjax.hierarchy._windowed.store.query import Pairs
from bregjax.hierarchy._windowed.store.store import Store
from bregjax.hierarchy._windowed.store.two_least import as_limit, two_least
from bregjax.smoothing import blur


@pytest.mark.parametrize("axis", [0, 1])
def test_the_two_least_tell_their_places(axis, dtype, rng):
    low = rng.gamma(0.1, size=(16, 16, 8)).astype(dtype)
    low[rng.random(low.shape) < 0.3] = np.inf
    low[0] = 0
    low[:, 0] = 0
    info = np.finfo(dtype)
    found = np.asarray(two_least(jnp.asarray(low), axis))
    expected = np.sort(low, axis)
    for level, least in enumerate(np.moveaxis(expected, axis, 0)[:2]):
        assert np.all(found[level] <= np.maximum(least, info.tiny))
        assert np.all(found[level] >= least * (1 - 40 * info.eps))
        place = found[level].view(np.uint32 if dtype == np.float32 else np.uint64) % 16
        there = np.take_along_axis(low, np.expand_dims(place.astype(int), axis), axis)
        finite = least < np.inf
        ties = np.squeeze(there, axis)[finite]
        np.testing.assert_allclose(ties, least[finite], rtol=40 * info.eps)
        assert np.all(found[level][~finite] == np.inf)


def test_alone_in_its_group(dtype):
    least, second = two_least(jnp.asarray([[[3.0], [0.0]]], dtype), 2)
    np.testing.assert_array_equal(least, [[3, 0]])
    assert np.all(np.isinf(second))


def test_limits_are_never_lower(dtype, rng):
    costs = np.append(10.0 ** rng.uniform(-50, 50, 200), [0.0, 1e-320, np.inf])
    limit = as_limit(costs, np.dtype(dtype))
    assert limit.dtype == dtype
    assert np.all(limit.astype(float) >= costs)
    assert np.all(limit > 0)  # a bound of 0 has its place in its last bits
    assert as_limit(np.array([-np.inf]), np.dtype(dtype)) == -np.inf


@pytest.mark.parametrize("family", ["ward", "poisson", "diagonal_gaussian"])
@pytest.mark.parametrize("count", [3, 40, 200])
def test_pairs_within_a_limit(family, count, x64, rng):
    """All that cost as much or less are there, and few others."""
    m = 200
    x = rng.poisson(4, (m, 5)).astype(float)
    model, leaves = leaves_of(x, family)
    store = Store(model, model.screen(leaves), leaves, m)
    alive = (np.arange(store.capacity) < m) & (rng.random(store.capacity) < 0.8)
    rows = rng.permutation(m)[:count]
    (block,) = store.screened([(rows, alive)])
    column = np.flatnonzero(alive)
    row, other = (v.ravel() for v in np.meshgrid(rows, column, indexing="ij"))
    cost = store.costs(row, other).reshape(count, -1)
    cost[rows[:, None] == column] = np.inf
    by_row = np.quantile(cost, 0.05, axis=1)
    place, slot = block.pairs_within(by_row)
    found = set(zip(place, slot, strict=True))
    assert len(found) == len(place)
    assert np.all(alive[slot])
    assert np.all(slot != rows[place])
    near = np.argwhere(cost <= by_row[:, None])
    assert {(i, column[j]) for i, j in near} <= found
    assert len(found) <= 8 * len(near) + 16 * count
    by_slot = np.full(store.capacity, -np.inf)
    by_slot[column] = np.quantile(cost, 0.1, axis=0)
    place, slot = block.pairs_within_columns(by_slot)
    assert len(slot) == len(set(zip(slot, place, strict=True)))
    found = set(zip(slot, place, strict=True))
    near = np.argwhere(cost <= by_slot[column])
    assert {(column[j], i) for i, j in near} <= found


def test_work_ahead_comes_in_order_with_the_caller_s_settings(x64):
    threads = set()

    def work(n):
        threads.add(threading.get_ident())
        return jnp.full(3, 1 / 3) * n, n

    ahead = Prefetch(threaded=True)
    for count in (1, 2, 20):
        for k, (values, n) in enumerate(ahead.map(work, iter(range(count)))):
            assert n == k
            assert values.dtype == np.float64
    assert len(threads) > 1
    with jax.enable_x64(False):
        kinds = {values.dtype for values, _ in ahead.map(work, range(9))}
    assert kinds == {np.dtype(np.float32)}
    plain = Prefetch(threaded=False)
    assert [n for _, n in plain.map(work, range(5))] == [0, 1, 2, 3, 4]


def test_what_fails_ahead_is_raised():
    def work(n):
        if n == 7:
            raise KeyError(n)
        return n

    ahead = Prefetch(threaded=True)
    got = []
    with pytest.raises(KeyError):
        got.extend(ahead.map(work, range(20)))
    assert got == list(range(7))


@register_pytree
@dataclass(frozen=True)
class Loose(CostScreen):
    """Bounds far below costs, by pair as good as random; some unknown."""

    unknown: float = jax.tree.static(default=0.0)

    @property
    def group(self) -> int:
        return 4

    def against(self, rows):
        cost = super().against(rows)

        def bound(columns):
            share = rows.weight[:, None] * 7919 + columns.weight[None] * 7919
            return cost(columns) * (share % 1)

        return bound

    def closer(self, a, b):
        share = (a.weight + b.weight) * 104729 % 1
        return jnp.where(
            share < self.unknown, jnp.nan, self.model.merge_cost(a, b) * share
        )


@register_pytree
@dataclass(frozen=True)
class LooselyScreened(BregmanModel):
    """A model with such bounds."""

    unknown: float = jax.tree.static(default=0.0)

    @property
    def reducible(self):
        return False

    def screen(self, leaves):
        return Loose(self, self.unknown)


@pytest.mark.parametrize("unknown", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("function", [SquaredNorm(), NegativeEntropy()])
def test_loose_bounds_of_single_pairs_hide_none(function, unknown, x64, rng):
    """Costs above what bounds led to expect bring more pairs within reach."""
    m = 48
    model = LooselyScreened(function, unknown)
    for _ in range(3):
        x = rng.gamma(1.0, size=(m, 2))
        leaves = model.leaves(jnp.asarray(x), jnp.asarray(rng.uniform(0.5, 2, m)))
        children, _, _ = windowed(model, leaves, m)
        expected, _ = one_at_a_time(BregmanModel(function), leaves, m)
        np.testing.assert_array_equal(children, expected)


def test_where_costs_cannot_be_had_it_ends(x64, rng):
    """Covariances lost next to distances of 1e9: every bound is NaN."""
    x = 1e9 * rng.normal(size=(48, 10))
    family = Gaussian(roots=False)
    with pytest.raises(ArithmeticError, match="could not be computed"):
        agglomerate(x, family=family, smoothing=blur(1.0), engine="windowed")
    # Weights next to nothing: bounds neither.
    x = rng.poisson(5.0, (40, 3)) + rng.random((40, 3))
    for scale in (1e-44, 1e38):
        weights = np.full(40, scale)
        tree = agglomerate(x, family="poisson", weights=weights, engine="windowed")
        plain = agglomerate(x, family="poisson", engine="windowed")
        np.testing.assert_array_equal(tree.children, plain.children)
    # A factor overflows in float32, the bound need not.
    x = 1e20 * (1 + 1e-4 * rng.normal(size=(40, 3)))
    problem = Problem(x, family="poisson", weights=np.full(40, 1e20))
    tree = agglomerate(problem, engine="windowed")
    found = certify(problem, tree, sample=80)
    assert found.relative < 1e-6


def test_only_one_other(x64):
    """One group holds all that is there: it is found once."""
    model = BregmanModel(SquaredNorm())
    x = jnp.asarray([[0.0], [1.0], [5.0]])
    leaves = model.leaves(x, jnp.ones(3))
    clusters = Neighbours.of(Store(model, model.screen(leaves), leaves, 3))
    clusters.search()
    np.testing.assert_array_equal(clusters.near.slot[:2, :3], [[1, 0, 1], [2, 2, 0]])
    np.testing.assert_allclose(
        clusters.near.bound[:2, :3], [[0.25, 0.25, 4], [6.25, 4, 6.25]]
    )


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_nearest_through_births_and_deaths(depth, rng):
    """Ties included; what is named is the nearest, what isn't is no nearer."""
    size, start = 60, 12
    cost = rng.integers(1, 20, (size, size)).astype(float)
    cost = np.minimum(cost, cost.T)
    key = rng.integers(0, 2**32, size, dtype=np.uint32)
    near = Nearest.unknown(size, depth)
    alive = np.arange(size) < start

    def pairs(rows):
        first, second = (v.ravel() for v in np.meshgrid(rows, np.flatnonzero(alive)))
        first, second = first[first != second], second[first != second]
        return Pairs(first, second, cost[first, second])

    near.replace(np.arange(start), pairs(np.arange(start)), key)
    lost = 0
    for new in range(start, size):
        alive[rng.choice(np.flatnonzero(alive), 1)] = False
        near.forget_dead(alive)
        others = np.flatnonzero(alive)
        near.insert(Pairs(others, np.full(len(others), new), cost[others, new]), key)
        alive[new] = True
        near.replace(np.array([new]), pairs(np.array([new])), key)
        for row in np.flatnonzero(alive):
            there = np.sort(cost[row, alive & (np.arange(size) != row)])
            count = np.count_nonzero(near.exact[:, row])
            assert np.all(near.exact[:count, row])
            np.testing.assert_array_equal(near.bound[:count, row], there[:count])
            named = near.slot[:count, row]
            assert np.all(alive[named])
            np.testing.assert_array_equal(cost[row, named], there[:count])
            assert near.bound[-1, row] <= there[count]
            lost += count < depth
    assert lost > 0


def test_the_least_of_each_place(rng):
    least = np.full((3, 5), np.inf)
    seen: list[list[float]] = [[] for _ in range(5)]
    for count in (0, 1, 40, 7):
        place, costs = rng.integers(0, 4, count), rng.integers(0, 9, count) * 1.0
        push_least(least, place, costs)
        for at, value in zip(place, costs, strict=True):
            seen[at].append(value)
        expected = [(sorted(values) + 3 * [np.inf])[:3] for values in seen]
        np.testing.assert_array_equal(least, np.transpose(expected))

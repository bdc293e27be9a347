"""What the windowed engine is made of: bounds in groups, work ahead on threads."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hostile_cases import leaves_of

from bregjax.hierarchy._windowed import kernels
from bregjax.hierarchy._windowed.ahead import Ahead
from bregjax.hierarchy._windowed.bounds import as_limit
from bregjax.hierarchy._windowed.pool import Pool


@pytest.mark.parametrize("axis", [0, 1])
def test_the_two_least_tell_their_places(axis, dtype, rng):
    low = rng.gamma(0.1, size=(16, 16, 8)).astype(dtype)
    low[rng.random(low.shape) < 0.3] = np.inf
    low[0] = 0
    low[:, 0] = 0
    info = np.finfo(dtype)
    found = np.asarray(kernels.two_least(jnp.asarray(low), axis))
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
    least, second = kernels.two_least(jnp.asarray([[[3.0], [0.0]]], dtype), 2)
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
    pool = Pool(model, model.screen(leaves), leaves, m)
    alive = (np.arange(pool.capacity) < m) & (rng.random(pool.capacity) < 0.8)
    rows = rng.permutation(m)[:count]
    bounds = pool.bounds(rows, alive)
    column = np.flatnonzero(alive)
    row, other = (v.ravel() for v in np.meshgrid(rows, column, indexing="ij"))
    cost = pool.costs(row, other).reshape(count, -1)
    cost[rows[:, None] == column] = np.inf
    by_row = np.quantile(cost, 0.05, axis=1)
    place, slot = bounds.pairs_by_row(by_row)
    found = {pair for pair in zip(place, slot, strict=True) if alive[pair[1]]}
    near = np.argwhere(cost <= by_row[:, None])
    assert {(i, column[j]) for i, j in near} <= found
    assert len(found) <= 8 * len(near) + 16 * count
    by_slot = np.full(pool.capacity, -np.inf)
    by_slot[column] = np.quantile(cost, 0.1, axis=0)
    slot, place = bounds.pairs_by_column(by_slot)
    assert len(slot) == len(set(zip(slot, place, strict=True)))
    found = {pair for pair in zip(slot, place, strict=True) if pair[1] < count}
    near = np.argwhere(cost <= by_slot[column])
    assert {(column[j], i) for i, j in near} <= found


def test_work_ahead_comes_in_order_with_the_caller_s_settings(x64):
    threads = set()

    def work(n):
        threads.add(threading.get_ident())
        return jnp.full(3, 1 / 3) * n, n

    ahead = Ahead(threaded=True)
    for count in (1, 2, 20):
        for k, (values, n) in enumerate(ahead.map(work, iter(range(count)))):
            assert n == k
            assert values.dtype == np.float64
    assert len(threads) > 1
    with jax.enable_x64(False):
        kinds = {values.dtype for values, _ in ahead.map(work, range(9))}
    assert kinds == {np.dtype(np.float32)}
    plain = Ahead(threaded=False)
    assert [n for _, n in plain.map(work, range(5))] == [0, 1, 2, 3, 4]


def test_what_fails_ahead_is_raised():
    def work(n):
        if n == 7:
            raise KeyError(n)
        return n

    ahead = Ahead(threaded=True)
    got = []
    with pytest.raises(KeyError):
        got.extend(ahead.map(work, range(20)))
    assert got == list(range(7))

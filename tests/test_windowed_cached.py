"""The clusters that are left go to the matrix engine where windows fail."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hostile_cases import greedy as one_at_a_time
from hostile_cases import leaves_of

from bregjax import Problem
from bregjax.clusters import Moments, VarianceModel
from bregjax.clusters._host_clusters import HostClusters
from bregjax.hierarchy import _host_costs, agglomerate, certify
from bregjax.hierarchy._engine_windowed import windowed
from bregjax.hierarchy._searches import drowned
from bregjax.hierarchy._windowed.fallbacks import cached
from bregjax.hierarchy._windowed.neighbours.neighbours import Neighbours
from bregjax.hierarchy._windowed.store import kernels
from bregjax.hierarchy._windowed.store.placement import Placement
from bregjax.hierarchy._windowed.store.store import Store
from bregjax.hierarchy._windowed.windows import pace
from bregjax.smoothing import blur, normal_reference

M = 48


@pytest.fixture
def impatient(monkeypatch):
    """Hand over after the first window of programs that is undone."""
    monkeypatch.setattr(_host_costs, "_quick_host", lambda *_: None)
    monkeypatch.setattr(pace, "_IN_VAIN", 0)
    monkeypatch.setattr(pace, "_OF_OTHERS", 0)


def store_of(model, leaves, m, **options):
    return Store(model, kernels.screen(model, leaves), leaves, m, **options)


def far_out(rng, m):
    """Narrow clusters, and a few rows far out."""
    x = rng.normal(size=(m, 6)) * np.exp(rng.normal(size=(m, 1)))
    x[: m // 8] *= 1e3
    return x, blur(1e-4 * normal_reference(x, per_coordinate=True).bandwidth)


def test_the_tree_is_greedy_s(x64, impatient):
    """Gaussians of any weight and width, of which windows fail in one run of three."""
    by_matrix = inversions = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        variance = jnp.asarray(np.exp(2 * rng.normal(size=(M, 4)) - 2))
        mean = jnp.asarray(3 * rng.normal(size=(M, 4)))
        model, moments = (
            VarianceModel("diagonal"),
            Moments(mean, variance, "diagonal"),
        )
        weights = jnp.asarray(rng.integers(1, 30, M).astype(float))
        leaves = model.leaves(moments, weights)
        children, costs, info = windowed(model, leaves, M)
        expected, heights = one_at_a_time(model, leaves, M)
        np.testing.assert_array_equal(children, expected)
        np.testing.assert_allclose(costs, heights, rtol=1e-9)
        by_matrix += info.by_matrix
        inversions += np.count_nonzero(np.diff(costs) < 0)
    assert by_matrix >= M
    assert inversions >= 10


def test_handed_over_with_ties_it_passes_the_certificate(rng, impatient):
    x = rng.integers(0, 4, size=(120, 6)) * (rng.random((120, 6)) < 0.5)
    narrow = blur(np.full(6, 1e-3))
    problem = Problem(x, family="diagonal_gaussian", smoothing=narrow)
    tree, info = agglomerate(problem, engine="windowed", return_info=True)
    assert info.windowed is not None
    assert info.windowed.by_matrix > 0
    assert certify(problem, tree).holds(1e-10)
    again = agglomerate(problem, engine="windowed")
    np.testing.assert_array_equal(tree.children, again.children)


def test_what_does_not_fit_is_merged_one_at_a_time(rng, monkeypatch, impatient):
    x, smoothing = far_out(rng, 150)
    options = {"family": "diagonal_gaussian", "smoothing": smoothing}
    expected = agglomerate(x, engine="matrix", **options)
    for fits in (True, False):
        monkeypatch.setattr(cached, "fits", lambda *_, fits=fits: fits)
        tree, info = agglomerate(x, engine="windowed", return_info=True, **options)
        assert info.windowed is not None
        assert (info.windowed.by_matrix > 0) == fits
        np.testing.assert_allclose(tree.merge_costs, expected.merge_costs, rtol=1e-9)


def test_costs_that_drown_are_not_handed_over(rng, x64):
    x = rng.normal(size=(M, 2))
    model, leaves = leaves_of(x, "diagonal_gaussian", smoothing=blur(np.full(2, 1e3)))
    store, slots = store_of(model, leaves, M), np.arange(M)
    assert not cached.serves(store, slots, 1e-13)
    assert cached.serves(store, slots, 1e-3)
    assert cached.merge_cached(store, slots) is not None
    x[:] = 1e-6 * x
    model, leaves = leaves_of(x, "diagonal_gaussian", smoothing=blur(np.full(2, 1e3)))
    assert cached.merge_cached(store_of(model, leaves, M), slots) is None
    assert drowned(np.array([1e-13, 2e-13]), 1e-15)
    assert not drowned(np.array([0, 2e-13, 1]), 1e-15)


def test_neither_several_devices_nor_solved_costs_are_handed_over(rng, x64):
    model, leaves = leaves_of(rng.normal(size=(M, 2)), "diagonal_gaussian")
    slots = np.arange(M)
    mesh = jax.make_mesh((1,), ("rows",))
    assert not cached.serves(
        store_of(model, leaves, M, placement=Placement(mesh)), slots, 1.0
    )
    store = store_of(model, leaves, M)
    assert cached.serves(store, slots, 1.0)
    store.by_numpy = HostClusters(cast(Any, None), None)
    assert not cached.serves(store, slots, 1.0)


def test_few_programs_are_compiled(rng, x64):
    model, leaves = leaves_of(rng.normal(size=(96, 2)), "ward")
    store = store_of(model, leaves, 96)
    sizes = [cached._size_class(store, count) for count in range(2, 97)]
    assert np.all(np.diff(sizes) >= 0)
    assert all(size >= count for size, count in zip(sizes, range(2, 97), strict=True))
    assert len({size for size in sizes if size >= 12}) == 7
    assert sizes[-1] == 96
    assert sizes[40 - 2] == 48


def test_a_loose_bound_does_not_leave_all_pairs_of_a_row_open(rng, x64, monkeypatch):
    """Of 206 pairs a row, before the next groups were asked first, 17 are left."""
    m = 600
    x = np.exp(2 * rng.normal(size=(m, 20))) * (rng.random((m, 20)) < 0.3)
    x[:20] *= 1e2  # far out: half the digits say little of these
    smoothing = blur(np.full(20, 1e-3))
    store = store_of(*leaves_of(x, "diagonal_gaussian", smoothing=smoothing), m)
    evaluated = 0
    costs = Store._costs

    def counted(self, first, second):
        nonlocal evaluated
        evaluated += len(first)
        return costs(self, first, second)

    monkeypatch.setattr(Store, "_costs", counted)
    Neighbours.of(store).search()
    assert evaluated < 60 * m
    assert store.screen_dtype == np.float32

"""Costs that invert by the hundred: the windowed engine merges one at a time then."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from hostile_cases import HOSTILE, ORDINARY, leaves_of
from hostile_cases import greedy as one_at_a_time

from bregjax import Problem
from bregjax.clusters import BregmanModel, Screen
from bregjax.clusters._screens.kernels import in_range, log_of_product
from bregjax.convex import NegativeEntropy
from bregjax.extend import register_pytree
from bregjax.hierarchy import _host_costs, agglomerate, certify
from bregjax.hierarchy._engine_windowed import _Run
from bregjax.hierarchy._windowed.fallbacks.lists import (
    Lists,
    of_costs,
    revalued,
    with_pairs,
    without,
    without_names,
)
from bregjax.hierarchy._windowed.fallbacks.one_by_one import merge_singly
from bregjax.hierarchy._windowed.neighbours.neighbours import Neighbours
from bregjax.hierarchy._windowed.store import kernels
from bregjax.hierarchy._windowed.store.store import Store
from bregjax.smoothing import normal_reference
from bregjax.smoothing._maps import Blur

M = 48
SMALL = ["diagonal_gaussian", "poisson", "exponential", "bernoulli"]


def near_constant(rng, m, levels=4):
    """Columns that hardly vary, with few far rows, and others that do."""
    x = rng.normal(size=(m, 6)) * np.exp(rng.normal(size=(m, 1)))
    x[:, 0] = 9
    x[:, 1] = np.where(rng.random(m) < 0.05, rng.integers(1, levels, m) / 9, 0)
    x[:, 2] = np.exp(2 * rng.normal(size=m)) * (rng.random(m) < 0.8)
    return x


def narrow(x, factor):
    return Blur(normal_reference(x, per_coordinate=True).bandwidth * factor)


def all_singly(model, leaves, m):
    """Children and costs of all merges, made by the compiled program alone."""
    store = Store(model, kernels.screen(model, leaves), leaves, m)
    run = _Run(store, m)
    run.clusters.search()
    run._merge_compiled(m - 1)
    return run


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("cases", [ORDINARY, HOSTILE], ids=["ordinary", "hostile"])
def test_merges_in_one_program_are_greedy_s(name, cases, rng, x64):
    for _ in range(3):
        x = cases[name].rows(rng, M)
        leaves = leaves_of(x, name, weights=rng.uniform(0.2, 5, M))
        run = all_singly(*leaves, M)
        children, costs = one_at_a_time(*leaves, M)
        np.testing.assert_array_equal(run.children, children)
        np.testing.assert_allclose(run.costs, costs, rtol=1e-9)
        assert run.info.single_steps == M - 1


@register_pytree
@dataclasses.dataclass(frozen=True)
class Silent(Screen):
    """Bounds that say nothing."""

    def features(self, state, dtype):
        return state.weight.astype(dtype)

    def against(self, rows):
        return lambda columns: jnp.full((len(rows), len(columns)), jnp.nan, rows.dtype)


def test_a_screen_that_says_nothing_hides_no_pair(rng, x64):
    """All pairs of a row are evaluated then, more than the least bounds' batches."""
    m = 400
    x = rng.gamma(1.0, size=(m, 2))
    model = BregmanModel(NegativeEntropy())
    leaves = model.leaves(jnp.asarray(x), jnp.ones(m))
    expected, _ = one_at_a_time(model, leaves, m)
    store = Store(model, Silent(), leaves, m)
    run = _Run(store, m)
    run.clusters.search()
    run._merge_compiled(m - 1)
    np.testing.assert_array_equal(run.children, expected)


def test_what_is_known_afterwards_holds(rng, x64):
    """Named where exact, and no other costs less than the last bound."""
    m = 120
    x = near_constant(rng, m)
    model, leaves = leaves_of(x, "diagonal_gaussian", smoothing=narrow(x, 1e-2))
    store = Store(model, model.screen(leaves), leaves, m)
    clusters = Neighbours.of(store)
    clusters.search()
    for count in (1, 20, 40):
        merge_singly(clusters, count)
        near, active = clusters.near, clusters.active
        for row in active:
            others = active[active != row]
            cost = store.costs(np.full(len(others), row), others)
            exact = near.exact[:, row]
            assert np.all(exact[: np.count_nonzero(exact)])
            named = near.slot[exact, row]
            assert np.all(clusters.alive[named])
            place = np.searchsorted(others, named)
            np.testing.assert_allclose(near.bound[exact, row], cost[place], rtol=1e-12)
            rest = np.delete(cost, place)
            assert np.all(near.bound[-1, row] <= rest * (1 + 1e-12))


@pytest.mark.parametrize("factor", [1.0, 1e-2, 1e-3, 1e-5])
def test_work_is_linear_in_rows_whatever_the_bandwidth(factor, monkeypatch):
    """Rows searched, rounds and costs a merge: counted, not timed."""
    monkeypatch.setattr(_host_costs, "_quick_host", lambda *_: None)
    m = 300
    rng = np.random.default_rng(1)
    x = near_constant(rng, m)
    smoothing = narrow(x, factor)
    tree, info = agglomerate(
        x,
        family="diagonal_gaussian",
        smoothing=smoothing,
        engine="windowed",
        return_info=True,
    )
    expected = agglomerate(
        x, family="diagonal_gaussian", smoothing=smoothing, engine="matrix"
    )
    np.testing.assert_allclose(tree.merge_costs, expected.merge_costs, rtol=1e-7)
    if factor < 1e-2:
        assert tree.num_inversions() > 100
    done = info.windowed
    assert done is not None
    assert done.searches <= 8 * m
    assert done.rounds <= m // 2
    assert done.failed_checks + done.long_windows <= 12
    assert done.overflows == 0


def test_ties_pass_the_certificate_one_at_a_time(monkeypatch):
    def all_at_once(self, threshold):
        del threshold
        self._merge_compiled(self._left - 1)

    monkeypatch.setattr(_Run, "_merge_window", all_at_once)
    monkeypatch.setattr(_host_costs, "_quick_host", lambda *_: None)
    for family in ("poisson", "diagonal_gaussian"):
        x = 1 + np.random.default_rng(0).integers(0, 4, size=(M, 2))
        problem = Problem(x, family=family)
        tree, info = agglomerate(problem, engine="windowed", return_info=True)
        done = info.windowed
        assert done is not None
        assert done.single_steps == M - 1 - done.duplicates
        assert certify(problem, tree).holds(1e-10)
        again = agglomerate(problem, engine="windowed")
        np.testing.assert_array_equal(tree.children, again.children)


def test_in_single_precision_too(rng):
    x = ORDINARY["poisson"].rows(rng, M)
    model, leaves = leaves_of(x, "poisson")
    leaves = type(leaves)(*(jnp.asarray(v, jnp.float32) for v in vars(leaves).values()))
    run = all_singly(model, leaves, M)
    expected = agglomerate(x, family="poisson", engine="matrix").merge_costs
    np.testing.assert_allclose(np.sort(run.costs), np.sort(expected), rtol=1e-3)


def test_lists_with_pairs_known_by_bounds():
    """The example of `lists`: 3 and 5; a bound of 4; 3 goes; 4.2."""
    column = lambda *values: jnp.array(values)[:, None]
    yes = column(True, True)
    key = jnp.zeros(1, jnp.uint32), jnp.zeros((2, 1), jnp.uint32)
    lists = Lists(column(3.0, 5.0), column(7, 8), yes, yes)
    pair = jnp.array([4.0]), jnp.array([9]), jnp.array([False])
    lists = with_pairs(lists, pair, key)
    assert lists.bound[:, 0].tolist() == [3, 4]
    assert lists.slot[:, 0].tolist() == [7, 9]
    assert lists.exact[:, 0].tolist() == [True, False]
    assert without_names(lists)[2][:, 0].tolist() == [True, False]
    lists = without(lists, jnp.int32(7))
    assert lists.bound[:, 0].tolist() == [4, 4]
    assert lists.named[:, 0].tolist() == [True, False]
    one = Lists(*(values[:, 0] for values in lists))
    zeros = jnp.zeros(10, jnp.uint32)
    dearer = revalued(one, jnp.float32(4.2), zeros)
    assert dearer.bound.tolist() == [4, 4]
    assert not np.any(dearer.named)
    found = of_costs(zeros[:4], jnp.array([jnp.inf, 4.2, 6.0, 4.1]), 2)
    assert found.slot.tolist() == [3, 1]
    assert np.all(found.exact)


def test_logarithms_of_products_of_wide_factors(rng):
    """As variances of unions in units of a narrow bandwidth's, in float32."""
    factors = np.exp(rng.uniform(-40, 40, size=(21, 50))).astype(np.float32)
    factors[1::2] = np.maximum(factors[1::2], 1)
    factors[::2] = np.minimum(factors[::2], 1e18)
    terms = jnp.asarray(factors)
    found = log_of_product(lambda k: terms[k], 21, terms[0])
    exact = np.log(factors.astype(float))
    size = np.sum(np.abs(exact), axis=0)
    inside = np.isfinite(found)
    assert np.mean(inside) > 0.9
    error = np.abs(found - np.sum(exact, axis=0))[inside]
    assert np.all(error <= 16 * np.finfo(np.float32).eps * (21 + size[inside]))
    assert np.all(np.isnan(in_range(jnp.full((1, 8), 1e-25, jnp.float32))))
    assert np.all(in_range(jnp.full((1, 8), 1e-15, jnp.float32)) == 0)

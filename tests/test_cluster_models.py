"""Cluster models: the contract, the paper's definitions, and what is overridden."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cluster_states import (
    CLOSED,
    DENSE,
    NAMES,
    NUM_LEAVES,
    NUMERIC,
    balanced_states,
    computed,
    every_family,
    merge_cost,
    pair_cost,
    pair_cost_jit,
    pooled_states,
    sample,
    take,
    weighted,
)
from family_cases import (
    FAMILIES,
    flat,
    raw_means,
    smoothed_leaves,
)
from own_potentials import identity

from bregjax import Result
from bregjax.clusters import BregmanModel, MeanState, NaturalModel
from bregjax.families import (
    ExponentialFamily,
    Multinomial,
    Poisson,
)

COSTLY = ("diagonal_gaussian", "isotropic_gaussian", "multinomial")
cross_cost = jax.jit(lambda model, a, b: model.cross_cost(a, b))


@every_family
def test_merge_cost_is_symmetric_and_zero_between_equals(name):
    _, _, facts = computed(name, "float64")
    costs = facts["costs"]
    np.testing.assert_array_equal(facts["result"], Result.CONVERGED)
    np.testing.assert_array_equal(np.diagonal(costs), 0)
    np.testing.assert_allclose(costs, costs.T, rtol=1e-12)
    assert (costs[~np.eye(3, dtype=bool)] > 1e-4).all()


@pytest.mark.parametrize("name", [n for n in NAMES if n not in DENSE])
def test_cross_cost_is_the_merge_cost_to_rounding(name, x64):
    family, _, facts = computed(name, "float64")
    cross = cross_cost(family.cluster_model(), facts["three"], facts["three"])
    np.testing.assert_allclose(cross, facts["costs"], atol=1e-11)


@pytest.mark.parametrize("name", CLOSED)
def test_float32_costs_agree_with_float64(name):
    _, _, low = computed(name, "float32")
    _, _, high = computed(name, "float64")
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(low["costs"][off], high["costs"][off], rtol=2e-5)
    np.testing.assert_array_equal(np.diagonal(low["costs"]), 0)


@pytest.mark.parametrize("name", CLOSED)
def test_union_is_commutative_and_associative(name, x64):
    family, _, facts = computed(name, "float64")
    union = jax.jit(family.cluster_model().union)
    a, b = (take(facts["three"], [i]) for i in (0, 1))
    left, right = union(union(a, b), a), union(a, union(b, a))
    np.testing.assert_allclose(flat(left), flat(right), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        flat(union(a, b)), flat(union(b, a)), rtol=1e-13, atol=1e-13
    )


_conjugates = jax.jit(lambda family, means: jax.vmap(family.conjugate)(means))
PARTS = ([0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7])


@functools.cache
def _solved(name, *, smooth):
    """Means of rows, both clusters and their union `[8 + 3]`, and ψ* there."""
    family, x, weights = sample(name)
    statistics = smoothed_leaves(family, x) if smooth else family.leaf_statistics(x)
    means = jax.tree.map(jnp.asarray, raw_means(statistics))
    centers = [weighted(take(means, p), weights[np.array(p)]) for p in PARTS]
    join = lambda leaf, *others: jnp.concatenate([leaf, jnp.stack(others)])
    means = jax.tree.map(join, means, *centers)
    return means, _conjugates(family, means)


@every_family
def test_merge_cost_is_the_rise_of_the_cluster_cost(name, x64):
    """Definition 3.7, with φ(C) = Σ w B_ψ*(τ, τ(C)) from the conjugate alone."""
    _, weights, facts = computed(name, "float64")
    means, solution = _solved(name, smooth=True)
    means, natural = flat(means), flat(solution.maximiser)
    value = np.asarray(solution.value)
    costs = []
    for k, part in enumerate(PARTS):
        center = NUM_LEAVES + k
        gaps = (means[part] - means[center]) @ natural[center]
        costs.append(weights[part] @ (value[part] - value[center] - gaps))
    rise = costs[2] - costs[0] - costs[1]
    np.testing.assert_allclose(facts["costs"][0, 1], rise, rtol=1e-9)


LIKELIHOOD = [name for name in NAMES if name not in ("bernoulli", *DENSE)]


@pytest.mark.parametrize("name", LIKELIHOOD)
def test_merge_cost_is_the_log_likelihood_lost(name, x64):
    """Theorem 4.9 on unsmoothed rows, with SciPy's densities."""
    case = FAMILIES[name]
    family, x, weights = sample(name)
    model = family.cluster_model()
    states = pooled_states if name in NUMERIC else balanced_states
    clusters = states(model, family.leaf_statistics(x), weights)
    clusters = clusters if name in NUMERIC else clusters[1]
    cost = merge_cost(model, take(clusters, [0]), take(clusters, [1]))[0]
    means, solution = _solved(name, smooth=False)
    likelihoods = []
    for k, part in enumerate(PARTS):
        natural = jax.tree.map(lambda t, k=k: np.asarray(t[8 + k]), solution.maximiser)
        if name == "multinomial":
            # Rows are proportions: the expected log-probability of one trial.
            log_p = flat(means)[part] @ (natural - np.log(np.exp(natural).sum()))
        else:
            log_p = case.log_prob(x[part], natural)
        likelihoods.append(weights[part] @ log_p)
    lost = likelihoods[0] + likelihoods[1] - likelihoods[2]
    np.testing.assert_allclose(cost, lost, rtol=1e-9)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in COSTLY else ())
        for name in CLOSED
    ],
)
def test_closed_conjugates_are_what_psi_alone_gives(name, x64):
    case = FAMILIES[name]
    means, closed = _solved(name, smooth=True)
    assert case.plain is not None
    found = _conjugates(case.plain(), means)
    np.testing.assert_array_equal(found.result, closed.result)
    np.testing.assert_allclose(found.value, closed.value, rtol=1e-9, atol=1e-9)
    if not case.overcomplete:
        inside = np.asarray(closed.result) == Result.CONVERGED
        assert inside.sum() > 5
        natural = flat(closed.maximiser)[inside]
        found = flat(found.maximiser)[inside]
        np.testing.assert_allclose(found, natural, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", CLOSED)
def test_closed_cluster_models_are_what_psi_alone_gives(name, x64):
    family, weights, facts = computed(name, "float64")
    model = NaturalModel(family)
    means = raw_means(jax.tree.map(jnp.asarray, facts["statistics"]))
    three = pooled_states(model, means, weights)
    first, second = np.divmod(np.arange(9), 3)
    costs = merge_cost(model, take(three, first), take(three, second))
    costs = np.asarray(costs).reshape(3, 3)
    np.testing.assert_allclose(costs, facts["costs"], rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", ["gamma", "inverse_gaussian", "gaussian", "bernoulli"])
def test_merge_costs_broadcast_batch_and_compile(name, x64):
    family, _, facts = computed(name, "float64")
    model, states = family.cluster_model(), jax.tree.map(jnp.asarray, facts["three"])

    @jax.jit
    def tables(rows, columns):
        lift = lambda row: jax.tree.map(lambda leaf: leaf[None], row)
        mapped = jax.vmap(lambda row: model.merge_cost(lift(row), states))(states)
        return model.merge_cost(rows, columns), mapped

    rows, columns = (
        jax.tree.map(lambda leaf, axis=axis: jnp.expand_dims(leaf, axis), states)
        for axis in (1, 0)
    )
    for table in tables(rows, columns):
        np.testing.assert_allclose(table, facts["costs"], rtol=1e-12, atol=1e-15)


def test_coding_does_not_change_the_cost(x64):
    """Three categories by 3, by 2, and by 3 + 1 duplicated coordinates."""
    rows = jnp.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    expected = pair_cost(Multinomial(3).cluster_model(), rows)
    three, none = np.eye(3), np.zeros((1, 3))
    for coding in (
        np.concatenate([three, none]),
        np.concatenate([three[:2], none, none]),
        np.concatenate([three, three[:1]]),
    ):
        family = ExponentialFamily(_coded_psi, identity, np.zeros(4), params=coding)
        cost = pair_cost_jit(NaturalModel(family), rows @ coding.T, jnp.ones(2))
        np.testing.assert_allclose(cost, expected, rtol=1e-10)


def _coded_psi(theta, coding):
    """Three categories whose indicators are coded by the rows of a matrix."""
    return jax.scipy.special.logsumexp(theta @ coding)


def test_states_hold_means_and_weights(x64):
    state = MeanState(jnp.ones(1), jnp.ones((1, 2)))
    union = BregmanModel(Poisson(2).cluster_model().function).union(state, state)
    np.testing.assert_array_equal(union.weight, 2)
    np.testing.assert_array_equal(union.mean, 1)

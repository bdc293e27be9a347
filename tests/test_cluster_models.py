"""Cluster models: definitions, overrides, derivatives, hostile numbers."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import own_potentials
import pytest
from family_cases import (
    FAMILIES,
    flat,
    plain,
    raw_means,
    smoothed_leaves,
    truncated_poisson,
)
from own_potentials import identity

from bregjax._result import Result
from bregjax.clusters.bregman_model import BregmanModel, MeanState
from bregjax.clusters.moments import Moments
from bregjax.families import (
    DiagonalGaussian,
    Exponential,
    ExponentialFamily,
    Gamma,
    Gaussian,
    InverseGaussian,
    IsotropicGaussian,
    Multinomial,
    NaturalModel,
    Poisson,
    SphericalGaussian,
)
from bregjax.smoothing import blur

# Of the dense solvers, which take seconds to compile, one goes through the table.
NAMES = [n for n in FAMILIES if n not in ("truncated_poisson_dense", "categorical")]
CLOSED = [name for name in NAMES if FAMILIES[name].plain is not None]
NUMERIC = [name for name in NAMES if FAMILIES[name].plain is None]
# Each of these compiles a dense solver or two for what others show as well.
DENSE = ("ising", "beta", "dirichlet")
COSTLY = ("diagonal_gaussian", "isotropic_gaussian", "multinomial")
TABLE = [
    pytest.param(name, marks=pytest.mark.slow if name in DENSE else ())
    for name in NAMES
]
every_family = pytest.mark.parametrize("name", TABLE)
NUM_LEAVES = 8


@jax.jit
def _states(model, statistics, weights):
    """Two clusters of four leaves, each made by two balanced rounds of unions."""
    leaves = model.leaves(statistics, weights)
    at = lambda state, index: jax.tree.map(lambda leaf: leaf[np.array(index)], state)
    pairs = model.union(at(leaves, [0, 1, 4, 5]), at(leaves, [2, 3, 6, 7]))
    clusters = model.union(at(pairs, [0, 2]), at(pairs, [1, 3]))
    return leaves, clusters


@jax.jit
def _pooled_states(model, means, weights):
    """The same by the means, in one solve; leaf 0 comes third."""
    rows = [np.arange(4), np.arange(4, 8), np.arange(1)]
    parts = [_weighted(_take(means, row), weights[row]) for row in rows]
    totals = jnp.stack([weights[row].sum() for row in rows])
    return model.leaves(jax.tree.map(lambda *t: jnp.stack(t), *parts), totals)


_merge_cost = jax.jit(lambda model, a, b: model.merge_cost(a, b))
_cross_cost = jax.jit(lambda model, a, b: model.cross_cost(a, b))


def _take(state, index):
    return jax.tree.map(lambda leaf: leaf[np.array(index)], state)


def _sample(name):
    case, rng = FAMILIES[name], np.random.default_rng(11)
    family = case.make()
    x = case.data(rng, NUM_LEAVES)
    weights = rng.uniform(0.5, 2, NUM_LEAVES)
    return family, x, weights


@functools.cache
def _computed(name, precision):
    """Clusters a, b of smoothed rows and leaf 0, their costs, and the statistics."""
    family, x, weights = _sample(name)
    x, weights = x.astype(precision), weights.astype(precision)
    with jax.enable_x64(precision == "float64"):
        model = family.cluster_model()
        statistics = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, precision), smoothed_leaves(family, x)
        )
        if name in NUMERIC:
            three = _pooled_states(model, statistics, weights)
        else:
            leaves, clusters = _states(model, statistics, weights)
            join = lambda c, leaf: jnp.concatenate([c, leaf[:1]])
            three = jax.tree.map(join, clusters, leaves)
        first, second = np.divmod(np.arange(9), 3)
        costs = _merge_cost(model, _take(three, first), _take(three, second))
        assert costs.dtype == precision
        facts = {
            "costs": costs.reshape(3, 3),
            "result": model.result(three),
            "three": three,
            "statistics": statistics,
        }
        return family, weights, jax.tree.map(np.asarray, facts)


# --- The contract of ClusterModel ----------------------------------------------------


@every_family
def test_merge_cost_is_symmetric_and_zero_between_equals(name):
    _, _, facts = _computed(name, "float64")
    costs = facts["costs"]
    np.testing.assert_array_equal(facts["result"], Result.CONVERGED)
    np.testing.assert_array_equal(np.diagonal(costs), 0)
    np.testing.assert_allclose(costs, costs.T, rtol=1e-12)
    assert (costs[~np.eye(3, dtype=bool)] > 1e-4).all()


@pytest.mark.parametrize("name", [n for n in NAMES if n not in DENSE])
def test_cross_cost_is_the_merge_cost_to_rounding(name, x64):
    family, _, facts = _computed(name, "float64")
    cross = _cross_cost(family.cluster_model(), facts["three"], facts["three"])
    np.testing.assert_allclose(cross, facts["costs"], atol=1e-11)


@pytest.mark.parametrize("name", CLOSED)
def test_float32_costs_agree_with_float64(name):
    _, _, low = _computed(name, "float32")
    _, _, high = _computed(name, "float64")
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(low["costs"][off], high["costs"][off], rtol=2e-5)
    np.testing.assert_array_equal(np.diagonal(low["costs"]), 0)


@pytest.mark.parametrize("name", CLOSED)
def test_union_is_commutative_and_associative(name, x64):
    family, _, facts = _computed(name, "float64")
    union = jax.jit(family.cluster_model().union)
    a, b = (_take(facts["three"], [i]) for i in (0, 1))
    left, right = union(union(a, b), a), union(a, union(b, a))
    np.testing.assert_allclose(flat(left), flat(right), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        flat(union(a, b)), flat(union(b, a)), rtol=1e-13, atol=1e-13
    )


# --- The paper's definitions ---------------------------------------------------------


def _weighted(tree, weights):
    share = weights / weights.sum()
    return jax.tree.map(lambda leaf: jnp.tensordot(share, leaf, 1), tree)


_conjugates = jax.jit(lambda family, means: jax.vmap(family.conjugate)(means))
PARTS = ([0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7])


@functools.cache
def _solved(name, *, smooth):
    """Means of rows, both clusters and their union `[8 + 3]`, and ψ* there."""
    family, x, weights = _sample(name)
    statistics = smoothed_leaves(family, x) if smooth else family.leaf_statistics(x)
    means = jax.tree.map(jnp.asarray, raw_means(statistics))
    centres = [_weighted(_take(means, p), weights[np.array(p)]) for p in PARTS]
    join = lambda leaf, *others: jnp.concatenate([leaf, jnp.stack(others)])
    means = jax.tree.map(join, means, *centres)
    return means, _conjugates(family, means)


@every_family
def test_merge_cost_is_the_rise_of_the_cluster_cost(name, x64):
    """Definition 3.7, with φ(C) = Σ w B_ψ*(τ, τ(C)) from the conjugate alone."""
    _, weights, facts = _computed(name, "float64")
    means, solution = _solved(name, smooth=True)
    means, natural = flat(means), flat(solution.maximiser)
    value = np.asarray(solution.value)
    costs = []
    for k, part in enumerate(PARTS):
        centre = NUM_LEAVES + k
        gaps = (means[part] - means[centre]) @ natural[centre]
        costs.append(weights[part] @ (value[part] - value[centre] - gaps))
    rise = costs[2] - costs[0] - costs[1]
    np.testing.assert_allclose(facts["costs"][0, 1], rise, rtol=1e-9)


LIKELIHOOD = [name for name in NAMES if name not in ("bernoulli", *DENSE)]


@pytest.mark.parametrize("name", LIKELIHOOD)
def test_merge_cost_is_the_log_likelihood_lost(name, x64):
    """Theorem 4.9 on unsmoothed rows, with SciPy's densities."""
    case = FAMILIES[name]
    family, x, weights = _sample(name)
    model = family.cluster_model()
    states = _pooled_states if name in NUMERIC else _states
    clusters = states(model, family.leaf_statistics(x), weights)
    clusters = clusters if name in NUMERIC else clusters[1]
    cost = _merge_cost(model, _take(clusters, [0]), _take(clusters, [1]))[0]
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


# --- Overrides -----------------------------------------------------------------------


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
    family, weights, facts = _computed(name, "float64")
    model = NaturalModel(family)
    means = raw_means(jax.tree.map(jnp.asarray, facts["statistics"]))
    three = _pooled_states(model, means, weights)
    first, second = np.divmod(np.arange(9), 3)
    costs = _merge_cost(model, _take(three, first), _take(three, second))
    costs = np.asarray(costs).reshape(3, 3)
    np.testing.assert_allclose(costs, facts["costs"], rtol=1e-9, atol=1e-13)


# --- Derivatives ---------------------------------------------------------------------


def _cost_of_rows(family, smoothing, x, weights):
    """Δ between the union of the first two rows and the union of the rest (two)."""
    statistics = family.leaf_statistics(x)
    if smoothing is not None:
        statistics, weights = smoothing(statistics, weights)
    model = family.cluster_model()
    leaves = model.leaves(statistics, weights)
    pairs = model.union(_take(leaves, [0, 2]), _take(leaves, [1, 3]))
    return model.merge_cost(_take(pairs, [0]), _take(pairs, [1]))[0]


_value_and_gradients = jax.jit(jax.value_and_grad(_cost_of_rows, argnums=(0, 1, 2, 3)))
DIFFERENTIATED = [n for n in NAMES if n not in ("truncated_poisson", *DENSE)]


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients_match_finite_differences(name, rng, x64):
    """By the data, the weights, the smoothing, and the family's own parameters."""
    case = FAMILIES[name]
    family, x = case.make(), case.data(rng, 4) + (0.5 if "poisson" in name else 0)
    smoothing = family.default_smoothing(x, None)
    if isinstance(family, (Gaussian, DiagonalGaussian, IsotropicGaussian)):
        smoothing = blur(np.array([0.4, 0.7]))
    weights = rng.uniform(0.5, 2, 4)
    arguments = (family, smoothing, x, weights)
    _, gradients = _value_and_gradients(*arguments)
    leaves, treedef = jax.tree.flatten(arguments)
    moved = [rng.normal(size=np.shape(leaf)) * 0.1 for leaf in leaves]
    step = 1e-4

    def shifted(share):
        values = [leaf + share * move for leaf, move in zip(leaves, moved, strict=True)]
        return float(_value_and_gradients(*jax.tree.unflatten(treedef, values))[0])

    slope = (8 * (shifted(step) - shifted(-step)) - shifted(2 * step)) / (12 * step)
    slope += shifted(-2 * step) / (12 * step)
    expected = sum(
        np.sum(np.asarray(g) * m)
        for g, m in zip(jax.tree.leaves(gradients), moved, strict=True)
    )
    np.testing.assert_allclose(expected, slope, rtol=2e-7, atol=1e-9)


def test_derivative_by_the_variance_of_ward(x64):
    """Δ = c / σ²."""
    x, weights = np.array([[0.0], [1.0], [5.0], [9.0]]), np.ones(4)
    cost = lambda v: _cost_of_rows(SphericalGaussian(v, dim=1), None, x, weights)
    value, slope = jax.jit(jax.value_and_grad(cost))(2.0)
    np.testing.assert_allclose(value, 6.5**2 / 4, rtol=1e-14)
    np.testing.assert_allclose(slope, -value / 2, rtol=1e-14)
    bend = jax.jit(jax.grad(jax.grad(cost)))(2.0)
    np.testing.assert_allclose(bend, value / 2, rtol=1e-14)


def _pair_cost(model, x, w=None):
    w = jnp.ones(2) if w is None else w
    leaves = model.leaves(x, w)
    return model.merge_cost(_take(leaves, [0]), _take(leaves, [1]))[0]


_pair_cost_jit = jax.jit(_pair_cost)
_pair_slopes = jax.jit(jax.value_and_grad(_pair_cost, argnums=(1, 2)))
PLAIN_POISSON = plain(Poisson(2))
ZEROS = [BregmanModel, NaturalModel]


@pytest.mark.parametrize("kind", ZEROS)
def test_gradients_at_zero_counts(kind, x64):
    """0 where both parts are 0, −inf where exactly one is, never NaN."""
    model = Poisson(2).cluster_model()
    if kind is NaturalModel:
        model = NaturalModel(PLAIN_POISSON)
    for first, second, slope in [
        ([0.0, 2.0], [0.0, 5.0], [0, np.log(2 / 3.5)]),
        ([0.0, 2.0], [6.0, 2.0], [-np.inf, 0]),
        ([6.0, 2.0], [0.0, 2.0], [np.log(2.0), 0]),
        ([0.0, 0.0], [0.0, 0.0], [0, 0]),
        ([4.0, 2.0], [4.0, 2.0], [0, 0]),
    ]:
        x = jnp.array([first, second])
        value, (by_x, by_w) = _pair_slopes(model, x, jnp.ones(2))
        assert np.isfinite(value)
        np.testing.assert_allclose(by_x[0], slope, rtol=1e-9, atol=1e-9)
        assert np.isfinite(np.asarray(by_w)).all()


def test_pseudo_count_keeps_gradients_finite(x64):
    """A count of 0 with a pseudo-count a on each: by hand."""
    model = Poisson(1).cluster_model()
    cost = lambda a: _pair_cost(model, jnp.array([[0.0], [6.0]]) + a)
    value, slope = jax.value_and_grad(cost)(0.5)
    np.testing.assert_allclose(value, 3.05079978, rtol=1e-8)
    np.testing.assert_allclose(slope, -1.32687094, rtol=1e-8)
    value, slope = jax.value_and_grad(cost)(0.0)
    np.testing.assert_allclose(value, 6 * np.log(2), rtol=1e-14)
    np.testing.assert_array_equal(slope, -np.inf)


@pytest.mark.parametrize(
    "name", ["multinomial", "gaussian", "gamma", "inverse_gaussian"]
)
def test_second_derivatives_match_differences_of_gradients(name, rng, x64):
    case = FAMILIES[name]
    family, x = case.make(), case.data(rng, 4)
    smoothing = family.default_smoothing(x, None)
    weights = np.ones(4)
    gradient = jax.jit(jax.grad(functools.partial(_cost_of_rows, family, smoothing)))
    move = rng.normal(size=x.shape)
    if name == "multinomial":
        move -= move.mean(axis=1, keepdims=True)
    along = jax.jvp(lambda x: gradient(x, weights), (x,), (move,))[1]
    step = 1e-5
    difference = gradient(x + step * move, weights) - gradient(x - step * move, weights)
    np.testing.assert_allclose(along, difference / (2 * step), rtol=1e-5, atol=1e-5)


def test_gradient_where_the_covariance_has_equal_eigenvalues(x64):
    """Four points (±1, ±1): the gradient of −(n/2) log det S at each is −x."""
    x = jnp.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    model = Gaussian(2).cluster_model()

    def value(x):
        statistics = Moments(x, jnp.zeros((4, 2, 2)))
        leaves = model.leaves(statistics, jnp.ones(4))
        whole = model.union(_take(leaves, [0]), _take(leaves, [1]))
        whole = model.union(whole, _take(leaves, [2]))
        whole = model.union(whole, _take(leaves, [3]))
        return -0.5 * whole.weight[0] * whole.log_det[0]

    np.testing.assert_allclose(jax.jit(jax.grad(value))(x), -x, rtol=1e-13)


@pytest.mark.parametrize("name", ["gamma", "inverse_gaussian", "gaussian", "bernoulli"])
def test_merge_costs_broadcast_batch_and_compile(name, x64):
    family, _, facts = _computed(name, "float64")
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


# --- Failures ------------------------------------------------------------------------


@jax.jit
def _leaves_and_union(model, x):
    leaves = model.leaves(x, jnp.ones(2))
    return leaves, model.union(_take(leaves, [0]), _take(leaves, [1]))


@pytest.mark.parametrize(
    ("row", "code"), [([-1.0, 1.0], Result.OUTSIDE), ([2.0, np.nan], Result.INVALID)]
)
def test_failed_solves_are_no_costs(row, code, x64):
    model, x = NaturalModel(PLAIN_POISSON), jnp.array([row, [1.0, 1.0]])
    leaves, _ = _leaves_and_union(model, x)
    np.testing.assert_array_equal(model.result(leaves), [code, Result.CONVERGED])
    assert not np.isfinite(_pair_cost_jit(model, x, jnp.ones(2)))


def test_unions_of_boundary_points_start_afresh(x64):
    """A boundary of finite cost counts as solved; a union does not start from there."""
    model, x = NaturalModel(PLAIN_POISSON), jnp.array([[0.0, 3.0], [5.0, 0.0]])
    leaves, union = _leaves_and_union(model, x)
    np.testing.assert_array_equal(leaves.result, Result.BOUNDARY)
    np.testing.assert_array_equal(model.result(leaves), Result.CONVERGED)
    np.testing.assert_array_equal(union.result, Result.CONVERGED)
    np.testing.assert_allclose(union.natural, np.log([[2.5, 1.5]]), rtol=1e-12)
    cost = _pair_cost_jit(model, x, jnp.ones(2))
    np.testing.assert_allclose(cost, 8 * np.log(2), rtol=1e-13)


@pytest.mark.parametrize(
    "family",
    [
        Gaussian(2),
        DiagonalGaussian(2),
        IsotropicGaussian(2),
        Gamma(2),
        InverseGaussian(2),
        Exponential(2),
    ],
)
def test_points_of_infinite_cost_have_a_code(family, x64):
    x = np.ones((2, 2)) * (not isinstance(family, Exponential))
    leaves, _ = _leaves_and_union(family.cluster_model(), family.leaf_statistics(x))
    codes = np.asarray(family.cluster_model().result(leaves))
    assert (codes != Result.CONVERGED).all()


# --- Hostile numbers -----------------------------------------------------------------

mp.mp.dps = 60


def _mp_cost(value, w_a, w_b, a: list[Any], b: list[Any]):
    """w_a f(a) + w_b f(b) − w f(c) in 60 digits."""
    c = [(w_a * u + w_b * v) / (w_a + w_b) for u, v in zip(a, b, strict=True)]
    return w_a * value(a) + w_b * value(b) - (w_a + w_b) * value(c)


def _digits(numbers):
    """The numbers in 60 digits, taken as they are."""
    return [mp.mpf(float(v)) for v in np.ravel(numbers)]


def _exact(value, weights, a, b):
    w_a, w_b = _digits(weights)
    return float(_mp_cost(value, w_a, w_b, _digits(a), _digits(b)))


def _mp_entropy(p):
    return sum(v * mp.log(v) - v if v else mp.mpf(0) for v in p)


def _mp_burg(p):
    return -sum(mp.log(v) for v in p)


def _mp_truncated(p):
    return sum(mp.mpf(0) if mean == 1 else _mp_truncated_count(mean) for mean in p)


def _mp_truncated_count(mean):
    gap = lambda t: mp.exp(t) / -mp.expm1(-mp.exp(t)) - mean
    t = mp.findroot(gap, mp.log(mean) if mean > 3 else mp.log(2 * (mean - 1)))
    return mean * t - mp.exp(t) - mp.log(-mp.expm1(-mp.exp(t)))


TRUNCATED = ExponentialFamily(
    own_potentials.truncated_poisson, identity, np.zeros(1), separable=True
)
NEAR = {
    "poisson": (Poisson(2).cluster_model(), [3.0, 1e6], _mp_entropy, 1e-12),
    "multinomial": (
        Multinomial(2).cluster_model(),
        [0.3325, 0.6675],
        _mp_entropy,
        1e-12,
    ),
    "exponential": (Exponential(2).cluster_model(), [3.0, 1e-6], _mp_burg, 1e-12),
    "plain_poisson": (NaturalModel(PLAIN_POISSON), [3.0, 1e6], _mp_entropy, 1e-8),
    "truncated": (NaturalModel(TRUNCATED), [3.0], _mp_truncated, 1e-8),
}


@pytest.mark.parametrize("name", NEAR)
@pytest.mark.parametrize("gap", [1e-10, 1e-6, 1e-2])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (1e12, 2.0)])
def test_near_clusters_keep_their_digits(name, gap, weights, x64):
    model, point, value, tolerance = NEAR[name]
    a = np.array(point)
    b = a * (1 + gap * np.array([1.0, -0.5])[: len(a)])
    cost = _pair_cost_jit(model, jnp.stack([a, b]), np.array(weights))
    expected = _exact(value, weights, a, b)
    np.testing.assert_allclose(cost, expected, rtol=tolerance)


# A count of the lowest kind, whose mean is on the boundary, and large ones inside.
EDGES = {
    "poisson": (NaturalModel(PLAIN_POISSON), 0.0, _mp_entropy),
    "truncated": (NaturalModel(truncated_poisson(separable=True)), 1.0, _mp_truncated),
}
every_edge = pytest.mark.parametrize("name", EDGES)


@every_edge
@pytest.mark.parametrize("large", [1e6, 1e8])
@pytest.mark.parametrize("apart", [0.0, 1e-3, 4.0])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 500.0)])
def test_boundary_coordinates_leave_the_others_their_digits(
    name, large, apart, weights, x64
):
    model, end, value = EDGES[name]
    a, b = np.array([end, large]), np.array([end + apart, large + 1])
    cost = _pair_cost_jit(model, jnp.stack([a, b]), np.array(weights))
    expected = _exact(value, weights, a, b)
    np.testing.assert_allclose(cost, expected, rtol=1e-10)


@every_edge
@pytest.mark.parametrize("apart", [0.0, 4.0])
def test_boundary_coordinates_leave_the_others_their_digits_in_float32(name, apart):
    model, end, value = EDGES[name]
    a = np.array([end, 1e3], np.float32)
    b = np.array([end + apart, 1001], np.float32)
    cost = _pair_cost_jit(model, jnp.stack([a, b]), jnp.ones(2))
    assert cost.dtype == np.float32
    np.testing.assert_allclose(cost, _exact(value, (1, 1), a, b), rtol=1e-5)


@pytest.mark.parametrize("excess", [0.0, 1e-15, 1e-14, 1e-12, 1e-8, 1e-3])
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_costs_go_on_across_the_boundary_to_rounding(excess, factor, x64):
    """From a mean that counts as on the boundary to one that has a θ."""
    model, end, value = EDGES["truncated"]
    a = np.array([end + excess, 1e6])
    b = np.array([end + factor * (a[0] - end), 1e6 + 1])
    cost = _pair_cost_jit(model, jnp.stack([a, b]), jnp.ones(2))
    np.testing.assert_allclose(cost, _exact(value, (1, 1), a, b), rtol=1e-7)


def test_boundary_faces_of_any_psi_leave_the_others_their_digits(x64):
    """ψ not known to be a sum: the last iterates of the solver serve on a face."""
    model, _, value = EDGES["truncated"]
    model = NaturalModel(truncated_poisson(separable=False))
    # At 1e6 the solver says BOUNDARY with +inf: roundings of the large mean reach it.
    x = jnp.array([[1.0, 1e3], [1.0, 1e3 + 1]])
    cost = _pair_cost_jit(model, x, jnp.ones(2))
    np.testing.assert_allclose(cost, _exact(value, (1, 1), *x), rtol=1e-9)
    assert _pair_cost_jit(model, x[:1].repeat(2, axis=0), jnp.ones(2)) == 0


@every_edge
@pytest.mark.parametrize("apart", [0.0, 4.0])
def test_gradients_beside_boundary_coordinates(name, apart, x64):
    """By the large counts and the weights, against differences in 60 digits."""
    model, end, value = EDGES[name]
    a, b = [end, 1e4], [end + apart, 1e4 + 100]
    weights = jnp.array([1.0, 2.0])
    _, (by_x, by_w) = _pair_slopes(model, jnp.array([a, b]), weights)

    def cost(w_a, w_b, u, v):
        low_a, low_b = _digits([a[0], b[0]])
        return _mp_cost(value, w_a, w_b, [low_a, u], [low_b, v])

    point: Any = (1, 2, *_digits([a[1], b[1]]))
    axes = np.eye(4, dtype=int)
    slopes = [float(mp.diff(cost, point, tuple(axis.tolist()))) for axis in axes]
    np.testing.assert_allclose(by_w, slopes[:2], rtol=1e-9)
    np.testing.assert_allclose(by_x[:, 1], slopes[2:], rtol=1e-9)
    np.testing.assert_array_equal(by_x[0, 0], -np.inf if apart else 0)
    assert by_x[1, 0] > 0 if apart else by_x[1, 0] == 0


def test_derivatives_by_a_parameter_beside_boundary_coordinates(x64):
    """By the dispersion of negative binomial counts, one of them 0."""

    @jax.jit
    @jax.value_and_grad
    def cost(dispersion, x):
        family = ExponentialFamily(
            own_potentials.negative_binomial,
            identity,
            np.full(2, -1.0),
            params=dispersion,
            separable=True,
        )
        return _pair_cost(NaturalModel(family), x)

    def expected(r, a, b):
        rise = lambda m: m * mp.log(m / (m + r)) if m else mp.mpf(0)
        value = lambda p: sum(rise(m) + r * mp.log(r / (r + m)) for m in p)
        return _mp_cost(value, 1, 1, _digits(a), _digits(b))

    for apart in (0.0, 4.0):
        a, b = [0.0, 300.0], [apart, 400.0]
        value, slope = cost(2.5, jnp.array([a, b]))
        exact = lambda r, a=a, b=b: expected(r, a, b)
        np.testing.assert_allclose(value, float(exact(mp.mpf(2.5))), rtol=1e-10)
        np.testing.assert_allclose(slope, float(mp.diff(exact, 2.5)), rtol=1e-8)


@pytest.mark.parametrize(
    "name", ["poisson", pytest.param("dense", marks=pytest.mark.slow)]
)
def test_second_derivatives_where_means_agree(name, x64):
    """The curvature of ψ* is there in coordinates that add nothing to the cost."""
    family = PLAIN_POISSON
    if name == "dense":
        family = ExponentialFamily(lambda t: jnp.sum(jnp.exp(t)), identity, np.zeros(2))
    models = NaturalModel(family), Poisson(2).cluster_model()
    x, weights = jnp.array([[2.0, 5.0], [3.0, 5.0]]), jnp.array([1.0, 2.0])
    found, expected = (
        jax.jit(jax.hessian(functools.partial(_pair_cost, model)))(x, weights)
        for model in models
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", ["full", "diagonal", "spherical"])
@pytest.mark.parametrize("gap", [1e-10, 1e-5, 0.3])
@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_gaussians_near_far_from_the_origin_and_in_any_unit(
    form, gap, offset, scale, x64
):
    """Covariances a relative `gap` apart; offsets and units change nothing."""
    family = {
        "full": Gaussian,
        "diagonal": DiagonalGaussian,
        "spherical": IsotropicGaussian,
    }[form](2)
    base = np.array([[2.0, 0.5], [0.5, 1.0]])
    other = base + gap * np.array([[0.5, -0.2], [-0.2, 0.3]])
    shrink = {
        "full": lambda s: s,
        "diagonal": np.diagonal,
        "spherical": lambda s: np.trace(s) / 2,
    }[form]
    step = gap * np.array([0.5, 0.25])
    means = scale * np.stack([offset * np.ones(2), offset + step])
    delta = (means[1] - means[0]) / scale  # as rounded
    covariances = scale**2 * np.stack([shrink(base), shrink(other)])
    model, weights = family.cluster_model(), np.array([3.0, 2.0])
    leaves = model.leaves(Moments(means, covariances, form), weights)
    cost = float(model.merge_cost(_take(leaves, [0]), _take(leaves, [1]))[0])

    def matrix(values):
        full = {
            "full": lambda v: v,
            "diagonal": np.diag,
            "spherical": lambda v: v * np.eye(2),
        }
        return mp.matrix((full[form](values)).tolist())

    parts = [matrix(c) / mp.mpf(float(scale)) ** 2 for c in covariances]
    move = mp.matrix([mp.mpf(float(v)) for v in delta])
    between = move * move.T * mp.mpf(6) / 25
    if form == "diagonal":
        between = mp.diag([between[i, i] for i in range(2)])
    if form == "spherical":
        between = mp.diag([(between[0, 0] + between[1, 1]) / 2] * 2)
    pooled = (3 * parts[0] + 2 * parts[1]) / 5 + between
    log_dets = [mp.log(mp.det(part)) for part in (*parts, pooled)]
    expected = float((5 * log_dets[2] - 3 * log_dets[0] - 2 * log_dets[1]) / 2)
    np.testing.assert_allclose(cost, expected, rtol=3e-5 if gap < 1e-9 else 1e-8)


def test_field_cases_of_counts_and_categories(x64):
    """Heights worked by hand: zero columns, zero counts, large counts, integers."""
    multinomial = Multinomial(3).cluster_model()
    rows = jnp.array([[0.4, 0, 0.6], [0.5, 0, 0.5]])
    np.testing.assert_allclose(
        _pair_cost_jit(multinomial, rows, jnp.ones(2)), 0.01011878, rtol=1e-6
    )
    narrow = Multinomial(2).cluster_model()
    np.testing.assert_array_equal(
        _pair_cost_jit(narrow, rows[:, ::2], jnp.ones(2)),
        _pair_cost_jit(multinomial, rows, jnp.ones(2)),
    )
    poisson = Poisson(1).cluster_model()
    large = jnp.array([[16777216.0], [16777217.0]])
    np.testing.assert_allclose(
        _pair_cost_jit(poisson, large, jnp.ones(2)), 1.49011608e-8, rtol=1e-6
    )
    for kind in (np.float64, np.int32, np.int64, np.uint16):
        counts: Any = np.array([[60000], [30000]], kind)
        statistics = Poisson(1).leaf_statistics(counts)
        cost = _pair_cost_jit(poisson, statistics, jnp.array([2.0, 1.0]))
        np.testing.assert_allclose(cost, 6553.81810229, rtol=1e-11)


def test_costs_in_float32_never_go_below_zero():
    """Close proportions, and spherical Gaussians far from the origin."""
    near = jnp.array([[0.3325, 0.6675], [0.33251, 0.66749]])
    cost = _pair_cost_jit(Multinomial(2).cluster_model(), near, jnp.ones(2))
    assert 0 <= cost <= 1e-6
    far = jnp.array([[10000.0], [10000.5]])
    ward = SphericalGaussian(dim=1).cluster_model()
    np.testing.assert_array_equal(_pair_cost_jit(ward, far, jnp.ones(2)), 0.0625)
    diagonal = DiagonalGaussian(1)
    leaves = blur(1.0)(diagonal.leaf_statistics(far), jnp.ones(2))[0]
    np.testing.assert_allclose(
        _pair_cost_jit(diagonal.cluster_model(), leaves, jnp.ones(2)),
        np.log1p(0.0625),
        rtol=1e-6,
    )


def test_points_fewer_than_dimensions(rng, x64):
    """Six points in ten dimensions: all merges add up to the closed form."""
    x, ridge = rng.normal(size=(6, 10)), 0.1
    family = Gaussian(10)
    model = family.cluster_model()
    statistics = blur(ridge**0.5)(family.leaf_statistics(x), jnp.ones(6))[0]
    leaves = model.leaves(statistics, jnp.ones(6))
    union, whole, total = jax.jit(model.union), _take(leaves, [0]), 0.0
    for i in range(1, 6):
        cost = _merge_cost(model, whole, _take(leaves, [i]))[0]
        assert cost >= 0
        total += cost
        whole = union(whole, _take(leaves, [i]))
    covariance = np.cov(x.T, ddof=0) + ridge * np.eye(10)
    expected = 3 * (np.linalg.slogdet(covariance)[1] - 10 * np.log(ridge))
    np.testing.assert_allclose(total, expected, rtol=1e-12)


def test_coding_does_not_change_the_cost(x64):
    """Three categories by 3, by 2, and by 3 + 1 duplicated coordinates."""
    rows = jnp.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    expected = _pair_cost(Multinomial(3).cluster_model(), rows)
    three, none = np.eye(3), np.zeros((1, 3))
    for coding in (
        np.concatenate([three, none]),
        np.concatenate([three[:2], none, none]),
        np.concatenate([three, three[:1]]),
    ):
        family = ExponentialFamily(_coded_psi, identity, np.zeros(4), params=coding)
        cost = _pair_cost_jit(NaturalModel(family), rows @ coding.T, jnp.ones(2))
        np.testing.assert_allclose(cost, expected, rtol=1e-10)


def _coded_psi(theta, coding):
    """Three categories whose indicators are coded by the rows of a matrix."""
    return jax.scipy.special.logsumexp(theta @ coding)


def test_states_hold_means_and_weights(x64):
    state = MeanState(jnp.ones(1), jnp.ones((1, 2)))
    union = BregmanModel(Poisson(2).cluster_model().function).union(state, state)
    np.testing.assert_array_equal(union.weight, 2)
    np.testing.assert_array_equal(union.mean, 1)

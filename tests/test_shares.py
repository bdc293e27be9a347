"""Beta and Dirichlet clusters against SciPy, many digits and each other."""

from typing import Any

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import reference
import scipy.optimize
import scipy.stats
from scipy import special

import bregjax as bj
from bregjax import Result
from bregjax.clusters._host_model import rows_of
from bregjax.families import Dirichlet
from bregjax.families._stirling import stirling_rest
from bregjax.smoothing import adding
from bregjax.smoothing._maps import Adding

DIGITS = 40
stats: Any = scipy.stats  # its stubs do not know frozen distributions


def shares(rng, m, d=2):
    return rng.beta(rng.choice([0.8, 3.0, 20.0], (m, 1)), 4.0, (m, d))


def wholes(rng, m, n=3):
    return rng.dirichlet(np.linspace(1, 4, n), m)


def host_of(family):
    host = family.cluster_model().host()
    assert host is not None
    return host


# --- References ----------------------------------------------------------------------


def mp_solution(mean, start):
    """ψ*(μ) and a, in many digits, by Newton's method on all equations."""
    with mp.workdps(DIGITS):
        mean = [mp.mpf(float(t)) for t in mean]

        def slope(*a):
            total = mp.psi(0, mp.fsum(a))
            return [mp.psi(0, x) - total - t for x, t in zip(a, mean, strict=True)]

        a = list(mp.findroot(slope, [mp.mpf(float(x)) for x in start]))
        psi = mp.fsum(map(mp.loggamma, a)) - mp.loggamma(mp.fsum(a))
        value = mp.fsum(x * t for x, t in zip(a, mean, strict=True)) - psi
        return float(value), np.array(a, float)


def solution_by_scipy(mean):
    """ψ*(μ) and a by a general minimiser in log a."""

    def objective(logs):
        a = np.exp(logs)
        value = special.gammaln(a).sum() - special.gammaln(a.sum()) - a @ mean
        return value, a * (special.digamma(a) - special.digamma(a.sum()) - mean)

    start = np.full(len(mean), np.log(2.0))
    found = scipy.optimize.minimize(
        objective, start, jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    a = np.exp(found.x)
    for _ in range(3):
        residual = mean - special.digamma(a) + special.digamma(a.sum())
        hessian = np.diag(special.polygamma(1, a)) - special.polygamma(1, a.sum())
        a = a + np.linalg.solve(hessian, residual)
    return -objective(np.log(a))[0], a


def conjugate_of_columns(means):
    """Σ ψ*(μ) over columns, of means `[c, n]`."""
    return sum(solution_by_scipy(mean)[0] for mean in means)


def columns_of(x, amount):
    """Smoothed means `[m, c, n]` of rows of shares, or of wholes as one column."""
    if np.allclose(x.sum(axis=1), 1):
        return np.log(x)[:, None] - amount
    return np.stack([np.log(x), np.log1p(-x)], axis=-1) - amount


def costs_on_host(family, statistics):
    """Merge costs of all pairs of leaves, `[m, m]`."""
    with jax.enable_x64(True):
        host = host_of(family)
        m = len(jax.tree.leaves(statistics)[0])
        leaves = host.leaves(statistics, np.ones(m))
        i, j = np.indices((m, m)).reshape(2, -1)
        costs, _ = host.search_costs(rows_of(leaves, i), rows_of(leaves, j))
        return costs.reshape(m, m)


# --- ψ and its conjugate -------------------------------------------------------------


@pytest.mark.parametrize("order", range(4))
def test_stirling_rest_and_its_derivatives(order, x64):
    x = np.array([1e-6, 0.01, 0.7, 1.0, 3.3, 9.999, 10.0, 40.0, 1e5])
    with mp.workdps(DIGITS):
        rest = lambda t: mp.loggamma(t) - (t - 0.5) * mp.log(t) + t
        constant = mp.log(2 * mp.pi) / 2 if order == 0 else 0
        exact = [mp.diff(rest, mp.mpf(t), order) - constant for t in x]
        exact = np.array(exact, float)
    scale = np.abs(exact) + (x < 10) * np.minimum(1, x**-order)
    error = np.abs(np.asarray(stirling_rest(x, order)) - exact)
    assert (error <= 4e-15 * 10**order * scale).all()
    slope = jax.vmap(jax.grad(lambda t: stirling_rest(t, order)))(x)
    np.testing.assert_array_equal(slope, stirling_rest(x, order + 1))


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_psi_and_mean_are_those_of_scipy(precision):
    a = np.exp(np.random.default_rng(0).uniform(-4, 6, (40, 3)))
    exact = special.gammaln(a).sum(1) - special.gammaln(a.sum(1))
    mean = special.digamma(a) - special.digamma(a.sum(1, keepdims=True))
    tolerance = 1e-12 if precision == "float64" else 2e-5
    with jax.enable_x64(precision == "float64"):
        psi = jax.jit(jax.vmap(jax.value_and_grad(Dirichlet(3).log_partition)))
        value, slope = psi(a.astype(precision))
        assert value.dtype == precision
        low, high = a[0].astype(precision), a[1].astype(precision)
        both = jax.jit(bj.Beta(3).log_partition)((low, high))
    np.testing.assert_allclose(value, exact, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(slope, mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(both, special.betaln(a[0], a[1]).sum(), rtol=tolerance)
    outside = Dirichlet(2).log_partition(jnp.array([1.0, 0.0]))
    assert np.isposinf(outside)


def test_conjugates_against_many_digits(x64):
    """From a of 0.02 to a precision of 1e6, as host solves have them."""
    rng = np.random.default_rng(1)
    a = np.exp(rng.uniform(-4, 4, (12, 3)))
    a[:3] *= 1e4
    means = special.digamma(a) - special.digamma(a.sum(1, keepdims=True))
    host = host_of(Dirichlet(3))
    state = host.leaves(means, np.ones(len(a)))
    np.testing.assert_array_equal(state.result, Result.CONVERGED)
    for k, mean in enumerate(means):
        value, natural = mp_solution(mean, state.natural[k])
        noise = 4e-16 * np.sum(np.abs(natural * mean))
        assert abs(state.value[k] - value) <= 1e-13 * (1 + abs(value)) + noise
        # θ is as good as the mean says: the Hessian's condition is about N.
        tolerance = 1e-9 + 1e-13 * a[k].sum()
        np.testing.assert_allclose(state.natural[k], natural, rtol=tolerance)


def test_log_densities_are_those_of_scipy(rng, dtype):
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    x, a = wholes(rng, 1)[0].astype(dtype), np.array([0.6, 2.0, 5.0])
    found = jax.jit(Dirichlet(3).log_prob)(x, a.astype(dtype))
    exact = stats.dirichlet(a).logpdf(x / x.sum(dtype=float))
    np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance)
    x, b = shares(rng, 1, 3)[0].astype(dtype), np.array([3.0, 0.7, 1.0])
    found = jax.jit(bj.Beta(3).log_prob)(x, (a.astype(dtype), b.astype(dtype)))
    exact = stats.beta(a, b).logpdf(x.astype(float)).sum()
    np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance)


def test_densities_of_clusters(rng):
    """What held-out likelihoods and features go by: θ of a column side by side."""
    x = shares(rng, 12)
    with jax.enable_x64(True):
        family: Any = bj.Beta(2)
        smoothing = family.default_smoothing(x, None)
        leaves, _ = smoothing(family.leaf_statistics(x), jnp.ones(12))
        clusters = host_of(family).leaves(leaves, np.ones(12))
        (a, b), psi = jax.jit(family.density_parameters)(clusters)
        found = jax.jit(family.log_densities)(x[0], ((a, b), psi))
    exact = stats.beta(np.asarray(a), np.asarray(b)).logpdf(x[0]).sum(axis=1)
    np.testing.assert_allclose(found, exact, rtol=1e-10)


# --- Trees ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["beta", "dirichlet"])
@pytest.mark.parametrize("weighted", [False, True])
def test_trees_are_greedy(name, weighted, rng):
    """By SciPy's conjugates of all pairs, at every step."""
    x = shares(rng, 9) if name == "beta" else wholes(rng, 9)
    family: Any = bj.Beta(2) if name == "beta" else Dirichlet(3)
    weights = rng.uniform(1, 5, 9) if weighted else np.ones(9)
    smoothing = family.default_smoothing(x, weights)
    amount = -np.reshape(smoothing.amount * np.stack(smoothing.center)[:1].T, (-1, 1))
    points = list(columns_of(x, amount if name == "beta" else amount[0]))
    children, costs = reference.greedy(conjugate_of_columns, points, weights)
    problem = bj.Problem(x, family=family, weights=weights)
    tree = bj.agglomerate(problem)
    np.testing.assert_array_equal(tree.children, children)
    np.testing.assert_allclose(tree.merge_costs, costs, rtol=1e-8)
    np.testing.assert_allclose(bj.replay(problem, tree), tree.merge_costs, rtol=1e-10)


def test_two_parts_are_one_share(rng):
    x = shares(rng, 12, 1)
    logs = np.log(x) - 0.01, np.log1p(-x) - 0.01
    beta = costs_on_host(bj.Beta(1), logs)
    whole = costs_on_host(Dirichlet(2), np.hstack(logs))
    np.testing.assert_allclose(beta, whole, rtol=1e-12, atol=1e-14)


def test_sides_and_single_precision_of_a_column_do_not_count(rng):
    x = shares(rng, 20)
    tree = bj.agglomerate(x, family="beta")
    other = bj.agglomerate(1 - x, family="beta")
    np.testing.assert_array_equal(tree.children, other.children)
    np.testing.assert_allclose(tree.merge_costs, other.merge_costs, rtol=1e-9)
    rounded = bj.agglomerate(x.astype(np.float32), family="beta")
    np.testing.assert_allclose(rounded.merge_costs, tree.merge_costs, rtol=1e-3)


def test_narrow_columns_are_gaussian(rng):
    z = rng.normal(size=(15, 2))
    tree = bj.agglomerate(0.3 + 1e-4 * z, family="beta")
    h = bj.normal_reference(z, per_coordinate=True).bandwidth
    points = reference.statistics("diagonal_gaussian", z, h)
    gaussian = reference.FUNCTIONS["diagonal_gaussian"]
    children, costs = reference.greedy(gaussian, points, np.ones(15))
    np.testing.assert_array_equal(tree.children, children)
    np.testing.assert_allclose(tree.merge_costs, costs, rtol=2e-3)


def test_rare_events_are_gamma(rng):
    """log(1 − x) is −x, and lowering it by c is adding c to x."""
    rates, unit = np.exp(rng.normal(size=(12, 2))), 1e-9
    rare = unit * rates
    beta = costs_on_host(bj.Beta(2), (np.log(rare), np.log1p(-rare) - 0.01 * unit))
    with jax.enable_x64(True):
        family = bj.Gamma(2)
        smoothing = adding((np.zeros(2), np.full(2, 0.01)))
        statistics, weights = smoothing(family.leaf_statistics(rates), jnp.ones(12))
        model = family.cluster_model()
        leaves = model.leaves(statistics, weights)
        gamma = jax.jit(model.cross_cost)(leaves, leaves)
    np.testing.assert_allclose(beta, gamma, rtol=1e-6, atol=1e-9)


# --- Smoothing -----------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.03, 0.5, 0.9])
def test_auto_is_a_blur_of_angles(p, x64):
    """A leaf has the angle's variance h², and the row's logit as its mean logit."""
    rng = np.random.default_rng(2)
    x = np.sin(0.1 + 0.02 * rng.normal(size=(4000, 1))) ** 2
    x = np.concatenate([x, [[p]]])
    family: Any = bj.Beta(1)
    smoothing = family.default_smoothing(x, None)
    assert isinstance(smoothing, Adding)
    angles = np.arcsin(np.sqrt(x))
    h = angles.std(ddof=1) * (4 / (3 * len(x))) ** (1 / 5)
    np.testing.assert_allclose(smoothing.center[0], [-2 * h**2], rtol=1e-10)
    np.testing.assert_allclose(smoothing.center[1], [-2 * h**2], rtol=1e-10)
    mean = np.log([p, 1 - p]) - 2 * h**2
    _, (a, b) = solution_by_scipy(mean)
    draws = np.arcsin(np.sqrt(rng.beta(a, b, 200_000)))
    np.testing.assert_allclose(draws.std(), h, rtol=0.01)
    logit = special.digamma(a) - special.digamma(b)
    np.testing.assert_allclose(logit, special.logit(p), rtol=1e-9, atol=1e-12)


def test_auto_is_a_blur_of_roots_on_the_sphere(x64):
    rng = np.random.default_rng(3)
    x = rng.dirichlet([30.0, 60.0, 5.0, 100.0], 300)
    family: Any = Dirichlet(4)
    smoothing = family.default_smoothing(x, None)
    assert isinstance(smoothing, Adding)
    roots = np.sqrt(x)
    square = np.trace(np.cov(roots.T)) / 3 * (4 / (5 * 300)) ** (2 / 7)
    amount = -float(smoothing.amount * smoothing.center[0])
    np.testing.assert_allclose(amount, 2 * 3 * square, rtol=1e-10)
    _, a = solution_by_scipy(np.log(x[0]) - amount)
    draws = np.sqrt(rng.dirichlet(a, 200_000))
    values = np.linalg.eigvalsh(np.cov(draws.T))
    # One direction is normal to the sphere.
    np.testing.assert_allclose(values[1:], square, rtol=0.03)
    assert values[0] < 0.01 * square


def test_weights_of_auto_are_repeated_rows_and_equal_rows_have_one(rng):
    x, y = shares(rng, 10), wholes(rng, 10)
    twice, weights = lambda rows: np.repeat(rows, 2, axis=0), np.full(10, 2.0)
    cases: Any = (bj.Beta(2), x), (Dirichlet(3), y)
    for family, rows in cases:
        counted = family.default_smoothing(rows, weights)
        copies = family.default_smoothing(twice(rows), None)
        for got, expected in zip(
            jax.tree.leaves(counted), jax.tree.leaves(copies), strict=True
        ):
            np.testing.assert_allclose(got, expected, rtol=1e-12)
        tree = bj.agglomerate(np.tile(rows[:1], (3, 1)), family=family)
        np.testing.assert_array_equal(tree.merge_costs, 0)


def test_smoothed_rows_lie_inside_however_near_the_edge(x64):
    x = np.array([[1e-12, 0.5], [0.3, 1 - 1e-12], [1e-300, 0.2]])
    family: Any = bj.Beta(2)
    smoothing = family.default_smoothing(x, None)
    assert isinstance(smoothing, Adding)
    low, high = smoothing(family.leaf_statistics(x), jnp.ones(3))[0]
    assert (np.exp(low) + np.exp(high) < 1).all()
    assert np.isfinite(bj.agglomerate(x, family="beta").merge_costs).all()


def test_what_does_not_fit_is_said(rng):
    x = shares(rng, 5)
    with pytest.raises(ValueError, match=r"two|at least 2 columns for Dirichlet"):
        bj.agglomerate(x[:, :1], family="dirichlet")
    with pytest.raises(ValueError, match="got 1.2.* at row 0.*Divide each row by its"):
        bj.agglomerate(np.full((3, 2), 0.6), family="dirichlet")
    near = 0.4 + 1e-7 * rng.normal(size=(9, 2))
    with pytest.raises(ValueError, match="varies too little for Beta.*diagonal_gaussi"):
        bj.agglomerate(near, family="beta")
    near = near / near.sum(axis=1, keepdims=True)
    with pytest.raises(ValueError, match="too little for Dirichlet.*isotropic_gaussia"):
        bj.agglomerate(near, family="dirichlet")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["beta", "dirichlet"])
def test_rows_need_smoothing(name, rng):
    x = shares(rng, 5) if name == "beta" else wholes(rng, 5)
    match = '5 of 5 rows.*first is row 0.*Pass smoothing="auto", or smoothing=adding'
    with pytest.raises(ValueError, match=match):
        bj.agglomerate(x, family=name, smoothing=None)


# --- Derivatives ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["beta", "dirichlet"])
def test_gradients_of_replay(name, x64):
    """By the data and by the amount, and by the bandwidth that "auto" takes."""
    rng = np.random.default_rng(4)
    x = shares(rng, 5) if name == "beta" else wholes(rng, 5)
    family = bj.Beta(2) if name == "beta" else Dirichlet(3)
    tree = bj.agglomerate(x, family=family)
    children, loads = jnp.asarray(tree.children), jnp.asarray(rng.normal(size=4))

    @jax.jit
    def loss(x, h):
        low = -(h**2) * jnp.ones(x.shape[1])
        smoothing = adding((low, low) if name == "beta" else low)
        problem = bj.Problem(x, family=family, smoothing=smoothing)
        return loads @ bj.replay(problem, children)

    slopes = jax.jit(jax.grad(loss, argnums=(0, 1)))(jnp.asarray(x), 0.2)
    step = 1e-6
    quotient = (loss(x, 0.2 + step) - loss(x, 0.2 - step)) / (2 * step)
    np.testing.assert_allclose(slopes[1], quotient, rtol=1e-6)
    for index in [(0, 0), (3, 1)]:
        move = np.zeros(x.shape)
        move[index] = step
        quotient = (loss(x + move, 0.2) - loss(x - move, 0.2)) / (2 * step)
        np.testing.assert_allclose(slopes[0][index], quotient, rtol=1e-5, atol=1e-7)


def test_weights_alone_may_be_traced(x64, rng):
    problem = bj.Problem(rng.dirichlet([2, 3, 4], 8), family="dirichlet")
    tree = bj.agglomerate(problem)
    costs = lambda w: jnp.sum(bj.replay(problem.replace(weights=w), tree))
    slope = jax.grad(costs)(jnp.ones(8))
    step = 1e-5 * np.eye(8)[0]
    expected = (costs(1 + step) - costs(1 - step)) / 2e-5
    np.testing.assert_allclose(slope[0], expected, rtol=1e-6)

"""Likelihoods of cuts and losses: by hand, by SciPy, by brute force; derivatives."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from scipy import optimize, special
from test_replay import difference
from trees import merge_cost_of

from bregjax import Problem, dendrogram_features, soft_assignments
from bregjax.families import (
    Bernoulli,
    DiagonalGaussian,
    Exponential,
    Gamma,
    Gaussian,
    InverseGaussian,
    IsotropicGaussian,
    Multinomial,
    Poisson,
    SphericalGaussian,
)
from bregjax.hierarchy import agglomerate, cluster_cost
from bregjax.objectives import (
    classification_loss,
    cut_cost,
    held_out_log_likelihood,
    leave_one_out_log_likelihood,
    ridge_loss,
)
from bregjax.smoothing import adding, blur, mixing, pseudo_count
from bregjax.smoothing._maps import Blur

M, D, K = 14, 2, 3
stats: Any = scipy.stats  # its stubs do not know frozen distributions


CASES = {
    "gaussian": (Gaussian(), blur(0.7), lambda r: r.normal(size=(M, D)) + 10),
    "diagonal": (
        DiagonalGaussian(),
        blur([0.5, 0.8]),
        lambda r: r.normal(size=(M, D)),
    ),
    "isotropic": (IsotropicGaussian(), blur(0.6), lambda r: r.normal(size=(M, D))),
    "ward": (SphericalGaussian(variance=1.7), None, lambda r: r.normal(size=(M, D))),
    "poisson": (
        Poisson(),
        pseudo_count(np.ones(D), 0.5),
        lambda r: r.poisson(2.0, (M, D)),
    ),
    "bernoulli": (
        Bernoulli(),
        mixing(np.full(D, 0.5), 0.2),
        lambda r: r.integers(0, 2, (M, D)),
    ),
    "multinomial": (
        Multinomial(),
        mixing(np.ones(3) / 3, 0.1),
        lambda r: r.multinomial(5, [0.2, 0.3, 0.5], M),
    ),
    "exponential": (
        Exponential(),
        adding(np.ones(D), 0.1),
        lambda r: r.exponential(size=(M, D)),
    ),
    "gamma": (Gamma(), "auto", lambda r: r.gamma(2.0, size=(M, D))),
    "gamma_added": (
        Gamma(),
        adding((-np.ones(D), np.zeros(D)), 0.2),
        lambda r: r.gamma(2.0, size=(M, D)),
    ),
    "inverse_gaussian": (
        InverseGaussian(),
        adding((np.zeros(D), np.ones(D)), 0.2),
        lambda r: r.wald(2.0, 3.0, size=(M, D)),
    ),
}


def case_of(name, rng):
    """The problem of a case, and rows drawn as its data are."""
    family, smoothing, draw = CASES[name]
    x, rows = draw(rng).astype(float), draw(rng).astype(float)
    return Problem(x, family=family, smoothing=smoothing), x, rows


def quickly(names, quick):
    """All of the names, but only the quick ones by default."""
    marks = {name: () if name in quick else pytest.mark.slow for name in names}
    cases = [pytest.param(name, marks=mark) for name, mark in marks.items()]
    return pytest.mark.parametrize("name", cases)


# Compilation is what these tests take: the other families have the parts of these.
with_gradients = quickly(
    ("gaussian", "multinomial", "poisson", "gamma", "inverse_gaussian"),
    quick=("gaussian", "poisson"),
)
some_families = pytest.mark.parametrize("name", ["gaussian", "multinomial", "poisson"])


def density(name, rows, smoothed, weights):
    """log p of rows at the weighted mean of smoothed statistics, without the library.

    Args:
        smoothed: A dictionary of the statistics of points, as the case smooths them.
    """
    mean = lambda values: np.average(values, axis=0, weights=weights)
    if name in ("gaussian", "diagonal", "isotropic"):
        center = mean(smoothed["mean"])
        gap = smoothed["mean"] - center
        spread = mean(smoothed["cov"] + gap[:, :, None] * gap[:, None, :])
        if name == "diagonal":
            spread = np.diag(np.diag(spread))
        if name == "isotropic":
            spread = np.trace(spread) / D * np.eye(D)
        return stats.multivariate_normal(center, spread).logpdf(rows)
    center = mean(smoothed["mean"])
    if name == "ward":
        return stats.multivariate_normal(center, 1.7 * np.eye(D)).logpdf(rows)
    if name == "poisson":
        return stats.poisson(center).logpmf(rows).sum(1)
    if name == "bernoulli":
        return stats.bernoulli(center).logpmf(rows).sum(1)
    if name == "multinomial":
        return (rows / rows.sum(1, keepdims=True)) @ np.log(center)
    if name == "gamma_added":
        scatter = np.log(center) - mean(smoothed["log"])
        excess = lambda k, s: np.log(k) - special.digamma(k) - s
        shape = [optimize.brentq(excess, 1e-9, 1e9, args=(s,)) for s in scatter]
        return stats.gamma(shape, scale=center / shape).logpdf(rows).sum(1)
    if name == "inverse_gaussian":
        shape = 1 / (mean(smoothed["reciprocal"]) - 1 / center)
        return stats.invgauss(center / shape, scale=shape).logpdf(rows).sum(1)
    return stats.expon(scale=center).logpdf(rows).sum(1)


def smoothed_statistics(name, x):
    m = len(x)
    if name in ("gaussian", "diagonal", "isotropic"):
        h = np.broadcast_to({"gaussian": 0.7, "diagonal": [0.5, 0.8]}.get(name, 0.6), D)
        return {"mean": x, "cov": np.tile(np.diag(h**2), (m, 1, 1))}, np.ones(m)
    if name == "poisson":
        return {"mean": (x + 0.5) / 1.5}, np.full(m, 1.5)
    if name == "bernoulli":
        return {"mean": 0.8 * x + 0.1}, np.ones(m)
    if name == "multinomial":
        return {"mean": 0.9 * x / x.sum(1, keepdims=True) + 0.1 / 3}, np.ones(m)
    if name == "gamma_added":
        return {"mean": x, "log": np.log(x) - 0.2}, np.ones(m)
    if name == "inverse_gaussian":
        return {"mean": x, "reciprocal": 1 / x + 0.2}, np.ones(m)
    return {"mean": x + (0.1 if name == "exponential" else 0)}, np.ones(m)


def mixture_by_scipy(name, x, rows, labels, left_out=None):
    """log Σ π_k p(row; τ_k) for each row, without the point `left_out`."""
    smoothed, w = smoothed_statistics(name, x)
    keep = np.arange(len(x)) != (-1 if left_out is None else left_out)
    total = 0.0
    for k in np.unique(labels[keep]):
        mine = keep & (labels == k)
        points = {key: value[mine] for key, value in smoothed.items()}
        share = mine.sum() / keep.sum()
        total = total + share * np.exp(density(name, rows, points, w[mine]))
    return np.log(np.atleast_1d(total))


by_scipy = quickly(
    sorted(set(CASES) - {"gamma"}), quick=("gaussian", "multinomial", "poisson")
)


@by_scipy
def test_likelihoods_against_scipy(name, rng):
    problem, x, rows = case_of(name, rng)
    tree = agglomerate(problem)
    labels = tree.cut(num_clusters=K)
    got = held_out_log_likelihood(problem, tree, rows, num_clusters=K)
    expected = mixture_by_scipy(name, x, rows, labels).sum()
    np.testing.assert_allclose(got, expected, rtol=1e-10)
    for k in (1, K, M) if name == "gaussian" else (K,):
        labels = tree.cut(num_clusters=k)
        got = leave_one_out_log_likelihood(problem, tree, num_clusters=k)
        expected = sum(
            mixture_by_scipy(name, x, x[i : i + 1], labels, left_out=i)[0]
            for i in range(M)
        )
        np.testing.assert_allclose(got, expected, rtol=1e-9)
    shares = soft_assignments(problem, tree, rows, num_clusters=K)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-12)
    log_parts = np.stack(
        [
            mixture_by_scipy(name, x[l == k], rows, np.zeros((l == k).sum()))
            + np.log(np.mean(l == k))
            for l in [tree.cut(num_clusters=K)]
            for k in range(K)
        ],
        axis=1,
    )
    expected = np.exp(log_parts - np.logaddexp.reduce(log_parts, axis=1)[:, None])
    np.testing.assert_allclose(shares, expected, rtol=1e-8, atol=1e-12)


@with_gradients
def test_gradients(name, rng, x64):
    """By data and by the leaves of family and smoothing, against differences."""
    del x64
    family, smoothing, draw = CASES[name]
    x = draw(rng).astype(float)
    if name in ("poisson", "multinomial"):
        x = x + 0.25
    tree = agglomerate(x, family=family, smoothing=smoothing)
    weights = rng.uniform(1, 2, M)
    children = jnp.asarray(tree.children)
    mixed = jnp.asarray(rng.normal(size=(M, 4)))

    @jax.jit
    def loss(problem):
        one = leave_one_out_log_likelihood(problem, children, num_clusters=K)
        two = held_out_log_likelihood(problem, children, problem.x, num_clusters=K)
        features = dendrogram_features(problem, children, num_features=4)
        shares = soft_assignments(problem, children, num_clusters=K, temperature=2.0)
        return (
            one + 0.3 * two + jnp.vdot(mixed, features) + jnp.vdot(mixed[:, :K], shares)
        )

    problem = Problem(x, family=family, smoothing=smoothing, weights=weights)
    gradient = jax.tree.leaves(jax.jit(jax.grad(loss))(problem))
    flat, structure = jax.tree.flatten(problem)
    for k, leaf in enumerate(flat):

        def along(value, k=k):
            moved = [*flat[:k], jnp.asarray(value), *flat[k + 1 :]]
            return loss(jax.tree.unflatten(structure, moved))

        expected = difference(along, leaf)
        np.testing.assert_allclose(gradient[k], expected, rtol=2e-5, atol=1e-5)


@some_families
def test_features_are_merge_costs(name, rng):
    problem, x, rows = case_of(name, rng)
    options, rows = {"family": problem.family, "smoothing": CASES[name][1]}, rows[:3]
    tree = agglomerate(problem)
    features = dendrogram_features(problem, tree, rows, num_features=4)
    assert features.shape == (3, 4)
    for column, node in enumerate(tree.top_nodes(4)):
        for i, row in enumerate(rows):
            expected = merge_cost_of(x[tree.members(node)], row[None], **options)
            np.testing.assert_allclose(features[i, column], expected, rtol=1e-8)


@some_families
def test_a_cut_costs_what_its_clusters_do(name, rng):
    problem, _, _ = case_of(name, rng)
    tree = agglomerate(problem)
    labels = tree.cut(num_clusters=K)
    expected = sum(cluster_cost(problem, labels == k) for k in range(K))
    got = cut_cost(problem, tree, num_clusters=K)
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_kernel_density_by_hand(x64):
    """Two points a distance r apart in d columns: the best bandwidth is r/√d."""
    del x64
    for x, best in [([[0.0], [3.0]], 3.0), ([[0.0, 0.0], [3.0, 4.0]], 5 / np.sqrt(2))]:
        rows, children = jnp.array(x), jnp.array([[0, 1]])

        @jax.jit
        @jax.value_and_grad
        def likelihood(h, x=rows, children=children):
            return leave_one_out_log_likelihood(
                Problem(x, family=Gaussian(), smoothing=Blur(h)),
                children,
                num_clusters=2,
            )

        d = len(x[0])
        distance = np.linalg.norm(np.diff(x, axis=0))
        h = 1.7
        by_hand = 2 * (
            -0.5 * distance**2 / h**2 - d * np.log(h) - d / 2 * np.log(2 * np.pi)
        )
        np.testing.assert_allclose(likelihood(h)[0], by_hand, rtol=1e-12)
        np.testing.assert_allclose(likelihood(best)[1], 0, atol=1e-12)
        assert likelihood(0.9 * best)[1] > 0 > likelihood(1.1 * best)[1]


def test_a_rest_of_zeros_is_a_rest_of_zeros():
    """Nothing is subtracted: without the 5 the rate is 0, and 5 has no likelihood."""
    problem = Problem([[5.0], [0.0], [0.0]], family="poisson")
    tree = agglomerate(problem)
    assert leave_one_out_log_likelihood(problem, tree, num_clusters=1) == -np.inf
    # With a row alone in its cluster, that cluster drops out: 5 under the zeros.
    assert leave_one_out_log_likelihood(problem, tree, num_clusters=2) == -np.inf


def test_boundary_means_have_finite_derivatives(x64):
    """Both at 0: no NaN, and 0 where nothing can change."""
    del x64
    x = np.array([[0.0, 3.0], [0.0, 4.0], [0.0, 9.0], [0.0, 10.0]])
    problem = Problem(x, family="poisson")
    tree = agglomerate(problem)

    @jax.jit
    def likelihood(problem):
        return leave_one_out_log_likelihood(problem, tree, num_clusters=2)

    slopes = jax.grad(likelihood)(problem)
    assert not np.any(np.isnan(slopes.x))
    assert np.all(np.isfinite(slopes.x[:, 1]))
    at = lambda weights: problem.replace(weights=weights)
    expected = difference(lambda w: likelihood(at(w)), np.ones(4))
    np.testing.assert_allclose(slopes.weights, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["bernoulli", "multinomial", "poisson"])
def test_rows_on_the_boundary_have_derivatives(name, rng, x64):
    """Zeros and ones in smoothed clusters: against differences into the domain."""
    del x64
    problem, _, rows = case_of(name, rng)
    rows = rows[:4]
    rows[0, 0] = 0
    tree = agglomerate(problem)

    @jax.jit
    def likelihood(rows):
        return held_out_log_likelihood(problem, tree, rows, num_clusters=K)

    got = jax.grad(likelihood)(jnp.asarray(rows))
    step = 1e-6
    for index in np.ndindex(rows.shape):
        inwards = -1 if name == "bernoulli" and rows[index] == 1 else 1
        moved = rows.copy()
        moved[index] += inwards * step
        slope = (likelihood(moved) - likelihood(rows)) / (inwards * step)
        np.testing.assert_allclose(got[index], slope, rtol=1e-4, atol=1e-4)


def test_impossible_clusters_have_no_part_in_derivatives(x64):
    """A cluster of zeros says nothing of a positive row, at any temperature."""
    del x64
    x = np.array([[0.0, 3.0], [0.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    problem = Problem(x, family="poisson")
    tree = agglomerate(problem)

    def share(temperature):
        shares = soft_assignments(
            problem, tree, num_clusters=2, temperature=temperature
        )
        return shares[3, 1]

    value, slope = jax.value_and_grad(share)(0.7)
    assert value == 1
    assert slope == 0


def test_uneven_weights_against_repeated_rows(rng):
    """Weights 2 are two equal rows, but for what is left out: one of them, or both."""
    x = rng.poisson(3.0, (8, 2)).astype(float)
    weights = np.array([1.0, 2, 1, 3, 1, 1, 2, 1])
    prior = pseudo_count(np.ones(2), 0.5)
    problem = Problem(x, family=Poisson(), smoothing=prior, weights=weights)
    tree = agglomerate(problem)
    labels = tree.cut(num_clusters=K)
    got = leave_one_out_log_likelihood(problem, tree, num_clusters=K)
    expected = 0.0
    for i in range(8):
        total = 0.0
        for k in range(K):
            mine = (labels == k) & (np.arange(8) != i)
            if mine.any():
                with_prior = weights[mine] + 0.5
                points = (weights[mine, None] * x[mine] + 0.5) / with_prior[:, None]
                rate = np.average(points, axis=0, weights=with_prior)
                share = weights[mine].sum() / (weights.sum() - weights[i])
                total += share * np.exp(stats.poisson(rate).logpmf(x[i]).sum())
        expected += weights[i] * np.log(total)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_a_row_of_nearly_all_weight():
    """What the others weigh is no difference from the whole."""
    x = np.array([[0.0], [3.0]])
    weights = np.array([1e17, 1.0])
    got = leave_one_out_log_likelihood(
        Problem(x, family="ward", weights=weights), [[0, 1]], num_clusters=2
    )
    each = stats.norm(0, 1).logpdf(3)
    np.testing.assert_allclose(got, (1e17 + 1) * each, rtol=1e-12)


def test_float32(rng):
    """Under a user's own jit: as float64 to single precision."""
    for name in ("gaussian", "poisson"):
        problem, _, _ = case_of(name, rng)
        tree = agglomerate(problem)
        likelihood = functools.partial(leave_one_out_log_likelihood, num_clusters=K)
        with jax.enable_x64(False):
            got = jax.jit(likelihood)(problem, tree)
        assert got.dtype == np.float32
        expected = likelihood(problem, tree)
        np.testing.assert_allclose(got, expected, rtol=2e-5)


def test_supervised_losses_by_hand():
    """Two clusters of two: each row is told by the other row of its cluster."""
    hard = np.repeat(np.eye(2), 2, axis=0)
    labels = np.array([0, 0, 1, 1])
    loss = classification_loss(hard, labels, num_classes=2, pseudo_count=1.0)
    np.testing.assert_allclose(loss, -np.log((1 + 0.5) / (1 + 1)), rtol=1e-14)
    alone = classification_loss(np.eye(4), labels, num_classes=2)
    np.testing.assert_allclose(alone, np.log(2), rtol=1e-14)
    # F = Y centered and scaled to ±1: A = ½/(1 + λ), and 1 − 1/(1 + λ) is left.
    feature = np.array([[0.0], [0.0], [5.0], [5.0]])
    loss = ridge_loss(feature, labels, num_classes=2, ridge=0.25)
    np.testing.assert_allclose(loss, 1 - 1 / 1.25, rtol=1e-14)
    constant = ridge_loss(np.ones((4, 1)), labels, num_classes=2)
    np.testing.assert_allclose(constant, 1)
    slope = jax.grad(lambda f: ridge_loss(f, labels, num_classes=2))(jnp.ones((4, 2)))
    assert np.all(np.isfinite(slope))


def test_temperatures(rng):
    problem = Problem(rng.normal(size=(M, D)), family="gaussian")
    tree = agglomerate(problem)
    shares = lambda t: soft_assignments(problem, tree, num_clusters=K, temperature=t)
    np.testing.assert_allclose(shares(1e-6).max(1), 1)
    np.testing.assert_array_equal(shares(1e-6).argmax(1), shares(1.0).argmax(1))
    np.testing.assert_allclose(shares(1e9), 1 / K, rtol=1e-6)


def test_prediction_by_likelihood(rng):
    """Between rates 2 and 20 the boundary is 18/ln 10 = 7.817."""
    del rng
    problem = Problem([[2.0], [20.0]], family="poisson")
    tree = agglomerate(problem)
    shares = soft_assignments(problem, tree, [[7.0], [8.0]], num_clusters=2)
    np.testing.assert_array_equal(shares.argmax(1), [0, 1])


def test_errors(rng):
    x = rng.poisson(2, size=(6, 2)).astype(float)
    problem = Problem(x, family="poisson")
    tree = agglomerate(problem)
    assign = functools.partial(soft_assignments, problem, tree, num_clusters=2)
    with pytest.raises(ValueError, match="`rows` must be non-negative.*row 0, column"):
        assign(-x - 1)
    with pytest.raises(ValueError, match="`rows` must have 2 columns"):
        assign(np.ones((3, 5)))
    with pytest.raises(ValueError, match="`num_features` must be from 1 to 5"):
        dendrogram_features(problem, tree, num_features=6)
    with pytest.raises(ValueError, match="`temperature` must be positive"):
        assign(temperature=0)
    with pytest.raises(ValueError, match="`num_clusters` must be from 1 to 6"):
        leave_one_out_log_likelihood(problem, tree, num_clusters=7)
    with pytest.raises(ValueError, match="`rows` must have a row a point.*rows.None"):
        assign(x[0])
    with pytest.raises(ValueError, match="`rows` must have at least one row"):
        assign(x[:0])
    unsmoothed = Problem(x, family="gaussian", smoothing=None)
    with pytest.raises(ValueError, match="`x` has 6 of 6 rows, unsmoothed, without"):
        soft_assignments(unsmoothed, tree, num_clusters=2)
    with pytest.raises(ValueError, match="`x` has 6 of 6 rows"):
        dendrogram_features(unsmoothed, tree, x, num_features=2)
    # A number that is no integer is refused, and spoils nothing for one that is.
    half: Any = 2.0
    with pytest.raises(TypeError, match="whole number"):
        cut_cost(problem, tree, num_clusters=half)
    with pytest.raises(TypeError, match="whole number"):
        leave_one_out_log_likelihood(problem, tree, num_clusters=half)
    leave_one_out_log_likelihood(problem, tree, num_clusters=2)
    with pytest.raises(ValueError, match="must be integers from 0 to 1; got 2"):
        classification_loss(np.eye(2), np.array([1, 2]), num_classes=2)
    with pytest.raises(ValueError, match="two classes at least"):
        ridge_loss(np.eye(2), np.array([1, 1]), num_classes=2)
    with pytest.raises(ValueError, match="two rows at least"):
        leave_one_out_log_likelihood(
            Problem(x[:1], family="poisson"), np.zeros((0, 2), int), num_clusters=1
        )


def test_rows_that_no_cluster_can_have_made(x64):
    x = np.array([[0, 3], [0, 2], [5, 0], [4, 0]])
    problem = Problem(x, family="poisson")
    tree = agglomerate(problem)

    def likelihood(x, row):
        moved = problem.replace(x=x)
        return held_out_log_likelihood(moved, tree, row[None], num_clusters=2)

    # One cluster has a rate of 0 where the row has a count: the other tells.
    some, none = jnp.array([0.0, 2.0]), jnp.array([1.0, 1.0])
    slope = jax.grad(likelihood)(jnp.asarray(x, float), some)
    assert np.all(np.isfinite(slope))
    step = 1e-6 * np.eye(4)[:, :1] * [0, 1]
    ends = [likelihood(x + 0.0 + sign * step, some) for sign in (1, -1)]
    np.testing.assert_allclose(slope[0, 1], (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
    # None can have made it: −inf, and any rate of 0 would have to rise.
    assert likelihood(x, none) == -np.inf
    slope = jax.grad(likelihood)(jnp.asarray(x, float), none)
    assert not np.any(np.isnan(slope))
    np.testing.assert_array_equal(slope[:, 0] == np.inf, [True, True, False, False])

"""Hard clustering and EM: against scikit-learn, NumPy and brute force; monotone."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
import sklearn.cluster
import sklearn.exceptions
import sklearn.mixture
from cluster_states import every_family
from scipy import special
from test_assignment_costs import problem_of

import bregjax as bj
from bregjax import (
    Problem,
    Result,
    agglomerate,
    cluster_cost,
    extend,
    hard_clustering,
    soft_clustering,
)
from bregjax.convex import MaxNorm
from bregjax.objectives import cut_cost, held_out_log_likelihood
from bregjax.partition import HardClustering

stats: Any = scipy.stats  # its stubs do not know frozen distributions
logsumexp: Any = special.logsumexp
KMeans: Any = sklearn.cluster.KMeans
GaussianMixture: Any = sklearn.mixture.GaussianMixture

# EM on small tables, of rows that coincide or with kernels wider than the clusters.
pytestmark = pytest.mark.filterwarnings("ignore:.* the likeliest of no row")

M, K = 16, 3


def blobs(rng, count=60, dim=2, scale=3.0):
    centers = scale * rng.normal(size=(4, dim))
    return centers[np.arange(count) % 4] + rng.normal(size=(count, dim))


def not_decreasing(values, size):
    """Up to rounding of numbers of that size."""
    return np.all(np.diff(values) >= -1e-11 * size)


# --- Against others ------------------------------------------------------------------


def test_hard_clustering_is_k_means(rng):
    x, weights = blobs(rng), rng.uniform(0.5, 2, 60)
    start = rng.integers(0, K, 60)
    centers = [np.average(x[start == k], 0, weights[start == k]) for k in range(K)]
    expected = KMeans(
        K, init=np.array(centers), n_init=1, tol=0, algorithm="lloyd"
    ).fit(x, sample_weight=weights)
    family = bj.SphericalGaussian(variance=0.7)
    problem = Problem(x, family=family, weights=weights)
    found = hard_clustering(problem, init=start)
    np.testing.assert_array_equal(found.labels, expected.labels_)
    inertia = expected.inertia_ / (2 * 0.7)
    np.testing.assert_allclose(found.objective[-1], inertia, rtol=1e-12)
    np.testing.assert_allclose(found.states.mean, expected.cluster_centers_, rtol=1e-12)
    np.testing.assert_allclose(found.costs.sum(), found.objective[-1], rtol=1e-12)
    rows = blobs(rng)
    np.testing.assert_array_equal(found.assign(rows), expected.predict(rows))
    assert found.result is Result.CONVERGED


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_em_is_that_of_scikit_learn(kind, rng):
    """With a bandwidth of nearly 0, from one start: `reg_covar` is its square."""
    x, h, steps = blobs(rng, count=80), 1e-4, 12
    start = rng.dirichlet(np.ones(K), 80)
    first = moments_by_hand(x, start, h)
    keep = {
        "full": lambda s: s,
        "diag": lambda s: np.diagonal(s, axis1=1, axis2=2),
        "spherical": lambda s: np.trace(s, axis1=1, axis2=2) / 2,
    }[kind]
    invert = np.linalg.inv if kind == "full" else np.reciprocal
    mixture = GaussianMixture(
        K,
        covariance_type=kind,
        tol=0,
        reg_covar=h**2,
        max_iter=steps,
        weights_init=start.mean(0),
        means_init=first[0],
        precisions_init=invert(keep(first[1])),
    )
    with pytest.warns(sklearn.exceptions.ConvergenceWarning):
        mixture.fit(x)
    family = {
        "full": bj.Gaussian(),
        "diag": bj.DiagonalGaussian(),
        "spherical": bj.IsotropicGaussian(),
    }[kind]
    problem = Problem(x, family=family, smoothing=bj.blur(h))
    found = soft_clustering(problem, init=start, tolerance=0, max_steps=steps)
    assert found.result is Result.STEP_LIMIT
    moments = found.states.moments
    # Scores differ by ½ tr(Σ⁻¹H), here of the order of h² = 1e-8.
    near: dict[str, Any] = {"rtol": 1e-5}
    np.testing.assert_allclose(found.shares, mixture.weights_, **near)
    np.testing.assert_allclose(moments.mean, mixture.means_, **near)
    np.testing.assert_allclose(
        moments.covariance, mixture.covariances_, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(found.log_likelihood(), 80 * mixture.score(x), **near)
    rows = blobs(rng)
    np.testing.assert_allclose(
        found.assign(rows), mixture.predict_proba(rows), atol=1e-5
    )


def moments_by_hand(x, shares, h):
    mean = (shares / shares.sum(0)).T @ x
    gap = x[:, None] - mean[None]
    share = shares / shares.sum(0)
    covariance = np.einsum("ik,ika,ikb->kab", share, gap, gap)
    return mean, covariance + h**2 * np.eye(x.shape[1])


def test_em_of_blurred_points_by_hand(rng):
    """At any bandwidth the score is that of kernels, and F as the docstring has it."""
    x, h, w = blobs(rng, count=30), 0.8, rng.uniform(0.5, 2, 30)
    start = rng.dirichlet(np.ones(K), 30)
    shares, objectives, covariance = start, [], np.eye(2)
    for _ in range(6):
        mass = w[:, None] * shares
        mean, covariance = moments_by_hand(x, mass, h)
        log_share = np.log(mass.sum(0) / w.sum())
        precision = np.linalg.inv(covariance)
        score = np.stack(
            [
                stats.multivariate_normal(mean[k], covariance[k]).logpdf(x)
                - 0.5 * h**2 * np.trace(precision[k])
                for k in range(K)
            ],
            axis=1,
        )
        # ψ*(τ_i) and log h: minus the mean log-density of a kernel under itself.
        own = -0.5 * (2 * np.log(2 * np.pi * h**2) + 2)
        total = logsumexp(log_share + score - own, axis=1)
        objectives.append(w @ total)
        shares = np.exp(log_share + score - own - total[:, None])
    problem = Problem(x, family="gaussian", smoothing=bj.blur(h), weights=w)
    found = soft_clustering(problem, init=start, tolerance=0, max_steps=5)
    np.testing.assert_allclose(found.objective, objectives, rtol=1e-10)
    np.testing.assert_allclose(found.responsibilities, shares, atol=1e-10)
    np.testing.assert_allclose(found.states.moments.covariance, covariance, rtol=1e-9)


def counts_of(name, rng):
    rates = np.array([[9.0, 2, 3], [2, 9, 3], [3, 2, 9]])[np.arange(40) % 3]
    x = rng.poisson(rates).astype(float)
    x[0, 1] = 0
    return x + (np.eye(3)[np.arange(40) % 3] if name == "multinomial" else 0)


@pytest.mark.parametrize("name", ["poisson", "multinomial"])
@pytest.mark.parametrize("smoothed", [False, True])
def test_em_of_counts_by_hand(name, smoothed, rng):
    """With weights, and with pseudo-counts that come once a row."""
    x, w = counts_of(name, rng), rng.uniform(0.5, 2, 40)
    start = rng.dirichlet(np.ones(K), 40)
    center = np.full(3, 1 / 3) if name == "multinomial" else np.array([4.0, 5, 6])
    t = x / x.sum(1, keepdims=True) if name == "multinomial" else x
    extra = 0.7 if smoothed else 0.0
    v = w + extra
    t = (w[:, None] * t + extra * center) / v[:, None]
    shares, objectives, mean = start, [], center
    for _ in range(8):
        mass = v[:, None] * shares
        mean = mass.T @ t / mass.sum(0)[:, None]
        log_share = np.log((w @ shares) / w.sum())
        score = special.xlogy(t[:, None], mean[None]).sum(-1)
        own = special.xlogy(t, t).sum(-1)
        if name == "poisson":
            score, own = score - mean.sum(-1), own - t.sum(-1)
        each = log_share + (v / w)[:, None] * (score - own[:, None])
        total = logsumexp(each, axis=1)
        shares = np.exp(each - total[:, None])
        objectives.append(w @ total)
    smoothing = bj.pseudo_count(center, extra) if smoothed else None
    problem = Problem(x, family=name, smoothing=smoothing, weights=w)
    found = soft_clustering(problem, init=start, tolerance=0, max_steps=7)
    np.testing.assert_allclose(found.objective, objectives, rtol=1e-11)
    np.testing.assert_allclose(found.responsibilities, shares, atol=1e-11)
    np.testing.assert_allclose(found.states.mean, mean, rtol=1e-11)
    if not smoothed:
        np.testing.assert_allclose(found.assign(), shares, atol=1e-11)
        if name == "poisson":
            base = stats.poisson(x).logpmf(x).sum(-1)
            likelihood = found.objective[-1] + w @ base
            np.testing.assert_allclose(found.log_likelihood(), likelihood, rtol=1e-11)


# --- Every family --------------------------------------------------------------------


@every_family
def test_objectives_never_get_worse(name):
    rng = np.random.default_rng(6)
    weights = rng.uniform(0.5, 2, M)
    problem = problem_of(name, rng, M, weights)
    start = rng.permutation(np.arange(M) % K)
    hard = hard_clustering(problem, init=start)
    assert hard.result is Result.CONVERGED
    assert np.all(np.diff(hard.objective) < 0)
    expected = [cluster_cost(problem, hard.labels == k) for k in range(K)]
    np.testing.assert_allclose(hard.costs, expected, rtol=1e-8, atol=1e-12)
    np.testing.assert_array_equal(hard.assign(), hard.labels)
    soft = soft_clustering(problem, init=start, max_steps=15, tolerance=0)
    assert soft.result is not Result.STALLED
    assert not_decreasing(soft.objective, abs(soft.objective[0]))
    assert np.all(np.diff(soft.objective[:3]) > 0)
    np.testing.assert_allclose(soft.responsibilities.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(soft.weights.sum(), weights.sum(), rtol=1e-12)
    # Assigning shares instead of rows costs no more than the rows' own costs do.
    entropy = -weights @ np.log(hard.shares[hard.labels])
    started = soft_clustering(problem, init=hard.labels, max_steps=1)
    assert started.objective[0] >= -(hard.objective[-1] + entropy) - 1e-9


def test_one_cluster_and_a_cluster_each(rng):
    problem = Problem(blobs(rng, count=9), family="gaussian")
    one = hard_clustering(problem, init=np.zeros(9, int))
    np.testing.assert_allclose(one.objective, [cluster_cost(problem)], rtol=1e-12)
    soft = soft_clustering(problem, init=np.zeros(9, int))
    np.testing.assert_allclose(soft.objective[-1], -one.objective[-1], rtol=1e-12)
    each = hard_clustering(problem, num_clusters=9, key=1)
    np.testing.assert_array_equal(np.sort(each.labels), np.arange(9))
    np.testing.assert_allclose(each.objective[-1], 0, atol=1e-12)
    fuzzy = soft_clustering(problem, init=np.arange(9), tolerance=0, max_steps=20)
    assert not_decreasing(fuzzy.objective, abs(fuzzy.objective[0]))


@pytest.mark.parametrize("bandwidth", [1e-7, 1e-3, 1e6])
def test_bandwidths_of_any_size(bandwidth, rng):
    """Narrow ones by roots of covariances; wide ones by remainders: same digits."""
    problem = Problem(blobs(rng), family="gaussian", smoothing=bj.blur(bandwidth))
    found = hard_clustering(problem, init=rng.integers(0, K, 60))
    expected = sum(cluster_cost(problem, found.labels == k) for k in range(K))
    np.testing.assert_allclose(found.objective[-1], expected, rtol=1e-11)
    assert np.all(np.diff(found.objective) < 0)
    soft = soft_clustering(problem, init=found.labels, tolerance=0, max_steps=30)
    assert not_decreasing(soft.objective, abs(soft.objective[0]))


@pytest.mark.parametrize(("shift", "unit"), [(1e6, 1.0), (0.0, 1e-6), (0.0, 1e6)])
def test_offsets_and_units_change_nothing(shift, unit, rng):
    x, start = blobs(rng), rng.integers(0, K, 60)
    plain = Problem(x, family="gaussian", smoothing=bj.blur(0.5))
    moved = Problem(
        unit * (x + shift), family="gaussian", smoothing=bj.blur(0.5 * unit)
    )
    one, two = (hard_clustering(p, init=start) for p in (plain, moved))
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_allclose(one.objective, two.objective, rtol=1e-9)
    one, two = (soft_clustering(p, init=start) for p in (plain, moved))
    np.testing.assert_allclose(one.objective, two.objective, rtol=1e-9)


def test_in_single_precision(rng, monkeypatch):
    """As on a GPU: float32 to its rounding, and no fall that is none."""
    x, start = blobs(rng), rng.integers(0, K, 60)
    problems = [
        Problem(x, family="gaussian"),
        Problem(np.round(abs(x)), family="poisson"),
    ]
    exact = [
        [fit(p, init=start) for fit in (hard_clustering, soft_clustering)]
        for p in problems
    ]
    monkeypatch.setattr("bregjax._evaluation.works_in_double", lambda tree: False)
    for problem, (hard, soft) in zip(problems, exact, strict=True):
        found = hard_clustering(problem, init=start)
        assert found.costs.dtype == np.float32
        np.testing.assert_array_equal(found.labels, hard.labels)
        np.testing.assert_allclose(found.objective[-1], hard.objective[-1], rtol=1e-5)
        found = soft_clustering(problem, init=start)
        assert found.result is Result.CONVERGED
        np.testing.assert_allclose(found.objective[-1], soft.objective[-1], rtol=1e-4)


# --- Empty clusters, duplicates, weights, order ---------------------------------------


def test_a_step_by_hand():
    """Means 4.5, 5 and 52.5: rows 1 and 3 cost less under the second."""
    problem = Problem([[0.0], [9.0], [5.0], [5.0], [100.0]], family="ward")
    found = hard_clustering(problem, init=[0, 0, 1, 2, 2], max_steps=1)
    np.testing.assert_array_equal(found.labels, [0, 1, 1, 1, 2])
    np.testing.assert_allclose(found.objective, [2 * 4.5**2 / 2 + 47.5**2, 32 / 6])


def test_an_empty_cluster_takes_the_row_that_costs_most():
    """Means 50, 50.1 and 49.9: nothing is nearest to the first.

    Row 0 goes to 49.9 and row 1 to 50.1, at 49.9²/2 each; the first of the two goes
    back.
    """
    problem = Problem([[0.0], [100.0], [50.1], [49.9]], family="ward")
    start = [0, 0, 1, 2]
    found = hard_clustering(problem, init=start, max_steps=1)
    np.testing.assert_array_equal(found.labels, [0, 1, 1, 2])
    np.testing.assert_allclose(found.objective, [2500, 49.9**2 / 4])
    assert hard_clustering(problem, init=start).result is Result.CONVERGED


def test_more_clusters_than_distinct_rows():
    x = np.repeat([[0.0, 1.0], [3.0, 0.0], [8.0, 8.0]], 3, axis=0)
    for family in ("poisson", "gaussian"):
        problem = Problem(x, family=family)
        for seeding in ("divergence", "random"):
            found = hard_clustering(problem, num_clusters=7, init=seeding, key=2)
            np.testing.assert_array_equal(np.unique(found.labels), np.arange(7))
        np.testing.assert_array_equal(
            np.unique(hard_clustering(problem, num_clusters=9, key=2).labels),
            np.arange(9),
        )
        tree = agglomerate(problem)
        found = hard_clustering(problem, num_clusters=5, init=tree)
        np.testing.assert_allclose(found.objective[-1], 0, atol=1e-12)
        soft = soft_clustering(problem, num_clusters=5, init=tree)
        assert np.all(np.isfinite(soft.responsibilities))


@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_weights_are_copies_and_order_is_nothing(name, rng):
    x = np.round(np.abs(blobs(rng, count=20)))
    copies = rng.integers(1, 4, 20)
    start = rng.permutation(np.arange(20) % K)
    options: dict[str, Any] = {"family": name}
    if name == "gaussian":
        options["smoothing"] = bj.blur(0.6)
    weighted = Problem(x, weights=copies, **options)
    repeated = Problem(np.repeat(x, copies, axis=0), **options)
    order = rng.permutation(20)
    moved = Problem(x[order], weights=copies[order], **options)
    for fit in (hard_clustering, soft_clustering):
        one = fit(weighted, init=start)
        two = fit(repeated, init=np.repeat(start, copies))
        three = fit(moved, init=start[order])
        np.testing.assert_array_equal(np.repeat(one.labels, copies), two.labels)
        np.testing.assert_array_equal(one.labels[order], three.labels)
        for other in (two, three):
            size = min(len(one.objective), len(other.objective))
            np.testing.assert_allclose(
                one.objective[:size], other.objective[:size], rtol=1e-9
            )
            np.testing.assert_allclose(one.weights, other.weights, rtol=1e-6)


# --- Zeros ---------------------------------------------------------------------------


def test_zeros_stay_and_nothing_is_nan():
    """A cluster of zeros has no part in rows with counts, from the first step on."""
    x = np.array([[0, 3], [0, 4], [5, 0], [4, 1], [0, 9]])
    problem = Problem(x, family="poisson")
    found = soft_clustering(problem, init=[0, 0, 1, 1, 0], tolerance=0)
    np.testing.assert_array_equal(found.responsibilities[2:4, 0], 0)
    assert np.all(np.isfinite(found.objective))
    np.testing.assert_array_equal(found.responsibilities.sum(1), 1)


def test_a_cluster_that_dies_keeps_a_weight_of_zero():
    """All of its rows are so unlikely there that their shares are 0 in float64."""
    x = np.array([[0.0], [1.0], [1000.0], [1001.0]])
    shares = np.array([[1.0, 0, 1e-300], [1, 0, 0], [0, 1, 0], [0, 1, 0]])
    found = soft_clustering(Problem(x, family="ward"), init=shares, tolerance=0)
    assert np.all(np.isfinite(found.objective))
    assert not_decreasing(found.objective, 1.0)
    tiny = shares.copy()
    tiny[0, 2] = 5e-324
    problem = Problem(x, family="ward", weights=[0.1, 1, 1, 1])
    found = soft_clustering(problem, init=tiny, tolerance=0)
    assert found.weights[2] == 0
    np.testing.assert_array_equal(found.responsibilities[:, 2], 0)
    assert np.all(np.isfinite(found.objective))
    assert np.isfinite(found.log_likelihood())
    assert np.all(np.isfinite(found.assign(x)))


# --- Starts --------------------------------------------------------------------------


def test_a_tree_is_a_start(rng):
    problem = Problem(blobs(rng), family="diagonal_gaussian")
    tree = agglomerate(problem)
    found = hard_clustering(problem, num_clusters=4, init=tree)
    expected = cut_cost(problem, tree, num_clusters=4)
    np.testing.assert_allclose(found.objective[0], expected, rtol=1e-10)
    again = hard_clustering(problem, init=tree.cut(4))
    np.testing.assert_array_equal(found.labels, again.labels)
    rows = blobs(rng)[:5]
    still = hard_clustering(problem, init=tree.cut(1))
    likelihood = held_out_log_likelihood(problem, tree, rows, num_clusters=1)
    np.testing.assert_allclose(still.log_likelihood(rows), likelihood, rtol=1e-12)
    soft = soft_clustering(problem, num_clusters=4, init=tree, max_steps=3)
    shares = np.eye(4)[tree.cut(4)]
    np.testing.assert_array_equal(
        soft.objective, soft_clustering(problem, init=shares, max_steps=3).objective
    )


def test_seeds_are_drawn_by_cost_and_by_key(rng):
    x = np.repeat([[0.0], [10.0], [500.0]], [40, 40, 1], axis=0) + rng.uniform(
        size=(81, 1)
    )
    problem = Problem(x, family="ward")
    by_cost, by_weight = 0, 0
    for key in range(20):
        fit = lambda init, key=key: hard_clustering(
            problem, num_clusters=2, init=init, key=key, max_steps=1
        ).objective[0]
        # The lone row is a seed with a probability of nearly 1, or of about 1/40.
        by_cost += fit("divergence") < 3e3
        by_weight += fit("random") < 3e3
    assert by_cost >= 19
    assert by_weight <= 4
    one, two, three = (
        hard_clustering(problem, num_clusters=5, key=key).objective[0]
        for key in (7, jax.random.key(7), 8)
    )
    assert one == two != three


def test_seeds_leave_em_free():
    """A tenth of each row is everywhere, so that no count is ruled out by chance."""
    x = np.array([[3.0, 0], [4, 0], [0, 3], [0, 5], [2, 2]])
    problem = Problem(x, family="poisson")
    start = soft_clustering(problem, num_clusters=2, key=0, max_steps=1)
    assert np.all(start.states.mean > 0)
    by_labels = soft_clustering(problem, init=[0, 0, 1, 1, 1], max_steps=1)
    assert by_labels.states.mean[0, 1] == 0


def test_seeds_of_counts_with_zeros(rng):
    """Divergences from single rows are infinite there; costs of merges are not."""
    rates = np.where(rng.uniform(size=(4, 12)) < 0.5, 0.2, 6.0)
    kind = np.arange(80) % 4
    problem = Problem(rng.poisson(rates[kind]), family="poisson")
    found = [hard_clustering(problem, num_clusters=4, key=key) for key in range(4)]
    best = min(float(one.objective[-1]) for one in found)
    truth = hard_clustering(problem, init=kind).objective[-1]
    assert best <= 1.02 * truth


# --- Clusters of one's own ------------------------------------------------------------


@extend.register_pytree
@dataclass(frozen=True)
class LineSums:
    """Sums of z zᵀ, z y and y² over points (z, y), `[k, ...]`."""

    weight: jax.Array
    gram: jax.Array
    cross: jax.Array
    square: jax.Array


@extend.register_pytree
@dataclass(frozen=True)
class LineModel(extend.ClusterModel):
    """Clusters by their ridge regressions, without methods of their own for EM."""

    ridge: jax.Array | float = 1e-3

    def leaves(self, statistics, weights):
        z, y = statistics
        gram = weights[:, None, None] * z[:, :, None] * z[:, None]
        return LineSums(weights, gram, (weights * y)[:, None] * z, weights * y**2)

    def pool(self, a, b):
        return jax.tree.map(jnp.add, a, b)

    def loss(self, state):
        eye = self.ridge * jnp.eye(state.gram.shape[-1])
        gram = state.gram + state.weight[..., None, None] * eye
        fit = jnp.linalg.solve(gram, state.cross[..., None])[..., 0]
        return state.square - jnp.sum(fit * state.cross, axis=-1)

    def cost(self, a, b, union):
        return jnp.maximum(self.loss(union) - self.loss(a) - self.loss(b), 0)

    def result(self, state):
        return jnp.full(state.weight.shape, Result.CONVERGED, jnp.int32)


@extend.register_pytree
@dataclass(frozen=True)
class Lines(extend.Geometry):
    """Rows (feature, response) as points of lines."""

    def leaf_statistics(self, x):
        ones = jnp.ones((x.shape[0], 1))
        return jnp.concatenate([ones, x[:, :-1]], axis=1), x[:, -1]

    def cluster_model(self):
        return LineModel()

    def density_parameters(self, clusters):
        return clusters

    def log_densities(self, row, parameters):
        raise NotImplementedError


def test_a_cluster_model_without_means(rng):
    """Two lines that cross, which no means tell apart, by merge costs alone."""
    line = rng.uniform(-2, 2, 40)
    kind = np.arange(40) // 20
    y = np.where(kind == 0, 1 + 2 * line, 3 - line) + 0.05 * rng.normal(size=40)
    with jax.numpy_rank_promotion("allow"):
        problem = Problem(np.column_stack([line, y]), family=Lines())
        start = np.where(rng.uniform(size=40) < 0.25, 1 - kind, kind)
        hard = hard_clustering(problem, init=start)
        soft = soft_clustering(problem, init=start, max_steps=20)
        expected = [cluster_cost(problem, hard.labels == k) for k in range(2)]
    assert np.mean(hard.labels == kind) > 0.9
    assert np.all(np.diff(hard.objective) < 0)
    # The model subtracts losses of 2²⁶ times the weight: 1e-8 of it is left.
    np.testing.assert_allclose(hard.costs, expected, rtol=1e-3)
    assert not_decreasing(soft.objective, 1e4 * abs(soft.objective[0]))


def test_functions_with_kinks_say_where_means_are_not_best():
    """Of max |x_i| averages are not the best centers, and a step may cost more."""
    rng = np.random.default_rng(133)
    x = rng.integers(-4, 5, size=(12, 2)).astype(float)
    start = rng.permutation(np.arange(12) % K)
    problem = Problem(x, family=MaxNorm(), smoothing=None)
    found = hard_clustering(problem, init=start)
    assert found.result is Result.STALLED
    np.testing.assert_array_equal(found.labels, start)
    divergence = jax.vmap(
        jax.vmap(lambda a, b: bj.bregman_divergence(MaxNorm(), a, b), (None, 0)),
        (0, None),
    )
    center = np.array([x[start == k].mean(0) for k in range(K)])
    costs = np.asarray(divergence(x, center))
    before = costs[np.arange(12), start].sum()
    np.testing.assert_allclose(found.objective, [before], rtol=1e-6)
    moved = np.where(costs.min(1) < costs[np.arange(12), start], costs.argmin(1), start)
    center = np.array([x[moved == k].mean(0) for k in range(K)])
    after = np.asarray(divergence(x, center))[np.arange(12), moved].sum()
    assert after > before + 0.1


# --- Results and errors --------------------------------------------------------------


def test_results_are_pytrees(rng):
    problem = Problem(blobs(rng, count=20), family="gaussian")
    found = hard_clustering(problem, num_clusters=K, key=0)
    same = jax.tree.map(lambda leaf: leaf, found)
    assert isinstance(same, HardClustering)
    assert same.result is found.result
    np.testing.assert_array_equal(same.assign(), found.assign())
    assert repr(found).startswith("CONVERGED after ")
    assert found.num_steps == len(found.objective) - 1
    soft = soft_clustering(problem, init=found.labels)
    rows = jnp.asarray(problem.x[:3], jnp.float32)
    traced = jax.jit(lambda rows: soft.assign(rows))(rows)
    np.testing.assert_allclose(traced, soft.assign(rows), atol=1e-4)
    slope = jax.grad(lambda rows: soft.log_likelihood(rows))(rows)
    assert np.all(np.isfinite(slope))


def test_a_bar_of_the_steps(rng, capsys):
    problem = Problem(blobs(rng, count=20), family="ward")
    start = np.arange(20) % K
    for fit in (hard_clustering, soft_clustering):
        found = fit(problem, init=start, max_steps=2, progress=True)
        assert found.num_steps <= 2
        assert "step" in capsys.readouterr().err


def test_problems_of_one_size_compile_once(rng, caplog):
    compiled = []
    for count in (61, 64, 62):
        caplog.clear()
        problem = Problem(blobs(rng, count=count), family="gaussian")
        with jax.log_compiles(True):
            hard_clustering(problem, num_clusters=K, key=0)
            soft_clustering(problem, num_clusters=K, key=0, max_steps=30)
        messages = [record.getMessage() for record in caplog.records]
        compiled.append([m for m in messages if "XLA compilation" in m])
    assert compiled[0]
    assert not [m for m in compiled[2] if "jit(_" in m]


def test_errors(rng):
    x = blobs(rng, count=12)
    problem = Problem(x, family="gaussian")
    tree = agglomerate(problem)
    for fit in (hard_clustering, soft_clustering):
        with pytest.raises(
            ValueError, match="`num_clusters` must be given with a tree"
        ):
            fit(problem, init=tree)
        with pytest.raises(ValueError, match="`num_clusters` must be from 1 to 12"):
            fit(problem, num_clusters=13, key=0)
        with pytest.raises(ValueError, match="`key` must be given.*agglomerate"):
            fit(problem, num_clusters=2)
        with pytest.raises(ValueError, match="`init` must be a tree, labels or one of"):
            fit(problem, num_clusters=2, init="kmeans")
        with pytest.raises(
            ValueError, match="a label for each of the 12 rows.*float64"
        ):
            fit(problem, init=np.zeros(12))
        with pytest.raises(ValueError, match="each of the labels from 0 to 3.*gaps"):
            fit(problem, init=np.arange(12) % 2 * 3)
        with pytest.raises(ValueError, match="labels from 0 to 1; got .-1"):
            fit(problem, init=np.arange(12) % 3 - 1)
        with pytest.raises(
            ValueError, match="labels from 0 to 2; got .0 1..*leave `num_clus"
        ):
            fit(problem, init=np.arange(12) % 2, num_clusters=3)
        with pytest.raises(ValueError, match="`max_steps` must be from 1"):
            fit(problem, num_clusters=2, key=0, max_steps=0)
        other = problem.replace(smoothing=bj.blur(1e-2))
        with pytest.raises(ValueError, match="merge costs of another problem"):
            fit(other, num_clusters=2, init=tree)
        with pytest.raises(ValueError, match="`x` has 12 of 12 rows, unsmoothed"):
            fit(problem.replace(smoothing=None), num_clusters=2, key=0)
        with pytest.raises(TypeError, match="loops on the host: call it outside jit"):
            jax.jit(lambda p, fit=fit: fit(p, num_clusters=2, key=0).weights)(problem)
        with pytest.raises(TypeError, match="`problem` must be a Problem"):
            fit(x, num_clusters=2, key=0)
        found = fit(problem, num_clusters=2, init=tree)
        with pytest.raises(ValueError, match="`rows` must have 2 columns"):
            found.assign(np.ones((3, 5)))
    with pytest.raises(ValueError, match="`tolerance` must not be negative; got -1"):
        soft_clustering(problem, init=np.arange(12) % 2, tolerance=-1.0)
    shares = np.full((12, 2), 0.5)
    with pytest.raises(ValueError, match="for each of the 12 rows; got shape .11, 2."):
        soft_clustering(problem, init=shares[1:])
    with pytest.raises(ValueError, match="`num_clusters` must be 2, the number of col"):
        soft_clustering(problem, init=shares, num_clusters=3)
    with pytest.raises(ValueError, match="add up to 1 a row; got .0.7 0.5. at row 3"):
        soft_clustering(problem, init=shares + 0.2 * np.eye(12)[3, :, None] * [1, 0])
    with pytest.raises(ValueError, match="0 throughout in column 1"):
        soft_clustering(problem, init=np.eye(2)[np.zeros(12, int)])
    with pytest.raises(ValueError, match="shape .12, 2."):
        hard_clustering(problem, init=shares)

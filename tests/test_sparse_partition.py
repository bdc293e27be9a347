"""Partitions and random trees of sparse rows, as of dense ones and scikit-learn."""

import tracemalloc
from typing import Any

import jax
import numpy as np
import pytest
import scipy.sparse
import scipy.stats
import sklearn.cluster
from sparse_cases import PROBLEMS, M, at_entries, counts, reals, rows_for, twins

from bregjax import (
    Problem,
    Result,
    _evaluation,
    agglomerate,
    hard_clustering,
    sample_tree,
    sequence_log_prob,
    soft_clustering,
)
from bregjax._evaluation import working
from bregjax.partition._points import points_of
from bregjax.smoothing import adding, bernstein, pseudo_count

KMeans: Any = sklearn.cluster.KMeans
stats: Any = scipy.stats  # its stubs do not know frozen distributions

# EM on small tables, of rows that coincide or with kernels wider than the clusters.
pytestmark = pytest.mark.filterwarnings("ignore:.* the likeliest of no row")
Close = np.testing.assert_allclose
K = 3


def text(rng, num_rows=400, num_words=3000, length=30, num_topics=4) -> Any:
    """Counts of words of topics, and the topics."""
    topics = rng.dirichlet(np.full(num_words, 0.02), num_topics)
    topic = np.arange(num_rows) % num_topics
    rows = [rng.multinomial(length, topics[t]) for t in topic]
    return scipy.sparse.csr_array(np.array(rows, float)), topic


@pytest.mark.parametrize(("family", "smoothing", "weights"), PROBLEMS)
def test_partitions_are_those_of_dense_rows(family, smoothing, weights, rng):
    problem, dense = twins(reals(), family, smoothing, weights)
    rows = rows_for(family, reals())[::-1][:5]
    new = scipy.sparse.csc_array(rows)
    found, expected = (
        hard_clustering(p, init=np.arange(M) % K) for p in (problem, dense)
    )
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_array_equal(found.assign(new), expected.assign(rows))
    for name in ("objective", "costs"):
        Close(getattr(found, name), getattr(expected, name), rtol=1e-11, atol=1e-14)
    assert found.result is expected.result
    Close(found.states.mean, expected.states.mean, rtol=1e-13)
    Close(found.states.weight, expected.states.weight, rtol=1e-13)
    Close(found.log_likelihood(), expected.log_likelihood(), rtol=1e-12)
    shares = rng.dirichlet(np.ones(K), M)
    found, expected = (
        soft_clustering(p, init=shares, max_steps=4) for p in (problem, dense)
    )
    near: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12}
    Close(found.objective, expected.objective, **near)
    Close(found.responsibilities, expected.responsibilities, **near)
    Close(found.assign(new), expected.assign(rows), **near)
    Close(found.log_likelihood(new), expected.log_likelihood(rows), rtol=1e-10)


# Each is a gradient to compile, twice.
@pytest.mark.parametrize(("family", "smoothing", "weights"), PROBLEMS[::5])
def test_random_trees_are_those_of_dense_rows(family, smoothing, weights, x64):
    del x64
    problem, dense = twins(reals(), family, smoothing, weights)
    draw = lambda p: sample_tree(p, key=1, temperature=2.0)
    (tree, found), (other, expected) = draw(problem), draw(dense)
    np.testing.assert_array_equal(tree.children, other.children)
    Close(tree.merge_costs, other.merge_costs, rtol=1e-10)
    Close(found, expected, rtol=1e-12)
    log_prob = jax.jit(
        jax.grad(lambda p: sequence_log_prob(p, other.children, temperature=2.0))
    )
    slopes, wanted = log_prob(problem), log_prob(dense)
    Close(slopes.x.values, at_entries(problem, wanted.x), rtol=1e-8, atol=1e-10)
    Close(slopes.weights, wanted.weights, rtol=1e-8, atol=1e-10)


def test_seeds_and_trees_start_as_of_dense_rows():
    problem, dense = twins(reals(), "poisson", "bernstein", "whole")
    for init in ("divergence", "random"):
        found, expected = (
            hard_clustering(p, num_clusters=K, init=init, key=3)
            for p in (problem, dense)
        )
        np.testing.assert_array_equal(found.labels, expected.labels)
    tree = agglomerate(problem)
    found = hard_clustering(problem, num_clusters=K, init=tree)
    cut = hard_clustering(dense, num_clusters=K, init=agglomerate(dense))
    np.testing.assert_array_equal(found.labels, cut.labels)


def test_k_means_is_that_of_scikit_learn(rng):
    x, topic = text(rng)
    start = (topic + rng.integers(0, 2, len(topic))) % 4
    centers = np.stack([x.toarray()[start == k].mean(0) for k in range(4)])
    expected = KMeans(4, init=centers, n_init=1, tol=0, algorithm="lloyd").fit(x)
    found = hard_clustering(Problem(x, family="ward"), init=start)
    np.testing.assert_array_equal(found.labels, expected.labels_)
    Close(found.objective[-1], expected.inertia_ / 2, rtol=1e-12)
    Close(found.states.mean, expected.cluster_centers_, rtol=1e-10, atol=1e-14)
    new, _ = text(np.random.default_rng(5), num_rows=30)
    np.testing.assert_array_equal(found.assign(new), expected.predict(new))


def test_a_mixture_of_texts_finds_the_topics(rng):
    x, topic = text(rng)
    floor = adding(np.asarray(x.mean(axis=0)) + 1e-4, 0.05)
    problem = Problem(x, family="poisson", smoothing=floor)
    found = soft_clustering(problem, num_clusters=4, init=agglomerate(problem))
    assert found.result is Result.CONVERGED
    assert np.all(np.diff(found.objective) >= 0)
    assert len(np.unique(found.labels * 4 + topic)) == 4
    # A row again, and one of words that nobody used, which all topics have alike.
    new = np.zeros((2, x.shape[1]))
    new[0] = x.toarray()[2]
    new[1, np.flatnonzero(x.sum(axis=0) == 0)[:2]] = 1
    shares = found.assign(new)
    Close(shares[0], found.responsibilities[2], atol=1e-6)
    assert np.all(shares[1] > 0)


@pytest.mark.parametrize("family", ["multinomial", "poisson", "ward", "geometric"])
@pytest.mark.parametrize("gap", [1e-3, 1e-7, 0.0])
def test_costs_of_rows_close_to_their_cluster_have_digits(family, gap, rng):
    """Where nearly all that is added up cancels, columns are added up one by one."""
    x = np.repeat(rows_for(family, counts())[:5], 3, axis=0) * 1e4
    x = x * (1 + gap * rng.uniform(-1, 1, x.shape))
    found, expected = (
        hard_clustering(Problem(rows, family=family), init=np.arange(15) // 3)
        for rows in (scipy.sparse.csr_array(x), x)
    )
    size = np.sum(x**2) * np.finfo(float).eps ** 2
    Close(found.costs, expected.costs, rtol=1e-8 if gap > 1e-5 else 1e-6, atol=size)
    np.testing.assert_array_equal(found.labels, expected.labels)


def test_a_word_that_all_have_excludes_rows_without_it():
    """Unsmoothed Bernoulli rows: the floor itself costs infinitely much then."""
    x = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 1], [0, 1, 1], [0, 1, 1]], float)
    start = [0, 0, 1, 1, 1]
    problems = (
        Problem(rows, family="bernoulli") for rows in (scipy.sparse.csr_array(x), x)
    )
    costs = []
    for problem in problems:
        found = hard_clustering(problem, init=start, max_steps=1)
        with working((problem, found.states)) as (work, states):
            costs.append(np.asarray(points_of(work).costs(states))[:5])
        assert np.isneginf(found.log_likelihood([[0, 0, 0]]))
        Close(found.assign([[1, 0, 1], [0, 1, 1]]), [0, 1])
    assert np.array_equal(np.isinf(costs[0]), np.isinf(costs[1]))
    assert np.isinf(costs[0][0, 1])
    finite = np.isfinite(costs[1])
    Close(costs[0][finite], costs[1][finite], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("family", ["bernoulli", "multinomial"])
def test_means_of_boundary_rows_stay_on_the_boundary(family, rng):
    """Where all rows of a cluster have a 1 the mean is 1, not a rounding above."""
    x = np.zeros((64, 6))
    x[:, 2] = 1
    weights = rng.uniform(0.1, 3, 64)
    problem = Problem(scipy.sparse.csr_array(x), family=family, weights=weights)
    shares = rng.dirichlet(np.ones(2), 64)
    found = soft_clustering(problem, init=shares, max_steps=3)
    np.testing.assert_array_equal(found.states.mean, [x[0], x[0]])
    Close(found.objective, 0, atol=1e-12)


def test_ones_of_some_rows_add_up_to_one_at_most():
    """Sums over entries and over rows in one order, though the first are fewer."""
    x = np.array([[0.0], [1], [1], [1]])
    options: dict[str, Any] = {"family": "bernoulli", "weights": [0.8, 0.8, 0.2, 0.2]}
    problem = Problem(scipy.sparse.csr_array(x), **options)
    found = hard_clustering(problem, init=[1, 0, 0, 0])
    np.testing.assert_array_equal(found.costs, [0, 0])
    for key in range(4):
        rng = np.random.default_rng(key)
        x = (rng.random((40, 9)) < 0.4).astype(float)
        shares = rng.dirichlet(np.ones(K), 40)
        found, expected = (
            soft_clustering(Problem(rows, family="bernoulli"), init=shares)
            for rows in (scipy.sparse.csr_array(x), x)
        )
        assert found.result is expected.result is Result.CONVERGED
        Close(found.objective[-1], expected.objective[-1], rtol=1e-6)


@pytest.mark.parametrize("family", ["ward", "poisson"])
@pytest.mark.parametrize("offset", [1e2, 1e4])
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_em_converges_where_sums_cancel(family, offset, share, rng):
    """Entries large beside their differences, in all rows or in some."""
    x = rng.normal(offset, 1, (60, 4)) + 5 * (np.arange(60) % 2)[:, None]
    x = np.where(rng.random(x.shape) < share, np.round(x), 0)
    for tolerance in (1e-6, 0.0):
        found, expected = (
            soft_clustering(
                Problem(rows, family=family), num_clusters=2, key=0, tolerance=tolerance
            )
            for rows in (scipy.sparse.csr_array(x), x)
        )
        assert found.result is expected.result is Result.CONVERGED
        Close(found.objective[-1], expected.objective[-1], rtol=1e-9)
        Close(found.log_likelihood(), expected.log_likelihood(), rtol=1e-9)


def test_densities_of_large_entries_have_digits():
    """½ x² less itself left nothing of 1."""
    x = np.array([[1e8], [1e8 + 1]])
    problem = Problem(scipy.sparse.csr_array(x), family="ward")
    found = hard_clustering(problem, num_clusters=1, key=0)
    expected = stats.norm(1e8 + 0.5).logpdf(x).sum()
    Close(found.log_likelihood(), expected, rtol=1e-14)


def test_seeds_are_apart_where_costs_are_rounding():
    x = np.array([[1e8], [1e8 + 1], [1e8 + 5], [1e8 + 6]])
    problem = Problem(scipy.sparse.csr_array(x), family="ward")
    for key in range(4):
        found = hard_clustering(problem, num_clusters=2, key=key)
        Close(found.objective[0], 0.5)


def test_single_precision_of_an_accelerator_is_not_used(rng, monkeypatch):
    """Divergences are the host's, in float64, where all other work is in float32."""
    x = np.round(rng.normal(900, 1, (50, 2)) * 16) / 16
    monkeypatch.setattr(_evaluation, "works_in_double", lambda _: False)
    problem = Problem(scipy.sparse.csr_array(x), family="ward")
    found = hard_clustering(problem, num_clusters=1, key=0)
    Close(found.objective[-1], 0.5 * np.sum((x - x.mean(axis=0)) ** 2), rtol=1e-6)


def test_sizes_nearby_compile_once(rng, caplog):
    def fit(count):
        x = scipy.sparse.csr_array(text(rng, num_rows=count, num_words=200)[0])
        problem = Problem(x, family="multinomial", smoothing=bernstein(200, 50))
        found = soft_clustering(problem, num_clusters=2, key=0)
        found.assign()
        found.log_likelihood()
        hard_clustering(problem, num_clusters=2, key=0)

    fit(57)
    jax.config.update("jax_log_compiles", True)
    try:
        with caplog.at_level("WARNING"):
            fit(59)
    finally:
        jax.config.update("jax_log_compiles", False)
    compiled = [r for r in caplog.records if "Compiling" in r.getMessage()]
    assert len(compiled) <= 3, [r.getMessage() for r in compiled]


def test_many_clusters_and_one(rng):
    x, _ = text(rng, num_rows=40)
    for smoothing in (None, pseudo_count(np.full(x.shape[1], 1e-3), 0.5)):
        problem = Problem(x, family="poisson", smoothing=smoothing)
        alone = hard_clustering(problem, init=np.arange(40))
        Close(alone.objective, 0, atol=1e-11)
        whole = hard_clustering(problem, num_clusters=1, key=0)
        cut = agglomerate(problem).merge_costs.sum()
        Close(whole.objective[-1], cut, rtol=1e-11)


def test_memory_goes_with_entries_and_means(rng):
    rows = np.repeat(np.arange(2000), 20)
    columns = rng.integers(0, 50_000, len(rows))
    x = scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), (2000, 50_000))
    problem = Problem(x, family="multinomial", smoothing=bernstein(50_000, 2000))
    tracemalloc.start()
    try:
        found = soft_clustering(problem, num_clusters=3, key=0, max_steps=2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.num_steps > 0
    # Dense it would be 763 MiB; means of three clusters are 1.1 MiB.
    assert peak < 60 * 2**20


def test_sparse_rows_are_known():
    problem, _ = twins(counts(), "poisson", "mixing", "ones")
    found = soft_clustering(problem, num_clusters=2, key=0)
    for name, take in (
        ("log_likelihood", found.log_likelihood),
        ("assign", found.assign),
    ):
        with pytest.raises(TypeError, match=f"`{name}` takes sparse rows on the host"):
            jax.jit(take)(problem.x)
    partition = hard_clustering(problem, num_clusters=2, key=0)
    with pytest.raises(TypeError, match="`assign` loops on the host"):
        jax.jit(partition.assign)(problem.x)


@pytest.mark.parametrize("family", ["poisson", "multinomial"])
def test_rows_that_no_cluster_can_hold_are_told(family):
    """They got the first label, though it cost as infinitely much as the others."""
    x = np.array([[3.0, 0, 0, 1, 0], [4, 1, 0, 0, 0], [0, 0, 3, 1, 0], [0, 1, 5, 0, 0]])
    new = [[4.0, 0, 0, 1, 0], [0, 0, 4, 0, 1], [0, 0, 0, 0, 2]]
    for rows in (scipy.sparse.csr_array(x), x):
        found = hard_clustering(Problem(rows, family=family), init=[0, 0, 1, 1])
        with pytest.raises(ValueError, match=r"no cluster can hold, 2 of 3, .* row 1:"):
            found.assign(new)
        np.testing.assert_array_equal(found.assign(new[:1]), [0])

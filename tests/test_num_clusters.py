"""Numbers of clusters: criteria against SciPy, scikit-learn and refitting by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import scipy.stats
import sklearn.mixture
from scipy import special

import bregjax as bj
from bregjax import objectives
from bregjax._cut_criteria import Criterion
from bregjax.convex import SquaredNorm
from bregjax.smoothing import adding, blur, mixing, pseudo_count

M, K = 24, 6
stats: Any = scipy.stats
logsumexp: Any = special.logsumexp


def centers(rng, columns=2):
    return np.repeat(5 * rng.normal(size=(3, columns)), M // 3, axis=0)


def poisson_rows(rng):
    return rng.poisson(np.exp(1 + 0.3 * centers(rng))).astype(float)


def gaussian_densities(x, w, member, h):
    """Under the cluster of some rows with kernels of bandwidth h."""
    mean = np.average(x[member], axis=0, weights=w[member])
    spread = np.cov(x[member].T, aweights=w[member], ddof=0)
    spread = np.atleast_2d(spread) + h**2 * np.eye(x.shape[1])
    return stats.multivariate_normal(mean, spread).logpdf(x)


def poisson_densities(x, w, member, count):
    """Under the cluster of some rows, each with `count` observations of 1."""
    total = w[member] @ x[member] + count * member.sum()
    return (
        stats.poisson(total / (w[member].sum() + count * member.sum()))
        .logpmf(x)
        .sum(axis=1)
    )


def bernoulli_densities(x, w, member, share):
    mean = (1 - share) * np.average(x[member], axis=0, weights=w[member]) + share / 2
    return stats.bernoulli(mean).logpmf(x).sum(axis=1)


CASES = {
    "gaussian": (
        "gaussian",
        blur(0.7),
        lambda rng: centers(rng) + rng.normal(size=(M, 2)),
        lambda share, x, w, member: gaussian_densities(x, w, member, 0.7 * share**0.5),
        5,
    ),
    "poisson": (
        "poisson",
        pseudo_count(np.ones(2), 0.5),
        poisson_rows,
        lambda share, x, w, member: poisson_densities(x, w, member, 0.5 * share),
        2,
    ),
    "unsmoothed": (
        "poisson",
        None,
        lambda rng: poisson_rows(rng) + 1,
        lambda share, x, w, member: poisson_densities(x, w, member, 0.0),
        2,
    ),
    "bernoulli": (
        "bernoulli",
        mixing(np.full(4, 0.5), 0.1),
        lambda rng: (rng.random((M, 4)) < 1 / (1 + np.exp(-centers(rng, 4)))) * 1.0,
        lambda share, x, w, member: bernoulli_densities(x, w, member, 0.1 * share),
        4,
    ),
}


def make(name, rng, *, weighted=True):
    family, smoothing, data, densities, count = CASES[name]
    weights = rng.integers(1, 4, M).astype(float) if weighted else np.ones(M)
    problem = bj.Problem(data(rng), family=family, smoothing=smoothing, weights=weights)
    return problem, bj.agglomerate(problem), densities, count


def terms_by_hand(problem, labels, densities, share=1.0):
    """log π_c p(x; c), `[m, k]`."""
    x, w = np.asarray(problem.x), np.asarray(problem.weights)
    columns = [
        np.log(w[labels == c].sum() / w.sum()) + densities(share, x, w, labels == c)
        for c in range(labels.max() + 1)
    ]
    return np.stack(columns, axis=1)


# Criteria of small tables are flat, which a warning says.
quiet = pytest.mark.filterwarnings("ignore:.* is (flat|best):UserWarning")


@quiet
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("share", [0.01, 1.0])
def test_criteria_against_scipy(name, share, rng):
    problem, tree, densities, count = make(name, rng)
    found = bj.choose_num_clusters(problem, tree, max_clusters=K, smoothing_share=share)
    w = np.asarray(problem.weights)
    assert found.sample_size == w.sum() > M
    for k in range(1, K + 1):
        terms = terms_by_hand(problem, tree.cut(k), densities, share)
        parameters = k * count + k - 1
        likelihood = w @ logsumexp(terms, axis=1)
        penalty = parameters * np.log(w.sum())
        assert found.num_parameters[k - 1] == parameters
        np.testing.assert_allclose(found.log_likelihood[k - 1], likelihood, rtol=1e-9)
        np.testing.assert_allclose(
            found.bic[k - 1], penalty - 2 * likelihood, rtol=1e-9
        )
        np.testing.assert_allclose(
            found.icl[k - 1], penalty - 2 * w @ terms.max(axis=1), rtol=1e-9
        )
    assert found.num_clusters == 1 + np.argmin(found.bic)


@quiet
@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_held_out_likelihood_against_refitting(name, rng):
    problem, tree, densities, _ = make(name, rng)
    found = bj.choose_num_clusters(
        problem, tree, max_clusters=K, criterion="held_out", smoothing_share=1
    )
    x, counts = np.asarray(problem.x), np.asarray(problem.weights)
    # A row of weight w is one observation, which is left out, and w − 1 others.
    heavy = np.flatnonzero(counts > 1)
    rows = np.concatenate([np.arange(M), heavy])
    x, w = x[rows], np.concatenate([np.ones(M), counts[heavy] - 1])
    for k in (1, 2, 5):
        labels, total = tree.cut(k)[rows], 0.0
        for i in range(M):
            terms = []
            for c in range(k):
                part = (labels == c) & (np.arange(len(rows)) != i)
                if part.any():
                    share = w[part].sum() / (w.sum() - 1)
                    terms.append(np.log(share) + densities(1.0, x, w, part)[i])
            total += counts[i] * logsumexp(terms)
        np.testing.assert_allclose(np.asarray(found.held_out)[k - 1], total, rtol=1e-9)
    assert found.num_clusters == 1 + np.argmax(np.asarray(found.held_out))


@quiet
def test_bic_of_scikit_learn(rng):
    problem, tree, _, _ = make("gaussian", rng, weighted=False)
    found = bj.choose_num_clusters(problem, tree, max_clusters=K, smoothing_share=1)
    x = np.asarray(problem.x)
    for k in range(1, K + 1):
        members = [tree.cut(k) == c for c in range(k)]
        covariances = np.stack(
            [
                np.cov(x[member].T, ddof=0) + 0.49 * np.eye(2)
                if member.sum() > 1
                else 0.49 * np.eye(2)
                for member in members
            ]
        )
        mixture: Any = sklearn.mixture.GaussianMixture(k)
        mixture.weights_ = np.array([member.mean() for member in members])
        mixture.means_ = np.stack([x[member].mean(axis=0) for member in members])
        mixture.covariances_ = covariances
        roots = np.linalg.cholesky(np.linalg.inv(covariances))
        mixture.precisions_cholesky_ = roots
        np.testing.assert_allclose(found.bic[k - 1], mixture.bic(x), rtol=1e-9)


@quiet
def test_merge_costs_give_the_classification_likelihood(rng):
    problem, tree, densities, _ = make("unsmoothed", rng)
    found = bj.choose_num_clusters(problem, tree, max_clusters=K)
    w = np.asarray(problem.weights)
    for k in range(1, K + 1):
        labels = np.asarray(tree.cut(k))
        terms = terms_by_hand(problem, labels, densities)
        by_hand = w @ terms[np.arange(M), labels]
        sizes = np.bincount(labels, weights=w)
        by_costs = found.log_likelihood[0] + np.nansum(found.costs[:k])
        by_costs += sizes @ np.log(sizes / w.sum())
        np.testing.assert_allclose(by_costs, by_hand, rtol=1e-9)


@quiet
def test_smoothing_of_blocks_is_lessened_too(rng):
    table = {"a": rng.normal(size=20), "b": rng.exponential(size=20) + 1}
    table |= {"c": [*"xyxy"] * 5, "d": rng.poisson(3, 20)}
    family = {"a": "diagonal_gaussian", "b": "exponential"}
    family |= {"c": "categorical", "d": "poisson"}
    half, one = np.full(2, 0.5), np.ones(1)
    smoothing = {"a": blur(2.0), "b": adding(one, 0.5)}
    smoothing |= {"c": mixing(half, 0.5), "d": pseudo_count(one, 1.0)}
    less = {"a": blur(0.4), "b": adding(one, 0.02)}
    less |= {"c": mixing(half, 0.02), "d": pseudo_count(one, 0.04)}
    problem = bj.Problem(table, family=family, smoothing=smoothing)
    by_hand = bj.Problem(table, family=family, smoothing=less)
    children = bj.agglomerate(problem).children
    one = bj.choose_num_clusters(problem, children, smoothing_share=0.04)
    other = bj.choose_num_clusters(by_hand, children, smoothing_share=1)
    np.testing.assert_allclose(one.bic, other.bic, rtol=1e-9)


def test_costs_and_gaps(rng):
    problem, tree, _, _ = make("gaussian", rng)
    found = bj.choose_num_clusters(problem, tree, max_clusters=4, criterion="gap")
    costs = np.asarray(tree.merge_costs)
    np.testing.assert_array_equal(found.costs[1:], costs[-1:-4:-1])
    np.testing.assert_array_equal(found.gaps[1:], costs[-1:-4:-1] / costs[-2:-5:-1])
    assert np.isnan(found.costs[0])
    assert found.num_clusters == 2 + np.argmax(found.gaps[1:])


@quiet
@pytest.mark.parametrize("refine", [False, True])
def test_forests_are_the_beginnings_of_trees(refine, rng):
    problem, tree, _, _ = make("poisson", rng)
    forest = bj.agglomerate(problem, num_clusters=3)
    options = {"max_clusters": 6, "held_out": True, "refine": refine}
    found = bj.choose_num_clusters(problem, forest, **options)
    whole = bj.choose_num_clusters(problem, tree, **options)
    assert found.numbers.tolist() == [3, 4, 5, 6]
    for name in ("num_parameters", "bic", "icl", "held_out"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name)[2:])
    np.testing.assert_array_equal(found.costs[1:], whole.costs[3:])
    np.testing.assert_array_equal(found.gaps[1:], whole.gaps[3:])
    assert np.isnan([found.costs[0], found.gaps[0]]).all()
    assert found.num_clusters == 3 + np.argmin(found.bic)
    assert "of 3 to 6" in repr(found)
    with pytest.raises(ValueError, match="`max_clusters` must be at least 3"):
        bj.choose_num_clusters(problem, forest, max_clusters=2)


@quiet
def test_weights_are_repetitions(rng):
    problem, tree, _, _ = make("unsmoothed", rng)
    copies = np.repeat(np.arange(M), np.asarray(problem.weights).astype(int))
    repeated = bj.Problem(
        np.asarray(problem.x)[copies], family="poisson", smoothing=None
    )
    options: Any = {"max_clusters": K, "held_out": True}
    one = bj.choose_num_clusters(problem, tree, **options)
    many = bj.choose_num_clusters(repeated, bj.agglomerate(repeated), **options)
    for name in ("bic", "icl", "held_out", "costs"):
        np.testing.assert_allclose(getattr(one, name), getattr(many, name), rtol=1e-9)


def test_a_weight_of_fifty_is_no_reason_for_a_cluster():
    x = np.array([[1.0], [2.0], [30.0]])
    weighted = bj.Problem(x, family="poisson", weights=np.full(3, 50.0))
    repeated = bj.Problem(np.repeat(x, 50, axis=0), family="poisson")
    found = [
        bj.choose_num_clusters(
            problem, bj.agglomerate(problem), max_clusters=3, criterion="held_out"
        )
        for problem in (weighted, repeated)
    ]
    assert found[0].num_clusters == found[1].num_clusters == 2
    np.testing.assert_allclose(*(np.asarray(one.held_out) for one in found), rtol=1e-9)
    sparse = bj.Problem(
        scipy.sparse.csr_array(x), family="poisson", weights=np.full(3, 50.0)
    )
    of_sparse = bj.choose_num_clusters(
        sparse, bj.agglomerate(sparse), max_clusters=3, criterion="held_out"
    )
    np.testing.assert_allclose(
        np.asarray(of_sparse.held_out), np.asarray(found[0].held_out), rtol=1e-9
    )


@quiet
@pytest.mark.parametrize("refine", [False, True])
def test_sparse_rows_as_dense_ones(refine, rng):
    x = rng.poisson(0.4 * np.exp(0.3 * centers(rng, 8)))
    x[:, 0] += x.sum(axis=1) == 0
    smoothing = pseudo_count(np.ones(8), 0.5)
    dense = bj.Problem(x, family="poisson", smoothing=smoothing)
    sparse = bj.Problem(
        scipy.sparse.csr_array(x), family="poisson", smoothing=smoothing
    )
    tree = bj.agglomerate(dense)
    one, other = (
        bj.choose_num_clusters(
            problem, tree, max_clusters=4, held_out=True, refine=refine
        )
        for problem in (dense, sparse)
    )
    for name in ("bic", "icl", "held_out", "costs"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9)


@quiet
def test_missing_cells_by_hand(rng):
    x = rng.poisson(np.exp(1 + 0.3 * centers(rng, 3))) + 1.0
    x[::5, 0] = x[1::5, 1] = np.nan
    problem = bj.Problem(x, family="poisson", smoothing=None)
    tree = bj.agglomerate(problem)
    found = bj.choose_num_clusters(problem, tree, max_clusters=3)
    for k in range(1, 4):
        labels = np.asarray(tree.cut(k))
        terms = []
        for c in range(k):
            rate = np.nanmean(x[labels == c], axis=0)
            own = np.nan_to_num(stats.poisson(rate).logpmf(x))
            terms.append(np.log(np.mean(labels == c)) + own.sum(axis=1))
        likelihood = logsumexp(terms, axis=0).sum()
        bic = (4 * k - 1) * np.log(len(x)) - 2 * likelihood
        np.testing.assert_allclose(found.bic[k - 1], bic, rtol=1e-9)


def own_poisson(theta):
    return jnp.sum(jnp.exp(theta))


def factorials(x):
    return -jnp.sum(jax.scipy.special.gammaln(x + 1))


@quiet
def test_families_that_solve(rng):
    x = poisson_rows(rng) + 1
    own = bj.ExponentialFamily(
        own_poisson, lambda x: x, jnp.zeros(2), factorials, separable=True
    )
    built_in = bj.Problem(x, family="poisson", smoothing=None)
    problem = built_in.replace(family=own)
    tree = bj.agglomerate(built_in)
    one, other = (
        bj.choose_num_clusters(problem, tree.children, max_clusters=4, held_out=True)
        for problem in (built_in, problem)
    )
    for name in ("bic", "icl", "held_out", "costs"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6)


@quiet
@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_refined_mixtures_are_those_of_soft_clustering(name, rng):
    problem, tree, _, count = make(name, rng)
    found = bj.choose_num_clusters(
        problem, tree, max_clusters=4, refine=True, smoothing_share=1
    )
    assert found.refined
    for k in (1, 3):
        fitted = bj.soft_clustering(problem, init=tree, num_clusters=k, tolerance=1e-5)
        bic = (k * count + k - 1) * np.log(found.sample_size)
        bic -= 2 * fitted.log_likelihood()
        np.testing.assert_allclose(found.bic[k - 1], bic, rtol=1e-9)


@quiet
@pytest.mark.parametrize("options", [{"held_out": True}, {"refine": True}])
def test_one_program_for_all_numbers(options, rng, caplog):
    problem, tree, _, _ = make("gaussian", rng)
    bj.choose_num_clusters(problem, tree, max_clusters=3, **options)
    with jax.log_compiles(True), caplog.at_level("WARNING", logger="jax"):
        bj.choose_num_clusters(problem, tree, max_clusters=7, **options)
        for k in (2, 9):
            objectives.leave_one_out_log_likelihood(problem, tree, num_clusters=k)
            objectives.held_out_log_likelihood(
                problem, tree, problem.x[:5], num_clusters=k
            )
            caplog.clear() if k == 2 else None
    assert not [r for r in caplog.records if "Compiling" in r.getMessage()]


def test_chains(rng):
    # Each merge adds a leaf: 2K − 1 nodes, of which all but K − 1 are leaves.
    x = rng.normal(size=(40, 1)).cumsum(axis=0)
    problem = bj.Problem(x, family="gaussian", smoothing=blur(1.0))
    children = np.stack([np.r_[0, 40 + np.arange(38)], np.arange(1, 40)], axis=1)
    found = bj.choose_num_clusters(
        problem, children, max_clusters=40, criterion="gap", smoothing_share=1
    )
    labels = np.minimum(np.arange(40)[::-1], 39)
    terms = terms_by_hand(
        problem, labels, lambda s, *c: stats.norm(c[0][c[2]].mean(), s).logpdf(x[:, 0])
    )
    np.testing.assert_allclose(
        found.log_likelihood[-1], logsumexp(terms, axis=1).sum(), rtol=1e-9
    )


@quiet
def test_one_row_and_two():
    one = bj.Problem([[1.0]], family="ward")
    found = bj.choose_num_clusters(one, np.zeros((0, 2), int), held_out=True)
    assert found.num_clusters == 1
    assert np.isnan(np.asarray(found.held_out)).all()
    two = bj.Problem([[1.0], [9.0]], family="ward")
    for criterion in ("bic", "held_out"):
        found = bj.choose_num_clusters(two, [[0, 1]], criterion=criterion)
        assert len(found.numbers) == 2
    alone = bj.choose_num_clusters(one, np.zeros((0, 2), int), criterion="gap")
    assert alone.num_clusters == 1
    refused: Any = (
        (two, [[0, 1]], "gap", "there are no two to compare"),
        (one, np.zeros((0, 2), int), "held_out", "Nothing is left of one row"),
    )
    for problem, tree, criterion, words in refused:
        with pytest.raises(ArithmeticError, match=words):
            bj.choose_num_clusters(problem, tree, criterion=criterion)


def test_one_row_of_weight_2_is_two_rows():
    one = bj.Problem([[1.0]], family="ward", weights=[2.0])
    found = bj.choose_num_clusters(one, np.zeros((0, 2), int), held_out=True)
    likelihood = 2 * stats.norm.logpdf(0)
    np.testing.assert_allclose(np.asarray(found.held_out), [likelihood])


def test_a_gap_above_merges_that_cost_nothing_is_the_largest():
    problem = bj.Problem([[0.0], [0.0], [5.0], [5.0]], family="ward")
    found = bj.choose_num_clusters(problem, bj.agglomerate(problem), criterion="gap")
    assert (found.num_clusters, found.is_flat) == (2, False)


def test_clusters_without_a_density_have_no_say():
    # A zero as a cluster of its own cannot have made any other row.
    x = np.array([[1.0], [2.0], [9.0], [8.0], [0.0]])
    problem = bj.Problem(x, family="poisson", smoothing=None)
    found = bj.choose_num_clusters(
        problem, [[0, 1], [2, 3], [4, 5], [6, 7]], max_clusters=5, criterion="gap"
    )
    for k in range(1, 6):
        labels = np.minimum(np.array([0, 0, 1, 1, 0]), k - 1)
        if k > 2:
            labels = [[0, 0, 1, 1, 2], [0, 0, 1, 2, 3], [0, 1, 2, 3, 4]][k - 3]
        terms = terms_by_hand(problem, np.array(labels), CASES["unsmoothed"][3])
        likelihood = logsumexp(terms, axis=1).sum()
        np.testing.assert_allclose(found.log_likelihood[k - 1], likelihood, rtol=1e-9)


def found_of(bic, *, criterion: Criterion = "bic", gaps=None, num_rows=100):
    bic = np.array(bic)
    count = len(bic)
    none = np.full(count, np.nan)
    return bj.NumClusters(
        numbers=np.arange(1, count + 1),
        num_parameters=np.arange(1, count + 1),
        log_likelihood=-bic / 2,
        bic=bic,
        icl=bic + 1,
        held_out=-bic / 2,
        costs=none,
        gaps=none if gaps is None else np.array(gaps),
        sample_size=10.0,
        num_rows=num_rows,
        criterion=criterion,
        refined=False,
    )


def test_flat_criteria():
    clear = found_of([100.0, 50.0, 56.0])
    assert (clear.num_clusters, clear.is_flat, clear.caveats) == (2, False, ())
    flat = found_of([100.0, 50.0, 55.9, 55.0])
    np.testing.assert_array_equal(flat.plausible, [2, 3, 4])
    assert "within 6 of that of 2 is that of 3, 4" in flat.caveats[0]
    assert "BIC is flat" in repr(flat)
    # 3 nats of a log-likelihood are 6 of BIC.
    assert found_of([100.0, 50.0, 55.9], criterion="held_out").is_flat
    assert not found_of([100.0, 50.0, 56.1], criterion="held_out").is_flat
    at_end = found_of([100.0, 50.0, 40.0])
    assert "raise `max_clusters`" in at_end.caveats[0]
    alone = found_of([100.0, 50.0, 40.0], num_rows=3)
    assert len(alone.caveats) == 1
    assert "best with a cluster for each row" in alone.caveats[0]
    nowhere = found_of([np.inf, np.inf])
    np.testing.assert_array_equal(nowhere.plausible, [1])
    assert nowhere.caveats == ()
    gaps = [np.nan, 2.0, 5.0, 3.9]
    by_gap = found_of([9.0] * 4, criterion="gap", gaps=gaps)
    assert (by_gap.num_clusters, by_gap.is_flat) == (3, False)
    assert found_of([9.0] * 4, criterion="gap", gaps=[np.nan, 2, 5, 4]).is_flat


def test_what_prints():
    lines = repr(found_of([100.0, 50.0, 55.0, np.inf])).splitlines()
    assert lines[0] == "2 clusters by BIC, of 1 to 4 (cuts of the tree)"
    assert lines[1].split()[:4] == ["k", "parameters", "log-likelihood", "BIC"]
    assert lines[3].split()[:2] == ["*", "2"]
    assert lines[4].split()[:2] == ["·", "3"]
    long = repr(found_of(np.abs(np.arange(100.0) - 60) * 10)).splitlines()
    assert len(long) == 27
    table = found_of([2.0, 1.0]).to_dict()
    assert table["bic"] == [2.0, 1.0]


def test_warnings():
    problem = bj.Problem([[0.0], [0.1], [2.8], [2.9]], family="ward")
    tree = bj.agglomerate(problem)
    with pytest.warns(UserWarning, match="BIC is flat"):
        bj.choose_num_clusters(problem, tree, max_clusters=3)
    apart = bj.Problem(np.repeat([[0.0], [50.0]], 9, axis=0), family="ward")
    with pytest.warns(UserWarning, match="raise `max_clusters`"):
        bj.choose_num_clusters(apart, bj.agglomerate(apart), max_clusters=2)


def test_rows_of_multinomial_are_single_draws(rng):
    x = rng.multinomial(40, np.repeat([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]], 8, axis=0))
    problem = bj.Problem(x, family="multinomial")
    tree = bj.agglomerate(problem)
    with pytest.warns(UserWarning, match="counts as one draw"):
        found = bj.choose_num_clusters(problem, tree, max_clusters=3)
    assert found.num_clusters == 1


def test_errors(rng):
    problem, tree, _, _ = make("gaussian", rng)
    choose = bj.choose_num_clusters
    with pytest.raises(ValueError, match="`criterion` must be one of"):
        choose(problem, tree, criterion="aic")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="`smoothing_share` must be above 0"):
        choose(problem, tree, smoothing_share=0)
    with pytest.raises(TypeError, match="`smoothing_share` must be a number"):
        choose(problem, tree, smoothing_share="a")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="`max_clusters` must be from 1 to 24"):
        choose(problem, tree, max_clusters=25)
    function = bj.Problem(problem.x, family=SquaredNorm())
    with pytest.raises(ValueError, match="must have a family, whose densities"):
        choose(function, tree.children)
    with pytest.raises(ValueError, match="merge costs of another problem"):
        choose(problem.replace(smoothing=blur(3.0)), tree)
    with pytest.raises(TypeError, match="outside jit and vmap"):
        jax.jit(lambda p: choose(p, tree.children).bic)(problem)
    zeros = bj.Problem(np.diag([3.0, 4.0]), family="poisson", smoothing=None)
    with pytest.raises(ArithmeticError, match="is a number for no number"):
        choose(zeros, [[0, 1]], criterion="held_out")

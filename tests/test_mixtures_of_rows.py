"""Mixtures with a share of the smoothing: fixed points of EM, warnings, parameters."""

from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.datasets
from scipy import special

import bregjax as bj
from bregjax import metrics
from bregjax._evaluation import working
from bregjax.partition._points import points_of
from bregjax.partition._starts import starting_shares
from bregjax.sklearn import ExponentialFamilyMixture

stats: Any = scipy.stats  # its stubs do not know frozen distributions
logsumexp: Any = special.logsumexp
datasets: Any = sklearn.datasets  # its stubs do not know what it returns
quiet = pytest.mark.filterwarnings("ignore:BIC is")


@pytest.fixture(scope="module")
def iris():
    x, kind = datasets.load_iris(return_X_y=True)
    problem = bj.Problem(x, family="gaussian")
    return problem, bj.agglomerate(problem), kind


def blur_of(problem):
    """The covariance that each row gets, `[d, d]`."""
    smoothing: Any = problem.smoothing
    width = np.asarray(smoothing.bandwidth)
    return width @ width.T if width.ndim == 2 else np.eye(problem.x.shape[1]) * width**2


def log_likelihood(x, found):
    """By SciPy, of Gaussians of full covariances."""
    each = [
        np.log(share) + stats.multivariate_normal(mean, covariance).logpdf(x)
        for share, mean, covariance in zip(
            found.shares, found.means, found.covariances, strict=True
        )
    ]
    return np.sum(logsumexp(each, axis=0))


def test_the_mixture_of_iris_is_that_of_the_rows(iris):
    problem, tree, kind = iris
    found = bj.soft_clustering(
        problem, num_clusters=3, init=tree, smoothing_share=0.01, tolerance=1e-10
    )
    assert metrics.adjusted_rand(kind, found.labels) > 0.9
    # mclust says -180.2 of VVV with three clusters, without any blur.
    assert -182.5 < found.log_likelihood() < -180.0
    assert np.isclose(found.log_likelihood(), log_likelihood(problem.x, found))
    blur = blur_of(problem)
    shares = np.asarray(found.responsibilities).T
    for k, share in enumerate(shares):
        mean = np.average(problem.x, axis=0, weights=share)
        np.testing.assert_allclose(found.means[k], mean, rtol=1e-4)
        covariance = np.cov(problem.x.T, aweights=share, ddof=0) + 0.01 * blur
        np.testing.assert_allclose(found.covariances[k], covariance, rtol=2e-3)
    np.testing.assert_allclose(blur_of(found.problem), 0.01 * blur)


def test_a_share_of_one_is_the_problem_itself(iris):
    problem, tree, _ = iris
    found = bj.soft_clustering(problem, num_clusters=2, init=tree, max_steps=3)
    assert found.problem is problem


@pytest.mark.parametrize("key", [0, 1])
def test_seeds_are_those_of_the_whole_smoothing(iris, key):
    problem, _, _ = iris
    with working(problem) as work:
        start = starting_shares(problem, points_of(work), "divergence", 3, key)
    choices: Any = {"num_clusters": 3, "key": key}, {"init": start}
    drawn, given = (
        bj.soft_clustering(problem, max_steps=2, smoothing_share=0.01, **options)
        for options in choices
    )
    np.testing.assert_allclose(drawn.means, given.means, rtol=1e-12)


def test_clusters_that_are_the_likeliest_of_no_row_are_told(iris):
    problem, tree, _ = iris
    with pytest.warns(UserWarning, match="is wide .* pass smoothing_share=0.01") as all:
        found = bj.soft_clustering(problem, num_clusters=3, init=tree)
    number = int(np.flatnonzero(np.bincount(found.labels, minlength=3) == 0)[0])
    words = f"1 of 3 clusters is the likeliest of no row (number {number})"
    assert words in str(all[0].message)
    assert all[0].filename == __file__


def test_what_is_told_without_smoothing():
    problem = bj.Problem([[0.0], [0.0], [5.0]], family="ward")
    start = np.array([[0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.0, 0.0, 1.0]])
    with pytest.warns(UserWarning, match="no row .number 1.. Pass fewer clusters"):
        bj.soft_clustering(problem, init=start)


def test_estimators_tell_of_empty_components_once():
    x, _ = datasets.load_iris(return_X_y=True)
    model = ExponentialFamilyMixture(3, smoothing_share=1.0)
    with pytest.warns(UserWarning, match="pass smoothing_share=0.01") as all:
        model.fit(x)
    assert len(all) == 1
    assert all[0].filename == __file__


@quiet
@pytest.mark.parametrize("criterion", ["bic", "gap"])
def test_the_chosen_mixture_is_kept(iris, criterion):
    problem, tree, _ = iris
    found = bj.choose_num_clusters(
        problem, tree, max_clusters=5, refine=True, criterion=criterion
    )
    mixture, k = found.mixture, found.num_clusters
    assert mixture is not None
    assert mixture.num_clusters == k
    at = found.numbers.tolist().index(k)
    assert np.isclose(mixture.log_likelihood(), found.log_likelihood[at], rtol=1e-9)
    again = bj.soft_clustering(
        problem, num_clusters=k, init=tree, smoothing_share=0.01, tolerance=1e-5
    )
    np.testing.assert_allclose(mixture.means, again.means, rtol=1e-9)
    np.testing.assert_allclose(
        mixture.responsibilities, again.responsibilities, atol=1e-9
    )
    new = np.asarray(problem.x)[::40] + 0.1
    np.testing.assert_allclose(mixture.assign(new), again.assign(new), atol=1e-9)
    assert mixture.objective.shape == again.objective.shape


@quiet
def test_cuts_alone_keep_no_mixture(iris):
    problem, tree, _ = iris
    assert bj.choose_num_clusters(problem, tree, max_clusters=3).mixture is None


@pytest.mark.parametrize(
    ("family", "shape"),
    [
        ("gaussian", (2, 2, 2)),
        ("diagonal_gaussian", (2, 2)),
        ("isotropic_gaussian", (2,)),
        (bj.SphericalGaussian(variance=4.0), (2,)),
    ],
)
def test_parameters_of_gaussians(family, shape, rng):
    x = np.repeat([[0.0, 0.0], [9.0, 5.0]], 10, axis=0) + rng.normal(size=(20, 2))
    problem = bj.Problem(x, family=family)
    labels = np.repeat([0, 1], 10)
    found = bj.hard_clustering(problem, init=labels, max_steps=1)
    parts = x[labels == 0], x[labels == 1]
    np.testing.assert_allclose(found.means, [part.mean(axis=0) for part in parts])
    assert found.covariances.shape == shape
    if isinstance(family, bj.SphericalGaussian):
        assert found.covariances.tolist() == [4.0, 4.0]
        return
    blur = blur_of(problem)
    for k, part in enumerate(parts):
        full = np.cov(part.T, ddof=0) + blur
        expected = {3: full, 2: np.diag(full), 1: np.trace(full) / 2}[len(shape)]
        np.testing.assert_allclose(found.covariances[k], expected, rtol=1e-10)


def test_estimators_have_covariances(iris):
    x = np.asarray(iris[0].x)
    model = ExponentialFamilyMixture(3).fit(x)
    order = model.mixture_
    assert np.isclose(model.score_samples(x).sum(), log_likelihood(x, order))
    assert model.covariances_ is order.covariances
    np.testing.assert_array_equal(model.means_, order.means)
    counts = ExponentialFamilyMixture(2, family="poisson").fit([[0], [1], [8], [9]])
    assert not hasattr(counts, "covariances_")


def test_parameters_of_tables():
    table = {"size": [1.0, 1.5, 8.0, 9.0], "visits": [0, 2, 9, 7]}
    families = {"size": "diagonal_gaussian", "visits": "poisson"}
    problem = bj.Problem(table, family=families)
    found = bj.hard_clustering(problem, init=[0, 0, 1, 1], max_steps=1)
    size, visits = found.means
    np.testing.assert_allclose(size.ravel(), [1.25, 8.5])
    np.testing.assert_allclose(visits.ravel(), [1.0, 8.0], rtol=0.2)
    assert found.covariances[0].shape == (2, 1)
    assert found.covariances[1] is None
    with pytest.raises(AttributeError, match="Gaussian families; got Poisson"):
        _ = bj.hard_clustering(
            bj.Problem([[1], [2]], family="poisson"), init=[0, 1]
        ).covariances


@pytest.mark.parametrize(("share", "kind"), [(0, ValueError), ("all", TypeError)])
def test_shares_out_of_range(iris, share, kind):
    problem, tree, _ = iris
    with pytest.raises(kind, match="`smoothing_share` must be"):
        bj.soft_clustering(problem, num_clusters=2, init=tree, smoothing_share=share)

"""What estimators compute: against the functions, scikit-learn's models and SciPy."""

from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.cluster
import sklearn.mixture
from sklearn.base import clone as untyped_clone
from sklearn.exceptions import ConvergenceWarning

import bregjax as bj
from bregjax.convex import SquaredNorm
from bregjax.sklearn import (
    BregmanAgglomerative,
    BregmanKMeans,
    DendrogramFeatures,
    ExponentialFamilyMixture,
    _starts,
)

clone: Any = untyped_clone
stats: Any = scipy.stats
KMeans: Any = sklearn.cluster.KMeans
GaussianMixture: Any = sklearn.mixture.GaussianMixture


@pytest.fixture
def x(rng):
    """Clusters of 20, 14 and 8 rows, in a random order, that overlap a little."""
    centers = 3 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    rows = np.repeat(centers, [20, 14, 8], axis=0) + rng.normal(size=(42, 2))
    return rng.permutation(rows)


def same_partition(a, b):
    pairs = set(zip(np.asarray(a).tolist(), np.asarray(b).tolist(), strict=True))
    return len(pairs) == len(set(a)) == len(set(b))


# --- Agglomerative -------------------------------------------------------------------


def test_the_tree_and_its_cut(x):
    found = BregmanAgglomerative(3).fit(x)
    tree = bj.agglomerate(x, family="gaussian")
    np.testing.assert_array_equal(found.children_, tree.children)
    np.testing.assert_array_equal(found.distances_, tree.merge_costs)
    np.testing.assert_array_equal(found.dendrogram_.linkage(), tree.linkage())
    assert same_partition(found.labels_, tree.cut(3))
    sizes = np.bincount(found.labels_)
    assert np.all(np.diff(sizes) <= 0)
    assert (found.n_leaves_, found.n_clusters_) == (42, 3)
    for label, node in enumerate(found.cluster_nodes_):
        members = found.dendrogram_.members(node)
        np.testing.assert_array_equal(members, np.flatnonzero(found.labels_ == label))
    np.testing.assert_array_equal(clone(found).fit_predict(x), found.labels_)


def test_shares_are_those_of_soft_assignments(x, rng):
    found = BregmanAgglomerative(3).fit(x)
    rows = rng.normal(size=(9, 2))
    tree = found.dendrogram_
    expected = bj.soft_assignments(found.problem_, tree, rows, num_clusters=3)
    # Columns there are numbered by first rows.
    old = np.asarray(tree.cut(3))
    columns = [old[np.argmax(found.labels_ == k)] for k in range(3)]
    shares = found.predict_proba(rows)
    np.testing.assert_allclose(shares, np.asarray(expected)[:, columns], rtol=1e-9)
    np.testing.assert_array_equal(found.predict(rows), shares.argmax(axis=1))


def test_densities_are_those_of_the_clusters_as_smoothed(x, rng):
    found = BregmanAgglomerative(3, smoothing=0.4).fit(x)
    rows = rng.normal(size=(9, 2))
    terms = []
    for k in range(3):
        own = x[found.labels_ == k]
        covariance = np.cov(own.T, bias=True) + 0.16 * np.eye(2)
        density = stats.multivariate_normal(own.mean(axis=0), covariance)
        terms.append(density.logpdf(rows) + np.log(len(own) / len(x)))
    total = np.logaddexp.reduce(terms, axis=0)
    np.testing.assert_allclose(found.score(rows), total.mean())
    shares = np.exp(np.array(terms) - total).T
    np.testing.assert_allclose(found.predict_proba(rows), shares, atol=1e-12)
    np.testing.assert_array_equal(found.predict(rows), shares.argmax(axis=1))


def test_rows_that_are_likelier_elsewhere_are_counted(rng):
    x = rng.normal(size=(60, 2))
    found = BregmanAgglomerative(5, family="ward").fit(x)
    differing = np.sum(found.predict(x) != found.labels_)
    assert 0 < found.n_reassigned_ == differing < 20


def test_cuts_by_cost(x):
    found = BregmanAgglomerative(None, max_cost=3.0).fit(x)
    assert same_partition(found.labels_, found.dendrogram_.cut(max_cost=3.0))
    assert found.n_clusters_ == 1 + np.sum(found.distances_ > 3.0) > 2
    assert found.predict_proba(x).shape == (42, found.n_clusters_)


def test_numbers_of_clusters_by_criterion(x):
    x = np.where(x > 1.5, 12.0, 0.0) + x  # far from each other
    for criterion in ("bic", "icl", "gap"):
        found = BregmanAgglomerative(criterion, family="ward").fit(x)
        assert found.n_clusters_ == 4
        tree = bj.agglomerate(found.problem_)
        choice = bj.choose_num_clusters(found.problem_, tree, criterion=criterion)
        assert found.n_clusters_ == choice.num_clusters
        np.testing.assert_array_equal(found.choice_.bic, choice.bic)


def test_a_number_of_one_s_own_is_no_criterion_s_choice(x):
    found = BregmanAgglomerative("gap").fit(x)
    assert found.choice_.num_clusters == found.n_clusters_
    assert not hasattr(found.set_params(n_clusters=2).fit(x), "choice_")


def test_one_cluster_needs_no_tree(x, monkeypatch):
    monkeypatch.setattr(_starts, "agglomerate", None)
    assert BregmanKMeans(1).fit(x).inertia_ > 0
    mean = ExponentialFamilyMixture(1).fit(x).means_[0]
    np.testing.assert_allclose(mean, x.mean(axis=0), rtol=1e-9)


def test_clusters_do_not_depend_on_the_order_of_rows(x, rng):
    x = np.repeat(x[::2], 2, axis=0)  # equal rows and clusters of equal size
    order = rng.permutation(len(x))
    for one in (
        BregmanAgglomerative(9, family="ward"),
        BregmanKMeans(9),
        ExponentialFamilyMixture(3),
    ):
        expected = clone(one).fit(x).predict(x)
        shuffled = clone(one).fit(x[order]).predict(x)
        np.testing.assert_array_equal(shuffled, expected)


# --- Weights -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        BregmanAgglomerative(3),
        BregmanAgglomerative(3, family="auto"),
        BregmanAgglomerative("gap"),
        DendrogramFeatures(),
        BregmanKMeans(3),
        ExponentialFamilyMixture(3),
    ],
    ids=repr,
)
def test_weights_are_repeated_rows(estimator, x, rng):
    weights = rng.integers(0, 4, len(x))
    weighted = clone(estimator).fit(x, sample_weight=weights)
    repeated = clone(estimator).fit(np.repeat(x, weights, axis=0))
    kind = "predict_proba" if hasattr(weighted, "predict_proba") else "transform"
    numbers = getattr(weighted, kind)(x), getattr(repeated, kind)(x)
    np.testing.assert_allclose(*numbers, rtol=1e-6, atol=1e-9)
    if hasattr(weighted, "labels_"):
        assert weighted.labels_.shape == (len(x),)
        there = weights > 0
        expected = np.repeat(weighted.labels_, weights)
        np.testing.assert_array_equal(expected, repeated.labels_)
        left_out = weighted.predict(x[~there])
        np.testing.assert_array_equal(weighted.labels_[~there], left_out)


def test_weights_of_frames_and_of_all_rows_alike(x):
    columns, family = {"a": x[:, 0], "b": x[:, 1]}, {"a": "ward", "b": "ward"}
    found = BregmanKMeans(3, family=family).fit(columns, sample_weight=2)
    plain = BregmanKMeans(3, family=family).fit(columns)
    np.testing.assert_allclose(found.inertia_, 2 * plain.inertia_)
    np.testing.assert_array_equal(found.labels_, plain.labels_)


# --- Features ------------------------------------------------------------------------


def test_features_are_those_of_the_function(x, rng):
    found = DendrogramFeatures(5).fit(x)
    rows = rng.normal(size=(4, 2))
    expected = bj.dendrogram_features(
        found.problem_, found.dendrogram_, rows, num_features=5
    )
    np.testing.assert_array_equal(found.transform(rows), expected)
    np.testing.assert_array_equal(found.feature_nodes_, [82, 81, 80, 79, 78])
    assert DendrogramFeatures().fit(x).transform(x).shape == (42, 10)
    assert DendrogramFeatures().fit(x[:4]).transform(x).shape == (42, 3)
    assert DendrogramFeatures().fit(x[[0, 0, 1, 1]]).transform(x).shape == (42, 1)
    assert DendrogramFeatures().fit(x[[0, 0]]).transform(x).shape == (42, 1)


# --- K-means -------------------------------------------------------------------------


def test_k_means_is_that_of_scikit_learn(x, rng):
    start, weights = rng.integers(0, 3, 42), rng.uniform(0.5, 2, 42)
    centers = [np.average(x[start == k], 0, weights[start == k]) for k in range(3)]
    expected = KMeans(3, init=np.array(centers), n_init=1, tol=0).fit(
        x, sample_weight=weights
    )
    found = BregmanKMeans(3, init=start).fit(x, sample_weight=weights)
    assert same_partition(found.labels_, expected.labels_)
    order = [expected.labels_[np.argmax(found.labels_ == k)] for k in range(3)]
    np.testing.assert_allclose(
        found.cluster_centers_, expected.cluster_centers_[order], rtol=1e-12
    )
    np.testing.assert_allclose(2 * found.inertia_, expected.inertia_)
    rows = rng.normal(size=(8, 2))
    distances = expected.transform(rows)[:, order]
    np.testing.assert_allclose(found.transform(rows), distances**2 / 2)
    np.testing.assert_array_equal(found.predict(rows), distances.argmin(axis=1))
    score = expected.score(rows, sample_weight=np.arange(8.0))
    np.testing.assert_allclose(2 * found.score(rows, None, np.arange(8.0)), score)
    np.testing.assert_allclose(2 * found.score(rows), expected.score(rows))


def test_seeds_go_by_the_random_state(x):
    found = BregmanKMeans(4, init="divergence", random_state=7).fit(x)
    direct = bj.hard_clustering(found.problem_, num_clusters=4, key=7)
    assert same_partition(found.labels_, direct.labels)
    assert found.inertia_ == direct.objective[-1]
    assert found.n_iter_ == max(1, direct.num_steps)
    many = BregmanKMeans(4, init="random", n_init=8, random_state=7).fit(x)
    one = clone(many).set_params(n_init=1).fit(x)
    assert many.inertia_ < one.inertia_
    state = np.random.RandomState(3)
    drawn = BregmanKMeans(4, init="random", random_state=state).fit(x)
    assert drawn.inertia_ > 0


def test_centers_are_mean_parameters(rng):
    x = rng.gamma(3.0, 2.0, (20, 2))
    labels = np.arange(20) % 2
    for family in ("gamma", "inverse_gaussian", "exponential", "diagonal_gaussian"):
        found = BregmanKMeans(2, init=labels, family=family).fit(x)
        own = [x[found.labels_ == k].mean(axis=0) for k in range(2)]
        np.testing.assert_allclose(found.cluster_centers_, own, rtol=1e-6)
    names = [["red"], ["red"], ["blue"], ["red"]]
    found = BregmanKMeans(1, family="categorical").fit(names)
    np.testing.assert_allclose(found.cluster_centers_, [[0.25, 0.75]])


# --- Mixtures ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("gaussian", "full"),
        ("diagonal_gaussian", "diag"),
        ("isotropic_gaussian", "spherical"),
    ],
)
def test_mixtures_are_those_of_scikit_learn(family, kind, x, rng):
    found = ExponentialFamilyMixture(
        3, family=family, smoothing=1e-3, tol=1e-9, max_iter=5000
    ).fit(x)
    expected = GaussianMixture(
        3,
        covariance_type=kind,
        tol=1e-12,
        max_iter=5000,
        weights_init=found.weights_,
        means_init=found.means_,
        precisions_init=precisions(found, kind),
    ).fit(x)
    np.testing.assert_allclose(found.weights_, expected.weights_, rtol=1e-4)
    np.testing.assert_allclose(found.means_, expected.means_, atol=1e-3)
    rows = rng.normal(size=(8, 2))
    np.testing.assert_allclose(
        found.score_samples(rows), expected.score_samples(rows), rtol=1e-3
    )
    np.testing.assert_allclose(
        found.predict_proba(rows), expected.predict_proba(rows), atol=1e-3
    )
    for criterion in ("score", "bic", "aic"):
        numbers = [getattr(model, criterion)(x) for model in (found, expected)]
        np.testing.assert_allclose(*numbers, rtol=1e-4)
    assert found.converged_
    np.testing.assert_array_equal(found.fit_predict(x), found.predict(x))


def precisions(found: ExponentialFamilyMixture, kind: str) -> np.ndarray:
    covariances = np.asarray(found.mixture_.states.moments.covariance)
    return np.linalg.inv(covariances) if kind == "full" else 1 / covariances


@pytest.mark.filterwarnings("ignore:.* the likeliest of no row")
def test_mixtures_keep_a_part_of_the_default_smoothing(x):
    bandwidth = lambda problem: problem.smoothing.bandwidth
    whole = bandwidth(bj.Problem(x, family="gaussian"))
    for share in (1.0, 0.25):
        found = ExponentialFamilyMixture(3, smoothing_share=share).fit(x)
        kept = bandwidth(found.problem_)
        np.testing.assert_allclose(kept, np.sqrt(share) * whole)
    given = ExponentialFamilyMixture(3, smoothing=0.5).fit(x)
    assert bandwidth(given.problem_) == 0.5
    tree = bj.agglomerate(x, family="gaussian")
    direct = bj.soft_clustering(found.problem_, init=tree.cut(3))
    np.testing.assert_allclose(np.sort(found.weights_), np.sort(direct.shares))
    assert found.lower_bound_ == found.lower_bounds_[-1]
    np.testing.assert_allclose(found.lower_bound_, direct.objective[-1] / 42)
    assert found.n_iter_ == direct.num_steps == len(found.lower_bounds_)


def test_iterations_that_are_cut_short_warn(x):
    with pytest.warns(ConvergenceWarning, match="`max_iter` = 1"):
        found = ExponentialFamilyMixture(3, max_iter=1).fit(x)
    assert not found.converged_
    with pytest.warns(ConvergenceWarning, match="`max_iter` = 1"):
        BregmanKMeans(6, init="random", random_state=0, max_iter=1).fit(x)


def test_samples_are_those_of_the_mixture(x):
    found = ExponentialFamilyMixture(3, random_state=0).fit(x)
    rows, components = found.sample(3000)
    assert rows.shape == (3000, 2)
    assert np.all(np.diff(components) >= 0)
    np.testing.assert_allclose(
        np.bincount(components) / 3000, found.weights_, atol=0.03
    )
    for k in range(3):
        own = rows[components == k]
        np.testing.assert_allclose(own.mean(axis=0), found.means_[k], atol=0.15)
    again, _ = found.sample(3000)
    np.testing.assert_array_equal(rows, again)
    # The mean log-density of the mixture's own rows is minus its entropy.
    other, _ = clone(found).set_params(random_state=1).fit(x).sample(3000)
    np.testing.assert_allclose(found.score(rows), found.score(other), atol=0.1)


def test_samples_of_names_have_names(rng):
    rows = [["red", 1], ["red", 2], ["blue", 2], ["blue", 1]] * 3
    found = ExponentialFamilyMixture(2, family="categorical", random_state=0).fit(rows)
    sampled, _ = found.sample(20)
    assert set(sampled[:, 0]) <= {"red", "blue"}
    assert set(sampled[:, 1]) <= {1, 2}
    numbers = ExponentialFamilyMixture(family="categorical").fit([[3], [5], [3]])
    sampled, _ = numbers.sample(20)
    assert sampled.dtype == float
    assert set(sampled[:, 0]) == {3.0, 5.0}


def test_samples_of_booleans_are_booleans():
    rows = np.array([[True], [False], [True]])
    found = ExponentialFamilyMixture(family="categorical", random_state=0).fit(rows)
    assert {type(value) for value in found.sample(9)[0][:, 0]} == {bool}


@pytest.mark.parametrize("init", ["tree", "divergence"])
def test_fewer_distinct_rows_than_clusters(init):
    rows = np.repeat([[0.0, 0.1], [1.0, 1.3]], 3, axis=0)
    with pytest.warns(ConvergenceWarning, match="2 are distinct of n_clusters=3"):
        found = BregmanKMeans(3, init=init, random_state=0).fit(rows)
    np.testing.assert_array_equal(found.labels_, found.predict(rows))
    assert same_partition(found.labels_, [0, 0, 0, 1, 1, 1])
    assert len(set(np.asarray(found.partition_.labels))) == 3


# --- Rows of weight 0 ----------------------------------------------------------------


def fitted_labels(estimator, rows, weights):
    return estimator.fit_predict(rows, sample_weight=weights).tolist()


PARTITIONS = [
    BregmanAgglomerative(2, smoothing=None),
    BregmanKMeans(2, smoothing=None),
    ExponentialFamilyMixture(2, smoothing=None),
]


@pytest.mark.parametrize("estimator", PARTITIONS)
def test_rows_of_weight_0_that_no_cluster_can_have_made(estimator):
    named = clone(estimator).set_params(family="categorical")
    rows = np.array([["a"], ["c"], ["b"], ["a"], ["b"]], object)
    found = fitted_labels(named, rows, [1, 0, 1, 1, 0])
    assert found[1] == -1
    assert found[0] == found[3] != found[2] == found[4]
    counts = np.array([[0, 3], [0, 4], [5, 0], [0, 40], [0, 50]])
    poisson = clone(estimator).set_params(family="poisson")
    found = fitted_labels(poisson, counts, [1, 1, 0, 1, 0])
    assert found[2] == -1
    assert found[0] == found[1] != found[3] == found[4]
    table = {"size": [1.0, 1.1, 9.0, 9.1, 9.0], "name": ["x", "x", "y", "y", "z"]}
    mixed = clone(estimator).set_params(family="auto", smoothing="auto")
    found = mixed.fit_predict(table, sample_weight=[1, 1, 1, 1, 0]).tolist()
    assert found[4] == -1
    assert found[0] == found[1] != found[2] == found[3]


@pytest.mark.parametrize("estimator", [*PARTITIONS, DendrogramFeatures(2)])
def test_rows_of_weight_0_must_fit_the_family(estimator):
    rows = np.array([[1.0], [2.0], [0.0], [9.0], [7.0]])
    model = clone(estimator).set_params(family="gamma", smoothing="auto")
    for weights in (None, [1, 1, 0, 1, 1], [0, 1, 1, 1, 1]):
        with pytest.raises(ValueError, match="`X` must be positive.* at row 2"):
            model.fit(rows, sample_weight=weights)
    names = np.array([["a"], ["b"], ["c"], ["a"], ["b"]], object)
    family = bj.Categorical(levels=(("a", "b"),))
    with pytest.raises(ValueError, match="`X` must hold known levels.*row 2"):
        clone(estimator).set_params(family=family).fit(names, None, [0, 1, 0, 1, 1])
    names[2, 0] = None
    model = clone(estimator).set_params(family=bj.Categorical())
    with pytest.raises(ValueError, match="`X` must have.*row 2"):
        model.fit({"name": names[:, 0].tolist()}, None, [1, 1, 0, 1, 1])


@pytest.mark.parametrize("estimator", PARTITIONS[:2])
def test_rows_of_weight_0_may_lack_cells(estimator):
    rows = np.array([[0.0, 0.1], [0.2, 0.0], [9.0, 8.0], [9.1, 8.2], [np.nan, 8.1]])
    model = clone(estimator).set_params(family="diagonal_gaussian", smoothing="auto")
    found = fitted_labels(model, rows, [1, 1, 1, 1, 0])
    assert found[4] == found[2] == found[3] != found[0]


# --- Errors --------------------------------------------------------------------------


HALF: Any = 2.5
TEXT: Any = "a"

REFUSED = {
    "both": (BregmanAgglomerative(2, max_cost=1.0), "Exactly one of `n_clusters`"),
    "neither": (BregmanAgglomerative(None), "Exactly one of `n_clusters`"),
    "criterion": (BregmanAgglomerative("aic"), "one of bic, icl, held_out, gap"),
    "half": (BregmanAgglomerative(HALF), "`n_clusters` must be a whole number"),
    "none": (BregmanKMeans(0), "`n_clusters` must be 1 at least"),
    "many": (BregmanKMeans(50), "n_samples=42 should be >= n_clusters=50"),
    "start": (BregmanKMeans(2, init="k-means++"), "`init` must be one of tree, div"),
    "labels": (BregmanKMeans(2, init=[0, 1]), "`init` must have an entry for each"),
    "starts": (BregmanKMeans(2, n_init=0), "`n_init` must be a whole number from 1"),
    "steps": (BregmanKMeans(2, max_iter=0), "`max_iter` must be a whole number from 1"),
    "tol": (ExponentialFamilyMixture(tol=-1), "`tol` must be a number that is not neg"),
    "share": (ExponentialFamilyMixture(smoothing_share=0), "`smoothing_share` must be"),
    "function": (
        ExponentialFamilyMixture(family=SquaredNorm()),
        "`family` must be a family, whose densities make a mixture",
    ),
    "features": (DendrogramFeatures(42), "`n_features` must be from 1 to 41"),
    "label": (BregmanKMeans(2, init=np.arange(42) % 3), "n_clusters=2; got .0 1 2."),
    "column": (
        ExponentialFamilyMixture(2, init=np.ones((42, 3)) / 3),
        "a column for each component, n_components=2",
    ),
    "number": (
        ExponentialFamilyMixture(smoothing_share=TEXT),
        "`smoothing_share` must be a number",
    ),
    "family": (BregmanAgglomerative(family="no such"), "`family` must be one of"),
    "sign": (BregmanAgglomerative(family="poisson"), "Negative values in data passed"),
}


@pytest.mark.parametrize(("estimator", "words"), REFUSED.values(), ids=REFUSED)
def test_arguments_that_do_not_fit(estimator, words, x):
    with pytest.raises((ValueError, TypeError), match=words):
        estimator.fit(x)


def test_weights_that_do_not_fit(x):
    fit = lambda weights: BregmanAgglomerative().fit(x, sample_weight=weights)
    with pytest.raises(ValueError, match="Negative values.*row 41"):
        fit(np.r_[np.ones(41), -1])
    with pytest.raises(ValueError, match="at least one non-zero"):
        fit(np.zeros(42))
    with pytest.raises(ValueError, match="must be 1D array or scalar"):
        fit(np.ones((42, 1)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fit(np.ones(41))
    with pytest.raises(ValueError, match=r"1 sample\(s\) of non-zero weight"):
        fit(np.eye(42)[0])


def test_rows_that_no_cluster_can_have_made():
    x = np.array([[4.0, 0.0], [5.0, 0.0], [0.0, 3.0], [0.0, 4.0]])
    found = BregmanAgglomerative(2, family="poisson").fit(x)
    assert np.isnan(found.predict_proba([[1.0, 1.0]])).all()
    with pytest.raises(ValueError, match="no cluster can have made, 1 of 2.*row 1"):
        found.predict([[1.0, 0.0], [1.0, 1.0]])


def test_starts_without_rows_of_weight_0(x):
    labels = np.arange(42) % 2
    labels[5] = 2
    weights = np.where(np.arange(42) == 5, 0.0, 1.0)
    with pytest.raises(ValueError, match="n_clusters=3; rows of weight 0 do not count"):
        BregmanKMeans(3, init=labels).fit(x, sample_weight=weights)
    with pytest.raises(ValueError, match="rows of weight 0 do not count; got 0 throug"):
        ExponentialFamilyMixture(3, init=np.eye(3)[labels]).fit(x, None, weights)
    assert BregmanKMeans(2, init=labels).fit(x, None, weights).labels_[5] in (0, 1)


def test_numbers_of_samples_that_do_not_fit(x):
    found = ExponentialFamilyMixture().fit(x)
    for wrong in (0, HALF, True):
        with pytest.raises(ValueError, match="`n_samples` must be a whole number"):
            found.sample(wrong)

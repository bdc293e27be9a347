"""Estimators by scikit-learn's conventions: its checks, input of any make, tools."""

import pickle
import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone as untyped_clone
from sklearn.cluster import AgglomerativeClustering
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import bregjax as bj
from bregjax.convex import SquaredNorm
from bregjax.sklearn import (
    BregmanAgglomerative,
    BregmanKMeans,
    DendrogramFeatures,
    ExponentialFamilyMixture,
)

clone: Any = untyped_clone

DEFAULT = [
    BregmanAgglomerative(),
    BregmanKMeans(),
    DendrogramFeatures(),
    ExponentialFamilyMixture(),
]
ESTIMATORS = [
    BregmanAgglomerative(3),
    BregmanKMeans(3, init="divergence", random_state=0),
    DendrogramFeatures(4),
    ExponentialFamilyMixture(3, init="divergence", random_state=0),
]
every_estimator = pytest.mark.parametrize(
    "estimator", ESTIMATORS, ids=lambda one: type(one).__name__
)


def fitted_numbers(estimator: Any, x: Any) -> np.ndarray:
    """What a fitted estimator says of rows, in numbers."""
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba(x)
    return estimator.transform(x)


@pytest.fixture
def x(rng):
    return rng.normal(size=(45, 3)) + 4 * np.repeat(np.eye(3), 15, axis=0)


@parametrize_with_checks(DEFAULT)
def test_checks_of_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        # Its data are not always such that EM ends, names match, and so on.
        warnings.simplefilter("ignore")
        check(estimator)


OTHERS = [
    BregmanAgglomerative(family="auto"),
    BregmanAgglomerative(2, family="poisson"),
    BregmanKMeans(3, init="divergence", family="diagonal_gaussian"),
    DendrogramFeatures(family="diagonal_gaussian", missing="observed"),
    ExponentialFamilyMixture(2, family="auto"),
]


def expected_to_fail(estimator: Any) -> dict[str, str]:
    if estimator.family == "poisson":
        of_classes = "expects tags of a classifier where there is `predict_proba`"
        return {
            "check_clustering": "its rows are negative",
            "check_estimator_sparse_array": of_classes,
            "check_estimator_sparse_matrix": of_classes,
        }
    if getattr(estimator, "init", "") == "divergence":
        return {
            "check_sample_weight_equivalence_on_dense_data": "seeds are rows by number"
        }
    return {}


@pytest.mark.slow
@parametrize_with_checks(OTHERS, expected_failed_checks=expected_to_fail)
def test_checks_of_other_families(estimator, check):
    test_checks_of_scikit_learn(estimator, check)


# --- Connectivity --------------------------------------------------------------------


def near(x: Any) -> Any:
    return kneighbors_graph(x, 6, include_self=False)


def test_connectivity_as_in_scikit_learn(x):
    expected = AgglomerativeClustering(3, connectivity=near(x)).fit(x)
    for graph in (near, near(x), near(x).toarray() > 0):
        found = BregmanAgglomerative(3, family="ward", connectivity=graph)
        labels = found.fit_predict(x)
        assert adjusted_rand_score(labels, expected.labels_) == 1
    pieces = BregmanAgglomerative(3, connectivity="chain").fit(x)
    assert np.flatnonzero(np.diff(pieces.labels_)).tolist() == [14, 29]
    assert clone(pieces).fit(x).labels_.tolist() == pieces.labels_.tolist()


@pytest.mark.filterwarnings("ignore:BIC is flat:UserWarning")
def test_parts_that_no_edge_joins(x):
    graph = np.zeros((45, 45), bool)
    graph[:20, :20] = graph[20:, 20:] = True
    model = BregmanAgglomerative(2, family="ward", connectivity=graph).fit(x)
    assert model.dendrogram_.num_trees == 2
    np.testing.assert_array_equal(model.labels_, np.arange(45) < 20)
    assert model.children_.shape == (43, 2)
    assert np.isfinite(model.predict_proba(x)).all()
    best = clone(model).set_params(n_clusters="bic").fit(x)
    assert best.choice_.numbers[0] == 2
    with pytest.raises(ValueError, match="`n_clusters` must be at least 2"):
        clone(model).set_params(n_clusters=1).fit(x)


def test_rows_of_weight_0_are_in_no_graph(x):
    weights = np.ones(45)
    weights[::7] = 0
    kept = weights > 0
    for graph in (near(x), np.argwhere(near(x).toarray())):
        found = BregmanAgglomerative(4, connectivity=graph).fit(
            x, sample_weight=weights
        )
        part = near(x)[kept][:, kept]
        expected = BregmanAgglomerative(4, connectivity=part).fit(x[kept])
        np.testing.assert_array_equal(found.labels_[kept], expected.labels_)
    chained = BregmanAgglomerative(3, connectivity="chain")
    labels = clone(chained).fit(x, sample_weight=weights).labels_
    np.testing.assert_array_equal(labels[kept], chained.fit(x[kept]).labels_)


# --- Input of any make ---------------------------------------------------------------


MAKES = {
    "float32": lambda x: x.astype(np.float32),
    "lists": lambda x: x.tolist(),
    "jax": jnp.asarray,
    "columns first": np.asfortranarray,
    "pandas": lambda x: pd.DataFrame(x, columns=["a", "b", "c"]),
    "polars": lambda x: pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}),
    "masked": np.ma.asarray,
}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
@every_estimator
def test_rows_of_any_make(estimator, make, x):
    x = np.round(x, 2).astype(np.float32).astype(float)  # exact in float32
    expected = clone(estimator).fit(x)
    found = clone(estimator).fit(make(x))
    numbers = fitted_numbers(found, make(x))
    np.testing.assert_allclose(numbers, fitted_numbers(expected, x), rtol=1e-12)
    if hasattr(make(x), "columns"):
        assert list(found.feature_names_in_) == ["a", "b", "c"]
        assert found.problem_.columns == ("a", "b", "c")


@pytest.mark.filterwarnings("ignore:.* the likeliest of no row")
@pytest.mark.parametrize("family", ["poisson", "multinomial", "ward"])
@every_estimator
def test_sparse_rows(estimator, family, rng):
    x = rng.poisson(1.0, (30, 12)) * rng.uniform(0.5, 1.5, (30, 12)) + np.eye(30, 12)
    one = clone(estimator).set_params(family=family, smoothing=None)
    if family == "multinomial":
        center = np.full(12, 1 / 12)
        one.set_params(smoothing=bj.mixing(center, 0.1))
    table = scipy.sparse.csr_matrix(x)
    assert get_tags(one).input_tags.sparse
    expected = fitted_numbers(clone(one).fit(x), x)
    for rows in (table, table.tocoo(), scipy.sparse.csc_array(x)):
        found = clone(one).fit(rows)
        np.testing.assert_allclose(
            fitted_numbers(found, rows), expected, rtol=1e-9, atol=1e-12
        )


def test_sparse_rows_that_a_family_does_not_take(x):
    with pytest.raises(TypeError, match="[Ss]parse"):
        BregmanAgglomerative().fit(scipy.sparse.csr_matrix(x))


@every_estimator
def test_tables_of_mixed_columns(estimator, rng):
    m = 40
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=m) + 5 * (np.arange(m) % 2),
            "visits": rng.poisson(3.0, m).astype(float),
            "town": np.where(rng.random(m) < 0.6, "Bonn", "Kiel"),
        }
    )
    frame.loc[3, "size"] = np.nan
    frame.loc[4, "town"] = None
    one = clone(estimator).set_params(family={"visits": "geometric"})
    tags = get_tags(one).input_tags
    assert tags.allow_nan
    assert tags.categorical
    one.fit(frame)
    assert list(one.feature_names_in_) == ["size", "visits", "town"]
    direct = bj.Problem(frame, family={"visits": "geometric"})
    assert repr(one.problem_.family) == repr(direct.family)
    numbers = fitted_numbers(one, frame.iloc[:7])
    assert numbers.shape[0] == 7
    assert np.isfinite(numbers).all()
    rows = frame.astype(object).to_numpy()
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        plain = fitted_numbers(one, rows[:7])
    np.testing.assert_allclose(plain, numbers)


@every_estimator
def test_missing_cells(estimator, x):
    holes = x.copy()
    holes[::5, 1] = np.nan
    one = clone(estimator).set_params(family="diagonal_gaussian")
    assert get_tags(one).input_tags.allow_nan
    numbers = fitted_numbers(clone(one).fit(holes), holes)
    assert np.isfinite(numbers).all()
    masked = np.ma.masked_invalid(holes)
    masked.data[::5, 1] = 1e6  # under the mask
    again = fitted_numbers(clone(one).fit(masked), masked)
    np.testing.assert_array_equal(again, numbers)
    whole = clone(one).fit(x)
    with pytest.raises(ValueError, match=r'contains NaN.*missing="observed"'):
        fitted_numbers(whole, holes)
    observed = clone(one).set_params(missing="observed").fit(x)
    assert np.isfinite(fitted_numbers(observed, holes)).all()


def test_full_gaussians_refuse_missing_cells(x):
    x[2, 1] = np.nan
    assert not get_tags(BregmanAgglomerative()).input_tags.allow_nan
    with pytest.raises(ValueError, match="contains NaN"):
        BregmanAgglomerative().fit(x)


def test_tags_go_by_the_family():
    tags = lambda family: get_tags(BregmanAgglomerative(family=family)).input_tags
    assert tags("poisson").positive_only
    assert tags(bj.Gamma()).positive_only
    assert not tags("laplace").positive_only
    assert not tags("ising").allow_nan
    assert not tags(bj.Gaussian(dim=3)).positive_only
    own = bj.ExponentialFamily(lambda t: jnp.sum(t**2), lambda x: x, jnp.zeros(3))
    assert not tags(own).positive_only
    assert tags("categorical").string
    assert not tags(SquaredNorm()).allow_nan
    assert tags(SquaredNorm()).sparse
    assert not tags("no such family").sparse


# --- Tools ---------------------------------------------------------------------------


@every_estimator
def test_pickles_and_clones(estimator, x):
    found = clone(estimator).set_params(family=bj.DiagonalGaussian()).fit(x)
    again = pickle.loads(pickle.dumps(found))
    expected = fitted_numbers(found, x)
    np.testing.assert_array_equal(fitted_numbers(again, x), expected)
    np.testing.assert_array_equal(fitted_numbers(clone(found).fit(x), x), expected)
    if hasattr(found, "labels_"):
        np.testing.assert_array_equal(again.labels_, found.labels_)
    with pytest.raises(NotFittedError):
        fitted_numbers(clone(found), x)


@pytest.mark.filterwarnings("ignore:.* the likeliest of no row")
@every_estimator
def test_a_psi_of_one_s_own_clones(estimator, rng):
    def psi(theta):
        return jnp.sum(jnp.exp(theta))

    family = bj.ExponentialFamily(psi, lambda x: x, jnp.zeros(2), separable=True)
    x = rng.poisson(4.0, (12, 2)) + 1.0
    one = clone(clone(estimator).set_params(family=family)).fit(x)
    poisson = clone(estimator).set_params(family="poisson").fit(x)
    np.testing.assert_allclose(
        fitted_numbers(one, x), fitted_numbers(poisson, x), rtol=1e-6, atol=1e-9
    )


@pytest.mark.filterwarnings("ignore:.* of 3 clusters .* likeliest of no row")
def test_grids_over_bandwidths_and_families(x):
    grid = {"smoothing": [0.05, 0.5, 5.0], "family": ["gaussian", "diagonal_gaussian"]}
    for one in (BregmanAgglomerative(3), ExponentialFamilyMixture(3)):
        found = GridSearchCV(one, grid, cv=3).fit(x[np.arange(45) % 15 * 3])
        scores = found.cv_results_["mean_test_score"].reshape(2, 3)
        assert np.all(scores[:, 2] < scores[:, 1])
        assert found.best_params_["smoothing"] < 5
        assert np.isfinite(found.cv_results_["mean_test_score"]).all()


def test_numbers_for_smoothing_are_bandwidths(x):
    found = BregmanAgglomerative(3, smoothing=0.5).fit(x)
    expected = bj.agglomerate(x, family="gaussian", smoothing=bj.blur(0.5))
    np.testing.assert_allclose(found.distances_, expected.merge_costs)
    for wrong in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="`smoothing` must be positive and finite"):
            BregmanAgglomerative(smoothing=wrong).fit(x)


def test_pipelines_with_classifiers(x, rng):
    kinds = np.repeat([0, 1, 2], 15)
    pipe: Any = make_pipeline(
        StandardScaler(),
        DendrogramFeatures(6, family="diagonal_gaussian"),
        StandardScaler(),
        LogisticRegression(),
    )
    assert pipe.fit(x, kinds).score(x, kinds) > 0.9
    weights = rng.uniform(0.5, 2, 45)
    pipe.fit(x, kinds, dendrogramfeatures__sample_weight=weights)
    np.testing.assert_array_equal(pipe[1].problem_.weights, weights)


@pytest.mark.parametrize("container", ["pandas", "polars"])
@pytest.mark.parametrize("estimator", [DendrogramFeatures(2), BregmanKMeans(2)])
def test_output_in_frames(estimator, container, x):
    found = clone(estimator).set_output(transform=container).fit(x).transform(x)
    prefix = type(estimator).__name__.lower()
    assert list(found.columns) == [f"{prefix}0", f"{prefix}1"]
    assert type(found).__module__.startswith(container)


@every_estimator
def test_other_numbers_of_columns(estimator, x):
    found = clone(estimator).fit(x)
    name = type(estimator).__name__
    match = f"X has 2 features, but {name} is expecting 3 features as input"
    with pytest.raises(ValueError, match=match):
        fitted_numbers(found, x[:, :2])

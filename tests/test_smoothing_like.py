"""Numbers as smoothing, and warnings of one bandwidth that drowns a column."""

import warnings
from typing import Any

import jax
import numpy as np
import pytest

import bregjax as bj

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
UNITS = X * [1.0, 0.01, 100.0]


def bandwidth_of(problem: bj.Problem) -> float:
    smoothing: Any = problem.smoothing
    return float(smoothing.bandwidth)


@pytest.mark.parametrize("number", [0.3, np.float32(0.25), np.float64(2), 1])
def test_a_number_is_what_the_family_makes_of_it(number):
    problem = bj.Problem(X, family="gaussian", smoothing=number)
    assert bandwidth_of(problem) == number
    counts = np.round(np.abs(X))
    added = bj.Problem(counts, family="poisson", smoothing=number)
    expected = bj.Poisson(dim=3).smoothing_of(float(number))
    assert jax.tree.all(jax.tree.map(np.array_equal, added.smoothing, expected))


def test_a_number_goes_for_cells_that_are_missing():
    x = X.copy()
    x[0, 0] = np.nan
    given = bj.Problem(x, family="diagonal_gaussian", smoothing=0.5)
    blurred = bj.Problem(x, family="diagonal_gaussian", smoothing=bj.blur(0.5))
    first, second = (bj.agglomerate(p).merge_costs for p in (given, blurred))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("number", [0, -1.0, np.inf, np.nan])
def test_numbers_that_are_not_positive_are_refused(number):
    with pytest.raises(ValueError, match="`smoothing` must be positive and finite"):
        bj.Problem(X, family="gaussian", smoothing=number)


@pytest.mark.parametrize("family", ["gaussian", "isotropic_gaussian"])
def test_a_bandwidth_far_above_the_spread_of_a_column_warns(family):
    frame = dict(zip("abc", UNITS.T, strict=True))
    with pytest.warns(UserWarning, match="column 'b'") as caught:
        problem = bj.Problem(frame, family=family)
    assert len(caught) == 1
    [text] = [str(warning.message) for warning in caught]
    assert "normal_reference(x, per_coordinate=True)" in text
    bandwidth, spread = bandwidth_of(problem), UNITS[:, 1].std()
    assert f"{bandwidth:.4g} is {bandwidth / spread:.3g} times" in text
    assert f"{spread:.3g} of column" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bj.agglomerate(problem)


@pytest.mark.parametrize(
    ("x", "arguments"),
    [
        (X, {"family": "gaussian"}),
        (UNITS, {"family": "diagonal_gaussian"}),
        (UNITS, {"family": "gaussian", "smoothing": bj.normal_reference(UNITS)}),
        (UNITS, {"family": "gaussian", "smoothing": 3.0}),
        (UNITS * [1, 0, 1] / [1, 1, 100], {"family": "gaussian"}),  # one is constant
    ],
)
def test_no_warning_where_columns_are_alike_or_the_bandwidth_was_given(x, arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bj.Problem(x, **arguments)


def test_blocks_of_a_product_have_bandwidths_of_their_own():
    frame = dict(zip("abc", UNITS.T, strict=True))
    with pytest.warns(UserWarning, match="column 'b'"):
        bj.Problem(frame, family={("a", "b", "c"): "gaussian"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bj.Problem(frame, family={("a", "c"): bj.DiagonalGaussian(), "b": "auto"})


def test_check_table_tells_of_the_bandwidth_and_of_nothing_that_is_not_there():
    smoothing = bj.normal_reference(UNITS)
    problem = bj.Problem(UNITS, family="gaussian", smoothing=smoothing)
    report = bj.check_table(problem, num_clusters=3)
    assert not report["bandwidth"].passed
    assert "column 1" in report["bandwidth"].sentence
    made = {finding.name for finding in report.findings}
    assert not made & {"dominance", "dispersion"}
    alike = bj.check_table(bj.Problem(X, family="gaussian"), num_clusters=3)
    assert alike["bandwidth"].passed

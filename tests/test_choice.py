"""Families chosen by what columns hold, in tables of every make."""

import datetime
import decimal
import enum
import warnings
from typing import Any

import numpy as np
import pytest

import bregjax as bj

NAN = np.nan
M = 12


def table():
    """A column of each kind that is kept."""
    rng = np.random.default_rng(0)
    return {
        "height": rng.normal(1.7, 0.1, M).tolist(),
        "visits": [0, 2, 3, 11, 1, 4, 2, 5, 0, 7, 3, 2],
        "smokes": [True, False] * 6,
        "member": [0, 1, 1] * 4,
        "town": ["Kiel", "Bonn", "Ulm"] * 4,
        "year": [1990 + k % 7 for k in range(M)],
        "income": [12_000, 51_000, 33_500] * 4,
        "change": [-2, 3, 0, 1] * 3,
    }


KINDS = {
    "height": bj.DiagonalGaussian,
    "visits": bj.Poisson,
    "smokes": bj.Bernoulli,
    "member": bj.Bernoulli,
    "town": bj.Categorical,
    "year": bj.DiagonalGaussian,
    "income": bj.DiagonalGaussian,
    "change": bj.DiagonalGaussian,
}


def kinds(family):
    """The class of the family of each column."""
    return {
        column: type(one)
        for block, one in zip(family.layout.blocks, family.families, strict=True)
        for column in block
    }


def with_holes(columns):
    return {
        name: [None if k == place else value for k, value in enumerate(column)]
        for place, (name, column) in enumerate(columns.items())
    }


def test_rules_on_a_mapping():
    assert kinds(bj.choose_families(table())) == KINDS
    assert kinds(bj.choose_families(with_holes(table()))) == KINDS
    blocks = bj.choose_families(table()).layout.blocks
    assert blocks == (
        ("height", "year", "income", "change"),
        ("visits",),
        ("smokes", "member"),
        ("town",),
    )


def test_rules_on_rows():
    rows = [list(row) for row in zip(*with_holes(table()).values(), strict=True)]
    expected = dict(enumerate(KINDS.values()))
    assert kinds(bj.choose_families(rows)) == expected
    assert kinds(bj.choose_families(np.array(rows, dtype=object))) == expected
    assert kinds(bj.choose_families([tuple(row) for row in rows])) == expected


def test_rules_on_a_structured_array():
    columns = table()
    types = [(name, np.asarray(column).dtype) for name, column in columns.items()]
    records = np.array(list(zip(*columns.values(), strict=True)), dtype=types)
    assert kinds(bj.choose_families(records)) == KINDS


def test_rules_on_pandas():
    pd = pytest.importorskip("pandas")
    assert kinds(bj.choose_families(pd.DataFrame(table()))) == KINDS
    frame = pd.DataFrame(with_holes(table()))
    assert kinds(bj.choose_families(frame)) == KINDS
    assert kinds(bj.choose_families(frame.convert_dtypes())) == KINDS
    odd = pd.DataFrame(
        {
            "count": pd.array([3, None, 0, 9, 1, 2, 8, 1, 4], dtype="Int64"),
            "flag": pd.array([True, None, False] * 3, dtype="boolean"),
            "name": pd.array(["a", None, "b"] * 3, dtype="string"),
            "class": pd.Categorical(["x", "y", None] * 3, categories=["y", "x", "z"]),
            "size": pd.Categorical(
                ["S", "L", "M"] * 3, categories=["S", "M", "L"], ordered=True
            ),
            "code": pd.Categorical([3, 1, 3] * 3),
        }
    )
    family = bj.choose_families(odd)
    assert kinds(family) == {
        "count": bj.Poisson,
        "flag": bj.Bernoulli,
        "name": bj.Categorical,
        "class": bj.Categorical,
        "size": bj.Categorical,
        "code": bj.Categorical,
    }
    problem = bj.Problem(odd, family=family)
    family: Any = problem.family
    levels = family.families[-1].levels
    assert levels == (("a", "b"), ("y", "x", "z"), ("S", "M", "L"), (1, 3))
    np.testing.assert_array_equal(problem.x[:3, 0], [3, NAN, 0])
    np.testing.assert_array_equal(problem.x[:3, 1], [1, NAN, 0])
    np.testing.assert_array_equal(problem.x[:3, 3], [1, 0, NAN])


def test_rules_on_polars():
    pl = pytest.importorskip("polars")
    assert kinds(bj.choose_families(pl.DataFrame(table()))) == KINDS
    assert kinds(bj.choose_families(pl.DataFrame(with_holes(table())))) == KINDS
    odd = pl.DataFrame(
        {
            "class": pl.Series(["x", "y", None] * 3, dtype=pl.Categorical),
            "size": pl.Series(["S", "L", "M"] * 3, dtype=pl.Enum(["S", "M", "L"])),
            "price": pl.Series([1.5, 2.25, None] * 3, dtype=pl.Decimal(6, 2)),
        }
    )
    family = bj.choose_families(odd)
    assert kinds(family) == {
        "class": bj.Categorical,
        "size": bj.Categorical,
        "price": bj.DiagonalGaussian,
    }
    problem = bj.Problem(odd, family=family)
    family: Any = problem.family
    assert family.families[0].levels[1] == ("S", "M", "L")
    np.testing.assert_array_equal(problem.x[:3, 2], [1.5, 2.25, NAN])


def test_the_same_tree_of_all_makes():
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    columns = with_holes(table())
    expected = bj.agglomerate(columns)
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    for made in (pd.DataFrame(columns), pl.DataFrame(columns)):
        tree = bj.agglomerate(made)
        np.testing.assert_array_equal(tree.merge_costs, expected.merge_costs)
    tree = bj.agglomerate(rows, family="auto")
    np.testing.assert_array_equal(tree.merge_costs, expected.merge_costs)


def aside_of(columns):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        family = bj.choose_families({**columns, "kept": [0.5, 1.5, 2.25] * 4})
    assert family.layout.blocks == (("kept",),)
    return "\n".join(str(one.message) for one in caught)


def test_what_is_set_aside_is_named():
    days = [datetime.date(2026, 1, 1 + k) for k in range(M)]
    columns = {
        "one": [3.0] * M,
        "only": ["x", None] * 6,
        "yes": [True] * M,
        "none": [None] * M,
        "number": list(range(1, M + 1)),
        "turned": np.random.default_rng(0).permutation(M) + 100,
        "day": days,
        "time": np.array(days, dtype="datetime64[D]"),
        "remark": [f"remark {k}" for k in range(M)],
    }
    words = aside_of(columns)
    for name in columns:
        assert repr(name) in words, name
    assert "'one' (constant, 3)" in words
    assert "'number' (counts the rows)" in words
    assert "'day' (dates)" in words
    assert "'remark' (text, 12 different of 12)" in words
    assert "'none' (empty)" in words
    assert "'kept'" not in words


def test_dates_of_data_frames_are_set_aside():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    days = [datetime.datetime(2026, 1, 1 + k) for k in range(M)]
    kept = [0.5, 1.5, 2.25] * 4
    spans = [datetime.timedelta(days=k) for k in range(M)]
    columns = {"kept": kept, "day": days, "span": spans}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        with pytest.warns(UserWarning, match=r"'day' \(dates\); 'span' \(dates\)"):
            assert bj.choose_families(frame).layout.blocks == (("kept",),)
    zoned = pd.DataFrame({"kept": kept, "day": pd.to_datetime(days, utc=True)})
    with pytest.warns(UserWarning, match=r"'day' \(dates\)"):
        bj.choose_families(zoned)


def test_no_column_left_is_an_error():
    with (
        pytest.warns(UserWarning, match="set aside"),
        pytest.raises(
            ValueError, match=r"no column to cluster by.*'a' \(constant, 1\)"
        ),
    ):
        bj.choose_families({"a": [1.0] * M})


def test_few_rows_have_no_identifiers():
    family = bj.choose_families({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    assert set(kinds(family)) == {"a", "b"}


def test_what_is_given_counts():
    given = {
        "visits": "negative_binomial",
        ("height", "year"): "gaussian",
        "income": bj.Gamma(),
        "smokes": None,
        "change": "gaussian",
        "town": "auto",
    }
    family = bj.choose_families(table(), given)
    assert kinds(family) == {
        "visits": bj.NegativeBinomial,
        "height": bj.Gaussian,
        "year": bj.Gaussian,
        "income": bj.Gamma,
        "change": bj.DiagonalGaussian,
        "member": bj.Bernoulli,
        "town": bj.Categorical,
    }
    assert ("height", "year") in family.layout.blocks
    problem = bj.Problem(table(), family=given)
    assert kinds(problem.family) == kinds(family)
    assert problem.x.shape == (M, 7)
    by_number = bj.choose_families(table(), {1: "negative_binomial", -1: None})
    assert kinds(by_number)["visits"] == bj.NegativeBinomial
    assert "change" not in kinds(by_number)


def test_what_was_set_aside_can_be_given():
    columns = {"number": list(range(1, M + 1)), "kept": [0.5, 1.5, 2.25] * 4}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        family = bj.choose_families(columns, {"number": "poisson"})
        assert kinds(family)["number"] == bj.Poisson
        assert "number" not in kinds(bj.choose_families(columns, {"number": None}))


def test_families_with_parameters_stay_apart():
    given = {
        "a": bj.NegativeBinomial(dispersion=2.0),
        "b": bj.NegativeBinomial(dispersion=5.0),
        "c": bj.NegativeBinomial(dispersion=2.0),
    }
    columns = {name: [1, 5, 2, 0] for name in "abc"}
    family = bj.choose_families(columns, given)
    assert family.layout.blocks == (("a", "c"), ("b",))


def test_given_columns_that_do_not_fit():
    with pytest.raises(
        ValueError, match="`family` has column 'age', which `x` has not"
    ):
        bj.choose_families(table(), {"age": "poisson"})
    with pytest.raises(ValueError, match="has column 99"):
        bj.choose_families(table(), {99: "poisson"})
    with pytest.raises(TypeError, match="got int"):
        bj.choose_families(table(), {"visits": 3})  # pyright: ignore
    with pytest.raises(ValueError, match="must be one of"):
        bj.choose_families(table(), {"visits": "fish"})


def test_a_column_given_twice_is_refused():
    for given in (
        {("height", "year"): "gaussian", "year": "poisson"},
        {"year": "poisson", 5: None},
        {("height", "year"): "gaussian", ("year", "income"): "gaussian"},
    ):
        with pytest.raises(ValueError, match="'year'"):
            bj.choose_families(table(), given)


def test_enums_keep_the_order_of_their_members():
    size = enum.Enum("size", ["S", "M", "L"])
    members = [size.L, size.S, None, size.L]
    problem = bj.Problem({"size": members, "n": [1.5, 2, 3, 4]}, family="auto")
    family: Any = problem.family
    assert family.families[0].levels == (tuple(size),)
    np.testing.assert_array_equal(problem.x[:, 0], [2, 0, NAN, 2])


def test_ordered_levels_are_numbers_under_a_family_of_numbers():
    pd = pytest.importorskip("pandas")
    grades = pd.Categorical(
        ["low", "high", None, "mid"], categories=["low", "mid", "high"], ordered=True
    )
    frame = pd.DataFrame({"grade": grades, "n": [1.5, 2, 3, 4]})
    problem = bj.Problem(frame, family={"grade": "ward"})
    np.testing.assert_array_equal(problem.x[:, 0], [0, 2, NAN, 1])
    frame["grade"] = frame["grade"].cat.as_unordered()
    with pytest.raises(ValueError, match="must hold numbers in column 'grade'"):
        bj.Problem(frame, family={"grade": "ward"})


def test_numbers_of_other_types():
    columns = {
        "price": [decimal.Decimal("1.5"), None, decimal.Decimal("2.25"), 4],
        "half": np.array([0.5, NAN, 1.5, 2.0], dtype=np.float16),
        "small": np.array([3, 0, 7, 2], dtype=np.uint8),
    }
    family = bj.choose_families(columns)
    assert kinds(family) == {
        "price": bj.DiagonalGaussian,
        "half": bj.DiagonalGaussian,
        "small": bj.Poisson,
    }
    problem = bj.Problem(columns, family=family)
    np.testing.assert_array_equal(problem.x[:, 0], [1.5, NAN, 2.25, 4])


def test_categories_of_whole_numbers_and_names():
    columns = {"code": [10, 2, 10, None], "odd": ["b", 2, 1, "a"]}
    problem = bj.Problem(columns, family={"code": "categorical"})
    family: Any = problem.family
    levels = dict(zip(family.names, family.families[0].levels, strict=True))
    assert levels == {"code": (2, 10), "odd": (1, 2, "a", "b")}
    with pytest.raises(ValueError, match=r"whole numbers.*got 1.5 at row 0"):
        bj.Problem({"code": [1.5, 2.0]}, family={"code": "categorical"})


def test_names_that_come_twice_are_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["a", "a"])
    with pytest.raises(ValueError, match="got 'a' 2 times"):
        bj.Problem(frame, family="auto")
    with pytest.raises(ValueError, match="got 'a' 2 times"):
        bj.choose_families(frame)


def test_columns_of_one_length():
    with pytest.raises(ValueError, match="columns of one length"):
        bj.choose_families({"a": [1.0, 2.0], "b": [1.0]})


def test_column_weights_are_passed_on():
    columns = {"a": [0.5, 1.5, 2.25, 9.0], "b": [3, 0, 7, 2]}
    family = bj.choose_families(columns, weights={"b": 2.0})
    np.testing.assert_array_equal(family.weights, [1, 2])
    with pytest.raises(ValueError, match="`weights` has column 'c'"):
        bj.choose_families(columns, weights={"c": 2.0})
    scaled = bj.choose_families(columns, missing="scaled")
    assert scaled.layout.missing == "scaled"


def test_the_choice_prints_as_code():
    family = bj.choose_families(table())
    again = eval(repr(family), dict(vars(bj)))
    assert repr(again) == repr(family)
    assert kinds(again) == KINDS


def test_columns_that_are_no_columns_are_refused():
    good = [0.5, 1.5, 2.25]
    with pytest.raises((TypeError, ValueError), match="complex"):
        bj.choose_families({"a": np.array([1j, 2, 3]), "b": good})
    with pytest.raises((TypeError, ValueError), match="'a'"):
        bj.choose_families({"a": np.ones((3, 2)) * [[1], [2], [4]], "b": good})
    with pytest.raises((TypeError, ValueError), match="'a'"):
        bj.choose_families({"a": 1.0, "b": good})
    with pytest.raises((TypeError, ValueError), match="'a'"):
        bj.choose_families({"a": [[1], [2], [1]], "b": good})

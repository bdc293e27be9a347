"""Arguments of a kind that another library takes: errors that say what to do."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas
import pytest

import bregjax as bj

X = np.abs(np.random.default_rng(0).normal(size=(6, 2)))


@pytest.mark.parametrize("family", ["auto", "gaussian"])
def test_the_name_of_a_file(family):
    with pytest.raises(ValueError, match="Read the file first, as by pandas.read_csv"):
        bj.Problem("people.csv", family=family)


@pytest.mark.parametrize("method", ["single", "complete", "Average"])
def test_linkages_by_distances(method):
    with pytest.raises(ValueError, match=r"hierarchy\.linkage.*family=\"ward\""):
        bj.agglomerate(X, family=method)


@pytest.mark.parametrize("name", ["must_link", "cannot_link", "connectivity"])
def test_links_of_names(name):
    links: dict[str, Any] = {name: [("a", "b")]}
    with pytest.raises(ValueError, match=f"`{name}` must hold numbers of rows.*'a'"):
        bj.agglomerate(X, family="ward", **links)


def test_one_row_has_no_families_to_choose_by():
    table = pandas.DataFrame(X[:1], columns=["u", "v"])
    with pytest.raises(ValueError, match="two rows at least"):
        bj.Problem(table)
    assert bj.Problem(table, family={"u": "poisson", "v": None}).columns == ("u",)


@pytest.mark.parametrize("family", [None, "gaussian"])
def test_a_series_is_a_column_with_its_name(family):
    series = pandas.Series(X[:, 0], name="size")
    problem = bj.Problem(series, family=family)
    assert problem.columns == ("size",)
    frame = bj.Problem(series.to_frame(), family=family)
    first, second = (bj.agglomerate(p).merge_costs for p in (problem, frame))
    np.testing.assert_array_equal(first, second)


def test_psi_in_numpy():
    wrong = lambda theta: np.sum(np.exp(theta))
    right = lambda theta: jnp.sum(jnp.exp(theta))
    with pytest.raises(TypeError, match="`log_partition` must be written in jax.numpy"):
        bj.ExponentialFamily(wrong, lambda x: x, np.zeros(2))
    family = bj.ExponentialFamily(right, np.exp, np.zeros(2))
    with pytest.raises(TypeError, match="`sufficient_statistics` must be written in"):
        bj.Problem(X, family=family)
    with pytest.raises(TypeError, match="`family` must be written in jax.numpy"):
        bj.Problem(X, family=wrong)


def test_several_comparisons_print_one_below_the_other():
    problem = bj.Problem({"visits": [2, 3, 9]}, family="poisson")
    found = bj.explain_clusters(problem, [0, 0, 1])
    assert str(found) == f"{found[0]}\n{found[1]}"

"""Costs of merges split by column, and what sets clusters apart."""

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from matplotlib.figure import Figure

import bregjax as bj
from bregjax.families._summary import ColumnSummary
from bregjax.plotting import plot_comparison

RNG = np.random.default_rng(3)


def table_of(m=24):
    kind = np.arange(m) % 2
    table = {
        "size": 5.0 * kind + RNG.normal(size=m),
        "mass": 3.0 * kind + RNG.normal(size=m),
        "visits": RNG.poisson(2 + 6 * kind).astype(float),
        "smokes": RNG.random(m) < 0.2 + 0.6 * kind,
        "town": RNG.choice(["Bonn", "Kiel", "Ulm"], m).astype(object),
    }
    table["visits"][::5] = np.nan
    table["town"][1::7] = None
    return table


TABLE = table_of()
FAMILIES = {
    "by column": "auto",
    "with correlations": {("size", "mass"): "gaussian"},
    "other families": {"visits": bj.NegativeBinomial(3.0), "size": bj.Laplace(-1.0)},
    "solved for": {"size": None, "mass": None, "smokes": "poisson"},
}


def by_name(comparison):
    return {column.name: column for column in comparison}


@pytest.mark.parametrize("case", FAMILIES)
def test_parts_add_up_to_the_cost_of_every_merge(case):
    problem = bj.Problem(TABLE, family=FAMILIES[case])
    tree = bj.agglomerate(problem)
    for node in (-1, -2, -9, len(TABLE["size"])):
        found = bj.explain(problem, tree, node)
        assert found.merge is not None
        cost = tree.merge_costs[found.node - tree.num_leaves]
        assert found.merge.cost == pytest.approx(cost, rel=1e-10, abs=1e-12)
        costs = [column.cost for column in found.merge]
        assert costs == sorted(costs, reverse=True)


def test_parts_of_scaled_costs_add_up():
    problem = bj.Problem(TABLE, family="auto", missing="scaled")
    tree = bj.agglomerate(problem)
    for node in (-1, -3):
        found = bj.explain(problem, tree, node).merge
        assert found is not None
        assert found.cost == pytest.approx(tree.merge_costs[node], rel=1e-10)


def test_terms_are_the_entropies_and_rates_of_a_column():
    problem = bj.Problem(
        {"n": [1.0, 3.0, None, 8.0], "c": ["a", "b", "b", "b"]}, family="auto"
    )
    columns = by_name(bj.compare_rows(problem, [0, 1], [2, 3]))
    # Sums 4 of two cells and 8 of one; 12 of three.
    xlog = lambda s, n: s * np.log(s / n)
    assert columns["n"].cost == pytest.approx(xlog(4, 2) + xlog(8, 1) - xlog(12, 3))
    entropy = lambda *p: -sum(q * np.log(q) for q in p if q)
    lost = 4 * entropy(0.25, 0.75) - 2 * entropy(0.5, 0.5)
    assert columns["c"].cost == pytest.approx(lost)


def test_columns_come_in_the_units_of_the_data():
    problem = bj.Problem(
        {
            "n": [1.0, 3.0, None, 8.0],
            "x": [0.5, 1.5, 7.0, 9.0],
            "yes": [True, False, True, True],
            "c": ["a", "b", "b", "b"],
        },
        family="auto",
    )
    columns = by_name(bj.compare_rows(problem, [0, 1], [2, 3]))
    words = {name: (str(c.first[0]), str(c.second[0])) for name, c in columns.items()}
    assert words == {
        "n": ("2", "8"),
        "x": ("1.00 ± 0.50", "8.0 ± 1.0"),
        "yes": ("50%", "100%"),
        "c": ("a 50%, b 50%", "b 100%"),
    }
    assert columns["n"].second[0].count == 1


@pytest.mark.parametrize(
    ("mean", "deviation", "words"),
    [
        (40123.4, 35012.0, "40,000 ± 35,000"),
        (2007.6, 0.8164, "2,007.60 ± 0.82"),
        (1.5e-9, 2e-10, "1.5e-09 ± 2e-10"),
        (-0.64, 2.04, "-0.6 ± 2.0"),
        (3.25, 0.0, "3.25 ± 0"),
    ],
)
def test_numbers_are_readable(mean, deviation, words):
    assert str(ColumnSummary(3, 3.0, mean, deviation, {})) == words


def test_comparisons_are_tables():
    problem = bj.Problem(TABLE, family="auto")
    inside = np.arange(24) % 2 == 0
    comparison = bj.compare_rows(problem, inside, ~inside)
    table = comparison.to_dict()
    assert list(table) == ["column", "nats", "share", "first", "second"]
    assert sum(table["share"]) == pytest.approx(1)
    assert table["column"] == [column.name for column in comparison]


def test_weights_and_smoothing_count():
    weights = RNG.uniform(0.5, 2, len(TABLE["size"]))
    smoothing = {"visits": bj.adding(np.ones(1), 0.5), "town": None}
    problem = bj.Problem(TABLE, family="auto", smoothing=smoothing, weights=weights)
    tree = bj.agglomerate(problem)
    found = bj.explain(problem, tree, -1).merge
    assert found is not None
    assert found.cost == pytest.approx(tree.merge_costs[-1], rel=1e-10)


def test_each_cluster_against_the_rest():
    problem = bj.Problem(TABLE, family="auto")
    labels = bj.agglomerate(problem).cut(3)
    found = bj.explain_clusters(problem, labels)
    assert [c.sizes[0] for c in found] == np.bincount(labels).tolist()
    for number, comparison in enumerate(found):
        first, second = (
            np.flatnonzero(labels == number),
            np.flatnonzero(labels != number),
        )
        alone = bj.compare_rows(problem, first, second)
        np.testing.assert_allclose(comparison.cost, alone.cost, rtol=1e-12)
        cost = bj.merge_cost(problem, first, second)
        np.testing.assert_allclose(comparison.cost, cost, rtol=1e-10)


@pytest.mark.parametrize("family", ["poisson", "gaussian", "ward", "bernoulli"])
def test_plain_tables_have_numbers_for_names(family):
    x = RNG.integers(0, 2, (9, 3)) if family == "bernoulli" else RNG.random((9, 3))
    problem = bj.Problem(x, family=family)
    found = bj.explain(problem, bj.agglomerate(problem), -1).merge
    assert found is not None
    if family == "gaussian":
        assert found.columns[0].columns == (0, 1, 2)
    else:
        assert sorted(c.columns for c in found) == [(0,), (1,), (2,)]
    assert found.cost == pytest.approx(bj.agglomerate(problem).merge_costs[-1])


def test_leaves_and_roots():
    problem = bj.Problem(TABLE, family="auto")
    tree = bj.agglomerate(problem)
    leaf = bj.explain(problem, tree, 0)
    assert leaf.merge is None
    assert leaf.against_rest is not None
    assert leaf.against_rest.sizes == (1, 23)
    assert bj.explain(problem, tree, -1).against_rest is None
    assert str(leaf).startswith("node 0\nnode 0 of 1 row, rest of 23 rows: ")


def test_errors():
    problem = bj.Problem(TABLE, family="auto")
    tree = bj.agglomerate(problem)
    with pytest.raises(ValueError, match="`node` must be from 0 to 46.*; got 47"):
        bj.explain(problem, tree, 47)
    with pytest.raises(ValueError, match=r"one entry for each of the 24 rows.*\(3,\)"):
        bj.explain_clusters(problem, [0, 1, 1])
    with pytest.raises(ValueError, match="two clusters at least"):
        bj.explain_clusters(problem, np.zeros(24, int))
    with pytest.raises(ValueError, match="share none; got 2 and 1, with 1 in both"):
        bj.compare_rows(problem, [0, 1], [1])
    with pytest.raises(ValueError, match=r"`second` must be numbers of rows .*\[99\]"):
        bj.compare_rows(problem, [0], [99])
    with pytest.raises(TypeError, match="got Comparisons. Take explain"):
        plot_comparison(bj.explain_clusters(problem, np.arange(24) % 2))  # pyright: ignore
    comparison = bj.explain_clusters(problem, np.arange(24) % 2)[0]
    for most in (0, -1):
        with pytest.raises(ValueError, match="`most` must be from 1"):
            plot_comparison(comparison, most=most)
    with pytest.raises(TypeError, match="`most` must be one whole number"):
        plot_comparison(comparison, most=1.5)  # pyright: ignore
    sparse = bj.Problem(scipy.sparse.eye_array(4, format="csr"), family="poisson")
    with pytest.raises(TypeError, match="dense rows to be explained"):
        bj.explain(sparse, [[0, 1], [2, 3], [4, 5]], -1)


def test_the_picture_has_a_bar_for_each_column():
    problem = bj.Problem(TABLE, family="auto")
    comparison = bj.explain_clusters(problem, np.arange(24) % 2)[0]
    ax = Figure().subplots()
    assert plot_comparison(comparison, ax, most=3) is ax
    (bars,) = ax.containers
    widths = [bar.get_width() for bar in bars]
    assert widths == [column.cost for column in comparison[:3]]
    assert ax.get_title() == "cluster 0 vs rest"


def test_what_is_beside_the_bars_is_inside_of_the_picture():
    """Long words are shortened, so that bars keep their room."""
    towns = [f"a town of a very long name, number {k % 2}" for k in range(24)]
    table = {"height": [-0.5 + k % 2 for k in range(24)], "town": towns}
    comparison = bj.explain_clusters(bj.Problem(table), np.arange(24) % 2)[0]
    figure = Figure(figsize=(6, 3))
    ax: Any = plot_comparison(comparison, figure.subplots())
    figure.draw_without_rendering()
    assert ax.get_window_extent().width > 0.3 * figure.bbox.width
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == 2
    assert min(box.x0 for box in boxes) > ax.get_window_extent().x1
    assert max(box.x1 for box in boxes) <= figure.bbox.x1 + 1
    assert any(text.get_text().startswith("−0.5") for text in ax.texts)


# What spoils clusters


def spoiled():
    m, rng = 60, np.random.default_rng(0)
    table = {
        "x": rng.normal(size=m),
        "amount": np.round(np.exp(rng.normal(6, 1, m))),
        "visits": rng.negative_binomial(1, 0.1, m).astype(float),
        "rare": np.where(np.arange(m) == 5, 1, 0),
        "town": np.where(np.arange(m) < 2, "Ulm", "Bonn").astype(object),
    }
    table["x"][7] = 80.0
    return table


def test_what_spoils_clusters_is_told():
    problem = bj.Problem(spoiled(), family={"amount": "poisson", "rare": "bernoulli"})
    report = bj.check_table(problem, num_clusters=5)
    failed = {finding.name: finding.sentence for finding in report.findings}
    passed = {finding.name for finding in report.findings if finding.passed}
    assert passed == {"duplicates", "missing"} | ({"outliers"} & passed)
    assert re.search("'amount' makes (9.|100)%", failed["dominance"])
    assert "'visits'" in failed["dispersion"]
    assert "'rare' (98% alike)" in failed["constant"]
    assert "'town' (1 of 2 levels)" in failed["rare levels"]


def test_outliers_are_named_with_their_column():
    table = {"x": RNG.normal(size=40), "n": RNG.poisson(4, 40)}
    table["x"][7] = 80.0
    report = bj.check_table(bj.Problem(table, family="auto"), num_clusters=3)
    assert "row 7 (by 'x')" in report["outliers"].sentence


def test_a_sound_table_passes():
    m = 80
    kind = np.arange(m) % 2
    table = {
        "x": 8.0 * kind + RNG.normal(size=m),
        "n": RNG.poisson(2 + 8 * kind),
        "c": np.where(RNG.random(m) < 0.2 + 0.6 * kind, "a", "b").astype(object),
    }
    report = bj.check_table(bj.Problem(table, family="auto"), num_clusters=2)
    assert report.ok, str(report)


def test_rows_without_a_common_column_are_counted():
    table = {"a": [1.0, 2.0, None, None, 3.0], "b": [None, None, 1.0, 2.0, 3.0]}
    problem = bj.Problem(table, family="diagonal_gaussian")
    with pytest.warns(UserWarning, match="so that 4 of 10 pairs of rows"):
        tree = bj.agglomerate(problem)
    report = bj.check_table(problem, tree, num_clusters=2)
    assert "0.4 of all pairs of rows share no column" in report["missing"].sentence

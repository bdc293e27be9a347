"""What users pass to pictures: lists of any kind, odd names, numbers out of range."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from pictures import TREE

import bregjax as bj
from bregjax.plotting import (
    plot_dendrogram,
    plot_ellipses,
    plot_heatmap,
    plot_profiles,
    plot_tanglegram,
)

matplotlib.use("Agg")

ROWS = np.random.default_rng(3).normal(size=(5, 2))
LETTERS = list("abcde")
SHUFFLED = pd.Series(LETTERS, index=[4, 3, 2, 1, 0])


@pytest.fixture(autouse=True)
def _no_figures():
    yield
    pyplot.close("all")


def draw(argument, value) -> Any:
    """Draw with that argument whatever takes it."""
    given: dict[str, Any] = {argument: value}
    axes = Figure(figsize=(8, 5)).subplots()
    heatmap = plot_heatmap(ROWS, TREE, axes, **given)
    plot_dendrogram(TREE, Figure().subplots(), **given)
    if argument != "classes":
        plot_tanglegram(TREE, TREE, Figure().subplots(), **given)
    if argument == "labels":
        problem = bj.Problem(ROWS, family="ward")
        plot_ellipses(problem, ax=Figure().subplots(), **given)
        plot_profiles(ROWS, ax=Figure().subplots(), **given)
    return heatmap


# Lists


@pytest.mark.parametrize(
    "names",
    [SHUFFLED, pd.Index(LETTERS), np.array(LETTERS), tuple(LETTERS)],
    ids=["series", "index", "array", "tuple"],
)
def test_names_are_in_the_order_of_rows(names):
    axes = draw("names", names)
    shown = [text.get_text() for text in axes.heatmap.get_yticklabels()]
    assert shown == [LETTERS[row] for row in TREE.leaf_order()]


@pytest.mark.parametrize("argument", ["labels", "classes"])
@pytest.mark.parametrize(
    "values",
    [
        ["a", None, "b", "a", None],
        [("a", 1), ("b", 2), ("a", 1), ("b", 2), ("a", 1)],
        pd.array([1, 2, None, 1, 2], dtype="Int64"),
        [True, None, False, True, True],
    ],
    ids=["none", "tuples", "missing", "bools"],
)
def test_values_without_an_order_are_clusters_and_classes(argument, values):
    draw(argument, values)


@pytest.mark.parametrize("argument", ["names", "labels", "classes"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("abcde", "str"),
        (dict.fromkeys("abcde"), "dict"),
        (set("abcde"), "set"),
        (7, "int"),
    ],
)
def test_what_is_no_list_is_refused(argument, value, kind):
    words = f"`{argument}` must have one entry for each of the 5 .* got {kind}"
    for_each: list[Any] = [plot_dendrogram, plot_tanglegram, plot_heatmap]
    given: dict[str, Any] = {argument: value}
    for plot in for_each:
        if plot is not plot_tanglegram or argument != "classes":
            first = ROWS if plot is plot_heatmap else TREE
            rest = () if plot is plot_dendrogram else (TREE,)
            with pytest.raises(TypeError, match=words):
                plot(first, *rest, **given)


@pytest.mark.parametrize("argument", ["names", "labels", "classes"])
@pytest.mark.parametrize(
    "table", [ROWS, ROWS.tolist(), pd.DataFrame(ROWS), [1, [2, 3], 1, 1, 1]]
)
def test_tables_are_no_lists(argument, table):
    given: dict[str, Any] = {argument: table}
    with pytest.raises(ValueError, match=f"`{argument}` must .* in one dimension"):
        plot_dendrogram(TREE, **given)
    with pytest.raises(ValueError, match=f"`{argument}` must .* in one dimension"):
        plot_heatmap(ROWS, TREE, **given)


def test_labels_of_rows_are_one_list():
    problem = bj.Problem(ROWS, family="ward")
    with pytest.raises(ValueError, match=r"`labels` must .* shape \(5, 2\)"):
        plot_ellipses(problem, ROWS)
    with pytest.raises(ValueError, match=r"`labels` must .* shape \(5, 2\)"):
        plot_profiles(ROWS, ROWS)
    with pytest.raises(ValueError, match=r"`support` must .* shape \(4, 2\)"):
        plot_dendrogram(TREE, support=np.ones((4, 2)))
    with pytest.raises(ValueError, match="`titles` must .* 2 trees; got 1"):
        plot_tanglegram(TREE, TREE, titles=("one",))  # pyright: ignore


def test_columns_are_a_list_of_one_or_more():
    one: Any = 0
    with pytest.raises(ValueError, match="`columns` must name a column or more"):
        plot_heatmap(ROWS, TREE, columns=[])
    with pytest.raises(ValueError, match="`columns` must name a column or more"):
        plot_profiles(ROWS, [0, 0, 1, 1, 1], columns=[])
    with pytest.raises(TypeError, match=r"must be a list .* got 0. Take \[0\]"):
        plot_heatmap(ROWS, TREE, columns=one)
    with pytest.raises(TypeError, match=r"must be a list .* got 'visits'"):
        plot_heatmap(ROWS, TREE, columns="visits")


# Names as they are


def test_names_of_clusters_and_classes_are_no_formulas():
    odd = ["$^$", "$^$", "a", "a", "_b"]
    figure = Figure(figsize=(8, 5))
    panels = plot_profiles(ROWS, odd, figure.subplots())
    figure.draw_without_rendering()  # matplotlib reads formulas when it draws
    names = [text.get_text() for text in panels[0].get_yticklabels()]
    assert names == ["$^$ (2)", "_b (1)", "a (2)"]
    figure = Figure(figsize=(8, 5))
    axes = plot_heatmap(ROWS, TREE, figure.subplots(), classes=odd, class_name="$^$")
    figure.draw_without_rendering()
    legend: Any = axes.color_bar.get_legend()
    assert legend.get_title().get_text() == r"\$^\$"


def test_columns_left_out_are_named_the_same_in_both_pictures():
    table: dict[str, Any] = {f"town {k}": list("abbab") for k in range(6)}
    table["n"] = [1.0, 2.0, 3.0, 4.0, 9.0]
    words = "not shown: town 0, town 1, town 2, town 3 and 2 more"
    assert plot_heatmap(table, TREE).heatmap.get_xlabel() == words
    (panel,) = plot_profiles(table, [0, 0, 1, 1, 1])
    assert panel.get_xlabel().splitlines()[1] == words
    (panel,) = plot_profiles(table, [0, 0, 1, 1, 1], columns=["n"])
    assert "not shown" not in panel.get_xlabel()

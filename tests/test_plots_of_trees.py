"""Costs of merges, criteria of cuts, and two trees face to face."""

from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from pictures import NEGATIVE, TREE, part, random_tree

from bregjax import Dendrogram
from bregjax.plotting import (
    entanglement,
    plot_costs,
    plot_dendrogram,
    plot_num_clusters,
    plot_tanglegram,
    untangle,
)

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _no_figures():
    yield
    pyplot.close("all")


# Costs


def dots(ax):
    """Clusters before, cost, mark and face of each dot."""
    return {
        x: (y, line.get_marker(), to_rgba(line.get_markerfacecolor()))
        for line in ax.lines
        if line.get_linestyle() == "None"
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }


def test_costs_stand_at_the_clusters_before():
    tree = random_tree(50)
    ax = plot_costs(tree, num_clusters=4, most=10)
    found = dots(ax)
    assert sorted(found) == list(range(2, 12))
    for before, (cost, mark, face) in found.items():
        assert cost == tree.merge_costs[-(before - 1)]
        assert mark == "o"
        assert (face == to_rgba("white")) == (before > 4)
    assert (ax.get_xlabel(), ax.get_ylabel()) == (
        "clusters before the merge",
        "merge cost (nats)",
    )
    assert [text.get_text() for text in ax.texts] == ["4 clusters"]


def test_inversions_are_marked():
    ax = plot_costs(TREE)
    found = dots(ax)
    assert {x: mark for x, (_, mark, _) in found.items()} == {
        2: "v",  # costs 2, above a merge that costs 4
        3: "o",
        4: "o",
        5: "o",
    }
    legend: Any = ax.get_legend()
    (text,) = legend.get_texts()
    assert text.get_text() == "inversion: cheaper than a merge inside of it"
    assert plot_costs(random_tree(9), Figure().subplots()).get_legend() is None


def test_costs_below_zero_may_invert():
    costs = np.array([-3.0, -3.0 - 1e-12, -2.0, -2.5])
    chain = np.array([[0, 1], [5, 2], [6, 3], [7, 4]])
    marks = {x: mark for x, (_, mark, _) in dots(plot_costs(NEGATIVE)).items()}
    assert set(marks.values()) == {"o"}
    tree = Dendrogram(chain, costs, np.ones(5))  # the second is a tie but for rounding
    marks = {x: mark for x, (_, mark, _) in dots(plot_costs(tree)).items()}
    assert marks == {2: "v", 3: "o", 4: "o", 5: "o"}


def test_costs_on_a_logarithmic_axis_have_plain_ticks():
    ax: Any = plot_costs(random_tree(20), log_scale=True)
    ax.get_figure().draw_without_rendering()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["1", "10", "100"]
    assert [t.get_text() for t in ax.get_yticklabels(minor=True)] == []


def test_the_cut_is_always_shown():
    ax = plot_costs(random_tree(50), num_clusters=40, most=5)
    assert ax.get_xlim()[1] > 41
    with pytest.raises(ValueError, match="num_clusters"):
        plot_costs(TREE, num_clusters=6)
    two = np.array([[0, 1], [2, 3]])
    forest = Dendrogram(two, np.array([1.0, 2.0]), np.ones(5))
    for plot in (plot_costs, plot_dendrogram):
        with pytest.raises(ValueError, match="`num_clusters` must be from 3, the numb"):
            plot(forest, num_clusters=1)
    with pytest.raises(ValueError, match="`tree` must have a merge"):
        plot_costs(Dendrogram.from_linkage(np.zeros((0, 4))))


# Criteria


def found_by(criterion="bic", **fields) -> Any:
    numbers = np.arange(1, 9)
    found = {
        "numbers": numbers,
        "bic": (numbers - 4.0) ** 2,
        "icl": (numbers - 3.0) ** 2,
        "held_out": -((numbers - 5.0) ** 2),
        "costs": np.r_[np.nan, 8.0 / numbers[1:]],
        "num_clusters": 4,
        "criterion": criterion,
        "is_flat": False,
    }
    return SimpleNamespace(**{**found, **fields})


def chosen(panel):
    (mark,) = (line for line in panel.lines if line.get_gid() == "chosen")
    return mark


def test_each_criterion_has_a_panel_and_marks_the_number():
    panels = plot_num_clusters(found_by())
    assert len(panels) == 4
    limits = {panel.get_xlim() for panel in panels}
    assert len(limits) == 1  # though costs begin at 2
    white = to_rgba("white")
    for panel in panels:
        assert chosen(panel).get_xdata() == [4]
    faces = [to_rgba(chosen(panel).get_markerfacecolor()) != white for panel in panels]
    assert faces == [True, False, False, False]
    assert panels[0].get_title(loc="left") == "4 clusters by BIC"


def test_what_is_not_known_has_no_panel():
    panels = plot_num_clusters(found_by("gap", held_out=None, is_flat=True))
    assert len(panels) == 3
    white = to_rgba("white")
    assert to_rgba(chosen(panels[-1]).get_markerfacecolor()) != white
    assert "flat" in panels[0].get_title(loc="left")
    with pytest.raises(ValueError, match="values of a criterion"):
        plot_num_clusters(found_by(bic=None, icl=None, held_out=None, costs=None))
    with pytest.raises(TypeError, match="got list, without bic, icl"):
        plot_num_clusters([1, 2])


def test_panels_do_not_overlap():
    panels = plot_num_clusters(found_by())
    figure: Any = panels[0].get_figure()
    figure.draw_without_rendering()
    boxes: list[Any] = [panel.get_tightbbox() for panel in panels]
    for above, below in zip(boxes[:-1], boxes[1:], strict=True):
        assert below.y1 <= above.y0 + 1
    assert boxes[-1].y0 >= -1
    assert min(box.x0 for box in boxes) >= -1


# Two trees


def turned(tree, seed):
    """The same merges, children in a random order."""
    flip = np.random.default_rng(seed).random(tree.num_merges) < 0.5
    children = np.asarray(tree.children).copy()
    children[flip] = children[flip, ::-1]
    return Dendrogram(children, tree.merge_costs, tree.weights)


def entanglement_by_sums(first, second, power):
    """The definition, leaf by leaf."""
    p, q = first.leaf_order().tolist(), second.leaf_order().tolist()
    m = len(p)
    apart = sum(abs(p.index(leaf) - q.index(leaf)) ** power for leaf in range(m))
    return apart / sum(abs(i - (m - 1 - i)) ** power for i in range(m))


@pytest.mark.parametrize("power", [1, 1.5, 2])
def test_entanglement_is_its_definition(power):
    first, second = random_tree(17), random_tree(17, seed=4)
    found = entanglement(first, second, power=power)
    assert found == pytest.approx(entanglement_by_sums(first, second, power))
    assert 0 < found < 1


def test_reversed_trees_are_fully_entangled():
    tree = random_tree(17)
    children = np.asarray(tree.children)[:, ::-1]
    back = Dendrogram(children, tree.merge_costs, tree.weights)
    assert back.leaf_order().tolist() == tree.leaf_order().tolist()[::-1]
    for power in (1, 1.5, 7.3, 900.0):
        assert entanglement(tree, back, power=power) == 1
    assert entanglement(tree, tree) == 0
    one = Dendrogram.from_linkage(np.zeros((0, 4)))
    assert entanglement(one, one) == 0


def merges(tree):
    return np.sort(np.asarray(tree.children), axis=1).tolist()


@pytest.mark.parametrize("seed", range(4))
def test_a_turned_tree_is_turned_back(seed):
    tree = random_tree(60)
    first, second = untangle(tree, turned(tree, seed))
    assert entanglement(first, second) == 0
    assert merges(first) == merges(second) == merges(tree)


@pytest.mark.parametrize("seed", range(4))
def test_untangling_comes_near_the_best_of_all_turns(seed):
    """Of five leaves each tree can be drawn in 16 ways."""
    first, second = random_tree(5, seed), random_tree(5, seed + 10)
    ways = []
    for bits in range(256):
        flips = np.array([bits >> k & 1 for k in range(8)], bool)
        pair = []
        for tree, flip in ((first, flips[:4]), (second, flips[4:])):
            children = np.asarray(tree.children).copy()
            children[flip] = children[flip, ::-1]
            pair.append(Dendrogram(children, tree.merge_costs, tree.weights))
        ways.append(entanglement(*pair))
    found = entanglement(*untangle(first, second))
    assert found <= entanglement(first, second)
    assert found <= np.quantile(ways, 0.1)


def test_no_single_turn_untangles_further():
    pair = untangle(random_tree(30), random_tree(30, seed=1))
    found = entanglement(*pair)
    assert found < 0.8 * entanglement(random_tree(30), random_tree(30, seed=1))
    for side in (0, 1):
        for merge in range(29):
            children = np.asarray(pair[side].children).copy()
            children[merge] = children[merge, ::-1]
            other = list(pair)
            other[side] = Dendrogram(
                children, pair[side].merge_costs, pair[side].weights
            )
            assert entanglement(*other) >= found - 1e-12


def test_lines_join_equal_leaves_in_the_colors_of_the_first_clusters():
    first, second = random_tree(20), random_tree(20, seed=1)
    axes = plot_tanglegram(first, second, num_clusters=4, untangled=False)
    lines = part(axes.between, "lines")
    ends = np.array(lines.get_segments())[:, :, 1]
    for tree, column in ((first, 0), (second, 1)):
        assert (tree.leaf_order()[ends[:, column].astype(int)] == np.arange(20)).all()
    labels = first.cut(num_clusters=4)
    colors = [tuple(color) for color in np.asarray(lines.get_colors()).tolist()]
    pairs = set(zip(labels.tolist(), colors, strict=True))
    assert len(pairs) == len(set(colors)) == 4
    assert axes.first.get_title() == "first"
    assert axes.between.get_title() == (
        f"entanglement {entanglement(first, second):.2f}"
    )


@pytest.mark.parametrize("names", [None, [f"a leaf called {k}" for k in range(20)]])
def test_trees_face_each_other_and_nothing_overlaps(names):
    first, second = random_tree(20), random_tree(20, seed=1)
    axes = plot_tanglegram(first, second, num_clusters=4, names=names)
    figure: Any = axes.first.get_figure()
    figure.draw_without_rendering()
    boxes = [ax.get_window_extent() for ax in axes]
    for ax in (axes.first, axes.second):
        boxes += [t.get_window_extent() for t in ax.get_yticklabels()]
        boxes += [
            c.get_window_extent() for c in ax.collections if c.get_gid() == "strip"
        ]
    assert len(boxes) == 5 + (0 if names is None else 40)
    for place, box in enumerate(boxes):
        assert box.x0 >= -1
        assert box.x1 <= figure.bbox.x1 + 1
        for other in boxes[:place]:
            wide = min(box.x1, other.x1) - max(box.x0, other.x0)
            tall = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert min(wide, tall) < 1
    assert axes.first.get_xlim()[0] > axes.first.get_xlim()[1]
    assert axes.second.get_xlim()[0] < axes.second.get_xlim()[1]


def test_other_leaves_are_refused():
    with pytest.raises(ValueError, match="`second` must have the leaves of `first`"):
        plot_tanglegram(random_tree(4), random_tree(5))
    for power in (0.5, np.nan, np.inf):
        with pytest.raises(ValueError, match="`power` must be .* at least 1; got"):
            entanglement(TREE, TREE, power=power)


@pytest.mark.slow
def test_long_chains_are_untangled():
    m = 20_000
    z = [[0, 1, 1, 2]] + [[m + k, k + 2, 1, k + 3] for k in range(m - 2)]
    tree = Dendrogram.from_linkage(z)
    assert entanglement(*untangle(tree, turned(tree, 0))) == 0

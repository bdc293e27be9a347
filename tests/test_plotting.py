"""Dendrograms: what is drawn where, in which colors, and that nothing overlaps."""

import re
import sys
import time
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from pictures import NEGATIVE, TREE, part, random_tree

from bregjax import Dendrogram
from bregjax.plotting import plot_dendrogram
from bregjax.plotting._colors import palette, strokes_of
from bregjax.plotting._text import fitted, shortened_all, width_of
from bregjax.plotting._ticks import root_ticks

matplotlib.use("Agg")

ORDER = [2, 0, 1, 3, 4]
GRAY = to_rgba("0.35")


@pytest.fixture(autouse=True)
def _no_figures():
    yield
    pyplot.close("all")


def chain_of(count):
    """The linkage matrix of a chain."""
    return [[0, 1, 1, 2]] + [[count + k, k + 2, 1, k + 3] for k in range(count - 2)]


def pairs_of(count):
    """A tree of pairs of leaves, and a chain over them."""
    m = 2 * count
    pairs = [[2 * k, 2 * k + 1, 1, 2] for k in range(count)]
    top = [[m, m + 1, 9, 4]]
    top += [[m + count + k, m + 2 + k, 9, 2 * k + 6] for k in range(count - 2)]
    return Dendrogram.from_linkage(pairs + top)


def draw(tree=TREE, **options) -> Any:
    ax = plot_dendrogram(tree, Figure().subplots(), **options)
    lines = part(ax, "branches")
    return ax, np.array(lines.get_segments()), np.asarray(lines.get_colors())


def ticks(ax):
    return [text.get_text() for text in ax.get_xticklabels()]


# Lines


def test_brackets_stand_on_their_children():
    assert TREE.leaf_order().tolist() == ORDER
    ax, segments, _ = draw(heights="cost")
    assert segments.tolist() == [
        [[1, 0], [1, 1], [2, 1], [2, 0]],
        [[0, 0], [0, 4], [1.5, 4], [1.5, 1]],
        [[3, 0], [3, 0], [4, 0], [4, 0]],
        [[0.75, 4], [0.75, 2], [3.5, 2], [3.5, 0]],
    ]
    assert ax.get_ylabel() == "merge cost (nats, √ scale)"
    assert ax.get_legend() is None


def test_monotone_heights_are_the_default_and_say_so():
    ax, segments, _ = draw()
    assert segments[:, 1, 1].tolist() == [1, 4, 0, 4]
    assert ax.get_ylabel() == "largest cost so far (nats, √ scale)"
    ax, _, _ = draw(random_tree(6))
    assert ax.get_ylabel() == "merge cost (nats, √ scale)"


@pytest.mark.parametrize("orientation", ["top", "bottom", "left", "right"])
def test_the_root_is_on_its_side(orientation):
    ax, segments, _ = draw(random_tree(9), orientation=orientation)
    at = lambda point: ax.transAxes.inverted().transform(ax.transData.transform(point))
    root, leaf = at(segments[-1][1:3].mean(axis=0)), at(segments[0][0])
    axis = 1 if orientation in ("top", "bottom") else 0
    toward = 1 if orientation in ("top", "right") else 0
    assert abs(root[axis] - toward) < 0.05
    assert abs(leaf[axis] - (1 - toward)) < 0.01
    label = ax.get_ylabel() if axis else ax.get_xlabel()
    assert label == "merge cost (nats, √ scale)"
    first = random_tree(9).leaf_order()[0]
    names = ticks(ax) if axis else [t.get_text() for t in ax.get_yticklabels()]
    assert names[0] == str(first)


def test_scales_keep_the_order_of_heights_and_differ():
    places = {}
    for scale in ("root", "linear", "log"):
        ax, segments, _ = draw(random_tree(30), scale=scale)
        points = ax.transData.transform(segments[:, 1])
        places[scale] = points[:, 1] / points[:, 1].max()
        assert (np.diff(places[scale]) > 0).all()
    assert (places["linear"][:-1] < places["root"][:-1]).all()
    assert (places["root"][1:-1] < places["log"][1:-1]).all()


def test_square_roots_are_apart_as_distances():
    """Heights 1, 4, 9, … are evenly apart on an axis of square roots."""
    ax, segments, _ = draw(random_tree(12))
    y = ax.transData.transform(segments[:, 1])[:, 1]
    assert np.ptp(np.diff(y)) < 1e-6
    numbers = [float(t) for t in ax.get_yticks()]
    assert numbers == sorted(set(numbers))
    assert len(numbers) >= 4


@pytest.mark.parametrize("costs", [[-3.0, -2.0, -1.0], [-3.0, 1.0, 4.0]])
def test_heights_below_zero_are_inside_of_a_linear_axis(costs):
    tree = Dendrogram(NEGATIVE.children, np.array(costs), np.ones(4))
    ax, lines, _ = draw(tree, num_clusters=2)
    low, high = ax.get_ylim()
    assert low == lines[..., 1].min()  # where leaves stand
    assert low < -3
    assert lines[:, 1, 1].tolist() == costs
    assert high > max(costs[-1], 0)
    cut = part(ax, "cut").get_segments()[0]
    assert cut[:, 1].tolist() == [(costs[1] + costs[2]) / 2] * 2
    assert ax.get_ylabel() == "merge cost (nats)"
    for scale in ("root", "log"):
        with pytest.raises(ValueError, match=f"'{scale}' needs .* merge 0 has -3.0"):
            draw(tree, scale=scale)


def test_rounding_below_zero_is_zero():
    tree = Dendrogram(NEGATIVE.children, np.array([-1e-12, 1.0, 4.0]), np.ones(4))
    ax, lines, _ = draw(tree)
    assert ax.get_ylim()[0] == 0
    assert lines[0, 1, 1] == 0


def test_log_scale_draws_zeros_above_the_bottom():
    ax, segments, _ = draw(scale="log")
    assert ax.get_yscale() == "log"
    bottom, top = ax.get_ylim()
    assert 0 < bottom < 1
    assert top > 4
    assert segments[..., 1].min() == bottom
    assert bottom < segments[2, 1, 1] < 0.5  # half a decade below the least, 1
    axis = ax.yaxis
    written = {
        text.get_text(): text.get_position()[1] for text in axis.get_ticklabels()
    }
    assert written["0"] == segments[2, 1, 1]
    assert {"1", "2"} < set(written)
    ax, segments, _ = draw(random_tree(5), scale="log")
    assert "0" not in [text.get_text() for text in ax.get_yticklabels()]


@pytest.mark.parametrize("greatest", [1.0, 2.49, 4.99, 350.0, 9.9e-3, 7e8])
def test_ticks_are_round_and_evenly_apart_on_square_roots(greatest):
    ticks = np.array(root_ticks(greatest, 4))
    assert 3 <= len(ticks) <= 6
    assert ticks[0] == 0
    assert 0.4 * greatest <= ticks[-1] <= greatest
    assert {f"{tick:.9e}"[0] for tick in ticks[1:]} <= {"1", "2", "5"}
    gaps = np.diff(np.sqrt(ticks))
    assert gaps.max() <= 2.2 * gaps.min()


def test_collapsed_subtrees_are_triangles_of_their_height():
    tree = random_tree(40)
    ax, segments, _ = draw(tree, max_leaves=7)
    assert len(segments) == 6
    triangles = part(ax, "collapsed")
    heights = np.asarray(tree.merge_costs)
    sizes = np.bincount(tree.cut(num_clusters=7))
    tops = sorted(path.vertices[:, 1].max() for path in triangles.get_paths())
    nodes = tree.cluster_nodes(num_clusters=7)
    assert tops == sorted(heights[node - 40] for node in nodes if node >= 40)
    shown = [text for text in ticks(ax) if text.startswith("(")]
    assert sorted(int(text[1:-1]) for text in shown) == sorted(sizes[sizes > 1])
    assert ax.get_xlabel() == "7 subtrees of 40 leaves"


def test_a_tree_may_be_one_triangle():
    ax, segments, _ = draw(max_leaves=1, heights="cost")
    assert len(segments) == 0
    (triangle,) = part(ax, "collapsed").get_paths()
    assert triangle.vertices[:, 1].max() == 2
    assert ticks(ax) == ["(5)"]
    assert ax.get_xlabel() == "1 subtree of 5 leaves"


def test_more_ends_than_leaves_are_the_whole_tree():
    _, whole, _ = draw()
    _, same, _ = draw(max_leaves=99)
    assert (whole == same).all()


# Clusters


def test_clusters_color_their_branches():
    _, _, colors = draw(labels=TREE.cut(num_clusters=2))
    one, same, other, above = colors.tolist()
    assert one == same
    assert other not in (one, above)
    assert above == list(GRAY)


@pytest.mark.parametrize("count", [8, 13, 30])
def test_every_cluster_has_its_own_color(count):
    _, _, colors = draw(pairs_of(count), num_clusters=count)
    assert len({tuple(color) for color in colors[:count].tolist()}) == count
    assert (colors[count:] == GRAY).all()


@pytest.mark.parametrize("muted", [False, True])
def test_the_palette_has_distinct_colors(muted):
    for count in (6, 40, 400, 700):
        colors = palette(count, muted=muted)
        assert colors.shape == (count, 4)
        assert len({tuple(color) for color in colors.tolist()}) == count
    few = palette(30, muted=muted)[:, :3]
    assert (palette(9, muted=muted)[:, :3] == few[:9]).all()
    gaps = np.linalg.norm(few[:, None] - few[None], axis=-1)
    assert gaps[~np.eye(30, dtype=bool)].min() > 0.07
    assert np.linalg.norm(few - GRAY[:3], axis=1).min() > 0.1


def test_colors_may_be_chosen():
    _, _, colors = draw(num_clusters=2, cluster_colors=["red", "blue"])
    assert colors[0].tolist() == list(to_rgba("red"))
    _, _, colors = draw(num_clusters=2, cluster_colors="Dark2")
    assert colors[0].tolist() == list(matplotlib.colormaps["Dark2"](0))
    with pytest.raises(ValueError, match="`cluster_colors` must have a color for each"):
        draw(num_clusters=2, cluster_colors=["red"])
    with pytest.raises(ValueError, match="`class_colors` must be the name .* 'nope'"):
        draw(classes=list("aabbb"), class_colors="nope")


def test_rows_of_no_cluster_are_gray_and_others_keep_their_color():
    _, _, colors = draw(labels=[0, 0, 0, 1, 1])
    _, _, others = draw(labels=[-1, -1, -1, 1, 1])
    assert (colors[2] == others[2]).all()
    assert np.ptp(others[0][:3]) == 0
    assert (others[0] != GRAY).any()
    _, _, others = draw(labels=[-1, -1, -1, 1, 1], cluster_colors=["red"])
    assert others[2].tolist() == list(to_rgba("red"))


def test_stems_have_the_colors_of_their_clusters():
    """Also that of a leaf that is a cluster by itself."""
    labels = [0, 0, 1, 2, 2]
    ax, segments, colors = draw(labels=labels)
    stems = part(ax, "stems")
    found = {
        tuple(line[0].tolist()): tuple(color)
        for line, color in zip(stems.get_segments(), stems.get_colors(), strict=True)
    }
    assert sorted(at[0] for at in found) == [0, 1.5, 3.5]  # 2, {0, 1} and {3, 4}
    assert found[1.5, 1.0] == tuple(colors[0])
    assert len(set(found.values())) == 3


def test_lines_have_contrast_on_white():
    for muted in (False, True):
        colors = strokes_of(palette(60, muted=muted), None)
        linear = np.where(
            colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4
        )
        luminance = linear[:, :3] @ [0.2126, 0.7152, 0.0722]
        assert (1.05 / (luminance + 0.05)).min() > 2.4
    yellow = np.array([to_rgba("yellow")])
    assert (strokes_of(yellow, ["yellow"]) == yellow).all()


def test_classes_are_unlike_clusters():
    clusters, classes = palette(6)[:, :3], palette(6, muted=True)[:, :3]
    gaps = np.linalg.norm(clusters[:, None] - classes[None], axis=-1)
    assert gaps.min() > 0.25


def test_a_cut_is_a_line_between_heights():
    tree = random_tree(12)
    ax, segments, _ = draw(tree, num_clusters=4)
    ((start, end),) = part(ax, "cut").get_segments()
    assert start[1] == end[1]
    assert tree.merge_costs[-4] < start[1] < tree.merge_costs[-3]


def test_where_no_height_parts_clusters_branches_are_marked():
    """The last merge costs 2 and is undone, the second costs 4 and is kept."""
    ax, segments, _ = draw(heights="cost", num_clusters=2)
    dashes = np.array(part(ax, "cut").get_segments())
    assert dashes.mean(axis=1).tolist() == [[0.75, 3.0], [3.5, 1.0]]


def test_trees_of_a_forest_stand_side_by_side():
    whole = random_tree(12)
    forest = Dendrogram(whole.children[:8], whole.merge_costs[:8], whole.weights)
    segments = draw(forest, num_clusters=6, support=np.full(8, 0.9))[1]
    assert len(segments) == 8
    feet = segments[:, [0, 3]].reshape(-1, 2)
    on_ground = feet[feet[:, 1] == feet[:, 1].min(), 0]
    assert len(on_ground) == np.sum(np.isin(np.arange(12), forest.children))
    assert len(draw(forest, max_leaves=5, num_clusters=5)[1]) == 1
    # As many ends as trees at least, and then no merge is drawn.
    ax = plot_dendrogram(forest, Figure().subplots(), max_leaves=2)
    assert not part(ax, "branches").get_segments()


def test_a_strip_names_the_clusters_in_the_order_of_leaves():
    labels = TREE.cut(num_clusters=2)
    ax, _, _ = draw(num_clusters=2)
    strip = part(ax, "strip")
    middles = [path.vertices[:-1, 0].mean() for path in strip.get_paths()]
    assert middles == [1.0, 3.5]
    assert [text.get_text() for text in ax.texts] == [
        str(labels[2]),
        str(labels[3]),
        "cluster",
    ]


# Classes and names


def strip_colors(ax, count):
    """The color of the strip at each leaf."""
    strip = part(ax, "strip")
    found = np.empty((count, 4))
    for path, color in zip(strip.get_paths(), strip.get_facecolors(), strict=True):
        low, high = path.vertices[:, 0].min(), path.vertices[:, 0].max()
        found[int(low + 0.5) : int(high + 0.5)] = color
    return found


def legend_of(ax):
    legend = ax.get_legend()
    texts = [text.get_text() for text in legend.get_texts()]
    return dict(
        zip(texts, [p.get_facecolor() for p in legend.get_patches()], strict=True)
    )


def test_strip_and_legend_agree_with_leaf_order():
    classes = ["b", "a", "b", "c", "a"]
    ax, _, _ = draw(classes=classes, class_name="kind")
    color_of = legend_of(ax)
    assert list(color_of) == ["a", "b", "c"]
    expected = [color_of[classes[leaf]] for leaf in ORDER]
    assert np.allclose(strip_colors(ax, 5), expected)
    assert ax.get_legend().get_title().get_text() == "kind"


def test_collapsed_subtrees_show_shares_of_classes():
    ax, _, _ = draw(classes=list("aabbb"), max_leaves=2)
    boxes = [path.vertices[:-1] for path in part(ax, "strip").get_paths()]
    heights = [np.ptp(box[:, 1]) / 9.0 for box in boxes]
    assert np.allclose(sorted(heights), [1 / 3, 2 / 3, 1])


@pytest.mark.parametrize("count", [3, 15, 20])
def test_every_class_has_its_own_color(count):
    ax, _, _ = draw(Dendrogram.from_linkage(chain_of(count)), classes=np.arange(count))
    assert len(set(legend_of(ax).values())) == count


def test_numbers_in_names_are_sorted_as_numbers():
    ax, _, _ = draw(classes=["site 10", "site 2", "site 1", "site 2", "site 10"])
    assert list(legend_of(ax)) == ["site 1", "site 2", "site 10"]


def test_many_classes_have_no_legend():
    tree, many = Dendrogram.from_linkage(chain_of(40)), np.arange(40)
    ax, _, _ = draw(tree, classes=many, class_name="site")
    assert ax.get_legend() is None
    assert [text.get_text() for text in ax.texts] == ["40 kinds of site"]
    assert draw(tree, classes=many)[0].texts[0].get_text() == "40 classes"
    assert draw(tree, classes=many % 3)[0].texts[0].get_text() == "class"
    assert len(np.unique(strip_colors(ax, 40), axis=0)) == 40


def test_names_stand_in_leaf_order_where_they_fit():
    ax, _, _ = draw(names=list("vwxyz"))
    assert ticks(ax) == list("xvwyz")
    ax, _, _ = draw()
    assert ticks(ax) == [str(leaf) for leaf in ORDER]
    assert ax.get_xlabel() == "leaf"
    ax, _, _ = draw(random_tree(400), names=["name"] * 400)
    assert ticks(ax) == []
    assert ax.get_xlabel() == "400 leaves"


@pytest.mark.parametrize("orientation", ["top", "bottom", "left", "right"])
@pytest.mark.parametrize("count", [5, 45])
def test_nothing_overlaps(orientation, count):
    figure = Figure(figsize=(7, 6), layout="constrained")
    tree = random_tree(count)
    ax = plot_dendrogram(
        tree,
        figure.subplots(),
        names=[f"a name of leaf {leaf}" for leaf in range(count)],
        classes=np.arange(count) % 3,
        num_clusters=3,
        orientation=orientation,
    )
    figure.draw_without_rendering()
    axis = ax.xaxis if orientation in ("top", "bottom") else ax.yaxis
    names = [label.get_window_extent() for label in axis.get_ticklabels()]
    strips = [c.get_window_extent() for c in ax.collections if c.get_gid() == "strip"]
    assert len(names) == count
    assert len(strips) == 2
    whole, tree_box = figure.bbox, ax.get_window_extent()
    legend: Any = ax.get_legend()
    boxes = [tree_box, *strips, *names, legend.get_window_extent()]
    for place, box in enumerate(boxes):
        assert whole.x0 <= box.x0 + 1
        assert box.x1 <= whole.x1 + 1
        assert whole.y0 <= box.y0 + 1
        assert box.y1 <= whole.y1 + 1
        for other in boxes[:place]:
            assert not overlap(box, other)


def overlap(a, b, slack=1.0):
    return (
        min(a.x1, b.x1) - max(a.x0, b.x0) > slack
        and min(a.y1, b.y1) - max(a.y0, b.y0) > slack
    )


@pytest.mark.parametrize(
    "name", ["{}", "class {}", "a class of a long name, number {}"]
)
def test_legends_lie_inside_the_picture(name):
    count = 13
    figure = Figure(figsize=(11, 5.5), layout="constrained")
    tree = Dendrogram.from_linkage(chain_of(count))
    classes = [name.format(leaf) for leaf in range(count)]
    ax = plot_dendrogram(tree, figure.subplots(), classes=classes)
    figure.draw_without_rendering()
    legend: Any = ax.get_legend()
    box, whole = legend.get_window_extent(), figure.bbox
    assert whole.x0 <= box.x0
    assert box.x1 <= whole.x1
    assert whole.y0 <= box.y0
    assert box.y1 <= whole.y1
    assert ax.get_window_extent().width > 0.5 * whole.width


ODD = ["a$_$b", "$$", "_x", r"\$5", "two\nlines"]


def test_names_are_no_formulas(tmp_path):
    path = tmp_path / "tree.svg"
    figure = Figure(figsize=(9, 4))
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        ax = figure.subplots()
        plot_dendrogram(TREE, ax, names=ODD, classes=ODD, class_name="$ a_b $")
        figure.savefig(path)
    words = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text("utf-8"))
    shown = [word.lstrip("\u200b") for word in words]
    for name in ("a$_$b", "$$", "_x", r"\$5", "two lines"):
        assert shown.count(name) == 2, name  # under its leaf and in the legend
    assert "$ a_b $" in shown


def test_classes_need_no_order():
    ax, _, _ = draw(classes=[None, "b", 1, None, "b"])
    assert list(legend_of(ax)) == ["1", "None", "b"]


def test_long_names_are_shortened():
    names = [f"{'x' * 140_000} {leaf}" for leaf in range(5)]
    ax, _, _ = draw(names=names, classes=names)
    texts = [*ticks(ax), *legend_of(ax)]
    assert len(set(texts)) == 5
    assert max(map(len, texts)) <= 40


def test_what_tells_long_names_apart_is_kept():
    names = [f"specimen number {k:02d} (from the north)" for k in range(40)]
    short = shortened_all(names, 24)
    assert short[7] == "specimen number 07…"
    assert len(set(short)) == 40
    assert max(map(len, short)) <= 24
    assert shortened_all(["a", "b", "a"]) == ["a", "b", "a"]
    odd = ["x" * 50 + c + "y" * 50 + d for c in "ab" for d in "ab"]
    assert len(set(shortened_all(odd, 12))) == 4
    assert width_of([fitted(names[0], 9.0, 60.0)], 9.0) <= 60.0


def test_many_leaves_with_names_have_room_for_them():
    names = [f"leaf of the name {k}" for k in range(100)]
    ax: Any = random_tree(100).plot(names=names)
    assert len(ticks(ax)) == 100
    figure = ax.get_figure()
    figure.draw_without_rendering()
    assert ax.get_window_extent().height > 0.5 * figure.bbox.height
    ax = random_tree(100).plot()
    assert ax.get_figure().get_size_inches()[0] == 8


@pytest.mark.parametrize("orientation", ["top", "left"])
def test_a_plain_figure_has_room_for_all_that_is_beside(orientation):
    figure, ax = pyplot.subplots()
    names = [f"a name of leaf {k}" for k in range(30)]
    classes = [f"a class of name {k % 3}" for k in range(30)]
    plot_dendrogram(
        random_tree(30), ax, names=names, classes=classes, orientation=orientation
    )
    figure.draw_without_rendering()
    box: Any = ax.get_tightbbox()
    assert box.x0 >= -1
    assert box.y0 >= -1
    assert box.x1 <= figure.bbox.x1 + 1
    assert box.y1 <= figure.bbox.y1 + 1


# Support


@pytest.mark.parametrize("orientation", ["top", "bottom", "left", "right"])
@pytest.mark.parametrize("max_leaves", [None, 12])
def test_support_touches_nothing(orientation, max_leaves):
    figure = Figure(figsize=(7, 6), layout="constrained")
    tree = random_tree(60, seed=3)
    support = np.random.default_rng(0).random(59)
    ax = plot_dendrogram(
        tree,
        figure.subplots(),
        support=support,
        num_clusters=4,
        orientation=orientation,
        max_leaves=max_leaves,
    )
    figure.draw_without_rendering()
    texts = [text for text in ax.texts if text.get_gid() == "support"]
    assert len(texts) >= 5
    words = {f"{share:.0%}" for share in support}
    assert {text.get_text() for text in texts} <= words
    boxes = [text.get_window_extent() for text in texts]
    for place, box in enumerate(boxes):
        assert not any(overlap(box, other, 0.0) for other in boxes[:place])
    for lines in ax.collections:
        if not isinstance(lines, LineCollection):
            continue
        for path in lines.get_segments():
            points = ax.transData.transform(path)
            for a, b in zip(points[:-1], points[1:], strict=True):
                low, high = np.minimum(a, b), np.maximum(a, b)
                for box in boxes:
                    # Letters are lower than their box, which has room for descenders.
                    inside = high[0] > box.x0 and low[0] < box.x1
                    assert not (
                        inside and high[1] > box.y0 + 3 and low[1] < box.y1 - 1.5
                    )


def test_small_support_may_be_left_out():
    support = [0.2, 0.9, 0.95, 1.0]
    ax, _, _ = draw(random_tree(5), support=support, least_support=0.5)
    shown = {text.get_text() for text in ax.texts}
    assert "20%" not in shown
    assert shown & {"90%", "95%"}
    assert ax.get_title(loc="right") == "%: share of resampled trees"


# Edges


@pytest.mark.parametrize("argument", ["classes", "names", "labels"])
def test_wrong_lengths_are_refused(argument):
    wrong: dict[str, Any] = {argument: ["a"] * 4}
    with pytest.raises(ValueError, match=f"`{argument}` must have one entry .* got 4"):
        draw(**wrong)


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="`support` must have one entry for each of"):
        draw(support=[1.0] * 5)
    with pytest.raises(ValueError, match=r"`orientation` must be one of .* got 'up'"):
        draw(orientation="up")
    with pytest.raises(ValueError, match=r"`scale` must be one of .* got 'cubic'"):
        draw(scale="cubic")
    with pytest.raises(ValueError, match="one of `num_clusters` and `labels`"):
        draw(num_clusters=2, labels=[0, 0, 0, 1, 1])
    with pytest.raises(ValueError, match="num_clusters"):
        draw(num_clusters=6)
    with pytest.raises(ValueError, match="`max_leaves` must be from 1"):
        draw(max_leaves=0)
    with pytest.raises(ValueError, match="ward"):
        draw(heights="ward")


@pytest.mark.parametrize("scale", ["root", "linear", "log"])
@pytest.mark.parametrize("z", [np.zeros((0, 4)), [[0, 1, 0, 2]]], ids=["one", "flat"])
def test_least_trees(z, scale, tmp_path):
    tree = Dendrogram.from_linkage(z)
    path = tmp_path / "tree.png"
    figure = Figure(layout="constrained")
    plot_dendrogram(
        tree,
        figure.subplots(),
        classes=["a"] * tree.num_leaves,
        scale=scale,
        num_clusters=1,
    )
    figure.savefig(path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_deep_chain(tmp_path):
    m = 3000
    chain = [[0, 1, 1, 2]] + [[m + k, k + 2, k + 2, k + 3] for k in range(m - 2)]
    tree = Dendrogram.from_linkage(chain)
    ax = tree.plot(num_clusters=9, scale="log", max_leaves=2000)
    ax.get_figure().savefig(tmp_path / "chain.svg")
    assert b"<svg" in (tmp_path / "chain.svg").read_bytes()[:1000]


@pytest.mark.slow
def test_thousands_of_leaves_take_seconds(tmp_path):
    tree = random_tree(5000)
    long = [[0, 1, 1, 2]] + [[20_000 + k, k + 2, k + 2, k + 3] for k in range(19_998)]
    chain = Dendrogram.from_linkage(long)
    palette(30)
    for case in (tree, chain):
        start = time.perf_counter()
        ax = case.plot(num_clusters=30, classes=np.arange(case.num_leaves) % 7)
        ax.get_figure().savefig(tmp_path / "tree.png")
        assert time.perf_counter() - start < 20


# Where it is drawn


def test_the_method_draws_on_axes_that_are_given_and_else_in_a_new_figure():
    figure, (first, second) = pyplot.subplots(1, 2)
    assert TREE.plot(first, num_clusters=2) is first
    assert figure.get_layout_engine() is not None
    ax = TREE.plot()
    assert ax.get_figure() is not figure
    assert ax.get_figure().get_layout_engine() is not None
    assert not second.has_data()


def test_a_layout_of_the_users_own_is_kept():
    figure = Figure(layout="tight")
    engine = figure.get_layout_engine()
    plot_dendrogram(TREE, figure.subplots())
    assert figure.get_layout_engine() is engine


def test_without_matplotlib_the_method_names_the_extra(monkeypatch):
    for name in [*sys.modules]:
        if name.startswith(("bregjax.plotting", "matplotlib.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'bregjax\[plot\]'"):
        TREE.plot()


def test_one_color_tells_pictures_apart_by_position():
    """A strip parts neighbours by white lines, which gray prints show, too."""
    ax, _, _ = draw(num_clusters=2)
    strip = part(ax, "strip")
    assert strip.get_edgecolor().tolist() == [list(to_rgba("white"))]

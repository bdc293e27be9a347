"""Pictures of trees: what is drawn where."""

import re
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from bregjax import Dendrogram
from bregjax.plotting import plot_dendrogram, save_dendrogram

# Leaves 0 … 4; the third merge costs less than the second, which is below it.
TREE = Dendrogram.from_linkage(
    [[0, 1, 1.0, 2], [2, 5, 4.0, 3], [3, 4, 0.0, 2], [6, 7, 2.0, 5]]
)
ORDER = [2, 0, 1, 3, 4]


def chain_of(count):
    """The linkage matrix of a chain."""
    return [[0, 1, 1, 2]] + [[count + k, k + 2, 1, k + 3] for k in range(count - 2)]


def draw(tree=TREE, **options):
    ax = Figure().subplots()
    patches = plot_dendrogram(tree, ax, **options)
    (lines,) = (c for c in ax.collections if isinstance(c, LineCollection))
    return ax, np.array(lines.get_segments()), lines.get_colors(), patches


def test_brackets_stand_on_their_children():
    assert TREE.leaf_order().tolist() == ORDER
    _, segments, _, patches = draw(heights="cost")
    assert segments.tolist() == [
        [[1, 0], [1, 1], [2, 1], [2, 0]],
        [[0, 0], [0, 4], [1.5, 4], [1.5, 1]],
        [[3, 0], [3, 0], [4, 0], [4, 0]],
        [[0.75, 4], [0.75, 2], [3.5, 2], [3.5, 0]],
    ]
    assert patches == []


def test_monotone_heights_are_the_default():
    _, segments, _, _ = draw()
    assert segments[:, 1, 1].tolist() == [1, 4, 0, 4]


def test_log_scale_draws_zeros_above_the_bottom():
    ax, segments, _, _ = draw(log_scale=True)
    assert ax.get_yscale() == "log"
    bottom, top = ax.get_ylim()
    assert 0 < bottom < 1
    assert top > 4
    assert segments[..., 1].min() == bottom
    assert segments[2, 1, 1] == 1.0


def test_clusters_colour_their_branches():
    _, _, colors, _ = draw(labels=TREE.cut(num_clusters=2), cluster_colors="Dark2")
    one, same, other, above = np.asarray(colors).tolist()
    assert one == same
    assert other not in (one, above)
    assert above == list(to_rgba("0.35"))


def test_strip_and_legend_agree_with_leaf_order():
    classes = ["b", "a", "b", "c", "a"]
    ax, _, _, patches = draw(classes=classes)
    (strip,) = ax.child_axes
    image = np.asarray(strip.images[0].get_array())[0]
    color_of = {p.get_label(): p.get_facecolor() for p in patches}
    assert list(color_of) == ["a", "b", "c"]
    expected = [color_of[classes[leaf]] for leaf in ORDER]
    assert np.allclose(image, expected)


@pytest.mark.parametrize("count", [3, 15, 40])
def test_every_class_has_its_own_colour(count):
    tree = Dendrogram.from_linkage(chain_of(count))
    _, _, _, patches = draw(tree, classes=np.arange(count))
    assert len({tuple(p.get_facecolor()) for p in patches}) == count


def test_names_stand_under_the_strip_in_leaf_order():
    ax, _, _, _ = draw(names=list("vwxyz"), classes=[0, 0, 0, 1, 1])
    (strip,) = ax.child_axes
    assert [t.get_text() for t in strip.get_xticklabels()] == list("xvwyz")
    assert len(ax.get_xticks()) == 0
    ax, _, _, _ = draw(names=list("vwxyz"))
    assert [t.get_text() for t in ax.get_xticklabels()] == list("xvwyz")


def test_nothing_overlaps():
    figure = Figure(figsize=(6, 4), layout="constrained")
    ax = figure.subplots()
    patches = plot_dendrogram(
        TREE, ax, names=["long name"] * 5, classes=[0, 0, 0, 1, 1]
    )
    legend = figure.legend(handles=patches, loc="outside lower center")
    figure.draw_without_rendering()
    (strip,) = ax.child_axes
    boxes = [
        ax.get_window_extent(),
        strip.get_window_extent(),
        strip.get_xticklabels()[0].get_window_extent(),
        legend.get_window_extent(),
    ]
    for above, below in zip(boxes, boxes[1:], strict=False):
        assert below.y1 <= above.y0 + 0.5
    assert boxes[-1].y0 >= 0


@pytest.mark.parametrize("argument", ["classes", "names", "labels"])
def test_wrong_lengths_are_refused(argument):
    wrong: dict[str, Any] = {argument: ["a"] * 4}
    with pytest.raises(ValueError, match=f"`{argument}` must have one entry .* got 4"):
        draw(**wrong)


def test_heights_of_another_family_are_refused():
    with pytest.raises(ValueError, match="ward"):
        draw(heights="ward")


@pytest.mark.parametrize("log_scale", [False, True])
@pytest.mark.parametrize("z", [np.zeros((0, 4)), [[0, 1, 0, 2]]], ids=["one", "flat"])
def test_least_trees(z, log_scale, tmp_path):
    tree = Dendrogram.from_linkage(z)
    path = tmp_path / "tree.png"
    save_dendrogram(tree, path, classes=["a"] * tree.num_leaves, log_scale=log_scale)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_deep_chain(tmp_path):
    m = 3000
    chain = [[0, 1, 1, 2]] + [[m + k, k + 2, k + 2, k + 3] for k in range(m - 2)]
    tree = Dendrogram.from_linkage(chain)
    path = tmp_path / "chain.svg"
    save_dendrogram(tree, path, labels=tree.cut(num_clusters=9), log_scale=True)
    assert b"<svg" in path.read_bytes()[:1000]


# Names as they are

ODD = ["a$_$b", "$$", "_x", r"\$5", "two\nlines"]


def test_names_are_no_formulas(tmp_path):
    path = tmp_path / "tree.svg"
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        save_dendrogram(TREE, path, names=ODD, classes=ODD, class_name="$ a_b $")
    words = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text("utf-8"))
    shown = [word.lstrip("\u200b") for word in words]
    for name in ("a$_$b", "$$", "_x", r"\$5", "two lines"):
        assert shown.count(name) == 2, name  # under its leaf and in the legend
    assert "$ a_b $" in shown


def test_classes_need_no_order():
    _, _, _, patches = draw(classes=[None, "b", 1, None, "b"])
    assert [patch.get_label() for patch in patches] == ["1", "None", "b"]


def test_long_names_are_shortened(tmp_path):
    names = [f"{'x' * 140_000} {leaf}" for leaf in range(5)]
    ax, _, _, patches = draw(names=names, classes=names)
    (strip,) = ax.child_axes
    texts = [label.get_text() for label in strip.get_xticklabels()]
    texts += [str(patch.get_label()) for patch in patches]
    assert len(set(texts)) == 5
    assert max(map(len, texts)) <= 40


@pytest.mark.parametrize(
    "name", ["{}", "class {}", "a class of a long name, number {}"]
)
def test_legends_lie_inside_the_picture(name, monkeypatch):
    count, drawn = 13, []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: drawn.append(self))
    tree = Dendrogram.from_linkage(chain_of(count))
    classes = [name.format(leaf) for leaf in range(count)]
    save_dendrogram(tree, "nowhere.png", classes=classes)
    (figure,) = drawn
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box, whole = legend.get_window_extent(), figure.bbox
    assert len(legend.get_texts()) == count
    assert whole.x0 <= box.x0
    assert box.x1 <= whole.x1
    assert whole.y0 <= box.y0
    assert figure.axes[0].get_window_extent().height > 0.5 * whole.height


@pytest.mark.parametrize("count", [8, 13, 30])
def test_every_cluster_has_its_own_colour(count):
    """Pairs of leaves, and a chain over them; neighbours are no like colours."""
    pairs = [[2 * k, 2 * k + 1, 1, 2] for k in range(count)]
    m = 2 * count
    top = [[m, m + 1, 9, 4]]
    top += [[m + count + k, m + 2 + k, 9, 2 * k + 6] for k in range(count - 2)]
    tree = Dendrogram.from_linkage(pairs + top)
    _, _, colors, _ = draw(tree, labels=tree.cut(num_clusters=count))
    colors = np.asarray(colors)
    assert len({tuple(color) for color in colors[:count].tolist()}) == count
    assert (colors[count:] == to_rgba("0.35")).all()
    steps = np.abs(np.diff(colors[:count], axis=0)).sum(axis=1)
    assert steps.min() > 0.1

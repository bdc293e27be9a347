"""Pictures of one tree: its lines, its cut, strips of clusters and classes, names."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgba

from bregjax._checks import check_count
from bregjax._typing import DataLike
from bregjax.hierarchy import Dendrogram
from bregjax.hierarchy._dendrogram import Heights
from bregjax.hierarchy._tree_nodes import finite_heights
from bregjax.plotting._arguments import distinct, entries, labels_and_numbers
from bregjax.plotting._brackets import Brackets, clusters_of_nodes, cut_level, top_of
from bregjax.plotting._canvas import axes_or_new
from bregjax.plotting._colors import (
    GRAY,
    Colors,
    colors_of,
    colors_of_clusters,
    strokes_of,
)
from bregjax.plotting._frame import Orientation, Scale, TreeFrame, below_zero
from bregjax.plotting._strips import (
    STRIP,
    add_legend,
    draw_clusters,
    draw_strip,
    head_of,
    legend_width,
)
from bregjax.plotting._support import draw_support
from bregjax.plotting._text import font_size, shortened_all, width_of

__all__ = ["draw_tree", "plot_dendrogram"]


def plot_dendrogram(
    tree: Dendrogram,
    ax: Axes | None = None,
    *,
    num_clusters: SupportsIndex | None = None,
    labels: DataLike | None = None,
    max_leaves: SupportsIndex | None = None,
    names: Sequence[Any] | None = None,
    classes: Sequence[object] | DataLike | None = None,
    class_name: str | None = None,
    support: DataLike | None = None,
    least_support: float = 0.0,
    heights: Heights = "monotone",
    scale: Scale | None = None,
    orientation: Orientation = "top",
    cluster_colors: Colors = None,
    class_colors: Colors = None,
) -> Axes:
    """Draw a dendrogram: leaves side by side, each merge a bracket at its height.

    Draws by arrays, without recursion: a chain of any depth is fine, and 5,000 leaves
    take a second. `tree.plot()` is the same.

    Args:
        tree: The tree.
        ax: Where to draw; a new figure if None. A figure of your own without a
            layout gets matplotlib's "constrained" one, with room for names.
        num_clusters: Draw the clusters of this cut in colors of their own, numbered as
            `tree.cut` numbers them, and the cut as a dashed line; where merges invert,
            so that no height parts them, as a dash across each branch that is cut.
        labels: The same for any flat clusters, `[m]`, without a line; rows of −1, as
            of `tree.cut(min_size=…)`, are gray.
        max_leaves: Draw the last merges alone, as many as give so many ends. A subtree
            that is collapsed is a triangle as high as its merge, with its number of
            leaves in brackets.
        names: Names of the leaves, `list(table.index)` of a data frame, say; their
            numbers if None. They are written where they fit, as they are: a dollar
            sign is no formula. Of more than 40 letters the middle is left out.
        classes: The known class of each leaf, `[m]`, shown as a colored strip beside
            the leaves, with a legend of at most 20. Beside a collapsed subtree are the
            shares of its classes.
        class_name: What the classes are called, the title of the legend.
        support: A number for each merge, `[m − 1]`, as of `support_values`: written as
            a percentage at the highest merges, where there is room.
        least_support: Smaller numbers are left out.
        heights: Which heights to show; "monotone" so that lines do not cross where
            merge costs invert, which the axis then says. "cost" shows inversions.
        scale: The axis of heights: "root", on which costs are as far apart as their
            square roots, so that small merges show beside large ones (Ward's distances
            are square roots of costs); "linear"; or "log", on which lower ones than
            1e-6 of the greatest are drawn at that, and what costs nothing below it at
            a tick 0. If None "root" of costs, "linear" of other heights, those of a
            tree from elsewhere too (`Dendrogram.unit`), and where a height is below 0,
            which neither "root" nor "log" can show. Ticks are nats, or heights, on any.
        orientation: The side of the root: "top", "bottom", "left" or "right".
        cluster_colors: Colors of the clusters, a list or the name of a matplotlib color
            map; if None a palette for all kinds of color vision, with a color for each
            of any number of clusters.
        class_colors: The same for classes.

    Returns:
        The axes, with the legend, if there is one: `ax.get_legend()`.

    Raises:
        ValueError: If `classes`, `names`, `labels` or `support` have another length
            than there are leaves or merges, a number is out of range, or a height is
            not finite, or below 0 on a scale that has none there.
        TypeError: If one of these is no list or array, but a text, say.

    Examples:
        >>> from matplotlib.figure import Figure
        >>> tree = Dendrogram.from_linkage([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
        >>> ax = plot_dendrogram(
        ...     tree, Figure().subplots(), num_clusters=2, classes=["oak", "oak", "elm"]
        ... )
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['elm', 'oak']
    """
    m = tree.num_leaves
    most, ends = None, m
    if max_leaves is not None:
        most = check_count("max_leaves", max_leaves, np.iinfo(np.int32).max, "leaves")
        ends = min(m, most)
    if names is not None:
        names = entries("names", names, m)
    if classes is not None:
        classes = entries("classes", classes, m)
    if support is not None:
        support = entries("support", support, tree.num_merges, "merges")
    kinds, codes = ([], None) if classes is None else distinct(classes)
    # With names every leaf has room for letters, up to a width that pages have.
    most_long = 8.0 if names is None else 14.0
    beside = 0.0 if names is None else width_of(shortened_all(names), 8.5) / 72
    size = float(np.clip(0.12 * ends, 6.4, most_long)) + legend_width(kinds) / 72
    size = size, 3.6 + beside
    if orientation not in ("top", "bottom"):
        size = 4.8 + beside, float(np.clip(0.12 * ends, 3.6, most_long + 2))
    frame = TreeFrame.of(axes_or_new(ax, size), orientation)
    found, numbers = labels_and_numbers(tree, num_clusters, labels)
    colors = colors_of_clusters(cluster_colors, numbers)
    brackets = draw_tree(
        frame,
        tree,
        heights=heights,
        scale=scale,
        max_leaves=most,
        codes=found,
        colors=strokes_of(colors, cluster_colors),
        num_clusters=num_clusters,
    )
    end_of = _ends(tree, brackets)
    strips = 0
    if len(numbers) > 1 and found is not None:
        draw_clusters(frame, brackets, end_of, found, colors, numbers)
        strips = 1
    if codes is not None:
        paints = colors_of(class_colors, len(kinds), "class_colors", muted=True)
        draw_strip(
            frame,
            brackets,
            end_of,
            codes,
            paints,
            number=strips,
            head=head_of(kinds, class_name),
        )
        strips += 1
        add_legend(frame, kinds, paints, class_name)
    _name(frame, brackets, names, m, 3 + strips * STRIP)
    if support is not None:
        values = np.asarray(support, float)
        shown = values[len(values) - len(brackets.children) :]
        draw_support(frame, brackets, shown, least_support)
    return frame.ax


def draw_tree(
    frame: TreeFrame,
    tree: Dendrogram,
    *,
    heights: Heights = "monotone",
    scale: Scale | None = None,
    max_leaves: int | None = None,
    codes: np.ndarray | None = None,
    colors: np.ndarray | None = None,
    num_clusters: SupportsIndex | None = None,
) -> Brackets:
    """Draw the lines of a tree, its axis of heights, and its cut."""
    tops = finite_heights(tree, heights, "A picture of a tree")
    if scale is None:
        is_cost = heights in ("cost", "monotone") and tree.unit == "nats"
        scale = "root" if is_cost and not below_zero(tops) else "linear"
    tops, bottom = frame.set_heights(tops, scale)
    brackets = top_of(tree, tops, bottom, max_leaves)
    frame.set_ends(brackets.num_ends)
    frame.clear_sides(_height_label(tree, heights, scale))
    room = frame.length / brackets.num_ends
    paint = _node_colors(tree, brackets, codes, colors)
    corners = brackets.corners()
    # Wide brackets are bold, narrow ones fine: thousands of leaves are no black bar.
    wide = (corners[:, 2, 0] - corners[:, 0, 0]) * room
    widths = np.clip(0.12 * wide, np.clip(0.25 * room, 0.15, 0.35), 1.0)
    frame.ax.add_collection(
        LineCollection(
            list(frame.turned(corners)),
            colors=paint[brackets.num_ends :],
            linewidths=widths,
            capstyle="projecting",
            gid="branches",
        )
    )
    # A leg that stands on a cluster, below a merge of several, has the cluster's color.
    merge, side = np.nonzero(
        (paint[brackets.children] != paint[brackets.num_ends :, None]).any(axis=2)
    )
    legs = corners[:, [[0, 1], [3, 2]]][merge, side]
    frame.ax.add_collection(
        LineCollection(
            list(frame.turned(legs)),
            colors=paint[brackets.children[merge, side]],
            linewidths=widths[merge],
            capstyle="projecting",
            gid="stems",
        )
    )
    places, triangles = brackets.triangles()
    if len(places):
        edges = paint[places]
        frame.ax.add_collection(
            PolyCollection(
                list(frame.turned(triangles)),
                facecolors=0.35 * edges + 0.65,
                edgecolors=edges,
                linewidths=float(np.clip(0.12 * room, 0.35, 1.0)),
                gid="collapsed",
            )
        )
    if num_clusters is not None:
        count = check_count("num_clusters", num_clusters, tree.num_leaves, "the leaves")
        _draw_cut(frame, brackets, tops, count)
    return brackets


def _height_label(tree: Dendrogram, heights: Heights, scale: Scale) -> str:
    root = "√ scale" if scale == "root" else ""
    if heights in ("ward", "merge_index"):
        words = "Ward height" if heights == "ward" else "merge"
        return f"{words} ({root})" if root else words
    inverted = heights == "monotone" and tree.num_inversions(rtol=1e-9) > 0
    if tree.unit != "nats":
        words = "largest height so far" if inverted else "height"
        return f"{words} ({root})" if root else words
    words = "largest cost so far" if inverted else "merge cost"
    return f"{words} (nats, {root})" if root else f"{words} (nats)"


def _node_colors(
    tree: Dendrogram,
    brackets: Brackets,
    codes: np.ndarray | None,
    colors: np.ndarray | None,
) -> np.ndarray:
    """A color for each end and each merge that is drawn, `[n + s, 4]`."""
    shown = len(brackets.children)
    gray = to_rgba(GRAY)
    if codes is None or colors is None or len(colors) < 2:
        return np.tile(gray, (brackets.num_ends + shown, 1))
    of_node = clusters_of_nodes(tree, codes)
    nodes = [*brackets.nodes.tolist(), *range(len(of_node) - shown, len(of_node))]
    place = [-1 if of_node[node] is None else of_node[node] for node in nodes]
    return np.concatenate([colors, [gray]])[place]


def _draw_cut(
    frame: TreeFrame, brackets: Brackets, tops: np.ndarray, num_clusters: int
) -> None:
    """A dashed line where the tree is cut, or a dash across each branch that is cut."""
    n, shown = brackets.num_ends, len(brackets.children)
    num_undone = num_clusters - (n - shown)
    if not 0 < num_undone <= shown:
        return
    style: dict[str, Any] = {"colors": GRAY, "linewidths": 0.8, "gid": "cut"}
    level = cut_level(tops, num_undone, brackets.bottom)
    if level is not None:
        line = np.array([[[-0.5, level], [n - 0.5, level]]])
        style["linestyles"] = (0, (4, 3))
    else:
        first = n + shown - num_undone
        undone = brackets.children[shown - num_undone :]
        above = brackets.level[first:][:, None]
        cut = undone < first
        middle = ((brackets.level[undone] + above) / 2)[cut]
        at = brackets.position[undone[cut]]
        half = 0.012 * n
        low, high = np.stack([at - half, middle], 1), np.stack([at + half, middle], 1)
        line = np.stack([low, high], axis=1)
    frame.ax.add_collection(LineCollection(list(frame.turned(line)), **style))


def _ends(tree: Dendrogram, brackets: Brackets) -> np.ndarray:
    """The end of the drawn tree that each leaf is in, `[m]`."""
    return np.asarray(tree.cut(num_clusters=brackets.num_ends))


def _name(
    frame: TreeFrame,
    brackets: Brackets,
    names: Sequence[Any] | None,
    m: int,
    pad: float,
) -> None:
    """Write names at the ends, if they fit, and say what they are."""
    size = font_size(frame.length / brackets.num_ends)
    if size is not None:
        known = range(m) if names is None else names
        shown = [
            known[int(brackets.nodes[end])]
            if brackets.sizes[end] == 1
            else f"({brackets.sizes[end]:,})"
            for end in brackets.order
        ]
        shown = shortened_all(shown)
        frame.name_leaves(shown, size, pad)
    if not brackets.is_whole:
        subtrees = "subtree" if brackets.num_ends == 1 else "subtrees"
        frame.say_leaves(f"{brackets.num_ends} {subtrees} of {m:,} leaves", 4)
    elif size is None:
        frame.say_leaves(f"{m:,} leaves", pad + 2)
    elif names is None:
        frame.say_leaves("leaf", 4)

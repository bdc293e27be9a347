"""Two trees of the same leaves, face to face."""

from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba

from bregjax._typing import DataLike
from bregjax.hierarchy import Dendrogram
from bregjax.hierarchy._dendrogram import Heights
from bregjax.plotting._arguments import entries, labels_and_numbers
from bregjax.plotting._brackets import Brackets
from bregjax.plotting._canvas import axes_in, holder, points_of
from bregjax.plotting._colors import GRAY, Colors, colors_of_clusters, strokes_of
from bregjax.plotting._dendrogram import draw_tree
from bregjax.plotting._frame import Orientation, Scale, TreeFrame
from bregjax.plotting._strips import STRIP, draw_clusters
from bregjax.plotting._text import font_size, shortened, shortened_all, width_of
from bregjax.plotting._untangling import entanglement, untangle

__all__ = ["TanglegramAxes", "plot_tanglegram"]

# The share of the width that the lines between the trees have.
_BETWEEN = 0.24
_SIZE = 8.5


class TanglegramAxes(NamedTuple):
    """The axes of two trees, and of the lines between them.

    Attributes:
        first: The tree on the left.
        second: The tree on the right.
        between: The lines.

    Examples:
        >>> tree = Dendrogram.from_linkage([[0, 2, 1.0, 2], [1, 3, 2.0, 3]])
        >>> plot_tanglegram(tree, tree).second.get_title()
        'second'
    """

    first: Axes
    second: Axes
    between: Axes


def plot_tanglegram(
    first: Dendrogram,
    second: Dendrogram,
    ax: Axes | None = None,
    *,
    num_clusters: SupportsIndex | None = None,
    labels: DataLike | None = None,
    names: Sequence[Any] | None = None,
    titles: tuple[str, str] = ("first", "second"),
    untangled: bool = True,
    heights: Heights = "monotone",
    scale: Scale | None = None,
    cluster_colors: Colors = None,
) -> TanglegramAxes:
    """Draw two trees face to face, with a line from each leaf to itself.

    Lines and branches have the colors of the clusters of the first tree. Between the
    titles stands the entanglement, from 0 (no line crosses another) to 1.

    Args:
        first: The tree on the left.
        second: A tree of the same leaves.
        ax: Where to draw, in the place of these axes; a new figure if None.
        num_clusters: Of the first tree; as for `plot_dendrogram`.
        labels: As for `plot_dendrogram`.
        names: Names of the leaves, written at both trees, where they fit; none if None.
        titles: What the trees are called.
        untangled: Whether to turn merges of both trees first, as `untangle` does.
        heights: As for `plot_dendrogram`.
        scale: As for `plot_dendrogram`.
        cluster_colors: As for `plot_dendrogram`.

    Returns:
        The axes of both trees, and of the lines between.

    Raises:
        ValueError: If the trees have different numbers of leaves, or as
            `plot_dendrogram`.

    Examples:
        >>> import bregjax as bj
        >>> x = [[0.0, 1.0], [0.5, 0.0], [4.0, 2.0], [9.0, 5.0]]
        >>> trees = [bj.agglomerate(x, family=name) for name in ("ward", "gaussian")]
        >>> axes = plot_tanglegram(*trees, titles=("Ward", "Gaussian"))
        >>> axes.between.get_title()
        'entanglement 0.00'
    """
    m = first.num_leaves
    if names is not None:
        names = entries("names", names, m)
    title_of = entries("titles", titles, 2, "trees")
    codes, numbers = labels_and_numbers(first, num_clusters, labels)
    tangle = entanglement(first, second)
    if untangled:
        first, second = untangle(first, second)
        tangle = entanglement(first, second)
    short = [] if names is None else shortened_all(names, 24)
    height = float(np.clip(1.6 + 0.12 * m, 3.4, 9.0))
    whole = holder(ax, (7.2 + 2 * width_of(short, 8.5) / 72, height))
    colors = colors_of_clusters(cluster_colors, numbers)
    strokes = strokes_of(colors, cluster_colors)
    strips = len(numbers) > 1
    size, shown, written = font_size(points_of(whole)[1] / m), [], 0.0
    if names is not None and size is not None:
        shown = short
        written = width_of(shown, size) + 6
    beside = 3 + strips * STRIP + written

    def side(wide: float) -> float:
        return max((1 - _BETWEEN) * wide / 2 - beside, 0.1 * wide)

    left = axes_in(whole, lambda wide, tall: (0, 0, side(wide), tall))
    right = axes_in(whole, lambda wide, tall: (wide - side(wide), 0, side(wide), tall))
    between = axes_in(
        whole,
        lambda wide, tall: (
            *(side(wide) + beside, 0),
            *(wide - 2 * side(wide) - 2 * beside, tall),
        ),
    )
    orders = []
    sides: list[tuple[Axes, Dendrogram, Orientation, str]] = [
        (left, first, "left", title_of[0]),
        (right, second, "right", title_of[1]),
    ]
    for axes, tree, root, title in sides:
        frame = TreeFrame.of(axes, root)
        brackets = draw_tree(
            frame,
            tree,
            heights=heights,
            scale=scale,
            codes=codes,
            colors=strokes,
            num_clusters=num_clusters if root == "left" else None,
        )
        if codes is not None and strips:
            draw_clusters(frame, brackets, np.arange(m), codes, colors, numbers)
        if shown and size is not None:
            in_order = [shown[leaf] for leaf in brackets.order]
            frame.name_leaves(in_order, size, 3 + strips * STRIP)
        frame.narrow(_SIZE)
        axes.set_title(shortened(title, 28), fontsize=10, parse_math=False)
        orders.append(brackets)
    _draw_lines(between, orders[0], orders[1], codes, strokes)
    between.set_title(f"entanglement {tangle:.2f}", fontsize=_SIZE, color=GRAY)
    return TanglegramAxes(left, right, between)


def _draw_lines(
    ax: Axes,
    first: Brackets,
    second: Brackets,
    codes: np.ndarray | None,
    colors: np.ndarray,
) -> None:
    """A line from each leaf of the first tree to the same leaf of the second."""
    m = first.num_ends
    ends = np.stack([first.position[:m], second.position[:m]], axis=1)
    x = np.broadcast_to([0.0, 1.0], ends.shape)
    known = codes is not None and len(colors) > 1
    paint = colors[codes] if known else np.tile(to_rgba("0.5"), (m, 1))
    ax.add_collection(
        LineCollection(
            list(np.stack([x, ends], axis=-1)),
            colors=paint,
            linewidths=float(np.clip(60 / m, 0.3, 1.0)),
            alpha=float(np.clip(150 / m, 0.4, 0.9)),
            gid="lines",
        )
    )
    ax.set(xlim=(0, 1), ylim=(m - 0.5, -0.5))
    ax.set_axis_off()

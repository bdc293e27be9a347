"""Tables as heat maps beside their trees."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patches import Patch

from bregjax._problem import Problem
from bregjax._typing import DataLike, TableLike
from bregjax.hierarchy import Dendrogram
from bregjax.hierarchy._dendrogram import Heights
from bregjax.plotting._arguments import distinct, entries, labels_and_numbers
from bregjax.plotting._canvas import axes_in, bare, figure_of, holder, points_of
from bregjax.plotting._colors import Colors, colors_of, colors_of_clusters, strokes_of
from bregjax.plotting._dendrogram import draw_tree
from bregjax.plotting._frame import Scale, TreeFrame
from bregjax.plotting._strips import (
    STRIP,
    class_patches,
    draw_clusters,
    draw_strip,
    head_of,
    legend_width,
)
from bregjax.plotting._tables import Numbers, numbers_of
from bregjax.plotting._text import (
    escaped,
    font_size,
    shortened_all,
    width_of,
)

__all__ = ["HeatmapAxes", "plot_heatmap"]

_TREE, _COLUMN_TREE = 0.18, 0.14
_MISSING = "0.55"
_AS_IT_IS = "cell"
# What a color bar extends to, by whether cells are below and above it.
_EXTEND = {
    (False, False): "neither",
    (True, False): "min",
    (False, True): "max",
    (True, True): "both",
}
# Standard deviations beyond which all cells have one color.
_MOST_DEVIATIONS = 3.0
_MOST_SHARP = 600
# Rows whose names fit the highest new figure.
_MOST_NAMES = 90
# Points: the least height of a color bar, which its name fits.
_BAR = 100.0
_SIZE = 8.5


class HeatmapAxes(NamedTuple):
    """The axes of a heat map with its trees.

    Attributes:
        heatmap: The table.
        tree: The tree of the rows, at its left.
        color_bar: What the colors mean; of a table of 0 and 1 alone two patches.
        column_tree: The tree of the columns, above it, or None.

    Examples:
        >>> tree = Dendrogram.from_linkage([[0, 2, 1.0, 2], [1, 3, 2.0, 3]])
        >>> axes = plot_heatmap([[0.0, 3.0], [4.0, 2.0], [0.5, 9.0]], tree)
        >>> axes.column_tree is None
        True
    """

    heatmap: Axes
    tree: Axes
    color_bar: Axes
    column_tree: Axes | None


def plot_heatmap(
    data: Problem | TableLike,
    tree: Dendrogram,
    ax: Axes | None = None,
    *,
    columns: Sequence[Hashable] | None = None,
    column_tree: Dendrogram | None = None,
    standardize: bool | None = None,
    names: Sequence[Any] | None = None,
    num_clusters: SupportsIndex | None = None,
    labels: DataLike | None = None,
    classes: Sequence[object] | DataLike | None = None,
    class_name: str | None = None,
    color_map: str | None = None,
    heights: Heights = "monotone",
    scale: Scale | None = None,
    cluster_colors: Colors = None,
    class_colors: Colors = None,
) -> HeatmapAxes:
    """Draw a table as a heat map, its rows in the order of their tree.

    Missing cells are gray. Of a table with categories the columns of numbers are shown,
    and the others named below. Of more than 600 rows the colors of neighbours are
    averaged where rows are finer than the dots of the picture, so that a single cell
    that is missing, or unlike those around it, can vanish.

    Args:
        data: A problem, or any table: an array, a data frame, a dictionary of columns.
        tree: The tree of its rows.
        ax: Where to draw, in the place of these axes; a new figure if None.
        columns: Names (or numbers, where there are no names) of the columns to show, in
            this order; all if None.
        column_tree: A tree of the columns shown, which orders them, drawn above.
        standardize: Whether to show each column in standard deviations from its mean,
            so that columns of different units can be compared; those of more than 3 in
            one color. If None it does, unless all cells are from 0 to 1.
        names: Names of the rows; none if None, written where they fit.
        num_clusters: As for `plot_dendrogram`; white lines part the clusters.
        labels: As for `plot_dendrogram`.
        classes: As for `plot_dendrogram`.
        class_name: As for `plot_dendrogram`.
        color_map: Name of a matplotlib color map; if None "RdBu_r" of standardized
            columns, which has white in the middle, "Blues" of others. For print in
            black and white take one that runs from dark to light, such as "cividis".
        heights: As for `plot_dendrogram`.
        scale: As for `plot_dendrogram`.
        cluster_colors: As for `plot_dendrogram`.
        class_colors: As for `plot_dendrogram`.

    Returns:
        The axes of the heat map, the tree, the color bar, and the tree of the columns.

    Raises:
        ValueError: If the trees do not fit the table, a chosen column has categories,
            or as `plot_dendrogram`.
        TypeError: If the rows are sparse.

    Examples:
        >>> import bregjax as bj
        >>> table = {"visits": [2, 9, 3], "smokes": [0, 1, 1], "town": ["a", "b", "a"]}
        >>> problem = bj.Problem(table, family={"town": "categorical"})
        >>> axes = plot_heatmap(problem, bj.agglomerate(problem))
        >>> axes.heatmap.get_xlabel()
        'not shown: town'
    """
    table = numbers_of(data, columns)
    m, d = table.cells.shape
    _check_leaves("tree", tree, m, "rows")
    if column_tree is not None:
        _check_leaves("column_tree", column_tree, d, "columns")
    if names is not None:
        names = entries("names", names, m, "rows")
    if classes is not None:
        classes = entries("classes", classes, m, "rows")
    codes, numbers = labels_and_numbers(tree, num_clusters, labels)
    strips = (len(numbers) > 1) + (classes is not None)
    kinds, kind_codes = ([], None) if classes is None else distinct(classes)
    whole = holder(ax, _size_of(table, names, kinds))
    gap, top = 3 + STRIP * strips, 1.0 if column_tree is None else 1 - _COLUMN_TREE
    left = axes_in(whole, lambda wide, tall: (0, 0, _TREE * wide, top * tall))
    beside = TreeFrame.of(left, "left")
    colors = colors_of_clusters(cluster_colors, numbers)
    brackets = draw_tree(
        beside,
        tree,
        heights=heights,
        scale=scale,
        codes=codes,
        colors=strokes_of(colors, cluster_colors),
        num_clusters=num_clusters,
    )
    beside.narrow(_SIZE)
    beside.height_axis.set_tick_params(labelsize=7.5)
    order, leaves = brackets.order, np.arange(m)
    if codes is not None and len(numbers) > 1:
        draw_clusters(beside, brackets, leaves, codes, colors, numbers)
    patches: list[Patch] = []
    title = None
    if kind_codes is not None:
        paints = colors_of(class_colors, len(kinds), "class_colors", muted=True)
        draw_strip(
            beside,
            brackets,
            leaves,
            kind_codes,
            paints,
            number=strips - 1,
            head=head_of(kinds, class_name),
        )
        patches = class_patches(kinds, paints)
        title = None if class_name is None else escaped(class_name)
    heatmap = axes_in(
        whole,
        lambda wide, tall: (
            *(_TREE * wide + gap, 0),
            *((1 - _TREE) * wide - gap, top * tall),
        ),
    )
    place = np.arange(d)
    above = None
    if column_tree is not None:
        above = axes_in(
            heatmap, lambda wide, tall: (0, tall, wide, tall * _COLUMN_TREE / top)
        )
        over = TreeFrame.of(above, "top")
        place = draw_tree(over, column_tree, scale=scale).order
        over.narrow(_SIZE)
        above.yaxis.label.set(rotation=0, ha="right", va="center")
        above.tick_params(labelsize=7.5)
    cells, words, norm, extend = _shown(table, standardize=standardize)
    standard = words != _AS_IT_IS
    paint = colormaps[color_map or ("RdBu_r" if standard else "Blues")]
    paint = paint.with_extremes(bad=_MISSING)
    # Where rows are finer than dots their colors are averaged, but never columns'.
    smoothed = m > _MOST_SHARP
    image = heatmap.imshow(
        np.repeat(cells[order][:, place], -(-1000 // d) if smoothed else 1, axis=1),
        interpolation="antialiased" if smoothed else "nearest",
        aspect="auto",
        cmap=paint,
        norm=norm,
        extent=(-0.5, d - 0.5, m - 0.5, -0.5),
    )
    if codes is not None:
        ends = np.flatnonzero(np.diff(codes[order])) + 0.5
        heatmap.hlines(ends, -0.5, d - 0.5, colors="white", linewidths=1.2)
    bare(heatmap)
    right = _name_rows(heatmap, names, order)
    _name_columns(heatmap, table, place)

    def beside_names(wide: float, tall: float) -> tuple[float, ...]:
        height = min(max(0.45 * tall, _BAR), tall)
        return wide + right + 12, tall - height, 9, height

    bar = axes_in(heatmap, beside_names)
    known = table.cells[~np.isnan(table.cells)]
    yes_or_no = not standard and bool(np.isin(known, (0, 1)).all())
    if yes_or_no:  # there is nothing between to show
        bar.set_axis_off()
        for share in (1, 0):
            patch = {"facecolor": paint(float(share)), "edgecolor": "0.7", "lw": 0.5}
            patches.append(Patch(label=f"{words} {share}", **patch))
    else:
        color_bar = figure_of(heatmap).colorbar(image, cax=bar, extend=extend)
        color_bar.outline.set_visible(False)
        bar.tick_params(labelsize=7.5, length=2)
        bar.set_ylabel(words, fontsize=_SIZE)
    if len(known) < table.cells.size:
        patches.append(Patch(facecolor=_MISSING, label="missing"))
    if patches:
        bar.legend(
            handles=patches,
            title=title,
            loc="upper left",
            bbox_to_anchor=(0.0, 1.0 if yes_or_no else -0.1),
            borderaxespad=0,
            frameon=False,
            fontsize=_SIZE,
            title_fontsize=_SIZE,
            handlelength=1.0,
            handleheight=0.9,
            alignment="left",
        )
    return HeatmapAxes(heatmap, beside.ax, bar, above)


def _size_of(
    table: Numbers, names: Sequence[Any] | None, kinds: Sequence[object]
) -> tuple[float, float]:
    """Inches of a new figure, with room for what is written at its right."""
    m, d = table.cells.shape
    right = legend_width(kinds) / 72
    if names is not None:
        right += width_of(shortened_all(names), _SIZE) / 72
    width = np.clip(3.6 + 0.3 * d, 5.4, 9.0) + min(right, 4.0)
    most_tall = 6.4 if names is None or m > _MOST_NAMES else 9.0
    return float(width), float(np.clip(2.6 + 0.12 * m, 4.2, most_tall))


def _check_leaves(argument: str, tree: Dendrogram, count: int, what: str) -> None:
    if tree.num_leaves != count:
        raise ValueError(
            f"`{argument}` must have a leaf for each of the {count} {what} shown; got "
            f"{tree.num_leaves} leaves."
        )


def _shown(
    table: Numbers, *, standardize: bool | None
) -> tuple[np.ndarray, str, Normalize, str]:
    """Cells as they are shown, what they are called, their range, what exceeds it."""
    cells = np.ma.masked_invalid(table.cells)
    if standardize is None:
        standardize = bool(cells.min() < 0 or cells.max() > 1)
    if not standardize:
        return table.cells, _AS_IT_IS, Normalize(cells.min(), cells.max()), "neither"
    spread = np.ma.filled(cells.std(axis=0), 0)
    centered = np.ma.filled(cells - cells.mean(axis=0), np.nan)
    scaled = centered / np.where(spread > 0, spread, 1)
    low = float(np.nanmin(scaled, initial=0))
    high = float(np.nanmax(scaled, initial=0))
    limit = min(max(-low, high), _MOST_DEVIATIONS) or 1.0
    extend = _EXTEND[low < -limit, high > limit]
    words = "SD from column mean"
    return scaled, words, Normalize(-limit, limit), extend


def _name_rows(ax: Axes, names: Sequence[Any] | None, order: np.ndarray) -> float:
    """Write names of rows at the right, or their number; return how wide they are."""
    size = font_size(points_of(ax)[1] / len(order))
    ax.yaxis.tick_right()
    ax.yaxis.set_label_position("right")
    if names is None or size is None:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(order):,} rows", fontsize=_SIZE)
        return 14.0
    shown = shortened_all([names[row] for row in order])
    ax.set_yticks(np.arange(len(order)), shown, fontsize=size, parse_math=False)
    ax.tick_params(axis="y", length=0, pad=3)
    return width_of(shown, size) + 4


def _name_columns(ax: Axes, table: Numbers, place: np.ndarray) -> None:
    """Write names of columns below, if they fit, and say what is left out."""
    room = points_of(ax)[0] / len(place)
    size = font_size(room)
    words = [table.not_shown()] if table.left_out else []
    if size is None:
        ax.set_xticks([])
        words = [f"{len(place):,} columns", *words]
    else:
        shown = shortened_all([table.names[j] for j in place])
        turned = width_of(shown, size) > 0.75 * room
        ax.set_xticks(
            np.arange(len(place)),
            shown,
            rotation=90 if turned else 0,
            fontsize=size,
            parse_math=False,
        )
        ax.tick_params(axis="x", length=0, pad=3)
    ax.set_xlabel("; ".join(words), fontsize=_SIZE, parse_math=False)

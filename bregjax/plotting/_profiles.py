"""What clusters are on average, column by column."""

from collections.abc import Hashable, Sequence
from typing import Any, SupportsIndex

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from bregjax._checks import check_count
from bregjax._problem import Problem
from bregjax._typing import DataLike, TableLike
from bregjax.families import Bernoulli
from bregjax.plotting._arguments import distinct, entries
from bregjax.plotting._canvas import axes_in, bare, holder, points_of
from bregjax.plotting._colors import GRAY, Colors, colors_of_clusters, strokes_of
from bregjax.plotting._tables import family_of_column, numbers_of
from bregjax.plotting._text import fitted, font_size, shortened_all, width_of
from bregjax.plotting._ticks import STEPS

__all__ = ["plot_profiles"]

_SIZE = 8.5
_ACROSS = 4


def plot_profiles(
    data: Problem | TableLike,
    labels: DataLike,
    ax: Axes | None = None,
    *,
    columns: Sequence[Hashable] | None = None,
    most: SupportsIndex = 12,
    cluster_colors: Colors = None,
) -> list[Axes]:
    """Draw the mean and the spread of each column in each cluster.

    A panel a column, in its own units, a line a cluster: a dot at the mean, a bar of
    one standard deviation to both sides, and the mean of all rows as a gray line.
    Yes/no columns of a problem have percentages and no bars. Missing cells are left
    out, and rows count by their weights. Rows of label −1 are
    gray. Columns of categories are named below.

    Args:
        data: A problem, or any table.
        labels: The cluster of each row, `[m]`, as `tree.cut` gives them.
        ax: Where to draw, in the place of these axes; a new figure if None.
        columns: Names (or numbers, where there are no names) of the columns to show, in
            this order.
        most: How many columns are shown if `columns` is None: those of which clusters
            explain the largest share of the variance, in the order of the table.
        cluster_colors: As for `plot_dendrogram`.

    Returns:
        The axes of the panels, in the order of the columns; titles are their names.

    Raises:
        ValueError: If there is not a label for each row, or a chosen column has
            categories.
        TypeError: If the rows are sparse.

    Examples:
        >>> table = {"visits": [2, 3, 9, 8], "height": [1.6, 1.7, None, 1.8]}
        >>> panels = plot_profiles(table, [0, 0, 1, 1])
        >>> [panel.get_title() for panel in panels]
        ['visits', 'height']
    """
    table = numbers_of(data, columns)
    m = len(table.cells)
    numbers, codes = distinct(entries("labels", labels, m, "rows"))
    weights = np.asarray(data.weights) if isinstance(data, Problem) else np.ones(m)
    shown = np.arange(table.cells.shape[1])
    if columns is None:
        shares = [_explained(table.cells[:, j], codes, weights) for j in shown]
        count = check_count("most", most, np.iinfo(np.int32).max, "columns")
        shown = np.sort(np.argsort(-np.array(shares), kind="stable")[:count])
    colors = strokes_of(colors_of_clusters(cluster_colors, numbers), cluster_colors)
    sizes = np.bincount(codes)
    names = [
        f"{name} ({size:,})"
        for name, size in zip(shortened_all(numbers, 16), sizes, strict=True)
    ]
    down = -(-len(shown) // _ACROSS)
    across = -(-len(shown) // down)
    wide = 0.4 + width_of(names, _SIZE) / 72 + 1.75 * across
    lines = min(0.2 * len(numbers), max(2.2, 0.105 * len(numbers)))
    whole = holder(ax, (wide, max(2.0, 0.35 + down * (0.55 + lines))))
    panels, room = [], _place(0, across, down)(*points_of(whole))[2]
    # Titles are shortened together, to as many letters as fit, and then to fit.
    letters = max(int(room / width_of(["n"], 9)), 8)
    titles = shortened_all([table.names[j] for j in shown], letters)
    titles = [fitted(title, 9, room) for title in titles]
    for rank, j in enumerate(shown):
        panel = axes_in(whole, _place(rank, across, down))
        cells = table.cells[:, j]
        is_share = isinstance(data, Problem) and isinstance(
            family_of_column(data, int(table.places[j])), Bernoulli
        )
        _draw(panel, cells, codes, weights, colors, is_share=is_share)
        panel.set_title(titles[rank], fontsize=9, pad=3, parse_math=False)
        panel.set_ylim(len(numbers) - 0.5, -0.5)
        panel.tick_params(labelsize=7.5)
        panel.set_yticks([])
        size = font_size(points_of(panel)[1] / len(numbers))
        if rank % across == 0 and size is not None:
            places = np.arange(len(numbers))
            panel.set_yticks(places, names, fontsize=size, parse_math=False)
            panel.tick_params(axis="y", length=0)
        panels.append(panel)
    words = "dots: means; bars: ± 1 SD; gray lines: means of all rows"
    if table.left_out:
        words += "\n" + table.not_shown(20)
    panels[across * (down - 1)].set_xlabel(
        words, labelpad=9, fontsize=7.5, color=GRAY, loc="left", parse_math=False
    )
    return panels


def _draw(
    panel: Axes,
    cells: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    colors: np.ndarray,
    *,
    is_share: bool,
) -> None:
    """A line for each cluster, and the mean of all."""
    whole, spread = _moments(cells, weights)
    size = float(np.clip(0.45 * points_of(panel)[1] / len(colors), 2.0, 5.0))
    panel.axvline(whole, color="0.75", linewidth=1.0, zorder=0)
    for code, color in enumerate(colors):
        inside = codes == code
        mean, deviation = _moments(cells[inside], weights[inside])
        if not is_share:
            ends = [mean - deviation, mean + deviation]
            panel.plot(
                ends, [code, code], color=color, linewidth=0.4 * size, alpha=0.55
            )
        panel.plot([mean], [code], "o", color=color, markersize=size, gid="mean")
    if is_share:
        panel.set_xlim(-0.04, 1.04)
        panel.xaxis.set_major_formatter(PercentFormatter(1.0))
    elif spread <= 1e-9 * abs(whole):  # no digits of rounding
        panel.set_xlim(whole - 0.5 * abs(whole), whole + 0.5 * abs(whole))
    # Ticks of five letters have room.
    few = int(np.clip(points_of(panel)[0] / width_of(["−0.0005"], 7.5), 2, 5))
    panel.xaxis.set_major_locator(MaxNLocator(few, steps=STEPS, min_n_ticks=2))
    panel.xaxis.get_offset_text().set(fontsize=6.5, color=GRAY)
    bare(panel, ["bottom"])


def _moments(cells: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The weighted mean and standard deviation of observed cells; NaN of none."""
    seen = ~np.isnan(cells)
    if not seen.any():
        return np.nan, np.nan
    w = weights[seen] / weights[seen].sum()
    mean = float(w @ cells[seen])
    return mean, float(np.sqrt(w @ (cells[seen] - mean) ** 2))


def _explained(cells: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> float:
    """The share of a column's variance that lies between clusters; 0 of constants."""
    mean, spread = _moments(cells, weights)
    if not spread > 0:
        return 0.0
    between = 0.0
    seen = ~np.isnan(cells)
    for code in np.unique(codes[seen]):
        inside = (codes == code) & seen
        own, _ = _moments(cells[inside], weights[inside])
        between += weights[inside].sum() * (own - mean) ** 2
    return float(between / (weights[seen].sum() * spread**2))


def _place(rank: int, across: int, down: int) -> Any:
    """Where a panel is in a grid, from the upper left, row by row."""

    def place(wide: float, tall: float) -> tuple[float, ...]:
        row, column = divmod(rank, across)
        width = (wide - 14 * (across - 1)) / across
        height = (tall - 36 * (down - 1)) / down
        return (
            *(column * (width + 14), tall - height - row * (height + 36)),
            *(width, height),
        )

    return place

"""What sets two sets of rows apart, column by column."""

import re
from typing import SupportsIndex

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from bregjax._checks import check_count
from bregjax._comparisons import ColumnCost, Comparison, Explanation
from bregjax.plotting._canvas import axes_or_new, bare, points_of
from bregjax.plotting._colors import GRAY
from bregjax.plotting._text import fitted, shortened_all, width_of
from bregjax.plotting._ticks import STEPS

__all__ = ["plot_comparison"]

_SIZE = 8.5
_VERSUS = "  vs  "
_SPREAD = re.compile(r"-?[\d,]+(?:\.(\d+))? ± [\d,.]+")
_MINUS = re.compile(r"(?<!\S)-(?=\d)")


def plot_comparison(
    comparison: Comparison | Explanation,
    ax: Axes | None = None,
    *,
    most: SupportsIndex = 12,
) -> Axes:
    """Draw what sets two sets of rows apart: a bar for each column, in nats.

    At the right stands what the column is on both sides.

    Args:
        comparison: As of `compare_rows`, one of `explain_clusters`, or what `explain`
            gives, of which the merge is drawn.
        ax: Where to draw; a new figure if None.
        most: How many columns are shown, those of the largest costs.

    Returns:
        The axes, the largest bar on top.

    Raises:
        TypeError: If `comparison` is no comparison, such as a list of them, or `most`
            no whole number.
        ValueError: If `most` is below 1.

    Examples:
        >>> import bregjax as bj
        >>> table = {"visits": [2, 3, 9, 8], "smokes": [0, 1, 1, 1]}
        >>> problem = bj.Problem(table, family="auto")
        >>> ax = plot_comparison(bj.compare_rows(problem, [0, 1], [2, 3]))
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['visits', 'smokes']
    """
    if isinstance(comparison, Explanation):
        comparison = comparison.merge or comparison.against_rest  # pyright: ignore
    if not isinstance(comparison, Comparison):
        raise TypeError(
            "`comparison` must be one comparison; got "
            f"{type(comparison).__name__}. Take explain(…).merge, or one of the list "
            "of explain_clusters(…)."
        )
    count = check_count("most", most, np.iinfo(np.int32).max, "columns")
    shown = comparison.columns[:count]
    names = shortened_all([column.name for column in shown])
    sides = [_sides(column) for column in shown]
    words = [_VERSUS.join(pair) for pair in sides]
    right = width_of(words, _SIZE)
    wide = max(3.2 + (width_of(names, 10) + right) / 72, 2.2 * right / 72)
    height = 1.2 + 0.28 * max(len(shown), 2)
    ax = axes_or_new(ax, (float(np.clip(wide, 6.4, 10.0)), height))
    # Bars have about half of the width; numbers are written whole in any case.
    room = 0.6 * points_of(ax)[0]
    size = float(np.clip(_SIZE * room / max(right, 1), 6.0, _SIZE))
    side = (room - width_of([_VERSUS], size)) / 2
    side = max(side, width_of(["−00.00 ± 00.00"], size))
    if right > room:
        words = [_VERSUS.join(fitted(t, size, side) for t in pair) for pair in sides]
    costs = [column.cost for column in shown]
    places = np.arange(len(shown))
    ax.barh(places, costs, color=GRAY, height=0.7)
    names = [fitted(name, 10, 0.35 * points_of(ax)[0]) for name in names]
    ax.set_yticks(places, names, parse_math=False)
    ax.invert_yaxis()
    for place, text in zip(places, words, strict=True):
        ax.annotate(
            text,
            (1, place),
            xycoords=ax.get_yaxis_transform(),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=size,
            parse_math=False,
        )
    ax.set_xlim(0, 1.02 * max(costs, default=1) or 1)
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=STEPS))
    ax.set_xlabel("nats lost if both are one cluster")
    ax.set_title(" vs ".join(comparison.names), fontsize="medium", parse_math=False)
    ax.tick_params(axis="y", length=0)
    bare(ax, ["left", "bottom"])
    return ax


def _sides(column: ColumnCost) -> list[str]:
    """What both sides are in words, with a minus sign and equally many decimals."""
    sides = (column.first, column.second)
    texts = [", ".join(map(str, side)) for side in sides]
    spreads = [_SPREAD.fullmatch(text) for text in texts]
    decimals = [len(spread[1] or "") for spread in spreads if spread is not None]
    if len(decimals) == 2 and abs(decimals[0] - decimals[1]) == 1:
        form = f"{{0.mean:,.{max(decimals)}f}} ± {{0.deviation:,.{max(decimals)}f}}"
        texts = [form.format(side[0]) for side in sides]
    return [_MINUS.sub("−", text) for text in texts]

"""What sets two sets of rows apart, column by column."""

import numpy as np
from matplotlib.axes import Axes

from bregjax._comparisons import Comparison, Explanation
from bregjax.plotting._canvas import axes_or_new, bare
from bregjax.plotting._colors import GRAY
from bregjax.plotting._text import shortened

__all__ = ["plot_comparison"]


def plot_comparison(
    comparison: Comparison | Explanation, ax: Axes | None = None, *, most: int = 12
) -> Axes:
    """Draw what sets two sets of rows apart: a bar for each column, in nats.

    Beside each bar stands what the column is on both sides.

    Args:
        comparison: As of `compare_rows`, one of `explain_clusters`, or what `explain`
            gives, of which the merge is drawn.
        ax: Where to draw; a new figure if None.
        most: How many columns are shown, those of the largest costs.

    Returns:
        The axes, the largest bar on top.

    Raises:
        TypeError: If `comparison` is no comparison, such as a list of them.

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
    shown = comparison.columns[:most]
    ax = axes_or_new(ax, (6.4, 1.2 + 0.28 * len(shown)))
    costs = [column.cost for column in shown]
    places = np.arange(len(shown))
    bars = ax.barh(places, costs, color=GRAY, height=0.7)
    names = [shortened(column.name) for column in shown]
    ax.set_yticks(places, names, parse_math=False)
    ax.invert_yaxis()
    words = [
        "  vs  ".join(shortened(", ".join(map(str, side))) for side in sides)
        for sides in ((column.first, column.second) for column in shown)
    ]
    ax.bar_label(bars, words, padding=4, fontsize="small", parse_math=False)
    ax.set_xlim(0, 1.6 * max(costs, default=1) or 1)
    ax.set_xlabel("nats lost if both are one cluster")
    ax.set_title(" vs ".join(comparison.names), fontsize="medium", parse_math=False)
    ax.tick_params(axis="y", length=0)
    bare(ax, ["left", "bottom"])
    return ax

"""What the last merges of a tree cost."""

from typing import Any, SupportsIndex

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bregjax._checks import check_count
from bregjax.hierarchy import Dendrogram
from bregjax.hierarchy._cuts import check_cut
from bregjax.hierarchy._tree_nodes import finite_heights
from bregjax.plotting._canvas import axes_or_new, bare
from bregjax.plotting._colors import GRAY, palette
from bregjax.plotting._ticks import STEPS, log_ticks, set_log_ticks

__all__ = ["plot_costs"]

_SIZE = 8.5


def plot_costs(
    tree: Dendrogram,
    ax: Axes | None = None,
    *,
    num_clusters: SupportsIndex | None = None,
    most: SupportsIndex = 30,
    log_scale: bool = False,
) -> Axes:
    """Draw what each of the last merges costs, by how many clusters there were before.

    Of a tree from elsewhere (`Dendrogram.unit`) it draws the heights it came with.

    A cut is good where it undoes expensive merges and keeps cheap ones. Merges that a
    cut undoes are filled dots, those that it keeps hollow ones, and a dashed line parts
    them. A merge that costs less than one inside of its parts, an inversion, is a
    triangle, with a legend.

    Args:
        tree: The tree.
        ax: Where to draw; a new figure if None.
        num_clusters: The cut to mark.
        most: How many merges are shown at most.
        log_scale: A logarithmic axis of costs; merges that cost nothing are left out.

    Returns:
        The axes.

    Raises:
        ValueError: If a number is out of range, a cost is not finite, or the tree
            has no merge.

    Examples:
        >>> tree = Dendrogram.from_linkage([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
        >>> plot_costs(tree, num_clusters=2).get_xlabel()
        'clusters before the merge'
    """
    m, merges = tree.num_leaves, tree.num_merges
    if not merges:
        raise ValueError("`tree` must have a merge; got none.")
    count = check_count("most", most, np.iinfo(np.int32).max, "merges")
    cut = None
    if num_clusters is not None:
        cut = check_cut(num_clusters, m, merges, "leaves")
        count = max(count, min(cut + 2, merges))
    shown = min(count, merges)
    costs = finite_heights(tree, "cost", "A picture of costs")[::-1][:shown]
    before = tree.num_trees + 1 + np.arange(shown)
    inverted = _inverted(tree)[::-1][:shown]
    ax = axes_or_new(ax, (5.2, 3.2))
    blue, _, _, red = palette(4)
    ax.plot(before, costs, color=GRAY, linewidth=0.8, zorder=1)
    kept = before > (np.inf if cut is None else cut)
    signs = []
    for mark, color, these in (("o", blue, ~inverted), ("v", red, inverted)):
        for filled in (True, False):
            place = these & (kept != filled)
            style: dict[str, Any] = {
                "marker": mark,
                "linestyle": "",
                "markersize": 4.5 if mark == "o" else 5.5,
                "markeredgecolor": color,
                "markerfacecolor": color if filled else "white",
            }
            ax.plot(before[place], costs[place], **style)
            if mark == "o" and cut is not None:
                words = "undone by the cut" if filled else "kept"
                signs.append(Line2D([], [], label=words, **style))
    if inverted.any():
        words = "inversion: cheaper than a merge inside of it"
        style = {"marker": "v", "linestyle": "", "color": red}
        signs.append(Line2D([], [], label=words, **style))
    if log_scale:
        ax.set_yscale("log", nonpositive="mask")
        positive = costs[costs > 0]
        if len(positive):
            low, high = 0.7 * positive.min(), 1.3 * positive.max()
            ax.set_ylim(low, high)
            set_log_ticks(ax.yaxis, log_ticks(low, high, 4))
    else:
        low, high = min(0.0, costs.min()), costs.max()
        ax.set_ylim(low, high + 0.05 * (high - low) or 1.0)
    if cut is not None and cut > tree.num_trees:
        ax.axvline(cut + 0.5, color=GRAY, linewidth=0.8, linestyle=(0, (4, 3)))
        early = cut < 0.6 * before[-1]
        ax.annotate(
            f"{cut} clusters",
            (cut + 0.5, 0.99),
            xycoords=("data", "axes fraction"),
            xytext=(4 if early else -4, 0),
            textcoords="offset points",
            ha="left" if early else "right",
            va="top",
            fontsize=_SIZE,
        )
    if signs:
        ax.legend(
            handles=signs,
            loc="upper right",
            bbox_to_anchor=(1.0, 0.93),
            facecolor="white",
            edgecolor="none",
            framealpha=0.9,
            fontsize=_SIZE,
        )
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=STEPS))
    ax.set_xlim(before[0] - 0.6, max(before[-1], 2) + 0.6)
    words = "merge cost (nats)" if tree.unit == "nats" else "height of the merge"
    ax.set(xlabel="clusters before the merge", ylabel=words)
    bare(ax, ["left", "bottom"])
    return ax


def _inverted(tree: Dendrogram) -> np.ndarray:
    """Whether each merge costs less, by more than rounding, than one of its parts."""
    costs = np.asarray(tree.merge_costs, np.float64)
    of_node = np.concatenate([np.full(tree.num_leaves, -np.inf), costs])
    below = of_node[np.asarray(tree.children)].max(axis=1)
    return costs + 1e-9 * np.abs(costs) < below

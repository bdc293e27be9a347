"""Criteria for the number of clusters."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from bregjax.plotting._canvas import axes_in, bare, holder
from bregjax.plotting._colors import GRAY, palette
from bregjax.plotting._ticks import STEPS

__all__ = ["plot_num_clusters"]

# What each panel is called, and which way is better.
_PANELS = {
    "bic": ("BIC", "smaller is better"),
    "icl": ("ICL", "smaller is better"),
    "held_out": ("held-out log-\nlikelihood (nats)", "larger is better"),
    "costs": ("merge cost\n(nats)", ""),
}
_WORDS = {"bic": "BIC", "icl": "ICL", "held_out": "held-out log-likelihood"}
_SIZE = 8.5


def plot_num_clusters(found: Any, ax: Axes | None = None) -> list[Axes]:
    """Draw what each criterion says of each number of clusters.

    One above the other, on one axis of numbers: BIC, ICL, the likelihood of rows that
    were held out, and what it costs to join k clusters into k − 1. A dashed line marks
    the number chosen, and a filled dot the criterion that chose it.

    Args:
        found: What `choose_num_clusters` gives: `numbers`, and for each of them `bic`,
            `icl`, `held_out` and `costs`, or None where one was not computed;
            `num_clusters`, `criterion` and `is_flat`.
        ax: Where to draw, in the place of these axes; a new figure if None.

    Returns:
        The axes of the criteria, from the top.

    Raises:
        TypeError: If `found` has no such fields.
        ValueError: If no criterion has values.

    Examples:
        >>> from types import SimpleNamespace
        >>> found = SimpleNamespace(
        ...     numbers=[1, 2, 3], bic=[-9.0, -5.0, -6.0], icl=None, held_out=None,
        ...     costs=[None, 8.0, 1.0], num_clusters=2, criterion="bic", is_flat=False
        ... )
        >>> [axes.get_ylabel().split()[0] for axes in plot_num_clusters(found)]
        ['BIC', 'merge']
    """
    missing = [
        name
        for name in (*_PANELS, "numbers", "num_clusters", "criterion", "is_flat")
        if not hasattr(found, name)
    ]
    if missing:
        raise TypeError(
            "`found` must be what choose_num_clusters gives; got "
            f"{type(found).__name__}, without {', '.join(missing)}."
        )
    shown = {
        name: np.asarray(getattr(found, name), np.float64)
        for name in _PANELS
        if getattr(found, name) is not None
    }
    if not shown:
        raise ValueError("`found` must have values of a criterion; all are None.")
    numbers = np.asarray(found.numbers)
    count, gap = len(shown), 14.0
    whole = holder(ax, (4.8, 0.8 + 1.15 * count))
    panels = []
    blue = palette(1)[0]
    for rank, (name, values) in enumerate(shown.items()):
        panel = axes_in(whole, _place(rank, count, gap))
        panel.axvline(found.num_clusters, color=GRAY, lw=0.8, linestyle=(0, (4, 3)))
        panel.plot(numbers, values, "-o", color=blue, lw=1.0, ms=3.0)
        at = np.flatnonzero(numbers == found.num_clusters)
        is_criterion = name == (
            "costs" if found.criterion == "gap" else found.criterion
        )
        panel.plot(
            numbers[at],
            values[at],
            "o",
            ms=7,
            color=blue,
            markerfacecolor=blue if is_criterion else "white",
            gid="chosen",
        )
        label, better = _PANELS[name]
        panel.set_ylabel(label, fontsize=9, fontweight="bold" if is_criterion else None)
        panel.text(
            1.0,
            1.01,
            better,
            transform=panel.transAxes,
            ha="right",
            va="bottom",
            fontsize=7.5,
            color=GRAY,
        )
        panel.yaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
        panel.xaxis.set_major_locator(MaxNLocator(10, integer=True, steps=STEPS))
        panel.tick_params(labelsize=_SIZE, labelbottom=rank == count - 1)
        panel.margins(y=0.16)
        edge = 0.03 * (numbers[-1] - numbers[0]) + 0.2
        panel.set_xlim(numbers[0] - edge, numbers[-1] + edge)
        panel.yaxis.set_label_coords(-0.15, 0.5)
        bare(panel, ["left", "bottom"])
        panels.append(panel)
    panels[-1].set_xlabel("number of clusters")
    criterion = _WORDS.get(found.criterion, found.criterion)
    clusters = "cluster" if found.num_clusters == 1 else "clusters"
    words = f"{found.num_clusters} {clusters} by {criterion}"
    if found.is_flat:
        words += "\nflat: other numbers are almost as good"
    panels[0].set_title(words, fontsize=9.5, loc="left")
    return panels


def _place(rank: int, count: int, gap: float) -> Any:
    """Where a panel is: one of several of one height, from the top."""

    def place(wide: float, tall: float) -> tuple[float, ...]:
        height = (tall - gap * (count - 1)) / count
        return 0, tall - height - rank * (height + gap), wide, height

    return place

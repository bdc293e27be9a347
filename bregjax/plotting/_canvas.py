"""Where to draw: the axes that were given, or a new figure."""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox, TransformedBbox

__all__ = [
    "axes_in",
    "axes_or_new",
    "bare",
    "figure_of",
    "holder",
    "points_of",
]


def axes_or_new(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes that were given, or those of a new figure of that size in inches.

    The figure gets a layout that leaves room for names and legends, unless it has one.
    """
    if ax is None:
        return pyplot.figure(figsize=size, layout="constrained").add_subplot()
    figure = figure_of(ax)
    if figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    return ax


def holder(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The same, emptied to hold other axes."""
    ax = axes_or_new(ax, size)
    ax.set_axis_off()
    return ax


def axes_in(ax: Axes, place: Callable[[float, float], Sequence[float]]) -> Axes:
    """Axes inside of others, or beside them.

    Args:
        ax: The axes that hold them.
        place: From width and height of these in points to left, bottom, width and
            height of the new ones, in points from the lower left corner. Called again
            whenever the picture is drawn, since layouts change sizes.
    """

    def located(_: Any, renderer: Any) -> Any:
        del renderer
        wide, tall = points_of(ax)
        left, bottom, width, height = place(wide, tall)
        shares = left / wide, bottom / tall, width / wide, height / tall
        figure: Any = ax.figure
        return TransformedBbox(
            Bbox.from_bounds(*shares), ax.transAxes - figure.transSubfigure
        )

    child = ax.inset_axes((0, 0, 1, 1))
    child.set_axes_locator(located)
    child.apply_aspect(located(child, None))
    return child


def bare(ax: Axes, kept: Sequence[str] = ()) -> None:
    """Take away the frame, but for the sides that are kept."""
    for side in ("left", "right", "top", "bottom"):
        ax.spines[side].set_visible(side in kept)


def figure_of(ax: Axes) -> Figure:
    """The figure, at the top, that an axis is in."""
    figure: Any = ax.figure
    while not isinstance(figure, Figure):
        figure = figure.figure
    return figure


def points_of(ax: Axes) -> tuple[float, float]:
    """Width and height of an axis in points, as far as they are settled."""
    box = ax.get_window_extent()
    scale = 72 / figure_of(ax).dpi
    return box.width * scale, box.height * scale

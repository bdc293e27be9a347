"""The side on which a tree has its root: what is along, what is up, and what is beside.

Beside the leaves, counted in points from the end of the tree, come strips and names.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from matplotlib.transforms import (
    Affine2D,
    ScaledTranslation,
    Transform,
    blended_transform_factory,
)

from bregjax.plotting._canvas import bare, figure_of, points_of
from bregjax.plotting._text import width_of
from bregjax.plotting._ticks import STEPS, log_ticks, number, root_ticks, set_log_ticks

__all__ = ["Orientation", "Scale", "TreeFrame", "below_zero"]

Orientation = Literal["top", "bottom", "left", "right"]
"""Where the root of a tree is; the leaves are on the other side."""

Scale = Literal["root", "linear", "log"]
"""How an axis of heights is divided."""

# Where the leaves are, by where the root is.
_OPPOSITE = {"top": "bottom", "bottom": "top", "left": "right", "right": "left"}


@dataclass(frozen=True)
class TreeFrame:
    """An axis, and the side on which the root is.

    Attributes:
        ax: The axis.
        root: The side.
    """

    ax: Axes
    root: Orientation

    @classmethod
    def of(cls, ax: Axes, orientation: Orientation) -> "TreeFrame":
        """The frame of an axis.

        Raises:
            ValueError: If there is no such side.
        """
        if orientation not in get_args(Orientation):
            raise ValueError(
                f"`orientation` must be one of {list(get_args(Orientation))}, the side "
                f"of the root; got {orientation!r}."
            )
        return cls(ax, orientation)

    @property
    def is_upright(self) -> bool:
        """Whether leaves stand side by side, and heights are vertical."""
        return self.root in ("top", "bottom")

    @property
    def length(self) -> float:
        """How long the row of leaves is, in points."""
        return points_of(self.ax)[0 if self.is_upright else 1]

    @property
    def depth(self) -> float:
        """How high the tree is, in points."""
        return points_of(self.ax)[1 if self.is_upright else 0]

    def turned(self, points: np.ndarray) -> np.ndarray:
        """Points `[..., 2]` along and up, as x and y."""
        return points if self.is_upright else points[..., ::-1]

    def set_ends(self, num_ends: int) -> None:
        """Make room for that many leaves."""
        along = (-0.5, max(num_ends, 1) - 0.5)
        if self.is_upright:
            self.ax.set_xlim(along)
        else:  # the first leaf is on top
            self.ax.set_ylim(along[1], along[0])

    def set_heights(self, tops: np.ndarray, scale: Scale) -> tuple[np.ndarray, float]:
        """Set the axis of heights; return heights as drawn, and that of the leaves.

        Leaves stand at 0, on linear axes below heights that are lower.

        Raises:
            ValueError: If there is no such scale, or it has no heights below 0.
        """
        if scale not in get_args(Scale):
            raise ValueError(
                f"`scale` must be one of {list(get_args(Scale))}; got {scale!r}."
            )
        greatest, ticks = tops.max(initial=0), int(np.clip(self.depth // 36, 2, 4))
        least = 0.0
        if below_zero(tops):
            least = float(tops.min())
            if scale != "linear":
                merge = int(tops.argmin())
                raise ValueError(
                    f"`scale` {scale!r} needs heights of 0 and more; merge {merge} has "
                    f"{least}. Take 'linear'."
                )
        low = 1.04 * least - 0.04 * greatest if least < 0 else 0.0
        high = greatest + 0.04 * (greatest - least) or 1
        if scale == "log" and greatest > 0:
            floor = max(tops[tops > 0].min(), 1e-6 * greatest)
            # What costs nothing is as far below what costs something as half a decade.
            zero = None if tops.min() > 0 else floor / np.sqrt(10)
            tops = np.where(tops > 0, np.maximum(tops, floor), zero or floor)
            low, high = 0.7 * (zero or floor), 1.3 * greatest
            self._set_scale("log")
            set_log_ticks(self.height_axis, log_ticks(floor, high, ticks), zero)
        elif scale == "root":
            tops = np.maximum(tops, 0)
            self._set_scale("function", functions=(_root, np.square))
            self.height_axis.set_major_locator(
                FixedLocator(root_ticks(greatest, ticks))
            )
        if scale != "log":
            self.height_axis.set_major_formatter(FuncFormatter(number))
        up = (low, high) if self.root in ("top", "right") else (high, low)
        if self.is_upright:
            self.ax.set_ylim(up)
        else:
            self.ax.set_xlim(up)
        if scale == "linear":
            self.height_axis.set_major_locator(MaxNLocator(ticks + 1, steps=STEPS))
        return tops, low

    def _set_scale(self, name: str, **options: Any) -> None:
        if self.is_upright:
            self.ax.set_yscale(name, **options)
        else:
            self.ax.set_xscale(name, **options)

    @property
    def height_axis(self) -> Any:
        """The axis of heights."""
        return self.ax.yaxis if self.is_upright else self.ax.xaxis

    @property
    def leaf_axis(self) -> Any:
        """The axis of leaves."""
        return self.ax.xaxis if self.is_upright else self.ax.yaxis

    def clear_sides(self, height_label: str) -> None:
        """Keep the line of heights alone, with its name, and no ticks of leaves."""
        bare(self.ax, ["left" if self.is_upright else "bottom"])
        self.leaf_axis.set_ticks([])
        self.height_axis.set_label_text(height_label)

    def narrow(self, size: float) -> None:
        """Write the name of heights in smaller letters, its units on a second line."""
        label = self.height_axis.label
        label.set(text=label.get_text().replace(" (", "\n(", 1), size=size)

    def name_leaves(self, names: list[str], size: float, pad: float) -> None:
        """Write names at the leaves, along their branches unless all are short."""
        self.leaf_axis.set_ticks_position(_OPPOSITE[self.root])
        self.leaf_axis.set_ticks(np.arange(len(names)), names, parse_math=False)
        room = self.length / max(len(names), 1)
        turned = self.is_upright and width_of(names, size) > 0.75 * room
        self.leaf_axis.set_tick_params(
            length=0, pad=pad, labelsize=size, rotation=90 if turned else 0
        )

    def say_leaves(self, words: str, pad: float) -> None:
        """Say below the leaves what they are."""
        self.leaf_axis.set_label_position(_OPPOSITE[self.root])
        self.leaf_axis.set_label_text(words)
        self.leaf_axis.labelpad = pad

    def beside(self) -> Transform:
        """From leaves along, and points away from their line, to the picture."""
        away = -1.0 if self.root in ("top", "right") else 1.0
        corner = {"top": (0, 0), "bottom": (0, 1), "left": (1, 0), "right": (0, 0)}
        figure: Any = figure_of(self.ax)
        edges: Any = self.ax.transAxes
        inches = (
            Affine2D().scale(away / 72)
            + figure.dpi_scale_trans
            + ScaledTranslation(*corner[self.root], edges)
        )
        if self.is_upright:
            return blended_transform_factory(self.ax.transData, inches)
        return blended_transform_factory(inches, self.ax.transData)


def below_zero(heights: np.ndarray) -> bool:
    """Whether a height is below 0, by more than rounding."""
    return bool(heights.min(initial=0) < -1e-6 * np.abs(heights).max(initial=0))


def _root(values: Any) -> Any:
    """Square roots, of what is below 0 as of 0: matplotlib asks for margins there."""
    return np.sqrt(np.maximum(values, 0))

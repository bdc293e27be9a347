"""Colors that differ on the screen, in print and to color-blind eyes."""

import colorsys
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_rgba_array

__all__ = ["GRAY", "LIGHT_GRAY", "Colors", "colors_of", "ink_on", "palette"]

Colors = str | Sequence[Any] | None
"""The name of a matplotlib color map, a list of colors, or None for `palette`."""

GRAY = "0.35"
LIGHT_GRAY = "0.85"

# Okabe and Ito's palette for all kinds of color vision, without its yellow, too light
# on white, and its black, too like the gray of other lines.
_FIRST = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
# Paul Tol's muted palette, for what stands beside clusters.
_MUTED = (
    *("#CC6677", "#332288", "#DDCC77", "#117733", "#88CCEE"),
    *("#882255", "#44AA99", "#999933", "#AA4499"),
)
# Linear RGB as seen without the first, or without the second kind of cones.
_VIEWS = (
    np.eye(3),
    np.array([[0.112, 0.888, 0.0], [0.112, 0.888, 0.0], [0.004, -0.004, 1.0]]),
    np.array([[0.293, 0.707, 0.0], [0.293, 0.707, 0.0], [-0.022, 0.022, 1.0]]),
)
# From linear RGB to what the cones see, and from its cube roots to OKLab: lightness and
# two axes of hue in which distances are as eyes judge them.
_TO_CONES = np.array(
    [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
)
_TO_LAB = np.array(
    [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
)
# Lighter colors vanish on paper, darker ones look black, and paler ones gray; stronger
# ones glare beside the first.
_LIGHTNESS, _CHROMA = (0.40, 0.82), (0.06, 0.17)
_MOST = 400


def palette(count: int, *, muted: bool = False) -> np.ndarray:
    """Return distinct colors `[count, 4]`; the first are the same for any number.

    The first six are Okabe and Ito's; if muted, the first nine are Paul Tol's. Each
    later one is the color that is the farthest from all before, to normal and to
    color-blind eyes. Of more than 400 the hues go round, neighbours far apart.

    Examples:
        >>> print(palette(2)[:, :3].round(2).tolist())
        [[0.0, 0.45, 0.7], [0.9, 0.62, 0.0]]
    """
    if count <= _MOST:
        return _farthest(_MUTED if muted else _FIRST)[:count].copy()
    steps = np.arange(count) * 0.6180339887 % 1
    lightness = 0.35 + 0.35 * (np.arange(count) % 7) / 6
    return to_rgba_array(
        [
            colorsys.hls_to_rgb(hue, light, 0.8)
            for hue, light in zip(steps, lightness, strict=True)
        ]
    )


def colors_of(
    colors: Colors, count: int, argument: str, *, muted: bool = False
) -> np.ndarray:
    """Return `count` colors `[count, 4]` as a user asks for them.

    Args:
        colors: As the user gave them.
        count: How many are needed.
        argument: What the argument is called.
        muted: Which palette, if the user gave none.

    Raises:
        ValueError: If a list has too few colors, or there is no such color map.
    """
    if colors is None:
        return palette(count, muted=muted)
    if not isinstance(colors, str):
        found = to_rgba_array(list(colors))
        if len(found) < count:
            raise ValueError(
                f"`{argument}` must have a color for each of the {count}; got "
                f"{len(found)}. Leave it out for as many as it takes."
            )
        return found[:count]
    if colors not in colormaps:
        raise ValueError(
            f"`{argument}` must be the name of a matplotlib color map, or a list of "
            f"colors; got {colors!r}. See list(matplotlib.colormaps)."
        )
    of_map = colormaps[colors]
    if count <= of_map.N <= 20:
        return of_map(np.arange(count))
    return of_map(np.linspace(0, 1, count))


def ink_on(color: Any) -> str:
    """Black or white, whichever is more readable on a color."""
    lightness = _seen(to_rgba_array([color])[:, :3], _VIEWS[0])[0, 0]
    return "white" if lightness < 0.66 else "black"


@functools.cache
def _farthest(first: tuple[str, ...]) -> np.ndarray:
    """Some colors, and after them each time the farthest from all before."""
    steps = np.linspace(0, 1, 14)
    grid = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 3)
    lab = _seen(grid, _VIEWS[0])
    chroma = np.hypot(lab[:, 1], lab[:, 2])
    fit = [
        (low < value) & (value < high)
        for (low, high), value in ((_LIGHTNESS, lab[:, 0]), (_CHROMA, chroma))
    ]
    grid = grid[fit[0] & fit[1]]
    chosen = list(to_rgba_array(first)[:, :3])
    waiting = [*to_rgba_array([GRAY, "white", "black"])[:, :3], *chosen]
    distance = np.full(len(grid), np.inf)
    views = [(_seen(grid, view), view) for view in _VIEWS]
    while len(chosen) < _MOST:
        for color in waiting:
            for lab, view in views:
                gap = np.linalg.norm(lab - _seen(color[None], view), axis=1)
                distance = np.minimum(distance, gap)
        waiting = [grid[np.argmax(distance)]]
        chosen += waiting
    return to_rgba_array(np.array(chosen))


def _seen(rgb: np.ndarray, view: np.ndarray) -> np.ndarray:
    """Colors `[n, 3]` in OKLab, as some eyes see them."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.cbrt(np.clip(linear @ view.T, 0, 1) @ _TO_CONES.T) @ _TO_LAB.T

"""Colors that differ on the screen, in print and to color-blind eyes."""

import colorsys
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_rgba, to_rgba_array

from bregjax.plotting._arguments import is_no_cluster

__all__ = [
    "GRAY",
    "LIGHT_GRAY",
    "Colors",
    "colors_of",
    "colors_of_clusters",
    "ink_on",
    "palette",
    "strokes_of",
]

Colors = str | Sequence[Any] | None
"""The name of a matplotlib color map, a list of colors, or None for `palette`."""

GRAY = "0.35"
LIGHT_GRAY = "0.85"

# Okabe and Ito's palette for all kinds of color vision, without its yellow, too light
# on white, and its black, too like the gray of other lines.
_FIRST = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
# Those of Paul Tol's muted palette that are unlike these, for what stands beside
# clusters.
_MUTED = ("#332288", "#DDCC77", "#117733", "#882255", "#999933", "#AA4499")
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
# Thin lines that are lighter have too little contrast on white.
_MOST_LIGHT = 0.70
_NO_CLUSTER = "0.62"


def palette(count: int, *, muted: bool = False) -> np.ndarray:
    """Return distinct colors `[count, 4]`; the first are the same for any number.

    The first six are Okabe and Ito's; if muted, Paul Tol's. Each later one is the color
    that is the farthest from all before, and from both of these, to normal and to
    color-blind eyes. Of more than 400 the hues go round, neighbours far apart.

    Examples:
        >>> print(palette(2)[:, :3].round(2).tolist())
        [[0.0, 0.45, 0.7], [0.9, 0.62, 0.0]]
    """
    if count <= _MOST:
        both = (_MUTED, _FIRST) if muted else (_FIRST, _MUTED)
        return _farthest(*both)[:count].copy()
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


def colors_of_clusters(colors: Colors, numbers: Sequence[Any]) -> np.ndarray:
    """Return colors of clusters, `[k, 4]`: of cluster 3 the same in all pictures.

    Rows of −1, which belong to no cluster, are gray.

    Args:
        colors: As the user gave them, one for each cluster but −1.
        numbers: What the clusters are called, `[k]`.

    Raises:
        ValueError: As `colors_of`.
    """
    whole = all(isinstance(number, int | np.integer) for number in numbers)
    inside = np.array([not is_no_cluster(number) for number in numbers], bool)
    clusters = [number for number in numbers if not is_no_cluster(number)]
    found = np.tile(to_rgba(_NO_CLUSTER), (len(numbers), 1))
    numbered = whole and min(clusters, default=0) >= 0
    if colors is None and numbered and max(clusters, default=0) < _MOST:
        found[inside] = palette(max(clusters, default=0) + 1)[clusters]
    else:
        found[inside] = colors_of(colors, len(clusters), "cluster_colors")
    return found


def strokes_of(colors: np.ndarray, chosen: Colors) -> np.ndarray:
    """Return colors `[k, 4]` as lines have them: light ones darker, unless chosen."""
    if chosen is not None or not len(colors):
        return colors
    lightness = _seen(colors[:, :3], _VIEWS[0])[:, :1]
    # OKLab is of the third degree: this scales its lightness, and keeps the hue.
    linear = _linear(colors[:, :3]) * np.minimum(1, _MOST_LIGHT / lightness) ** 3
    rgb = np.where(
        linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055
    )
    return to_rgba_array(np.clip(rgb, 0, 1))


def ink_on(color: Any) -> str:
    """Black or white, whichever is more readable on a color."""
    lightness = _seen(to_rgba_array([color])[:, :3], _VIEWS[0])[0, 0]
    return "white" if lightness < 0.66 else "black"


@functools.cache
def _farthest(first: tuple[str, ...], others: tuple[str, ...]) -> np.ndarray:
    """Some colors, and after them each time the farthest from all before and others."""
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
    waiting = [*to_rgba_array([GRAY, "white", "black", *others])[:, :3], *chosen]
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
    return np.cbrt(np.clip(_linear(rgb) @ view.T, 0, 1) @ _TO_CONES.T) @ _TO_LAB.T


def _linear(rgb: np.ndarray) -> np.ndarray:
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)

"""Strips beside the leaves of a tree that show clusters or known classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from bregjax.plotting._brackets import Brackets
from bregjax.plotting._canvas import points_of
from bregjax.plotting._colors import GRAY, ink_on
from bregjax.plotting._frame import TreeFrame
from bregjax.plotting._text import escaped, shortened, shortened_all, width_of

__all__ = [
    "STRIP",
    "add_legend",
    "class_patches",
    "draw_clusters",
    "draw_strip",
    "head_of",
    "legend_width",
]

# Points: how thick a strip is, and how far from the leaves or from the strip before.
_THICK, _GAP = 9.0, 3.0
STRIP = _THICK + _GAP
_MOST_CLASSES = 20
_SIZE = 7.0


def draw_clusters(
    frame: TreeFrame,
    brackets: Brackets,
    ends: np.ndarray,
    codes: np.ndarray,
    colors: np.ndarray,
    numbers: Sequence[Any],
) -> None:
    """Draw the strip of clusters, next to the leaves, with their numbers on it.

    Args:
        frame: Where the tree is.
        brackets: The ends of the tree.
        ends: The end of each leaf, `[m]`.
        codes: Which of `numbers` the cluster of each leaf is, `[m]`.
        colors: Of the clusters, `[k, 4]`.
        numbers: The clusters' numbers, `[k]`.
    """
    words = [str(number) for number in numbers]
    draw_strip(
        frame, brackets, ends, codes, colors, number=0, head="cluster", words=words
    )


def draw_strip(
    frame: TreeFrame,
    brackets: Brackets,
    ends: np.ndarray,
    codes: np.ndarray,
    colors: np.ndarray,
    *,
    number: int,
    head: str,
    words: Sequence[str] | None = None,
) -> None:
    """Draw a strip in which each end of the tree has the colors of its leaves.

    Args:
        frame: Where the tree is.
        brackets: The ends of the tree.
        ends: The end of each leaf, `[m]`.
        codes: The class of each leaf, `[m]`.
        colors: Of the classes, `[c, 4]`.
        number: How many strips are nearer to the leaves.
        head: What to write at its end.
        words: What to write on each class, where it fits.
    """
    counts = np.zeros((brackets.num_ends, len(colors)))
    np.add.at(counts, (ends, codes), 1)
    shares = counts[brackets.order] / counts[brackets.order].sum(axis=1, keepdims=True)
    low = _GAP + number * STRIP
    if np.all(shares.max(axis=1) == 1):
        runs, of_run = _runs(shares.argmax(axis=1))
        boxes = [(first, last, low, low + _THICK) for first, last in runs]
    else:
        rises = low + _THICK * np.cumsum(shares, axis=1)
        at, of_run = np.nonzero(shares)
        boxes = [
            (i, i + 1, rises[i, c] - _THICK * shares[i, c], rises[i, c])
            for i, c in zip(at.tolist(), of_run.tolist(), strict=True)
        ]
    corners = np.array([_corners(*box) for box in boxes]) - [0.5, 0]
    room = frame.length / brackets.num_ends
    # White lines between colors tell clusters apart without colors, too.
    apart = len(boxes) * 6 < frame.length
    strip = PolyCollection(
        list(frame.turned(corners)),
        facecolors=colors[of_run],
        edgecolors="white" if apart else "none",
        linewidths=0.8 if apart else 0,
        antialiased=apart,
        transform=frame.beside(),
        clip_on=False,
    )
    strip.set_gid("strip")
    frame.ax.add_collection(strip, autolim=False)
    for (first, last, *_), code in zip(boxes, of_run.tolist(), strict=True):
        text = "" if words is None else shortened(words[code])
        if text and width_of([text], _SIZE) < (last - first) * room:
            middle = np.array([(first + last - 1) / 2, low + _THICK / 2])
            x, y = frame.turned(middle).tolist()
            frame.ax.text(
                x,
                y,
                text,
                transform=frame.beside(),
                color=ink_on(colors[code]),
                fontsize=_SIZE,
                ha="center",
                va="center_baseline" if frame.is_upright else "center",
                rotation=0 if frame.is_upright or len(text) == 1 else 270,
                parse_math=False,
            )
    end = np.array([brackets.num_ends - 0.5, low + _THICK / 2])
    frame.ax.annotate(
        head,
        tuple(frame.turned(end)),
        xycoords=frame.beside(),
        xytext=(3, 0) if frame.is_upright else (0, -3),
        textcoords="offset points",
        color=GRAY,
        fontsize=_SIZE,
        ha="left" if frame.is_upright else "center",
        va="center_baseline" if frame.is_upright else "top",
        rotation=0 if frame.is_upright else 90,
        parse_math=False,
        annotation_clip=False,
        gid="head",
    )


def head_of(names: Sequence[Any], class_name: str | None) -> str:
    """What a strip of classes is called; without a legend also how many they are."""
    if len(names) <= _MOST_CLASSES:
        return shortened(class_name or "class", 20)
    if class_name is None:
        return f"{len(names)} classes"
    return f"{len(names)} kinds of {shortened(class_name, 20)}"


def class_patches(names: Sequence[Any], colors: np.ndarray) -> list[Patch]:
    """What a legend of classes shows: a patch each, none of more than 20."""
    if len(names) > _MOST_CLASSES:
        return []
    return [
        Patch(facecolor=color, label=escaped(name))
        for color, name in zip(colors, shortened_all(names), strict=True)
    ]


def legend_width(names: Sequence[Any]) -> float:
    """About how wide the legend of classes is, in points; 0 if there is none."""
    if not 0 < len(names) <= _MOST_CLASSES:
        return 0.0
    return 30 + width_of(shortened_all(names), 8.5)


def add_legend(
    frame: TreeFrame, names: Sequence[Any], colors: np.ndarray, title: str | None
) -> None:
    """Add a legend of classes outside of the tree."""
    patches = class_patches(names, colors)
    if not patches:
        return
    width, height = points_of(frame.ax)
    if frame.is_upright:
        columns = -(-len(patches) * 14 // int(max(height, 14)))
        place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    else:
        columns = int(np.clip(width // legend_width(names), 1, len(patches)))
        place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
    frame.ax.legend(
        handles=patches,
        title=None if title is None else escaped(title),
        ncols=columns,
        frameon=False,
        fontsize=8.5,
        title_fontsize=8.5,
        handlelength=1.0,
        handleheight=0.9,
        alignment="left",
        **place,
    )


def _runs(codes: np.ndarray) -> tuple[list[tuple[int, int]], np.ndarray]:
    """From where to where neighbours share a class, and that class."""
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    ends = np.append(starts[1:], len(codes))
    return list(zip(starts.tolist(), ends.tolist(), strict=True)), codes[starts]


def _corners(first: float, last: float, low: float, high: float) -> Any:
    return [(first, low), (last, low), (last, high), (first, high)]

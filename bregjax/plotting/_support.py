"""Numbers at merges, as many as fit without touching each other or a line."""

import numpy as np
from matplotlib.collections import LineCollection

from bregjax.plotting._brackets import Brackets
from bregjax.plotting._canvas import figure_of
from bregjax.plotting._colors import GRAY
from bregjax.plotting._frame import TreeFrame

__all__ = ["draw_support"]

_SIZE = 6.5
# Merges that are tried, from the highest down, and points around a number.
_MOST_TRIED, _MARGIN = 300, 1.5


def draw_support(
    frame: TreeFrame, brackets: Brackets, support: np.ndarray, least: float
) -> None:
    """Write the support of merges beside their stems, the highest merges first.

    Args:
        frame: Where the tree is.
        brackets: Its lines.
        support: Of the merges that are drawn, `[n − 1]`, in [0, 1].
        least: Smaller numbers are not written.
    """
    figure = figure_of(frame.ax)
    engine = figure.get_layout_engine()
    if engine is not None:  # sizes in points are known once the axes are in place
        engine.execute(figure)
    low, high = _lines(frame, brackets)
    edges = frame.ax.get_window_extent().get_points() * 72 / figure.dpi
    frame.ax.set_title(
        "%: share of resampled trees", loc="right", fontsize=7.5, color=GRAY
    )
    n = brackets.num_ends
    at = np.stack([brackets.position[n:], brackets.level[n:]], axis=1)
    places = _in_points(frame, frame.turned(at))
    for merge in np.argsort(-brackets.level[n:], kind="stable")[:_MOST_TRIED]:
        # The root of the whole tree has all leaves in any tree.
        if merge == n - 2 or not support[merge] >= least:
            continue
        words = f"{support[merge]:.0%}"
        size = _SIZE * np.array([0.65 * len(words) + 0.35, 0.75])
        for offset in _offsets(frame, size):
            box = places[merge] + [offset, offset + size]
            apart = (high < box[0] - 0.7) | (low > box[1] + 0.7)
            inside = np.all((box > edges[0] + 1) & (box < edges[1] - 1))
            if inside and apart.any(axis=1).all():
                break
        else:
            continue
        low = np.concatenate([low, box[:1] - 1])
        high = np.concatenate([high, box[1:] + 1])
        frame.ax.annotate(
            words,
            tuple(frame.turned(at[merge])),
            xytext=(offset[0] + size[0] / 2, offset[1]),
            textcoords="offset points",
            fontsize=_SIZE,
            ha="center",
            va="baseline",
            gid="support",
        )


def _offsets(frame: TreeFrame, size: np.ndarray) -> list[np.ndarray]:
    """Where the lower left corner of a number may be, from its merge, in points."""
    near, wide, tall = _MARGIN, -_MARGIN - size[0], -_MARGIN - size[1]
    corners = {
        "top": [(near, near), (wide, near)],
        "bottom": [(near, tall), (wide, tall)],
        "left": [(wide, near), (wide, tall)],
        "right": [(near, near), (near, tall)],
    }
    return [np.array(corner) for corner in corners[frame.root]]


def _lines(frame: TreeFrame, brackets: Brackets) -> tuple[np.ndarray, np.ndarray]:
    """The lower left and upper right corners of all lines, `[l, 2]`, in points."""
    corners = brackets.corners()
    _, triangles = brackets.triangles()
    parts = [corners[:, k : k + 2] for k in range(3)]
    segments = np.concatenate([*parts, triangles[:, :2], triangles[:, 1:]])
    cuts = [
        line
        for lines in frame.ax.collections
        if isinstance(lines, LineCollection) and lines.get_gid() == "cut"
        for line in np.array(lines.get_segments())
    ]
    ends = np.concatenate([frame.turned(segments), np.reshape(cuts, (-1, 2, 2))])
    found = _in_points(frame, ends)
    return found.min(axis=1), found.max(axis=1)


def _in_points(frame: TreeFrame, points: np.ndarray) -> np.ndarray:
    """Points `[..., 2]` of the axes in points of the picture, from its corner."""
    pixels = frame.ax.transData.transform(points.reshape(-1, 2))
    return (pixels * 72 / figure_of(frame.ax).dpi).reshape(points.shape)

"""Pictures of trees; needs matplotlib (extra `plot`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from bregjax._typing import ArrayLike
from bregjax.hierarchy.dendrogram import Dendrogram, Heights

__all__ = ["plot_dendrogram"]


def plot_dendrogram(
    tree: Dendrogram,
    ax: Axes,
    *,
    heights: Heights = "monotone",
    labels: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    colors: Any = "tab10",
    log_scale: bool = False,
) -> None:
    """Draw a dendrogram, leaves along the bottom, on a matplotlib axis.

    Draws by arrays, without recursion: a chain of any depth is fine.

    Args:
        tree: The tree.
        ax: Where to draw.
        heights: Which heights to show; "monotone" so that lines do not cross where
            merge costs invert.
        labels: A class a leaf, `[m]`, shown as a coloured strip under the leaves.
        names: Names of the leaves, shown where there are at most 60.
        colors: Name of the matplotlib colour map of the strip.
        log_scale: A logarithmic axis of heights; heights of 0 are drawn at the least
            positive one.

    Raises:
        ValueError: If `labels` or `names` have another length than there are leaves.
    """
    m = tree.num_leaves
    for argument, value in (("labels", labels), ("names", names)):
        if value is not None and len(np.asarray(value)) != m:
            raise ValueError(
                f"`{argument}` must have one entry for each of the {m} leaves; got "
                f"{len(np.asarray(value))}."
            )
    order = np.asarray(tree.leaf_order())
    position = np.zeros(2 * m - 1)
    position[order] = np.arange(m)
    level = np.zeros(2 * m - 1)
    tops = np.asarray(tree.linkage(heights=heights))[:, 2]
    if log_scale and np.any(tops > 0):
        least = tops[tops > 0].min()
        tops = np.maximum(tops, least)
        level[:m] = least
        ax.set_yscale("log")
    level[m:] = tops
    children = np.asarray(tree.children)
    for node, pair in enumerate(children, start=m):
        position[node] = position[pair].mean()
    left, right = children.T
    top = level[m:]
    corners = np.stack(
        [
            np.stack([position[left], level[left]], axis=-1),
            np.stack([position[left], top], axis=-1),
            np.stack([position[right], top], axis=-1),
            np.stack([position[right], level[right]], axis=-1),
        ],
        axis=1,
    )
    ax.add_collection(LineCollection(list(corners), colors="0.25", linewidths=0.7))
    ax.set_xlim(-0.5, m - 0.5)
    if not log_scale:
        ax.set_ylim(0, 1.05 * max(top.max(initial=0), np.finfo(float).tiny))
    else:
        ax.autoscale(axis="y")
    ax.set_ylabel("merge cost (nats)" if heights != "ward" else "Ward height")
    ax.set_xticks([])
    if names is not None and m <= 60:
        ax.set_xticks(np.arange(m), [names[i] for i in order], rotation=90)
    if labels is not None:
        _, codes = np.unique(np.asarray(labels), return_inverse=True)
        strip = ax.inset_axes((0, -0.06, 1, 0.04))
        strip.imshow(
            codes[order][None, :], aspect="auto", cmap=colors, interpolation="nearest"
        )
        strip.set_axis_off()

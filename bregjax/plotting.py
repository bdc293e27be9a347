"""Pictures of trees; needs matplotlib (extra `plot`)."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bregjax._typing import ArrayLike
from bregjax.hierarchy.dendrogram import Dendrogram, Heights

__all__ = ["plot_dendrogram", "save_dendrogram"]

_MOST_NAMES = 60
_MOST_CLASSES = 20
_BRANCH_COLOR = "0.35"


def plot_dendrogram(
    tree: Dendrogram,
    ax: Axes,
    *,
    heights: Heights = "monotone",
    labels: Sequence[object] | ArrayLike | None = None,
    names: Sequence[str] | None = None,
    clusters: ArrayLike | None = None,
    colors: str = "tab10",
    cluster_colors: str = "Dark2",
    log_scale: bool = False,
) -> list[Patch]:
    """Draw a dendrogram, leaves along the bottom, on a matplotlib axis.

    Draws by arrays, without recursion: a chain of any depth is fine.

    Args:
        tree: The tree.
        ax: Where to draw.
        heights: Which heights to show; "monotone" so that lines do not cross where
            merge costs invert.
        labels: A class a leaf, `[m]`, shown as a coloured strip under the leaves.
        names: Names of the leaves, shown where there are at most 60.
        clusters: Flat clusters, `[m]`, as `tree.cut` gives them: the branches inside
            each have a colour.
        colors: Name of the matplotlib colour map of the strip.
        cluster_colors: That of the branches; its colours are used in turn.
        log_scale: A logarithmic axis of heights; lower ones than 1e-6 of the greatest
            are drawn at that.

    Returns:
        A patch for each class, in sorted order, for a legend; none without `labels`.

    Raises:
        ValueError: If `labels`, `names` or `clusters` have another length than there
            are leaves.
    """
    m = tree.num_leaves
    _check_length("labels", labels, m)
    _check_length("names", names, m)
    _check_length("clusters", clusters, m)
    order = np.asarray(tree.leaf_order())
    tops = np.asarray(tree.heights(heights), dtype=np.float64)
    bottom, greatest = 0.0, tops.max(initial=0)
    if log_scale and greatest > 0:
        floor = max(tops[tops > 0].min(), 1e-6 * greatest)
        tops, bottom = np.maximum(tops, floor), 0.7 * floor
        ax.set_yscale("log")
        ax.set_ylim(bottom, 1.3 * greatest)
    else:
        ax.set_ylim(bottom, 1.03 * greatest or 1)
    corners = _corners(tree, order, tops, bottom)
    branch_colors = _branch_colors(tree, clusters, cluster_colors)
    ax.add_collection(
        LineCollection(list(corners), colors=branch_colors, linewidths=0.8)
    )
    ax.set_xlim(-0.5, m - 0.5)
    ax.set_xticks([])
    ax.set_ylabel(_HEIGHT_NAMES[heights])
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    base, patches = ax, []
    if labels is not None:
        base, patches = _draw_strip(ax, list(np.asarray(labels)[order]), colors)
    if names is not None and m <= _MOST_NAMES:
        base.set_xticks(np.arange(m), [str(names[i]) for i in order], rotation=90)
        base.tick_params(axis="x", length=0, labelsize="small")
    return patches


def save_dendrogram(
    tree: Dendrogram,
    path: str | os.PathLike[str],
    *,
    labels: Sequence[object] | ArrayLike | None = None,
    label_name: str = "label",
    names: Sequence[str] | None = None,
    clusters: ArrayLike | None = None,
    heights: Heights = "monotone",
    log_scale: bool = False,
) -> None:
    """Draw a dendrogram into a file, with a legend of at most 20 classes.

    Needs no display and leaves pyplot and its backend alone.

    Args:
        tree: The tree.
        path: The file; its ending says the format: .png, .pdf, .svg.
        labels: As for `plot_dendrogram`.
        label_name: What the classes are called, the title of the legend.
        names: As for `plot_dendrogram`.
        clusters: As for `plot_dendrogram`.
        heights: As for `plot_dendrogram`.
        log_scale: As for `plot_dendrogram`.

    Raises:
        ValueError: As `plot_dendrogram`, or if matplotlib knows no such format.
    """
    figure = Figure(figsize=(11, 5.5), layout="constrained")
    patches = plot_dendrogram(
        tree,
        figure.subplots(),
        heights=heights,
        labels=labels,
        names=names,
        clusters=clusters,
        log_scale=log_scale,
    )
    if 0 < len(patches) <= _MOST_CLASSES:
        figure.legend(
            handles=patches,
            title=label_name,
            loc="outside lower center",
            ncols=min(len(patches), 3 if _longest(patches) > 20 else 8),
            frameon=False,
        )
    figure.savefig(path, dpi=150)


_HEIGHT_NAMES: dict[Heights, str] = {
    "cost": "merge cost (nats)",
    "monotone": "merge cost (nats)",
    "ward": "Ward height",
    "merge_index": "merge",
}


def _corners(
    tree: Dendrogram, order: np.ndarray, tops: np.ndarray, bottom: float
) -> np.ndarray:
    """The four corners of each merge's bracket, `[m − 1, 4, 2]`."""
    m = tree.num_leaves
    children = np.asarray(tree.children)
    level = np.concatenate([np.full(m, bottom), tops])
    position = np.empty(2 * m - 1)
    position[order] = np.arange(m)
    for node, (left, right) in enumerate(children.tolist(), start=m):
        position[node] = (position[left] + position[right]) / 2
    left, right = children.T
    x = position[np.stack([left, left, right, right], axis=1)]
    y = np.stack([level[left], tops, tops, level[right]], axis=1)
    return np.stack([x, y], axis=-1)


def _branch_colors(tree: Dendrogram, clusters: ArrayLike | None, name: str) -> Any:
    """A colour for each merge: its cluster's, or grey above all clusters."""
    if clusters is None:
        return _BRANCH_COLOR
    palette = colormaps[name]
    # A merge belongs to a cluster where both its children do.
    of_node = np.asarray(clusters).tolist()
    for left, right in np.asarray(tree.children).tolist():
        same = of_node[left] == of_node[right]
        of_node.append(of_node[left] if same else None)
    merges = of_node[tree.num_leaves :]
    rank = {cluster: i for i, cluster in enumerate(dict.fromkeys(merges))}
    return [
        _BRANCH_COLOR if c is None else palette(rank[c] % palette.N) for c in merges
    ]


def _draw_strip(
    ax: Axes, labels: list[object], colors: str
) -> tuple[Axes, list[Patch]]:
    """A strip of class colours under the leaves, and a patch for each class."""
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    palette = _spread(colors, len(classes))
    strip = ax.inset_axes((0, -0.06, 1, 0.045))
    strip.imshow(
        palette[codes][None],
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, len(labels) - 0.5, 0, 1),
    )
    strip.set_xticks([])
    strip.set_yticks([])
    strip.spines[:].set_visible(False)
    patches = [
        Patch(color=tuple(color), label=str(name))
        for color, name in zip(palette, classes, strict=True)
    ]
    return strip, patches


def _spread(name: str, count: int) -> np.ndarray:
    """`count` colours `[count, 4]`: the first of a list, or spread over a scale."""
    palette = colormaps[name]
    if palette.N <= 20 and count <= palette.N:
        return np.array([palette(i) for i in range(count)])
    wide = palette if palette.N > 20 else colormaps["turbo"]
    return np.array([wide(t) for t in np.linspace(0, 1, count)])


def _longest(patches: list[Patch]) -> int:
    return max(len(str(patch.get_label())) for patch in patches)


def _check_length(argument: str, value: Any, num_leaves: int) -> None:
    if value is not None and len(np.asarray(value)) != num_leaves:
        raise ValueError(
            f"`{argument}` must have one entry for each of the {num_leaves} leaves; "
            f"got {len(np.asarray(value))}."
        )

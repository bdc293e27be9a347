"""Pictures of trees and comparisons; needs matplotlib (extra `plot`)."""

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps, pyplot
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bregjax._comparisons import Comparison, Explanation
from bregjax._typing import ArrayLike
from bregjax.hierarchy import Dendrogram
from bregjax.hierarchy._dendrogram import Heights

__all__ = ["plot_comparison", "plot_dendrogram", "save_dendrogram"]


def __dir__() -> list[str]:
    return __all__


_MOST_NAMES = 60
_MOST_CLASSES = 20
_MOST_LETTERS = 40
_BRANCH_COLOR = "0.35"
# Inches of a saved figure: its size, and what a letter, the patch with its gaps, and a
# line of the legend take.
_WIDTH, _HEIGHT = 11.0, 5.5
_LETTER, _PATCH, _LINE = 0.085, 0.55, 0.2


def plot_dendrogram(
    tree: Dendrogram,
    ax: Axes | None = None,
    *,
    heights: Heights = "monotone",
    classes: Sequence[object] | ArrayLike | None = None,
    names: Sequence[str] | None = None,
    labels: ArrayLike | None = None,
    class_colors: str = "tab10",
    cluster_colors: str = "Dark2",
    log_scale: bool = False,
) -> list[Patch]:
    """Draw a dendrogram, leaves along the bottom, on a matplotlib axis.

    Draws by arrays, without recursion: a chain of any depth is fine.

    Args:
        tree: The tree.
        ax: Where to draw; pyplot's current axes if None.
        heights: Which heights to show; "monotone" so that lines do not cross where
            merge costs invert.
        classes: The known class of each leaf, `[m]`, shown as a colored strip under
            the leaves.
        names: Names of the leaves, shown where there are at most 60, as they are: a
            dollar sign is no formula. Of more than 40 letters the middle is left out.
        labels: Flat clusters, `[m]`, as `tree.cut` gives them: the branches inside
            each have a color of their own.
        class_colors: Name of the matplotlib color map of the strip.
        cluster_colors: Name of the color map of the branches. If it has too few colors,
            "turbo" is spread over the clusters, neighbours far apart.
        log_scale: A logarithmic axis of heights; lower ones than 1e-6 of the greatest
            are drawn at that.

    Returns:
        A patch for each class, in sorted order, for a legend; none without `classes`.

    Raises:
        ValueError: If `classes`, `names` or `labels` have another length than there
            are leaves.

    Examples:
        >>> tree = Dendrogram.from_linkage([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
        >>> ax = Figure().subplots()
        >>> patches = plot_dendrogram(tree, ax, classes=["oak", "oak", "elm"])
        >>> [patch.get_label() for patch in patches]
        ['elm', 'oak']
    """
    ax = pyplot.gca() if ax is None else ax
    m = tree.num_leaves
    _check_length("classes", classes, m)
    _check_length("names", names, m)
    _check_length("labels", labels, m)
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
    branch_colors = _branch_colors(tree, labels, cluster_colors)
    ax.add_collection(
        LineCollection(list(corners), colors=branch_colors, linewidths=0.8)
    )
    ax.set_xlim(-0.5, m - 0.5)
    ax.set_xticks([])
    ax.set_ylabel(_HEIGHT_NAMES[heights])
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    base, patches = ax, []
    if classes is not None:
        base, patches = _draw_strip(ax, list(np.asarray(classes)[order]), class_colors)
    if names is not None and m <= _MOST_NAMES:
        shown = [_shown(names[i]) for i in order]
        base.set_xticks(np.arange(m), shown, rotation=90, parse_math=False)
        base.tick_params(axis="x", length=0, labelsize="small")
    return patches


def plot_comparison(
    comparison: Comparison | Explanation, ax: Axes | None = None, *, most: int = 12
) -> BarContainer:
    """Draw what sets two sets of rows apart: a bar for each column, in nats.

    Beside each bar stands what the column is on both sides.

    Args:
        comparison: As of `compare_rows`, one of `explain_clusters`, or what `explain`
            gives, of which the merge is drawn.
        ax: Where to draw; pyplot's current axes if None.
        most: How many columns are shown, those of the largest costs.

    Returns:
        The bars, the largest on top.

    Raises:
        TypeError: If `comparison` is no comparison, such as a list of them.

    Examples:
        >>> import bregjax as bj
        >>> table = {"visits": [2, 3, 9, 8], "smokes": [0, 1, 1, 1]}
        >>> problem = bj.Problem(table, family="auto")
        >>> ax = Figure().subplots()
        >>> bars = plot_comparison(bj.compare_rows(problem, [0, 1], [2, 3]), ax)
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['visits', 'smokes']
    """
    if isinstance(comparison, Explanation):
        comparison = comparison.merge or comparison.against_rest  # pyright: ignore
    if not isinstance(comparison, Comparison):
        raise TypeError(
            "`comparison` must be one comparison; got "
            f"{type(comparison).__name__}. Take explain(…).merge, or one of the list "
            "of explain_clusters(…)."
        )
    ax = pyplot.gca() if ax is None else ax
    shown = comparison.columns[:most]
    costs = [column.cost for column in shown]
    places = np.arange(len(shown))
    bars = ax.barh(places, costs, color=_BRANCH_COLOR, height=0.7)
    names = [_shown(column.name) for column in shown]
    ax.set_yticks(places, names, parse_math=False)
    ax.invert_yaxis()
    words = [
        "  vs  ".join(_shown(", ".join(map(str, side))) for side in sides)
        for sides in ((column.first, column.second) for column in shown)
    ]
    ax.bar_label(bars, words, padding=4, fontsize="small", parse_math=False)
    ax.set_xlim(0, 1.6 * max(costs, default=1) or 1)
    ax.set_xlabel("nats lost if both are one cluster")
    ax.set_title(" vs ".join(comparison.names), fontsize="medium", parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    return bars


def save_dendrogram(
    tree: Dendrogram,
    path: str | os.PathLike[str],
    *,
    classes: Sequence[object] | ArrayLike | None = None,
    class_name: str = "class",
    names: Sequence[str] | None = None,
    labels: ArrayLike | None = None,
    heights: Heights = "monotone",
    log_scale: bool = False,
) -> None:
    """Draw a dendrogram into a file, with a legend of at most 20 classes.

    Needs no display, and leaves pyplot's figures alone.

    Args:
        tree: The tree.
        path: The file; its ending says the format: .png, .pdf, .svg.
        classes: As for `plot_dendrogram`.
        class_name: What the classes are called, the title of the legend.
        names: As for `plot_dendrogram`.
        labels: As for `plot_dendrogram`.
        heights: As for `plot_dendrogram`.
        log_scale: As for `plot_dendrogram`.

    Raises:
        ValueError: As `plot_dendrogram`, or if matplotlib knows no such format.

    Examples:
        >>> import tempfile
        >>> tree = Dendrogram.from_linkage([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_dendrogram(tree, f"{folder}/tree.svg", names=["a", "b", "c"])
    """
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    patches = plot_dendrogram(
        tree,
        figure.subplots(),
        heights=heights,
        classes=classes,
        names=names,
        labels=labels,
        log_scale=log_scale,
    )
    if 0 < len(patches) <= _MOST_CLASSES:
        width = _PATCH + _LETTER * max(len(str(p.get_label())) for p in patches)
        columns = min(len(patches), max(1, int(_WIDTH / width)))
        lines = -(-len(patches) // columns)
        figure.set_size_inches(_WIDTH, _HEIGHT + _LINE * (lines - 1))
        figure.legend(
            handles=patches,
            title=_escaped(class_name),
            loc="outside lower center",
            ncols=columns,
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
    position = np.empty(m + len(children))
    position[order] = np.arange(m)
    for node, (left, right) in enumerate(children.tolist(), start=m):
        position[node] = (position[left] + position[right]) / 2
    left, right = children.T
    x = position[np.stack([left, left, right, right], axis=1)]
    y = np.stack([level[left], tops, tops, level[right]], axis=1)
    return np.stack([x, y], axis=-1)


def _branch_colors(tree: Dendrogram, labels: ArrayLike | None, name: str) -> Any:
    """A color for each merge: its cluster's, or gray above all clusters."""
    if labels is None:
        return _BRANCH_COLOR
    # A merge belongs to a cluster where both its children do.
    of_node = np.asarray(labels).tolist()
    for left, right in np.asarray(tree.children).tolist():
        same = of_node[left] == of_node[right]
        of_node.append(of_node[left] if same else None)
    merges = of_node[tree.num_leaves :]
    found = [cluster for cluster in dict.fromkeys(merges) if cluster is not None]
    palette = _spread(name, len(found))
    if len(found) > colormaps[name].N:
        palette = palette[_strides(len(found))]
    color_of: dict[Any, Any] = dict(zip(found, palette, strict=True))
    return [color_of.get(cluster, _BRANCH_COLOR) for cluster in merges]


def _strides(count: int) -> np.ndarray:
    """The numbers 0 to count − 1, in an order that puts near numbers far apart.

    Steps of about 0.382 of `count`, the golden section: for 8, the order is 0, 3, 6,
    1, 4, 7, 2, 5.
    """
    step = next(s for s in range(round(0.382 * count), count + 2) if _coprime(s, count))
    return np.arange(count) * step % count


def _coprime(a: int, b: int) -> bool:
    return math.gcd(a, b) == 1


def _draw_strip(
    ax: Axes, class_of_leaf: list[object], colors: str
) -> tuple[Axes, list[Patch]]:
    """A strip of class colors under the leaves, and a patch for each class."""
    try:
        classes, codes = np.unique(np.asarray(class_of_leaf), return_inverse=True)
    except TypeError:  # classes that have no order, such as None beside names
        names = [str(name) for name in class_of_leaf]
        classes, codes = np.unique(names, return_inverse=True)
    palette = _spread(colors, len(classes))
    strip = ax.inset_axes((0, -0.06, 1, 0.045))
    strip.imshow(
        palette[codes][None],
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, len(class_of_leaf) - 0.5, 0, 1),
    )
    strip.set_xticks([])
    strip.set_yticks([])
    strip.spines[:].set_visible(False)
    patches = [
        Patch(color=tuple(color), label=_escaped(name))
        for color, name in zip(palette, classes, strict=True)
    ]
    return strip, patches


def _spread(name: str, count: int) -> np.ndarray:
    """`count` colors `[count, 4]`: the first of a list, or spread over a scale."""
    palette = colormaps[name]
    if palette.N <= 20 and count <= palette.N:
        return np.array([palette(i) for i in range(count)])
    wide = palette if palette.N > 20 else colormaps["turbo"]
    return np.array([wide(t) for t in np.linspace(0, 1, count)])


def _shown(name: object) -> str:
    """A name on one line, shortened to fit a picture."""
    line = " ".join(str(name).splitlines())
    if len(line) <= _MOST_LETTERS:
        return line
    end = _MOST_LETTERS // 3
    return line[: _MOST_LETTERS - 1 - end] + "…" + line[-end:]


def _escaped(name: object) -> str:
    """A name for legends, where matplotlib reads $…$ as formulas and skips "_…"."""
    text = _shown(name).replace("$", r"\$")
    return "\u200b" + text if text.startswith("_") else text


def _check_length(argument: str, value: Any, num_leaves: int) -> None:
    if value is not None and len(np.asarray(value)) != num_leaves:
        raise ValueError(
            f"`{argument}` must have one entry for each of the {num_leaves} leaves; "
            f"got {len(np.asarray(value))}."
        )

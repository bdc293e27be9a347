"""Gaussian clusters as ellipses over two columns of their rows."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from bregjax._problem import Problem
from bregjax._typing import DataLike
from bregjax.families import (
    DiagonalGaussian,
    Gaussian,
    IsotropicGaussian,
    SphericalGaussian,
)
from bregjax.partition import HardClustering, SoftClustering
from bregjax.partition._labelled import clusters_of_labels
from bregjax.partition._points import checked_on_host
from bregjax.plotting._arguments import distinct, entries, is_no_cluster
from bregjax.plotting._canvas import axes_or_new, bare
from bregjax.plotting._colors import Colors, colors_of_clusters, strokes_of
from bregjax.plotting._text import escaped, shortened, shortened_all
from bregjax.plotting._ticks import STEPS
from bregjax.smoothing._maps import Blur

__all__ = ["plot_ellipses"]

_GAUSSIANS = (Gaussian, DiagonalGaussian, IsotropicGaussian, SphericalGaussian)
_MARKS = "os^DvPXd<>p*"
_STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1, 2)))
_MOST_LEGEND, _MOST_UNNUMBERED, _MOST_LETTERS = 20, 8, 4
_SIZE = 8.5
_TURN = np.linspace(0, 2 * np.pi, 101)[:-1]


def plot_ellipses(
    clusters: Problem | SoftClustering | HardClustering,
    labels: DataLike | None = None,
    ax: Axes | None = None,
    *,
    columns: tuple[Hashable, Hashable] | None = None,
    coverage: Sequence[float] = (0.5, 0.9),
    equal_scales: bool = False,
    cluster_colors: Colors = None,
) -> Axes:
    """Draw rows in two columns, and the Gaussian of each cluster as ellipses.

    An ellipse of coverage 0.9 holds 90 % of its Gaussian in these two columns. The
    Gaussians are those of the family, less the blur that each row has, which would
    cover small clusters; of other smoothing the legend says that it is part of them.
    Each cluster has a color and a mark of its own, and where there are more than
    eight its number at its mean, if it is short; of a mixture a row has those of its
    likeliest cluster. Rows of label −1 are gray, without ellipses.

    Args:
        clusters: A mixture of `soft_clustering`, what `hard_clustering` gives, or a
            problem, with the labels of its rows.
        labels: The cluster of each row of a problem, `[m]`, as `tree.cut` gives them.
        ax: Where to draw; a new figure if None.
        columns: Names of two columns (or numbers, where there are no names); the first
            two if None.
        coverage: What share of each Gaussian ellipses hold, at most four numbers
            between 0 and 1.
        equal_scales: Whether a unit is as long upwards as along.
        cluster_colors: As for `plot_dendrogram`.

    Returns:
        The axes, with a legend of the clusters, if they are at most 20.

    Raises:
        TypeError: If the family is none of the Gaussians, or `labels` is a clustering.
        ValueError: If there are no two such columns, a coverage is out of range, or
            labels are missing, too many or do not fit.

    Examples:
        >>> import bregjax as bj
        >>> problem = bj.Problem([[0, 1], [1, 0], [7, 9], [9, 8]], family="gaussian")
        >>> labels = bj.agglomerate(problem).cut(num_clusters=2)
        >>> plot_ellipses(problem, labels).get_legend().get_texts()[-1].get_text()
        '90% of its Gaussian'
    """
    problem, numbers, codes, states = _clusters_of(clusters, labels)
    smoothed = "" if _blur(problem) is not None else ", smoothing included"
    places, levels = _places(problem, columns), _levels(coverage)
    colors = strokes_of(colors_of_clusters(cluster_colors, numbers), cluster_colors)
    ax = axes_or_new(ax, (5.2, 4.2))
    rows = np.asarray(problem.x)[:, places]
    handles = _draw_rows(ax, rows, numbers, codes, colors)
    inside = [not is_no_cluster(number) for number in numbers]
    means, covariances = (part[inside] for part in _moments(problem, states, places))
    gaussians = list(zip(means, covariances, strict=True))
    for style, level in zip(_STYLES, levels, strict=False):
        radius = float(np.sqrt(-2 * np.log1p(-level)))
        outlines = PolyCollection(
            [_ellipse(mean, covariance, radius) for mean, covariance in gaussians],
            facecolors="none",
            edgecolors=colors[inside],
            linewidths=1.4,
            linestyles=[style],
            gid="ellipses",
        )
        ax.add_collection(outlines, autolim=False)
        line: dict[str, Any] = {"color": "black", "linewidth": 1.2, "linestyle": style}
        words = f"{100 * level:.4g}% of its Gaussian{smoothed}"
        handles.append(Line2D([], [], label=words, **line))
    words = [str(number) for number in numbers if not is_no_cluster(number)]
    if len(numbers) > _MOST_UNNUMBERED and max(map(len, words)) <= _MOST_LETTERS:
        _write_numbers(ax, words, means)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(6, steps=STEPS))
    ax.margins(0.08)
    ax.autoscale_view()
    for set_label, place in ((ax.set_xlabel, places[0]), (ax.set_ylabel, places[1])):
        name = problem.columns[place]
        words = f"column {name}" if isinstance(name, int) else shortened(name)
        set_label(words, parse_math=False)
    if equal_scales:
        ax.set_aspect("equal", adjustable="box")
    few = len(numbers) <= _MOST_LEGEND
    ax.legend(
        handles=handles if few else handles[len(numbers) :],
        title="cluster (rows)" if few else f"{len(numbers)} clusters",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        fontsize=_SIZE,
        title_fontsize=_SIZE,
        alignment="left",
    )
    bare(ax, ["left", "bottom"])
    return ax


def _clusters_of(
    clusters: Any, labels: DataLike | None
) -> tuple[Problem, list[Any], np.ndarray, Any]:
    """The problem, names of its clusters, the cluster of each row, and states."""
    fitted = isinstance(clusters, SoftClustering | HardClustering)
    problem = clusters.problem if fitted else clusters
    if not isinstance(problem, Problem):
        raise TypeError(
            "`clusters` must be a mixture, or a problem with labels; got "
            f"{type(clusters).__name__}. Pass problem, labels."
        )
    if isinstance(labels, SoftClustering | HardClustering):
        raise TypeError(
            "`labels` must be the cluster of each row; got a "
            f"{type(labels).__name__}, which has its problem and its labels with it. "
            "Pass it alone, plot_ellipses(soft)."
        )
    if fitted == (labels is not None):
        raise ValueError(
            "`labels` must be given with a problem, and not with a clustering, which "
            f"has its own; got {'both' if fitted else 'none'}."
        )
    if not isinstance(problem.family, _GAUSSIANS):
        raise TypeError(
            "`clusters` must be of a Gaussian family (gaussian, diagonal_gaussian, "
            "isotropic_gaussian or ward) to have ellipses; got "
            f"{type(problem.family).__name__}. plot_profiles draws clusters of any."
        )
    if fitted:
        numbers = list(range(clusters.num_clusters))
        return problem, numbers, np.asarray(clusters.labels), clusters.states
    found, codes = distinct(entries("labels", labels, problem.num_points, "rows"))
    known = checked_on_host("plot_ellipses", problem)
    return problem, found, codes, clusters_of_labels(known, codes, len(found)).states


def _draw_rows(
    ax: Axes,
    rows: np.ndarray,
    numbers: list[Any],
    codes: np.ndarray,
    colors: np.ndarray,
) -> list[Line2D]:
    """Draw rows in the colors and with the marks of their clusters; a sign for each."""
    size, signs = float(np.clip(70 / np.sqrt(len(rows)), 1.8, 5.5)), []
    for code, name in enumerate(shortened_all(numbers, 20)):
        style: dict[str, Any] = {
            "marker": _MARKS[code % len(_MARKS)],
            "linestyle": "",
            "color": colors[code],
            "markersize": size,
            "markeredgewidth": 0,
        }
        x, y = rows[codes == code].T
        ax.plot(x, y, alpha=0.65, **style)
        words = escaped(f"{name} ({len(x):,})")
        style["markersize"] = 5
        signs.append(Line2D([], [], label=words, **style))
    return signs


def _write_numbers(ax: Axes, words: list[str], means: np.ndarray) -> None:
    """Write what clusters are called at their means, with a white halo."""
    halo = [withStroke(linewidth=2.5, foreground="white")]
    for text, (x, y) in zip(words, means.tolist(), strict=True):
        ax.text(
            x,
            y,
            text,
            fontsize=_SIZE,
            ha="center",
            va="center",
            path_effects=halo,
            parse_math=False,
            clip_on=True,
            gid="number",
        )


def _places(problem: Problem, columns: tuple[Hashable, Hashable] | None) -> list[int]:
    """Where two columns are in the rows of a problem."""
    names = list(problem.columns)
    chosen = names[:2] if columns is None else list(columns)
    unknown = [name for name in chosen if name not in names]
    if len(chosen) != 2 or chosen[0] == chosen[1] or unknown:
        raise ValueError(
            f"`columns` must name two of the columns; got {chosen!r}. There are "
            f"{names[:20]}."
        )
    return [names.index(name) for name in chosen]


def _levels(coverage: Sequence[float]) -> list[float]:
    levels = [float(level) for level in np.atleast_1d(np.asarray(coverage))]
    if not 0 < len(levels) <= len(_STYLES) or not all(0 < p < 1 for p in levels):
        raise ValueError(
            f"`coverage` must be one to {len(_STYLES)} shares between 0 and 1; got "
            f"{levels}."
        )
    return levels


def _moments(
    problem: Problem, states: Any, places: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Means `[k, 2]` and covariances `[k, 2, 2]` in two columns, blur taken away."""
    family, blur = problem.family, _blur(problem)
    if isinstance(family, SphericalGaussian):
        means = np.asarray(states.mean)[:, places]
        return means, np.tile(
            np.eye(2) * float(np.asarray(family.variance)), (len(means), 1, 1)
        )
    moments = states.moments
    means = np.asarray(moments.mean)[:, places]
    covariance = np.asarray(moments.covariance, np.float64)
    blur = np.zeros((problem.x.shape[1],) * 2) if blur is None else blur
    if moments.form == "full":
        return means, (covariance - blur)[:, places][:, :, places]
    if moments.form == "diagonal":
        alone = np.maximum(covariance - np.diag(blur), 0)
        return means, alone[:, places][:, :, None] * np.eye(2)
    alone = np.maximum(covariance - np.trace(blur) / len(blur), 0)
    return means, alone[:, None, None] * np.eye(2)


def _blur(problem: Problem) -> np.ndarray | None:
    """The covariance that smoothing gives each row, `[d, d]`; None if it does more."""
    d = problem.x.shape[1]
    if problem.smoothing is None:
        return np.zeros((d, d))
    if not isinstance(problem.smoothing, Blur):
        return None
    width = np.asarray(problem.smoothing.bandwidth, np.float64)
    return width @ width.T if width.ndim == 2 else np.eye(d) * width**2


def _ellipse(mean: np.ndarray, covariance: np.ndarray, radius: float) -> np.ndarray:
    """Points around a mean, at a distance of so many deviations, `[p, 2]`."""
    values, axes = np.linalg.eigh(covariance)
    circle = np.stack([np.cos(_TURN), np.sin(_TURN)], axis=1)
    half = radius * np.sqrt(np.maximum(values, 0))
    return mean + circle * half @ axes.T

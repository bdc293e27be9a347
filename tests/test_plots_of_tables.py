"""Heat maps, cluster profiles and ellipses: numbers that are drawn, and where."""

from typing import Any

import matplotlib
import numpy as np
import pytest
import scipy.sparse
from matplotlib import pyplot
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from scipy.stats import multivariate_normal

import bregjax as bj
from bregjax.plotting import plot_ellipses, plot_heatmap, plot_profiles

matplotlib.use("Agg")

RNG = np.random.default_rng(7)
KIND = np.arange(24) % 3


def mixed():
    table: dict[str, Any] = {
        "height": 2.0 * KIND + RNG.normal(size=24),
        "visits": RNG.poisson(2 + 6 * KIND).astype(float),
        "smokes": (RNG.random(24) < 0.2 + 0.3 * KIND).astype(float),
        "town": RNG.choice(["Bonn", "Kiel"], 24).astype(object),
    }
    table["height"][::5] = np.nan
    return table


TABLE = mixed()
MIXED = bj.Problem(TABLE, family="auto")
TREE = bj.agglomerate(MIXED)
LABELS = TREE.cut(num_clusters=3)


@pytest.fixture(autouse=True)
def _no_figures():
    yield
    pyplot.close("all")


def figure_of(ax) -> Any:
    return ax.get_figure()


# Heat maps


def cells_of(axes) -> Any:
    return np.ma.filled(axes.heatmap.images[0].get_array(), np.nan)


def test_rows_stand_in_the_order_of_their_tree():
    table = np.stack([TABLE["visits"], TABLE["smokes"]], axis=1)
    axes = plot_heatmap(table, TREE, standardize=False)
    assert np.array_equal(cells_of(axes), table[TREE.leaf_order()])
    assert axes.heatmap.get_ylim() == axes.tree.get_ylim() == (23.5, -0.5)
    figure_of(axes.tree).draw_without_rendering()
    boxes = [ax.get_window_extent() for ax in (axes.tree, axes.heatmap)]
    assert boxes[0].y0 == pytest.approx(boxes[1].y0, abs=0.01)
    assert boxes[0].y1 == pytest.approx(boxes[1].y1, abs=0.01)
    assert boxes[0].x1 < boxes[1].x0


def test_columns_of_a_mixed_table_are_standardized_and_categories_named():
    axes = plot_heatmap(MIXED, TREE)
    names = [t.get_text() for t in axes.heatmap.get_xticklabels()]
    assert names == ["height", "visits", "smokes"]
    assert axes.heatmap.get_xlabel() == "not shown: town"
    cells = cells_of(axes)
    assert np.allclose(np.nanmean(cells, axis=0), 0)
    assert np.allclose(np.nanstd(cells, axis=0), 1)
    order = TREE.leaf_order()
    assert np.array_equal(np.isnan(cells[:, 0]), np.isnan(TABLE["height"][order]))
    assert "SD from column mean" in axes.color_bar.get_ylabel()


def test_missing_cells_are_gray_and_in_the_legend():
    axes = plot_heatmap(MIXED, TREE)
    image: Any = axes.heatmap.images[0]
    gray = image.get_cmap().get_bad().tolist()
    assert gray == list(to_rgba("0.55"))
    shown = image.to_rgba(image.get_array())
    missing = np.isnan(cells_of(axes))
    assert missing.any()
    assert np.allclose(shown[missing], gray)
    legend: Any = axes.color_bar.get_legend()
    (text,) = legend.get_texts()
    assert text.get_text() == "missing"
    whole = plot_heatmap(MIXED, TREE, columns=["visits"])
    assert whole.color_bar.get_legend() is None


def test_tables_of_yes_and_no_have_two_patches():
    axes = plot_heatmap(MIXED, TREE, columns=["smokes"])
    legend: Any = axes.color_bar.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["cell 1", "cell 0"]
    image: Any = axes.heatmap.images[0]
    for patch, value in zip(legend.get_patches(), (1.0, 0.0), strict=True):
        assert np.allclose(patch.get_facecolor(), image.to_rgba(value))
    axes = plot_heatmap(0.5 * (TABLE["smokes"][:, None] + 0.2), TREE)
    assert axes.color_bar.get_ylabel() == "cell"


def test_far_cells_have_the_last_color():
    table = RNG.normal(size=(24, 2))
    table[3, 0] = 50
    axes = plot_heatmap(table, TREE)
    norm = axes.heatmap.images[0].norm
    assert (norm.vmin, norm.vmax) == (-3, 3)
    image: Any = axes.heatmap.images[0]
    assert image.colorbar.extend == "max"
    image = plot_heatmap(-table, TREE).heatmap.images[0]
    assert image.colorbar.extend == "min"


def test_a_tree_of_columns_orders_them():
    columns = bj.Dendrogram.from_linkage([[2, 0, 1.0, 2], [3, 1, 2.0, 3]])
    axes = plot_heatmap(MIXED, TREE, column_tree=columns)
    names = [t.get_text() for t in axes.heatmap.get_xticklabels()]
    assert names == ["smokes", "height", "visits"]
    assert axes.column_tree is not None
    figure_of(axes.tree).draw_without_rendering()
    above = axes.column_tree.get_window_extent()
    below = axes.heatmap.get_window_extent()
    assert above.y0 == pytest.approx(below.y1, abs=0.01)
    assert (above.x0, above.x1) == pytest.approx((below.x0, below.x1), abs=0.01)
    assert axes.column_tree.get_ylabel() == "height"
    axes = plot_heatmap(MIXED, TREE, column_tree=columns, scale="linear")
    assert axes.column_tree is not None
    assert axes.column_tree.get_yscale() == axes.tree.get_xscale() == "linear"


@pytest.mark.parametrize("given", [False, True])
def test_nothing_overlaps(given):
    if given:
        figure = Figure(figsize=(9, 5), layout="constrained")
        ax: Any = figure.subplots()
    else:
        ax = None
    axes = plot_heatmap(
        MIXED,
        TREE,
        ax,
        names=[f"a row called {row}" for row in range(24)],
        classes=[f"a class called {kind}" for kind in KIND],
        num_clusters=3,
    )
    drawn = figure_of(axes.tree)
    drawn.draw_without_rendering()
    strips = [c for c in axes.tree.collections if c.get_gid() == "strip"]
    assert len(strips) == 2
    parts = [axes.tree, *strips, axes.heatmap, axes.color_bar]
    boxes = [part.get_window_extent() for part in parts]
    legend: Any = axes.color_bar.get_legend()
    boxes.append(legend.get_window_extent())
    boxes += [t.get_window_extent() for t in axes.heatmap.get_yticklabels()]
    assert len(boxes) == 30
    whole = drawn.bbox
    for place, box in enumerate(boxes):
        assert whole.x0 <= box.x0 + 1
        assert box.x1 <= whole.x1 + 1
        for other in boxes[:place]:
            wide = min(box.x1, other.x1) - max(box.x0, other.x0)
            tall = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert min(wide, tall) < 1


@pytest.mark.slow
def test_many_rows_are_averaged_within_columns():
    table = np.repeat([[0.0, 1.0]], 5000, axis=0)
    tree = bj.Dendrogram.from_linkage(
        [[0, 1, 1, 2]] + [[5000 + k, k + 2, 1, k + 3] for k in range(4998)]
    )
    axes = plot_heatmap(table, tree)
    figure_of(axes.tree).draw_without_rendering()
    cells = cells_of(axes)
    half = cells.shape[1] // 2
    assert (cells[:, :half] == 0).all()
    assert (cells[:, half:] == 1).all()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="`columns` .* 'town', a column of categories"):
        plot_heatmap(MIXED, TREE, columns=["town"])
    with pytest.raises(ValueError, match="`columns` must name .* got 'age'"):
        plot_heatmap(MIXED, TREE, columns=["age"])
    with pytest.raises(ValueError, match="`tree` must have a leaf for each of the 3"):
        plot_heatmap(np.ones((3, 2)), TREE)
    with pytest.raises(ValueError, match="`column_tree` .* 3 columns shown; got 24"):
        plot_heatmap(MIXED, TREE, column_tree=TREE)
    with pytest.raises(ValueError, match="a column of numbers"):
        plot_heatmap({"town": TABLE["town"]}, TREE)
    sparse = bj.Problem(scipy.sparse.eye_array(24, format="csr"), family="poisson")
    with pytest.raises(TypeError, match="dense rows to be drawn"):
        plot_heatmap(sparse, TREE)


# Profiles


def test_profiles_have_means_and_deviations_of_observed_cells():
    panels = plot_profiles(MIXED, LABELS)
    assert [panel.get_title() for panel in panels] == ["height", "visits", "smokes"]
    assert panels[0].get_xlabel() == (
        "dots: means; bars: ± 1 SD; gray lines: means of all rows\nnot shown: town"
    )
    for name, panel in zip(("height", "visits"), panels, strict=False):
        dots = [line for line in panel.lines if line.get_gid() == "mean"]
        bars = [line for line in panel.lines if np.size(line.get_xdata()) == 2][1:]
        for number, (dot, bar) in enumerate(zip(dots, bars, strict=True)):
            cells = TABLE[name][number == LABELS]
            mean, spread = np.nanmean(cells), np.nanstd(cells)
            assert dot.get_xdata() == pytest.approx([mean])
            assert dot.get_ydata() == [number]
            assert bar.get_xdata() == pytest.approx([mean - spread, mean + spread])
    assert len(panels[2].lines) == 1 + 3  # shares have no bars
    sizes = np.bincount(LABELS)
    names = [t.get_text() for t in panels[0].get_yticklabels()]
    assert names == [f"{k} ({size})" for k, size in enumerate(sizes)]


def test_profiles_show_the_columns_that_clusters_differ_in():
    table = RNG.normal(size=(24, 6))
    table[:, 4] += 9 * KIND
    table[:, 1] += 4 * KIND
    panels = plot_profiles(table, KIND, most=2)
    assert [panel.get_title() for panel in panels] == ["1", "4"]
    assert len(plot_profiles(table, KIND, columns=[5, 0])) == 2


def test_profiles_weigh_rows():
    problem = bj.Problem([[0.0], [1.0], [9.0]], family="ward", weights=[1.0, 3.0, 1.0])
    (panel,) = plot_profiles(problem, [0, 0, 1])
    first, second = (line for line in panel.lines if line.get_gid() == "mean")
    assert first.get_xdata() == pytest.approx([0.75])
    assert second.get_xdata() == pytest.approx([9.0])


@pytest.mark.parametrize(("count", "rows"), [(5, [3, 2]), (6, [3, 3]), (9, [3, 3, 3])])
def test_rows_of_panels_are_balanced(count, rows):
    panels = plot_profiles(RNG.normal(size=(24, count)), KIND)
    figure_of(panels[0]).draw_without_rendering()
    _, found = np.unique(
        [round(panel.get_window_extent().y0) for panel in panels], return_counts=True
    )
    assert found[::-1].tolist() == rows


def test_titles_of_panels_fit_and_differ():
    names = [f"a long name of a column, in year {k}, per household" for k in range(7)]
    panels = plot_profiles(dict.fromkeys(names, RNG.normal(size=24)), KIND)
    figure_of(panels[0]).draw_without_rendering()
    assert len({panel.get_title() for panel in panels}) == 7
    for panel in panels:
        assert panel.title.get_window_extent().width < panel.bbox.width + 2


@pytest.mark.parametrize("count", [2, 5, 12])
def test_panels_of_profiles_do_not_overlap(count):
    table = {f"a column of number {j}": RNG.normal(size=24) for j in range(count)}
    panels = plot_profiles(table, KIND)
    assert len(panels) == count
    figure = figure_of(panels[0])
    figure.draw_without_rendering()
    (note,) = [panel.xaxis.label for panel in panels if panel.get_xlabel()]
    boxes: list[Any] = [note.get_window_extent()]
    note.set_visible(False)  # it is as wide as the picture, below all panels
    boxes += [panel.get_tightbbox() for panel in panels]
    for place, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 + 1
        assert box.x1 <= figure.bbox.x1 + 1
        for other in boxes[:place]:
            wide = min(box.x1, other.x1) - max(box.x0, other.x0)
            tall = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert min(wide, tall) < 1


# Ellipses

GAUSSIANS = ["gaussian", "diagonal_gaussian", "isotropic_gaussian", "ward"]
ROWS = RNG.normal(size=(30, 3)) @ [[2, 1, 0], [0, 1, 0], [0, 0, 3]] + [[5, 0, 1]]
HALVES = np.arange(30) % 2


def outlines(ax) -> Any:
    return [
        [path.vertices[:-1] for path in c.get_paths()]
        for c in ax.collections
        if c.get_gid() == "ellipses"
    ]


@pytest.mark.parametrize("bandwidth", [0.5, [0.3, 0.6, 0.9]])
@pytest.mark.parametrize("name", GAUSSIANS)
def test_outlines_are_level_sets_of_the_coverage(name, bandwidth):
    smoothing = None if name == "ward" else bj.blur(bandwidth)
    problem = bj.Problem(ROWS, family=name, smoothing=smoothing)
    ax = plot_ellipses(problem, HALVES, columns=(2, 0), coverage=[0.5, 0.9])
    levels = outlines(ax)
    assert [len(level) for level in levels] == [2, 2]
    for number in (0, 1):
        rows = ROWS[number == HALVES]
        mean = rows.mean(axis=0)
        full = np.cov(rows.T, bias=True)
        covariance = {
            "gaussian": full[np.ix_([2, 0], [2, 0])],
            "diagonal_gaussian": np.diag(np.diag(full)[[2, 0]]),
            "isotropic_gaussian": np.eye(2) * np.trace(full) / 3,
            "ward": np.eye(2),
        }[name]
        draws = multivariate_normal(mean[[2, 0]], covariance)
        for level, share in zip(levels, (0.5, 0.9), strict=True):
            density = draws.logpdf(level[number])
            # A Gaussian in two dimensions holds 1 − exp(−r²/2) within r deviations.
            inside = draws.logpdf(mean[[2, 0]]) + np.log(1 - share)
            assert np.allclose(density, inside)


def test_mixtures_have_ellipses_of_their_states():
    problem = bj.Problem(ROWS, family="diagonal_gaussian")
    found = bj.soft_clustering(problem, init=HALVES, max_steps=3)
    ax = plot_ellipses(found, coverage=[0.9])
    (level,) = outlines(ax)
    assert np.allclose(
        [outline.mean(axis=0) for outline in level],
        np.asarray(found.states.moments.mean)[:, :2],
    )
    marks = [line.get_marker() for line in ax.lines]
    assert len(set(marks)) == 2
    assert ax.get_xlabel() == "column 0"
    hard = bj.hard_clustering(problem, init=HALVES, max_steps=1)
    assert len(outlines(plot_ellipses(hard, ax=Figure().subplots()))) == 2
    for clustering in (found, hard):
        with pytest.raises(TypeError, match=r"alone, plot_ellipses\(soft\)"):
            plot_ellipses(problem, clustering)  # pyright: ignore[reportArgumentType]


def test_rows_fill_the_picture():
    problem = bj.Problem(ROWS, family="gaussian")
    ax = plot_ellipses(problem, HALVES, coverage=[0.999999])
    for limits, column in ((ax.get_xlim(), 0), (ax.get_ylim(), 1)):
        low, high = ROWS[:, column].min(), ROWS[:, column].max()
        assert limits[0] < low
        assert high < limits[1]
        assert limits[1] - limits[0] < 1.2 * (high - low)
    count = sum(np.size(line.get_xdata()) for line in ax.lines)
    assert count == 30


def test_rows_of_no_cluster_have_no_ellipse_and_many_clusters_numbers():
    problem = bj.Problem(ROWS, family="gaussian")
    labels = np.arange(30) % 11 - 1
    ax = plot_ellipses(problem, labels, coverage=[0.5])
    assert len(outlines(ax)[0]) == 10
    texts = [text for text in ax.texts if text.get_gid() == "number"]
    assert [text.get_text() for text in texts] == [str(k) for k in range(10)]
    for number, text in enumerate(texts):
        mean = ROWS[labels == number, :2].mean(axis=0)
        assert text.get_position() == pytest.approx(mean, rel=1e-5)


def test_legends_say_what_smoothing_is_part_of_ellipses():
    smoothing = bj.pseudo_count(bj.Problem(ROWS, family="gaussian").x.mean(0), 1.0)
    for given, words in ((None, "50% of its Gaussian"), (smoothing, "included")):
        problem = bj.Problem(ROWS, family="ward", smoothing=given)
        legend: Any = plot_ellipses(problem, HALVES).get_legend()
        assert any(t.get_text().endswith(words) for t in legend.get_texts())


def test_other_families_and_options_are_refused():
    problem = bj.Problem(ROWS, family="gaussian")
    counts = bj.Problem(np.ones((4, 2)), family="poisson")
    with pytest.raises(TypeError, match="of a Gaussian family .* got Poisson"):
        plot_ellipses(counts, [0, 0, 1, 1])
    with pytest.raises(TypeError, match="got Product"):
        plot_ellipses(MIXED, LABELS)
    with pytest.raises(TypeError, match="a mixture, or a problem .* got ndarray"):
        plot_ellipses(ROWS, HALVES)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="`labels` must be given .* got none"):
        plot_ellipses(problem)
    with pytest.raises(ValueError, match="`labels` must have one entry .* got 3"):
        plot_ellipses(problem, [0, 0, 1])
    with pytest.raises(ValueError, match="`columns` must name two"):
        plot_ellipses(problem, HALVES, columns=(0, 7))
    for wrong in ([], [1.0], [0.0], [0.1] * 5):
        with pytest.raises(ValueError, match="`coverage` must be one to 4 shares"):
            plot_ellipses(problem, HALVES, coverage=wrong)

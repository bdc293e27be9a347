"""Missing cells: costs over what is observed, held against plain NumPy."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from missing_reference import (
    DISPERSION,
    FUNCTIONS,
    bandwidths,
    costs_along,
    greedy,
    statistics,
    weight_of_cells,
)
from scipy.special import gammaln

import bregjax as bj
from bregjax.objectives import held_out_log_likelihood

NAN = np.nan
COLUMN = bj.ExponentialFamily(jnp.exp, lambda x: x, 0.0)

pytestmark = pytest.mark.filterwarnings("ignore:`x` lacks")

FAMILIES = {
    "negative_binomial": bj.NegativeBinomial(dispersion=DISPERSION),
    "own": bj.Columnwise(COLUMN),
}
AMOUNT = 0.2
SOLVED = ("beta", "own")
NAMES = list(FUNCTIONS)


def table(name, m=13, share=0.3, seed=0):
    """Rows of a family, cells of which are missing, and weights."""
    rng = np.random.default_rng([seed, NAMES.index(name)])
    shape = (m, 3)
    center = rng.choice([1.0, 4.0], (m, 1))
    if name == "categorical":
        x = rng.integers(0, 3, shape).astype(float)
        x[:3] = np.arange(3.0)[:, None]
    elif name in ("bernoulli", "beta"):
        x = rng.beta(2 * center, 3, shape)
    elif name in ("ward", "diagonal_gaussian", "laplace"):
        x = center + rng.normal(size=shape)
    else:
        x = center * rng.gamma(3, 0.4, shape)
    missing = rng.random(shape) < share
    kept = rng.permuted(np.tile(np.arange(3), (m, 1)), axis=1)
    # Where costs are solved for, rows without a common column come in any order.
    for column in kept.T[: 1 + (name in SOLVED)]:
        missing[np.arange(m), column] = False
    missing[:3] &= name != "categorical"
    return np.where(missing, NAN, x), rng.uniform(0.5, 2, m)


def smoothing_of(name):
    return bj.adding(np.ones(3), AMOUNT) if name == "exponential" else "auto"


def reference_of(name, x, weights, **options):
    added = AMOUNT if name == "exponential" else 0.0
    cells = statistics(name, x, weights, added=added, **options)
    return FUNCTIONS[name], cells, weight_of_cells(x, weights), weights


def problem_of(name, x, weights, **options):
    family = FAMILIES.get(name, name)
    options = {"smoothing": smoothing_of(name), **options}
    return bj.Problem(x, family=family, weights=weights, **options)


def engines_of(name):
    """ "recompute" shares the costs of "matrix", and is tried on a few families."""
    if name in SOLVED:
        return ["matrix", "recompute"]
    few = name in ("poisson", "categorical", "diagonal_gaussian")
    return ["matrix", "windowed"] + ["recompute"] * few


def sweep(names):
    """Families whose cells have models that others have too are slow."""
    others = ("exponential", "laplace", "gamma", "geometric", "inverse_gaussian")
    return [
        pytest.param(name, marks=[pytest.mark.slow] * (name in others))
        for name in names
    ]


def clusters_of(children):
    """The clusters of a tree as sets of rows."""
    nodes = [frozenset([row]) for row in range(len(children) + 1)]
    for a, b in np.asarray(children).tolist():
        nodes.append(nodes[a] | nodes[b])
    return set(nodes)


@pytest.mark.parametrize("name", sweep(NAMES))
def test_greedy_costs_of_observed_cells(name):
    x, weights = table(name)
    problem = problem_of(name, x, weights)
    children, costs = greedy(*reference_of(name, x, weights))
    for engine in engines_of(name):
        tree = bj.agglomerate(problem, engine=engine)
        assert clusters_of(tree.children) == clusters_of(children), engine
        np.testing.assert_allclose(
            tree.merge_costs, costs, rtol=1e-8, atol=1e-10, err_msg=engine
        )
    np.testing.assert_allclose(
        bj.replay(problem, children), costs, rtol=1e-8, atol=1e-10
    )


def test_greedy_costs_under_a_blur_given():
    x, weights = table("diagonal_gaussian", seed=1)
    problem = problem_of("diagonal_gaussian", x, weights, smoothing=bj.blur(0.4))
    reference = reference_of("diagonal_gaussian", x, weights, bandwidth=0.4)
    children, costs = greedy(*reference)
    for engine in engines_of("diagonal_gaussian"):
        tree = bj.agglomerate(problem, engine=engine)
        assert clusters_of(tree.children) == clusters_of(children), engine
        np.testing.assert_allclose(tree.merge_costs, costs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", sweep(["poisson", "gamma", "beta"]))
def test_costs_add_up_to_those_of_complete_columns(name):
    """Below a node merges cost what each column costs, of its observed rows alone."""
    x, weights = table(name, m=9)
    problem = problem_of(name, x, weights)
    tree = bj.agglomerate(problem)
    total = 0.0
    for j in range(3):
        seen = ~np.isnan(x[:, j])
        part = np.tile(x[seen][:, [j]], 3)
        total += bj.cluster_cost(problem_of(name, part, weights[seen])) / 3
    np.testing.assert_allclose(np.sum(tree.merge_costs), total, rtol=1e-9)
    certificate = bj.certify(problem, tree)
    assert certificate.holds(1e-8)
    np.testing.assert_allclose(certificate.cost_of_all, total, rtol=1e-9)


@pytest.mark.parametrize(
    "name", ["poisson", "bernoulli", "categorical", "diagonal_gaussian", "own"]
)
def test_nothing_missing_is_as_complete_data(name):
    x, weights = table(name, share=0)
    complete = bj.agglomerate(problem_of(name, x, weights))
    for missing in ("observed", "scaled")[: 1 + (name != "own")]:
        tree = bj.agglomerate(problem_of(name, x, weights, missing=missing))
        np.testing.assert_array_equal(tree.children, complete.children, missing)
        np.testing.assert_allclose(
            tree.merge_costs, complete.merge_costs, rtol=1e-9, atol=1e-13
        )


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("poisson", "scaled"),
        ("bernoulli", "observed"),
        ("diagonal_gaussian", "observed"),
        ("diagonal_gaussian", "scaled"),
        pytest.param("gamma", "observed", marks=pytest.mark.slow),
        ("own", "observed"),
    ],
)
def test_gradients(name, missing, x64):
    del x64
    x, weights = table(name, m=7)
    problem = problem_of(name, x, weights, missing=missing)
    tree = bj.agglomerate(problem)
    loads = np.random.default_rng(3).normal(size=6)
    by_block: Any = problem.smoothing
    smoothing = by_block and by_block.maps[0]

    def loss(x, weights, smoothing):
        part = problem_of(name, x, weights, smoothing=smoothing, missing=missing)
        return loads @ np.asarray(bj.replay(part, tree))

    slopes = jax.jit(jax.grad(lambda p: jnp.vdot(loads, bj.replay(p, tree))))(problem)
    for leaf in jax.tree.leaves(slopes):
        assert np.all(np.isfinite(leaf))
    gone = np.isnan(x)
    np.testing.assert_array_equal(np.asarray(slopes.x)[gone], 0)
    step = 1e-6
    close = lambda got, want: np.testing.assert_allclose(
        got, want, rtol=2e-5, atol=2e-7
    )
    for row, column in np.argwhere(~gone)[::4]:
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[row, column] += sign * step
            ends.append(loss(moved, weights, smoothing))
        close(slopes.x[row, column], (ends[0] - ends[1]) / (2 * step))
    for row in (0, 4):
        move = np.eye(7)[row] * step
        ends = [loss(x, weights + sign * move, smoothing) for sign in (1, -1)]
        close(slopes.weights[row], (ends[0] - ends[1]) / (2 * step))
    if name == "diagonal_gaussian":
        h = np.asarray(smoothing.bandwidth)
        for j in range(3):
            move = np.eye(3)[j] * step
            ends = [loss(x, weights, bj.blur(h + sign * move)) for sign in (1, -1)]
            slope = slopes.smoothing.maps[0].bandwidth[j]
            close(slope, (ends[0] - ends[1]) / (2 * step))


def test_float32_inside_jit():
    x, weights = table("gamma")
    problem = problem_of("gamma", x, weights)
    expected = bj.agglomerate(problem)
    with jax.enable_x64(False):
        costs = jax.jit(bj.replay)(problem, expected)
        tree = jax.jit(bj.agglomerate)(problem)
    assert costs.dtype == tree.merge_costs.dtype == np.float32
    np.testing.assert_allclose(costs, expected.merge_costs, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(
        tree.merge_costs, expected.merge_costs, rtol=2e-4, atol=2e-4
    )


def test_what_does_not_fit_is_said():
    empty_row = {"a": [1.0, None, 2.0], "b": [3.0, None, 1.0]}
    with pytest.raises(
        ValueError, match="observed cell in each row; got none in row 1"
    ):
        bj.Problem(empty_row, family="poisson")
    empty_column = {"a": [1.0, 1.0, 2.0], "b": [None, NAN, None]}
    with pytest.raises(ValueError, match="each column; got none in column 'b'"):
        bj.Problem(empty_column, family="poisson")
    for bad, rule in ((np.inf, "finite; got inf"), (-1.0, "non-negative.*got -1")):
        with pytest.raises(ValueError, match=f"must be {rule}.* at row 1, column 0"):
            bj.Problem([[1.0, NAN], [bad, 1.0], [3.0, 2.0]], family="poisson")
    holes = [[1.0, 2.0], [NAN, 3.0], [4.0, 2.0]]
    for name in ("gaussian", "multinomial", "isotropic_gaussian"):
        with pytest.raises(ValueError, match="needs whole rows.*independent columns"):
            bj.Problem(holes, family=name)
    whole = bj.Problem([[1.0, 2.0], [2.0, 3.0]], family="poisson")
    with pytest.raises(ValueError, match=r"`rows`.*got nan"):
        bj.soft_assignments(whole, [[0, 1]], [[1.0, NAN]], num_clusters=1)
    with pytest.raises(ValueError, match="`missing` must be one of"):
        bj.Problem(holes, family="poisson", missing="some")  # pyright: ignore


def test_missing_is_not_ignored_for_a_convex_function():
    with pytest.raises((TypeError, ValueError), match="missing"):
        bj.Problem(np.ones((3, 2)), family=lambda t: jnp.sum(t**2), missing="observed")


def test_scaled_costs_are_refused_where_solved_for():
    x, weights = table("beta")
    with pytest.raises(ValueError, match='`missing` must be "observed"'):
        problem_of("beta", x, weights, missing="scaled")


def tables_alike(x):
    """The same table in every form that marks missing cells."""
    gone = np.isnan(x)
    lists = [
        [None if hole else value for value, hole in zip(*row, strict=True)]
        for row in zip(x.tolist(), gone.tolist(), strict=True)
    ]
    filled = np.where(gone, -1.0, x)
    return {
        "array": x,
        "lists": lists,
        "objects": np.array(lists, dtype=object),
        "masked": np.ma.array(filled, mask=gone),
        "masked rows": [
            np.ma.array(row, mask=hole) for row, hole in zip(filled, gone, strict=True)
        ],
        "mapping": {j: [row[j] for row in lists] for j in range(x.shape[1])},
        "masked columns": {
            j: np.ma.array(filled[:, j], mask=gone[:, j]) for j in range(x.shape[1])
        },
        "jax": jnp.asarray(x, jnp.float32),
    }


def test_missing_cells_of_any_make_read_the_same():
    x = np.array([[1.0, 2.0], [NAN, 3.0], [4.0, NAN], [2.0, 2.0]])
    for words, given in tables_alike(x).items():
        problem = bj.Problem(given, family="poisson")
        np.testing.assert_array_equal(problem.x, x, words)


def test_missing_cells_of_pandas_read_the_same():
    pd = pytest.importorskip("pandas")
    x = np.array([[1.0, 2.0], [NAN, 3.0], [4.0, NAN], [2.0, 2.0]])
    numbers = pd.DataFrame({"a": [1, None, 4, 2], "b": [2, 3, None, 2]})
    frames = [
        numbers,
        numbers.astype("Int64"),
        numbers.astype("Float64"),
        numbers.astype(object).where(numbers.notna(), pd.NA),
        numbers.astype(object).where(numbers.notna(), None),
    ]
    for frame in frames:
        np.testing.assert_array_equal(bj.Problem(frame, family="poisson").x, x)
    rows = [[1.0, 2.0], [pd.NA, 3.0], [4.0, pd.NA], [2.0, 2.0]]
    np.testing.assert_array_equal(bj.Problem(rows, family="poisson").x, x)


def test_bandwidths_are_those_of_observed_cells():
    x, weights = table("diagonal_gaussian")
    rule = bj.normal_reference(x, per_coordinate=True, weights=weights)
    np.testing.assert_allclose(rule.bandwidth, bandwidths(x, weights), rtol=1e-12)
    alone = [
        bj.normal_reference(
            np.tile(x[seen][:, [j]], 3), per_coordinate=True, weights=weights[seen]
        ).bandwidth[0]
        for j, seen in enumerate(~np.isnan(x.T))
    ]
    np.testing.assert_allclose(rule.bandwidth, alone, rtol=1e-13)
    problem = problem_of("diagonal_gaussian", x, weights)
    by_block: Any = problem.smoothing
    default = by_block.maps[0].bandwidth
    np.testing.assert_allclose(default, rule.bandwidth, rtol=1e-14)


def with_pseudo_counts(name, x, weights, center, count):
    """Arguments of `greedy` for cells that get observations, if they are observed."""
    f, cells, seen, _ = reference_of(name, x, weights)
    total = seen + count
    mixed = (seen[..., None] * np.nan_to_num(cells) + count * center) / total[..., None]
    return f, mixed, np.where(seen > 0, total, 0)


@pytest.mark.parametrize("name", ["poisson", "bernoulli", "diagonal_gaussian"])
def test_pseudo_counts_give_nothing_to_missing_cells(name):
    x, weights = table(name)
    count = 0.7
    if name == "diagonal_gaussian":
        smoothing = bj.blur(0.4)
        reference = reference_of(name, x, weights, bandwidth=0.4)
        children, costs = greedy(*reference)
    else:
        center = np.array([0.3, 0.5, 0.6])
        smoothing = bj.pseudo_count(center, count)
        made = with_pseudo_counts(name, x, weights, center[:, None], count)
        children, costs = greedy(*made, weights)
    problem = problem_of(name, x, weights, smoothing=smoothing)
    tree = bj.agglomerate(problem)
    np.testing.assert_allclose(
        bj.replay(problem, children), costs, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(tree.merge_costs, costs, rtol=1e-9, atol=1e-12)


def test_pseudo_counts_leave_scaled_costs_of_whole_rows():
    x, weights = table("poisson", share=0)
    smoothing = bj.pseudo_count(np.ones(3), 1.0)
    complete = bj.agglomerate(problem_of("poisson", x, weights, smoothing=smoothing))
    scaled = bj.agglomerate(
        problem_of("poisson", x, weights, smoothing=smoothing, missing="scaled")
    )
    np.testing.assert_allclose(scaled.merge_costs, complete.merge_costs, rtol=1e-9)


def test_pseudo_counts_keep_the_rule_for_ties():
    """Of pairs that cost nothing those come first that share most columns."""
    x = np.array([[3.0, NAN, NAN], [3.0, 5.0, 7.0], [3.0, 5.0, 7.0], [9.0, 1.0, 2.0]])
    for smoothing in (None, bj.pseudo_count(np.ones(3), 4.0)):
        problem = bj.Problem(x, family="poisson", smoothing=smoothing)
        tree = bj.agglomerate(problem, engine="matrix")
        np.testing.assert_array_equal(tree.children[0], [1, 2])


@pytest.mark.parametrize("name", ["poisson", "diagonal_gaussian", "own"])
def test_equal_rows_merge_first_and_at_no_cost(name):
    x, _ = table(name, share=0)
    x[2, 0] = x[5, 1] = x[7, 1] = NAN
    x[9], x[10], x[11] = x[2], x[5], x[3]
    problem = problem_of(name, x, None)
    for engine in engines_of(name):
        tree = bj.agglomerate(problem, engine=engine)
        first = {tuple(sorted(pair)) for pair in tree.children[:3].tolist()}
        assert first == {(2, 9), (5, 10), (3, 11)}
        np.testing.assert_array_equal(tree.merge_costs[:3], 0)
        assert np.all(tree.merge_costs[3:] > 0)


def poisson_cells(x):
    """Counts with clusters of a cut of which one lacks a column."""
    x = np.array(
        [[1.0, 2.0, NAN], [2.0, NAN, NAN], [9.0, 8.0, 4.0], [NAN, 9.0, 5.0]] + x
    )
    return x, np.array([1.0, 2.0, 1.5, 0.5] + [1.0] * (len(x) - 4))


def means_of(x, weights, shares):
    """Weights and means of clusters by column, `[k, d]`; NaN where there is none."""
    seen = ~np.isnan(x)
    w = shares.T @ (weights[:, None] * seen)
    with np.errstate(invalid="ignore"):
        return w, shares.T @ (weights[:, None] * np.where(seen, x, 0)) / w


def poisson_divergence(x, mean):
    """x log(x/μ) − x + μ of all cells and clusters, `[m, k, d]`; 0 where one lacks."""
    x, mean = x[:, None], mean[None]
    value = np.asarray(np.where(x > 0, x, 1) / mean, float)
    found = x * np.log(value) - x + mean
    return np.where(np.isnan(found), 0, found)


def test_features_of_missing_cells():
    x, weights = poisson_cells([])
    problem = bj.Problem(x, family="poisson", weights=weights)
    rows = np.array([[3.0, NAN, 6.0], [NAN, NAN, 2.0]])
    tree = [[0, 1], [2, 3], [4, 5]]
    found = bj.dendrogram_features(problem, tree, rows, num_features=3)
    clusters = np.array([[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0]], float)
    w, mean = means_of(x, weights, clusters.T)
    for r, row in enumerate(rows):
        for k in range(3):
            expected = 0.0
            for j in range(3):
                if np.isnan(row[j]) or w[k, j] == 0:
                    continue
                both = (w[k, j] * mean[k, j] + row[j]) / (w[k, j] + 1)
                expected += w[k, j] * mean[k, j] * np.log(mean[k, j] / both)
                expected += row[j] * np.log(row[j] / both)
            np.testing.assert_allclose(found[r, k], expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("missing", ["auto", "scaled"])
def test_densities_are_those_of_observed_cells(missing):
    x, weights = poisson_cells([])
    problem = bj.Problem(x, family="poisson", weights=weights, missing=missing)
    tree = [[0, 1], [2, 3], [4, 5]]
    rows = np.array([[3.0, NAN, 6.0], [NAN, 4.0, NAN], [2.0, 5.0, 3.0]])
    shares = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], float)
    w, mean = means_of(x, weights, shares)
    of_all = means_of(x, weights, np.ones((4, 1)))[1][0]
    mean = np.where(w > 0, mean, of_all[None])
    log_p = rows[:, None] * np.log(mean)[None] - mean[None]
    log_p = np.nansum(log_p - gammaln(rows + 1)[:, None], axis=2)
    scores = log_p + np.log(shares.T @ weights / weights.sum())
    likelihood = np.exp(scores).sum(axis=1)
    found = bj.soft_assignments(problem, tree, rows, num_clusters=2)
    expected = np.exp(scores) / likelihood[:, None]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    held_out = held_out_log_likelihood(problem, tree, rows, num_clusters=2)
    np.testing.assert_allclose(held_out, np.log(likelihood).sum(), rtol=1e-10)


def objective_of(x, weights, shares, pi):
    """F of a mixture whose means are those of responsibilities."""
    _, mean = means_of(x, weights, shares)
    costs = poisson_divergence(x, mean).sum(axis=2)
    return weights @ np.log(np.sum(pi * np.exp(-costs), axis=1))


def test_soft_clustering_of_observed_cells():
    x, weights = table("poisson", m=30)
    problem = bj.Problem(x, family="poisson", weights=weights)
    labels = np.arange(30) % 3
    found = bj.soft_clustering(problem, init=labels, tolerance=1e-9)
    assert found.result == bj.Result.CONVERGED
    assert np.all(np.diff(found.objective) >= 0)
    assert found.objective[-1] > found.objective[0] + 0.1
    start = np.eye(3)[labels]
    pi = weights @ start / weights.sum()
    np.testing.assert_allclose(
        found.objective[0], objective_of(x, weights, start, pi), rtol=1e-10
    )
    shares = np.asarray(found.responsibilities)
    pi = weights @ shares / weights.sum()
    np.testing.assert_allclose(
        found.objective[-1], objective_of(x, weights, shares, pi), rtol=1e-6
    )


def test_soft_clustering_from_a_cluster_that_lacks_a_column():
    x = [[1.0, NAN], [2.0, NAN], [9.0, 4.0], [1.2, 9.0], [1.4, 1.0], [8.0, 5.0]]
    problem = bj.Problem(x, family="poisson")
    found = bj.soft_clustering(problem, init=[0, 0, 1, 1, 1, 1])
    assert found.result == bj.Result.CONVERGED
    assert np.all(np.diff(found.objective) >= 0)
    assert np.all(np.isfinite(found.responsibilities))


def test_hard_clustering_of_observed_cells():
    x, weights = table("poisson", m=30)
    problem = bj.Problem(x, family="poisson", weights=weights)
    found = bj.hard_clustering(problem, init=np.arange(30) % 3)
    assert found.result == bj.Result.CONVERGED
    assert np.all(np.diff(found.objective) <= 0)
    assert found.objective[-1] < found.objective[0]
    shares = np.eye(3)[found.labels]
    _, mean = means_of(x, weights, shares)
    costs = weights[:, None] * poisson_divergence(x, mean).sum(axis=2)
    np.testing.assert_array_equal(costs.argmin(axis=1), found.labels)
    own = (shares * costs).sum(axis=0)
    np.testing.assert_allclose(found.costs, own, rtol=1e-9)
    np.testing.assert_allclose(found.objective[-1], own.sum(), rtol=1e-10)


def test_hard_clustering_from_a_cluster_that_lacks_a_column():
    x, weights = poisson_cells([[2.0, 1.0, 7.0], [8.0, NAN, 3.0], [1.0, 3.0, NAN]])
    problem = bj.Problem(x, family="poisson", weights=weights)
    found = bj.hard_clustering(problem, init=[0, 0, 1, 1, 1, 1, 0])
    assert found.result == bj.Result.CONVERGED
    assert np.all(np.diff(found.objective) <= 0)


SCALED = ["poisson", "categorical", "diagonal_gaussian", "gamma"]


@pytest.mark.parametrize("name", sweep(SCALED))
def test_scaled_costs(name):
    x, weights = table(name, share=0.5, seed=2)
    problem = problem_of(name, x, weights, missing="scaled")
    reference = reference_of(name, x, weights)
    children, costs = greedy(*reference, scaled=True)
    for engine in engines_of(name):
        tree = bj.agglomerate(problem, engine=engine)
        np.testing.assert_allclose(
            tree.merge_costs, costs, rtol=1e-8, atol=1e-10, err_msg=engine
        )
        assert bj.certify(problem, tree).holds(1e-8)
    np.testing.assert_allclose(bj.replay(problem, children), costs, rtol=1e-8)


@pytest.mark.parametrize("missing", ["observed", "scaled"])
def test_columns_count_by_their_weights(missing):
    x, weights = table("diagonal_gaussian", seed=3)
    counts = np.array([2.0, 1.0, 0.25])
    scaled = missing == "scaled"
    family = bj.Product(
        {(0, 1, 2): "diagonal_gaussian"}, weights={0: 2.0, 2: 0.25}, missing=missing
    )
    problem = bj.Problem(x, family=family, weights=weights)
    reference = reference_of("diagonal_gaussian", x, weights)
    _, costs = greedy(*reference, counts, scaled=scaled)
    tree = bj.agglomerate(problem)
    np.testing.assert_allclose(tree.merge_costs, costs, rtol=1e-8, atol=1e-10)
    along = costs_along(*reference, tree.children, counts, scaled=scaled)
    np.testing.assert_allclose(along, tree.merge_costs, rtol=1e-8, atol=1e-10)


def test_pairs_without_a_common_column_are_told():
    x = np.array([[1.0, NAN], [NAN, 2.0], [3.0, 4.0]])
    with pytest.warns(UserWarning, match="1 of 3 pairs of rows"):
        bj.agglomerate(x, family="poisson")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bj.agglomerate(x, family="poisson", missing="scaled")


def test_near_duplicates_cost_what_they_do():
    """The tree has the costs of `replay`, also those below the rule for ties."""
    x = [[1.0, NAN], [1 + 1e-7, NAN], [5.0, 3.0], [8.0, 2.0]]
    problem = bj.Problem(x, family="poisson")
    for engine in ("matrix", "windowed"):
        tree = bj.agglomerate(problem, engine=engine)
        costs = bj.replay(problem, tree)
        np.testing.assert_allclose(costs[0], 2.5e-15, rtol=1e-6)
        np.testing.assert_allclose(tree.merge_costs, costs, rtol=1e-9, err_msg=engine)

"""Columns of categories: names, levels, entropies, errors."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hostile_cases import greedy, leaves_of
from trees import merge_cost_of

import bregjax as bj
from bregjax.families import Categorical

ROWS = np.array([[1, 1, 2], [2, 0, 0], [2, 2, 0], [0, 2, 1]])
NAMES = np.array(["low", "mid", "high"], dtype=object)
HEIGHTS = np.log(2) * np.array([2, 6, 10])


def test_heights_by_hand():
    """Entropies of three columns, added."""
    tree = bj.agglomerate(ROWS, family="categorical")
    np.testing.assert_allclose(tree.merge_costs, HEIGHTS, rtol=1e-14)


@pytest.mark.parametrize(
    "x",
    [
        NAMES[ROWS],
        NAMES[ROWS].astype(str),
        NAMES[ROWS].tolist(),
        [[NAMES[a], int(b), bool(c == 2)] for a, b, c in ROWS],
        (10 * ROWS + 3).astype(float),
        jnp.asarray(ROWS),
        ROWS.astype(np.uint8),
    ],
    ids=["objects", "strings", "lists", "mixed", "floats", "jax", "bytes"],
)
def test_what_levels_are_called_changes_nothing(x):
    tree = bj.agglomerate(x, family=Categorical())
    expected = HEIGHTS
    if isinstance(x, list) and isinstance(x[0][2], bool):
        of_two = np.stack([ROWS[:, 0], ROWS[:, 1], ROWS[:, 2] == 2], 1).astype(int)
        expected = bj.agglomerate(of_two, family="categorical").merge_costs
    np.testing.assert_allclose(tree.merge_costs, expected, rtol=1e-14)


def test_levels_come_sorted_from_the_data_or_as_given():
    x = [["b", 2], ["a", 10], ["b", 2]]
    family = Categorical().for_data(x)
    assert family.levels == (("a", "b"), (2, 10))
    np.testing.assert_array_equal(family.as_rows(x), [[1, 0], [0, 1], [1, 0]])
    given = Categorical(levels=[["b", "a", "c"], range(11)]).for_data(x)  # pyright: ignore[reportArgumentType]
    assert given.sizes == (3, 11)
    np.testing.assert_array_equal(given.as_rows(x), [[0, 2], [1, 10], [0, 2]])
    hash(given)
    mixed = Categorical().for_data([[1, "x"], ["one", "y"]])
    assert mixed.levels == ((1, "one"), ("x", "y"))
    one_column = Categorical().for_data(["x", "y", "x"])
    assert one_column.levels == (("x", "y"),)


def test_levels_that_no_row_has_cost_nothing():
    tree = bj.agglomerate(ROWS, family=Categorical(levels=(range(5),) * 3))  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(tree.merge_costs, HEIGHTS, rtol=1e-14)


def test_costs_are_entropies_of_counts(rng):
    """Of weights as counts, by a table; unsmoothed, with zeros."""
    x, weights = rng.integers(0, 4, (9, 2)), rng.integers(1, 5, 9).astype(float)

    def entropy(rows):
        total = 0.0
        for column in x[rows].T:
            counts = np.bincount(column, weights[rows], minlength=4)
            share = counts[counts > 0] / counts.sum()
            total -= counts.sum() * np.sum(share * np.log(share))
        return total

    problem = bj.Problem(x, family="categorical", weights=weights)
    cost = bj.cluster_cost(problem)
    np.testing.assert_allclose(cost, entropy(np.arange(9)), rtol=1e-13)
    family = Categorical().for_data(x)
    merge = merge_cost_of(
        x[:5], x[5:], family=family, weights_a=weights[:5], weights_b=weights[5:]
    )
    parts = entropy(np.arange(5)) + entropy(np.arange(5, 9))
    np.testing.assert_allclose(merge, entropy(np.arange(9)) - parts, rtol=1e-12)


def test_one_column_is_the_multinomial_of_indicators(rng):
    x = rng.integers(0, 3, 12)
    weights = rng.uniform(0.5, 2, 12)
    smoothing = bj.bernstein(3, 12)
    kwargs = {"smoothing": smoothing, "weights": weights}
    by_codes = bj.agglomerate(x, family="categorical", **kwargs)
    one_hot = bj.agglomerate(np.eye(3)[x], family="multinomial", **kwargs)
    np.testing.assert_array_equal(by_codes.children, one_hot.children)
    np.testing.assert_allclose(by_codes.merge_costs, one_hot.merge_costs, rtol=1e-13)


@pytest.mark.parametrize("engine", ["matrix", "windowed"])
def test_engines_find_the_greedy_tree(engine, rng):
    """All different rows, of different weights: no ties."""
    x = np.array(list(itertools.product(range(4), range(3), range(2))))
    weights = rng.uniform(0.5, 3, len(x))
    tree = bj.agglomerate(x, family="categorical", weights=weights, engine=engine)
    model, leaves = leaves_of(x, "categorical", weights=weights)
    children, costs = greedy(model, leaves, len(x))
    np.testing.assert_array_equal(np.sort(tree.children, axis=1), children)
    np.testing.assert_allclose(tree.merge_costs, costs, rtol=1e-12)


def test_smoothing_towards_uniform_columns(x64):
    family = Categorical().for_data(ROWS)
    uniform = family.natural_to_mean(family.natural_init)
    np.testing.assert_allclose(uniform, np.full(9, 1 / 3))
    smoothing = bj.mixing(uniform, 0.1)

    def height(amount):
        mixed = bj.mixing(uniform, amount)
        return bj.cluster_cost(bj.Problem(ROWS, family=family, smoothing=mixed))

    tree = bj.agglomerate(ROWS, family=family, smoothing=smoothing)
    assert np.sum(tree.merge_costs) == pytest.approx(float(height(0.1)), rel=1e-13)
    slope = jax.grad(height)(0.1)
    quotient = (height(0.1 + 1e-6) - height(0.1 - 1e-6)) / 2e-6
    assert float(slope) == pytest.approx(float(quotient), rel=1e-8)
    off = np.full(9, 1 / 9)
    with pytest.raises(ValueError, match="`center` must lie in the mean domain"):
        bj.agglomerate(ROWS, family=family, smoothing=bj.mixing(off, 0.1))


def test_under_jit_rows_are_codes():
    family = Categorical(levels=tuple(tuple(range(3)) for _ in range(3)))
    cost_under = lambda family: jax.jit(
        lambda x: bj.cluster_cost(bj.Problem(x, family=family))
    )
    cost = cost_under(family)(jnp.asarray(ROWS))
    assert float(cost) == pytest.approx(np.sum(HEIGHTS), rel=1e-6)
    named = Categorical(levels=((3, 4), (0, 1), (0, 1)))
    with pytest.raises(TypeError, match=r"`x` must hold codes 0, 1, … where it is"):
        cost_under(named)(jnp.asarray(ROWS))
    with pytest.raises(ValueError, match="`levels` must be given where `x` is traced"):
        cost_under(Categorical())(jnp.asarray(ROWS))


def test_densities_are_shares_of_levels(x64):
    family = Categorical(levels=(("a", "b"), ("x", "y", "z")))
    theta = jnp.log(jnp.array([0.25, 0.75, 0.2, 0.3, 0.5]))
    log_prob = lambda row: float(family.log_prob(jnp.array(row), theta))
    assert log_prob([1.0, 2.0]) == pytest.approx(np.log(0.75 * 0.5), rel=1e-14)
    for row in ([2.0, 0.0], [0.0, -1.0], [0.5, 0.0]):
        assert log_prob(row) == -np.inf


@pytest.mark.parametrize(
    ("x", "levels", "message"),
    [
        ([["a"], [None]], None, "an observed cell in each row; got none in row 1"),
        (np.array([[1.0], [np.nan]]), None, "observed cell in each row.* in row 1"),
        ([[0.5], [1.0], [0.25]], None, r"got 0.5 at row 0, column 0 \(2 such in"),
        (
            [["a", 1], ["b", 7], ["c", 7]],
            (("a", "b", "c"), (1, 2)),
            r"known levels, 1, 2 in column 1; got 7 at row 1, column 1 \(2 such",
        ),
        ([["a"]], ("a",), "a sequence for each column; got 'a' for column 0"),
        ([["a"]], (("a", "a"),), "no two alike; got 'a', 'a' for column 0"),
        ([["a"]], ((),), "at least one level a column"),
        ([["a", "b"]], (("a",),), r"each column of `x`, 2; got 1"),
        (np.zeros((2, 2, 2)), None, r"must be a table.*\(2, 2, 2\)"),
    ],
)
def test_entries_that_are_no_levels(x, levels, message):
    with pytest.raises(ValueError, match=message):
        bj.agglomerate(x, family=Categorical(levels=levels))


def test_the_doctor_takes_names():
    x = [["a", "x"], ["b", "y"], ["b", "x"], ["a", "y"]] * 3
    report = Categorical().check(x)
    assert report.ok, str(report)


def test_many_rows_have_their_codes_at_once(rng):
    codes = rng.integers(0, 30, (20_000, 3))
    names = np.array([f"level {k:02d}" for k in range(30)])[codes]
    family = Categorical().for_data(names)
    np.testing.assert_array_equal(family.as_rows(names), codes)

"""Tuning ends where it should, from near and far, inside its constraints."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from trees import bandwidth_of

from bregjax import Problem, Result, tune_smoothing
from bregjax import _tuning as tuning
from bregjax.clusters import Moments
from bregjax.families import Gaussian
from bregjax.hierarchy import certify, replay
from bregjax.objectives import (
    held_out_log_likelihood,
    leave_one_out_log_likelihood,
)
from bregjax.smoothing import (
    Constraint,
    StatisticMap,
    adding,
    bernstein,
    blur,
    from_unconstrained,
    mixing,
    pseudo_count,
    to_unconstrained,
)
from bregjax.smoothing._maps import Blur

NORMAL = Moments(jnp.array([1.0, -2.0]), jnp.array([[2.0, 0.3], [0.3, 0.4]]))
MAPS: list[Any] = [
    blur(0.3),
    blur(np.array([1e-5, 3e4])),
    blur(np.array([[1.0, 2.0], [-0.5, 0.3]])),
    bernstein(4, 100.0),
    mixing(np.array([1.0, 2.0]), 0.999),
    mixing(
        NORMAL,
        1e-7,
        center_constraint=(Constraint.REAL, Constraint.POSITIVE_DEFINITE),
    ),
    pseudo_count(np.array([0.2, 0.8]), 3.0, center_constraint=(Constraint.SIMPLEX,)),
    adding(np.ones(2), 1e-3, center_constraint=(Constraint.POSITIVE,)),
]


@pytest.mark.parametrize("number", range(len(MAPS)))
def test_there_and_back(number, rng, x64):
    del x64
    smoothing = MAPS[number]
    free = to_unconstrained(smoothing)
    back = from_unconstrained(free, smoothing)
    if isinstance(smoothing, Blur) and smoothing.bandwidth.ndim == 2:
        square = lambda b: np.asarray(b.bandwidth @ b.bandwidth.T)
        np.testing.assert_allclose(square(back), square(smoothing), rtol=1e-12)
    else:
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), back, smoothing
        )
    moved = [x + rng.normal(size=x.shape) * 5 for x in free]
    moved = from_unconstrained(moved, smoothing)
    kinds = jax.tree.leaves(smoothing.constraints())
    for kind, leaf in zip(kinds, jax.tree.leaves(moved), strict=True):
        if kind is Constraint.POSITIVE:
            assert np.all(leaf > 0)
        elif kind is Constraint.UNIT_INTERVAL:
            assert np.all((leaf > 0) & (leaf < 1))
        elif kind is Constraint.SIMPLEX:
            np.testing.assert_allclose(np.sum(leaf), 1, rtol=1e-12)
        elif kind is Constraint.POSITIVE_DEFINITE:
            assert np.all(np.linalg.eigvalsh(leaf) > 0)
        elif kind is Constraint.INVERTIBLE:
            assert np.linalg.det(leaf) != 0


@pytest.mark.parametrize(
    ("x", "best", "start"),
    [
        ([[0.0], [3.0]], 3.0, 1e-3),
        ([[0.0], [3.0]], 3.0, 1e3),
        ([[0.0, 0.0], [3.0, 4.0]], 5 / np.sqrt(2), 1e3),
    ],
)
def test_two_points(x, best, start):
    """Points a distance r apart in d columns want h = r/√d; found from far away."""
    found = tune_smoothing(
        Problem(np.array(x), family=Gaussian(), smoothing=blur(start)), num_clusters=2
    )
    assert found.result == Result.CONVERGED
    np.testing.assert_allclose(bandwidth_of(found), best, rtol=1e-3)
    np.testing.assert_allclose(found.value, found.history.max(), rtol=1e-12)
    assert np.all(np.isfinite(found.history))


def test_optimizers_agree(rng):
    """Also one that wants the value and the function."""
    x = np.concatenate([rng.normal(size=(15, 2)), rng.normal(size=(15, 2)) + 4])
    problem = Problem(x, family="diagonal_gaussian")
    tuned = [
        tune_smoothing(problem, num_clusters=2, optimizer=optimizer)
        for optimizer in (None, optax.lbfgs())
    ]
    for other in tuned[1:]:
        assert other.result == Result.CONVERGED
        np.testing.assert_allclose(other.value, tuned[0].value, rtol=1e-3)


@pytest.mark.parametrize("start", [1e-5, 1e5])
def test_ten_powers_of_ten(start, rng):
    x = np.concatenate([rng.normal(size=(12, 2)), rng.normal(size=(12, 2)) + 5])
    problem = Problem(x, family="gaussian")
    near = tune_smoothing(problem, num_clusters=24)
    far = tune_smoothing(problem.replace(smoothing=blur(start)), num_clusters=24)
    np.testing.assert_allclose(bandwidth_of(far), bandwidth_of(near), rtol=1e-2)


def test_duplicates_end_at_the_floor():
    x = np.array([[0.0], [0.0], [5.0], [5.0], [9.0], [9.0]])
    with pytest.warns(UserWarning, match="largest at the floor"):
        found = tune_smoothing(
            Problem(x, family="gaussian", smoothing=blur(0.1)),
            num_clusters=6,
            floor=1e-4,
        )
    assert found.result == Result.BOUNDARY
    np.testing.assert_allclose(bandwidth_of(found), 1e-4, rtol=1e-9)


def test_shares_of_the_center_stay_positive():
    """The objective rises as the share of a word that no row has falls to 0."""
    words = np.array([[3, 1, 0], [4, 1, 0], [1, 3, 0], [1, 5, 0]])
    smoothing = bernstein(3, 4)
    problem = Problem(words, family="multinomial", smoothing=smoothing)
    with pytest.warns(UserWarning, match="largest at the floor"):
        found = tune_smoothing(problem, num_clusters=2, floor=1e-6)
    assert found.result == Result.BOUNDARY
    tuned: Any = found.problem.smoothing
    assert 0 < tuned.center[2] < 1e-3


def test_other_maps(rng):
    """α of proportions, a full matrix: each better than its start."""
    words = rng.multinomial(30, rng.dirichlet(np.ones(5), 3)[rng.integers(0, 3, 24)])
    points = rng.normal(size=(24, 2)) @ np.array([[3.0, 2.9], [0.0, 0.2]])
    # Of a full matrix the directions depend on each other: it takes many steps.
    oblique = Problem(points, family="gaussian", smoothing=blur(np.eye(2)))
    found = tune_smoothing(oblique, num_clusters=3, max_steps=100)
    assert found.value > found.history[0]
    start = mixing(np.full(5, 0.2), 0.5)
    problem = Problem(words, family="multinomial", smoothing=start)
    found = tune_smoothing(problem, num_clusters=3, max_steps=100)
    assert found.value > found.history[0]
    assert found.result == Result.CONVERGED
    assert isinstance(found.problem.smoothing, StatisticMap)

    # A maximum: with the tree held fixed no leaf of the map wants to move.
    @jax.grad
    def slopes(free):
        moved = problem.replace(smoothing=from_unconstrained(free, start))
        return leave_one_out_log_likelihood(moved, found.tree, num_clusters=3)

    for slope in slopes(to_unconstrained(found.problem.smoothing)):
        np.testing.assert_allclose(slope, 0, atol=0.2)


def test_an_objective_of_ones_own(rng):
    x, rows = rng.normal(size=(20, 2)), rng.normal(size=(20, 2))

    def held_out(problem, tree, *, num_clusters):
        return held_out_log_likelihood(problem, tree, rows, num_clusters=num_clusters)

    found = tune_smoothing(
        Problem(x, family="gaussian"), num_clusters=2, objective=held_out
    )
    expected = held_out(found.problem, found.tree, num_clusters=2)
    np.testing.assert_allclose(found.value, expected, rtol=1e-10)


def test_columns_in_any_units(rng):
    """A column in tiny units is no reason to stop at the floor."""
    x = rng.normal(size=(10, 2))
    scale = np.array([100.0, 1e-8])
    found, expected = (
        tune_smoothing(Problem(table, family="diagonal_gaussian"), num_clusters=10)
        for table in (x * scale, x)
    )
    assert found.result == expected.result == Result.CONVERGED
    np.testing.assert_allclose(
        bandwidth_of(found) / scale, bandwidth_of(expected), rtol=1e-6
    )


def test_the_upper_end_is_told(rng):
    """Rows without clusters want all the mixing there is."""
    del rng
    x = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    with pytest.warns(UserWarning, match="upper end"):
        found = tune_smoothing(
            Problem(x, family="bernoulli", smoothing=mixing(np.full(2, 0.5), 0.3)),
            num_clusters=4,
        )
    assert found.result == Result.BOUNDARY


def test_a_second_call_compiles_nothing(rng, caplog):
    x = rng.normal(size=(8, 2))
    compiled = []
    for shift in (0, 1):
        caplog.clear()
        problem = Problem(x + shift, family="gaussian")
        with jax.log_compiles(True):
            tune_smoothing(problem, num_clusters=2, max_steps=12)
        messages = [record.getMessage() for record in caplog.records]
        compiled.append([m for m in messages if "XLA compilation" in m])
    updates = [[m for m in found if "update" in m] for found in compiled]
    assert updates[0]
    assert not updates[1]


def test_errors(rng):
    x = rng.normal(size=(6, 2))
    problem = Problem(x, family="gaussian")
    settings: list[Any] = [{"max_steps": 0}, {"recluster_every": 0}, {"floor": 0.0}]
    for wrong in settings:
        with pytest.raises(ValueError, match="must be positive; got 0"):
            tune_smoothing(problem, num_clusters=2, **wrong)
    with pytest.raises(ValueError, match="have a smoothing to tune.*problem.replace"):
        tune_smoothing(Problem(x, family="ward"), num_clusters=2)
    with pytest.raises(TypeError, match="outside jit"):
        jax.jit(lambda problem: tune_smoothing(problem, num_clusters=2).value)(problem)
    with pytest.raises(ValueError, match="finite where tuning starts"):
        tune_smoothing(
            problem,
            num_clusters=2,
            objective=lambda moved, *_, **__: moved.smoothing.bandwidth * jnp.nan,
        )


def test_the_tree_is_that_of_the_smoothing(rng):
    x = rng.normal(size=(40, 2)) * [1, 5]
    found = tune_smoothing(
        Problem(x, family="diagonal_gaussian"), num_clusters=3, max_steps=15
    )
    costs = replay(found.problem, found.tree)
    np.testing.assert_allclose(found.tree.merge_costs, costs, rtol=1e-9)
    assert certify(found.problem, found.tree).relative < 1e-9
    value = leave_one_out_log_likelihood(found.problem, found.tree, num_clusters=3)
    np.testing.assert_allclose(found.value, value, rtol=1e-9)


def test_the_number_of_trees_is_bounded(rng, monkeypatch):
    trees = 0
    agglomerate = tuning.agglomerate

    def counted(*args, **options):
        nonlocal trees
        trees += 1
        return agglomerate(*args, **options)

    monkeypatch.setattr(tuning, "agglomerate", counted)
    tune_smoothing(
        Problem(rng.normal(size=(16, 2)), family="diagonal_gaussian"),
        num_clusters=2,
        max_steps=12,
        recluster_every=3,
    )
    assert trees <= 12 // 3 + 2

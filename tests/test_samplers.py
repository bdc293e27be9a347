"""Random rows of the built-in families: moments and entropies, against SciPy."""

from typing import Any

import jax
import numpy as np
import pytest
from family_cases import FAMILIES
from jax.flatten_util import ravel_pytree

import bregjax as bj
from bregjax.families import FAMILIES as NAMED
from bregjax.families._cluster_samples import sample_clusters
from bregjax.families._samplers import normal_rows, sample_rows

COUNT = 4000
# Errors of means beyond so many standard errors are faults; seeds are fixed.
BOUND = 4.5
OWN = ("ExponentialFamily", "Columnwise")
BUILT_IN = [n for n, c in FAMILIES.items() if type(c.make()).__name__ not in OWN]


def statistics_of(family: Any, rows: np.ndarray) -> np.ndarray:
    """T of rows `[r, n]`."""
    ravel = lambda row: ravel_pytree(family.sufficient_statistics(row))[0]
    return np.asarray(jax.jit(jax.vmap(ravel))(rows))


def assert_means(values: np.ndarray, expected: np.ndarray) -> None:
    """Averages of columns are those expected, to a few standard errors."""
    error = values.std(axis=0) / np.sqrt(len(values))
    np.testing.assert_array_less(
        np.abs(values.mean(axis=0) - expected), BOUND * error + 1e-6
    )


@pytest.mark.parametrize("name", BUILT_IN)
def test_rows_have_the_moments_and_the_entropy_of_the_distribution(name, x64):
    case, rng = FAMILIES[name], np.random.default_rng(5)
    family, natural = case.make(), case.natural(rng)
    rows = sample_rows(family, natural, COUNT, rng)
    family.check_rows(rows)
    points, weights = case.grid(natural)
    log_p = np.asarray(case.log_prob(points, natural))
    p = weights * np.exp(log_p)
    np.testing.assert_allclose(p.sum(), 1, rtol=1e-4)
    statistics = statistics_of(family, points)
    assert_means(statistics_of(family, rows), p @ statistics)
    squares = statistics_of(family, rows) ** 2
    assert_means(squares, p @ statistics**2)
    entropy = p @ np.where(p > 0, log_p, 0)
    assert_means(np.asarray(case.log_prob(rows, natural))[:, None], entropy)


@pytest.mark.parametrize("dim", [2, 3, 7])
@pytest.mark.parametrize("concentration", [0.0, 1e-6, 2.0, 1e4])
def test_directions_of_any_concentration(dim, concentration, x64, rng):
    axis = np.eye(dim)[-1]
    family = bj.VonMisesFisher(dim=dim)
    rows = sample_rows(family, concentration * axis, COUNT, rng)
    np.testing.assert_allclose(np.sum(rows**2, axis=1), 1, rtol=1e-12)
    mean = np.asarray(family.natural_to_mean(concentration * axis))
    assert_means(rows, mean)


def test_directions_at_the_limits(rng):
    family = bj.VonMisesFisher(dim=3)
    rows = sample_rows(family, np.array([0.0, -np.inf, 3.0]), 4, rng)
    np.testing.assert_array_equal(rows, np.tile([0.0, -1.0, 0.0], (4, 1)))
    with pytest.raises(ValueError, match="2 columns at least"):
        sample_rows(bj.VonMisesFisher(dim=1), np.ones(1), 3, rng)


def test_a_full_covariance(rng):
    root = np.array([[2.0, 0.0], [1.5, 0.5]])
    rows = normal_rows(np.array([3.0, -1.0]), root @ root.T, COUNT, rng)
    white = np.linalg.solve(root, (rows - [3.0, -1.0]).T).T
    assert_means(white, np.zeros(2))
    assert_means(white**2, np.ones(2))
    assert_means(white[:, :1] * white[:, 1:], np.zeros(1))


def test_means_on_the_boundary_draw_their_only_values(rng):
    counts = sample_rows(bj.Poisson(dim=2), np.array([-np.inf, 1.0]), 50, rng)
    assert np.all(counts[:, 0] == 0)
    coins = sample_rows(bj.Bernoulli(dim=2), np.array([np.inf, -np.inf]), 50, rng)
    np.testing.assert_array_equal(coins, np.tile([1.0, 0.0], (50, 1)))


def test_every_family_that_has_a_name_has_a_sampler():
    assert {type(FAMILIES[name].make()) for name in BUILT_IN} == set(NAMED.values())


def test_families_of_one_s_own_are_refused(rng):
    family = FAMILIES["truncated_poisson"].make()
    with pytest.raises(ValueError, match="built-in one to draw rows from; got Expon"):
        sample_rows(family, np.zeros(2), 3, rng)


@pytest.mark.parametrize("missing", ["auto", "observed"])
def test_clusters_of_a_table(missing, rng):
    """One cluster of all rows: samples have the averages of the table."""
    m = 200
    table = {
        "size": rng.normal(3.0, 2.0, m),
        "visits": rng.poisson(4.0, m).astype(float),
        "smokes": rng.random(m) < 0.3,
        "town": np.where(rng.random(m) < 0.8, "Bonn", "Kiel").astype(object),
        "waits": rng.gamma(2.0, 3.0, m),
        "gaps": rng.wald(2.0, 4.0, m),
        "share": rng.beta(2.0, 6.0, m),
        "x": rng.normal(size=m),
        "y": rng.normal(size=m),
    }
    table["y"] = table["x"] + 0.1 * table["y"]
    family = {
        "waits": "gamma",
        "gaps": "inverse_gaussian",
        "share": "beta",
        ("x", "y"): bj.Gaussian(),
    }
    problem: Any = bj.Problem(table, family=family, missing=missing)
    found = bj.soft_clustering(problem, init=np.zeros(m, int))
    rows = sample_clusters(problem.family, found.states, np.array([COUNT]), rng)
    place = {name: j for j, name in enumerate(problem.columns)}
    column = lambda name: rows[:, place[name]]
    assert set(column("town")) == {"Bonn", "Kiel"}
    bonn = (column("town") == "Bonn").astype(float)[:, None]
    assert_means(bonn, np.mean(table["town"] == "Bonn"))
    for name in ("size", "visits", "smokes", "waits", "gaps", "x", "y"):
        drawn = column(name).astype(float)[:, None]
        assert_means(drawn, np.mean(table[name]))
    maps = dict(zip(problem.family.layout.blocks, problem.smoothing.maps, strict=True))
    lower = np.ravel(maps[("share",)].center[0])[0] * maps[("share",)].amount
    logs = np.log(column("share").astype(float))[:, None]
    assert_means(logs, np.mean(np.log(table["share"])) + lower)
    lower = np.ravel(maps[("waits",)].center[0])[0] * maps[("waits",)].amount
    logs = np.log(column("waits").astype(float))[:, None]
    assert_means(logs, np.mean(np.log(table["waits"])) + lower)
    h = np.ravel(maps[("x", "y")].bandwidth)[0]
    gap = (column("y") - column("x")).astype(float)[:, None]
    variance = np.var(table["y"] - table["x"]) + 2 * h**2
    assert_means((gap - gap.mean()) ** 2, variance)

"""Conjugates of many means at once: the fast program, and what it may not accept."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from own_potentials import POTENTIALS, identity, negative_binomial

from bregjax import Result
from bregjax.clusters._natural.solving import Solver
from bregjax.clusters._natural.table import interpolated, table_means
from bregjax.convex._solvers.coupling import coupling
from bregjax.convex._solvers.rapid import Structure
from bregjax.families import ExponentialFamily

COUNT = 150


def solver_of(name: str) -> Solver:
    case = POTENTIALS[name]
    return Solver(ExponentialFamily(case.psi, identity, case.start))


def rapidly(solver: Solver, means, *, settled: bool, monkeypatch):
    """Solutions of the fast program alone; NaN where it leaves a mean to the other."""

    def nothing(means, starts, column):
        del starts, column
        count = len(means)
        codes = np.full(count, Result.STEP_LIMIT)
        return np.zeros(means.shape), np.full(count, np.nan), codes

    monkeypatch.setattr(solver, "_carefully", nothing)
    column = np.zeros(len(means), int)
    return solver.solve(means, solver.start[None], column, settled=settled)


@pytest.mark.parametrize("name", POTENTIALS)
@pytest.mark.parametrize("settled", [False, True])
def test_values_are_right(name, settled, rng, dtype, monkeypatch):
    """By closed forms, or by ∇ψ(θ) = μ; nothing is left over in float64."""
    case, solver = POTENTIALS[name], solver_of(name)
    means = case.means(rng, COUNT)
    found = rapidly(solver, means, settled=settled, monkeypatch=monkeypatch)
    done = found.result == Result.CONVERGED
    # Means of 1e-9 beside one near 1 leave an overcomplete Hessian no digits.
    least = 0.9 if name == "softmax" else 1.0
    assert np.mean(done) >= (least if dtype == np.float64 else 0.6)
    means, theta = means[done], np.asarray(found.natural[done], float)
    value = found.value[done]
    tolerance = 1e-12 if dtype == np.float64 else 2e-5
    with jax.enable_x64(True):
        psi = np.asarray(jax.vmap(case.psi)(theta))
        slope = np.asarray(jax.vmap(jax.grad(case.psi))(theta))
    terms = np.abs(np.sum(means * theta, axis=1)) + np.abs(psi) + 1
    if case.conjugate is not None:
        expected = np.array([case.conjugate(mean) for mean in means])
        assert np.all(np.abs(value - expected) <= tolerance * terms)
    # ⟨μ, θ⟩ − ψ(θ) is the value to second order in what θ is off.
    assert np.all(np.abs(np.sum(means * theta, 1) - psi - value) <= tolerance * terms)
    size = np.abs(means) + np.max(np.abs(means), axis=1, keepdims=True)
    assert np.all(np.abs(slope - means) <= 1e4 * np.sqrt(tolerance) * size)


@pytest.mark.parametrize("name", POTENTIALS)
@pytest.mark.parametrize("settled", [False, True])
def test_what_has_no_finite_value_is_never_accepted(name, settled, dtype, monkeypatch):
    del dtype
    solver = solver_of(name)
    means = POTENTIALS[name].hopeless
    found = rapidly(solver, means, settled=settled, monkeypatch=monkeypatch)
    assert np.all(found.result == Result.STEP_LIMIT)
    assert np.all(np.isnan(found.value))


def test_boundary_values_are_right_and_never_settled(x64, monkeypatch):
    """A count of zero: ψ* is finite, θ runs off, and no code may say it is inside."""
    del x64
    solver = solver_of("negative_binomial")
    means = np.array([[0.0, 3, 1], [0, 0, 5], [0, 0, 0], [2, 12, 0]])
    found = rapidly(solver, means, settled=False, monkeypatch=monkeypatch)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(means > 0, means * np.log(means), 0)
    expected = np.sum(logs - (means + 2) * np.log(means + 2) + 2 * np.log(2), axis=1)
    good = np.isfinite(found.value)
    np.testing.assert_allclose(found.value[good], expected[good], atol=1e-11)
    settled = rapidly(solver, means, settled=True, monkeypatch=monkeypatch)
    assert np.all(settled.result == Result.BOUNDARY)
    np.testing.assert_allclose(settled.value, expected, atol=1e-11)


def test_the_careful_solver_takes_what_is_left(x64):
    del x64
    solver = solver_of("negative_binomial")
    means = np.array([[1.0, 3, 1], [-1, 0.5, 5]])
    column = np.zeros(2, int)
    found = solver.solve(means, solver.start[None], column, settled=True)
    assert found.careful == 1
    np.testing.assert_array_equal(found.result, [Result.CONVERGED, Result.OUTSIDE])
    assert found.value[1] == np.inf


@pytest.mark.parametrize("name", POTENTIALS)
def test_groups_are_found(name):
    structure = solver_of(name).structure
    assert len(structure.groups) == POTENTIALS[name].groups
    kept = sum(map(len, structure.groups))
    overcomplete = {"full_gaussian": 1, "softmax": 1}
    assert structure.size - kept == overcomplete.get(name, 0)


def test_a_wrong_structure_accepts_nothing_wrong(x64, rng, monkeypatch):
    """Coordinates that are coupled, solved as if they were not."""
    del x64
    solver = solver_of("softmax")
    solver.structure = Structure(4, ((0,), (1,), (2,)))
    means = POTENTIALS["softmax"].means(rng, COUNT)
    found = rapidly(solver, means, settled=False, monkeypatch=monkeypatch)
    expected = np.sum(means * np.log(means), axis=1)
    done = found.result == Result.CONVERGED
    np.testing.assert_allclose(found.value[done], expected[done], atol=1e-11)


def test_coupling_of_given_hessians():
    """Worked by hand: 0 with 2; 1 alone; 3 and 4 are one direction."""
    hessian = np.zeros((1, 5, 5))
    hessian[0][np.ix_([0, 2], [0, 2])] = [[2, 1], [1, 2]]
    hessian[0, 1, 1] = 3
    hessian[0][np.ix_([3, 4], [3, 4])] = [[4, 2], [2, 1]]
    assert coupling(hessian).groups == ((0, 2), (1,), (3,))
    assert coupling(np.full((2, 2, 2), np.nan)).groups == ((0,),)


def test_other_numbers_of_means_compile_nothing(x64, rng):
    del x64
    traces = []

    def counted(theta):
        traces.append(1)
        return negative_binomial(theta)

    solver = Solver(ExponentialFamily(counted, identity, -np.ones(2)))
    seen = 0
    for count in (3, 70, 2000):
        means = rng.uniform(1, 9, (count, 2))
        column = np.zeros(count, int)
        found = solver.solve(means, solver.start[None], column, settled=True)
        assert np.all(found.result == Result.CONVERGED)
        seen = len(traces) if count == 3 else seen
        assert len(traces) == seen


def test_wide_systems(x64, rng):
    """A hundred coupled coordinates, against the closed form."""
    del x64
    n = 100
    matrix = rng.normal(size=(n, n)) / 10 + np.eye(n)

    def psi(theta):
        return jnp.sum(jnp.exp(jnp.asarray(matrix) @ theta))

    solver = Solver(ExponentialFamily(psi, identity, np.zeros(n)))
    assert solver.structure.width == n
    rates = rng.uniform(0.5, 2, (20, n))
    means = rates @ matrix
    found = solver.solve(means, solver.start[None], np.zeros(20, int), settled=True)
    assert found.careful == 0
    expected = np.sum(rates * np.log(rates) - rates, axis=1)
    np.testing.assert_allclose(found.value, expected, rtol=1e-11)


def test_a_psi_that_factorises_is_solved_on_one_thread():
    """Two programs of LAPACK side by side may lock up a CPU."""

    def log_det(theta):
        matrix = jnp.eye(4, dtype=theta.dtype) + jnp.diag(jnp.exp(theta))
        return jnp.linalg.slogdet(matrix)[1]

    factorises = Solver(ExponentialFamily(log_det, identity, np.zeros(4)))
    assert factorises.num_threads == 1
    expected = min(os.cpu_count() or 1, 4)
    assert solver_of("negative_binomial").num_threads == expected


def test_a_false_claim_is_refused():
    def coupled(theta):
        return jnp.sum(theta**2) / 2 + theta[0] * theta[1] / 2

    family = ExponentialFamily(coupled, identity, np.zeros(2), separable=True)
    with pytest.raises(ValueError, match="Leave `separable` out"):
        Solver(family)


def test_starts_from_a_table_are_near(x64, rng):
    # exp: θ = log μ. The first column begins on the boundary, the last does not vary.
    low, high = np.array([0.0, 2.0, 3.0]), np.array([9.0, 40.0, 3.0])
    knots = np.asarray(table_means(jnp.asarray(low), jnp.asarray(high)))
    natural = np.log(np.maximum(knots, 1e-17))
    means = low + (high - low) * rng.uniform(size=(200, 3))
    found = interpolated(means, knots, natural)
    inside = means[:, 0] > knots[2, 0]
    np.testing.assert_allclose(found[:, 1:], np.log(means[:, 1:]), atol=1e-4)
    assert np.max(np.abs(found - np.log(means))[inside]) < 0.2
    np.testing.assert_allclose(interpolated(knots, knots, natural), natural, atol=1e-12)
    first = interpolated(knots[1:2] / 2, knots, natural)
    assert first[0, 0] == natural[1, 0]

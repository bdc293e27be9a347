"""The numerical conjugate: accuracy, codes, batching and interface."""

from dataclasses import dataclass

import chex
import conjugate_cases as cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bregjax import Result
from bregjax._pytree import register_pytree
from bregjax.convex import conjugate

SLOW = ("Ising", "categorical generic 2", "gamma shape 0.01", "Poisson 1e+06")
TOLERANCE = {4: 1e-5, 8: 1e-10}
QUICK = [
    pytest.param(
        case,
        method,
        id=f"{case.name}-{method}",
        marks=[pytest.mark.slow] if case.name.startswith(SLOW) else [],
    )
    for case in cases.CASES
    for method in ("newton", "scalar")
    if method == "newton" or case.separable
]


def code(solution):
    return Result(int(solution.result))


def solve(psi, start, y, dtype, **options):
    cast = lambda v: jnp.asarray(v, dtype)
    return conjugate(psi, jax.tree.map(cast, start), **options)(jax.tree.map(cast, y))


@pytest.mark.parametrize(("case", "method"), QUICK)
def test_accuracy(case, method, dtype):
    start = jax.tree.map(lambda v: np.asarray(v, dtype), case.start())
    conj = conjugate(case.psi, start, method=method)
    solution, _, share, off = cases.run(case, dtype, conj)
    tolerance = TOLERANCE[dtype.itemsize]
    assert solution.value.dtype == dtype
    assert all(
        np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(solution.maximiser)
    )
    if dtype.itemsize == 4 and case.single == "honest":
        allowed = {Result.CONVERGED, Result.BOUNDARY, Result.STALLED}
        assert code(solution) in allowed
        if code(solution) is Result.CONVERGED:
            assert share <= tolerance
        return
    assert code(solution) is Result.CONVERGED
    assert share <= tolerance
    if case.maximiser:
        assert off <= tolerance


ENTROPY = float(np.sum(np.array([0.2, 0.3, 0.5]) * np.log([0.2, 0.3, 0.5])))
MEAN = np.array([1.0, 2.0, 3.0])
SECOND = np.outer(MEAN, MEAN)
FACE = np.where(cases.STATES[:, 0] > 0, np.arange(1, 33.0), 0)
CONTRADICTORY = np.r_[np.full(10, 0.5), np.tile([0, 0.5, 0.5, 0], 5)]
GAUSS = cases.gaussian_start(3)()
B, OUT = Result.BOUNDARY, Result.OUTSIDE
EDGES = {
    "Poisson 0": (cases.poisson, np.zeros(1), [0.0], B, 0.0),
    "Poisson -1": (cases.poisson, np.zeros(1), [-1.0], OUT, np.inf),
    "Poisson -1e-6": (cases.poisson, np.zeros(1), [-1e-6], OUT, np.inf),
    "Poisson 3, 0": (
        cases.poisson, np.zeros(2), [3.0, 0.0], B, 3 * np.log(3) - 3,
    ),
    "Poisson 3, -1e-3": (cases.poisson, np.zeros(2), [3.0, -1e-3], OUT, np.inf),
    "truncated 1": (cases.truncated_poisson, np.zeros(1), [1.0], B, 0.0),
    "truncated 0.999": (cases.truncated_poisson, np.zeros(1), [0.999], OUT, np.inf),
    "truncated 0.5": (cases.truncated_poisson, np.zeros(1), [0.5], OUT, np.inf),
    "exponential 0": (cases.exponential, -np.ones(1), [0.0], B, np.inf),
    "exponential -1": (cases.exponential, -np.ones(1), [-1.0], OUT, np.inf),
    "Bernoulli 1": (cases.bernoulli, np.zeros(1), [1.0], B, 0.0),
    "Bernoulli 1.0001": (cases.bernoulli, np.zeros(1), [1.0001], OUT, np.inf),
    "two zeros": (cases.categorical, np.zeros(5), [0.2, 0.3, 0.5, 0, 0], B, ENTROPY),
    "vertex": (cases.categorical, np.zeros(5), np.eye(5)[2], B, 0.0),
    "negative": (
        cases.categorical, np.zeros(5), [0.2, 0.3, 0.5001, -1e-4, 0], OUT, np.inf,
    ),
    "sum 1.1": (cases.categorical, np.zeros(5), [0.2, 0.3, 0.6, 0, 0], OUT, np.inf),
    "singular covariance": (
        cases.gaussian, GAUSS, (MEAN, np.diag([1.0, 4, 0]) + SECOND), B, np.inf,
    ),
    "one point": (cases.gaussian, GAUSS, (MEAN, SECOND), B, np.inf),
    "negative variance": (
        cases.gaussian, GAUSS, (MEAN, np.diag([1.0, 4, -0.1]) + SECOND), OUT, np.inf,
    ),
    "asymmetric": (
        cases.gaussian, GAUSS, (MEAN, SECOND + np.eye(3) + np.eye(3, k=1) / 4), OUT,
        np.inf,
    ),
    "gamma on the curve": (
        cases.gamma, np.array([0.0, -1]), [np.log(2), 2.0], B, np.inf,
    ),
    "gamma outside": (
        cases.gamma, np.array([0.0, -1]), [np.log(2) + 0.1, 2.0], OUT, np.inf,
    ),
    "Ising state": (cases.ising, np.zeros(30), cases.INDICATORS[5], B, 0.0),
    "Ising face": (
        cases.ising, np.zeros(30), FACE / FACE.sum() @ cases.INDICATORS, B, None,
    ),
    "Ising contradiction": (cases.ising, np.zeros(30), CONTRADICTORY, OUT, np.inf),
}  # fmt: skip


SEPARABLE = (
    cases.poisson, cases.truncated_poisson, cases.exponential, cases.bernoulli,
)  # fmt: skip
EDGES_BY_METHOD = [
    pytest.param(
        name, method, marks=pytest.mark.slow if name.startswith("Ising") else ()
    )
    for name, (psi, *_) in EDGES.items()
    for method in ("newton", "scalar")
    if method == "newton" or psi in SEPARABLE
]


@pytest.mark.parametrize(("name", "method"), EDGES_BY_METHOD)
def test_boundary_and_outside(name, method, dtype):
    psi, start, y, expected, value = EDGES[name]
    y = y if isinstance(y, tuple) else np.asarray(y)
    solution = solve(psi, start, y, dtype, method=method)
    assert code(solution) is expected
    if value is None:
        assert np.isfinite(solution.value)
    else:
        atol = 1e-12 if dtype.itemsize == 8 else 5e-6
        np.testing.assert_allclose(solution.value, value, atol=atol, rtol=0)
    for leaf in jax.tree.leaves(solution.maximiser):
        assert np.all(np.isfinite(leaf))


@pytest.mark.parametrize("method", ["newton", "scalar", "lbfgs"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_numbers_are_invalid(method, bad):
    conj = conjugate(cases.poisson, jnp.zeros(3), method=method)
    solution = conj(jnp.array([1.0, bad, 2.0]))
    assert code(solution) is Result.INVALID
    assert np.isnan(solution.value)


def test_step_limit_gives_no_number(dtype):
    y = jnp.asarray([0.1, 0.2, 0.7], dtype)
    conj = conjugate(cases.categorical, jnp.zeros(3, dtype), max_steps=1)
    solution = conj(y)
    assert code(solution) is Result.STEP_LIMIT
    assert np.isnan(solution.value)


# Random hostile points: no converged value may be wrong, no accurate one refused.


def hostile_points(rng, count):
    for _ in range(3 * count):
        sd = 10.0 ** rng.uniform(-2, 1, 3)
        mean = rng.choice([0.0, 1.0, 10.0]) * rng.normal(size=3)
        y = cases.gaussian_moments(sd, mean, int(rng.integers(99)))
        yield cases.gaussian, GAUSS, y, cases.gaussian_reference
    y = cases.gaussian_moments((1e-3, 1, 1e3), 0, 1)
    yield cases.gaussian, GAUSS, y, cases.gaussian_reference
    for _ in range(3 * count):
        k = 5
        y = cases.normalised(10.0 ** rng.uniform(-14, 0, k))
        yield cases.categorical, np.zeros(k), y, cases.categorical_reference
    for _ in range(2 * count):
        y = cases.gamma_moments(10.0 ** rng.uniform(-3, 4), 10.0 ** rng.uniform(-3, 3))
        yield cases.gamma, np.array([0.0, -1.0]), y, cases.gamma_reference
    for _ in range(2 * count):
        y = 1 + 10.0 ** rng.uniform(-8, 6, 1)
        yield cases.truncated_poisson, np.zeros(1), y, cases.truncated_poisson_reference


@pytest.mark.parametrize("count", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_hostile_points(rng, dtype, count):
    tolerance = TOLERANCE[dtype.itemsize]
    converged = total = 0
    for psi, start, y, reference in hostile_points(rng, count):
        y = jax.tree.map(lambda v: np.asarray(v, dtype), y)
        try:
            exact, _ = reference(jax.tree.map(np.float64, y))
        except (ValueError, ZeroDivisionError):
            continue  # rounded out of the domain
        if isinstance(exact, cases.mp.mpc):
            continue
        solution = solve(psi, start, y, dtype)
        flat = zip(jax.tree.leaves(y), jax.tree.leaves(solution.maximiser), strict=True)
        inner = sum(np.sum(np.float64(a) * np.float64(b)) for a, b in flat)
        total += 1
        if code(solution) is Result.CONVERGED:
            converged += 1
            size = abs(inner) + abs(inner - float(exact))
            assert abs(float(solution.value) - float(exact)) <= tolerance * size
        else:
            assert dtype.itemsize == 4 or psi is cases.gaussian
    assert converged >= (0.9 if dtype.itemsize == 8 else 0.6) * total


# Interface


def test_pytree_functions_do_not_retrace(x64):
    traces = []

    @register_pytree
    @dataclass(frozen=True)
    class Counted:
        matrix: jax.Array

        def __call__(self, theta):
            traces.append(1)
            return theta @ self.matrix @ theta / 2

    y = jnp.array([1.0, 2.0])
    counts = []
    for scale in (1.0, 2.0, 5.0):
        solution = conjugate(Counted(scale * jnp.eye(2)), jnp.zeros(2))(y * scale)
        np.testing.assert_allclose(solution.value, 2.5 * scale, rtol=1e-12)
        counts.append(len(traces))
    assert counts[0] == counts[1] == counts[2]


def test_classes_of_equal_structure_are_told_apart(x64):
    """A user's dataclasses may be registered so that their structures are equal."""
    register = getattr(jax.tree_util, "register_dataclass")  # noqa: B009

    def scaled(factor):
        @dataclass(frozen=True)
        class Scaled:
            shift: jax.Array

            def __call__(self, theta):
                return factor * jnp.sum(jnp.exp(theta - self.shift))

        return register(Scaled)(jnp.zeros(()))

    functions = [scaled(float(factor)) for factor in range(1, 5)]
    first, second = map(jax.tree.structure, functions[:2])
    assert first == second  # or there is nothing to tell apart
    for factor, f in enumerate(functions, start=1):
        solution = conjugate(f, jnp.zeros(1), separable=True)(jnp.ones(1))
        np.testing.assert_allclose(solution.maximiser, -np.log(factor), atol=1e-14)


@pytest.mark.parametrize("options", [{}, {"separable": True}, {"method": "lbfgs"}])
def test_second_call_does_not_retrace(options):
    traces = []

    def counted(theta, params):
        traces.append(1)
        return jnp.sum(jnp.cosh(theta * params))

    counts = []
    for params in (1.0, 2.0, 3.0):
        conj = conjugate(counted, jnp.zeros(2), params=jnp.array(params), **options)
        before = len(traces)
        conj(jnp.array([0.5, params]))
        conj(jnp.array([0.1, -1.0]))
        counts.append(len(traces) - before)
    assert counts[0] > 0
    assert counts[1] == counts[2] == 0


def test_structure_and_warm_start(x64):
    start = {"a": jnp.zeros(2), "b": jnp.zeros(())}
    f = lambda t: jnp.sum(jnp.exp(t["a"])) + jnp.exp(2 * t["b"])
    y = {"a": jnp.array([2.0, 3.0]), "b": jnp.array(4.0)}
    conj = conjugate(f, start)
    solution = conj(y)
    want = {"a": jnp.log(y["a"]), "b": jnp.log(2.0) / 2}
    chex.assert_trees_all_close(solution.maximiser, want, atol=1e-13)
    again = conj(y, start=want)
    assert int(again.num_steps) <= 2
    chex.assert_trees_all_close(again.value, solution.value, rtol=1e-14)


def test_gauge_is_that_of_the_start(x64):
    y = jnp.array([0.1, 0.2, 0.7])
    conj = conjugate(cases.categorical, jnp.zeros(3))
    warm = jnp.array([5.0, 6.0, 7.0])
    np.testing.assert_allclose(jnp.sum(conj(y).maximiser), 0, atol=1e-13)
    solution = conj(y, start=warm)
    np.testing.assert_allclose(jnp.sum(solution.maximiser), 18, rtol=1e-13)
    np.testing.assert_allclose(solution.value, conj(y).value, rtol=1e-13)


def test_roundings_off_the_hull_are_projected(x64):
    y = jnp.array([0.1, 0.2, 0.7])
    conj = conjugate(cases.categorical, jnp.zeros(3))
    near = conj(y * (1 + 20 * np.finfo(float).eps))
    assert code(near) is Result.CONVERGED
    np.testing.assert_allclose(near.value, conj(y).value, rtol=1e-13)
    assert code(conj(y * (1 + 1e-12))) is Result.OUTSIDE


@pytest.mark.parametrize("method", ["newton", "scalar"])
def test_batches_with_bad_members(method, dtype):
    conj = conjugate(cases.poisson, jnp.zeros(2, dtype), method=method)
    good = jnp.asarray([[1.0, 3.0], [1e-4, 1e4]], dtype)
    bad = jnp.asarray([[np.nan, 1.0], [-1.0, 2.0], [0.0, 1.0]], dtype)
    batch = jax.vmap(conj)(jnp.concatenate([good, bad]))
    expected = [Result.CONVERGED] * 2 + [
        Result.INVALID, Result.OUTSIDE, Result.BOUNDARY,
    ]  # fmt: skip
    assert [Result(int(r)) for r in batch.result] == expected
    rtol = 8 * np.finfo(dtype).eps
    for i in range(2):
        single = conj(good[i])
        np.testing.assert_allclose(batch.value[i], single.value, rtol=rtol)
        np.testing.assert_allclose(batch.maximiser[i], single.maximiser, rtol=rtol)


def test_many_dimensions(x64, rng):
    y = rng.dirichlet(np.ones(2500))
    conj = conjugate(cases.categorical, jnp.zeros(2500))
    solution = conj(jnp.asarray(y))
    assert code(solution) is Result.CONVERGED
    np.testing.assert_allclose(solution.value, np.sum(y * np.log(y)), rtol=1e-10)


def test_flat_at_the_start_is_not_overcomplete(x64):
    """A curvature that vanishes at the start alone is no null direction."""
    solution = conjugate(lambda t: jnp.sum(t**4), jnp.zeros(2))(jnp.array([4.0, 0.5]))
    assert code(solution) is Result.CONVERGED
    np.testing.assert_allclose(solution.maximiser, [1.0, 0.5], rtol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"method": "magic"}, "`method` must be"), ({"max_steps": 0}, "`max_steps`")],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        conjugate(cases.poisson, jnp.zeros(1), **options)


def test_bad_arguments():
    conj = conjugate(cases.poisson, jnp.zeros(2))
    with pytest.raises(ValueError, match="`y` must have the shapes"):
        conj(jnp.zeros(3))
    with pytest.raises(ValueError, match="`start` must have the structure"):
        conj(jnp.zeros(2), start=(jnp.zeros(2),))
    with pytest.raises(ValueError, match="must return a scalar"):
        conjugate(jnp.exp, jnp.zeros(2))(jnp.zeros(2))
    with pytest.raises(TypeError, match="`f` must be callable"):
        conjugate(3, jnp.zeros(2))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="at least one number"):
        conjugate(cases.poisson, ())

"""Conjugates at the edge: boundary means, domains that end, infinite values.

Never a converged value that is wrong, an infinity for a finite value, or a finite value
for an infinite one; and few points left undecided.
"""

import itertools

import edge_families as families
import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from jax.scipy.special import logsumexp
from own_potentials import diagonal_gaussian
from scipy.special import xlogy

from bregjax import Result
from bregjax.convex import conjugate

TOLERANCE = {4: 1e-5, 8: 1e-10}
NB = families.negative_binomial
HALF, GUARDED = families.half_normal(), families.half_normal(guarded=True)
FIVE = [
    NB(3.7),
    families.POISSON,
    families.BERNOULLI,
    NB(2),
    families.TRUNCATED_POISSON,
]
ON_FACE, INSIDE = (0, 0, 0, 0, 1), (3, 2.5, 0.3, 1, 2.5)


def sweep(pieces, points, dtype, **options):
    """Solve at all points, none of them wrongly; returns the undecided."""
    psi, start, reference = families.product(*pieces)
    points = np.asarray(points, dtype)
    conj = conjugate(psi, jnp.asarray(start, dtype), **options)
    solution = jax.vmap(conj)(jnp.asarray(points))
    thetas = np.asarray(solution.maximiser, np.float64)
    assert np.all(np.isfinite(thetas))
    undecided, failures = [], []
    for y, value, theta, result in zip(
        points, np.asarray(solution.value), thetas, solution.result, strict=True
    ):
        exact, code = reference(y), Result(int(result))
        if np.isnan(value):
            good = code in {Result.STALLED, Result.STEP_LIMIT}
            undecided.append(y)
        elif exact == mp.inf:
            good = np.isposinf(value) and code in {Result.BOUNDARY, Result.OUTSIDE}
        else:
            inner = abs(float(np.sum(np.float64(y) * theta)))
            size = inner + abs(inner - float(exact)) + 1
            good = abs(float(value) - float(exact)) <= TOLERANCE[y.itemsize] * size
            good = good and code in {Result.CONVERGED, Result.BOUNDARY}
        if not good:
            failures.append((y, code, value, exact))
    assert not failures, failures
    return undecided


# Families, points, options, and how many points may stay undecided in single precision.
# The first three are those of ψ's as people write them.
QUICK = {
    "negative binomials": (
        [NB(2)] * 4, [(2, 12, 1, 0), (0, 8, 6, 8), (0, 0, 3, 1), (9, 1, 4, 2)], {}, 0,
    ),
    "negative binomials, guarded": (
        [NB(3.7, guarded=True)] * 2, [(0, 10), (12, 0), (0, 0), (3, 2), (-1, 2)], {}, 0,
    ),
    "half-normal": ([GUARDED], GUARDED.points, {}, 1),
    "box": ([families.BOX] * 2, [(1.5, 0.3), (30, -1e3), (0.2, 0.9), (-2, 0)], {}, 0),
    "box, separable": (
        [families.BOX], families.BOX.points, {"separable": True}, 0,
    ),
    "capped, separable": (
        [families.CAPPED] * 2, [(0, 40), (1.5, 0.2), (0.5, -0.1)],
        {"separable": True}, 0,
    ),
    "truncated exponential": (
        [families.TRUNCATED_EXPONENTIAL], families.TRUNCATED_EXPONENTIAL.points,
        {"separable": True}, 0,
    ),
    "truncated exponential, dense": (
        [families.TRUNCATED_EXPONENTIAL], [(0,), (1,), (0.3,), (-1e-3,)], {}, 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_edges(name, dtype):
    pieces, points, options, allowed = QUICK[name]
    undecided = sweep(pieces, points, dtype, **options)
    assert len(undecided) <= (0 if dtype.itemsize == 8 else allowed), undecided


def test_values_that_the_sweeps_compare_with():
    """Figures by hand, of points that are among those above."""
    for pieces, y, value in [
        ([NB(2)] * 4, (2, 12, 1, 0), -10.42376),
        ([GUARDED], (5, 25.5), -1.0724),
        ([GUARDED], (10, 150), -3.2271),
        ([families.BOX], (1.5,), 1.0),
    ]:
        _, _, reference = families.product(*pieces)
        assert float(reference(y)) == pytest.approx(value, abs=5e-5)
        points = [QUICK["negative binomials"][1], GUARDED.points, families.BOX.points]
        assert any(y in some for some in points)


# Means that were told wrong, or left undecided, once.
SINGLE = {
    "outside by less than the roundings of the others": (
        [NB(2), families.POISSON, GUARDED],
        [(-1e-3, -1e-3, 20, 401), (0, -1e-3, 20, 401), (1, -1e-3, 20, 401)],
        Result.OUTSIDE,
    ),
    "a logarithm beside a mean near it": (
        [families.TRUNCATED_EXPONENTIAL] * 2, [(0.9999, 1), (1, 0.9999)],
        Result.STALLED,
    ),
    "a slope of no digits beside a count of zero": (
        [NB(0.5)] * 2, [(1e4, 0)], Result.STALLED,
    ),
    "unsolved beside what drifts": (
        [NB(2), families.TRUNCATED_EXPONENTIAL, families.POISSON, families.BERNOULLI,
         families.CAPPED],
        [(7, 0.9999, 40, 1, 0), (100, 0.9999, 0, 0.5, 0), (1e4, 0.9999, 1e-5, 0, 0)],
        Result.STALLED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SINGLE)
def test_single_precision_says_what_it_cannot_tell(name):
    pieces, points, code = SINGLE[name]
    psi, start, _ = families.product(*pieces)
    with jax.enable_x64(False):
        solve = jax.vmap(conjugate(psi, jnp.asarray(start, jnp.float32)))
        found = solve(jnp.asarray(points, jnp.float32))
    assert {Result(int(result)) for result in found.result} == {code}


def _expm1(theta):
    return jnp.log(-jnp.expm1(theta))


def _log1p(theta):
    return jnp.log1p(-jnp.exp(theta))


def _log(theta):
    return jnp.log(1 - jnp.exp(theta))


@pytest.mark.parametrize("logarithm", [_expm1, _log1p, _log])
@pytest.mark.parametrize("outside", [np.inf, np.nan])
def test_one_guarded_coordinate(logarithm, outside, x64):
    """Negative binomial at 0 and just above, by the dense solver."""
    del x64

    def psi(theta):
        return jnp.where(theta[0] < 0, -2 * logarithm(theta[0]), outside)

    means = np.array([0, 1e-9, 1e-6, 1])
    found = jax.vmap(conjugate(psi, jnp.array([-1.0])))(jnp.asarray(means)[:, None])
    codes = [Result(int(result)) for result in found.result]
    assert codes == [Result.BOUNDARY] + [Result.CONVERGED] * 3
    logs = np.where(means > 0, means * np.log(np.where(means > 0, means, 1)), 0)
    exact = logs - (means + 2) * np.log1p(means / 2) - means * np.log(2)
    np.testing.assert_allclose(found.value, exact, rtol=1e-9, atol=2e-15)


def test_digits_that_the_derivative_loses_are_no_reason_to_stall(x64):
    """f′ as written has lost 8 digits next to 0, and the value none."""
    point = [(0.0029343694,), (1e-5,), (0.3,)]
    assert not sweep([families.CENTERED_EXPONENTIAL], point, x64, separable=True)


SLOW = {
    "faces of five": (
        FIVE, list(itertools.product(*zip(ON_FACE, INSIDE, strict=True))), True,
    ),
    "half-normal, plain": ([HALF], HALF.points, False),
    "capped": ([families.CAPPED] * 2, None, True),
    "boxes": ([families.BOX] * 2, None, True),
    "Bernoulli": ([families.BERNOULLI] * 2, None, True),
    "truncated exponentials": ([families.TRUNCATED_EXPONENTIAL] * 2, None, True),
    "exponential": ([families.exponential(guarded=True)] * 2, None, True),
    "negative binomial 0.5": ([NB(0.5)] * 2, None, True),
    "with a smooth one": ([NB(2), families.POISSON, GUARDED], None, False),
    "wall, logarithm and count": (
        [NB(2), families.exponential(), families.BOX], None, True,
    ),
    "all kinds": (
        [NB(2), families.TRUNCATED_EXPONENTIAL, families.POISSON, families.BERNOULLI,
         families.CAPPED], None, True,
    ),
}  # fmt: skip


# In single precision those of several kinds, and the half-normal.
MIXED = (
    "faces of five",
    "half-normal, plain",
    "with a smooth one",
    "wall, logarithm and count",
    "all kinds",
)
AT_LENGTH = [
    (name, method, precision)
    for name, (_, _, separable) in SLOW.items()
    for method in ("newton", "scalar")
    for precision in ("float32", "float64")
    if (method == "newton" or separable) and (precision == "float64" or name in MIXED)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method", "precision"), AT_LENGTH)
def test_edges_at_length(name, method, precision, rng):
    with jax.enable_x64(precision == "float64"):
        _edges_at_length(name, method, np.dtype(precision), rng)


def _edges_at_length(name, method, dtype, rng):
    pieces, points, _ = SLOW[name]
    if points is None:
        draw = lambda piece: piece.points[rng.integers(len(piece.points))]
        points = [np.concatenate([draw(piece) for piece in pieces]) for _ in range(60)]
    undecided = sweep(pieces, points, dtype, method=method)
    most = 0.25 if dtype.itemsize == 4 else 0.12
    assert len(undecided) <= most * len(points), undecided


@pytest.mark.slow
def test_digits_lost_beside_a_wall_are_no_boundary(x64):
    """Counts drift while ψ'' of the half-normal is 1e5 too large: −0.99852, not −1."""
    pieces = SLOW["with a smooth one"][0]
    points = [(0, 0, 1, 1.9), (0.3, 0, 1, 2.02), (0.3, 0, 1, 2.07), (0.3, 0, 1, 2.16)]
    _, _, reference = families.product(*pieces)
    assert float(reference(np.array(points[0]))) == pytest.approx(-0.99852, abs=1e-5)
    sweep(pieces, points, x64, method="newton")


def test_an_overshot_gaussian_is_at_no_wall(x64):
    """Half the way to the edge of dom ψ a variance has grown four times, not more."""
    mean = jnp.array([0.77380299, 0.22076498, 0.80284421, 0.83899814])
    warm = jnp.array([8.59781101, 2.45294424, -5.55555556, -5.55555556])
    solve = conjugate(diagonal_gaussian, jnp.array([0.0, 0.0, -0.5, -0.5]))
    solution = solve(mean, start=warm)
    assert solution.result == Result.CONVERGED
    variances = mean[2:] - mean[:2] ** 2
    np.testing.assert_allclose(solution.maximiser[2:], -0.5 / variances, rtol=1e-9)


BLOCKS = {  # means of three categories without the last, in each of three columns
    "no logarithm": [0.5, 0, 0, 0, 0.5, 0.5],
    "rounding alone": [1, 0, 1, 0, 0.5, 0.5],
    "drifting on": [1 / 3, 0, 1 / 3, 0, 2 / 3, 1 / 3],
    "not outside": [0, 0.2, 0.2, 0.4, 0.4, 0.4],
}


def test_several_categories_of_which_some_have_died_out():
    """Each was +∞, or stalled: a category that only the others' sum tells is gone."""

    def psi(theta):
        whole = jnp.concatenate([theta.reshape(3, 2), jnp.zeros((3, 1))], axis=1)
        return jnp.sum(logsumexp(whole, axis=1))

    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        means = np.array(list(BLOCKS.values()))
        solutions = jax.jit(jax.vmap(conjugate(psi, jnp.zeros(6))))(means)
        rest = np.round(1 - means.reshape(-1, 3, 2).sum(2), 12)
        shares = np.concatenate([means, rest], axis=1)
        right = np.sum(xlogy(shares, shares), axis=1)
        np.testing.assert_allclose(solutions.value, right, rtol=1e-10)
        assert set(solutions.result.tolist()) == {Result.BOUNDARY}

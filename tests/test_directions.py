"""Mean directions: Bessel functions to 40 digits, costs near the sphere, smoothing."""

from typing import Any

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import scipy.stats

import bregjax as bj
from bregjax import Result
from bregjax.convex import SphereCumulant, SphereEntropy
from bregjax.convex._bessel import bessel_parts, log_bessel, solve_mean_length
from bregjax.families import VonMisesFisher
from bregjax.smoothing._maps import Mixing

stats: Any = scipy.stats  # its stubs do not know frozen distributions
every_dimension = pytest.mark.parametrize("n", [2, 3, 4, 11, 64, 300])


def _mp_parts(n, kappa):
    """L, A and A' by mpmath, from I_ν alone."""
    nu = mp.mpf(n) / 2 - 1
    first, second = mp.besseli(nu, kappa), mp.besseli(nu + 1, kappa)
    value = mp.log(mp.gamma(nu + 1)) + nu * mp.log(2 / kappa) + mp.log(first)
    ratio = second / first
    return value, ratio, 1 - ratio**2 - (n - 1) * ratio / kappa


def _mp_kappa(n, length):
    start = length * (n - length**2) / (1 - length**2)
    return mp.findroot(lambda k: _mp_parts(n, k)[1] - length, start)


def _mp_value(n, length):
    kappa = _mp_kappa(n, length)
    return length * kappa - _mp_parts(n, kappa)[0]


# --- Bessel functions ----------------------------------------------------------------


@every_dimension
def test_parts_to_forty_digits(n, dtype):
    sizes = [1e-6, 1e-3, 0.3, 2, 9.9, 10.1, 29.9, 30.1, 300, 1e4, 1e6]
    kappa = np.array(sizes if dtype == np.float64 else sizes[1:-1])
    z = (kappa**2).astype(dtype)
    parts = bessel_parts(n / 2 - 1, jnp.asarray(z))
    eps = np.finfo(dtype).eps
    with mp.workdps(60):
        for k in range(len(z)):
            kappa = mp.sqrt(mp.mpf(float(z[k])))
            value, ratio, slope = _mp_parts(n, kappa)
            assert abs(float(parts.log_value[k]) - value) <= 8 * eps * value
            assert abs(float(parts.ratio[k]) * kappa - ratio) <= 8 * eps * ratio
            assert abs(float(parts.slope[k]) - slope) <= 250 * eps * slope


@every_dimension
def test_concentration_of_a_length_to_forty_digits(n, dtype):
    """By its image: κ itself is known to the rounding of 1 − ρ."""
    length = np.array([0, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.99, 1 - 1e-5]).astype(dtype)
    kappa = np.asarray(solve_mean_length(n / 2 - 1, jnp.asarray(length)), float)
    assert kappa[0] == 0
    with mp.workdps(40):
        for k in range(1, len(length)):
            image = _mp_parts(n, mp.mpf(kappa[k]))[1]
            exact = mp.mpf(float(length[k]))
            assert abs(image - exact) <= 4 * np.finfo(dtype).eps * exact


def test_derivatives_of_value_and_concentration(x64):
    z = jnp.array([0.0, 1e-8, 2.0, 400.0, 1e8])
    for order in (0.0, 0.5, 40.0):
        parts = bessel_parts(order, z)
        slope = jax.vmap(jax.grad(lambda t, o=order: log_bessel(o, t)))(z)
        np.testing.assert_allclose(slope, parts.ratio / 2, rtol=1e-14)
        length = jnp.sqrt(z) * parts.ratio
        by_length = jax.vmap(jax.grad(lambda t, o=order: solve_mean_length(o, t)))
        np.testing.assert_allclose(
            by_length(length)[:4], 1 / parts.slope[:4], rtol=1e-9
        )


# --- Divergences ---------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 64])
@pytest.mark.parametrize("length", [1e-5, 0.3, 0.99, 1 - 1e-6])
@pytest.mark.parametrize("gap", [1e-9, 1e-3, 0.5])
def test_divergence_along_and_across_to_forty_digits(n, length, gap, x64):
    """With e along y and t across it, δ = gap · (1 − ρ) (−e) and gap · ρ t."""
    y = np.zeros(n)
    y[0] = length
    with mp.workdps(40):
        rho = mp.mpf(length)
        kappa = _mp_kappa(n, rho)
        for axis, size in ((0, -gap * (1 - length)), (1, gap * length / 2)):
            delta = np.zeros(n)
            delta[axis] = size
            end = [
                mp.mpf(float(a)) + mp.mpf(float(d))
                for a, d in zip(y, delta, strict=True)
            ]
            norm: Any = mp.sqrt(sum(v * v for v in end))
            if norm > 1 - 1e-12:
                continue
            exact = _mp_value(n, norm) - _mp_value(n, rho) - kappa * mp.mpf(delta[0])
            value = float(SphereEntropy().remainder(y, delta))
            # Lengths near 1 are known to their rounding, which κ multiplies.
            bound = 1e-12 + 8 * 2.2e-16 * (1 + 1 / (1 - float(norm))) / gap
            assert abs(value - exact) <= min(bound, 1e-6) * exact


def test_two_clusters_far_from_each_other_in_float32(dtype):
    """Against mpmath, of means as rounded; opposite, equal and at an angle."""
    a = np.array([[0.9, 0.0, 0.0], [0.9, 0, 0], [0.999, 0, 0], [1e-3, 0, 0]], dtype)
    b = np.array([[-0.9, 0, 0], [0.9, 0, 0], [0, 0.999, 0], [0, 0.9, 0.1]], dtype)
    model = VonMisesFisher(3).cluster_model()
    states = [model.leaves(jnp.asarray(v), jnp.ones(4)) for v in (a, b)]
    costs = np.asarray(model.merge_cost(*states), float)
    with mp.workdps(40):
        for k in range(4):
            x, y = ([mp.mpf(float(v)) for v in row] for row in (a[k], b[k]))
            norm: Any = lambda v: mp.sqrt(sum(c * c for c in v))
            middle = norm([(p + q) / 2 for p, q in zip(x, y, strict=True)])
            of = lambda r: _mp_value(3, r) if r else mp.mpf(0)
            exact = of(norm(x)) + of(norm(y)) - 2 * of(middle)
            near_one = 1 / (1 - float(max(norm(x), norm(y))))
            bound = 30 * np.finfo(dtype).eps * near_one
            assert abs(costs[k] - exact) <= bound * exact


def test_gradients_at_the_center_and_between_equal_means(x64):
    f = SphereEntropy()
    np.testing.assert_allclose(f.gradient(np.zeros(4)), 0)
    hessian = jax.hessian(lambda d: f.remainder(jnp.zeros(4), d))(jnp.zeros(4))
    np.testing.assert_allclose(hessian, 4 * np.eye(4), rtol=1e-12, atol=1e-12)
    y = jnp.array([0.3, 0.1, 0.0])
    by_both = jax.grad(lambda y, d: f.remainder(y, d), argnums=(0, 1))
    for slope in by_both(y, jnp.zeros(3)):
        np.testing.assert_array_equal(slope, 0)
    psi = jax.hessian(lambda t: SphereCumulant()(t))(jnp.zeros(4))
    np.testing.assert_allclose(psi, np.eye(4) / 4, rtol=1e-14)


def test_short_means_beside_long_ones_keep_their_slopes(x64):
    f, y = SphereEntropy(), np.array([0.5, 0.0, 0.0])
    for tiny in (0.0, 1e-12, 1e-6):
        x = np.array([0.0, tiny, 0.0])
        exact = f.gradient(x) - f.gradient(y)
        rise = f.gradient_difference(y, x - y)
        np.testing.assert_allclose(rise, exact, rtol=1e-13, atol=1e-15)


# --- The family ----------------------------------------------------------------------


def _directions(rng, m, n):
    x = rng.normal(size=(m, n)) + 2 * np.eye(n)[rng.integers(0, 2, m)]
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("n", [2, 5])
def test_densities_are_those_of_scipy(n, rng, x64):
    x = _directions(rng, 5, n)
    for kappa in (0.1, 3.0, 500.0):
        mean = x[0]
        expected = (
            stats.vonmises(kappa, loc=np.arctan2(mean[1], mean[0])).logpdf(
                np.arctan2(x[:, 1], x[:, 0])
            )
            if n == 2
            else stats.vonmises_fisher(mean, kappa).logpdf(x)
        )
        family = VonMisesFisher(n)
        found = jax.vmap(family.log_prob, (0, None))(x, kappa * mean)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    off = VonMisesFisher(n).log_prob(1.1 * x[0], jnp.zeros(n))
    np.testing.assert_array_equal(off, -np.inf)


def test_cost_is_the_likelihood_lost_by_scipys_fit(rng):
    """Of two groups against all of them, each by SciPy's estimate."""
    x = _directions(rng, 40, 3)
    family = VonMisesFisher(3)
    model = family.cluster_model()
    with jax.enable_x64(True):
        parts = [jnp.asarray(p.mean(axis=0))[None] for p in (x[:15], x[15:])]
        a, b = (
            model.leaves(mean, jnp.array([float(size)]))
            for mean, size in zip(parts, (15, 25), strict=True)
        )
        cost = float(model.merge_cost(a, b)[0])
    fit = lambda rows: stats.vonmises_fisher(*stats.vonmises_fisher.fit(rows)).logpdf(
        rows
    )
    lost = fit(x[:15]).sum() + fit(x[15:]).sum() - fit(x).sum()
    np.testing.assert_allclose(cost, lost, rtol=1e-6)


def test_codes_and_limits_of_the_conjugate(dtype):
    family = VonMisesFisher(3)
    for mean, code in (
        ([0.0, 0.0, 0.0], Result.CONVERGED),
        ([0.6, 0.0, 0.79], Result.CONVERGED),
        ([0.6, 0.0, 0.8], Result.BOUNDARY),
        ([0.6, 0.1, 0.8], Result.OUTSIDE),
        ([np.nan, 0.0, 0.0], Result.INVALID),
    ):
        solution = family.conjugate(jnp.array(mean, dtype))
        assert Result(int(solution.result)) == code
        finite = bool(np.isfinite(solution.value))
        assert finite == (code == Result.CONVERGED)


@every_dimension
def test_auto_is_what_a_kernel_takes_from_the_mean(n, rng):
    """The amount by its definition, and the kernel's concentration by a formula."""
    x = _directions(rng, 80, n)
    smoothing = VonMisesFisher().for_data(x).default_smoothing(x, None)
    assert isinstance(smoothing, Mixing)
    d = n - 1
    spread = (1 - np.sum(x.mean(axis=0) ** 2)) / d
    square = spread * (4 / ((d + 2) * 80)) ** (2 / (d + 4))
    lost = float(1 - _mp_parts(n, mp.mpf(1 / square))[1])
    assert lost <= smoothing.amount <= 1.17 * lost
    np.testing.assert_array_equal(smoothing.center, np.zeros(n))
    counted = VonMisesFisher(n).default_smoothing(x, np.full(80, 2.0))  # pyright: ignore[reportArgumentType]
    twice = VonMisesFisher(n).default_smoothing(np.repeat(x, 2, axis=0), None)  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(counted.amount, twice.amount, rtol=1e-12)


def test_trees_do_not_depend_on_the_axes(rng):
    x = _directions(rng, 50, 4)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    before = bj.agglomerate(x, family="von_mises_fisher")
    after = bj.agglomerate(x @ turn, family="von_mises_fisher")
    np.testing.assert_array_equal(before.children, after.children)
    np.testing.assert_allclose(before.merge_costs, after.merge_costs, rtol=1e-9)
    low = bj.agglomerate(x.astype(np.float32), family="von_mises_fisher")
    np.testing.assert_array_equal(before.children, low.children)
    np.testing.assert_allclose(before.merge_costs, low.merge_costs, rtol=1e-4)


def test_equal_and_opposite_rows():
    x = np.array([[1.0, 0], [1, 0], [-1, 0], [0, 1]])
    tree = bj.agglomerate(x, family="von_mises_fisher")
    assert tree.merge_costs[0] == 0
    assert np.all(np.isfinite(tree.merge_costs))
    same = bj.agglomerate(x[:2], family="von_mises_fisher")
    assert same.merge_costs[0] == 0


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[0.6, 0.8], [2.0, 0.0]], r"length 1 .*; got 2.0 at row 1. Divide each row"),
        ([[0.0, 0.0], [1.0, 0.0]], r"got 0.0 at row 0.*drop rows of 0"),
        ([[1.0], [-1.0]], r"at least 2 columns.*numpy.cos"),
    ],
)
def test_rows_that_are_no_directions(x, message):
    with pytest.raises(ValueError, match=message):
        bj.agglomerate(x, family=VonMisesFisher())


def test_rows_need_smoothing():
    with pytest.raises(
        ValueError, match='row 0.*Pass smoothing="auto", or smoothing=m'
    ):
        bj.agglomerate(np.eye(3), family="von_mises_fisher", smoothing=None)


def test_rows_too_near_each_other_are_refused():
    """Their smoothing was that of equal rows: costs of 1e-15 in the place of 1."""
    x = np.array([[1.0, 0], [1, 1e-7], [1, 3e-7], [1, -2e-7]])
    with pytest.raises(ValueError, match="varies too little for VonMisesFisher: row 1"):
        bj.agglomerate(x, family="von_mises_fisher")

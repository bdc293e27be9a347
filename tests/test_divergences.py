"""The properties of Section 2 of the paper, on smooth functions and on kinks."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CONVEX
from scipy.optimize import minimize

from bregjax.convex import (
    Burg,
    L1Norm,
    LogSumExp,
    Max,
    MaxNorm,
    NegativeEntropy,
    NegativeLogDeterminant,
    SimplexEntropy,
    SquaredNorm,
)
from bregjax.divergences import (
    bregman_centroid,
    bregman_divergence,
    bregman_information,
    gordon_divergence,
    pairwise_bregman_divergence,
)

NAMES = list(CONVEX)
SMOOTH = [name for name in NAMES if CONVEX[name].make().differentiable]
CLOSED = [name for name in SMOOTH if name not in ("sum", "separable_sum")]
SINGULAR = [name for name in NAMES if len(CONVEX[name].edge) or len(CONVEX[name].kinks)]

all_functions = pytest.mark.parametrize("name", NAMES)
smooth_functions = pytest.mark.parametrize("name", SMOOTH)


def _references(case, rng, count):
    """Points where derivatives are taken: random ones, and kinks where there are."""
    y = case.sample(rng, count)
    return np.concatenate([y, case.kinks]) if len(case.kinks) else y


def _close(actual, expected, dtype, scale=1.0):
    tolerance = (1e-12 if dtype == np.float64 else 2e-5) * scale
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


# --- closed forms --------------------------------------------------------------------


def test_squared_norm_example(rng, dtype):
    x, y = rng.normal(size=(2, 5, 3)).astype(dtype)
    _close(bregman_divergence(SquaredNorm(), x, y), ((x - y) ** 2).sum(-1) / 2, dtype)


def test_kullback_leibler_and_itakura_saito(rng, dtype):
    x, y = rng.gamma(1.0, size=(2, 5, 3)).astype(dtype)
    kl = (x * np.log(x / y) - x + y).sum(-1)
    _close(bregman_divergence(NegativeEntropy(), x, y), kl, dtype, 10)
    ratio = x / y
    saito = (ratio - 1 - np.log(ratio)).sum(-1)
    _close(bregman_divergence(Burg(), x, y), saito, dtype, 10)


def test_kullback_leibler_with_zeros(dtype):
    # 0 log 0 = 0, and a reference of 0 costs +inf.
    x, y = np.array([0.4, 0, 0.6], dtype), np.array([0.45, 0, 0.55], dtype)
    for f in (NegativeEntropy(), SimplexEntropy()):
        value = bregman_divergence(f, x, y)
        kl = 0.4 * np.log(0.4 / 0.45) + 0.6 * np.log(0.6 / 0.55)
        assert float(value) == pytest.approx(kl, rel=1e-5)
        assert bregman_divergence(f, np.array([0.2, 0.2, 0.6], dtype), y) == np.inf


def test_l1_example_of_the_paper(dtype):
    # Example 2.2: 0 where the signs agree, 2|x| otherwise.
    numbers = np.array([-2, -0.5, 0, 1, 3], dtype)
    x, y = (grid.reshape(-1, 1) for grid in np.meshgrid(numbers, numbers))
    expected = np.where(x * y > 0, 0, 2 * abs(x)).sum(-1)
    np.testing.assert_array_equal(bregman_divergence(L1Norm(), x, y), expected)
    plain = bregman_divergence(lambda a: jnp.sum(jnp.abs(a)), x, y)
    np.testing.assert_allclose(plain, expected, atol=1e-6)


def test_the_derivative_is_taken_towards_y_minus_x(dtype):
    # With the other sign, f(x) − f(y) − f'(y; x − y), |·| would give 0 here.
    x, zero = np.array([[3.0], [-3.0]], dtype), np.array([0.0], dtype)
    for f in (L1Norm(), MaxNorm(), lambda a: jnp.abs(a[0])):
        np.testing.assert_array_equal(bregman_divergence(f, x, zero), [6, 6])


def test_spherical_costs_far_from_the_origin(dtype):
    # In differences that float32 can hold.
    x = np.array([[10000], [10000.5], [10001], [10010]], dtype)
    values = bregman_divergence(SquaredNorm(), x, x[:1])
    np.testing.assert_array_equal(values, [0, 0.125, 0.5, 50])


def test_near_points_keep_their_digits(dtype):
    # A plain difference of terms rounds this to nothing.
    p, q = np.array([0.3325, 0.6675], dtype), np.array([0.33251, 0.66749], dtype)
    middle = (p + q) / 2
    cost = bregman_divergence(NegativeEntropy(), np.stack([p, q]), middle).sum()
    bound = 1e-2 if dtype == np.float64 else 0.05
    assert float(cost) == pytest.approx(1.12640e-10, rel=bound)


# --- the properties of Section 2 -----------------------------------------------------


@all_functions
def test_non_negative_and_zero_at_the_reference(name, rng):
    case, f = CONVEX[name], CONVEX[name].make()
    y = _references(case, rng, 6).astype(np.float32)
    x = case.sample(rng, 6).astype(np.float32)
    values = bregman_divergence(f, x[:, None], y[None])
    assert values.shape == (6, len(y))
    assert (np.asarray(values) >= 0).all()
    assert np.isfinite(values).all()
    at_reference = np.asarray(bregman_divergence(f, y, y))
    np.testing.assert_allclose(at_reference, 0, atol=1e-12)
    if case.strict:
        assert (np.asarray(values) > 0).all()


@all_functions
def test_convex_in_the_first_argument(name, rng, x64):
    case, f = CONVEX[name], CONVEX[name].make()
    y = _references(case, rng, 6)[None]
    a, b = case.sample(rng, 6)[:, None], case.sample(rng, 6)[:, None]
    share = rng.uniform(0, 1, (6, 1) + (1,) * f.event_ndim)
    weight = share.reshape(6, 1)
    left, right = (np.asarray(bregman_divergence(f, x, y)) for x in (a, b))
    middle = bregman_divergence(f, share * a + (1 - share) * b, y)
    chord = weight * left + (1 - weight) * right
    assert (np.asarray(middle) <= chord + 1e-10 * (1 + chord)).all()


@pytest.mark.parametrize("name", CLOSED)
def test_duality(name, rng, dtype):
    # B_f(x, y) = B_f*(∇f(y), ∇f(x)).
    case, f = CONVEX[name], CONVEX[name].make()
    x, y = case.sample(rng, 6).astype(dtype), case.sample(rng, 6).astype(dtype)
    dual = bregman_divergence(f.conjugate(), f.gradient(y), f.gradient(x))
    scale = 1e3 if f.event_ndim == 2 else 50
    _close(bregman_divergence(f, x, y), dual, dtype, scale)


@smooth_functions
def test_gordon_at_the_gradient_is_the_bregman_divergence(name, rng, x64):
    case, f = CONVEX[name], CONVEX[name].make()
    x, y = case.sample(rng, 6), case.sample(rng, 6)
    gordon = gordon_divergence(f, x, f.gradient(y))
    _close(gordon, bregman_divergence(f, x, y), x64, 200)
    # Fenchel–Young: equality at the gradient itself.
    scale = 1 + np.abs(np.asarray(f(x))).max()
    _close(gordon_divergence(f, x, f.gradient(x)) / scale, 0, x64, 50)


def test_remark_on_the_largest_gordon_divergence(rng, dtype):
    # Remark 2.4: the subgradients of ‖·‖₁ at y are boxes, so the vertices attain it.
    f, y = L1Norm(), np.array([0, 2, 0], dtype)
    signs = [[-1, 1], [1], [-1, 1]]
    vertices = np.array(list(itertools.product(*signs)), dtype)
    x = rng.normal(size=(6, 3)).astype(dtype)
    gordon = np.asarray(gordon_divergence(f, x[:, None], vertices[None]))
    _close(bregman_divergence(f, x, y), gordon.max(1), dtype)
    inside = rng.uniform(-1, 1, (50, 3)).astype(dtype)
    inside[:, 1] = 1
    others = np.asarray(gordon_divergence(f, x[:, None], inside[None]))
    assert (others.max(1) <= gordon.max(1) + 1e-5).all()
    assert gordon_divergence(f, x[0], np.array([1.5, 0, 0], dtype)) == np.inf


def test_the_largest_gordon_divergence_of_a_maximum(dtype):
    # The subgradients of max at a tie: the hull of the unit vectors of the tied ones.
    y, x = np.array([2, 2, 0], dtype), np.array([0.5, -1, 3], dtype)
    units = np.eye(3, dtype=dtype)[:2]
    gordon = np.asarray(gordon_divergence(Max(), x, units))
    assert float(bregman_divergence(Max(), x, y)) == gordon.max() == 4


@pytest.mark.parametrize("f", [NegativeEntropy(), SquaredNorm(), Burg()])
def test_pythagoras_on_the_simplex(f, rng, x64):
    # B(x, y) ≥ B(x, y') + B(y', y), y' the projection of y found by SciPy.
    y = np.array([0.9, 0.4, 0.7])
    solution = minimize(
        lambda p: float(np.asarray(bregman_divergence(f, p, y))),
        np.full(3, 1 / 3),
        jac=lambda p: np.asarray(f.gradient_difference(y, p - y)),
        method="SLSQP",
        bounds=[(1e-9, 1)] * 3,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        options={"ftol": 1e-14},
    )
    projection = solution.x
    x = rng.dirichlet(np.ones(3), 20)
    direct = bregman_divergence(f, x, y)
    through = bregman_divergence(f, x, projection) + bregman_divergence(
        f, projection, y
    )
    # On an affine set (all of these projections have full support) it is an equality.
    np.testing.assert_allclose(direct, through, rtol=1e-5, atol=1e-7)


def test_pythagoras_is_an_inequality_on_a_box(rng, x64):
    f, y = NegativeEntropy(), np.array([2.0, 0.5, 3.0])
    projection = np.minimum(y, 1)  # separable: coordinate by coordinate
    x = rng.uniform(0, 1, (20, 3))
    direct = np.asarray(bregman_divergence(f, x, y))
    through = bregman_divergence(f, x, projection) + bregman_divergence(
        f, projection, y
    )
    assert (direct >= through - 1e-12).all()
    assert (direct > through + 1e-3).any()


@smooth_functions
def test_lemma_on_the_mean(name, rng, x64):
    # Lemma 3.5: Σ w B(x, y) = Σ w B(x, μ) + (Σ w) B(μ, y).
    case, f = CONVEX[name], CONVEX[name].make()
    x, y = case.sample(rng, 6), case.sample(rng, 1)[0]
    weights = rng.uniform(0.5, 2, 6)
    mean = bregman_centroid(f, x, weights)
    total = (weights * np.asarray(bregman_divergence(f, x, y))).sum()
    parts = bregman_information(f, x, weights) + weights.sum() * np.asarray(
        bregman_divergence(f, mean, y)
    )
    _close(total, parts, x64, 50)


# --- centroids, pairs, shapes --------------------------------------------------------


@pytest.mark.parametrize("name", ["negative_entropy", "log_det", "logistic", "burg"])
def test_centroids_minimise_the_total_divergence(name, rng, x64):
    case, f = CONVEX[name], CONVEX[name].make()
    x, weights = case.sample(rng, 6), rng.uniform(0.5, 2, 6)
    right = bregman_centroid(f, x, weights)
    left = bregman_centroid(f, x, weights, side="left")
    to_right = lambda c: (weights * bregman_divergence(f, x, c[None])).sum()
    from_left = lambda c: (weights * bregman_divergence(f, c[None], x)).sum()
    for total, center in ((to_right, right), (from_left, left)):
        for other in case.sample(rng, 6):
            for share in (1e-3, 0.3):
                moved = (1 - share) * center + share * other
                assert total(moved) > total(center)


def test_weights_of_zero_drop_their_points(x64):
    x = np.array([[1.0, 2.0], [3.0, 1.0], [-1.0, np.inf]])
    weights = np.array([1.0, 3.0, 0.0])
    f = NegativeEntropy()
    assert np.isfinite(bregman_information(f, x, weights))
    expected = bregman_information(f, x[:2], weights[:2])
    assert bregman_information(f, x, weights) == pytest.approx(float(expected))
    np.testing.assert_allclose(bregman_centroid(f, x, weights), [2.5, 1.25])


@pytest.mark.parametrize("name", ["negative_entropy", "log_det", "max_norm"])
def test_pairs(name, rng, x64, monkeypatch):
    case, f = CONVEX[name], CONVEX[name].make()
    x, y = case.sample(rng, 5), case.sample(rng, 3)
    values = pairwise_bregman_divergence(f, x, y)
    expected = bregman_divergence(f, x[:, None], y[None])
    _close(values, expected, x64, 10)
    monkeypatch.setattr("bregjax.divergences._BLOCK_ENTRIES", 2 * y.size)
    _close(pairwise_bregman_divergence(f, x, y), values, x64)


def test_shape_errors_name_the_shapes():
    f, x = SquaredNorm(), np.ones((4, 3))
    with pytest.raises(ValueError, match=r"must agree; got shapes \(4, 3\) and \(4,\)"):
        bregman_divergence(f, x, np.ones(4))
    with pytest.raises(ValueError, match="leading axes of points must broadcast"):
        bregman_divergence(f, x, np.ones((5, 3)))
    with pytest.raises(ValueError, match=r"last 1 axes .* got shapes \(\) and"):
        bregman_divergence(jnp.sum, 1.0, np.ones(3))
    with pytest.raises(ValueError, match="`y` must hold one leading axis of points"):
        pairwise_bregman_divergence(f, x, np.ones(3))
    with pytest.raises(ValueError, match=r"`weights` must .* got shape \(3,\)"):
        bregman_centroid(f, x, np.ones(3))
    with pytest.raises(ValueError, match="`x` must hold one leading axis"):
        bregman_information(NegativeLogDeterminant(), x)
    with pytest.raises(ValueError, match='`side` must be "right" or "left"'):
        bregman_centroid(f, x, side="middle")  # pyright: ignore[reportArgumentType]


# --- plain functions and derivatives -------------------------------------------------


def test_plain_functions_far_near_and_outside(rng, x64):
    def entropy(x):
        return jnp.sum(jnp.where(x > 0, x * jnp.log(jnp.where(x > 0, x, 1)), jnp.inf))

    y = rng.uniform(0.5, 2, (4, 3))
    for size in (1e-7, 1e-2, 0.4):
        x = y + size * rng.uniform(-1, 1, (4, 3))
        exact = bregman_divergence(NegativeEntropy(), x, y)
        np.testing.assert_allclose(bregman_divergence(entropy, x, y), exact, rtol=1e-12)
    assert bregman_divergence(entropy, -y[0], y[0]) == np.inf


def test_plain_function_with_kinks_and_slopes(x64):
    # ‖x‖₁ + logsumexp: the divergences add, in jit and vmap too.
    f = lambda x: jnp.sum(jnp.abs(x)) + jax.scipy.special.logsumexp(x)
    x, y = np.array([[1.0, -2], [0.5, 0]]), np.array([[0.0, 3], [0, 0]])
    parts = bregman_divergence(L1Norm(), x, y) + bregman_divergence(LogSumExp(), x, y)
    np.testing.assert_allclose(bregman_divergence(f, x, y), parts, rtol=1e-12)
    compiled = jax.jit(jax.vmap(lambda a, b: bregman_divergence(f, a, b)))
    np.testing.assert_allclose(compiled(x, y), parts, rtol=1e-12)


def test_gradients_by_the_reference_at_zeros_of_the_point(dtype):
    # KL(x, y) in y with sparse x: 1 − x/y, never NaN; in x: log(x/y).
    x, y = np.array([0, 2, 0], dtype), np.array([0.5, 1, 0], dtype)
    by_x, by_y = jax.grad(
        lambda a, b: bregman_divergence(NegativeEntropy(), a, b), (0, 1)
    )(x, y)
    np.testing.assert_allclose(by_x, [-np.inf, np.log(2), 0], rtol=1e-6)
    np.testing.assert_allclose(by_y, [1, -1, 0], rtol=1e-6)


def test_poisson_pair_with_a_pseudo_count(dtype):
    # Counts 0 and 6 with a added: value and slope at 0.5, the value and −inf at 0.
    def cost(a):
        parts = jnp.stack([a, a + 6])[:, None]
        return bregman_information(NegativeEntropy(-1.0), parts)

    value, slope = jax.value_and_grad(cost)(dtype.type(0.5))
    assert float(value) == pytest.approx(3.05079978, rel=1e-6)
    assert float(slope) == pytest.approx(-1.32687094, rel=1e-5)
    value, slope = jax.value_and_grad(cost)(dtype.type(0))
    assert float(value) == pytest.approx(4.15888308, rel=1e-6)
    assert slope == -np.inf


@pytest.mark.parametrize("name", SINGULAR)
def test_gradients_are_not_nan_at_zeros_and_ties(name, rng):
    case, f = CONVEX[name], CONVEX[name].make()
    x = case.edge if len(case.edge) else case.sample(rng, 1)
    y = case.kinks if len(case.kinks) else case.sample(rng, 1)
    total = lambda a, b: bregman_divergence(f, a[:, None], b[None]).sum()
    arguments = np.float32(x), np.float32(y)
    for gradient in jax.jit(jax.grad(total, (0, 1)))(*arguments):
        assert not np.isnan(gradient).any()

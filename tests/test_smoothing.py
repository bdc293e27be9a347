"""Smoothing maps: formulas, constraints, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from own_potentials import identity, truncated_poisson

from bregjax.clusters import Moments
from bregjax.clusters._moments import pool
from bregjax.convex import NegativeEntropy
from bregjax.families import ExponentialFamily
from bregjax.hierarchy import agglomerate
from bregjax.smoothing import (
    Constraint,
    adding,
    bernstein,
    blur,
    mixing,
    normal_reference,
    pseudo_count,
)
from bregjax.smoothing._maps import Blur


def test_normal_reference_by_hand(rng):
    x = rng.normal(size=(30, 4)) * [1, 10, 0.1, 5]
    h = x.std(axis=0, ddof=1) * (4 / (6 * 30)) ** (1 / 8)
    got = normal_reference(x, per_coordinate=True).bandwidth
    np.testing.assert_allclose(got, h, rtol=1e-12)
    np.testing.assert_allclose(normal_reference(x).bandwidth, h.mean(), rtol=1e-12)
    traced = jax.jit(lambda x: normal_reference(x).bandwidth)(jnp.asarray(x))
    np.testing.assert_allclose(traced, h.mean(), rtol=1e-5)


def test_normal_reference_of_constant_columns(rng):
    x = rng.normal(size=(30, 3))
    x[:, 1] = 7.3
    h = normal_reference(x, per_coordinate=True).bandwidth
    assert h[1] == 1
    np.testing.assert_allclose(normal_reference(x).bandwidth, h[[0, 2]].mean())
    assert normal_reference(np.full((5, 2), 0.1)).bandwidth == 1
    assert normal_reference(np.ones((1, 2))).bandwidth == 1


def test_normal_reference_of_weights_is_of_repeated_rows(rng):
    x = rng.normal(size=(10, 2))
    counts = rng.integers(1, 4, size=10)
    weighted = normal_reference(x, weights=counts).bandwidth
    repeated = normal_reference(np.repeat(x, counts, axis=0)).bandwidth
    np.testing.assert_allclose(weighted, repeated, rtol=1e-12)


def test_a_constant_column_changes_no_tree(rng):
    """Any bandwidth of a constant column gives the same costs."""
    x = rng.normal(size=(24, 2))
    wide = np.column_stack([x, np.full(24, 3.7)])
    bare = agglomerate(x, family="diagonal_gaussian", smoothing=blur([0.3, 0.4]))
    for h in (1e-3, 1.0, 1e3):
        tree = agglomerate(
            wide, family="diagonal_gaussian", smoothing=blur([0.3, 0.4, h])
        )
        np.testing.assert_array_equal(tree.children, bare.children)
        np.testing.assert_allclose(tree.merge_costs, bare.merge_costs, rtol=1e-12)


@pytest.mark.parametrize("family", ["gaussian", "isotropic_gaussian"])
def test_units_change_no_tree(family, rng):
    x = rng.normal(size=(24, 2))
    wide = np.column_stack([x, np.full(24, 3.7)])
    base = agglomerate(wide, family=family)
    for unit in (1e-6, 1e6):
        tree = agglomerate(unit * wide, family=family)
        np.testing.assert_array_equal(tree.children, base.children)
        np.testing.assert_allclose(tree.merge_costs, base.merge_costs, rtol=1e-6)


def test_bernstein_by_hand():
    smoothing = bernstein(4, 100, delta=0.1)
    b = np.sqrt(2 * 0.25 * 0.75 * np.log(10) / 100) + np.log(10) / 300
    np.testing.assert_allclose(smoothing.amount, 4 * b / (1 + 4 * b), rtol=1e-12)
    # An empty category ends at b / (1 + 4 b): what adding b and normalising gives.
    empty, _ = smoothing(jnp.array([[1.0, 0, 0, 0]]), jnp.ones(1))
    np.testing.assert_allclose(empty[0, 1], b / (1 + 4 * b), rtol=1e-5)
    assert bernstein(4, 10**8).amount < 1e-3


def test_mixing_moments_by_hand(rng):
    x, center = rng.normal(size=(5, 2)), rng.normal(size=2)
    scatter = np.array([[2.0, 0.5], [0.5, 1.0]])
    alpha = 0.3
    leaves = Moments(jnp.asarray(x), jnp.zeros((5, 2, 2)), "full")
    mixed, weights = mixing(
        Moments(jnp.asarray(center), jnp.asarray(scatter), "full"), alpha
    )(leaves, jnp.ones(5))
    gap = x - center
    expected = alpha * scatter + alpha * (1 - alpha) * (
        gap[:, :, None] * gap[:, None, :]
    )
    np.testing.assert_allclose(mixed.mean, x - alpha * gap, rtol=1e-5)
    np.testing.assert_allclose(mixed.covariance, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(weights, np.ones(5))


@pytest.mark.parametrize("form", ["full", "diagonal", "spherical"])
def test_pooling_moments_is_that_of_the_points(form, rng, x64):
    del x64
    x = rng.normal(size=(7, 3)) + 100
    shape = {"full": (7, 3, 3), "diagonal": (7, 3), "spherical": (7,)}[form]
    points = Moments(jnp.asarray(x), jnp.zeros(shape), form)
    take = lambda i: jax.tree.map(lambda leaf: leaf[i], points)
    union, weight = take(0), jnp.ones(())
    for i in range(1, 7):
        union = pool(weight, union, jnp.ones(()), take(i))
        weight = weight + 1
    covariance = np.cov(x.T, ddof=0)
    expected = {
        "full": covariance,
        "diagonal": np.diag(covariance),
        "spherical": np.trace(covariance) / 3,
    }[form]
    np.testing.assert_allclose(union.mean, x.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(union.covariance, expected, rtol=1e-10)


@pytest.mark.parametrize("form", ["full", "diagonal", "spherical"])
def test_blurs(form, x64):
    del x64
    shape = {"full": (1, 2, 2), "diagonal": (1, 2), "spherical": (1,)}[form]
    point = Moments(jnp.ones((1, 2)), jnp.zeros(shape), form)
    factor = np.array([[1.0, 0.0], [0.5, 2.0]])
    for bandwidth, kernel in [
        (0.5, 0.25 * np.eye(2)),
        ([0.5, 2.0], np.diag([0.25, 4.0])),
        (factor, factor @ factor.T),
    ]:
        blurred, _ = blur(bandwidth)(point, jnp.ones(1))
        expected = {
            "full": kernel,
            "diagonal": np.diag(kernel),
            "spherical": np.trace(kernel) / 2,
        }[form]
        np.testing.assert_allclose(blurred.covariance[0], expected, rtol=1e-14)


def test_constraints_have_the_structure_of_the_map():
    center = Moments(jnp.zeros(2), jnp.eye(2), "full")
    kinds = (Constraint.REAL, Constraint.POSITIVE_DEFINITE)
    for smoothing, expected in [
        (blur(0.5), [Constraint.POSITIVE]),
        (blur(np.eye(2)), [Constraint.INVERTIBLE]),
        (bernstein(3, 10), [Constraint.SIMPLEX, Constraint.UNIT_INTERVAL]),
        (
            mixing(center, 0.1, center_constraint=kinds),
            [*kinds, Constraint.UNIT_INTERVAL],
        ),
        (pseudo_count(np.ones(2), 1.0), [Constraint.FIXED, Constraint.POSITIVE]),
        (adding(np.ones(2), 1.0), [Constraint.FIXED, Constraint.POSITIVE]),
    ]:
        constraints = smoothing.constraints()
        assert jax.tree.leaves(constraints) == expected
        assert jax.tree.structure(constraints) == jax.tree.structure(smoothing)


def test_duplicates_and_few_points_cost_finite_amounts(rng):
    x = np.repeat(rng.normal(size=(4, 6)), 3, axis=0)
    for family in ("gaussian", "diagonal_gaussian", "isotropic_gaussian"):
        tree = agglomerate(x, family=family)
        assert np.all(np.isfinite(tree.merge_costs))
        np.testing.assert_allclose(np.sort(tree.merge_costs)[:8], 0, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: blur(-1.0), "`bandwidth` must be positive"),
        (lambda: blur(np.ones((2, 3))), "square factor"),
        (lambda: mixing(np.ones(2), 1.0), "strictly between 0 and 1"),
        (lambda: pseudo_count(np.ones(2), 0), "`count` must be positive"),
        (lambda: mixing(np.ones(2), [0.1, 0.2]), "one number for all points"),
        (lambda: adding(np.ones(2), -1), "`amount` must be positive"),
        (lambda: bernstein(1, 10), "at least 2"),
        (lambda: bernstein(3, 0), "`sample_size` must be positive"),
        (lambda: bernstein(3, 10, delta=1.0), "`delta` must be strictly"),
        (lambda: normal_reference(np.ones(5)), r"x\[:, None\]"),
        (lambda: normal_reference([[1.0], [np.inf]]), "finite; got inf at row 1"),
        (
            lambda: normal_reference(np.eye(2), weights=[0.1, 0.2]),
            "a sum of 0.3",
        ),
        (
            lambda: adding(Moments(jnp.ones(2), jnp.eye(2), "full")),
            "must have mean 0",
        ),
        (
            lambda: adding(Moments(jnp.zeros(2), jnp.zeros((2, 2)), "full")),
            "positive definite",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_gaussian_centers_must_be_moments(rng):
    x = rng.normal(size=(4, 2))
    with pytest.raises(TypeError, match="`center` must be Moments"):
        agglomerate(x, family="gaussian", smoothing=mixing(np.ones(2), 0.1))


def test_gaussian_centers_must_be_of_the_familys_form(rng):
    x = rng.normal(size=(4, 2))
    center = Moments(jnp.zeros(2), jnp.ones(()), "spherical")
    with pytest.raises(ValueError, match="must be full moments"):
        agglomerate(x, family="gaussian", smoothing=mixing(center, 0.3))


# --- Centers and the model that they meet --------------------------------------------

PROPORTIONS = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3], [0.0, 0.4, 0.6]])
COUNTS = np.array([[1.0, 2.0], [3.0, 1.0], [2.0, 6.0]])


def _entropy(x):
    return jnp.sum(x * jnp.log(x))


TRUNCATED = ExponentialFamily(truncated_poisson, identity, np.zeros(2), separable=True)
CATEGORICAL = ExponentialFamily(jax.scipy.special.logsumexp, identity, np.zeros(3))


@pytest.mark.parametrize("make", [mixing, pseudo_count])
@pytest.mark.parametrize(
    ("family", "x", "center", "message"),
    [
        ("multinomial", PROPORTIONS, np.ones(3), "Divide it by its sum"),
        (
            "multinomial",
            PROPORTIONS,
            [0.5, 0.7, -0.2],
            r"\[ 0.5  0.7 -0.2\], which lies",
        ),
        ("bernoulli", COUNTS > 1, [1.5, 0.5], r"natural_init\), \[0.5 0.5\]"),
        ("poisson", COUNTS, [-1.0, 5.0], "mean domain of Poisson"),
        ("exponential", COUNTS, [-1.0, 5.0], "mean domain of Exponential"),
        ("gamma", COUNTS, (np.ones(2), np.ones(2)), "mean domain of Gamma"),
        (
            "inverse_gaussian",
            COUNTS,
            (np.ones(2), np.full(2, 0.9)),
            "mean domain of InverseGaussian",
        ),
        (
            "gaussian",
            COUNTS,
            Moments(np.full(2, 1e6), -np.eye(2), "full"),  # pyright: ignore[reportArgumentType]
            "positive definite covariance for Gaussian",
        ),
        (TRUNCATED, COUNTS, [0.5, 2.0], "mean domain of ExponentialFamily"),
        (_entropy, PROPORTIONS, [-1.0, 1.0, 1.0], "domain of the function"),
        ("multinomial", PROPORTIONS, [0.5, 0.5], r"of shape \(3,\) for Multinomial"),
        ("gamma", COUNTS, np.ones(2), "the form of the statistics of one row"),
        ("poisson", COUNTS, (0.5, 0.5), "Pass an array"),
        ("poisson", COUNTS, [np.nan, 1.0], "`center` must be finite"),
    ],
)
def test_centers_outside_the_mean_domain_are_refused(make, family, x, center, message):
    smoothing = make(_numbers(center), 0.01)
    with pytest.raises(ValueError, match=message) as error:
        agglomerate(np.asarray(x, float), family=family, smoothing=smoothing)
    assert str(error.value).startswith("`center` must")


@pytest.mark.parametrize("make", [mixing, pseudo_count])
@pytest.mark.parametrize(
    ("family", "x", "center", "message"),
    [
        ("multinomial", PROPORTIONS, [1.0, 0, 0], r"center\[1\] = 0\. Mix some of"),
        ("multinomial", PROPORTIONS, [0.5, 0.5, 0], r"center\[2\] = 0\."),
        # In float64 these do not add up to 1.
        (
            "multinomial",
            PROPORTIONS,
            np.array([1 / 3, 0, 2 / 3], np.float32),
            r"center\[1\] = 0",
        ),
        ("bernoulli", COUNTS > 1, [0.5, 1.0], r"center\[1\] = 1\."),
        ("poisson", COUNTS, [0.0, 5.0], r"center\[0\] = 0\."),
        ("exponential", COUNTS, [3.0, 0.0], r"center\[1\] = 0\."),
        ("gamma", COUNTS, (np.zeros(2), np.array([2.0, 1.0])), r"center\[.\]\[1\] = "),
        (TRUNCATED, COUNTS, [1.0, 2.0], r"center\[0\] = 1\."),
        (NegativeEntropy(), PROPORTIONS, [0.5, 0.5, 0], r"center\[2\] = 0\."),
        (
            "gaussian",
            COUNTS,
            Moments(np.ones(2), np.diag([1.0, 0.0]), "full"),  # pyright: ignore[reportArgumentType]
            "singular. Take a positive definite one",
        ),
    ],
)
def test_centers_on_the_boundary_are_refused(make, family, x, center, message):
    """Theorem 5.2: rows on the center's face would stay on the boundary."""
    smoothing = make(_numbers(center), 0.01)
    with pytest.raises(ValueError, match=message) as error:
        agglomerate(np.asarray(x, float), family=family, smoothing=smoothing)
    text = str(error.value)
    assert text.startswith("`center` must lie in the relative interior of the mean")


def _numbers(center):
    return np.array(center) if isinstance(center, list) else center


def test_the_sum_is_named_only_where_it_must_be_1():
    smoothing = mixing(np.array([1.5, 0.5]), 0.1)
    with pytest.raises(ValueError, match="`center` must lie") as error:
        agglomerate(COUNTS > 1, family="bernoulli", smoothing=smoothing)
    assert "sum" not in str(error.value)


@pytest.mark.slow
def test_a_center_off_the_hull_of_any_psi_is_refused():
    smoothing = pseudo_count(np.ones(3), 1.0)
    with pytest.raises(ValueError, match="Divide it by its sum"):
        agglomerate(PROPORTIONS, family=CATEGORICAL, smoothing=smoothing)


@pytest.mark.parametrize(
    ("family", "x", "center"),
    [
        ("multinomial", PROPORTIONS, [1.0, 1.0, 1.0]),
        ("exponential", COUNTS, [1.0, -2.0]),
        ("gamma", COUNTS, (np.ones(2), np.zeros(2))),
        ("inverse_gaussian", COUNTS, (np.ones(2), np.full(2, -2.0))),
    ],
)
def test_directions_that_lead_out_of_the_mean_domain_are_refused(family, x, center):
    with pytest.raises(ValueError, match="`center` must be a direction"):
        agglomerate(x, family=family, smoothing=adding(_numbers(center), 1.0))


@pytest.mark.parametrize(
    ("family", "x", "smoothing"),
    [
        # Of single precision, near the boundary, one number for all columns, of 49,999.
        ("multinomial", PROPORTIONS, mixing(jnp.ones(3) / 3, 0.1)),
        ("multinomial", PROPORTIONS, mixing(np.array([0.5, 0.5 - 1e-9, 1e-9]), 0.1)),
        ("bernoulli", COUNTS > 1, mixing(0.5, 0.1)),
        ("multinomial", np.eye(2, 49_999), bernstein(49_999, 10)),
        ("poisson", COUNTS, adding(np.array([1.0, 0.5]), 0.1)),
        ("ward", COUNTS, mixing(np.array([-1e6, 1e6]), 0.1)),
        (_entropy, PROPORTIONS, adding(np.ones(3), 0.01)),
        (_entropy, PROPORTIONS, mixing(1 / 3, 0.01)),
        (
            "isotropic_gaussian",
            COUNTS,
            mixing(Moments(np.ones(2), np.array(2.0), "spherical"), 0.1),  # pyright: ignore[reportArgumentType]
        ),
    ],
)
def test_centers_inside_pass(family, x, smoothing):
    x = np.asarray(x, float)
    assert agglomerate(x, family=family, smoothing=smoothing).merge_costs.sum() > 0


def test_a_center_is_checked_beside_traced_weights():
    def cost(center):
        call = lambda w: agglomerate(
            PROPORTIONS, family="multinomial", smoothing=mixing(center, 0.1), weights=w
        ).merge_costs.sum()
        return jax.jit(call)(jnp.ones(3))

    assert cost(np.ones(3) / 3) > 0
    with pytest.raises(ValueError, match="Divide it by its sum"):
        cost(np.ones(3))


def test_a_map_is_a_pytree_of_its_numbers():
    smoothing = Blur(jnp.array([1.0, 2.0]))
    doubled = jax.tree.map(lambda leaf: 2 * leaf, smoothing)
    np.testing.assert_array_equal(doubled.bandwidth, [2, 4])


def test_bandwidths_under_strict_promotion():
    x = np.array([[0.0, 1], [2, 5], [3, 3]])
    with jax.numpy_dtype_promotion("strict"):
        bandwidth = jax.jit(lambda x: normal_reference(x).bandwidth)(jnp.asarray(x))
    np.testing.assert_allclose(bandwidth, normal_reference(x).bandwidth, rtol=1e-6)

"""Cluster costs of hostile numbers, against many digits and heights by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import own_potentials
import pytest
from cluster_states import PLAIN_POISSON, merge_cost, pair_cost_jit, take
from many_digits import exact_cost, mp_burg, mp_entropy, mp_truncated
from own_potentials import identity

from bregjax.clusters import Moments, NaturalModel
from bregjax.families import (
    DiagonalGaussian,
    Exponential,
    ExponentialFamily,
    Gaussian,
    IsotropicGaussian,
    Multinomial,
    Poisson,
    SphericalGaussian,
)
from bregjax.smoothing import blur

TRUNCATED = ExponentialFamily(
    own_potentials.truncated_poisson, identity, np.zeros(1), separable=True
)
NEAR = {
    "poisson": (Poisson(2).cluster_model(), [3.0, 1e6], mp_entropy, 1e-12),
    "multinomial": (
        Multinomial(2).cluster_model(),
        [0.3325, 0.6675],
        mp_entropy,
        1e-12,
    ),
    "exponential": (Exponential(2).cluster_model(), [3.0, 1e-6], mp_burg, 1e-12),
    "plain_poisson": (NaturalModel(PLAIN_POISSON), [3.0, 1e6], mp_entropy, 1e-8),
    "truncated": (NaturalModel(TRUNCATED), [3.0], mp_truncated, 1e-8),
}


@pytest.mark.parametrize("name", NEAR)
@pytest.mark.parametrize("gap", [1e-10, 1e-6, 1e-2])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (1e12, 2.0)])
def test_near_clusters_keep_their_digits(name, gap, weights, x64):
    model, point, value, tolerance = NEAR[name]
    a = np.array(point)
    b = a * (1 + gap * np.array([1.0, -0.5])[: len(a)])
    cost = pair_cost_jit(model, jnp.stack([a, b]), np.array(weights))
    expected = exact_cost(value, weights, a, b)
    np.testing.assert_allclose(cost, expected, rtol=tolerance)


@pytest.mark.parametrize("form", ["full", "diagonal", "spherical"])
@pytest.mark.parametrize("gap", [1e-10, 1e-5, 0.3])
@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_gaussians_near_far_from_the_origin_and_in_any_unit(
    form, gap, offset, scale, x64
):
    """Covariances a relative `gap` apart; offsets and units change nothing."""
    family = {
        "full": Gaussian,
        "diagonal": DiagonalGaussian,
        "spherical": IsotropicGaussian,
    }[form](2)
    base = np.array([[2.0, 0.5], [0.5, 1.0]])
    other = base + gap * np.array([[0.5, -0.2], [-0.2, 0.3]])
    shrink = {
        "full": lambda s: s,
        "diagonal": np.diagonal,
        "spherical": lambda s: np.trace(s) / 2,
    }[form]
    step = gap * np.array([0.5, 0.25])
    means = scale * np.stack([offset * np.ones(2), offset + step])
    delta = (means[1] - means[0]) / scale  # as rounded
    covariances = scale**2 * np.stack([shrink(base), shrink(other)])
    model, weights = family.cluster_model(), np.array([3.0, 2.0])
    leaves = model.leaves(Moments(means, covariances, form), weights)
    cost = float(model.merge_cost(take(leaves, [0]), take(leaves, [1]))[0])

    def matrix(values):
        full = {
            "full": lambda v: v,
            "diagonal": np.diag,
            "spherical": lambda v: v * np.eye(2),
        }
        return mp.matrix((full[form](values)).tolist())

    parts = [matrix(c) / mp.mpf(float(scale)) ** 2 for c in covariances]
    move = mp.matrix([mp.mpf(float(v)) for v in delta])
    between = move * move.T * mp.mpf(6) / 25
    if form == "diagonal":
        between = mp.diag([between[i, i] for i in range(2)])
    if form == "spherical":
        between = mp.diag([(between[0, 0] + between[1, 1]) / 2] * 2)
    pooled = (3 * parts[0] + 2 * parts[1]) / 5 + between
    log_dets = [mp.log(mp.det(part)) for part in (*parts, pooled)]
    expected = float((5 * log_dets[2] - 3 * log_dets[0] - 2 * log_dets[1]) / 2)
    np.testing.assert_allclose(cost, expected, rtol=3e-5 if gap < 1e-9 else 1e-8)


def test_field_cases_of_counts_and_categories(x64):
    """Heights worked by hand: zero columns, zero counts, large counts, integers."""
    multinomial = Multinomial(3).cluster_model()
    rows = jnp.array([[0.4, 0, 0.6], [0.5, 0, 0.5]])
    np.testing.assert_allclose(
        pair_cost_jit(multinomial, rows, jnp.ones(2)), 0.01011878, rtol=1e-6
    )
    narrow = Multinomial(2).cluster_model()
    np.testing.assert_array_equal(
        pair_cost_jit(narrow, rows[:, ::2], jnp.ones(2)),
        pair_cost_jit(multinomial, rows, jnp.ones(2)),
    )
    poisson = Poisson(1).cluster_model()
    large = jnp.array([[16777216.0], [16777217.0]])
    np.testing.assert_allclose(
        pair_cost_jit(poisson, large, jnp.ones(2)), 1.49011608e-8, rtol=1e-6
    )
    for kind in (np.float64, np.int32, np.int64, np.uint16):
        counts: Any = np.array([[60000], [30000]], kind)
        statistics = Poisson(1).leaf_statistics(counts)
        cost = pair_cost_jit(poisson, statistics, jnp.array([2.0, 1.0]))
        np.testing.assert_allclose(cost, 6553.81810229, rtol=1e-11)


def test_costs_in_float32_never_go_below_zero():
    """Close proportions, and spherical Gaussians far from the origin."""
    near = jnp.array([[0.3325, 0.6675], [0.33251, 0.66749]])
    cost = pair_cost_jit(Multinomial(2).cluster_model(), near, jnp.ones(2))
    assert 0 <= cost <= 1e-6
    far = jnp.array([[10000.0], [10000.5]])
    ward = SphericalGaussian(dim=1).cluster_model()
    np.testing.assert_array_equal(pair_cost_jit(ward, far, jnp.ones(2)), 0.0625)
    diagonal = DiagonalGaussian(1)
    leaves = blur(1.0)(diagonal.leaf_statistics(far), jnp.ones(2))[0]
    np.testing.assert_allclose(
        pair_cost_jit(diagonal.cluster_model(), leaves, jnp.ones(2)),
        np.log1p(0.0625),
        rtol=1e-6,
    )


def test_points_fewer_than_dimensions(rng, x64):
    """Six points in ten dimensions: all merges add up to the closed form."""
    x, ridge = rng.normal(size=(6, 10)), 0.1
    family = Gaussian(10)
    model = family.cluster_model()
    statistics = blur(ridge**0.5)(family.leaf_statistics(x), jnp.ones(6))[0]
    leaves = model.leaves(statistics, jnp.ones(6))
    union, whole, total = jax.jit(model.union), take(leaves, [0]), 0.0
    for i in range(1, 6):
        cost = merge_cost(model, whole, take(leaves, [i]))[0]
        assert cost >= 0
        total += cost
        whole = union(whole, take(leaves, [i]))
    covariance = np.cov(x.T, ddof=0) + ridge * np.eye(10)
    expected = 3 * (np.linalg.slogdet(covariance)[1] - 10 * np.log(ridge))
    np.testing.assert_allclose(total, expected, rtol=1e-12)

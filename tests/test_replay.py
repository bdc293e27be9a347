"""Costs of a given tree: values, and derivatives against finite differences."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from own_potentials import identity, negative_binomial

from bregjax import Problem
from bregjax.convex import L1Norm, Mahalanobis
from bregjax.families import (
    DiagonalGaussian,
    ExponentialFamily,
    Gamma,
    Gaussian,
    InverseGaussian,
    Multinomial,
    Poisson,
    SphericalGaussian,
)
from bregjax.hierarchy import agglomerate, cluster_cost, merge_cost, replay
from bregjax.smoothing import adding, blur, mixing, pseudo_count

M, D = 12, 2


def difference(function, x, step=1e-6):
    """Central differences of a scalar function, entry by entry."""
    x = np.asarray(x, dtype=float)
    out = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[index] = step * max(1.0, abs(x[index]))
        size = moved[index]
        out[index] = (function(x + moved) - function(x - moved)) / (2 * size)
    return out


def data(family, rng):
    if family == "poisson":
        return rng.poisson(5, size=(M, D)) + 0.5
    if family == "multinomial":
        return rng.dirichlet(np.ones(3), size=M)
    return rng.normal(size=(M, D)) + 10


CASES = {
    "gaussian": (Gaussian(), blur(0.7)),
    "diagonal_gaussian": (DiagonalGaussian(), blur([0.5, 0.8])),
    "poisson": (Poisson(), None),
    "multinomial": (Multinomial(), mixing(np.ones(3) / 3, 0.1)),
    "ward": (SphericalGaussian(variance=1.7), None),
    "gamma": (Gamma(), adding((np.array([-0.1, -0.3]), np.zeros(2)))),
    "inverse_gaussian": (InverseGaussian(), adding((np.zeros(2), np.ones(2)), 0.01)),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_gradients(name, rng, x64):
    """A random combination of the costs: their plain sum can't see the tree."""
    del x64
    family, smoothing = CASES[name]
    x = data(name, rng)
    weights = rng.uniform(1, 3, size=M)
    problem = Problem(x, family=family, smoothing=smoothing, weights=weights)
    tree = agglomerate(problem)
    r = rng.normal(size=M - 1)

    @jax.jit
    @jax.value_and_grad
    def loss(problem):
        return jnp.vdot(r, replay(problem, tree))

    value, gradient = loss(problem)
    eager = replay(problem, tree)
    np.testing.assert_allclose(eager, tree.merge_costs, rtol=1e-12)
    np.testing.assert_allclose(value, r @ eager, rtol=1e-11)
    flat, structure = jax.tree.flatten(problem)
    for k, got in enumerate(jax.tree.leaves(gradient)):

        def along(value, k=k):
            leaves = [*flat[:k], jnp.asarray(value), *flat[k + 1 :]]
            return loss(jax.tree.unflatten(structure, leaves))[0]

        expected = difference(along, flat[k])
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_a_bandwidth_by_hand(x64):
    """Variance 53.36 and ε: the heights add up to 5/2 log(1 + 53.36/ε)."""
    del x64
    x = np.array([[0.0], [1.0], [3.0], [7.0], [20.0]])
    problem = Problem(x, family="gaussian", smoothing=blur(1.0))
    tree = agglomerate(problem)

    def total(epsilon):
        moved = problem.replace(smoothing=blur(jnp.sqrt(epsilon)))
        return jnp.sum(replay(moved, tree))

    @jax.jit
    def everything(epsilons):
        slopes = jax.vmap(jax.grad(total))(epsilons)
        return total(1.0), jax.grad(total)(1.0), jax.hessian(total)(1.0), slopes

    value, slope, bend, slopes = everything(jnp.array([1.0, 1 - 1e-6, 1 + 1e-6]))
    np.testing.assert_allclose(value, 2.5 * np.log(54.36), rtol=1e-12)
    np.testing.assert_allclose(slope, 2.5 * (1 / 54.36 - 1), rtol=1e-12)
    np.testing.assert_allclose(slopes[0], slope)
    np.testing.assert_allclose(bend, (slopes[2] - slopes[1]) / 2e-6, rtol=1e-6)


def test_isotropic_points(x64):
    """Repeated eigenvalues leave the gradient finite and right."""
    del x64
    x = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    problem = Problem(x, family="gaussian", smoothing=blur(0.5))
    # φ = 2 [log det(S + ε I) − 2 log ε] at S = I: slope x / (1 + ε) a point.
    slope = jax.grad(cluster_cost)(problem).x
    np.testing.assert_allclose(slope, x / 1.25, rtol=1e-12)


def test_pseudo_counts_by_hand(dtype):
    """Counts 0 and 6, and a added to both: at a = ½, and at the boundary a = 0."""
    x = np.array([[0.0], [6.0]])
    problem = Problem(x, family="poisson")
    tree = agglomerate(problem)

    @jax.jit
    @jax.value_and_grad
    def by_hand(a):
        return jnp.sum(replay(problem.replace(x=x + a), tree))

    value, slope = by_hand(jnp.asarray(0.5, dtype))
    tolerance = 1e-8 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(value, 3.05079978, rtol=max(tolerance, 1e-8))
    np.testing.assert_allclose(slope, -1.32687094, rtol=max(tolerance, 1e-8))
    value, slope = by_hand(jnp.asarray(0.0, dtype))
    np.testing.assert_allclose(value, 4.15888308, rtol=max(tolerance, 1e-8))
    assert slope == -np.inf


def test_gradients_at_zero_counts(dtype):
    """−inf where exactly one part is 0, 0 where both are, finite elsewhere; no NaN."""
    del dtype
    x = np.array([[0.0, 3.0], [0.0, 4.0], [2.0, 9.0], [5.0, 0.0]])
    problem = Problem(x, family="poisson")
    tree = agglomerate(problem)
    r = jnp.arange(1.0, 4.0)
    loss = lambda problem: jnp.vdot(r, replay(problem, tree))
    slopes = jax.jit(jax.grad(loss))(problem)
    assert np.all(np.isfinite(slopes.weights))
    assert not np.any(np.isnan(slopes.x))
    assert np.array_equal(slopes.x == -jnp.inf, x == 0)


def test_a_batch_of_trees_and_second_call_does_not_trace(rng, x64):
    del x64
    x = jnp.asarray(rng.normal(size=(3, M, D)))

    @jax.jit
    @chex.assert_max_traces(n=1)
    def costs(x, bandwidth):
        problem = Problem(x, family="gaussian", smoothing=blur(bandwidth))
        return replay(problem, agglomerate(problem))

    batch = jax.vmap(costs, in_axes=(0, None))(x, 0.5)
    for rows, got in zip(x, batch, strict=True):
        tree = agglomerate(np.asarray(rows), family="gaussian", smoothing=blur(0.5))
        np.testing.assert_allclose(got, tree.merge_costs, rtol=1e-10)


def test_parameters_of_psi(rng, x64):
    """A negative binomial of free dispersion: gradients reach the family's leaves."""
    del x64
    x = rng.negative_binomial(3, 0.4, size=(M, D)) + 0.25

    def family(dispersion):
        return ExponentialFamily(
            negative_binomial,
            identity,
            -jnp.ones(D),
            params=dispersion,
            separable=True,
        )

    problem = Problem(x, family=family(3.0))
    tree = agglomerate(problem)
    r = rng.normal(size=M - 1)

    def loss(dispersion):
        return jnp.vdot(r, replay(problem.replace(family=family(dispersion)), tree))

    expected = difference(loss, 3.0, step=1e-5)
    np.testing.assert_allclose(jax.grad(loss)(3.0), expected, rtol=1e-6)


def test_costs_of_clusters_and_merges(rng):
    x = np.concatenate([rng.normal(size=(5, 2)), rng.normal(size=(4, 2)) + 3])
    a, b = np.arange(5), np.arange(5, 9)
    for problem in [
        Problem(x, family="gaussian", smoothing=blur(0.5)),
        Problem(x, family="ward"),
        Problem(x, family=Mahalanobis(np.array([[2.0, 0.3], [0.3, 1.0]]))),
        Problem(x, family=lambda t: jnp.sum(t**4)),
    ]:
        whole = cluster_cost(problem)
        parts = cluster_cost(problem, a) + cluster_cost(problem, b)
        delta = merge_cost(problem, a, b)
        np.testing.assert_allclose(delta, whole - parts, rtol=1e-10)
        direct = merge_cost(problem, a, b, direct=True)
        np.testing.assert_allclose(delta, direct, rtol=1e-10)
        assert np.isscalar(delta)
    weights = np.array([1, 2, 1, 3, 1])
    np.testing.assert_allclose(
        cluster_cost(Problem(x[a], family="ward", weights=weights)),
        cluster_cost(Problem(np.repeat(x[a], weights, axis=0), family="ward")),
        rtol=1e-12,
    )


def test_theorem_4_9(rng):
    """Δ is the difference of log-likelihoods at the fitted parameters."""
    family = Poisson(dim=2)
    a, b = rng.poisson(3, size=(5, 2)) + 1.0, rng.poisson(8, size=(4, 2)) + 1.0
    problem = Problem(np.concatenate([a, b]), family=family)

    def likelihood(rows):
        natural = family.mean_to_natural(jnp.asarray(rows.mean(axis=0)))
        return jax.vmap(family.log_prob, (0, None))(jnp.asarray(rows), natural).sum()

    with jax.enable_x64(True):
        lost = likelihood(a) + likelihood(b) - likelihood(problem.x)
    cost = merge_cost(problem, range(5), range(5, 9))
    np.testing.assert_allclose(cost, lost, rtol=1e-10)


def test_direct_costs_at_a_kink():
    """Definition 3.7 by hand: φ of {−1, 1} under |·| is 1 + 1 − 2·0 + 2 = 4."""
    problem = Problem([[-1.0], [1.0]], family=L1Norm())
    with pytest.raises(ArithmeticError, match="direct=True"):
        merge_cost(problem, 0, 1)
    # B(±1, 0) = 2 each, by Example 2.2.
    assert merge_cost(problem, 0, 1, direct=True) == 4


def test_mixed_second_derivatives_at_shared_coordinates(x64):
    """By weight and point they agree, also where two points share a coordinate."""
    del x64
    x = jnp.array([[1.0, 2.0], [1.0, 3.0], [4.0, 5.0]])
    weights = jnp.array([1.0, 2.0, 3.0])
    children = jnp.array([[0, 1], [2, 3]])

    def cost(x, weights):
        return replay(Problem(x, family="ward", weights=weights), children)[1]

    @jax.jit
    def mixed(*at):
        by_weight = jax.jacfwd(jax.grad(cost, 0), 1)
        return by_weight(*at), jax.jacfwd(jax.grad(cost, 1), 0)(*at)

    one, two = mixed(x, weights)
    np.testing.assert_allclose(one, jnp.moveaxis(two, 0, -1), rtol=1e-12)
    np.testing.assert_allclose(one[0, 0, 0], -1.25, rtol=1e-12)


@pytest.mark.parametrize(
    ("children", "message"),
    [
        ([[0, 1], [0, 5], [2, 3], [6, 7]], "merged already"),
        ([[0, 1], [2, 9], [3, 4], [6, 7]], "not made by an earlier row"),
        ([[0, 1], [-2, 5], [3, 4], [6, 7]], "negative"),
    ],
)
def test_children_must_be_a_tree(children, message, rng):
    with pytest.raises(ValueError, match=message):
        replay(Problem(rng.normal(size=(5, 2)), family="ward"), np.array(children))


def test_errors(rng):
    x = rng.normal(size=(5, 2))
    tree = agglomerate(x, family="ward")
    with pytest.raises(ValueError, match="4 merges for the 5 rows"):
        replay(Problem(x, family="ward"), agglomerate(x[:4], family="ward"))
    with pytest.raises(ValueError, match="without a finite cost under Gaussian"):
        replay(Problem(x, family="gaussian", smoothing=None), tree)


def test_pseudo_counts_shift_weights(rng):
    x = rng.poisson(2, size=(6, 2)).astype(float)
    smoothing = pseudo_count(np.ones(2), 0.5)
    tree = agglomerate(x, family="poisson", smoothing=smoothing)
    by_hand = agglomerate(
        (x + 0.5) / 1.5, family="poisson", weights=np.full(6, 1.5), smoothing=None
    )
    np.testing.assert_array_equal(tree.children, by_hand.children)
    np.testing.assert_allclose(tree.merge_costs, by_hand.merge_costs, rtol=1e-10)
    np.testing.assert_array_equal(tree.weights, np.ones(6))


def test_what_is_no_tree_is_told():
    problem = Problem(np.arange(5.0), family="ward")
    linkage = agglomerate(problem).linkage()
    with pytest.raises(ValueError, match="got children of .*from_linkage first"):
        replay(problem, linkage)
    with pytest.raises(ValueError, match="look like labels"):
        replay(problem, [0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match=r"got \(5, 1\)\. Pass numpy\.asarray"):
        Problem(np.arange(5.0), family="ward", weights=np.ones((5, 1)))

"""One family for each column: held against ψ of all columns and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from own_potentials import identity

import bregjax as bj
from bregjax.clusters import ColumnsModel
from bregjax.clusters._host_model import rows_of

H = 0.3  # a bandwidth, as part of T


def normal(theta):
    """Unknown mean and variance: T = (x, x² + H²)."""
    linear, square = theta
    inside = square < 0
    square = jnp.where(inside, square, -1.0)
    value = -(linear**2) / (4 * square) - jnp.log(-2 * square) / 2
    return jnp.where(inside, value, jnp.inf)


def moments(x):
    return x, x**2 + H**2


def counts(theta, dispersion):
    """Negative binomial counts."""
    inside = theta < 0
    value = -dispersion * jnp.log(-jnp.expm1(jnp.where(inside, theta, -1.0)))
    return jnp.where(inside, value, jnp.inf)


def scaled(theta, scale):
    """A normal column in units of its own: T = (x, x² + H²) of x / scale."""
    return normal((theta[0] / scale, theta[1] / scale**2)) - jnp.log(scale)


NORMAL = bj.ExponentialFamily(normal, moments, (0.0, -0.5))
COUNTS = bj.ExponentialFamily(counts, identity, -1.0, params=2.0)
SCALED = bj.ExponentialFamily(scaled, moments, (0.0, -0.5), params=1.0)


def test_normal_columns_are_the_built_in(rng):
    x = rng.normal(size=(40, 3)) + 3 * rng.integers(0, 3, (40, 1))
    family = bj.Columnwise(NORMAL)
    tree = bj.agglomerate(x, family=family)
    same = bj.agglomerate(x, family="diagonal_gaussian", smoothing=bj.blur(H))
    np.testing.assert_array_equal(tree.children, same.children)
    np.testing.assert_allclose(tree.merge_costs, same.merge_costs, rtol=1e-11)
    problem = bj.Problem(x, family=family)
    assert bj.certify(problem, tree).holds(1e-10)
    costs = bj.replay(problem, tree)
    np.testing.assert_allclose(costs, tree.merge_costs, rtol=1e-10)


def test_weights_and_smoothing(rng):
    x = rng.normal(size=(12, 2))
    weights = rng.integers(1, 4, 12).astype(float)
    smoothing = bj.mixing((0.0, 1.0), 0.2)
    family = bj.Columnwise(NORMAL)
    options = {"family": family, "smoothing": smoothing}
    tree = bj.agglomerate(x, weights=weights, **options)
    copies = np.repeat(x, weights.astype(int), axis=0)
    longer = bj.agglomerate(copies, **options)
    np.testing.assert_allclose(
        longer.merge_costs[-11:], tree.merge_costs, rtol=1e-9, atol=1e-12
    )


def test_parameters_of_each_column(rng):
    """Costs add up over columns, each under its own dispersion."""
    x = rng.poisson(4, size=(15, 3)).astype(float)
    dispersion = np.array([1.0, 2.0, 5.0])
    family = bj.Columnwise(COUNTS, params=dispersion)
    tree = bj.agglomerate(x, family=family)
    by_column = [
        bj.replay(
            bj.Problem(x[:, [j]], family=bj.Columnwise(COUNTS.with_params(r))), tree
        )
        for j, r in enumerate(dispersion)
    ]
    np.testing.assert_allclose(tree.merge_costs, sum(by_column), rtol=1e-9, atol=1e-12)
    shared = bj.Columnwise(COUNTS)
    twice = bj.Columnwise(COUNTS, params=np.full(3, 2.0))
    np.testing.assert_allclose(
        bj.agglomerate(x, family=shared).merge_costs,
        bj.agglomerate(x, family=twice).merge_costs,
        rtol=1e-12,
    )


def test_two_parameters_in_units_of_each_column(rng):
    x = rng.normal(size=(20, 2))
    family = bj.Columnwise(SCALED, params=np.array([1.0, 3.0]))
    tree = bj.agglomerate(x, family=family)
    same = bj.agglomerate(x, family=bj.Columnwise(NORMAL))
    # A column's unit is no matter of the cost: T is scaled with θ.
    np.testing.assert_array_equal(tree.children, same.children)
    np.testing.assert_allclose(tree.merge_costs, same.merge_costs, rtol=1e-9)


@pytest.mark.slow
def test_gradients_by_data_and_parameters(rng, x64):
    del x64
    x = rng.poisson(4, size=(6, 2)) + 0.5
    tree = bj.agglomerate(x, family=bj.Columnwise(COUNTS))
    loads = jnp.asarray(rng.normal(size=5))

    def loss(x, dispersion):
        family = bj.Columnwise(COUNTS, params=dispersion)
        return jnp.sum(loads * bj.replay(bj.Problem(x, family=family), tree))

    r = jnp.array([1.5, 4.0])
    by_x, by_r = jax.jit(jax.grad(loss, argnums=(0, 1)))(jnp.asarray(x), r)
    step = 1e-5
    for k in range(2):
        move = np.eye(2)[k] * step
        slope = (loss(x, r + move) - loss(x, r - move)) / (2 * step)
        np.testing.assert_allclose(by_r[k], slope, rtol=1e-5, atol=1e-8)
        bump = np.zeros_like(x)
        bump[3, k] = step
        slope = (loss(x + bump, r) - loss(x - bump, r)) / (2 * step)
        np.testing.assert_allclose(by_x[3, k], slope, rtol=1e-5, atol=1e-8)


def test_the_model_inside_jit_is_that_outside(rng, x64):
    del x64
    x = rng.normal(size=(5, 2))
    model = ColumnsModel(NORMAL, 2)
    statistics = jax.vmap(jax.vmap(moments))(x)
    leaves = jax.jit(model.leaves)(statistics, jnp.ones(5))
    host = model.host()
    assert host is not None
    outside = host.leaves(statistics, np.ones(5))
    np.testing.assert_allclose(leaves.value, outside.value, rtol=1e-12)
    np.testing.assert_allclose(leaves.natural, outside.natural, rtol=1e-8, atol=1e-8)
    a, b = (rows_of(leaves, slice(k, k + 2)) for k in (0, 2))
    inside = jax.jit(model.merge_cost)(a, b)
    a, b = (jax.tree.map(np.asarray, state) for state in (a, b))
    np.testing.assert_allclose(inside, host.search_costs(a, b)[0], rtol=1e-10)


def test_densities_add_up(x64):
    del x64
    family = bj.Columnwise(NORMAL, 2)
    natural = (jnp.array([0.5, 1.0]), jnp.array([-0.5, -1.0]))
    row = jnp.array([0.3, -1.2])
    expected = sum(
        NORMAL.log_prob(row[j], (natural[0][j], natural[1][j])) for j in range(2)
    )
    np.testing.assert_allclose(family.log_prob(row, natural), expected, rtol=1e-12)


def test_what_does_not_fit_is_said():
    with pytest.raises(TypeError, match="`family` must be an ExponentialFamily"):
        bj.Columnwise(bj.Poisson())  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="structure of `family.params`"):
        bj.Columnwise(NORMAL, params=np.ones(2))
    with pytest.raises(ValueError, match="one leading axis"):
        bj.Columnwise(COUNTS, 3, params=np.ones(2))
    with pytest.raises(ValueError, match="must have 2 columns"):
        bj.Columnwise(COUNTS, 2).for_data(np.ones((3, 4)))
    with pytest.raises(ValueError, match="does not know its dimension"):
        _ = bj.Columnwise(COUNTS).natural_init
    bad = bj.Columnwise(bj.ExponentialFamily(normal, identity, (0.0, -0.5)))
    with pytest.raises(ValueError, match="structure and shapes of `natural_init`"):
        bad.for_data(np.ones((3, 2)))

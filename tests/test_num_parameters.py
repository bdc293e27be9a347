"""Free parameters of families: stated counts against ranks of second derivatives."""

from typing import Any

import family_cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import bregjax as bj
from bregjax.families import FAMILIES, Family
from bregjax.families._dimension import minimal_dimension

CASES = family_cases.FAMILIES


def rank_at(family, natural):
    """The rank of ∇²ψ, scaled to a diagonal of 1."""
    flat, unravel = ravel_pytree(natural)
    psi = lambda theta: family.log_partition(unravel(theta))
    hessian = np.asarray(jax.hessian(psi)(flat))
    scale = np.sqrt(np.diagonal(hessian))
    return np.linalg.matrix_rank(hessian / scale / scale[:, None], tol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_counts_are_ranks(name, rng, x64):
    family = CASES[name].make()
    natural = jax.tree.map(jnp.asarray, CASES[name].natural(rng))
    assert family.num_parameters == rank_at(family, natural)


def test_counts_of_built_in_families_are_stated():
    for name, family in FAMILIES.items():
        assert family.num_parameters is not Family.num_parameters, name


def test_all_built_in_families_have_a_case():
    cased = {type(case.make()) for case in CASES.values()}
    assert set(FAMILIES.values()) <= cased


@pytest.mark.parametrize("name", ["gaussian", "multinomial", "ising", "gamma"])
def test_ranks_are_found_by_random_points(name):
    family = CASES[name].make()
    assert minimal_dimension(family) == family.num_parameters


def cubic(theta):
    """Of curvature 0 at the start in one coordinate, and nowhere in another."""
    return theta[0] ** 2 / 2 + theta[1] ** 4 + theta[2]


def test_points_of_lower_rank_do_not_count():
    family = bj.ExponentialFamily(cubic, lambda x: x, jnp.zeros(3))
    assert family.num_parameters == 2


def test_columns_and_products_add_up():
    column = bj.ExponentialFamily(
        lambda t: -(t[0] ** 2) / (4 * t[1]) - jnp.log(-2 * t[1]) / 2,
        lambda x: (x, x**2),
        (0.0, -0.5),
    )
    assert bj.Columnwise(column, dim=3).num_parameters == 6
    table = {"a": [1.0, 2.0, None], "b": [0, 3, 4], "c": ["x", "y", "z"]}
    names = {"a": "diagonal_gaussian", "b": "poisson", "c": "categorical"}
    family: Any = bj.Problem(table, family=bj.Product(names)).family
    assert family.num_parameters == 2 + 1 + 2


def test_errors():
    with pytest.raises(ValueError, match="does not know its dimension yet"):
        _ = bj.Poisson().num_parameters
    family = bj.ExponentialFamily(cubic, lambda x: x, jnp.zeros(3))
    with pytest.raises(TypeError, match="`num_parameters` of ExponentialFamily"):
        jax.jit(lambda family: family.num_parameters)(family)
    kinked = bj.ExponentialFamily(
        lambda t: jnp.sum(jnp.abs(t) ** 1.5), lambda x: x, jnp.zeros(2)
    )
    with pytest.raises(ValueError, match="`natural_init` must suit ψ"):
        _ = kinked.num_parameters

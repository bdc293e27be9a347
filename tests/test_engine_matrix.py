"""The matrix engine holds one matrix of costs and never copies it."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hostile_cases import leaves_of
from scipy.cluster.hierarchy import linkage

import bregjax as bj
from bregjax.clusters import Moments, VarianceModel
from bregjax.hierarchy._searches import found_children


def compiled(family: str, m: int):
    x = np.random.default_rng(0).gamma(2.0, size=(m, 3)) + 0.1
    model, leaves = leaves_of(x, family)
    tree = jax.jit(found_children, static_argnames="engine")
    return tree.lower(model, leaves, np.int32(m), engine="matrix").compile()


@pytest.mark.parametrize("family", ["ward", "poisson", "diagonal_gaussian"])
def test_the_matrix_is_changed_in_place(family, x64):
    """A copy in the loop over merges would make each cost O(m²)."""
    m = 96
    program = compiled(family, m).as_text()
    assert program is not None
    assert f"f64[{m},{m}]" in program
    assert not re.findall(rf"f64\[{m},{m}\]\S* copy\(", program)


def test_one_matrix_in_memory(x64):
    sizes = []
    for m in (256, 512):
        memory = compiled("ward", m).memory_analysis()
        if memory is None:
            pytest.skip("this backend does not tell its memory")
        sizes.append(memory.temp_size_in_bytes)
    assert sizes[1] - sizes[0] < 1.5 * 8 * (512**2 - 256**2)


@pytest.mark.parametrize("dim", [1, 3, 8, 11])
@pytest.mark.parametrize("size", [1.0, 1e-70, 1e70, 1e-160])
def test_costs_of_all_pairs_in_any_units(dim, size, rng):
    """A logarithm for several variances: 1e140⁸ and 1e-140⁸ are no numbers."""
    with jax.enable_x64(True):
        model = VarianceModel("diagonal")
        mean = jnp.asarray(size * rng.normal(size=(6, dim)))
        variance = jnp.asarray((size * rng.uniform(0.1, 2, size=(6, dim))) ** 2)
        weight = jnp.asarray(rng.uniform(0.5, 2, size=6))
        states = model.leaves(Moments(mean, variance, "diagonal"), weight)
        costs = jax.jit(model.cross_cost)(states, states)
        rows = jax.tree.map(lambda leaf: leaf[:, None], states)
        columns = jax.tree.map(lambda leaf: leaf[None], states)
        expected = jax.jit(model.merge_cost)(rows, columns)
    off = ~np.eye(6, dtype=bool)
    # Squares of 1e-160 have three digits left.
    rtol = 1e-9 if size > 1e-100 else 0.1
    np.testing.assert_allclose(costs[off], expected[off], rtol=rtol)


@pytest.mark.parametrize("engine", ["matrix", "recompute"])
@pytest.mark.parametrize("m", [2, 16, 17, 33])
def test_as_many_merges_as_there_are(engine, m, rng):
    """Arrays of a size class are longer than the tree where m is not its size."""
    x = rng.normal(size=(m, 2))
    tree = bj.agglomerate(x, family="ward", engine=engine)
    assert tree.children.shape == (m - 1, 2)
    expected = linkage(x, "ward")[:, 2]
    np.testing.assert_allclose(tree.heights("ward"), expected, rtol=1e-9)

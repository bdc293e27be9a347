"""Clusters of a few rows of every family, and their costs, computed once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family_cases import (
    FAMILIES,
    plain,
    smoothed_leaves,
)

from bregjax.families import Poisson

# Of the dense solvers, which take seconds to compile, one goes through the table.
NAMES = [n for n in FAMILIES if n not in ("truncated_poisson_dense", "categorical")]
CLOSED = [name for name in NAMES if FAMILIES[name].plain is not None]
NUMERIC = [name for name in NAMES if FAMILIES[name].plain is None]
# Each of these compiles a dense solver or two for what others show as well.
DENSE = ("ising", "beta", "dirichlet")
TABLE = [
    pytest.param(name, marks=pytest.mark.slow if name in DENSE else ())
    for name in NAMES
]
every_family = pytest.mark.parametrize("name", TABLE)
NUM_LEAVES = 8


@jax.jit
def balanced_states(model, statistics, weights):
    """Two clusters of four leaves, each made by two balanced rounds of unions."""
    leaves = model.leaves(statistics, weights)
    at = lambda state, index: jax.tree.map(lambda leaf: leaf[np.array(index)], state)
    pairs = model.union(at(leaves, [0, 1, 4, 5]), at(leaves, [2, 3, 6, 7]))
    clusters = model.union(at(pairs, [0, 2]), at(pairs, [1, 3]))
    return leaves, clusters


@jax.jit
def pooled_states(model, means, weights):
    """The same by the means, in one solve; leaf 0 comes third."""
    rows = [np.arange(4), np.arange(4, 8), np.arange(1)]
    parts = [weighted(take(means, row), weights[row]) for row in rows]
    totals = jnp.stack([weights[row].sum() for row in rows])
    return model.leaves(jax.tree.map(lambda *t: jnp.stack(t), *parts), totals)


merge_cost = jax.jit(lambda model, a, b: model.merge_cost(a, b))


def take(state, index):
    return jax.tree.map(lambda leaf: leaf[np.array(index)], state)


def sample(name):
    case, rng = FAMILIES[name], np.random.default_rng(11)
    family = case.make()
    x = case.data(rng, NUM_LEAVES)
    weights = rng.uniform(0.5, 2, NUM_LEAVES)
    return family, x, weights


@functools.cache
def computed(name, precision):
    """Clusters a, b of smoothed rows and leaf 0, their costs, and the statistics."""
    family, x, weights = sample(name)
    x, weights = x.astype(precision), weights.astype(precision)
    with jax.enable_x64(precision == "float64"):
        model = family.cluster_model()
        statistics = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, precision), smoothed_leaves(family, x)
        )
        if name in NUMERIC:
            three = pooled_states(model, statistics, weights)
        else:
            leaves, clusters = balanced_states(model, statistics, weights)
            join = lambda c, leaf: jnp.concatenate([c, leaf[:1]])
            three = jax.tree.map(join, clusters, leaves)
        first, second = np.divmod(np.arange(9), 3)
        costs = merge_cost(model, take(three, first), take(three, second))
        assert costs.dtype == precision
        facts = {
            "costs": costs.reshape(3, 3),
            "result": model.result(three),
            "three": three,
            "statistics": statistics,
        }
        return family, weights, jax.tree.map(np.asarray, facts)


def weighted(tree, weights):
    share = weights / weights.sum()
    return jax.tree.map(lambda leaf: jnp.tensordot(share, leaf, 1), tree)


def pair_cost(model, x, w=None):
    w = jnp.ones(2) if w is None else w
    leaves = model.leaves(x, w)
    return model.merge_cost(take(leaves, [0]), take(leaves, [1]))[0]


pair_cost_jit = jax.jit(pair_cost)
pair_slopes = jax.jit(jax.value_and_grad(pair_cost, argnums=(1, 2)))
PLAIN_POISSON = plain(Poisson(2))

"""Trees by the engines that are pure functions, and whether rounding decided them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array, PyTree
from bregjax.clusters.base import ClusterModel
from bregjax.hierarchy._engines import PURE_ENGINES
from bregjax.hierarchy.tree_costs import replay_costs

__all__ = ["drowned", "found_children", "noise_of", "search_tree"]

# Costs below so many times the noise they were compared with are compared again.
_NOISES = 2**10


@functools.partial(jax.jit, static_argnames="engine")
def search_tree(
    model: ClusterModel, leaves: PyTree, num_points: Array, engine: str
) -> tuple[Array, Array, Array]:
    """Children and costs, with rows for padding, and the noise of `cross_cost`.

    Args:
        model: The cluster model.
        leaves: States of points, or of clusters, `[m, ...]`.
        num_points: How many of them count.
        engine: A name in `PURE_ENGINES`.

    Returns:
        Children and costs in the robust form, `[m − 1]` rows, and a number.
    """
    children = found_children(model, leaves, num_points, engine)
    costs = replay_costs(model, leaves, children, num_points)
    return children, costs, noise_of(model, leaves)


def found_children(
    model: ClusterModel, leaves: PyTree, num_points: Array, engine: str
) -> Array:
    """Children by an engine in `PURE_ENGINES`, `[m − 1, 2]`."""
    if jax.tree.leaves(leaves)[0].shape[0] == 1:
        return jnp.zeros((0, 2), jnp.int32)
    return PURE_ENGINES[engine](model, jax.lax.stop_gradient(leaves), num_points)


def noise_of(model: ClusterModel, states: PyTree) -> Array:
    """What rounding may add to a cost of `cross_cost`, a number."""
    return 2 * jnp.max(model.cross_noise(states))


def drowned(costs: np.ndarray, noise: float) -> bool:
    """Whether the order of some merges is that of the rounding they were found by.

    Merges of equal rows cost exactly 0 and come first. One other of that size is the
    next, whatever its cost came out as; what comes after it may belong before it.
    """
    small = np.flatnonzero(costs < _NOISES * noise)
    positive = np.flatnonzero(costs[small] > 0)
    return len(positive) > 0 and bool(positive[0] < len(small) - 1)

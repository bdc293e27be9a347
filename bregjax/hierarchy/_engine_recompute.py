"""The plain reading of Algorithm 1: every round computes the costs of all pairs."""

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array, PyTree
from bregjax.clusters import ClusterModel
from bregjax.hierarchy._search import (
    block_size,
    first_min,
    merge_slots,
    searchable,
    take,
)

__all__ = ["recompute"]


def recompute(model: ClusterModel, leaves: PyTree, num_points: Array | int) -> Array:
    """Exact greedy agglomeration that remembers nothing.

    Each of the m − 1 rounds evaluates `merge_cost`, the robust form, for all pairs in
    blocks of rows. Time O(m³) costs, memory O(m n): for checking other engines, and for
    small data.

    Ties: of pairs of equal cost the one whose first slot is least merges first, then
    the one whose second slot is; a cluster lives in the slot of its first leaf. NaN
    costs come last. Deterministic.

    Args:
        model: The cluster model.
        leaves: States of leaves, `[m, ...]`; those past `num_points` are ignored.
        num_points: How many of them are points, at least 1; may be traced.

    Returns:
        Children `[m − 1, 2]`, int32, rows past `num_points` − 1 zero.

    References:
        Telgarsky and Dasgupta (2012), Algorithm 1.
    """
    size = jax.tree.leaves(leaves)[0].shape[0]
    slots = jnp.arange(size, dtype=jnp.int32)
    tile = block_size(model, leaves)
    starts = jnp.asarray(np.minimum(np.arange(0, size, tile), size - tile), jnp.int32)

    def nearest(state: PyTree, alive: Array) -> tuple[Array, Array, Array]:
        """The least cost, and the slots of its pair."""

        def block(start):
            rows = start + jnp.arange(tile, dtype=jnp.int32)
            a = jax.tree.map(lambda leaf: leaf[rows][:, None], state)
            b = jax.tree.map(lambda leaf: leaf[None, :], state)
            costs = searchable(model.search_cost(a, b))
            pairs = (rows[:, None] < slots[None]) & alive[rows][:, None] & alive[None]
            least, columns = jax.vmap(first_min)(jnp.where(pairs, costs, jnp.inf))
            value, row = first_min(least)
            return value, rows[row], columns[row]

        values, rows, columns = jax.lax.map(block, starts)
        least, first = first_min(values)
        return least, rows[first], columns[first]

    def merge(step, carry):
        state, ids, alive, children = carry
        _, low, high = nearest(state, alive)
        new_id = jnp.asarray(num_points + step, jnp.int32)
        ids, children = merge_slots(ids, children, step, low, high, new_id)
        union = model.union(take(state, low), take(state, high))
        state = jax.tree.map(lambda all_, new: all_.at[low].set(new), state, union)
        return state, ids, alive.at[high].set(False), children

    children = jnp.zeros((size - 1, 2), jnp.int32)
    carry = (leaves, slots, slots < num_points, children)
    return jax.lax.fori_loop(0, num_points - 1, merge, carry)[-1]

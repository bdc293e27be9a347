"""The engine that caches all costs: O(m²) memory, one new row a merge."""

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array, PyTree
from bregjax.cluster_model import ClusterModel
from bregjax.hierarchy._search import (
    first_min,
    merge_slots,
    searchable,
    take,
    tile_size,
)

__all__ = ["matrix"]


def matrix(model: ClusterModel, leaves: PyTree, num_points: Array | int) -> Array:
    """Exact greedy agglomeration over a cached cost matrix.

    A cluster lives in the slot of its first leaf. Row i of the matrix holds the costs
    against later slots; for each row the least one is known, or, once that neighbour
    has gone, a lower bound on it: all costs that came since have been compared. So a
    row is searched again only when its bound comes first.

    Time: m²/2 costs at the start, as many again for new clusters, O(m) a merge and row
    searched, about 2 m of these. Memory: m² numbers, in place.

    Ties: of pairs of equal cost the one whose first slot is least merges first, then
    the one whose second slot is. NaN costs come last. Deterministic.

    Args:
        model: The cluster model.
        leaves: States of leaves, `[m, ...]`; those past `num_points` are ignored.
        num_points: How many of them are points, at least 1; may be traced.

    Returns:
        Children `[m − 1, 2]`, int32, rows past `num_points` − 1 zero.
    """
    size = jax.tree.leaves(leaves)[0].shape[0]
    slots = jnp.arange(size, dtype=jnp.int32)
    alive = slots < num_points
    costs = _upper_costs(model, leaves, alive)
    bound, neighbour = jax.lax.map(first_min, costs)

    def merge(step, carry):
        costs, state, ids, alive, bound, neighbour, exact, children = carry
        bound, neighbour, exact, low = _front(costs, bound, neighbour, exact)
        high = neighbour[low]
        new_id = jnp.asarray(num_points + step, jnp.int32)
        ids, children = merge_slots(ids, children, step, low, high, new_id)
        alive = alive.at[high].set(False)

        union = model.union(take(state, low[None]), take(state, high[None]))
        state = jax.tree.map(lambda all_, new: all_.at[low].set(new[0]), state, union)
        new_costs = searchable(model.cross_cost(union, state)[0])
        row = jnp.where(alive & (slots > low), new_costs, jnp.inf)
        column = jnp.where(alive & (slots < low), new_costs, jnp.inf)
        costs = costs.at[low, :].set(row).at[:, low].set(column)
        costs = costs.at[high, :].set(jnp.inf).at[:, high].set(jnp.inf)

        orphaned = (neighbour == low) | (neighbour == high)
        nearer = column < bound
        level = (column == bound) & exact & ~orphaned & (low < neighbour)
        neighbour = jnp.where(nearer | level, low, neighbour)
        exact = jnp.where(nearer, True, exact & ~orphaned)
        bound = jnp.minimum(bound, column)
        least, place = first_min(row)
        bound = bound.at[low].set(least).at[high].set(jnp.inf)
        neighbour = neighbour.at[low].set(place)
        exact = exact.at[low].set(True)
        return costs, state, ids, alive, bound, neighbour, exact, children

    children = jnp.zeros((size - 1, 2), jnp.int32)
    exact = jnp.ones(size, bool)
    carry = (costs, leaves, slots, alive, bound, neighbour, exact, children)
    return jax.lax.fori_loop(0, num_points - 1, merge, carry)[-1]


def _front(costs, bound, neighbour, exact):
    """Search rows again until the one of least bound is exact; that row."""

    def search(carry):
        bound, neighbour, exact, row = carry
        least, place = first_min(costs[row])
        bound = bound.at[row].set(least)
        neighbour = neighbour.at[row].set(place)
        exact = exact.at[row].set(True)
        return bound, neighbour, exact, first_min(bound)[1]

    start = (bound, neighbour, exact, first_min(bound)[1])
    return jax.lax.while_loop(lambda carry: ~carry[2][carry[3]], search, start)


def _upper_costs(model: ClusterModel, leaves: PyTree, alive: Array) -> Array:
    """Costs of pairs i < j of living clusters, inf elsewhere, by tiles, `[m, m]`."""
    size = alive.shape[0]
    # At most a quarter of a side: little is evaluated twice, or below the diagonal.
    tile = min(tile_size(model, leaves), max(1, 2 ** (size.bit_length() - 3)))
    # Tiles cover rows from these starts; the last may overlap the one before.
    starts = np.minimum(np.arange(0, size, tile), size - tile)
    first, second = np.triu_indices(len(starts))
    rows = jnp.asarray(starts[first], jnp.int32)
    columns = jnp.asarray(starts[second], jnp.int32)
    offsets = jnp.arange(tile, dtype=jnp.int32)

    def fill(k, costs):
        i, j = rows[k] + offsets, columns[k] + offsets
        block = searchable(model.cross_cost(take(leaves, i), take(leaves, j)))
        pairs = (i[:, None] < j[None, :]) & alive[i][:, None] & alive[j][None, :]
        block = jnp.where(pairs, block, jnp.inf)
        return jax.lax.dynamic_update_slice(costs, block, (rows[k], columns[k]))

    dtype = jnp.result_type(*jax.tree.leaves(_float_leaves(leaves)))
    empty = jnp.full((size, size), jnp.inf, dtype)
    return jax.lax.fori_loop(0, len(first), fill, empty)


def _float_leaves(tree: PyTree) -> list[Array]:
    leaves = jax.tree.leaves(tree)
    return [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]

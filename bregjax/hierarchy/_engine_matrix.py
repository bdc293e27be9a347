"""The engine that caches all costs: O(m²) memory, one new row a merge.

A cluster lives in the slot of its first leaf. Row i of the matrix holds the costs
against the clusters that were there before it: of leaves against earlier slots, of
a union against all. So each pair is in the row of the later one, no column is ever
written, and what is known of a row stays true as others die: for each row the least
cost is known, or, once that neighbour has merged, a lower bound on it. A row is
searched again only when its bound comes first.

Time: m²/2 costs at the start, as many again for new clusters, O(m) a merge and row
searched, about 2 m of these. Memory: m² numbers, in place.

Ties: of pairs of equal cost the one whose first slot is least merges first, then
the one whose second slot is. NaN costs come last. Deterministic.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array, PyTree
from bregjax.clusters import ClusterModel
from bregjax.hierarchy._pure_engine import PureEngine
from bregjax.hierarchy._search import (
    first_min,
    merge_slots,
    searchable,
    take,
    tile_size,
)

__all__ = ["matrix"]

# The birth of padding, and of clusters that have merged: after all others.
_NEVER = 2**30


class MatrixState(NamedTuple):
    """What the engine knows between two merges.

    Attributes:
        costs: The costs of pairs, in the row of the later one, `[m, m]`.
        state: Clusters by slot.
        ids: The node in each slot.
        born: When the cluster in each slot was made.
        bound: The least cost of each row, or a lower bound of it.
        neighbour: Whose cost that is; m where it is not known.
        children: The merges so far, `[m − 1, 2]`.
    """

    costs: Array
    state: PyTree
    ids: Array
    born: Array
    bound: Array
    neighbour: Array
    children: Array


def _begin(model: ClusterModel, leaves: PyTree, num_points: Array | int) -> MatrixState:
    """Search all pairs; see `PureEngine.begin`."""
    size = jax.tree.leaves(leaves)[0].shape[0]
    slots = jnp.arange(size, dtype=jnp.int32)
    alive = slots < num_points
    costs = _lower_costs(model, leaves, alive)
    bound, neighbour = jax.lax.map(first_min, costs)
    # The order of births: leaves in the order of slots, then unions.
    born = jnp.where(alive, slots, _NEVER)
    children = jnp.zeros((size - 1, 2), jnp.int32)
    return MatrixState(costs, leaves, slots, born, bound, neighbour, children)


def _merge(
    model: ClusterModel, num_points: Array | int, step: Array, found: MatrixState
) -> MatrixState:
    """Merge the pair of least cost; see `PureEngine.merge`."""
    costs, state, ids, born, bound, neighbour, children = found
    size = len(born)
    bound, neighbour, row = _front(costs, born, bound, neighbour)
    low = jnp.minimum(row, neighbour[row])
    high = jnp.maximum(row, neighbour[row])
    new_id = jnp.asarray(num_points + step, jnp.int32)
    ids, children = merge_slots(ids, children, step, low, high, new_id)
    born = born.at[low].set(size + step).at[high].set(_NEVER)

    union = model.union(take(state, low[None]), take(state, high[None]))
    state = jax.tree.map(lambda all_, new: all_.at[low].set(new[0]), state, union)
    new_costs = searchable(model.cross_cost(union, state)[0])
    new_costs = jnp.where(born < size + step, new_costs, jnp.inf)
    costs = costs.at[low].set(new_costs)

    # Rows whose neighbour has merged keep a bound, and no neighbour.
    orphaned = (neighbour == low) | (neighbour == high)
    neighbour = jnp.where(orphaned, size, neighbour)
    least, place = first_min(new_costs)
    bound = bound.at[low].set(least).at[high].set(jnp.inf)
    neighbour = neighbour.at[low].set(place)
    return MatrixState(costs, state, ids, born, bound, neighbour, children)


def _front(
    costs: Array, born: Array, bound: Array, neighbour: Array
) -> tuple[Array, Array, Array]:
    """Search rows again until all of the least bound know their neighbour.

    Returns:
        Bounds, neighbours, and the row whose pair is first among those of least cost.
    """
    size = len(bound)
    slots = jnp.arange(size, dtype=jnp.int32)

    def first(bound: Array, neighbour: Array) -> tuple[Array, Array]:
        """Return the row to look at next, and whether its neighbour is known."""
        level = bound == jnp.min(bound)
        unknown = jnp.min(jnp.where(level & (neighbour == size), slots, size))
        # Among pairs that are known: by the lower slot, then by the higher.
        lower, higher = jnp.minimum(slots, neighbour), jnp.maximum(slots, neighbour)
        low = jnp.min(jnp.where(level, lower, size))
        high = jnp.min(jnp.where(level & (lower == low), higher, size))
        holds = level[low] & (neighbour[low] == high)
        known = jnp.where(holds, low, high)
        return jnp.where(unknown < size, unknown, known), unknown == size

    def search(carry):
        bound, neighbour, row, _ = carry
        least, place = first_min(jnp.where(born < born[row], costs[row], jnp.inf))
        bound = bound.at[row].set(least)
        neighbour = neighbour.at[row].set(place)
        return bound, neighbour, *first(bound, neighbour)

    start = bound, neighbour, *first(bound, neighbour)
    return jax.lax.while_loop(lambda carry: ~carry[3], search, start)[:3]


def _lower_costs(model: ClusterModel, leaves: PyTree, alive: Array) -> Array:
    """Costs of pairs i > j of living clusters, inf elsewhere, by tiles, `[m, m]`."""
    size = alive.shape[0]
    # At most a quarter of a side: little is evaluated twice, or above the diagonal.
    tile = min(tile_size(model, leaves), max(1, 2 ** (size.bit_length() - 3)))
    # Tiles cover rows from these starts; the last may overlap the one before.
    starts = np.minimum(np.arange(0, size, tile), size - tile)
    first, second = np.tril_indices(len(starts))
    rows = jnp.asarray(starts[first], jnp.int32)
    columns = jnp.asarray(starts[second], jnp.int32)
    offsets = jnp.arange(tile, dtype=jnp.int32)

    def fill(k, costs):
        i, j = rows[k] + offsets, columns[k] + offsets
        block = searchable(model.cross_cost(take(leaves, i), take(leaves, j)))
        pairs = (i[:, None] > j[None, :]) & alive[i][:, None] & alive[j][None, :]
        block = jnp.where(pairs, block, jnp.inf)
        return jax.lax.dynamic_update_slice(costs, block, (rows[k], columns[k]))

    dtype = jnp.result_type(*jax.tree.leaves(_float_leaves(leaves)))
    empty = jnp.full((size, size), jnp.inf, dtype)
    return jax.lax.fori_loop(0, len(first), fill, empty)


def _float_leaves(tree: PyTree) -> list[Array]:
    leaves = jax.tree.leaves(tree)
    return [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]


matrix = PureEngine(_begin, _merge)

"""The plain reading of Algorithm 1: every round computes the costs of all pairs.

Each of the m − 1 rounds evaluates `merge_cost`, the robust form, for all pairs in
blocks of rows. Time O(m³) costs, memory O(m n): for checking other engines, and for
small data.

Ties: of pairs of equal cost the one whose first slot is least merges first, then
the one whose second slot is; a cluster lives in the slot of its first leaf. NaN
costs come last. Deterministic.

References:
    Telgarsky and Dasgupta (2012), Algorithm 1.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array, PyTree
from bregjax.clusters import ClusterModel, HostModel
from bregjax.hierarchy._bounded.run import BoundedRun
from bregjax.hierarchy._interrupted import Interrupted
from bregjax.hierarchy._pure_engine import PureEngine
from bregjax.hierarchy._search import (
    block_size,
    first_min,
    merge_slots,
    searchable,
    take,
)

__all__ = ["exhaustive", "recompute"]


class RecomputeState(NamedTuple):
    """What the engine knows between two merges.

    Attributes:
        state: Clusters by slot.
        ids: The node in each slot.
        alive: Which slots hold a cluster.
        children: The merges so far, `[m − 1, 2]`.
    """

    state: PyTree
    ids: Array
    alive: Array
    children: Array


def _begin(
    model: ClusterModel, leaves: PyTree, num_points: Array | int
) -> RecomputeState:
    """Put leaves into slots; see `PureEngine.begin`."""
    del model
    size = jax.tree.leaves(leaves)[0].shape[0]
    slots = jnp.arange(size, dtype=jnp.int32)
    children = jnp.zeros((size - 1, 2), jnp.int32)
    return RecomputeState(leaves, slots, slots < num_points, children)


def _merge(
    model: ClusterModel, num_points: Array | int, step: Array, found: RecomputeState
) -> RecomputeState:
    """Merge the pair of least cost; see `PureEngine.merge`."""
    state, ids, alive, children = found
    _, low, high = _nearest(model, state, alive)
    new_id = jnp.asarray(num_points + step, jnp.int32)
    ids, children = merge_slots(ids, children, step, low, high, new_id)
    union = model.union(take(state, low), take(state, high))
    state = jax.tree.map(lambda all_, new: all_.at[low].set(new), state, union)
    return RecomputeState(state, ids, alive.at[high].set(False), children)


def _nearest(
    model: ClusterModel, state: PyTree, alive: Array
) -> tuple[Array, Array, Array]:
    """The least cost, and the slots of its pair."""
    size = len(alive)
    slots = jnp.arange(size, dtype=jnp.int32)
    tile = block_size(model, state)
    starts = jnp.asarray(np.minimum(np.arange(0, size, tile), size - tile), jnp.int32)

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


recompute = PureEngine(_begin, _merge)


def exhaustive(
    host: HostModel,
    leaves: PyTree,
    report: Callable[[int], None] | None = None,
) -> tuple[np.ndarray, PyTree]:
    """Greedy agglomeration that bounds nothing: all costs again at each merge.

    For checks of the other engines. Time: m³/6 costs. Ties as `bounded`, but that equal
    points come in the order of their slots.

    Args:
        host: The cluster model.
        leaves: Settled states of the points, `[m, ...]`, NumPy arrays.
        report: Is called with the number of merges made so far.

    Returns:
        Children `[m − 1, 2]`, int32, and states of all nodes `[2m − 1]`.

    Raises:
        Interrupted: By Ctrl-C.
    """
    count = len(jax.tree.leaves(leaves)[0])
    run = BoundedRun(host, leaves, count, report)
    try:
        while run.left > 1:
            run.search()
            pair = run.front()
            if pair is None:
                break
            run.merge(*pair)
            run.compact()
    except KeyboardInterrupt as stop:
        raise Interrupted(run.children[: count - run.left], count) from stop
    return run.children, run.nodes

"""All merges that are left, by the engine that caches a matrix of costs.

Where windows fail, and a matrix of the costs between these clusters fits into memory,
that engine takes less time: it does not depend on whether costs invert.
"""

from typing import TypeGuard

import jax
import numpy as np

from bregjax._typing import PyTree
from bregjax.hierarchy._engines import fits
from bregjax.hierarchy._search import take
from bregjax.hierarchy._searches import drowned, noise_of, search_tree
from bregjax.hierarchy._windowed.fallbacks import one_by_one
from bregjax.hierarchy._windowed.store.base import ClusterStore
from bregjax.hierarchy._windowed.store.store import Store

__all__ = ["merge_cached", "serves"]

# A larger matrix takes more than 8 GiB in float64.
_MOST_CLUSTERS = 2**15


def serves(store: ClusterStore, slots: np.ndarray, least: float) -> TypeGuard[Store]:
    """Whether a matrix of costs fits, and no cost is as small as its rounding.

    Args:
        store: The clusters.
        slots: Slots of the living ones.
        least: Their least cost, or a lower bound of it.
    """
    # Where each cost takes a factorisation, windows of bounds take less time.
    if not one_by_one.serves(store):
        return False
    size = _size_class(store, len(slots))
    if size > _MOST_CLUSTERS:
        return False
    states = store.states
    state = sum(leaf.size for leaf in jax.tree.leaves(states)) // store.capacity
    pair = store.model.pair_size(states)
    if not fits("matrix", size, state, pair, store.dtype.itemsize):
        return False
    alive = _filled(slots, store.capacity)
    noise = _noise(store.model, states, alive)
    return not drowned(np.full(2, least), float(noise))


def merge_cached(
    store: Store, slots: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Merge all clusters in slots, as greedy does.

    Args:
        store: The clusters; it is not changed.
        slots: Slots of two or more; of pairs of equal cost the first by these merges.

    Returns:
        Children, numbers of `slots` and then of merges, `[len(slots) − 1, 2]`, and
        costs by `merge_cost`; None where rounding decided about their order.
    """
    index = _filled(slots, _size_class(store, len(slots)))
    states = _taken(store.states, index)
    count = len(slots)
    found = search_tree(store.model, states, np.int32(count), engine="matrix")
    children, costs = (np.asarray(values)[: count - 1] for values in found[:2])
    return None if drowned(costs, float(found[2])) else (children, costs)


def _size_class(store: Store, count: int) -> int:
    """Return the size of the matrix to compile for, at most 1.5 times the count."""
    size = store.size
    while -(-size * 3 // 4) >= count:
        half = -(-size // 2)
        if half < count:
            return -(-size * 3 // 4)
        size = half
    return size


def _filled(index: np.ndarray, size: int) -> np.ndarray:
    """Fill an index up with its first entry."""
    out = np.full(size, index[0], np.int32)
    out[: len(index)] = index
    return out


_taken = jax.jit(take)


@jax.jit
def _noise(model, states: PyTree, slots):
    return noise_of(model, take(states, slots))

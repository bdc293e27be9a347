"""The clusters that are left, handed over to the engine that caches all costs.

Where windows fail, and a matrix of the costs between these clusters fits into memory,
that engine is the faster: its time does not depend on what costs do.
"""

import jax
import numpy as np

from bregjax._typing import PyTree
from bregjax.hierarchy._engines import fits
from bregjax.hierarchy._search import take
from bregjax.hierarchy._searches import drowned, noise_of, search_tree
from bregjax.hierarchy._windowed.pool import Pool

__all__ = ["merge_cached", "serves"]

# A larger matrix takes more than 8 GiB in float64.
_MOST_CLUSTERS = 2**15


def serves(pool: Pool, slots: np.ndarray, least: float) -> bool:
    """Whether a matrix of the costs between slots fits, and rounding would not decide.

    Args:
        pool: The clusters.
        slots: Those left.
        least: The least of their costs, or a bound below.
    """
    # A factorisation a pair costs too much: bounds are far cheaper there.
    if not pool.merges_singly:
        return False
    size = _size_class(pool, len(slots))
    if size > _MOST_CLUSTERS:
        return False
    state = sum(leaf.size for leaf in jax.tree.leaves(pool.states)) // pool.capacity
    pair = pool.model.pair_size(pool.states)
    if not fits("matrix", size, state, pair, pool.dtype.itemsize):
        return False
    alive = _filled(slots, pool.capacity)
    noise = _noise(pool.model, pool.states, alive)
    return not drowned(np.full(2, least), float(noise))


def merge_cached(pool: Pool, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Merge all clusters in slots, as greedy does.

    Args:
        pool: The clusters; it stays as it is.
        slots: Two or more of those in use; of pairs of equal cost the first by these.

    Returns:
        Children, numbers of `slots` and then of merges, `[len(slots) − 1, 2]`, and
        costs in the robust form; None where rounding decided about their order.
    """
    index = _filled(slots, _size_class(pool, len(slots)))
    states = _taken(pool.states, index)
    count = len(slots)
    found = search_tree(pool.model, states, np.int32(count), "matrix")
    children, costs = (np.asarray(values)[: count - 1] for values in found[:2])
    return None if drowned(costs, float(found[2])) else (children, costs)


def _size_class(pool: Pool, count: int) -> int:
    """The size that a matrix is compiled for: at most half as large again."""
    size = pool.size
    while -(-size * 3 // 4) >= count:
        half = -(-size // 2)
        if half < count:
            return -(-size * 3 // 4)
        size = half
    return size


def _filled(index: np.ndarray, size: int) -> np.ndarray:
    """An index filled up with its first entry."""
    out = np.full(size, index[0], np.int32)
    out[: len(index)] = index
    return out


_taken = jax.jit(take)


@jax.jit
def _noise(model, states: PyTree, slots):
    return noise_of(model, take(states, slots))

"""What engines share: first minima, and tiles of all pairs."""

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array, PyTree
from bregjax.clusters import ClusterModel

__all__ = [
    "block_size",
    "first_min",
    "merge_slots",
    "searchable",
    "take",
    "tile_size",
]

# Numbers that the pairs of one tile work on, 16 MiB in float64: small against memory,
# and enough work at once for an accelerator.
_TILE_ENTRIES = 2**21


def first_min(values: Array) -> tuple[Array, Array]:
    """Return the minimum of a vector and the first place where it stands.

    Two plain reductions: XLA's argmin is several times slower on a CPU.
    """
    least = jnp.min(values)
    size = values.shape[0]
    places = jnp.where(values == least, jnp.arange(size, dtype=jnp.int32), size)
    return least, jnp.minimum(jnp.min(places), size - 1)


def searchable(costs: Array) -> Array:
    """Replace NaN and inf by the largest finite number.

    Infinity then marks pairs that do not exist; a pair whose cost can't be computed
    merges last, and `replay` then reports its cost.
    """
    return jnp.where(jnp.isfinite(costs), costs, jnp.finfo(costs.dtype).max)


def take(state: PyTree, index: Array | slice | None) -> PyTree:
    """Clusters at an index, slice or array of indices; one with an axis by None."""
    return jax.tree.map(lambda leaf: leaf[index], state)


def tile_size(model: ClusterModel, state: PyTree) -> int:
    """Side b of a tile of b × b pairs whose temporaries stay small: a power of two."""
    pairs = _TILE_ENTRIES / model.pair_size(state)
    return _power_of_two(np.sqrt(pairs), _size(state))


def block_size(model: ClusterModel, state: PyTree) -> int:
    """Rows b of a block of b × m pairs whose temporaries stay small: a power of two."""
    pairs = _TILE_ENTRIES / model.pair_size(state)
    return _power_of_two(pairs / _size(state), _size(state))


def _size(state: PyTree) -> int:
    return jax.tree.leaves(state)[0].shape[0]


def _power_of_two(fitting: float, size: int) -> int:
    return int(2 ** np.floor(np.log2(np.clip(fitting, 1, min(size, 256)))))


def merge_slots(
    ids: Array, children: Array, step: Array, low: Array, high: Array, new_id: Array
) -> tuple[Array, Array]:
    """Record merge `step` of the clusters in two slots; the union takes the lower."""
    pair = jnp.sort(jnp.stack([ids[low], ids[high]]))
    return ids.at[low].set(new_id), children.at[step].set(pair)

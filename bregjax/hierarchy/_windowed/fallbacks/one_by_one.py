"""One merge at a time, from the host: the program's arguments and results."""

from typing import TypeGuard

import jax.numpy as jnp
import numpy as np

from bregjax.clusters._host_clusters import HostClusters
from bregjax.hierarchy._windowed.fallbacks.program import Known, run
from bregjax.hierarchy._windowed.neighbours.nearest import Nearest
from bregjax.hierarchy._windowed.neighbours.neighbours import Neighbours
from bregjax.hierarchy._windowed.store.base import ClusterStore
from bregjax.hierarchy._windowed.store.store import Store

__all__ = ["MOST", "merge_singly", "serves"]

# Merges that one call makes: about a second's.
MOST = 256


def serves(store: ClusterStore) -> TypeGuard[Store]:
    """Whether the program serves: on one device, without solving or factorising.

    Programs of several batches of factorisations can lock up (see `Screen`).
    """
    if not isinstance(store, Store):
        return False
    solves = isinstance(store.by_numpy, HostClusters)
    alone = store.placement.mesh is None and not solves
    return alone and not store.screen.factorises


def merge_singly(
    clusters: Neighbours, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Make merges one at a time, as greedy does.

    Args:
        clusters: The living clusters, whose nearest are known afterwards too.
        count: How many merges: at most `MOST`, as many as there are free slots, and one
            less than clusters.

    Returns:
        Slots of the parts, and of the unions, and costs, `[count]`, in order.
    """
    store, near = clusters.store, clusters.near
    if not isinstance(store, Store):
        raise TypeError("only compiled windows have a program for single merges")
    known = Known(
        alive=jnp.asarray(clusters.alive),
        key=jnp.asarray(clusters.key),
        bound=jnp.asarray(near.bound.astype(store.dtype)),
        slot=jnp.asarray(near.slot.astype(np.int32)),
        exact=jnp.asarray(near.exact),
    )
    # More digits would have to have the program compiled again.
    store.keep_precision()
    states, features, known, made = run(
        store.model,
        store.screen,
        store.states,
        store.features,
        known,
        (jnp.int32(store.used), jnp.int32(count)),
        store.screen_dtype,
        MOST,
    )
    first, second, cost = (np.asarray(values)[:count] for values in made[:3])
    union = store.made_elsewhere(states, features, first, second)
    clusters.alive, clusters.key = np.array(known.alive), np.array(known.key)
    clusters.near = Nearest(
        np.array(known.bound, near.bound.dtype),
        np.array(known.slot, near.slot.dtype),
        np.array(known.exact),
    )
    clusters.searches += count + int(made.rescans)
    clusters.rescans += int(made.rescans)
    return first, second, union, cost

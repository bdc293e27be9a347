"""Run the engines that are pure functions; tell whether rounding decided a tree."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array, PyTree
from bregjax.clusters import ClusterModel
from bregjax.hierarchy._engines import PURE_ENGINES
from bregjax.hierarchy._interrupted import Interrupted
from bregjax.hierarchy._tree_costs import replay_costs

__all__ = [
    "drowned",
    "found_children",
    "noise_of",
    "search_in_parts",
    "search_tree",
]

# How many parts a search has at most, and how many merges a part has at least.
_PARTS, _PART = 50, 100
# Costs below so many times the noise are compared again. Half as many would leave
# merges whose costs differ by 0.2 % of themselves to rounding, twice as many would send
# ordinary near-duplicates through the slower comparison.
_NOISES = 2**10


@functools.partial(jax.jit, static_argnames="engine")
def search_tree(
    model: ClusterModel, leaves: PyTree, num_points: Array, *, engine: str
) -> tuple[Array, Array, Array]:
    """Find a tree and its costs, with rows for padding, and the noise of `cross_cost`.

    Args:
        model: The cluster model.
        leaves: States of points, or of clusters, `[m, ...]`.
        num_points: How many of them count.
        engine: A name in `PURE_ENGINES`.

    Returns:
        Children `[m − 1, 2]`; costs in the robust form, `[m − 1]`; the noise, scalar.
    """
    children = found_children(model, leaves, num_points, engine)
    costs = replay_costs(model, leaves, children, num_points)
    return children, costs, noise_of(model, leaves)


def found_children(
    model: ClusterModel, leaves: PyTree, num_points: Array, engine: str
) -> Array:
    """Find the children of a tree by an engine in `PURE_ENGINES`, `[m − 1, 2]`."""
    if jax.tree.leaves(leaves)[0].shape[0] == 1:
        return jnp.zeros((0, 2), jnp.int32)
    pure, leaves = PURE_ENGINES[engine], jax.lax.stop_gradient(leaves)
    merge = lambda step, found: pure.merge(model, num_points, step, found)
    start = pure.begin(model, leaves, num_points)
    return jax.lax.fori_loop(0, num_points - 1, merge, start).children


def search_in_parts(
    model: ClusterModel,
    leaves: PyTree,
    num_points: int,
    engine: str,
    report: Callable[[int], None] | None,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Find a tree as `search_tree` does, so that it can be watched and stopped.

    Args:
        model: The cluster model.
        leaves: States of points, or of clusters, `[m, ...]`, known.
        num_points: How many of them count.
        engine: A name in `PURE_ENGINES`.
        report: Called with the number of merges made so far, from time to time.

    Returns:
        As `search_tree`.

    Raises:
        Interrupted: By Ctrl-C.
    """
    last = num_points - 1
    if not last:
        return np.zeros((0, 2), np.int32), np.zeros(0), 0.0
    children, made, part = np.zeros((0, 2), np.int32), 0, max(last // _PARTS, _PART)
    try:
        found = _begun(model, leaves, np.int32(num_points), engine=engine)
        while made < last:
            stop = min(made + part, last)
            limits = np.array([num_points, made, stop], np.int32)
            found = _gone_on(model, found, limits, engine=engine)
            children, made = np.asarray(found.children), stop
            if report is not None:
                report(made)
        costs = np.asarray(_costs(model, leaves, children, np.int32(num_points)))
        noise = float(_noise(model, leaves))
    except KeyboardInterrupt as stopped:
        raise Interrupted(children[:made], num_points) from stopped
    # The arrays are as long as the size class; rows past the last merge mean nothing.
    return children[:last], costs[:last], noise


@functools.partial(jax.jit, static_argnames="engine")
def _begun(model: ClusterModel, leaves: PyTree, num_points: Array, *, engine: str):
    return PURE_ENGINES[engine].begin(model, leaves, num_points)


@functools.partial(jax.jit, static_argnames="engine", donate_argnums=1)
def _gone_on(model: ClusterModel, found: Any, limits: Array, *, engine: str):
    """The state after more merges; `limits` has m, the first of them and their end."""
    merge = lambda step, found: PURE_ENGINES[engine].merge(
        model, limits[0], step, found
    )
    return jax.lax.fori_loop(limits[1], limits[2], merge, found)


_costs = jax.jit(replay_costs)


def noise_of(model: ClusterModel, states: PyTree) -> Array:
    """Bound what rounding may add to a cost of `cross_cost`, scalar."""
    return 2 * jnp.max(model.cross_noise(states))


_noise = jax.jit(noise_of)


def drowned(costs: np.ndarray, noise: float) -> bool:
    """Whether rounding, not costs, decided the order of some merges.

    Merges of equal rows cost exactly 0 and come first. A single other merge below the
    noise is the next one whatever its cost came out as; of two such merges either may
    come first. With noise 1e-12 costs (0, 0, 3e-11, 0.2) are in order, and
    (0, 3e-11, 5e-11, 0.2) need to be compared again, as all below 1,024 times the noise
    do.
    """
    small = np.flatnonzero(costs < _NOISES * noise)
    positive = np.flatnonzero(costs[small] > 0)
    return len(positive) > 0 and bool(positive[0] < len(small) - 1)

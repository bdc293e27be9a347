"""Leaves, nodes and merge costs of a tree where costs are solved for, on the host."""

import jax
import numpy as np

from bregjax._checks import works_in_double
from bregjax._evaluation import (
    build_leaves,
    check_leaves,
    smoothed_statistics,
    working_copy,
)
from bregjax._problem import Problem
from bregjax._typing import PyTree
from bregjax.clusters import BregmanModel, ClusterModel, HostModel
from bregjax.clusters._closed_host import ClosedHost
from bregjax.clusters._gaussian_host import GaussianHost
from bregjax.clusters._gaussian_models import FullGaussianModel
from bregjax.clusters._host_model import rows_of
from bregjax.clusters._seen_host import SeenHost
from bregjax.clusters._seen_models import ObservedModel
from bregjax.hierarchy._kinks import search_model

__all__ = [
    "BY_HAND",
    "closed_host",
    "host_leaves",
    "host_of",
    "nodes_along",
    "numpy_host",
    "put",
    "rough_host",
    "settled_costs",
    "small_host",
]


# Shares of the greatest weight down to which quick costs keep their digits.
_LIGHTEST = 1e-200
# Of so few points a tree takes no time, and ties end as one would by hand.
BY_HAND = 100
# Up to so many points trees are made by NumPy, if that is quick.
_FEW_POINTS = 1000
# Or so many, of no more than so many numbers, where rough costs spare most of the work:
# 2.4 GB of bounds, 1 GB of covariances.
_MANY_POINTS, _MANY_NUMBERS = 2**14, 2**27


def host_of(problem: Problem) -> HostModel | None:
    """The cluster model on the host, where its costs are solved for."""
    return problem.family.cluster_model().host()


def numpy_host(problem: Problem, engine: str) -> tuple[HostModel | None, str]:
    """The model by NumPy, where that is the engine; and the name of the engine.

    Args:
        problem: In the precision of the work.
        engine: "auto" or a name.

    Raises:
        ValueError: If an engine is asked for that can't do it.
    """
    if engine in ("auto", "windowed"):
        found = _quick_host(problem, engine)
        if found is not None:
            return found, "windowed"
    if engine in ("auto", "mutual"):
        found = _mutual_host(problem)
        if found is not None:
            return found, "mutual"
        if engine == "mutual":
            raise ValueError(
                f'`engine` must not be "mutual" under {problem.family}, or on a GPU: '
                'its rounds are right on a CPU, under family "ward". Take "auto".'
            )
        found = rough_host(problem)
        if found is not None:
            return found, "numpy"
    found = small_host(problem, engine)
    return found, engine if found is None else "numpy"


def small_host(problem: Problem, engine: str) -> HostModel | None:
    """The cluster model by NumPy, where that spares compiling; else None.

    Args:
        problem: In the precision of the work.
        engine: "auto", for which the work must be small, or a name.

    Raises:
        ValueError: If the engine "numpy" is asked for and can't do it.
    """
    if host_of(problem) is not None:
        if engine == "numpy":
            raise ValueError(
                '`engine` must not be "numpy" where costs are solved for; take '
                '"matrix", which loops on the host, too.'
            )
        return None
    few = engine == "auto" and problem.num_points <= _FEW_POINTS
    if not few and engine != "numpy":
        return None
    if not works_in_double(problem):
        if few:
            return None
        raise ValueError('`engine` must not be "numpy" on a device; take "auto".')
    host = closed_host(problem.family.cluster_model())
    if few:
        leaves = jax.eval_shape(build_leaves, problem)[1]
        if not host.is_quick(leaves):
            return None
    return host


def _mutual_host(problem: Problem) -> HostModel | None:
    """The cluster model by NumPy, where mutual nearest neighbours may merge; else None.

    Args:
        problem: In the precision of the work.
    """
    model = problem.family.cluster_model()
    # Others may have reducible costs, but not Ward's.
    serves = isinstance(model, BregmanModel) and model.reducible
    return closed_host(model) if serves and works_in_double(problem) else None


def _quick_host(problem: Problem, engine: str) -> HostModel | None:
    """The cluster model by NumPy, where it has quick costs; else None.

    Args:
        problem: In the precision of the work.
        engine: "auto", for which there must be some rows, or a name.
    """
    if engine == "auto" and problem.num_points <= BY_HAND:
        return None
    if host_of(problem) is not None or not works_in_double(problem):
        return None
    weights = np.asarray(problem.weights)
    if not np.min(weights) >= _LIGHTEST * np.max(weights):
        return None
    host = closed_host(problem.family.cluster_model())
    return host if host.has_quick(lambda: smoothed_statistics(problem)) else None


def rough_host(problem: Problem) -> HostModel | None:
    """The cluster model by NumPy, where it has rough costs; else None.

    Args:
        problem: In the precision of the work.
    """
    size, m = problem.x.size * problem.x.shape[-1], problem.num_points
    if m > _MANY_POINTS or size > _MANY_NUMBERS or host_of(problem) is not None:
        return None
    if not works_in_double(problem):
        return None
    host = closed_host(problem.family.cluster_model())
    return host if host.has_rough(lambda: smoothed_statistics(problem)[0]) else None


def closed_host(model: ClusterModel) -> HostModel:
    """The model of closed forms, called for many clusters at a time."""
    if isinstance(model, ObservedModel):
        product = ClosedHost(model.product)
        return SeenHost(model.columns, np.asarray(model.weights), product)
    if type(model) is FullGaussianModel:
        return GaussianHost(model)
    return ClosedHost(model, search_model(model))


def host_leaves(
    host: HostModel, problem: Problem, num_points: int | None = None
) -> PyTree:
    """Settled states `[m]` of the rows.

    Args:
        host: The cluster model.
        problem: The rows.
        num_points: How many of them are points, where the rest is padding.

    Raises:
        ValueError: At the first row without a finite cost.
    """
    statistics, weights = smoothed_statistics(working_copy(problem))
    leaves = host.leaves(statistics, np.asarray(weights))
    check_leaves(host.result(leaves)[:num_points], problem)
    return leaves


def nodes_along(host: HostModel, leaves: PyTree, children: np.ndarray) -> PyTree:
    """States of all nodes `[m + t]`, the unions to be settled."""
    count = len(children)
    m = jax.tree.leaves(leaves)[0].shape[0]
    room = lambda leaf: np.concatenate([leaf, np.repeat(leaf[:1], count, axis=0)])
    nodes = jax.tree.map(room, leaves)
    height = _heights(children, m)
    for level in range(1, np.max(height, initial=0) + 1):
        merges = np.flatnonzero(height == level)
        a, b = (rows_of(nodes, children[merges, k]) for k in range(2))
        put(nodes, m + merges, host.pool(a, b))
    return nodes


def _heights(children: np.ndarray, m: int) -> np.ndarray:
    """How many merges lead up to each, the longest way, itself included; `[t]`."""
    height = [0] * (m + len(children))
    for node, (a, b) in enumerate(children.tolist(), start=m):
        height[node] = 1 + max(height[a], height[b])
    return np.array(height[m:], int)


def put(nodes: PyTree, places: np.ndarray | slice, states: PyTree) -> None:
    """Write states into places of those of all nodes."""

    def write(all_: np.ndarray, new: np.ndarray) -> None:
        all_[places] = new

    jax.tree.map(write, nodes, states)


def settled_costs(
    host: HostModel, nodes: PyTree, children: np.ndarray
) -> tuple[PyTree, np.ndarray]:
    """States of all nodes, the unions settled too, and costs of merges `[t]`."""
    m = jax.tree.leaves(nodes)[0].shape[0] - len(children)
    unions = host.settle(rows_of(nodes, slice(m, None)))
    join = lambda all_, new: np.concatenate([all_[:m], new])
    nodes = jax.tree.map(join, nodes, unions)
    left, right = (rows_of(nodes, children[:, k]) for k in range(2))
    return nodes, host.merge_costs(left, right, unions)

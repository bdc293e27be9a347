"""Runs of engines: eagerly, on the host, or inside of a caller's program."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from bregjax._checks import float_array
from bregjax._evaluation import (
    build_leaves,
    check_costs,
    check_leaves,
    equal_rows,
    padded,
    smoothed_statistics,
    working,
    working_copy,
)
from bregjax._problem import Problem
from bregjax._progress import progress_shown
from bregjax.clusters import HostModel
from bregjax.clusters._host_model import rows_of
from bregjax.hierarchy._constraints import Constraints
from bregjax.hierarchy._dendrogram import Dendrogram
from bregjax.hierarchy._engine_bounded import BoundedInfo, bounded, exhaustive
from bregjax.hierarchy._engine_graph import GraphInfo
from bregjax.hierarchy._engine_windowed import WindowedInfo, windowed
from bregjax.hierarchy._engines import check_memory, engine_name
from bregjax.hierarchy._host_costs import (
    host_leaves,
    host_of,
    nodes_along,
    settled_costs,
    small_host,
)
from bregjax.hierarchy._kinks import check_kinks, search_model
from bregjax.hierarchy._searches import drowned, found_children, search_tree
from bregjax.hierarchy._sparse.agglomeration import (
    agglomerate_sparse,
    for_other_engines,
    goes_sparsely,
)
from bregjax.hierarchy._tree_costs import leaves_and_codes, replay, replay_costs

__all__ = [
    "AgglomerationInfo",
    "agglomerate_eagerly",
    "agglomerate_traced",
    "check_room",
    "ward_scale_of",
]


@dataclass(frozen=True)
class AgglomerationInfo:
    """How a tree was found.

    Attributes:
        engine: The engine that ran.
        windowed: What it did, if that was "windowed".
        bounded: What "numpy" did, or "matrix" where costs were solved for.
        graph: What "graph" did.

    Examples:
        >>> import bregjax as bj
        >>> _, info = bj.agglomerate([[0.0], [1.0]], family="ward", return_info=True)
        >>> print(info.engine)
        numpy
    """

    engine: str
    windowed: WindowedInfo | None = None
    bounded: BoundedInfo | None = None
    graph: GraphInfo | None = None


def agglomerate_traced(problem: Problem, engine: str, constraints: Constraints):
    full = working_copy(problem)
    m = full.num_points
    name = _choose(engine, full, None, traced=True)
    model, leaves = build_leaves(full)
    children = found_children(search_model(model), leaves, jnp.int32(m), name)
    costs = replay_costs(model, leaves, children, m)
    left = slice(m - constraints.stop)
    tree = Dendrogram(children[left], costs[left], full.weights, ward_scale_of(full))
    return tree, AgglomerationInfo(name)


def agglomerate_eagerly(
    problem: Problem,
    engine: str,
    mesh: Mesh | None,
    constraints: Constraints,
    *,
    progress: bool,
):
    """The tree of a problem of known values; a number of clusters to stop at counts.

    The merges after those are left out: what is before does not depend on them.
    """
    m = problem.num_points
    left = slice(m - constraints.stop)
    if goes_sparsely(problem, engine, mesh):
        bar = progress_shown(m - 1, unit="merge", shown=progress)
        with bar as report, working(problem) as copy:
            found = agglomerate_sparse(copy, report)
        if found is not None:
            children, costs = (array[left] for array in found)
            check_costs(costs, children, problem)
            weights = np.asarray(problem.weights)
            tree = Dendrogram(children, costs, weights, ward_scale_of(problem))
            return tree, AgglomerationInfo("sparse")
        problem = for_other_engines(problem, engine)
    engine = _engine_for(mesh, engine)
    if not problem.family.cluster_model().distributes:
        mesh = None
    with working(problem) as copy:
        full = padded(copy)
        host = None if mesh is not None else host_of(problem)
        small = small_host(copy, engine) if mesh is None else None
        if small is not None:
            host, engine = small, "numpy"
        name = _choose(engine, full, host)
        counts = name == "windowed" or host is not None
        bar = progress_shown(m - 1, unit="merge", shown=progress and counts)
        with bar as report:
            if host is not None and name != "windowed":
                children, costs, info = _on_host(host, problem, name, report)
            else:
                children, costs, info = _compiled(
                    problem, full, name, report, mesh, host
                )
        tree = Dendrogram(
            np.asarray(children)[left],
            np.asarray(costs)[left],
            np.asarray(problem.weights),
            ward_scale_of(problem),
        )
        check_kinks(tree, problem)
    check_costs(tree.merge_costs, tree.children, problem)
    return tree, info


def _compiled(
    problem: Problem,
    full: Problem,
    name: str,
    report,
    mesh: Mesh | None,
    host: HostModel | None,
):
    """Children, costs and info by engines of compiled programs."""
    m = problem.num_points
    screen = None
    if host is None:
        model, leaves, codes = leaves_and_codes(full)
        check_leaves(np.asarray(codes)[:m], problem)
    else:
        # What can be solved for outside of programs need not be compiled into them.
        model = full.family.cluster_model()
        leaves = host_leaves(host, full, m)
        screen = host.screen(leaves)
    model = search_model(model)
    if name != "windowed":
        children, costs, noise = search_tree(model, leaves, np.int32(m), engine=name)
        if name != "matrix" or not drowned(np.asarray(costs)[: m - 1], float(noise)):
            return children, costs, AgglomerationInfo(name)
        name = "windowed"  # which compares costs that do not cancel
    labels = equal_rows(problem)
    children, costs, details = windowed(
        model,
        leaves,
        m,
        labels=labels,
        report=report,
        mesh=mesh,
        screen=screen,
        host=host,
    )
    if host is not None:
        nodes = nodes_along(host, rows_of(leaves, slice(m)), children)
        costs = settled_costs(host, nodes, children)[1]
    else:
        costs = model.found_costs(np.asarray(costs), np.asarray(children), leaves)
        if np.isnan(costs).any():
            costs = _replayed(problem, children)
    return children, costs, AgglomerationInfo(name, windowed=details)


def _replayed(problem: Problem, children: np.ndarray) -> np.ndarray:
    """Costs of a tree that was found by more than costs."""
    return np.asarray(replay(problem, children))


def _on_host(host: HostModel, problem: Problem, name: str, report):
    """Children, costs and info where costs are solved for, many at a time."""
    leaves = host_leaves(host, problem)
    if name == "recompute":
        children, nodes = exhaustive(host, leaves)
        info = AgglomerationInfo(name)
    else:
        labels = equal_rows(problem)
        children, nodes, details = bounded(host, leaves, labels, report)
        info = AgglomerationInfo(name, bounded=details)
    return children, settled_costs(host, nodes, children)[1], info


def _engine_for(mesh: Mesh | None, engine: str) -> str:
    if mesh is None:
        return engine
    if engine not in ("auto", "windowed"):
        raise ValueError(
            f'`engine` must be "windowed" or "auto" with a mesh; got {engine!r}.'
        )
    return "windowed"


def _choose(
    engine: str, problem: Problem, host: HostModel | None, *, traced: bool = False
) -> str:
    screened = problem.family.cluster_model().screened
    m = problem.num_points
    name = engine_name(engine, m, host, screened=screened, traced=traced)
    check_room(name, problem, host)
    return name


def check_room(name: str, problem: Problem, host: HostModel | None) -> None:
    """Raise ValueError if an engine would not fit into memory."""
    m = problem.num_points
    if host is None:
        model, leaves = jax.eval_shape(build_leaves, problem)
        state = sum(leaf.size for leaf in jax.tree.leaves(leaves)) // m
        pair = model.pair_size(leaves)
    else:
        # Tracing the solver to know the sizes of states would take a second.
        statistics, _ = jax.eval_shape(smoothed_statistics, problem)
        size = sum(leaf.size for leaf in jax.tree.leaves(statistics)) // m
        state, pair = 2 * size + 3, 8 * size
    itemsize = jnp.result_type(float).itemsize
    check_memory(name, m, state, pair, itemsize, solves=host is not None)


def ward_scale_of(problem: Problem):
    scale = problem.family.ward_scale
    return None if scale is None else float_array(scale)

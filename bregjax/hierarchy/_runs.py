"""Runs of engines: eagerly, on the host, or inside of a caller's program."""

import functools
from collections.abc import Callable
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
    equal_points,
    equal_rows,
    padded,
    padded_size,
    smoothed_statistics,
    working,
    working_copy,
)
from bregjax._problem import Problem
from bregjax._progress import progress_shown
from bregjax._typing import PyTree
from bregjax.clusters import ClusterModel, HostModel
from bregjax.clusters._host_model import rows_of
from bregjax.clusters._quick_clusters import QuickClusters
from bregjax.hierarchy._beginnings import Beginning, beginning
from bregjax.hierarchy._constraints import Constraints
from bregjax.hierarchy._dendrogram import Dendrogram
from bregjax.hierarchy._engine_bounded import BoundedInfo, bounded
from bregjax.hierarchy._engine_graph import GraphInfo
from bregjax.hierarchy._engine_mutual import MutualInfo, mutual
from bregjax.hierarchy._engine_recompute import exhaustive
from bregjax.hierarchy._engine_windowed import WindowedInfo, windowed
from bregjax.hierarchy._engines import check_memory, engine_name
from bregjax.hierarchy._host_costs import (
    host_leaves,
    host_of,
    nodes_along,
    numpy_host,
    settled_costs,
)
from bregjax.hierarchy._interrupted import Interrupted, Report, leaving
from bregjax.hierarchy._kinks import check_kinks, search_model
from bregjax.hierarchy._processes import (
    check_same_arguments,
    failing_together,
    shows_progress,
    stopping_together,
)
from bregjax.hierarchy._provenance import remember
from bregjax.hierarchy._searches import drowned, found_children, search_in_parts
from bregjax.hierarchy._sparse.agglomeration import (
    agglomerate_sparse,
    for_other_engines,
    goes_sparsely,
)
from bregjax.hierarchy._tree_costs import (
    leaves_and_codes,
    node_states,
    replay,
    replay_costs,
)
from bregjax.hierarchy._windowed.store.placement import Placement

__all__ = [
    "AgglomerationInfo",
    "agglomerate_eagerly",
    "agglomerate_traced",
    "check_room",
    "interrupted_at",
    "tree_of",
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
        mutual: What "mutual" did.

    Examples:
        >>> import bregjax as bj
        >>> _, info = bj.agglomerate([[0.0], [1.0]], family="ward", return_info=True)
        >>> print(info.engine)
        mutual
    """

    engine: str
    windowed: WindowedInfo | None = None
    bounded: BoundedInfo | None = None
    graph: GraphInfo | None = None
    mutual: MutualInfo | None = None


def agglomerate_traced(problem: Problem, engine: str, constraints: Constraints):
    """The tree of a problem inside of a caller's program, and how it was found."""
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
    start: Dendrogram | None,
    progress: bool,
):
    """The tree of a problem of known values; a number of clusters to stop at counts.

    The merges after those are left out: what is before does not depend on them.
    """
    stop_at = constraints.num_clusters
    check_same_arguments(mesh, problem, start, engine=engine, num_clusters=stop_at)
    begun = beginning(start, problem, stop_at)
    children = np.zeros((0, 2), np.int32) if begun is None else begun.children
    made, left = len(children), slice(problem.num_points - constraints.stop)
    # Processes that each do all the work need not wait for each other.
    shared = mesh if problem.family.cluster_model().distributes else None
    shown = progress and shows_progress(mesh)
    bar = progress_shown(problem.num_points - 1, unit="merge", shown=shown)
    try:
        with bar as shown, stopping_together(shared, shown) as report:
            more = report and (lambda count: report(made + count))
            children, costs, info = _run(problem, engine, mesh, begun, more)
        tree = tree_of(problem, children[left], costs[left])
        with working(problem):
            check_kinks(tree, problem)
    except KeyboardInterrupt as stop:
        if isinstance(stop, Interrupted):
            children = stop.children
            if begun is not None and stop.num_points < problem.num_points:
                children = begun.followed_by(children)
        raise interrupted_at(problem, children[left]) from None
    check_costs(tree.merge_costs, tree.children, problem)
    return tree, info


def tree_of(problem: Problem, children: np.ndarray, costs: np.ndarray) -> Dendrogram:
    """The tree or forest of a problem, of known merges and costs."""
    weights = np.asarray(problem.weights)
    return Dendrogram(children, costs, weights, ward_scale_of(problem))


def interrupted_at(problem: Problem, children: np.ndarray) -> Interrupted:
    """What is raised where Ctrl-C stopped an engine after some merges of rows."""
    stop = Interrupted(children, problem.num_points)
    costs = np.zeros(len(stop.children))
    stop.tree = tree_of(problem, stop.children, costs)
    if len(costs):
        costs = np.asarray(replay(problem, stop.tree))
        stop.tree = tree_of(problem, stop.children, costs)
    remember(stop.tree, problem)
    return stop


def _run(
    problem: Problem,
    engine: str,
    mesh: Mesh | None,
    begun: Beginning | None,
    report: Report | None,
) -> tuple[np.ndarray, np.ndarray, AgglomerationInfo]:
    """Children and costs of a tree, and how it was found."""
    if goes_sparsely(problem, engine, mesh):
        first = None if begun is None else begun.children
        with working(problem) as copy:
            found = agglomerate_sparse(copy, report, first)
        if found is not None:
            return *found, AgglomerationInfo("sparse")
        problem = for_other_engines(problem, engine)
    engine = _engine_for(mesh, engine)
    if not problem.family.cluster_model().distributes:
        mesh = None
    with working(problem) as copy:
        host = by_numpy = None
        if mesh is None:
            by_numpy, engine = numpy_host(copy, engine)
            host = by_numpy or host_of(problem)
        with failing_together(mesh):
            name = _choose(engine, padded(copy), host, mesh)
        if host is not None and (by_numpy is not None or name != "windowed"):
            return _on_host(host, problem, name, begun, report)
        return _compiled(problem, copy, name, begun, report, mesh, host)


def _compiled(
    problem: Problem,
    copy: Problem,
    name: str,
    begun: Beginning | None,
    report: Report | None,
    mesh: Mesh | None,
    host: HostModel | None,
) -> tuple[np.ndarray, np.ndarray, AgglomerationInfo]:
    """Children, costs and info by engines of compiled programs."""
    m = problem.num_points
    if host is None:
        # Rows with padding are many numbers, and nothing needs them afterwards.
        model, leaves, codes = leaves_and_codes(padded(copy))
        check_leaves(np.asarray(codes)[:m], problem)
    else:
        # What can be solved for outside of programs need not be compiled into them.
        model = copy.family.cluster_model()
        leaves = host_leaves(host, padded(copy), m)
    count, labels = m, equal_rows(problem)
    if begun is not None:
        leaves = _roots(model, host, leaves, m, begun)
        count = len(begun.roots)
        labels = np.arange(count)
    search = search_model(model)
    by_windows = functools.partial(
        windowed,
        labels=labels,
        report=report,
        mesh=mesh,
        screen=None if host is None else host.screen(leaves),
        host=host,
    )
    children, costs, info = _searched(search, leaves, count, name, by_windows, report)
    if begun is not None:
        children = begun.followed_by(children)
    if begun is None and host is None and not np.isnan(costs).any():
        return children, costs, info
    with leaving(children, m):
        return children, np.asarray(replay(problem, children)), info


def _searched(
    model: ClusterModel,
    leaves: PyTree,
    count: int,
    name: str,
    by_windows: Callable[..., tuple[np.ndarray, np.ndarray, WindowedInfo]],
    report: Report | None,
) -> tuple[np.ndarray, np.ndarray, AgglomerationInfo]:
    """Children, costs and info of the tree of so many clusters."""
    if name != "windowed":
        children, costs, noise = search_in_parts(model, leaves, count, name, report)
        # Windows compare costs that do not cancel.
        if name != "matrix" or not drowned(costs, noise):
            return children, costs, AgglomerationInfo(name)
    children, costs, details = by_windows(model, leaves, count)
    with leaving(children, count):
        costs = model.found_costs(costs, children, leaves)
    return children, costs, AgglomerationInfo("windowed", windowed=details)


def _roots(
    model: ClusterModel,
    host: HostModel | None,
    leaves: PyTree,
    m: int,
    begun: Beginning,
) -> PyTree:
    """States of the clusters that an engine begins with, filled up to a size class."""
    leaves = rows_of(jax.tree.map(np.asarray, leaves), slice(m))
    if host is None:
        nodes = node_states(model, leaves, begun.children, m)
        nodes = jax.tree.map(np.asarray, nodes)
    else:
        nodes = _settled(host, leaves, begun.children)
    size = padded_size(len(begun.roots))
    fill = np.minimum(np.arange(size), len(begun.roots) - 1)
    return rows_of(nodes, begun.roots[fill])


def _settled(host: HostModel, leaves: PyTree, children: np.ndarray) -> PyTree:
    """Settled states of all nodes."""
    return settled_costs(host, nodes_along(host, leaves, children), children)[0]


def _on_host(
    host: HostModel,
    problem: Problem,
    name: str,
    begun: Beginning | None,
    report: Report | None,
) -> tuple[np.ndarray, np.ndarray, AgglomerationInfo]:
    """Children, costs and info by calls for many pairs at a time."""
    leaves = host_leaves(host, problem)
    states, first = leaves, None
    if begun is not None and name == "numpy" and host.rough(leaves) is not None:
        # Bounds of points lead to those of roots.
        first, begun = begun.children, None
    elif begun is not None:
        nodes = _settled(host, leaves, begun.children)
        states = rows_of(nodes, begun.roots)
    nodes = by_bounds = by_rounds = by_windows = None
    points = host.points(states) if name == "mutual" else None
    quick = _quick(host, states) if name == "windowed" else None
    # Also of different weights, and roots: else these are compared one by one.
    alike = lambda rows: equal_points(rows, np.ones(len(rows)))
    if points is not None:
        mean, weight = points
        children, by_rounds = mutual(mean, weight, alike(mean), report)
    elif quick is not None:
        model, labels = problem.family.cluster_model(), alike(quick.places)
        with _overflowing():
            children, _, by_windows = windowed(
                model, states, len(labels), labels=labels, report=report, quick=quick
            )
    elif name == "recompute":
        children, nodes = exhaustive(host, states, report)
    else:
        roots = None if begun is None else np.arange(len(begun.roots))
        labels = equal_rows(problem) if roots is None else roots
        children, nodes, by_bounds = bounded(host, states, labels, report, start=first)
    info = AgglomerationInfo(name, by_windows, by_bounds, mutual=by_rounds)
    merges = children if begun is None else begun.followed_by(children)
    with leaving(merges, problem.num_points):
        if begun is not None or nodes is None:
            nodes = nodes_along(host, leaves, merges)
        return merges, settled_costs(host, nodes, merges)[1], info


def _quick(host: HostModel, states: PyTree) -> QuickClusters | None:
    with _overflowing():
        return host.quick(states)


def _overflowing() -> np.errstate:
    """Let numbers overflow silently: a cost that does is told of in the end."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def _engine_for(mesh: Mesh | None, engine: str) -> str:
    if mesh is None:
        return engine
    if engine not in ("auto", "windowed"):
        raise ValueError(
            f'`engine` must be "windowed" or "auto" with a mesh; got {engine!r}.'
        )
    return "windowed"


def _choose(
    engine: str,
    problem: Problem,
    host: HostModel | None,
    mesh: Mesh | None = None,
    *,
    traced: bool = False,
) -> str:
    screened = problem.family.cluster_model().screened
    m = problem.num_points
    name = engine_name(engine, m, host, screened=screened, traced=traced)
    check_room(name, problem, host, mesh)
    return name


def check_room(
    name: str, problem: Problem, host: HostModel | None, mesh: Mesh | None = None
) -> None:
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
    share = Placement(mesh).share_of_memory
    check_memory(name, m, state, pair, itemsize, solves=host is not None, share=share)


def ward_scale_of(problem: Problem):
    """The variance that Ward heights go by; None but for spherical Gaussians."""
    scale = problem.family.ward_scale
    return None if scale is None else float_array(scale)

"""Trees and forests under constraints: links first, then equal rows, then the rest."""

import dataclasses
import functools
from typing import Any

import numpy as np
from jax.sharding import Mesh

from bregjax._checks import known_values, on_host
from bregjax._evaluation import check_costs, equal_rows, working_copy
from bregjax._problem import Problem, unchecked
from bregjax._progress import progress_shown
from bregjax._sparse_rows import SparseRows
from bregjax.clusters import HostModel
from bregjax.clusters._host_model import rows_of
from bregjax.hierarchy import _walk
from bregjax.hierarchy._beginnings import check_start
from bregjax.hierarchy._constraints import Constraints
from bregjax.hierarchy._dendrogram import Dendrogram
from bregjax.hierarchy._engine_bounded import bounded
from bregjax.hierarchy._engine_graph import along_edges
from bregjax.hierarchy._forest import Forest
from bregjax.hierarchy._host_costs import (
    closed_host,
    host_leaves,
    host_of,
    settled_costs,
)
from bregjax.hierarchy._interrupted import Interrupted
from bregjax.hierarchy._kinks import check_kinks
from bregjax.hierarchy._memory import available_memory
from bregjax.hierarchy._provenance import remember
from bregjax.hierarchy._runs import (
    AgglomerationInfo,
    check_room,
    interrupted_at,
    tree_of,
)

__all__ = ["agglomerate_constrained", "dense_problem", "merge_host"]

# Tables of the size of dense rows that are held at once, about, and the share of the
# free memory that these may take.
_TABLES, _SHARE = 6, 0.8


def agglomerate_constrained(
    problem: Problem,
    engine: str,
    mesh: Mesh | None,
    constraints: Constraints,
    *,
    start: Dendrogram | None,
    progress: bool,
) -> tuple[Dendrogram, AgglomerationInfo]:
    """The tree or forest of a problem of known values, on the host, in float64.

    Raises:
        ValueError: If another engine or a mesh is asked for, rows have no finite cost,
            or what it takes does not fit into memory.
        ArithmeticError: If a merge cost could not be computed.
    """
    _check_mesh(mesh)
    if start is not None:
        check_start(start, problem, constraints.num_clusters)
        _check_links(start, constraints)
    problem = dense_problem(problem)
    m, stop = problem.num_points, constraints.stop
    with known_values(), on_host():
        full = working_copy(problem)
        host = merge_host(full)
        name = _engine_for(engine, constraints, solves=host_of(full) is not None)
        check_room(name, full, host_of(full))
        leaves = host_leaves(host, full)
        labels = _labels(full, constraints.apart)
        bar = progress_shown(m - stop, unit="merge", shown=progress)
        with bar as report:
            forest = Forest(host, leaves, report)
            try:
                found = _merged(forest, name, labels, constraints, start)
                children = _drawn_in_order(forest, constraints)
                nodes = rows_of(forest.nodes, slice(m + len(children)))
                costs = np.array(settled_costs(host, nodes, children)[1])
                # Of equal rows along edges the states were not found one by one.
                costs[forest.equal] = 0
                left = slice(m - stop)
                tree = tree_of(problem, children[left], costs[left])
                check_kinks(tree, full)
            except KeyboardInterrupt:
                # A search that was stopped has told the forest of its merges.
                raise _stopped(problem, forest, constraints) from None
    check_costs(tree.merge_costs, tree.children, problem)
    return tree, found


def _merged(
    forest: Forest,
    name: str,
    labels: np.ndarray,
    constraints: Constraints,
    start: Dendrogram | None,
) -> AgglomerationInfo:
    """Make all merges; `start` has some that are made already."""
    if start is not None:
        forest.begin(start)
    links = 0
    if len(forest.node) > constraints.num_groups:
        before = len(forest.children)
        forest.merge_links(labels, constraints.group)
        links = len(forest.children) - before
    if name == "graph":
        return _follow_edges(forest, labels, constraints, links)
    return _take_all(name, forest, labels, constraints)


def _drawn_in_order(forest: Forest, constraints: Constraints) -> np.ndarray:
    """The merges so far, each with the earlier rows first where rows are in a line.

    Pictures then show a series as it runs. Elsewhere the smaller number is first.
    """
    merges = forest.merges
    if not constraints.in_line:
        return merges
    return _walk.smaller_first(merges, len(forest.cluster))


def _stopped(problem: Problem, forest: Forest, constraints: Constraints) -> Interrupted:
    """What is raised where Ctrl-C came."""
    count = problem.num_points - constraints.stop
    stop = interrupted_at(problem, forest.merges[:count])
    if constraints.in_line and stop.tree is not None:
        stop.children = _drawn_in_order(forest, constraints)[:count]
        stop.tree = dataclasses.replace(stop.tree, children=stop.children)
        remember(stop.tree, problem)
    return stop


def _check_links(start: Dendrogram, constraints: Constraints) -> None:
    """Raise ValueError where merges came before those of links, or join rows apart."""
    group, cluster = constraints.group, np.asarray(start.cut(start.num_trees))
    _, first = np.unique(group, return_index=True)
    parted = np.flatnonzero(cluster != cluster[first][group])
    groups = group.tolist()
    for merge, (a, b) in enumerate(np.asarray(start.children).tolist()):
        if len(parted) and groups[a] != groups[b]:
            row = int(parted[0])
            raise ValueError(
                "`start` must merge all that `must_link` joins before other rows; rows "
                f"{int(first[group[row]])} and {row} are in two of its trees, and "
                f"merge {merge} joins rows {first[groups[a]]} and {first[groups[b]]}. "
                "Begin without `start`."
            )
        groups.append(groups[a])
    together = cluster[constraints.apart]
    wrong = np.flatnonzero(together[:, 0] == together[:, 1])
    if len(wrong):
        a, b = constraints.apart[wrong[0]].tolist()
        raise ValueError(
            f"`start` must keep apart what `cannot_link` does; rows {a} and {b} are in "
            "one of its trees. Begin without `start`."
        )


def merge_host(problem: Problem) -> HostModel:
    """The cluster model for calls from outside of programs, of any family."""
    return host_of(problem) or closed_host(problem.family.cluster_model())


def dense_problem(problem: Problem) -> Problem:
    """The problem with dense rows.

    Raises:
        ValueError: If its rows are sparse, and do not fit into memory when dense.
    """
    table: Any = problem.x
    if not isinstance(table, SparseRows):
        return problem
    m, d = table.shape
    needed, there = 8 * _TABLES * m * d, available_memory()
    if needed > _SHARE * there:
        raise ValueError(
            "`x` must be dense, or fit into memory as dense rows, where "
            "`connectivity`, `must_link` or `cannot_link` is given; "
            f"{m:,} rows of {d:,} columns need {needed / 2**30:.1f} GiB and "
            f"{there / 2**30:.1f} GiB are there. Reduce the columns, or leave the "
            "constraints out."
        )
    return unchecked(problem, x=table.toarray())


def _check_mesh(mesh: Mesh | None) -> None:
    if mesh is not None:
        raise ValueError(
            "`mesh` must be None where `connectivity`, `must_link` or `cannot_link` is "
            f"given, whose engines run on the host; got a mesh of {mesh.size} devices. "
            "Leave it out."
        )


def _engine_for(engine: str, constraints: Constraints, *, solves: bool) -> str:
    """The engine of constraints.

    Raises:
        ValueError: If another is asked for.
    """
    if constraints.edges is not None:
        name, why = "graph", "with `connectivity`"
    else:
        name = "matrix" if solves else "numpy"
        why = "with `must_link` or `cannot_link`"
    if engine not in ("auto", name):
        raise ValueError(
            f'`engine` must be "auto" or "{name}" {why} under this family; got '
            f"{engine!r}. Other engines compare all pairs at all times."
        )
    return name


def _labels(problem: Problem, apart: np.ndarray) -> np.ndarray:
    """Numbers of rows, equal only of equal rows that may all merge, `[m]`."""
    labels = equal_rows(problem).copy()
    named = np.unique(apart)
    labels[named] = np.max(labels) + 1 + np.arange(len(named))
    return labels


def _follow_edges(
    forest: Forest, labels: np.ndarray, constraints: Constraints, links: int
) -> AgglomerationInfo:
    """Merge clusters that edges join: equal rows, then the rest by costs."""
    before = len(forest.children)
    forest.merge_equals(labels, constraints.edges_between(forest.cluster))
    duplicates = len(forest.children) - before
    info = forest.search(
        along_edges,
        constraints.edges_between(forest.cluster),
        constraints.apart_between(forest.cluster),
        constraints.stop,
    )
    info.links, info.duplicates = links, duplicates
    return AgglomerationInfo("graph", graph=info)


def _take_all(
    name: str, forest: Forest, labels: np.ndarray, constraints: Constraints
) -> AgglomerationInfo:
    """Merge by costs of all pairs that may share a cluster."""
    rules = {
        "apart": constraints.apart_between(forest.cluster),
        "num_clusters": constraints.stop,
    }
    info = forest.search(
        functools.partial(bounded, **rules),
        forest.labels(labels),
    )
    return AgglomerationInfo(name, bounded=info)

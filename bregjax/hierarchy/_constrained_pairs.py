"""Pairs of nodes that may merge while both live, under constraints; for `certify`."""

import dataclasses
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from bregjax._problem import Problem
from bregjax._typing import PyTree
from bregjax.clusters._host_model import rows_of
from bregjax.hierarchy._coexisting import CoexistingPairs, PairsOf, TreeOf, limits
from bregjax.hierarchy._constrained import dense_problem, merge_host
from bregjax.hierarchy._constraints import Constraints
from bregjax.hierarchy._host_costs import host_leaves, nodes_along, settled_costs
from bregjax.hierarchy._windowed.windows.lives import Lives

__all__ = ["constrained_comparisons", "joined_otherwise"]

# Pairs that are looked at together, about.
_PAIRS = 2**16


def constrained_comparisons(
    problem: Problem, constraints: Constraints
) -> tuple[TreeOf, PairsOf]:
    """How costs are computed and pairs compared, of those that may merge alone."""
    problem = dense_problem(problem)
    host: Any = merge_host(problem)
    leaves = host_leaves(host, problem)

    def tree_of(children: np.ndarray) -> tuple[PyTree, np.ndarray]:
        return settled_costs(host, nodes_along(host, leaves, children), children)

    def pairs_of(
        nodes: PyTree, children: np.ndarray, lives: Lives, rows: Any, *, exact: bool
    ) -> Iterator[CoexistingPairs]:
        del rows, exact  # all pairs, by costs
        # Pairs of two groups do not compete before all links are merged.
        links = problem.num_points - constraints.num_groups
        later = dataclasses.replace(lives, birth=np.maximum(lives.birth, links))
        for linked, u, v in _gathered(_pairs_that_may(children, constraints)):
            swapped = lives.death[u] > lives.death[v]
            u, v = np.where(swapped, v, u), np.where(swapped, u, v)
            limit = np.where(linked, limits(lives, u, v), limits(later, u, v))
            cost, _ = host.search_costs(rows_of(nodes, u), rows_of(nodes, v))
            yield CoexistingPairs(u, v, limit, cost)

    return tree_of, pairs_of


def joined_otherwise(children: np.ndarray, num_points: int) -> np.ndarray:
    """Other merges of the same trees: within each, neighbours, then their unions."""
    group = np.arange(num_points)
    for a, b in children.tolist():
        group = np.append(group, min(group[a], group[b]))
    for node in range(num_points + len(children) - 1, num_points - 1, -1):
        group[children[node - num_points]] = group[node]
    merges, node = [], num_points
    for root in np.unique(group[:num_points]):
        queue = deque(np.flatnonzero(group[:num_points] == root).tolist())
        while len(queue) > 1:
            merges.append((queue.popleft(), queue.popleft()))
            queue.append(node)
            node += 1
    return np.array(merges, np.int32).reshape(-1, 2)


# Whether a pair is of one group of links; and the two nodes.
_Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def _pairs_that_may(
    children: np.ndarray, constraints: Constraints
) -> Iterator[tuple[bool, int, list[int]]]:
    """Each node with those before it that it may merge with while both live.

    Raises:
        ValueError: At the first merge that may not be made.
    """
    m, links = len(constraints.group), len(constraints.group) - constraints.num_groups
    group = constraints.group.tolist()
    alive = set(range(m))
    inside: dict[int, set[int]] = {}
    for row in range(m):
        yield True, row, sorted(inside.setdefault(group[row], set()))
        inside[group[row]].add(row)
    cluster = np.arange(m)
    near: dict[int, set[int]] | None = None
    enemies: dict[int, set[int]] = {}
    for step, (a, b) in enumerate([*children.tolist(), (-1, -1)]):
        if step == links:
            cluster = _nodes_of_rows(children[:step], m)
            near, enemies = _graphs(cluster, constraints)
            for node in sorted(alive):
                others = near[node] if near is not None else alive
                may = {k for k in others if k < node} - enemies.get(node, set())
                yield False, node, sorted(may)
        if a < 0:
            return
        new = m + step
        if step < links:
            if group[a] != group[b]:
                raise _wrong(step, a, b, "before all links of `must_link` are merged")
            group.append(group[a])
            inside[group[a]] -= {a, b}
            yield True, new, sorted(inside[group[a]])
            inside[group[a]].add(new)
            alive = (alive - {a, b}) | {new}
            continue
        if near is not None and b not in near[a]:
            raise _wrong(step, a, b, "which no edge of `connectivity` joins")
        if b in enemies.get(a, ()):
            raise _wrong(step, a, b, "which `cannot_link` keeps apart")
        alive = (alive - {a, b}) | {new}
        for graph in (near, enemies):
            if graph is not None:
                _unite(graph, a, b, new)
        others = near[new] if near is not None else alive
        yield False, new, sorted(others - {new} - enemies.get(new, set()))


def _wrong(step: int, a: int, b: int, why: str) -> ValueError:
    return ValueError(
        f"`tree` has a merge that may not be: merge {step} joins nodes {a} and {b}, "
        f"{why}. Pass the constraints that it was made with."
    )


def _nodes_of_rows(children: np.ndarray, num_points: int) -> np.ndarray:
    """The node that each row is in after some merges, `[m]`."""
    top = np.arange(num_points + len(children))
    for node in range(len(top) - 1, num_points - 1, -1):
        top[children[node - num_points]] = top[node]
    return top[:num_points]


def _graphs(
    node: np.ndarray, constraints: Constraints
) -> tuple[dict[int, set[int]] | None, dict[int, set[int]]]:
    """Which nodes an edge joins, None where all may merge, and which stay apart."""
    near = None
    if constraints.edges is not None:
        near = {k: set() for k in node.tolist()}
        _link(near, constraints.edges_between(node))
    enemies: dict[int, set[int]] = {}
    _link(enemies, constraints.apart_between(node))
    return near, enemies


def _link(graph: dict[int, set[int]], pairs: np.ndarray) -> None:
    for a, b in pairs.tolist():
        graph.setdefault(a, set()).add(b)
        graph.setdefault(b, set()).add(a)


def _unite(graph: dict[int, set[int]], a: int, b: int, new: int) -> None:
    union = (graph.pop(a, set()) | graph.pop(b, set())) - {a, b}
    for other in union:
        graph[other] = (graph[other] - {a, b}) | {new}
    graph[new] = union


def _gathered(found: Iterator[tuple[bool, int, list[int]]]) -> Iterator[_Pairs]:
    """Pairs in batches."""
    parts: list[tuple[np.ndarray, ...]] = []
    count = 0
    for linked, node, others in found:
        v = np.array(others, int)
        parts.append((np.full(len(v), linked), np.full(len(v), node), v))
        count += len(v)
        if count >= _PAIRS:
            yield _joined(parts)
            parts, count = [], 0
    if count:
        yield _joined(parts)


def _joined(parts: list[tuple[np.ndarray, ...]]) -> _Pairs:
    linked, first, second = (np.concatenate(part) for part in zip(*parts, strict=True))
    return linked, first, second

"""Pairs of nodes that coexist, what they cost, and the merges of that time."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from bregjax._evaluation import check_leaves, leaf_codes, padded
from bregjax._problem import Problem
from bregjax._programs import program
from bregjax._sparse_rows import SparseRows
from bregjax._typing import PyTree
from bregjax.clusters import ClusterModel, HostModel, Screen
from bregjax.clusters._host_clusters import HostClusters
from bregjax.clusters._host_model import rows_of
from bregjax.hierarchy._host_costs import (
    host_leaves,
    host_of,
    nodes_along,
    settled_costs,
    small_host,
)
from bregjax.hierarchy._search import take
from bregjax.hierarchy._sparse.costs import sparse_costs_along
from bregjax.hierarchy._sparse.lives import newborns
from bregjax.hierarchy._tree_costs import (
    leaves_and_codes,
    nodes_and_costs,
)
from bregjax.hierarchy._windowed.store import kernels
from bregjax.hierarchy._windowed.store.base import runs
from bregjax.hierarchy._windowed.store.query import pairs_within
from bregjax.hierarchy._windowed.store.store import Store
from bregjax.hierarchy._windowed.windows.lives import Lives

__all__ = ["CoexistingPairs", "comparisons", "limits", "lives_of"]

# _CHUNKS  How many times the living clusters, fewer with each merge, are gathered. Too
#     few, and dead ones are screened; too many, and gathering takes longer.
# _PAIRS  Pairs that are looked at together.
_CHUNKS = 16
_PAIRS = 2**19

_taken = program(take)
_nodes_and_costs = program(nodes_and_costs)

# From children to the states of all nodes and the costs of merges; and from nodes,
# children, lives, rows and whether bounds are left out, to pairs in question.
TreeOf = Callable[[np.ndarray], tuple[PyTree, np.ndarray]]
PairsOf = Callable[..., Iterator["CoexistingPairs"]]


class CoexistingPairs(NamedTuple):
    """Pairs of nodes that coexist, the greatest merge cost of that time, and costs."""

    first: np.ndarray
    second: np.ndarray
    limit: np.ndarray
    cost: np.ndarray


def comparisons(problem: Problem) -> tuple[TreeOf, PairsOf]:
    """How costs are computed and pairs are compared for a problem of known values."""
    if isinstance(problem.x, SparseRows):
        return _by_entries(problem)
    host = host_of(problem) or small_host(problem, "auto")
    return _compiled(problem) if host is None else _on_host(host, problem)


def _compiled(problem: Problem) -> tuple[TreeOf, PairsOf]:
    """By compiled programs."""
    m = problem.num_points
    model, leaves, codes = leaves_and_codes(padded(problem))
    check_leaves(np.asarray(codes)[:m], problem)

    def tree_of(children: np.ndarray) -> tuple[PyTree, np.ndarray]:
        if m == 1:
            return leaves, np.zeros(0)
        extra = jax.tree.leaves(leaves)[0].shape[0] - m
        steps = np.pad(np.asarray(children, np.int32), ((0, extra), (0, 0)))
        nodes, costs = _nodes_and_costs(model, leaves, steps, np.int32(m))
        return nodes, np.asarray(costs)[: m - 1]

    screen = kernels.screen(model, leaves)
    return tree_of, functools.partial(_screened_pairs, model, screen, None)


def _by_entries(problem: Problem) -> tuple[TreeOf, PairsOf]:
    """By sweeps over the entries of sparse rows: of all pairs that coexist."""
    check_leaves(leaf_codes(problem), problem)
    tree_of = lambda children: (None, sparse_costs_along(problem, children))
    return tree_of, functools.partial(_swept_pairs, problem)


def _swept_pairs(
    problem: Problem,
    nodes: None,
    children: np.ndarray,
    lives: Lives,
    rows: np.ndarray,
    *,
    exact: bool,
) -> Iterator[CoexistingPairs]:
    """All pairs that coexist with some of the rows."""
    del nodes, exact  # costs are what is compared, in either case
    for u, others, costs, noise, exactly in newborns(problem, children):
        # The one that is merged first comes first.
        u_first = lives.death[u] <= lives.death[others]
        first, second = np.where(u_first, u, others), np.where(u_first, others, u)
        limit = limits(lives, first, second)
        counts = np.flatnonzero((limit > 0) & rows[first])
        if not len(counts):
            continue
        cost = costs[counts]
        doubtful = np.abs(limit[counts] - cost) <= noise[counts]
        if np.any(doubtful):
            cost[doubtful] = exactly(counts[doubtful])
        yield CoexistingPairs(first[counts], second[counts], limit[counts], cost)


def _on_host(host: Any, problem: Problem) -> tuple[TreeOf, PairsOf]:
    """From the host: of all pairs, or of those that a table leaves."""
    leaves = host_leaves(host, problem)
    screen = host.screen(leaves)

    def tree_of(children: np.ndarray) -> tuple[PyTree, np.ndarray]:
        return settled_costs(host, nodes_along(host, leaves, children), children)

    if screen is None:
        return tree_of, functools.partial(_solved_pairs, host)
    model = problem.family.cluster_model()
    return tree_of, functools.partial(_screened_pairs, model, screen, host)


def lives_of(children: np.ndarray, costs: np.ndarray, num_points: int) -> Lives:
    """Lives of the nodes of a tree or forest, over its merges by cost alone."""
    steps = np.arange(1, len(costs) + 1)
    birth = np.concatenate([np.zeros(num_points, int), steps])
    death = np.full(len(birth), len(costs) + 1)
    death[children] = steps[:, None]
    return Lives.of(birth, death, costs, np.zeros(len(costs), np.uint32))


def limits(lives: Lives, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The largest merge cost while both of two nodes live, their own excepted.

    −inf for those that never coexist, and where the second is merged before the first,
    which is for the other order.
    """
    begin = np.maximum(lives.birth[first], lives.birth[second])
    end, other = lives.death[first], lives.death[second]
    ours = (end <= other) & (first != second)
    return lives.cost[lives.rank(begin, np.where(ours, end - (end == other), 0))]


def _solved_pairs(
    host: HostModel,
    nodes: PyTree,
    children: np.ndarray,
    lives: Lives,
    rows: np.ndarray,
    *,
    exact: bool,
) -> Iterator[CoexistingPairs]:
    """All pairs that coexist with some of the rows, costs solved for."""
    del exact  # costs are what is compared, in either case
    first = children.ravel()
    first = first[(lives.limit(first) > 0) & rows[first]]
    numbers = sum(leaf[:1].size for leaf in jax.tree.leaves(nodes))
    everyone = np.arange(len(lives.birth))
    size = max(8 * _PAIRS // (len(everyone) * numbers), 1)
    for u, v, limit in _all_pairs(lives, first, everyone, size, 0.0):
        cost, _ = host.search_costs(rows_of(nodes, u), rows_of(nodes, v))
        yield CoexistingPairs(u, v, limit, cost)


def _screened_pairs(
    model: ClusterModel,
    screen: Screen,
    host: HostModel | None,
    nodes: PyTree,
    children: np.ndarray,
    lives: Lives,
    rows: np.ndarray,
    *,
    exact: bool,
) -> Iterator[CoexistingPairs]:
    """Pairs that bounds leave in question; all pairs with a few rows if `exact`."""
    merges = len(children)
    # As many as there are leaves, padding included.
    size = (jax.tree.leaves(nodes)[0].shape[0] + 1) // 2
    chunk = max(size // _CHUNKS, 128)
    for begin in range(0, merges, chunk):
        end = min(begin + chunk, merges)
        first = children[begin:end].ravel()
        # Next to a merge that cost nothing, of equal points, no pair costs less.
        first = first[(lives.limit(first) > 0) & rows[first]]
        there = np.flatnonzero((lives.birth < end) & (lives.death > begin))
        index = np.full(size + chunk, there[-1], np.int32)
        index[: len(there)] = there
        states = _taken(nodes, index) if host is None else rows_of(nodes, index)
        by_numpy = None if host is None else HostClusters(host, states)
        store = Store(model, screen, states, len(there), by_numpy=by_numpy)
        if exact:
            each = max(_PAIRS // len(there), 1)
            for u, v, limit in _all_pairs(lives, first, there, each, -np.inf):
                places = np.searchsorted(there, u), np.searchsorted(there, v)
                yield CoexistingPairs(u, v, limit, store.costs(*places))
        else:
            yield from _pairs_within(store, lives, first, there)


def _all_pairs(
    lives: Lives, rows: np.ndarray, there: np.ndarray, size: int, above: float
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """All pairs of rows with nodes that are there, if their limits are above a cost."""
    for part in runs(rows, size):
        u, v = np.repeat(part, len(there)), np.tile(there, len(part))
        limit = limits(lives, u, v)
        counts = limit > above
        if np.any(counts):
            yield u[counts], v[counts], limit[counts]


def _pairs_within(
    store: Store, lives: Lives, rows: np.ndarray, there: np.ndarray
) -> Iterator[CoexistingPairs]:
    """Pairs of rows with nodes in the slots of a store that cost less than they may."""
    found = pairs_within(
        store,
        np.searchsorted(there, rows),
        np.arange(store.capacity) < len(there),
        lives.limit(rows),
        lambda u, v: limits(lives, there[u], there[v]),
    )
    for first, second, cost in found:
        if len(cost):
            u, v = there[first], there[second]
            yield CoexistingPairs(u, v, limits(lives, u, v), cost)

"""A forest in the making: merges of linked rows and of equal rows, before the search.

Worked example: rows 0, 5, 1, 9, 4 with links 0–2 and 1–3–4. Groups are clustered each
by itself: {0, 2} by one merge, {1, 3, 4} by that of 1 and 4, then 3. Of the first
merges of both the cheaper one is made first, and so on: nodes 5 to 7. Two clusters are
left, whose numbers are 0 and 1 for the search; what it calls 2 is node 8.
"""

import heapq
import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bregjax._typing import PyTree
from bregjax.clusters import HostModel
from bregjax.clusters._host_model import rows_of
from bregjax.hierarchy._dendrogram import Dendrogram
from bregjax.hierarchy._engine_bounded import bounded
from bregjax.hierarchy._engine_graph import along_edges
from bregjax.hierarchy._host_costs import nodes_along, settled_costs

__all__ = ["Forest"]

# Up to so many pairs of linked rows, groups are merged in one search along edges, which
# asks for the costs of many groups at once but holds a pair by some hundred bytes.
_PAIRS = 2**19


class Forest:
    """How far merges have come, and the clusters that are left.

    Attributes:
        host: The cluster model.
        children: The merges so far.
        nodes: States of all nodes, `[2m − 1, ...]`, those to come too.
        node: The node of each cluster, `[c]`, in the order of smallest rows.
        cluster: The cluster of each row, `[m]`.
        equal: The merges of equal rows between which states were not found.
    """

    def __init__(
        self,
        host: HostModel,
        leaves: PyTree,
        report: Callable[[int], None] | None = None,
    ) -> None:
        """Begin with each row a cluster.

        Args:
            host: The cluster model.
            leaves: Settled states of the rows, `[m, ...]`.
            report: Is called with the number of merges made so far.
        """
        m = len(jax.tree.leaves(leaves)[0])
        room = lambda leaf: np.concatenate([leaf, np.repeat(leaf[:1], m - 1, axis=0)])
        self.host = host
        self.children: list[tuple[int, int]] = []
        self.nodes = jax.tree.map(room, leaves)
        self.node = self.cluster = np.arange(m)
        self.equal = slice(0)
        self._report = report

    @property
    def states(self) -> PyTree:
        """States of the clusters, `[c, ...]`."""
        return rows_of(self.nodes, self.node)

    def labels(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of clusters, `[c]`, equal only of single rows with equal numbers."""
        m = len(self.cluster)
        single = self.node < m
        own = np.max(rows) + 1 + np.arange(len(self.node))
        return np.where(single, rows[np.where(single, self.node, 0)], own)

    def later(self) -> Callable[[int], None] | None:
        """What a search reports its merges to."""
        report, before = self._report, len(self.children)
        return None if report is None else lambda done: report(before + done)

    def begin(self, start: Dendrogram) -> None:
        """Take over the merges of a forest of the rows, before all others."""
        children = np.asarray(start.children)
        m = len(self.cluster)
        leaves = rows_of(self.nodes, slice(m))
        nodes = nodes_along(self.host, leaves, children)
        nodes = settled_costs(self.host, nodes, children)[0]
        _put(
            self.nodes, np.arange(m, m + len(children)), rows_of(nodes, slice(m, None))
        )
        self.children = [(a, b) for a, b in np.sort(children, axis=1).tolist()]
        self.node = np.array(start.roots)
        self.cluster = np.asarray(start.cut(start.num_trees))

    def numbered(self, children: np.ndarray) -> np.ndarray:
        """Merges of a search, of clusters and its own unions, as merges of nodes."""
        first = len(self.cluster) + len(self.children)
        node = np.concatenate([self.node, first + np.arange(len(children))])
        return np.sort(node[children], axis=1)

    def append(self, children: np.ndarray, nodes: PyTree) -> None:
        """Take over the merges of a search `[t, 2]` and the states of its nodes."""
        size, first = len(self.node), len(self.cluster) + len(self.children)
        self.children += map(tuple, self.numbered(children).tolist())
        places = first + np.arange(len(children))
        _put(self.nodes, places, rows_of(nodes, slice(size, None)))

    def merge_links(self, labels: np.ndarray, group: np.ndarray) -> None:
        """Merge each group by itself, always the cheapest merge that is next in one.

        Args:
            labels: Numbers of rows, equal only where rows are.
            group: The group of each row, numbered by the smallest row, `[m]`.
        """
        rows = np.argsort(group, kind="stable")
        members = np.split(rows, np.flatnonzero(np.diff(group[rows])) + 1)
        self.node, self.cluster = np.array([those[0] for those in members]), group
        if sum(len(those) * (len(those) - 1) // 2 for those in members) <= _PAIRS:
            self._merge_together(members)
        else:
            self._merge_apart(labels, members)

    def _merge_together(self, members: list[np.ndarray]) -> None:
        """Merge groups of few rows in one search, in which all of a group may merge."""
        m, groups, none = (
            len(self.cluster),
            self.cluster.tolist(),
            np.zeros((0, 2), int),
        )
        linked = [those for those in members if len(those) > 1]
        edges = [np.array(list(itertools.combinations(each, 2))) for each in linked]
        leaves = rows_of(self.nodes, slice(m))
        edges = np.concatenate([none, *edges])
        children, nodes, _ = along_edges(
            self.host, leaves, edges, none, report=self.later()
        )
        self.children = [(a, b) for a, b in children.tolist()]
        _put(
            self.nodes, np.arange(m, m + len(children)), rows_of(nodes, slice(m, None))
        )
        for node, (a, _) in enumerate(self.children, start=m):
            groups.append(groups[a])
            self.node[groups[a]] = node

    def _merge_apart(self, labels: np.ndarray, members: list[np.ndarray]) -> None:
        """Merge groups of many rows, each in a search of its own."""
        merges = {
            k: _Merges(self.host, self.nodes, labels, those)
            for k, those in enumerate(members)
            if len(those) > 1
        }
        heap = [each.next(k) for k, each in merges.items()]
        heapq.heapify(heap)
        while heap:
            k = heap[0][-1]
            self.node[k] = self._record(*merges[k].parts())
            merges[k].advance(self.node[k])
            if merges[k].left:
                heapq.heapreplace(heap, merges[k].next(k))
            else:
                heapq.heappop(heap)
        for each in merges.values():
            _put(self.nodes, np.array(each.node[each.size :]), each.unions)

    def merge_equals(self, labels: np.ndarray, edges: np.ndarray) -> None:
        """Merge clusters of equal rows that edges join, at no cost.

        Args:
            labels: Numbers of rows, equal only where rows are.
            edges: Pairs of clusters, `[e, 2]`.
        """
        label, first = self.labels(labels), len(self.children)
        edges = edges[label[edges[:, 0]] == label[edges[:, 1]]]
        near: dict[int, list[int]] = {}
        for a, b in edges.tolist():
            near.setdefault(a, []).append(b)
            near.setdefault(b, []).append(a)
        head, rows = np.arange(len(self.node)), self.node.copy()
        seen = set()
        for start in sorted(near):
            if start in seen:
                continue
            seen.add(start)
            queue = [start]  # grows while it is gone through
            for one in queue:
                new = [other for other in sorted(near[one]) if other not in seen]
                seen.update(new)
                for other in new:
                    parts = int(self.node[start]), int(self.node[other])
                    self.node[start] = self._record(*parts)
                queue += new
            head[queue] = start
        self.equal = slice(first, len(self.children))
        if not near:
            return
        heads, number = np.unique(head, return_inverse=True)
        self._pool_equals(head, rows)
        self.node, self.cluster = self.node[heads], number[self.cluster]

    def _pool_equals(self, head: np.ndarray, rows: np.ndarray) -> None:
        """Find the states of unions of single rows that have the same head.

        Each is pooled with the next, and again: all have the same averages, so that it
        does not matter which merged first.
        """
        several = np.flatnonzero(np.bincount(head, minlength=len(head))[head] > 1)
        several = several[np.argsort(head[several], kind="stable")]
        heads = head[several]
        states = rows_of(self.nodes, rows[several])
        while len(heads) > len(np.unique(heads)):
            first = np.searchsorted(heads, heads)
            even = (np.arange(len(heads)) - first) % 2 == 0
            paired = np.append(heads[1:] == heads[:-1], False) & even
            a = np.flatnonzero(paired)
            pooled = self.host.pool(rows_of(states, a), rows_of(states, a + 1))
            kept = np.flatnonzero(even)
            after = rows_of(states, kept)
            _put(after, np.searchsorted(kept, a), pooled)
            states, heads = after, heads[kept]
        _put(self.nodes, self.node[heads], self.host.settle(states))

    def _record(self, a: int, b: int) -> int:
        """Record a merge of two nodes; return the node of the union."""
        self.children.append((a, b) if a < b else (b, a))
        if self._report is not None:
            self._report(len(self.children))
        return len(self.cluster) + len(self.children) - 1


class _Merges:
    """The tree of one group, and how many of its merges are made."""

    def __init__(
        self, host: HostModel, nodes: PyTree, labels: np.ndarray, rows: np.ndarray
    ) -> None:
        self.size = len(rows)
        states = rows_of(nodes, rows)
        children, found, info = bounded(host, states, labels[rows])
        self.unions = rows_of(found, slice(self.size, None))
        a, b = (rows_of(found, children[:, k]) for k in range(2))
        costs = np.array(host.search_costs(a, b)[0])
        costs[: info.duplicates] = 0
        self._costs, self._children = costs.tolist(), children.tolist()
        self.node = rows.tolist()  # of the rows, and of the unions so far
        self._slot = rows.tolist()  # the smallest row of each

    @property
    def left(self) -> int:
        """How many merges are still to come."""
        return 2 * self.size - 1 - len(self.node)

    def next(self, number: int) -> tuple[float, int, int, int]:
        """What the next merge is compared by: its cost, then the slots."""
        step = len(self.node) - self.size
        slots = sorted(self._slot[k] for k in self._children[step])
        return self._costs[step], slots[0], slots[1], number

    def parts(self) -> tuple[int, int]:
        """The two nodes of the next merge."""
        a, b = self._children[len(self.node) - self.size]
        return self.node[a], self.node[b]

    def advance(self, node: Any) -> None:
        """Go on to the merge after the next, which has made a node."""
        a, b = self._children[len(self.node) - self.size]
        self._slot.append(min(self._slot[a], self._slot[b]))
        self.node.append(int(node))


def _put(states: PyTree, places: np.ndarray, new: PyTree) -> None:
    """Write clusters into places of arrays of all."""

    def put(all_: np.ndarray, values: np.ndarray) -> None:
        all_[places] = values

    jax.tree.map(put, states, new)

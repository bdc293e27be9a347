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
from bregjax.hierarchy._engine_bounded import BoundedInfo, bounded
from bregjax.hierarchy._engine_graph import along_edges
from bregjax.hierarchy._host_costs import nodes_along, put, settled_costs
from bregjax.hierarchy._interrupted import Interrupted

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
    def merges(self) -> np.ndarray:
        """The merges so far as an array, `[t, 2]`."""
        return np.array(self.children, np.int32).reshape(-1, 2)

    @property
    def states(self) -> PyTree:
        """States of the clusters, `[c, ...]`."""
        return rows_of(self.nodes, self.node)

    def labels(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of clusters, `[c]`, equal only of clusters of equal rows.

        Args:
            rows: Numbers of rows, equal only where rows are, `[m]`.
        """
        low = np.full(len(self.node), np.max(rows))
        high = np.full(len(self.node), np.min(rows))
        np.minimum.at(low, self.cluster, rows)
        np.maximum.at(high, self.cluster, rows)
        own = np.max(rows) + 1 + np.arange(len(self.node))
        return np.where(low == high, low, own)

    def begin(self, start: Dendrogram) -> None:
        """Take over the merges of a forest of the rows, before all others."""
        children = np.asarray(start.children)
        self.children = _as_pairs(np.sort(children, axis=1))
        m = len(self.cluster)
        leaves = rows_of(self.nodes, slice(m))
        nodes = nodes_along(self.host, leaves, children)
        nodes = settled_costs(self.host, nodes, children)[0]
        put(self.nodes, np.arange(m, m + len(children)), rows_of(nodes, slice(m, None)))
        self.node = np.array(start.roots)
        self.cluster = np.asarray(start.cut(start.num_trees))

    def search(
        self, find: Callable[..., tuple[np.ndarray, PyTree, Any]], *args: Any
    ) -> Any:
        """Merge the clusters as an engine does; return what it did.

        What Ctrl-C leaves of the search is taken over, too.

        Args:
            find: From the cluster model, the states of the clusters, `args` and what
                is told of merges to the children `[t, 2]`, as if the clusters were
                leaves, the states of all nodes, and what was done.
            *args: What else the engine takes.
        """
        report, before = self._report, len(self.children)
        later = None if report is None else lambda done: report(before + done)
        try:
            children, nodes, info = find(self.host, self.states, *args, later)
        except Interrupted as stop:
            self.children += self._numbered(stop.children)
            raise
        self._take(children, nodes)
        return info

    def _numbered(self, children: np.ndarray) -> list[tuple[int, int]]:
        """Merges of a search, of clusters and its own unions, as merges of nodes."""
        first = len(self.cluster) + len(self.children)
        node = np.concatenate([self.node, first + np.arange(len(children))])
        return _as_pairs(np.sort(node[children], axis=1))

    def _take(self, children: np.ndarray, nodes: PyTree) -> None:
        """Take over the merges of a search `[t, 2]` and the states of its nodes."""
        size, first = len(self.node), len(self.cluster) + len(self.children)
        places = first + np.arange(len(children))
        self.children += self._numbered(children)
        put(self.nodes, places, rows_of(nodes, slice(size, None)))
        top = np.arange(size + len(children))
        for union in range(len(top) - 1, size - 1, -1):
            top[children[union - size]] = top[union]
        tops, least, number = np.unique(
            top[:size], return_index=True, return_inverse=True
        )
        order = np.argsort(least)
        self.node = np.concatenate([self.node, places])[tops[order]]
        self.cluster = np.argsort(order)[number][self.cluster]

    def merge_links(self, labels: np.ndarray, group: np.ndarray) -> None:
        """Merge each group by itself, always the cheapest merge that is next in one.

        Args:
            labels: Numbers of rows, equal only where rows are.
            group: The group of each row, numbered by the smallest row, `[m]`. What is
                in one cluster already is of one group.
        """
        _, row = np.unique(self.cluster, return_index=True)
        group = group[row]  # of each cluster
        clusters = np.argsort(group, kind="stable")
        members = np.split(clusters, np.flatnonzero(np.diff(group[clusters])) + 1)
        members = [those for those in members if len(those) > 1]
        if sum(len(those) * (len(those) - 1) // 2 for those in members) <= _PAIRS:
            self._merge_together(members)
        else:
            self._merge_apart(labels, group, members)

    def _merge_together(self, members: list[np.ndarray]) -> None:
        """Merge groups of few rows in one search, in which all of a group may merge."""
        none = np.zeros((0, 2), int)
        edges = [np.array(list(itertools.combinations(each, 2))) for each in members]
        self.search(along_edges, np.concatenate([none, *edges]), none, 1)

    def _merge_apart(
        self, labels: np.ndarray, group: np.ndarray, members: list[np.ndarray]
    ) -> None:
        """Merge groups of many rows, each in a search of its own.

        What Ctrl-C leaves of these searches is lost: before the last of them has ended
        nobody knows which merge comes first.
        """
        labels, states = self.labels(labels), self.states
        merges = {
            int(group[those[0]]): _Merges(
                bounded(self.host, rows_of(states, those), labels[those]),
                self.host,
                self.node[those],
                those,
            )
            for those in members
        }
        node = self.node[np.unique(group, return_index=True)[1]]
        heap = [each.next(k) for k, each in merges.items()]
        heapq.heapify(heap)
        while heap:
            k = heap[0][-1]
            node[k] = self._record(*merges[k].parts())
            merges[k].advance(node[k])
            if merges[k].left:
                heapq.heapreplace(heap, merges[k].next(k))
            else:
                heapq.heappop(heap)
        for each in merges.values():
            put(self.nodes, np.array(each.node[each.size :]), each.unions)
        self.node, self.cluster = node, group[self.cluster]

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
        head, rows, node = np.arange(len(self.node)), self.node, self.node.copy()
        seen: set[int] = set()
        for start in sorted(near):
            if start in seen:
                continue
            # The smallest of all that an edge joins with the union so far comes next.
            waiting, union = [start], int(self.node[start])
            seen.add(start)
            while waiting:
                one = heapq.heappop(waiting)
                head[one] = start
                if one != start:
                    union = self._record(union, int(rows[one]))
                for other in near[one]:
                    if other not in seen:
                        seen.add(other)
                        heapq.heappush(waiting, other)
            node[start] = union
        self.equal = slice(first, len(self.children))
        if not near:
            return
        heads, number = np.unique(head, return_inverse=True)
        self._pool_equals(head, rows, node)
        self.node, self.cluster = node[heads], number[self.cluster]

    def _pool_equals(
        self, head: np.ndarray, rows: np.ndarray, unions: np.ndarray
    ) -> None:
        """Find the states of unions of clusters of equal rows with the same head.

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
            put(after, np.searchsorted(kept, a), pooled)
            states, heads = after, heads[kept]
        put(self.nodes, unions[heads], self.host.settle(states))

    def _record(self, a: int, b: int) -> int:
        """Record a merge of two nodes; return the node of the union."""
        self.children.append((a, b) if a < b else (b, a))
        if self._report is not None:
            self._report(len(self.children))
        return len(self.cluster) + len(self.children) - 1


def _as_pairs(children: np.ndarray) -> list[tuple[int, int]]:
    return [(a, b) for a, b in children.tolist()]


class _Merges:
    """The tree of one group, and how many of its merges are made.

    Attributes:
        size: How many clusters it began with.
        unions: States of the unions, `[size − 1, ...]`.
        node: The nodes of the clusters, then those of the unions so far.
    """

    def __init__(
        self,
        found: tuple[np.ndarray, PyTree, BoundedInfo],
        host: HostModel,
        node: np.ndarray,
        slots: np.ndarray,
    ) -> None:
        """Begin with no merge made.

        Args:
            found: What `bounded` gave of the clusters.
            host: The cluster model.
            node: The nodes of the clusters.
            slots: What ties go by: numbers in the order of smallest rows.
        """
        children, nodes, info = found
        self.size = len(node)
        self.unions = rows_of(nodes, slice(self.size, None))
        a, b = (rows_of(nodes, children[:, k]) for k in range(2))
        costs = np.array(host.search_costs(a, b)[0])
        costs[: info.duplicates] = 0
        self._costs, self._children = costs.tolist(), children.tolist()
        self.node = node.tolist()
        self._slot = slots.tolist()  # the least of each

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

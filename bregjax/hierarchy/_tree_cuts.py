"""Flat clusters of a tree or forest: by number, cost, height and size."""

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from bregjax._typing import Array
from bregjax.hierarchy import _walk
from bregjax.hierarchy._cuts import labels_of, limit_or_count, node_of_leaf
from bregjax.hierarchy._tree_nodes import Heights, TreeNodes

__all__ = ["TreeCuts"]


class TreeCuts(TreeNodes):
    """How `Dendrogram` is cut into flat clusters."""

    def cut(
        self,
        num_clusters: SupportsIndex | Sequence[SupportsIndex] | None = None,
        *,
        max_cost: Any = None,
        max_height: Any = None,
        max_size: SupportsIndex | Sequence[SupportsIndex] | None = None,
        min_size: SupportsIndex | None = None,
        heights: Heights = "cost",
    ) -> Array | np.ndarray:
        """Cut the tree into flat clusters: the labels of the leaves.

        Exactly one of the first four is given. `num_clusters` undoes the last merges,
        so it gives exactly that many clusters whatever the costs. `max_cost` and
        `max_height` give the largest clusters inside which no merge is higher than
        that: a cheap merge above an expensive one doesn't count. `max_size` gives the
        largest clusters of at most so many leaves.

        `min_size` goes with any of them, and leaves in no cluster of at least so many
        leaves get the label −1. With `num_clusters` merges are undone from the last on
        until so many clusters are large enough. One of two large parts makes two
        clusters of one; one of a large and a small part takes the small one off as a
        splinter, −1; one of two small parts is not undone, so that no cluster falls to
        pieces. With a limit the small ones of its clusters are −1.

        Args:
            num_clusters: From 1 to m, or from the number of trees of a forest; static
                under `jit`. Several give a column each.
            max_cost: In nats, compared with the raw merge costs. Several give a column
                each.
            max_height: The same by other heights, those of `heights`.
            max_size: Leaves, whatever they weigh, from 1 to m; static under `jit`.
                Several give a column each.
            min_size: Leaves, whatever they weigh, from 1 to m; static under `jit`.
            heights: Which heights `max_height` is one of: see `Dendrogram.heights`.

        Returns:
            Labels, int32 of shape ``[m]``, numbered from 0 by each cluster's smallest
            leaf; of k numbers ``[m, k]``.

        Raises:
            ValueError: If not exactly one of the four is given, one is out of range, or
                there are not so many clusters of `min_size` leaves. (Where the children
                are traced, there are as many as can be had.)

        Examples:
            >>> import bregjax as bj
            >>> tree = bj.Dendrogram.from_linkage([[0, 2, 7.4, 2], [1, 3, 6.9, 3]])
            >>> print(tree.cut(2), tree.cut(max_cost=7.0))
            [0 1 0] [0 1 2]
            >>> print(tree.cut(max_height=1, heights="merge_index"))
            [0 1 0]

            Two pairs, and a point far off that joins last. Its merge, undone first,
            makes no cluster of two; the one before makes two.

            >>> x = [[0.0], [1.0], [9.0], [10.0], [99.0]]
            >>> tree = bj.agglomerate(x, family="ward")
            >>> print(tree.cut(2), tree.cut(2, min_size=2), tree.cut(max_size=2))
            [0 0 0 0 1] [ 0 0 1 1 -1] [0 0 1 1 2]
        """
        name, value = limit_or_count(
            num_clusters=num_clusters,
            max_cost=max_cost,
            max_height=max_height,
            max_size=max_size,
        )
        if np.ndim(value) == 1:
            if not len(value):
                raise ValueError(f"`{name}` must have at least one number; got none.")
            nodes = [self._nodes(name, one, min_size, heights) for one in value]
            columns = [labels_of(node) for node in nodes]
            return _walk.namespace(columns[0]).stack(columns, axis=1)
        return labels_of(self._nodes(name, value, min_size, heights))

    def cluster_nodes(
        self,
        num_clusters: SupportsIndex | None = None,
        *,
        max_cost: Any = None,
        max_height: Any = None,
        max_size: SupportsIndex | None = None,
        min_size: SupportsIndex | None = None,
        heights: Heights = "cost",
    ) -> Array | np.ndarray:
        """The nodes of the clusters of a cut, in the order of its labels.

        `cluster_nodes(…)[cut(…)]` is the node that holds each leaf, if its label is not
        −1.

        Args:
            num_clusters: As in `cut`.
            max_cost: As in `cut`; needs concrete arrays, as all limits do, since it
                decides the shape.
            max_height: As in `cut`.
            max_size: As in `cut`.
            min_size: As in `cut`.
            heights: As in `cut`.

        Returns:
            Node numbers, int32 of shape ``[k]``; behind them −1 where the children are
            traced and there are fewer than k clusters of `min_size` leaves.
        """
        name, value = limit_or_count(
            num_clusters=num_clusters,
            max_cost=max_cost,
            max_height=max_height,
            max_size=max_size,
        )
        node = self._nodes(name, value, min_size, heights)
        count = None if num_clusters is None else operator.index(num_clusters)
        return _walk.firsts(node, count)

    def _nodes(
        self, name: str, value: Any, min_size: SupportsIndex | None, heights: Heights
    ) -> Any:
        """The node of each leaf's cluster, or −1, `[m]`."""
        children, costs = self._arrays()
        tops = self.heights(heights) if name == "max_height" else costs
        m = self.num_leaves
        return node_of_leaf(children, m, tops, name, value, min_size)

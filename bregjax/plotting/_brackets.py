"""Where the lines of a tree go: brackets of merges, triangles of collapsed subtrees."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bregjax._typing import DataLike
from bregjax.hierarchy import Dendrogram

__all__ = ["Brackets", "clusters_of_nodes", "cut_level", "top_of"]


@dataclass(frozen=True)
class Brackets:
    """The lines of a tree, along its leaves and up its heights.

    A drawn tree has n ends: leaves, or subtrees that are collapsed into one.

    Attributes:
        order: The ends from first to last, `[n]`, by their place in `nodes`.
        nodes: What node of the whole tree each end is, `[n]`.
        sizes: The number of leaves of each end, `[n]`.
        position: Where each end and each merge is along the leaves, `[n + s]`.
        level: How high each is, `[n + s]`; a collapsed subtree as high as its merge.
        children: The parts of each merge that is drawn, `[s, 2]`, s = n − 1 of one
            tree.
        bottom: The height of the leaves.
    """

    order: np.ndarray
    nodes: np.ndarray
    sizes: np.ndarray
    position: np.ndarray
    level: np.ndarray
    children: np.ndarray
    bottom: float

    @property
    def num_ends(self) -> int:
        """The number n of leaves and collapsed subtrees."""
        return len(self.order)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is collapsed."""
        return bool(np.all(self.sizes == 1))

    def corners(self) -> np.ndarray:
        """The four corners of each merge's bracket, `[s, 4, 2]`."""
        left, right = self.children.T
        tops = self.level[self.num_ends :]
        along = self.position[np.stack([left, left, right, right], axis=1)]
        up = np.stack([self.level[left], tops, tops, self.level[right]], axis=1)
        return np.stack([along, up], axis=-1)

    def triangles(self) -> tuple[np.ndarray, np.ndarray]:
        """Which ends are collapsed, and their triangles, `[c, 3, 2]`."""
        places = np.flatnonzero(self.sizes > 1)
        x, y = self.position[places], self.level[places]
        bottom = np.full_like(x, self.bottom)
        along = np.stack([x - 0.36, x, x + 0.36], axis=1)
        return places, np.stack([along, np.stack([bottom, y, bottom], 1)], axis=-1)


def top_of(
    tree: Dendrogram, heights: np.ndarray, bottom: float, max_leaves: int | None
) -> Brackets:
    """The lines of a tree, or of its last merges.

    Args:
        tree: The tree.
        heights: Of its merges, `[t]`.
        bottom: Of its leaves.
        max_leaves: How many ends are drawn at most; one of each tree at least.
    """
    m, trees = tree.num_leaves, tree.num_trees
    count = m if max_leaves is None else max(min(m, max_leaves), trees)
    # Each merge makes one end fewer, down to the number of trees.
    first = tree.num_merges - (count - trees)
    children = np.asarray(tree.children)[first:].astype(np.int64)
    nodes = np.asarray(tree.cluster_nodes(num_clusters=count))
    # Ends are 0 … n − 1 in the drawn tree, and its merges come after.
    place = np.arange(m + tree.num_merges) - (m + first - count)
    place[nodes] = np.arange(count)
    children = place[children]
    drawn = Dendrogram(children, heights[first:], np.ones(count))
    order = np.asarray(drawn.leaf_order())
    position = np.empty(count + len(children))
    position[order] = np.arange(count)
    for node, (left, right) in enumerate(children.tolist(), start=count):
        position[node] = (position[left] + position[right]) / 2
    low = np.concatenate([np.full(m, bottom), heights])[nodes]
    labels = np.asarray(tree.cut(num_clusters=count))
    return Brackets(
        order=order,
        nodes=nodes,
        sizes=np.bincount(labels, minlength=count),
        position=position,
        level=np.concatenate([low, heights[first:]]),
        children=children,
        bottom=bottom,
    )


def clusters_of_nodes(tree: Dendrogram, labels: DataLike) -> list[Any]:
    """The cluster that each node is inside of, length m + t; None of those above."""
    # A merge belongs to a cluster where both its children do.
    of_node = np.asarray(labels).tolist()
    for left, right in np.asarray(tree.children).tolist():
        same = of_node[left] == of_node[right]
        of_node.append(of_node[left] if same else None)
    return of_node


def cut_level(heights: np.ndarray, num_undone: int, low: float) -> float | None:
    """The height between the merges that a cut undoes and those that it keeps.

    Args:
        heights: As they are drawn, `[t]`.
        num_undone: How many merges it undoes.
        low: The height of the leaves.

    Returns:
        None if no height parts them: trees may invert.
    """
    kept, undone = np.split(heights, [len(heights) - num_undone])
    if not len(undone):
        return None
    below, above = max([low, *kept]), min(undone)
    return (below + above) / 2 if below < above else None

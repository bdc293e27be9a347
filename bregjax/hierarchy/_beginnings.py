"""Merges that are made before an engine begins."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bregjax._problem import Problem
from bregjax.hierarchy._dendrogram import Dendrogram
from bregjax.hierarchy._tree_costs import children_of

__all__ = ["Beginning", "beginning", "check_start"]


@dataclass(frozen=True)
class Beginning:
    """The merges of a forest, whose roots are what an engine begins with.

    Worked example: of four points 1 and 3 have merged, into node 4. The roots are 0, 2
    and 4. An engine that merges its second and third cluster, and then the first with
    their union, says (1, 2) and (0, 3); as merges of the points these are (2, 4) and
    (0, 5).

    Attributes:
        children: The merges, `[t, 2]`.
        roots: Nodes that are in no merge, ascending, `[r]`.
    """

    children: np.ndarray
    roots: np.ndarray

    @property
    def num_merges(self) -> int:
        """The number t of merges."""
        return len(self.children)

    def followed_by(self, merges: np.ndarray) -> np.ndarray:
        """All merges, from those of the roots, `[q, 2]`, as an engine numbers them."""
        first = len(self.roots) + self.num_merges
        unions = first + self.num_merges + np.arange(len(merges))
        node = np.concatenate([self.roots, unions])
        return np.concatenate([self.children, np.sort(node[merges], axis=1)])


def beginning(
    start: Dendrogram | None, problem: Problem, num_clusters: int | None
) -> Beginning | None:
    """The merges of a forest over the rows of a problem; None if there are none.

    Raises:
        TypeError: If it is no dendrogram.
        ValueError: If it is over other rows, or has fewer trees than clusters are
            asked for.
    """
    if start is None:
        return None
    children = check_start(start, problem, num_clusters)
    nodes = np.arange(problem.num_points + len(children))
    return Beginning(children, np.setdiff1d(nodes, children))


def check_start(start: Any, problem: Problem, num_clusters: int | None) -> np.ndarray:
    """The merges `[t, 2]` of a forest over the rows of a problem; see `beginning`."""
    if not isinstance(start, Dendrogram):
        raise TypeError(
            f"`start` must be a Dendrogram; got {type(start).__name__}. Take the "
            "attribute `tree` of the exception, or a forest that `agglomerate` made."
        )
    m = problem.num_points
    if start.num_leaves != m:
        raise ValueError(
            f"`start` must be a forest over the {m} rows of the problem; got one over "
            f"{start.num_leaves} leaves. New rows may change each merge: a tree of "
            "more rows has to be made anew."
        )
    children = np.asarray(children_of(start, m, name="start"), np.int32)
    if num_clusters is not None and start.num_trees < num_clusters:
        raise ValueError(
            f"`start` must have at least `num_clusters` = {num_clusters} trees, as its "
            f"merges stand; got {start.num_trees}. Ask for fewer clusters, or cut it: "
            f"start.cut({num_clusters})."
        )
    return children

"""Costs of all pairs of clusters of sparse rows that coexist in a tree."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from bregjax._problem import Problem
from bregjax.hierarchy._sparse.clusters import SparseClusters
from bregjax.hierarchy._sparse.costs import SparseCosts
from bregjax.hierarchy._sparse.sweep import Sweep

__all__ = ["Newborn", "newborns"]


class Newborn(NamedTuple):
    """A node of a tree as it is made, and those that live at that time.

    Attributes:
        node: Its number.
        others: Nodes that live, and have not had this one as theirs, `[k]`.
        costs: Costs of merging it with each, `[k]`.
        noise: Their rounding, about, `[k]`.
        exact: From places in `others` to costs that do not cancel.
    """

    node: int
    others: np.ndarray
    costs: np.ndarray
    noise: np.ndarray
    exact: Callable[[np.ndarray], np.ndarray]


def newborns(problem: Problem, children: np.ndarray) -> Iterator[Newborn]:
    """All nodes but the root, each with those that live when it is made."""
    clusters = SparseClusters(problem)
    costs = SparseCosts(problem, clusters)
    leaves = np.argsort(clusters.weight[: problem.num_points], kind="stable")
    sweep = Sweep(clusters, leaves.tolist())

    def born(node: int, there: np.ndarray, found: np.ndarray) -> Newborn:
        exact = lambda places: costs.of((node, int(other)) for other in there[places])
        return Newborn(node, there, found, clusters.noise(node, there), exact)

    for place, leaf in enumerate(leaves[:-1].tolist()):
        others = sweep.nodes[place + 1 :].copy()
        yield born(leaf, others, sweep.costs(leaf, place + 1))
    for a, b in children[:-1].tolist():
        union = clusters.unite(a, b)
        clusters.drop(a)
        clusters.drop(b)
        sweep.replace(a, b, union)
        there = sweep.is_alive & (sweep.nodes != union)
        yield born(union, sweep.nodes[there], sweep.costs(union)[there])

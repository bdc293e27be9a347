"""What it would cost clusters of a tree of sparse rows to take rows in."""

from typing import Any

import numpy as np

from bregjax._problem import Problem, unchecked
from bregjax._sparse_rows import stacked
from bregjax.hierarchy._sparse.clusters import SparseClusters
from bregjax.hierarchy._sparse.sweep import Sweep

__all__ = ["sparse_features"]


def sparse_features(
    problem: Problem, children: np.ndarray, others: Problem, nodes: np.ndarray
) -> np.ndarray:
    """Costs Δ(C_i, {x}) of rows for clusters of a tree, `[r, k]`, by sweeps.

    Args:
        problem: What the tree is of, of known values.
        children: Its merges, `[m − 1, 2]`.
        others: Rows, of known values; family and smoothing as of the problem.
        nodes: The clusters by their numbers in the tree, from m on, `[k]`.
    """
    m, r = problem.num_points, others.num_points
    rows: Any = problem.x
    more: Any = others.x
    table: Any = stacked(rows, more)
    weights: Any = np.concatenate([problem.weights, others.weights])
    clusters = SparseClusters(unchecked(problem, x=table, weights=weights))
    sweep = Sweep(clusters, range(m, m + r))
    wanted = {int(node): place for place, node in enumerate(nodes)}
    found = np.empty((r, len(nodes)))
    # Unions come behind the leaves, of which there are r more than in the tree.
    shifted = np.where(children < m, children, children + r)
    for step, (a, b) in enumerate(shifted.tolist()):
        union = clusters.unite(a, b)
        clusters.drop(a)
        clusters.drop(b)
        if m + step in wanted:
            found[:, wanted[m + step]] = sweep.costs(union)
    return found

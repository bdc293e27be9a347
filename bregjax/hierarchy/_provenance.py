"""Whether the merge costs of a tree are those of the problem that it meets."""

import weakref

import numpy as np

from bregjax._checks import is_concrete
from bregjax._problem import Problem
from bregjax._typing import DataLike
from bregjax.hierarchy._dendrogram import Dendrogram
from bregjax.hierarchy._tree_costs import replay

__all__ = ["check_same_problem", "compare_costs", "remember"]

# Costs agree to a relative 1e-4 between precisions and devices, but for full Gaussians
# under narrow bandwidths: 2e-3 was seen in float32. Costs under a share of the largest
# are rounding. Another problem mostly changes costs by tens of per cent.
_RELATIVE = {4: 2e-2, 8: 1e-3}
_NEGLIGIBLE = 1e-5

# The problem that each tree's costs are known to be of.
_problem_of: weakref.WeakKeyDictionary[Dendrogram, weakref.ref[Problem]]
_problem_of = weakref.WeakKeyDictionary()


def remember(tree: Dendrogram, problem: Problem) -> None:
    """Note that the costs of a tree are those of a problem."""
    _problem_of[tree] = weakref.ref(problem)


def check_same_problem(tree: Dendrogram | DataLike, problem: Problem) -> None:
    """Raise ValueError where a tree brings merge costs of another problem.

    Infinite costs are not known, as those of merges that `Dendrogram.joined` added.
    Costs are computed again unless the tree is known to be of the problem. Nothing is
    compared where values are traced, or where children alone are given.
    """
    if not isinstance(tree, Dendrogram) or not is_concrete((tree, problem)):
        return
    known = _problem_of.get(tree)
    if known is not None and known() is problem:
        return
    compare_costs(tree, replay(problem, tree))
    remember(tree, problem)


def compare_costs(tree: Dendrogram, costs: DataLike) -> None:
    """Raise ValueError at the merge whose cost is the farthest from that of `costs`."""
    own, costs = np.asarray(tree.merge_costs), np.asarray(costs)
    if own.shape != costs.shape:
        raise ValueError(
            f"`tree` must have a merge cost a merge; got costs of shape {own.shape} "
            f"for {len(costs)} merges."
        )
    known = own != np.inf
    if not known.any():
        return
    relative = _RELATIVE.get(own.dtype.itemsize, _RELATIVE[8])
    with np.errstate(invalid="ignore"):
        size = np.maximum(np.abs(own), costs)
        most = np.max(size, where=known, initial=0)
        excess = np.abs(own - costs) - relative * size - _NEGLIGIBLE * most
        # Where all rows are equal all costs are rounding, in nats a unit of weight.
        excess -= float(np.finfo(own.dtype).eps) * np.sum(tree.weights)
    wrong = known & ~(excess <= 0)
    if not np.any(wrong):
        return
    excess = np.where(np.isnan(excess), np.inf, excess)
    worst = int(np.argmax(np.where(wrong, excess, -np.inf)))
    joined = ""
    if own[worst] == own[-1] and np.all(own[wrong] == own[-1]):
        joined = (
            " If `joined` made these merges at this cost, pass the forest, or join its "
            "trees at the cost inf, which says that it is not known."
        )
    raise ValueError(
        f"`tree` has merge costs of another problem: {np.count_nonzero(wrong)} of "
        f"{len(costs)} differ, most that of merge {worst}, {own[worst]:.6g} in the "
        f"tree and {costs[worst]:.6g} under `problem`. Pass the problem that the tree "
        "was made of (its family, smoothing and weights); or tree.children, to take "
        f"the merges alone, or as labels to start from tree.cut(num_clusters).{joined}"
    )

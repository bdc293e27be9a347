"""Whether Proposition 3.8 holds at the merges of a tree."""

import dataclasses

import jax
import numpy as np

from bregjax._evaluation import build_leaves
from bregjax._geometry import FunctionGeometry
from bregjax._problem import Problem
from bregjax._programs import program
from bregjax.clusters import BregmanModel, ClusterModel
from bregjax.convex import ConvexFunction
from bregjax.convex._plain import PlainFunction, by_gradients, straight
from bregjax.hierarchy._dendrogram import Dendrogram

__all__ = ["check_kinks", "search_model"]


def check_kinks(tree: Dendrogram, problem: Problem) -> None:
    """Raise ArithmeticError at the first merge whose mean is a kink of the function.

    Relative differentiability can't be read off the code of a function, so it is
    tested where the costs used it: at the mean of each merge, along the line of its
    parts. Built-in functions that are differentiable are not tested.
    """
    model = problem.family
    if not isinstance(model, FunctionGeometry) or _known_smooth(model.function):
        return
    means = _node_means(tree, problem)
    children = np.asarray(tree.children)
    centers = means[tree.num_leaves :]
    lines = means[children[:, 0]] - means[children[:, 1]]
    moving = np.any(lines != 0, axis=tuple(range(1, lines.ndim)))
    fine = np.asarray(_straight(model.function, centers, lines)) | ~moving
    if fine.all():
        return
    first = int(np.argmin(fine))
    raise ArithmeticError(
        f"`family` has a kink at {centers[first]}, the mean of merge {first}: there "
        "the merge cost is not the sum of two divergences (Proposition 3.8 needs "
        "relative differentiability). Use a differentiable function, or `merge_cost(…, "
        "direct=True)`, Definition 3.7, which may be negative."
    )


_straight = program(straight)


def search_model(model: ClusterModel) -> ClusterModel:
    """The model that engines search with: costs of a plain function by its gradient.

    These are too small at a kink, and true elsewhere: a tree found with them is the
    tree of the true costs, unless `check_kinks` refuses it. One-sided derivatives of
    all pairs would take half as long again.
    """
    if isinstance(model, BregmanModel):
        return dataclasses.replace(model, function=by_gradients(model.function))
    return model


def _known_smooth(function: ConvexFunction) -> bool:
    is_plain = lambda node: isinstance(node, PlainFunction)
    parts = jax.tree.leaves(function, is_leaf=is_plain)
    return function.differentiable and not any(map(is_plain, parts))


def _node_means(tree: Dendrogram, problem: Problem) -> np.ndarray:
    """Means of all nodes, `[m + t, …]`, as the smoothed leaves have them."""
    leaves = build_leaves(problem)[1]
    m, count = tree.num_leaves, tree.num_merges
    weight = np.concatenate([np.asarray(leaves.weight), np.zeros(count)])
    mean = np.asarray(leaves.mean)
    mean = np.concatenate([mean, np.zeros((count, *mean.shape[1:]))])
    for node, (a, b) in enumerate(np.asarray(tree.children), start=m):
        weight[node] = weight[a] + weight[b]
        mean[node] = mean[a] + weight[b] / weight[node] * (mean[b] - mean[a])
    return mean

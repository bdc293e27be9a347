"""The leave-one-out likelihood of the cuts of a tree: one observation, not one row."""

import jax
import numpy as np

from bregjax._evaluation import evaluate
from bregjax._problem import Problem, unchecked
from bregjax._typing import Array
from bregjax.hierarchy._left_out import leave_one_out

__all__ = ["held_out_likelihoods"]


def held_out_likelihoods(
    problem: Problem, children: np.ndarray, numbers: np.ndarray, size: int
) -> np.ndarray:
    """Compute Σ_i w_i log p(x_i) under the cuts without one observation of row i.

    A row of weight w stands for w equal rows, of which one is left out: of its weight 1
    is taken away, or all where it is less. (`leave_one_out_log_likelihood` leaves whole
    rows out.) Such a row is split in two, of weights 1 and w − 1, which a tree merges
    first. Pseudo-counts, which are a row's whatever its weight, are those of both.

    Args:
        problem: Known data, family, smoothing and weights.
        children: Of a tree `[m − 1, 2]`.
        numbers: The numbers of clusters, `[K]`.
        size: How many clusters a program has room for; see `cut_size`.

    Returns:
        `[K]`, in nats; NaN for a row that is alone and has no more than weight 1.
    """
    counts = np.asarray(problem.weights)
    heavy = np.flatnonzero(counts > 1)
    if problem.num_points + len(heavy) == 1:
        return np.full(len(numbers), np.nan)
    parts, tree = _split(problem, children, heavy)
    counts = np.concatenate([counts, np.zeros(len(heavy))])
    if problem.family.cluster_model().solves:
        one = lambda k: evaluate(leave_one_out, parts, tree, k, counts, size=size)
        return np.array([one(np.int32(k)) for k in numbers])
    each = np.asarray(numbers, np.int32)
    return np.asarray(evaluate(_of_each, parts, tree, each, counts, size=size))


def _of_each(
    problem: Problem, children: Array, numbers: Array, counts: Array, *, size: int
) -> Array:
    """All numbers in one program: its loops would take NumPy seconds for each."""
    one = lambda k: leave_one_out(problem, children, k, counts, size=size)
    return jax.lax.map(one, numbers)


def _split(
    problem: Problem, children: np.ndarray, heavy: np.ndarray
) -> tuple[Problem, np.ndarray]:
    """One observation and the rest of each row of weight above 1, which merge first.

    The rests are behind all rows; nodes of the tree move up to make room.
    """
    m, extra = problem.num_points, len(heavy)
    if not extra:
        return problem, children
    weights = np.asarray(problem.weights)
    parts = unchecked(
        problem,
        x=problem.x[np.concatenate([np.arange(m), heavy])],
        weights=np.concatenate([np.minimum(weights, 1), weights[heavy] - 1]),
    )
    pairs = np.stack([heavy, m + np.arange(extra)], axis=1)
    node = np.concatenate([np.arange(m), m + 2 * extra + np.arange(len(children))])
    node[heavy] = m + extra + np.arange(extra)
    return parts, np.concatenate([pairs, node[children]]).astype(children.dtype)

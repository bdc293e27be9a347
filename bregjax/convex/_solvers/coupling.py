"""Which coordinates of θ the Hessian of ψ couples, from Hessians at a few points.

For ψ = e^θ₀ + log(e^θ₁ + e^θ₂), counted from 0, all Hessians have zeros between 0 and
{1, 2}, and vanish along (0, 1, 1): the groups are (0,) and (1,), and the overcomplete
coordinate 2 is left out.
"""

import numpy as np

from bregjax.convex._solvers.rapid import Structure

__all__ = ["SAMPLES", "coupling", "sample_points"]

SAMPLES = 3
# Numbers that decide.
_REACH = 0.2  # of 1 + |θ|: how far from the start the other Hessians are computed
_NULL = 64  # n eps: a smaller scaled pivot belongs to an overcomplete direction


def sample_points(start: np.ndarray) -> np.ndarray:
    """The start `[n]` and points around it, `[SAMPLES, n]`."""
    around = np.random.default_rng(0).uniform(
        -_REACH, _REACH, (SAMPLES - 1, len(start))
    )
    return np.concatenate([start[None], start + around * (1 + np.abs(start))])


def coupling(hessians: np.ndarray) -> Structure:
    """Groups of coordinates that the Hessians couple with each other only.

    An entry that is exactly 0 at all points couples nothing. In each group coordinates
    are left out until no direction in which all Hessians vanish is left: overcomplete
    coordinates may stay where they are. Both are guesses from a few points;
    `rapid.advance`, which steps by the groups, checks each step.

    Args:
        hessians: Hessians `[k, n, n]`, the first at the start; others may be NaN,
            outside of the domain.
    """
    finite = np.all(np.isfinite(hessians), axis=(1, 2))
    hessians = hessians[finite] if finite.any() else np.ones_like(hessians)
    n = hessians.shape[-1]
    coupled = np.any(hessians != 0, axis=0)
    labels = _components(np.logical_or(coupled, coupled.T))
    # A direction along which a sum of semidefinite matrices vanishes is null in each.
    total = np.sum(hessians, axis=0)
    variances = np.diag(total)
    scale = np.sqrt(np.where(variances > 0, variances, 1))
    scaled = total / scale[:, None] / scale[None, :]
    groups = (np.flatnonzero(labels == label) for label in np.unique(labels))
    kept = (_independent(scaled, group) for group in groups)
    found = tuple(sorted(group for group in kept if group))
    return Structure(n, found or (tuple(range(n)),))


def _components(coupled: np.ndarray) -> np.ndarray:
    """For each coordinate the least one that a symmetric relation connects it with."""
    near = coupled | np.eye(len(coupled), dtype=bool)
    labels = np.arange(len(coupled))
    while True:
        least = np.min(np.where(near, labels[None], len(labels)), axis=1)
        if np.array_equal(least, labels):
            return labels
        labels = least


def _independent(scaled: np.ndarray, group: np.ndarray) -> tuple[int, ...]:
    """Coordinates of a group whose block of the scaled Hessian has full rank.

    By a pivoted Cholesky factorisation: the largest pivot left is next.
    """
    rest = scaled[np.ix_(group, group)].copy()
    least = _NULL * len(group) * np.finfo(float).eps * max(np.max(np.diag(rest)), 0)
    left = np.ones(len(group), bool)
    for _ in group:
        pivots = np.where(left, np.diag(rest), -np.inf)
        place = int(np.argmax(pivots))
        if not pivots[place] > least:
            break
        left[place] = False
        column = rest[:, place] / np.sqrt(pivots[place])
        rest -= np.outer(column, column)
    return tuple(int(coordinate) for coordinate in group[~left])

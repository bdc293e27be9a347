"""Which coordinates of θ the Hessian of ψ couples, from Hessians at a few points."""

import numpy as np

from bregjax.convex._solvers.rapid import Structure

__all__ = ["SAMPLES", "coupling", "sample_points"]

SAMPLES = 3
# How far from the start Hessians are looked at, as a share of 1 + |θ|.
_REACH = 0.2
# Scaled pivots under so many n eps are those of an overcomplete direction.
_NULL = 64


def sample_points(start: np.ndarray) -> np.ndarray:
    """The start `[n]` and points around it, `[SAMPLES, n]`."""
    around = np.random.default_rng(0).uniform(
        -_REACH, _REACH, (SAMPLES - 1, len(start))
    )
    return np.concatenate([start[None], start + around * (1 + np.abs(start))])


def coupling(hessians: np.ndarray) -> Structure:
    """Groups of coordinates that the Hessians couple with each other only.

    An entry that is exactly 0 at all points couples nothing. In each group coordinates
    are left out until no direction in which all Hessians vanish is left: what is
    overcomplete may stay where it is. Both are guesses from a few points; who steps by
    them checks each step (`rapid.advance`).

    Args:
        hessians: `[k, n, n]`, the first at the start; others may be NaN, outside of the
            domain.
    """
    finite = np.all(np.isfinite(hessians), axis=(1, 2))
    hessians = hessians[finite] if finite.any() else np.ones_like(hessians)
    n = hessians.shape[-1]
    coupled = np.any(hessians != 0, axis=0)
    labels = _components(np.logical_or(coupled, coupled.T))
    # What vanishes in the sum of semidefinite matrices vanishes in each.
    total = np.sum(hessians, axis=0)
    variances = np.diag(total)
    scale = np.sqrt(np.where(variances > 0, variances, 1))
    scaled = total / scale[:, None] / scale[None, :]
    groups = (np.flatnonzero(labels == label) for label in np.unique(labels))
    kept = (_independent(scaled, group) for group in groups)
    found = tuple(sorted(group for group in kept if group))
    return Structure(n, found or (tuple(range(n)),))


def _components(coupled: np.ndarray) -> np.ndarray:
    """The least coordinate of the component of each, of a symmetric relation."""
    near = coupled | np.eye(len(coupled), dtype=bool)
    labels = np.arange(len(coupled))
    while True:
        least = np.min(np.where(near, labels[None], len(labels)), axis=1)
        if np.array_equal(least, labels):
            return labels
        labels = least


def _independent(scaled: np.ndarray, group: np.ndarray) -> tuple[int, ...]:
    """Coordinates of a group whose block of the scaled Hessian has full rank.

    Cholesky's factorisation with exchanges: the largest pivot left is next.
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

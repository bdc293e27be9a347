"""Single merges turned as long as two trees become less entangled."""

import dataclasses

import numpy as np

from bregjax.hierarchy import Dendrogram

__all__ = ["turned_singly"]

_ROUNDS = 30
# Leaves that are moved at most, all tries together, and what a try costs besides, in
# leaves: about a second.
_MOST_MOVED, _TRY = 2e7, 500


def turned_singly(
    first: Dendrogram, second: Dendrogram, power: float
) -> tuple[Dendrogram, Dendrogram]:
    """Turn merges one by one, the top ones first, where that brings leaves closer.

    Args:
        first: A tree.
        second: A tree of the same leaves.
        power: Of the distances, whose sum no turn increases.
    """
    trees, moved, idle = [first, second], 0.0, 0
    for turn in range(_ROUNDS):
        side = turn % 2
        turned, tried = _turned(trees[side], trees[1 - side], power)
        idle = idle + 1 if turned is None else 0
        trees[side] = turned or trees[side]
        moved += tried
        if idle == 2 or moved > _MOST_MOVED:
            break
    return trees[0], trees[1]


def _turned(
    tree: Dendrogram, other: Dendrogram, power: float
) -> tuple[Dendrogram | None, float]:
    """The tree after a try of each merge, None if none helps; how many were moved."""
    m, children = tree.num_leaves, np.asarray(tree.children).copy()
    order = np.asarray(tree.leaf_order())
    # Leaves stay where they are in these arrays, where each merge has one run of them.
    place = np.arange(m, dtype=np.float64)
    goal = np.empty(m)
    goal[np.asarray(other.leaf_order())] = np.arange(m)
    goal = goal[order]
    start, size = np.empty(m + len(children), int), np.ones(m + len(children), int)
    start[order] = np.arange(m)
    for merge, (left, right) in enumerate(children.tolist(), start=m):
        start[merge], size[merge] = start[left], size[left] + size[right]
    helped, moved = False, 0.0
    for merge in range(len(children) - 1, -1, -1):
        left, right = children[merge]
        a, b, c = start[left], start[right], start[right] + size[right]
        run = slice(a, c)
        at = place[run].copy()
        at[: b - a] += c - b
        at[b - a :] -= b - a
        moved += float(c - a) + _TRY
        if _apart(at, goal[run], power) < _apart(place[run], goal[run], power) - 1e-9:
            place[run] = at
            children[merge] = right, left
            helped = True
        if moved > _MOST_MOVED:
            break
    turned = dataclasses.replace(tree, children=children) if helped else None
    return turned, moved


def _apart(place: np.ndarray, goal: np.ndarray, power: float) -> float:
    return float(np.sum(np.abs(place - goal) ** power))

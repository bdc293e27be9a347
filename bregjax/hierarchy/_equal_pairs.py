"""Pairs of equal clusters, of which engines merge as many as there are at once."""

import numpy as np

__all__ = ["equal_pairs"]


def equal_pairs(
    slots: np.ndarray, labels: np.ndarray, node: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pair up slots whose clusters are equal, those of the lowest nodes first.

    Example: of nodes 4, 5, 6, 7, 8 with the labels 1, 0, 1, 1, 0 the pairs are (5, 8)
    and (4, 6); 7 is left.

    Args:
        slots: Slots of the clusters, `[k]`.
        labels: Numbers by slot, equal where clusters are.
        node: Nodes of the tree by slot.

    Returns:
        Slots of both parts of each pair, `[p]`.
    """
    slots = slots[np.lexsort((node[slots], labels[slots]))]
    equal = labels[slots[1:]] == labels[slots[:-1]]
    starts = np.flatnonzero(np.append(True, ~equal))
    lengths = np.diff(np.append(starts, len(slots)))
    place = np.arange(len(slots)) - np.repeat(starts, lengths)
    even = np.flatnonzero(equal & (place[:-1] % 2 == 0))
    return slots[even], slots[even + 1]

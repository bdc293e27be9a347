"""Two trees of the same leaves: how entangled they are, and how to turn them apart."""

import dataclasses

import numpy as np

from bregjax.hierarchy import Dendrogram
from bregjax.plotting._turning import turned_singly

__all__ = ["entanglement", "untangle"]

_ROUNDS = 12


def entanglement(first: Dendrogram, second: Dendrogram, *, power: float = 1.5) -> float:
    """How far equal leaves of two trees are apart, as the trees are drawn.

    With p_i and q_i the places of leaf i in both,

        Σ_i |p_i − q_i|^power / Σ_p |p − (m − 1 − p)|^power

    the sum over that of two orders of which one is the other reversed. It depends on
    which child of a merge stands first, so `untangle` makes it smaller.

    Args:
        first: A tree.
        second: A tree of the same leaves.
        power: At least 1; larger ones weigh long distances more.

    Returns:
        From 0, for equal orders, to 1.

    Raises:
        ValueError: If the trees have different numbers of leaves, or the power is
            below 1, where reversed orders are not the farthest apart.

    Examples:
        >>> first = Dendrogram.from_linkage([[0, 1, 1.0, 2], [3, 2, 2.0, 3]])
        >>> second = Dendrogram.from_linkage([[1, 0, 1.0, 2], [2, 3, 2.0, 3]])
        >>> entanglement(first, second), entanglement(*untangle(first, second))
        (1.0, 0.0)

    References:
        Galili (2015), dendextend: an R package for visualizing, adjusting and comparing
        trees of hierarchical clustering.
    """
    _check_leaves(first, second)
    if not 1 <= power < np.inf:
        raise ValueError(
            f"`power` must be a number of at least 1; got {power}. Take 1.5, say."
        )
    place = np.arange(first.num_leaves, dtype=float)
    worst = _total(place - place[::-1], power)
    return _total(_places(first) - _places(second), power) / worst if worst else 0.0


def untangle(first: Dendrogram, second: Dendrogram) -> tuple[Dendrogram, Dendrogram]:
    """Turn the merges of two trees so that equal leaves come close to each other.

    By turns each tree puts first that child of each merge whose leaves are, on average,
    further in front in the other tree; from the pair of the least entanglement on, and
    from that given, single merges are turned as long as it helps. Some seconds for
    5,000 leaves, deterministic; a heuristic, for the best pair is hard to find. A tree
    that is the other one turned is turned back exactly.

    Args:
        first: A tree.
        second: A tree of the same leaves.

    Returns:
        Both trees, the same merges with their children in another order.

    Raises:
        ValueError: If the trees have different numbers of leaves.

    Examples:
        >>> first = Dendrogram.from_linkage([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
        >>> second = Dendrogram.from_linkage([[0, 2, 1.0, 2], [1, 3, 2.0, 3]])
        >>> [tree.leaf_order().tolist() for tree in untangle(first, second)]
        [[2, 0, 1], [2, 0, 1]]
    """
    _check_leaves(first, second)
    best, least = (first, second), entanglement(first, second)
    turned = best
    for turn in range(_ROUNDS):
        if turn % 2 == 0:
            turned = turned[0], _sorted_by(turned[1], _places(turned[0]))
        else:
            turned = _sorted_by(turned[0], _places(turned[1])), turned[1]
        found = entanglement(*turned)
        if found < least:
            best, least = turned, found
        elif turn > 1:
            break
    if least > 0:
        pairs = [turned_singly(*pair, 1.5) for pair in (best, (first, second))]
        best = min(pairs, key=lambda pair: entanglement(*pair))
    return best


def _total(apart: np.ndarray, power: float) -> float:
    """A sum of powers of distances, as shares of the longest: none is too large.

    It is sorted, so that equal distances in any order have equal sums.
    """
    shares = np.abs(apart) / max(len(apart) - 1, 1)
    return float(np.sum(np.sort(shares) ** float(power)))


def _check_leaves(first: Dendrogram, second: Dendrogram) -> None:
    if first.num_leaves != second.num_leaves:
        raise ValueError(
            "`second` must have the leaves of `first`; got "
            f"{second.num_leaves} leaves for {first.num_leaves}. Give both trees the "
            "same rows."
        )


def _places(tree: Dendrogram) -> np.ndarray:
    """The place of each leaf as the tree is drawn, `[m]`."""
    order = tree.leaf_order()
    place = np.empty(len(order))
    place[order] = np.arange(len(order))
    return place


def _sorted_by(tree: Dendrogram, place: np.ndarray) -> Dendrogram:
    """The tree with that child first whose leaves are in front on average."""
    total, size = place.tolist(), [1] * len(place)
    children = np.asarray(tree.children).copy()
    for merge, (left, right) in enumerate(children.tolist()):
        # Means are compared without division, so that equal ones stay in order.
        if total[right] * size[left] < total[left] * size[right]:
            children[merge] = right, left
        total.append(total[left] + total[right])
        size.append(size[left] + size[right])
    return dataclasses.replace(tree, children=children)

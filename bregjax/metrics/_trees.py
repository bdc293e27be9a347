"""How well two trees over the same leaves agree."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bregjax._checks import check_finite, float_array
from bregjax._typing import DataLike
from bregjax.hierarchy import Dendrogram, _walk
from bregjax.hierarchy._dendrogram import Heights

__all__ = ["bakers_gamma", "cophenetic_correlation", "robinson_foulds"]

# From a leaf and others to a value for each pair, less the mean.
Values = Callable[[int, np.ndarray], np.ndarray]


def robinson_foulds(
    a: Dendrogram | DataLike, b: Dendrogram | DataLike, *, normalized: bool = False
) -> int | float:
    """Robinson–Foulds distance: how many clusters stand in one of two trees alone.

    The clusters of a tree are the sets of leaves of its merges; that of all leaves does
    not count. Costs and the order of merges play no part. O(m) time and memory.

    Leaves are matched by their numbers, not by names. Number both trees alike: a tree
    read from a Newick text by ``Dendrogram.from_newick(text, names=names)``.

    Args:
        a: A tree or forest, or the children `[m − 1, 2]` of a tree.
        b: Another one, over the same leaves.
        normalized: Divide by how many clusters both have, 2 (m − 2) for two trees: 0
            where all clusters are the same, 1 where none is.

    Returns:
        A whole number, or from 0 to 1 if `normalized`.

    Raises:
        ValueError: If they have not the same number of leaves.

    Examples:
        Of {0, 1}, {2, 3} and {0, 1}, {0, 1, 2} one is in both.

        >>> a, b = [[0, 1], [2, 3], [4, 5]], [[0, 1], [2, 4], [3, 5]]
        >>> print(robinson_foulds(a, b), robinson_foulds(a, b, normalized=True))
        2 0.5

    References:
        Robinson and Foulds (1981), Comparison of phylogenetic trees; Day (1985),
        Optimal algorithms for comparing trees with labeled leaves.
    """
    (a, b), m = _both(a, b)
    order, _ = _walk.layout(a, m)
    place = np.argsort(order).tolist()
    # In the order of the leaves of the one tree, its clusters are intervals.
    clusters_a, clusters_b = _spans(a, place), _spans(b, place)
    intervals = {(low, size) for low, _, size in clusters_a if size < m}
    count = len(intervals) + sum(size < m for _, _, size in clusters_b)
    shared = sum(
        high - low + 1 == size and (low, size) in intervals
        for low, high, size in clusters_b
    )
    apart = count - 2 * shared
    return (apart / count if count else 0.0) if normalized else apart


def bakers_gamma(a: Dendrogram | DataLike, b: Dendrogram | DataLike) -> float:
    """Baker's γ: whether two trees join the same pairs of leaves early and late.

    The level of a pair is the largest number k of clusters into which a tree can be cut
    with both still together; γ is Spearman's rank correlation of the levels in both
    trees over all pairs, ties at their mean rank. Costs play no part but by the order
    of the merges. Leaves of a forest that never join rank behind all others.

    Example: the tree ((0, 1), (2, 3)) whose first merge is (0, 1) has level 3 of the
    pair 0, 1, level 2 of 2, 3, and level 1 of the other four. The chain
    (((0, 1), 2), 3) has the levels 3 of 0, 1, then 2 of 0, 2 and 1, 2, and 1 of the
    rest. Ranks of the pairs 01, 02, 03, 12, 13, 23 are 6, 2.5, 2.5, 2.5, 2.5, 5 and 6,
    4.5, 2, 4.5, 2, 2: γ = 0.365.

    O(m²) time, O(m) memory.

    Leaves are matched by their numbers, not by names. Number both trees alike: a tree
    read from a Newick text by ``Dendrogram.from_newick(text, names=names)``.

    Args:
        a: A tree or forest, or the children `[m − 1, 2]` of a tree.
        b: Another one, over the same leaves.

    Returns:
        From −1 to 1.

    Raises:
        ValueError: If they have not the same number of leaves, or in one of them all
            pairs have the same level.

    Examples:
        >>> a, b = [[0, 1], [2, 3], [4, 5]], [[0, 1], [2, 4], [3, 5]]
        >>> print(bakers_gamma(a, b))
        0.365

    References:
        Baker (1974), Stability of two hierarchical grouping techniques, as R's
        dendextend computes it.
    """
    (a, b), m = _both(a, b)
    values, scales = [], []
    for name, children in (("a", a), ("b", b)):
        counts = _pair_counts(children, m)
        ranks = np.cumsum(counts) - counts + (counts + 1) / 2
        ranks -= (counts.sum() + 1) / 2
        scales.append(_scale(name, "levels", ranks, counts))
        values.append(ranks)
    of_pairs = _of_merges(b, values[1], m)
    return _correlation(a, values[0], of_pairs, scales, m)


def cophenetic_correlation(
    a: Dendrogram, b: Dendrogram | DataLike, *, heights: Heights = "cost"
) -> float:
    """Pearson's correlation over all pairs of leaves of the heights at which they join.

    Of two trees, or of a tree and the distances that it was made of: how faithful it
    is. O(m²) time and O(m) memory beside the distances; SciPy's `cophenet` gives the
    same.

    Leaves are matched by their numbers, not by names. Number both trees alike: a tree
    read from a Newick text by ``Dendrogram.from_newick(text, names=names)``.

    Args:
        a: A tree.
        b: A tree over the same leaves; or distances, condensed as SciPy's `pdist`
            gives them, `[m (m − 1)/2]`.
        heights: Of the trees: see `Dendrogram.heights`.

    Returns:
        From −1 to 1.

    Raises:
        ValueError: If sizes differ, one is a forest, whose leaves may never join, a
            height or distance is not finite, or all are the same.
        TypeError: If `a` is no tree: children alone have no heights.

    Examples:
        >>> z = [[0, 1, 1.0, 2], [2, 3, 3.0, 3]]
        >>> tree = Dendrogram.from_linkage(z)
        >>> print(cophenetic_correlation(tree, [1.0, 2.5, 3.5]))
        0.918

    References:
        Sokal and Rohlf (1962), The comparison of dendrograms by objective methods.
    """
    if not isinstance(a, Dendrogram):
        raise TypeError(
            f"`a` must be a Dendrogram, as children alone have no heights; got "
            f"{type(a).__name__}. Take `bakers_gamma`, which needs none; distances go "
            "second."
        )
    children, m = _children("a", a)
    values, scale = _heights("a", a, children, m, heights)
    if isinstance(b, Dendrogram):
        (_, other), _ = _both(a, b)
        others, other_scale = _heights("b", b, other, m, heights)
        of_pairs = _of_merges(other, others, m)
    else:
        of_pairs, other_scale = _distances(b, m)
    return _correlation(children, values, of_pairs, [scale, other_scale], m)


def _both(
    a: Dendrogram | DataLike, b: Dendrogram | DataLike
) -> tuple[tuple[np.ndarray, np.ndarray], int]:
    """The children of two trees, and the number of their leaves."""
    first, m = _children("a", a)
    second, count = _children("b", b)
    if count != m:
        raise ValueError(
            f"`b` must be a tree over the leaves of `a`, {m}; got one over {count}."
        )
    return (first, second), m


def _children(name: str, tree: Dendrogram | DataLike) -> tuple[np.ndarray, int]:
    """The children of a tree, and the number of its leaves."""
    given = tree.children if isinstance(tree, Dendrogram) else tree
    if np.ndim(given) != 2 or np.shape(given)[1] != 2:
        raise ValueError(
            f"`{name}` must be one tree, or its children [m − 1, 2]; got shape "
            f"{list(np.shape(given))}. Read a linkage by Dendrogram.from_linkage first."
        )
    given = np.asarray(given)
    m = tree.num_leaves if isinstance(tree, Dendrogram) else len(given) + 1
    children = given.astype(np.int64)
    fault = _walk.problem_with(children, m)
    if fault or not np.array_equal(given, children):
        raise ValueError(
            f"`{name}` must hold the merges of a tree; "
            f"{fault or 'got numbers that are not whole'}."
        )
    return children, m


def _spans(children: np.ndarray, place: list[int]) -> list[tuple[int, int, int]]:
    """The first and the last place of the leaves of each merge, and their number."""
    spans = [(at, at, 1) for at in place]
    for left, right in children.tolist():
        (low, high, size), (low_2, high_2, size_2) = spans[left], spans[right]
        spans.append((min(low, low_2), max(high, high_2), size + size_2))
    return spans[len(place) :]


def _pair_counts(children: np.ndarray, m: int) -> np.ndarray:
    """How many pairs each merge joins, and behind them how many never do, `[t + 1]`."""
    sizes = np.asarray(_walk.sizes(children, m), np.float64)
    joined = sizes[children].prod(axis=1)
    return np.append(joined, m * (m - 1) / 2 - joined.sum())


def _heights(
    name: str, tree: Dendrogram, children: np.ndarray, m: int, kind: Heights
) -> tuple[np.ndarray, float]:
    """Heights less their mean over pairs, and the root of the sum of their squares.

    In units of the largest, so that no square is 0 or infinite that need not be.
    """
    if tree.num_trees > 1:
        raise ValueError(
            f"`{name}` must be one tree: in a forest of {tree.num_trees} some leaves "
            "never join. Join its trees first: tree.joined(cost=…)."
        )
    heights = np.asarray(tree.heights(kind), np.float64)
    check_finite(name, heights)
    counts = _pair_counts(children, m)
    heights = np.append(heights / _largest(heights), 0.0)
    heights -= np.sum(counts * heights) / max(counts.sum(), 1)
    return heights, _scale(name, "heights", heights, counts)


def _scale(name: str, what: str, values: np.ndarray, counts: np.ndarray) -> float:
    """The root of the sum of squares over pairs of centered values."""
    there = values[counts > 0]
    if not len(there) or np.ptp(there) == 0:
        raise _no_correlation(name, what)
    return math.sqrt(np.sum(counts[counts > 0] * there**2))


def _no_correlation(name: str, what: str) -> ValueError:
    return ValueError(
        f"`{name}` must have two different {what} for a correlation; all pairs of "
        "leaves have the same."
    )


def _of_merges(children: np.ndarray, values: np.ndarray, m: int) -> Values:
    """A function from pairs of leaves to the value of the merge that joins them."""
    order, gap = _walk.layout(children, m)
    place = np.argsort(order)

    def of_pairs(leaf: int, others: np.ndarray) -> np.ndarray:
        at = int(place[leaf])
        row = np.empty(m, np.int64)
        row[at + 1 :] = np.maximum.accumulate(gap[at:])
        row[:at] = np.maximum.accumulate(gap[:at][::-1])[::-1]
        return values[row[place[others]]]

    return of_pairs


def _distances(given: Any, m: int) -> tuple[Values, float]:
    """A function from pairs of leaves to distances less their mean, and their scale.

    In units of the largest, as heights are.
    """
    distances = np.asarray(float_array(given, "b"), np.float64)
    if distances.shape != (m * (m - 1) // 2,):
        raise ValueError(
            f"`b` must be a tree over the leaves of `a`, or {m * (m - 1) // 2} "
            f"distances of its {m} leaves, condensed; got shape "
            f"{list(distances.shape)}. scipy.spatial.distance.squareform condenses a "
            "square of distances."
        )
    check_finite("b", distances)
    if not len(distances) or np.min(distances) == np.max(distances):
        raise _no_correlation("b", "distances")
    largest = _largest(distances)
    # Some at a time: they are as many as there are pairs.
    parts = np.array_split(distances, len(distances) // 2**20 + 1)
    total = math.fsum(float(np.sum(part / largest)) for part in parts)
    mean = total / len(distances)
    squares = (float(np.sum((part / largest - mean) ** 2)) for part in parts)

    def of_pairs(leaf: int, others: np.ndarray) -> np.ndarray:
        return distances[_walk.places_of_pairs(leaf, others, m)] / largest - mean

    return of_pairs, math.sqrt(math.fsum(squares))


def _largest(values: np.ndarray) -> float:
    """The largest absolute value; 1 if all are 0 or there are none."""
    return float(max(np.max(values, initial=0), -np.min(values, initial=0))) or 1.0


def _correlation(
    children: np.ndarray,
    values: np.ndarray,
    of_pairs: Values,
    scales: list[float],
    m: int,
) -> float:
    """The correlation over pairs of values of merges with other values."""
    products = (
        float(np.dot(values[merge], of_pairs(leaf, others)))
        for leaf, others, merge in _walk.rows_of_pairs(children, m)
    )
    found = math.fsum(products) / scales[0] / scales[1]
    return min(max(found, -1.0), 1.0)

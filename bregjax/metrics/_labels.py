"""How well two sets of flat clusters agree."""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bregjax._typing import Array
from bregjax.metrics._codes import codes_of

__all__ = ["adjusted_rand", "fowlkes_mallows"]

Labels = Sequence[Hashable] | np.ndarray | Array


class _PairCounts(NamedTuple):
    """How many pairs of points share a cluster; whole numbers of any size.

    Attributes:
        both: In both sets of labels.
        first: In the first.
        second: In the second.
        every: All pairs there are.
    """

    both: int
    first: int
    second: int
    every: int


def adjusted_rand(labels_a: Labels, labels_b: Labels) -> Any:
    """Adjusted Rand index: how far two sets of flat clusters agree beyond chance.

        (n_ab − n_a n_b / n) / ((n_a + n_b)/2 − n_a n_b / n)

    Of the n pairs of points, n_a share a cluster in the first set, n_b in the second,
    n_ab in both. 1 if and only if the clusters are the same, whatever their numbers; 0
    on average where labels are shuffled. The label −1 of `Dendrogram.cut` with
    `min_size` is one like any other: drop such points first if they are to be none.

    Args:
        labels_a: The cluster of each point, `[m]`: numbers, strings or anything
            hashable; or an array `[m, k]` of k sets of labels, such as
            `tree.cut([2, 3, 4])`.
        labels_b: Others, `[m]` or `[m, k]`. Columns are compared one by one, and one
            set goes with every column of the other.

    Returns:
        At most 1, a float; of columns an array `[k]`.

    Raises:
        ValueError: If there are not as many of both, or one is missing.

    Examples:
        >>> print(adjusted_rand([0, 0, 1, 1], ["b", "b", "a", "a"]))
        1.0
        >>> import bregjax as bj
        >>> a = bj.agglomerate([[0.0], [1.0], [5.0], [6.5]], family="ward")
        >>> b = bj.agglomerate([[0.0], [1.0], [1.5], [9.0]], family="ward")
        >>> print(adjusted_rand(a.cut([2, 3]), b.cut([2, 3])))
        [ 0.  -0.2]

    References:
        Hubert and Arabie (1985), Comparing partitions.
    """
    return _of_columns(_adjusted_rand, labels_a, labels_b)


def fowlkes_mallows(labels_a: Labels, labels_b: Labels) -> Any:
    """Fowlkes–Mallows index of two sets of flat clusters: n_ab / √(n_a n_b).

    Of the cuts of two trees, `fowlkes_mallows(a.cut(ks), b.cut(ks))` against ks, it is
    the plot of B_k.

    Args:
        labels_a: As in `adjusted_rand`.
        labels_b: As in `adjusted_rand`.

    Returns:
        From 0 to 1, a float; of columns an array `[k]`. 0 where no two points share a
        cluster in both.

    Raises:
        ValueError: As `adjusted_rand`.

    Examples:
        >>> print(fowlkes_mallows([0, 0, 1, 1], [0, 0, 0, 1]))
        0.408

    References:
        Fowlkes and Mallows (1983), A method for comparing two hierarchical clusterings.
    """
    return _of_columns(_fowlkes_mallows, labels_a, labels_b)


def _adjusted_rand(counts: _PairCounts) -> float:
    both, first, second, every = counts
    chance = 2 * first * second
    possible = (first + second) * every - chance
    # Whole numbers up to here. 0 where both are one cluster, or one for each point.
    return (2 * both * every - chance) / possible if possible else 1.0


def _fowlkes_mallows(counts: _PairCounts) -> float:
    both, first, second, _ = counts
    return both / math.sqrt(first) / math.sqrt(second) if both else 0.0


def _of_columns(
    index: Callable[[_PairCounts], float], labels_a: Labels, labels_b: Labels
) -> Any:
    """The index of each pair of columns."""
    a, is_flat_a = _columns("labels_a", labels_a)
    b, is_flat_b = _columns("labels_b", labels_b)
    if not is_flat_a and not is_flat_b and len(a) != len(b):
        raise ValueError(
            f"`labels_b` must have as many columns as `labels_a`, {len(a)}, or be one "
            f"set of labels; got {len(b)}."
        )
    count = max(len(a), len(b))
    if not len(a) or not len(b):
        count = 0
    a, b = (x * count if len(x) == 1 else x for x in (a, b))
    m = len(a[0]) if a else 0
    found = []
    for first, second in zip(a[:count], b[:count], strict=True):
        codes = codes_of("labels_a", first, m), codes_of("labels_b", second, m)
        found.append(index(_pair_counts(*codes)))
    return found[0] if is_flat_a and is_flat_b else np.asarray(found)


def _columns(name: str, labels: Labels) -> tuple[list[Any], bool]:
    """The columns of labels, and whether they are one set alone."""
    if not hasattr(labels, "__array__"):
        return [labels], True
    # Where cells are masked each column is refused, as labels that are one set are.
    array = np.asanyarray(labels) if np.ma.isMaskedArray(labels) else np.asarray(labels)
    if array.ndim == 1:
        return [labels], True
    if array.ndim != 2:
        raise ValueError(
            f"`{name}` must have shape [m] or [m, k]; got {list(array.shape)}."
        )
    return list(array.T), False


def _pair_counts(a: list[int], b: list[int]) -> _PairCounts:
    """Count pairs of points by what they share."""
    codes_a, codes_b = np.asarray(a, np.int64), np.asarray(b, np.int64)
    joint = codes_a * (np.max(codes_b, initial=0) + 1) + codes_b
    both, first, second = map(_pairs_within, (joint, codes_a, codes_b))
    return _PairCounts(both, first, second, len(a) * (len(a) - 1) // 2)


def _pairs_within(codes: np.ndarray) -> int:
    sizes = np.unique(codes, return_counts=True)[1].astype(np.int64)
    return int(np.sum(sizes * (sizes - 1) // 2))

"""How well a tree agrees with known classes."""

import math
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from bregjax._typing import Array, DataLike
from bregjax.hierarchy import Dendrogram
from bregjax.hierarchy._tree_costs import children_of
from bregjax.metrics._codes import codes_of

__all__ = ["dendrogram_purity"]


def dendrogram_purity(
    tree: Dendrogram | DataLike, classes: Sequence[Hashable] | np.ndarray | Array
) -> float:
    """Dendrogram purity: how pure the smallest cluster of two like points is.

    For each pair of points of the same class, take the smallest cluster of the tree
    that contains both and the fraction of it of that class; average over all such
    pairs. It depends on the tree's shape alone, not on its costs or weights. 1 if and
    only if every class is one subtree.

    Exact: pairs are counted in whole numbers of any size, and the result is within a
    few roundings of the true value. O(m log c) expected time for c classes (the smaller
    table of class counts is merged into the larger) and O(m) memory.

    Args:
        tree: Tree over m leaves, or its children `[m − 1, 2]`.
        classes: The known class of each leaf, length m: numbers, strings or anything
            hashable.

    Returns:
        Between 0 and 1.

    Raises:
        ValueError: If there are not m classes, one is missing (None or NaN) or not
            hashable, or no two points share one (there is nothing to average). Or if
            it is a forest, in which points may share no cluster: join its trees first,
            by `Dendrogram.joined`.

    Examples:
        >>> z = [[0, 1, 0, 2], [2, 4, 0, 3], [3, 5, 0, 4]]
        >>> print(dendrogram_purity(Dendrogram.from_linkage(z), ["a", "a", "b", "b"]))
        0.75

    References:
        Heller, Ghahramani (2005), Bayesian Hierarchical Clustering; Telgarsky, Dasgupta
        (2012), Section 7.1.
    """
    children = tree.children if isinstance(tree, Dendrogram) else tree
    if np.ndim(children) != 2:
        raise ValueError(
            f"`tree` must be one tree; got a batch of shape "
            f"{list(np.shape(children)[:-2])}. Take one at a time."
        )
    num_leaves = np.shape(children)[0] + 1
    if isinstance(tree, Dendrogram):
        num_leaves = tree.num_leaves
    remedy = "Join them, tree.joined(), in the order of their smallest leaves."
    children = np.asarray(
        children_of(tree, num_leaves, whole_for="dendrogram_purity", remedy=remedy)
    )
    codes = codes_of("classes", classes, num_leaves)
    class_sizes = np.bincount(codes).tolist()
    num_pairs = sum(size * (size - 1) // 2 for size in class_sizes)
    if num_pairs == 0:
        raise ValueError(
            f"`classes` must give some two points the same class; all {num_leaves} "
            f"differ, so there are no pairs to average over."
        )
    return math.fsum(_pair_purities(children, codes)) / num_pairs


def _pair_purities(children: np.ndarray, codes: list[int]) -> Iterator[float]:
    """Yield, for each merge and class, the summed purity of the pairs that it joins.

    With l points of the class on the left and r on the right of a merge of s points,
    l·r pairs are joined, each at purity (l + r)/s. In the tree of `dendrogram_purity`,
    classes a, a, b, b: the merge (0, 1) yields 1 for a, the next joins no pair of one
    class, and the last joins the pair of b at purity 2/4. The mean is 0.75.
    """
    tables: list[dict[int, int] | None] = [None] * (len(codes) + len(children))
    sizes = [1] * len(codes)
    for merge, (left, right) in enumerate(children.tolist()):
        small = tables[left] or {codes[left]: 1}
        large = tables[right] or {codes[right]: 1}
        if len(small) > len(large):
            small, large = large, small
        size = sizes[left] + sizes[right]
        sizes.append(size)
        tables[left] = tables[right] = None  # so that tables hold O(m) entries in all
        tables[len(codes) + merge] = large
        for code, count in small.items():
            other = large.get(code, 0)
            if other:
                yield count * other * (count + other) / size
            large[code] = count + other

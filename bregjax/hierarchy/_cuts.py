"""Flat clusters of a tree: which nodes they are, and the labels of the leaves."""

import math
import operator
from typing import Any, SupportsIndex

import numpy as np

from bregjax._checks import check_count, is_concrete
from bregjax.hierarchy import _walk

__all__ = ["check_cut", "labels_of", "limit_or_count", "node_of_leaf"]


def limit_or_count(**given: Any) -> tuple[str, Any]:
    """Return the one argument that is not None, with its name.

    Raises:
        ValueError: If there is none, or more than one.
    """
    names = " or ".join(f"`{name}`" for name in given)
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) != 1:
        got = ", ".join(f"{name}={value}" for name, value in given.items()) or "none"
        raise ValueError(f"Give exactly one of {names}; got {got}.")
    return next(iter(given.items()))


def check_cut(
    num_clusters: SupportsIndex, num_leaves: int, num_merges: int, what: str = "rows"
) -> int:
    """Return the number of clusters of a cut as an integer.

    Args:
        num_clusters: From the number of trees to that of leaves.
        num_leaves: m.
        num_merges: t; the number of trees is m − t.
        what: What leaves are called.

    Raises:
        ValueError: If it is out of range.
        TypeError: If it is no integer.
    """
    num_trees = num_leaves - num_merges
    is_low = num_trees > 1 and isinstance(num_clusters, SupportsIndex)
    if is_low and operator.index(num_clusters) < num_trees:
        raise ValueError(
            f"`num_clusters` must be from {num_trees}, the number of trees of the "
            f"forest, to {num_leaves}, that of {what}; got {num_clusters}. Its trees "
            "never join: take `tree.joined()` to join them, in the order of their "
            "smallest leaves."
        )
    return check_count("num_clusters", num_clusters, num_leaves, what)


def node_of_leaf(
    children: Any,
    num_leaves: int,
    heights: Any,
    name: str,
    value: Any,
    min_size: SupportsIndex | None = None,
) -> Any:
    """Return the node of each leaf's cluster, `[m]`; −1 where that is too small.

    Args:
        children: `[t, 2]`.
        num_leaves: m.
        heights: What limits are compared with, `[t]`.
        name: "num_clusters", "max_size", or what the limit is called.
        value: The number of clusters, the size, or the limit.
        min_size: The least number of leaves of a cluster, if there is one.

    Raises:
        ValueError: If a number or a size is out of range, or the limit is NaN.
    """
    least = 1
    if min_size is not None:
        least = check_count("min_size", min_size, num_leaves, "leaves")
    if name == "num_clusters" and least > 1:
        return _sizable(children, num_leaves, value, least)
    if name == "num_clusters":
        count = check_cut(value, num_leaves, len(children), "leaves")
        # Merges from m − count on are undone, the last ones.
        num_nodes = num_leaves + len(children)
        whole = np.arange(num_nodes) < 2 * num_leaves - count
    elif name == "max_size":
        most = check_count(name, value, num_leaves, "leaves")
        whole = _walk.subtree_sizes(children, num_leaves) <= most
    elif np.ndim(value) != 0:
        raise TypeError(f"`{name}` must be one number; got {value!r}.")
    else:
        limit = float(value) if is_concrete(value) else value
        if is_concrete(limit) and math.isnan(limit):
            raise ValueError(f"`{name}` must be a number; got nan.")
        whole = _walk.subtree_max(children, heights, num_leaves) <= limit
    parent = _walk.parents(children, num_leaves)
    node = _walk.roots_below(parent, whole, num_leaves)
    if least == 1:
        return node
    size = _walk.subtree_sizes(children, num_leaves)
    xp = _walk.namespace(node, size)
    return xp.where(xp.asarray(size)[node] >= least, node, -1)


def _sizable(
    children: Any, num_leaves: int, num_clusters: SupportsIndex, least: int
) -> Any:
    """Return the node of each leaf's cluster where so many are of `least` leaves.

    Merges are undone from the last on until there are enough clusters of that size: one
    of two large parts makes two clusters of one, one of a large and a small part takes
    the small one off, and one of two small parts is left as it is.

    Raises:
        ValueError: If there are no such cuts; under `jit` as many clusters as there are
            come back.
    """
    count = check_count("num_clusters", num_clusters, num_leaves, "leaves")
    xp = _walk.namespace(children)
    size = _walk.subtree_sizes(children, num_leaves)
    parent = _walk.parents(children, num_leaves)
    nodes = xp.arange(len(parent))
    large = size[children] >= least  # [t, 2]
    splits = large.all(axis=1)[::-1].astype(np.int32)
    at_first = xp.sum((parent == nodes) & (size >= least), dtype=np.int32)
    before = at_first + xp.cumsum(splits, dtype=np.int32) - splits
    if is_concrete(children):
        _check_sizable(count, least, int(at_first), int(splits.sum()), int(size.max()))
    most = at_first + xp.sum(splits, dtype=np.int32)
    undone = xp.sum(before < xp.minimum(count, most))
    small = xp.concatenate([xp.ones(num_leaves, bool), ~large.any(axis=1)])
    whole = (nodes < len(parent) - undone) | small
    node = _walk.roots_below(parent, whole, num_leaves)
    return xp.where(size[node] >= least, node, -1)


def _check_sizable(
    count: int, least: int, at_first: int, num_splits: int, largest: int
) -> None:
    """Raise ValueError unless a cut into so many clusters of that size exists."""
    if not at_first:
        raise ValueError(
            f"`min_size` must be at most {largest}, the leaves of the largest tree of "
            f"the forest; got {least}."
        )
    most = at_first + num_splits
    if not at_first <= count <= most:
        raise ValueError(
            f"`num_clusters` must be from {at_first} to {most} with min_size={least}: "
            f"so many clusters of at least {least} leaves can be cut apart; got "
            f"{count}. Lower `min_size` for more clusters."
        )


def labels_of(node: Any) -> Any:
    """Number clusters from 0 by their smallest leaves, `[m]`; −1 where `node` is."""
    xp = _walk.namespace(node)
    first = _walk.smallest_leaves(node)
    is_first = (first == xp.arange(len(node))) & (node >= 0)
    labels = (xp.cumsum(is_first) - 1)[first]
    return xp.where(node >= 0, labels, -1).astype(np.int32)

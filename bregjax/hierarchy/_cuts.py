"""Flat clusters of a tree: which nodes they are, and the labels of the leaves."""

import math
from typing import Any

import numpy as np

from bregjax._checks import check_count, is_concrete
from bregjax.hierarchy import _walk

__all__ = ["labels_of", "limit_or_count", "node_of_leaf", "nodes_of"]


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


def node_of_leaf(children: Any, heights: Any, name: str, value: Any) -> Any:
    """Return the node of each leaf's cluster, `[m]`.

    Args:
        children: `[m − 1, 2]`.
        heights: What limits are compared with, `[m − 1]`.
        name: "num_clusters", or what the limit is called.
        value: The number of clusters, or the limit.

    Raises:
        ValueError: If the number is not from 1 to m, or the limit is NaN.
    """
    num_leaves = len(children) + 1
    if name == "num_clusters":
        count = check_count(name, value, num_leaves, "the leaves")
        # The last count − 1 merges are undone, so nodes from 2m − count up go.
        num_nodes = 2 * num_leaves - 1
        whole = np.arange(num_nodes) <= num_nodes - count
    elif np.ndim(value) != 0:
        raise TypeError(f"`{name}` must be one number; got {value!r}.")
    else:
        limit = float(value) if is_concrete(value) else value
        if is_concrete(limit) and math.isnan(limit):
            raise ValueError(f"`{name}` must be a number; got nan.")
        whole = _walk.subtree_max(children, heights) <= limit
    return _walk.roots_below(_walk.parents(children), whole)


def labels_of(node: Any) -> Any:
    """Number the clusters of leaves from 0 by each cluster's smallest leaf, `[m]`."""
    xp = _walk.namespace(node)
    first = _walk.smallest_leaves(node)
    is_first = first == xp.arange(len(node))
    return (xp.cumsum(is_first) - 1)[first].astype(np.int32)


def nodes_of(node: Any, num_clusters: int | None) -> Any:
    """Return the nodes of clusters in the order of their labels, `[k]`.

    Args:
        node: The node of each leaf's cluster, `[m]`.
        num_clusters: k, where it is known before the nodes are.
    """
    xp = _walk.namespace(node)
    is_first = _walk.smallest_leaves(node) == xp.arange(len(node))
    count = int(is_first.sum()) if num_clusters is None else num_clusters
    return node[xp.argsort(~is_first, stable=True)[:count]].astype(np.int32)

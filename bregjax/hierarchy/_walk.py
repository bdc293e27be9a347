"""Array algorithms on trees, none of them recursive.

A tree over m leaves is `children`, integers of shape ``[m − 1, 2]``: leaves are nodes
0 … m − 1 and merge t makes node m + t, so every node is numbered above its children.

`parents`, `roots_below`, `smallest_leaves` and `subtree_max` run on NumPy arrays and,
unchanged, on traced ones; they take O(m log m) by pointer jumping (each step doubles
the distance that a node sees towards the root), because following a chain one node at
a time takes m sequential steps on an accelerator. The others are eager single passes.
"""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import is_concrete

AnyArray = Any
"""A NumPy array, or a traced one."""


def numpy_unless_traced(array: AnyArray) -> AnyArray:
    """Make a NumPy array, so that eager calls compile nothing; pass traced ones on."""
    return np.asarray(array) if is_concrete(array) else array


def namespace(*arrays: AnyArray) -> ModuleType:
    """Return `jax.numpy` where one of the arrays is JAX's, NumPy otherwise."""
    return jnp if any(isinstance(array, jax.Array) for array in arrays) else np


def parents(children: AnyArray) -> AnyArray:
    """Return the parent of every node, shape ``[2m − 1]``; the root is its own."""
    xp = namespace(children)
    num_leaves = len(children) + 1
    # Every node but the root stands in `children` exactly once, so sorting finds it.
    place = xp.argsort(children.reshape(-1))
    root = xp.asarray([2 * num_leaves - 2], dtype=place.dtype)
    return xp.concatenate([num_leaves + place // 2, root])


def roots_below(parent: AnyArray, whole: AnyArray) -> AnyArray:
    """Find the topmost whole node above each leaf, shape ``[m]``.

    `whole`, booleans of shape ``[2m − 1]``, says which nodes stay in one piece; it
    holds for all leaves and, with a node, for all nodes below it.
    """
    xp = namespace(parent, whole)
    parent, whole = xp.asarray(parent), xp.asarray(whole)
    root = xp.where(whole[parent], parent, xp.arange(len(parent)))
    for _ in range(_num_doublings(parent)):
        root = root[root]
    return root[: (len(parent) + 1) // 2]


def smallest_leaves(root: AnyArray) -> AnyArray:
    """Find the smallest leaf with the same `root` as each leaf, shape ``[m]``."""
    xp = namespace(root)
    order = xp.argsort(root, stable=True)
    return order[xp.searchsorted(root[order], root)]


def subtree_max(children: AnyArray, costs: AnyArray) -> AnyArray:
    """Find the largest cost inside each node, shape ``[2m − 1]``; −inf for leaves."""
    xp = namespace(children, costs)
    children, costs = xp.asarray(children), xp.asarray(costs)
    parent = parents(children)
    leaves = xp.full(len(costs) + 1, -xp.inf, dtype=costs.dtype)
    largest = xp.concatenate([leaves, costs])
    for _ in range(_num_doublings(parent)):
        largest = _scatter_max(largest, parent, largest)
        parent = parent[parent]
    return largest


def _num_doublings(parent: AnyArray) -> int:
    """Doublings after which even the leaf of a chain sees the root."""
    return (len(parent) // 2).bit_length()


def _scatter_max(target: AnyArray, index: AnyArray, values: AnyArray) -> AnyArray:
    if isinstance(target, jax.Array):
        return target.at[index].max(values)
    result = target.copy()
    np.maximum.at(result, index, values)
    return result


def sizes(children: np.ndarray) -> list[int]:
    """Count the leaves under every node, length 2m − 1."""
    size = [1] * (len(children) + 1)
    for left, right in children.tolist():
        size.append(size[left] + size[right])
    return size


def layout(children: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order the leaves from left to right; find the merge that parts neighbours.

    Returns:
        order: Leaves, first child of every node to the left, shape ``[m]``.
        gap: The smallest cluster with both leaves at positions p and p + 1 is made by
            merge ``gap[p]``; with those at p < q, by ``max(gap[p:q])``; shape
            ``[m − 1]``.
    """
    num_leaves = len(children) + 1
    size = sizes(children)
    start = [0] * (2 * num_leaves - 1)
    gap = np.empty(num_leaves - 1, dtype=np.int64)
    pairs = children.tolist()
    for merge in reversed(range(num_leaves - 1)):
        left, right = pairs[merge]
        start[left] = start[num_leaves + merge]
        start[right] = start[left] + size[left]
        gap[start[right] - 1] = merge
    order = np.empty(num_leaves, dtype=np.int32)
    order[start[:num_leaves]] = np.arange(num_leaves, dtype=np.int32)
    return order, gap


def members(children: np.ndarray, node: int) -> np.ndarray:
    """List the leaves under one node, ascending; time in proportion to their number."""
    num_leaves = len(children) + 1
    found, waiting = [], [node]
    while waiting:
        current = waiting.pop()
        if current < num_leaves:
            found.append(current)
        else:
            waiting.extend(children[current - num_leaves].tolist())
    return np.sort(np.asarray(found, dtype=np.int32))


def joining_heights(children: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Find the height at which each pair of leaves first joins, condensed.

    Pairs (0, 1), (0, 2), …, (m − 2, m − 1), as `scipy.spatial.distance.squareform`
    reads them; O(m²) time, O(m) memory beside the result.
    """
    num_leaves = len(children) + 1
    order, gap = layout(children)
    order = order.astype(np.int64)
    leaf = np.arange(num_leaves, dtype=np.int64)
    # Pair i < j stands at offset[i] + j.
    offset = leaf * num_leaves - leaf * (leaf + 1) // 2 - leaf - 1
    condensed = np.empty(num_leaves * (num_leaves - 1) // 2)
    for position, first in enumerate(order[:-1]):
        other = order[position + 1 :]
        merge = np.maximum.accumulate(gap[position:])
        low, high = np.minimum(other, first), np.maximum(other, first)
        condensed[offset[low] + high] = heights[merge]
    return condensed


def problem_with(children: np.ndarray) -> str | None:
    """Say what keeps integers of shape ``[m − 1, 2]`` from being a tree, or None."""
    num_leaves = len(children) + 1
    made = num_leaves + np.arange(len(children))[:, None]
    for wrong, what in (
        (children < 0, "which is negative"),
        (children >= made, "which is not made by an earlier row"),
        (_repeated(children), "which an earlier row, or this one, has merged already"),
    ):
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            return f"row {row} merges node {children[row, column]}, {what}"
    return None


def _repeated(children: np.ndarray) -> np.ndarray:
    """True where a node stands for the second time."""
    _, first = np.unique(children, return_index=True)
    repeated = np.ones(children.size, dtype=bool)
    repeated[first] = False
    return repeated.reshape(children.shape)

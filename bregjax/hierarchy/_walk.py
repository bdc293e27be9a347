"""Array algorithms on trees and forests, none of them recursive.

A forest over m leaves is `children`, integers of shape ``[t, 2]`` with t ≤ m − 1, and
m: leaves are nodes 0 … m − 1 and merge t makes node m + t, so every node is numbered
above its children. m − t nodes are roots; a tree is a forest of one root.

`parents`, `roots_below`, `smallest_leaves`, `roots`, `subtree_max` and `subtree_sizes`
run on NumPy arrays and, unchanged, on traced ones; they take O(m log m) by pointer
jumping (each step doubles the distance that a node sees towards the root), because
following a chain one node at a time takes m sequential steps on an accelerator. The
others are eager single passes.
"""

from collections.abc import Iterator
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


def parents(children: AnyArray, num_leaves: int) -> AnyArray:
    """Return the parent of every node, shape ``[m + t]``; a root is its own."""
    xp = namespace(children)
    nodes = xp.arange(num_leaves + len(children))
    made = nodes[num_leaves:, None]
    if xp is jnp:
        return nodes.at[children].set(made, unique_indices=True)
    nodes[children] = made.copy()
    return nodes


def roots_below(parent: AnyArray, whole: AnyArray, num_leaves: int) -> AnyArray:
    """Find the topmost whole node above each leaf, shape ``[m]``.

    `whole`, booleans of shape ``[m + t]``, says which nodes stay in one piece; it
    holds for all leaves and, with a node, for all nodes below it.
    """
    xp = namespace(parent, whole)
    parent, whole = xp.asarray(parent), xp.asarray(whole)
    root = xp.where(whole[parent], parent, xp.arange(len(parent)))
    for _ in range(_num_doublings(len(parent) - num_leaves)):
        root = root[root]
    return root[:num_leaves]


def smallest_leaves(root: AnyArray) -> AnyArray:
    """Find the smallest leaf with the same `root` as each leaf, shape ``[m]``."""
    xp = namespace(root)
    order = xp.argsort(root, stable=True)
    return order[xp.searchsorted(root[order], root)]


def firsts(root: AnyArray, count: int | None) -> AnyArray:
    """List the values of `root`, by the smallest leaf of each, negative ones left out.

    Args:
        root: A node for each leaf, or −1, ``[m]``.
        count: How many values there are, where that is known before the values are;
            if there are fewer, −1 fills up.
    """
    xp = namespace(root)
    is_first = (smallest_leaves(root) == xp.arange(len(root))) & (root >= 0)
    count = int(is_first.sum()) if count is None else count
    place = xp.argsort(~is_first, stable=True)[:count]
    return xp.where(is_first[place], root[place], -1).astype(np.int32)


def roots(children: AnyArray, num_leaves: int) -> AnyArray:
    """List the nodes without a parent by their smallest leaves, ``[m − t]``."""
    parent = parents(children, num_leaves)
    root = roots_below(parent, np.ones(len(parent), bool), num_leaves)
    return firsts(root, num_leaves - len(children))


def subtree_max(children: AnyArray, costs: AnyArray, num_leaves: int) -> AnyArray:
    """Find the largest cost inside each node, shape ``[m + t]``; −inf for leaves."""
    xp = namespace(children, costs)
    children, costs = xp.asarray(children), xp.asarray(costs)
    parent = parents(children, num_leaves)
    leaves = xp.full(num_leaves, -xp.inf, dtype=costs.dtype)
    largest = xp.concatenate([leaves, costs])
    for _ in range(_num_doublings(len(costs))):
        largest = _scattered("max", largest, parent)
        parent = parent[parent]
    return largest


def subtree_sizes(children: AnyArray, num_leaves: int) -> AnyArray:
    """Count the leaves under every node, shape ``[m + t]``; see `sizes`."""
    xp = namespace(children)
    parent = parents(children, num_leaves)
    count, num_merges = len(parent), len(children)
    # A root that were its own parent would count its leaves again and again: the
    # parent of roots is a node behind all others, whose count is dropped.
    nodes = xp.arange(count)
    parent = xp.where(parent == nodes, count, parent)
    parent = xp.concatenate([parent, xp.full(1, count, parent.dtype)])
    size = (xp.arange(count + 1) < num_leaves).astype(np.int32)
    for _ in range(_num_doublings(num_merges)):
        size = _scattered("add", size, parent)
        size = xp.where(xp.arange(count + 1) < count, size, 0)
        parent = parent[parent]
    return size[:count]


def _num_doublings(num_merges: int) -> int:
    """Doublings after which even the leaf of a chain sees the root."""
    return num_merges.bit_length()


def _scattered(how: str, values: AnyArray, index: AnyArray) -> AnyArray:
    """Add each value to that at an index, or take the larger."""
    if isinstance(values, jax.Array):
        return getattr(values.at[index], how)(values)
    result = values.copy()
    {"max": np.maximum, "add": np.add}[how].at(result, index, values)
    return result


def sizes(children: np.ndarray, num_leaves: int) -> list[int]:
    """Count the leaves under every node, length m + t, in one pass."""
    size = [1] * num_leaves
    for left, right in children.tolist():
        size.append(size[left] + size[right])
    return size


def layout(children: np.ndarray, num_leaves: int) -> tuple[np.ndarray, np.ndarray]:
    """Order the leaves from left to right; find the merge that parts neighbours.

    Returns:
        order: Leaves, tree by tree by their smallest leaves, first child of every node
            to the left, shape ``[m]``.
        gap: The smallest cluster with both leaves at positions p and p + 1 is made by
            merge ``gap[p]``, and t, which is no merge, stands between two trees; with
            those at p < q, by ``max(gap[p:q])``; shape ``[m − 1]``.
    """
    num_merges = len(children)
    size = sizes(children, num_leaves)
    start = [0] * (num_leaves + num_merges)
    place = 0
    for root in roots(children, num_leaves).tolist():
        start[root] = place
        place += size[root]
    gap = np.full(num_leaves - 1, num_merges, dtype=np.int64)
    pairs = children.tolist()
    for merge in reversed(range(num_merges)):
        left, right = pairs[merge]
        start[left] = start[num_leaves + merge]
        start[right] = start[left] + size[left]
        gap[start[right] - 1] = merge
    order = np.empty(num_leaves, dtype=np.int32)
    order[start[:num_leaves]] = np.arange(num_leaves, dtype=np.int32)
    return order, gap


def smaller_first(children: np.ndarray, num_leaves: int) -> np.ndarray:
    """Put first the child of each merge that has the smaller smallest leaf, `[t, 2]`.

    Where every cluster is a run of consecutive leaves, `layout` then has them in their
    own order, 0 … m − 1.
    """
    smallest, turned = list(range(num_leaves)), []
    for left, right in children.tolist():
        a, b = smallest[left], smallest[right]
        smallest.append(min(a, b))
        turned.append([left, right] if a < b else [right, left])
    return np.asarray(turned, dtype=children.dtype).reshape(-1, 2)


def members(children: np.ndarray, node: int, num_leaves: int) -> np.ndarray:
    """List the leaves under one node, ascending; time in proportion to their number."""
    found, waiting = [], [node]
    while waiting:
        current = waiting.pop()
        if current < num_leaves:
            found.append(current)
        else:
            waiting.extend(children[current - num_leaves].tolist())
    return np.sort(np.asarray(found, dtype=np.int32))


def rows_of_pairs(
    children: np.ndarray, num_leaves: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Go through all pairs of leaves, each once, and the merges that join them.

    Yields:
        A leaf, others, and for each of these the merge that makes the smallest cluster
        with both, or t if none does. O(m²) time in all, O(m) memory.
    """
    order, gap = layout(children, num_leaves)
    order = order.astype(np.int64)
    for position, first in enumerate(order[:-1].tolist()):
        merge = np.maximum.accumulate(gap[position:])
        yield first, order[position + 1 :], merge


def places_of_pairs(first: int, others: np.ndarray, num_leaves: int) -> np.ndarray:
    """Where pairs of a leaf with others stand in a condensed array.

    Pairs (0, 1), (0, 2), …, (m − 2, m − 1), as `scipy.spatial.distance.squareform`
    reads them.
    """
    low, high = np.minimum(others, first), np.maximum(others, first)
    return low * num_leaves - low * (low + 1) // 2 - low - 1 + high


def joining_heights(
    children: np.ndarray, heights: np.ndarray, num_leaves: int
) -> np.ndarray:
    """Find the height at which each pair of leaves first joins, condensed.

    inf for pairs that never do; O(m²) time, O(m) memory beside the result.
    """
    condensed = np.empty(num_leaves * (num_leaves - 1) // 2)
    heights = np.append(heights, np.inf)
    for first, others, merge in rows_of_pairs(children, num_leaves):
        condensed[places_of_pairs(first, others, num_leaves)] = heights[merge]
    return condensed


def problem_with(children: np.ndarray, num_leaves: int) -> str | None:
    """Say what keeps integers of shape ``[t, 2]`` from being a forest, or None."""
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

"""States of the nodes of a tree, and of unions that may become nodes."""

from collections.abc import Sequence

import jax
import numpy as np

from bregjax._typing import PyTree

__all__ = ["UnionStore"]

# Numbers in the states of unions that are kept.
_REMEMBERED = 2**24


class UnionStore:
    """Places for states: of nodes, for good, and of unions, as many as there is room.

    A union that becomes a node stays where it is. Place −1 stands for a state that was
    not kept.

    Attributes:
        numbers: How many numbers a state has.
        place: The place of each node.
        place_of: The place of the union of a pair, by a key of the caller's.
    """

    def __init__(self, states: PyTree, unions: int) -> None:
        """Make room.

        Args:
            states: Those of the leaves, `[c, ...]`.
            unions: How many unions there may be at a time, about.
        """
        leaves, self._structure = jax.tree.flatten(states)
        count = len(leaves[0])
        nodes = 2 * count - 1
        self.numbers = sum(leaf[:1].size for leaf in leaves)
        room = min(unions, _REMEMBERED // self.numbers)
        more = nodes - count + room
        # Leaf by leaf of the pytree; the last places are those of unions.
        self._leaves = [
            np.concatenate([leaf, np.zeros((more, *leaf.shape[1:]), leaf.dtype)])
            for leaf in leaves
        ]
        self._free = list(range(nodes, nodes + room))
        self.place = list(range(nodes))
        self.place_of: dict[int, int] = {}

    def at(self, places: Sequence[int] | np.ndarray) -> PyTree:
        """The states in some places."""
        index = np.asarray(places, int)
        return self._structure.unflatten([leaf[index] for leaf in self._leaves])

    def of_nodes(self, nodes: Sequence[int] | np.ndarray) -> PyTree:
        """The states of some nodes."""
        return self.at([self.place[node] for node in nodes])

    def put(self, nodes: Sequence[int], states: PyTree) -> None:
        """Write the states of nodes."""
        places = [self.place[node] for node in nodes]
        for leaf, new in zip(self._leaves, jax.tree.leaves(states), strict=True):
            leaf[places] = new

    def keep(self, unions: PyTree) -> list[int]:
        """Keep states of unions while there is room; return their places."""
        leaves = jax.tree.leaves(unions)
        size = len(leaves[0])
        count = min(size, len(self._free))
        places = [self._free.pop() for _ in range(count)]
        for leaf, new in zip(self._leaves, leaves, strict=True):
            leaf[places] = new[:count]
        return places + [-1] * (size - count)

    def free(self, place: int) -> None:
        """Give up the state in a place."""
        if place >= 0:
            self._free.append(place)

    def take(self, node: int, place: int) -> bool:
        """Make a union that was kept a node; return whether it was."""
        if place >= 0:
            self.place[node] = place
        return place >= 0

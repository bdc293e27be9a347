"""Trees to draw, and what was drawn."""

from typing import Any

import numpy as np

from bregjax import Dendrogram

# Leaves 0 … 4; the third merge costs less than the second, and the last, too, which is
# above it.
TREE = Dendrogram.from_linkage(
    [[0, 1, 1.0, 2], [2, 5, 4.0, 3], [3, 4, 0.0, 2], [6, 7, 2.0, 5]], unit="nats"
)

# A chain of merges that cost less than nothing.
NEGATIVE = Dendrogram(
    np.array([[0, 1], [4, 2], [5, 3]]), np.array([-3.0, -2.0, -1.0]), np.ones(4)
)


def random_tree(count, seed=0):
    """A tree whose heights grow, merges drawn at random."""
    rng = np.random.default_rng(seed)
    alive, sizes, z = list(range(count)), [1] * count, []
    for merge in range(count - 1):
        a = alive.pop(rng.integers(len(alive)))
        b = alive.pop(rng.integers(len(alive)))
        sizes.append(sizes[a] + sizes[b])
        z.append([a, b, float((merge + 1) ** 2), sizes[-1]])
        alive.append(count + merge)
    return Dendrogram.from_linkage(z, unit="nats")


def part(ax, name) -> Any:
    """The one collection of that name."""
    (found,) = (c for c in ax.collections if c.get_gid() == name)
    return found

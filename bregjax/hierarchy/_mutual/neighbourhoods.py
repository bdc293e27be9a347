"""Lists of the few nearest of each point, and bounds of what all others cost."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Neighbourhoods"]


@dataclass
class Neighbourhoods:
    """The few nearest of some points, by cost.

    Attributes:
        index: Slots of the nearest, `[r, count]`.
        cost: What these cost, `[r, count]`; inf where there are fewer.
        bound: What all other pairs cost at least, `[r]`.
    """

    index: np.ndarray
    cost: np.ndarray
    bound: np.ndarray

    @classmethod
    def unknown(cls, size: int, count: int) -> "Neighbourhoods":
        """Return neighbourhoods of `size` points, of which nothing is known."""
        shape = (size, count)
        bound = np.full(size, -np.inf)
        return cls(np.zeros(shape, np.int64), np.full(shape, np.inf), bound)

    def put(self, rows: np.ndarray, found: "Neighbourhoods") -> None:
        """Replace those of some points."""
        self.index[rows] = found.index
        self.cost[rows] = found.cost
        self.bound[rows] = found.bound

    def taken(self, rows: np.ndarray) -> "Neighbourhoods":
        """Return those of some points."""
        return Neighbourhoods(self.index[rows], self.cost[rows], self.bound[rows])

    def unsettled(self) -> np.ndarray:
        """Return the points of which a pair that is left out may cost the least."""
        # Also where a bound is NaN.
        return np.flatnonzero(~(np.min(self.cost, axis=1) <= self.bound))

    def enter(
        self, rows: np.ndarray, rank: np.ndarray, index: np.ndarray, cost: np.ndarray
    ) -> None:
        """Enter pairs by their ranks; the first that finds no room lowers the bound."""
        count = self.cost.shape[1]
        kept, next_ = rank < count, rank == count
        self.index[rows[kept], rank[kept]] = index[kept]
        self.cost[rows[kept], rank[kept]] = cost[kept]
        out = rows[next_]
        self.bound[out] = np.minimum(self.bound[out], cost[next_])

    def shortened(self, count: int) -> "Neighbourhoods":
        """Return lists of fewer of the nearest."""
        if count >= self.cost.shape[1]:
            return self
        order = np.argsort(self.cost, axis=1, kind="stable")[:, : count + 1]
        cost = np.take_along_axis(self.cost, order, axis=1)
        index = np.take_along_axis(self.index, order, axis=1)
        bound = np.minimum(self.bound, cost[:, count])
        return Neighbourhoods(index[:, :count], cost[:, :count], bound)

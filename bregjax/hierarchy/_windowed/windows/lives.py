"""Lives of clusters in a sequence of merges, and the greatest merge in each."""

from dataclasses import dataclass

import numpy as np

from bregjax.hierarchy._windowed.windows.range_max import RangeMax

__all__ = ["Lives"]


@dataclass(frozen=True)
class Lives:
    """When clusters live, and the greatest merge, by cost and key, of any time.

    Steps are numbered from 1. A cluster lives over the steps (birth, death]: from after
    the one that makes it up to the one that merges it. Example, merges AB at cost 2, DE
    at 3, and AB with C at 1, so that ranks are 1, 2 and 0:

        cluster    A  B  C  D  E  AB  DE  ABC
        birth      0  0  0  0  0  1   2   3
        death      1  1  3  2  2  3   4   4

    C lives over steps 1 to 3, of which the greatest is of rank 2 and costs 3. So does
    AB over steps 2 and 3, though it merges at cost 1.

    Attributes:
        birth: The step that makes each cluster, 0 if it was there before.
        death: The step that merges each; past the last for survivors.
        cost: Merge costs by rank, and −inf.
        key: Keys by rank, and 0.
        greatest: Greatest ranks of runs of steps.
    """

    birth: np.ndarray
    death: np.ndarray
    cost: np.ndarray
    key: np.ndarray
    greatest: RangeMax

    @classmethod
    def of(
        cls,
        birth: np.ndarray,
        death: np.ndarray,
        cost: np.ndarray,
        key: np.ndarray,
    ) -> "Lives":
        """Return lives from costs and keys of merges in the order of steps."""
        by_rank = np.lexsort((key, cost))
        return cls(
            birth,
            death,
            np.append(cost[by_rank], -np.inf),
            np.append(key[by_rank], key.dtype.type(0)),
            RangeMax(np.argsort(by_rank)),
        )

    @property
    def num_steps(self) -> int:
        """Number of merges."""
        return len(self.cost) - 1

    def rank(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return the greatest rank of steps (begin, end]; −1 where there are none."""
        return self.greatest(begin, np.minimum(end, self.num_steps))

    def limit(self, clusters: np.ndarray) -> np.ndarray:
        """Return the cost of the greatest merge in the life of each cluster."""
        return self.cost[self.rank(self.birth[clusters], self.death[clusters])]

    def first_after(
        self, begin: np.ndarray, end: np.ndarray, cost: np.ndarray, key: np.ndarray
    ) -> np.ndarray:
        """Return the first of steps (begin, end] whose merge comes after cost and key.

        Example, costs 2, 3 and 1: of steps 1 to 3 the first after 2.5 is step 2.

        Returns:
            Steps; past the last step where none of them comes after.
        """

        def is_after(rank: np.ndarray) -> np.ndarray:
            tied = (self.cost[rank] == cost) & (self.key[rank] > key)
            return (self.cost[rank] > cost) | tied

        end = np.minimum(end, self.num_steps)
        before, after = begin, np.where(is_after(self.rank(begin, end)), end, begin)
        while np.any(after - before > 1):
            middle = (before + after) // 2
            reached = is_after(self.rank(begin, middle))
            before = np.where(reached, before, middle)
            after = np.where(reached, middle, after)
        return np.where(after > begin, after, self.num_steps + 1)

"""What windows ask of clusters in slots."""

import abc
from collections.abc import Iterable, Iterator
from typing import Protocol, Self

import numpy as np

__all__ = ["ClusterBlock", "ClusterStore", "Part", "runs"]

Part = tuple[np.ndarray, np.ndarray]
"""Rows, as slots, and what to pair them with, as booleans by slot."""


class ClusterBlock(Protocol):
    """What bounds say of the costs of a block of rows with the slots among some."""

    def pairs_within(self, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs that may cost at most the limit of their row.

        Args:
            limit: By row, `[b]`; −inf for none.

        Returns:
            Places of rows in the block, and slots of the others, `[p]`.
        """
        ...


class ClusterStore(abc.ABC):
    """Clusters in slots: appended, never overwritten, until compacted.

    A cluster that has merged keeps its slot, so merges are undone by setting `used`
    back. The store does not know which clusters live.

    Attributes:
        used: How many slots have been filled, the first ones.
        dtype: Precision of costs.
        screen_dtype: That of bounds, float32 until that leaves too many pairs.
        has_closer: Whether pairs have closer bounds than blocks.
    """

    used: int
    dtype: np.dtype
    screen_dtype: np.dtype
    has_closer: bool

    @property
    @abc.abstractmethod
    def capacity(self) -> int:
        """Number of slots."""

    @property
    def room(self) -> int:
        """Number of free slots."""
        return self.capacity - self.used

    @property
    @abc.abstractmethod
    def near(self) -> int:
        """How many of its nearest a cluster keeps."""

    @property
    @abc.abstractmethod
    def block(self) -> int:
        """Rows of a block."""

    @abc.abstractmethod
    def screened(self, parts: Iterable[Part]) -> Iterator[ClusterBlock]:
        """Yield for each part, rows and slots to pair them with, what bounds say.

        Blocks are computed before they are asked for, where other threads help.

        Args:
            parts: Slots, at most `block` of them, and booleans by slot.
        """

    @abc.abstractmethod
    def costs(
        self, first: np.ndarray, second: np.ndarray, limit: np.ndarray | float = np.inf
    ) -> np.ndarray:
        """Return merge costs of pairs of slots, `[p]`.

        A cost that a bound shows to be above the limit may be inf.
        """

    @abc.abstractmethod
    def append(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Append the unions of pairs of slots; return the slots of these."""

    @abc.abstractmethod
    def compact(self, slots: np.ndarray) -> np.ndarray:
        """Keep the given slots alone, as the first; return the slots they move to.

        The capacity may shrink, to no less than half as many slots again.
        """

    @abc.abstractmethod
    def copied(self, slots: np.ndarray) -> tuple[Self, np.ndarray]:
        """Return another store that holds the given slots alone, and their slots."""


def runs(values: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield runs of at most `size` values, in order."""
    return (values[start : start + size] for start in range(0, len(values), size))

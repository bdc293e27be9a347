"""What windows ask of the living clusters: NumPy arrays of slots, costs and keys."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

__all__ = ["LivingClusters"]

Among = np.ndarray | Callable[[np.ndarray], np.ndarray]
LimitOf = Callable[[np.ndarray, np.ndarray], np.ndarray]
Costs = Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]
NextPairs = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class LivingClusters(Protocol):
    """Living clusters in slots, which merge and can be restored.

    `Neighbours` is one; so is a table of costs (`tests/test_windowed_windows.py`).
    """

    alive: np.ndarray

    @property
    def room(self) -> int:
        """How many more clusters can be made."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """Return what `restore` takes."""
        ...

    def restore(self, saved: dict[str, Any]) -> None:
        """Undo all merges since a snapshot."""
        ...

    def refresh(self, threshold: float) -> None:
        """Make sure that all nearest that cost at most a threshold are known."""
        ...

    def mutual(self, threshold: float) -> NextPairs:
        """Return pairs, each the other's nearest, that cost at most a threshold.

        None of the pairs only if no pair costs so little. Slots, slots, costs, keys,
        and whether each is certain to be the other's nearest, `[p]`.
        """
        ...

    def merge(
        self, first: np.ndarray, second: np.ndarray, threshold: float
    ) -> np.ndarray:
        """Replace pairs by their unions; return the slots of these.

        What `refresh` does may be done in the same calls, which takes less time.
        """
        ...

    def keys(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the numbers that break ties of pairs."""
        ...

    def pairs_within(
        self,
        rows: np.ndarray,
        among: Among,
        limit: np.ndarray,
        limit_of: LimitOf | None = None,
    ) -> Costs:
        """Yield pairs that cost at most a limit, those of merged clusters too.

        Args:
            rows: Slots `[r]`.
            among: Slots that rows are paired with, booleans by slot; or a function from
                some of the rows to these.
            limit: By row.
            limit_of: From slots of pairs to their limits, at most those of rows; −inf
                for pairs that do not count.
        """
        ...

    def pairs_among(
        self,
        slots: np.ndarray,
        rows: np.ndarray,
        among: Among,
        limit: np.ndarray,
        limit_of: LimitOf | None = None,
    ) -> Costs:
        """Yield the same; all slots are among a few, best those first that die last."""
        ...

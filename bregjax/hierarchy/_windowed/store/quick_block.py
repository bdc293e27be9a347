"""A block of rows against slots, by squared distances that NumPy computes.

Columns come in panels side by side, `[panels, rows, wide]`, and the columns that panels
have in the same place form a group, of which the least bound is known: only groups that
begin within a limit are looked at.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["QuickBlock"]


@dataclass
class QuickBlock:
    """Lower bounds of the costs of a block of rows with the slots among some.

    Attributes:
        rows: Slots `[b]`.
        among: Slots that rows are paired with, booleans by slot.
        low: Bounds, `[panels, b, wide]`; inf where there is no pair.
        least: The least of each group, `[b, wide]`.
    """

    rows: np.ndarray
    among: np.ndarray
    low: np.ndarray
    least: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, among: np.ndarray, low: np.ndarray) -> "QuickBlock":
        """Return a block of bounds, which takes them over."""
        panels, _, wide = low.shape
        there = among[: panels * wide].reshape(panels, 1, wide)
        if not np.all(there):
            low += np.where(there, 0, np.inf).astype(low.dtype)
        panel, column = np.divmod(rows, wide)
        inside = np.flatnonzero(panel < panels)
        low[panel[inside], inside, column[inside]] = np.inf
        return cls(rows, among, low, np.min(low, axis=0))

    @property
    def _wide(self) -> int:
        return self.low.shape[2]

    def pairs_within(self, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs that may cost at most the limit of their row.

        Args:
            limit: By row, `[b]`; −inf for none.

        Returns:
            Places of rows in the block, and slots of the others, `[p]`.
        """
        limit = _rounded_up(limit, self.low.dtype)
        place, column = _where(~(self.least > limit[:, None]))
        panel, pair = np.nonzero(~(self.low[:, place, column] > limit[place]))
        return self._real(place[pair], panel * self._wide + column[pair])

    def pairs_within_columns(self, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs that may cost at most the limit of their column.

        Args:
            limit: By slot, `[capacity]`; −inf for none.

        Returns:
            As `pairs_within`.
        """
        wide = self._wide
        limit = _rounded_up(limit[: len(self.low) * wide], self.low.dtype)
        limit = limit.reshape(-1, wide)
        if not np.any(limit > -np.inf):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        panel, column = _where(~(np.min(self.low, axis=1) > limit))
        low, limit = self.low[panel, :, column], limit[panel, column]
        pair, place = np.nonzero(~(low > limit[:, None]))
        return self._real(place, (panel * wide + column)[pair])

    def leading(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return of each row the least pairs of the groups that begin lowest.

        Args:
            count: Of how many groups, fewer than there are.

        Returns:
            Slots of the others, `[b, count]`, and whether there is such a pair.
        """
        column = np.argpartition(self.least, count, axis=1)[:, :count]
        place = np.arange(len(self.rows))[:, None]
        panel = np.argmin(self.low[:, place, column], axis=0)
        return panel * self._wide + column, self.low[panel, place, column] < np.inf

    def leave_out(self, place: np.ndarray, slots: np.ndarray) -> None:
        """Leave pairs out of what is asked for later.

        Args:
            place: Places of rows in the block, `[p]`.
            slots: Slots of the others, `[p]`.
        """
        panel, column = np.divmod(slots, self._wide)
        self.low[panel, place, column] = np.inf

    def _real(
        self, place: np.ndarray, column: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a row with another slot among those it is paired with."""
        real = self.among[column] & (column != self.rows[place])
        return place[real], column[real]


def _rounded_up(limit: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Limits of at least 0, or −inf, in a precision; finite, as no pair is inf."""
    number = np.finfo(dtype)
    with np.errstate(over="ignore"):
        up = limit.astype(dtype) * dtype.type(1 + 2 * number.eps) + number.tiny
    return np.minimum(up, number.max)


def _where(true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return np.nonzero of a matrix, in less time where few are true."""
    return np.divmod(np.flatnonzero(true), true.shape[1])

"""A block of rows against slots: which pairs may cost at most a limit."""

from dataclasses import dataclass

import numpy as np

from bregjax.hierarchy._windowed.store.shapes import Shapes
from bregjax.hierarchy._windowed.store.two_least import as_limit, place_of

__all__ = ["Block"]


@dataclass(frozen=True)
class Block:
    """Lower bounds of the costs of a block of rows with the slots among some.

    Pairs are grouped: 16 columns of one row, or 16 rows of one column, that a tile
    holds at equal distances. Of each group the two least bounds are here, with their
    places (see `two_least`). If only the first is within a limit it names its pair; if
    both are, all pairs of the group are given.

    Attributes:
        rows: Slots `[b]`.
        among: Slots that rows are paired with, booleans by slot.
        by_row: The two least bounds of each row in each group of columns,
            `[2, b, groups]`; inf where there are no more pairs.
        by_column: Those of each column in each group of rows, `[2, groups, columns]`.
        shapes: How columns and rows are grouped.
        num_devices: Over how many devices columns are dealt out.
    """

    rows: np.ndarray
    among: np.ndarray
    by_row: np.ndarray
    by_column: np.ndarray
    shapes: Shapes
    num_devices: int

    def pairs_within(self, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs that may cost at most the limit of their row.

        Args:
            limit: By row, `[b]`; −inf for none.

        Returns:
            Places of rows in the block, and slots of the others, `[p]`.
        """
        limit = as_limit(limit, self.by_row.dtype)[:, None]
        place, group = _where(self.by_row[0] <= limit)
        both = self.by_row[1, place, group] <= limit[place, 0]
        named = place_of(self.by_row[0, place, group], self.shapes.group)
        return self._real(*_members(place, self._columns_of(group), named, both))

    def pairs_within_columns(self, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs that may cost at most the limit of their column.

        Args:
            limit: By slot, `[capacity]`; −inf for none.

        Returns:
            As `pairs_within`.
        """
        limit = as_limit(limit[: self.by_column.shape[2]], self.by_column.dtype)
        group, slot = _where(self.by_column[0] <= limit)
        both = self.by_column[1, group, slot] <= limit[slot]
        named = place_of(self.by_column[0, group, slot], self.shapes.group)
        slot, place = _members(slot, self._rows_of(group), named, both)
        inside = place < len(self.rows)
        return self._real(place[inside], slot[inside])

    def leading(self) -> tuple[np.ndarray, np.ndarray]:
        """Return of each row the named pairs of the groups that begin lowest.

        As many groups as a cluster keeps of its nearest. Returns as `pairs_within`.
        """
        low, here = self.by_row[0].copy(), np.arange(len(self.rows))
        places, groups = [], []
        for _ in range(self.shapes.near):
            best = np.argmin(low, axis=1)
            there = low[here, best] < np.inf
            places.append(here[there])
            groups.append(best[there])
            low[here, best] = np.inf
        return self._named(np.concatenate(places), np.concatenate(groups))

    def following(
        self, limit: np.ndarray, turn: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the named pairs of the next groups, of rows that leave many open.

        A row does if both bounds of more groups than `leading` asks for are within its
        limit.

        Args:
            limit: By row, `[b]`.
            turn: How many times as many groups to leave out, at least 1.

        Returns:
            As `pairs_within`; None if no row leaves many pairs open.
        """
        near = self.shapes.near
        open_ = np.count_nonzero(self.by_row[1] <= limit[:, None], axis=1)
        crowded = np.flatnonzero(open_ > near)
        if not len(crowded):
            return None
        order = np.argsort(self.by_row[0, crowded], axis=1)
        group = order[:, turn * near : (turn + 1) * near]
        return self._named(np.repeat(crowded, group.shape[1]), group.ravel())

    def num_within_second(self) -> int:
        """Return how many pairs may cost at most what the second group begins with."""
        second = np.sort(np.partition(self.by_row[0], 1, axis=1)[:, :2])[:, 1]
        return len(self.pairs_within(second)[0])

    def _named(
        self, place: np.ndarray, group: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of the first bounds of groups."""
        which = place_of(self.by_row[0, place, group], self.shapes.group)
        column = self._columns_of(group)[np.arange(len(group)), which]
        return self._real(place, column)

    def _real(
        self, place: np.ndarray, column: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a row with another slot among those it is paired with."""
        real = self.among[column] & (column != self.rows[place])
        return place[real], column[real]

    def _columns_of(self, groups: np.ndarray) -> np.ndarray:
        """Slots of column groups, `[..., group]`.

        Example: on one device, with tiles of 1,024 columns and groups of 16, group 70
        is number 6 of tile 1: slots 1,030, 1,094, ..., 1,990.
        """
        group, width = self.shapes.group, self.shapes.columns
        per_device = self.by_row.shape[2] // self.num_devices
        device, place = np.divmod(groups, per_device)
        tile, place = np.divmod(place, width // group)
        members = np.arange(group) * (width // group)
        row = (tile * width + place)[..., None] + members
        return row * self.num_devices + device[..., None]

    def _rows_of(self, groups: np.ndarray) -> np.ndarray:
        """Places in the block of the rows of groups, `[..., group]`; some past it."""
        per_tile = self.shapes.rows // self.shapes.group
        tile, place = np.divmod(groups, per_tile)
        members = np.arange(self.shapes.group) * per_tile
        return (tile * self.shapes.rows + place)[..., None] + members


def _where(true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return np.nonzero of a matrix, in less time where few are true."""
    return np.divmod(np.flatnonzero(true), true.shape[1])


def _members(
    of: np.ndarray, members: np.ndarray, named: np.ndarray, all_: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pair the owners of groups with the named members, or with all of them.

    Args:
        of: The owners of groups, `[p]`.
        members: `[p, group]`.
        named: Place of the named member in the group.
        all_: Where all members are wanted.
    """
    first = members[np.arange(len(members)), named]
    rest = np.arange(members.shape[1]) != named[all_, None]
    others = np.broadcast_to(of[all_, None], rest.shape)[rest]
    return np.append(of, others), np.append(first, members[all_][rest])

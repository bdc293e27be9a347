"""Lower bounds of a block of pairs, as the device hands them over: least in groups."""

from dataclasses import dataclass

import numpy as np

from bregjax.hierarchy._windowed.shapes import Shapes

__all__ = ["Bounds", "as_limit"]


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of the costs of a block of rows against all slots.

    Of each group of pairs the two least, with their places in the group in their last
    bits (see `kernels.two_least`): mostly the first alone matters. inf where there are
    no more pairs.

    Attributes:
        by_row: Of each row, in each group of columns, `[2, b, groups]`.
        by_column: Of each column, in each group of rows, `[2, groups, columns]`.
        shapes: How columns and rows are grouped.
        num_devices: Over how many devices columns are dealt out.
    """

    by_row: np.ndarray
    by_column: np.ndarray
    shapes: Shapes
    num_devices: int

    def columns_of(self, groups: np.ndarray) -> np.ndarray:
        """Slots of column groups, `[..., group]`."""
        group, width = self.shapes.group, self.shapes.columns
        per_device = self.by_row.shape[2] // self.num_devices
        device, place = np.divmod(groups, per_device)
        tile, place = np.divmod(place, width // group)
        members = np.arange(group) * (width // group)
        row = (tile * width + place)[..., None] + members
        return row * self.num_devices + device[..., None]

    def rows_of(self, groups: np.ndarray) -> np.ndarray:
        """Places in the block of the rows of groups, `[..., group]`; some past it."""
        per_tile = self.shapes.rows // self.shapes.group
        tile, place = np.divmod(groups, per_tile)
        members = np.arange(self.shapes.group) * per_tile
        return (tile * self.shapes.rows + place)[..., None] + members

    def leading(self, place: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Of column groups the slot with the least bound of a row, `[p]`."""
        which = _which(self.by_row[0, place, group], self.shapes.group)
        return self.columns_of(group)[np.arange(len(group)), which]

    def pairs_by_row(self, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places of rows and slots of pairs that may cost at most a limit by row."""
        limit = as_limit(limit, self.by_row.dtype)[:, None]
        place, group = _where(self.by_row[0] <= limit)
        more = self.by_row[1, place, group] <= limit[place, 0]
        which = _which(self.by_row[0, place, group], self.shapes.group)
        return _pairs(place, self.columns_of(group), which, more)

    def pairs_by_column(self, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slots, and places of rows, of pairs that may cost at most a limit by slot."""
        limit = as_limit(limit[: self.by_column.shape[2]], self.by_column.dtype)
        group, slot = _where(self.by_column[0] <= limit)
        more = self.by_column[1, group, slot] <= limit[slot]
        which = _which(self.by_column[0, group, slot], self.shapes.group)
        return _pairs(slot, self.rows_of(group), which, more)


def as_limit(limit: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Limits of costs as limits of bounds, which are at least 0: rounded up.

    A bound of 0 has its place in its last bits, so that 0 becomes more. −inf stays, and
    is below all bounds; NaN excludes nothing.
    """
    info = np.finfo(dtype)
    with np.errstate(over="ignore"):
        above = np.nextafter(np.maximum(limit, 0).astype(dtype), dtype.type(np.inf))
    above = np.where(np.isnan(limit), np.inf, np.maximum(above, info.tiny))
    return np.where(limit == -np.inf, -np.inf, above).astype(dtype)


def _where(true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As np.nonzero of a matrix, faster where few are true."""
    return np.divmod(np.flatnonzero(true), true.shape[1])


def _which(bounds: np.ndarray, size: int) -> np.ndarray:
    """Places in groups of a size, from the last bits of bounds."""
    bits = np.uint32 if bounds.dtype == np.float32 else np.uint64
    return (bounds.view(bits) & bits(size - 1)).astype(np.int64)


def _pairs(
    of: np.ndarray, members: np.ndarray, which: np.ndarray, more: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Those with one of each group of members, and where more matter with the others.

    Args:
        of: To whom groups belong, `[p]`.
        members: `[p, group]`.
        which: Place of the first in the group.
        more: Where the others matter too.
    """
    first = members[np.arange(len(members)), which]
    rest = np.arange(members.shape[1]) != which[more, None]
    others = np.broadcast_to(of[more, None], rest.shape)[rest]
    return np.append(of, others), np.append(first, members[more][rest])

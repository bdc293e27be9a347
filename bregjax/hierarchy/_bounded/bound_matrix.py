"""What merges of any two clusters may cost: a matrix of lower bounds, and their kinds.

Example: entries 0.25, 2.25, 12.25; 1, 9; 4 of four clusters. `look` notes the least of
each row: 0.25, 0.25, 1, 4. After the first two have merged, `join` puts the bounds 2
and 12 of the union into the first row and column, and infinity into the second: the
least of the others' rows may now be less than noted, or another, which the rows that
are not `sure` are looked at again for.
"""

import numpy as np

__all__ = [
    "BOUND",
    "COST",
    "LOST",
    "ROUGH",
    "BoundMatrix",
    "distinct_pairs",
    "telescoped",
    "telescoped_rows",
]

# What is known of a pair: a lower bound; a cost that may be off, less what it may be
# off; its cost.
BOUND, ROUGH, COST = np.uint8(0), np.uint8(1), np.uint8(2)
# What stands for a cost that could not be computed: it comes after every other.
LOST = float(np.finfo(float).max)
# Entries that are moved together.
_BLOCK = 2**16
# Roundings of the terms that a bound is made of.
_ROUNDINGS = 16 * float(np.finfo(float).eps)


class BoundMatrix:
    """Lower bounds of the costs of all pairs of slots, infinite where none may merge.

    Attributes:
        bound: `[c, c]`, symmetric; without meaning in columns of slots not in use.
        kind: BOUND, ROUGH or COST of each, `[c, c]`, likewise.
        least: No more than the least entry of each row, `[c]`.
        nearest: Where that was, when the row was looked at last, `[c]`.
        sure: Whether `least` is the entry at `nearest`, and more than a bound or
            infinite; `[c]`.
    """

    def __init__(self, bound: np.ndarray, kind: np.uint8) -> None:
        """Take a matrix over, whose entries are of one kind."""
        size = len(bound)
        self.bound, self.kind = bound, np.full((size, size), kind)
        np.fill_diagonal(self.bound, np.inf)
        np.fill_diagonal(self.kind, COST)
        self.least, self.nearest = np.full(size, np.inf), np.zeros(size, int)
        self.sure = np.zeros(size, bool)
        self._gone = np.zeros(0, int)
        self._room = np.empty((0, size))

    def __len__(self) -> int:
        return len(self.least)

    def rows(self, rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Bounds of rows, `[r, c]`, infinite in slots that are not used any more."""
        # Without a mode NumPy makes a copy of what it takes.
        bounds = self.bound.take(rows, axis=0, out=out, mode="clip")
        bounds[:, self._gone] = np.inf
        return bounds

    def look(self, rows: np.ndarray, but: np.ndarray | None = None) -> np.ndarray:
        """Find the least entries of rows, but in some slots; return the rows, `[r, c]`.

        These are infinite in the slots that are left out. The next look overwrites
        them, as memory that is new each time takes longer than the search.
        """
        if len(rows) > len(self._room):
            self._room = np.empty((len(rows), len(self)))
        bounds = self.rows(rows, self._room[: len(rows)])
        if but is not None:
            bounds[:, but] = np.inf
        self.note(rows, bounds)
        return bounds

    def note(self, rows: np.ndarray, bounds: np.ndarray) -> None:
        """Note the least entries of rows `[r, c]`, some of which may be more by now."""
        nearest = bounds.argmin(axis=1)
        least = bounds[np.arange(len(rows)), nearest]
        self.nearest[rows], self.least[rows] = nearest, least
        known = self.kind[rows, nearest] > BOUND
        known &= self.bound[rows, nearest] == least
        self.sure[rows] = known | (least == np.inf)

    def limit(self) -> float:
        """The least entry that is more than a bound, of those noted."""
        return float(np.min(self.least, where=self.sure, initial=np.inf))

    def unsure(self, count: int) -> np.ndarray:
        """Rows that may have an entry below the limit: the `count` that come first."""
        rows = np.flatnonzero(~self.sure & (self.least <= self.limit()))
        if len(rows) > count:
            rows = rows[np.argpartition(self.least[rows], count)[:count]]
        return rows

    def within(self, limit: float) -> tuple[np.ndarray, np.ndarray]:
        """The pairs whose entry is at most a limit, the lower slot first."""
        rows = np.flatnonzero(self.least <= limit)
        near = np.flatnonzero(self.rows(rows) <= limit)
        row, column = np.divmod(near, len(self))
        return distinct_pairs(rows[row], column, len(self))

    def put(
        self, low: np.ndarray, high: np.ndarray, values: np.ndarray, kind: np.uint8
    ) -> None:
        """Replace the entries of pairs."""
        for i, j in ((low, high), (high, low)):
            self.bound[i, j], self.kind[i, j] = values, kind
            # A cost may be a rounding below its bound.
            np.minimum.at(self.least, i, values)
            self.sure[i] = False

    def lift(self, low: np.ndarray, high: np.ndarray, rough: np.ndarray) -> None:
        """Raise bounds of pairs to rough costs, where these are more and are known."""
        old = self.bound[low, high]
        values = np.maximum(old, np.where(np.isfinite(rough), rough, 0))
        for i, j in ((low, high), (high, low)):
            self.bound[i, j], self.kind[i, j] = values, ROUGH

    def join(
        self, low: np.ndarray, high: np.ndarray, bound: np.ndarray, kind: np.ndarray
    ) -> None:
        """Put bounds of unions in the place of those of one of their parts.

        Args:
            low: The slots of these parts, `[t]`.
            high: Those of the others, `[t]`, which are not used any more.
            bound: Bounds with all slots, `[t, c]`, and with each other in the columns
                `low`; infinite in the column of the union itself.
            kind: BOUND or ROUGH of each, `[t, c]`.
        """
        # Columns as rows of the transpose take NumPy less time; those of `high` would
        # take as long again, and `rows` hides them.
        for all_, new in ((self.bound, bound), (self.kind, kind)):
            all_[low] = all_.T[low] = new
        self.bound[high] = np.inf
        self._gone = np.concatenate([self._gone, high])
        self.forget(low, high)
        least = bound.min(axis=0)
        self.sure[least < self.least] = False
        np.minimum(self.least, least, out=self.least)
        self.least[high], self.sure[high] = np.inf, True
        self.look(low)

    def forget(self, low: np.ndarray, high: np.ndarray) -> None:
        """Be not sure of rows whose nearest is in one of these slots."""
        gone = np.zeros(len(self), bool)
        gone[low], gone[high] = True, True
        self.sure[gone[self.nearest]] = False

    def keep(self, slots: np.ndarray) -> None:
        """Leave out all other slots, which must not be in use."""
        number = np.zeros(len(self), int)
        number[slots] = np.arange(len(slots))
        self.bound, self.kind = (_kept(all_, slots) for all_ in (self.bound, self.kind))
        self.nearest = number[self.nearest[slots]]
        self.least, self.sure = self.least[slots], self.sure[slots]
        self._gone, self._room = self._gone[:0], np.empty((0, len(slots)))


def _kept(square: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Rows and columns of a matrix `[c, c]`, in its memory; slots `[k]` in order.

    Nothing is lost: new row r ends at (r + 1) k, and what has not been read by then
    begins at slots[r + 1] c, which is no less.
    """
    count = len(slots)
    kept = square.reshape(-1)[: count**2].reshape(count, count)
    step = max(_BLOCK // len(square), 1)
    for start in range(0, count, step):
        rows = slice(start, start + step)
        kept[rows] = square.take(slots[rows], axis=0).take(slots, axis=1)
    return kept


def telescoped(
    row_a: np.ndarray, row_b: np.ndarray, cost: float, slack: np.ndarray
) -> np.ndarray:
    """Bound the costs of a union by those of its parts, infinite where one of them is.

    Args:
        row_a: Lower bounds of the costs of one part with others, `[c]`.
        row_b: Those of the other part.
        cost: What it costs to join the parts, or more.
        slack: What costs may be off by rounding, `[c]`.
    """
    there = np.isfinite(row_a) & np.isfinite(row_b)
    # A cost that could not be computed is known only not to be negative.
    a, b = (np.where(there & (row < LOST), row, 0) for row in (row_a, row_b))
    cost = cost if cost < LOST else float(np.max(a + b))
    bound = np.maximum(np.maximum(a, b) - cost, (a + b - cost) / 2)
    bound -= slack + _ROUNDINGS * (a + b + cost)
    np.maximum(bound, 0, out=bound)
    bound[~there] = np.inf
    return bound


def telescoped_rows(
    rows_a: np.ndarray, rows_b: np.ndarray, cost: np.ndarray
) -> np.ndarray:
    """`telescoped` for many unions, where all costs could be computed.

    Args:
        rows_a: Lower bounds of the costs of one part of each with others, `[t, c]`,
            which is used up.
        rows_b: Those of the other part.
        cost: What it costs to join the parts, or more, `[t, 1]`.
    """
    bound = np.maximum(rows_a, rows_b)
    rows_a += rows_b
    # That is at most twice the larger; infinite entries stay so.
    bound *= 1 - 2 * _ROUNDINGS
    bound -= (1 + _ROUNDINGS) * cost
    rows_a *= 0.5 - _ROUNDINGS
    rows_a -= (0.5 + _ROUNDINGS) * cost
    return np.maximum(bound, rows_a, out=bound)


def distinct_pairs(
    first: np.ndarray, second: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The distinct pairs of slots below `size`, the lower slot first."""
    pair = np.sort(np.minimum(first, second) * size + np.maximum(first, second))
    return np.divmod(pair[np.diff(pair, prepend=-1) > 0], size)

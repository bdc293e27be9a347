"""Lower bounds of Ward's costs by products of matrices, and the points they leave.

The cost of a pair is ‖a − b‖² / (1/w_a + 1/w_b), and the squared distances of a block
of rows to all points are one product,

    (−2 a, 1, ‖a‖²) · (b, ‖b‖², 1) = ‖a − b‖²

with norms that are made smaller by the most that rounding adds: each number is a lower
bound. Few of them are ever divided: points go in groups of nearly the same weight, of
each group the least square is taken, and only of the groups that begin lowest all
members are looked at.

    panel 0:   b₀  b₂  b₄        groups are {b₀, b₁}, {b₂, b₃} and {b₄, b₅}:
    panel 1:   b₁  b₃  b₅        the least of a group is that of a column

A panel is as wide as one quick product; a group has a member in each of several panels,
so that the least of all groups at once is np.minimum of whole panels.

Example: 0 against 1, 3, 2 and 50, in the groups {1, 3} and {2, 50}, where one is
wanted. The groups begin at 1 and 4 (squares, of equal weights), so all four are looked
at; the nearest is 1, and 4, less rounding, bounds what the others cost.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bregjax.clusters._squared_distances import less_norms, lightness
from bregjax.hierarchy._windowed.neighbours.ties import mixed

__all__ = ["Panels", "ranks", "tie_key"]

# Multiplications of one product. OpenBLAS deals larger ones out to threads of its own,
# which wait for each other, ten times as long where anything else runs.
_PRODUCT = 2**18
# Rows and columns of one product, at least and at most.
_TALL, _WIDE = (8, 64), (32, 256)
# Bounds of a block at most: 4 MB in float32.
_BLOCK = 2**20
# Candidates of a row by float32 that are looked at, if more than those asked for.
_MANY = 64
# Weights within this factor of 1, either way, are divided by in float32: quotients are
# less exact where they underflow, but by less than is taken off squares.
_GREAT = 2.0**20


@dataclass(frozen=True)
class Panels:
    """All points as the right sides of products, and how these are grouped.

    Points are in the order of their weights, so that those of a group have nearly the
    same.

    Attributes:
        points: The points, `[m, n]`.
        right: (b, ‖b‖², 1) of each point, `[across, members, n + 2, wide]`: panels side
            by side, of which each `members` have the members of the same groups.
        slots: Which point it is, `[across, members, wide]`; −1 for none.
        light: 1 / w of each, of the same shape; 0 for none.
        lightest: The greatest in each group, `[across · wide]`.
        place: Where each point is, in the flat order of `slots`, `[m]`.
        tall: Rows of one product.
        count: How many of the nearest are wanted.
        tie: What rounding takes of a bound at most, as a share, where the square is as
            large as the norms.
    """

    points: np.ndarray
    right: np.ndarray
    slots: np.ndarray
    light: np.ndarray
    lightest: np.ndarray
    place: np.ndarray
    tall: int
    count: int
    tie: float

    @classmethod
    def of(
        cls,
        mean: np.ndarray,
        weight: np.ndarray,
        count: int,
        dtype: type[np.floating],
    ) -> "Panels":
        """Return the panels of points, for so many of the nearest."""
        m, n = mean.shape
        tall, across, members, wide = _shape(m, n, count)
        size = across * members * wide
        arranged = lambda values: np.ascontiguousarray(
            values.reshape(across, wide, members, *values.shape[1:]).swapaxes(1, 2)
        )
        light = lightness(weight)
        order = np.argsort(light, kind="stable")
        right = np.zeros((size, n + 2), dtype)
        right[:m, :n] = mean[order]
        right[:m, n] = less_norms(mean[order], dtype)
        right[m:, n] = np.inf
        right[:, n + 1] = 1
        none = np.zeros(size - m, int)
        slots = arranged(np.append(order, none - 1))
        light = arranged(np.append(light[order], none))
        place = np.zeros(m, np.int64)
        real = np.flatnonzero(slots.ravel() >= 0)
        place[slots.ravel()[real]] = real
        return cls(
            points=mean,
            right=np.ascontiguousarray(arranged(right).swapaxes(2, 3)),
            slots=slots,
            light=light,
            lightest=np.max(light, axis=1).ravel(),
            place=place,
            tall=tall,
            count=count,
            tie=4 * (n + 8) * float(np.finfo(dtype).eps),
        )

    @property
    def coarse(self) -> bool:
        """Whether bounds are float32."""
        return self.right.dtype == np.float32

    def parts(self, size: int) -> Iterator[slice]:
        """Yield slices of so many rows, one block each."""
        step = max(_BLOCK // self.slots.size // self.tall, 1) * self.tall
        return (slice(start, start + step) for start in range(0, size, step))

    def nearest(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a few points that may be nearest, and a bound for all others.

        What float64 cannot tell apart ties, so its bounds are greater by `tie`.

        Args:
            rows: Slots of the rows, `[r]`.

        Returns:
            Pairs, as places in `rows` and slots, `[p]`, of a row at most `count`, or
            none where bounds of 0 say nothing; and bounds `[r]`.
        """
        square, light = self._squares(rows), self._light(rows)
        if self.count == 1 and self.coarse:
            return np.arange(len(rows)), *self._first(square[:, :, 0], light)
        more = 1.0 if self.coarse else 1 + self.tie
        low = self._least_of_groups(square, light)
        bound = more * _least(low, self.count)
        row, slot, near = self._up_to(
            square, light, low, np.where(bound > 0, bound, -1)
        )
        step = np.floor(near / bound[row] / self.tie)
        order = np.lexsort((tie_key(rows[row], slot), step, row))
        row, slot, near = row[order], slot[order], near[order]
        kept = ranks(row) < self.count
        np.minimum.at(bound, row[~kept], more * near[~kept])
        return row[kept], slot[kept], bound

    def within(
        self, rows: np.ndarray, limit: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return all points that may cost no more than a limit, and a bound for others.

        Args:
            rows: Slots of the rows, `[r]`.
            limit: Of each, `[r]`.

        Returns:
            As `nearest`; by float32 none, and a bound that says nothing, where there
            are many.
        """
        square, light = self._squares(rows), self._light(rows)
        low = self._least_of_groups(square, light)
        row, slot, _ = self._up_to(square, light, low, limit * (1 + 2**-49))
        # Above the limit, and none of the others costs less.
        bound = limit * (1 + 2**-50)
        if not self.coarse:
            return row, slot, bound
        many = np.bincount(row, minlength=len(rows)) > _MANY
        few = ~many[row]
        return row[few], slot[few], np.where(many, -np.inf, bound)

    def _light(self, rows: np.ndarray) -> np.ndarray:
        """1 / w of rows, `[r]`."""
        return self.light.ravel()[self.place[rows]]

    def _squares(self, rows: np.ndarray) -> np.ndarray:
        """Bound squared distances of rows, `[blocks, across, members, tall, wide]`.

        That of a row to itself is inf, and so is that to no point.
        """
        mean, dtype = self.points[rows], self.right.dtype
        blocks = -(-len(mean) // self.tall)
        left = np.zeros((blocks * self.tall, self.right.shape[2]), dtype)
        left[: len(mean), :-2] = -2 * mean
        left[:, -2] = 1
        left[: len(mean), -1] = less_norms(mean, dtype)
        left = left.reshape(blocks, 1, 1, self.tall, -1)
        square = np.matmul(left, self.right[None])
        block, line = np.divmod(np.arange(len(rows)), self.tall)
        across, member, column = np.unravel_index(self.place[rows], self.slots.shape)
        square[block, across, member, line, column] = np.inf
        return square

    def _least_of_groups(self, square: np.ndarray, light: np.ndarray) -> np.ndarray:
        """Bound the costs of rows with all members of groups, `[r, across · wide]`."""
        least = np.min(square, axis=2).swapaxes(1, 2).reshape(-1, len(self.lightest))
        least = np.maximum(least[: len(light)], 0)
        return least / (light[:, None] + self.lightest[None])

    def _up_to(
        self, square: np.ndarray, light: np.ndarray, low: np.ndarray, most: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs whose bounds are at most so much: rows, slots, and bounds, `[p]`."""
        row, group = np.nonzero(low <= most[:, None])
        panel, column = np.divmod(group, self.slots.shape[2])
        block, line = np.divmod(row, self.tall)
        near = np.maximum(square[block, panel, :, line, column], 0)
        near = near / (light[row, None] + self.light[panel, :, column])
        pair, member = np.nonzero((near <= most[row, None]) & (near < np.inf))
        slot = self.slots[panel[pair], member, column[pair]]
        return row[pair], slot, near[pair, member]

    def _first(
        self, square: np.ndarray, light: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Slots of the nearest of rows, and bounds of the others, `[r]`.

        Args:
            square: `[blocks, panels, tall, wide]`, overwritten.
            light: Of the rows.
        """
        rows = np.zeros(square.shape[0] * self.tall)
        rows[: len(light)] = light
        # What all are divided by alike can wait.
        alike = np.min(self.light[self.slots >= 0]) == np.max(self.light)
        if not alike:
            square = _divided(square, rows.reshape(-1, 1, self.tall, 1), self.light)
        least = np.min(square, axis=3).swapaxes(1, 2).reshape(len(rows), -1)
        least = least[: len(light)]
        panel = np.argmin(least, axis=1)
        at = np.arange(len(light))
        block, line = np.divmod(at, self.tall)
        within = square[block, panel, line]
        column = np.argmin(within, axis=1)
        within[at, column] = np.inf
        least[at, panel] = np.min(within, axis=1)
        bound = np.min(least, axis=1).astype(float)
        return self.slots[panel, 0, column], bound / (2 * light) if alike else bound


def _divided(square: np.ndarray, rows: np.ndarray, light: np.ndarray) -> np.ndarray:
    """Divide squares by sums of rows and points, rounding down; may overwrite them."""
    real = light[light > 0]
    if np.max(real) > _GREAT or np.min(real) < 1 / _GREAT:
        return square / (rows + light[None])
    less = np.float32(1 + 4 * float(np.finfo(np.float32).eps))
    square /= less * (rows.astype(np.float32) + light.astype(np.float32)[None])
    return square


def _shape(m: int, n: int, count: int) -> tuple[int, int, int, int]:
    """Rows of one product, panels side by side, members of a group, panels' columns."""
    wide = int(np.clip(_PRODUCT // (_TALL[0] * (n + 2)), *_WIDE))
    wide = 2 ** int(np.log2(wide))
    tall = int(np.clip(_PRODUCT // (wide * (n + 2)), *_TALL))
    panels = -(-m // wide)
    # As many groups as members of the groups that are looked at.
    members = int(np.clip(np.sqrt(m / count), 1, panels)) if count > 1 else 1
    return tall, -(-panels // members), members, wide


def _least(low: np.ndarray, count: int) -> np.ndarray:
    """Return of each row the least number but so many, `[r]`; inf if there is none."""
    if low.shape[1] <= count:
        return np.full(len(low), np.inf, low.dtype)
    return np.partition(low, count, axis=1)[:, count]


def tie_key(rows: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Numbers of pairs that are as good as random: by the last of these ties end."""
    return mixed((rows + slots).astype(np.uint32))


def ranks(values: np.ndarray) -> np.ndarray:
    """Number the entries of each run of equal values."""
    index = np.arange(len(values))
    starts = np.append(True, values[1:] != values[:-1])[: len(values)]
    return index - np.maximum.accumulate(np.where(starts, index, 0))

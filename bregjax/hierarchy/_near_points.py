"""Points with weights on the host, and the few nearest of each by Ward's cost.

The cost of a pair is ‖a − b‖² / (1/w_a + 1/w_b). A search takes the squared distances
of a block of rows to all points from one product of matrices,

    (−2 a, 1, ‖a‖²) · (b, ‖b‖², 1) = ‖a − b‖²

first in float32, with norms that are made smaller by the most that rounding adds: each
number is a lower bound. Of each group of points the least is taken; of the groups that
begin lowest all members are looked at; and of the nearest of these the cost is computed
from differences, which do not cancel. Where the least cost is above the bound of all
that was left out, all that may cost no more are looked at, by float64 if float32 leaves
too many.

Example: 0 against 1, 3, 2 and 50, in the groups {1, 3} and {2, 50}, where one is
wanted. The groups begin at 1 and 4 (squares, of equal weights), so all four are looked
at; the nearest is 1, and 4, less rounding, bounds what the others cost.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from bregjax.hierarchy._windowed.neighbours.ties import mixed

__all__ = ["NearPoints", "Neighbourhoods"]

# Multiplications of one product. OpenBLAS deals larger ones out to threads of its own,
# which wait for each other, ten times as long where anything else runs.
_PRODUCT = 2**18
# Rows and columns of one product, at least and at most.
_TALL, _WIDE = (8, 64), (32, 256)
# Bounds of a block at most: 4 MB in float32.
_BLOCK = 2**20
# Pairs whose costs are computed together.
_PAIRS = 2**12
_MOST_THREADS = 8
# If float32 leaves undecided more than this share of so many rows, it is given up.
_TRIED, _SHARE = 256, 0.1
# Candidates of a row by float32 that are looked at, if more than those asked for.
_MANY = 64


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


class NearPoints:
    """Points in slots, all of them in use.

    Examples:
        >>> points = NearPoints(np.array([[0.0], [1.0], [3.0]]), np.ones(3))
        >>> found = points.nearest(np.array([0, 2]), 1)
        >>> print(found.index.ravel(), found.cost.ravel())
        [1 1] [0.5 2. ]
    """

    def __init__(self, mean: np.ndarray, weight: np.ndarray) -> None:
        """Take points `[m, n]` and their weights `[m]`."""
        # In units, powers of two, in which neither squares nor weights overflow.
        huge = np.max(np.abs(mean), initial=0.0) > 1e150
        self.mean = np.ldexp(mean.astype(float), -64 if huge else 0)
        self.weight = np.ldexp(weight.astype(float), -np.frexp(np.max(weight))[1])
        mean = self.mean
        # Products are of points less their median, which few points far away do not
        # move, so that squares cancel no more than they must; and scaled.
        self._center = np.median(mean, axis=0)
        # The square of the scale must be a number that is not 0.
        spread = np.max(np.abs(mean - self._center[None]), initial=0.0)
        self._scale = float(np.clip(spread, 1e-150, 1e150))
        self._float32_serves = True
        self._threads = min(os.cpu_count() or 1, _MOST_THREADS)

    def __len__(self) -> int:
        return len(self.weight)

    def costs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the costs of pairs of slots, `[p]`, the same in either order."""
        square = np.empty(len(first))
        for start in range(0, len(first), _PAIRS):
            part = slice(start, start + _PAIRS)
            gap = self.mean[first[part]] - self.mean[second[part]]
            square[part] = np.einsum("ij,ij->i", gap, gap)
        return square / (lightness(self.weight[first]) + lightness(self.weight[second]))

    def unite(self, first: np.ndarray, second: np.ndarray) -> None:
        """Put the unions of pairs of slots into the first of each."""
        a, b = self.weight[first], self.weight[second]
        # From the heavier part, which a light one far away hardly moves.
        heavy, light = np.where(a >= b, (first, second), (second, first))
        share = np.minimum(a, b) / (a + b)
        gap = self.mean[light] - self.mean[heavy]
        self.mean[first] = self.mean[heavy] + share[:, None] * gap
        self.weight[first] = a + b

    def keep(self, slots: np.ndarray) -> None:
        """Leave out all other slots."""
        self.mean, self.weight = self.mean[slots], self.weight[slots]

    def nearest(self, rows: np.ndarray, count: int) -> Neighbourhoods:
        """Find the nearest of slots among all others.

        Args:
            rows: Slots, `[r]`.
            count: How many of each.
        """
        found = Neighbourhoods.unknown(len(rows), count)
        left = np.arange(len(rows))
        for dtype in (np.float32, np.float64):
            coarse = dtype == np.float32
            if coarse and not self._float32_serves:
                continue
            scaled = (self.mean - self._center[None]) / self._scale
            panels = _Panels.of(scaled, self.weight, count, dtype)
            found.put(left, self._searched(panels, rows[left], None))
            tried, left = len(left), left[found.taken(left).unsettled()]
            if not len(left):
                break
            # All that may cost no more than the least of those.
            limit = np.min(found.cost[left], axis=1)
            some = np.isfinite(limit) if coarse else np.ones(len(left), bool)
            again, limit = left[some], limit[some]
            found.put(again, self._searched(panels, rows[again], limit))
            left = left[found.taken(left).unsettled()]
            if coarse and tried >= _TRIED and len(left) > _SHARE * tried:
                self._float32_serves = False
        return found

    def _searched(
        self, panels: "_Panels", rows: np.ndarray, limit: np.ndarray | None
    ) -> Neighbourhoods:
        """The nearest of slots by products; those that cost at most a limit, if any.

        Of those that tie at the end of a list a few that are as good as random: else
        all would list the same.
        """
        found = Neighbourhoods.unknown(len(rows), panels.count)
        unit = self._scale**2

        def search(part: slice) -> None:
            some = rows[part]
            most = None if limit is None else limit[part] / unit
            place, slot, bound = panels.leading(some, most)
            bound = bound * unit
            cost = self.costs(some[place], slot)
            order = np.lexsort((_mix(some[place], slot), cost, place))
            place, slot, cost = place[order], slot[order], cost[order]
            rank = _ranks(place)
            next_ = rank == panels.count
            bound[place[next_]] = np.minimum(bound[place[next_]], cost[next_])
            kept = rank < panels.count
            place, slot, cost, rank = (v[kept] for v in (place, slot, cost, rank))
            index, costs = found.index[part], found.cost[part]
            index[place, rank], costs[place, rank] = slot, cost
            found.bound[part] = bound

        parts = list(panels.parts(len(rows)))
        if len(parts) == 1:
            search(parts[0])
            return found
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(search, parts))
        return found


@dataclass(frozen=True)
class _Panels:
    """All points as the right sides of products, and how these are grouped.

    Points are in the order of their weights, so that those of a group have nearly the
    same; its members lie in the same column of as many panels.

    Attributes:
        points: The points, `[m, n]`.
        right: (b, ‖b‖², 1) of each point, `[groups of panels, members, n + 2, wide]`.
        slots: Which point it is, `[groups of panels, members, wide]`; −1 for none.
        light: 1 / w of each, of the same shape.
        lightest: The greatest in each group, `[groups of panels · wide]`.
        place: Where each point is, in the flat order of `slots`, `[m]`.
        tall: Rows of one product.
        count: How many of the nearest are wanted.
        tie: What is lost of a bound by rounding, as a share, where norms do not cancel.
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
    ) -> "_Panels":
        """Return the panels of points, for so many of the nearest."""
        m, n = mean.shape
        wide = int(np.clip(_PRODUCT // (_TALL[0] * (n + 2)), *_WIDE))
        wide = 2 ** int(np.log2(wide))
        tall = int(np.clip(_PRODUCT // (wide * (n + 2)), *_TALL))
        panels = -(-m // wide)
        # As many groups as members of the groups that are looked at.
        members = int(np.clip(np.sqrt(m / count), 1, panels)) if count > 1 else 1
        across = -(-panels // members)
        size = across * members * wide
        light = np.zeros(size)
        light[:m] = lightness(weight)
        order = np.full(size, -1)
        order[:m] = np.argsort(light[:m], kind="stable")
        arranged = lambda values: np.ascontiguousarray(
            values.reshape(across, wide, members, *values.shape[1:]).swapaxes(1, 2)
        )
        slots = arranged(order)
        place = np.zeros(m, np.int64)
        flat = slots.ravel()
        real = np.flatnonzero(flat >= 0)
        place[flat[real]] = real
        right = np.zeros((size, n + 2), dtype)
        right[:m, :n] = mean[order[:m]]
        right[:m, n] = _less_norms(mean[order[:m]], dtype)
        right[m:, n] = np.inf
        right[:, n + 1] = 1
        light[:m] = light[order[:m]]
        light = arranged(light)
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

    def parts(self, size: int) -> Iterator[slice]:
        """Yield slices of so many rows, one block each."""
        step = max(_BLOCK // self.slots.size // self.tall, 1) * self.tall
        return (slice(start, start + step) for start in range(0, size, step))

    def leading(
        self, rows: np.ndarray, limit: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the nearest of rows by lower bounds, and a bound for all others.

        Args:
            rows: Slots of the rows, `[r]`.
            limit: For all whose lower bound is at most this, `[r]`; None for `count`.

        Returns:
            Places of rows and slots, `[p]`; and bounds `[r]`.
        """
        light = self.light.ravel()[self.place[rows]]
        square = self._squares(self.points[rows])
        across, members, wide = self.slots.shape
        at = np.arange(len(rows))
        own = np.unravel_index(self.place[rows], self.slots.shape)
        square[at // self.tall, own[0], own[1], at % self.tall, own[2]] = np.inf
        coarse = self.right.dtype == np.float32
        if self.count == 1 and limit is None and coarse:
            return at, *self._first(square[:, :, 0], light)
        low = np.min(square, axis=2).swapaxes(1, 2).reshape(-1, across * wide)
        low = np.maximum(low[: len(rows)], 0) / (light[:, None] + self.lightest[None])
        bound = _least(low, self.count) if limit is None else limit * (1 + 2**-49)
        if limit is None and not coarse:
            # What float64 cannot tell apart ties.
            bound = bound * (1 + self.tie)
        within = low <= bound[:, None]
        if limit is None:
            # Bounds of 0 say nothing, and there may be very many.
            within &= (bound > 0)[:, None]
        row, group = np.nonzero(within)
        panel, column = np.divmod(group, wide)
        near = square[row // self.tall, panel, :, row % self.tall, column]
        near = np.maximum(near, 0) / (light[row, None] + self.light[panel, :, column])
        pair, member = np.nonzero((near <= bound[row, None]) & (near < np.inf))
        near, row = near[pair, member], row[pair]
        slot = self.slots[panel[pair], member, column[pair]]
        if limit is not None:
            # The least number above the limit: none of the others costs less.
            above = limit * (1 + 2**-50)
            if not coarse:
                return row, slot, above
            many = np.bincount(row, minlength=len(rows)) > _MANY
            return row[~many[row]], slot[~many[row]], np.where(many, -np.inf, above)
        step = np.floor(near / bound[row] / self.tie)
        order = np.lexsort((_mix(rows[row], slot), step, row))
        near, row, slot = near[order], row[order], slot[order]
        kept = _ranks(row) < self.count
        rest = near[~kept] if coarse else near[~kept] * (1 + self.tie)
        np.minimum.at(bound, row[~kept], rest)
        return row[kept], slot[kept], bound.astype(float)

    def _first(
        self, square: np.ndarray, light: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Slots of the nearest of rows, and bounds of the others, `[r]`.

        Args:
            square: `[blocks, panels, tall, wide]`, overwritten.
            light: Of the rows.
        """
        rows = np.zeros(square.shape[0] * self.tall, light.dtype)
        rows[: len(light)] = light
        # What all are divided by alike can wait.
        alike = np.min(self.light[self.slots >= 0]) == np.max(self.light)
        if not alike:
            # By float64: weights may be beyond what float32 has.
            square = square / (rows.reshape(-1, 1, self.tall, 1) + self.light[None])
        least = np.min(square, axis=3).swapaxes(1, 2).reshape(len(rows), -1)
        at = np.arange(len(light))
        least = least[: len(light)]
        panel = np.argmin(least, axis=1)
        within = square[at // self.tall, panel, at % self.tall]
        column = np.argmin(within, axis=1)
        within[at, column] = np.inf
        least[at, panel] = np.min(within, axis=1)
        bound = np.min(least, axis=1)
        return self.slots[panel, 0, column], bound / (2 * light) if alike else bound

    def _squares(self, mean: np.ndarray) -> np.ndarray:
        """Bound squared distances, `[blocks, across, members, tall, wide]`."""
        blocks = -(-len(mean) // self.tall)
        left = np.zeros((blocks * self.tall, self.right.shape[2]), self.right.dtype)
        left[: len(mean), :-2] = -2 * mean
        left[:, -2] = 1
        left[: len(mean), -1] = _less_norms(mean, self.right.dtype)
        left = left.reshape(blocks, 1, 1, self.tall, -1)
        return np.matmul(left, self.right[None])


def _less_norms(mean: np.ndarray, dtype: np.dtype | type) -> np.ndarray:
    """Return squared norms, less all that products with them may gain by rounding."""
    number, n = np.finfo(dtype), mean.shape[1]
    relative, absolute = 2 * float(number.eps), 4 * float(number.tiny)
    norm = np.einsum("ij,ij->i", mean, mean)
    return norm - (n + 8) * (relative * norm + absolute)


def _least(low: np.ndarray, count: int) -> np.ndarray:
    """Return of each row the least number but so many, `[r]`; inf if there is none."""
    if low.shape[1] <= count:
        return np.full(len(low), np.inf, low.dtype)
    return np.partition(low, count, axis=1)[:, count]


def lightness(weight: np.ndarray) -> np.ndarray:
    """Return 1 / w; of weights that are next to none, a great number."""
    return 1 / np.maximum(weight, 1e-300)


def _mix(rows: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Numbers of pairs that are as good as random: by the last of these ties end."""
    return mixed((rows + slots).astype(np.uint32))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Number the entries of each run of equal values."""
    index = np.arange(len(values))
    starts = np.append(True, values[1:] != values[:-1])[: len(values)]
    return index - np.maximum.accumulate(np.where(starts, index, 0))

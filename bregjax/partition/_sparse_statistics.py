"""Divergences of sparse rows from means: sums over entries, on the host, in float64.

A row is the floor φ ζ_j in every column, ζ being the center of the smoothing, and
something else, τ_j, where it has an entry. So its divergence from a cluster with the
means t is

    B_f(τ, t) = Σ over columns of B_f(φ ζ_j, t_j)
                + Σ over entries of B_f(τ_j, t_j) − B_f(φ ζ_j, t_j)

The first sum is computed once for all rows with the same φ. Where the sums cancel, as
for rows that nearly are their cluster's means, the divergence is computed again from
all columns in which row or cluster is off the floor. Columns in which most rows have an
entry are no part of these sums, and taken as dense ones.

Example: the counts (3, 1, 0) without smoothing, so φ = 0, under a cluster of Poisson
rates (2, 1, 1). B_f(0, t) = t, so the first sum is 4; the entries have B_f(3, 2) =
0.216 and B_f(1, 1) = 0, instead of 2 and 1. The divergence is 4 − 1.784 − 1 = 1.216.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import on_host
from bregjax._column_parameters import in_columns
from bregjax._typing import Array
from bregjax.clusters._excess import excess_of
from bregjax.convex import ConvexFunction

__all__ = ["RowEntries", "SparseStatistics"]

# Divergences that one program computes, 2 MiB in float64.
_CHUNK = 2**18
# Divergences below this share of what is added and subtracted are computed again, so
# that no more than two digits are lost.
_CANCELLED = 1e-2
# The share of rows with an entry in a column from which on the column is a dense one.
_MOST = 0.5
# A number inside the domains of all functions of sparse rows.
_INSIDE = 0.5


class RowEntries(NamedTuple):
    """Entries of rows, row by row, in some of the columns.

    Attributes:
        starts: Those of row i are from `starts[i]` to `starts[i + 1]`, `[m + 1]`.
        rows: `[e]`.
        columns: `[e]`.
        above: What the row has there above the floor, `[e]`.
    """

    starts: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    above: np.ndarray

    def of_rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places of the entries of some rows, and by number which row each is of."""
        lengths = np.diff(self.starts)[rows]
        ends = np.cumsum(lengths)
        first = np.repeat(self.starts[:-1][rows] - ends + lengths, lengths)
        places = first + np.arange(ends[-1] if len(ends) else 0)
        return places, np.repeat(np.arange(len(rows)), lengths)

    def in_columns(self, chosen: np.ndarray) -> "RowEntries":
        """Those in some columns, which a boolean for each says."""
        kept = chosen[self.columns]
        starts = np.concatenate([[0], np.cumsum(kept)])[self.starts]
        rest = (part[kept] for part in (self.rows, self.columns, self.above))
        return RowEntries(starts, *rest)


@dataclass(frozen=True, eq=False)
class SparseStatistics:
    """Statistics of sparse rows, as smoothed.

    Attributes:
        function: f.
        entries: Where rows are off their floor.
        rate: φ of each row, `[m]`.
        center: ζ, `[d]`.
    """

    function: ConvexFunction
    entries: RowEntries
    rate: np.ndarray
    center: np.ndarray

    @property
    def is_common(self) -> bool:
        """Whether all rows have one floor."""
        return np.ptp(self.rate) == 0

    @cached_property
    def _is_full(self) -> np.ndarray:
        """Whether most rows have an entry in a column, `[d]`."""
        counts = np.bincount(self.entries.columns, minlength=len(self.center))
        return counts > _MOST * len(self.rate)

    @cached_property
    def _thin(self) -> RowEntries:
        """The entries in all other columns."""
        return self.entries.in_columns(~self._is_full)

    def divergences(self, means: np.ndarray) -> np.ndarray:
        """B_f(τ_i, t_k) of each row from each of some means, `[m, k]` from `[k, d]`."""
        thin, size = self._in_thin_columns(means)
        full = np.flatnonzero(self._is_full)
        found = thin
        if len(full):
            every = np.arange(len(self.rate))
            found = thin + self._in_columns(every, full, means)
        # What cancels in the thin columns may be nothing beside the others.
        rows, clusters = np.nonzero(found < _CANCELLED * size)
        for cluster in np.unique(clusters):
            chosen = rows[clusters == cluster]
            columns = self._off_the_floor(chosen, means[cluster])
            own = self._in_columns(chosen, columns, means[cluster, None])
            found[chosen, cluster] += own[:, 0] - thin[chosen, cluster]
        return found

    def _in_thin_columns(self, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Divergences in these columns `[m, k]`, and the size of what is added up."""
        found, size, num_infinite = self._of_floors(means)
        means = np.ascontiguousarray(means.T)
        thin = self._thin
        for run in _runs(thin.rows, means.shape[1]):
            rows, columns = thin.rows[run], thin.columns[run]
            floor = self.rate[rows] * self.center[columns]
            chosen = in_columns(self.function, columns), means[columns]
            there = _by_column(*chosen, floor + thin.above[run])
            instead = _by_column(*chosen, floor)
            infinite = np.isinf(instead)
            instead = np.where(infinite, 0, instead)
            places, first = np.unique(rows, return_index=True)
            added_up = lambda terms, first=first: np.add.reduceat(terms, first, axis=0)
            found[places] += added_up(there - instead)
            size[places] += added_up(instead)
            if np.any(infinite):
                num_infinite[places] -= added_up(infinite.astype(float))
        # Where floors cost infinitely much a row needs entries in all such columns.
        return np.where(num_infinite > 0, np.inf, found), size

    def _of_floors(
        self, means: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Divergences of rows without entries, less those that are infinite, `[m, k]`.

        Then the size of what was added up, and in how many columns they are infinite.
        """
        thin = np.flatnonzero(~self._is_full)
        means = np.ascontiguousarray(means.T)

        def at_rate(rate: float) -> tuple[np.ndarray, np.ndarray]:
            total, count = np.zeros((2, means.shape[1]))
            for run in _runs(thin, means.shape[1]):
                columns = thin[run]
                function = in_columns(self.function, columns)
                floor = rate * self.center[columns]
                terms = _by_column(function, means[columns], floor)
                infinite = np.isinf(terms)
                count += np.sum(infinite, axis=0)
                total += np.sum(np.where(infinite, 0, terms), axis=0)
            return total, count

        rate, shape = self.rate[:, None], (len(self.rate), means.shape[1])
        if self.is_common:
            total, count = at_rate(rate[0, 0])
            found = np.broadcast_to(total, shape)
            return found.copy(), found.copy(), np.broadcast_to(count, shape).copy()
        # Rates differ under entropies only, whose divergences from the floor are
        # φ V(1) + (1 − φ) V(0) + Z φ log φ with V(φ) their sum, Z the sum of ζ.
        (zero, _), (one, count) = at_rate(0.0), at_rate(1.0)
        excess: Any = excess_of(self.function)
        rest = excess.whole(0.0, rate, 1.0, np.sum(self.center[thin]))
        found = rate * one + (1 - rate) * zero + rest
        size = np.abs(found) + np.abs(rest)
        return found, size, np.broadcast_to(count, shape).copy()

    def _off_the_floor(self, rows: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Thin columns in which some rows, or a cluster's mean, are off the floor."""
        off = ~self._is_full
        if self.is_common:
            off &= mean != self.rate[0] * self.center
            off[self._thin.columns[self._thin.of_rows(rows)[0]]] = True
        return np.flatnonzero(off)

    def _in_columns(
        self, rows: np.ndarray, columns: np.ndarray, means: np.ndarray
    ) -> np.ndarray:
        """Divergences of some rows in some columns, which are made dense, `[r, k]`."""
        place = np.full(len(self.center), -1)
        place[columns] = np.arange(len(columns))
        function = in_columns(self.function, columns)
        found = np.empty((len(rows), len(means)))
        size = max(_CHUNK // max(len(columns) * len(means), 1), 1)
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            points = self.rate[part, None] * self.center[columns]
            entries, number = self.entries.of_rows(part)
            target = place[self.entries.columns[entries]]
            inside = target >= 0
            above = self.entries.above[entries[inside]]
            points[number[inside], target[inside]] += above
            own = _over_columns(function, points, means[:, columns])
            found[start : start + size] = own
        return found


def _by_column(
    function: ConvexFunction, means: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """B_f(x_c, t_ck) column by column, `[c, k]`; f with the parameters of those.

    Filled up to a power of two: compilations go by size.
    """
    count = len(points)
    extra = _power_above(count) - count
    fill = lambda of: np.concatenate([of, np.repeat(of[:1], extra, axis=0)])
    function = jax.tree.map(lambda p: fill(p) if np.ndim(p) else p, function)
    with on_host():
        return np.asarray(_compiled_by_column(function, fill(means), fill(points)))[
            :count
        ]


@jax.jit
def _compiled_by_column(function: ConvexFunction, means: Array, points: Array) -> Array:
    across = lambda p: p[:, None, None] if jnp.ndim(p) else p
    function = jax.tree.map(across, function)
    center = means[:, :, None]
    x = jnp.broadcast_to(points[:, None, None], center.shape)
    return function.remainder(center, x - center, x=x)


def _over_columns(
    function: ConvexFunction, points: np.ndarray, means: np.ndarray
) -> np.ndarray:
    """B_f(x_r, t_k) over the columns of both, `[r, k]` from `[r, c]` and `[k, c]`.

    Filled up to powers of two, by columns that cost nothing and by rows.
    """
    rows, columns = points.shape
    extra = (0, _power_above(columns) - columns)
    more = (0, _power_above(rows) - rows)
    fill: Any = lambda of, *by: np.pad(of, by, constant_values=_INSIDE)
    function = jax.tree.map(lambda p: fill(p, extra) if np.ndim(p) else p, function)
    means, points = fill(means, (0, 0), extra), fill(points, more, extra)
    with on_host():
        return np.asarray(_compiled_over_columns(function, points, means))[:rows]


@jax.jit
def _compiled_over_columns(
    function: ConvexFunction, points: Array, means: Array
) -> Array:
    shape = (points.shape[0], *means.shape)
    x, center = (jnp.broadcast_to(of, shape) for of in (points[:, None], means))
    return function.remainder(center, x - center, x=x)


def _power_above(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()


def _runs(keys: np.ndarray, num_clusters: int) -> Iterator[slice]:
    """Runs of keys to work on with k clusters."""
    size = max(_power_above(_CHUNK // num_clusters + 1) // 2, 1)
    for start in range(0, len(keys), size):
        yield slice(start, min(start + size, len(keys)))

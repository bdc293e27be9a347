"""Points of sparse rows, and their densities: sums over entries, by NumPy.

A row is the floor φ ζ_j in every column, ζ being the center of the smoothing, and
something else, τ_j, where it has an entry. So its divergence from a cluster with the
means t is

    B_f(τ, t) = Σ over columns of B_f(φ ζ_j, t_j)
                + Σ over entries of B_f(τ_j, t_j) − B_f(φ ζ_j, t_j)

The first sum is computed once for all rows with the same φ. Of rows that nearly are
their cluster's means the two sums cancel, and the divergence is computed again column
by column.

Example: the counts (3, 1, 0) without smoothing, so φ = 0, under a cluster of Poisson
rates (2, 1, 1). B_f(0, t) = t, so the first sum is 4; the entries have B_f(3, 2) =
0.216 and B_f(1, 1) = 0, instead of 2 and 1. The divergence is 4 − 1.784 − 1 = 1.216.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._columns import as_rows
from bregjax._geometry import Geometry
from bregjax._problem import Problem, unchecked
from bregjax._sparse_rows import SparseRows, in_columns
from bregjax._typing import Array
from bregjax.clusters import MeanState
from bregjax.clusters._excess import excess_of
from bregjax.convex import ConvexFunction
from bregjax.hierarchy._sparse.clusters import SparseClusters, floors_of
from bregjax.hierarchy._sparse.sweep import Sweep
from bregjax.partition._base import Points

__all__ = ["SparsePoints", "log_densities"]

# Divergences that one program computes, 2 MiB in float64.
_CHUNK = 2**18
# Divergences below this share of what is added and subtracted are computed again, so
# that ten digits are right at least.
_CANCELLED = 1e-6


class SparsePoints(Points):
    """The rows of a known problem of sparse rows."""

    def __init__(self, problem: Problem) -> None:
        """Take the rows of a problem."""
        table: Any = problem.x
        model: Any = problem.family.cluster_model()
        self._problem = problem
        self._function: ConvexFunction = model.function
        self._rows: SparseRows = problem.family.sparse_statistics(table)
        self.weights = problem.weights
        d = self._rows.shape[1]
        floors = floors_of(problem.smoothing, np.asarray(problem.weights), d)
        self.smoothed_weights: Any = floors.weight
        self._center = np.zeros(d) if floors.center is None else floors.center
        rate = floors.mass / floors.weight
        # Of mixing and adding one rate, up to the rounding of weight over weight.
        alike = np.abs(rate - rate[0]) <= 4 * np.finfo(float).eps * rate[0]
        self._rate = np.where(alike, rate[0], rate)
        scale = (floors.scale / floors.weight)[self._rows.pattern.rows]
        self._above = scale * np.asarray(self._rows.values)

    @override
    def unions(self, members: Array) -> MeanState:
        weights = np.asarray(members, np.float64)
        pattern = self._rows.pattern
        by_column = np.argsort(pattern.columns, kind="stable")
        places = pattern.columns[by_column], pattern.rows[by_column]
        above = self._above[by_column]
        sums = np.zeros((self._rows.shape[1], len(weights)))
        # Over all rows in the same order as over entries, so that where all rows of a
        # cluster have a 1 the mean is 1, not a rounding above.
        total = np.add.reduceat(weights.T, [0], axis=0)[0]
        for run in _runs(places[0], len(weights)):
            terms = weights.T[places[1][run]] * above[run, None]
            columns, first = np.unique(places[0][run], return_index=True)
            sums[columns] = np.add.reduceat(terms, first, axis=0)
        floors = (weights @ self._rate) / total
        means = sums.T / total[:, None] + floors[:, None] * self._center
        return _state(total, means)

    @override
    def costs(self, states: MeanState) -> Array:
        return np.asarray(self.smoothed_weights)[:, None] * self.divergences(states)  # pyright: ignore[reportReturnType]

    def divergences(self, states: MeanState) -> np.ndarray:
        """B_f(τ_i, τ_k) of each point from each cluster, `[m, k]`."""
        means = np.ascontiguousarray(np.asarray(states.mean, np.float64).T)
        pattern, rate = self._rows.pattern, self._rate
        found, size, lost = self._of_floors(means)
        for run in _runs(pattern.rows, means.shape[1]):
            columns, rows = pattern.columns[run], pattern.rows[run]
            floor = rate[rows] * self._center[columns]
            chosen = in_columns(self._function, columns), means[columns]
            own = _divergences(*chosen, floor + self._above[run])
            old = _divergences(*chosen, floor)
            infinite = np.isinf(old)
            old = np.where(infinite, 0, old)
            places, first = np.unique(rows, return_index=True)
            added_up = lambda terms, first=first: np.add.reduceat(terms, first, axis=0)
            found[places] += added_up(own - old)
            size[places] += added_up(old)
            if np.any(infinite):
                lost[places] -= added_up(infinite.astype(float))
        # Infinite unless the row has entries in all columns whose floor is.
        found = np.where(lost > 0, np.inf, found)
        return self._again(found, np.flatnonzero(found < _CANCELLED * size), means)

    def _of_floors(
        self, means: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Divergences of rows without entries, sizes of those, infinite columns."""
        every = np.arange(len(means))

        def of(rate: float) -> tuple[np.ndarray, np.ndarray]:
            k = means.shape[1]
            total, lost = np.zeros(k), np.zeros(k)
            for run in _runs(every, k):
                function = in_columns(self._function, every[run])
                terms = _divergences(function, means[run], rate * self._center[run])
                infinite = np.isinf(terms)
                lost += np.sum(infinite, axis=0)
                total += np.sum(np.where(infinite, 0, terms), axis=0)
            return total, lost

        rate = self._rate[:, None]
        if np.ptp(rate) == 0:
            total, lost = of(rate[0, 0])
            found = np.tile(total, (len(rate), 1))
            return found, found.copy(), np.tile(lost, (len(rate), 1))
        # Rates differ under entropies only, whose divergences from the floor are
        # φ V(1) + (1 − φ) V(0) + Z φ log φ with V(φ) their sum, Z the sum of ζ.
        (zero, _), (one, lost) = of(0.0), of(1.0)
        excess: Any = excess_of(self._function)
        rest = excess.whole(0.0, rate, 1.0, np.sum(self._center))
        found = rate * one + (1 - rate) * zero + rest
        return found, np.abs(found) + np.abs(rest), np.tile(lost, (len(rate), 1))

    def _again(
        self, found: np.ndarray, pairs: np.ndarray, means: np.ndarray
    ) -> np.ndarray:
        """Divergences, those of some pairs computed column by column."""
        pattern, every = self._rows.pattern, np.arange(len(means))
        for row, cluster in zip(*np.unravel_index(pairs, found.shape), strict=True):
            entries = slice(*pattern.starts[row : row + 2])
            point = self._rate[row] * self._center
            point[pattern.columns[entries]] += self._above[entries]
            found[row, cluster] = 0
            for run in _runs(every, 1):
                function = in_columns(self._function, every[run])
                terms = _divergences(function, means[run, cluster, None], point[run])
                found[row, cluster] += np.sum(terms)
        return found

    @override
    def merge_costs(self, point: int) -> np.ndarray:
        costs = self._sweep.costs(point)
        noise = self._clusters.noise(point, np.arange(len(costs)))
        return np.where(costs > noise, costs, 0)

    @cached_property
    def _clusters(self) -> SparseClusters:
        return SparseClusters(self._problem)

    @cached_property
    def _sweep(self) -> Sweep:
        return Sweep(self._clusters, range(len(self._rate)))


def log_densities(problem: Problem, states: MeanState) -> np.ndarray:
    """log p(x_i; τ_k) of known sparse rows, as they are, under clusters, `[m, k]`."""
    ones = np.ones(problem.num_points)
    points = SparsePoints(unchecked(problem, smoothing=None, weights=ones))
    return _own_densities(problem)[:, None] - points.divergences(states)


def _own_densities(problem: Problem) -> np.ndarray:
    """log p(x_i; T(x_i)), `[m]`: f(T(x)), and what densities have beside f's tangent.

    Both are sums over columns, so those of no entries plus what entries change.
    """
    table: Any = problem.x
    rows: SparseRows = problem.family.sparse_statistics(table)
    columns, every = rows.pattern.columns, np.arange(rows.shape[1])
    values = np.asarray(rows.values)
    zeros = _own_terms(problem.family, np.zeros(len(every)), every)
    change = _own_terms(problem.family, values, columns) - zeros[columns]
    return np.sum(zeros) + np.bincount(rows.pattern.rows, change, rows.shape[0])


def _own_terms(
    family: Geometry, statistics: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    count = len(columns)
    extra = _power_above(count) - count
    filled = np.pad(statistics, (0, extra)), np.pad(columns, (0, extra))
    return np.asarray(_terms(family, *filled))[:count]


@jax.jit
def _terms(family: Geometry, statistics: Array, columns: Array) -> Array:
    model: Any = family.cluster_model()
    function = jax.tree.map(as_rows, in_columns(model.function, columns))
    return function(statistics[:, None]) + family.base_terms(statistics, columns)


def _divergences(
    function: ConvexFunction, means: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """B_f(x_c, t_ck) of numbers in columns, `[c, k]`; f with the parameters of those.

    Filled up to a power of two: compilations go by size.
    """
    count = len(points)
    fill = lambda of: np.concatenate([of, np.repeat(of[:1], extra, axis=0)])
    extra = _power_above(count) - count
    function = jax.tree.map(lambda p: fill(p) if np.ndim(p) else p, function)
    return np.asarray(_compiled(function, fill(means), fill(points)))[:count]


@jax.jit
def _compiled(function: ConvexFunction, means: Array, points: Array) -> Array:
    across = lambda p: p[:, None, None] if jnp.ndim(p) else p
    function = jax.tree.map(across, function)
    center = means[:, :, None]
    x = jnp.broadcast_to(points[:, None, None], center.shape)
    return function.remainder(center, x - center, x=x)


def _power_above(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()


def _runs(keys: np.ndarray, num_clusters: int) -> Iterator[slice]:
    """Runs of ascending keys, not parting equal ones, to work on with k clusters."""
    size = max(_power_above(_CHUNK // num_clusters + 1) // 2, 1)
    start = 0
    while start < len(keys):
        end = min(start + size, len(keys))
        if end < len(keys):
            end = int(np.searchsorted(keys, keys[end]))
            if end == start:
                end = int(np.searchsorted(keys, keys[start], side="right"))
        yield slice(start, end)
        start = end


def _state(weight: np.ndarray, mean: np.ndarray) -> MeanState:
    return MeanState(weight, mean)  # pyright: ignore[reportArgumentType]

"""Points of sparse rows."""

from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import override

from bregjax._problem import Problem
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array
from bregjax.clusters import MeanState
from bregjax.hierarchy._sparse.clusters import SparseClusters, floors_of
from bregjax.hierarchy._sparse.costs import SparseCosts
from bregjax.hierarchy._sparse.sweep import Sweep
from bregjax.partition._base import Points
from bregjax.partition._sparse_statistics import RowEntries, SparseStatistics

__all__ = ["SparsePoints", "statistics_of"]

# Costs below so many times their rounding are too rough to draw seeds by.
_ROUGH = 1e3


class SparsePoints(Points):
    """The rows of a known problem of sparse rows.

    Weights are filled up with zeros to a size that many problems share.
    """

    def __init__(self, problem: Problem, num_points: int) -> None:
        """Take the rows of a problem, and room for so many."""
        self._problem = problem
        self._statistics, smoothed = statistics_of(problem)
        room: Any = lambda of: np.pad(of, (0, num_points - problem.num_points))
        self.weights = room(np.asarray(problem.weights))
        self.smoothed_weights = room(smoothed)

    @override
    def unions(self, members: Array) -> MeanState:
        statistics = self._statistics
        weights = np.asarray(members, np.float64)[:, : len(statistics.rate)]
        means = np.empty((len(weights), len(statistics.center)))
        total = np.empty(len(weights))
        for cluster, weight in enumerate(weights):
            rows = np.flatnonzero(weight)
            places, number = statistics.entries.of_rows(rows)
            each = weight[rows]
            # `bincount` adds one after the other, here over rows and there over
            # entries. So where all rows have a 1 the mean is 1, and nowhere above.
            total[cluster] = np.bincount(np.zeros(len(rows), int), each)[0]
            terms = each[number] * statistics.entries.above[places]
            columns = statistics.entries.columns[places]
            means[cluster] = np.bincount(columns, terms, len(statistics.center))
            means[cluster] /= total[cluster]
            rate = statistics.rate[0]
            if not statistics.is_common:
                rate = weight @ statistics.rate / total[cluster]
            means[cluster] += rate * statistics.center
        return MeanState(total, means)  # pyright: ignore[reportArgumentType]

    @override
    def costs(self, states: MeanState) -> Array:
        costs = np.zeros((len(self.weights), states.weight.shape[0]))
        found = self._statistics.divergences(np.asarray(states.mean, np.float64))
        costs[: len(found)] = self.smoothed_weights[: len(found), None] * found
        return costs  # pyright: ignore[reportReturnType]

    @override
    def merge_costs(self, point: int) -> np.ndarray:
        costs = self._sweep.costs(point)
        noise = self._clusters.noise(point, np.arange(len(costs)))
        rough = np.flatnonzero(costs <= _ROUGH * noise)
        exact = SparseCosts(self._problem, self._clusters)
        costs[rough] = exact.of((point, other) for other in rough.tolist())
        return costs

    @cached_property
    def _clusters(self) -> SparseClusters:
        return SparseClusters(self._problem)

    @cached_property
    def _sweep(self) -> Sweep:
        return Sweep(self._clusters, range(self._problem.num_points))


def statistics_of(problem: Problem) -> tuple[SparseStatistics, np.ndarray]:
    """Statistics of the rows of a known problem, and weights `[m]`, as smoothed."""
    table: Any = problem.x
    model: Any = problem.family.cluster_model()
    rows: SparseRows = problem.family.sparse_statistics(table)
    pattern, d = rows.pattern, rows.shape[1]
    floors = floors_of(problem.smoothing, np.asarray(problem.weights), d)
    rate = floors.mass / floors.weight
    # Of mixing and adding one φ, up to the rounding of weight over weight.
    alike = np.abs(rate - rate[0]) <= 4 * np.finfo(float).eps * rate[0]
    scale = (floors.scale / floors.weight)[pattern.rows]
    above = scale * np.asarray(rows.values)
    found = SparseStatistics(
        function=model.function,
        entries=RowEntries(pattern.starts, pattern.rows, pattern.columns, above),
        rate=np.where(alike, rate[0], rate),
        center=np.zeros(d) if floors.center is None else floors.center,
    )
    return found, floors.weight

"""Greedy agglomeration in NumPy: the whole cost matrix and the minimum of each row.

What one would write by hand for a cost that SciPy does not have, without waste: the
first matrix by halves, one new row a merge, searches only of rows whose nearest has
gone, rows of the dead thrown out from time to time. O(m²) memory.
"""

import dataclasses
import functools

import numpy as np

from harness.outcome import Outcome
from harness.potentials import Potential, sums_and_potential

VERSIONS = {"numpy": np.__version__}

# Dead rows are thrown out once less than this share is alive.
_FULL = 0.75


def prepare(function: str, family: str):
    del function
    return functools.partial(_cluster, family)


@dataclasses.dataclass
class _Table:
    """Clusters by slot; costs, least costs and nearest are inf or idle for the dead."""

    weight: np.ndarray
    sums: np.ndarray
    value: np.ndarray
    costs: np.ndarray
    least: np.ndarray
    nearest: np.ndarray

    def search(self, rows: np.ndarray) -> None:
        found = self.costs[rows]
        self.nearest[rows] = found.argmin(axis=1)
        self.least[rows] = found.min(axis=1)

    def compacted(self, alive: np.ndarray) -> "_Table":
        place = np.cumsum(alive) - 1
        return _Table(
            self.weight[alive],
            self.sums[alive],
            self.value[alive],
            self.costs[np.ix_(alive, alive)],
            self.least[alive],
            place[self.nearest[alive]],
        )


def _cluster(family: str, x: np.ndarray) -> Outcome:
    m = len(x)
    sums, potential = sums_and_potential(x, family)
    table = _first_table(np.ones(m), sums, potential)
    alive = np.ones(m, bool)
    costs = np.empty(m - 1)
    for step in range(m - 1):
        if m - step < _FULL * len(alive):
            table = table.compacted(alive)
            alive = np.ones(m - step, bool)
        first = int(table.least.argmin())
        costs[step] = table.least[first]
        _merge(table, alive, first, int(table.nearest[first]), potential)
    return Outcome(costs)


def _first_table(weight: np.ndarray, sums: np.ndarray, potential: Potential) -> _Table:
    m = len(weight)
    value = potential(weight, sums)
    costs = np.full((m, m), np.inf)
    for i in range(m - 1):
        rest = slice(i + 1, m)
        union = potential(weight[rest] + weight[i], sums[rest] + sums[i])
        costs[i, rest] = costs[rest, i] = value[rest] + value[i] - union
    nearest = costs.argmin(axis=1)
    return _Table(weight, sums, value, costs, costs[np.arange(m), nearest], nearest)


def _merge(
    table: _Table, alive: np.ndarray, first: int, second: int, potential: Potential
) -> None:
    """Put the union in the first slot and bring all minima up to date."""
    table.weight[first] += table.weight[second]
    table.sums[first] += table.sums[second]
    alive[second] = False
    union = potential(
        table.weight + table.weight[first], table.sums + table.sums[first]
    )
    here = slice(first, first + 1)
    table.value[here] = potential(table.weight[here], table.sums[here])
    row = np.where(alive, table.value + table.value[first] - union, np.inf)
    row[first] = np.inf

    gone = alive & ((table.nearest == first) | (table.nearest == second))
    gone[first] = True
    table.costs[first], table.costs[:, first] = row, row
    table.costs[second], table.costs[:, second] = np.inf, np.inf
    table.least[second] = np.inf
    closer = row < table.least
    table.least[closer], table.nearest[closer] = row[closer], first
    table.search(np.flatnonzero(gone & ~closer))

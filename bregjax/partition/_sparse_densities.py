"""Densities of sparse rows under clusters, of known values."""

from typing import Any

import jax
import numpy as np

from bregjax._checks import on_host
from bregjax._geometry import Geometry
from bregjax._problem import Problem, unchecked
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array
from bregjax.clusters import MeanState
from bregjax.partition._sparse_points import statistics_of

__all__ = ["log_densities"]


def log_densities(problem: Problem, states: MeanState) -> np.ndarray:
    """log p(x_i; τ_k) of known sparse rows, as they are, under clusters, `[m, k]`."""
    statistics, _ = statistics_of(unchecked(problem, smoothing=None))
    means = np.asarray(states.mean, np.float64)
    return _own_densities(problem)[:, None] - statistics.divergences(means)


def _own_densities(problem: Problem) -> np.ndarray:
    """log p(x_i; T(x_i)), `[m]`.

    Sums over columns, so those of rows without entries plus what entries change.
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
    # Filled up to a power of two: compilations go by size.
    extra = (0, (1 << max(count - 1, 0).bit_length()) - count)
    with on_host():
        found = _compiled_terms(
            family, np.pad(statistics, extra), np.pad(columns, extra)
        )
        return np.asarray(found)[:count]


@jax.jit
def _compiled_terms(family: Geometry, statistics: Array, columns: Array) -> Array:
    return family.own_terms(statistics, columns)

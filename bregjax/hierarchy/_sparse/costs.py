"""Merge costs of sparse rows in the form that does not cancel, entry by entry."""

from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import on_host
from bregjax._column_parameters import as_rows, in_columns
from bregjax._problem import Problem
from bregjax._typing import Array
from bregjax.clusters import BregmanModel, MeanState
from bregjax.convex import ConvexFunction
from bregjax.hierarchy._sparse.clusters import SparseClusters, merged

__all__ = ["SparseCosts", "sparse_costs_along"]

# Entries whose costs are computed at a time, by one program for all trees.
_CHUNK = 2**15


class SparseCosts:
    """Exact merge costs of pairs of clusters of sparse rows.

    Σ_j w_j B_f(τ_j, c) over both parts of a merge, and over the columns in which one of
    them has an entry. In all others both are at the same floor, which costs nothing;
    where floors differ (pseudo-counts, and weights that differ) these columns count as
    one, with the sum of their centers, which is exact for entropies.
    """

    def __init__(self, problem: Problem, clusters: SparseClusters) -> None:
        """Take the function of a problem, and clusters of its rows."""
        model: Any = problem.family.cluster_model()
        self._function: ConvexFunction = model.function
        self._clusters = clusters
        self._has_rest = not clusters.excess.needs_common_floor

    def of(self, pairs: Iterable[tuple[int, int]]) -> np.ndarray:
        """Costs of pairs of nodes that live, in nats."""
        waiting: list[tuple[np.ndarray, ...]] = []
        found: list[np.ndarray] = []
        size = 0
        for a, b in pairs:
            waiting.append(self._entries(a, b))
            size += len(waiting[-1][0])
            if size > 8 * _CHUNK:
                found.append(self._added_up(waiting))
                waiting, size = [], 0
        if waiting:
            found.append(self._added_up(waiting))
        return np.concatenate(found) if found else np.zeros(0)

    def _entries(self, a: int, b: int) -> tuple[np.ndarray, ...]:
        """Columns of a merge, and weights and means of both parts there, `[e]` each."""
        clusters = self._clusters
        one, other = clusters.entries(a), clusters.entries(b)
        columns, places = merged(one.columns, other.columns)
        found = [clusters.used[columns]]
        rest = 0.0
        if self._has_rest:
            center: Any = clusters.center
            inside = (
                center * len(columns) if np.ndim(center) == 0 else center[columns].sum()
            )
            rest = max(clusters.share - float(inside), 0.0)
            # The column of the rest comes last; its number stands for any.
            found = [np.append(found[0], 0)]
        for node, part, place in zip((a, b), (one, other), places, strict=True):
            sums = np.zeros(len(columns))
            sums[place] = part.sums
            sums += clusters.floor(clusters.mass[node], columns)
            if self._has_rest:
                sums = np.append(sums, rest * clusters.mass[node])
            weight = clusters.weight[node]
            found += [np.full(len(sums), weight), sums / weight]
        found[4] = _snapped(found[4], found[2])
        return tuple(found)

    def _added_up(self, merges: list[tuple[np.ndarray, ...]]) -> np.ndarray:
        """Costs of merges from those of their columns."""
        columns, *states = (np.concatenate(part) for part in zip(*merges, strict=True))
        by_column = np.concatenate(list(self._chunks(columns, states)))[: len(columns)]
        lengths = np.array([len(merge[0]) for merge in merges])
        merge = np.repeat(np.arange(len(merges)), lengths)
        # Of no entries at all `bincount` gives whole numbers.
        return np.bincount(merge, by_column, len(merges)).astype(np.float64)

    def _chunks(
        self, columns: np.ndarray, states: list[np.ndarray]
    ) -> Iterator[np.ndarray]:
        """Costs of runs of columns, each filled up to the size of the program."""
        for start in range(0, max(len(columns), 1), _CHUNK):
            run = slice(start, start + _CHUNK)
            extra = max(start + _CHUNK - len(columns), 0)
            filled = lambda part, run=run, extra=extra: np.pad(
                part[run], (0, extra), constant_values=1
            )
            function = in_columns(self._function, np.pad(columns[run], (0, extra)))
            # A row for each column: each is a point of its own.
            function = as_rows(function)
            with on_host():
                found = np.asarray(_costs(function, *map(filled, states)))
            yield found


def _snapped(means: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Means, equal to others where they differ by the rounding of sums over weights.

    Equal clusters then cost exactly 0.
    """
    near = np.abs(means - others) <= 4 * np.finfo(float).eps * np.abs(others)
    return np.where(near, others, means)


@jax.jit
def _costs(
    function: ConvexFunction, w_a: Array, t_a: Array, w_b: Array, t_b: Array
) -> Array:
    """Merge costs of clusters of one column each, `[e]`."""
    a, b = MeanState(w_a, t_a[:, None]), MeanState(w_b, t_b[:, None])
    return jnp.asarray(BregmanModel(function).merge_cost(a, b))


def sparse_costs_along(problem: Problem, children: np.ndarray) -> np.ndarray:
    """Merge costs of a given tree of sparse rows, `[m − 1]`, in nats.

    Memory goes with the entries of the clusters that live.
    """
    clusters = SparseClusters(problem)
    costs = SparseCosts(problem, clusters)

    def merges() -> Iterator[tuple[int, int]]:
        for a, b in children.tolist():
            yield a, b
            # Asked for the next pair: the entries of this one have been taken.
            clusters.unite(a, b)
            clusters.drop(a)
            clusters.drop(b)

    return costs.of(merges())

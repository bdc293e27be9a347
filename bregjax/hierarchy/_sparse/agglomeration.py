"""Trees of sparse rows: which problems go this way, and how."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from bregjax._centers import sparse_fault
from bregjax._evaluation import (
    check_leaves,
    equal_rows,
    leaf_codes,
    smoothed_statistics,
)
from bregjax._geometry import PrecisionError
from bregjax._problem import Problem, unchecked
from bregjax._sparse_rows import SparseRows, sparse_of_dense
from bregjax.hierarchy._host_costs import BY_HAND, closed_host
from bregjax.hierarchy._interrupted import leaving
from bregjax.hierarchy._memory import available_memory
from bregjax.hierarchy._sparse.clusters import SparseClusters
from bregjax.hierarchy._sparse.costs import SparseCosts, sparse_costs_along
from bregjax.hierarchy._sparse.engine import TooNoisy, bytes_needed, merge_sparse

__all__ = ["agglomerate_sparse", "for_other_engines", "goes_sparsely"]

_GIB = 2**30
# The share of the free memory that costs of all pairs may take.
_SHARE = 0.8

# Tables of the size of dense rows that other engines hold at once, about.
_TABLES = 6
# Dense rows of so many columns go by their entries where costs have logarithms: at 100
# columns that took a quarter of the time of other engines, at 30 twice as long.
_MANY_COLUMNS = 100
# Columns for each entry that is not 0, or at all, from which that holds for entropies
# too. 2,000 × 128, most not 0, take a quarter of the time by windows; 400 columns with
# 1 in 20 not 0 four times as long, and with 1 in 4 between 0.4 and twice as long.
_COLUMNS_AN_ENTRY, _WIDE = 7, 256
# Of dense rows costs of all pairs may take so much; 14,000 rows.
_MOST_BYTES = 2**29
# How many columns of a matrix product take as long as an entry in a sweep, and as a
# merge for which all is ready.
_PRODUCTS_AN_ENTRY, _PRODUCTS_A_MERGE = 16, 3e6


def goes_sparsely(problem: Problem, engine: str, mesh: Mesh | None) -> bool:
    """Whether the engine of sparse rows finds the tree of a problem.

    Raises:
        ValueError: If rows are sparse and another engine or a mesh is asked for, or the
            family takes no sparse rows and this engine is.
    """
    if isinstance(problem.x, SparseRows):
        if mesh is not None:
            raise ValueError(
                "`mesh` must be None where rows are sparse, whose engine runs on the "
                f"host; got a mesh of {mesh.size} devices. Leave it out, or pass dense "
                "rows, x.toarray()."
            )
        if engine not in ("auto", "sparse"):
            raise ValueError(
                f'`engine` must be "auto" or "sparse" where rows are sparse; got '
                f"{engine!r}. Other engines take dense rows, x.toarray()."
            )
        return True
    if engine == "auto":
        return mesh is None and jax.default_backend() == "cpu" and _pays(problem)
    if engine != "sparse":
        return False
    if not problem.family.takes_sparse:
        raise ValueError(
            '`engine` must not be "sparse" for '
            f"{type(problem.family).__name__}, whose statistics of 0 are not 0. Leave "
            "it out."
        )
    fault = sparse_fault(problem.smoothing, problem.family, problem.weights)
    if fault:
        raise ValueError(f'`engine` must not be "sparse" here: {fault}')
    return True


def _pays(problem: Problem) -> bool:
    """Whether dense rows are clustered faster by their entries.

    Costs with logarithms are, from a hundred columns on: those of entropies where most
    entries are 0 or columns are many, as else windows leave few pairs; others however
    few are 0. Dense
    squared distances are matrix products; so there entries must be few, and rows many
    enough that the work of a merge besides its sweep does not count.
    """
    family = problem.family
    if not family.takes_sparse or np.ndim(problem.x) != 2:
        return False
    m, d = problem.x.shape
    if d < _MANY_COLUMNS or bytes_needed(m) > _MOST_BYTES:
        return False
    if sparse_fault(problem.smoothing, family, problem.weights):
        return False
    entries = np.count_nonzero(problem.x) / m
    model = family.cluster_model()
    if not model.reducible:
        if m <= BY_HAND or d > min(_COLUMNS_AN_ENTRY * entries, _WIDE):
            return True
        statistics = lambda: smoothed_statistics(problem)
        return not closed_host(model).has_quick(statistics)
    return bool(d > _PRODUCTS_AN_ENTRY * entries + _PRODUCTS_A_MERGE / m)


def agglomerate_sparse(
    problem: Problem,
    report: Callable[[int], None] | None,
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Children and merge costs of the tree of a problem, by its entries that are not 0.

    None where too many costs are mostly rounding; see `for_other_engines`.

    Raises:
        ValueError: If a row has no finite cost, or costs of all pairs do not fit.
    """
    if not isinstance(problem.x, SparseRows):
        problem = unchecked(problem, x=sparse_of_dense(problem.x))
    check_leaves(leaf_codes(problem), problem)
    _check_memory(problem.num_points)
    clusters = SparseClusters(problem)
    exact = SparseCosts(problem, clusters).of
    try:
        labels = equal_rows(problem)
        children = merge_sparse(clusters, labels, exact, report, start)
    except TooNoisy:
        return None
    with leaving(children, problem.num_points):
        return children, sparse_costs_along(problem, children)


def for_other_engines(problem: Problem, engine: str) -> Problem:
    """Return the problem with dense rows, as another engine takes them.

    Raises:
        PrecisionError: If this engine was asked for, or the rows do not fit into memory
            when dense.
    """
    table: Any = problem.x
    m, d = table.shape
    fits = _TABLES * 8 * m * d < _SHARE * available_memory()
    if engine != "sparse" and (fits or not isinstance(table, SparseRows)):
        rows = table.toarray() if isinstance(table, SparseRows) else table
        return unchecked(problem, x=rows)
    raise PrecisionError(
        "`x` has rows whose merge costs are mostly rounding beside the size of their "
        "entries: they differ little, or smoothing leaves little of them. Subtract "
        "what all rows share where the family allows of it, smooth less, or pass dense "
        "rows, x.toarray(), to another engine, whose costs do not cancel."
    )


def _check_memory(num_points: int) -> None:
    needed, available = bytes_needed(num_points), available_memory()
    if needed <= _SHARE * available:
        return
    most = int((2 * _SHARE * available / 4) ** 0.5)
    raise ValueError(
        f'The engine "sparse" needs {needed / _GIB:.1f} GiB for the costs of all pairs '
        f"of {num_points:,} points and {available / _GIB:.1f} GiB are there: up to "
        f"{most:,} points fit. Merge duplicates into weights, or cluster a sample."
    )

"""New rows of the kind that a problem is of."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregjax._checks import float_array, is_concrete
from bregjax._frames import frame_of
from bregjax._inputs import check_table, number_array
from bregjax._problem import Problem, rows_of, unchecked
from bregjax._sparse_rows import SparseRows, is_sparse, sparse_of_dense, sparse_rows
from bregjax._typing import TableLike

__all__ = ["new_rows"]


def new_rows(problem: Problem, rows: TableLike | None) -> Problem:
    """Return a problem of other rows, of weight 1 each, with family and smoothing kept.

    Args:
        problem: Of the rows that a tree was made of.
        rows: Rows of the same kind; the problem's own if None.

    Raises:
        ValueError: If they do not fit, as `Problem` does.
    """
    family = problem.family
    found: Any = problem.x
    if rows is not None:
        given: Any = _rows_like(problem, rows)
        check_table("rows", given, masked=family.encodes)
        if len(np.shape(given)) < problem.x.ndim and problem.x.shape[1] != 1:
            raise ValueError(
                f"`rows` must have a row a point, as `x` does; got shape "
                f"{np.shape(given)}. One point is rows[None]."
            )
        if not family.encodes and np.shape(given)[1:] != problem.x.shape[1:] != (1,):
            raise ValueError(
                f"`rows` must have {problem.x.shape[1]} columns, as `x` has; got shape "
                f"{np.shape(given)}. Make them as `x` was made, a row a point, by the "
                "same vocabulary."
            )
        try:
            _, found = rows_of(family, given)
        except ValueError as error:
            text = str(error).replace("`x`", "`rows`")
            raise ValueError(text) from None
    ones = float_array(np.ones(np.shape(found)[0]))
    return unchecked(problem, x=found, weights=ones)


def _rows_like(problem: Problem, rows: TableLike) -> TableLike:
    """Rows that are sparse where those of a problem are, and only there."""
    if isinstance(rows, Mapping):
        return frame_of(rows)
    if is_sparse(rows):
        rows = sparse_rows(rows, "rows")
        return rows if isinstance(problem.x, SparseRows) else rows.toarray()
    if isinstance(problem.x, SparseRows) and np.ndim(rows) == 2:
        known = number_array(rows, "rows") if is_concrete(rows) else rows
        return sparse_of_dense(known, "rows")
    return rows

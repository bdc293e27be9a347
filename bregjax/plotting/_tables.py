"""Tables as numbers with names, for pictures of their cells."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregjax._checks import is_concrete
from bregjax._frames import frame_of
from bregjax._problem import Problem
from bregjax._sparse_rows import SparseRows
from bregjax._typing import TableLike
from bregjax.families import Categorical, Product
from bregjax.plotting._text import shortened

__all__ = ["Numbers", "family_of_column", "numbers_of"]

# Columns left out that are named.
_MOST_LEFT_OUT = 4


@dataclass(frozen=True, eq=False)
class Numbers:
    """Columns of numbers.

    Attributes:
        cells: `[m, d]`; NaN where missing.
        names: What the columns are called.
        left_out: What columns without numbers are called, where none were chosen.
        places: Where the columns are in the table, `[d]`.
    """

    cells: np.ndarray
    names: tuple[Hashable, ...]
    left_out: tuple[Hashable, ...]
    places: np.ndarray

    def not_shown(self, most_letters: int = 40) -> str:
        """Which columns are left out, the first four by name; empty if none are."""
        if not self.left_out:
            return ""
        names = ", ".join(
            shortened(name, most_letters) for name in self.left_out[:_MOST_LEFT_OUT]
        )
        more = len(self.left_out) - _MOST_LEFT_OUT
        return f"not shown: {names}" + (f" and {more} more" if more > 0 else "")


def numbers_of(
    data: Problem | TableLike, columns: Sequence[Hashable] | None
) -> Numbers:
    """The columns of a table that are numbers, or those that were chosen.

    Raises:
        ValueError: If there is no such column, none or one without numbers was chosen,
            or no column has numbers.
        TypeError: If the table is sparse, its values are traced, or `columns` is no
            list.
    """
    if isinstance(data, Problem):
        cells, names, numeric = _of_problem(data)
    else:
        frame = frame_of(data)
        names = frame.columns
        numeric = np.array([column.numeric for column in frame.members], bool)
        cells = np.full(frame.shape, np.nan)
        for place in np.flatnonzero(numeric):
            cells[:, place] = frame.members[place].values
    if columns is None:
        places = np.flatnonzero(numeric)
        left_out = tuple(names[j] for j in np.flatnonzero(~numeric))
        if not len(places):
            raise ValueError(
                f"`data` must have a column of numbers; got {list(names)}, all of them "
                "categories."
            )
    else:
        places, left_out = _chosen(columns, names, numeric), ()
    return Numbers(cells[:, places], tuple(names[j] for j in places), left_out, places)


def family_of_column(problem: Problem, place: int) -> Any:
    """The family of a column of a problem."""
    if not isinstance(problem.family, Product):
        return problem.family
    blocks = problem.family.blocks()
    return next(block.family for block in blocks if place in block.columns)


def _of_problem(
    problem: Problem,
) -> tuple[np.ndarray, tuple[Hashable, ...], np.ndarray]:
    if isinstance(problem.x, SparseRows):
        raise TypeError(
            "`problem` must have dense rows to be drawn; got sparse ones. Give some of "
            "the columns as a table: x[:, columns].toarray()."
        )
    if not is_concrete(problem):
        raise TypeError("`problem` must have known values: draw outside jit and vmap.")
    names = problem.columns
    numeric = np.array(
        [
            not isinstance(family_of_column(problem, place), Categorical)
            for place in range(len(names))
        ],
        bool,
    )
    return np.asarray(problem.x, np.float64), names, numeric


def _chosen(
    columns: Sequence[Hashable], names: tuple[Hashable, ...], numeric: np.ndarray
) -> np.ndarray:
    """The places of columns that a user names, or numbers."""
    if isinstance(columns, str) or not hasattr(columns, "__iter__"):
        raise TypeError(
            f"`columns` must be a list of columns; got {columns!r}. Take [{columns!r}]."
        )
    places = []
    for column in columns:
        if column not in names:
            raise ValueError(
                f"`columns` must name columns of the table; got {column!r}. There are "
                f"{list(names)[:20]}."
            )
        place = names.index(column)
        if not numeric[place]:
            numbers = [names[j] for j in np.flatnonzero(numeric)]
            raise ValueError(
                f"`columns` must name columns of numbers; got {column!r}, a column of "
                f"categories. There are {numbers[:20]}."
            )
        places.append(place)
    if not places:
        raise ValueError(
            "`columns` must name a column or more; got none. Leave it out for all."
        )
    return np.array(places, int)

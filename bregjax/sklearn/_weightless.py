"""Rows of weight 0: they must fit the family, and get labels where a cluster may."""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bregjax._frames import frame_of
from bregjax._new_rows import new_rows
from bregjax._problem import Problem
from bregjax._typing import TableLike
from bregjax.families import Categorical, Product
from bregjax.sklearn._rows import rows_at

__all__ = ["Weightless", "in_rows_of_x", "labels_of_all", "weightless"]


@dataclass(frozen=True, eq=False)
class Weightless:
    """Rows of weight 0 that some cluster may have made.

    Attributes:
        places: Their numbers among the rows of `fit`, `[r]`.
        rows: A problem of them, of weight 1 each.
    """

    places: np.ndarray
    rows: Problem


def weightless(
    problem: Problem, x: TableLike, places: np.ndarray, *, declared: bool
) -> Weightless | None:
    """Rows of weight 0, without those whose levels no other row has.

    Args:
        problem: Of the rows of weight above 0.
        x: All rows.
        places: The numbers of those of weight 0.
        declared: Whether the user gave the levels of a `Categorical`: others are then
            as wrong in these rows as in any.

    Raises:
        ValueError: At the first row that does not fit the family.
    """
    table, family = rows_at(x, places), problem.family
    with in_rows_of_x(places):
        if isinstance(family, Product):
            known = _may_be_made(family, table)
        elif isinstance(family, Categorical) and not declared:
            own = dataclasses.replace(family, levels=None).for_data(table)
            own.check_support(table)
            known = (np.asarray(family.as_rows(table)) >= 0).all(axis=1)
        else:
            known = np.ones(len(places), bool)
    places = places[known]
    if not len(places):
        return None
    with in_rows_of_x(places):
        rows = new_rows(problem, rows_at(table, np.flatnonzero(known)))
    return Weightless(places, rows)


def _may_be_made(family: Product, table: TableLike) -> np.ndarray:
    """Which rows have an observed cell that is known, and whole blocks where need be.

    Rows that lack such cells in the table itself count among them: they do not fit.
    """
    columns = family.layout.taken(frame_of(table))
    lacking = np.stack([column.missing for column in columns], axis=1)
    unknown = np.isnan(np.asarray(family.as_rows(table))) & ~lacking
    nothing = (unknown | lacking).all(axis=1) & unknown.any(axis=1)
    made: np.ndarray = np.logical_not(nothing)
    for block in family.blocks():
        if not block.by_cell:
            made &= ~unknown[:, block.places].any(axis=1)
    return made


@contextlib.contextmanager
def in_rows_of_x(places: np.ndarray) -> Iterator[None]:
    """Reword errors of some rows of `X`: its name, and the numbers of rows there.

    Args:
        places: The numbers of the rows in `X`.
    """

    def number(match: re.Match[str]) -> str:
        row = int(match[1])
        return f"row {places[row] if row < len(places) else row}"

    try:
        yield
    except ValueError as error:
        text = re.sub(r"`(x|rows)`", "`X`", str(error))
        raise ValueError(re.sub(r"\brow (\d+)", number, text)) from None


def labels_of_all(
    kept: np.ndarray,
    labels: np.ndarray,
    rest: Weightless | None,
    assign: Callable[[Problem], np.ndarray],
) -> np.ndarray:
    """Labels of all rows of `fit`, int32 `[m]`; −1 where no cluster can have made one.

    Args:
        kept: Which rows have weight, `[m]`.
        labels: Their labels.
        rest: The other rows that clusters may have made.
        assign: Labels of new rows, −1 where no cluster can have made one.
    """
    found = np.full(len(kept), -1, np.int32)
    found[kept] = labels
    if rest is not None:
        with in_rows_of_x(rest.places):
            found[rest.places] = assign(rest.rows)
    return found

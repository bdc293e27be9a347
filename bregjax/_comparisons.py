"""Comparisons of two sets of rows by column, and how they print."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bregjax.families._summary import ColumnSummary, aligned

__all__ = ["ColumnCost", "Comparison", "Comparisons", "Explanation"]

# Columns that a printed comparison shows.
_MOST_SHOWN = 20


@dataclass(frozen=True)
class ColumnCost:
    """What a column adds to the cost of joining two sets of rows.

    Attributes:
        columns: The name of the column; of a block that has no costs by column all its
            names.
        cost: The log-likelihood lost there if both are one cluster, in nats.
        first: The first rows there, for each column.
        second: The second rows.

    Examples:
        >>> import bregjax as bj
        >>> problem = bj.Problem({"visits": [2, 3, 9]}, family="poisson")
        >>> print(bj.compare_rows(problem, [0, 1], [2])[0].first[0])
        2.5
    """

    columns: tuple[Hashable, ...]
    cost: float
    first: tuple[ColumnSummary, ...]
    second: tuple[ColumnSummary, ...]

    @property
    def name(self) -> str:
        """The name of the column, or the names of the block."""
        return ", ".join(map(str, self.columns))


@dataclass(frozen=True)
class Comparison(Sequence[ColumnCost]):
    """Two sets of rows by column, the column that sets them apart most first.

    Attributes:
        columns: Cost and summaries of each column.
        sizes: How many rows both have.
        names: What both are called.

    Examples:
        >>> import bregjax as bj
        >>> table = {"visits": [2, 3, 9, 8], "smokes": [0, 1, 1, 1]}
        >>> problem = bj.Problem(table, family="auto")
        >>> print(bj.compare_rows(problem, [0, 1], [2, 3]))
        first of 2 rows, second of 2 rows: 4.321 nats
          column  nats   share  first  second
          visits  3.458  80%    2.5    8.5
          smokes  0.863  20%    50%    100%
    """

    columns: tuple[ColumnCost, ...]
    sizes: tuple[int, int]
    names: tuple[str, str] = ("first", "second")

    @property
    def cost(self) -> float:
        """The log-likelihood lost if both are one cluster, in nats."""
        return float(sum(column.cost for column in self.columns))

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns of a table, as for `pandas.DataFrame(comparison.to_dict())`."""
        total = self.cost or 1.0
        first, second = self.names
        return {
            "column": [column.name for column in self],
            "nats": [column.cost for column in self],
            "share": [column.cost / total for column in self],
            first: [_in_words(column.first) for column in self],
            second: [_in_words(column.second) for column in self],
        }

    def __getitem__(self, index: Any) -> Any:
        """The column of that rank."""
        return self.columns[index]

    def __len__(self) -> int:
        """The number of columns, or blocks."""
        return len(self.columns)

    def __iter__(self) -> Iterator[ColumnCost]:
        """Columns, the one that sets both apart most first."""
        return iter(self.columns)

    def __str__(self) -> str:
        """A table of the first columns."""
        total = self.cost
        rows: list[tuple[str, ...]] = [("column", "nats", "share", *self.names)]
        for column in self.columns[:_MOST_SHOWN]:
            share = column.cost / total if total else 0.0
            sides = [
                ", ".join(map(str, side)) for side in (column.first, column.second)
            ]
            rows.append((column.name, f"{column.cost:.4g}", f"{share:.0%}", *sides))
        lines = ["  " + line for line in aligned(rows)]
        more = len(self.columns) - _MOST_SHOWN
        counted = [
            f"{name} of {size:,} row{'' if size == 1 else 's'}"
            for name, size in zip(self.names, self.sizes, strict=True)
        ]
        head = f"{', '.join(counted)}: {total:.4g} nats"
        tail = [f"  and {more} more"] if more > 0 else []
        return "\n".join([head, *lines, *tail])


class Comparisons(list[Comparison]):
    """Comparisons of several clusters, that print one below the other.

    Examples:
        >>> import bregjax as bj
        >>> problem = bj.Problem({"visits": [2, 3, 9]}, family="poisson")
        >>> bj.explain_clusters(problem, [0, 0, 1])
        cluster 0 of 2 rows, rest of 1 row: 2.79 nats
          column  nats  share  cluster 0  rest
          visits  2.79  100%   2.5        9
        cluster 1 of 1 row, rest of 2 rows: 2.79 nats
          column  nats  share  cluster 1  rest
          visits  2.79  100%   9          2.5
    """

    def __repr__(self) -> str:
        """The table of each."""
        return "\n".join(map(str, self))


@dataclass(frozen=True)
class Explanation:
    """A node of a tree: the merge that made it, and what sets it apart.

    Attributes:
        node: Its number.
        merge: Both parts compared, whose costs add up to that of the merge; None for a
            leaf.
        against_rest: The node compared with all other rows; None where there is
            none.

    Examples:
        >>> import bregjax as bj
        >>> problem = bj.Problem({"visits": [2, 3, 9]}, family="poisson")
        >>> print(round(bj.explain(problem, [[0, 1], [2, 3]], -1).merge.cost, 3))
        2.79
    """

    node: int
    merge: Comparison | None
    against_rest: Comparison | None

    def __str__(self) -> str:
        """The node's number, the table of its merge, then that against the rest."""
        parts = [part for part in (self.merge, self.against_rest) if part is not None]
        return f"node {self.node}\n" + "\n".join(map(str, parts))


def _in_words(side: tuple[ColumnSummary, ...]) -> str:
    return ", ".join(map(str, side))

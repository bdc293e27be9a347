"""A column in words: what its observed cells are on average, in their own units."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregjax.families._bernoulli import Bernoulli
from bregjax.families._categorical import Categorical
from bregjax.families._exponential import Exponential
from bregjax.families._negative_binomial import Geometric, NegativeBinomial
from bregjax.families._poisson import Poisson

__all__ = ["ColumnSummary", "aligned", "columns_in_words", "summarised"]

# Families of one parameter a column, whose mean says all.
_BY_MEAN = Poisson | NegativeBinomial | Geometric | Exponential
# How many levels are named, and from which share on.
_MOST_LEVELS, _LEAST_SHARE = 3, 0.05
# Columns that are shown of a problem.
_MOST_COLUMNS = 24


@dataclass(frozen=True)
class ColumnSummary:
    """What the observed cells of a column are in some rows.

    Attributes:
        count: How many cells are observed.
        weight: Their weight.
        mean: Their weighted mean; NaN for categories.
        deviation: Their weighted standard deviation, with no correction.
        shares: Of categories the share of each level that occurs, largest first.

    Examples:
        >>> print(ColumnSummary(5, 5.0, 4012.6, 150.0, {}))
        4,010 ± 150
    """

    count: int
    weight: float
    mean: float
    deviation: float
    shares: dict[Hashable, float]
    kind: str = "spread"

    def __str__(self) -> str:
        """Mean ± standard deviation, a rate, a percentage, or the largest shares."""
        if not self.count:
            return "–"
        if self.shares:
            named = [
                f"{level} {share:.0%}"
                for rank, (level, share) in enumerate(self.shares.items())
                if rank == 0 or (rank < _MOST_LEVELS and share >= _LEAST_SHARE)
            ]
            if len(self.shares) == len(named) + 1:
                level, share = list(self.shares.items())[-1]
                named.append(f"{level} {share:.0%}")
            more = len(self.shares) - len(named)
            return ", ".join(named) + (f", {more} more" if more else "")
        if self.kind == "share":
            return f"{self.mean:.0%}"
        if self.kind == "rate":
            return _plain(self.mean, 3)
        return _with_deviation(self.mean, self.deviation)


def columns_in_words(product: Any, rows: np.ndarray, weights: np.ndarray) -> list[str]:
    """A table of the columns of a product: family, what is missing, what is there."""
    lines = {}
    for block in product.blocks():
        for k, place in enumerate(block.places):
            cells = rows[:, place]
            lines[int(place)] = (
                str(product.names[place]),
                type(block.family).__name__,
                f"{np.isnan(cells).mean():.0%}",
                str(summarised(block.family, k, cells, weights)),
            )
    shown = [lines[place] for place in sorted(lines)]
    more = len(shown) - _MOST_COLUMNS
    table = aligned([_HEADER, *shown[:_MOST_COLUMNS]])
    return table + ([f"… and {more} more"] if more > 0 else [])


def _plain(value: float, digits: int) -> str:
    """A number with some digits, without an exponent where that is readable."""
    size = abs(value)
    if 10.0**digits <= size < 1e12:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def _with_deviation(mean: float, deviation: float) -> str:
    """Mean ± deviation, both to the second digit of the deviation."""
    if not 0 < deviation < np.inf:
        return f"{_plain(mean, 4)} ± {deviation:.2g}"
    decimals = 1 - int(np.floor(np.log10(deviation)))
    if decimals > 6 or abs(mean) >= 1e12:
        return f"{mean:.4g} ± {deviation:.2g}"
    mean, deviation = round(mean, decimals), round(deviation, decimals)
    places = max(decimals, 0)
    return f"{mean:,.{places}f} ± {deviation:,.{places}f}"


_HEADER = ("column", "family", "missing", "observed")


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Lines of cells, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pad = lambda row: [c.ljust(w) for c, w in zip(row, widths, strict=True)]
    return ["  ".join(pad(row)).rstrip() for row in rows]


def summarised(
    family: Any, place: int, cells: np.ndarray, weights: np.ndarray
) -> ColumnSummary:
    """Summarise the cells of a column.

    Args:
        family: The family of its block.
        place: Which column of the block it is.
        cells: `[m]`, as rows of the problem have them; NaN where missing.
        weights: `[m]`.
    """
    seen = ~np.isnan(cells)
    x, w = cells[seen], weights[seen]
    total = float(w.sum())
    if not len(x):
        return ColumnSummary(0, 0.0, np.nan, np.nan, {})
    if isinstance(family, Categorical) and family.levels is not None:
        share = np.bincount(x.astype(int), weights=w) / total
        order = [code for code in np.argsort(-share, kind="stable") if share[code] > 0]
        levels = family.levels[place]
        shares = {levels[code]: float(share[code]) for code in order}
        return ColumnSummary(len(x), total, np.nan, np.nan, shares, "levels")
    mean = float(w @ x / total)
    deviation = float(np.sqrt(w @ (x - mean) ** 2 / total))
    kind = "spread"
    if isinstance(family, Bernoulli):
        kind = "share"
    elif isinstance(family, _BY_MEAN):
        kind = "rate"
    return ColumnSummary(len(x), total, mean, deviation, {}, kind)

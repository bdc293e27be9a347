"""Families for the columns of a table, chosen by what the columns hold."""

import re
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregjax._frames import Column, frame_of
from bregjax._typing import TableLike
from bregjax.families._base import Family
from bregjax.families._bernoulli import Bernoulli
from bregjax.families._categorical import Categorical
from bregjax.families._gaussian import DiagonalGaussian, Gaussian
from bregjax.families._layout import Missing
from bregjax.families._named import named_family
from bregjax.families._poisson import Poisson
from bregjax.families._product import Product

__all__ = ["Choice", "choices_of", "choose_families"]

# Text of more levels than this, or of more than this share of the observed cells, is no
# category: names of rows, remarks. At half, a column of countries is left out; at
# double, remarks of a few hundred rows come in.
_MOST_LEVELS, _MOST_SHARE = 50, 0.5
# Whole numbers of a variance below this share of their mean are no Poisson counts, nor
# a mixture of such, whose variance is at least the mean: years, grades. At double, a
# column of counts about one value may fall under it by chance.
_LEAST_DISPERSION = 0.5
# Whole numbers whose least is more than this share of their mean are measured from far
# below: millimetres, grams. Poisson counts of a mean of 30 fall below it.
_FAR_FROM_ZERO, _MEASURED = 0.25, 30.0
# Whole numbers from 1 to at most this in at least so many rows are grades or answers on
# a scale: counts so small would have zeros.
_SCALE, _MANY_ROWS = 10, 30
# Whole numbers of a variance above so many times their mean are amounts that happen to
# be whole, or percentages: as counts they would rule the tree. Clusters of counts
# explain a factor of a few; counts of a larger one are well enough off as Gaussian.
_MOST_DISPERSION = 10.0
# A positive column whose logarithms are so much less skewed is said to be skewed.
_SKEWED = 2.0
# Fewer rows say nothing of identifiers.
_FEW_ROWS = 8


@dataclass(frozen=True)
class Choice:
    """What was chosen for a column, and why.

    Attributes:
        column: The name of the column.
        family: The family; None where the column is set aside.
        reason: What the column holds, in a few words.
        given: Whether the user said so.
    """

    column: Hashable
    family: Family | None
    reason: str
    given: bool = False


def choose_families(
    x: TableLike,
    families: Mapping[Any, Family | str | None] | None = None,
    *,
    weights: Mapping[Hashable, float] | None = None,
    missing: Missing = "auto",
) -> Product:
    """Choose a family for each column of a table: what `family="auto"` does.

    True and False, 0 and 1 are `Bernoulli`; two other whole numbers `Categorical`;
    whole numbers from 0 up `Poisson`, if they have zeros or go beyond 10 (1 to 5 in 30
    rows is a scale), their variance is from half of to ten times their mean, and their
    mean is below 30 or their least below a quarter of it; all other numbers
    `DiagonalGaussian`. Text of few levels, and what a data frame declares as
    categories, is `Categorical`, whether ordered or not; a numeric family given for
    ordered names takes their places, 0, 1, …. Columns that are constant or empty,
    dates, text of many levels and numbers that count the rows are set aside, with a
    warning. Columns of one family form one block.

    Whole numbers are not tested for overdispersion: a mixture of Poisson counts is
    overdispersed, so that a test would speak against Poisson where there are clusters.
    Say `{"visits": "negative_binomial"}` where you know better.

    Args:
        x: A data frame of pandas or polars, a mapping of names to columns, an array or
            a list of rows. None, NaN, NA and masked cells are missing.
        families: What is known better, by column or by tuple of columns: a family or
            its name, "auto", or None to leave the column out. "gaussian" of a tuple of
            columns is one Gaussian with correlations.
        weights: What columns count, as for `Product`.
        missing: As for `Product`.

    Returns:
        The product, which prints as the code that makes it.

    Raises:
        ValueError: If `families` has a column that is not there, or no column is left.

    Examples:
        >>> import bregjax as bj
        >>> table = {
        ...     "height": [1.71, 1.64, None, 1.80],
        ...     "visits": [0, 2, 3, 11],
        ...     "smokes": [True, False, False, None],
        ...     "town": ["Kiel", "Bonn", "Kiel", "Bonn"],
        ... }
        >>> family = bj.choose_families(table)
        >>> for block, one in zip(family.layout.blocks, family.families, strict=True):
        ...     print(block, type(one).__name__)
        ('height',) DiagonalGaussian
        ('visits',) Poisson
        ('smokes',) Bernoulli
        ('town',) Categorical
    """
    frame = frame_of(x)
    given = _given(families or {}, frame.columns)
    choices = choices_of(list(frame.members), given)
    aside = [c for c in choices if c.family is None and not c.given]
    if len(frame) == 1 and not any(choice.family for choice in choices):
        raise ValueError(
            "`x` must have two rows at least for families chosen by what columns hold; "
            "got one row. Pass all rows, or name the families, family={column: …}."
        )
    if aside:
        words = "; ".join(f"{c.column!r} ({c.reason})" for c in aside)
        warnings.warn(
            f"`x` has columns that are set aside: {words}. Give them a family to keep "
            'them, family={column: "categorical"}, say.',
            stacklevel=2,
        )
    blocks = _blocks(choices, given)
    if not blocks:
        raise ValueError(
            f"`x` has no column to cluster by; set aside are {len(choices)}: "
            f"{'; '.join(f'{c.column!r} ({c.reason})' for c in choices)}. Give a "
            "family to one, family={column: …}."
        )
    return Product(blocks, weights=weights, missing=missing)


def choices_of(
    columns: list[Column], given: Mapping[tuple[Hashable, ...], Any]
) -> list[Choice]:
    """A choice for each column, in the order of the table."""
    said = {name: family for block, family in given.items() for name in block}
    choices = []
    for column in columns:
        family: Any = said.get(column.name, "auto")
        if isinstance(family, str) and family == "auto":
            chosen, reason = _chosen(column)
            choices.append(Choice(column.name, chosen, reason))
        else:
            known: Any = family
            reason = "left out" if family is None else "given"
            choices.append(Choice(column.name, known, reason, given=True))
    return choices


def _given(
    families: Mapping[Any, Family | str | None], names: tuple[Hashable, ...]
) -> dict[tuple[Hashable, ...], Any]:
    """What the user said, by names, with families in the place of their names."""
    found: dict[tuple[Hashable, ...], Any] = {}
    said: set[Hashable] = set()
    for key, family in families.items():
        block = key if isinstance(key, tuple) and key not in names else (key,)
        if isinstance(family, str) and family != "auto":
            family = _named(family, key)
            if isinstance(family, Gaussian) and len(block) == 1:
                # The same of one column, and takes missing cells.
                family = DiagonalGaussian()
        elif family is not None and not isinstance(family, str | Family):
            raise TypeError(
                f"`family` must have a family, its name or None for column {key!r}; "
                f"got {type(family).__name__}."
            )
        resolved = tuple(_name(column, names) for column in block)
        for column in resolved:
            if column in said:
                raise ValueError(
                    f"`family` must say each column once; got {column!r} again in "
                    f"{key!r}. Leave it out of all but one."
                )
            said.add(column)
        found[resolved] = family
    return found


def _named(family: str, key: Hashable) -> Family:
    try:
        return named_family(family)
    except ValueError as error:
        raise ValueError(f"{error} That is for column {key!r}.") from None


def _name(column: Hashable, names: tuple[Hashable, ...]) -> Hashable:
    if column in names:
        return column
    if isinstance(column, int) and -len(names) <= column < len(names):
        return names[column]
    known = ", ".join(repr(name) for name in names[:12])
    raise ValueError(
        f"`family` has column {column!r}, which `x` has not; it has {known}"
        f"{', …' if len(names) > 12 else ''}."
    )


def _blocks(choices: list[Choice], given: Mapping[tuple[Hashable, ...], Any]) -> dict:
    """Families by block: what was given as it was, other columns by their family."""
    blocks: dict[tuple[Hashable, ...], Family] = {}
    alike: dict[str, list[Hashable]] = {}
    families: dict[str, Family] = {}
    together = {block for block, family in given.items() if len(block) > 1}
    within = {name: block for block in together for name in block}
    for choice in choices:
        family = choice.family
        if family is None:
            continue
        block = within.get(choice.column)
        if block is not None and choice.given:
            blocks[block] = family
            continue
        # Families with parameters of their own stay apart.
        kind = repr(family)
        alike.setdefault(kind, []).append(choice.column)
        families[kind] = family
    for kind, names in alike.items():
        blocks[tuple(names)] = families[kind]
    order = {choice.column: place for place, choice in enumerate(choices)}
    return dict(sorted(blocks.items(), key=lambda item: order[item[0][0]]))


def _chosen(column: Column) -> tuple[Family | None, str]:
    """The family of a column, None to set it aside, and what the column holds."""
    present = column.values[~column.missing]
    if not len(present):
        return None, "empty"
    if column.timed or _are_dates(column, present):
        return None, "dates"
    if column.levels is not None or not column.numeric:
        return _of_names(column, present)
    if np.all(present == present[0]):
        return None, f"constant, {present[0]:g}"
    return _of_numbers(column, present)


# Dates as text begin so: 2024-05-31, 31.5.2024, 5/31/24.
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}")


def _are_dates(column: Column, present: np.ndarray) -> bool:
    """Whether all cells are text that begins with a date."""
    if column.numeric or column.levels is not None:
        return False
    return all(isinstance(v, str) and _DATE.match(v) for v in present.tolist())


def _of_names(column: Column, present: np.ndarray) -> tuple[Family | None, str]:
    distinct = len(set(present.tolist()))
    if distinct == 1:
        return None, f"constant, {present[0]!r}"
    if column.levels is not None:
        kind = "ordered levels" if column.ordered else "levels"
        return Categorical(), f"{distinct} {kind}, declared"
    if all(isinstance(v, str) and _is_number(v) for v in present.tolist()):
        return None, "numbers as text: convert the column, by pandas.to_numeric say"
    many = distinct > _MOST_LEVELS or distinct > _MOST_SHARE * len(present)
    if many and len(present) >= _FEW_ROWS:
        return None, f"text, {distinct} different of {len(present)}"
    return Categorical(), f"text of {distinct} levels"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _of_numbers(column: Column, present: np.ndarray) -> tuple[Family | None, str]:
    if column.boolean:
        return Bernoulli(), "true or false"
    if np.isin(present, (0, 1)).all():
        return Bernoulli(), "0 or 1"
    whole = bool(np.all(present == np.round(present)))
    if whole and _counts_rows(present):
        return None, "counts the rows"
    if not np.isfinite(present).all():
        return DiagonalGaussian(), "numbers"  # which are refused, with their place
    low, mean, variance = np.min(present), np.mean(present), np.var(present)
    if whole and len(np.unique(present)) == 2:
        return Categorical(), "two whole numbers"
    graded = whole and low >= 1 and np.max(present) <= _SCALE
    if graded and len(present) >= _MANY_ROWS:
        return DiagonalGaussian(), f"a scale, to {np.max(present):g}"
    if whole and low >= 0:
        ratio = variance / mean
        if ratio < _LEAST_DISPERSION:
            return DiagonalGaussian(), "whole numbers of little variance"
        if low > _FAR_FROM_ZERO * mean and mean > _MEASURED:
            return DiagonalGaussian(), "whole numbers far from 0"
        if ratio > _MOST_DISPERSION:
            return DiagonalGaussian(), "whole numbers of much variance"
        return Poisson(), f"counts, of {ratio:.2g} times the variance of Poisson's"
    if low > 0 and _skewness(present) > _SKEWED + abs(_skewness(np.log(present))):
        return DiagonalGaussian(), "positive and skewed: gamma, or logarithms, may suit"
    return DiagonalGaussian(), "numbers"


def _counts_rows(present: np.ndarray) -> bool:
    """Whether whole numbers run from first to last without a gap or a repeat."""
    if len(present) < _FEW_ROWS:
        return False
    return bool(np.ptp(present) == len(present) - 1 == len(np.unique(present)) - 1)


def _skewness(values: np.ndarray) -> float:
    apart = values - np.mean(values)
    spread = np.std(values)
    return float(np.mean(apart**3) / spread**3) if spread > 0 else 0.0

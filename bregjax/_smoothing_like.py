"""What a user passes as `smoothing`, as a map that suits the family and the rows."""

import math
from collections.abc import Hashable, Mapping, Sequence
from numbers import Real
from typing import Any, Protocol

import numpy as np

from bregjax._centers import sparse_fault
from bregjax._checks import is_concrete
from bregjax._geometry import Geometry
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array
from bregjax.families import Product
from bregjax.smoothing import StatisticMap
from bregjax.smoothing._by_block import ByBlock
from bregjax.smoothing._maps import Blur

__all__ = [
    "SmoothingLike",
    "check_smoothing",
    "drowned",
    "has_shared_bandwidth",
    "smoothing_for",
    "wide_bandwidth",
]

SmoothingLike = (
    StatisticMap | str | float | Mapping[Any, StatisticMap | str | None] | None
)

# A bandwidth of more than this times the spread of a column leaves nothing of it: what
# the column adds to costs falls with the square, to a hundredth at ten.
_WIDE = 10.0
_REMEDY = (
    "Take smoothing=normal_reference(x, per_coordinate=True), or bring the columns to "
    "one unit, as by (x - x.mean(axis=0)) / x.std(axis=0)."
)


def smoothing_for(
    smoothing: SmoothingLike,
    geometry: Geometry,
    rows: Array,
    weights: Array | None,
) -> StatisticMap | None:
    """The smoothing map that `smoothing` stands for.

    Raises:
        ValueError: If a number is not positive, or the map does not suit.
        TypeError: If `smoothing` is of no kind known here.
    """
    if smoothing is None:
        return None
    if _is_number(smoothing):
        number: Any = smoothing
        smoothing = _of_number(float(number), geometry)
    if isinstance(geometry, Product):
        smoothing = _of_blocks(smoothing, geometry, rows, weights)
    if isinstance(smoothing, StatisticMap):
        check_smoothing(smoothing, geometry, rows, weights)
        return smoothing
    if isinstance(smoothing, str) and smoothing == "auto":
        return geometry.default_smoothing(rows, weights)
    raise TypeError(
        '`smoothing` must be "auto", None, a number or a smoothing map such as '
        f"normal_reference(x); got {smoothing!r}."
    )


def _is_number(smoothing: Any) -> bool:
    if isinstance(smoothing, Real):
        return not isinstance(smoothing, bool)
    return (
        isinstance(smoothing, Array)
        and np.ndim(smoothing) == 0
        and (is_concrete(smoothing))
    )


def _of_number(amount: float, geometry: Geometry) -> StatisticMap:
    if not (math.isfinite(amount) and amount > 0):
        raise ValueError(
            f"`smoothing` must be positive and finite; got {amount:g}. Take None for "
            'none, or "auto".'
        )
    if isinstance(geometry, Product) and len(geometry.families) == 1:
        return geometry.families[0].smoothing_of(amount)
    return geometry.smoothing_of(amount)


def _of_blocks(
    smoothing: SmoothingLike, product: Product, rows: Array, weights: Array | None
) -> SmoothingLike:
    """A map for each block, of a mapping, or of one map where there is one block."""
    if isinstance(smoothing, Mapping):
        return product.smoothing_by_column(smoothing, rows, weights)
    if isinstance(smoothing, StatisticMap) and not isinstance(smoothing, ByBlock):
        return ByBlock((smoothing,)) if len(product.families) == 1 else smoothing
    return smoothing


def check_smoothing(
    smoothing: StatisticMap, geometry: Geometry, rows: Any, weights: Array | None
) -> None:
    """Raise unless a map suits the statistics, and sparse rows if they are such."""
    if not isinstance(rows, SparseRows):
        geometry.check_smoothing(smoothing, rows)
        return
    # One row stands for all: maps are checked against the form of statistics.
    geometry.check_smoothing(smoothing, rows[:1].toarray())
    fault = sparse_fault(smoothing, geometry, weights)
    if fault:
        raise ValueError(fault)


class _Smoothed(Protocol):
    """What of a problem is read here."""

    @property
    def x(self) -> Any: ...
    @property
    def family(self) -> Geometry: ...
    @property
    def smoothing(self) -> StatisticMap | None: ...
    @property
    def weights(self) -> Any: ...
    @property
    def columns(self) -> Any: ...


def has_shared_bandwidth(problem: _Smoothed) -> bool:
    """Whether several columns share one bandwidth."""
    return bool(_shared_bandwidths(problem))


def wide_bandwidth(problem: _Smoothed) -> str:
    """Say that one bandwidth for several columns drowns one that varies; "" if none."""
    words = drowned(problem, problem.columns)
    if not words:
        return ""
    return (
        f"`smoothing` is one bandwidth for all columns, and {words}: such columns "
        f"count for next to nothing. {_REMEDY}"
    )


def drowned(problem: _Smoothed, names: Sequence[Hashable]) -> str:
    """The column of least spread by a bandwidth over ten times that, "" if none."""
    known = (problem.x, problem.weights, problem.smoothing)
    if isinstance(problem.x, SparseRows) or not is_concrete(known):
        return ""
    rows, weights = np.asarray(problem.x), np.asarray(problem.weights)
    found = []
    for places, bandwidth in _shared_bandwidths(problem):
        for place in places:
            spread = _spread(rows[:, place], weights)
            if spread and bandwidth > _WIDE * spread:
                found.append((bandwidth / spread, bandwidth, spread, place))
    if not found:
        return ""
    ratio, bandwidth, spread, place = max(found)
    more = f", and over ten times that of {len(found) - 1} more" if found[1:] else ""
    return (
        f"{bandwidth:.4g} is {ratio:.3g} times the standard deviation {spread:.3g} of "
        f"column {names[place]!r}{more}"
    )


def _shared_bandwidths(problem: _Smoothed) -> list[tuple[tuple[int, ...], float]]:
    """Columns that share a bandwidth, and it."""
    family, smoothing = problem.family, problem.smoothing
    if isinstance(smoothing, Blur):
        pairs: list[Any] = [(tuple(range(problem.x.shape[1])), smoothing)]
    elif isinstance(smoothing, ByBlock) and isinstance(family, Product):
        blocks = family.blocks()
        pairs = [
            (block.places, each)
            for block, each in zip(blocks, smoothing.maps, strict=True)
        ]
    else:
        return []
    return [
        (places, float(each.bandwidth))
        for places, each in pairs
        if isinstance(each, Blur) and np.ndim(each.bandwidth) == 0 and len(places) > 1
    ]


def _spread(cells: np.ndarray, weights: np.ndarray) -> float:
    """The standard deviation of the cells that are there; 0 where they are equal."""
    seen = ~np.isnan(cells)
    cells, weights = cells[seen], weights[seen]
    if not len(cells) or np.ptp(cells) == 0:
        return 0.0
    # What overflows is told where costs are made.
    with np.errstate(over="ignore", invalid="ignore"):
        mean = weights @ cells / weights.sum()
        return float(np.sqrt(weights @ (cells - mean) ** 2 / weights.sum()))

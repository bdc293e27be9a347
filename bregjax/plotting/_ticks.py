"""Ticks at 1, 2 or 5 times a power of ten, written in full."""

from typing import Any

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

__all__ = ["STEPS", "log_ticks", "number", "root_ticks", "set_log_ticks"]

STEPS = [1, 2, 5, 10]
"""What ticks of linear axes may step by, times a power of ten."""


def root_ticks(greatest: float, count: int) -> list[float]:
    """0 and round numbers, about evenly apart on an axis of square roots, from the top.

    Examples:
        >>> root_ticks(350.0, 4)
        [0.0, 20.0, 100.0, 200.0]
    """
    if not 0 < greatest < np.inf:
        return [0.0]
    apart = np.sqrt(greatest) / (count + 1)
    ticks, last = [], np.inf
    for tick in reversed(_round(1e-4 * greatest, greatest)):
        if last - np.sqrt(tick) >= apart <= np.sqrt(tick):
            ticks.append(tick)
            last = np.sqrt(tick)
    return [0.0, *reversed(ticks)]


def log_ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers from a positive one to another, at most about so many."""
    ticks = _round(low, high)
    if len(ticks) <= count + 2:
        return ticks
    powers = [tick for tick in ticks if f"{tick:.0e}".startswith("1")]
    return powers[:: -(-len(powers) // (count + 2))]


def set_log_ticks(axis: Any, ticks: list[float], zero: float | None = None) -> None:
    """Set ticks of a logarithmic axis; one that stands for zero says so."""
    places = ticks if zero is None else [zero, *ticks]
    axis.set_major_locator(FixedLocator(places))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: "0" if value == zero else number(value, _))
    )


def number(value: float, _: Any) -> str:
    """A tick in full, with commas between thousands, unless it is very long."""
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return f"{value:,.10g}".replace("-", "−")
    return f"{value:g}".replace("-", "−")


def _round(low: float, high: float) -> list[float]:
    """All numbers of 1, 2 or 5 times a power of ten in a range, in order."""
    powers = range(int(np.floor(np.log10(low))), int(np.floor(np.log10(high))) + 1)
    found = [float(f"{digit}e{power}") for power in powers for digit in STEPS[:3]]
    return [tick for tick in found if low <= tick <= high]

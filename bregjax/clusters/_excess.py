"""What the entries of sparse rows that are not 0 add to the cost of a cluster.

A cluster of weight w holds, column by column, the sum u of entries and a floor
f = ζ g: smoothing puts a mass g into the cluster, shared out by the center ζ. With F a
function of the column's mean, as f is for counts x log x,

    A = Σ over columns of w F((u + f) / w)

is w times the function at the cluster's mean, and Δ(a, b) = A_a + A_b − A_ab. Columns
with u = 0 count nothing there if g / w is the same in all clusters, as A is then
linear in w. What is left is the *excess* D(u) = w F((u + f) / w) − w F(f / w), added up
over columns with u > 0, up to terms linear in u and w, which cancel.

Entropies are an exception: they need no common g / w, as
Σ ζ g log (ζ g / w) = g Σ ζ log ζ + Z g log (g / w) with Z = Σ ζ, in which the first
term is linear again. The second is `whole`.

Example: two documents of weight 1 with counts (3, 1, 0, …) and (0, 2, 0, …) of Poisson
words, without smoothing, F(t) = t log t: A is 3 log 3 = 3.296 for the first, 2 log 2 =
1.386 for the second, and 3 log 3 + 3 log 3 − 6 log 2 = 2.433 for both. So Δ = 2.249,
whatever the number of words.
"""

import abc
from typing import Any

import numpy as np
from typing_extensions import override

from bregjax.convex import (
    BinaryEntropy,
    ConvexFunction,
    NegativeBinomialEntropy,
    NegativeEntropy,
    Scaled,
    SquaredNorm,
)

__all__ = ["Excess", "excess_of"]

_TINY = np.finfo(np.float64).tiny

AnyArray = Any
"""A NumPy array, or one number for all entries."""


class Excess(abc.ABC):
    """The excess D of entries under one function, in float64, by NumPy.

    Examples:
        >>> excess = excess_of(NegativeEntropy())
        >>> print(excess.of(np.array([3.0, 1.0]), 0.0, 1.0, None).round(3))
        [3.296 0.   ]
    """

    needs_common_floor = True
    """Whether the floor must be the same share of all clusters' weights."""

    by_weight = True
    """Whether D depends on the weight of the cluster, beside the floor."""

    @abc.abstractmethod
    def of(
        self, sums: np.ndarray, floor: AnyArray, weight: AnyArray, columns: Any
    ) -> np.ndarray:
        """D of entries of clusters, `[e]`.

        Args:
            sums: u ≥ 0, `[e]`.
            floor: f, `[e]` or one number.
            weight: w, `[e]` or one number.
            columns: The numbers of the columns, `[e]`.
        """

    def rise(
        self,
        sums: np.ndarray,
        added: np.ndarray,
        floor: AnyArray,
        weight: AnyArray,
        columns: Any,
    ) -> np.ndarray:
        """D(u + v) − D(u), `[e]`; arguments as of `of`, v with `added`."""
        more = self.of(sums + added, floor, weight, columns)
        return more - self.of(sums, floor, weight, columns)

    def sizes(
        self, sums: np.ndarray, floor: AnyArray, weight: AnyArray, columns: Any
    ) -> np.ndarray:
        """Sizes of what is added and subtracted in D, by which its rounding goes."""
        return np.abs(self.of(sums, floor, weight, columns))

    def whole(
        self, total: AnyArray, mass: AnyArray, weight: AnyArray, share: float
    ) -> AnyArray:
        """What A has beside the sum of D, 0 but for entropies.

        Args:
            total: Sums of u over columns, `[k]`.
            mass: g, `[k]`.
            weight: w, `[k]`.
            share: Z, the sum of ζ over columns.
        """
        del mass, weight, share
        return 0.0 * total


class _EntropyExcess(Excess):
    """φ(u + f) − φ(f) with φ(s) = s log s; −(U + Z g) log w + Z φ(g) for the whole."""

    needs_common_floor = False
    by_weight = False

    @override
    def of(self, sums, floor, weight, columns):
        del weight, columns
        return _xlogx(sums + floor) - _xlogx(floor)

    @override
    def sizes(self, sums, floor, weight, columns):
        del weight, columns
        return np.abs(_xlogx(sums + floor)) + np.abs(_xlogx(floor))

    @override
    def rise(self, sums, added, floor, weight, columns):
        del weight, columns
        low = sums + floor
        high = low + added
        # In place: these arrays are the whole work of a search.
        low += _TINY
        low *= np.log(low)
        high *= np.log(high)
        high -= low
        return high

    @override
    def whole(self, total, mass, weight, share):
        return share * _xlogx(mass) - (total + share * mass) * np.log(weight)


class _BinaryExcess(Excess):
    """The excess of x log x + (1 − x) log (1 − x)."""

    @override
    def of(self, sums, floor, weight, columns):
        del columns
        rest = weight - floor
        ones = _xlogx(sums + floor) - _xlogx(floor)
        return ones + (_xlogx(rest - sums) - _xlogx(rest))

    @override
    def sizes(self, sums, floor, weight, columns):
        del columns
        rest = weight - floor
        ones = np.abs(_xlogx(sums + floor)) + np.abs(_xlogx(floor))
        return ones + np.abs(_xlogx(rest - sums)) + np.abs(_xlogx(rest))


class _NegativeBinomialExcess(Excess):
    """The excess of x log x − (x + r) log (x + r), r one number or one a column."""

    def __init__(self, dispersion: AnyArray) -> None:
        self._dispersion = np.asarray(dispersion, np.float64)

    @override
    def of(self, sums, floor, weight, columns):
        r = (
            self._dispersion
            if self._dispersion.ndim == 0
            else self._dispersion[columns]
        )
        low = r * weight + floor
        ones = _xlogx(sums + floor) - _xlogx(floor)
        # φ(low + u) − φ(low), of which no digits are lost where r is large.
        return ones - (sums * np.log(low + sums) + low * np.log1p(sums / low))

    @override
    def sizes(self, sums, floor, weight, columns):
        ones = np.abs(_xlogx(sums + floor)) + np.abs(_xlogx(floor))
        return 2 * ones + np.abs(self.of(sums, floor, weight, columns)) + sums


class _SquareExcess(Excess):
    """u² / 2w: the floor moves all means alike."""

    @override
    def of(self, sums, floor, weight, columns):
        del floor, columns
        return sums * sums / (2 * weight)

    @override
    def rise(self, sums, added, floor, weight, columns):
        del floor, columns
        return added * (sums + 0.5 * added) / weight


class _ScaledExcess(Excess):
    """A multiple of another excess."""

    def __init__(self, excess: Excess, factor: AnyArray) -> None:
        self._excess, self._factor = excess, float(factor)
        self.needs_common_floor = excess.needs_common_floor
        self.by_weight = excess.by_weight

    @override
    def of(self, sums, floor, weight, columns):
        return self._factor * self._excess.of(sums, floor, weight, columns)

    @override
    def sizes(self, sums, floor, weight, columns):
        return self._factor * self._excess.sizes(sums, floor, weight, columns)

    @override
    def rise(self, sums, added, floor, weight, columns):
        rise = self._excess.rise(sums, added, floor, weight, columns)
        rise *= self._factor
        return rise

    @override
    def whole(self, total, mass, weight, share):
        return self._factor * self._excess.whole(total, mass, weight, share)


def excess_of(function: ConvexFunction) -> Excess | None:
    """The excess under a convex function; None where it is not known."""
    if isinstance(function, Scaled):
        inner = excess_of(function.function)
        return None if inner is None else _ScaledExcess(inner, function.factor)
    if isinstance(function, NegativeEntropy):
        return _EntropyExcess()
    if isinstance(function, BinaryEntropy):
        return _BinaryExcess()
    if isinstance(function, NegativeBinomialEntropy):
        return _NegativeBinomialExcess(function.dispersion)
    if isinstance(function, SquaredNorm):
        return _SquareExcess()
    return None


def _xlogx(x: AnyArray) -> AnyArray:
    """x log x, 0 for x ≤ 0: a sum that is 0 may be negative by rounding."""
    return x * np.log(np.maximum(x, _TINY))

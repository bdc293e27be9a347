"""What windows ask of clusters by NumPy: costs of pairs, and lower bounds of many."""

import abc
import dataclasses
from typing import ClassVar, Self

import numpy as np
from typing_extensions import override

from bregjax.clusters._screens import Screen
from bregjax.clusters._slot_clusters import SlotClusters, StatedClusters

__all__ = ["QuickClusters", "ScreenedClusters", "Sides"]

Sides = tuple[np.ndarray, ...]
"""What bounds need of clusters, arrays in one precision with an entry each."""

# Costs wrong by a larger share are computed again, so that they do not cancel.
_WRONG = 2.0**-34


@dataclasses.dataclass
class QuickClusters(SlotClusters):
    """Clusters in slots, whose costs have a closed form by NumPy, in a unit of theirs.

    Attributes:
        weight: `[slots]`.
        by_slot: Names of the arrays that have an entry a slot.
    """

    by_slot: ClassVar[tuple[str, ...]] = ("weight",)

    weight: np.ndarray

    @property
    def wide(self) -> int:
        """Columns of a panel, of which `bounds` takes many side by side."""
        return 256

    @property
    @abc.abstractmethod
    def few(self) -> int:
        """How many clusters merge in less time over a matrix of their costs."""

    @property
    @abc.abstractmethod
    def places(self) -> np.ndarray:
        """Rows of numbers, equal only where clusters are, whose merge costs 0."""

    @abc.abstractmethod
    def costs(
        self, first: np.ndarray, second: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return costs of pairs of slots, `[p]`, and the most that each is off."""

    @abc.abstractmethod
    def steady_costs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return costs of pairs, `[p]`, that do not cancel where both are near."""

    @override
    def sure_costs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        cost, error = self.costs(first, second)
        close = np.flatnonzero(~(error <= _WRONG * cost))
        if len(close):
            low = np.minimum(first[close], second[close])
            high = np.maximum(first[close], second[close])
            cost[close] = self.steady_costs(low, high)
        cost[~np.isfinite(cost)] = np.finfo(float).max
        return cost

    @abc.abstractmethod
    def united(self, first: np.ndarray, second: np.ndarray) -> Self:
        """Return the unions of pairs, `[p]`."""

    @abc.abstractmethod
    def sides(self, dtype: np.dtype) -> Sides:
        """Return what `bounds` needs of each cluster, `[slots, …]`."""

    @abc.abstractmethod
    def bounds(self, rows: Sides, panels: Sides) -> np.ndarray:
        """Return lower bounds of costs, `[panels, r, wide]`; NaN says nothing.

        Args:
            rows: Sides of some clusters, `[r, …]`.
            panels: Those of others, `[panels, …, wide]`.
        """

    def _mean_of_unions(
        self, mean: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> np.ndarray:
        """Average means of pairs of slots, `[p, n]`.

        From the heavier mean, which a light one far away hardly moves.
        """
        a, b = self.weight[first], self.weight[second]
        heavy, light = np.where(a >= b, (first, second), (second, first))
        share = (np.minimum(a, b) / (a + b))[:, None]
        return mean[heavy] + share * (mean[light] - mean[heavy])

    @override
    def taken(self, slots: np.ndarray) -> Self:
        arrays = {name: getattr(self, name)[slots] for name in self.by_slot}
        return dataclasses.replace(self, **arrays)

    @override
    def unite(
        self, first: np.ndarray, second: np.ndarray, slots: np.ndarray | slice
    ) -> Self:
        unions = self.united(first, second)
        for name in self.by_slot:
            getattr(self, name)[slots] = getattr(unions, name)
        return unions


@dataclasses.dataclass
class ScreenedClusters(QuickClusters, StatedClusters):
    """Quick clusters, of many of which compiled bounds take less time."""

    @abc.abstractmethod
    def bounds_serve(self, count: int) -> bool:
        """Whether `bounds` of so many clusters take less time than compiled ones."""

    @abc.abstractmethod
    def screen(self) -> Screen:
        """Return compiled bounds of costs."""

"""What a store asks of clusters that NumPy holds: costs, and unions."""

import abc
from typing import Self

import numpy as np

from bregjax._typing import PyTree

__all__ = ["SlotClusters", "StatedClusters"]


class SlotClusters(abc.ABC):
    """Clusters in slots, arrays of NumPy, in place of what a `ClusterModel` has."""

    @abc.abstractmethod
    def sure_costs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return costs of pairs of slots, `[p]`; the largest number if unknown."""

    @abc.abstractmethod
    def unite(
        self, first: np.ndarray, second: np.ndarray, slots: np.ndarray | slice
    ) -> Self:
        """Put the unions of pairs, `[p]`, into slots; return these unions."""

    @abc.abstractmethod
    def taken(self, slots: np.ndarray) -> Self:
        """Return copies of the clusters in slots."""


class StatedClusters(SlotClusters):
    """Clusters in slots that have states too, of which programs bound costs."""

    @property
    @abc.abstractmethod
    def states(self) -> PyTree:
        """States as of a `ClusterModel`, by slot."""

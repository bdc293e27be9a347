"""Clusters in slots whose costs and unions are solved for, outside of programs."""

from dataclasses import dataclass

import jax
import numpy as np

from bregjax._typing import PyTree
from bregjax.clusters._host_model import HostModel, rows_of

__all__ = ["HostClusters"]


@dataclass
class HostClusters:
    """States of clusters, and what finds their costs and unions.

    Of the methods of `QuickClusters` it has those that a compiled store asks for.

    Attributes:
        model: Finds costs and unions.
        states: NumPy arrays by slot.
    """

    model: HostModel
    states: PyTree

    def sure_costs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return costs of pairs of slots, `[p]`; the largest number if unknown."""
        low, high = np.minimum(first, second), np.maximum(first, second)
        costs = self._searched(low, high)[0]
        return np.where(np.isfinite(costs), costs, np.finfo(costs.dtype).max)

    def united(self, first: np.ndarray, second: np.ndarray) -> "HostClusters":
        """Return the unions of pairs, `[p]`."""
        return HostClusters(self.model, self._searched(first, second)[1])

    def taken(self, slots: np.ndarray) -> "HostClusters":
        """Return copies of the clusters in slots."""
        return HostClusters(self.model, rows_of(self.states, slots))

    def put(self, slots: np.ndarray, clusters: "HostClusters") -> None:
        """Write clusters into slots."""

        def write(all_: np.ndarray, new: np.ndarray) -> None:
            all_[slots] = new

        jax.tree.map(write, self.states, clusters.states)

    def _searched(
        self, first: np.ndarray, second: np.ndarray
    ) -> tuple[np.ndarray, PyTree]:
        parts = rows_of(self.states, first), rows_of(self.states, second)
        return self.model.search_costs(*parts)

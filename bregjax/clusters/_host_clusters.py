"""Clusters in slots whose costs and unions are solved for, outside of programs."""

from dataclasses import dataclass
from typing import Self

import jax
import numpy as np
from typing_extensions import override

from bregjax._typing import PyTree
from bregjax.clusters._host_model import HostModel, rows_of
from bregjax.clusters._slot_clusters import StatedClusters

__all__ = ["HostClusters"]


@dataclass
class HostClusters(StatedClusters):
    """States of clusters, and what finds their costs and unions.

    Attributes:
        model: Finds costs and unions.
        arrays: States, NumPy arrays by slot.

    Examples:
        >>> import bregjax as bj
        >>> from bregjax.clusters._closed_host import ClosedHost
        >>> with jax.enable_x64(True):
        ...     host = ClosedHost(bj.SphericalGaussian().cluster_model())
        ...     states = host.leaves(np.array([[0.0], [2.0], [3.0]]), np.ones(3))
        ...     clusters = HostClusters(host, states)
        ...     print(clusters.sure_costs(np.array([0, 1]), np.array([1, 2])))
        [1.   0.25]
    """

    model: HostModel
    arrays: PyTree

    @property
    @override
    def states(self) -> PyTree:
        return self.arrays

    @override
    def sure_costs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        low, high = np.minimum(first, second), np.maximum(first, second)
        costs = self._searched(low, high)[0]
        return np.where(np.isfinite(costs), costs, np.finfo(costs.dtype).max)

    @override
    def unite(
        self, first: np.ndarray, second: np.ndarray, slots: np.ndarray | slice
    ) -> Self:
        unions = self._searched(first, second)[1]

        def write(all_: np.ndarray, new: np.ndarray) -> None:
            all_[slots] = new

        jax.tree.map(write, self.arrays, unions)
        return type(self)(self.model, unions)

    @override
    def taken(self, slots: np.ndarray) -> Self:
        return type(self)(self.model, rows_of(self.arrays, slots))

    def _searched(
        self, first: np.ndarray, second: np.ndarray
    ) -> tuple[np.ndarray, PyTree]:
        parts = rows_of(self.arrays, first), rows_of(self.arrays, second)
        return self.model.search_costs(*parts)

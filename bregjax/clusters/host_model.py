"""What an engine on the host asks of clusters, where costs are too much for a loop."""

import abc

import jax
import numpy as np

from bregjax._typing import PyTree
from bregjax.clusters.screens import Screen

__all__ = ["HostModel", "rows_of"]


class HostModel(abc.ABC):
    """Clusters whose unions and costs are found from outside of compiled programs.

    A cost that has to be solved for takes a number of steps that depends on the pair,
    and a program that does so for the worst pair is expensive to compile. So it is
    asked for many pairs at once, and finds them by as many calls as it takes. States
    are those of a `ClusterModel`, with NumPy arrays `[k, ...]`.
    """

    @property
    def has_screen(self) -> bool:
        """Whether `ClusterModel.screen` has bounds that are cheaper than costs."""
        return False

    @abc.abstractmethod
    def leaves(self, statistics: PyTree, weights: np.ndarray) -> PyTree:
        """Settled states `[m]` of single points; see `ClusterModel.leaves`."""

    @abc.abstractmethod
    def pool(self, a: PyTree, b: PyTree) -> PyTree:
        """States of unions `[p]`, to be settled; see `ClusterModel.pool`."""

    @abc.abstractmethod
    def settle(self, state: PyTree) -> PyTree:
        """Settled states, with the codes of the solver; see `ClusterModel.settle`."""

    @abc.abstractmethod
    def result(self, state: PyTree) -> np.ndarray:
        """`Result` codes `[k]`; see `ClusterModel.result`."""

    @abc.abstractmethod
    def merge_costs(self, a: PyTree, b: PyTree, union: PyTree) -> np.ndarray:
        """Costs Δ `[p]` of settled states, without cancellation."""

    @abc.abstractmethod
    def search_costs(self, a: PyTree, b: PyTree) -> tuple[np.ndarray, PyTree]:
        """Costs Δ `[p]` to compare pairs by, and states of unions to search on with.

        The error of a cost is at most the `noise` of the parts and the union, added up;
        NaN where it could not be had. The states need not have the codes of settled
        ones.
        """

    def screen(self, leaves: PyTree) -> Screen | None:
        """Lower bounds as `ClusterModel.screen` has them; None where it solves too."""
        del leaves

    def noise(self, state: PyTree) -> np.ndarray:
        """What rounding adds to a cost for each of its clusters, at most, `[k]`."""
        return np.zeros(len(self.result(state)))


def rows_of(state: PyTree, index: np.ndarray | slice) -> PyTree:
    """Clusters at an index, of any state with NumPy arrays."""
    return jax.tree.map(lambda leaf: leaf[index], state)

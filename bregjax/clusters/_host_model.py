"""What an engine asks of clusters whose costs are too expensive for a compiled loop."""

import abc
from collections.abc import Callable

import jax
import numpy as np

from bregjax._typing import PyTree
from bregjax.clusters._quick_clusters import QuickClusters
from bregjax.clusters._rough_costs import RoughCosts
from bregjax.clusters._screens import Screen

__all__ = ["HostModel", "rows_of"]


class HostModel(abc.ABC):
    """A cluster model whose unions and costs are found from outside compiled programs.

    A cost that has to be solved for takes a number of steps that depends on the pair,
    and a program that solves for the worst pair is expensive to compile. So an engine
    asks a host model for many pairs at once. The host model calls programs as often as
    it takes; of a few clusters NumPy runs them, and nothing is compiled. States are
    those of a `ClusterModel`, with NumPy arrays `[k, ...]`.

    Examples:
        >>> import bregjax as bj
        >>> model = bj.Beta(dim=2).cluster_model()
        >>> isinstance(model.host(), HostModel)
        True
    """

    @property
    def has_screen(self) -> bool:
        """Whether `ClusterModel.screen` has bounds that are cheaper than costs."""
        return False

    @property
    def telescopes(self) -> bool:
        """See `ClusterModel.telescopes`: whether costs of others bound a cost."""
        return True

    @abc.abstractmethod
    def leaves(self, statistics: PyTree, weights: np.ndarray) -> PyTree:
        """Settled states `[m]` of points; see `ClusterModel.leaves`."""

    @abc.abstractmethod
    def pool(self, a: PyTree, b: PyTree) -> PyTree:
        """States of unions `[p]`, still to be settled; see `ClusterModel.pool`."""

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
        """Costs Δ `[p]` to compare pairs by, and states of unions to go on with.

        A cost is wrong by at most the `noise` of both parts and of the union, added up,
        and NaN where solving failed. The states need not have the codes of settled
        states.
        """

    def screen(self, leaves: PyTree) -> Screen | None:
        """Bounds as of `ClusterModel.screen`; None where these would have to solve."""
        del leaves

    def points(self, leaves: PyTree) -> tuple[np.ndarray, np.ndarray] | None:
        """Points and weights whose costs are proportional to Ward's; None if none are.

        The cost of a pair is then w_a w_b / (w_a + w_b) ‖a − b‖², times a constant.

        Args:
            leaves: States `[m]`.

        Returns:
            Points `[m, n]` and weights `[m]`.
        """
        del leaves

    def has_quick(
        self,
        statistics: Callable[[], tuple[PyTree, np.ndarray]],
    ) -> bool:
        """Whether `quick` has clusters of points.

        Args:
            statistics: Makes their statistics and weights, if these have a say.
        """
        del statistics
        return False

    def quick(self, leaves: PyTree) -> QuickClusters | None:
        """Clusters of points that have quick costs; None if none have.

        Args:
            leaves: States `[m]`.
        """
        del leaves

    def has_rough(self, statistics: Callable[[], PyTree]) -> bool:
        """Whether `rough` has costs for clusters of points.

        Args:
            statistics: Makes the statistics of the points, if these have a say.
        """
        del statistics
        return False

    def rough(self, leaves: PyTree) -> RoughCosts | None:
        """Costs that are quicker than `search_costs`, of clusters of these points."""
        del leaves

    def is_quick(self, leaves: PyTree) -> bool:
        """Whether a tree is made sooner by this model than an engine is compiled.

        Args:
            leaves: States `[m, ...]`, or their shapes.
        """
        del leaves
        return False

    def noise(self, state: PyTree) -> np.ndarray:
        """The most rounding that each cluster adds to its costs, in nats, `[k]`."""
        return np.zeros(len(self.result(state)))


def rows_of(state: PyTree, index: np.ndarray | slice) -> PyTree:
    """The clusters at an index, from any state of NumPy arrays."""
    return jax.tree.map(lambda leaf: leaf[index], state)

"""What hard clustering and EM ask of the rows of a problem, dense or sparse."""

import abc

import numpy as np

from bregjax._typing import Array, PyTree

__all__ = ["Points"]


class Points(abc.ABC):
    """The rows of a problem as points that clusters are made of.

    Attributes:
        weights: Weights w of the rows, `[p]`, 0 from row m on.
        smoothed_weights: Weights v as the smoothing changes them, `[p]`, 0 from row m
            on.
    """

    weights: Array
    smoothed_weights: Array

    @abc.abstractmethod
    def unions(self, members: Array) -> PyTree:
        """States `[k, ...]` of clusters with weights `[k, p]` of the points."""

    @abc.abstractmethod
    def costs(self, states: PyTree) -> Array:
        """Costs of each point under each cluster, `[p, k]`.

        Infinite where a cluster cannot have made the point; NaN where a cost is not
        known.
        """

    @abc.abstractmethod
    def merge_costs(self, point: int) -> np.ndarray:
        """Costs of merging each point with one of them, `[p]`, to draw seeds by."""

"""The protocol of families that densities and diagnostics need."""

from typing import Protocol

from bregjax._typing import Array, DataLike, PyTree
from bregjax.clusters import ClusterModel, Potential
from bregjax.smoothing import StatisticMap

__all__ = ["Distribution"]


class Distribution(Potential, Protocol):
    """A potential with statistics and a base measure, such as `Family`."""

    @property
    def smoothing_hint(self) -> str:
        """What to pass as `smoothing` where single points have no finite cost."""
        ...

    def sufficient_statistics(self, x: Array) -> PyTree:
        """T(x) of one observation."""
        ...

    def log_base_measure(self, x: Array) -> Array:
        """log h(x) of one observation."""
        ...

    def for_data(self, x: DataLike) -> "Distribution":
        """The family with all that it takes from the data, such as its dimension."""
        ...

    def check_support(self, x: DataLike) -> None:
        """Raise ValueError at the first concrete row off the support."""
        ...

    def as_rows(self, x: DataLike) -> Array:
        """Rows as an array of numbers, `[m, d]`."""
        ...

    def default_smoothing(self, x: Array, weights: Array | None) -> StatisticMap | None:
        """The smoothing map that "auto" stands for."""
        ...

    def cluster_model(self) -> ClusterModel:
        """The cluster model of the family."""
        ...

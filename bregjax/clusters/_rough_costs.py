"""What an engine asks of clusters whose costs can be had sooner if not exactly."""

import abc

import numpy as np

from bregjax._typing import PyTree

__all__ = ["RoughCosts"]


class RoughCosts(abc.ABC):
    """Clusters in slots, whose costs are quick to compute and may be off a little.

    Most pairs that an engine looks at cost so much more than the one that merges next
    that a rough cost says so.

    Attributes:
        room: How many unions there are spare slots for.

    Examples:
        >>> import bregjax as bj
        >>> x = [[0.0, 0.0], [2.0, 0.0], [5.0, 0.0]]
        >>> problem = bj.Problem(x, family="gaussian", smoothing=bj.blur(1.0))
        >>> _, info = bj.agglomerate(problem, return_info=True)
        >>> print(info.bounded.rough_costs, info.bounded.later_costs)
        1 0
    """

    room: int

    @abc.abstractmethod
    def first_bounds(self) -> tuple[np.ndarray, float]:
        """Lower bounds of the costs of all pairs of points, `[m, m]`.

        Returns:
            The bounds; and a limit: those that are no less are costs but for rounding.
        """

    @abc.abstractmethod
    def costs(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Costs `[p]` of pairs of slots, and the most that each is off.

        Not finite where nothing is known.
        """

    @abc.abstractmethod
    def unite(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Put unions of pairs of slots into spare ones, whose numbers `[t]` it returns.

        They take the place of those of the last call.
        """

    @abc.abstractmethod
    def raise_bounds(
        self, unions: slice, others: slice, limit: np.ndarray, out: np.ndarray
    ) -> None:
        """Raise lower bounds of the costs of unions, with clusters in other slots.

        Args:
            unions: Which of the unions made last, `[r]`.
            others: Slots `[c]`.
            limit: Bounds above are high enough, `[r, c]`.
            out: The bounds, `[r, c]`.
        """

    @abc.abstractmethod
    def take(self, slots: np.ndarray) -> None:
        """Move the first of the unions made last into slots, in the place of others."""

    @abc.abstractmethod
    def keep(self, slots: np.ndarray) -> None:
        """Leave out all other slots."""

    @abc.abstractmethod
    def pool(self, a: PyTree, b: PyTree) -> PyTree:
        """States of unions, of few clusters, as `HostModel.pool`."""

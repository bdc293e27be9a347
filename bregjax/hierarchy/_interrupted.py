"""What Ctrl-C leaves of an agglomeration."""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

from bregjax.hierarchy._dendrogram import Dendrogram

__all__ = ["Interrupted", "Report", "leaving"]

Report = Callable[[int], None]
"""What is told the number of merges made so far."""


class Interrupted(KeyboardInterrupt):
    """Raised where Ctrl-C stops `agglomerate`: has the merges made so far.

    What was found is not lost, so far as no other merge can come before it:

        try:
            tree = bj.agglomerate(problem, progress=True)
        except bj.Interrupted as stop:
            forest = stop.tree
        tree = bj.agglomerate(problem, start=forest)

    In a notebook where it was not caught, `sys.last_value.tree` is that forest.

    Attributes:
        children: The merges, `[t, 2]`.
        num_points: The number m of leaves.
        tree: The forest of these merges.

    Examples:
        >>> print(Interrupted(np.array([[0, 2]]), 4))
        1 of 3 merges were made. The attribute `tree` of this exception has them, and
        agglomerate(problem, start=…) goes on from there.
    """

    def __init__(self, children: np.ndarray, num_points: int) -> None:
        """Say how far it came.

        Args:
            children: The merges that were made, `[t, 2]`.
            num_points: The number m of leaves.
        """
        super().__init__(
            f"{len(children):,} of {num_points - 1:,} merges were made. The attribute "
            "`tree` of this exception has them, and agglomerate(problem, start=…) goes "
            "on from there."
        )
        self.num_points = num_points
        self.children = np.sort(np.array(children, np.int32).reshape(-1, 2), axis=1)
        self.tree: Dendrogram | None = None


@contextlib.contextmanager
def leaving(children: np.ndarray, num_points: int) -> Iterator[None]:
    """Have Ctrl-C leave merges that were made before; see `Interrupted`."""
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt as stop:
        raise Interrupted(children, num_points) from stop

"""What an engine of two pure functions is."""

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["PureEngine"]


class PureEngine(NamedTuple):
    """An engine of two pure functions, for use inside `jit` too.

    What it knows between two merges is a pytree of arrays with the attribute
    `children`, `[m − 1, 2]`, int32, rows of merges to come zero. All merges are

        fori_loop(0, num_points − 1, merge, begin(…)).children

    and from outside some merges are made at a time.

    Attributes:
        begin: ``(model, leaves, num_points) -> state``: before the first merge. Leaves
            are states `[m, ...]` of a `ClusterModel`; those past `num_points`, at least
            1 and perhaps traced, are ignored.
        merge: ``(model, num_points, step, state) -> state``: after merge number `step`,
            the cheapest.
    """

    begin: Callable[..., Any]
    merge: Callable[..., Any]

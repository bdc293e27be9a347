"""The host model of products in which the costs of some blocks are solved for."""

import functools

import numpy as np
from typing_extensions import override

from bregjax._typing import PyTree
from bregjax.clusters._base import ClusterModel
from bregjax.clusters._block_statistics import BlockStatistics, Group
from bregjax.clusters._closed_host import ClosedHost
from bregjax.clusters._host_model import HostModel

__all__ = ["ProductHost"]


class ProductHost(HostModel):
    """Costs of blocks added up: those that are solved for, and closed forms.

    Bounds of one block would not spare the solves of another, so that there are none.
    """

    def __init__(
        self, blocks: tuple[ClusterModel, ...], groups: tuple[Group, ...]
    ) -> None:
        """Prepare the solvers, in the precision of the work."""
        self._groups = groups
        self._blocks = [model.host() or ClosedHost(model) for model in blocks]

    @override
    def leaves(
        self, statistics: tuple[BlockStatistics, ...], weights: np.ndarray
    ) -> tuple[PyTree, ...]:
        made = []
        for block, group in zip(self._blocks, self._groups, strict=True):
            part = group.joined(statistics)
            share = np.asarray(part.share)
            if isinstance(block, ClosedHost) and part.by_cell:
                made.append(block.leaves(part, weights))
                continue
            by_cell = weights[:, None] if part.by_cell else weights
            made.append(block.leaves(part.statistics, by_cell * share))
        return tuple(made)

    @override
    def pool(self, a: PyTree, b: PyTree) -> tuple[PyTree, ...]:
        return tuple(block.pool(*parts) for block, *parts in self._each(a, b))

    @override
    def settle(self, state: PyTree) -> tuple[PyTree, ...]:
        return tuple(block.settle(part) for block, part in self._each(state))

    @override
    def result(self, state: PyTree) -> np.ndarray:
        codes = [block.result(part) for block, part in self._each(state)]
        return functools.reduce(np.maximum, codes)

    @override
    def merge_costs(self, a: PyTree, b: PyTree, union: PyTree) -> np.ndarray:
        costs = [block.merge_costs(*parts) for block, *parts in self._each(a, b, union)]
        return np.sum(costs, axis=0)

    @override
    def search_costs(self, a: PyTree, b: PyTree) -> tuple[np.ndarray, PyTree]:
        found = [block.search_costs(*parts) for block, *parts in self._each(a, b)]
        costs, unions = zip(*found, strict=True)
        return np.sum(costs, axis=0), unions

    @override
    def noise(self, state: PyTree) -> np.ndarray:
        return np.sum([block.noise(part) for block, part in self._each(state)], axis=0)

    def _each(self, *states: PyTree):
        return zip(self._blocks, *states, strict=True)

"""Clusters of rows whose columns fall into blocks, each with a model of its own."""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters._base import ClusterModel
from bregjax.clusters._block_statistics import BlockStatistics, Group
from bregjax.clusters._host_model import HostModel
from bregjax.clusters._merges import Merges
from bregjax.clusters._product_host import ProductHost
from bregjax.clusters._screens import Screen
from bregjax.clusters._screens.product import ProductScreen

__all__ = ["ProductModel"]


@register_pytree
@dataclass(frozen=True)
class ProductModel(ClusterModel):
    """Clusters of independent blocks of columns, whose costs add up.

    States are tuples, with the state of each group of blocks: most groups are a block;
    cells whose models are alike form one, so that fewer programs compile.

    Attributes:
        blocks: The model of each group.
        groups: The blocks of statistics that each takes.

    Examples:
        >>> from bregjax.clusters import BregmanModel
        >>> from bregjax.convex import NegativeEntropy, SquaredNorm
        >>> model = ProductModel(
        ...     (BregmanModel(SquaredNorm()), BregmanModel(NegativeEntropy())),
        ...     (Group((0,)), Group((1,))),
        ... )
        >>> rows = jnp.array([[1.0], [3.0]])
        >>> block = BlockStatistics(rows, jnp.ones(2))
        >>> states = model.leaves((block, block), jnp.ones(2))
        >>> print(model.cross_cost(states, states)[0, 1])  # 1 + 0.5232
        1.5232
    """

    blocks: tuple[ClusterModel, ...]
    groups: tuple[Group, ...] = jax.tree.static()

    @override
    def leaves(
        self, statistics: tuple[BlockStatistics, ...], weights: Array
    ) -> tuple[PyTree, ...]:
        return self._of_blocks(ClusterModel.leaves.__name__, statistics, weights)

    @property
    @override
    def solves(self) -> bool:
        return any(model.solves for model in self.blocks)

    @property
    @override
    def distributes(self) -> bool:
        return all(model.distributes for model in self.blocks)

    @property
    @override
    def screened(self) -> bool:
        return all(model.screened for model in self.blocks)

    @override
    def pool(self, a: PyTree, b: PyTree) -> tuple[PyTree, ...]:
        return self._each(ClusterModel.pool.__name__, a, b)

    @override
    def settle(self, state: PyTree) -> tuple[PyTree, ...]:
        return self._each(ClusterModel.settle.__name__, state)

    @override
    def pool_along(self, merges: Merges, leaves: PyTree) -> tuple[PyTree, ...]:
        return tuple(
            model.pool_along(merges, part)
            for model, part in zip(self.blocks, leaves, strict=True)
        )

    @override
    def cost(self, a: PyTree, b: PyTree, union: PyTree) -> Array:
        return _sum(self._each(ClusterModel.cost.__name__, a, b, union))

    @override
    def cross_cost(self, a: PyTree, b: PyTree) -> Array:
        return _sum(self._each(ClusterModel.cross_cost.__name__, a, b))

    @override
    def cross_noise(self, state: PyTree) -> Array:
        return _sum(self._each(ClusterModel.cross_noise.__name__, state))

    @override
    def pair_size(self, state: PyTree) -> int:
        return sum(self._each(ClusterModel.pair_size.__name__, state))

    @override
    def result(self, state: PyTree) -> Array:
        """The worst code of the blocks."""
        codes = self._each(ClusterModel.result.__name__, state)
        return functools.reduce(jnp.maximum, codes)

    @override
    def screen(self, leaves: PyTree) -> Screen:
        return ProductScreen(self._each(ClusterModel.screen.__name__, leaves))

    @override
    def host(self) -> HostModel | None:
        return ProductHost(self.blocks, self.groups) if self.solves else None

    @override
    def assignment_cost(self, points: PyTree, clusters: PyTree) -> Array:
        costs = self._each(ClusterModel.assignment_cost.__name__, points, clusters)
        return _sum(costs)

    @override
    def assignment_size(self, clusters: PyTree) -> int:
        return sum(self._each(ClusterModel.assignment_size.__name__, clusters))

    @override
    def unions(
        self, statistics: tuple[BlockStatistics, ...], weights: Array
    ) -> tuple[PyTree, ...]:
        return self._of_blocks(ClusterModel.unions.__name__, statistics, weights)

    def _of_blocks(
        self, method: str, statistics: tuple[BlockStatistics, ...], weights: Array
    ) -> tuple[PyTree, ...]:
        """States that a method of the model of each block makes of its statistics."""
        made = []
        for model, group in zip(self.blocks, self.groups, strict=True):
            block = group.joined(statistics)
            make = getattr(model, method)
            if block.by_cell:
                made.append(make(block, weights))
            else:
                share = jnp.broadcast_to(block.share, weights.shape)
                made.append(make(block.statistics, weights * share))
        return tuple(made)

    def _each(self, method: str, *states: PyTree) -> tuple:
        """What a method of the model of each block gives, of its part of states."""
        call: Callable = lambda model, *parts: getattr(model, method)(*parts)
        return tuple(map(call, self.blocks, *states))


def _sum(parts: tuple[Array, ...]) -> Array:
    return functools.reduce(operator.add, parts)

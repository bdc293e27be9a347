"""The host model of products in which the costs of some blocks are solved for."""

import functools
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from bregjax._typing import PyTree
from bregjax.clusters._base import ClusterModel
from bregjax.clusters._block_statistics import BlockStatistics, Group
from bregjax.clusters._host_model import HostModel, rows_of

__all__ = ["ProductHost"]


# Pairs that are looked at together: each size compiles anew.
_SIZES = (64, 2048)


class ProductHost(HostModel):
    """Costs of blocks added up: of those that solve by their host, of others compiled.

    Bounds of one block would not spare the solves of another, so that there are none.
    """

    def __init__(
        self, blocks: tuple[ClusterModel, ...], groups: tuple[Group, ...]
    ) -> None:
        """Prepare the solvers, in the precision of the work."""
        self._groups = groups
        self._blocks = [model.host() or _CompiledHost(model) for model in blocks]

    @override
    def leaves(
        self, statistics: tuple[BlockStatistics, ...], weights: np.ndarray
    ) -> tuple[PyTree, ...]:
        made = []
        for block, group in zip(self._blocks, self._groups, strict=True):
            part = group.joined(statistics)
            share = np.asarray(part.share)
            if isinstance(block, _CompiledHost) and part.by_cell:
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


class _CompiledHost(HostModel):
    """A model of closed forms, called for many pairs at a time from outside."""

    def __init__(self, model: ClusterModel) -> None:
        self.model = model

    @override
    def leaves(self, statistics: PyTree, weights: np.ndarray) -> PyTree:
        return _known(_leaves(self.model, statistics, weights))

    @override
    def pool(self, a: PyTree, b: PyTree) -> PyTree:
        return self._padded(_pool, a, b)

    @override
    def settle(self, state: PyTree) -> PyTree:
        return self._padded(_settle, state)

    @override
    def result(self, state: PyTree) -> np.ndarray:
        return self._padded(_result, state)

    @override
    def merge_costs(self, a: PyTree, b: PyTree, union: PyTree) -> np.ndarray:
        return self._padded(_cost, a, b, union)

    @override
    def search_costs(self, a: PyTree, b: PyTree) -> tuple[np.ndarray, PyTree]:
        return self._padded(_cost_and_union, a, b)

    def _padded(self, function: Any, *states: PyTree) -> Any:
        """Call a compiled function of states `[p]`, filled up to one of a few sizes."""
        count = len(jax.tree.leaves(states)[0])
        if not count:
            shapes = jax.eval_shape(function, self.model, *states)
            return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
        size = min([size for size in _SIZES if size >= count], default=_SIZES[-1])
        parts = []
        for start in range(0, count, size):
            stop = min(start + size, count)
            fill = np.minimum(np.arange(start, start + size), stop - 1)
            found = _known(function(self.model, *rows_of(_known(states), fill)))
            parts.append(rows_of(found, slice(stop - start)))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _known(tree: PyTree) -> PyTree:
    return jax.tree.map(np.asarray, tree)


_leaves = jax.jit(lambda model, *args: model.leaves(*args))
_pool = jax.jit(lambda model, *states: model.pool(*states))
_settle = jax.jit(lambda model, state: model.settle(state))
_result = jax.jit(lambda model, state: model.result(state))
_cost = jax.jit(lambda model, *states: model.cost(*states))


@jax.jit
def _cost_and_union(model: ClusterModel, a: PyTree, b: PyTree) -> PyTree:
    union = model.union(a, b)
    return model.cost(a, b, union), union

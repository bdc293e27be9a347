"""The host model of clusters whose costs have a closed form."""

from collections.abc import Callable

import jax
import numpy as np
from typing_extensions import override

from bregjax._programs import Program, compile_nanoseconds, program
from bregjax._typing import Array, PyTree
from bregjax.clusters._base import ClusterModel
from bregjax.clusters._bregman_model import BregmanModel
from bregjax.clusters._diagonal_clusters import DiagonalClusters
from bregjax.clusters._entropic_clusters import EntropicClusters
from bregjax.clusters._gaussian_models import FullGaussianModel, VarianceModel
from bregjax.clusters._host_model import HostModel, rows_of
from bregjax.clusters._quick_clusters import QuickClusters
from bregjax.clusters._rough_costs import RoughCosts
from bregjax.clusters._rough_gaussians import RoughGaussians, alike
from bregjax.convex import (
    BinaryEntropy,
    ConvexFunction,
    NegativeEntropy,
    Scaled,
    SimplexEntropy,
)

__all__ = ["ClosedHost"]

# How near to 1 unions of binary rows may come: 1 − x has ten digits then.
_FROM_ONE = 2.0**-20
# Pairs that are looked at together: each size is traced anew.
_SIZES = (64, 2048)
# Nanoseconds that a merge takes beside its costs, and that compiling an engine takes
# beside the costs that it computes in two places.
_MERGE, _ENGINE = 3e5, 1.2e9


class ClosedHost(HostModel):
    """A model of closed forms, called for many clusters at a time from outside.

    Its functions are programs, so that on a few clusters nothing is compiled.

    Examples:
        >>> import bregjax as bj
        >>> with jax.enable_x64(True):
        ...     host = ClosedHost(bj.SphericalGaussian().cluster_model())
        ...     states = host.leaves(np.array([[0.0], [2.0], [3.0]]), np.ones(3))
        ...     a, b = rows_of(states, slice(0, 2)), rows_of(states, slice(1, 3))
        ...     print(host.search_costs(a, b)[0])
        [1.   0.25]
    """

    def __init__(self, model: ClusterModel, search: ClusterModel | None = None) -> None:
        """Wrap a model.

        Args:
            model: The cluster model.
            search: What pairs are compared by; the same, if None.
        """
        self.model = model
        self._search = model if search is None else search

    @property
    @override
    def telescopes(self) -> bool:
        return self._search.telescopes

    @override
    def leaves(self, statistics: PyTree, weights: np.ndarray) -> PyTree:
        return jax.tree.map(np.asarray, _leaves(self.model, statistics, weights))

    @override
    def pool(self, a: PyTree, b: PyTree) -> PyTree:
        return _by_size(_pool, self.model, a, b)

    @override
    def settle(self, state: PyTree) -> PyTree:
        return _by_size(_settle, self.model, state)

    @override
    def result(self, state: PyTree) -> np.ndarray:
        return _by_size(_result, self.model, state)

    @override
    def merge_costs(self, a: PyTree, b: PyTree, union: PyTree) -> np.ndarray:
        return _by_size(_cost, self.model, a, b, union)

    @override
    def search_costs(self, a: PyTree, b: PyTree) -> tuple[np.ndarray, PyTree]:
        # Two factorisations in one program could lock up XLA on a CPU.
        union = _by_size(_union, self._search, a, b)
        return _by_size(_search_cost, self._search, a, b, union), union

    @override
    def points(self, leaves: PyTree) -> tuple[np.ndarray, np.ndarray] | None:
        model = self._search
        if not (isinstance(model, BregmanModel) and model.reducible):
            return None
        return leaves.mean.reshape(len(leaves.weight), -1), leaves.weight

    @property
    @override
    def has_screen(self) -> bool:
        return _is_diagonal(self.model) or _entropy(self.model) is not None

    @override
    def has_quick(
        self,
        statistics: Callable[[], tuple[PyTree, np.ndarray]],
    ) -> bool:
        if _is_diagonal(self.model):
            return True
        kind = _entropy(self.model)
        if kind is not BinaryEntropy:
            return kind is not None
        mean, weight = (np.asarray(part, float) for part in statistics())
        least = np.min(1 - mean, initial=1.0, where=mean < 1)
        return least * np.min(weight) / np.sum(weight) >= _FROM_ONE

    @override
    def quick(self, leaves: PyTree) -> QuickClusters | None:
        weight = np.asarray(leaves.weight, float)
        # Of costs the order counts, so these have a unit of their own.
        weight = np.ldexp(weight, -np.frexp(np.max(weight))[1])
        if _is_diagonal(self.model):
            moments = leaves.moments
            parts = (np.asarray(x, float) for x in (moments.mean, moments.covariance))
            return DiagonalClusters.of(weight, *parts)
        kind = _entropy(self.model)
        if kind is None:
            return None
        mean = np.asarray(leaves.mean, float).reshape(len(weight), -1)
        return EntropicClusters.of(weight, mean, binary=kind is BinaryEntropy)

    @override
    def has_rough(self, statistics: Callable[[], PyTree]) -> bool:
        is_full = isinstance(self._search, FullGaussianModel)
        return is_full and alike(np.asarray(statistics().covariance))

    @override
    def rough(self, leaves: PyTree) -> RoughCosts | None:
        is_full = isinstance(self._search, FullGaussianModel)
        return RoughGaussians.of(leaves) if is_full else None

    @override
    def is_quick(self, leaves: PyTree) -> bool:
        times, compiling = [], 0.0
        for size in _SIZES:
            states = [_shapes(leaves, size)] * 3
            union = _union.routine(self._search, *states[:2])
            cost = _search_cost.routine(self._search, *states)
            if union is None or cost is None:
                return False
            times.append(union.nanoseconds + cost.nanoseconds)
            compiling = compile_nanoseconds(union.size + cost.size)
        m = jax.tree.leaves(leaves)[0].shape[0]
        pairs = m**2 / 2 * times[-1] / _SIZES[-1]
        merges = m * (times[0] + _MERGE)
        return pairs + merges <= _ENGINE + 2 * compiling

    @override
    def noise(self, state: PyTree) -> np.ndarray:
        return _by_size(_noise, self.model, state)


def _is_diagonal(model: ClusterModel) -> bool:
    return isinstance(model, VarianceModel) and model.form == "diagonal"


def _entropy(model: ClusterModel) -> type[ConvexFunction] | None:
    """Of which entropy a model's function is a multiple; None if of none."""
    if not isinstance(model, BregmanModel):
        return None
    function = model.function
    while isinstance(function, Scaled):
        function = function.function
    kinds = NegativeEntropy, SimplexEntropy, BinaryEntropy
    return type(function) if isinstance(function, kinds) else None


def _shapes(leaves: PyTree, size: int) -> PyTree:
    """The shapes of so many states."""
    shape = lambda leaf: jax.ShapeDtypeStruct((size, *leaf.shape[1:]), leaf.dtype)
    return jax.tree.map(shape, leaves)


def _by_size(function: Program, model: ClusterModel, *states: PyTree) -> PyTree:
    """Call a program of states `[p]`, filled up to one of a few sizes."""
    count = len(jax.tree.leaves(states)[0])
    if not count:
        shapes = jax.eval_shape(function.function, model, *states)
        return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    size = min([size for size in _SIZES if size >= count], default=_SIZES[-1])
    parts = []
    for start in range(0, count, size):
        stop = min(start + size, count)
        fill = np.minimum(np.arange(start, start + size), stop - 1)
        rows = states if size == count else rows_of(states, fill)
        found = jax.tree.map(np.asarray, function(model, *rows))
        parts.append(rows_of(found, slice(stop - start)))
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


_leaves = program(lambda model, *args: model.leaves(*args))
_pool = program(lambda model, *states: model.pool(*states))
_settle = program(lambda model, state: model.settle(state))
_result = program(lambda model, state: model.result(state))
_cost = program(lambda model, *states: model.cost(*states))
_noise = program(lambda model, state: model.cross_noise(state))


_union = program(lambda model, *states: model.union(*states))


@program
def _search_cost(model: ClusterModel, a: PyTree, b: PyTree, union: PyTree) -> Array:
    if type(model).search_cost is not ClusterModel.search_cost:
        return model.search_cost(a, b)
    return model.cost(a, b, union)

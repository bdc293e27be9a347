"""Clusters of independent columns, each of a family with a few parameters."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from typing_extensions import override

from bregjax._programs import program
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.clusters._averages import leaves_of_averages
from bregjax.clusters._base import ClusterModel
from bregjax.clusters._block_statistics import (
    BlockStatistics,
    averages_by_cell,
    full_cells,
    of_seen_cells,
    of_shared_cells,
    pooled_cells,
    pooled_cells_along,
)
from bregjax.clusters._host_model import HostModel
from bregjax.clusters._merges import Merges
from bregjax.clusters._natural.host import NaturalHost
from bregjax.clusters._natural.settling import settled
from bregjax.clusters._natural.solving import with_params
from bregjax.clusters._natural.state import NaturalState, flat_init, unsolved
from bregjax.clusters._natural_model import NaturalModel
from bregjax.clusters._potential import Potential
from bregjax.convex import ConjugateSolution

__all__ = ["ColumnsModel", "sum_of_columns"]

# Codes, worst first.
_WORST_FIRST = (
    Result.INVALID,
    Result.OUTSIDE,
    Result.STALLED,
    Result.STEP_LIMIT,
    Result.BOUNDARY,
)

# The axis of columns in each array of a state, from the end.
_AXES = NaturalState(-1, -2, -2, -1, -1)  # pyright: ignore[reportArgumentType]


@register_pytree
@dataclass(frozen=True)
class ColumnsModel(ClusterModel):
    """Clusters of independent columns, whose costs add up.

    Each column is a `NaturalModel` of few parameters, so that a conjugate is many small
    systems instead of a large one. States have the axes `[k, d]`, weights included.

    Attributes:
        family: The family of one column.
        num_columns: d.
        params: Parameters of the family in each column, leaves `[d, ...]`; all columns
            have the parameters of `family` if None.

    Examples:
        >>> from bregjax.families import Exponential
        >>> model = ColumnsModel(Exponential(dim=1), num_columns=2)
        >>> x = jnp.array([[1.0, 2.0], [4.0, 2.0]])
        >>> states = jax.jit(model.leaves)(x, jnp.ones(2))
        >>> print(jax.jit(model.cross_cost)(states, states)[0, 1].round(3))
        0.446
    """

    family: Potential
    num_columns: int = jax.tree.static()
    params: PyTree = None

    @override
    def leaves(
        self, statistics: PyTree | BlockStatistics, weights: Array
    ) -> NaturalState:
        """Build states of points from mean parameters with axes `[m, d]`."""
        weight = weights[:, None]
        if isinstance(statistics, BlockStatistics):
            weight = weight * statistics.share
            statistics = statistics.statistics
        return self.settle(_unsolved_leaves(self.family, statistics, weight))

    @property
    @override
    def solves(self) -> bool:
        return self.family.solves

    @override
    def pool(self, a: NaturalState, b: NaturalState) -> NaturalState:
        pool = lambda a, b: self._by_column(NaturalModel.pool, _AXES, a, b)
        return pooled_cells(pool, a, b)

    @override
    def pool_along(self, merges: Merges, leaves: NaturalState) -> NaturalState:
        pool = lambda model, leaves: model.pool_along(merges, leaves)
        along = lambda leaves: self._by_column(pool, _AXES, leaves)
        return pooled_cells_along(along, merges, leaves)

    @override
    def settle(self, state: NaturalState) -> NaturalState:
        if self.solves:
            return settled(self.family, self.params, state)
        return self._by_column(NaturalModel.settle, _AXES, state)

    @override
    def cost(self, a: NaturalState, b: NaturalState, union: NaturalState) -> Array:
        """Sum the dual form over columns."""
        return jnp.sum(self.costs_by_cell(a, b, union), axis=-1)

    def costs_by_cell(
        self, a: NaturalState, b: NaturalState, union: NaturalState
    ) -> Array:
        """The terms of the cost of a merge, `[..., d]`."""
        a, b = full_cells(a, b)
        return self._by_column(NaturalModel.cost, -1, a, b, union)

    @override
    def cross_cost(self, a: NaturalState, b: NaturalState) -> Array:
        """Sum differences of values over columns: good to eps · w |ψ*|."""
        costs = self._by_column(NaturalModel.cross_cost, -1, a, b)
        return jnp.sum(of_shared_cells(costs, a, b), axis=-1)

    @override
    def assignment_cost(self, points: NaturalState, clusters: NaturalState) -> Array:
        """Sum w B_ψ*(τ, τ_k) over columns."""
        costs = self._by_column(NaturalModel.assignment_cost, -1, points, clusters)
        return jnp.sum(of_seen_cells(costs, points), axis=-1)

    @override
    def unions(
        self, statistics: PyTree | BlockStatistics, weights: Array
    ) -> NaturalState:
        if not isinstance(statistics, BlockStatistics):
            return leaves_of_averages(self, statistics, weights)
        mean, weight = averages_by_cell(statistics, weights)
        return self.settle(_unsolved_leaves(self.family, mean, weight))

    @override
    def pair_size(self, state: NaturalState) -> int:
        """Eight matrices of the solver for each column."""
        p = state.mean.shape[-1]
        return 8 * p * p * self.num_columns

    @override
    def result(self, state: NaturalState) -> Array:
        """Return the worst code of the columns."""
        return jnp.max(NaturalModel(self.family).result(state), axis=-1)

    @override
    def host(self) -> HostModel | None:
        if not self.solves:
            return None
        return NaturalHost(
            self.family, num_columns=self.num_columns, params=self.params
        )

    def _by_column(self, function: Callable, out_axes: PyTree, *states: NaturalState):
        """Map a function of the model of one column and of states over all columns."""

        def in_column(params: PyTree, *states: NaturalState):
            return function(NaturalModel(with_params(self.family, params)), *states)

        axes = (None if self.params is None else 0, *[_AXES] * len(states))
        return jax.vmap(in_column, axes, out_axes)(self.params, *states)


@program
def _unsolved_leaves(
    family: Potential, statistics: PyTree, weights: Array
) -> NaturalState:
    mean = jax.vmap(jax.vmap(lambda tree: ravel_pytree(tree)[0]))(statistics)
    weight = jnp.broadcast_to(weights, mean.shape[:2])
    return unsolved(weight, mean, flat_init(family, mean.dtype)[None, None])


def sum_of_columns(by_column: ConjugateSolution) -> ConjugateSolution:
    """The conjugate of a sum over columns, from the conjugate of each column, `[d]`.

    The maximiser keeps its axis of columns; the code is that of the worst column.
    """
    code = jnp.asarray(int(Result.CONVERGED), jnp.int32)
    for one in reversed(_WORST_FIRST):
        code = jnp.where(jnp.any(by_column.result == one), int(one), code)
    return ConjugateSolution(
        value=jnp.sum(by_column.value),
        maximiser=by_column.maximiser,
        result=code.astype(jnp.int32),
        num_steps=jnp.max(by_column.num_steps),
        residual=jnp.max(by_column.residual),
    )

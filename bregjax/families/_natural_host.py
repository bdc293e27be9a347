"""Clusters of an exponential family on the host: conjugates solved many at a time."""

from typing import TYPE_CHECKING

import jax
import numpy as np

from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.families._natural_cost import merge_cost_of
from bregjax.families._natural_state import NaturalState, tabulates
from bregjax.families._solving import Solver
from bregjax.host_model import HostModel, rows_of

if TYPE_CHECKING:
    from bregjax.families.base import Family

__all__ = ["NaturalHost"]

# Pairs whose robust costs are evaluated in a call.
_PAIRS = 64


class NaturalHost(HostModel):
    """Clusters of a family without a closed form, see `NaturalModel`.

    A cost to search by is w_a ψ*(τ_a) + w_b ψ*(τ_b) − w ψ*(c) where rounding lets that
    stand, and the dual form (`merge_cost_of`) for pairs that are close.
    """

    def __init__(self, family: "Family") -> None:
        """Prepare the solver, in the precision of the work."""
        self.family = family
        self.solver = Solver(family)
        self._eps = float(np.finfo(self.solver.dtype).eps)
        # θ and ψ of the mean of all data, where solves may start.
        self._root = self.solver.start, np.nan

    @property
    def has_screen(self) -> bool:
        """Whether ψ* can be tabulated."""
        return tabulates(self.family)

    def leaves(self, statistics: PyTree, weights: np.ndarray) -> NaturalState:
        """Settled states of points."""
        rows = [np.asarray(leaf) for leaf in jax.tree.leaves(statistics)]
        mean = np.concatenate([leaf.reshape(len(leaf), -1) for leaf in rows], axis=1)
        finite = np.all(np.isfinite(mean), axis=1)
        if finite.any():
            share = np.asarray(weights)[finite, None] / np.sum(weights[finite])
            centre = np.sum(share * mean[finite], axis=0, keepdims=True)
            root = self.solver.solve(centre, self.solver.start, settled=True)
            if root.result[0] == Result.CONVERGED:
                theta = root.natural[0]
                self._root = theta, float(centre[0] @ theta - root.value[0])
        return self.settle(_unsolved(np.asarray(weights), mean, self._root[0]))

    def pool(self, a: NaturalState, b: NaturalState) -> NaturalState:
        """Sums of weights, averages of means; where a solve may start."""
        weight = a.weight + b.weight
        return _unsolved(weight, _pooled(a, b), self._nearest_start(a, b))

    def settle(self, state: NaturalState) -> NaturalState:
        """Solve, telling the interior from the boundary."""
        found = self.solver.solve(state.mean, state.natural, settled=True)
        return NaturalState(
            state.weight, state.mean, found.natural, found.value, found.result
        )

    def result(self, state: NaturalState) -> np.ndarray:
        """The solver's codes; a boundary point of finite ψ* is as good as inside."""
        finite_limit = (state.result == Result.BOUNDARY) & np.isfinite(state.value)
        return np.where(finite_limit, Result.CONVERGED, state.result).astype(np.int32)

    def merge_costs(
        self, a: NaturalState, b: NaturalState, union: NaturalState
    ) -> np.ndarray:
        """Costs in the dual form, which does not cancel."""
        count = len(a.weight)
        costs = np.empty(count)
        for start in range(0, count, _PAIRS):
            stop = min(start + _PAIRS, count)
            fill = np.minimum(np.arange(start, start + _PAIRS), stop - 1)
            parts = (self._typed(state, fill) for state in (a, b, union))
            costs[start:stop] = np.asarray(_dual_costs(self.family, *parts))[
                : stop - start
            ]
        return costs

    def search_costs(self, a: NaturalState, b: NaturalState) -> np.ndarray:
        """Costs by values of ψ*, or in the dual form."""
        mean = _pooled(a, b)
        found = self.solver.solve(mean, self._nearest_start(a, b), settled=False)
        weight = a.weight + b.weight
        union = NaturalState(weight, mean, found.natural, found.value, found.result)
        parts = a.weight * a.value + b.weight * b.value
        costs = np.maximum(parts - weight * union.value, 0)
        noise = self.noise(a) + self.noise(b) + self.noise(union)
        close = np.flatnonzero(noise > self._eps**0.6 * costs)
        if len(close):
            states = (rows_of(state, close) for state in (a, b, union))
            costs[close] = self.merge_costs(*states)
        return costs

    def unite(self, a: NaturalState, b: NaturalState, cost: np.ndarray) -> NaturalState:
        """Unions with θ solved for."""
        union = self.pool(a, b)
        found = self.solver.solve(union.mean, union.natural, settled=False)
        return NaturalState(
            union.weight, union.mean, found.natural, found.value, found.result
        )

    def noise(self, state: NaturalState) -> np.ndarray:
        """Roundings of w ψ*."""
        linear = np.sum(state.mean * state.natural, axis=-1)
        size = np.abs(linear) + np.abs(linear - state.value)
        return 8 * self._eps * state.weight * np.nan_to_num(size)

    def _nearest_start(self, a: NaturalState, b: NaturalState) -> np.ndarray:
        """The θ of a part, or of all data, at which φ of the union is least.

        ψ is known there. That of all data helps where narrow clusters are far apart.
        """
        mean = _pooled(a, b)
        root, psi = self._root
        starts = [a.natural, b.natural, np.broadcast_to(root, mean.shape)]
        values = [
            _psi(a) - np.sum(mean * a.natural, axis=-1),
            _psi(b) - np.sum(mean * b.natural, axis=-1),
            psi - mean @ root,
        ]
        values = np.where(np.isnan(values), np.inf, values)
        nearest = np.argmin(values, axis=0)[:, None]
        found = np.where(nearest == 0, starts[0], starts[1])
        unknown = np.all(np.isinf(values), axis=0)[:, None]
        return np.where((nearest == 2) | unknown, starts[2], found)

    def _typed(self, state: NaturalState, index: np.ndarray) -> NaturalState:
        """Clusters at an index in the precision of the work."""
        dtype = self.solver.dtype
        chosen = rows_of(state, index)
        return jax.tree.map(
            lambda leaf: leaf if leaf.dtype == np.int32 else leaf.astype(dtype), chosen
        )


def _psi(state: NaturalState) -> np.ndarray:
    """ψ(θ), by Fenchel and Young's equality."""
    return np.sum(state.mean * state.natural, axis=-1) - state.value


def _pooled(a: NaturalState, b: NaturalState) -> np.ndarray:
    """Average means `[p, n]`, from the heavier part; see `weighted_mean`."""
    heavy = (a.weight >= b.weight)[:, None]
    base, other = np.where(heavy, a.mean, b.mean), np.where(heavy, b.mean, a.mean)
    light = np.minimum(a.weight, b.weight) / (a.weight + b.weight)
    return base + light[:, None] * (other - base)


def _unsolved(weight: np.ndarray, mean: np.ndarray, start: np.ndarray) -> NaturalState:
    """A state whose natural parameters are no more than where to start."""
    return NaturalState(
        weight,
        mean,
        np.broadcast_to(start, mean.shape),
        np.full(len(mean), np.nan),
        np.full(len(mean), Result.STEP_LIMIT, np.int32),
    )  # pyright: ignore[reportArgumentType]


@jax.jit
def _dual_costs(
    family: "Family", a: NaturalState, b: NaturalState, union: NaturalState
) -> Array:
    return merge_cost_of(family, a, b, union)

"""The host model of exponential families: conjugates solved many at a time."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._programs import program
from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.clusters._host_model import HostModel, rows_of
from bregjax.clusters._natural.cost import merge_cost_of
from bregjax.clusters._natural.solving import Solver, with_params
from bregjax.clusters._natural.state import (
    NaturalState,
    flat_init,
    flat_psi,
    tabulates,
)
from bregjax.clusters._natural.table import conjugate_table, interpolated, table_means
from bregjax.clusters._potential import Potential
from bregjax.clusters._screens import Screen
from bregjax.clusters._screens.natural import TableScreen

__all__ = ["NaturalHost"]

# How many numbers the states of unions that are solved for together may hold: 32 MB in
# float64.
_NUMBERS = 2**22
# How many numbers the means of pairs hold whose dual costs one call evaluates, and the
# fewest and most pairs of a call.
_ENTRIES, _FEWEST, _MOST = 4096, 16, 256
# Costs from values stand where their rounding is at most a share eps^0.6 of the cost,
# 4e-10 in float64; else the dual form, which takes longer, is evaluated.
_CLOSE = 0.6


# A NaturalState of NumPy arrays.
HostState = Any


class NaturalHost(HostModel):
    """The host model of `NaturalModel`, or of `ColumnsModel` if columns are given.

    With d columns, states have the axes `[k, d]`, and costs are sums over columns.

    A cost to search by is w_a ψ*(τ_a) + w_b ψ*(τ_b) − w ψ*(c) for pairs far apart, and
    the dual form (`merge_cost_of`) for pairs so close that rounding of the values is
    more than a share eps^0.6 of the cost.
    """

    def __init__(
        self,
        family: Potential,
        *,
        num_columns: int | None = None,
        params: PyTree = None,
    ) -> None:
        """Prepare the solver, in the precision of the work.

        Args:
            family: The family of a row, or of one column.
            num_columns: d, if `family` is that of one column.
            params: Parameters of the family in each column, if they differ.
        """
        self.family = family
        self.solver = Solver(family, params)
        self._columns = num_columns
        self._eps = float(np.finfo(self.solver.dtype).eps)
        # θ and ψ(θ) of the mean of all data in each column: another start for solves.
        count = num_columns or 1
        self._root = np.tile(self.solver.start, (count, 1)), np.full(count, np.nan)
        # Means and θ at the knots of a table of ψ*, once there is a table.
        self._knots: tuple[np.ndarray, np.ndarray] | None = None

    @property
    @override
    def has_screen(self) -> bool:
        """Whether ψ* can be tabulated, see `tabulates`."""
        return tabulates(self.family) and self._columns is None

    @override
    def leaves(self, statistics: PyTree, weights: np.ndarray) -> HostState:
        """Settled states of points, weights `[m]`, or `[m, d]` by column."""
        lead = (
            (len(weights),) if self._columns is None else (len(weights), self._columns)
        )
        rows = [np.asarray(leaf) for leaf in jax.tree.leaves(statistics)]
        mean = np.concatenate([leaf.reshape(*lead, -1) for leaf in rows], axis=-1)
        weights = np.asarray(weights)
        good = np.all(np.isfinite(mean), axis=tuple(range(1, mean.ndim)))
        if good.any():
            total = weights.reshape(len(weights), -1).sum(axis=1)
            share = total[good] / np.sum(total[good])
            center = np.tensordot(share, mean[good], 1).reshape(len(self._root[0]), -1)
            column = np.arange(len(center))
            root = self.solver.solve(center, self._root[0], column, settled=True)
            inside = (root.result == Result.CONVERGED)[:, None]
            theta = np.where(inside, root.natural, self._root[0])
            psi = np.sum(center * theta, axis=1) - root.value
            self._root = theta, np.where(inside[:, 0], psi, np.nan)
        by_row = weights.ndim < len(lead)
        weight = np.broadcast_to(weights[:, None] if by_row else weights, lead)
        start = self.family.natural_guess(mean)
        if start is None:
            start = np.broadcast_to(self._root[0].reshape(*lead[1:], -1), mean.shape)
        return self.settle(_unsolved(weight.copy(), mean, start))

    @override
    def pool(self, a: HostState, b: HostState) -> HostState:
        """Add weights, average means, and choose where solves of unions start."""
        mean = _pooled(a, b)
        if self._knots is not None:
            start = interpolated(mean, *self._knots)
        else:
            start = self.family.natural_guess(mean)
        if start is None:
            start = self._nearest_start(a, b, mean)
        return _unsolved(a.weight + b.weight, mean, start)

    @override
    def settle(self, state: HostState) -> HostState:
        """Solve for θ, telling the interior from the boundary; equal means once."""
        if not len(state.mean):
            return state
        mean = state.mean.reshape(len(state.mean), -1)
        _, first, kind = np.unique(mean, axis=0, return_index=True, return_inverse=True)
        found = self._solved(rows_of(state, first), settled=True)
        found = rows_of(found, kind.ravel())
        return _state(
            state.weight, state.mean, found.natural, found.value, found.result
        )

    @override
    def result(self, state: HostState) -> np.ndarray:
        """Codes of the solver; a boundary point of finite ψ* counts as CONVERGED."""
        finite_limit = (state.result == Result.BOUNDARY) & np.isfinite(state.value)
        codes = np.where(finite_limit, Result.CONVERGED, state.result).astype(np.int32)
        return codes if self._columns is None else np.max(codes, axis=1)

    @override
    def merge_costs(self, a: HostState, b: HostState, union: HostState) -> np.ndarray:
        costs = self.costs_by_column(a, b, union)
        return costs if self._columns is None else np.sum(costs, axis=1)

    def costs_by_column(
        self, a: HostState, b: HostState, union: HostState
    ) -> np.ndarray:
        """The terms of `merge_costs`, `[p, d]`; `[p]` where there are no columns."""
        lead = a.weight.shape
        column = self._column_of(lead)
        return self._dual_costs(_flat(a), _flat(b), _flat(union), column).reshape(lead)

    @override
    def search_costs(self, a: HostState, b: HostState) -> tuple[np.ndarray, HostState]:
        batch = max(_NUMBERS // (3 * a.mean[:1].size + 1), 1)
        if len(a.mean) > batch:
            parts = [slice(k, k + batch) for k in range(0, len(a.mean), batch)]
            found = [self.search_costs(rows_of(a, k), rows_of(b, k)) for k in parts]
            return jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)
        union = self._solved(self.pool(a, b), settled=False)
        parts = a.weight * a.value + b.weight * b.value
        costs = np.maximum(parts - union.weight * union.value, 0)
        noise = sum(map(self._noise, (a, b, union)))
        total = (
            costs if self._columns is None else np.mean(costs, axis=1, keepdims=True)
        )
        close = np.flatnonzero(~(noise <= self._eps**_CLOSE * total))
        if len(close):
            near = [rows_of(_flat(state), close) for state in (a, b, union)]
            column = self._column_of(costs.shape)[close]
            costs.reshape(-1)[close] = self._dual_costs(
                near[0], near[1], near[2], column
            )
        if self._columns is not None:
            costs = np.sum(costs, axis=1)
        return costs, union

    @override
    def screen(self, leaves: HostState) -> Screen | None:
        """Tabulate ψ* over the range of the leaves; None if there can be no table."""
        if not self.has_screen:
            return None
        low, high = np.min(leaves.mean, axis=0), np.max(leaves.mean, axis=0)
        means = np.asarray(table_means(low, high))
        knots = self.solver.solve(means, self._root[0], settled=True)
        known = np.isfinite(knots.value)
        if known.all():
            self._knots = means, knots.natural
        return TableScreen(_table(self.family, means, knots.natural, known))

    @override
    def noise(self, state: HostState) -> np.ndarray:
        """Bounds of the rounding of w ψ*, 8 eps w (|⟨τ, θ⟩| + |ψ(θ)|), `[k]`."""
        noise = self._noise(state)
        return noise if self._columns is None else np.sum(noise, axis=1)

    def _noise(self, state: HostState) -> np.ndarray:
        linear = np.sum(state.mean * state.natural, axis=-1)
        size = np.abs(linear) + np.abs(linear - state.value)
        return 8 * self._eps * state.weight * np.where(np.isnan(size), np.inf, size)

    def _solved(self, state: HostState, *, settled: bool) -> HostState:
        flat, lead = _flat(state), state.weight.shape
        column = self._column_of(lead)
        found = self.solver.solve(flat.mean, flat.natural, column, settled=settled)
        natural = found.natural.reshape(state.mean.shape)
        value, result = found.value.reshape(lead), found.result.reshape(lead)
        return _state(state.weight, state.mean, natural, value, result)

    def _column_of(self, lead: tuple[int, ...]) -> np.ndarray:
        """The column of each entry of a flattened array `[k]` or `[k, d]`."""
        return np.arange(int(np.prod(lead))) % (self._columns or 1)

    def _nearest_start(
        self, a: HostState, b: HostState, mean: np.ndarray
    ) -> np.ndarray:
        """The θ, of both parts and of all data, with the least φ(θ) of the union.

        φ(θ) = ψ(θ) − ⟨τ, θ⟩ with τ the mean of the union; ψ is known at these three θ.
        The θ of all data helps where narrow clusters are far apart.
        """
        root, psi = self._root
        if self._columns is None:
            root, psi = root[0], psi[0]
        values = np.stack(
            [
                _psi(a) - np.sum(mean * a.natural, axis=-1),
                _psi(b) - np.sum(mean * b.natural, axis=-1),
                psi - np.sum(mean * root, axis=-1),
            ]
        )
        # The last iterate of a part on the boundary is far out, where ψ may have no
        # curvature left.
        inside = [part.result == Result.CONVERGED for part in (a, b)]
        usable = np.stack([*inside, np.ones_like(inside[0])])
        values = np.where(np.isnan(values) | ~usable, np.inf, values)
        values[2] = np.where(np.all(np.isinf(values), axis=0), -np.inf, values[2])
        nearest = np.argmin(values, axis=0)[..., None]
        part = np.where(nearest == 0, a.natural, b.natural)
        return np.where(nearest == 2, root, part)

    def _dual_costs(
        self,
        a: HostState,
        b: HostState,
        union: HostState,
        column: np.ndarray,
    ) -> np.ndarray:
        """Costs `[p]` of flat states in the dual form, in batches of a fixed size."""
        count = len(column)
        costs = np.empty(count)
        fitting = np.clip(_ENTRIES / self.solver.size, _FEWEST, _MOST)
        batch = 2 ** int(np.log2(fitting))
        for start in range(0, count, batch):
            stop = min(start + batch, count)
            fill = np.minimum(np.arange(start, start + batch), stop - 1)
            parts = [self._typed(rows_of(state, fill)) for state in (a, b, union)]
            params = self.solver.params_of(column[fill])
            found = _dual_costs(self.family, params, *parts)
            costs[start:stop] = np.asarray(found)[: stop - start]
        return costs

    def _typed(self, state: HostState) -> HostState:
        """A state in the precision of the work."""
        dtype = self.solver.dtype
        is_code = lambda leaf: leaf.dtype == np.int32
        typed = lambda leaf: leaf if is_code(leaf) else leaf.astype(dtype)
        return jax.tree.map(typed, state)


def _state(*fields: Any) -> HostState:
    """A state of weights, means, θ, values and codes."""
    return NaturalState(*fields)


def _flat(state: HostState) -> HostState:
    """The state with its leading axes flattened to one."""
    n = state.mean.shape[-1]
    return _state(
        state.weight.reshape(-1),
        state.mean.reshape(-1, n),
        state.natural.reshape(-1, n),
        state.value.reshape(-1),
        state.result.reshape(-1),
    )


def _psi(state: HostState) -> np.ndarray:
    """ψ(θ) = ⟨τ, θ⟩ − ψ*(τ), the equality of Fenchel and Young."""
    return np.sum(state.mean * state.natural, axis=-1) - state.value


def _pooled(a: HostState, b: HostState) -> np.ndarray:
    """Averages of means, computed from the heavier part; see `weighted_mean`."""
    heavy = (a.weight >= b.weight)[..., None]
    base, other = np.where(heavy, a.mean, b.mean), np.where(heavy, b.mean, a.mean)
    total = a.weight + b.weight
    light = np.minimum(a.weight, b.weight) / np.where(total > 0, total, 1)
    return base + light[..., None] * (other - base)


def _unsolved(weight: np.ndarray, mean: np.ndarray, start: np.ndarray) -> HostState:
    """A state still to be solved, with natural parameters to start from."""
    unknown = np.full(weight.shape, np.nan)
    code = np.full(weight.shape, Result.STEP_LIMIT, np.int32)
    return _state(weight, mean, start, unknown, code)


@program
def _table(family: Potential, means: Array, natural: Array, known: Array):
    """The table of ψ* from the solutions at its knots."""
    start = flat_init(family, means.dtype)
    return conjugate_table(flat_psi(family), start, means, natural, known)


@program
def _dual_costs(
    family: Potential,
    params: PyTree,
    a: HostState,
    b: HostState,
    union: HostState,
) -> Array:
    def cost(params: PyTree, *states: HostState) -> Array:
        # A column that one part lacks costs nothing.
        shared = (states[0].weight > 0) & (states[1].weight > 0)
        return jnp.where(shared, merge_cost_of(with_params(family, params), *states), 0)

    return jax.vmap(cost)(params, a, b, union)

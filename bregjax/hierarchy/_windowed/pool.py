"""Clusters in slots, on the device: what the windowed engine computes there."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array, PyTree
from bregjax.cluster_model import ClusterModel
from bregjax.hierarchy._search import searchable, take

__all__ = ["Bounds", "Pool", "Shapes", "blocks"]

# Numbers that one screened tile, and one batch of exact costs, work on.
_TILE_ENTRIES = 2**20
_PAIR_ENTRIES = 2**19


@dataclass(frozen=True)
class Shapes:
    """The few sizes that kernels are compiled for; all powers of two.

    Attributes:
        rows: Rows of a screened block.
        columns: Columns of a tile; the capacity of a pool is a multiple.
        group: Neighbouring pairs that share one bound.
        pairs: Pairs of a batch.
    """

    rows: int
    columns: int
    group: int
    pairs: int

    @classmethod
    def of(cls, model: ClusterModel, leaves: PyTree) -> "Shapes":
        """Sizes at which temporaries stay in cache or, for large states, small."""
        tile = _power_of_two(_TILE_ENTRIES / model.bound_size(leaves), 2**10, 2**17)
        rows = min(256, _power_of_two(tile**0.5, 1, 2**17))
        pairs = _power_of_two(_PAIR_ENTRIES / model.pair_size(leaves), 64, 2048)
        group = min(model.bound_group, rows)
        return cls(rows, min(512, tile // rows), group, pairs)


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of the costs of a block of rows against all slots.

    Attributes:
        by_row: Of each row the least in each group of columns, `[b, columns / group]`;
            see `Pool.columns_of`.
        by_column: Of each column the least in each group of rows,
            `[size / group, columns]`; see `rows_of`. inf where no pair is.
    """

    by_row: np.ndarray
    by_column: np.ndarray

    def rows_of(self, groups: np.ndarray) -> np.ndarray:
        """Places in the block of the rows of groups, `[..., group]`; some past it."""
        members = np.arange(self._group) * len(self.by_column)
        return groups[..., None] + members

    _group: int = 1


class Pool:
    """States of clusters in slots: appended, never overwritten, until compacted.

    Clusters that have merged stay where they were: what is done can be undone by
    forgetting the slots that were filled since.
    """

    def __init__(
        self, model: ClusterModel, states: PyTree, shapes: Shapes, count: int
    ) -> None:
        """Fill the first slots with `count` of `states` and leave half as many free."""
        self.model = model
        self.shapes = shapes
        self.used = count
        size = _size(states)
        capacity = -(-(size + size // 2 + 1) // shapes.columns) * shapes.columns
        self.states = _with_room(states, capacity)
        pair = np.zeros(1, np.int32), np.zeros(1, np.int32)
        self.dtype = jax.eval_shape(_costs, model, states, *pair).dtype
        bound = jax.eval_shape(_pair_bounds, model, states, *pair)
        self._has_pair_bound = bound is not None

    @property
    def capacity(self) -> int:
        """Number of slots."""
        return _size(self.states)

    @property
    def room(self) -> int:
        """Number of free slots."""
        return self.capacity - self.used

    def bounds(self, rows: np.ndarray, alive: np.ndarray) -> Bounds:
        """Screen at most `shapes.rows` slots `[b]` against those that are alive."""
        shapes = self.shapes
        small = max(shapes.rows // 8, shapes.group)
        size = shapes.rows if len(rows) > small else small
        by_row, by_column = _bounds(
            self.model,
            self.states,
            alive,
            _padded(rows, size),
            np.int32(self.used),
            shapes,
        )
        width = -(-self.used // shapes.columns) * shapes.columns
        return Bounds(
            np.asarray(by_row)[: len(rows), : width // shapes.group],
            np.asarray(by_column)[:, :width],
            shapes.group,
        )

    def columns_of(self, groups: np.ndarray) -> np.ndarray:
        """Slots of column groups, `[..., group]`."""
        per_tile = self.shapes.columns // self.shapes.group
        tile, place = np.divmod(groups, per_tile)
        members = np.arange(self.shapes.group) * per_tile
        return (tile * self.shapes.columns + place)[..., None] + members

    def costs(
        self, first: np.ndarray, second: np.ndarray, limit: np.ndarray | float = np.inf
    ) -> np.ndarray:
        """Merge costs of pairs of slots in the robust form, `[p]`.

        Those certain to be above the limit may be inf.
        """
        if self._has_pair_bound:
            limit = np.broadcast_to(limit, first.shape)
            return self._costs_within(first, second, self._low(first, second), limit)
        return self._map(_costs, first, second)

    def least_costs(
        self,
        place: np.ndarray,
        first: np.ndarray,
        second: np.ndarray,
        least: np.ndarray,
    ) -> np.ndarray:
        """Costs as `costs` gives them, of which those least in each place matter.

        Args:
            place: Numbers of places, `[p]`.
            first: Slots.
            second: Slots.
            least: What matters no more in each place, `[places]`; is lowered.
        """
        if not self._has_pair_bound:
            costs = self._map(_costs, first, second)
            np.minimum.at(least, place, costs)
            return costs
        low = self._low(first, second)
        hope = np.full(len(least), np.inf)
        np.minimum.at(hope, place, low)
        best = low == hope[place]
        costs = np.full(len(first), np.inf)
        for part in (best, ~best):
            part = np.flatnonzero(part)
            costs[part] = self._costs_within(
                first[part], second[part], low[part], least[place[part]]
            )
            np.minimum.at(least, place[part], costs[part])
        return costs

    def _low(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Closer lower bounds; −inf where unknown."""
        low = self._map(_pair_bounds, first, second)
        return np.where(np.isnan(low), -np.inf, low)

    def _costs_within(self, first, second, low, limit) -> np.ndarray:
        left = np.flatnonzero(low <= limit)
        out = np.full(len(low), np.inf)
        out[left] = self._map(_costs, first[left], second[left])
        return out

    def _map(
        self, kernel: Callable[..., Array], first: np.ndarray, second: np.ndarray
    ) -> np.ndarray:
        """Values of a kernel for pairs of slots, the lower first."""
        low, high = np.minimum(first, second), np.maximum(first, second)
        out = np.empty(len(low))
        for part, a, b in self._batches(low, high):
            values = np.asarray(kernel(self.model, self.states, a, b))
            out[part] = values[: part.stop - part.start]
        return out

    def append(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Append the unions of pairs of slots; the slots they take."""
        low, high = np.minimum(first, second), np.maximum(first, second)
        start = self.used
        for part, a, b in self._batches(low, high):
            slots = _padded(np.arange(start + part.start, start + part.stop), len(a))
            self.states = _append(self.model, self.states, a, b, slots)
        self.used += len(low)
        return np.arange(start, self.used)

    def compact(self, slots: np.ndarray) -> None:
        """Keep the given slots alone, in this order, as the first."""
        index = _padded(slots, self.capacity)
        self.states = _gather(self.states, index)
        self.used = len(slots)

    def gathered(self, slots: np.ndarray) -> "Pool":
        """Another pool with copies of the given slots."""
        other = object.__new__(Pool)
        other.model, other.shapes = self.model, self.shapes
        other.dtype, other._has_pair_bound = self.dtype, self._has_pair_bound
        other.used = len(slots)
        other.states = _copy(self.states, _padded(slots, self.capacity))
        return other

    def _batches(self, low: np.ndarray, high: np.ndarray):
        """Slices of at most `shapes.pairs` pairs, padded to one of two sizes."""
        large, small = self.shapes.pairs, max(self.shapes.pairs // 16, 16)
        start = 0
        while start < len(low):
            left = len(low) - start
            size = large if left >= large // 2 else small
            part = slice(start, start + min(size, left))
            yield part, _padded(low[part], size), _padded(high[part], size)
            start = part.stop


@functools.partial(jax.jit, static_argnames="shapes")
def _bounds(model, states, alive, rows, used, shapes: Shapes):
    size, group, width = rows.shape[0], shapes.group, shapes.columns
    capacity = alive.shape[0]
    bound = model.screen(take(states, rows), take(states, slice(0, 1)))

    def tile(t, carry):
        by_row, by_column = carry
        start, zero = t * width, jnp.zeros_like(t)
        b = jax.tree.map(
            lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, width), states
        )
        columns = start + jnp.arange(width, dtype=jnp.int32)
        low = bound(b)
        there = jax.lax.dynamic_slice_in_dim(alive, start, width)
        low = low + jnp.where(there, 0, jnp.inf)[None]
        low = jnp.where(rows[:, None] == columns[None], jnp.inf, low)
        grouped = jnp.min(low.reshape(size, group, width // group), axis=1)
        by_row = jax.lax.dynamic_update_slice(
            by_row, grouped, (zero, t * (width // group))
        )
        if group > 1:
            low = jnp.min(low.reshape(group, size // group, width), axis=0)
        by_column = jax.lax.dynamic_update_slice(by_column, low, (zero, start))
        return by_row, by_column

    dtype = jnp.result_type(float)
    by_row = jnp.full((size, capacity // group), jnp.inf, dtype)
    by_column = jnp.full((size // group, capacity), jnp.inf, dtype)
    tiles = (used + width - 1) // width
    return jax.lax.fori_loop(0, tiles, tile, (by_row, by_column))


@jax.jit
def _costs(model, states, first, second):
    return searchable(model.merge_cost(take(states, first), take(states, second)))


@jax.jit
def _pair_bounds(model, states, first, second):
    return model.pair_bound(take(states, first), take(states, second))


@functools.partial(jax.jit, donate_argnames="states")
def _append(model, states, first, second, slots):
    union = model.union(take(states, first), take(states, second))
    return jax.tree.map(lambda all_, new: all_.at[slots].set(new), states, union)


@functools.partial(jax.jit, donate_argnames="states")
def _gather(states, index):
    return take(states, index)


_copy = jax.jit(take)


@functools.partial(jax.jit, static_argnames="capacity")
def _with_room(states, capacity: int):
    index = jnp.minimum(jnp.arange(capacity), _size(states) - 1)
    return take(states, index)


def blocks(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Runs of at most `size` entries."""
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _padded(index: np.ndarray, size: int) -> np.ndarray:
    """An index filled up with its last entry."""
    out = np.full(size, index[-1], np.int32)
    out[: len(index)] = index
    return out


def _size(states: PyTree) -> int:
    return jax.tree.leaves(states)[0].shape[0]


def _power_of_two(fitting: float, low: int, high: int) -> int:
    return int(2 ** np.floor(np.log2(np.clip(fitting, low, high))))

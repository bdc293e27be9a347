"""The store: states of clusters in slots, and what can be computed about them."""

import copy
from collections.abc import Callable, Iterable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._typing import Array, PyTree
from bregjax.clusters import ClusterModel, Screen
from bregjax.clusters._host_model import rows_of
from bregjax.clusters._slot_clusters import StatedClusters
from bregjax.hierarchy._windowed.store import kernels
from bregjax.hierarchy._windowed.store.base import ClusterStore, Part
from bregjax.hierarchy._windowed.store.block import Block
from bregjax.hierarchy._windowed.store.placement import Placement
from bregjax.hierarchy._windowed.store.prefetch import Prefetch
from bregjax.hierarchy._windowed.store.shapes import Shapes

__all__ = ["Store"]

# What decides about programs and precisions:
#
# _MANY_SLOTS, _MANY_CALLS  Slots in use, and calls for few rows, from which few rows
#     have a program of flatter tiles. Too small, and short runs compile it for nothing;
#     too large, and long runs screen rows of tiles that do not count.
# _MANY_LEFT, _FEW_ROWS  Pairs a row that bounds leave from which full precision is
#     tried, and to how many rows fewer count as. Too small, and it is tried in vain, as
#     for a few rows far out; too large, and more costs are computed first.
# _CHEAP  Pairs of a large batch of costs from which padding takes less time than calls.
# _PER_BATCH  Pairs of a batch of closer bounds, in pairs of a batch of costs.
# _SPREAD  Pairs of a batch between processes, where a call takes milliseconds whatever
#     its size, in pairs of a batch elsewhere.
# _UNIT  Slots of a device are a multiple of so many, a power of two: few clusters have
#     room for many unions then, before windows are undone for want of it.
_MANY_SLOTS, _MANY_CALLS = 4096, 128
_MANY_LEFT, _FEW_ROWS = 256, 16
_CHEAP = 512
_PER_BATCH = 8
_SPREAD = 4
_UNIT = 1024


class Store(ClusterStore):
    """States of clusters in slots, whose bounds and costs compiled programs find.

    Attributes:
        model: The cluster model.
        screen: Lower bounds of costs.
        by_numpy: Clusters by NumPy, where programs only bound their costs; else None.
        features: Arrays by slot, what bounds need of clusters.
        size: Number of states that the store was made for.
        shapes: Sizes of blocks.
        placement: On which device each slot lies.
    """

    def __init__(
        self,
        model: ClusterModel,
        screen: Screen,
        states: PyTree,
        count: int,
        placement: Placement | None = None,
        by_numpy: StatedClusters | None = None,
    ) -> None:
        """Fill the first slots with `count` of `states` and leave half as many free.

        Args:
            model: The cluster model.
            screen: Lower bounds of costs.
            states: Arrays `[size, ...]`.
            count: How many there are, where the rest is padding.
            placement: On which device each slot lies.
            by_numpy: The same clusters, `[count]` or more, whose costs and unions then
                take the place of the model's.
        """
        self.model = model
        self.screen = screen
        self.shapes = Shapes.of(model, screen, states)
        self.used = count
        self.screen_dtype = np.dtype(np.float32)
        self._many_left = _MANY_LEFT
        self._few_calls = 0
        self.placement = placement or Placement()
        # Programs on several devices wait for each other: one at a time.
        alone = self.placement.num_devices > 1 or screen.factorises
        self._prefetch = Prefetch(threaded=not alone)
        self.size = size = _size(states)
        unit = max(self.shapes.columns, _UNIT) * self.placement.num_devices
        slots = np.arange(-(-(size + size // 2 + 1) // unit) * unit)
        some = np.minimum(slots, count - 1)
        self.by_numpy = None if by_numpy is None else by_numpy.taken(some)
        pair = jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.int32)
        if by_numpy is None:
            some = self.placement.dealt(np.minimum(slots, size - 1))
            self._states = self.placement.put(states, some)
            self.dtype = jax.eval_shape(self._costs_of, *pair).dtype
        else:
            self.dtype = jnp.zeros(()).dtype
        self.features = self._features(self.screen_dtype)
        self.has_closer = jax.eval_shape(self._bounds_of, *pair) is not None

    @property
    @override
    def capacity(self) -> int:
        return _size(self.features)

    @property
    def states(self) -> PyTree:
        """States by slot, as programs take them."""
        if self.by_numpy is None:
            return self._states
        # Of copies, which no later union changes while a program reads them.
        copied = lambda leaf: jnp.asarray(leaf.copy())
        return jax.tree.map(copied, self.by_numpy.states)

    @property
    @override
    def near(self) -> int:
        return self.shapes.near

    @property
    @override
    def block(self) -> int:
        return self.shapes.block

    @override
    def screened(self, parts: Iterable[Part]) -> Iterator[Block]:
        return self._prefetch.map(lambda part: self._block(*part), parts)

    def _block(self, rows: np.ndarray, among: np.ndarray) -> Block:
        p = self.placement.num_devices
        used = int(np.max(np.flatnonzero(among), initial=-1)) + 1
        shapes = self.shapes.for_few_rows()
        few = len(rows) <= shapes.block
        self._few_calls += few
        if not few or (used < _MANY_SLOTS and self._few_calls <= _MANY_CALLS):
            shapes = self.shapes
        found = kernels.bounds(
            self.screen,
            self.features,
            self.placement.dealt(among),
            _padded(rows, shapes.block),
            (np.int32(len(rows)), np.int32(used)),
            self.placement,
            shapes,
        )
        by_row, by_column = map(np.asarray, found)
        width = -(-used // (p * shapes.columns)) * shapes.columns
        height = -(-len(rows) // shapes.rows) * shapes.rows
        by_row = by_row[..., : len(rows), : width // shapes.group]
        by_column = by_column[..., : height // shapes.group, :width]
        if p == 1:
            return Block(rows, among, by_row[0], by_column[0], shapes, p)
        by_row = by_row.transpose(1, 2, 0, 3).reshape(2, len(rows), -1)
        by_column = by_column.transpose(1, 2, 3, 0).reshape(*by_column.shape[1:3], -1)
        return Block(rows, among, by_row, by_column, shapes, p)

    def sharper(self, block: Block, left: int) -> Block | None:
        """Return a block by bounds in full precision, if it leaves too many pairs.

        From then on all bounds are in full precision, if that at least halves the
        pairs. Otherwise bounds are loose for another reason than rounding, and full
        precision is not tried again until four times as many pairs are left.

        Args:
            block: Bounds in the present precision.
            left: How many pairs they left.
        """
        coarse, full = self.screen_dtype, np.dtype(self.dtype)
        count = len(block.rows)
        if coarse == full or left <= self._many_left * max(count, _FEW_ROWS):
            return None
        # Replaced, not changed: other threads read them.
        before, self.features = self.features, self._features(full)
        self.screen_dtype = full
        sharper = self._block(block.rows, block.among)
        if sharper.num_within_second() <= left // 2:
            return sharper
        self.screen_dtype, self.features = coarse, before
        self._many_left = 4 * left // count
        return None

    def keep_precision(self) -> None:
        """Let bounds stay in the present precision, which a program has compiled in."""
        self._many_left = np.inf

    @override
    def costs(
        self, first: np.ndarray, second: np.ndarray, limit: np.ndarray | float = np.inf
    ) -> np.ndarray:
        low = self.lower(first, second)
        costs = np.full(len(low), np.inf)
        left = np.flatnonzero(low <= limit)
        costs[left] = self.settled(first[left], second[left], low[left])
        return costs

    def lower(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return closer lower bounds of the costs of pairs, −inf where there is none.

        Where a screen has no closer bounds: the costs.
        """
        if not self.has_closer:
            return self._costs(first, second)
        pairs = _PER_BATCH * self.shapes.pairs
        low = self._map(self._bounds_of, first, second, pairs)
        # NaN, or what overflowed on the way, says nothing of the cost.
        return np.where(np.isfinite(low), low, -np.inf)

    def settled(
        self, first: np.ndarray, second: np.ndarray, low: np.ndarray
    ) -> np.ndarray:
        """Return the costs of pairs for which `lower` gave `low`."""
        if not self.has_closer:
            return low
        return self._costs(first, second)

    def _costs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        if self.by_numpy is not None:
            return self.by_numpy.sure_costs(first, second)
        return self._map(self._costs_of, first, second, self.shapes.pairs)

    @override
    def append(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        low, high = np.minimum(first, second), np.maximum(first, second)
        new = np.arange(self.used, self.used + len(low))
        unions = self._unions_by_numpy(low, high, new)
        for part, a, b in self._batches(low, high, self.shapes.pairs):
            slots = _padded(new[part], len(a))
            place, dtype = self.placement, self.screen_dtype
            if unions is not None:
                index = _padded(np.arange(part.start, part.stop), len(a))
                self.features = kernels.write_features(
                    self.screen,
                    self.features,
                    rows_of(unions, index),
                    slots,
                    place,
                    dtype,
                )
                continue
            self._states, self.features = kernels.append(
                self.model,
                self.screen,
                self._states,
                self.features,
                a,
                b,
                slots,
                place,
                dtype,
            )
        self.used += len(low)
        return new

    def _unions_by_numpy(
        self, first: np.ndarray, second: np.ndarray, slots: np.ndarray
    ) -> PyTree | None:
        """Put unions of pairs into slots, by NumPy; return their states."""
        if self.by_numpy is None:
            return None
        return self.by_numpy.unite(first, second, slots).states

    def made_elsewhere(
        self, states: PyTree, features: PyTree, first: np.ndarray, second: np.ndarray
    ) -> np.ndarray:
        """Take over states and features with unions of pairs in the next slots."""
        self.features = features
        new = np.arange(self.used, self.used + len(first))
        self.used += len(first)
        if self.by_numpy is None:
            self._states = states
            return new
        # One at a time: a union may be a part of a later one.
        for k in range(len(first)):
            one = slice(k, k + 1)
            self._unions_by_numpy(first[one], second[one], new[one])
        return new

    @override
    def compact(self, slots: np.ndarray) -> np.ndarray:
        other, moved = self.copied(slots)
        vars(self).update(vars(other))
        return moved

    @override
    def copied(self, slots: np.ndarray) -> tuple["Store", np.ndarray]:
        p = self.placement.num_devices
        moved, counts = self.placement.packed(slots)
        index = np.zeros(self.capacity, np.int32)
        index[moved] = slots // p
        dealt = self.placement.dealt(index)
        other = copy.copy(self)
        other.used = p * int(np.max(counts))
        if self.by_numpy is not None:
            other.by_numpy = self.by_numpy.taken(index)
            other.features = kernels.regathered(self.features, dealt, self.placement)
            return other, moved
        other._states, other.features = kernels.regathered(
            (self._states, self.features), dealt, self.placement
        )
        return other, moved

    def _features(self, dtype: np.dtype) -> PyTree:
        return kernels.features(self.screen, self.states, self.placement, dtype)

    def _costs_of(self, first: Array, second: Array) -> Array:
        return kernels.costs(self.model, self._states, first, second, self.placement)

    def _bounds_of(self, first: Array, second: Array) -> Array | None:
        features = self.features
        return kernels.pair_bounds(self.screen, features, first, second, self.placement)

    def _map(
        self,
        function: Callable[..., Array | None],
        first: np.ndarray,
        second: np.ndarray,
        batch: int,
    ) -> np.ndarray:
        """Call a compiled function of pairs of slots, the lower slot first."""
        low, high = np.minimum(first, second), np.maximum(first, second)
        out = np.empty(len(low))
        # All are called before any is read: they run side by side.
        batches = self._batches(low, high, batch)
        called = [(part, function(a, b)) for part, a, b in batches]
        for part, values in called:
            out[part] = np.asarray(values)[: part.stop - part.start]
        return out

    def _batches(self, low: np.ndarray, high: np.ndarray, large: int):
        """Yield slices of pairs, and the pairs, padded to one of two sizes.

        Of few slots one size between these: compiling for another would take longer
        than what is padded.
        """
        small = max(large // 16, 16)
        few = 2 * small if large >= _CHEAP else large // 2
        if self.placement.spans_processes:
            large, small, few = _SPREAD * large, large, large
        elif self.capacity <= _MANY_SLOTS:
            large = small = max(large // 4, 16)
        start = 0
        while start < len(low):
            left = len(low) - start
            size = large if left > few else small
            part = slice(start, start + min(size, left))
            yield part, _padded(low[part], size), _padded(high[part], size)
            start = part.stop


def _padded(index: np.ndarray, size: int) -> np.ndarray:
    """Fill an index up with its last entry."""
    out = np.full(size, index[-1], np.int32)
    out[: len(index)] = index
    return out


def _size(states: PyTree) -> int:
    return jax.tree.leaves(states)[0].shape[0]

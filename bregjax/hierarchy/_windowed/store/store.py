"""The store: states of clusters in slots, and what can be computed about them."""

import copy
from collections.abc import Callable, Iterable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._typing import Array, PyTree
from bregjax.clusters import ClusterModel, HostModel, Screen
from bregjax.clusters._host_model import rows_of
from bregjax.clusters._quick_clusters import QuickClusters
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
        host: What finds costs and unions, where they are solved for.
        quick: The same clusters by NumPy, which has their costs, on a CPU.
        screen: Lower bounds of costs.
        states: Arrays by slot.
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
        host: HostModel | None = None,
        quick: QuickClusters | None = None,
    ) -> None:
        """Fill the first slots with `count` of `states` and leave half as many free.

        With a `host`, states are NumPy arrays.
        """
        self.model = model
        self.host = host
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
        index = self.placement.dealt(np.minimum(slots, size - 1))
        some = np.minimum(slots, count - 1)
        self.quick = None if quick is None else quick.taken(some)
        pair = jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.int32)
        if host is None:
            self.states = self.placement.put(states, index)
            self.dtype = jax.eval_shape(self._costs_of, *pair).dtype
        else:
            self.states = rows_of(states, np.asarray(index))
            self.dtype = jnp.zeros(()).dtype
        self.features = self._features(self.screen_dtype)
        self.has_closer = jax.eval_shape(self._bounds_of, *pair) is not None

    @property
    @override
    def capacity(self) -> int:
        return _size(self.states)

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
        if self.quick is not None:
            return self.quick.sure_costs(first, second)
        if self.host is None:
            return self._map(self._costs_of, first, second, self.shapes.pairs)
        low, high = np.minimum(first, second), np.maximum(first, second)
        parts = rows_of(self.states, low), rows_of(self.states, high)
        costs = self.host.search_costs(*parts)[0]
        return np.where(np.isfinite(costs), costs, np.finfo(self.dtype).max)

    @override
    def append(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        low, high = np.minimum(first, second), np.maximum(first, second)
        start = self.used
        for part, a, b in self._batches(low, high, self.shapes.pairs):
            slots = _padded(np.arange(start + part.start, start + part.stop), len(a))
            if self.host is not None:
                self._append_on_host(self.host, a, b, slots)
                continue
            self.states, self.features = kernels.append(
                self.model,
                self.screen,
                self.states,
                self.features,
                a,
                b,
                slots,
                self.placement,
                self.screen_dtype,
            )
        self.used += len(low)
        slots = np.arange(start, self.used)
        self.keep_up(low, high, slots)
        return slots

    def keep_up(self, first: np.ndarray, second: np.ndarray, slots: np.ndarray) -> None:
        """Let the clusters by NumPy have the unions of pairs, too."""
        if self.quick is not None:
            self.quick.put(slots, self.quick.united(first, second))

    def _append_on_host(
        self, host: HostModel, a: np.ndarray, b: np.ndarray, slots: np.ndarray
    ) -> None:
        _, unions = host.search_costs(rows_of(self.states, a), rows_of(self.states, b))

        def put(all_: np.ndarray, new: np.ndarray) -> None:
            all_[slots] = new

        jax.tree.map(put, self.states, unions)
        self.features = kernels.write_features(
            self.screen, self.features, unions, slots, self.placement, self.screen_dtype
        )

    @override
    def compact(self, slots: np.ndarray) -> np.ndarray:
        other, moved = self.copied(slots)
        vars(self).update(vars(other))
        return moved

    @override
    def copied(self, slots: np.ndarray) -> tuple["Store", np.ndarray]:
        other = copy.copy(self)
        other.states, other.features, other.used, moved = self._selected(slots)
        if self.quick is not None:
            index = np.zeros(self.capacity, np.int64)
            index[moved] = slots
            other.quick = self.quick.taken(index)
        return other, moved

    def _selected(self, slots: np.ndarray) -> tuple[PyTree, PyTree, int, np.ndarray]:
        p = self.placement.num_devices
        moved, counts = self.placement.packed(slots)
        index = np.zeros(self.capacity, np.int32)
        index[moved] = slots // p
        dealt = self.placement.dealt(index)
        used = p * int(np.max(counts))
        if self.host is not None:
            features = kernels.regathered(self.features, dealt, self.placement)
            return rows_of(self.states, index), features, used, moved
        states, features = kernels.regathered(
            (self.states, self.features), dealt, self.placement
        )
        return states, features, used, moved

    def _features(self, dtype: np.dtype) -> PyTree:
        return kernels.features(self.screen, self.states, self.placement, dtype)

    def _costs_of(self, first: Array, second: Array) -> Array:
        return kernels.costs(self.model, self.states, first, second, self.placement)

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

"""Clusters in slots: batches of what is to be computed about them."""

from collections.abc import Callable, Iterable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array, PyTree
from bregjax.clusters.base import ClusterModel
from bregjax.clusters.host_model import HostModel, rows_of
from bregjax.clusters.screens import Screen
from bregjax.hierarchy._search import take
from bregjax.hierarchy._windowed import kernels, singly
from bregjax.hierarchy._windowed.ahead import Ahead
from bregjax.hierarchy._windowed.bounds import Bounds
from bregjax.hierarchy._windowed.placement import Placement
from bregjax.hierarchy._windowed.shapes import Shapes
from bregjax.hierarchy._windowed.singly import Known, Made

__all__ = ["MOST_SINGLY", "Pool", "blocks"]


# Slots in use from which few rows are worth a program of their own, and calls for few
# rows after which they are in any case.
_MANY_SLOTS, _MANY_CALLS = 4096, 128
# Pairs a row left in question from which more digits are tried; a few rows alone, as
# those far out, are no reason.
_MANY_LEFT, _FEW_ROWS = 256, 16
# A batch of so many pairs takes no longer than a few calls of one of few pairs.
_CHEAP = 512
# Merges that one call makes one at a time: about a second's.
MOST_SINGLY = 256
# Pairs whose bounds are taken at once, as a multiple of those whose costs are.
_PER_BATCH = 8


class Pool:
    """States of clusters in slots: appended, never overwritten, until compacted.

    Clusters that have merged stay where they were: what is done can be undone by
    forgetting the slots that were filled since.
    """

    def __init__(
        self,
        model: ClusterModel,
        screen: Screen,
        states: PyTree,
        count: int,
        placement: Placement | None = None,
        host: HostModel | None = None,
    ) -> None:
        """Fill the first slots with `count` of `states` and leave half as many free.

        With a `host` states are NumPy arrays, whose costs and unions it finds.
        """
        self.model = model
        self.host = host
        self.screen = screen
        self.shapes = Shapes.of(model, screen, states)
        self.used = count
        # Half the digits do for most bounds; see `sharper`.
        self.screen_dtype = np.dtype(np.float32)
        self._many = _MANY_LEFT
        self._few_calls = 0
        self.placement = placement or Placement()
        # Programs on several devices wait for each other: one at a time.
        alone = self.placement.num_devices > 1 or screen.factorises
        self._ahead = Ahead(threaded=not alone)
        self.size = size = _size(states)
        unit = self.shapes.columns * self.placement.num_devices
        slots = np.arange(-(-(size + size // 2 + 1) // unit) * unit)
        index = self.placement.dealt(np.minimum(slots, size - 1))
        pair = jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.int32)
        if host is None:
            deal = jax.jit(take, out_shardings=self.placement.sharding)
            self.states = deal(states, index)
            self.dtype = jax.eval_shape(self._costs_of, *pair).dtype
        else:
            self.states = rows_of(states, np.asarray(index))
            self.dtype = jnp.zeros(()).dtype
        self.features = self._features(self.screen_dtype)
        bound = jax.eval_shape(self._bounds_of, *pair)
        self._has_pair_bound = bound is not None

    @property
    def capacity(self) -> int:
        """Number of slots."""
        return _size(self.states)

    @property
    def room(self) -> int:
        """Number of free slots."""
        return self.capacity - self.used

    def bounds_of(
        self, parts: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> Iterator[Bounds]:
        """Bounds of blocks of rows, each with slots to compare with; see `bounds`."""
        return self._ahead.map(lambda part: self.bounds(*part), parts)

    def bounds(self, rows: np.ndarray, alive: np.ndarray) -> Bounds:
        """Screen at most `shapes.block` slots `[b]` against those that are alive."""
        p = self.placement.num_devices
        used = int(np.max(np.flatnonzero(alive), initial=-1)) + 1
        shapes = self.shapes.for_few_rows()
        few = len(rows) <= shapes.block
        self._few_calls += few
        if not few or (used < _MANY_SLOTS and self._few_calls <= _MANY_CALLS):
            shapes = self.shapes
        found = kernels.bounds(
            self.screen,
            self.features,
            self.placement.dealt(alive),
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
            return Bounds(by_row[0], by_column[0], shapes, p)
        by_row = by_row.transpose(1, 2, 0, 3).reshape(2, len(rows), -1)
        by_column = by_column.transpose(1, 2, 3, 0).reshape(*by_column.shape[1:3], -1)
        return Bounds(by_row, by_column, shapes, p)

    def sharper(self, rows: np.ndarray, alive: np.ndarray, left: int) -> Bounds | None:
        """Bounds in the precision of the states, from now on, if so many pairs call.

        Tried where bounds leave many pairs a row in question; kept where less than half
        of these are as near as the second nearest by the full precision. Bounds that
        are loose for another reason are not tried again until four times as many are
        left.

        Args:
            rows: Slots that were screened, `[b]`.
            alive: Against those.
            left: How many pairs the bounds left.
        """
        coarse, full = self.screen_dtype, np.dtype(self.dtype)
        if coarse == full or left <= self._many * max(len(rows), _FEW_ROWS):
            return None
        # Replaced at once: other threads read them.
        before, self.features = self.features, self._features(full)
        self.screen_dtype = full
        bounds = self.bounds(rows, alive)
        second = np.sort(np.partition(bounds.by_row[0], 1, axis=1)[:, :2])[:, 1]
        if len(bounds.pairs_by_row(second)[0]) <= left // 2:
            return bounds
        self.screen_dtype, self.features = coarse, before
        self._many = 4 * left // len(rows)
        return None

    def costs(
        self, first: np.ndarray, second: np.ndarray, limit: np.ndarray | float = np.inf
    ) -> np.ndarray:
        """Merge costs of pairs of slots in the robust form, `[p]`.

        Those certain to be above the limit may be inf.
        """
        low = self.lower(first, second)
        costs = np.full(len(low), np.inf)
        left = np.flatnonzero(low <= limit)
        costs[left] = self.robust(first[left], second[left], low[left])
        return costs

    def lower(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Lower bounds of the costs of pairs of slots, −inf where unknown.

        The costs themselves if there is nothing between the two.
        """
        if not self._has_pair_bound:
            return self._costs(first, second)
        pairs = _PER_BATCH * self.shapes.pairs  # bounds are cheaper than costs
        low = self._map(self._bounds_of, first, second, pairs)
        # Also where it overflowed on the way.
        return np.where(np.isfinite(low), low, -np.inf)

    def robust(
        self, first: np.ndarray, second: np.ndarray, low: np.ndarray
    ) -> np.ndarray:
        """Costs of pairs of slots, from what `lower` gave."""
        if not self._has_pair_bound:
            return low
        return self._costs(first, second)

    def _costs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Costs of pairs of slots."""
        if self.host is None:
            return self._map(self._costs_of, first, second, self.shapes.pairs)
        low, high = np.minimum(first, second), np.maximum(first, second)
        parts = rows_of(self.states, low), rows_of(self.states, high)
        costs = self.host.search_costs(*parts)[0]
        return np.where(np.isfinite(costs), costs, np.finfo(self.dtype).max)

    def append(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Append the unions of pairs of slots; the slots they take."""
        low, high = np.minimum(first, second), np.maximum(first, second)
        start = self.used
        for part, a, b in _batches(low, high, self.shapes.pairs):
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
        return np.arange(start, self.used)

    def _append_on_host(
        self, host: HostModel, a: np.ndarray, b: np.ndarray, slots: np.ndarray
    ) -> None:
        """Put the unions of pairs of slots into other slots."""
        _, unions = host.search_costs(rows_of(self.states, a), rows_of(self.states, b))

        def put(all_: np.ndarray, new: np.ndarray) -> None:
            all_[slots] = new

        jax.tree.map(put, self.states, unions)
        self.features = kernels.write_features(
            self.screen, self.features, unions, slots, self.placement, self.screen_dtype
        )

    @property
    def merges_singly(self) -> bool:
        """Whether `merge_singly` serves: on one device, without solving or factorising.

        Programs of several batches of factorisations can lock up (see `Ahead`).
        """
        alone = self.placement.mesh is None and self.host is None
        return alone and not self.screen.factorises

    def merge_singly(self, known: Known, count: int) -> tuple[Known, Made]:
        """Make so many merges one at a time, at most `MOST_SINGLY` and those with room.

        Args:
            known: The nearest of all.
            count: How many merges.

        Returns:
            What is known then, and the merges, whose unions take the next slots.
        """
        # More digits would have to have the program compiled again; see `sharper`.
        self._many = np.inf
        self.states, self.features, known, made = singly.merge_singly(
            self.model,
            self.screen,
            self.states,
            self.features,
            known,
            (jnp.int32(self.used), jnp.int32(count)),
            self.screen_dtype,
            MOST_SINGLY,
        )
        self.used += count
        return known, made

    def compact(self, slots: np.ndarray) -> np.ndarray:
        """Keep the given slots alone, as the first; the slots that they take."""
        self.states, self.features, self.used, moved = self._selected(slots)
        return moved

    def gathered(self, slots: np.ndarray) -> tuple["Pool", np.ndarray]:
        """Another pool with copies of the given slots, and their slots there."""
        other = object.__new__(Pool)
        vars(other).update(vars(self))
        other.states, other.features, other.used, moved = self._selected(slots)
        return other, moved

    def _selected(self, slots: np.ndarray) -> tuple[PyTree, PyTree, int, np.ndarray]:
        p = self.placement.num_devices
        moved, counts = self.placement.packed(slots)
        index = np.zeros(self.capacity, np.int32)
        index[moved] = slots // p
        dealt = self.placement.dealt(index)
        if self.host is not None:
            features = kernels.regathered(self.features, dealt, self.placement)
            states = rows_of(self.states, index)
            return states, features, p * int(np.max(counts)), moved
        states, features = kernels.regathered(
            (self.states, self.features), dealt, self.placement
        )
        return states, features, p * int(np.max(counts)), moved

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
        """Values of a function of pairs of slots, the lower first."""
        low, high = np.minimum(first, second), np.maximum(first, second)
        out = np.empty(len(low))
        for part, a, b in _batches(low, high, batch):
            values = np.asarray(function(a, b))
            out[part] = values[: part.stop - part.start]
        return out


def _batches(low: np.ndarray, high: np.ndarray, large: int):
    """Slices of at most so many pairs, padded to one of two sizes."""
    small = max(large // 16, 16)
    # Where a batch is large pairs are cheap, and a call dearer than what fills it up.
    few = 2 * small if large >= _CHEAP else large // 2
    start = 0
    while start < len(low):
        left = len(low) - start
        size = large if left > few else small
        part = slice(start, start + min(size, left))
        yield part, _padded(low[part], size), _padded(high[part], size)
        start = part.stop


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

"""What the windowed engine computes on devices: bounds, costs, unions."""

import functools

import jax
import jax.numpy as jnp

from bregjax._typing import Array, PyTree
from bregjax.cluster_model import ClusterModel
from bregjax.hierarchy._search import searchable, take
from bregjax.hierarchy._windowed.placement import Placement

__all__ = ["append", "bounds", "costs", "pair_bounds", "regathered"]

_jit = functools.partial(jax.jit, static_argnames="placement")
_jit_in_place = functools.partial(
    jax.jit, static_argnames="placement", donate_argnames="states"
)


@functools.partial(jax.jit, static_argnames=("placement", "shape", "dtype"))
def bounds(
    model: ClusterModel,
    states: PyTree,
    alive: Array,
    rows: Array,
    used: Array,
    placement: Placement,
    shape: tuple[int, int],
    dtype: jnp.dtype,
) -> tuple[Array, Array]:
    """Lower bounds of the costs of some rows against all slots, least in groups.

    Tiles of columns, as many as are in use, by a loop of a compiled shape.

    Args:
        model: The cluster model.
        states: Arrays of slots.
        alive: Slots to compare with, booleans.
        rows: Slots `[b]`.
        used: How many slots are in use.
        placement: Where slots lie.
        shape: Columns of a tile, and pairs of a group.
        dtype: The precision to work in.

    Returns:
        By device and row the least of each group of columns, `[p, b, columns / group]`;
        by device and column that of each group of rows, `[p, b / group, columns]`; inf
        where there is no pair, the least number where nothing is known.
    """
    width, group = shape
    size = rows.shape[0]

    def local(states, alive, others):
        model, rows, used = others
        first = jnp.zeros(1, rows.dtype)
        bound = model.screen(
            placement.fetch(states, rows), placement.fetch(states, first), dtype
        )

        def tile(t, carry):
            by_row, by_column = carry
            start, zero = t * width, jnp.zeros_like(t)
            cut = lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, width)
            low = bound(jax.tree.map(cut, states))
            # NaN, and −inf where no cluster is, would be lost in the least of a group.
            low = jnp.where(low > -jnp.inf, low, jnp.finfo(low.dtype).min)
            low = low + jnp.where(cut(alive), 0, jnp.inf).astype(low.dtype)[None]
            columns = start + jnp.arange(width, dtype=jnp.int32)
            columns = columns * placement.num_devices + placement.device()
            low = jnp.where(rows[:, None] == columns[None], jnp.inf, low)
            least = jnp.min(low.reshape(size, group, width // group), axis=1)
            by_row = jax.lax.dynamic_update_slice(
                by_row, least, (zero, t * (width // group))
            )
            if group > 1:
                low = jnp.min(low.reshape(group, size // group, width), axis=0)
            by_column = jax.lax.dynamic_update_slice(by_column, low, (zero, start))
            return by_row, by_column

        capacity = alive.shape[0]
        first_tile = jax.tree.map(lambda leaf: leaf[:width], states)
        out = jax.eval_shape(bound, first_tile).dtype
        by_row = jnp.full((size, capacity // group), jnp.inf, out)
        by_column = jnp.full((size // group, capacity), jnp.inf, out)
        in_use = (used + placement.num_devices - 1) // placement.num_devices
        tiles = (in_use + width - 1) // width
        found = jax.lax.fori_loop(0, tiles, tile, (by_row, by_column))
        return jax.tree.map(placement.collect, found)

    run = placement.spread(local, shared=2, result="same")
    return run(states, alive, (model, rows, used))


@_jit
def costs(
    model: ClusterModel,
    states: PyTree,
    first: Array,
    second: Array,
    placement: Placement,
) -> Array:
    """Merge costs of pairs of slots, in the robust form."""
    cost = lambda model, a, b: searchable(model.merge_cost(a, b))
    return _of_pairs(cost, model, states, first, second, placement)


@_jit
def pair_bounds(
    model: ClusterModel,
    states: PyTree,
    first: Array,
    second: Array,
    placement: Placement,
) -> Array | None:
    """Closer lower bounds of the costs of pairs of slots; None if there are none."""
    bound = lambda model, a, b: model.pair_bound(a, b)
    return _of_pairs(bound, model, states, first, second, placement)


def _of_pairs(function, model, states, first, second, placement: Placement):
    """A function of the model and two states, for pairs of slots."""

    def local(states, others):
        model, first, second = others
        fetch = functools.partial(placement.fetch, states)
        return function(model, fetch(first), fetch(second))

    run = placement.spread(local, shared=1, result="same")
    return run(states, (model, first, second))


@_jit_in_place
def append(
    model: ClusterModel,
    states: PyTree,
    first: Array,
    second: Array,
    slots: Array,
    placement: Placement,
) -> PyTree:
    """Write the unions of pairs of slots into other slots."""

    def local(states, others):
        model, first, second, slots = others
        a, b = placement.fetch(states, first), placement.fetch(states, second)
        union = model.union(a, b)

        def write(leaf, new):
            return leaf.at[placement.rows(slots, leaf.shape[0])].set(new, mode="drop")

        return jax.tree.map(write, states, union)

    run = placement.spread(local, shared=1, result="slots")
    return run(states, (model, first, second, slots))


@_jit
def regathered(states: PyTree, index: Array, placement: Placement) -> PyTree:
    """Arrays of slots with the rows of an index of each device's own."""
    run = placement.spread(
        lambda states, index, _: take(states, index), shared=2, result="slots"
    )
    return run(states, index, ())

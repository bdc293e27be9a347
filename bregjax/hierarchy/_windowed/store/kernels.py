"""Compiled programs of the store: bounds, costs and unions of what slots hold."""

import functools

import jax
import jax.numpy as jnp

from bregjax._typing import Array, PyTree
from bregjax.clusters import ClusterModel, Screen
from bregjax.hierarchy._search import searchable, take
from bregjax.hierarchy._windowed.store.placement import Placement
from bregjax.hierarchy._windowed.store.shapes import Shapes
from bregjax.hierarchy._windowed.store.two_least import two_least

__all__ = [
    "append",
    "bounds",
    "costs",
    "features",
    "pair_bounds",
    "regathered",
    "screen",
    "write_features",
]

_jit = functools.partial(jax.jit, static_argnames="placement")


@jax.jit
def screen(model: ClusterModel, leaves: PyTree) -> Screen:
    """Return lower bounds of costs, made for these leaves and unions of them."""
    return model.screen(leaves)


@functools.partial(jax.jit, static_argnames=("placement", "shapes"))
def bounds(
    screen: Screen,
    features: PyTree,
    alive: Array,
    rows: Array,
    sizes: tuple[Array, Array],
    placement: Placement,
    shapes: Shapes,
) -> tuple[Array, Array]:
    """Bound the costs of rows with all slots; of each group return the two least.

    Loops over tiles, as many as are in use, so that one compiled program serves any
    number of rows and slots.

    Args:
        screen: Lower bounds of costs.
        features: What bounds need of clusters, arrays by slot.
        alive: Slots to pair rows with, booleans by slot.
        rows: Slots `[b]`, b a multiple of a tile's rows.
        sizes: How many of the rows count, and how many slots are in use.
        placement: On which device each slot lies.
        shapes: Sizes of tiles and groups.

    Returns:
        By device and row the two least of each group of columns (see `two_least`),
        `[p, 2, b, columns / group]`; by device and column those of each group of rows,
        `[p, 2, b / group, columns]`; inf where there is no pair, about 0 where the
        bound is NaN or not finite.
    """
    height, width, group = shapes.rows, shapes.columns, shapes.group

    def local(features, alive, others):
        screen, rows, (count, used) = others
        of_rows = placement.fetch(features, rows)
        all_pairs = lambda rows, columns: screen.against(rows)(columns)
        out = jax.eval_shape(all_pairs, of_rows, of_rows).dtype

        def block(r, found):
            cut = lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, r * height, height)
            bound = screen.against(jax.tree.map(cut, of_rows))
            tile = functools.partial(of_tile, bound, r, cut(rows))
            return jax.lax.fori_loop(0, tiles, tile, found)

        def of_tile(bound, r, rows, t, found):
            by_row, by_column = found
            start, zero = t * width, jnp.int32(0)
            cut = lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, width)
            of_columns = jax.tree.map(cut, features)
            # A loop of one step, whose number of steps XLA does not know: else it would
            # compute bounds again for each of the reductions that read them.
            low = jax.lax.fori_loop(
                0,
                jnp.minimum(used, 1),
                lambda _, __: bound(of_columns),
                jnp.zeros((height, width), out),
            )
            # NaN, or what overflowed on the way, says nothing of the cost.
            low = jnp.where((low > 0) & (low < jnp.inf), low, 0)
            low = low + jnp.where(cut(alive), 0, jnp.inf).astype(low.dtype)[None]
            columns = start + jnp.arange(width, dtype=jnp.int32)
            columns = columns * placement.num_devices + placement.device()
            low = jnp.where(rows[:, None] == columns[None], jnp.inf, low)
            by_row = jax.lax.dynamic_update_slice(
                by_row,
                two_least(low.reshape(height, group, width // group), 1),
                (zero, r * height, t * (width // group)),
            )
            by_column = jax.lax.dynamic_update_slice(
                by_column,
                two_least(low.reshape(group, height // group, width), 0),
                (zero, r * (height // group), start),
            )
            return by_row, by_column

        size, capacity = rows.shape[0], alive.shape[0]
        by_row = jnp.full((2, size, capacity // group), jnp.inf, out)
        by_column = jnp.full((2, size // group, capacity), jnp.inf, out)
        in_use = (used + placement.num_devices - 1) // placement.num_devices
        tiles, blocks = (in_use + width - 1) // width, (count + height - 1) // height
        found = jax.lax.fori_loop(0, blocks, block, (by_row, by_column))
        return placement.collect(found)

    run = placement.spread(local, shared=2, result="same")
    return run(features, alive, (screen, rows, sizes))


@_jit
def costs(
    model: ClusterModel,
    states: PyTree,
    first: Array,
    second: Array,
    placement: Placement,
) -> Array:
    """Return merge costs of pairs of slots, by `search_cost`."""
    cost = lambda model, a, b: searchable(model.search_cost(a, b))
    return _of_pairs(cost, model, states, first, second, placement)


@_jit
def pair_bounds(
    screen: Screen,
    features: PyTree,
    first: Array,
    second: Array,
    placement: Placement,
) -> Array | None:
    """Return closer lower bounds of the costs of pairs; None if there are none."""
    bound = lambda screen, a, b: screen.closer(a, b)
    return _of_pairs(bound, screen, features, first, second, placement)


def _of_pairs(function, owner, by_slot, first, second, placement: Placement):
    """Call a function of a model, or a screen, and of what two slots hold."""

    def local(by_slot, others):
        owner, first, second = others
        parts = _pairs(placement, by_slot, first, second)
        return placement.agreed(function(owner, *parts))

    run = placement.spread(local, shared=1, result="same")
    return run(by_slot, (owner, first, second))


def _pairs(
    placement: Placement, by_slot: PyTree, first: Array, second: Array
) -> tuple[PyTree, PyTree]:
    """Return what is in the first and in the second slots of pairs."""
    if placement.mesh is None:
        return take(by_slot, first), take(by_slot, second)
    both = placement.fetch(by_slot, jnp.concatenate([first, second]))
    count = len(first)
    return take(both, slice(count)), take(both, slice(count, None))


@functools.partial(
    jax.jit,
    static_argnames=("placement", "dtype"),
    donate_argnames=("states", "features"),
)
def append(
    model: ClusterModel,
    screen: Screen,
    states: PyTree,
    features: PyTree,
    first: Array,
    second: Array,
    slots: Array,
    placement: Placement,
    dtype: jnp.dtype,
) -> tuple[PyTree, PyTree]:
    """Write unions of pairs of slots, and the unions' features, into given slots."""

    def local(states, features, others):
        model, screen, first, second, slots = others
        union = model.union(*_pairs(placement, states, first, second))

        def write(leaf, new):
            return leaf.at[placement.rows(slots, leaf.shape[0])].set(new, mode="drop")

        new = union, screen.features(union, dtype)
        return jax.tree.map(write, (states, features), new)

    run = placement.spread(local, shared=2, result="slots")
    return run(states, features, (model, screen, first, second, slots))


@functools.partial(
    jax.jit, static_argnames=("placement", "dtype"), donate_argnames="features"
)
def write_features(
    screen: Screen,
    features: PyTree,
    states: PyTree,
    slots: Array,
    placement: Placement,
    dtype: jnp.dtype,
) -> PyTree:
    """Write the features of given states into slots."""

    def local(features, others):
        screen, states, slots = others

        def write(leaf, new):
            return leaf.at[placement.rows(slots, leaf.shape[0])].set(new, mode="drop")

        return jax.tree.map(write, features, screen.features(states, dtype))

    run = placement.spread(local, shared=1, result="slots")
    return run(features, (screen, states, slots))


@functools.partial(jax.jit, static_argnames=("placement", "dtype"))
def features(
    screen: Screen, states: PyTree, placement: Placement, dtype: jnp.dtype
) -> PyTree:
    """Return features of all slots, in a precision."""

    def local(states, screen):
        return screen.features(states, dtype)

    run = placement.spread(local, shared=1, result="slots")
    return run(states, screen)


@_jit
def regathered(states: PyTree, index: Array, placement: Placement) -> PyTree:
    """Take rows of arrays by slot; each device's index is of its own rows."""
    run = placement.spread(
        lambda states, index, _: take(states, index), shared=2, result="slots"
    )
    return run(states, index, ())

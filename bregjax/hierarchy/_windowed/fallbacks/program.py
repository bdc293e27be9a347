"""Merges one at a time, many of them in one compiled program.

Where unions come nearer to others than their parts were, rounds of simultaneous merges
are no longer greedy's, and a window of them may be undone as often as not. A merge here
takes one row of bounds, and a few costs, against all clusters, and nothing from the
host. Each turn of the loop settles one of three things about the list that comes first:
it begins with a cost, so its pair merges; with the bound of a pair, whose cost is
computed; or with a bound of all the rest, so that the row is searched again.

Example, points 0, 1, 3 and 7 on a line, a to d, with Ward's cost and lists of one:

    a: b 0.25    b: a 0.25    c: b 1    d: c 4

The list of a comes first and begins with a cost: ab is made. Of c nothing but its bound
1 is left. The row of ab is searched: it costs 2.08 with c and 14.08 with d, so c is its
nearest, and it comes into no other list. Now c comes first, by its bound 1, and is
searched again: ab, at 2.08, which is merged next.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._typing import Array, PyTree
from bregjax.clusters import ClusterModel, Screen
from bregjax.hierarchy._search import searchable, take
from bregjax.hierarchy._windowed.fallbacks.lists import (
    Lists,
    first_by_key,
    first_place,
    of_costs,
    revalued,
    with_pairs,
    without,
    without_names,
)
from bregjax.hierarchy._windowed.neighbours.ties import mixed

__all__ = ["Known", "Made", "run"]

# _BATCH  Pairs of a row whose costs are computed at once. Too few, and the loop turns
#     more often; too many, and costs are computed that decide nothing.
# _MANY  Pairs of a row evaluated in the order of their bounds; the others follow in the
#     order of slots. Too few, and costs are computed that the order would have spared;
#     too many, and a row whose bounds say nothing is sorted again and again.
_BATCH, _MANY = 16, 256
# Past the last slot.
_NOWHERE = 2**30


class Known(NamedTuple):
    """What `Neighbours` knows of the clusters in slots, on a device.

    Attributes:
        alive: Slots that hold a cluster not yet merged, `[slots]`.
        key: Keys of clusters, which break ties, `[slots]`, uint32.
        bound: Costs of the nearest few or lower bounds, `[k, slots]`; see `Nearest`.
        slot: With which cluster, where exact.
        exact: Whether a living cluster costs just that.
    """

    alive: Array
    key: Array
    bound: Array
    slot: Array
    exact: Array


class Made(NamedTuple):
    """Merges in order, `[most]`; each union is in the next free slot.

    Attributes:
        first: Slots of one part.
        second: Slots of the other.
        cost: Costs.
        rescans: Number of rows that were searched again.
    """

    first: Array
    second: Array
    cost: Array
    rescans: Array


class _Clusters(NamedTuple):
    """States of clusters, slots first, and features, slots last, `[..., slots]`.

    A row of bounds works on one coordinate of all slots after the other, which takes
    half the time where these lie side by side.
    """

    states: PyTree
    features: PyTree


class _Living(NamedTuple):
    """Which slots hold living clusters, their keys, and their lists."""

    alive: Array
    key: Array
    lists: Lists


class _Task(NamedTuple):
    """What the next turn of the loop does.

    Attributes:
        row: The slot that is searched.
        new: Whether a union is still to be written into this slot.
        named: Whether only the cost of the first pair in its list is wanted.
        union: State and features of the union, `[1, ...]`.
    """

    row: Array
    new: Array
    named: Array
    union: _Clusters


class _Tools(NamedTuple):
    """What no turn changes: the model, its bounds, and the precision of features."""

    model: ClusterModel
    screen: Screen
    dtype: jnp.dtype


@functools.partial(
    jax.jit,
    static_argnames=("dtype", "most"),
    donate_argnames=("states", "features", "known"),
)
def run(
    model: ClusterModel,
    screen: Screen,
    states: PyTree,
    features: PyTree,
    known: Known,
    sizes: tuple[Array, Array],
    dtype: jnp.dtype,
    most: int,
) -> tuple[PyTree, PyTree, Known, Made]:
    """Make merges one at a time: always the first pair by cost and key.

    Args:
        model: The cluster model.
        screen: Bounds of its costs.
        states: In slots.
        features: What bounds need of these.
        known: The nearest of all clusters, as far as they are known.
        sizes: How many slots are used, and how many merges to make: at most `most`, as
            many as there are free slots, and one less than clusters.
        dtype: Precision of features.
        most: Size of the arrays of merges.

    Returns:
        States and features, with unions in the slots from the first free one on; the
        nearest, as far as they are known then; and the merges.
    """
    used, count = sizes
    tools = _Tools(model, screen, dtype)

    def step(carry):
        done, clusters, living, made, task, _ = carry
        end = used + done
        clusters = _written(clusters, task.union, _at(task.new, task.row))
        found = _search(tools, clusters, living, task)
        living = _with_own(living, task, found[0])
        living = _with_newborn(living, task, *found)
        row, settled = _first_row(living)
        first, second = row, living.lists.slot[0, row]
        new, place = settled & (done < count), _at(settled, done)
        named = living.lists.named[0, row] & ~settled
        made = Made(
            made.first.at[place].set(first, mode="drop"),
            made.second.at[place].set(second, mode="drop"),
            made.cost.at[place].set(living.lists.bound[0, row], mode="drop"),
            made.rescans + ~(settled | named | (done == count)),
        )
        union = _united(tools, clusters, first, second)
        parts = _at(new, first), _at(new, second)
        living = _merged(living, *parts, _at(new, end))
        task = _Task(jnp.where(new, end, row), new, named, union)
        # The last union is searched in the turn after its merge.
        return done + new, clusters, living, made, task, done == count

    none = jnp.zeros(most, jnp.int32)
    made = Made(none, none, jnp.zeros(most, known.bound.dtype), jnp.int32(0))
    lists = Lists(known.bound, known.slot, known.exact, known.exact)
    living = _Living(known.alive, known.key, lists)
    clusters = _Clusters(states, _slots_last(features))
    # The first turn has to do something: it searches a row whose nearest are known.
    places = jnp.arange(len(known.alive), dtype=jnp.int32)
    row, no = first_place(known.alive, places), jnp.bool(False)
    task = _Task(row, no, no, take(_Clusters(states, features), row[None]))
    start = jnp.int32(0), clusters, living, made, task, no
    _, clusters, (alive, key, lists), made, _, _ = jax.lax.while_loop(
        lambda carry: ~carry[-1], step, start
    )
    known = Known(alive, key, *without_names(lists))
    return clusters.states, _slots_first(clusters.features), known, made


def _slots_last(features: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), features)


def _slots_first(features: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), features)


def _at(true: Array, place: Array) -> Array:
    """Return a place, where true; else one past all slots, which nothing is at."""
    return jnp.where(true, place, _NOWHERE)


def _first_row(living: _Living) -> tuple[Array, Array]:
    """Return the row whose list comes first, and whether it begins with a cost.

    Of several lists that begin with the same number, one with a bound comes first.
    """
    places = jnp.arange(len(living.alive), dtype=jnp.int32)
    bound = jnp.where(living.alive, living.lists.bound[0], jnp.inf)
    level = living.alive & (bound == jnp.min(bound))
    unsettled = first_place(level & ~living.lists.exact[0], places)
    settled = unsettled == len(places)
    key = living.key + living.key[living.lists.slot[0]]
    return jnp.where(settled, first_by_key(level, key, places), unsettled), settled


def _united(
    tools: _Tools, clusters: _Clusters, first: Array, second: Array
) -> _Clusters:
    """Return state and features of the union of two slots, `[1, ...]`."""
    low, high = jnp.minimum(first, second)[None], jnp.maximum(first, second)[None]
    parts = take(clusters.states, low), take(clusters.states, high)
    union = tools.model.union(*parts)
    return _Clusters(union, tools.screen.features(union, tools.dtype))


def _written(clusters: _Clusters, new: _Clusters, slot: Array) -> _Clusters:
    """Write a cluster into a slot, in place.

    All that reads the arrays in the same turn must come after, or XLA copies them.
    """

    def put(all_: Array, one: Array) -> Array:
        return all_.at[slot].set(one[0].astype(all_.dtype), mode="drop")

    def put_last(all_: Array, one: Array) -> Array:
        return all_.at[..., slot].set(one[0].astype(all_.dtype), mode="drop")

    return _Clusters(
        jax.tree.map(put, clusters.states, new.states),
        jax.tree.map(put_last, clusters.features, new.features),
    )


def _merged(living: _Living, first: Array, second: Array, slot: Array) -> _Living:
    """Let two clusters die, and their union live in a slot."""
    alive, key, lists = living
    alive = alive.at[first].set(False, mode="drop").at[second].set(False, mode="drop")
    alive = alive.at[slot].set(True, mode="drop")
    both = key.at[first].get(mode="clip") + key.at[second].get(mode="clip")
    key = key.at[slot].set(mixed(both), mode="drop")
    return _Living(alive, key, without(without(lists, first), second))


def _with_own(living: _Living, task: _Task, costs: Array) -> _Living:
    """Replace the list of the row: by its nearest, or by its first pair's cost."""
    row, lists = task.row, living.lists
    key = living.key[row] + living.key
    found = of_costs(key, costs, len(lists.bound))
    own = Lists(*(values[:, row] for values in lists))
    valued = revalued(own, costs[own.slot[0]], key)

    def put(values: Array, one: Array, other: Array) -> Array:
        return values.at[:, row].set(jnp.where(task.named, one, other))

    return living._replace(lists=jax.tree.map(put, lists, valued, found))


def _with_newborn(living: _Living, task: _Task, costs: Array, low: Array) -> _Living:
    """Put a newborn row into all other lists: by costs where computed, else bounds."""
    row = task.row
    exact = costs < jnp.inf
    slot = jnp.full(len(costs), row)
    key = living.key[row] + living.key
    listed = living.key[None] + living.key[living.lists.slot]
    bound = jnp.where(task.new, jnp.where(exact, costs, low), jnp.inf)
    lists = with_pairs(living.lists, (bound, slot, exact), (key, listed))
    return living._replace(lists=lists)


def _search(
    tools: _Tools, clusters: _Clusters, living: _Living, task: _Task
) -> tuple[Array, Array]:
    """Compute the costs of a row with its few nearest, and bounds with all others.

    Args:
        tools: The model and its bounds.
        clusters: States and features by slot.
        living: Which slots hold living clusters, and their lists.
        task: Which row, or which pair.

    Returns:
        Costs `[slots]`, inf where not computed, and bounds, inf where there is no pair.
    """
    lists, states, row = living.lists, clusters.states, task.row
    none = jnp.full(lists.bound.shape[1], jnp.inf, lists.bound.dtype)
    bounds = jax.lax.cond(
        task.named,
        lambda: none.at[lists.slot[0, row]].set(0),
        lambda: _bounds_of(tools.screen, clusters.features, living.alive, row).astype(
            none.dtype
        ),
    )
    size, most = len(none), jnp.finfo(jnp.float32).max

    def is_open(low, least):
        return (low <= least[-1]) & (low < jnp.inf)

    def nearest(low, least):
        order = jnp.where(is_open(low, least), jnp.minimum(low, most), jnp.inf)
        urgency, place = jax.lax.top_k(-order.astype(jnp.float32), _BATCH)
        return jnp.where(urgency > -jnp.inf, place, size)

    def evaluate(carry):
        low, cost, least, seen = carry
        # Past so many, bounds do not tell pairs apart: in the order of slots.
        place = jax.lax.cond(
            seen < _MANY,
            nearest,
            lambda *_: seen - _MANY + jnp.arange(_BATCH, dtype=jnp.int32),
            low,
            least,
        )
        there = low.at[place].get(mode="fill", fill_value=jnp.inf) < jnp.inf
        costs = _pair_costs(tools.model, states, row, place)
        costs = jnp.where(there, costs, jnp.inf)
        place = jnp.where(there, place, size)
        cost = cost.at[place].set(costs, mode="drop")
        low = low.at[place].set(jnp.inf, mode="drop")
        least = jnp.sort(jnp.concatenate([least, costs]))[: len(least)]
        return low, cost, least, seen + _BATCH

    start = bounds, none, none[: len(lists.bound)], jnp.int32(0)
    found = jax.lax.while_loop(lambda c: jnp.any(is_open(c[0], c[2])), evaluate, start)
    return found[1], bounds


def _bounds_of(screen: Screen, features: PyTree, alive: Array, row: Array) -> Array:
    """Return lower bounds of a row with all slots, inf where there is no pair.

    Slots that are not in use are screened too: to cut them off takes longer.
    """
    cut = lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, row, 1, axis=-1)
    one = _slots_first(jax.tree.map(cut, features))
    low = screen.against(one)(_slots_first(features))[0]
    # NaN, or what overflowed on the way, says nothing of the cost.
    low = jnp.where((low > 0) & (low < jnp.inf), low, 0)
    there = alive & (jnp.arange(len(alive)) != row)
    return jnp.where(there, low, jnp.inf)


def _pair_costs(model: ClusterModel, states: PyTree, row: Array, place: Array) -> Array:
    """Return costs of a row with the clusters in places, the lower slot first."""
    place = jnp.minimum(place, len(jax.tree.leaves(states)[0]) - 1)
    low, high = jnp.minimum(place, row), jnp.maximum(place, row)
    return searchable(model.search_cost(take(states, low), take(states, high)))

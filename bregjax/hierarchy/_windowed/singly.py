"""Merges one at a time, many of them in one compiled program.

Where unions come nearer to others than their parts were, rounds of simultaneous merges
are no longer greedy's, and a window of them may be undone as often as not. One merge
here takes one row of bounds, and a few costs, against all clusters; the host is asked
for nothing in between. Example, four clusters of which each keeps its nearest: merging
a and b, nearest to each other, forgets them in the list of c, whose bound stays; one
row of bounds finds the nearest of ab, and whether c or d have it as theirs. Only when
the bound of c comes first is the row of c searched again.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._typing import Array, PyTree
from bregjax.clusters.base import ClusterModel
from bregjax.clusters.screens import Screen
from bregjax.hierarchy._search import searchable, take
from bregjax.hierarchy._windowed.lists import (
    Lists,
    first_by_key,
    first_place,
    of_costs,
    revalued,
    with_pairs,
    without,
    without_names,
)
from bregjax.hierarchy._windowed.nearest import mixed

__all__ = ["Known", "Made", "merge_singly"]

# Pairs of a row whose costs are computed at once; and how many of them are, the least
# bounds first, before those left follow in the order of slots.
_BATCH, _MANY = 16, 256
# Past the last slot.
_NOWHERE = 2**30


class Known(NamedTuple):
    """What is known of the clusters in slots: `Frontier`, on a device.

    Attributes:
        alive: Slots that hold a cluster not yet merged, `[slots]`.
        key: Numbers that break ties, `[slots]`, uint32.
        bound: Costs of the nearest few or lower bounds, `[k, slots]`; see `Nearest`.
        slot: With whom, where exact.
        exact: Whether a living cluster costs just that.
    """

    alive: Array
    key: Array
    bound: Array
    slot: Array
    exact: Array


class Made(NamedTuple):
    """Merges made, in order, `[most]`; the union of each is in the next free slot.

    Attributes:
        first: Slots of one part.
        second: Slots of the other.
        cost: Costs.
        rescans: How many rows were searched again, a number.
    """

    first: Array
    second: Array
    cost: Array
    rescans: Array


class _Clusters(NamedTuple):
    """States of the clusters in slots, and features with these last, `[..., slots]`.

    A row of bounds works on one coordinate of all slots after the other: twice as
    fast where they lie side by side.
    """

    states: PyTree
    features: PyTree


class _Frontier(NamedTuple):
    """Who lives, what breaks ties, and the lists."""

    alive: Array
    key: Array
    lists: Lists


class _Task(NamedTuple):
    """What is to be found out next.

    Attributes:
        row: The slot whose nearest are to be found.
        new: Whether it holds a union that is still to be written there.
        named: Whether the cost of the first pair in its list is all that is wanted.
        union: State and features of the union, `[1, ...]`.
    """

    row: Array
    new: Array
    named: Array
    union: _Clusters


class _Tools(NamedTuple):
    """What stays the same throughout."""

    model: ClusterModel
    screen: Screen
    dtype: jnp.dtype


@functools.partial(
    jax.jit,
    static_argnames=("dtype", "most"),
    donate_argnames=("states", "features", "known"),
)
def merge_singly(
    model: ClusterModel,
    screen: Screen,
    states: PyTree,
    features: PyTree,
    known: Known,
    sizes: tuple[Array, Array],
    dtype: jnp.dtype,
    most: int,
) -> tuple[PyTree, PyTree, Known, Made]:
    """Make merges as greedy does, always the first pair by cost and key.

    Args:
        model: The cluster model.
        screen: Bounds of its costs.
        states: In slots.
        features: What bounds need of these.
        known: The nearest of all clusters, as far as known.
        sizes: How many slots are used, and how many merges to make: at most `most`, as
            many as there are free slots, and one less than clusters.
        dtype: Precision of features.
        most: Size of what is returned.

    Returns:
        States and features with unions in the slots from the first free one on, what
        is known then, and the merges.
    """
    used, count = sizes
    tools = _Tools(model, screen, dtype)

    def step(carry):
        done, clusters, frontier, made, task, _ = carry
        end = used + done
        clusters = _written(clusters, task.union, _at(task.new, task.row))
        found = _search(tools, clusters, frontier, task)
        frontier = _told(frontier, task, found[0])
        frontier = _learned(frontier, task, *found)
        row, settled = _front(frontier)
        first, second = row, frontier.lists.slot[0, row]
        new, place = settled & (done < count), _at(settled, done)
        named = frontier.lists.named[0, row] & ~settled
        made = Made(
            made.first.at[place].set(first, mode="drop"),
            made.second.at[place].set(second, mode="drop"),
            made.cost.at[place].set(frontier.lists.bound[0, row], mode="drop"),
            made.rescans + ~(settled | named | (done == count)),
        )
        union = _united(tools, clusters, first, second)
        parts = _at(new, first), _at(new, second)
        frontier = _renewed(frontier, *parts, _at(new, end))
        task = _Task(jnp.where(new, end, row), new, named, union)
        # Also the last union has been searched for then.
        return done + new, clusters, frontier, made, task, done == count

    none = jnp.zeros(most, jnp.int32)
    made = Made(none, none, jnp.zeros(most, known.bound.dtype), jnp.int32(0))
    lists = Lists(known.bound, known.slot, known.exact, known.exact)
    frontier = _Frontier(known.alive, known.key, lists)
    clusters = _Clusters(states, _slots_last(features))
    # Something to begin with: one row, whose nearest are known, is searched again.
    places = jnp.arange(len(known.alive), dtype=jnp.int32)
    row, no = first_place(known.alive, places), jnp.bool(False)
    task = _Task(row, no, no, take(_Clusters(states, features), row[None]))
    start = jnp.int32(0), clusters, frontier, made, task, no
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
    """A place, where true; else one that does not exist."""
    return jnp.where(true, place, _NOWHERE)


def _front(frontier: _Frontier) -> tuple[Array, Array]:
    """The row whose list comes first, and whether it begins with a cost.

    Of several those first whose lists begin with bounds: of a pair, whose cost is to be
    computed, or of all the rest, so that the row is to be searched again.
    """
    places = jnp.arange(len(frontier.alive), dtype=jnp.int32)
    bound = jnp.where(frontier.alive, frontier.lists.bound[0], jnp.inf)
    level = frontier.alive & (bound == jnp.min(bound))
    unsettled = first_place(level & ~frontier.lists.exact[0], places)
    settled = unsettled == len(places)
    key = frontier.key + frontier.key[frontier.lists.slot[0]]
    return jnp.where(settled, first_by_key(level, key, places), unsettled), settled


def _united(
    tools: _Tools, clusters: _Clusters, first: Array, second: Array
) -> _Clusters:
    """State and features of the union of two slots, `[1, ...]`."""
    low, high = jnp.minimum(first, second)[None], jnp.maximum(first, second)[None]
    parts = take(clusters.states, low), take(clusters.states, high)
    union = tools.model.union(*parts)
    return _Clusters(union, tools.screen.features(union, tools.dtype))


def _written(clusters: _Clusters, new: _Clusters, slot: Array) -> _Clusters:
    """Clusters with another in a slot.

    In place: what reads the arrays in the same step, and is not what is written now,
    has to come after, or XLA copies them all.
    """

    def put(all_: Array, one: Array) -> Array:
        return all_.at[slot].set(one[0].astype(all_.dtype), mode="drop")

    def put_last(all_: Array, one: Array) -> Array:
        return all_.at[..., slot].set(one[0].astype(all_.dtype), mode="drop")

    return _Clusters(
        jax.tree.map(put, clusters.states, new.states),
        jax.tree.map(put_last, clusters.features, new.features),
    )


def _renewed(
    frontier: _Frontier, first: Array, second: Array, slot: Array
) -> _Frontier:
    """Forget two clusters that have merged; their union lives in a slot."""
    alive, key, lists = frontier
    alive = alive.at[first].set(False, mode="drop").at[second].set(False, mode="drop")
    alive = alive.at[slot].set(True, mode="drop")
    both = key.at[first].get(mode="clip") + key.at[second].get(mode="clip")
    key = key.at[slot].set(mixed(both), mode="drop")
    return _Frontier(alive, key, without(without(lists, first), second))


def _told(frontier: _Frontier, task: _Task, costs: Array) -> _Frontier:
    """Take the nearest of a row; or, where that was all, the cost of its first pair."""
    row, lists = task.row, frontier.lists
    key = frontier.key[row] + frontier.key
    found = of_costs(key, costs, len(lists.bound))
    own = Lists(*(values[:, row] for values in lists))
    valued = revalued(own, costs[own.slot[0]], key)

    def put(values: Array, one: Array, other: Array) -> Array:
        return values.at[:, row].set(jnp.where(task.named, one, other))

    return frontier._replace(lists=jax.tree.map(put, lists, valued, found))


def _learned(frontier: _Frontier, task: _Task, costs: Array, low: Array) -> _Frontier:
    """Let all others take note of a new row: costs where known, bounds elsewhere."""
    row = task.row
    exact = costs < jnp.inf
    slot = jnp.full(len(costs), row)
    key = frontier.key[row] + frontier.key
    listed = frontier.key[None] + frontier.key[frontier.lists.slot]
    bound = jnp.where(task.new, jnp.where(exact, costs, low), jnp.inf)
    lists = with_pairs(frontier.lists, (bound, slot, exact), (key, listed))
    return frontier._replace(lists=lists)


def _search(
    tools: _Tools, clusters: _Clusters, frontier: _Frontier, task: _Task
) -> tuple[Array, Array]:
    """Costs of a row with its nearest few, and bounds of all others.

    Args:
        tools: What costs are.
        clusters: In slots.
        frontier: Who lives.
        task: Which row.

    Returns:
        Costs `[slots]`, inf where not known, and bounds, inf where there is no pair.
    """
    lists, states, row = frontier.lists, clusters.states, task.row
    none = jnp.full(lists.bound.shape[1], jnp.inf, lists.bound.dtype)
    bounds = jax.lax.cond(
        task.named,
        lambda: none.at[lists.slot[0, row]].set(0),
        lambda: _bounds_of(tools.screen, clusters.features, frontier.alive, row).astype(
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
        # Where there is no end to those that may be near, one after the other.
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
    """Lower bounds of a row against all slots, inf where there is no pair, `[slots]`.

    Of those not in use too: it takes longer to cut them off.
    """
    cut = lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, row, 1, axis=-1)
    one = _slots_first(jax.tree.map(cut, features))
    low = screen.against(one)(_slots_first(features))[0]
    # Where NaN, or overflown on the way, nothing is known.
    low = jnp.where((low > 0) & (low < jnp.inf), low, 0)
    there = alive & (jnp.arange(len(alive)) != row)
    return jnp.where(there, low, jnp.inf)


def _pair_costs(model: ClusterModel, states: PyTree, row: Array, place: Array) -> Array:
    """Costs of a row with the clusters in places, the lower slot first."""
    place = jnp.minimum(place, len(jax.tree.leaves(states)[0]) - 1)
    low, high = jnp.minimum(place, row), jnp.maximum(place, row)
    return searchable(model.merge_cost(take(states, low), take(states, high)))

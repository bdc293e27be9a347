"""The few nearest of clusters on a device, by arrays over all of them.

As `nearest.Nearest`, but a pair may also stand in a list by a lower bound of its cost:
most of what a new union could be the nearest of is never asked for it. Example, a list
of two with costs 3 and 5. A pair of bound 4 comes between and 5 is dropped; all pairs
that are not listed cost at least 4. If 3 goes, the cost of the pair comes first, and is
computed: where it is 4.2, what costs between 4 and 4.2 is unknown, and the row is to be
searched again; its bound is 4 until then.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._typing import Array

__all__ = [
    "Lists",
    "first_by_key",
    "first_place",
    "of_costs",
    "revalued",
    "with_pairs",
    "without",
    "without_names",
]


class Lists(NamedTuple):
    """Of the cluster in each slot a few others, in order of cost as far as known.

    Those named come first; all others but these cost at least the last bound.

    Attributes:
        bound: Costs or lower bounds, `[k, slots]`.
        slot: With whom, where named.
        named: Whether the bound is that of one pair, `slot` tells of which.
        exact: Whether it is the pair's cost.
    """

    bound: Array
    slot: Array
    named: Array
    exact: Array


def without_names(lists: Lists) -> tuple[Array, Array, Array]:
    """Lists whose bounds, from the first that is no cost on, equal that."""
    exact = jax.lax.cumsum((~lists.exact).astype(jnp.int32)) == 0
    bound, last = lists.bound, lists.bound[-1]
    for level in reversed(range(len(bound))):
        last = jnp.where(exact[level], last, lists.bound[level])
    return jnp.where(exact, bound, last), lists.slot, exact


def first_place(true: Array, places: Array) -> Array:
    """The first place where true; past all, if none."""
    return jnp.min(jnp.where(true, places, len(places)))


def first_by_key(level: Array, key: Array, places: Array) -> Array:
    """Of places where true the one with the least key, and the first of these."""
    last = jnp.array(jnp.iinfo(key.dtype).max, key.dtype)
    least = jnp.min(jnp.where(level, key, last))
    return first_place(level & (key == least), places)


def without(lists: Lists, dead: Array) -> Lists:
    """Where one has gone those after it step up; the last bound stays."""
    gone = lists.named & (lists.slot == dead)
    gone = jax.lax.cumsum(gone.astype(jnp.int32)) > 0
    no = jnp.zeros_like(lists.named[0])

    def stepped(values: Array, last: Array) -> Array:
        return jnp.where(gone, jnp.concatenate([values[1:], last[None]]), values)

    return Lists(
        stepped(lists.bound, lists.bound[-1]),
        stepped(lists.slot, lists.slot[-1]),
        stepped(lists.named, no),
        stepped(lists.exact, no),
    )


def with_pairs(
    lists: Lists, pairs: tuple[Array, Array, Array], key: tuple[Array, Array]
) -> Lists:
    """Put one pair into each list where it belongs; those after it step down.

    Args:
        lists: Lists.
        pairs: Costs or bounds, slots, and whether they are costs, `[slots]`.
        key: Those of the pairs, `[slots]`, and of those in the lists, `[k, slots]`.
    """
    bound, slot, exact = (values[None] for values in pairs)
    # What costs as much as a mere bound may come after a pair not known of; a bound is
    # looked into before a cost that is as large.
    first = ~exact | (lists.exact & (key[0][None] < key[1]))
    before = (bound < lists.bound) | ((bound == lists.bound) & first)
    before = before & (bound < jnp.inf)
    after = jnp.concatenate([jnp.zeros_like(before[:1]), before[:-1]])

    def put(values: Array, new: Array) -> Array:
        down = jnp.where(after, jnp.roll(values, 1, axis=0), values)
        return jnp.where(before & ~after, new, down)

    return Lists(
        put(lists.bound, bound),
        put(lists.slot, slot),
        put(lists.named, jnp.ones_like(exact)),
        put(lists.exact, exact),
    )


def of_costs(key: Array, costs: Array, depth: int) -> Lists:
    """The nearest of a row by cost, key and slot, `[k]`."""
    places = jnp.arange(len(costs), dtype=jnp.int32)
    found = []
    for _ in range(depth):
        least = jnp.min(costs)
        place = first_by_key(costs == least, key, places)
        found.append((least, place, least < jnp.inf))
        costs = costs.at[place].set(jnp.inf)
    bound, slot, exact = map(jnp.stack, zip(*found, strict=True))
    return Lists(bound, slot, exact, exact)


def revalued(one: Lists, cost: Array, key: Array) -> Lists:
    """A list `[k]` whose first pair turns out to cost so much.

    Args:
        one: The list.
        cost: The cost.
        key: Keys of the list's row with all slots.
    """
    one = jax.tree.map(lambda values: values[:, None], one)
    slot = one.slot[0]
    one = without(one, slot[0])
    pair = cost[None], slot, jnp.ones_like(one.exact[0])
    one = with_pairs(one, pair, (key[slot], key[one.slot]))
    return jax.tree.map(lambda values: values[:, 0], one)

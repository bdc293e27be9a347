"""The few nearest of clusters on a device, by arrays over all of them.

As in `neighbours/nearest.py`, but an entry may also be the lower bound of one pair: of
all that a newborn cluster may be near to, most costs are never computed. Example, a
list of two, of costs 3 and 5:

    event                              bounds   pairs       costs
    a pair of bound 4 is added         3, 4     both        the first
    the pair of cost 3 dies            4, 4     the first   none
    the first is evaluated: 4.2        4, 4     none        none

In the last row the pair is dropped, because what is not listed may cost between 4 and
4.2, and the row has to be searched again.
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
    """A few pairs of the cluster in each slot, in order of their costs or bounds.

    Entries that name a pair come first; all pairs that are not named cost at least the
    last bound.

    Attributes:
        bound: Costs or lower bounds, `[k, slots]`.
        slot: With which cluster, where named.
        named: Whether the bound is that of one pair, the one with `slot`.
        exact: Whether the bound is the pair's cost.
    """

    bound: Array
    slot: Array
    named: Array
    exact: Array


def without_names(lists: Lists) -> tuple[Array, Array, Array]:
    """Return lists as `Nearest` has them: bounds that are no costs are equal."""
    exact = jax.lax.cumsum((~lists.exact).astype(jnp.int32)) == 0
    bound, last = lists.bound, lists.bound[-1]
    for level in reversed(range(len(bound))):
        last = jnp.where(exact[level], last, lists.bound[level])
    return jnp.where(exact, bound, last), lists.slot, exact


def first_place(true: Array, places: Array) -> Array:
    """Return the first place where true; past all, if none."""
    return jnp.min(jnp.where(true, places, len(places)))


def first_by_key(level: Array, key: Array, places: Array) -> Array:
    """Return the place of least key where true, and of several the first."""
    last = jnp.array(jnp.iinfo(key.dtype).max, key.dtype)
    least = jnp.min(jnp.where(level, key, last))
    return first_place(level & (key == least), places)


def without(lists: Lists, dead: Array) -> Lists:
    """Drop a dead cluster from lists: later entries step up, the last bound stays."""
    after = lists.named & (lists.slot == dead)
    after = jax.lax.cumsum(after.astype(jnp.int32)) > 0
    no = jnp.zeros_like(lists.named[0])

    def stepped(values: Array, last: Array) -> Array:
        return jnp.where(after, jnp.concatenate([values[1:], last[None]]), values)

    return Lists(
        stepped(lists.bound, lists.bound[-1]),
        stepped(lists.slot, lists.slot[-1]),
        stepped(lists.named, no),
        stepped(lists.exact, no),
    )


def with_pairs(
    lists: Lists, pairs: tuple[Array, Array, Array], key: tuple[Array, Array]
) -> Lists:
    """Put one pair into each list where it belongs; later entries step down.

    Args:
        lists: Lists.
        pairs: Costs or bounds, slots, and whether these are costs, `[slots]`.
        key: Keys of the pairs, `[slots]`, and of those in the lists, `[k, slots]`.
    """
    bound, slot, exact = (values[None] for values in pairs)
    # A mere bound of the same size may stand for a pair of a lesser key. So a bound
    # comes before a cost of its size, and is looked into first.
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
    """Return the list of a row, its nearest by cost, key and slot, `[k]`."""
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
    """Replace the bound of a list's first pair by its cost.

    Args:
        one: The list, `[k]`.
        cost: The cost.
        key: Keys of pairs of the list's row with all slots.
    """
    one = jax.tree.map(lambda values: values[:, None], one)
    slot = one.slot[0]
    one = without(one, slot[0])
    pair = cost[None], slot, jnp.ones_like(one.exact[0])
    one = with_pairs(one, pair, (key[slot], key[one.slot]))
    return jax.tree.map(lambda values: values[:, 0], one)

"""Rules for primitives that order many values: reductions, sorts, windows.

For x = (1, 1, 0) along v = (2, 3, 9) the two ones tie, and the larger slope decides
for small τ > 0: max has the slope 3, argmax is 1, and sort takes the entries in the
order 2, 0, 1, with the slopes 9, 2 and 3.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from bregjax._typing import Array
from bregjax.convex._directional.ray import Doubt, Doubts, Ray, later, unknown
from bregjax.convex._directional.rules import Rule, bends_at, maximum


def _negated(ray: Ray) -> Ray:
    return ray.map(lax.neg)


def _reduce_max(x: Ray, axes: Sequence[int]) -> Ray:
    """Max over axes; its slope is the largest among entries that attain the maximum."""
    axes = tuple(axes)
    value = jnp.max(x.value, axes, keepdims=True)

    def largest(part: Array, among: Array) -> Array:
        top = jnp.max(jnp.where(among, part, -jnp.inf), axes, keepdims=True)
        return jnp.where(jnp.isnan(value), jnp.nan, top)

    attain = x.value == value
    slope = largest(x.first(), attain)
    squeezed = lambda part: lax.squeeze(part, axes)
    if x.is_affine:
        return Ray(squeezed(value), squeezed(slope))

    def bend() -> Array:
        return squeezed(largest(x.second(), attain & (x.first() == slope)))

    return Ray(squeezed(value), squeezed(slope), later(bend))


def _reduce_max_rule(doubts, eqn, rays):
    del doubts
    return [_reduce_max(rays[0], eqn.params["axes"])]


def _reduce_min_rule(doubts, eqn, rays):
    del doubts
    return [_negated(_reduce_max(_negated(rays[0]), eqn.params["axes"]))]


def _argmax(x: Ray, eqn: Any) -> Ray:
    """The first index whose entry is largest for small τ > 0."""
    axes, kind = eqn.params["axes"], eqn.params["index_dtype"]

    def keep_largest(part: Array, among: Array) -> Array:
        part = jnp.where(among, part, -jnp.inf)
        return among & (part == jnp.max(part, axes, keepdims=True))

    here = jnp.ones(x.value.shape, bool)
    attain = keep_largest(x.first(), keep_largest(x.value, here))
    several = jnp.sum(attain, axes, keepdims=True) > 1
    mask = None
    if not x.is_affine:
        (bend,) = bends_at(several, x)
        attain = jnp.where(several, keep_largest(bend, attain), attain)
        count = jnp.sum(attain, axes)
        # Several are left at a tie to second order, none if a slope or bend is NaN.
        nan = jnp.any(jnp.isnan(x.value), axes)
        mask = (count != 1) & ~nan
    index = lax.argmax(attain, axes[0], kind)
    # lax.argmax of the values finds NaN first, as the primitive does.
    plain = lax.argmax(x.value, axes[0], kind)
    return Ray(jnp.where(jnp.any(jnp.isnan(x.value), axes), plain, index), mask)


def _argmax_rule(doubts, eqn, rays):
    del doubts
    return [_argmax(rays[0], eqn)]


def _argmin_rule(doubts, eqn, rays):
    del doubts
    return [_argmax(_negated(rays[0]), eqn)]


def _order(keys: Sequence[Ray], axis: int) -> tuple[Array, Array | None]:
    """Stable permutation that sorts the keys for small τ > 0, and undecided places."""
    parts: list[Array] = []
    for key in keys:
        parts.append(key.value)
        if key.is_active:
            parts.append(key.first())
            if not key.is_affine:
                parts.append(key.second())
    place = lax.broadcasted_iota(jnp.int32, keys[0].value.shape, axis)
    *parts, order = lax.sort(
        (*parts, place), dimension=axis, is_stable=True, num_keys=len(parts)
    )
    firm = [key.is_affine for key in keys]
    if all(firm):
        return order, None
    # Neighbours that tie up to the first key with a bend stay undecided.
    used = 0
    for key in keys[: firm.index(False) + 1]:
        used += 1 + key.is_active + (not key.is_affine)
    tied = jnp.ones((), bool)
    for part in parts[:used]:
        left = lax.slice_in_dim(part, 0, part.shape[axis] - 1, axis=axis)
        right = lax.slice_in_dim(part, 1, part.shape[axis], axis=axis)
        same = (left == right) | (jnp.isnan(left) | jnp.isnan(right))
        if part is parts[0]:
            same = left == right
        tied = tied & same
    edge = [(0, 0)] * place.ndim
    edge[axis] = (1, 1)
    padded = jnp.pad(tied, edge)
    size = place.shape[axis]
    before = lax.slice_in_dim(padded, 0, size, axis=axis)
    return order, before | lax.slice_in_dim(padded, 1, size + 1, axis=axis)


def _sorted_values(doubts: Doubts, ray: Ray, order: Array, axis: int) -> Ray:
    """The first key in the new order; a slope of NaN makes slopes at ties NaN."""
    moved = _carried(doubts, ray, order, axis, None)
    if ray.is_affine:
        return moved
    same = jnp.diff(moved.value, axis=axis) == 0
    edge = [(0, 0)] * same.ndim
    edge[axis] = (1, 1)
    tied = jnp.pad(same, edge)
    size = moved.value.shape[axis]
    tied = lax.slice_in_dim(tied, 0, size, axis=axis) | lax.slice_in_dim(
        tied, 1, size + 1, axis=axis
    )
    spoiled = jnp.any(jnp.isnan(moved.first()), axis, keepdims=True)
    slope = jnp.where(tied & spoiled, jnp.nan, moved.first())
    return Ray(moved.value, slope, moved.bend)


def _carried(doubts: Doubts, ray: Ray, order: Array, axis: int, loose: Any) -> Ray:
    """One operand in the new order; `loose` marks undecided places."""
    take = lambda part: jnp.take_along_axis(part, order, axis)
    if not ray.is_float:
        mask = None if ray.slope is None else take(ray.slope)
        if loose is not None:
            mask = loose if mask is None else mask | loose
        return Ray(take(ray.value), mask)
    moved = ray.map(take)
    if loose is None:
        return moved
    slope = doubts.poison(moved.first(), loose, Doubt.TIE)
    bend = later(lambda: jnp.where(loose, jnp.nan, moved.second()))
    return Ray(moved.value, slope, bend)


def _sort_rule(doubts, eqn, rays):
    axis, num_keys = eqn.params["dimension"], eqn.params["num_keys"]
    if len(rays) == 1 and rays[0].value.shape[axis] == 0:
        return list(rays)
    if len(rays) == 1:
        # The output has values alone: the order of two equal rays does not matter.
        order, _ = _order(rays, axis)
        return [_sorted_values(doubts, rays[0], order, axis)]
    order, loose = _order(rays[:num_keys], axis)
    open_keys = [key.slope for key in rays[:num_keys] if not key.is_float]
    for mask in open_keys:
        if mask is not None:
            anywhere = jnp.broadcast_to(jnp.any(mask), order.shape)
            loose = anywhere if loose is None else loose | anywhere
    first = _sorted_values(doubts, rays[0], order, axis)
    return [first] + [_carried(doubts, ray, order, axis, loose) for ray in rays[1:]]


def _top_k_rule(doubts, eqn, rays):
    (x,) = rays
    axis = eqn.params.get("axis", x.value.ndim - 1) % x.value.ndim
    order, loose = _order([_negated(x)], axis)
    # NaN counts as largest in top_k and as last in a sort; its slope means nothing.
    _, plain = eqn.primitive.bind(x.value, **eqn.params)
    cut = lambda part: lax.slice_in_dim(part, 0, eqn.params["k"], axis=axis)
    nan = jnp.any(jnp.isnan(x.value), axis, keepdims=True)
    values = _sorted_values(doubts, x, order, axis).map(cut)
    order = jnp.where(nan, plain, cut(order))
    return [values, Ray(order, None if loose is None else cut(loose))]


def _cumulative_max(x: Ray, axis: int, reverse: Any) -> Ray:
    def larger(a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
        top = maximum(_as_ray(a), _as_ray(b))
        return (top.value, top.first(), top.second())[: len(a)]

    def scan(*parts: Array) -> tuple[Array, ...]:
        return lax.associative_scan(larger, parts, reverse=reverse, axis=axis)

    value, slope = scan(x.value, x.first())
    if x.is_affine:
        return Ray(value, slope)
    return Ray(value, slope, later(lambda: scan(x.value, x.first(), x.second())[2]))


def _as_ray(parts: tuple[Array, ...]) -> Ray:
    value, slope, *bend = parts
    return Ray(value, slope, (lambda: bend[0]) if bend else None)


def _cummax_rule(doubts, eqn, rays):
    del doubts
    return [_cumulative_max(rays[0], eqn.params["axis"], eqn.params["reverse"])]


def _cummin_rule(doubts, eqn, rays):
    del doubts
    flipped = _negated(rays[0])
    top = _cumulative_max(flipped, eqn.params["axis"], eqn.params["reverse"])
    return [_negated(top)]


def _window_max(x: Ray, params: dict[str, Any]) -> Ray:
    def larger(a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
        top = maximum(_as_ray(a), _as_ray(b))
        return top.value, top.first()

    low = jnp.array(-jnp.inf, x.value.dtype)
    value, slope = lax.reduce_window(
        (x.value, x.first()),
        (low, low),
        larger,
        params["window_dimensions"],
        params["window_strides"],
        params["padding"],
        params["base_dilation"],
        params["window_dilation"],
    )
    return Ray(value, slope, None if x.is_affine else unknown(value))


def _window_max_rule(doubts, eqn, rays):
    del doubts
    return [_window_max(rays[0], eqn.params)]


def _window_min_rule(doubts, eqn, rays):
    del doubts
    return [_negated(_window_max(_negated(rays[0]), eqn.params))]


def _scatter_max(eqn: Any, base: Ray, index: Ray, update: Ray) -> Ray:
    """Scatter the values, then the slopes of entries that attain the maximum."""
    options = {
        "indices_are_sorted": eqn.params["indices_are_sorted"],
        "unique_indices": eqn.params["unique_indices"],
        "mode": eqn.params["mode"],
    }
    numbers = eqn.params["dimension_numbers"]
    value = lax.scatter_max(base.value, index.value, update.value, numbers, **options)
    add = lambda part: lax.scatter_add(
        jnp.zeros_like(base.value), index.value, part, numbers, **options
    )
    # The transpose of scatter-add reads the result back at each update's place.
    (there,) = jax.linear_transpose(add, update.value)(value)
    of_base = jnp.where(base.value == value, base.first(), -jnp.inf)
    of_update = jnp.where(update.value == there, update.first(), -jnp.inf)
    slope = lax.scatter_max(of_base, index.value, of_update, numbers, **options)
    affine = base.is_affine and update.is_affine
    return Ray(value, slope, None if affine else unknown(value))


def _scatter_max_rule(doubts, eqn, rays):
    base, index, update = rays
    top = _scatter_max(eqn, base, index, update)
    return [_open_index(doubts, top, index)]


def _scatter_min_rule(doubts, eqn, rays):
    base, index, update = rays
    top = _scatter_max(eqn, _negated(base), index, _negated(update))
    return [_open_index(doubts, _negated(top), index)]


def _open_index(doubts: Doubts, ray: Ray, index: Ray) -> Ray:
    if index.slope is None:
        return ray
    slope = doubts.poison(ray.first(), jnp.any(index.slope), Doubt.TIE)
    return Ray(ray.value, slope, unknown(slope))


ORDER_RULES: dict[str, Rule] = {
    "reduce_max": _reduce_max_rule,
    "reduce_min": _reduce_min_rule,
    "argmax": _argmax_rule,
    "argmin": _argmin_rule,
    "sort": _sort_rule,
    "top_k": _top_k_rule,
    "cummax": _cummax_rule,
    "cummin": _cummin_rule,
    "reduce_window_max": _window_max_rule,
    "reduce_window_min": _window_min_rule,
    "scatter-max": _scatter_max_rule,
    "scatter-min": _scatter_min_rule,
}

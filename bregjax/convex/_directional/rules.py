"""Rules for order and sign: max, min, abs, comparisons, select.

For a = (1, 2, 0) and b = (1, 2, 6), value, slope and bend, values and slopes tie: max
is (1, 2, 6), and a < b is True for small τ > 0 though a < b is False at τ = 0. If the
bend of b were unknown (NaN), the comparison would be undecided.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from bregjax._typing import Array
from bregjax.convex._directional.ray import (
    Doubt,
    Doubts,
    Ray,
    is_concrete,
    later,
    unknown,
)

Rule = Callable[[Doubts, Any, Sequence[Ray]], list[Ray]]


def _extremum(pick: Callable, wins: Callable, a: Ray, b: Ray) -> Ray:
    """The larger (or smaller) ray for small τ > 0; `wins` is the strict comparison."""
    value = pick(a.value, b.value)
    if not (a.is_active or b.is_active):
        return Ray(value)
    a_first, b_first = wins(a.value, b.value), wins(b.value, a.value)

    def chosen(of_a: Array, of_b: Array, at_tie: Array) -> Array:
        return jnp.where(a_first, of_a, jnp.where(b_first, of_b, at_tie))

    slope_a, slope_b = a.first(), b.first()
    slope = chosen(slope_a, slope_b, pick(slope_a, slope_b))
    if a.is_affine and b.is_affine:
        return Ray(value, slope)

    def bend() -> Array:
        bend_a, bend_b = a.second(), b.second()
        second = jnp.where(
            wins(slope_a, slope_b),
            bend_a,
            jnp.where(wins(slope_b, slope_a), bend_b, pick(bend_a, bend_b)),
        )
        return chosen(bend_a, bend_b, second)

    return Ray(value, slope, later(bend))


def maximum(a: Ray, b: Ray) -> Ray:
    """max(a, b): at a tie the larger slope."""
    return _extremum(lax.max, lax.gt, a, b)


def minimum(a: Ray, b: Ray) -> Ray:
    """min(a, b): at a tie the smaller slope."""
    return _extremum(lax.min, lax.lt, a, b)


def _max_rule(doubts, eqn, rays):
    del doubts, eqn
    return [maximum(*rays)]


def _min_rule(doubts, eqn, rays):
    del doubts, eqn
    return [minimum(*rays)]


def _clamp_rule(doubts, eqn, rays):
    del doubts, eqn
    low, x, high = (
        ray.map(lambda part: jnp.broadcast_to(part, rays[1].value.shape))
        for ray in rays
    )
    return [minimum(maximum(x, low), high)]


def abs_rule(doubts, eqn, rays):
    """|x|: at 0 the slope is |x'|, and where x' is 0 the bend is |x''|."""
    del doubts, eqn
    (x,) = rays
    slope = x.first()
    if jnp.iscomplexobj(x.value):
        zero = x.value == 0
        safe = jnp.where(zero, 1.0, x.value)
        smooth = jnp.real(jnp.conj(safe) * slope) / jnp.abs(safe)
        value = jnp.abs(x.value)
        return [Ray(value, jnp.where(zero, jnp.abs(slope), smooth), unknown(value))]
    sign = jnp.where(x.value == 0, lax.sign(slope), lax.sign(x.value))
    along = jnp.where(x.value == 0, lax.abs(slope), lax.sign(x.value) * slope)
    if x.is_affine:
        return [Ray(lax.abs(x.value), along)]

    def bend() -> Array:
        second = x.second()
        return jnp.where(sign == 0, lax.abs(second), sign * second)

    return [Ray(lax.abs(x.value), along, later(bend))]


def bends_at(tied: Array, *rays: Ray) -> tuple[Array, ...]:
    """The bends of the rays; zeros where values are known and nothing is tied."""
    if is_concrete(tied) and not bool(jnp.any(tied)):
        return tuple(jnp.zeros_like(ray.value) for ray in rays)
    return tuple(ray.second() for ray in rays)


def _comparison(compare: Callable) -> Rule:
    """The rule of a comparison: its answer for small τ > 0."""

    def rule(doubts, eqn, rays):
        del doubts
        a, b = rays
        plain = eqn.primitive.bind(a.value, b.value, **eqn.params)
        if eqn.invars[0] is eqn.invars[1]:
            return [Ray(plain)]
        tied = a.value == b.value
        if jnp.iscomplexobj(a.value):
            return [Ray(plain, tied)]
        slopes = a.first(), b.first()
        if a.is_affine and b.is_affine:
            return [Ray(jnp.where(tied, compare(*slopes), plain))]
        undecided = tied & ~((slopes[0] < slopes[1]) | (slopes[0] > slopes[1]))
        bends = bends_at(undecided, a, b)
        second = jnp.where(slopes[0] == slopes[1], compare(*bends), compare(*slopes))
        answer = jnp.where(tied, second, plain)
        decided = (slopes[0] == slopes[1]) & (
            (bends[0] < bends[1]) | (bends[0] > bends[1])
        )
        return [Ray(answer, undecided & ~decided)]

    return rule


def ray_sign(x: Ray) -> tuple[Array, Array]:
    """Sign of x for small τ > 0 (0 if x stays 0), and where the sign is undecided."""
    slope = x.first()
    sign = jnp.where(x.value == 0, lax.sign(slope), lax.sign(x.value))
    if x.is_affine:
        return sign, jnp.zeros(sign.shape, bool)
    open_ = (x.value == 0) & ~(jnp.abs(slope) > 0)
    (bend,) = bends_at(open_, x)
    sign = jnp.where(open_ & (slope == 0), lax.sign(bend), sign)
    return sign, open_ & ~((slope == 0) & (jnp.abs(bend) > 0))


def constant_piece(doubts: Doubts, value: Array, undecided: Array, x: Ray) -> Ray:
    """A piecewise constant value: slope 0, NaN where the piece is undecided."""
    slope = jnp.zeros_like(value)
    if x.is_affine:
        return Ray(value, slope)
    slope = doubts.poison(slope, undecided, Doubt.TIE)
    return Ray(value, slope, later(lambda: slope))


def _sign_rule(doubts, eqn, rays):
    del eqn
    sign, undecided = ray_sign(rays[0])
    return [constant_piece(doubts, sign, undecided, rays[0])]


def _select_rule(doubts, eqn, rays):
    which, *cases = rays
    pick = lambda *parts: lax.select_n(which.value, *parts)
    value = pick(*(case.value for case in cases))
    if not cases[0].is_float:
        mask = pick(*(case.mask() for case in cases))
        if which.slope is not None:
            differ = _differ([case.value for case in cases])
            mask = mask | (which.slope & differ)
        settled = which.slope is None and all(case.slope is None for case in cases)
        return [Ray(value, None if settled else mask)]
    if which.slope is None and not any(case.is_active for case in cases):
        return [Ray(value)]
    slopes = [case.first() for case in cases]
    slope = pick(*slopes)
    logarithmic = any(case.logarithmic for case in cases) and all(
        case.logarithmic or not case.is_active for case in cases
    )
    if which.slope is None:
        affine = all(case.is_affine for case in cases)
        bend = later(lambda: pick(*(case.second() for case in cases)))
        return [Ray(value, slope, None if affine else bend, logarithmic)]
    mask = which.slope
    differ = _differ([case.value for case in cases]) | _differ(slopes)
    slope = doubts.poison(slope, mask & differ, Doubt.TIE)

    def open_bend() -> Array:
        return jnp.where(mask, jnp.nan, pick(*(case.second() for case in cases)))

    return [Ray(value, slope, later(open_bend))]


def _differ(parts: Sequence[Array]) -> Array:
    different = jnp.zeros(parts[0].shape, bool)
    for part in parts[1:]:
        different = different | (part != parts[0])
    return different


RULES: dict[str, Rule] = {
    "max": _max_rule,
    "min": _min_rule,
    "clamp": _clamp_rule,
    "abs": abs_rule,
    "sign": _sign_rule,
    "select_n": _select_rule,
    "eq": _comparison(lax.eq),
    "ne": _comparison(lax.ne),
    "lt": _comparison(lax.lt),
    "le": _comparison(lax.le),
    "gt": _comparison(lax.gt),
    "ge": _comparison(lax.ge),
    "eq_to": _comparison(lax.eq),
    "lt_to": _comparison(lax.lt),
    "le_to": _comparison(lax.le),
}

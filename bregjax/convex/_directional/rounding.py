"""Rules for rounding, piecewise constant: the value is of the piece the ray enters.

At x = 2 along v = −1 floor is 1, the value for small τ > 0: x · floor(x) has the slope
−1 there, though it jumps.
"""

import jax.numpy as jnp
from jax import lax

from bregjax._typing import Array
from bregjax.convex._directional.ray import Doubt, Ray, unknown
from bregjax.convex._directional.rules import Rule, constant_piece, ray_sign


def _leaving(x: Ray, edge: Array) -> tuple[Array, Array]:
    """Sign of the way x leaves the edge of a step (else 0); where it is undecided."""
    beyond = Ray(jnp.where(edge, 0.0, 1.0).astype(x.value.dtype), x.first(), x.bend)
    sign, undecided = ray_sign(beyond)
    return jnp.where(edge, sign, 0.0).astype(x.value.dtype), undecided & edge


def _floor_rule(doubts, eqn, rays):
    del eqn
    (x,) = rays
    value = lax.floor(x.value)
    way, undecided = _leaving(x, value == x.value)
    return [constant_piece(doubts, jnp.where(way < 0, value - 1, value), undecided, x)]


def _ceil_rule(doubts, eqn, rays):
    del eqn
    (x,) = rays
    value = lax.ceil(x.value)
    way, undecided = _leaving(x, value == x.value)
    return [constant_piece(doubts, jnp.where(way > 0, value + 1, value), undecided, x)]


def _round_rule(doubts, eqn, rays):
    (x,) = rays
    value = eqn.primitive.bind(x.value, **eqn.params)
    low = lax.floor(x.value)
    way, undecided = _leaving(x, x.value - low == 0.5)
    value = jnp.where(way > 0, low + 1, jnp.where(way < 0, low, value))
    return [constant_piece(doubts, value, undecided, x)]


def _truncated(x: Ray) -> tuple[Array, Array]:
    """The value x rounded towards 0 for small τ > 0, and where it is undecided."""
    value = jnp.trunc(x.value)
    way, undecided = _leaving(x, (value == x.value) & (value != 0))
    inwards = way * lax.sign(value) < 0
    return jnp.where(inwards, value - lax.sign(value), value), undecided


def _convert_rule(doubts, eqn, rays):
    (x,) = rays
    kind = eqn.params["new_dtype"]
    if jnp.issubdtype(kind, jnp.inexact):
        convert = lambda part: lax.convert_element_type(part, kind)
        moved = x.map(convert)
        return [Ray(moved.value, moved.slope, moved.bend, x.logarithmic)]
    if jnp.issubdtype(kind, jnp.bool_):
        sign, undecided = ray_sign(x)
        value = (sign != 0) | (x.value != 0)
    else:
        value, undecided = _truncated(x)
    value = lax.convert_element_type(value, kind)
    return [Ray(value, None if x.is_affine else undecided)]


def _rem_rule(doubts, eqn, rays):
    """The remainder x − y trunc(x / y), with the quotient for small τ > 0."""
    x, y = rays
    value = lax.rem(x.value, y.value)
    ratio = lax.div(x.value - value, y.value)
    quotient = jnp.round(ratio)
    slope = x.first() - quotient * y.first()
    edge = (value == 0) & (quotient != 0)
    inwards = edge & (slope * lax.sign(x.value) < 0)
    slope = jnp.where(inwards, slope + lax.sign(quotient) * y.first(), slope)
    value = jnp.where(inwards, lax.sign(x.value) * lax.abs(y.value), value)
    if x.is_affine and not y.is_active:
        return [Ray(value, slope)]
    slope = doubts.poison(slope, edge & ~(jnp.abs(slope) > 0), Doubt.TIE)
    return [Ray(value, slope, unknown(value))]


ROUNDING_RULES: dict[str, Rule] = {
    "floor": _floor_rule,
    "ceil": _ceil_rule,
    "round": _round_rule,
    "rem": _rem_rule,
    "convert_element_type": _convert_rule,
}

"""Rules for roots, which at 0 depend on how the argument leaves 0.

At 0 the root of 4τ is 2τ^½, of slope +∞; that of 18τ²/2 is 3τ, of slope 3; that of a
constant 0 has slope 0.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.convex._directional.ray import Doubt, Doubts, Ray, later
from bregjax.convex._directional.rules import Rule, abs_rule, bends_at, ray_sign


def _root(doubts: Doubts, x: Ray, power: float, smooth: Callable) -> Ray:
    """x^power, 0 < power < 1, where smooth(x) computes it for x ≠ 0.

    At x = 0 the first term by which x grows decides: τt gives an infinite slope, τ²u/2
    gives (u/2)^power τ^(2 power). The root of an x which stays 0 is 0.
    """
    zero = x.value == 0
    safe = jnp.where(zero, 1.0, x.value)
    slope_in = jnp.where(zero, 0.0, x.first())
    value, slope = jax.jvp(smooth, (safe,), (slope_in,))
    value = jnp.where(zero, smooth(jnp.zeros_like(safe)), value)
    growth = x.first()
    level = zero & (growth == 0)
    half = jnp.zeros_like(growth) if x.is_affine else bends_at(zero, x)[0] / 2
    at_zero = jnp.where(level, _level_slope(half, power, smooth), jnp.inf)
    slope = jnp.where(zero, at_zero, slope)
    lost = zero & ~(growth >= 0)
    if not x.is_affine:
        # An x of o(τ²) has a root of o(τ) for powers from 1/2 on. A bend that
        # overflows, and a slope as small as that of a square which underflows, decide
        # nothing.
        lost |= level & ~((half > 0) & (half < jnp.inf) | (half == 0) & (power >= 0.5))
        lost |= (
            ~level & zero & (growth**2 <= 2e3 * jnp.finfo(x.value.dtype).tiny * half)
        )
    slope = doubts.poison(slope, lost, Doubt.ROOT)

    def bend() -> Array:
        smooth_slope = lambda p, t: jax.jvp(smooth, (p,), (t,))[1]
        second_in = jnp.where(zero, 0.0, x.second())
        _, second = jax.jvp(smooth_slope, (safe, slope_in), (slope_in, second_in))
        stays = x.is_affine & level
        return jnp.where(zero, jnp.where(stays, 0.0, jnp.nan), second)

    return Ray(value, slope, later(bend))


def _level_slope(half: Array, power: float, smooth: Callable) -> Array:
    """Slope of (half τ²)^power at τ = 0."""
    if power > 0.5:
        return jnp.zeros_like(half)
    curved = half > 0
    steep = smooth(jnp.where(curved, half, 1.0)) if power == 0.5 else jnp.inf
    return jnp.where(curved, steep, 0.0)


def _sqrt_rule(doubts, eqn, rays):
    smooth = lambda p: eqn.primitive.bind(p, **eqn.params)
    return [_root(doubts, rays[0], 0.5, smooth)]


def _cbrt_rule(doubts, eqn, rays):
    """|x|^(1/3) with the sign of x for small τ."""
    (x,) = rays
    smooth = lambda p: eqn.primitive.bind(p, **eqn.params)
    sign, _ = ray_sign(x)
    (size,) = abs_rule(doubts, eqn, rays)
    root = _root(doubts, size, 1 / 3, smooth)
    sign = jnp.where(sign == 0, 1.0, sign).astype(x.value.dtype)
    return [root.map(lambda part: sign * part)]


def power_rule(doubts: Doubts, eqn: Any, x: Ray, exponent: float) -> Ray:
    """x^exponent for a constant 0 < exponent < 1."""
    power = jnp.asarray(exponent, x.value.dtype)
    smooth = lambda p: eqn.primitive.bind(p, power, **eqn.params)
    return _root(doubts, x, exponent, smooth)


ROOT_RULES: dict[str, Rule] = {"sqrt": _sqrt_rule, "cbrt": _cbrt_rule}

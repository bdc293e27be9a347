"""Answers of the private solvers of the conjugate, and how exact they must be."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from bregjax._result import Result
from bregjax._typing import Array
from bregjax.convex._solvers.packing import totals

FlatFunction = Callable[[Array], Array]


class FlatSolution(NamedTuple):
    """Answer of a private solver, on raveled arrays.

    `theta` is finite in every case. `null` holds the overcomplete directions as
    orthonormal columns, the other columns zero, or is empty for the solvers that do not
    look for them.
    """

    theta: Array  # [n]
    value: Array
    result: Array
    num_steps: Array
    residual: Array
    null: Array  # [n, n] or [n, 0]


class Point(NamedTuple):
    """A point with the value and the derivatives of f there."""

    theta: Array  # [n]
    value: Array
    gradient: Array  # [n]
    curvature: Array  # [n, n]


def first_of(cases: list[tuple[Array, Result]], otherwise: Result) -> Array:
    """The code of the first case that holds, int32."""
    codes = [jnp.asarray(int(code), jnp.int32) for _, code in cases]
    last = jnp.asarray(int(otherwise), jnp.int32)
    return jnp.select([condition for condition, _ in cases], codes, last)


def conjugate_value(number: Array, result: Array, unbounded: Array) -> Array:
    """The number where the code stands for a value, +∞ where f* = +∞, NaN elsewhere."""
    boundary = result == Result.BOUNDARY
    infinite = (result == Result.OUTSIDE) | (boundary & unbounded)
    known = (result == Result.CONVERGED) | boundary
    return jnp.where(infinite, jnp.inf, jnp.where(known, number, jnp.nan))


def value_tolerance(dtype: jnp.dtype) -> float:
    """Share of |<y, θ>| + |f(θ)| that the error of a converged value stays under.

    Half of the accuracy promised (1e-10 in float64, 1e-5 in float32): the other half
    is left to what the error model of the solvers misses.
    """
    return 5e-11 if jnp.finfo(dtype).bits == 64 else 5e-6


def terms(y: Array, theta: Array, value: Array, gradient: Array) -> Array:
    """Size of what cancels in <y, θ> − f(θ): |<y, θ>| + |f(θ)|, never quite zero.

    A third summand is the change of the terms by a rounding of θ; it matters where
    both terms vanish, as for a log-sum-exp less log n at its center.
    """
    eps = jnp.finfo(theta.dtype).eps
    # Near a solution ∇f is y; away from it, next to a wall, ∇f may be anything.
    slope = jnp.minimum(jnp.abs(gradient), 1 + jnp.abs(y))
    slack = (jnp.abs(y) + slope) * (1 + jnp.abs(theta))
    inner, slack = totals(y * theta, slack)
    return jnp.abs(inner) + jnp.abs(value) + eps * slack


def inner_product(left: Array, right: Array) -> tuple[Array, Array]:
    """<left, right> as the unevaluated sum of two numbers, accurate to eps².

    Each factor is split into halves of half the digits, whose products are exact, and
    these are added by Knuth's sum. As they are exact, they are the same numbers where a
    compiler fuses them into sums. Where products nearly cancel, the roundings of the
    plain sum are those of Σ|y_i θ_i|, far above those of the result. For (1e4, −1e4)
    and (1.0001, 1) in float32 the plain sum is 1; the pair is 1 and 0.000166, as 1.0001
    is 1.0001000166 there. The plain sum and 0 where a product is not finite.

    References:
        OGITA, RUMP & OISHI (2005), Accurate Sum and Dot Product, SIAM Journal on
        Scientific Computing 26(6), Algorithms 4.4 (Sum2) and 5.3 (Dot2).
    """

    def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
        total = a + b
        part = total - a
        return total, (a - (total - part)) + (b - part)

    def halves(x: Array) -> tuple[Array, Array]:
        kind = jnp.finfo(x.dtype)
        high = jax.lax.reduce_precision(x, kind.nexp, kind.nmant // 2 - 1)
        return high, x - high

    def add(one: tuple[Array, Array], other: tuple[Array, Array]):
        high, low = two_sum(one[0], other[0])
        return high, low + (one[1] + other[1])

    (a, b), (c, d) = halves(left), halves(right)
    parts = jnp.concatenate([a * c, a * d, b * c, b * d])
    zero = jnp.zeros((), parts.dtype)
    total = jax.lax.reduce((parts, jnp.zeros_like(parts)), (zero, zero), add, (0,))
    # Next to the largest number, a half rounded up overflows before a product does.
    fine = jnp.isfinite(total[0]) & jnp.isfinite(total[1])
    plain = jnp.sum(left * right)
    return jnp.where(fine, total[0], plain), jnp.where(fine, total[1], 0)

"""What the private solvers of the conjugate hand back, and how exact it must be."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from bregjax._typing import Array

FlatFunction = Callable[[Array], Array]


class Outcome(NamedTuple):
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
    """A point and what f is there."""

    theta: Array  # [n]
    value: Array
    gradient: Array  # [n]
    curvature: Array  # [n, n]


def value_tolerance(dtype: jnp.dtype) -> float:
    """Share of |<y, θ>| + |f(θ)| that the error of a converged value stays under.

    Half of the accuracy promised (1e-10 in float64, 1e-5 in float32): the other half
    is left to what the error model of the solvers misses.
    """
    return 5e-11 if jnp.finfo(dtype).bits == 64 else 5e-6


def terms(y: Array, theta: Array, value: Array, gradient: Array) -> Array:
    """Size of what cancels in <y, θ> − f(θ): |<y, θ>| + |f(θ)|, never quite zero.

    The last summand is what a rounding of θ moves; it matters where both terms
    vanish, as for a log-sum-exp less log n at its centre.
    """
    eps = jnp.finfo(theta.dtype).eps
    slack = jnp.sum((jnp.abs(y) + jnp.abs(gradient)) * (1 + jnp.abs(theta)))
    return jnp.abs(jnp.sum(y * theta)) + jnp.abs(value) + eps * slack

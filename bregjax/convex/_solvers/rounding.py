"""The rounding of f, measured by moving its argument a little."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.convex._solvers import thresholds
from bregjax.convex._solvers.outcome import FlatFunction, value_tolerance


def jitter(theta: Array, pattern: Array) -> Array:
    """θ with each component moved by up to 16 roundings, in a fixed pattern."""
    eps = jnp.finfo(theta.dtype).eps
    return theta + 16 * eps * _waves(theta, pattern) * theta


def _waves(theta: Array, pattern: Array) -> Array:
    order = jnp.arange(theta.size, dtype=theta.dtype)
    return jnp.sin(1 + 12.9898 * order + 4.1414 * pattern.astype(theta.dtype))


def steadied(
    f: FlatFunction,
    theta: Array,
    value: Array,
    gradient: Array,
    bend: Callable[[Array], Array],
) -> tuple[Array, Array]:
    """f at a point with less rounding than one evaluation, and the standard error.

    The value is the mean over points a few roundings away, each less its change by the
    gradient and the curvature. Half of the points are roundings *of θ* away. The others
    are roundings of 1 away, or of θ where these are smaller: log(1 − exp θ) near 0 has
    plateaus of such a width, on which the first half would see no rounding at all. In
    the norm of H no point is so far away that the third order reaches the tolerance.

    The roundings are not independent: on 2,257 Gaussians of condition up to 1e6 in
    float32 the mean was off by 1.5 standard errors (root mean square), by more than 4.6
    in one of 100, by 15 at most; `CERTAINTY` makes up for it.

    Args:
        f: The function on raveled arrays.
        theta: The point, `[n]`.
        value: f at the point.
        gradient: ∇f at the point, `[n]`.
        bend: Gives dᵀHd for a move d.

    Returns:
        Two scalars.
    """
    samples = thresholds.SAMPLES
    eps = jnp.finfo(theta.dtype).eps
    radius = value_tolerance(theta.dtype) ** (1 / 3) / 4

    def sample(pattern: Array) -> Array:
        wave = _waves(theta, pattern)
        fine, coarse = 16 * eps * jnp.abs(theta), jnp.abs(theta) / 128
        coarse = jnp.minimum(coarse, jnp.maximum(2 * eps, fine))
        move = wave * jnp.where(pattern % 2 == 0, fine, coarse)
        length = jnp.sqrt(jnp.maximum(bend(move), 0))
        around = theta + move * jnp.minimum(1, radius / jnp.maximum(length, radius))
        move = around - theta
        expected = value + jnp.sum(move * gradient) + bend(move) / 2
        return f(around) - expected

    noise = jax.vmap(sample)(jnp.arange(samples, dtype=theta.dtype))
    mean = jnp.mean(noise)
    error = jnp.sqrt(jnp.sum((noise - mean) ** 2) / (samples * (samples - 1)))
    return value + jnp.where(jnp.isfinite(mean), mean, 0), error

"""Upper bounds of a separable conjugate by chords: a table instead of a solver.

Example: ψ*(μ) = μ log μ − μ, of counts, over means from 0 to 16 with K = 4 intervals in
the place of 1024. The knots 16 (k/4)² are 0, 1, 4, 9, 16 with ψ* = 0, −1, 1.545, 10.78,
28.36. The mean 2.5 lies in interval ⌊4 √(2.5/16)⌋ = 1, from 1 to 4, whose chord is
−1.848 + 0.848 μ: 0.273 at 2.5, where ψ* = −0.209. With 1024 intervals the chord from
2.4905 to 2.5028 is 5e-6 above ψ*.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._pytree import register_pytree
from bregjax._typing import Array

__all__ = ["ConjugateTable", "conjugate_table", "interpolated", "table_means"]

# Intervals a coordinate: few enough that their chords stay in the first cache of a
# core. At half, chords lie four times as far above ψ*.
_INTERVALS = 1024
# How many coordinates one compiled expression sums.
_TOGETHER = 16


@register_pytree
@dataclass(frozen=True)
class ConjugateTable:
    """Chords of ψ_i* between knots, for ψ* = Σ ψ_i* over coordinates.

    ψ_i* is convex, so that its chord between two knots is nowhere below it. The knots
    μ_k = low + (high − low) (k / K)² are dense at the lower end, where means of counts
    and times have the least variance.

    Attributes:
        low: Least mean in each coordinate, `[n]`.
        density: K² / (high − low), 0 where nothing varies, `[n]`.
        intercept: Values of the chords at μ = 0, `[n, K]`.
        slope: Slopes of the chords, `[n, K]`.
        size: The largest sum of sizes of the terms of one value, to bound rounding by.
    """

    low: Array
    density: Array
    intercept: Array
    slope: Array
    size: Array

    def upper_value(self, coordinate: Callable[[Array], Array], like: Array) -> Array:
        """Σ_i chord_i(coordinate(i)) ≥ ψ*, of the shape of `like`.

        Args:
            coordinate: Maps a number i to means in coordinate i, like `like`.
            like: An array of the shape of the result.
        """
        n, intervals = self.slope.shape
        slope, intercept = self.slope.ravel(), self.intercept.ravel()

        def chord(i: Array) -> Array:
            mean = coordinate(i)
            place = jnp.sqrt(jnp.maximum(mean - self.low[i], 0) * self.density[i])
            index = jnp.clip(place.astype(jnp.int32), 0, intervals - 1) + i * intervals
            return intercept[index] + slope[index] * mean

        def several(k: Array, total: Array) -> Array:
            for j in range(_TOGETHER):
                total = total + chord(k * _TOGETHER + j)
            return total

        whole = n // _TOGETHER
        total = jax.lax.fori_loop(0, whole, several, jnp.zeros_like(like))
        for i in range(whole * _TOGETHER, n):
            total = total + chord(jnp.int32(i))
        return total


def table_means(low: Array, high: Array) -> Array:
    """The knots of a table over means from low to high `[n]`, `[k, n]`."""
    part = jnp.linspace(0, 1, _INTERVALS + 1, dtype=low.dtype)[:, None] ** 2
    return low[None] + (high - low)[None] * part


def interpolated(means: np.ndarray, knots: np.ndarray, natural: np.ndarray):
    """Natural parameters near those of means, interpolated between knots of a table.

    Linearly in the mean. In the first interval, whose lower knot may lie on the
    boundary, the natural parameter of the upper knot.

    Args:
        means: `[p, n]`.
        knots: As `table_means` gives them, `[k, n]`.
        natural: Natural parameters of the knots, `[k, n]`, in the domain of ψ.

    Returns:
        Natural parameters in the domain of ψ, `[p, n]`.
    """
    low, width = knots[0], knots[-1] - knots[0]
    part = np.clip((means - low) / np.where(width > 0, width, 1), 0, 1)
    place = _INTERVALS * np.sqrt(part)
    index = np.minimum(place.astype(np.int32), _INTERVALS - 1)
    column = np.arange(means.shape[1])
    left, right = knots[index, column], knots[index + 1, column]
    gap = right - left
    share = np.clip((means - left) / np.where(gap > 0, gap, 1), 0, 1)
    share = np.where((index == 0) & (means > low), 1, share)
    start, end = natural[index, column], natural[index + 1, column]
    return start + share * (end - start)


def conjugate_table(
    psi: Callable[[Array], Array],
    start: Array,
    means: Array,
    natural: Array,
    known: Array,
) -> ConjugateTable:
    """Tabulate the conjugate of a ψ that is a sum over coordinates.

    Args:
        psi: ψ of one vector `[n]`.
        start: A vector of the domain of ψ.
        means: The knots, as `table_means` gives them, `[k, n]`.
        natural: Natural parameters of the knots, `[k, n]`.
        known: Whether ψ* at a knot follows from its natural parameters, `[k]`.
    """
    low, high = means[0], means[-1]
    at_start = psi(start)

    def rises(i: Array) -> Array:
        """ψ_i − ψ_i(start) at all knots; the other coordinates stay at the start."""
        along = lambda theta: psi(start.at[i].set(theta)) - at_start
        return jax.vmap(along)(natural[:, i])

    n = low.shape[0]
    rise = jax.lax.map(rises, jnp.arange(n)).T
    # ψ(start) is shared out among the coordinates, so that values add up to ψ*.
    values = means * natural - rise - at_start / n
    values = jnp.where(known[:, None], values, jnp.nan)
    gaps = means[1:] - means[:-1]
    steps = values[1:] - values[:-1]
    slope = jnp.where(gaps > 0, steps / jnp.where(gaps > 0, gaps, 1), 0)
    intercept = values[:-1] - slope * means[:-1]
    width = high - low
    density = jnp.where(width > 0, _INTERVALS**2 / jnp.where(width > 0, width, 1), 0)
    terms = jnp.abs(means * natural) + jnp.abs(rise)
    terms = jnp.where(known[:, None] & jnp.isfinite(terms), terms, 0)
    size = jnp.sum(jnp.max(terms, axis=0)) + (n + 1) * jnp.abs(at_start)
    return ConjugateTable(low, density, intercept.T, slope.T, size)

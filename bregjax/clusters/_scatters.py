"""Means with scatters about them, which clusters of positive columns hold."""

import functools
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._numerics import burg_remainder
from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._merges import Merges
from bregjax.clusters._moments import CenteredStatistics, average
from bregjax.clusters._weighted_mean import weighted_mean

__all__ = ["ScatterState", "Scatters", "Spread", "pool", "pool_along", "rise"]

Spread = Literal["log", "reciprocal"]


@register_pytree
@dataclass(frozen=True)
class Scatters(CenteredStatistics):
    """Means `[..., d]` of positive columns, with a scatter about each mean.

    For the statistics T(x) = (log x, x) and (x, 1/x), whose mean domain is bounded by
    the curve of single points. The scatter is the distance of a mean from that curve,

        "log": s = log E x − E log x,    "reciprocal": s = E 1/x − 1 / E x,

    0 for a single point, and positive otherwise. The statistics themselves would not
    do: of a column that varies by a share c of its mean, s is about c², and its digits
    are lost in those of E log x and E 1/x.

    Attributes:
        location: E x, positive.
        scatter: s, at least 0.
        spread: "log" or "reciprocal".
    """

    location: Array
    scatter: Array
    spread: Spread = jax.tree.static(default="log")

    @classmethod
    def of_means(cls, means: tuple[Array, Array], spread: Spread) -> "Scatters":
        """The scatters of mean parameters E T, by a difference: as exact as E T is."""
        if spread == "log":
            log_mean, location = means
            return cls(location, jnp.log(location) - log_mean, spread)
        location, reciprocal = means
        return cls(location, reciprocal - 1 / location, spread)

    def means(self) -> tuple[Array, Array]:
        """E T: (E log x, E x), or (E x, E 1/x)."""
        if self.spread == "log":
            return jnp.log(self.location) - self.scatter, self.location
        return self.location, self.scatter + 1 / self.location

    @override
    def as_center(self) -> tuple[Array, Array]:
        """Return E T, the form in which centers of smoothing are given."""
        return self.means()

    @override
    def averaged(self, shares: Array) -> "Scatters":
        location = average(self.location, shares)

        def between(cluster: tuple[Array, Array]) -> Array:
            share, center = cluster
            rises = rise(self.spread, center[None], self.location)
            return jnp.sum(share[:, None] * rises, axis=0)

        scatter = average(self.scatter, shares)
        scatter = scatter + jax.lax.map(between, (shares, location))
        return Scatters(location, scatter, self.spread)

    @override
    def mixed(self, center: tuple[Array, Array], share: Array) -> "Scatters":
        center = _pair(center)
        share = jnp.broadcast_to(share, self.location.shape[:-1])
        made = Scatters.of_means(center, self.spread)
        made = jax.tree.map(lambda z, t: jnp.broadcast_to(z, t.shape), made, self)
        return pool(1 - share, self, share, made)

    @override
    def added(self, center: tuple[Array, Array], amount: Array) -> "Scatters":
        """Return E T + α z; what z adds to the scatter is a sum of like signs."""
        along = lambda z: jnp.broadcast_to(amount * z, self.location.shape)
        first, second = map(along, _pair(center))
        if self.spread == "log":
            rise = jnp.log1p(second / self.location) - first
            return Scatters(self.location + second, self.scatter + rise, self.spread)
        location = self.location + first
        rise = second + first / self.location / location
        return Scatters(location, self.scatter + rise, self.spread)


@register_pytree
@dataclass(frozen=True)
class ScatterState:
    """States that hold weights, means and scatters.

    Attributes:
        weight: `[k]`.
        statistics: Means and scatters, `[k, d]`.
        entropy: Σ G(s) over columns, see `ScatterModel`, `[k]`.
    """

    weight: Array
    statistics: Scatters
    entropy: Array


def _pair(center: tuple[Array, Array]) -> tuple[Array, Array]:
    """Raise TypeError unless a center is a pair; return it."""
    if not isinstance(center, tuple) or len(center) != 2:
        raise TypeError(
            "`center` must be a pair of arrays, in the form of the sufficient "
            f"statistics of the family; got {type(center).__name__}."
        )
    return center


def rise(spread: Spread, center: Array, location: Array) -> Array:
    """What a mean adds to the scatter about a center, elementwise, at least 0.

    The value of log or reciprocal less that of the tangent at the center c, up to sign:

        "log": a/c − 1 − log(a/c),    "reciprocal": (a − c)² / (a c²).
    """
    apart = location - center
    if spread == "log":
        return burg_remainder(center, apart, x=location)
    return (apart / center) * (apart / center) / location


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def gap(spread: Spread, w_a: Array, a: Array, w_b: Array, b: Array) -> Array:
    """The scatter of two weighted means a, b about their own mean c, elementwise.

    With p = w_a / w and q = w_b / w,

        "log": log c − p log a − q log b,    "reciprocal": p q (a − b)² / (a b c),

    to relative rounding, 0 where a = b. Example: a = 1 and b = 3 of equal weight have
    c = 2 and the gaps log 2 − ½ log 3 = 0.1438 and ¼ · 4 / (1 · 3 · 2) = 0.1667.
    """
    p, q, c, apart = _shares(w_a, a, w_b, b)
    if spread == "log":
        return p * burg_remainder(c, q * apart, x=a) + q * burg_remainder(
            c, -p * apart, x=b
        )
    return (p * q) * (apart / a) * (apart / b) / c


@gap.defjvp
def _gap_jvp(spread, primals, tangents):
    # Written out, by a, by b and by p = 1 − q: derivatives of the formulas of `gap`
    # cancel where one mean is much larger than the other.
    w_a, a, w_b, b = primals
    dw_a, da, dw_b, db = tangents
    p, q, c, apart = _shares(w_a, a, w_b, b)
    dp = (q * dw_a - p * dw_b) / (w_a + w_b)
    step = p * q * apart / c
    if spread == "log":
        by_a, by_b = step / a, -step / b
        by_p = burg_remainder(c, q * apart, x=a) - burg_remainder(c, -p * apart, x=b)
    else:
        by_a, by_b = step * (a + c) / c / a / a, -step * (b + c) / c / b / b
        by_p = (apart / a) * (apart / b) * (q / c * q * b - p / c * p * a) / c
    return gap(spread, w_a, a, w_b, b), by_a * da + by_b * db + by_p * dp


def _shares(
    w_a: Array, a: Array, w_b: Array, b: Array
) -> tuple[Array, Array, Array, Array]:
    """p, q, c and a − b."""
    total = w_a + w_b
    p, q, apart = w_a / total, w_b / total, a - b
    return p, q, jnp.where(p >= q, a - q * apart, b + p * apart), apart


def pool(w_a: Array, a: Scatters, w_b: Array, b: Scatters) -> Scatters:
    """Statistics of the union of two weighted clusters: s = p s_a + q s_b + gap.

    With p = w_a / w and q = w_b / w the shares of weight.
    """
    w_a, w_b = w_a[..., None], w_b[..., None]
    nowhere = jnp.zeros((1,) * a.location.ndim, bool)
    location = weighted_mean(w_a, a.location, w_b, b.location, nowhere)
    inner = weighted_mean(w_a, a.scatter, w_b, b.scatter, nowhere)
    between = gap(a.spread, w_a, a.location, w_b, b.location)
    return Scatters(location, inner + between, a.spread)


def pool_along(merges: Merges, weights: Array, leaves: Scatters) -> Scatters:
    """Statistics of all nodes of a tree, by the update of `pool`.

    Args:
        merges: The tree.
        weights: Weights of all nodes, `[L + t]`.
        leaves: Statistics of the leaves, `[L, d]`.

    Returns:
        Statistics `[L + t, d]`.
    """
    location = merges.average(weights, leaves.location)
    (w_a, w_b), (a, b) = merges.parts(weights), merges.parts(location)
    between = gap(leaves.spread, w_a[..., None], a, w_b[..., None], b)
    scatter = merges.average(weights, leaves.scatter, added=between)
    return Scatters(location, scatter, leaves.spread)

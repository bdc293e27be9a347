"""The cluster model of gamma and inverse Gaussian columns."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._numerics import burg_remainder
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array
from bregjax.clusters._averages import leaves_of_averages
from bregjax.clusters._base import ClusterModel
from bregjax.clusters._gamma_entropy import (
    entropy_of_scatter,
    entropy_remainder,
    shape_of_scatter,
)
from bregjax.clusters._merges import Merges
from bregjax.clusters._scatters import (
    Scatters,
    ScatterState,
    Spread,
    gap,
    pool,
    pool_along,
    rise,
)
from bregjax.clusters._screens import Screen
from bregjax.clusters._screens.scatters import ScatterScreen

__all__ = ["ScatterModel"]


@register_pytree
@dataclass(frozen=True)
class ScatterModel(ClusterModel):
    """Clusters of independent columns for which ψ* is −G(scatter) plus a linear term.

    With G concave and increasing, p, q the shares of weight, s_c = p s_a + q s_b + gap
    the scatter of the union and the sum over columns,

        Δ = Σ w G(s_c) − w_a G(s_a) − w_b G(s_b)
          = Σ w G'(s_c) gap + w_a B(s_a, s_c) + w_b B(s_b, s_c),
        B(s, y) = G(y) + G'(y) (s − y) − G(s) ≥ 0.

    `cost` is the second form: every term is at least 0 and computed without
    cancellation, exactly 0 for equal clusters. `cross_cost` is the first with Σ G held
    in the state: one G a column and pair, good to eps · w |Σ G|.

    Example of "reciprocal" columns, G(s) = ½ log s: the means 1 and 3 of weight 1 with
    scatters 0.1 have the gap 1/6 and s_c = 0.2667. The first form gives
    log 0.2667 − log 0.1 = 0.981; the second 2 · 1.875 / 6 = 0.625 for the means, plus
    0.356 for the scatters.

    Attributes:
        spread: "log" for the gamma family, G that of `entropy_of_scatter`;
            "reciprocal" for the inverse Gaussian, G(s) = ½ log s.

    Examples:
        >>> from bregjax.clusters._scatters import Scatters
        >>> x, scatter = jnp.array([[1.0], [3.0]]), jnp.full((2, 1), 0.1)
        >>> points = Scatters(x, scatter, "reciprocal")
        >>> model = ScatterModel("reciprocal")
        >>> states = jax.jit(model.leaves)(points, jnp.ones(2))
        >>> print(jax.jit(model.cross_cost)(states, states)[0, 1].round(3))
        0.981
    """

    spread: Spread = jax.tree.static(default="log")

    @override
    def leaves(self, statistics: Scatters, weights: Array) -> ScatterState:
        return self.settle(ScatterState(weights, statistics, weights))

    @override
    def pool(self, a: ScatterState, b: ScatterState) -> ScatterState:
        weight = a.weight + b.weight
        statistics = pool(a.weight, a.statistics, b.weight, b.statistics)
        return ScatterState(weight, statistics, jnp.full_like(weight, jnp.nan))

    @override
    def pool_along(self, merges: Merges, leaves: ScatterState) -> ScatterState:
        weight = merges.sum(leaves.weight)
        statistics = pool_along(merges, weight, leaves.statistics)
        return ScatterState(weight, statistics, jnp.full_like(weight, jnp.nan))

    @override
    def settle(self, state: ScatterState) -> ScatterState:
        """Fill in Σ G(s)."""
        entropy = jnp.sum(self.entropy(state.statistics.scatter), axis=-1)
        return ScatterState(state.weight, state.statistics, entropy)

    @override
    def result(self, state: ScatterState) -> Array:
        """BOUNDARY where a scatter is 0, OUTSIDE where a scatter is negative."""
        scatter, location = state.statistics.scatter, state.statistics.location
        outside = jnp.any((scatter < 0) | (location <= 0), axis=-1)
        regular = jnp.isfinite(state.entropy)
        codes = jnp.where(outside, Result.OUTSIDE, Result.BOUNDARY)
        return jnp.where(regular & ~outside, Result.CONVERGED, codes).astype(jnp.int32)

    @override
    def cost(self, a: ScatterState, b: ScatterState, union: ScatterState) -> Array:
        del union
        w_a, w_b = a.weight[..., None], b.weight[..., None]
        total = w_a + w_b
        p, q = w_a / total, w_b / total
        s_a, s_b = a.statistics.scatter, b.statistics.scatter
        means = a.statistics.location, b.statistics.location
        between = gap(self.spread, w_a, means[0], w_b, means[1])
        apart = s_a - s_b
        union_s = jnp.where(p >= q, s_a - q * apart, s_b + p * apart) + between
        terms = (
            total * self.slope(union_s) * between
            + w_a * self.remainder(s_a, union_s, q * apart - between)
            + w_b * self.remainder(s_b, union_s, -p * apart - between)
        )
        return jnp.sum(terms, axis=-1)

    @override
    def assignment_cost(self, points: ScatterState, clusters: ScatterState) -> Array:
        """w Σ B(s, s_k) + G'(s_k) rise, with `rise` of the mean about that of k."""
        s, center = points.statistics, clusters.statistics
        scatter, scatter_k = s.scatter[:, None], center.scatter[None]
        rises = rise(self.spread, center.location[None], s.location[:, None])
        terms = self.remainder(scatter, scatter_k, scatter - scatter_k)
        terms = terms + self.slope(scatter_k) * rises
        return points.weight[:, None] * jnp.sum(terms, axis=-1)

    @override
    def unions(self, statistics: Scatters, weights: Array) -> ScatterState:
        return leaves_of_averages(self, statistics, weights)

    @override
    def screen(self, leaves: ScatterState) -> Screen:
        return ScatterScreen.of(leaves)

    @override
    def cross_cost(self, a: ScatterState, b: ScatterState) -> Array:
        rows = jax.tree.map(lambda leaf: leaf[:, None], a)
        columns = jax.tree.map(lambda leaf: leaf[None, :], b)
        union = self.union(rows, columns)
        parts = rows.weight * rows.entropy + columns.weight * columns.entropy
        return jnp.maximum(union.weight * union.entropy - parts, 0)

    @override
    def cross_noise(self, state: ScatterState) -> Array:
        entropy, columns = state.entropy, state.statistics.scatter.shape[-1]
        eps = jnp.finfo(entropy.dtype).eps
        return eps * state.weight * (jnp.abs(entropy) + columns)

    def entropy(self, s: Array) -> Array:
        """G(s), elementwise."""
        return entropy_of_scatter(s) if self.spread == "log" else 0.5 * jnp.log(s)

    def slope(self, s: Array) -> Array:
        """G'(s), elementwise: the shape k of a gamma, λ/2 of an inverse Gaussian."""
        return shape_of_scatter(s) if self.spread == "log" else 0.5 / s

    def remainder(self, s: Array, y: Array, delta: Array) -> Array:
        """B(s, y), elementwise; delta is s − y with all its digits."""
        if self.spread == "log":
            return entropy_remainder(s, y, delta)
        return 0.5 * burg_remainder(y, delta, x=s)

    def log_densities(self, row: Array, clusters: ScatterState) -> Array:
        """log p(x; τ_k) of a positive row `[d]`, `[k]`, without cancellation.

        The sum over columns, with φ(r) = r − 1 − log r, of

            "log": −log x + k s − G(s) − k φ(x / μ),
            "reciprocal": ½ log(λ / 2π x³) − λ (x − μ)² / (2 μ² x).
        """
        s, mean = clusters.statistics.scatter, clusters.statistics.location
        x, delta = row[None], row[None] - mean
        if self.spread == "log":
            k = self.slope(s)
            peak = k * s - self.entropy(s)
            terms = peak - k * burg_remainder(mean, delta) - jnp.log(x)
        else:
            peak = -0.5 * (jnp.log(s) + math.log(2 * math.pi) + 3 * jnp.log(x))
            terms = peak - 0.5 / s * (delta / mean) * (delta / mean) / x
        return jnp.sum(terms, axis=-1)

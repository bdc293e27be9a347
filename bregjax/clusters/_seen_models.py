"""Clusters of tables with missing cells: what was observed, ties, scaled costs."""

import abc
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._base import ClusterModel
from bregjax.clusters._block_statistics import BlockStatistics
from bregjax.clusters._host_model import HostModel
from bregjax.clusters._merges import Merges
from bregjax.clusters._product_model import ProductModel
from bregjax.clusters._screens import Screen
from bregjax.clusters._screens.seen import InnerScreen, ScaledProductScreen
from bregjax.clusters._seen_host import SeenHost
from bregjax.clusters._seen_state import (
    TIE,
    Seen,
    SeenState,
    harmonic,
    known_harmonic,
)

__all__ = ["ObservedModel", "ScaledModel", "SeenModel"]

# A cost of which what was added is more than this share has lost digits; one that is
# less than this share of what was added is 0, or as good as 0 (1e-22 nats).
_DIGITS, _NO_COST = 1e-4, 1e-9


class SeenModel(ClusterModel):
    """Clusters of a product that know how much of their columns was observed.

    Clusters that share no column cost 0 to merge, as equal rows do. Of pairs that cost
    the same engines take first the pair that shares most: the one with the least

        Σ_j v_j h(a, b) − h_j(a, b),    h(a, b) = w_a w_b / (w_a + w_b),

    h of rows of weight w, h_j of the cells of column j. A tiny multiple of it is added
    to the costs by which engines search (`search_cost`, `cross_cost`).

    Example: of the rows (1, –), (–, 5) and (1, 5) each two cost 0. The third shares a
    column with both others, and merges first with one of them.

    Attributes:
        product: The model of costs over observed cells.
        weights: What each column counts, `[d]`.
        columns: Where the shares of each block are.
    """

    product: ProductModel
    weights: Array
    columns: tuple[Seen, ...]

    @override
    def leaves(
        self, statistics: tuple[BlockStatistics, ...], weights: Array
    ) -> SeenState:
        seen = weights[:, None] * self._shares(statistics)
        return SeenState(weights, seen, self.product.leaves(statistics, weights))

    def _shares(self, statistics: tuple[BlockStatistics, ...]) -> Array:
        """What columns count where they are observed, whatever pseudo-counts add."""
        shares = [seen.of(statistics) for seen in self.columns]
        return jnp.where(jnp.concatenate(shares, axis=1) > 0, self.weights[None], 0)

    @property
    @override
    def solves(self) -> bool:
        return self.product.solves

    @property
    @override
    def distributes(self) -> bool:
        return self.product.distributes

    @property
    @override
    def screened(self) -> bool:
        return self.product.screened

    @override
    def pool(self, a: SeenState, b: SeenState) -> SeenState:
        inner = self.product.pool(a.inner, b.inner)
        return SeenState(a.weight + b.weight, a.seen + b.seen, inner)

    @override
    def settle(self, state: SeenState) -> SeenState:
        return SeenState(state.weight, state.seen, self.product.settle(state.inner))

    @override
    def pool_along(self, merges: Merges, leaves: SeenState) -> SeenState:
        inner = self.product.pool_along(merges, leaves.inner)
        return SeenState(merges.sum(leaves.weight), merges.sum(leaves.seen), inner)

    @override
    def cross_cost(self, a: SeenState, b: SeenState) -> Array:
        rows = jax.tree.map(lambda leaf: leaf[:, None], a)
        columns = jax.tree.map(lambda leaf: leaf[None, :], b)
        inner = self.product.cross_cost(a.inner, b.inner)
        return self._searched(inner, rows, columns)

    @override
    def merge_cost(self, a: SeenState, b: SeenState) -> Array:
        return self._scaled(self.product.merge_cost(a.inner, b.inner), a, b)

    @override
    def search_cost(self, a: SeenState, b: SeenState) -> Array:
        return self._searched(self.product.merge_cost(a.inner, b.inner), a, b)

    @override
    def cost(self, a: SeenState, b: SeenState, union: SeenState) -> Array:
        return self._scaled(self.product.cost(a.inner, b.inner, union.inner), a, b)

    @abc.abstractmethod
    def _scaled(self, cost: Array, a: SeenState, b: SeenState) -> Array:
        """The cost of a merge, from that over observed cells."""

    def _searched(self, cost: Array, a: SeenState, b: SeenState) -> Array:
        """What engines compare."""
        whole, seen = self._overlap(a, b)
        return self._scaled(cost, a, b) + TIE * jnp.maximum(whole - seen, 0)

    @override
    def found_costs(
        self, costs: np.ndarray, children: np.ndarray, leaves: SeenState
    ) -> np.ndarray:
        """The costs of a tree from those that an engine has compared."""
        m = len(children) + 1
        weight, seen = np.asarray(leaves.weight)[:m], np.asarray(leaves.seen)[:m]
        weight = np.concatenate([weight, np.zeros(m - 1)])
        seen = np.concatenate([seen, np.zeros((m - 1, seen.shape[1]))])
        for step, (a, b) in enumerate(children.tolist(), start=m):
            weight[step] = weight[a] + weight[b]
            seen[step] = seen[a] + seen[b]
        a, b = children[:, 0], children[:, 1]
        whole = np.sum(self.weights) * known_harmonic(weight[a], weight[b])
        added = whole - np.sum(known_harmonic(seen[a], seen[b]), axis=-1)
        added = TIE * np.maximum(added, 0)
        found = np.where(costs <= added * (1 + _NO_COST), 0, costs - added)
        lost = (found > 0) & (costs <= added / _DIGITS)
        return np.where(lost, np.nan, found)

    def _overlap(self, a: SeenState, b: SeenState) -> tuple[Array, Array]:
        """Σ_j v_j h(a, b) and Σ_j h_j(a, b)."""
        whole = jnp.sum(self.weights) * harmonic(a.weight, b.weight)
        return whole, jnp.sum(harmonic(a.seen, b.seen), axis=-1)

    @override
    def pair_size(self, state: SeenState) -> int:
        return self.product.pair_size(state.inner) + state.seen.shape[-1]

    @override
    def result(self, state: SeenState) -> Array:
        return self.product.result(state.inner)

    @override
    def assignment_cost(self, points: SeenState, clusters: SeenState) -> Array:
        """Costs over the columns that both a point and a cluster have."""
        return self.product.assignment_cost(points.inner, clusters.inner)

    @override
    def assignment_size(self, clusters: SeenState) -> int:
        return self.product.assignment_size(clusters.inner)

    @override
    def unions(
        self, statistics: tuple[BlockStatistics, ...], weights: Array
    ) -> SeenState:
        seen = jnp.matmul(weights, self._shares(statistics), precision="highest")
        inner = self.product.unions(statistics, weights)
        return SeenState(jnp.sum(weights, axis=1), seen, inner)


@register_pytree
@dataclass(frozen=True)
class ObservedModel(SeenModel):
    """Costs of a product over observed cells.

    Attributes:
        product: The model of costs over observed cells.
        weights: v, `[d]`.
        columns: Where the shares of each block are.
    """

    product: ProductModel
    weights: Array
    columns: tuple[Seen, ...] = jax.tree.static()

    @override
    def _scaled(self, cost: Array, a: SeenState, b: SeenState) -> Array:
        del a, b
        return cost

    @override
    def cross_noise(self, state: SeenState) -> Array:
        return self.product.cross_noise(state.inner)

    @override
    def screen(self, leaves: SeenState) -> Screen:
        return InnerScreen(self.product.screen(leaves.inner))

    @override
    def host(self) -> HostModel | None:
        host = self.product.host()
        return (
            None
            if host is None
            else SeenHost(self.columns, np.asarray(self.weights), host)
        )


@register_pytree
@dataclass(frozen=True)
class ScaledModel(SeenModel):
    """Merge costs of a product over the share of weight that was observed.

    With h(a, b) = w_a w_b / (w_a + w_b) of rows of weight w, h_j of the cells of column
    j, and v_j what the column counts,

        Δ'(a, b) = Δ(a, b) · Σ_j v_j h(a, b) / Σ_j h_j(a, b)

    A cost is about h times a divergence, so that this is what the merge would cost if
    the columns that one part lacks had the average divergence of the others. Where
    nothing is missing it is Δ. Two clusters that share no column cost κ Σ_j v_j h, with
    κ the average over the table. These are no Bregman costs: they do not add up to the
    same sum whatever the tree, and bounds by costs of other pairs do not hold.

    Example: the rows (1, –) and (3, 5) of weight 1 under ½‖x‖² cost 1 in the first
    column, and h = ½ in two columns for ½ in one: 1 · 1 / ½ = 2.

    Attributes:
        product: The model of the costs that are scaled.
        weights: v, `[d]`.
        average: κ.
        columns: Where the shares of each block are.
    """

    product: ProductModel
    weights: Array
    average: Array
    columns: tuple[Seen, ...] = jax.tree.static()

    @property
    @override
    def telescopes(self) -> bool:
        return False

    @override
    def _scaled(self, cost: Array, a: SeenState, b: SeenState) -> Array:
        whole, seen = self._overlap(a, b)
        apart = seen <= 0
        scaled = cost * (whole / jnp.where(apart, 1, seen))
        return jnp.where(apart, self.average * whole, scaled)

    @override
    def cross_noise(self, state: SeenState) -> Array:
        """That of the product where all is observed; more where little is."""
        seen = jnp.min(jnp.where(state.seen > 0, state.seen, jnp.inf), axis=-1)
        share = jnp.sum(self.weights) * state.weight / seen
        return self.product.cross_noise(state.inner) * share

    @override
    def screen(self, leaves: SeenState) -> Screen:
        screen = self.product.screen(leaves.inner)
        return ScaledProductScreen(screen, jnp.sum(self.weights), self.average)

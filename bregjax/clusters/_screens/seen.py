"""Screens of products that know how much of their columns was observed."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters._screens.base import Screen
from bregjax.clusters._seen_state import SeenState, harmonic

__all__ = ["InnerScreen", "ScaledProductScreen"]


@register_pytree
@dataclass(frozen=True)
class InnerScreen(Screen):
    """The bounds of the product.

    Attributes:
        inner: The screen of the product.
    """

    inner: Screen

    @property
    @override
    def group(self) -> int:
        return self.inner.group

    @property
    @override
    def factorises(self) -> bool:
        return self.inner.factorises

    @override
    def pair_size(self, state: SeenState) -> int:
        return self.inner.pair_size(state.inner)

    @override
    def features(self, state: SeenState, dtype: jnp.dtype) -> PyTree:
        return self.inner.features(state.inner, dtype)

    @override
    def against(self, rows: PyTree) -> Callable[[PyTree], Array]:
        return self.inner.against(rows)

    @override
    def closer(self, a: PyTree, b: PyTree) -> Array | None:
        return self.inner.closer(a, b)


@register_pytree
@dataclass(frozen=True)
class ScaledProductScreen(InnerScreen):
    """Bounds of the product times the factor of `ScaledModel`, less its rounding.

    Attributes:
        inner: The screen of the product.
        total: Σ v.
        average: κ.
    """

    total: Array
    average: Array

    @override
    def pair_size(self, state: SeenState) -> int:
        return self.inner.pair_size(state.inner) + 8

    @override
    def features(self, state: SeenState, dtype: jnp.dtype) -> PyTree:
        """Weights, and the features of the product."""
        weights = state.weight.astype(dtype), state.seen.astype(dtype)
        return weights, self.inner.features(state.inner, dtype)

    @override
    def against(self, rows: PyTree) -> Callable[[PyTree], Array]:
        (w_a, seen_a), inner = rows
        bound = self.inner.against(inner)

        def scaled(columns: PyTree) -> Array:
            (w_b, seen_b), inner = columns
            low = bound(inner)
            whole = harmonic(w_a[:, None], w_b[None])
            seen = _sum_of_columns(seen_a.T[:, :, None], seen_b.T[:, None, :])
            return self._scaled(low, whole, seen, seen_a.shape[-1])

        return scaled

    @override
    def closer(self, a: PyTree, b: PyTree) -> Array | None:
        (w_a, seen_a), inner_a = a
        (w_b, seen_b), inner_b = b
        low = self.inner.closer(inner_a, inner_b)
        if low is None:
            return None
        seen = jnp.sum(harmonic(seen_a, seen_b), axis=-1)
        return self._scaled(low, harmonic(w_a, w_b), seen, seen_a.shape[-1])

    def _scaled(self, low: Array, whole: Array, seen: Array, d: int) -> Array:
        eps = float(jnp.finfo(low.dtype).eps)
        whole = whole * self.total.astype(low.dtype)
        apart = seen <= 0
        found = low * (whole / jnp.where(apart, 1, seen))
        found = jnp.where(apart, self.average.astype(low.dtype) * whole, found)
        return found - (16 + 4 * d) * eps * jnp.abs(found)


def _sum_of_columns(rows: Array, columns: Array) -> Array:
    """Σ_j h(rows_j, columns_j), column by column."""
    add = lambda total, pair: (total + harmonic(*pair), None)
    like = jnp.zeros(
        jnp.broadcast_shapes(rows.shape[1:], columns.shape[1:]), rows.dtype
    )
    return jax.lax.scan(add, like, (rows, columns))[0]

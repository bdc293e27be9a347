"""Screens of the merge costs of any exponential family, from a table or by solves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._natural.state import NaturalState
from bregjax.clusters._natural.table import ConjugateTable
from bregjax.clusters._screens import Screen

__all__ = ["SolvingScreen", "TableScreen"]


@register_pytree
@dataclass(frozen=True)
class TableScreen(Screen):
    """Bounds w_a ψ*(a) + w_b ψ*(b) − w t(c), less rounding, with chords t(c) ≥ ψ*(c).

    Attributes:
        table: The chords of ψ*, over the range of the leaves.
    """

    table: ConjugateTable

    @property
    @override
    def group(self) -> int:
        """1: solving for a pair is expensive."""
        return 1

    @property
    @override
    def factorises(self) -> bool:
        return False

    @override
    def pair_size(self, state: NaturalState) -> int:
        """64, which keeps tiles small: looking up chords takes its time."""
        del state
        return 64

    @override
    def features(self, state: NaturalState, dtype: jnp.dtype) -> tuple[Array, ...]:
        """Weights, means and w ψ*, in the precision of the states."""
        del dtype
        return state.weight, state.mean, state.weight * state.value

    @override
    def against(self, rows: tuple[Array, ...]) -> Callable[[tuple[Array, ...]], Array]:
        w_a, a, own_a = rows
        w_a, own_a = w_a[:, None], own_a[:, None]
        slack = _roundings(a)

        def bound(columns: tuple[Array, ...]) -> Array:
            w_b, b, own_b = columns
            w_b, b, own_b = w_b[None], b.T, own_b[None]
            total = w_a + w_b
            q = w_b / total

            def union(i: Array) -> Array:
                mean = a[:, i, None]
                return mean + q * (b[i][None] - mean)

            value = self.table.upper_value(union, q)
            return own_a + own_b - total * (value + slack * self.table.size)

        return bound


@register_pytree
@dataclass(frozen=True)
class SolvingScreen(Screen):
    """The cost from values of ψ*, less its rounding: a solve for each pair.

    Attributes:
        model: The cluster model, a `NaturalModel`.
    """

    model: Any

    @property
    @override
    def group(self) -> int:
        """1: solving for a pair is expensive."""
        return 1

    @override
    def pair_size(self, state: NaturalState) -> int:
        return self.model.pair_size(state)

    @override
    def features(self, state: NaturalState, dtype: jnp.dtype) -> NaturalState:
        del dtype
        return state

    @override
    def against(self, rows: NaturalState) -> Callable[[NaturalState], Array]:
        own = (rows.weight * rows.value)[:, None]
        slack = _roundings(rows.mean)

        def bound(columns: NaturalState) -> Array:
            cost = self.model.cross_cost(rows, columns)
            other = (columns.weight * jnp.abs(columns.value))[None]
            return cost - slack * (jnp.abs(own) + other + cost)

        return bound


def _roundings(mean: Array) -> float:
    """The relative error of a sum over coordinates, at most."""
    return (64 + 8 * mean.shape[-1]) * float(jnp.finfo(mean.dtype).eps)

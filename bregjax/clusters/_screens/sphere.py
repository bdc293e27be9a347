"""The screen of mean directions."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._screens.base import Screen
from bregjax.clusters._screens.functions import WeightedMeans, screen_of
from bregjax.clusters._screens.kernels import distance_features, squared_distances
from bregjax.convex import SphereEntropy

__all__ = ["DirectionScreen"]


@screen_of.register
def _sphere(function: SphereEntropy, leaves: WeightedMeans) -> Screen:
    del function
    return DirectionScreen(jnp.mean(leaves.mean, axis=0, keepdims=True))


@register_pytree
@dataclass(frozen=True)
class DirectionScreen(Screen):
    """Bounds (w_a w_b / 2w) ‖a − b‖² k(‖s/3‖), s = a + b + c, from a matrix product.

    With p = w_a / w and q = w_b / w, p f(a) + q f(b) − f(c) is the integral of the
    second derivative of f along a − b times a hat function of area p q / 2 on the
    segment from a to b, with its center of mass at s/3. That derivative is at least
    ‖a − b‖² κ/ρ, with κ the concentration at length ρ, and κ/ρ is at least

        k(ρ) = max(ν + √((ν + 2)² − 4 (ν + 1) ρ²), 2ν + 1) / (1 − ρ²),   ν = n/2 − 1,

    by two bounds that Amos gives of A, the inverse of κ(ρ). k is convex and increasing
    in ρ², hence convex in the point, and Jensen's inequality gives the bound. It is
    exact in the limit of small means, and of long means of nearby directions.

    Example: the means (0.6, 0) and (0, 0.6), both of weight 1, cost 0.424. Here
    ‖a − b‖² = 0.72, s/3 = (0.3, 0.3), ρ² = 0.18, k = 2 √(1 − 0.18) / (1 − 0.18) = 2.21,
    and the bound is ¼ · 0.72 · 2.21 = 0.398.

    Attributes:
        center: Subtracted from means before distances are taken, `[1, n]`.

    References:
        Amos (1974), Computation of modified Bessel functions and their ratios.
    """

    center: Array

    @property
    @override
    def factorises(self) -> bool:
        return False

    @override
    def features(
        self, state: WeightedMeans, dtype: jnp.dtype
    ) -> tuple[Array, Array, Array, Array]:
        """1 / w, means, squared lengths of means from the center and from 0."""
        moved = state.mean - self.center
        return (
            1 / state.weight.astype(dtype),
            distance_features(moved, dtype),
            jnp.sum(moved * moved, axis=-1).astype(dtype),
            jnp.sum(state.mean * state.mean, axis=-1).astype(dtype),
        )

    @override
    def against(self, rows: tuple[Array, ...]) -> Callable[[tuple[Array, ...]], Array]:
        light_a, a, moved_a, length_a = rows
        n, eps = self.center.shape[-1], float(jnp.finfo(a.dtype).eps)
        order = n / 2 - 1
        light_a, moved_a, length_a = (v[:, None] for v in (light_a, moved_a, length_a))

        def bound(columns: tuple[Array, ...]) -> Array:
            light_b, b, moved_b, length_b = columns
            light_b, moved_b, length_b = (v[None] for v in (light_b, moved_b, length_b))
            low = jnp.maximum(squared_distances(a, b), 0)
            high = low + (8 * n + 64) * eps * (moved_a + moved_b)
            total = light_a + light_b
            # s/3 = x a + y b with x = (1 + p) / 3, and p = (1/w_b) / (1/w_a + 1/w_b).
            x = (1 + light_b / total) / 3
            y = (1 + light_a / total) / 3
            square = x * length_a + y * length_b - x * y * high
            square = jnp.clip(square - 32 * eps, 0, 1)
            root = jnp.sqrt((order + 2) ** 2 - 4 * (order + 1) * square)
            stretch = jnp.maximum(order + root, 2 * order + 1) / (1 - square)
            return 0.5 * (1 - (n + 64) * eps) * low / total * stretch

        return bound

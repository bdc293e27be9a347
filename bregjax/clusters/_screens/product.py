"""The screen of a product: the bounds of its blocks, added up."""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters._screens.base import Screen

__all__ = ["ProductScreen"]


@register_pytree
@dataclass(frozen=True)
class ProductScreen(Screen):
    """Sums of the bounds of blocks, less the rounding of the sum.

    Attributes:
        blocks: The screen of each block.
    """

    blocks: tuple[Screen, ...]

    @property
    @override
    def group(self) -> int:
        return min(screen.group for screen in self.blocks)

    @property
    @override
    def factorises(self) -> bool:
        return any(screen.factorises for screen in self.blocks)

    @override
    def pair_size(self, state: PyTree) -> int:
        sizes = [screen.pair_size(part) for screen, part in self._each(state)]
        return max(sizes)

    @override
    def features(self, state: PyTree, dtype: jnp.dtype) -> tuple[PyTree, ...]:
        return tuple(screen.features(part, dtype) for screen, part in self._each(state))

    @override
    def against(self, rows: tuple[PyTree, ...]) -> Callable[[PyTree], Array]:
        bounds = [screen.against(part) for screen, part in self._each(rows)]

        def bound(columns: tuple[PyTree, ...]) -> Array:
            return _added([f(part) for f, part in zip(bounds, columns, strict=True)])

        return bound

    @override
    def closer(self, a: tuple[PyTree, ...], b: tuple[PyTree, ...]) -> Array | None:
        """Closer bounds of the blocks that have such, and the bounds of the others."""
        closer = [screen.closer(*parts) for screen, *parts in self._each(a, b)]
        if all(part is None for part in closer):
            return None
        return _added(
            [
                _bounds_of_pairs(screen, *parts) if known is None else known
                for known, (screen, *parts) in zip(
                    closer, self._each(a, b), strict=True
                )
            ]
        )

    def _each(self, *parts: tuple[PyTree, ...]):
        return zip(self.blocks, *parts, strict=True)


def _bounds_of_pairs(screen: Screen, a: PyTree, b: PyTree) -> Array:
    """Bounds of `against` for pairs, `[p]`."""
    one = lambda features: jax.tree.map(lambda leaf: leaf[None], features)
    pair = lambda a, b: screen.against(one(a))(one(b))[0, 0]
    return jax.vmap(pair)(a, b)


def _added(bounds: list[Array]) -> Array:
    """The sum of bounds, in the lowest precision among them, less its rounding."""
    dtype = min((bound.dtype for bound in bounds), key=lambda dtype: dtype.itemsize)
    eps = float(jnp.finfo(dtype).eps)
    bounds = [_lowered(bound, dtype) for bound in bounds]
    total = functools.reduce(operator.add, bounds)
    # A part may be negative, where rounding was taken off.
    size = functools.reduce(operator.add, [jnp.abs(bound) for bound in bounds])
    return total - 2 * len(bounds) * eps * size


def _lowered(bound: Array, dtype: jnp.dtype) -> Array:
    """A bound in another precision, lowered by the rounding of the conversion."""
    if bound.dtype == dtype:
        return bound
    low = bound.astype(dtype)
    return low - 2 * float(jnp.finfo(dtype).eps) * jnp.abs(low)

"""A plain JAX function as a convex function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp

from bregjax._numerics import float_arrays
from bregjax._pytree import register_pytree
from bregjax._typing import Array, ArrayLike
from bregjax.convex.base import ConvexFunction, over_batch
from bregjax.convex.conjugation import conjugate
from bregjax.convex.directional import directional_derivative

__all__ = ["PlainFunction", "as_convex_function", "straight"]


@final
@register_pytree
@dataclass(frozen=True)
class PlainFunction(ConvexFunction):
    """A convex function of a vector that the user wrote, with whatever follows from it.

    Attributes:
        function: From a vector `[n]` to a scalar; inf or NaN outside its domain.
            Static: one function object compiles once, a fresh lambda each time.
    """

    function: Callable[[Array], Array] = jax.tree.static()

    def _value(self, x: Array) -> Array:
        value = over_batch(self.function, 1, x)
        return jnp.where(jnp.isnan(value), jnp.inf, value)

    def _gradient(self, x: Array) -> Array:
        return over_batch(jax.grad(self.function), 1, x)

    def _slope(self, x: Array, v: Array) -> Array:
        along = lambda point, step: directional_derivative(self.function, point, step)
        return over_batch(along, 1, x, v)

    def conjugate(self) -> "PlainFunction":
        """f* by the solver, started at 0."""
        function = self.function

        def value(y: Array) -> Array:
            return conjugate(function, jnp.zeros_like(y))(y).value

        return PlainFunction(value)


def as_convex_function(f: ConvexFunction | Callable[[Array], Array]) -> ConvexFunction:
    """`f` itself if it is of the stock, else wrapped."""
    return f if isinstance(f, ConvexFunction) else PlainFunction(f)


def straight(
    f: ConvexFunction, x: ArrayLike, v: ArrayLike, *, tolerance: float = 1e-6
) -> Array:
    """Whether f'(x; v) + f'(x; −v) = 0 to rounding, `[...]`: no kink at x along v.

    Relative differentiability (Definition 3.4), which Proposition 3.8 needs, along one
    line.
    """
    x, v = float_arrays(x, v)
    forward, backward = f.directional_derivative(x, v), f.directional_derivative(x, -v)
    size = jnp.abs(forward) + jnp.abs(backward)
    return jnp.abs(forward + backward) <= tolerance * size

"""A plain JAX function as a convex function.

At a kink the remainder by the gradient is too small. For f = Σ|x_i| at y = 0 and x = 3
JAX's gradient is 0, so that f(3) − f(0) − 0 = 3; the one-sided derivative f'(0; −3) = 3
adds what is missing: B(3, 0) = 6.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._numerics import float_arrays
from bregjax._pytree import register_pytree
from bregjax._typing import Array, ArrayLike
from bregjax.convex._base import ConvexFunction, over_batch
from bregjax.convex._conjugation import conjugate
from bregjax.convex._directional.walk import has_kink
from bregjax.convex._one_sided import directional_derivative

__all__ = ["PlainFunction", "as_convex_function", "by_gradients", "straight"]


@final
@register_pytree
@dataclass(frozen=True)
class PlainFunction(ConvexFunction):
    """A convex function of a vector that the user wrote, with all that follows from it.

    Attributes:
        function: From a vector `[n]` to a scalar; inf or NaN outside its domain.
            Static: one function object compiles once, a fresh lambda compiles again.
        kinks: Whether remainders follow Definition 2.1 at kinks (see `by_gradients`).
    """

    function: Callable[[Array], Array] = jax.tree.static()
    kinks: bool = jax.tree.static(default=True)

    @override
    def _value(self, x: Array) -> Array:
        value = over_batch(self.function, 1, x)
        return jnp.where(jnp.isnan(value), jnp.inf, value)

    @override
    def _gradient(self, x: Array) -> Array:
        return over_batch(jax.grad(self.function), 1, x)

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        along = lambda point, step: directional_derivative(self.function, point, step)
        return over_batch(along, 1, x, v)

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        smooth = super()._remainder(y, delta, x)
        if not (self.kinks and self._may_have_kinks(y)):
            return smooth
        end = y + delta if x is None else x
        correct = lambda *point: _at_kinks(self.function, *point)
        return over_batch(correct, 1, y, delta, end, smooth[..., None])

    def _may_have_kinks(self, y: Array) -> bool:
        """Whether the code of the function has a kink anywhere, met or not."""
        point = jax.ShapeDtypeStruct(y.shape[-1:], y.dtype)
        return has_kink(jax.make_jaxpr(self.function)(point))

    @override
    def conjugate(self) -> "PlainFunction":
        """f* by numerical maximisation from 0."""
        function = self.function

        def value(y: Array) -> Array:
            return conjugate(function, jnp.zeros_like(y))(y).value

        return PlainFunction(value)


def as_convex_function(f: ConvexFunction | Callable[[Array], Array]) -> ConvexFunction:
    """`f` itself if it is a `ConvexFunction`, else `f` wrapped as one."""
    return f if isinstance(f, ConvexFunction) else PlainFunction(f)


def by_gradients(f: ConvexFunction) -> ConvexFunction:
    """The function with remainders by its gradient alone, which are too small at kinks.

    For a search among costs that is checked for kinks afterwards: a choice by costs
    that are too small at kinks, and that meets no kink, is that by the true costs.
    """
    return dataclasses.replace(f, kinks=False) if isinstance(f, PlainFunction) else f


def _at_kinks(
    f: Callable[[Array], Array], y: Array, delta: Array, x: Array, smooth: Array
) -> Array:
    """B_f(x, y) by Definition 2.1 where y is a kink, elsewhere the remainder given.

    At a kink the remainder by the gradient lacks f'(y; −δ) + ⟨∇f(y), δ⟩ > 0. `jax.jvp`
    picks the subgradient that `jax.grad` picks, so that away from kinks both slopes
    round alike, and nothing is added. NaN where the one-sided derivative is undecided.
    """
    (smooth,) = smooth
    value, chosen = jax.jvp(f, (y,), (-delta,))
    slope = directional_derivative(f, y, -delta)
    excess = slope - chosen
    eps = jnp.finfo(y.dtype).eps
    # Slopes that tie in a smooth function (the maximum inside logsumexp) differ by
    # rounding: of the slopes, or, where these cancel, of the change of f along δ.
    size = jnp.max(jnp.abs(y))
    share = jnp.minimum(jnp.max(jnp.abs(delta)) / jnp.where(size > 0, size, 1), 1)
    change = jnp.where(jnp.isfinite(value), jnp.abs(value), 0) * share
    slopes = jnp.abs(slope) + jnp.abs(chosen)
    rounding = jnp.maximum(jnp.sqrt(eps) * slopes, 64 * eps * change)
    kinked = (excess > rounding) | jnp.isposinf(slope)
    undecided = jnp.isnan(slope) & ~jnp.isnan(chosen)
    remainder = jnp.where(kinked | undecided, smooth + excess, smooth)
    # There may be a one-sided derivative without a gradient, as of a norm at 0.
    defined = jnp.maximum(f(x) - value + slope, 0)
    remainder = jnp.where(jnp.isnan(smooth), defined, remainder)
    return jnp.where(jnp.isposinf(smooth), smooth, remainder)


def straight(
    f: ConvexFunction, x: ArrayLike, v: ArrayLike, *, tolerance: float = 1e-6
) -> Array:
    """Whether f'(x; v) + f'(x; −v) = 0 to rounding, `[...]`: no kink at x along v.

    That is relative differentiability (Definition 3.4), which Proposition 3.8 needs,
    along one line.

    Args:
        f: Convex function.
        x: Points of the domain, `[..., *event]`.
        v: Directions; broadcast against `x`.
        tolerance: Largest sum of the two slopes, as a share of their sizes.
    """
    x, v = float_arrays(x, v)
    forward, backward = f.directional_derivative(x, v), f.directional_derivative(x, -v)
    size = jnp.abs(forward) + jnp.abs(backward)
    return jnp.abs(forward + backward) <= tolerance * size

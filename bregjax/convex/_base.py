"""Base classes of convex functions.

A function gives its value and its conjugate; gradients, one-sided derivatives and
Bregman remainders have defaults by JAX, which a closed form overrides for digits.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._numerics import float_arrays, sum_extended
from bregjax._typing import Array, ArrayLike
from bregjax.convex._one_sided import directional_derivative
from bregjax.convex._remainder import bregman_remainder, gradient_difference


def over_batch(function: Callable[..., Any], event_ndim: int, *points: Array) -> Any:
    """Apply a function of single points to batches, whose leading axes broadcast.

    Args:
        function: Maps points of `event_ndim` axes to an array or a pytree of arrays.
        event_ndim: Number of trailing axes of one point.
        *points: Arrays `[..., *event]` of one rank, one for each argument.

    Returns:
        The results, with the broadcast leading axes.
    """
    split = points[0].ndim - event_ndim
    if split == 0:
        return function(*points)
    batch = jnp.broadcast_shapes(*(point.shape[:split] for point in points))
    flat = [
        jnp.broadcast_to(p, batch + p.shape[split:]).reshape((-1, *p.shape[split:]))
        for p in points
    ]
    return jax.tree.map(
        lambda out: out.reshape(batch + out.shape[1:]), jax.vmap(function)(*flat)
    )


class ConvexFunction(ABC):
    """A closed proper convex function of points with `event_ndim` trailing axes.

    Concrete classes are frozen dataclasses and pytrees: arrays they hold are leaves,
    so derivatives with respect to them exist and new values do not recompile.

    A point outside the domain has the value +inf; a point on its boundary the limit.
    All methods take batches: leading axes broadcast, event axes must agree
    (ValueError). Integers are converted to floats.

    A concrete class writes `_value` and `conjugate`, and overrides the other methods
    with a leading underscore where a closed form is faster or keeps more digits than
    the default. The underscored methods receive float arrays of one dtype and rank.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.convex import SquaredNorm
        >>> f, x = SquaredNorm(), jnp.array([[3.0, 4.0], [0.0, 1.0]])
        >>> print(f(x), f.contains(x), f.gradient(x[1]))
        [12.5 0.5] [ True True] [0. 1.]
        >>> print(f.directional_derivative(x[0], jnp.array([1.0, 0.0])))
        3.0
        >>> print(f.remainder(x[1], x[0] - x[1]))
        9.0
    """

    @property
    def event_ndim(self) -> int:
        """Number of trailing axes of one point: 1 for vectors, 2 for matrices."""
        return 1

    @property
    def separable(self) -> bool:
        """Whether f is the sum over the last axis of one function of a number."""
        return False

    @property
    def differentiable(self) -> bool:
        """Whether f is differentiable in the (relative) interior of its domain."""
        return True

    @abstractmethod
    def conjugate(self) -> "ConvexFunction":
        """f*(y) = sup over x of ⟨y, x⟩ − f(x)."""

    def __call__(self, x: ArrayLike) -> Array:
        """f(x), shape `[...]`, of points `[..., *event]`; +inf outside the domain."""
        return self._value(*self._points(x))

    def contains(self, x: ArrayLike) -> Array:
        """Whether f(x) is finite, shape `[...]`."""
        return self._inside(*self._points(x))

    def gradient(self, x: ArrayLike) -> Array:
        """∇f(x), shape of `x`; at a kink the subgradient that `jax.grad` picks."""
        return self._gradient(*self._points(x))

    def directional_derivative(self, x: ArrayLike, v: ArrayLike) -> Array:
        """One-sided derivative f'(x; v) = lim (f(x + tv) − f(x))/t for t ↓ 0, `[...]`.

        The derivative is +inf where v leads out of the domain, and means nothing where
        x is outside of it.

        Args:
            x: Points of the domain, `[..., *event]`.
            v: Directions; broadcast against `x`.
        """
        return self._slope(*self._points(x, v))

    def remainder(
        self, y: ArrayLike, delta: ArrayLike, *, x: ArrayLike | None = None
    ) -> Array:
        """B_f(y + δ, y) = f(y + δ) − f(y) − ⟨∇f(y), δ⟩ in a form that does not cancel.

        At a kink the remainder is f(y + δ) − f(y) + f'(y; −δ), as in Definition 2.1. It
        is exactly 0 at δ = 0 and keeps its relative accuracy however small δ is,
        provided that δ is given to full relative precision rather than as a rounded
        difference of two points; +inf where y or y + δ is outside the domain.

        Args:
            y: References, `[..., *event]`.
            delta: Differences from the references; broadcast against `y`.
            x: y + δ, where y + δ is a variable of its own. The value stays the same;
                but a function with infinite slope at its boundary then takes
                derivatives by x and y rather than by y and δ, which in reverse mode
                avoids −inf + inf (see `bregjax._numerics.kl_remainder`).

        Returns:
            Divergences, shape `[...]`, at least 0.
        """
        if x is None:
            start, step = self._points(y, delta)
            return self._remainder(start, step, None)
        return self._remainder(*self._points(y, delta, x))

    def gradient_difference(self, y: ArrayLike, delta: ArrayLike) -> Array:
        """∇f(y + δ) − ∇f(y) in a form that does not cancel, shape `[..., *event]`.

        Args:
            y: References, `[..., *event]`.
            delta: Exact differences from the references; broadcast against `y`.
        """
        return self._gradient_difference(*self._points(y, delta))

    def _points(self, *points: ArrayLike) -> tuple[Array, ...]:
        arrays = float_arrays(*points)
        events = [jnp.shape(point)[-self.event_ndim :] for point in points]
        if len(set(events)) > 1 or len(events[0]) < self.event_ndim:
            shapes = ", ".join(str(jnp.shape(point)) for point in points)
            raise ValueError(
                f"{type(self).__name__} takes points whose last {self.event_ndim} axes "
                f"exist and agree; got shapes {shapes}."
            )
        return arrays

    @abstractmethod
    def _value(self, x: Array) -> Array:
        """f(x)."""

    def _inside(self, x: Array) -> Array:
        return self._value(x) < jnp.inf

    def _gradient(self, x: Array) -> Array:
        return over_batch(jax.grad(self._value), self.event_ndim, x)

    def _slope(self, x: Array, v: Array) -> Array:
        along = lambda point, vector: directional_derivative(self._value, point, vector)
        return over_batch(along, self.event_ndim, x, v)

    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        if self.differentiable:
            along = lambda point, step: bregman_remainder(self._value, point, step)
            return over_batch(along, self.event_ndim, y, delta)
        start, end = self._value(y), self._value(y + delta if x is None else x)
        outside = jnp.isposinf(start) | jnp.isposinf(end)
        rise = jnp.where(outside, 0, end) - jnp.where(outside, 0, start)
        value = jnp.maximum(rise + self._slope(y, -delta), 0)
        return jnp.where(outside, jnp.inf, value)

    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        if not self.differentiable:
            return self._gradient(y + delta) - self._gradient(y)
        along = lambda point, step: gradient_difference(self._value, point, step)
        return over_batch(along, self.event_ndim, y, delta)


class SeparableFunction(ConvexFunction):
    """Sum over the last axis of one function of a number, given by elementwise kernels.

    A concrete class writes `_scalar` and `conjugate`, and overrides the other kernels
    where a closed form is faster or keeps more digits than the default.

    Examples:
        >>> import jax.numpy as jnp
        >>> class Quartic(SeparableFunction):
        ...     def _scalar(self, x):
        ...         return x**4 / 4
        ...
        ...     def conjugate(self):
        ...         raise NotImplementedError
        >>> print(Quartic()(jnp.array([1.0, 2.0])))
        4.25
        >>> print(Quartic().gradient(jnp.array([1.0, 2.0])))
        [1. 8.]
    """

    @property
    @override
    def separable(self) -> bool:
        return True

    @abstractmethod
    def _scalar(self, x: Array) -> Array:
        """The function of a number, elementwise; +inf outside its domain."""

    def _scalar_inside(self, x: Array) -> Array:
        return self._scalar(x) < jnp.inf

    def _scalar_gradient(self, x: Array) -> Array:
        return over_batch(jax.grad(self._scalar), 0, x)

    def _scalar_slope(self, x: Array, v: Array) -> Array:
        """One-sided derivative, elementwise; 0 along v = 0, whatever the gradient."""
        moves = v != 0
        return jnp.where(moves, jnp.where(moves, self._scalar_gradient(x), 0) * v, 0)

    def _scalar_remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        del x
        along = lambda point, step: bregman_remainder(self._scalar, point, step)
        return over_batch(along, 0, y, delta)

    def _scalar_difference(self, y: Array, delta: Array) -> Array:
        """Difference of the derivatives at y + δ and y, elementwise."""
        along = lambda point, step: gradient_difference(self._scalar, point, step)
        return over_batch(along, 0, y, delta)

    @override
    def _value(self, x: Array) -> Array:
        return jnp.sum(self._scalar(x), -1)

    @override
    def _inside(self, x: Array) -> Array:
        return jnp.all(self._scalar_inside(x), -1)

    @override
    def _gradient(self, x: Array) -> Array:
        return self._scalar_gradient(x)

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        return sum_extended(self._scalar_slope(x, v))

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        return jnp.sum(self._scalar_remainder(y, delta, x), -1)

    @override
    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        return self._scalar_difference(y, delta)

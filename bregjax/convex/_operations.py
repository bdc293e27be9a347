"""Convex functions made from convex functions: multiples, affine images, sums.

Conjugates of most are of the same kinds: (a f)* = a f*(· / a), (f ∘ A)* = f* ∘ A⁻ᵀ and
(f + ⟨c, ·⟩ + d)* = f*(· − c) − d.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._numerics import multiply_matrix, sum_extended
from bregjax._pytree import register_pytree
from bregjax._typing import Array, ArrayLike, PyTree
from bregjax.convex._base import ConvexFunction, SeparableFunction
from bregjax.convex._numerical import NumericalConjugate


class _Wrapper(ConvexFunction):
    """A function with the event axes and the smoothness of `function`."""

    function: ConvexFunction

    @property
    @override
    def event_ndim(self) -> int:
        return self.function.event_ndim

    @property
    @override
    def differentiable(self) -> bool:
        return self.function.differentiable


@final
@register_pytree
@dataclass(frozen=True, eq=False)
class Scaled(_Wrapper):
    """factor · f(x) for a positive factor; B(x, y) = factor · B_f(x, y).

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.convex import SquaredNorm
        >>> print(Scaled(SquaredNorm(), 3.0)(jnp.array([1.0, 1.0])))
        3.0
    """

    function: ConvexFunction
    factor: ArrayLike

    @property
    @override
    def separable(self) -> bool:
        return self.function.separable

    def _times(self, value: Array) -> Array:
        return value * jnp.asarray(self.factor, value.dtype)

    @override
    def _value(self, x: Array) -> Array:
        return self._times(self.function(x))

    @override
    def _inside(self, x: Array) -> Array:
        return self.function.contains(x)

    @override
    def _gradient(self, x: Array) -> Array:
        return self._times(self.function.gradient(x))

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        return self._times(self.function.directional_derivative(x, v))

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        return self._times(self.function.remainder(y, delta, x=x))

    @override
    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        return self._times(self.function.gradient_difference(y, delta))

    @override
    def conjugate(self) -> "Scaled":
        """factor · f*(y / factor)."""
        inverse = 1 / jnp.asarray(self.factor)
        return Scaled(Affine(self.function.conjugate(), inverse), self.factor)


@final
@register_pytree
@dataclass(frozen=True, eq=False)
class Affine(_Wrapper):
    """f(Ax + b) for a matrix `[k, n]` or a number A, and a vector or a number b.

    B(x, y) = B_f(Ax + b, Ay + b), by the remainder of f at Aδ.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.convex import SquaredNorm
        >>> f = Affine(SquaredNorm(), jnp.array([[1.0, 1.0]]), jnp.array([1.0]))
        >>> print(f(jnp.array([1.0, 2.0])), f.gradient(jnp.array([1.0, 2.0])))
        8.0 [4. 4.]
    """

    function: ConvexFunction
    matrix: ArrayLike
    offset: ArrayLike = 0.0

    @property
    @override
    def separable(self) -> bool:
        """Whether f is separable, and A and b are numbers."""
        numbers = jnp.ndim(self.matrix) == 0 and jnp.ndim(self.offset) == 0
        return numbers and self.function.separable

    def _times(self, matrix: Array, x: Array) -> Array:
        if matrix.ndim == 0:
            return matrix * x
        if self.event_ndim != 1 or matrix.shape[-1] != x.shape[-1]:
            raise ValueError(
                f"`matrix` of shape {matrix.shape} does not apply to points of shape "
                f"{x.shape[x.ndim - self.event_ndim :]}."
            )
        return multiply_matrix(matrix, x)

    def _linear(self, x: Array) -> Array:
        return self._times(jnp.asarray(self.matrix, x.dtype), x)

    def _apply(self, x: Array) -> Array:
        offset = jnp.asarray(self.offset, x.dtype)
        image = self._linear(x)
        return image + offset.reshape((1,) * (image.ndim - offset.ndim) + offset.shape)

    def _pull_back(self, slope: Array) -> Array:
        return self._times(jnp.asarray(self.matrix, slope.dtype).T, slope)

    @override
    def _value(self, x: Array) -> Array:
        return self.function(self._apply(x))

    @override
    def _inside(self, x: Array) -> Array:
        return self.function.contains(self._apply(x))

    @override
    def _gradient(self, x: Array) -> Array:
        return self._pull_back(self.function.gradient(self._apply(x)))

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        return self.function.directional_derivative(self._apply(x), self._linear(v))

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        end = None if x is None else self._apply(x)
        return self.function.remainder(self._apply(y), self._linear(delta), x=end)

    @override
    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        image = self.function.gradient_difference(self._apply(y), self._linear(delta))
        return self._pull_back(image)

    @override
    def conjugate(self) -> ConvexFunction:
        """f*(A⁻ᵀy) − ⟨A⁻¹b, y⟩ for an invertible A.

        Raises:
            ValueError: If A is a matrix that is not square.
        """
        matrix = jnp.asarray(self.matrix)
        offset = jnp.asarray(self.offset, matrix.dtype)
        if matrix.ndim == 0:
            inverse = 1 / matrix
            tilt = -inverse * offset
        elif matrix.shape[0] == matrix.shape[1]:
            inverse = jnp.linalg.inv(matrix).T
            tilt = -jnp.broadcast_to(offset, matrix.shape[:1]) @ inverse
        else:
            raise ValueError(
                f"The conjugate of f(Ax + b) has a closed form only for a square "
                f"`matrix`; got shape {matrix.shape}. Use NumericalConjugate(f, start)."
            )
        return Tilted(Affine(self.function.conjugate(), inverse), tilt)


@final
@register_pytree
@dataclass(frozen=True, eq=False)
class Tilted(_Wrapper):
    """f(x) + ⟨slope, x⟩ + constant; slope an array like a point, or one number for all.

    The divergence is that of f.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.convex import SquaredNorm
        >>> f = Tilted(SquaredNorm(), jnp.array([1.0, 0.0]), 0.5)
        >>> print(f(jnp.array([1.0, 2.0])), f.gradient(jnp.array([1.0, 2.0])))
        4.0 [2. 2.]
    """

    function: ConvexFunction
    slope: ArrayLike
    constant: ArrayLike = 0.0

    @property
    @override
    def separable(self) -> bool:
        """Whether f is separable, the slope is one number and the constant is 0."""
        plain = isinstance(self.constant, float) and self.constant == 0
        return plain and jnp.ndim(self.slope) == 0 and self.function.separable

    def _direction(self, x: Array) -> Array:
        slope = jnp.asarray(self.slope, x.dtype)
        return slope.reshape((1,) * (x.ndim - slope.ndim) + slope.shape)

    def _inner(self, x: Array) -> Array:
        axes = tuple(range(-self.event_ndim, 0))
        return jnp.sum(self._direction(x) * x, axes)

    @override
    def _value(self, x: Array) -> Array:
        return self.function(x) + self._inner(x) + jnp.asarray(self.constant, x.dtype)

    @override
    def _inside(self, x: Array) -> Array:
        return self.function.contains(x)

    @override
    def _gradient(self, x: Array) -> Array:
        return self.function.gradient(x) + self._direction(x)

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        return self.function.directional_derivative(x, v) + self._inner(v)

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        return self.function.remainder(y, delta, x=x)

    @override
    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        return self.function.gradient_difference(y, delta)

    @override
    def conjugate(self) -> "Tilted":
        """f*(y − slope) − constant."""
        shifted = Affine(self.function.conjugate(), 1.0, -jnp.asarray(self.slope))
        return Tilted(shifted, 0.0, -jnp.asarray(self.constant))


@final
@register_pytree
@dataclass(frozen=True, eq=False)
class Sum(ConvexFunction):
    """Σ f_i(x), finite where all f_i are; B is the sum of the divergences of the f_i.

    Attributes:
        functions: The f_i.
        start: A point inside the domain; only the conjugate needs it.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.convex import L1Norm, SquaredNorm
        >>> f = Sum((SquaredNorm(), L1Norm()))
        >>> print(f(jnp.array([1.0, -2.0])), f.gradient(jnp.array([1.0, -2.0])))
        5.5 [ 2. -3.]
    """

    functions: tuple[ConvexFunction, ...]
    start: ArrayLike | None = None

    @property
    @override
    def event_ndim(self) -> int:
        return self.functions[0].event_ndim

    @property
    @override
    def separable(self) -> bool:
        return all(f.separable for f in self.functions)

    @property
    @override
    def differentiable(self) -> bool:
        return all(f.differentiable for f in self.functions)

    @override
    def _value(self, x: Array) -> Array:
        return sum_extended(jnp.stack([f(x) for f in self.functions]), 0)

    @override
    def _inside(self, x: Array) -> Array:
        return jnp.stack([f.contains(x) for f in self.functions]).all(0)

    @override
    def _gradient(self, x: Array) -> Array:
        return jnp.stack([f.gradient(x) for f in self.functions]).sum(0)

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        slopes = [f.directional_derivative(x, v) for f in self.functions]
        return sum_extended(jnp.stack(slopes), 0)

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        parts = [f.remainder(y, delta, x=x) for f in self.functions]
        return jnp.stack(parts).sum(0)

    @override
    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        parts = [f.gradient_difference(y, delta) for f in self.functions]
        return jnp.stack(parts).sum(0)

    @override
    def conjugate(self) -> NumericalConjugate:
        """f* by numerical maximisation from `start`.

        Raises:
            ValueError: If there is no `start`.
        """
        if self.start is None:
            raise ValueError(
                "The conjugate of a sum is found numerically: give `Sum` a `start`, a "
                "point inside its domain."
            )
        return NumericalConjugate(self, self.start)


@final
@register_pytree
@dataclass(frozen=True, eq=False)
class SeparableSum(SeparableFunction):
    """Σ scalar(x_i), or Σ scalar(x_i, params), of a differentiable convex scalar.

    Attributes:
        scalar: Function of one number (and the parameters) → number, in `jax.numpy`:
            +inf outside its domain. Prefer a module-level function: a fresh lambda for
            each object compiles again.
        start: Point inside the domain, a number or `[n]`, for the conjugate only.
        params: Pytree of arrays, differentiable; None if `scalar` takes none.

    Examples:
        >>> import jax.numpy as jnp
        >>> f = SeparableSum(jnp.cosh)
        >>> print(f(jnp.zeros(2)), f.gradient(jnp.arcsinh(jnp.array([1.0, 2.0]))))
        2.0 [1. 2.]
    """

    scalar: Callable[..., Array] = jax.tree.static()
    start: ArrayLike = 0.0
    params: PyTree = None

    @override
    def _scalar(self, x: Array) -> Array:
        if self.params is None:
            each = self.scalar
        else:
            each = lambda number: self.scalar(number, self.params)
        if x.ndim == 0:
            return each(x)
        return jax.vmap(each)(x.ravel()).reshape(x.shape)

    @override
    def conjugate(self) -> NumericalConjugate:
        """Σ of the scalar conjugates, each by safeguarded Newton steps."""
        return NumericalConjugate(self, self.start)

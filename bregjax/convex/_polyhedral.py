"""Norms and maxima with kinks, and the indicator functions conjugate to them.

Their divergences follow Definition 2.1 of the paper in closed form, exact up to one
rounding: by Proposition 2.3 B_f(x, y) = f(x) − min of ⟨g, x⟩ over the subgradients g at
y, which are the convex hull of a few signs or unit vectors. For the max norm, at
y = (1, −1) they are the hull of (1, 0) and (0, −1): for x = (2, 0) the products are 2
and 0, and B(x, y) = 2 − 0 = 2.
"""

from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.convex._base import ConvexFunction, SeparableFunction


def _slope_of_size(x: Array, v: Array) -> Array:
    """One-sided derivative of |·|, elementwise."""
    return jnp.where(x == 0, jnp.abs(v), jnp.sign(x) * v)


def _rounding(x: Array) -> Array:
    """Allowed error of a sum, which should be 1, over the n entries of a point."""
    return jnp.asarray(4 * (x.shape[-1] + 4) * jnp.finfo(x.dtype).eps, x.dtype)


@final
@register_pytree
@dataclass(frozen=True)
class L1Norm(SeparableFunction):
    """‖x‖₁ = Σ|x|; its conjugate is the indicator function of ‖y‖∞ ≤ 1.

    B(x, y) = Σ 2|x_i| over the i where x_i and y_i are not of one sign (Example 2.2).

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax import bregman_divergence
        >>> x, y = jnp.array([3.0, -1.0]), jnp.array([0.0, -5.0])
        >>> print(bregman_divergence(L1Norm(), x, y))
        6.0
    """

    @property
    @override
    def differentiable(self) -> bool:
        return False

    @override
    def _scalar(self, x: Array) -> Array:
        return jnp.abs(x)

    @override
    def _scalar_gradient(self, x: Array) -> Array:
        return jnp.sign(x)

    @override
    def _scalar_inside(self, x: Array) -> Array:
        return jnp.isfinite(x)

    @override
    def _scalar_slope(self, x: Array, v: Array) -> Array:
        return _slope_of_size(x, v)

    @override
    def _scalar_remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        x = y + delta if x is None else x
        return jnp.where(jnp.sign(x) * jnp.sign(y) > 0, 0, 2 * jnp.abs(x))

    @override
    def _scalar_difference(self, y: Array, delta: Array) -> Array:
        return jnp.sign(y + delta) - jnp.sign(y)

    @override
    def conjugate(self) -> "UnitBallIndicator":
        """0 where ‖y‖∞ ≤ 1, +inf elsewhere."""
        return UnitBallIndicator(MaxNorm())


@final
@register_pytree
@dataclass(frozen=True)
class MaxNorm(ConvexFunction):
    """‖x‖∞ = max |x_i|; its conjugate is the indicator function of ‖y‖₁ ≤ 1.

    B(x, y) = ‖x‖∞ − min sign(y_i) x_i over the i of largest |y_i|; 2‖x‖∞ at y = 0.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax import bregman_divergence
        >>> x, y = jnp.array([2.0, 0.0]), jnp.array([1.0, -1.0])
        >>> print(bregman_divergence(MaxNorm(), x, y))
        2.0
    """

    @property
    @override
    def differentiable(self) -> bool:
        return False

    @override
    def _value(self, x: Array) -> Array:
        return jnp.max(jnp.abs(x), -1)

    @override
    def _inside(self, x: Array) -> Array:
        return jnp.all(jnp.isfinite(x), -1)

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        size = jnp.abs(x)
        active = size == jnp.max(size, -1, keepdims=True)
        return jnp.max(jnp.where(active, _slope_of_size(x, v), -jnp.inf), -1)

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        x = y + delta if x is None else x
        return self._value(x) + self._slope(y, -x)

    @override
    def conjugate(self) -> "UnitBallIndicator":
        """0 where ‖y‖₁ ≤ 1, +inf elsewhere."""
        return UnitBallIndicator(L1Norm())


@final
@register_pytree
@dataclass(frozen=True)
class Max(ConvexFunction):
    """max x_i; its conjugate is the indicator function of the probability simplex.

    B(x, y) = max x_i − min x_j over the j of largest y_j.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax import bregman_divergence
        >>> x, y = jnp.array([4.0, 1.0, 2.0]), jnp.array([0.0, 1.0, 1.0])
        >>> print(bregman_divergence(Max(), x, y))
        3.0
    """

    @property
    @override
    def differentiable(self) -> bool:
        return False

    @override
    def _value(self, x: Array) -> Array:
        return jnp.max(x, -1)

    @override
    def _inside(self, x: Array) -> Array:
        return jnp.all(jnp.isfinite(x), -1)

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        active = x == jnp.max(x, -1, keepdims=True)
        return jnp.max(jnp.where(active, v, -jnp.inf), -1)

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        x = y + delta if x is None else x
        return self._value(x) + self._slope(y, -x)

    @override
    def conjugate(self) -> "SimplexIndicator":
        """0 on the probability simplex, +inf elsewhere."""
        return SimplexIndicator()


@final
@register_pytree
@dataclass(frozen=True)
class UnitBallIndicator(ConvexFunction):
    """0 where norm(x) ≤ 1 (up to rounding), +inf elsewhere.

    Conjugate: the dual norm. B(x, y) for x, y in the ball is 0, or +inf where the ray
    from x through y leaves the ball at y.

    Attributes:
        norm: `L1Norm` or `MaxNorm`; each is the dual norm of the other.

    Examples:
        >>> import jax.numpy as jnp
        >>> f = UnitBallIndicator(MaxNorm())
        >>> print(f(jnp.array([1.0, -0.5])), f(jnp.array([1.5, 0.0])))
        0.0 inf
        >>> print(f.conjugate()(jnp.array([1.0, -2.0])))
        3.0
    """

    norm: L1Norm | MaxNorm

    @property
    @override
    def differentiable(self) -> bool:
        return False

    @override
    def _value(self, x: Array) -> Array:
        zero = jnp.sum(jnp.zeros_like(x), -1)
        return jnp.where(self.norm(x) <= 1 + _rounding(x), zero, jnp.inf)

    @override
    def _gradient(self, x: Array) -> Array:
        return jnp.zeros_like(x)

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        zero = jnp.sum(x * 0 * v, -1)
        at_edge = self.norm(x) >= 1 - _rounding(x)
        growth = self.norm.directional_derivative(x, v)
        leaves = at_edge & (growth > _rounding(x) * self.norm(v))
        return jnp.where(leaves, jnp.inf, zero)

    @override
    def conjugate(self) -> L1Norm | MaxNorm:
        """The norm dual to `norm`: L1 to max, max to L1."""
        return MaxNorm() if isinstance(self.norm, L1Norm) else L1Norm()


@final
@register_pytree
@dataclass(frozen=True)
class SimplexIndicator(ConvexFunction):
    """0 where x ≥ 0 and Σ x = 1 (up to rounding), +inf elsewhere.

    Conjugate: max. B(x, y) for x, y in the simplex is 0, or +inf where some
    y_i = 0 < x_i.

    Examples:
        >>> import jax.numpy as jnp
        >>> f = SimplexIndicator()
        >>> print(f(jnp.array([0.25, 0.75])), f(jnp.array([0.5, 0.75])))
        0.0 inf
        >>> print(f.conjugate()(jnp.array([1.0, 4.0])))
        4.0
    """

    @property
    @override
    def differentiable(self) -> bool:
        return False

    @override
    def _value(self, x: Array) -> Array:
        total = jnp.sum(x, -1)
        inside = jnp.all(x >= 0, -1) & (jnp.abs(total - 1) <= _rounding(x))
        return jnp.where(inside, jnp.zeros_like(total), jnp.inf)

    @override
    def _gradient(self, x: Array) -> Array:
        return jnp.zeros_like(x)

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        zero = jnp.sum(x * 0 * v, -1)
        drift = jnp.abs(jnp.sum(v, -1))
        leaves = drift > _rounding(v) * jnp.sum(jnp.abs(v), -1)
        leaves |= jnp.any((x == 0) & (v < 0), -1)
        return jnp.where(leaves, jnp.inf, zero)

    @override
    def conjugate(self) -> Max:
        """max y_i."""
        return Max()

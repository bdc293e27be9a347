"""Quadratics, entropies and the log-partition functions conjugate to them.

Each class names f, its conjugate f* and its divergence B_f(x, y).
"""

from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
from typing_extensions import override

from bregjax._numerics import (
    burg_remainder,
    exp_remainder,
    kl_remainder,
    log_ratio,
    multiply_matrix,
    symmetric_part,
    xlogx,
)
from bregjax._pytree import register_pytree
from bregjax._typing import Array, ArrayLike
from bregjax.convex._base import ConvexFunction, SeparableFunction


def _like(y: Array, value: Array) -> Array:
    """Broadcast the value against y, whose leading axes may be larger."""
    return jnp.broadcast_to(value, jnp.broadcast_shapes(y.shape, value.shape))


@final
@register_pytree
@dataclass(frozen=True)
class SquaredNorm(SeparableFunction):
    """½‖x‖², its own conjugate; B(x, y) = ½‖x − y‖².

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax import bregman_divergence
        >>> x, y = jnp.array([3.0, 4.0]), jnp.array([0.0, 0.0])
        >>> print(bregman_divergence(SquaredNorm(), x, y))
        12.5
    """

    @override
    def _scalar(self, x: Array) -> Array:
        return x * x / 2

    @override
    def _scalar_gradient(self, x: Array) -> Array:
        return x

    @override
    def _scalar_inside(self, x: Array) -> Array:
        return jnp.isfinite(x)

    @override
    def _scalar_remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        del x
        return _like(y, delta * delta / 2)

    @override
    def _scalar_difference(self, y: Array, delta: Array) -> Array:
        return _like(y, delta)

    @override
    def conjugate(self) -> "SquaredNorm":
        """½‖y‖², the same function."""
        return self


@final
@register_pytree
@dataclass(frozen=True, eq=False)
class Mahalanobis(ConvexFunction):
    """½ xᵀAx for symmetric positive definite A `[n, n]`.

    Conjugate ½ yᵀA⁻¹y. B(x, y) = ½ (x − y)ᵀA(x − y). Of an A that is not symmetric the
    symmetric part is taken. A semidefinite A gives a convex function too, without the
    conjugate.

    Examples:
        >>> import jax.numpy as jnp
        >>> f = Mahalanobis(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
        >>> print(f(jnp.array([1.0, 1.0])), f.gradient(jnp.array([1.0, 1.0])))
        3.0 [3. 3.]
    """

    matrix: ArrayLike

    def _apply(self, x: Array) -> Array:
        matrix = jnp.asarray(self.matrix, x.dtype)
        return multiply_matrix(symmetric_part(matrix), x)

    @override
    def _value(self, x: Array) -> Array:
        return jnp.sum(x * self._apply(x), -1) / 2

    @override
    def _inside(self, x: Array) -> Array:
        return jnp.all(jnp.isfinite(x), -1)

    @override
    def _gradient(self, x: Array) -> Array:
        return self._apply(x)

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        return jnp.sum(self._apply(x) * v, -1)

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        del x
        return _like(y[..., 0], self._value(delta))

    @override
    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        return _like(y, self._apply(delta))

    @override
    def conjugate(self) -> "Mahalanobis":
        """½ yᵀA⁻¹y."""
        return Mahalanobis(jnp.linalg.inv(symmetric_part(jnp.asarray(self.matrix))))


@final
@register_pytree
@dataclass(frozen=True, eq=False)
class NegativeEntropy(SeparableFunction):
    """Σ x log x + tilt · x over x ≥ 0, with 0 log 0 = 0; in nats.

    Conjugate Σ exp(y − 1 − tilt). B(x, y) = Σ x log(x/y) − x + y whatever the tilt: the
    generalised Kullback–Leibler divergence; +inf where y = 0 < x, 0 where both are 0.
    The gradient is −inf at 0. The default is plain Σ x log x, without −x; tilt = −1 is
    the conjugate of Σ exp (`SumExp`).

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax import bregman_divergence
        >>> x, y = jnp.array([1.0, 0.0]), jnp.array([2.0, 0.5])
        >>> print(bregman_divergence(NegativeEntropy(), x, y))
        0.8069
    """

    tilt: ArrayLike = 0.0

    @override
    def _scalar(self, x: Array) -> Array:
        return xlogx(x) + jnp.asarray(self.tilt, x.dtype) * x

    @override
    def _scalar_gradient(self, x: Array) -> Array:
        return jnp.log(x) + (1 + jnp.asarray(self.tilt, x.dtype))

    @override
    def _scalar_inside(self, x: Array) -> Array:
        return (x >= 0) & (x < jnp.inf)

    @override
    def _scalar_remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        return kl_remainder(y, delta, x=x)

    @override
    def _scalar_difference(self, y: Array, delta: Array) -> Array:
        return log_ratio(y, delta)

    @override
    def conjugate(self) -> "SumExp":
        """Σ exp(y − 1 − tilt)."""
        return SumExp(-1 - jnp.asarray(self.tilt))


@final
@register_pytree
@dataclass(frozen=True, eq=False)
class SumExp(SeparableFunction):
    """Σ exp(x + shift).

    Conjugate Σ y log y − (1 + shift) y over y ≥ 0: a `NegativeEntropy` with a tilt.
    B(x, y) = Σ exp(y + shift) (exp(x − y) − 1 − (x − y)). The log-partition function of
    Poisson counts.

    Examples:
        >>> import jax.numpy as jnp
        >>> f = SumExp()
        >>> print(f(jnp.zeros(3)), f.gradient(jnp.log(jnp.array([1.0, 2.0]))))
        3.0 [1. 2.]
        >>> print(f.conjugate()(jnp.array([1.0, 2.0])))
        -1.6137
    """

    shift: ArrayLike = 0.0

    @override
    def _scalar(self, x: Array) -> Array:
        return jnp.exp(x + jnp.asarray(self.shift, x.dtype))

    @override
    def _scalar_gradient(self, x: Array) -> Array:
        return self._scalar(x)

    @override
    def _scalar_remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        del x
        return self._scalar(y) * exp_remainder(delta)

    @override
    def _scalar_difference(self, y: Array, delta: Array) -> Array:
        return self._scalar(y) * jnp.expm1(delta)

    @override
    def conjugate(self) -> NegativeEntropy:
        """Σ y log y − (1 + shift) y."""
        return NegativeEntropy(-1 - jnp.asarray(self.shift))


@final
@register_pytree
@dataclass(frozen=True)
class Burg(SeparableFunction):
    """−Σ log x over x > 0.

    Conjugate Σ −1 − log(−y) over y < 0 (`BurgConjugate`). B(x, y) = Σ x/y − 1 −
    log(x/y), the Itakura–Saito divergence.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax import bregman_divergence
        >>> print(bregman_divergence(Burg(), jnp.array([2.0]), jnp.array([1.0])))
        0.3069
    """

    @override
    def _scalar(self, x: Array) -> Array:
        inside = x > 0
        return jnp.where(x <= 0, jnp.inf, -jnp.log(jnp.where(inside, x, 1)))

    @override
    def _scalar_gradient(self, x: Array) -> Array:
        return -1 / x

    @override
    def _scalar_inside(self, x: Array) -> Array:
        return (x > 0) & (x < jnp.inf)

    @override
    def _scalar_remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        return burg_remainder(y, delta, x=x)

    @override
    def _scalar_difference(self, y: Array, delta: Array) -> Array:
        return delta / y / (y + delta)

    @override
    def conjugate(self) -> "BurgConjugate":
        """Σ −1 − log(−y)."""
        return BurgConjugate()


@final
@register_pytree
@dataclass(frozen=True)
class BurgConjugate(SeparableFunction):
    """−Σ log(−x) + 1 over x < 0, the conjugate of `Burg`.

    B(x, y) is that of `Burg` between −x and −y: Σ x/y − 1 − log(x/y).

    Examples:
        >>> import jax.numpy as jnp
        >>> f = BurgConjugate()
        >>> print(f(jnp.array([-1.0, -1.0])), f.gradient(jnp.array([-2.0, -4.0])))
        -2.0 [0.5 0.25]
    """

    @override
    def _scalar(self, x: Array) -> Array:
        return Burg()._scalar(-x) - 1

    @override
    def _scalar_gradient(self, x: Array) -> Array:
        return -1 / x

    @override
    def _scalar_inside(self, x: Array) -> Array:
        return (x < 0) & (x > -jnp.inf)

    @override
    def _scalar_remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        return burg_remainder(-y, -delta, x=None if x is None else -x)

    @override
    def _scalar_difference(self, y: Array, delta: Array) -> Array:
        return delta / y / (y + delta)

    @override
    def conjugate(self) -> Burg:
        """−Σ log y."""
        return Burg()

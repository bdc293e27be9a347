"""−log det of symmetric positive definite matrices, and its conjugate.

With Y = LLᵀ and A = L⁻¹ΔL⁻ᵀ the remainder is B(Y + Δ, Y) = tr A − log det(I + A). Let C
be the Cholesky factor of I + A, s_i the sum of squares left of its diagonal in row i
and e_i = A_ii − s_i. Then C_ii² = 1 + e_i, and

    B = Σ s_i + (e_i − log(1 + e_i)).

All terms are at least 0, and neither s nor e holds the 1 of I + A: nothing cancels.
For A = [[0.1, 0.05], [0.05, 0.2]]: s = (0, 0.002273), e = (0.1, 0.197727), and B =
0.002273 + 0.004690 + 0.017301 = 0.024264.
"""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._numerics import burg_remainder, symmetric_part
from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.convex._base import ConvexFunction


def _multiply(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision="highest")


def _transpose(a: Array) -> Array:
    return jnp.swapaxes(a, -1, -2)


def _factor(x: Array) -> tuple[Array, Array]:
    """Cholesky factor `[..., d, d]`, and whether it exists `[...]` (else the identity).

    A matrix that is asymmetric beyond rounding has none. The sign of a determinant is
    no test: two negative eigenvalues leave it positive.
    """
    size = jnp.max(jnp.abs(x), (-1, -2), keepdims=True)
    slack = 100 * x.shape[-1] * jnp.finfo(x.dtype).eps * size
    lower = jnp.linalg.cholesky(x)
    exists = jnp.all(jnp.isfinite(lower), (-1, -2))
    exists &= jnp.all(jnp.abs(x - _transpose(x)) <= slack, (-1, -2))
    return jnp.where(exists[..., None, None], lower, _identity_like(x)), exists


def _identity_like(x: Array) -> Array:
    return jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)


def _invert_factor(lower: Array) -> Array:
    eye = _identity_like(lower)
    return jax.lax.linalg.triangular_solve(lower, eye, left_side=True, lower=True)


@jax.custom_jvp
def _inverse(x: Array) -> Array:
    root = _invert_factor(_factor(x)[0])
    return _multiply(_transpose(root), root)


@_inverse.defjvp
def _inverse_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    inverse = _inverse(x)
    return inverse, -_multiply(inverse, _multiply(dx, inverse))


@jax.custom_jvp
def _negative_log_det(x: Array) -> Array:
    lower, exists = _factor(x)
    diagonal = jnp.diagonal(lower, axis1=-2, axis2=-1)
    return jnp.where(exists, -2 * jnp.sum(jnp.log(diagonal), -1), jnp.inf)


@_negative_log_det.defjvp
def _negative_log_det_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    slope = -symmetric_part(_inverse(x))
    return _negative_log_det(x), jnp.sum(slope * dx, (-1, -2))


def _whiten(y: Array, delta: Array) -> tuple[Array, Array, Array]:
    """L⁻¹ and A = L⁻¹ΔL⁻ᵀ, and whether Y is positive definite."""
    lower, exists = _factor(y)
    root = _invert_factor(lower)
    whitened = _multiply(root, _multiply(delta, _transpose(root)))
    return root, symmetric_part(whitened), exists


def identity_remainder(a: Array) -> Array:
    """B(I + A, I) = tr A − log det(I + A) of symmetric A; +inf unless I + A > 0."""
    return _remainder_and_inverse(a)[0]


@jax.custom_jvp
def _remainder_and_inverse(a: Array) -> tuple[Array, Array]:
    """B(I + A, I) and (I + A)⁻¹, by one factorisation.

    With two factorisations that do not wait for each other a compiled loop can lock up
    on a CPU.
    """
    lower, exists = _factor(a + _identity_like(a))
    squares = jnp.sum(jnp.tril(lower, -1) ** 2, -1)
    excess = jnp.diagonal(a, axis1=-2, axis2=-1) - squares
    terms = squares + burg_remainder(jnp.ones_like(excess), excess)
    root = _invert_factor(lower)
    inverse = _multiply(_transpose(root), root)
    return jnp.where(exists, jnp.sum(terms, -1), jnp.inf), inverse


@_remainder_and_inverse.defjvp
def _remainder_and_inverse_jvp(primals, tangents):
    # The slope I − (I + A)⁻¹ = (I + A)⁻¹A, without the difference.
    (a,), (da,) = primals, tangents
    value, inverse = _remainder_and_inverse(a)
    slope = symmetric_part(_multiply(inverse, a))
    d_inverse = -_multiply(inverse, _multiply(da, inverse))
    return (value, inverse), (jnp.sum(slope * da, (-1, -2)), d_inverse)


@jax.custom_jvp
def _remainder(y: Array, delta: Array) -> Array:
    _, whitened, exists = _whiten(y, delta)
    return jnp.where(exists, identity_remainder(whitened), jnp.inf)


@_remainder.defjvp
def _remainder_jvp(primals, tangents):
    # ∂Δ = D = Y⁻¹ − (Y + Δ)⁻¹ and ∂Y = D − Y⁻¹ΔY⁻¹ = −DΔY⁻¹.
    (y, delta), (dy, ddelta) = primals, tangents
    difference = _slope_difference(y, delta)
    by_y = symmetric_part(_multiply(difference, _multiply(delta, _inverse(y))))
    tangent = jnp.sum(difference * ddelta, (-1, -2)) - jnp.sum(by_y * dy, (-1, -2))
    return _remainder(y, delta), tangent


def _slope_difference(y: Array, delta: Array) -> Array:
    """Y⁻¹ − (Y + Δ)⁻¹ = L⁻ᵀ(I + A)⁻¹A L⁻¹."""
    root, whitened, _ = _whiten(y, delta)
    middle = _inverse(whitened + _identity_like(whitened))
    middle = symmetric_part(_multiply(middle, whitened))
    return _multiply(_transpose(root), _multiply(middle, root))


class _LogDeterminant(ConvexFunction):
    """A function of matrices that is differentiable wherever it is finite."""

    @property
    @override
    def event_ndim(self) -> int:
        return 2

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        return jnp.sum(self._gradient(x) * v, (-1, -2))


@final
@register_pytree
@dataclass(frozen=True)
class NegativeLogDeterminant(_LogDeterminant):
    """−log det X of symmetric positive definite X `[..., d, d]`; +inf elsewhere.

    Conjugate −log det(−Y) − d of negative definite Y. B(X, Y) = tr(XY⁻¹) −
    log det(XY⁻¹) − d (Stein's loss, the log-det divergence): twice the Kullback–Leibler
    divergence of the Gaussian N(0, X) from N(0, Y). A singular X is outside the domain.
    Each value costs one Cholesky factor, each divergence two.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax import bregman_divergence
        >>> f, eye = NegativeLogDeterminant(), jnp.eye(2)
        >>> print(f(4 * eye), bregman_divergence(f, 4 * eye, eye))
        -2.7726 3.2274
    """

    @override
    def _value(self, x: Array) -> Array:
        return _negative_log_det(x)

    @override
    def _inside(self, x: Array) -> Array:
        return _factor(x)[1]

    @override
    def _gradient(self, x: Array) -> Array:
        return -symmetric_part(_inverse(x))

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        del x  # where the slope is infinite, so is the value
        return _remainder(y, delta)

    @override
    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        return _slope_difference(y, delta)

    @override
    def conjugate(self) -> "LogDeterminantConjugate":
        """−log det(−Y) − d."""
        return LogDeterminantConjugate()


@final
@register_pytree
@dataclass(frozen=True)
class LogDeterminantConjugate(_LogDeterminant):
    """−log det(−Y) − d of symmetric negative definite Y `[..., d, d]`.

    The conjugate of `NegativeLogDeterminant`; B(X, Y) is the divergence of that
    function between −X and −Y.

    Examples:
        >>> import jax.numpy as jnp
        >>> f = LogDeterminantConjugate()
        >>> print(f(-jnp.eye(2)), f.contains(jnp.eye(2)))
        -2.0 False
    """

    @override
    def _value(self, x: Array) -> Array:
        return _negative_log_det(-x) - x.shape[-1]

    @override
    def _inside(self, x: Array) -> Array:
        return _factor(-x)[1]

    @override
    def _gradient(self, x: Array) -> Array:
        return symmetric_part(_inverse(-x))

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        del x
        return _remainder(-y, -delta)

    @override
    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        return -_slope_difference(-y, -delta)

    @override
    def conjugate(self) -> NegativeLogDeterminant:
        """−log det X."""
        return NegativeLogDeterminant()

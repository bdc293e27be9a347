"""Log-partition functions of categories and of Bernoulli variables, and conjugates.

With p = ∇f(y) and δ' = δ − ⟨p, δ⟩ the remainder of f = logsumexp is

    B(y + δ, y) = log Σ p exp(δ') = log(1 + Σ p (exp(δ') − 1 − δ')),

whose terms are all at least 0. For y = (0, log 3) and δ = (0.4, 0): p = (¼, ¾), δ' =
(0.3, −0.1), the terms are 0.012465 and 0.003628, and B = log 1.016093 = 0.015965.
"""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from typing_extensions import override

from bregjax._numerics import exp_remainder, kl_remainder, log_ratio, xlogx
from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.convex._base import ConvexFunction, SeparableFunction
from bregjax.convex._functions import NegativeEntropy


@final
@register_pytree
@dataclass(frozen=True)
class LogSumExp(ConvexFunction):
    """log Σ exp(x): the log-partition function of categories, overcomplete.

    Conjugate Σ y log y over the probability simplex (`SimplexEntropy`). B(x, y) =
    KL(softmax(y), softmax(x)), blind to constants added to x or y.

    Examples:
        >>> import jax.numpy as jnp
        >>> f, x = LogSumExp(), jnp.log(jnp.array([1.0, 3.0]))
        >>> print(f(x), f.gradient(x))
        1.3863 [0.25 0.75]
    """

    @override
    def _value(self, x: Array) -> Array:
        return logsumexp(x, axis=-1)

    @override
    def _gradient(self, x: Array) -> Array:
        return jax.nn.softmax(x, axis=-1)

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        return jnp.sum(self._gradient(x) * v, -1)

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        del x
        return self._tilt(y, delta)[2]

    @override
    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        probability, centered, value, near = self._tilt(y, delta)
        exponent = jnp.where(near[..., None], centered - value[..., None], 0)
        plain = self._gradient(y + delta) - probability
        close = probability * jnp.expm1(exponent)
        return jnp.where(near[..., None], close, plain)

    def _tilt(self, y: Array, delta: Array) -> tuple[Array, Array, Array, Array]:
        """p, δ' and the remainder, and whether exp(δ') is far from overflow."""
        log_probability = jax.nn.log_softmax(y, axis=-1)
        probability = jnp.exp(log_probability)
        centered = delta - jnp.sum(probability * delta, -1, keepdims=True)
        limit = jnp.log(jnp.finfo(y.dtype).max) / 2
        near = jnp.max(centered, -1) <= limit
        small = jnp.where(near[..., None], centered, 0)
        close = jnp.log1p(jnp.sum(probability * exp_remainder(small), -1))
        far = logsumexp(log_probability + centered, axis=-1)
        return probability, centered, jnp.where(near, close, far), near

    @override
    def conjugate(self) -> "SimplexEntropy":
        """Σ y log y over the probability simplex."""
        return SimplexEntropy()


def on_simplex(x: Array) -> Array:
    """Whether x ≥ 0 and Σ x = 1 up to the rounding of a sum of n terms."""
    slack = 4 * (x.shape[-1] + 4) * jnp.finfo(x.dtype).eps
    return jnp.all(x >= 0, -1) & (jnp.abs(jnp.sum(x, -1) - 1) <= slack)


def _keeps_sum(v: Array) -> Array:
    """Whether Σ v = 0 up to rounding: directions in the hull of the simplex."""
    slack = 4 * (v.shape[-1] + 4) * jnp.finfo(v.dtype).eps
    return jnp.abs(jnp.sum(v, -1)) <= slack * jnp.maximum(jnp.sum(jnp.abs(v), -1), 1)


@final
@register_pytree
@dataclass(frozen=True)
class SimplexEntropy(ConvexFunction):
    """Σ x log x over the probability simplex, +inf off it (Σ x = 1 up to rounding).

    Conjugate logsumexp. B(x, y) = KL(x, y) in nats. Off the boundary f is relatively
    differentiable: ∇f(x) = log x + 1 is one of its subgradients, which differ by
    constants.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax import bregman_divergence
        >>> x, y = jnp.array([1.0, 0.0]), jnp.array([0.25, 0.75])
        >>> print(bregman_divergence(SimplexEntropy(), x, y))
        1.3863
    """

    @override
    def _value(self, x: Array) -> Array:
        return jnp.where(on_simplex(x), jnp.sum(xlogx(x), -1), jnp.inf)

    @override
    def _inside(self, x: Array) -> Array:
        return on_simplex(x)

    @override
    def _gradient(self, x: Array) -> Array:
        return NegativeEntropy().gradient(x)

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        slope = NegativeEntropy().directional_derivative(x, v)
        return jnp.where(_keeps_sum(v), slope, jnp.inf)

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        value = NegativeEntropy().remainder(y, delta, x=x)
        return jnp.where(on_simplex(y) & _keeps_sum(delta), value, jnp.inf)

    @override
    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        return log_ratio(y, delta)

    @override
    def conjugate(self) -> LogSumExp:
        """log Σ exp(y)."""
        return LogSumExp()


@final
@register_pytree
@dataclass(frozen=True)
class Logistic(SeparableFunction):
    """Σ log(1 + exp(x)): the log-partition function of Bernoulli variables.

    Conjugate Σ y log y + (1 − y) log(1 − y) over [0, 1]. B(x, y) is the sum of
    KL(σ(y), σ(x)), σ the logistic curve.

    Examples:
        >>> import jax.numpy as jnp
        >>> x = jnp.array([0.0, jnp.log(3.0)])
        >>> print(Logistic()(x), Logistic().gradient(x))
        2.0794 [0.5 0.75]
    """

    @override
    def _scalar(self, x: Array) -> Array:
        return jax.nn.softplus(x)

    @override
    def _scalar_gradient(self, x: Array) -> Array:
        return jax.nn.sigmoid(x)

    @override
    def _scalar_remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        # f(x) − f(−x) is linear, so B is even in (y, δ): take y ≤ 0, p ≤ ½. Where δ is
        # small, the sum of the module's text for two categories; elsewhere the plain
        # difference cancels by no more than a factor 6.
        del x
        sign = jnp.where(y > 0, -1, 1)
        y, delta = sign * y, sign * delta
        p = self._scalar_gradient(y)
        near = jnp.abs(delta) <= 1
        step = jnp.where(near, delta, 0)
        close = p * exp_remainder((1 - p) * step) + (1 - p) * exp_remainder(-p * step)
        far = self._scalar(y + delta) - self._scalar(y) - p * delta
        return jnp.where(near, jnp.log1p(close), far)

    @override
    def _scalar_difference(self, y: Array, delta: Array) -> Array:
        # σ(a) − σ(b) = σ(a) σ(−b) (1 − exp(b − a)), with the larger argument as a.
        x = y + delta
        rise = -jnp.expm1(-jnp.abs(delta))
        larger, smaller = jnp.maximum(x, y), jnp.minimum(x, y)
        size = self._scalar_gradient(larger) * self._scalar_gradient(-smaller) * rise
        return jnp.sign(delta) * size

    @override
    def conjugate(self) -> "BinaryEntropy":
        """Σ y log y + (1 − y) log(1 − y)."""
        return BinaryEntropy()


@final
@register_pytree
@dataclass(frozen=True)
class BinaryEntropy(SeparableFunction):
    """Σ x log x + (1 − x) log(1 − x) over 0 ≤ x ≤ 1, with 0 log 0 = 0; in nats.

    Conjugate Σ log(1 + exp(y)). B(x, y) is the sum of the Kullback–Leibler divergences
    of Bernoulli variables with means x from those with means y.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax import bregman_divergence
        >>> x, y = jnp.array([1.0, 0.5]), jnp.array([0.5, 0.5])
        >>> print(bregman_divergence(BinaryEntropy(), x, y))
        0.6931
    """

    @override
    def _scalar(self, x: Array) -> Array:
        return xlogx(x) + xlogx(1 - x)

    @override
    def _scalar_gradient(self, x: Array) -> Array:
        return jnp.log(x) - jnp.log1p(-x)

    @override
    def _scalar_remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        upper = None if x is None else 1 - x
        return kl_remainder(y, delta, x=x) + kl_remainder(1 - y, -delta, x=upper)

    @override
    def _scalar_difference(self, y: Array, delta: Array) -> Array:
        return log_ratio(y, delta) - log_ratio(1 - y, -delta)

    @override
    def conjugate(self) -> Logistic:
        """Σ log(1 + exp(y))."""
        return Logistic()

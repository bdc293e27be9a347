"""Conjugates without a closed form, as convex functions."""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array, ArrayLike
from bregjax.convex._base import ConvexFunction, over_batch
from bregjax.convex._conjugation import ConjugateSolution, conjugate


@final
@register_pytree
@dataclass(frozen=True, eq=False)
class NumericalConjugate(ConvexFunction):
    """f* by numerical maximisation of ⟨y, x⟩ − f(x), for differentiable f.

    Values, gradients (the maximisers) and their derivatives come from
    `bregjax.convex.conjugate`; `solve` gives its result codes. A value the solver could
    not find is NaN. The gradient is meaningful in the relative interior of the domain.

    Each call solves once for each point, `remainder` twice.

    Attributes:
        function: f.
        start: A point inside the domain of f: like a point, or one number for all.

    Examples:
        >>> from bregjax.convex import SumExp
        >>> dual = NumericalConjugate(SumExp(), 0.0)
        >>> print(dual.conjugate() is dual.function, dual.separable, dual.event_ndim)
        True True 1
    """

    function: ConvexFunction
    start: ArrayLike

    @property
    @override
    def event_ndim(self) -> int:
        return self.function.event_ndim

    @property
    @override
    def separable(self) -> bool:
        """Whether f is separable, and `start` is one number."""
        return self.function.separable and jnp.ndim(self.start) == 0

    def solve(self, y: ArrayLike) -> ConjugateSolution:
        """The solver's answers at y `[..., *event]`, leading axes on each field."""
        return over_batch(self._solve, self.event_ndim, *self._points(y))

    @override
    def conjugate(self) -> ConvexFunction:
        """f itself, as f** = f."""
        return self.function

    def _solve(self, y: Array) -> ConjugateSolution:
        start = jnp.broadcast_to(jnp.asarray(self.start, y.dtype), y.shape)
        return conjugate(self.function, start, separable=self.function.separable)(y)

    @override
    def _value(self, x: Array) -> Array:
        return over_batch(self._solve, self.event_ndim, x).value

    @override
    def _gradient(self, x: Array) -> Array:
        return over_batch(self._solve, self.event_ndim, x).maximiser

    @override
    def _slope(self, x: Array, v: Array) -> Array:
        axes = tuple(range(-self.event_ndim, 0))
        return jnp.sum(self._gradient(x) * v, axes)

    @override
    def _remainder(self, y: Array, delta: Array, x: Array | None) -> Array:
        if x is None:
            x = y + delta
        return over_batch(self._point_remainder, self.event_ndim, y, delta, x)

    @override
    def _gradient_difference(self, y: Array, delta: Array) -> Array:
        return over_batch(
            lambda a, d: -self._step(self._solve(a + d), self._solve(a), d),
            self.event_ndim,
            y,
            delta,
        )

    def _point_remainder(self, y: Array, delta: Array, x: Array) -> Array:
        # Duality: B_f*(x, y) = B_f(∇f*(y), ∇f*(x)), by the remainder of f. Where x
        # alone is on the boundary, ∇f*(x) does not exist: the difference of values.
        start, end = self._solve(y), self._solve(x)
        found = (end.result == Result.CONVERGED) & (start.result == Result.CONVERGED)
        step = jnp.where(found, self._step(end, start, delta), 0)
        dual = self.function.remainder(end.maximiser, step)
        plain = end.value - start.value - jnp.sum(start.maximiser * delta)
        value = jnp.where(found, dual, jnp.maximum(plain, 0))
        lost = (start.result == Result.BOUNDARY) & jnp.any(delta != 0)
        lost |= (start.result == Result.OUTSIDE) | (end.result == Result.OUTSIDE)
        return jnp.where(lost, jnp.inf, value)

    def _step(
        self, end: ConjugateSolution, start: ConjugateSolution, delta: Array
    ) -> Array:
        """∇f*(y) − ∇f*(y + δ), refined by one Newton step on differences of ∇f.

        The difference of two maximisers has lost its digits where δ is small; the
        residual of the equation that this difference solves has not. For f = exp,
        y = 1 and δ = 1e-14 the maximisers are 0 and 1e-14 with an error of 1e-16, which
        leaves two digits; the step on 1 + δ = exp(s), as δ − expm1(s), restores all.
        """
        origin, step = end.maximiser, start.maximiser - end.maximiser
        residual = -delta - self.function.gradient_difference(origin, step)
        value = lambda point: self.function(point.reshape(origin.shape))
        hessian = jax.hessian(value)(start.maximiser.ravel())
        correction = _pseudo_solve(hessian, residual.ravel())
        return step + correction.reshape(step.shape)


def _pseudo_solve(hessian: Array, right: Array) -> Array:
    """Least-norm solution for a positive semidefinite matrix scaled to diagonal 1."""
    hessian = jax.lax.stop_gradient(hessian)
    diagonal = jnp.diagonal(hessian)
    scale = jnp.where(
        diagonal > 0, 1 / jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1)), 0
    )
    scaled = scale[:, None] * hessian * scale[None, :]
    values, vectors = jnp.linalg.eigh(scaled)
    cut = 8 * right.size * jnp.finfo(right.dtype).eps
    inverse = jnp.where(values > cut, 1 / jnp.where(values > cut, values, 1), 0)
    inner = jnp.matmul(scale * right, vectors, precision="highest") * inverse
    return scale * jnp.matmul(vectors, inner, precision="highest")

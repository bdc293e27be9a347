"""Implicit derivatives of the numerical conjugate."""

from dataclasses import dataclass

import chex
import conjugate_cases as cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bregjax._pytree import register_pytree
from bregjax.convex import conjugate


def tilted(theta, params):
    """Overcomplete, with a parameter that weighs the states."""
    return jax.scipy.special.logsumexp(theta + params["shift"] * jnp.arange(3.0))


def tilted_value(y, shift):
    return (
        jnp.sum(y * jnp.log(y))
        - jnp.sum(y) * jnp.log(jnp.sum(y))
        - shift * jnp.sum(y * jnp.arange(3.0))
    )


MODES = {
    "fwd-rev": lambda f: jax.jacfwd(jax.jacrev(f)),
    "rev-rev": lambda f: jax.jacrev(jax.jacrev(f)),
    "fwd-fwd": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "rev-fwd": lambda f: jax.jacrev(jax.jacfwd(f)),
}


@pytest.mark.parametrize(
    "mode",
    [
        "fwd-rev",
        "rev-fwd",
        pytest.param("rev-rev", marks=pytest.mark.slow),
        pytest.param("fwd-fwd", marks=pytest.mark.slow),
    ],
)
def test_second_derivatives_overcomplete(mode, x64):
    point = jnp.array([0.2, 0.5, 0.3, 0.4])  # y and the shift

    def numerical(point):
        conj = conjugate(tilted, jnp.zeros(3), params={"shift": point[3]})
        return conj(point[:3]).value

    first = jax.grad(numerical)(point)
    second = jax.jit(MODES[mode](numerical))(point)
    exact = jax.grad(lambda p: tilted_value(p[:3], p[3]))(point)
    exact_second = jax.hessian(lambda p: tilted_value(p[:3], p[3]))(point)
    # Right along tangents of the simplex: elsewhere f* is infinite.
    tangents = np.array([[1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 0, 1.0]])
    chex.assert_trees_all_close(tangents @ first, tangents @ exact, atol=1e-13)
    got, want = (tangents @ m @ tangents.T for m in (second, exact_second))
    chex.assert_trees_all_close(got, want, atol=1e-12)


@pytest.mark.parametrize("method", ["scalar", "newton", "lbfgs"])
def test_derivatives_of_the_maximiser(method, x64):
    def f(theta, rate):
        return jnp.sum(rate * jnp.exp(theta) + 0.1 * theta**2)

    y, rate = jnp.array([0.5, 2.0, 7.0]), jnp.array([1.0, 2.0, 0.3])

    def maximiser(y, rate):
        return conjugate(f, jnp.zeros(3), params=rate, method=method)(y).maximiser

    def second(y, rate):
        return jax.grad(lambda y: maximiser(y, rate)[1])(y)[1]

    @jax.jit
    def derivatives(y, rate):
        forward = jax.jacfwd(maximiser, argnums=(0, 1))(y, rate)
        reverse = jax.jacrev(maximiser, argnums=(0, 1))(y, rate)
        return maximiser(y, rate), forward, reverse, jax.grad(second)(y, rate)[1]

    theta, forward, reverse, third = derivatives(y, rate)
    curvature = rate * jnp.exp(theta) + 0.2
    for by_y, by_rate in (forward, reverse):
        chex.assert_trees_all_close(by_y, jnp.diag(1 / curvature), atol=1e-8)
        want = -jnp.diag(jnp.exp(theta) / curvature)
        chex.assert_trees_all_close(by_rate, want, atol=1e-8)
    # d/dy (1 / H) = −(dH/dθ) θ' / H² with dH/dθ = rate·exp θ and θ' = 1 / H.
    exact = -(rate * jnp.exp(theta) / curvature**3)[1]
    np.testing.assert_allclose(third, exact, rtol=1e-6)


def test_value_derivative_on_the_boundary(x64):
    conj = conjugate(cases.poisson, jnp.zeros(2), separable=True)
    y = jnp.array([3.0, 0.0])
    solution = conj(y)
    gradient = jax.grad(lambda y: conj(y).value)(y)
    chex.assert_trees_all_close(gradient, solution.maximiser)
    assert gradient[1] < -500


def test_closure_over_tracers(x64):
    def through(scale):
        return conjugate(lambda t: scale * jnp.sum(jnp.exp(t)), jnp.zeros(2))(
            jnp.array([1.0, 2.0])
        ).value

    # f*(y) = Σ y log(y / scale) − y, so the derivative is −Σ y / scale.
    for transform in (jax.grad(through), jax.jit(jax.grad(through))):
        np.testing.assert_allclose(transform(3.0), -1.0, rtol=1e-12)
    np.testing.assert_allclose(jax.grad(jax.grad(through))(3.0), 1 / 3, rtol=1e-12)


@register_pytree
@dataclass(frozen=True)
class Quadratic:
    matrix: jax.Array

    def __call__(self, theta):
        return theta @ self.matrix @ theta / 2

    def method(self, theta):
        return self(theta)


@pytest.mark.parametrize("bound", [False, True])
def test_gradient_of_a_pytree_function(bound, x64):
    y = jnp.array([1.0, 2.0])
    matrix = jnp.array([[2.0, 0.5], [0.5, 1.0]])

    def value(matrix):
        f = Quadratic((matrix + matrix.T) / 2)
        return conjugate(f.method if bound else f, jnp.zeros(2))(y).value

    theta = jnp.linalg.solve(matrix, y)
    gradient = jax.grad(value)(matrix)
    chex.assert_trees_all_close(gradient, -jnp.outer(theta, theta) / 2, atol=1e-12)

"""Conjugates of many means, with derivatives; on the host where values are known.

Outside of `jit`, `jax.grad` calls the derivative rules of the parts of a function with
values, not with tracers. With values `Solver` solves: it is quick, and compiled once
for a family. Under `jit` and `vmap` the careful solver becomes part of the program,
which takes seconds to compile.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import is_concrete, known_values
from bregjax._programs import program
from bregjax._typing import Array, PyTree
from bregjax.clusters._natural.solving import Solver, carefully, with_params
from bregjax.clusters._natural.state import NaturalState, flat_init, flat_psi
from bregjax.clusters._potential import Potential
from bregjax.convex._conjugation import DENSE_LIMIT
from bregjax.convex._solvers import dense, lbfgs, scalar

__all__ = ["conjugates", "settled"]


def settled(family: Potential, params: PyTree, state: NaturalState) -> NaturalState:
    """Solve for θ and ψ* of a state of any leading axes.

    Args:
        family: A family without a closed form of ψ*.
        params: Parameters of the family along the last leading axis, leaves `[d, ...]`;
            those of `family` if None.
        state: Means, and natural parameters to start from.
    """
    lead, n = state.mean.shape[:-1], state.mean.shape[-1]
    count = math.prod(lead)
    flat = [vectors.reshape(count, n) for vectors in (state.mean, state.natural)]
    spread = lambda leaf: jnp.tile(leaf, (count // len(leaf), *[1] * (leaf.ndim - 1)))
    natural, value, result = conjugates(family, jax.tree.map(spread, params), *flat)
    return NaturalState(
        state.weight,
        state.mean,
        natural.reshape(*lead, n),
        value.reshape(lead),
        result.reshape(lead),
    )


@jax.custom_jvp
def conjugates(
    family: Potential, params: PyTree, means: Array, starts: Array
) -> tuple[Array, Array, Array]:
    """Natural parameters, values of ψ* and `Result` codes of many means.

    Derivatives, by the implicit function theorem at the solution θ:

        dθ = (∇²ψ)⁺ (dμ − d_family ∇ψ),   dψ* = ⟨θ, dμ⟩ − d_family ψ

    of every order; starts have derivative 0. Example: ψ(θ) = r e^θ at the mean μ = 6
    with r = 2 has θ = log(μ/r) = 1.0986 and ∇²ψ = μ = 6. By μ, dθ = 1/6 and
    dψ* = θ = 1.0986; by r, where ∂∇ψ = e^θ = 3, dθ = −3/6 = −½ and dψ* = −e^θ = −3. No
    step of the solver is differentiated.

    Args:
        family: A family without a closed form of ψ*.
        params: Parameters of the family for each mean, leaves `[p, ...]`; those of
            `family` if None.
        means: Mean parameters, raveled, `[p, n]`.
        starts: Natural parameters in the domain of ψ to start from, `[p, n]`.

    Returns:
        `[p, n]`, `[p]` and `[p]`.
    """
    if is_concrete((family, params, means, starts)):
        with known_values():
            return _by_host(family, params, means, starts)
    return carefully(family, params, means, starts)


@conjugates.defjvp
def _conjugates_jvp(primals: Any, tangents: Any):
    family, params, means, starts = primals
    d_family, d_params, d_means, _ = tangents
    natural, value, result = conjugates(family, params, means, starts)
    right, d_value = _residuals(family, params, natural, d_family, d_params, d_means)
    d_natural = _inverse_products(family, params, natural, right)
    # The tangent of an integer has the type float0.
    nothing: Any = np.zeros(np.shape(result), jax.dtypes.float0)
    return (natural, value, result), (d_natural, d_value, nothing)


def _by_host(family: Potential, params: PyTree, means: Array, starts: Array):
    solver, column = Solver(family, params), np.arange(len(means))
    values = np.asarray(means)
    guess = family.natural_guess(values)
    begin = np.asarray(starts) if guess is None else guess
    found = solver.solve(values, begin, column, settled=True)
    typed = lambda array: jnp.asarray(array, jnp.asarray(means).dtype)
    natural = typed(found.natural)
    if not solver.structure.grouped().all():
        # Along directions in which ψ is affine θ stays at the start, as in `conjugate`.
        null = _overcomplete(family, params)
        natural = starts + _gauged(natural - starts, null)
    return natural, typed(found.value), jnp.asarray(found.result)


@program
def _residuals(
    family: Potential,
    params: PyTree,
    natural: Array,
    d_family: Potential,
    d_params: PyTree,
    d_means: Array,
) -> tuple[Array, Array]:
    """dμ − d_family ∇ψ `[p, n]` and dψ* `[p]` at solutions θ."""

    def at(params: PyTree, theta: Array, d_params: PyTree, d_mean: Array):
        def value_and_slope(family: Potential, params: PyTree) -> tuple[Array, Array]:
            return jax.value_and_grad(flat_psi(with_params(family, params)))(theta)

        _, (d_psi, d_slope) = jax.jvp(
            value_and_slope, (family, params), (d_family, d_params)
        )
        return d_mean - d_slope, jnp.sum(theta * d_mean) - d_psi

    return jax.vmap(at)(params, natural, d_params, d_means)


def _inverse_products(
    family: Potential, params: PyTree, natural: Array, right: Array
) -> Array:
    """(∇²ψ)⁺ r at solutions θ, `[p, n]`.

    Runs in programs of its own, apart from `_residuals`: derivatives of costs do not go
    through θ, and need not wait for a factorisation of every Hessian.
    """
    if family.separable:
        return _scalar_products(family, params, natural, (), right)
    if natural.shape[-1] > DENSE_LIMIT:
        return _matrix_free_products(family, params, natural, (), right)
    null = _overcomplete(family, params)
    solution = jax.lax.custom_linear_solve(
        lambda vectors: _filled_products(family, params, natural, (null,), vectors),
        _gauged(right, null),
        lambda _, targets: _filled_solves(family, params, natural, (null,), targets),
        symmetric=True,
    )
    return _gauged(solution, null)


def _by_mean(function: Callable[..., Array]) -> Callable[..., Array]:
    """Compile a function of ψ, θ, shared arrays and a vector for many means.

    The compiled function takes the family, parameters `[p, ...]`, θ `[p, n]`, a tuple
    of the shared arrays and vectors `[p, n]`.
    """

    @program
    def of_many(
        family: Potential,
        params: PyTree,
        thetas: Array,
        shared: tuple[Array, ...],
        vectors: Array,
    ):
        def one(params: PyTree, theta: Array, vector: Array) -> Array:
            psi = flat_psi(with_params(family, params))
            return function(psi, theta, *shared, vector)

        return jax.vmap(one)(params, thetas, vectors)

    return of_many


_scalar_products = _by_mean(scalar.inverse_product)
_matrix_free_products = _by_mean(lbfgs.inverse_product)
_filled_products = _by_mean(dense.filled_product)
_filled_solves = _by_mean(dense.filled_solve)
_gauged = program(jax.vmap(dense.gauge, (0, None)))


@program
def _overcomplete(family: Potential, params: PyTree) -> Array:
    """Directions of θ in which ψ is affine, whatever the parameters of ψ."""
    psi = flat_psi(with_params(family, jax.tree.map(lambda leaf: leaf[0], params)))
    start = flat_init(family, jnp.zeros(()).dtype)
    slope, curvature = jax.grad(psi)(start), jax.hessian(psi)(start)
    return dense.null_basis(psi, start, slope, curvature)

"""Dense linear algebra of the conjugate: scaling, overcomplete directions, Newton step.

Notation: H = ∇²f(θ), D = diag(H)^½, C = D⁻¹HD⁻¹. An overcomplete direction is a vector
along which f is affine everywhere; for a cumulant these are the null vectors of H,
whatever θ. N holds an orthonormal basis of them. Since H N = 0, the null space of C is
spanned by D N; with Q an orthonormal basis of it, C + QQᵀ is positive definite.

A residual is freed of its component along these directions by s ← s − QQᵀs on the
scaled residual s = D⁻¹r. This projection is oblique in r: the orthogonal one would add
eps·max|r| to each component and drown means far below eps·max|y|.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from bregjax._typing import Array
from bregjax.convex._solvers.outcome import FlatFunction

NULL_PROBES = (1.0, -1.0, 10.0, -10.0)


def product(left: Array, right: Array) -> Array:
    """Matrix product, in full precision on every device."""
    return jnp.matmul(left, right, precision="highest")


def diagonal(matrix: Array) -> Array:
    """Diagonal of a square matrix; compiles faster than a gather."""
    on = jnp.eye(matrix.shape[0], dtype=bool)
    return jnp.sum(jnp.where(on, matrix, 0), axis=0)


class Scaled(NamedTuple):
    """Hessian with unit diagonal, and the projector on its overcomplete directions."""

    scale: Array  # D, [n]
    matrix: Array  # C + QQᵀ, [n, n]
    null: Array  # Q, zero columns included, [n, n]


def orthonormal(columns: Array, keep: Array) -> Array:
    """Orthonormal basis of the kept columns [n, n]; the others become zero.

    By the Cholesky factor of the Gram matrix: many times faster than a QR of the same
    size. The result lies in the span of the columns whatever the factor loses, which
    is all that C + QQᵀ needs.
    """
    eps = jnp.finfo(columns.dtype).eps
    columns = jnp.where(keep[None, :], columns, 0)
    norms = jnp.sqrt(jnp.sum(columns**2, axis=0))
    columns = columns / jnp.where(norms > 0, norms, 1)[None, :]
    gram = product(columns.T, columns)
    # The ridge keeps the factor finite where columns have become parallel.
    ridge = jnp.where(keep, 8 * columns.shape[0] * eps, 1.0).astype(columns.dtype)
    factor = jnp.linalg.cholesky(gram + jnp.diag(ridge))
    return solve_triangular(factor, columns.T, lower=True).T


def null_basis(
    gradient: FlatFunction, start: Array, slope: Array, curvature: Array
) -> Array:
    """Overcomplete directions N [n, n]: orthonormal columns, zero where there is none.

    Candidates are the null vectors of the scaled Hessian at `start`. A general convex
    function can be flat there alone (a Huber function, a maximum), so a candidate
    counts only if the slope along it stays the same at ±1 and ±10. `slope` and
    `curvature` are ∇f and ∇²f at `start`.
    """
    n, eps = start.size, jnp.finfo(start.dtype).eps
    scale = jnp.sqrt(diagonal(curvature))
    scale = jnp.where(scale > 0, scale, 1)
    weights, vectors = jnp.linalg.eigh(curvature / jnp.outer(scale, scale))
    candidate = weights <= 8 * n * eps
    columns = jax.lax.fori_loop(  # twice is enough
        0,
        2,
        lambda _, columns: orthonormal(columns, candidate),
        vectors / scale[:, None],
    )

    def probe(candidate: Array) -> Array:
        def moves(length: Array) -> Array:
            def along(column: Array) -> Array:
                there = gradient(start + length * column)
                noise = jnp.sum((jnp.abs(slope) + jnp.abs(there)) * jnp.abs(column))
                change = jnp.sum((there - slope) * column)
                return ~(jnp.abs(change) <= 100 * eps * noise)

            return jax.vmap(along, in_axes=1)(columns)

        lengths = jnp.asarray(NULL_PROBES, start.dtype)
        return candidate & ~jnp.any(jax.lax.map(moves, lengths), axis=0)

    null = jax.lax.cond(
        jnp.any(candidate), probe, lambda candidate: candidate, candidate
    )
    return jnp.where(null[None, :], columns, 0)


def gauge(step: Array, null: Array) -> Array:
    """Step without its component along the overcomplete directions."""
    return step - product(null, product(null.T, step))


def scaled_hessian(curvature: Array, scale: Array, null: Array) -> Scaled:
    """C + QQᵀ for the given D; the work for Q is skipped where N is empty."""
    matrix = curvature / jnp.outer(scale, scale)
    matrix = (matrix + matrix.T) / 2
    keep = jnp.any(null != 0, axis=0)

    def fill(null: Array) -> tuple[Array, Array]:
        basis = orthonormal(scale[:, None] * null, keep)
        return basis, product(basis, basis.T)

    def empty(null: Array) -> tuple[Array, Array]:
        return null, null

    basis, projector = jax.lax.cond(jnp.any(keep), fill, empty, null)
    return Scaled(scale, matrix + projector, basis)


def ridge_cholesky(matrix: Array) -> Array:
    """Cholesky factor of matrix + δI, δ the first of 4 eps·30^k that makes it finite.

    A ridge and not a cut-off of eigenvalues: a direction of eigenvalue μ is slowed to
    the rate δ / (μ + δ), never lost, and the fixed point of the iteration stays.
    """
    eps = jnp.finfo(matrix.dtype).eps
    identity = jnp.eye(matrix.shape[0], dtype=matrix.dtype)

    def attempt(ridge: Array) -> Array:
        return jnp.linalg.cholesky(matrix + ridge * identity)

    def failed(state: tuple[Array, Array]) -> Array:
        ridge, factor = state
        return ~jnp.all(jnp.isfinite(factor)) & (ridge < 1)

    def stiffen(state: tuple[Array, Array]) -> tuple[Array, Array]:
        ridge = 30 * state[0]
        return ridge, attempt(ridge)

    first = jnp.asarray(4 * eps / 30, matrix.dtype)
    nothing = jnp.full_like(matrix, jnp.inf)
    return jax.lax.while_loop(failed, stiffen, (first, nothing))[1]


def refined_solve(matrix: Array, factor: Array, right: Array) -> Array:
    """Solution by the factor; one refinement, kept only if it lowers the residual."""

    def misfit(solution: Array) -> Array:
        return right - product(matrix, solution)

    solution = cho_solve((factor, True), right)
    left_over = misfit(solution)
    better = solution + cho_solve((factor, True), left_over)
    lower = jnp.sum(misfit(better) ** 2) < jnp.sum(left_over**2)
    return jnp.where(lower, better, solution)


def inverse_product(f: FlatFunction, theta: Array, null: Array, right: Array) -> Array:
    """P H⁺ P `right`, P the projector off the overcomplete directions.

    Symmetric, and differentiable in θ and in what f closes over. D, N and Q are held
    constant: with H N = 0 and D QQᵀD added, the solution is exact whatever they are, so
    its derivatives are too.
    """
    solution = jax.lax.custom_linear_solve(
        lambda vector: filled_product(f, theta, null, vector),
        gauge(right, null),
        lambda _, target: filled_solve(f, theta, null, target),
        symmetric=True,
    )
    return gauge(solution, null)


def filled_product(f: FlatFunction, theta: Array, null: Array, vector: Array) -> Array:
    """(H + D QQᵀD) v."""
    scale, _, basis = _fixed_hessian(f, theta, null)
    filled = scale * product(basis, product(basis.T, scale * vector))
    return jax.jvp(jax.grad(f), (theta,), (vector,))[1] + filled


def filled_solve(f: FlatFunction, theta: Array, null: Array, target: Array) -> Array:
    """The solution v of (H + D QQᵀD) v = `target`."""
    scale, matrix, _ = _fixed_hessian(f, theta, null)
    factor = ridge_cholesky(matrix)
    return refined_solve(matrix, factor, target / scale) / scale


def _fixed_hessian(f: FlatFunction, theta: Array, null: Array) -> Scaled:
    """The scaled Hessian at θ, without derivatives."""
    curvature = jax.lax.stop_gradient(jax.hessian(f)(theta))
    variances = diagonal(curvature)
    scale = jnp.where(variances > 0, jnp.sqrt(variances), 1)
    return scaled_hessian(curvature, scale, jax.lax.stop_gradient(null))

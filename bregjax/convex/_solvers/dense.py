"""Dense linear algebra of the conjugate: scaling, overcomplete directions, Newton step.

Notation: H = ∇²f(θ), D = diag(H)^½, C = D⁻¹HD⁻¹. An overcomplete direction is a vector
along which f is affine everywhere; for a cumulant these are the null vectors of H,
whatever θ. N holds an orthonormal basis of them. Since H N = 0, the null space of C is
spanned by D N; with Q an orthonormal basis of it, C + QQᵀ is positive definite.

The component of a residual along these directions is removed by s ← s − QQᵀs on the
scaled residual s = D⁻¹r. This projection is oblique in r: the orthogonal projection
would add eps·max|r| to each component, more than means far below eps·max|y|.

For f = log(e^θ₁ + e^θ₂) at 0: H = ¼ [[1, −1], [−1, 1]], D = ½ I, N = Q = (1, 1)/√2 and
C + QQᵀ = [[1.5, −0.5], [−0.5, 1.5]] with the eigenvalues 1 and 2. For y = (¾, ¼) the
residual is (¼, −¼), the Newton step (½, −½) and λ² = ¼; the solution is ½ (log 3)
(1, −1) = (0.55, −0.55).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from bregjax._typing import Array
from bregjax.convex._solvers import thresholds
from bregjax.convex._solvers.outcome import FlatFunction


def product(left: Array, right: Array) -> Array:
    """Matrix product, in full precision on every device."""
    return jnp.matmul(left, right, precision="highest")


def diagonal(matrix: Array) -> Array:
    """Diagonal of a square matrix, as a sum, which compiles faster than a gather."""
    on = jnp.eye(matrix.shape[0], dtype=bool)
    return jnp.sum(jnp.where(on, matrix, 0), axis=0)


def cholesky(matrix: Array) -> Array:
    """Lower Cholesky factor of a matrix that is exactly symmetric."""
    return jax.lax.linalg.cholesky(matrix, symmetrize_input=False)


class ScaledHessian(NamedTuple):
    """Hessian with unit diagonal, and the projector on its overcomplete directions."""

    scale: Array  # D, [n]
    matrix: Array  # C + QQᵀ, [n, n]
    null: Array  # Q, zero columns included, [n, n]


def orthonormal(columns: Array) -> Array:
    """Orthonormal basis of the columns `[n, n]` that are not zero; zero columns stay.

    By the Cholesky factor of the Gram matrix, many times faster than a QR of the same
    size. The result lies in the span of the columns however many digits the factor
    loses, which is all that C + QQᵀ needs.
    """
    n, eps = columns.shape[0], jnp.finfo(columns.dtype).eps
    gram = product(columns.T, columns)
    # The ridge keeps the factor finite where columns have become parallel.
    stiff = jnp.where(gram > 0, (1 + thresholds.NULL * n * eps) * gram, 1)
    gram = jnp.where(jnp.eye(n, dtype=bool), stiff, gram)
    return solve_triangular(cholesky(gram), columns.T, lower=True).T


def null_basis(f: FlatFunction, start: Array, slope: Array, curvature: Array) -> Array:
    """Overcomplete directions N `[n, n]`: orthonormal columns, the others zero.

    Candidates are the null vectors of the scaled Hessian at `start`. A general convex
    function may be affine near `start` alone (a Huber function, a maximum), so a
    candidate counts only if the slope along it stays the same at ±1 and ±10. `slope`
    and `curvature` are ∇f and ∇²f at `start`.
    """
    n, eps = start.size, jnp.finfo(start.dtype).eps
    scale = jnp.sqrt(diagonal(curvature))
    scale = jnp.where(scale > 0, scale, 1)
    weights, vectors = jnp.linalg.eigh(curvature / jnp.outer(scale, scale))
    candidate = weights <= thresholds.NULL * n * eps
    # Weights ascend: the candidates come first, and the first columns span them.
    columns = jnp.where(candidate[None], jnp.linalg.qr(vectors / scale[:, None])[0], 0)

    # Move along all candidates at once: along an affine direction the slope stays the
    # same wherever the others lead.
    order = jnp.arange(n, dtype=start.dtype)
    way = product(columns, 1 + jnp.sin(1 + 12.9898 * order) / 2)

    def moves(length: Array) -> Array:
        value, there = jax.value_and_grad(f)(start + length * way)
        change = product(columns.T, there - slope)
        noise = product(jnp.abs(columns.T), jnp.abs(slope) + jnp.abs(there))
        # Outside of its domain a guarded f has the slope 0, without being affine.
        same = jnp.abs(change) <= thresholds.OFF_HULL * eps * noise
        return ~(same & jnp.isfinite(value))

    moving = jax.vmap(moves)(jnp.asarray(thresholds.NULL_PROBES, start.dtype))
    return jnp.where(jnp.any(moving, axis=0)[None], 0, columns)


def gauge(step: Array, null: Array) -> Array:
    """The step without its component along the overcomplete directions."""
    return step - product(null, product(null.T, step))


def scaled_hessian(curvature: Array, scale: Array, null: Array) -> ScaledHessian:
    """C + QQᵀ for a given D; where N is empty, Q is not computed."""
    matrix = curvature / jnp.outer(scale, scale)
    matrix = (matrix + matrix.T) / 2

    def fill(null: Array) -> tuple[Array, Array]:
        basis = orthonormal(scale[:, None] * null)
        return basis, product(basis, basis.T)

    def empty(null: Array) -> tuple[Array, Array]:
        return null, null

    basis, projector = jax.lax.cond(jnp.any(null != 0), fill, empty, null)
    return ScaledHessian(scale, matrix + projector, basis)


def ridge_cholesky(matrix: Array) -> Array:
    """Cholesky factor of matrix + δI, δ the first of 4 eps·30^k that makes it finite.

    (4 and 30 are `RIDGE` and `STIFFER` of the thresholds.) With a ridge in place of a
    cut-off of eigenvalues a direction of eigenvalue μ is not lost: it converges at the
    rate δ / (μ + δ), and the fixed point of the iteration stays.
    """
    eps = jnp.finfo(matrix.dtype).eps
    identity = jnp.eye(matrix.shape[0], dtype=matrix.dtype)

    def attempt(ridge: Array) -> Array:
        return cholesky(matrix + ridge * identity)

    def failed(state: tuple[Array, Array]) -> Array:
        ridge, factor = state
        return ~jnp.all(jnp.isfinite(factor)) & (ridge < 1)

    def stiffen(state: tuple[Array, Array]) -> tuple[Array, Array]:
        ridge = thresholds.STIFFER * state[0]
        return ridge, attempt(ridge)

    first = jnp.asarray(thresholds.RIDGE * eps / thresholds.STIFFER, matrix.dtype)
    nothing = jnp.full_like(matrix, jnp.inf)
    return jax.lax.while_loop(failed, stiffen, (first, nothing))[1]


def refined_solve(matrix: Array, factor: Array, right: Array) -> Array:
    """Solution by the factor, refined once if that lowers the residual."""

    def misfit(solution: Array) -> Array:
        return right - product(matrix, solution)

    solution = cho_solve((factor, True), right)
    left_over = misfit(solution)
    better = solution + cho_solve((factor, True), left_over)
    lower = jnp.sum(misfit(better) ** 2) < jnp.sum(left_over**2)
    return jnp.where(lower, better, solution)


def inverse_product(f: FlatFunction, theta: Array, null: Array, right: Array) -> Array:
    """P H⁺ P `right`, P the projector off the overcomplete directions.

    Symmetric, and differentiable in θ and in the arrays that f closes over. D, N and Q
    are held constant: with H N = 0 and D QQᵀD added to H, the solution is exact for any
    D and Q, and so are its derivatives.
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


def _fixed_hessian(f: FlatFunction, theta: Array, null: Array) -> ScaledHessian:
    """The scaled Hessian at θ, without derivatives."""
    curvature = jax.lax.stop_gradient(jax.hessian(f)(theta))
    variances = diagonal(curvature)
    scale = jnp.where(variances > 0, jnp.sqrt(variances), 1)
    return scaled_hessian(curvature, scale, jax.lax.stop_gradient(null))

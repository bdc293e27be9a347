"""Clusters by Gaussians that hold roots of their covariances: for narrow bandwidths.

The covariance of points with a spread s under a bandwidth h has eigenvalues from s²
down to h². Rounding changes its entries by eps s², and its log-determinant by
eps s² / h²: 2e-4 nats in float64 at h = 1e-6 s. A root R with Σ = RᵀR holds s and h
themselves and loses eps s / h: 2e-10. The root of a union comes from the roots of its
parts by an orthogonal transformation (QR), which never forms a covariance.

Example: the points (0, 0) and (1, 1) under h = 1e-9. The covariance of their union is
h² I + ¼ [[1, 1], [1, 1]], with determinant h²/2 + h⁴ = 5e-19. In float64 all entries
are 0.25, the determinant 0 and its logarithm −∞. The rows √½ h I, √½ h I and ½ (1, 1)
have R = [[0.5, 0.5], [0, 1.414e-9]], and log det Σ = 2 log(0.5 · 1.414e-9) = −42.14.
The points have log h⁴ = −82.89 each, and the merge costs −42.14 + 82.89 = 40.75.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax.lax.linalg import triangular_solve
from typing_extensions import override

from bregjax._numerics import symmetric_part
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._roots import cholesky_by_root, log_det_of_factor, root_of_rows
from bregjax._typing import Array
from bregjax.clusters._averages import leaves_of_averages
from bregjax.clusters._base import ClusterModel
from bregjax.clusters._gaussian_models import leaf_factors
from bregjax.clusters._merges import Merges
from bregjax.clusters._moments import Moments, pool, pool_along
from bregjax.clusters._screens import Screen
from bregjax.convex._determinant import identity_remainder

__all__ = ["RootedGaussianModel", "RootedState"]

# A covariance is I + A relative to the average of both parts. If ‖A‖ (Frobenius norm)
# is less than this, a formula in A keeps all digits of its cost. Else log-determinants
# are subtracted, and few digits cancel; at half, more would.
_NEAR = 0.5


@register_pytree
@dataclass(frozen=True)
class RootedState:
    """States that hold weights, means, covariances and roots of covariances.

    Attributes:
        weight: `[k]`.
        moments: Means `[k, d]` and covariances Σ `[k, d, d]`; derivatives go by these.
        root: Upper triangular R with Σ = RᵀR, `[k, d, d]`, without derivatives.
        log_det: log det Σ, `[k]`.
    """

    weight: Array
    moments: Moments
    root: Array
    log_det: Array


@register_pytree
@dataclass(frozen=True)
class RootedGaussianModel(ClusterModel):
    """Clusters by Gaussians that hold a root R of their covariance Σ = RᵀR as well.

    With weight shares p, q and δ = μ_a − μ_b, the root of a union is

        R = [√p R_a; √q R_b; √(pq) δᵀ]

    made upper triangular by a QR decomposition, and log det Σ = 2 Σ log R_ii; the
    module has an example.

    Costs are those of `FullGaussianModel`; they take several times as long.
    Derivatives go by the moments: a derivative by data is good to eps s² / h².

    Examples:
        >>> x = jnp.array([[0.0, 0.0], [2.0, 0.0]])
        >>> points = Moments(x, jnp.tile(jnp.eye(2), (2, 1, 1)))
        >>> model = RootedGaussianModel()
        >>> states = jax.jit(model.leaves)(points, jnp.ones(2))
        >>> print(jax.jit(model.cross_cost)(states, states)[0, 1].round(3))  # log 2
        0.693
    """

    @override
    def leaves(self, statistics: Moments, weights: Array) -> RootedState:
        """Build states of points, from `statistics.root` where there is one."""
        root = statistics.root
        if root is None:
            factor = leaf_factors(jax.lax.stop_gradient(statistics.covariance))
            root = jnp.swapaxes(factor, -1, -2)
        moments = replace(statistics, root=None)
        return self.settle(RootedState(weights, moments, root, weights))

    @override
    def pool(self, a: RootedState, b: RootedState) -> RootedState:
        weight = a.weight + b.weight
        moments = pool(a.weight, a.moments, b.weight, b.moments)
        root = _pooled_root(*jax.lax.stop_gradient((a, b)))
        return RootedState(weight, moments, root, jnp.full_like(weight, jnp.inf))

    @override
    def pool_along(self, merges: Merges, leaves: RootedState) -> RootedState:
        """Sum weights and average moments; find roots merge by merge."""
        weight = merges.sum(leaves.weight)
        moments = pool_along(merges, weight, leaves.moments)
        nodes = weight, moments.mean, leaves.root
        root = _roots_along(merges, *jax.lax.stop_gradient(nodes))
        return RootedState(weight, moments, root, jnp.full_like(weight, jnp.inf))

    @override
    def settle(self, state: RootedState) -> RootedState:
        """Fill in log det Σ."""
        factor = cholesky_by_root(state.moments.covariance, state.root)
        log_det = log_det_of_factor(factor)
        return RootedState(state.weight, state.moments, state.root, log_det)

    @override
    def result(self, state: RootedState) -> Array:
        """BOUNDARY where the covariance is singular."""
        regular = jnp.isfinite(state.log_det)
        codes = jnp.where(regular, Result.CONVERGED, Result.BOUNDARY)
        return codes.astype(jnp.int32)

    @override
    def cost(self, a: RootedState, b: RootedState, union: RootedState) -> Array:
        return _cost(a, b, union)

    @override
    def assignment_cost(self, points: RootedState, clusters: RootedState) -> Array:
        """½ w [‖R R_k⁻¹‖² − d − log det Σ + log det Σ_k + ‖δ R_k⁻¹‖²]."""
        d = points.root.shape[-1]
        eye = jnp.broadcast_to(jnp.eye(d, dtype=points.root.dtype), clusters.root.shape)
        inverse = triangular_solve(clusters.root, eye, left_side=True)
        gap = points.moments.mean[:, None] - clusters.moments.mean[None]
        rows = jnp.broadcast_to(points.root[:, None], (*gap.shape[:-1], d, d))
        rows = jnp.concatenate([rows, gap[..., None, :]], axis=-2)
        white = jnp.einsum("rkij,kjl->rkil", rows, inverse, precision="highest")
        squares = jnp.sum(white**2, axis=-1)
        log_dets = points.log_det[:, None] - clusters.log_det[None]
        within = jnp.sum(squares[..., :-1], axis=-1) - d - log_dets
        cost = jnp.maximum(within, 0) + squares[..., -1]
        return 0.5 * points.weight[:, None] * cost

    @override
    def unions(self, statistics: Moments, weights: Array) -> RootedState:
        return leaves_of_averages(self, statistics, weights)

    @override
    def pair_size(self, state: RootedState) -> int:
        """Twice the state: the rows from which the root of a union is made."""
        return 2 * super().pair_size(state)

    @property
    @override
    def distributes(self) -> bool:
        """False on a CPU, where QR decompositions side by side lock up."""
        return jax.default_backend() != "cpu"

    @property
    @override
    def screened(self) -> bool:
        """False: marginals of covariances have lost their digits; bounds are costs."""
        return False

    @override
    def screen(self, leaves: RootedState) -> Screen:
        return _RootScreen(self)

    @override
    def cross_cost(self, a: RootedState, b: RootedState) -> Array:
        """Take a QR decomposition a pair, and none where all roots are equal."""
        return _cross_costs(self, a, b)[0]

    @override
    def cross_noise(self, state: RootedState) -> Array:
        return _noise(state)


@register_pytree
@dataclass(frozen=True)
class _RootScreen(Screen):
    """`cross_cost` less its rounding: a third of the work of `merge_cost`."""

    model: RootedGaussianModel

    @override
    def pair_size(self, state: RootedState) -> int:
        return self.model.pair_size(state)

    @override
    def features(self, state: RootedState, dtype: jnp.dtype) -> RootedState:
        del dtype
        return state

    @override
    def against(self, rows: RootedState) -> Callable[[RootedState], Array]:
        """Costs of all pairs less 64 times their rounding, `[k, m]`."""

        def bound(columns: RootedState) -> Array:
            cost, noise = _cross_costs(self.model, rows, columns)
            return cost - 64 * noise

        return bound


def _cross_costs(
    model: RootedGaussianModel, a: RootedState, b: RootedState
) -> tuple[Array, Array]:
    """Costs of all pairs `[k, m]`, and the rounding of these costs, about."""

    def by_roots(a: RootedState, b: RootedState) -> tuple[Array, Array]:
        rows = jax.tree.map(lambda leaf: leaf[:, None], a)
        columns = jax.tree.map(lambda leaf: leaf[None], b)
        union = model.union(rows, columns)
        noise = _noise(a)[:, None] + _noise(b)[None] + _noise(union)
        return jnp.maximum(_change(rows, columns, union), 0), noise

    alike = jnp.all(a.root == a.root[:1]) & jnp.all(b.root == a.root[:1])
    return jax.lax.cond(alike, _costs_of_means, by_roots, a, b)


def _noise(state: RootedState) -> Array:
    """Rounding of w log det Σ, `[k]`: entries of a root are good to eps ‖column‖."""
    norms = jnp.sqrt(jnp.sum(state.root**2, axis=-2))
    diagonal = jnp.diagonal(state.root, axis1=-2, axis2=-1)
    size = jnp.abs(state.log_det) + jnp.sum(norms / diagonal, axis=-1)
    return jnp.finfo(size.dtype).eps * state.weight * size


def _roots_along(merges: Merges, weight: Array, mean: Array, leaves: Array) -> Array:
    """Roots of all nodes of a tree, `[L + t, d, d]`."""
    room = jnp.broadcast_to(leaves[:1], (len(merges.children), *leaves.shape[1:]))

    def step(roots: Array, merge: tuple[Array, Array]) -> tuple[Array, None]:
        union, (a, b) = merge
        part = lambda node: (weight[node], mean[node], roots[node])
        return roots.at[union].set(_union_root(*part(a), *part(b))), None

    steps = merges.unions, jnp.asarray(merges.children)
    return jax.lax.scan(step, jnp.concatenate([leaves, room]), steps)[0]


def _pooled_root(a: RootedState, b: RootedState) -> Array:
    return _union_root(
        a.weight, a.moments.mean, a.root, b.weight, b.moments.mean, b.root
    )


def _union_root(
    w_a: Array, mean_a: Array, root_a: Array, w_b: Array, mean_b: Array, root_b: Array
) -> Array:
    """R of unions; the arguments broadcast."""
    p, q = w_a / (w_a + w_b), w_b / (w_a + w_b)
    between = jnp.sqrt(p * q)[..., None] * (mean_a - mean_b)
    rows = _stacked(p, root_a, q, root_b)
    return root_of_rows(jnp.concatenate([rows, between[..., None, :]], axis=-2))


def _stacked(p: Array, root_a: Array, q: Array, root_b: Array) -> Array:
    """[√p R_a; √q R_b], whose root is that of M = p Σ_a + q Σ_b."""
    parts = jnp.sqrt(p)[..., None, None] * root_a, jnp.sqrt(q)[..., None, None] * root_b
    return jnp.concatenate(jnp.broadcast_arrays(*parts), axis=-2)


@jax.custom_jvp
def _cost(a: RootedState, b: RootedState, union: RootedState) -> Array:
    """Δ = ½ [w log(1 + pq δᵀM⁻¹δ) + w_a B(Σ_a, M) + w_b B(Σ_b, M)]."""
    del union
    total = a.weight + b.weight
    p, q = a.weight / total, b.weight / total
    middle = root_of_rows(_stacked(p, a.root, q, b.root))
    delta = (a.moments.mean - b.moments.mean)[..., None, :]
    # One solve for R_a, R_b and δ, relative to the root of M.
    rows = a.root, b.root, delta
    lead, d = middle.shape[:-2], middle.shape[-1]
    rows = [jnp.broadcast_to(r, (*lead, *r.shape[-2:])) for r in rows]
    white = triangular_solve(middle, jnp.concatenate(rows, axis=-2))
    spread = p * q * jnp.sum(white[..., -1, :] ** 2, axis=-1)
    gap = _gram(white[..., :d, :]) - _gram(white[..., d:-1, :])
    parts = jnp.stack([q[..., None, None] * gap, -p[..., None, None] * gap])
    within = _remainders(parts, jnp.stack(rows[:2]), middle)
    within = a.weight * within[0] + b.weight * within[1]
    return 0.5 * (total * jnp.log1p(spread) + within)


@_cost.defjvp
def _cost_jvp(primals, tangents):
    change = jax.jvp(_change, primals, tangents)[1]
    return _cost(*primals), change


def _change(a: RootedState, b: RootedState, union: RootedState) -> Array:
    """½ [w log det Σ − w_a log det Σ_a − w_b log det Σ_b]."""
    parts = a.weight * a.log_det + b.weight * b.log_det
    return 0.5 * (union.weight * union.log_det - parts)


def _remainders(gap: Array, root: Array, middle: Array) -> Array:
    """tr A − log det(I + A) of A = R_M⁻ᵀ Σ R_M⁻¹ − I for both parts, `[2, ...]`."""
    trace = jnp.trace(gap, axis1=-2, axis2=-1)
    is_near = jnp.sum(gap**2, axis=(-2, -1)) < _NEAR**2
    near = identity_remainder(jnp.where(is_near[..., None, None], gap, 0))
    log_det = log_det_of_factor(root) - log_det_of_factor(middle)[None]
    return jnp.where(is_near, near, jnp.maximum(trace - log_det, 0))


def _costs_of_means(a: RootedState, b: RootedState) -> tuple[Array, Array]:
    """Costs ½ w log(1 + pq δᵀΣ⁻¹δ) of clusters with one Σ, and their rounding."""
    center = b.moments.mean[:1]
    white = [triangular_solve(a.root[0], s.moments.mean - center) for s in (a, b)]
    distances = jnp.sum((white[0][:, None] - white[1][None]) ** 2, axis=-1)
    reach = [jnp.sqrt(jnp.sum(w**2, axis=-1)) for w in white]
    w_a, w_b = a.weight[:, None], b.weight[None]
    total = w_a + w_b
    share = w_a / total * (w_b / total)
    slope = share * jnp.sqrt(distances) / (1 + share * distances)
    noise = reach[0][:, None] + reach[1][None]
    noise = jnp.finfo(noise.dtype).eps * noise
    noise = total * noise * (slope + share * noise)
    cost = 0.5 * total * jnp.log1p(share * distances)
    return cost, noise + float(jnp.finfo(cost.dtype).eps) * cost


def _gram(rows: Array) -> Array:
    """AᵀA of matrices A, exactly symmetric."""
    product = jnp.matmul(jnp.swapaxes(rows, -1, -2), rows, precision="highest")
    return symmetric_part(product)

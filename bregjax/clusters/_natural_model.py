"""The cluster model of any log-partition function, by its conjugate."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from typing_extensions import override

from bregjax._programs import program
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.clusters._averages import leaves_of_averages
from bregjax.clusters._base import ClusterModel
from bregjax.clusters._host_model import HostModel
from bregjax.clusters._merges import Merges
from bregjax.clusters._natural.bracketed import bracketed_conjugate
from bregjax.clusters._natural.cost import assignment_cost_of, merge_cost_of
from bregjax.clusters._natural.host import NaturalHost
from bregjax.clusters._natural.settling import settled
from bregjax.clusters._natural.state import (
    NaturalState,
    flat_init,
    flat_psi,
    found,
    has_value,
    tabulates,
    unsolved,
    vectorize,
)
from bregjax.clusters._natural.table import conjugate_table, table_means
from bregjax.clusters._potential import Potential
from bregjax.clusters._screens import Screen
from bregjax.clusters._screens.natural import SolvingScreen, TableScreen
from bregjax.clusters._weighted_mean import weighted_mean

__all__ = ["NaturalModel", "NaturalState"]


@register_pytree
@dataclass(frozen=True)
class NaturalModel(ClusterModel):
    """Clusters of any exponential family, by its conjugate.

    The merge cost (Proposition 3.8) is computed in the dual form. With c the mean of
    the union, θ_c its natural parameter, u_j = θ_c − θ_j and δ_j = c − τ_j, which is
    known without cancellation:

        Δ(a, b) = Σ_j w_j B_ψ*(τ_j, c),
        B_ψ*(τ_j, c) = ⟨δ_j, u_j⟩ − B_ψ(θ_j, θ_c)

    By Fenchel–Young the right-hand side is largest at the true u_j: an error e of the
    solver changes the cost by e² and not by e, so that costs of close parts keep their
    digits, and equal parts cost exactly 0. NaN where a solve failed.

    A part on the boundary of the mean domain has no θ_j. In the place of the dual form
    the cost then has ψ*(τ_j) − ψ*(c) + ⟨θ_c, δ_j⟩, good to eps |ψ*|. For a separable ψ
    this holds coordinate by coordinate, and a coordinate in which both parts are at the
    same end costs nothing. For any other ψ and parts on one face, the dual form at the
    last iterates of the solver is kept if it agrees with the values to their rounding.

    Derivatives (c minimises the cost, Corollary 3.6; ψ* has slope −∂ψ in a parameter):

        dΔ = Σ_j w_j ⟨θ_j − θ_c, dτ_j⟩ + Σ_j B_j dw_j − Σ_j w_j (∂ψ(θ_j) − ∂ψ(θ_c))

    For a separable ψ, a coordinate in which exactly one part is on the boundary has
    slope ±inf, and a coordinate in which both parts agree has slope 0. For any other ψ
    a part on the boundary has a finite slope of the right sign, from the last iterate
    of the solver.

    Attributes:
        family: The exponential family; its own parameters are leaves.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> model = NaturalModel(bj.Exponential(dim=1))
        >>> states = jax.jit(model.leaves)(jnp.array([[1.0], [4.0]]), jnp.ones(2))
        >>> print(states.natural.ravel())
        [-1.   -0.25]
        >>> print(jax.jit(model.cross_cost)(states, states)[0])
        [0.    0.446]
    """

    family: Potential

    @override
    def leaves(self, statistics: PyTree, weights: Array) -> NaturalState:
        return self.settle(_unsolved_leaves(self.family, statistics, weights))

    @property
    @override
    def solves(self) -> bool:
        return self.family.solves

    @override
    def pool(self, a: NaturalState, b: NaturalState) -> NaturalState:
        """Add weights, average means, and average natural parameters as a start."""
        edge = (a.result == Result.BOUNDARY)[..., None] & jnp.ones_like(a.mean, bool)
        mean = weighted_mean(
            a.weight[..., None], a.mean, b.weight[..., None], b.mean, edge
        )
        return unsolved(a.weight + b.weight, mean, _warm_start(self.family, a, b))

    @override
    def pool_along(self, merges: Merges, leaves: NaturalState) -> NaturalState:
        weight = merges.sum(leaves.weight)
        edge = jnp.where(leaves.result == Result.BOUNDARY, 1, 0).astype(weight.dtype)
        edge = (merges.average(weight, edge) == 1)[:, None]
        rigid = lambda mean: jnp.broadcast_to(edge, mean.shape)
        mean = merges.average(
            weight, leaves.mean, rigid=rigid if self.family.separable else None
        )
        start = _warm_starts(self.family, merges, leaves)
        return unsolved(weight, mean, start)

    @override
    def settle(self, state: NaturalState) -> NaturalState:
        """Solve for θ and ψ* of each mean."""
        if self.family.solves:
            return settled(self.family, None, state)
        _, unravel = ravel_pytree(self.family.natural_init)

        def solve(mean, start):
            solution = self.family.conjugate(unravel(mean), start=unravel(start))
            natural, _ = ravel_pytree(solution.maximiser)
            return natural, solution.value, solution.result

        natural, value, result = vectorize(solve, state.mean, state.natural)
        return NaturalState(state.weight, state.mean, natural, value, result)

    @override
    def pair_size(self, state: NaturalState) -> int:
        """Eight vectors `[n]`; eight matrices `[n, n]` unless ψ is separable."""
        n = state.mean.shape[-1]
        return 8 * n if self.family.separable else 8 * n * n

    @override
    def result(self, state: NaturalState) -> Array:
        """Codes of the solver; a boundary point of finite ψ* counts as CONVERGED."""
        boundary = state.result == Result.BOUNDARY
        finite_limit = boundary & jnp.isfinite(state.value)
        return jnp.where(finite_limit, Result.CONVERGED, state.result).astype(jnp.int32)

    @override
    def cost(self, a: NaturalState, b: NaturalState, union: NaturalState) -> Array:
        return merge_cost_of(self.family, a, b, union)

    @override
    def cross_cost(self, a: NaturalState, b: NaturalState) -> Array:
        """Costs of all pairs from values of ψ* alone: good to eps · w |ψ*|."""
        rows = jax.tree.map(lambda leaf: leaf[:, None], a)
        columns = jax.tree.map(lambda leaf: leaf[None, :], b)
        union = self.pool(rows, columns)
        if self.family.separable and self.family.solves:
            value = bracketed_conjugate(
                flat_psi(self.family),
                union.mean,
                jnp.minimum(rows.natural, columns.natural),
                jnp.maximum(rows.natural, columns.natural),
                union.natural,
            )
        else:
            value = self.settle(union).value
        parts = rows.weight * rows.value + columns.weight * columns.value
        return jnp.maximum(parts - union.weight * value, 0)

    @override
    def assignment_cost(self, points: NaturalState, clusters: NaturalState) -> Array:
        """w B_ψ*(τ, τ_k) by the dual form; +inf beside the boundary."""
        return assignment_cost_of(self.family, points, clusters)

    @override
    def unions(self, statistics: PyTree, weights: Array) -> NaturalState:
        return leaves_of_averages(self, statistics, weights)

    @override
    def host(self) -> HostModel | None:
        """A solver of many pairs at a time; None if the conjugate has a closed form."""
        return NaturalHost(self.family) if self.family.solves else None

    @override
    def screen(self, leaves: NaturalState) -> Screen:
        """Bounds from a table of ψ* where there can be one, else from solves."""
        if not tabulates(self.family):
            return SolvingScreen(self)

        psi = flat_psi(self.family)
        start = flat_init(self.family, leaves.mean.dtype)
        low, high = jnp.min(leaves.mean, axis=0), jnp.max(leaves.mean, axis=0)
        means = table_means(low, high)
        weight = jnp.ones(means.shape[:1], means.dtype)
        knots = self.settle(unsolved(weight, means, start[None]))
        known = has_value(knots)
        return TableScreen(conjugate_table(psi, start, means, knots.natural, known))


@program
def _unsolved_leaves(
    family: Potential, statistics: PyTree, weights: Array
) -> NaturalState:
    mean = jax.vmap(lambda tree: ravel_pytree(tree)[0])(statistics)
    return unsolved(weights, mean, flat_init(family, mean.dtype)[None])


def _warm_start(family: Potential, a: NaturalState, b: NaturalState) -> Array:
    """A start for the solve of a union: the weighted average of both solutions.

    A part on the boundary has no solution, only an iterate far out: it is left out.
    """
    share = (b.weight / (a.weight + b.weight))[..., None]
    found_a, found_b = found(a)[..., None], found(b)[..., None]
    init = flat_init(family, a.natural.dtype)
    init = jnp.broadcast_to(init, jnp.broadcast_shapes(a.mean.shape, b.mean.shape))
    from_a = jnp.where(found_a, a.natural, jnp.where(found_b, b.natural, init))
    from_b = jnp.where(found_b, b.natural, from_a)
    return from_a + share * (from_b - from_a)


def _warm_starts(family: Potential, merges: Merges, leaves: NaturalState) -> Array:
    """Starts for all nodes: the averages of the solutions of their leaves."""
    leaves = jax.lax.stop_gradient(leaves)
    known = found(leaves)
    init = flat_init(family, leaves.natural.dtype)
    # A leaf without a solution counts as `init`, with little weight: a node of such
    # leaves needs a start, too.
    weight = leaves.weight * jnp.where(known, 1, 1e-3)
    natural = jnp.where(known[:, None], leaves.natural, init)
    return merges.average(merges.sum(weight), natural)

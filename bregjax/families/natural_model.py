"""The cluster model that follows from any log-partition function."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.cluster_model import ClusterModel, weighted_mean
from bregjax.families._natural_cost import merge_cost_of
from bregjax.families._natural_state import (
    NaturalState,
    flat_init,
    flat_psi,
    found,
    has_value,
    unsolved,
    vectorize,
)
from bregjax.families._screen import bracketed_conjugate
from bregjax.families._table import ConjugateTable, conjugate_table

if TYPE_CHECKING:
    from bregjax.families.base import Family

__all__ = ["NaturalModel", "NaturalState"]

# Coordinates up to which ψ* is tabulated: the work grows as their square.
_WIDEST_TABLE = 256


@register_pytree
@dataclass(frozen=True)
class NaturalModel(ClusterModel):
    """Clusters of any exponential family, by its conjugate.

    Merge cost (Proposition 3.8), with c the mean of the union, θ_c its natural
    parameter, u_j = θ_c − θ_j and δ_j = c − τ_j, known without cancellation:

        Δ(a, b) = Σ_j w_j B_ψ*(τ_j, c),
        B_ψ*(τ_j, c) = ⟨δ_j, u_j⟩ − B_ψ(θ_j, θ_c)

    By Fenchel–Young the right-hand side is the largest at the true u_j: an error e of
    the solver costs e² and not e, so that near parts keep their digits, and equal ones
    cost exactly 0. NaN where a solve failed.

    A part on the boundary of the mean domain has no θ_j; there
    ψ*(τ_j) − ψ*(c) + ⟨θ_c, δ_j⟩ stands, good to eps |ψ*|. Of a separable ψ it stands in
    the coordinates on the boundary alone, and costs nothing where both parts are at the
    same end. Otherwise, for parts on one face, the dual form goes by the last iterates
    of the solver where that agrees with the values to their rounding.

    Derivatives (c minimises the cost, Corollary 3.6; ψ* has slope −∂ψ in a parameter):

        dΔ = Σ_j w_j ⟨θ_j − θ_c, dτ_j⟩ + Σ_j B_j dw_j − Σ_j w_j (∂ψ(θ_j) − ∂ψ(θ_c))

    Of a separable ψ a coordinate in which exactly one part is on the boundary has slope
    ±inf, one in which both parts agree has slope 0. Otherwise a part on the boundary
    has the finite slope, of the right sign, that the solver had reached.

    Attributes:
        family: The exponential family; its own parameters are leaves.
        table: Bounds of ψ* to screen with; see `prepared`.
    """

    family: "Family"
    table: ConjugateTable | None = None

    def leaves(self, statistics: PyTree, weights: Array) -> NaturalState:
        """States of single points from mean parameters with a leading axis `[m]`."""
        mean = jax.vmap(lambda tree: ravel_pytree(tree)[0])(statistics)
        start = flat_init(self.family, mean.dtype)
        return self.settle(unsolved(weights, mean, start[None]))

    def pool(self, a: NaturalState, b: NaturalState) -> NaturalState:
        """Add weights, average means; natural parameters to start a solve from."""
        edge = (a.result == Result.BOUNDARY)[..., None] & jnp.ones_like(a.mean, bool)
        mean = weighted_mean(
            a.weight[..., None], a.mean, b.weight[..., None], b.mean, edge
        )
        return unsolved(a.weight + b.weight, mean, _warm_start(self.family, a, b))

    def settle(self, state: NaturalState) -> NaturalState:
        """Solve the conjugates."""
        _, unravel = ravel_pytree(self.family.natural_init)

        def solve(mean, start):
            solution = self.family.conjugate(unravel(mean), start=unravel(start))
            natural, _ = ravel_pytree(solution.maximiser)
            return natural, solution.value, solution.result

        natural, value, result = vectorize(solve, state.mean, state.natural)
        return NaturalState(state.weight, state.mean, natural, value, result)

    def pair_size(self, state: NaturalState) -> int:
        """Vectors, and unless ψ is separable a few matrices of the solver."""
        n = state.mean.shape[-1]
        return 8 * n if self.family.separable else 8 * n * n

    def result(self, state: NaturalState) -> Array:
        """The solver's codes; a boundary point of finite ψ* is as good as inside."""
        boundary = state.result == Result.BOUNDARY
        finite_limit = boundary & jnp.isfinite(state.value)
        return jnp.where(finite_limit, Result.CONVERGED, state.result).astype(jnp.int32)

    def cost(self, a: NaturalState, b: NaturalState, union: NaturalState) -> Array:
        """Δ(a, b) by the dual form."""
        return merge_cost_of(self.family, a, b, union)

    def cross_cost(self, a: NaturalState, b: NaturalState) -> Array:
        """All pairs by the difference of values alone: good to eps · w |ψ*|."""
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

    @property
    def bound_group(self) -> int:
        """1: solving for a pair is dear."""
        return 1

    def bound_size(self, state: NaturalState) -> int:
        """A few numbers by the table, else what a cost works on."""
        return self.pair_size(state) if self.table is None else 8

    def prepared(self, leaves: NaturalState) -> "NaturalModel":
        """With a table of ψ* over the leaves' range, if ψ is separable."""
        n = leaves.mean.shape[-1]
        if not (self.family.separable and self.family.solves and n <= _WIDEST_TABLE):
            return self

        def solve(means):
            weight = jnp.ones(means.shape[:1], means.dtype)
            start = flat_init(self.family, means.dtype)[None]
            state = self.settle(unsolved(weight, means, start))
            return state.natural, has_value(state)

        table = conjugate_table(
            flat_psi(self.family),
            flat_init(self.family, leaves.mean.dtype),
            solve,
            jnp.min(leaves.mean, axis=0),
            jnp.max(leaves.mean, axis=0),
        )
        return dataclasses.replace(self, table=table)

    def screen(
        self, rows: NaturalState, like: NaturalState, dtype: jnp.dtype
    ) -> Callable[[NaturalState], Array]:
        """The difference of values, less what rounding may have added to it.

        By the table, chords of ψ* in its place; else a solve a pair.
        """
        del like, dtype
        n = rows.mean.shape[-1]
        slack = (64 + 8 * n) * jnp.finfo(rows.mean.dtype).eps
        w_a = rows.weight[:, None]
        part_a = w_a * rows.value[:, None]

        def by_solving(columns: NaturalState) -> Array:
            cost = self.cross_cost(rows, columns)
            other = (columns.weight * jnp.abs(columns.value))[None]
            return cost - slack * (jnp.abs(part_a) + other + cost)

        table = self.table
        if table is None:
            return by_solving

        def by_table(columns: NaturalState) -> Array:
            total = w_a + columns.weight[None]
            q = columns.weight[None] / total
            column_means = columns.mean.T

            def union(i: Array) -> Array:
                mean = rows.mean[:, i, None]
                return mean + q * (column_means[i][None] - mean)

            value = table.upper_value(union, q)
            parts = part_a + (columns.weight * columns.value)[None]
            return parts - total * (value + slack * table.size)

        return by_table


def _warm_start(family: "Family", a: NaturalState, b: NaturalState) -> Array:
    """Where to start the solve of a union: the weighted average of the solutions.

    Iterates that ran off towards a boundary are no place to start from.
    """
    share = (b.weight / (a.weight + b.weight))[..., None]
    found_a, found_b = found(a)[..., None], found(b)[..., None]
    init = flat_init(family, a.natural.dtype)
    init = jnp.broadcast_to(init, jnp.broadcast_shapes(a.mean.shape, b.mean.shape))
    from_a = jnp.where(found_a, a.natural, jnp.where(found_b, b.natural, init))
    from_b = jnp.where(found_b, b.natural, from_a)
    return from_a + share * (from_b - from_a)

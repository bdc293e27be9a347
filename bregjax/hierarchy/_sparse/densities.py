"""Log-densities of sparse rows under clusters.

log p(x; τ_k) is the value at T(x) of the tangent of f at τ_k, a sum over columns, plus
a term in x alone, a sum over the entries of x; see `Geometry.base_terms`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bregjax._columns import ColumnBlocks, by_columns, idle_divergence
from bregjax._problem import Problem
from bregjax._typing import Array, PyTree
from bregjax.families._densities import tangent_values
from bregjax.hierarchy._blocks import map_rows
from bregjax.hierarchy._cut_states import clusters_of_cut, weights_of_cut

__all__ = ["own_log_densities", "scores_of_cut", "sparse_log_densities"]

StatesOf = Callable[[Problem], PyTree]


def sparse_log_densities(problem: Problem, rows: Array, states_of: StatesOf) -> Array:
    """log p(x; τ_k) of rows under clusters, `[r, k]`, in nats.

    Args:
        problem: What the clusters are of, in blocks of columns.
        rows: Rows in blocks of the same columns, taken as they are.
        states_of: From a problem of some of the columns to states of clusters, `[k]`.
    """

    def tangents(part: Problem, x: Array) -> Array:
        family, means = _of_means(part, states_of)
        slopes = family.function.gradient(means)

        def one_by_one(x: Array, means: Array) -> Array:
            one = lambda row: tangent_values(family.function, row, means)
            return map_rows(one, x, means.size)

        def by_product(x: Array, means: Array) -> Array:
            slopes = family.function.gradient(means)
            at_zero = family.function(means) - jnp.sum(slopes * means, axis=-1)
            product = jnp.matmul(x, slopes.T, precision="highest")
            return product + at_zero[None]

        # A slope is infinite where a mean is on the boundary, as of unsmoothed zeros.
        infinite = jnp.any(jnp.isinf(slopes))
        return jax.lax.cond(infinite, one_by_one, by_product, x, means)

    table: Any = rows
    base = _base(problem, table) - idle_divergence(problem)
    return base[:, None] + by_columns(tangents, problem, rows)


def scores_of_cut(
    problem: Problem, children: Array, rows: Any, num_clusters: Array | int, size: int
) -> tuple[Array, Array]:
    """Log-densities of rows under `clusters_of_cut` `[r, size]`, and their weights."""
    of_cut = lambda part: clusters_of_cut(part, children, num_clusters, size)[0].states
    weights = weights_of_cut(problem, children, num_clusters, size)
    return sparse_log_densities(problem, rows, of_cut), weights


def own_log_densities(problem: Problem, states_of: StatesOf) -> Array:
    """log p(x_i; τ_i) of the rows of a problem, each under a cluster of its own, `[m]`.

    Args:
        problem: In blocks of columns.
        states_of: From a problem of some of the columns to states of clusters, `[m]`.
    """

    def tangents(part: Problem, x: Array) -> Array:
        family, means = _of_means(part, states_of)

        def one(point: tuple[Array, Array]) -> Array:
            row, mean = point
            return tangent_values(family.function, row, mean[None])[0]

        return map_rows(one, (x, means), 2 * x.shape[1])

    table: Any = problem.x
    base = _base(problem, table) - idle_divergence(problem)
    return base + by_columns(tangents, problem, problem.x)


def _of_means(part: Problem, states_of: StatesOf) -> tuple[Any, Array]:
    """The geometry of some columns, and the means of clusters there, `[k, b]`."""
    return part.family, states_of(part).mean


def _base(problem: Problem, rows: ColumnBlocks) -> Array:
    """What log-densities of rows have whatever the cluster, `[r]`."""
    family = problem.family
    table = family.sparse_statistics(rows)
    columns = jnp.take_along_axis(rows.columns, rows.places, axis=1).ravel()
    values = table.values.ravel()
    terms = family.base_terms(values, columns)
    terms = terms - family.base_terms(jnp.zeros_like(values), columns)
    every = jnp.arange(rows.shape[1], dtype=columns.dtype)
    zeros = jnp.zeros(every.shape, values.dtype)
    base = jnp.sum(family.base_terms(zeros, every))
    return base + table.sums(terms.reshape(rows.values.shape))

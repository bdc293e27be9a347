"""Agglomerative clustering in one call."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import float_array, is_concrete
from bregjax._typing import DataLike, PyTree
from bregjax.cluster_model import ClusterModel
from bregjax.hierarchy._kinks import check_kinks
from bregjax.hierarchy._problem import (
    FamilyLike,
    Problem,
    build_leaves,
    check_costs,
    check_leaves,
    padded,
    precision,
    resolve,
    working_copy,
)
from bregjax.hierarchy.dendrogram import Dendrogram
from bregjax.hierarchy.engines import ENGINES, check_memory, engine_name
from bregjax.hierarchy.tree_costs import leaves_and_codes, replay_costs
from bregjax.smoothing import StatisticMap

__all__ = ["agglomerate"]


def agglomerate(
    x: DataLike,
    *,
    family: FamilyLike,
    smoothing: StatisticMap | str | None = "auto",
    weights: DataLike | None = None,
    engine: str = "auto",
) -> Dendrogram:
    """Merge the two clusters of least cost until one is left: Algorithm 1.

    The cost of a merge is the log-likelihood lost when two clusters are fitted as one,
    Δ(a, b) = w_a B(τ_a, τ_ab) + w_b B(τ_b, τ_ab) with B the Bregman divergence of ψ*
    (Theorem 4.9); or the same with a convex function of your own in the place of ψ*.

    Called eagerly on a CPU it computes in float64 whether or not JAX's 64-bit mode is
    on, and gives NumPy arrays. Under your own `jit` or `vmap` the precision is yours,
    values are not checked, and the arrays are JAX's. Compilations go by size classes
    (eight an octave): other numbers of points in the same class compile nothing.

    Args:
        x: Data, a row a point, `[m, d]`. For a family of counts or categories as its
            docstring says; for a convex function the statistics τ themselves.
        family: A family, the name of a built-in one ("gaussian", "poisson", …), or a
            convex function: a `ConvexFunction` or any relatively differentiable JAX
            function of a vector.
        smoothing: A smoothing map (`normal_reference(x)`, `bernstein(…)`, …), None, or
            "auto" for what the family names: bandwidths by the normal reference rule
            for Gaussians, none where costs are finite without.
        weights: Positive weights of the rows, `[m]`, 1 by default: a row of weight w
            costs what w copies of it do.
        engine: "matrix" keeps all costs, O(m²) memory; "recompute" none, O(m³) time;
            "auto" chooses. All are exact; where costs tie, see the engine. Of a ψ of
            your own, and of Gaussians, "matrix" compares costs to within eps · w |ψ*|:
            merges that are cheaper than that, as of near-duplicates far from the
            origin, come in any order among themselves. Costs reported are not so
            limited.

    Returns:
        The tree, with its merge costs in nats (never negative; they may invert).

    Raises:
        ValueError: If data, weights or sizes are unfit, naming row, value and remedy;
            if a leaf has no finite cost, naming the smoothing that helps; if the
            engine's memory would not fit.
        TypeError: If `family` or `smoothing` is of no kind known here.
        ArithmeticError: If a merge cost could not be computed, or the function has a
            kink at the mean of a merge (Proposition 3.8 does not hold there).

    Examples:
        >>> import numpy as np
        >>> tree = agglomerate(np.array([[0.0], [1.0], [5.0]]), family="ward")
        >>> print(tree.merge_costs)
        [0.25 6.75]

    References:
        Telgarsky and Dasgupta (2012), Algorithm 1 and Section 3.
    """
    problem = resolve(x, family, smoothing, weights)
    m = problem.num_points
    if not is_concrete(problem):
        full = working_copy(problem)
        name = _choose(engine, full)
        children, costs = _search(*build_leaves(full), jnp.int32(m), name)
        return Dendrogram(children, costs, full.weights, full.data_model.ward_scale)
    with precision(problem):
        full = padded(working_copy(problem))
        name = _choose(engine, full)
        model, leaves, codes = leaves_and_codes(full)
        check_leaves(np.asarray(codes)[:m], problem)
        children, costs = _jitted_search(model, leaves, np.int32(m), name)
        tree = Dendrogram(
            np.asarray(children)[: m - 1],
            np.asarray(costs)[: m - 1],
            np.asarray(problem.weights),
            _ward_scale(problem),
        )
        check_kinks(tree, problem)
    check_costs(tree.merge_costs, tree.children, problem)
    return tree


def _choose(engine: str, problem: Problem) -> str:
    model, leaves = jax.eval_shape(build_leaves, problem)
    # Nodes, settled ones, the parts and unions of merges that costs are replayed on,
    # and one row of pairs at work.
    numbers = 10 * sum(leaf.size for leaf in jax.tree.leaves(leaves))
    numbers += problem.num_points * model.pair_size(leaves)
    itemsize = jnp.finfo(float).bits // 8
    name = engine_name(engine)
    check_memory(name, problem.num_points, numbers, itemsize)
    return name


def _search(model: ClusterModel, leaves: PyTree, num_points, engine: str):
    """Children and costs, with rows for padding after the first m − 1."""
    weight = jax.tree.leaves(leaves)[0]
    if weight.shape[0] == 1:
        return jnp.zeros((0, 2), jnp.int32), jnp.zeros(0, weight.dtype)
    children = ENGINES[engine](model, jax.lax.stop_gradient(leaves), num_points)
    return children, replay_costs(model, leaves, children, num_points)


_jitted_search = functools.partial(jax.jit, static_argnames="engine")(_search)


def _ward_scale(problem: Problem):
    scale = problem.data_model.ward_scale
    return None if scale is None else float_array(scale)

"""The costs of the merges of a given tree: values, and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import is_concrete
from bregjax._columns import by_columns
from bregjax._evaluation import (
    build_leaves,
    check_costs,
    check_leaves,
    evaluate,
    leaf_codes,
    padded,
    working,
)
from bregjax._problem import Problem, check_problem
from bregjax._programs import program
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array, DataLike, PyTree
from bregjax.clusters import ClusterModel, HostModel, Merges
from bregjax.hierarchy._dendrogram import Dendrogram
from bregjax.hierarchy._host_costs import (
    host_leaves,
    host_of,
    nodes_along,
    settled_costs,
)
from bregjax.hierarchy._search import take
from bregjax.hierarchy._sparse.costs import sparse_costs_along
from bregjax.hierarchy._steps import cost, settled_along
from bregjax.hierarchy._walk import problem_with

__all__ = [
    "children_of",
    "costs_along",
    "leaves_and_codes",
    "node_states",
    "nodes_and_costs",
    "replay",
    "replay_costs",
]


def replay(problem: Problem, tree: Dendrogram | DataLike) -> Array:
    """Merge costs Δ of a given tree or forest under a problem, in nats, `[t]`.

    Each is Σ_j w_j B_f(τ_j, mean) over the two parts of the merge (Proposition 3.8), in
    the form that does not cancel. Plain JAX: `jit`, `grad`, `jvp` and `vmap` apply,
    with respect to the data, the weights, and the leaves of the family (a variance, the
    parameters of ψ) and of the smoothing map (bandwidths). The tree is held fixed;
    at a tie between merges costs are continuous and their derivatives are those of the
    tree given.

    The divergences follow Definition 2.1 where a mean is a kink of a convex function,
    traced or not; there the sum need not be the cost of Definition 3.7, and
    `agglomerate` refuses such a tree.

    A plain sum of all costs is Σ w_i B_f(τ_i, τ_all) whatever the tree: weigh them to
    see it.

    Args:
        problem: Data, family, smoothing and weights: not necessarily those that the
            tree was made of.
        tree: A dendrogram, whose own costs and weights are not used, or the children
            `[m − 1, 2]` of one tree.

    Returns:
        Costs `[t]`, m − 1 of one tree: a NumPy array when everything is concrete,
        float64 on a CPU; else a JAX array.

    Raises:
        ValueError: If the tree has another number of leaves than the problem has rows,
            or a row has no finite cost.
        ArithmeticError: If a cost could not be computed.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> print(replay(problem, [[1, 2], [0, 3]]))
        [4. 3.]
    """
    problem = check_problem(problem)
    m = problem.num_points
    children = children_of(tree, m)
    if not is_concrete((problem, children)):
        return evaluate(costs_along, problem, children)
    with working(problem) as problem:
        if isinstance(problem.x, SparseRows):
            check_leaves(leaf_codes(problem), problem)
            costs = sparse_costs_along(problem, np.asarray(children))
            check_costs(costs, children, problem)
            return costs  # pyright: ignore[reportReturnType]
        host = host_of(problem)
        if host is not None:
            costs = _solved_costs(host, problem, np.asarray(children))
            check_costs(costs, children, problem)
            return costs  # pyright: ignore[reportReturnType]
        full = padded(problem)
        model, leaves, codes = leaves_and_codes(full)
        check_leaves(np.asarray(codes)[:m], problem)
        count = len(children)
        extra = full.num_points - 1 - count
        steps = np.pad(np.asarray(children, np.int32), ((0, extra), (0, 0)))
        costs = np.asarray(_jitted_costs(model, leaves, steps, np.int32(m)))[:count]
        check_costs(costs, children, problem)
        return costs  # pyright: ignore[reportReturnType]


def _solved_costs(
    host: HostModel, problem: Problem, children: np.ndarray
) -> np.ndarray:
    nodes = nodes_along(host, host_leaves(host, problem), children)
    return settled_costs(host, nodes, children)[1]


def children_of(
    tree: Dendrogram | DataLike,
    num_points: int,
    *,
    name: str = "tree",
    whole_for: str | None = None,
    remedy: str = "",
) -> Array | np.ndarray:
    """The children of a dendrogram, `[t, 2]`, or children given as such, `[m − 1, 2]`.

    A forest is a dendrogram: its children alone do not say how many leaves it has.

    Args:
        tree: A dendrogram or children.
        num_points: m.
        name: What the argument is called.
        whole_for: The function that takes no forests, if it takes none.
        remedy: What to do with one, a sentence.

    Raises:
        ValueError: Unless they are the merges of a tree over so many rows, or of a
            forest, where there may be one.
    """
    children = tree.children if isinstance(tree, Dendrogram) else tree
    num_trees = 1
    if isinstance(tree, Dendrogram) and tree.num_leaves == num_points:
        num_trees = tree.num_trees if np.ndim(children) == 2 else 1
    is_forest = num_trees > 1
    if is_forest and whole_for is not None:
        raise ValueError(
            f"`{whole_for}` takes one tree; `{name}` is a forest of {num_trees} "
            f"trees over {num_points} leaves. {remedy}"
        )
    if not is_forest and np.shape(children) != (num_points - 1, 2):
        hint = {
            (num_points - 1, 4): " Read a linkage by Dendrogram.from_linkage first.",
            (num_points,): " These look like labels, which are no tree.",
        }.get(np.shape(children), "")
        raise ValueError(
            f"`{name}` must have {num_points - 1} merges for the {num_points} rows of "
            f"the problem; got children of shape {np.shape(children)}.{hint}"
        )
    if not is_concrete(children):
        return jnp.asarray(children)
    given = np.asarray(children)
    children = given.astype(np.int32)
    if not np.array_equal(given, children):
        raise ValueError(f"`{name}` must have whole numbers of nodes; got {given}.")
    fault = problem_with(children, num_points)
    if fault:
        raise ValueError(f"`{name}` must hold the merges of a tree; {fault}.")
    return children


def costs_along(problem: Problem, children: Array) -> Array:
    """Costs of the merges `children` of all rows, `[t]`; a core of `evaluate`."""
    costs = lambda part: replay_costs(*build_leaves(part), children, problem.num_points)
    return by_columns(costs, problem)


def replay_costs(
    model: ClusterModel,
    leaves: PyTree,
    children: Array | np.ndarray,
    num_points: Array | int,
) -> Array:
    """Costs of the merges of `children`, `[t]`; see `node_states`."""
    if children.shape[0] == 0:
        return jnp.zeros(0)
    return nodes_and_costs(model, leaves, children, num_points)[1]


def nodes_and_costs(
    model: ClusterModel,
    leaves: PyTree,
    children: Array | np.ndarray,
    num_points: Array | int,
) -> tuple[PyTree, Array]:
    """States of all nodes, see `node_states`, and costs of merges `[t]`."""
    nodes = node_states(model, leaves, children, num_points)
    merges = Merges(children, num_points)
    return nodes, cost(model, *_parts_and_unions(merges, nodes))


def node_states(
    model: ClusterModel,
    leaves: PyTree,
    children: Array | np.ndarray,
    num_points: Array | int,
) -> PyTree:
    """States of all nodes: leaves first, then unions in the order of merges.

    Args:
        model: The cluster model.
        leaves: States `[m, ...]`.
        children: `[t, 2]`.
        num_points: The number that the first union has: m, or fewer where leaves are
            padded (unions past the tree's own then mean nothing).

    Returns:
        States `[m + t, ...]`.
    """
    merges = Merges(children, num_points)
    count = jax.tree.leaves(leaves)[0].shape[0]
    # Only sums went along the tree; logarithms and solves are one batch. The leaves are
    # settled already, and stay as they are.
    if is_concrete(num_points) and num_points == count:
        unions = settled_along(model, merges, leaves, merges.unions)
        return _joined(leaves, unions)
    every = jnp.arange(count + len(children), dtype=jnp.int32)
    settled = settled_along(model, merges, leaves, every)

    def keep_leaves(leaf: Array, after: Array) -> Array:
        places = jnp.arange(count, dtype=jnp.int32)
        is_leaf = places < jnp.asarray(num_points, jnp.int32)
        is_leaf = is_leaf.reshape(is_leaf.shape + (1,) * (leaf.ndim - 1))
        return after.at[:count].set(jnp.where(is_leaf, leaf, after[:count]))

    return jax.tree.map(keep_leaves, leaves, settled)


@program
def _parts_and_unions(merges: Merges, nodes: PyTree) -> tuple[PyTree, PyTree, PyTree]:
    return *merges.parts(nodes), take(nodes, merges.unions)


@program
def _joined(leaves: PyTree, unions: PyTree) -> PyTree:
    join = lambda *parts: jnp.concatenate(parts)
    return jax.tree.map(join, leaves, unions)


@program
def leaves_and_codes(problem: Problem):
    """The cluster model, the states of the leaves and their result codes."""
    model, leaves = build_leaves(problem)
    return model, leaves, model.result(leaves)


_jitted_costs = program(replay_costs)

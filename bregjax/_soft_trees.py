"""Trees drawn at random, the cheaper the likelier, and expectations over them."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from bregjax._checks import as_key, float_array, is_concrete
from bregjax._columns import by_columns, undivided
from bregjax._evaluation import (
    build_leaves,
    check_costs,
    evaluate,
    working,
)
from bregjax._problem import Problem, check_problem
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array, ArrayLike, DataLike
from bregjax.clusters import ClusterModel
from bregjax.hierarchy import Dendrogram
from bregjax.hierarchy._blocks import map_rows
from bregjax.hierarchy._memory import available_memory
from bregjax.hierarchy._search import searchable, take
from bregjax.hierarchy._tree_costs import children_of, costs_along, node_states

__all__ = [
    "co_clustering",
    "sample_tree",
    "score_function_loss",
    "sequence_log_prob",
]


def sample_tree(
    problem: Problem,
    *,
    key: ArrayLike,
    temperature: DataLike = 1.0,
) -> tuple[Dendrogram, Array]:
    """A tree whose merges are drawn: at each step a pair with P ∝ exp(−Δ/T).

    Towards T = 0 it is the tree of `agglomerate`, ties apart; towards infinity all
    pairs are alike. For many trees `jax.vmap` over keys. The draw has no gradient; its
    log-probability has, in the data, the weights, T and the leaves of family and
    smoothing.

    O(m³) time and O(m²) memory: for a few hundred points. Sparse rows are made dense in
    the columns that they use.

    Args:
        problem: Data, family, smoothing and weights.
        key: A JAX key, or an integer.
        temperature: T > 0, in nats.

    Returns:
        The tree, with its merge costs, and log P of its sequence of merges, scalar.

    Raises:
        ValueError: If T is not positive and finite, the costs would not fit into
            memory, or as `agglomerate` does.
        ArithmeticError: If a merge cost could not be computed.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> tree, log_prob = sample_tree(problem, key=0, temperature=1e-3)
        >>> print(tree.merge_costs, log_prob)
        [0.25 6.75] 0.0
    """
    problem = check_problem(problem)
    _check_temperature(temperature)
    sizes = _check_memory("sample_tree", problem, undivided=True)
    # As numbers, which do not depend on the kind of the key.
    seed = jax.random.bits(as_key(key), (2,), jnp.uint32)
    if not is_concrete(seed):
        seed = _fitting("sample_tree", *sizes, problem.num_points)(seed)
    # One program after the other: they factorise matrices, see `map_rows`.
    children = evaluate(_drawn, problem, seed, temperature)
    costs = evaluate(costs_along, problem, children)
    log_prob = evaluate(_log_prob, problem, children, temperature)
    if is_concrete(costs):
        check_costs(costs, children, problem)
    scale = problem.family.ward_scale
    scale = None if scale is None else float_array(scale)
    return Dendrogram(children, costs, problem.weights, scale), log_prob


def sequence_log_prob(
    problem: Problem,
    tree: Dendrogram | DataLike,
    *,
    temperature: DataLike = 1.0,
) -> Array:
    """Log-probability that `sample_tree` makes the merges of a tree in their order.

        Σ_t [−Δ_t/T − log Σ exp(−Δ/T) over the pairs of clusters at step t]

    The probability of a tree as a set of clusters is the sum of those of the orders
    that make it. Of a forest it is that of the first merges being these. O(m³) time and
    O(m²) memory, in reverse mode too.

    Args:
        problem: Data, family, smoothing and weights.
        tree: A dendrogram over its rows, or the children of one `[m − 1, 2]`.
        temperature: T > 0, in nats.

    Returns:
        Scalar, at most 0.

    Raises:
        ValueError: If T is not positive, the tree does not fit, the costs would not fit
            into memory, or a row has no finite cost.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> trees = [[0, 1], [2, 3]], [[0, 2], [1, 3]], [[1, 2], [0, 3]]
        >>> log_prob = lambda tree: sequence_log_prob(problem, tree, temperature=5.0)
        >>> print(jnp.exp(jnp.array([log_prob(tree) for tree in trees])))
        [0.564 0.17 0.266]
    """
    problem = check_problem(problem)
    _check_temperature(temperature)
    _check_memory("sequence_log_prob", problem, undivided=False)
    children = children_of(tree, problem.num_points)
    return evaluate(_log_prob, problem, children, temperature)


def co_clustering(trees: Dendrogram, *, num_clusters: int) -> Array:
    """How often two points share a cluster of a cut, over a batch of trees.

    Args:
        trees: A batch of trees, children `[s, m − 1, 2]`, as `jax.vmap` of
            `sample_tree` gives them, or of forests with as many merges each.
        num_clusters: Clusters of the cut, from 1, or the number of trees of forests, to
            m.

    Returns:
        Shares `[m, m]`, 1 on the diagonal.

    Raises:
        ValueError: If those would not fit into memory.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> draw = lambda key: sample_tree(problem, key=key, temperature=0.1)[0]
        >>> trees = jax.vmap(draw)(jax.random.split(jax.random.key(0), 4))
        >>> print(co_clustering(trees, num_clusters=2))
        [[1. 1. 0.] [1. 1. 0.] [0. 0. 1.]]
    """
    # The total, that of the step before, and which pairs share a cluster.
    per_pair = 2 * jnp.result_type(float).itemsize + 1
    _check_fits("co_clustering", per_pair, 0, trees.num_leaves)
    labels = jax.vmap(lambda tree: tree.cut(num_clusters=num_clusters))(trees)
    draws, m = labels.shape

    def count(total, label):
        return total + (label[:, None] == label[None]), None

    return jax.lax.scan(count, jnp.zeros((m, m)), labels)[0] / draws


def score_function_loss(losses: Array, log_probs: Array) -> Array:
    """A mean loss over draws whose gradient is that of the expected loss.

        value      mean over s of L_s
        gradient   mean over s of ∇L_s + (L_s − b_s) ∇log P_s

    unbiased, with b_s the mean loss of the other draws, which lowers its variance.

    Args:
        losses: L of independent draws, `[s]`, two at least.
        log_probs: log P of each, `[s]`: see `sample_tree`.

    Returns:
        Scalar.

    Raises:
        ValueError: If there are fewer than two.

    Examples:
        >>> losses, log_probs = jnp.array([1.0, 3.0]), jnp.array([-0.5, -0.7])
        >>> print(score_function_loss(losses, log_probs))
        2.0
        >>> print(jax.grad(score_function_loss, 1)(losses, log_probs))
        [-1. 1.]

    References:
        Williams (1992), Simple statistical gradient-following algorithms; Kool, van
        Hoof, Welling (2019), Buy 4 REINFORCE samples, get a baseline for free!
    """
    count = losses.shape[0]
    if count < 2:
        raise ValueError(
            f"`losses` must be of two draws at least, each the baseline of the others; "
            f"got {count}."
        )
    others = (jnp.sum(losses) - losses) / (count - 1)
    advantage = jax.lax.stop_gradient(losses - others)
    # Worth 0, with a gradient.
    scores = advantage * (log_probs - jax.lax.stop_gradient(log_probs))
    return jnp.mean(losses + scores)


def _check_temperature(temperature: DataLike) -> None:
    if is_concrete(temperature) and not 0 < float(temperature) < math.inf:  # pyright: ignore[reportArgumentType]
        raise ValueError(
            f"`temperature` must be positive and finite; got {temperature}."
        )


def _check_memory(name: str, problem: Problem, *, undivided: bool) -> tuple[int, int]:
    """Bytes for each pair of points, and for each point.

    Args:
        name: Of the function.
        problem: Its problem.
        undivided: Whether sparse rows are made dense, in the columns that they use.

    Raises:
        ValueError: If the costs of all pairs of nodes would not fit.
    """
    # (2m)² costs, which pairs are there, and their scores, for the log-probability.
    with working(problem):
        size = jnp.result_type(float).itemsize
    rows: Any = problem.x
    columns = 0
    if undivided and isinstance(rows, SparseRows):
        columns = len(np.unique(rows.pattern.columns))
    # Dense rows as they are, as leaves and as states.
    sizes = 4 * (2 * size + 1), 3 * size * columns
    _check_fits(name, *sizes, problem.num_points)
    return sizes


def _fitting(
    name: str, per_pair: int, per_point: int, num_points: int
) -> Callable[[Array], Array]:
    """An identity that checks, under `vmap`, whether as many as that fit together."""

    @jax.custom_batching.custom_vmap
    def identity(seed: Array) -> Array:
        return seed

    @identity.def_vmap
    def checked(axis_size: int, in_batched: list[bool], seed: Array):
        sizes = axis_size * per_pair, axis_size * per_point, num_points
        _check_fits(name, *sizes)
        return _fitting(name, *sizes)(seed), in_batched[0]

    return identity


def _check_fits(name: str, per_pair: int, per_point: int, num_points: int) -> None:
    """Raise ValueError if so many bytes for each pair and each point would not fit."""
    needed = (per_pair * num_points + per_point) * num_points
    available = available_memory()
    room = 0.8 * available
    if needed > room:
        half = per_point / (2 * per_pair)
        most = int(math.sqrt(half**2 + room / per_pair) - half)
        raise ValueError(
            f"`{name}` needs {needed / 2**30:.1f} GiB for {num_points:,} points and "
            f"{available / 2**30:.1f} GiB are there: up to {most:,} points fit. Merge "
            "duplicates into weights, or draw trees of a sample; `agglomerate` needs "
            "less."
        )


def _drawn(problem: Problem, seed: Array, temperature: Array) -> Array:
    key = jax.random.wrap_key_data(seed, impl="threefry2x32")
    leaves = build_leaves(undivided(problem))
    fixed = jax.lax.stop_gradient((*leaves, temperature))
    return _draw(*fixed, key)


def _draw(model: ClusterModel, leaves, temperature: Array, key: Array) -> Array:
    """Merges `[m − 1, 2]`; the union of slots i < j goes to slot i."""
    m = jax.tree.leaves(leaves)[0].shape[0]
    if m == 1:
        return jnp.zeros((0, 2), jnp.int32)
    slots = jnp.arange(m)
    entries = m * model.pair_size(take(leaves, slice(1)))
    costs = map_rows(functools.partial(_costs_to_all, model, leaves), leaves, entries)

    def step(carry, inputs):
        t, key = inputs
        states, costs, node, alive = carry
        pairs = alive[:, None] & alive[None] & (slots[:, None] < slots[None])
        noise = jax.random.gumbel(key, costs.shape, costs.dtype)
        # The largest of noise − Δ/T, times T where T < 1: neither end overflows.
        score = jnp.minimum(temperature, 1) * noise - searchable(costs) / jnp.maximum(
            temperature, 1
        )
        score = jnp.where(pairs, score, -jnp.inf)
        i, j = jnp.divmod(jnp.argmax(score), m)
        union = model.union(take(states, i), take(states, j))
        states = jax.tree.map(lambda all_, u: all_.at[i].set(u), states, union)
        row = _costs_to_all(model, states, union)
        costs = costs.at[i].set(row).at[:, i].set(row)
        pair = jnp.sort(jnp.stack([node[i], node[j]]))
        return (states, costs, node.at[i].set(m + t), alive.at[j].set(False)), pair

    start = (leaves, costs, slots, jnp.ones(m, bool))
    steps = (jnp.arange(m - 1), jax.random.split(key, m - 1))
    return jax.lax.scan(step, start, steps)[1].astype(jnp.int32)


def _costs_to_all(model: ClusterModel, states, state) -> Array:
    return model.merge_cost(jax.tree.map(lambda leaf: leaf[None], state), states)


def _log_prob(problem: Problem, children: Array, temperature: Array) -> Array:
    m = problem.num_points
    if children.shape[0] == 0:
        return jnp.zeros(())
    costs = by_columns(lambda part: _costs_of_nodes(part, children), problem)
    count = children.shape[0]
    number = jnp.arange(m + count)
    # A node is there from the step after it was made to the one that takes it up.
    born = jnp.maximum(number - m + 1, 0)
    merged = jnp.full_like(number, count).at[children].set(number[:count, None])

    @jax.checkpoint
    def step(total, inputs):
        t, pair = inputs
        there = (born <= t) & (t <= merged)
        pairs = there[:, None] & there[None] & (number[:, None] < number[None])
        scores = jnp.where(pairs, -costs / temperature, -jnp.inf)
        return total + scores[pair[0], pair[1]] - logsumexp(scores), None

    pairs = jnp.sort(children, axis=1)
    total = jnp.zeros((), costs.dtype)
    return jax.lax.scan(step, total, (jnp.arange(count), pairs))[0]


def _costs_of_nodes(problem: Problem, children: Array) -> Array:
    """Merge costs of all pairs of nodes of a tree, `[m + t, m + t]`."""
    m = problem.num_points
    model, leaves = build_leaves(problem)
    nodes = node_states(model, leaves, children, m)
    entries = (m + children.shape[0]) * model.pair_size(take(leaves, slice(1)))
    return map_rows(functools.partial(_costs_to_all, model, nodes), nodes, entries)

"""Whether a tree is one that greedy agglomeration gives, checked against all pairs."""

import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, SupportsIndex

import jax
import numpy as np

from bregjax._checks import as_key, is_concrete
from bregjax._evaluation import check_costs, check_leaves, padded, working
from bregjax._problem import Problem, check_problem
from bregjax._typing import ArrayLike, DataLike, PyTree
from bregjax.clusters.base import ClusterModel
from bregjax.clusters.host_model import HostModel, rows_of
from bregjax.clusters.screens import Screen
from bregjax.hierarchy._host_costs import (
    host_leaves,
    host_of,
    nodes_along,
    settled_costs,
)
from bregjax.hierarchy._provenance import compare_costs
from bregjax.hierarchy._search import take
from bregjax.hierarchy._windowed import kernels
from bregjax.hierarchy._windowed.pool import Pool, blocks
from bregjax.hierarchy._windowed.range_max import RangeMax
from bregjax.hierarchy.dendrogram import Dendrogram
from bregjax.hierarchy.tree_costs import (
    children_of,
    leaves_and_codes,
    nodes_and_costs,
)

__all__ = ["Certificate", "certify"]

# Costs under this share of the mean merge cost are taken for this share: those of
# near-duplicates are rounding.
_NEGLIGIBLE = 1e-9
# The clusters alive shrink with each merge; columns are gathered anew so many times.
_CHUNKS = 16
# Pairs looked at together.
_PAIRS = 2**19


@dataclass(frozen=True)
class Certificate:
    """How far a tree is from greedy.

    Attributes:
        excess: The most by which a pair that coexists costs less than a merge made in
            that time, in nats; 0 if none does.
        relative: The most by which one does as a share of that merge's cost (or of
            1e-9 of the mean merge cost, where that is more), from 0 to 1: about 1e-12
            where ties alone were broken, by rounding.
        pair: The two nodes of `excess`, the one merged first in front; None if it is 0.
        num_pairs: How many pairs of nodes that coexist were covered.
        sum_of_costs: All merge costs of the tree, in nats.
        cost_of_all: Σ w_i B(τ_i, τ_all), all points as one cluster: what the costs of
            any tree add up to.
    """

    excess: float
    relative: float
    pair: tuple[int, int] | None
    num_pairs: int
    sum_of_costs: float
    cost_of_all: float

    @property
    def sum_error(self) -> float:
        """Relative error of the sum of costs."""
        error = abs(self.sum_of_costs - self.cost_of_all)
        return error / self.cost_of_all if error else 0.0

    def holds(self, rtol: float = 1e-9) -> bool:
        """Whether the tree is greedy's, and its costs add up, to a relative error."""
        return self.relative <= rtol and self.sum_error <= rtol


def certify(
    problem: Problem,
    tree: Dendrogram | DataLike,
    *,
    sample: SupportsIndex | None = None,
    key: ArrayLike = 0,
) -> Certificate:
    """Check that a tree is one that greedy agglomeration gives, ties in any order.

    Greedy merges the pair of least cost. So any two nodes U, V that coexist cost at
    least every merge made while both were alive, their own excepted; and a tree in
    which all do is greedy's, up to ties. `excess` is

        max over U, V of [max over steps s while both live of Δ_s] − Δ(U, V).

    Of two nodes that coexist one is merged first, at a time when both live. So each
    step's two nodes are compared with all clusters of that time, (m − 1)² pairs in all,
    by lower bounds in tiles; costs are evaluated where those leave a pair in question.
    Nodes in whose life all merges cost 0 need no comparison: no cost is negative.
    A sample is compared by costs alone: it checks the bounds, which engines share, too.
    The costs of the tree are checked by their sum, which is that of any other tree
    (compared with one that merges neighbours).

    Time: m² bounds, and O(m) costs if the tree is right or nearly; of a sample of s
    nodes s m / 2 costs. Memory: O(m n).

    Args:
        problem: Data, family, smoothing and weights that the tree was made of.
        tree: A dendrogram, or its children `[m − 1, 2]` in the order of merges.
        sample: So many nodes, drawn at random from all but the root, are compared with
            those alive when they are merged, without bounds; all nodes by default.
        key: A JAX key, or an integer, for that sample.

    Returns:
        A `Certificate`. Its `sum_of_costs` is of the dendrogram's own merge costs, or,
        given children alone, of those recomputed; everything else is recomputed.

    Raises:
        ValueError: If the tree has another number of leaves or merge costs of another
            problem, is no tree, `sample` is not positive, a row has no finite cost, or
            it is called inside a transformation.
        ArithmeticError: If a merge cost could not be computed.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> print(certify(problem, [[0, 1], [2, 3]]).excess)
        0.0
        >>> certificate = certify(problem, [[1, 2], [0, 3]])
        >>> print(certificate.excess, certificate.pair)
        3.75 (1, 0)
    """
    problem = check_problem(problem)
    children = tree.children if isinstance(tree, Dendrogram) else tree
    if not is_concrete((problem, children)):
        raise ValueError("`certify` loops on the host: call it outside jit and vmap.")
    m = problem.num_points
    children = np.asarray(children_of(children, m))
    rows = _sampled(2 * m - 2, sample, key)
    with working(problem) as problem:
        tree_of, pairs_of = _on_host(problem) or _compiled(problem)
        neighbours = np.arange(2 * m - 2).reshape(-1, 2)
        cost_of_all = float(np.sum(tree_of(neighbours)[1]))
        nodes, costs = tree_of(children)
        check_costs(costs, children, problem)
        own = costs
        if isinstance(tree, Dendrogram):
            own = tree.merge_costs
            compare_costs(tree, costs)
        sum_of_costs = float(np.sum(np.asarray(own)))
        lives = _Lives.of(children, costs)
        worst = _worst(pairs_of(nodes, lives, rows, exact=sample is not None), lives)
    num_pairs = lives.num_pairs(rows)
    return Certificate(*worst, num_pairs, sum_of_costs, cost_of_all)


_taken = jax.jit(take)
_nodes_and_costs = jax.jit(nodes_and_costs)


def _sampled(count: int, sample: SupportsIndex | None, key: ArrayLike) -> np.ndarray:
    """Which nodes are rows, booleans `[count]`."""
    if sample is None:
        return np.ones(count, bool)
    size = operator.index(sample)
    if size < 1:
        raise ValueError(f"`sample` must be positive, a number of nodes; got {size}.")
    chosen = np.zeros(count, bool)
    chosen[np.asarray(jax.random.permutation(as_key(key), count))[:size]] = True
    return chosen


# From children to the states of all nodes and the costs of merges; and from these,
# lives, rows and whether bounds are left out, to batches of pairs in question.
_TreeOf = Callable[[np.ndarray], tuple[PyTree, np.ndarray]]
_PairsOf = Callable[..., Iterator["_Pairs"]]


class _Pairs(NamedTuple):
    """Pairs that coexist: nodes, the dearest merge of that time, and their costs."""

    first: np.ndarray
    second: np.ndarray
    limit: np.ndarray
    cost: np.ndarray


def _compiled(problem: Problem) -> tuple[_TreeOf, _PairsOf]:
    """By compiled programs."""
    m = problem.num_points
    model, leaves, codes = leaves_and_codes(padded(problem))
    check_leaves(np.asarray(codes)[:m], problem)

    def tree_of(children: np.ndarray) -> tuple[PyTree, np.ndarray]:
        if m == 1:
            return leaves, np.zeros(0)
        extra = jax.tree.leaves(leaves)[0].shape[0] - m
        steps = np.pad(np.asarray(children, np.int32), ((0, extra), (0, 0)))
        nodes, costs = _nodes_and_costs(model, leaves, steps, np.int32(m))
        return nodes, np.asarray(costs)[: m - 1]

    screen = kernels.screen(model, leaves)
    return tree_of, functools.partial(_screened_pairs, model, screen, None)


def _on_host(problem: Problem) -> tuple[_TreeOf, _PairsOf] | None:
    """By solves from the host: of all pairs, or of those that a table leaves.

    None where compiled programs do.
    """
    host = host_of(problem)
    if host is None:
        return None
    leaves = host_leaves(host, problem)
    screen = host.screen(leaves)

    def tree_of(children: np.ndarray) -> tuple[PyTree, np.ndarray]:
        return settled_costs(host, nodes_along(host, leaves, children), children)

    if screen is None:
        return tree_of, functools.partial(_solved_pairs, host)
    model = problem.family.cluster_model()
    return tree_of, functools.partial(_screened_pairs, model, screen, host)


@dataclass(frozen=True)
class _Lives:
    """When nodes live, and the dearest of the merges in any time.

    Attributes:
        children: `[m − 1, 2]`.
        birth: The step before which each node first exists, `[2m − 1]`.
        death: The step that merges it.
        cost: Merge costs by rank, and −inf.
        dearest: Range maxima of ranks over steps.
    """

    children: np.ndarray
    birth: np.ndarray
    death: np.ndarray
    cost: np.ndarray
    dearest: RangeMax

    @classmethod
    def of(cls, children: np.ndarray, costs: np.ndarray) -> "_Lives":
        """Lives of the nodes of a tree."""
        steps = np.arange(len(costs))
        birth = np.concatenate([np.zeros(len(costs) + 1, int), steps + 1])
        death = np.full(len(birth), len(costs))
        death[children] = steps[:, None]
        by_rank = np.argsort(costs, kind="stable")
        dearest = RangeMax(np.argsort(by_rank))
        return cls(children, birth, death, np.append(costs[by_rank], -np.inf), dearest)

    def most(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """The largest merge cost of steps [begin, end), −inf where there are none."""
        return self.cost[self.dearest(begin, end)]

    def of_life(self, nodes: np.ndarray) -> np.ndarray:
        """The largest merge cost while nodes live, their own included."""
        return self.most(self.birth[nodes], self.death[nodes] + 1)

    def of_pairs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The largest merge cost while both live, their own excepted.

        −inf for those that never coexist, and where the second is merged before the
        first, which is for the other order.
        """
        begin = np.maximum(self.birth[first], self.birth[second])
        end, other = self.death[first], self.death[second]
        ours = (end <= other) & (first != second)
        return self.most(begin, np.where(ours, end + (end < other), 0))

    def num_pairs(self, rows: np.ndarray) -> int:
        """How many pairs it takes to compare rows with all alive at their merge."""
        others = len(self.children) - self.death[: len(rows)][rows]
        together = np.count_nonzero(np.all(rows[self.children], axis=1))
        return int(np.sum(others) - together)


def _worst(
    pairs: Iterator[_Pairs], lives: _Lives
) -> tuple[float, float, tuple[int, int] | None]:
    """Excess, relative excess and the pair of the former."""
    floor = _NEGLIGIBLE * np.sum(lives.cost[:-1]) / max(len(lives.children), 1)
    floor = max(floor, np.finfo(float).tiny)
    excess, relative, pair = 0.0, 0.0, None
    for u, v, limit, cost in pairs:
        lost = np.flatnonzero(np.isnan(cost))
        if len(lost):
            nodes = int(u[lost[0]]), int(v[lost[0]])
            raise ArithmeticError(
                f"{len(lost)} of {len(cost)} costs could not be computed, the first "
                f"that of nodes {nodes}: the conjugate did not converge on their "
                "union. `family.check(x)` tells more."
            )
        saved = limit - cost
        worst = np.argmax(saved)
        if saved[worst] > excess:
            excess, pair = float(saved[worst]), (int(u[worst]), int(v[worst]))
        shares = saved / np.maximum(limit, floor)
        relative = max(relative, float(np.max(shares)))
    return excess, relative, pair


def _solved_pairs(
    host: HostModel, nodes: PyTree, lives: _Lives, rows: np.ndarray, *, exact: bool
) -> Iterator[_Pairs]:
    """All pairs that coexist with some of the rows, costs solved for."""
    del exact  # costs are what is compared, in either case
    first = lives.children.ravel()
    first = first[(lives.of_life(first) > 0) & rows[first]]
    everyone = np.arange(len(lives.birth))
    numbers = sum(leaf[:1].size for leaf in jax.tree.leaves(nodes))
    for part in blocks(first, max(8 * _PAIRS // (len(everyone) * numbers), 1)):
        u, v = np.repeat(part, len(everyone)), np.tile(everyone, len(part))
        limit = lives.of_pairs(u, v)
        meet = limit > 0
        if np.any(meet):
            u, v, limit = u[meet], v[meet], limit[meet]
            cost, _ = host.search_costs(rows_of(nodes, u), rows_of(nodes, v))
            yield _Pairs(u, v, limit, cost)


def _screened_pairs(
    model: ClusterModel,
    screen: Screen,
    host: HostModel | None,
    nodes: PyTree,
    lives: _Lives,
    rows: np.ndarray,
    *,
    exact: bool,
) -> Iterator[_Pairs]:
    """Pairs that bounds leave in question; all pairs with a few rows if `exact`."""
    merges = len(lives.children)
    # As many as there are leaves, padding included.
    size = (jax.tree.leaves(nodes)[0].shape[0] + 1) // 2
    chunk = max(size // _CHUNKS, 128)
    for begin in range(0, merges, chunk):
        end = min(begin + chunk, merges)
        first = lives.children[begin:end].ravel()
        # Next to a merge that cost nothing, of equal points, no pair costs less.
        first = first[lives.of_life(first) > 0]
        there = np.flatnonzero((lives.birth < end) & (lives.death >= begin))
        index = np.full(size + chunk, there[-1], np.int32)
        index[: len(there)] = there
        states = _taken(nodes, index) if host is None else rows_of(nodes, index)
        pool = Pool(model, screen, states, len(there), host=host)
        part = first[rows[first]]
        for u, v, limit in _in_question(pool, lives, there, part, exact=exact):
            places = np.searchsorted(there, u), np.searchsorted(there, v)
            cost = pool.costs(*places, np.inf if exact else limit)
            yield _Pairs(u, v, limit, cost)


def _in_question(
    pool: Pool, lives: _Lives, there: np.ndarray, rows: np.ndarray, *, exact: bool
):
    """Nodes of pairs that bounds leave in question, and their limits, in batches."""
    alive = np.arange(pool.capacity) < len(there)
    if exact:
        parts = list(blocks(rows, max(_PAIRS // len(there), 1)))
        found = (np.indices((len(part), len(there))).reshape(2, -1) for part in parts)
    else:
        parts = list(blocks(rows, pool.shapes.block))
        bounds = pool.bounds_of((np.searchsorted(there, part), alive) for part in parts)
        limits = (lives.of_life(part) for part in parts)
        found = (b.pairs_by_row(limit) for b, limit in zip(bounds, limits, strict=True))
    for part, places in zip(parts, found, strict=True):
        for row, slot in map(np.transpose, blocks(np.transpose(places), _PAIRS)):
            row, slot = row[slot < len(there)], slot[slot < len(there)]
            u, v = part[row], there[slot]
            limit = lives.of_pairs(u, v)
            meet = limit > -np.inf
            if np.any(meet):
                yield u[meet], v[meet], limit[meet]

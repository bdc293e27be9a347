"""Whether a tree is one that greedy agglomeration gives, checked against all pairs."""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import SupportsIndex

import jax
import numpy as np

from bregjax._checks import as_key, is_concrete
from bregjax._evaluation import check_costs, working
from bregjax._problem import Problem, check_problem
from bregjax._typing import ArrayLike, DataLike, TableLike
from bregjax.hierarchy._coexisting import CoexistingPairs, comparisons, lives_of
from bregjax.hierarchy._constrained_pairs import (
    constrained_comparisons,
    joined_otherwise,
)
from bregjax.hierarchy._constraints import constraints_of
from bregjax.hierarchy._dendrogram import Dendrogram
from bregjax.hierarchy._provenance import compare_costs
from bregjax.hierarchy._tree_costs import (
    children_of,
)
from bregjax.hierarchy._windowed.windows.lives import Lives

__all__ = ["Certificate", "certify"]

# Relative error that is rounding, by the bytes of a cost. Costs below this share of the
# mean merge cost, as of near-duplicates, count as that share.
_ROUNDING = {4: 1e-4, 8: 1e-9}


@dataclass(frozen=True)
class Certificate:
    """How far a tree is from greedy.

    Attributes:
        excess: The most by which a pair that coexists costs less than a merge made in
            that time, in nats; 0 if none does.
        relative: The most by which one does as a share of that merge's cost (or of
            `rounding` of the mean merge cost, where that is more), from 0 to 1: about
            1e-12 in float64 where ties alone were broken, by rounding.
        pair: The two nodes of `excess`, the one merged first in front; None if it is 0.
        num_pairs: How many pairs of nodes that coexist were covered.
        sum_of_costs: All merge costs of the tree, in nats.
        cost_of_all: Σ w_i B(τ_i, τ_all), all points as one cluster: what the costs of
            any tree add up to.
        rounding: The relative error that counts as rounding: 1e-9, or 1e-4 where the
            tree's own costs or the recomputed ones are float32, as inside `jit` or on a
            GPU. Full Gaussians of narrow bandwidths may need more in float32.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> certificate = certify(problem, [[0, 1], [2, 3]])
        >>> print(certificate.holds(), certificate.num_pairs, certificate.cost_of_all)
        True 4 7.0
    """

    excess: float
    relative: float
    pair: tuple[int, int] | None
    num_pairs: int
    sum_of_costs: float
    cost_of_all: float
    rounding: float

    @property
    def sum_error(self) -> float:
        """Relative error of the sum of costs."""
        error = abs(self.sum_of_costs - self.cost_of_all)
        return error / self.cost_of_all if error else 0.0

    def holds(self, rtol: float | None = None) -> bool:
        """Whether the tree is greedy's, and its costs add up, to a relative error.

        Args:
            rtol: The relative error to allow; `rounding` by default.
        """
        rtol = self.rounding if rtol is None else rtol
        return self.relative <= rtol and self.sum_error <= rtol


def certify(
    problem: Problem,
    tree: Dendrogram | DataLike,
    *,
    sample: SupportsIndex | None = None,
    key: ArrayLike = 0,
    connectivity: TableLike | None = None,
    must_link: DataLike | None = None,
    cannot_link: DataLike | None = None,
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
    (compared with one that merges neighbours; scaled costs, which have no such sum, by
    those recomputed).

    Under constraints, and of a forest, only pairs that may merge while both live count,
    and all of them are compared by their costs. Clusters of different groups of links
    do not compete before all links are merged. Whether a forest could go on is not
    asked: it may have stopped early.

    Time: m² bounds, and O(m) costs if the tree is right or nearly; of a sample of s
    nodes s m / 2 costs. Memory: O(m n). Of sparse rows the costs of all pairs that
    coexist, sample or not, as the engine computes them.

    Args:
        problem: Data, family, smoothing and weights that the tree was made of.
        tree: A dendrogram, or its children `[m − 1, 2]` in the order of merges.
        sample: So many nodes, drawn at random from all but the root, are compared with
            those alive when they are merged, without bounds; all nodes by default.
        key: A JAX key, or an integer, for that sample.
        connectivity: As `agglomerate` was given it. Under constraints only pairs that
            may merge while both live are compared, all of them, by costs.
        must_link: As `agglomerate` was given it.
        cannot_link: As `agglomerate` was given it.

    Returns:
        A `Certificate`. Its `sum_of_costs` is of the dendrogram's own merge costs, or,
        given children alone, of those recomputed; everything else is recomputed.

    Raises:
        ValueError: If the tree has another number of leaves or merge costs of another
            problem, is no tree or has a merge that may not be, `sample` is not positive
            or given beside constraints or for a forest, a row has no finite cost, or it
            is called inside a transformation.
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
    constraints = constraints_of(m, connectivity, must_link, cannot_link)
    children = np.asarray(children_of(tree, m))
    some = constraints.restrict or len(children) < m - 1
    if some and sample is not None:
        raise ValueError(
            "`sample` must be None for a forest or under constraints, where all pairs "
            f"that may merge are compared; got {sample}. Leave it out."
        )
    rows = _sampled(2 * m - 2, sample, key)
    with working(problem) as problem:
        if some:
            tree_of, pairs_of = constrained_comparisons(problem, constraints)
            neighbours = joined_otherwise(children, m)
        else:
            tree_of, pairs_of = comparisons(problem)
            neighbours = np.arange(2 * m - 2).reshape(-1, 2)
        telescopes = problem.family.cluster_model().telescopes
        nodes, costs = tree_of(children)
        check_costs(costs, children, problem)
        own = costs
        if isinstance(tree, Dendrogram):
            compare_costs(tree, costs)
            own = np.asarray(tree.merge_costs)
            own = np.where(np.isinf(own), np.asarray(costs, own.dtype), own)
        sum_of_costs = float(np.sum(np.asarray(own, np.float64)))
        other = tree_of(neighbours)[1] if telescopes else costs
        cost_of_all = float(np.sum(other))
        size = min(np.asarray(own).dtype.itemsize, np.asarray(costs).dtype.itemsize)
        lives = lives_of(children, costs, m)
        pairs = pairs_of(nodes, children, lives, rows, exact=sample is not None)
        rounding = _ROUNDING.get(size, _ROUNDING[4])
        excess, relative, pair, compared = _worst(pairs, lives, rounding)
    return Certificate(
        excess,
        relative,
        pair,
        num_pairs=compared if some else _num_pairs(lives, rows),
        sum_of_costs=sum_of_costs,
        cost_of_all=cost_of_all,
        rounding=rounding,
    )


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


def _num_pairs(lives: Lives, rows: np.ndarray) -> int:
    """How many pairs it takes to compare rows with all alive at their merge."""
    death = lives.death[: len(rows)][rows]
    together = len(death) - len(np.unique(death))
    return int(np.sum(lives.num_steps + 1 - death) - together)


def _worst(
    pairs: Iterator[CoexistingPairs], lives: Lives, rounding: float
) -> tuple[float, float, tuple[int, int] | None, int]:
    """Excess, relative excess, the pair of the former, and how many were compared."""
    floor = rounding * np.sum(lives.cost[:-1]) / max(lives.num_steps, 1)
    floor = max(floor, np.finfo(float).tiny)
    excess, relative, pair, count = 0.0, 0.0, None, 0
    for u, v, limit, cost in pairs:
        count += len(cost)
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
    return excess, relative, pair, count

"""Bregman hard clustering: Lloyd's iterations under the costs of any cluster model."""

from dataclasses import dataclass
from typing import Any, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import check_count
from bregjax._evaluation import working
from bregjax._new_rows import new_rows
from bregjax._problem import Problem
from bregjax._programs import program
from bregjax._progress import progress_shown
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array, ArrayLike, PyTree, TableLike
from bregjax.partition._base import Points
from bregjax.partition._mixture import Fitted, check_known, counted
from bregjax.partition._points import check_on_host, checked_on_host, points_of
from bregjax.partition._starts import Start, starting_labels

__all__ = ["HardClustering", "hard_clustering"]

# A rise of the objective above this share of itself is no rounding: the mean is not the
# best center, as of functions with kinks. Rounding is far below half, and rises that
# were seen are far above double.
_RISE = 1e-6


@register_pytree
@dataclass(frozen=True, repr=False)
class HardClustering(Fitted):
    """A partition of the rows of a problem.

    Attributes:
        problem: What was clustered.
        labels: Numbers of clusters from 0 to k − 1, int32 `[m]`; each occurs.
        weights: Sums of the weights of the rows of each cluster, `[k]`.
        costs: Cost φ(C_k) of each cluster, in nats, `[k]`.
        states: The clusters in the form of the family's cluster model, `[k, ...]`; of
            Gaussians `states.moments.mean` and `states.moments.covariance`, of counts
            `states.mean`.
        objective: Σ_k φ(C_k) of the start and after each step, `[num_steps + 1]`;
            never increasing.
        result: CONVERGED if a further step would change nothing; STEP_LIMIT; or STALLED
            if a step would have made the objective larger, see `hard_clustering`.

    Examples:
        >>> import bregjax as bj
        >>> problem = bj.Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> bj.hard_clustering(problem, init=[0, 1, 1])
        CONVERGED after 1 step: 2 clusters, costing 0.25 nats
    """

    problem: Problem
    labels: Array
    weights: Array
    costs: Array
    states: PyTree
    objective: Array
    result: Result = jax.tree.static()

    def assign(self, rows: TableLike | None = None) -> np.ndarray:
        """Assign rows to the clusters under which they cost least, `[r]` in int32.

        A row costs w B_f(τ(x), τ_k), smoothed as the rows of the problem are, with
        weight 1; of equal costs the first cluster has it.

        Args:
            rows: Rows of the same kind, `[r, d]`; those of the problem if None, whose
                labels these then are, but for ties.

        Raises:
            ValueError: If `rows` do not fit, or a row has no finite cost.
            TypeError: Under `jit` or another transformation.

        Examples:
            >>> import bregjax as bj
            >>> problem = bj.Problem([[0.0], [1.0], [5.0]], family="ward")
            >>> found = bj.hard_clustering(problem, init=[0, 0, 1])
            >>> print(found.assign([[2.7], [2.8]]))
            [0 1]
        """
        costs = self._costs("assign", rows)
        _check_any(costs)
        return np.asarray(_cheapest(costs, np))

    def assignment_costs(self, rows: TableLike | None = None) -> np.ndarray:
        """Compute the cost of each row under each cluster, `[r, k]`, in nats.

        w B_f(τ(x), τ_k), smoothed as the rows of the problem are; with squared
        distances ‖x − μ_k‖² / 2σ².

        Args:
            rows: Rows of the same kind, `[r, d]`, of weight 1 each; those of the
                problem with their weights if None.

        Returns:
            Costs, infinite where a cluster cannot have made the row.

        Raises:
            ValueError: If `rows` do not fit.
            TypeError: Under `jit` or another transformation.

        Examples:
            >>> import bregjax as bj
            >>> problem = bj.Problem([[0.0], [1.0], [5.0]], family="ward")
            >>> found = bj.hard_clustering(problem, init=[0, 0, 1])
            >>> print(found.assignment_costs([[2.5]]))
            [[2. 3.125]]
        """
        return self._costs("assignment_costs", rows)

    def _costs(self, name: str, rows: TableLike | None) -> np.ndarray:
        """Costs for a method of that name, `[r, k]`."""
        others = self.problem if rows is None else new_rows(self.problem, rows)
        check_on_host(name, (others, self.states))
        with working((others, self.states)) as (others, states):
            costs = points_of(others, name="rows").costs(states)
            return np.asarray(costs)[: others.num_points]

    def __repr__(self) -> str:
        """The outcome, in a line."""
        steps = counted(self.num_steps, "step")
        clusters = counted(self.num_clusters, "cluster")
        return (
            f"{self.result.name} after {steps}: {clusters}, costing "
            f"{float(self.objective[-1]):.6g} nats"
        )


def hard_clustering(
    problem: Problem,
    *,
    num_clusters: SupportsIndex | None = None,
    init: Start = "divergence",
    key: ArrayLike | None = None,
    max_steps: int = 300,
    progress: bool = False,
) -> HardClustering:
    """Partition rows into k clusters of least cost, by Lloyd's iterations.

        Σ_k φ(C_k) = Σ_i w_i B_f(τ_i, τ(C(i)))

    the log-likelihood lost where rows share the distribution of their cluster, with the
    statistics τ and weights w as smoothed: the cost of the clusters of a cut, which
    `cut_cost` gives. Each step assigns each row to the cluster with least w B_f(τ_i,
    τ_k) and averages again. Neither makes the objective larger: the first by
    definition, the second as the average is the best center (Corollary 3.6). It ends at
    a partition that no step improves; another start may find a better partition.

    A row moves only where that costs less: of equal costs it stays where it is, and
    else goes to the first such cluster. A cluster left without rows takes the row that
    costs most of the clusters with two rows or more, which lowers the objective by that
    cost or more. So there are k clusters throughout, for any k up to m: beyond the
    number of distinct rows, equal rows are in several clusters, at no cost.

    With `SphericalGaussian` this is k-means. A step takes O(m k) costs, and for full
    Gaussians O(m k d²) time; memory is that of the leaves and of m k numbers. Of sparse
    rows with e entries a step takes O(k (e + m + d)) time, and means are dense.

    Args:
        problem: Data, family, smoothing and weights.
        num_clusters: The number k of clusters, from 1 to m; that of the labels if
            `init` is labels.
        init: Where to start: a tree of the problem, which is cut into k clusters;
            labels, integers `[m]` that use each number from 0 to k − 1; "divergence"
            for seeds drawn with probabilities in proportion to the cost of merging a
            row with the nearest seed before (k-means++); or "random" for seeds drawn by
            weight alone.
        key: A JAX key, or an integer, for the seeds. One key, one answer.
        max_steps: Most steps.
        progress: Show a bar of the steps (needs tqdm).

    Returns:
        Labels, the clusters, the objective at each step and a result code. STALLED says
        that a step would have made the objective larger, as it may for a function with
        kinks, whose averages are not the best centers; the partition before the step is
        kept.

    Raises:
        ValueError: If `init` or `num_clusters` does not fit, `key` is missing, or a row
            has no finite cost.
        TypeError: Under `jit` or another transformation.
        ArithmeticError: If a cost could not be computed.

    Examples:
        >>> import bregjax as bj
        >>> counts = [[9, 1], [8, 0], [7, 2], [1, 6], [0, 8]]
        >>> problem = bj.Problem(counts, family="poisson")
        >>> found = bj.hard_clustering(problem, num_clusters=2, key=0)
        >>> print(found.labels == found.labels[0], found.result.name)
        [ True  True  True False False] CONVERGED
        >>> tree = bj.agglomerate(problem)
        >>> print(bj.hard_clustering(problem, num_clusters=2, init=tree).objective)
        [2.348]

    References:
        Banerjee, Merugu, Dhillon, Ghosh (2005), Clustering with Bregman divergences,
        Algorithm 1; Telgarsky and Dasgupta (2012), Definition 3.2.
    """
    problem = checked_on_host("hard_clustering", problem)
    check_count("max_steps", max_steps, np.iinfo(np.int32).max, "steps")
    with (
        working(problem) as work,
        progress_shown(max_steps, unit="step", shown=progress) as report,
    ):
        points = points_of(work)
        labels, count = starting_labels(problem, points, init, num_clusters, key)
        padding = (0, len(points.weights) - len(labels))
        best = _Partition.of(points, np.pad(labels, padding), count)
        trace, result = [best.value], Result.STEP_LIMIT
        for step in range(max_steps):
            labels, moved = _reassigned(points.weights, best.costs, best.labels)
            if not moved:
                result = Result.CONVERGED
                break
            found = _Partition.of(points, labels, count)
            if not found.value < best.value:
                # Rounding, unless the rise is large.
                rise = found.value - best.value
                is_rounding = rise <= _RISE * best.value
                result = Result.CONVERGED if is_rounding else Result.STALLED
                break
            best = found
            trace.append(best.value)
            if report:
                report(step + 1)
        weights, costs = _sums(
            points.weights, best.labels, best.costs, num_clusters=count
        )
        known = jax.tree.map(np.asarray, (best.labels, weights, costs, best.states))
        labels, weights, costs, states = known
        return HardClustering(
            problem=problem,
            labels=labels[: problem.num_points],
            weights=weights,
            costs=costs,
            states=states,
            objective=np.asarray(trace),  # pyright: ignore[reportArgumentType]
            result=result,
        )


def _check_any(costs: np.ndarray) -> None:
    """Raise ValueError at the first row without a finite cost, of costs `[r, k]`."""
    nowhere = ~np.any(np.isfinite(costs), axis=1)
    if np.any(nowhere):
        raise ValueError(
            f"`rows` has rows that no cluster can hold, {np.count_nonzero(nowhere)} of "
            f"{len(costs)}, the first at row {np.argmax(nowhere)}: they have what no "
            "row of the cluster has, such as a word. Smooth the problem, or leave such "
            "rows out; `dendrogram_features` has costs of taking them in."
        )


@dataclass(frozen=True)
class _Partition:
    """A partition while it is improved.

    Attributes:
        labels: `[p]`.
        states: `[k, ...]`.
        costs: Of each point under each cluster, `[p, k]`.
        value: Σ φ(C_k).
    """

    labels: Array
    states: PyTree
    costs: Array
    value: float

    @classmethod
    def of(
        cls, points: Points, labels: Array | np.ndarray, num_clusters: int
    ) -> "_Partition":
        weights = points.smoothed_weights
        states = points.unions(_members(weights, labels, num_clusters=num_clusters))
        costs = points.costs(states)
        value = float(_value(points.weights, labels, costs))
        check_known(value)
        return cls(jnp.asarray(labels), states, costs, value)


@program
def _members(weights: Array, labels: Array, *, num_clusters: int) -> Array:
    """The weight of each point in each cluster, `[k, p]`."""
    own = labels[None] == jnp.arange(num_clusters)[:, None]
    return jnp.where(own, weights[None], 0)


@program
def _value(weights: Array, labels: Array, costs: Array) -> Array:
    return jnp.sum(jnp.where(weights > 0, _own(costs, labels), 0))


def _own(costs: Array, labels: Array) -> Array:
    """The cost of each point under its own cluster, `[p]`."""
    return jnp.take_along_axis(costs, labels[:, None], axis=1)[:, 0]


def _cheapest(costs: ArrayLike, xp: Any = jnp) -> Any:
    """The first cluster of least cost for each point, by NumPy or JAX, `[p]`."""
    known = xp.where(xp.isnan(costs), xp.inf, costs)
    return xp.argmin(known, axis=1).astype(xp.int32)


@program
def _reassigned(weights: Array, costs: Array, labels: Array) -> tuple[Array, Array]:
    """Each point where it costs least, no cluster empty; and how many points moved."""
    there = weights > 0
    best = _cheapest(costs)
    cheaper = there & (_own(costs, best) < _own(costs, labels))
    new = jnp.where(cheaper, best, labels)
    rest = jnp.where(there, _own(costs, new), -jnp.inf)
    counts = jnp.zeros(costs.shape[1], jnp.int32).at[new].add(there.astype(jnp.int32))

    def refill(cluster, carry):
        new, rest, counts = carry
        # The row that costs most, of clusters that keep a row without that row.
        point = jnp.argmax(jnp.where(counts[new] > 1, rest, -jnp.inf))
        empty = counts[cluster] == 0
        moved = counts.at[new[point]].add(-1).at[cluster].add(1)
        put = lambda array, value: jnp.where(empty, array.at[point].set(value), array)
        counts = jnp.where(empty, moved, counts)
        return put(new, cluster.astype(new.dtype)), put(rest, 0), counts

    new, _, _ = jax.lax.fori_loop(0, len(counts), refill, (new, rest, counts))
    return new, jnp.sum(there & (new != labels))


@program
def _sums(
    weights: Array, labels: Array, costs: Array, *, num_clusters: int
) -> tuple[Array, Array]:
    """The weight and the cost of each cluster, `[k]` and `[k]`."""
    there = weights > 0
    own = jnp.where(there, _own(costs, labels), 0)
    total = lambda values: jnp.zeros(num_clusters, values.dtype).at[labels].add(values)
    return total(weights), total(own)

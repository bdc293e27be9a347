"""EM for mixtures of any family, or of any convex function's divergences."""

import warnings
from dataclasses import dataclass
from typing import SupportsIndex

import jax
import numpy as np

from bregjax._checks import check_count
from bregjax._evaluation import working
from bregjax._problem import Problem
from bregjax._progress import progress_shown
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array, ArrayLike, PyTree, TableLike
from bregjax.hierarchy._cut_states import Clusters
from bregjax.partition._em import Mixture, fitted_mixture
from bregjax.partition._mixture import (
    Fitted,
    counted,
    shares_of_rows,
)
from bregjax.partition._points import checked_on_host, points_of
from bregjax.partition._starts import Start, starting_shares
from bregjax.smoothing._lessened import check_share, lessened

__all__ = [
    "SoftClustering",
    "fitted_clustering",
    "named_mixture",
    "soft_clustering",
    "warn_of_idle",
]

# Of a share of the smoothing up to this, less is not what helps.
_SMALL_SHARE = 0.1


@register_pytree
@dataclass(frozen=True, repr=False)
class SoftClustering(Fitted):
    """A mixture fitted to the rows of a problem.

    Attributes:
        problem: What was clustered, with the smoothing that `smoothing_share` left.
        responsibilities: r, the share of each row that each cluster has, `[m, k]`;
            shares of a row add up to 1. They are those of the smoothed statistics:
            `soft_clustering` has the formula.
        weights: W π_k, the expected weight of rows in each cluster, `[k]`.
        states: The clusters in the form of the family's cluster model, `[k, ...]`;
            `means`, and of Gaussians `covariances`, take parameters out of them.
        objective: F of the start and after each step, `[num_steps + 1]`, in nats; never
            decreasing, but by rounding.
        result: CONVERGED if the last step gained no more than the tolerance;
            STEP_LIMIT; or STALLED if a step would have made the objective smaller, see
            `soft_clustering`.

    Examples:
        >>> import bregjax as bj
        >>> problem = bj.Problem([[0.0], [1.0], [3.0]], family="ward")
        >>> bj.soft_clustering(problem, init=[0, 0, 1])
        CONVERGED after 8 steps: 2 clusters, objective -1.96662 nats
    """

    problem: Problem
    responsibilities: Array
    weights: Array
    states: PyTree
    objective: Array
    result: Result = jax.tree.static()

    @property
    def labels(self) -> Array:
        """The cluster with the largest responsibility for each row, int32 `[m]`."""
        return self.responsibilities.argmax(axis=1).astype(np.int32)

    def assign(self, rows: TableLike | None = None) -> Array:
        """Compute the posterior shares of the clusters for rows, old or new, `[r, k]`.

            r_k(x) ∝ π_k p(x; τ_k)

        as `soft_assignments` has it for a cut: rows are not smoothed. So without
        smoothing `assign()` gives the responsibilities, and with smoothing others.

        Args:
            rows: Rows of the same kind, `[r, d]`; those of the problem if None.

        Returns:
            Shares that add up to 1 a row; NaN for a row that no cluster can have made.

        Raises:
            ValueError: If `rows` do not fit.

        Examples:
            >>> import bregjax as bj
            >>> problem = bj.Problem([[0.0], [1.0], [9.0]], family="ward")
            >>> found = bj.soft_clustering(problem, init=[0, 0, 1])
            >>> print(found.assign([[4.7], [5.0]]))
            [[0.754 0.246]
             [0.193 0.807]]
        """
        clusters = Clusters(self.states, self.weights)
        return shares_of_rows(self.problem, clusters, rows)

    def __repr__(self) -> str:
        """The outcome, in a line."""
        steps = counted(self.num_steps, "step")
        clusters = counted(self.num_clusters, "cluster")
        return (
            f"{self.result.name} after {steps}: {clusters}, objective "
            f"{float(self.objective[-1]):.6g} nats"
        )


def soft_clustering(
    problem: Problem,
    *,
    num_clusters: SupportsIndex | None = None,
    init: Start = "divergence",
    key: ArrayLike | None = None,
    smoothing_share: float = 1.0,
    tolerance: float = 1e-6,
    max_steps: int = 500,
    progress: bool = False,
) -> SoftClustering:
    """Fit a mixture of k clusters to rows by EM.

    The objective, which no step makes smaller, is

        F(π, τ) = Σ_i w_i log Σ_k π_k exp(−(v_i/w_i) B_f(τ_i, τ_k)) ≤ 0

    with w_i the weight of row i, τ_i its statistic and v_i its weight as smoothed
    (v_i = w_i but for pseudo-counts), τ_k and π_k the means and the mixing weights of
    the clusters. A step computes responsibilities and then the best π and τ for these:

        r_ik ∝ π_k exp(−(v_i/w_i) B_f(τ_i, τ_k)),
        π_k = Σ_i w_i r_ik / Σ_i w_i,    τ_k = Σ_i v_i r_ik τ_i / Σ_i v_i r_ik

    By Jensen's inequality, for any π' and τ',

        F(π', τ') − F(π, τ) ≥ Σ_ik w_i r_ik log(π'_k/π_k)
                              + Σ_ik v_i r_ik [B_f(τ_i, τ_k) − B_f(τ_i, τ'_k)]

    The first sum is largest, and at least 0, for the shares of weight above; the second
    for the averages above, which are the best centers (Corollary 3.6).

    What F is. Of a family, −B_ψ*(τ_i, τ_k) = ⟨τ_i, θ_k⟩ − ψ(θ_k) − ψ*(τ_i). Without
    smoothing F is therefore the log-likelihood of the rows less Σ_i w_i (ψ*(τ_i) +
    log h(x_i)), a constant, and this is EM as usual. With a bandwidth the score of
    Gaussians is the mean log-density of the kernel around the row,

        E_{y ~ N(x_i, H)} log N(y; μ_k, Σ_k) = log N(x_i; μ_k, Σ_k) − ½ tr(Σ_k⁻¹ H)

    plus a constant, and Σ_k is the covariance of its rows plus H. The score without the
    trace, as in scikit-learn's `reg_covar` of h², has the same averages and is not
    monotone; both agree as h → 0. With a pseudo-count n₀ each of the w_i copies of row
    i brings n₀/w_i observations at z with it, of the same cluster. `log_likelihood` of
    the result is that of the rows as they are, whatever the smoothing.

    Which smoothing. The default of a family suits trees, whose first clusters are
    single rows. For a mixture it is far too wide: clusters are as wide as the kernels,
    some coincide, and rows as they are become unlikely. To have the mixture of the
    rows, as mclust and scikit-learn have it, take `smoothing_share=0.01`, as
    `choose_num_clusters` and `ExponentialFamilyMixture` do. The default, 1, climbs the
    objective of the tree's own smoothing, and is right where you chose a smoothing for
    the mixture, or where there is none.

    Zeros stay: of counts without smoothing, a cluster with mean 0 in a column has no
    part in rows with a count there, at the next step as well. A cluster to which no
    responsibility is left keeps its place with mixing weight 0.

    With `SphericalGaussian`, or a convex function f, this is Bregman soft clustering.
    A step takes O(m k) divergences, and for full Gaussians O(m k d²) time; memory is
    that of the leaves and of m k numbers; for sparse rows see `hard_clustering`. A row
    of `Multinomial` is one trial, whatever its total, so its shares are soft: for
    documents, of which each word counts, take `Poisson`.

    Args:
        problem: Data, family, smoothing and weights: a row of weight 2 counts as two
            (but for pseudo-counts, which come once a row).
        num_clusters: The number k of clusters, from 1 to m; that of `init` if it is
            labels or responsibilities.
        init: Where to start: a tree of the problem, which is cut into k clusters;
            labels, integers `[m]` that use each number from 0 to k − 1;
            responsibilities `[m, k]`; or a seeding, "divergence" or "random", as for
            `hard_clustering`, with nine tenths of each row in the cluster of its seed
            and the rest in all alike.
        key: A JAX key, or an integer, for the seeds. One key, one answer.
        smoothing_share: The part of the problem's smoothing that clusters keep: of the
            covariance of kernels, so a tenth of their bandwidth at 0.01, of amounts and
            counts. Above 0, at most 1; maps of your own stay as they are. The tree or
            the seeds to start from have the whole.
        tolerance: EM ends when a step gains no more than this, in nats per unit of
            weight, or than rounding.
        max_steps: Most steps.
        progress: Show a bar of the steps (needs tqdm).

    Returns:
        Responsibilities, the mixture, F at each step and a result code. STALLED says
        that a step would have made F smaller, as it may for a function with kinks,
        whose averages are not the best centers; the mixture before the step is kept.

    Raises:
        ValueError: If `init`, `num_clusters`, `smoothing_share` or `tolerance` does not
            fit, `key` is missing, or a row has no finite cost, as one point of a
            Gaussian without smoothing: the likelihood has no bound then.
        TypeError: Under `jit` or another transformation, or if `smoothing_share` is no
            number.
        ArithmeticError: If the objective could not be computed.

    Warns:
        UserWarning: If EM has converged and some cluster is the likeliest of no row.

    Examples:
        >>> import bregjax as bj
        >>> x = [[0.0], [1.0], [2.0], [8.0], [9.0]]
        >>> problem = bj.Problem(x, family="gaussian", smoothing=bj.blur(0.5))
        >>> tree = bj.agglomerate(problem)
        >>> found = bj.soft_clustering(problem, num_clusters=2, init=tree)
        >>> print(found.labels, found.shares, found.means.ravel())
        [0 0 0 1 1] [0.6 0.4] [1.  8.5]

    References:
        Dempster, Laird, Rubin (1977), Maximum likelihood from incomplete data via the
        EM algorithm; Banerjee, Merugu, Dhillon, Ghosh (2005), Clustering with Bregman
        divergences, Algorithm 3; Telgarsky and Dasgupta (2012), Appendix F, for the
        start from a tree.
    """
    found = fitted_clustering(
        problem,
        num_clusters=num_clusters,
        init=init,
        key=key,
        smoothing_share=smoothing_share,
        tolerance=tolerance,
        max_steps=max_steps,
        progress=progress,
    )
    warn_of_idle(found, smoothing_share)
    return found


def fitted_clustering(
    problem: Problem,
    *,
    num_clusters: SupportsIndex | None,
    init: Start,
    smoothing_share: float,
    tolerance: float,
    max_steps: int,
    key: ArrayLike | None = None,
    progress: bool = False,
) -> SoftClustering:
    """Fit a mixture as `soft_clustering` does, without its warning."""
    problem = checked_on_host("soft_clustering", problem)
    check_share(smoothing_share)
    check_count("max_steps", max_steps, np.iinfo(np.int32).max, "steps")
    if not tolerance >= 0:
        raise ValueError(f"`tolerance` must not be negative; got {tolerance}.")
    less, by_seeds = problem, isinstance(init, str)
    if smoothing_share != 1:
        less = problem.replace(smoothing=lessened(problem.smoothing, smoothing_share))
    with (
        working((problem, less)) as (work, work_less),
        progress_shown(max_steps, unit="step", shown=progress) as report,
    ):
        points = points_of(work_less)
        # Seeds are rows: they are as far apart as in trees under the whole smoothing.
        whole = points_of(work) if less is not problem and by_seeds else points
        start = starting_shares(problem, whole, init, num_clusters, key)
        best, trace, result = fitted_mixture(
            points, start, tolerance=tolerance, max_steps=max_steps, report=report
        )
        return named_mixture(less, best, trace, result, start.shape[1])


def named_mixture(
    problem: Problem,
    best: Mixture,
    trace: list[float],
    result: Result,
    num_clusters: int,
) -> SoftClustering:
    """A fitted mixture with its problem, its first k clusters, on the host."""
    k = num_clusters
    shares, weights, states = jax.tree.map(
        np.asarray, (best.responsibilities, best.weights, best.states)
    )
    return SoftClustering(
        problem=problem,
        responsibilities=shares[: problem.num_points, :k],
        weights=weights[:k],
        states=jax.tree.map(lambda leaf: leaf[:k], states),
        objective=np.asarray(trace),  # pyright: ignore[reportArgumentType]
        result=result,
    )


def warn_of_idle(
    found: SoftClustering, smoothing_share: float | None, *, stacklevel: int = 3
) -> None:
    """Warn if EM has converged and some cluster is the likeliest of no row.

    Args:
        found: The mixture.
        smoothing_share: The caller's argument; None if it has no effect.
        stacklevel: As of `warnings.warn`.
    """
    count = found.num_clusters
    idle = np.flatnonzero(np.bincount(found.labels, minlength=count) == 0)
    if found.result is not Result.CONVERGED or not len(idle):
        return
    names = ", ".join([*map(str, idle[:8].tolist()), *["…"] * (len(idle) > 8)])
    verb = "is" if len(idle) == 1 else "are"
    words = (
        f"{len(idle)} of {counted(count, 'cluster')} {verb} the likeliest of no row "
        f"(number {names})"
    )
    share = 0.0 if smoothing_share is None else smoothing_share
    if share > _SMALL_SHARE and found.problem.smoothing is not None:
        words += (
            ". The smoothing is wide for a mixture: pass smoothing_share=0.01, fewer "
            "clusters, or another start, `init`."
        )
    else:
        words += ". Pass fewer clusters, or another start, `init`."
    warnings.warn(words, UserWarning, stacklevel=stacklevel)

"""How many clusters: criteria for all cuts of a tree at once."""

import dataclasses
import warnings
from typing import Any, SupportsIndex, get_args

import numpy as np

from bregjax._checks import check_count
from bregjax._cut_criteria import Criterion, NumClusters
from bregjax._evaluation import evaluate, working
from bregjax._held_out import held_out_likelihoods
from bregjax._problem import Problem, check_problem
from bregjax._result import Result
from bregjax._typing import DataLike
from bregjax.families import Family, Multinomial
from bregjax.hierarchy import Dendrogram, replay
from bregjax.hierarchy._cut_states import Clusters, cut_size
from bregjax.hierarchy._cuts import labels_of, node_of_leaf
from bregjax.hierarchy._nested_cuts import likelihoods_of_cuts
from bregjax.hierarchy._provenance import check_same_problem
from bregjax.hierarchy._tree_costs import children_of
from bregjax.partition import SoftClustering
from bregjax.partition._base import Points
from bregjax.partition._em import Mixture, fitted_mixture
from bregjax.partition._mixture import sums_of_rows
from bregjax.partition._points import check_on_host, checked_on_host, points_of
from bregjax.partition._soft import named_mixture, warn_of_idle
from bregjax.smoothing._lessened import check_share, lessened

__all__ = ["choose_num_clusters"]

_MOST = 20
# EM ends when a step gains no more than this, in nats per unit of weight: far below
# what tells numbers of clusters apart.
_TOLERANCE = 1e-5
_MAX_STEPS = 300
_ONE_DRAW = (
    "`problem` has rows of Multinomial, each of which counts as one draw, whatever its "
    "total, and says little of its cluster: likelihoods then find too few clusters, "
    'mostly one. For documents take poisson, or criterion="gap".'
)


def choose_num_clusters(
    problem: Problem,
    tree: Dendrogram | DataLike,
    *,
    max_clusters: SupportsIndex | None = None,
    criterion: Criterion = "bic",
    refine: bool = False,
    held_out: bool = False,
    smoothing_share: float = 0.01,
) -> NumClusters:
    """Choose a number of clusters by the mixtures that the cuts of a tree stand for.

    For each k from 1 to K the rows have a log-likelihood under the mixture of the cut,

        L_k = Σ_i w_i log Σ_c (W_c / N) p(x_i; τ_c),     BIC_k = −2 L_k + ν_k log N,

    with ν_k = k p + k − 1 free parameters, p those of the family
    (`family.num_parameters`), and N = Σ w_i. Of BIC and ICL the smaller is the better;
    mclust reports the negative, scikit-learn the same sign. N is the weight of all
    rows, where `bic` of an estimator, as scikit-learn has it, counts rows.

    Densities are those of `soft_assignments`, but with `smoothing_share` of the
    smoothing, a hundredth by default. Rows are not smoothed, so kernels as wide as
    those of the tree, which suit the spread of all rows, would make every cluster too
    wide for its rows, and BIC would say that there are far too few. What is left keeps
    the density of a cluster of one row finite, and low enough that single rows do not
    pay as clusters. With narrow bandwidths of your own they might: then take a larger
    share.

    Without smoothing, and with rows in the tree's own clusters in place of the
    likeliest, the likelihood in ICL would follow from merge costs alone: L_1 plus the
    costs of the merges that are undone plus Σ_c W_c log(W_c / N).

    Weights say how often a row was seen: a row of weight 2 counts as two, in N too. Of
    weights with another meaning (of a survey, of importance) N is not the number of
    observations; scale them so that they add up to it. A missing cell takes neither a
    parameter nor a part of N away. What is known in a family (the variance of
    `SphericalGaussian`, a dispersion) is taken at its word: if it is wrong, so is the
    number of clusters. With weights of columns (`Product(weights=…)`) densities are
    taken to these powers and no longer integrate to 1: a column of weight 2 counts as
    if each row had shown it twice, so weights that are a matter of taste move the
    number. A row of `Multinomial` is one draw, whatever its total, and says too little
    of its cluster to be counted: for documents take `Poisson`.

    Time: the densities of all rows under 2K − 1 clusters, in one program for all k;
    `refine` runs EM for each k, in programs that all k share.

    Args:
        problem: What the tree is of. Its family must have densities: no convex
            function.
        tree: A dendrogram of the problem, or its children `[m − 1, 2]`. Of a forest
            the numbers start at that of its trees.
        max_clusters: K, up to m; if None 20, or as many beyond the first number as
            there are of a tree, or m where there are fewer rows.
        criterion: "bic"; "icl", which counts clusters that overlap as one sooner;
            "held_out", the leave-one-out likelihood of the cuts, which says too many
            rather than too few, as the tree has seen the row, and wants smoothed counts
            and categories (a level that one row alone has is impossible without it),
            and of a row of weight above 1 leaves out one observation, weight 1; or
            "gap", the largest ratio of the costs of two merges that follow each other,
            which needs no likelihood, never says 1, and wants three rows. Of made
            mixtures BIC found the right number most often; where clusters overlap, or
            are many for the rows, it says too few (benchmarks/CHOOSE.md).
        refine: Whether the mixture of each cut is fitted by EM first, as
            `soft_clustering(problem, num_clusters=k, init=tree, smoothing_share=0.01)`
            does; `NumClusters.mixture` is the one of the number chosen. The leave-one-
            out likelihood and the gaps are of the cuts all the same.
        held_out: Whether to compute the leave-one-out likelihood although another
            criterion chooses; that takes the time of K trees or so.
        smoothing_share: The part of the problem's smoothing that clusters keep: of the
            covariance of kernels, so a tenth of their bandwidth at 0.01, of amounts and
            counts. Above 0, at most 1; maps of your own stay as they are.

    Returns:
        All criteria for each k; `num_clusters` is the best by the one asked for.

    Raises:
        ValueError: If the tree does not fit or has merge costs of another problem,
            `max_clusters` is out of range, there is no density, or a row has no finite
            cost.
        TypeError: Under `jit` or another transformation, or if `smoothing_share` is no
            number.
        ArithmeticError: If the criterion is a number for no number of clusters: of
            one row "held_out", of two "gap".

    Warns:
        UserWarning: Of rows of `Multinomial`; where the criterion is flat; and where
            the best is the largest number that was tried: `NumClusters.caveats` has the
            words. With `refine`, if a cluster of the mixture is the likeliest of no
            row.

    Examples:
        >>> import bregjax as bj
        >>> rng = np.random.default_rng(0)
        >>> x = np.repeat([[2.0, 9.0], [9.0, 2.0], [20.0, 20.0]], 30, axis=0)
        >>> problem = bj.Problem(rng.poisson(x), family="poisson")
        >>> tree = bj.agglomerate(problem)
        >>> bj.choose_num_clusters(problem, tree, max_clusters=4)
        3 clusters by BIC, of 1 to 4 (cuts of the tree)
             k  parameters  log-likelihood  BIC     ICL     cost   gap
             1  2           -926.6          1862.2  1862.2  –      –
             2  5           -621.5          1265.4  1265.4  362.4  2.41
          *  3  8           -512.3          1060.6  1061.0  150.5  12.51
             4  11          -514.2          1077.9  1091.9  12.03  1.49

    References:
        Schwarz (1978), Estimating the dimension of a model; Biernacki, Celeux, Govaert
        (2000), Assessing a mixture model for clustering with the integrated completed
        likelihood; Kass and Raftery (1995), Bayes factors; Fraley and Raftery (1998),
        How many clusters?, where BIC chooses among mixtures started from a tree.
    """
    check = checked_on_host if refine else _checked
    problem = check("choose_num_clusters", problem)
    if criterion not in get_args(Criterion):
        raise ValueError(
            f"`criterion` must be one of {list(get_args(Criterion))}; got "
            f"{criterion!r}."
        )
    check_share(smoothing_share)
    family = problem.family
    if not isinstance(family, Family):
        raise ValueError(
            "`problem` must have a family, whose densities make likelihoods; got "
            f"{family!r}. Write the family that the convex function is the "
            "conjugate of, or look at the costs of the last merges, "
            "tree.merge_costs[-20:]."
        )
    m = problem.num_points
    children = np.asarray(children_of(tree, m))
    check_same_problem(tree, problem)
    least = 1
    if isinstance(tree, Dendrogram):
        # Merges that a forest lacks are in no cut into as many clusters as trees.
        least, tree = tree.num_trees, tree.joined(cost=np.nan)
        children = np.asarray(tree.children)
    costs, gaps = _costs_and_gaps(problem, tree, m)
    problem = problem.replace(smoothing=lessened(problem.smoothing, smoothing_share))
    if max_clusters is None:
        max_clusters = min(least - 1 + _MOST, m)
    count = check_count("max_clusters", max_clusters, m, "rows")
    if count < least:
        raise ValueError(
            f"`max_clusters` must be at least {least}, the number of trees of the "
            f"forest; got {count}. Try more, or give a tree."
        )
    size = cut_size(count, m)
    numbers = np.arange(least, count + 1)
    if refine:
        sums = _refined(problem, children, numbers, size)
    else:
        sums = evaluate(likelihoods_of_cuts, problem, children, size=size)
        sums = sums[:, numbers - 1]
    left_out = None
    if held_out or criterion == "held_out":
        left_out = held_out_likelihoods(problem, children, numbers, size)
    num_parameters = numbers * (family.num_parameters + 1) - 1
    sample_size = float(np.sum(problem.weights))
    penalty = num_parameters * np.log(sample_size)
    found = NumClusters(
        numbers=numbers,
        num_parameters=num_parameters,
        log_likelihood=sums[0],
        bic=penalty - 2 * sums[0],
        icl=penalty - 2 * sums[1],
        held_out=left_out,
        costs=costs[numbers - 1],
        gaps=gaps[numbers - 1],
        sample_size=sample_size,
        num_rows=m,
        criterion=criterion,
        refined=refine,
    )
    _check_found(found)
    if isinstance(family, Multinomial) and criterion != "gap":
        warnings.warn(_ONE_DRAW, UserWarning, stacklevel=2)
    for caveat in found.caveats:
        warnings.warn(caveat, UserWarning, stacklevel=2)
    if refine:
        # Fitted once more, which takes a part of the time: all states of all numbers
        # would take K times the memory.
        mixture = _mixture(problem, children, found.num_clusters, size)
        warn_of_idle(mixture, smoothing_share)
        found = dataclasses.replace(found, mixture=mixture)
    return found


def _checked(name: str, problem: Problem) -> Problem:
    problem = check_problem(problem)
    check_on_host(name, problem)
    return problem


def _refined(
    problem: Problem, children: np.ndarray, numbers: np.ndarray, size: int
) -> np.ndarray:
    """The sums of `likelihoods_of_cuts`, after EM from each cut, `[2, K]`."""
    found, m = [], problem.num_points
    with working(problem) as work:
        points = points_of(work)
        for k in numbers.tolist():
            best, _, _ = _fitted(points, children, m, k, size)
            found.append(sums_of_rows(work, Clusters(best.states, best.weights)))
    return np.stack(found, axis=1)


def _mixture(
    problem: Problem, children: np.ndarray, num_clusters: int, size: int
) -> SoftClustering:
    """The mixture of a cut, after EM, as `_refined` has it."""
    with working(problem) as work:
        points, m = points_of(work), problem.num_points
        fitted = _fitted(points, children, m, num_clusters, size)
        return named_mixture(problem, *fitted, num_clusters)


def _fitted(
    points: Points, children: np.ndarray, num_points: int, num_clusters: int, size: int
) -> tuple[Mixture, list[float], Result]:
    """What EM makes of the cut into k clusters, filled up to so many."""
    cut = node_of_leaf(children, num_points, None, "num_clusters", num_clusters)
    start = np.eye(size)[labels_of(cut)]
    return fitted_mixture(points, start, tolerance=_TOLERANCE, max_steps=_MAX_STEPS)


def _costs_and_gaps(
    problem: Problem, tree: Dendrogram | DataLike, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """What joining k clusters into k − 1 costs, and the ratios of these, `[count]`."""
    costs = tree.merge_costs if isinstance(tree, Dendrogram) else replay(problem, tree)
    # No merge goes below one cluster, and none is before the first.
    # Infinite costs are of merges that `joined` added: they say nothing.
    costs = np.where(np.isinf(costs), np.nan, np.asarray(costs, float))
    last = np.concatenate([[np.nan], costs[::-1], [np.nan]])
    with np.errstate(divide="ignore", invalid="ignore"):
        return last[:count], last[:count] / last[1 : count + 1]


def _check_found(found: NumClusters) -> None:
    """Raise ArithmeticError where a criterion says nothing of any number."""
    if found.criterion == "gap":
        # A gap above a merge that costs nothing is infinite, and large all the same.
        values, known = found.gaps, ~np.isnan(found.gaps)
        remedy = (
            "It compares the costs of merges that follow each other, and here there "
            "are no two to compare, or both are 0. Take another criterion."
        )
        if len(found.numbers) == 1:
            return
    else:
        held_out = found.criterion == "held_out"
        values: Any = found.held_out if held_out else found.log_likelihood
        known = np.isfinite(values)
        remedy = "Smooth more, or take another criterion."
        if held_out and np.isnan(values).all() and found.num_rows == 1:
            remedy = "Nothing is left of one row without it. Take another criterion."
    if not known.any():
        raise ArithmeticError(
            f"`criterion` {found.criterion!r} is a number for no number of clusters; "
            f"got {values}. {remedy}"
        )

"""Smoothing that suits the data, by gradients through the clustering."""

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsIndex, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bregjax._checks import check_count, is_concrete
from bregjax._evaluation import working
from bregjax._geometry import Geometry, PrecisionError
from bregjax._problem import Problem, check_problem, unchecked
from bregjax._progress import progress_shown
from bregjax._result import Result
from bregjax._typing import Array
from bregjax.families import Product
from bregjax.hierarchy import Dendrogram, agglomerate
from bregjax.objectives import leave_one_out_log_likelihood
from bregjax.smoothing import (
    Constraint,
    StatisticMap,
    from_unconstrained,
    normal_reference,
    to_unconstrained,
)
from bregjax.smoothing._by_block import ByBlock
from bregjax.smoothing._maps import Adding, Blur

__all__ = ["TuningResult", "tune_smoothing"]

# Tuning stops where the objective has not risen by more than this share of itself
# while the data were clustered again at least once.
_TOLERANCE = 1e-7
# How many factors e a positive number may rise above the floor: 35 powers of ten.
_RANGE = 80.0
_OPTIMIZER = optax.rprop(0.1)


@dataclass(frozen=True, repr=False)
class TuningResult:
    """What tuning found.

    Attributes:
        problem: The problem with the best smoothing seen.
        tree: The tree that `agglomerate` makes of that problem.
        value: The objective of the two.
        history: The objective at each step, `[steps]`; it may fall where the problem
            was clustered again.
        result: CONVERGED; BOUNDARY if the best lies at an end of the range, towards
            which the objective rises; STEP_LIMIT; or INVALID if the objective was no
            number.

    Examples:
        >>> import bregjax as bj
        >>> x = np.random.default_rng(0).normal(size=(12, 2))
        >>> problem = bj.Problem(x, family="diagonal_gaussian")
        >>> found = bj.tune_smoothing(problem, num_clusters=2, max_steps=3)
        >>> print(found.tree.num_leaves, len(found.history))
        12 3
    """

    problem: Problem
    tree: Dendrogram
    value: float
    history: np.ndarray
    result: Result

    def __repr__(self) -> str:
        """Show the outcome in a line, then the problem."""
        steps = f"{len(self.history)} steps from {self.history[0]:.6g}"
        return f"{self.result.name}: {self.value:.6g} after {steps}\n{self.problem!r}"


def tune_smoothing(
    problem: Problem,
    *,
    num_clusters: SupportsIndex,
    objective: Callable[..., Array] = leave_one_out_log_likelihood,
    optimizer: optax.GradientTransformation | None = None,
    max_steps: int = 300,
    recluster_every: int = 10,
    floor: float | None = None,
    progress: bool = False,
) -> TuningResult:
    """Maximise an objective of the tree over the numbers of a smoothing map.

    A loop on public functions: `to_unconstrained` makes real numbers of the map's
    leaves, `agglomerate` the tree, `optimizer` follows the gradient of `objective` with
    the tree held fixed, and every few steps the data are clustered again. The objective
    jumps where the tree changes, so the best smoothing that was seen is kept. At the
    end the data are clustered with that smoothing, and the value is that of the two.

    Time: at most max_steps / recluster_every + 2 trees, and as many gradients as steps.
    Programs are compiled by the first of these, and where costs begin to invert.

    Args:
        problem: Data, family and weights, and the smoothing to start from. Tuned are
            all leaves of the map that its `constraints()` leave free; it may be up to
            ten powers of ten off.
        num_clusters: The number k of clusters that the objective cuts the tree into;
            m tunes a kernel density estimate.
        objective: The larger the better: a function of (problem, tree) and of the
            keyword num_clusters, such as those of `bregjax.objectives`. It is traced:
            plain JAX, and of the tree what works on traced ones.
        optimizer: From optax, over the unconstrained numbers (a step of 1 is a factor
            e); `optax.rprop(0.1)` by default, which is at home at any distance.
            It may take the value and the function too, as `optax.lbfgs()` does.
        max_steps: Most steps.
        recluster_every: Steps with one tree.
        floor: The least that a positive leaf, or a share and 1 less it, may become. By
            default 1e-6 of the normal reference for bandwidths, each by its column
            (for full Gaussians no less than costs have digits for); 1e-12 of the start
            for amounts that are added; else 1e-9.
        progress: Show a bar of the steps (needs tqdm).

    Returns:
        The problem with the best smoothing, its tree, the way there and a result code.
        Tree and merge costs are of the problem that is returned.

    Raises:
        ValueError: If there is nothing to tune, a setting is not positive, the
            objective is not finite at the start, or as `agglomerate` and the objective
            do.
        TypeError: Under `jit` or another transformation.

    Warns:
        UserWarning: If the best lies at the floor, or at the other end of the range:
            the objective may be degenerate. The leave-one-out likelihood is where rows
            have duplicates; give those weights.

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0], [7.0]], family="gaussian")
        >>> tune_smoothing(problem, num_clusters=4)
        CONVERGED: -11.426 after 47 steps from -11.4968
        Problem of 4 rows and 1 column
          family     Gaussian(dim=1)
          smoothing  blur(bandwidth=3.475)
          weights    1 each
    """
    problem = check_problem(problem)
    if not is_concrete(problem):
        raise TypeError(
            "`tune_smoothing` loops on the host: call it outside jit and vmap. Inside, "
            "write the loop with `replay`, `to_unconstrained` and an optimizer."
        )
    for name, value in {
        "max_steps": max_steps,
        "recluster_every": recluster_every,
        "floor": 1.0 if floor is None else floor,
    }.items():
        if not value > 0:
            raise ValueError(f"`{name}` must be positive; got {value}.")
    start = problem.smoothing
    if not isinstance(start, StatisticMap) or not to_unconstrained(start):
        raise ValueError(
            f"`problem` must have a smoothing to tune; that of "
            f"{type(problem.family).__name__} is {start!r}. Give a map, "
            "problem.replace(smoothing=…), such as blur(bandwidth), mixing(center, "
            "amount) or pseudo_count(center, count)."
        )
    count = check_count("num_clusters", num_clusters, problem.num_points, "rows")
    with (
        working(problem) as problem,
        progress_shown(max_steps, unit="step", shown=progress) as report,
    ):
        limits = _limits_of(problem, floor)
        step = _step_of(objective, optimizer or _OPTIMIZER, count)
        best, history, result = _climb(
            problem, step, limits, max_steps, recluster_every, report
        )
        end = _end_of_range(best.free, limits)
        if result is Result.BOUNDARY:
            end = "floor"
        if end:
            result = Result.BOUNDARY
            warnings.warn(
                f"The objective is the largest at the {end} of what `smoothing` may "
                "be, and may have no maximum inside. Equal rows, and columns of many "
                "equal values, make a leave-one-out likelihood so: give equal rows "
                "weights, set `floor` to the resolution of the data, tune one "
                "bandwidth for all columns, or take another objective.",
                UserWarning,
                stacklevel=2,
            )
        found = jax.tree.map(np.asarray, from_unconstrained(best.free, start))
        problem = problem.replace(smoothing=found)
        # The tree it was best with may be of a smoothing on the way there.
        tree = agglomerate(problem)
        return TuningResult(
            problem=problem,
            tree=tree,
            value=float(objective(problem, tree, num_clusters=count)),
            history=np.asarray(history),
            result=result,
        )


class _Best(NamedTuple):
    value: float
    free: list[Array]
    tree: Dendrogram


Limits = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class _Step:
    """The two parts of a step, compiled once for an objective and an optimizer."""

    init: Callable[..., Any]
    update: Callable[..., tuple[Array, list[Array], Any]]


def _climb(
    problem: Problem,
    step: _Step,
    limits: Limits,
    max_steps: int,
    recluster_every: int,
    report: Callable[[int], None] | None,
) -> tuple[_Best, list[float], Result]:
    """The best that was seen, the objective at each step, and how it ended."""
    free = _clipped(to_unconstrained(_map_of(problem)), limits)
    state = step.init(free)
    best, history, last_rise, tree = None, [], 0, None
    result = Result.STEP_LIMIT
    for count in range(max_steps):
        try:
            suited = _suited(problem, _smoothing_at(problem, free))
            if tree is None or count % recluster_every == 0:
                tree = agglomerate(problem.replace(smoothing=suited.smoothing))
        except PrecisionError:
            if best is None:
                raise
            result = Result.BOUNDARY
            break
        value, moved, state = step.update(suited, limits, free, state, tree)
        value = float(value)
        history.append(value)
        if not math.isfinite(value):
            result = Result.INVALID
            break
        if best is None or value > best.value:
            if best is None or value - best.value > _TOLERANCE * abs(value):
                last_rise = count
            best = _Best(value, free, tree)
        if count - last_rise > 2 * recluster_every:
            result = Result.CONVERGED
            break
        free = moved
        if report:
            report(count + 1)
    if best is None:
        raise ValueError(
            f"`objective` must be finite where tuning starts; got {history[0]} with "
            f"{problem.smoothing!r}. Start from a larger smoothing."
        )
    return best, history, result


@functools.lru_cache(maxsize=32)
def _step_of(
    objective: Callable[..., Array],
    optimizer: optax.GradientTransformation,
    num_clusters: int,
) -> _Step:
    optimizer = optax.with_extra_args_support(optimizer)

    def update(problem, limits, free, state, tree):
        def loss(free):
            moved = unchecked(problem, smoothing=_smoothing_at(problem, free))
            return -objective(moved, tree, num_clusters=num_clusters)

        value, gradient = jax.value_and_grad(loss)(free)
        updates, state = optimizer.update(
            gradient, state, free, value=value, grad=gradient, value_fn=loss
        )
        moved: Any = optax.apply_updates(free, updates)
        return -value, _clipped(moved, limits), state

    compiled = jax.jit(update)

    def update_by_model(problem, *args):
        # Solves are quick on the host, where values are known.
        solves = problem.family.cluster_model().solves
        return (update if solves else compiled)(problem, *args)

    return _Step(optimizer.init, update_by_model)


def _suited(problem: Problem, smoothing: StatisticMap) -> Problem:
    """Return the problem with this smoothing, in the arithmetic that needs.

    Only constraints hold at each step, so that nothing else is checked: reclustering
    does that.
    """
    family = problem.family.suited_to(problem.x, smoothing, problem.weights)
    return unchecked(problem, family=family, smoothing=smoothing)


def _smoothing_at(problem: Problem, free: list[Array]) -> StatisticMap:
    return from_unconstrained(free, _map_of(problem))


def _map_of(problem: Problem) -> StatisticMap:
    return cast(StatisticMap, problem.smoothing)


def _clipped(free: list[Array], limits: Limits) -> list[Array]:
    pairs = zip(free, limits, strict=True)
    return [jnp.clip(x, low, high) for x, (low, high) in pairs]


def _end_of_range(free: list[Array], limits: Limits) -> str | None:
    """Which end of its range a number lies at, if one does."""
    pairs = list(zip(free, limits, strict=True))
    if any(np.any(np.asarray(x) <= low) for x, (low, _) in pairs):
        return "floor"
    if any(np.any(np.asarray(x) >= high) for x, (_, high) in pairs):
        return "upper end"
    return None


def _limits(smoothing: StatisticMap, least: np.ndarray) -> Limits:
    """Least and largest of the unconstrained numbers, for each free leaf."""
    low = np.log(least)
    limits = []
    for kind, leaf in zip(
        jax.tree.leaves(smoothing.constraints()),
        jax.tree.leaves(smoothing),
        strict=True,
    ):
        shape = np.shape(leaf)
        if kind in (Constraint.INVERTIBLE, Constraint.POSITIVE_DEFINITE):
            on_diagonal = np.eye(shape[-1], dtype=bool)
            ends = (
                np.where(on_diagonal, low, -np.inf),
                np.where(on_diagonal, low + _RANGE, np.inf),
            )
        elif kind in (Constraint.POSITIVE, Constraint.SIMPLEX):
            # Of a simplex the free numbers are logarithms of shares up to a constant:
            # a share too small to be told from 0 would lie on the boundary.
            ends = (low, low + _RANGE)
        elif kind is Constraint.UNIT_INTERVAL:
            ends = (low, -low)
        else:
            ends = (-np.inf, np.inf)
        if kind is not Constraint.FIXED:
            limits.append(tuple(np.broadcast_to(end, shape) for end in ends))
    return limits


def _limits_of(problem: Problem, floor: float | None) -> Limits:
    """The limits of a problem's smoothing, block by block where it has blocks."""
    family, smoothing = problem.family, _map_of(problem)
    if not (isinstance(family, Product) and isinstance(smoothing, ByBlock)):
        least = _least(family, smoothing, problem.x, problem.weights, floor)
        return _limits(smoothing, least)
    limits = []
    for block, each in zip(family.blocks(), smoothing.maps, strict=True):
        if each is not None:
            rows = problem.x[:, block.places]
            least = _least(block.family, each, rows, problem.weights, floor)
            limits += _limits(each, least)
    return limits


def _least(
    family: Geometry,
    smoothing: StatisticMap,
    rows: Array,
    weights: Array,
    floor: float | None,
) -> np.ndarray:
    """The floor of positive leaves: one number, or one a column for bandwidths."""
    if floor is not None:
        return np.asarray(floor)
    if isinstance(smoothing, Blur):
        rule = normal_reference(
            rows, per_coordinate=np.ndim(smoothing.bandwidth) > 0, weights=weights
        )
        least = family.least_bandwidth(rows)
        if np.ndim(rule.bandwidth) == 0:
            least = np.max(least, initial=0)
        return np.maximum(1e-6 * np.asarray(rule.bandwidth), least)
    if isinstance(smoothing, Adding):
        return 1e-12 * np.asarray(smoothing.amount)
    return np.asarray(1e-9)

"""Smoothing that suits the data, by gradients through the clustering."""

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bregjax._checks import is_concrete
from bregjax._problem import (
    FamilyLike,
    Problem,
    precision,
    resolve,
    working_copy,
)
from bregjax._progress import progress_shown
from bregjax._result import Result
from bregjax._typing import Array, DataLike
from bregjax.hierarchy.agglomeration import agglomerate
from bregjax.hierarchy.dendrogram import Dendrogram
from bregjax.objectives import leave_one_out_log_likelihood
from bregjax.smoothing import (
    Blur,
    Constraint,
    StatisticMap,
    from_unconstrained,
    normal_reference,
    to_unconstrained,
)

__all__ = ["TuningResult", "tune_smoothing"]

# Optimizers stop where the objective has not risen by more than this share of itself
# for a while, in which the tree was made anew at least once.
_TOLERANCE = 1e-7
# How many factors e a positive number may rise above the floor: 35 powers of ten.
_RANGE = 80.0


@dataclass(frozen=True)
class TuningResult:
    """What tuning found.

    Attributes:
        smoothing: The best map seen, of the kind that was tuned.
        tree: The tree that it was best with.
        value: The objective there.
        history: The objective at each step, `[steps]`; it may fall where the tree was
            made anew.
        result: CONVERGED; BOUNDARY if the best lies at the floor, towards which the
            objective rises; STEP_LIMIT; or INVALID if the objective was no number.
    """

    smoothing: Any
    tree: Dendrogram
    value: float
    history: np.ndarray
    result: Result


def tune_smoothing(
    x: DataLike,
    *,
    family: FamilyLike,
    num_clusters: int,
    smoothing: StatisticMap | str = "auto",
    weights: DataLike | None = None,
    objective: Callable[..., Array] = leave_one_out_log_likelihood,
    optimizer: optax.GradientTransformation | None = None,
    max_steps: int = 300,
    recluster_every: int = 10,
    floor: float | None = None,
    progress: bool = False,
) -> TuningResult:
    """Make an objective of the tree as large as it gets, by the leaves of a smoothing.

    A loop on public functions: `to_unconstrained` makes real numbers of the map's
    leaves, `agglomerate` the tree, `optimizer` follows the gradient of `objective` with
    the tree held fixed, and every few steps the tree is made anew. The objective jumps
    where the tree changes: what is kept is the best that was seen, with its tree.

    Args:
        x: Data, a row a point, `[m, d]`.
        family: As for `agglomerate`.
        num_clusters: The number k of clusters that the objective cuts the tree into;
            m tunes a kernel density estimate.
        smoothing: Where to start and what to tune: all leaves of the map that its
            `constraints()` leave free; "auto" as for `agglomerate`. Up to ten powers of
            ten off.
        weights: As for `agglomerate`.
        objective: The larger the better: a function of (tree, x) and of the keywords
            family, smoothing, weights and num_clusters, such as those of
            `bregjax.objectives`; of NumPy arrays and of JAX's, traced ones too.
        optimizer: From optax, over the unconstrained numbers (a step of 1 is a factor
            e); `optax.rprop(0.1)` by default, which is at home at any distance.
            It may take the value and the function too, as `optax.lbfgs()` does.
        max_steps: Most steps.
        recluster_every: Steps with one tree.
        floor: The least that a positive leaf, or 1 less a share, may become; by default
            1e-6 of the normal-reference bandwidth for bandwidths, else 1e-9.
        progress: Show a bar of the steps (needs tqdm).

    Returns:
        The best smoothing, its tree, the way there and a result code.

    Raises:
        ValueError: If there is nothing to tune, the objective is not finite at the
            start, or as `agglomerate` and the objective do.
        TypeError: Under `jit` or another transformation.

    Warns:
        UserWarning: If the best lies at the floor: the objective is degenerate. The
            leave-one-out likelihood is where rows have duplicates; give those weights.
    """
    problem = resolve(x, family, smoothing, weights)
    if not is_concrete(problem):
        raise TypeError(
            "`tune_smoothing` loops on the host: call it outside jit and vmap. Inside, "
            "write the loop with `replay`, `to_unconstrained` and an optimizer."
        )
    start = problem.smoothing
    if not isinstance(start, StatisticMap) or not to_unconstrained(start):
        raise ValueError(
            f"`smoothing` must have something to tune; got {smoothing!r}, which is "
            f"{start!r} for {type(problem.data_model).__name__}. Give a map, such as "
            "blur(bandwidth), mixing(center, amount) or pseudo_count(center, count)."
        )
    with precision(problem):
        loop = _Loop(
            problem=working_copy(problem),
            start=working_copy(start),
            objective=functools.partial(objective, num_clusters=num_clusters),
            optimizer=optax.with_extra_args_support(optimizer or optax.rprop(0.1)),
            floor=_floor(problem) if floor is None else float(floor),
        )
        with progress_shown(max_steps, unit="step", shown=progress) as report:
            return loop.run(max_steps, recluster_every, report)


@dataclass
class _Loop:
    problem: Problem
    start: StatisticMap
    objective: Callable[..., Array]
    optimizer: optax.GradientTransformationExtraArgs
    floor: float

    def run(
        self, max_steps: int, recluster_every: int, report: Callable[[int], None] | None
    ) -> TuningResult:
        free = self.above_floor(to_unconstrained(self.start))
        state = self.optimizer.init(free)
        step = jax.jit(self.step)
        history, tree, best = [], self.tree(free), None
        last_rise, result = 0, Result.STEP_LIMIT
        for count in range(max_steps):
            if count and count % recluster_every == 0:
                tree = self.tree(free)
            value, moved, state = step(free, state, tree.children)
            history.append(float(value))
            if not math.isfinite(history[-1]):
                result = Result.INVALID
                break
            if best is None or history[-1] > best[0]:
                rise = math.inf if best is None else history[-1] - best[0]
                if rise > _TOLERANCE * abs(history[-1]):
                    last_rise = count
                best = (history[-1], free, tree)
            if count - last_rise > 2 * recluster_every:
                result = Result.CONVERGED
                break
            free = moved
            if report:
                report(count + 1)
        if best is None:
            raise ValueError(
                f"`objective` must be finite where tuning starts; got {history} with "
                f"{self.start!r}. Start from a larger smoothing."
            )
        return self.finished(best, history, result)

    def finished(self, best, history, result: Result) -> TuningResult:
        value, free, tree = best
        at_floor = self.at_floor(free)
        if at_floor:
            result = Result.BOUNDARY
            warnings.warn(
                f"The objective is the largest at the floor, {self.floor:g}, and may "
                "have no maximum above it. Rows that are equal make a leave-one-out "
                "likelihood so: give them weights, or take another objective.",
                UserWarning,
                stacklevel=4,
            )
        smoothing = from_unconstrained(free, self.start)
        smoothing = jax.tree.map(np.asarray, smoothing)
        return TuningResult(smoothing, tree, value, np.asarray(history), result)

    def tree(self, free: list[Array]) -> Dendrogram:
        return agglomerate(self.problem.rows, **self.arguments(free))

    def arguments(self, free: list[Array]) -> dict[str, Any]:
        return {
            "family": self.problem.data_model,
            "smoothing": from_unconstrained(free, self.start),
            "weights": self.problem.weights,
        }

    def loss(self, free: list[Array], children: Array) -> Array:
        return -self.objective(children, self.problem.rows, **self.arguments(free))

    def step(self, free: list[Array], state: Any, children: Array):
        """The objective, the numbers of the next step, and the optimizer's state."""
        loss, gradient = jax.value_and_grad(self.loss)(free, children)
        updates, state = self.optimizer.update(
            gradient,
            state,
            free,
            value=loss,
            grad=gradient,
            value_fn=lambda free: self.loss(free, children),
        )
        moved: Any = optax.apply_updates(free, updates)
        return -loss, self.above_floor(moved), state

    def above_floor(self, free: list[Array]) -> list[Array]:
        limits = zip(free, self.limits(), strict=True)
        return [jnp.clip(x, low, high) for x, (low, high) in limits]

    def at_floor(self, free: list[Array]) -> bool:
        limits = zip(free, self.limits(), strict=True)
        return any(bool(jnp.any(x <= low)) for x, (low, _) in limits)

    def limits(self) -> list[tuple[Array | float, Array | float]]:
        """Least and largest of the unconstrained numbers, for each free leaf."""
        low = math.log(self.floor)
        bounds = {
            Constraint.POSITIVE: (low, low + _RANGE),
            Constraint.UNIT_INTERVAL: (low, -low),
        }
        kinds = jax.tree.leaves(self.start.constraints())
        limits = []
        for kind, leaf in zip(kinds, jax.tree.leaves(self.start), strict=True):
            if kind in (Constraint.INVERTIBLE, Constraint.POSITIVE_DEFINITE):
                on_diagonal = np.eye(np.shape(leaf)[-1], dtype=bool)
                limits.append(
                    (
                        np.where(on_diagonal, low, -np.inf),
                        np.where(on_diagonal, low + _RANGE, np.inf),
                    )
                )
            elif kind is not Constraint.FIXED:
                limits.append(bounds.get(kind, (-np.inf, np.inf)))
        return limits


def _floor(problem: Problem) -> float:
    if isinstance(problem.smoothing, Blur):
        rule = normal_reference(problem.rows, weights=problem.weights)
        return 1e-6 * float(rule.bandwidth)
    return 1e-9

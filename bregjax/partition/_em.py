"""Steps of EM for a mixture of clusters, from given responsibilities."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._mixtures import log_total, shares_of
from bregjax._programs import program
from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.partition._base import Points
from bregjax.partition._mixture import check_known

__all__ = ["Mixture", "fitted_mixture"]

# Changes of the objective below so many roundings of itself are rounding, whatever the
# tolerance. At half, EM in float32 may call its last step a fall; at double, it ends a
# step earlier.
_ROUNDINGS = 64


def fitted_mixture(
    points: Points,
    shares: np.ndarray,
    *,
    tolerance: float,
    max_steps: int,
    report: Callable[[int], None] | None = None,
) -> tuple["Mixture", list[float], Result]:
    """Climb the objective of `soft_clustering` from responsibilities.

    Args:
        points: The points, `[p]`, of which those behind the first m fill up.
        shares: Responsibilities to start from, `[m, k]`. A cluster without any stays
            so, with weight 0: programs of one size then serve several k.
        tolerance: The gain at which to end, per unit of weight.
        max_steps: Most steps.
        report: Told the steps made.

    Returns:
        The best mixture, the objective of the start and after each step, and how it
        ended.
    """
    missing = len(points.weights) - len(shares)
    best = Mixture.of(points, np.pad(shares, ((0, missing), (0, 0))), None)
    trace, result = [best.value], Result.STEP_LIMIT
    total = float(np.sum(points.weights))
    for step in range(max_steps):
        found = Mixture.of(points, best.responsibilities, best.states)
        gain = found.value - best.value
        eps = float(jnp.finfo(found.responsibilities.dtype).eps)
        rounding = _ROUNDINGS * eps * max(abs(best.value), total)
        if gain < -rounding:
            result = Result.STALLED
            break
        if gain > 0:
            best = found
            trace.append(best.value)
        if report:
            report(step + 1)
        if gain <= max(tolerance * total, rounding):
            result = Result.CONVERGED
            break
    return best, trace, result


@dataclass(frozen=True)
class Mixture:
    """A mixture while it is improved.

    Attributes:
        weights: W π_k, `[k]`.
        states: `[k, ...]`.
        responsibilities: Those of this mixture, `[p, k]`.
        value: Its objective.
    """

    weights: Array
    states: PyTree
    responsibilities: Array
    value: float

    @classmethod
    def of(
        cls, points: Points, shares: Array | np.ndarray, before: PyTree | None
    ) -> "Mixture":
        """The best mixture for responsibilities; `before` has states of its clusters.

        Args:
            points: The points.
            shares: Responsibilities, `[p, k]`.
            before: States that a cluster without responsibilities keeps; None where
                there is no such cluster.
        """
        weights, members, there = _members(
            points.weights, points.smoothed_weights, shares
        )
        states = points.unions(members)
        if before is not None:
            states = _kept(states, before, there)
        costs = points.costs(states)
        responsibilities, value = _responsibilities(points.weights, costs, weights)
        value = float(value)
        check_known(value)
        return cls(weights, states, responsibilities, value)


@program
def _members(
    weights: Array, smoothed_weights: Array, shares: Array
) -> tuple[Array, Array, Array]:
    """W π `[k]`, weights of points in clusters `[k, p]`, and which clusters have any.

    A cluster that has none gets all points, so that its average is a number.
    """
    members = smoothed_weights[:, None] * shares
    there = jnp.sum(members, axis=0) > 0
    members = jnp.where(there[None], members, smoothed_weights[:, None])
    return jnp.sum(weights[:, None] * shares, axis=0), members.T, there


@program
def _kept(states: PyTree, before: PyTree, there: Array) -> PyTree:
    """The states, but those before of clusters that are not there."""

    def choose(new: Array, old: Array) -> Array:
        chosen = there.reshape(there.shape + (1,) * (new.ndim - 1))
        return jnp.where(chosen, new, old)

    return jax.tree.map(choose, states, before)


@program
def _responsibilities(weights: Array, costs: Array, sums: Array) -> tuple[Array, Array]:
    """Responsibilities `[p, k]` of a mixture, and its objective F.

    Args:
        weights: Of the points, `[p]`, 0 for those that fill up.
        costs: Of points under clusters, `[p, k]`.
        sums: W π of the mixture, `[k]`.
    """
    log_share = jnp.log(sums) - jnp.log(jnp.sum(sums))
    there = weights > 0
    weight = jnp.where(there, weights, 1)
    costs = jnp.where(there[:, None], costs, 0)
    scores = log_share[None] - costs / weight[:, None]
    values = jax.vmap(log_total)(scores)
    value = jnp.sum(jnp.where(there, weights * values, 0))
    return jax.vmap(shares_of)(scores), value

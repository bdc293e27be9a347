"""Whether the centre of a smoothing suits the model that it is used with."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import check_finite, is_concrete
from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.data_model import DataModel, FunctionModel
from bregjax.families import Family
from bregjax.moments import Moments
from bregjax.smoothing import Adding, Mixing, PseudoCount, StatisticMap

__all__ = ["check_center"]

Centered = Mixing | PseudoCount | Adding


def check_center(smoothing: StatisticMap, data_model: DataModel, rows: Array) -> None:
    """Raise ValueError unless a concrete centre is one of the model's statistics.

    A cost may be finite outside the mean domain (an entropy off the simplex), and mean
    nothing there: Theorem 5.2 wants the centre of a mixture inside, and that of an
    addition to be a direction in which the domain goes on. On the boundary it passes;
    what comes of it is seen at the leaves.

    Raises:
        ValueError: If the centre is not finite, of another form than the statistics, or
            outside.
    """
    if not isinstance(smoothing, Centered):
        return
    if not is_concrete((smoothing, data_model, rows)):
        return
    for leaf in jax.tree.leaves(smoothing.center):
        check_finite("center", leaf)
    statistics = jax.eval_shape(data_model.leaf_statistics, rows[:1])
    if not _fits(smoothing.center, statistics):
        if isinstance(statistics, Moments):
            return  # the map itself says what is wrong with it
        wanted = jax.tree.map(lambda leaf: leaf.shape[1:], statistics)
        raise ValueError(
            "`center` must have the form of the statistics of one row, of shape "
            f"{wanted} for {type(data_model).__name__}; got {_show(smoothing.center)}."
        )
    if _is_outside(smoothing, data_model):
        raise ValueError(_message(smoothing, data_model))


def _fits(center: PyTree, statistics: PyTree) -> bool:
    """Whether a centre broadcasts to each leaf's statistics `[m, ...]`."""
    if jax.tree.structure(center) != jax.tree.structure(statistics):
        return False
    pairs = zip(jax.tree.leaves(center), jax.tree.leaves(statistics), strict=True)
    for leaf, like in pairs:
        own, wanted = np.shape(leaf), like.shape[1:]
        tail = wanted[len(wanted) - len(own) :]
        if len(own) > len(wanted) or any(
            k not in (1, n) for k, n in zip(own, tail, strict=True)
        ):
            return False
    return True


def _is_outside(smoothing: Centered, data_model: DataModel) -> bool:
    """Whether both precisions say so.

    float32 forgives the rounding of a centre made in float32; float64 knows better
    where a solver in float32 is at its end.
    """
    host = jax.tree.map(np.asarray, (smoothing, data_model))
    for wide in (False, True):
        with jax.enable_x64(wide):
            if int(_code(*host)) != Result.OUTSIDE:
                return False
    return True


@jax.jit
def _code(smoothing: Centered, data_model: DataModel) -> Array:
    """`Result` of the conjugate at the point that has to be in the mean domain."""
    if isinstance(data_model, Family):
        point = _probe(smoothing, data_model)
        return data_model.conjugate(point).result
    outside = jnp.zeros((), bool)
    if isinstance(data_model, FunctionModel) and not isinstance(smoothing, Adding):
        outside = ~jnp.isfinite(data_model.function(smoothing.center))
    return jnp.where(outside, Result.OUTSIDE, Result.CONVERGED)


def _probe(smoothing: Centered, family: Family) -> PyTree:
    """The centre as a mean parameter; of an addition a mean so far along it."""
    center, start = smoothing.center, family.natural_init
    if isinstance(center, Moments):
        # Means are free: only the covariance is inside or outside.
        size = center.mean.shape[-1] if center.form == "spherical" else 1
        return jnp.zeros_like(center.mean), size * center.covariance
    spread = lambda leaf, like: jnp.broadcast_to(leaf, jnp.shape(like))
    center = jax.tree.map(spread, center, start)
    if not isinstance(smoothing, Adding):
        return center
    along = lambda mean, z: mean + smoothing.amount * z
    return jax.tree.map(along, family.natural_to_mean(start), center)


def _message(smoothing: Centered, data_model: DataModel) -> str:
    name, center = type(data_model).__name__, smoothing.center
    if isinstance(center, Moments):
        wanted = f"have a positive definite covariance for {name}"
        return f"`center` must {wanted}; got {_show(center.covariance)}."
    if not isinstance(data_model, Family):
        return (
            f"`center` must lie in the domain of the function; got {_show(center)}, "
            "where it is not finite."
        )
    if isinstance(smoothing, Adding):
        return (
            "`center` must be a direction in which the mean domain goes on without "
            f"end; got {_show(center)}, which leads out of that of {name}. Use "
            "mixing(center, amount), with a mean inside."
        )
    inside = data_model.natural_to_mean(data_model.natural_init)
    total = sum(np.sum(leaf) for leaf in jax.tree.leaves(center))
    scaled = jax.tree.map(lambda leaf: leaf / (total if total > 0 else 1), center)
    remedy = "Take one inside, such as"
    if not _is_outside(dataclasses.replace(smoothing, center=scaled), data_model):
        remedy = "Divide it by its sum, which must be 1, or take"
    return (
        f"`center` must lie in the mean domain of {name}, among the means that its "
        f"sufficient statistics can have; got {_show(center)}, which lies outside. "
        f"{remedy} family.natural_to_mean(family.natural_init), {_show(inside)}."
    )


def _show(tree: PyTree) -> str:
    show = lambda leaf: np.array2string(np.asarray(leaf), precision=6, threshold=8)
    leaves = [show(leaf) for leaf in jax.tree.leaves(tree)]
    return leaves[0] if len(leaves) == 1 else f"({', '.join(leaves)})"

"""Whether the centre of a smoothing suits the model that it is used with."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import check_finite, is_concrete, known_values
from bregjax._geometry import FunctionGeometry, Geometry
from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.clusters.moments import CentredStatistics, Moments
from bregjax.convex import ConvexFunction
from bregjax.families import Family
from bregjax.smoothing import Adding, Blur, Mixing, PseudoCount, StatisticMap

__all__ = ["check_center"]

Centered = Mixing | PseudoCount | Adding


def check_center(smoothing: StatisticMap, geometry: Geometry, rows: Array) -> None:
    """Raise ValueError unless a concrete centre is one of the model's statistics.

    A cost may be finite outside the mean domain (an entropy off the simplex), and mean
    nothing there: Theorem 5.2 wants the centre of a mixture in the relative interior
    (one on the boundary leaves points of its own face there), and that of an addition
    to be a direction in which the domain goes on.

    Raises:
        ValueError: If the centre is not finite, of another form than the statistics,
            on the boundary or outside.
        TypeError: If there is a bandwidth, and the model has no variances.
    """
    if isinstance(smoothing, Blur):
        _check_has_variances(geometry, rows)
    if not isinstance(smoothing, Centered):
        return
    if not is_concrete((smoothing, geometry, rows)):
        return
    for leaf in jax.tree.leaves(smoothing.center):
        check_finite("center", leaf)
    statistics = jax.eval_shape(lambda x: _center_of(geometry, x), rows[:1])
    center = _spread(smoothing.center, statistics)
    if center is None:
        if isinstance(statistics, Moments):
            return  # the map itself says what is wrong with it
        wanted = jax.tree.map(lambda leaf: leaf.shape[1:], statistics)
        raise ValueError(
            "`center` must have the form of the statistics of one row, of shape "
            f"{wanted} for {type(geometry).__name__}; got {_show(smoothing.center)}. "
            "Pass an array, or a pytree of arrays, of that form."
        )
    smoothing = dataclasses.replace(smoothing, center=center)
    # Weights may be traced all the same: nothing here is to enter that trace.
    with known_values():
        code = _verdict(smoothing, geometry)
        if code == Result.OUTSIDE:
            raise ValueError(_message(smoothing, geometry))
        if code == Result.BOUNDARY and not isinstance(smoothing, Adding):
            raise ValueError(_boundary_message(smoothing, geometry))


def _check_has_variances(geometry: Geometry, rows: Array) -> None:
    """Raise TypeError where a bandwidth has nothing to add to."""
    statistics = jax.eval_shape(geometry.leaf_statistics, rows[:1])
    if not isinstance(statistics, Moments):
        raise TypeError(
            "`smoothing` by a bandwidth (blur, normal_reference) needs a Gaussian "
            f"family with a free variance; {type(geometry).__name__} has none. Use "
            "mixing, adding or pseudo_count, or smoothing=None."
        )


def _center_of(geometry: Geometry, rows: Array) -> PyTree:
    """Statistics of rows in the form of a centre."""
    statistics = geometry.leaf_statistics(rows)
    if isinstance(statistics, CentredStatistics):
        return statistics.as_center()
    return statistics


def _spread(center: PyTree, statistics: PyTree) -> PyTree:
    """The centre broadcast to statistics `[m, ...]` of one row; None if it can't be."""
    if jax.tree.structure(center) != jax.tree.structure(statistics):
        return None
    spread = lambda leaf, like: np.broadcast_to(leaf, like.shape[1:])
    try:
        return jax.tree.map(spread, center, statistics)
    except ValueError:
        return None


def _verdict(smoothing: Centered, geometry: Geometry) -> Result:
    """OUTSIDE or BOUNDARY where the centre is refused, else CONVERGED.

    In float64; float32 forgives a centre that lies outside by the rounding of float32,
    in which it was made.
    """
    host = jax.tree.map(np.asarray, (smoothing, geometry))
    with jax.enable_x64(True):
        high = _code(*host)
    if high == Result.BOUNDARY:
        return Result.BOUNDARY
    if high != Result.OUTSIDE:
        return Result.CONVERGED
    with jax.enable_x64(False):
        low = _code(*host)
    return low if low in (Result.OUTSIDE, Result.BOUNDARY) else Result.CONVERGED


def _code(smoothing: Centered, geometry: Geometry) -> int:
    """`Result` at the point that has to be in the mean domain; CONVERGED if unknown."""
    if isinstance(geometry, FunctionGeometry):
        if isinstance(smoothing, Adding):
            return Result.CONVERGED
        return int(_code_of_function(geometry.function, smoothing.center))
    if not isinstance(geometry, Family):
        return Result.CONVERGED
    point, start = _as_mean(smoothing.center), geometry.natural_init
    if jax.tree.structure(point) != jax.tree.structure(start):
        return Result.CONVERGED
    if isinstance(smoothing, Adding) and not isinstance(smoothing.center, Moments):
        inside = geometry.natural_to_mean(start)
        point = jax.tree.map(lambda t, z: t + smoothing.amount * z, inside, point)
    model = geometry.cluster_model()
    if not model.solves:
        return int(_code_of_mean(geometry, point))
    one = jax.tree.map(lambda leaf: leaf[None], point)
    state: Any = model.leaves(one, jnp.ones(1))
    codes = np.ravel(state.result).tolist()
    worst = [code for code in (Result.OUTSIDE, Result.BOUNDARY) if code in codes]
    return worst[0] if worst else max(codes)


@jax.jit
def _code_of_function(f: ConvexFunction, center: Array) -> Array:
    steep = jnp.any(jnp.isinf(f.gradient(center)))
    code = jnp.where(steep, int(Result.BOUNDARY), int(Result.CONVERGED))
    return jnp.where(jnp.isfinite(f(center)), code, int(Result.OUTSIDE))


@jax.jit
def _code_of_mean(family: Family, mean: PyTree) -> Array:
    return family.conjugate(mean).result


def _as_mean(center: PyTree) -> PyTree:
    """A mean parameter; that of moments about 0, as means are free."""
    if not isinstance(center, Moments):
        return center
    size = center.mean.shape[-1] if center.form == "spherical" else 1
    return jnp.zeros_like(center.mean), size * center.covariance


def _message(smoothing: Centered, geometry: Geometry) -> str:
    name, center = type(geometry).__name__, smoothing.center
    if isinstance(center, Moments):
        wanted = f"have a positive definite covariance for {name}"
        return f"`center` must {wanted}; got {_show(center.covariance)}."
    if not isinstance(geometry, Family):
        return (
            f"`center` must lie in the domain of the function; got {_show(center)}, "
            "where it is not finite. Take a point like the rows."
        )
    if isinstance(smoothing, Adding):
        return (
            "`center` must be a direction in which the mean domain goes on without "
            f"end; got {_show(center)}, which leads out of that of {name}. Use "
            "mixing(center, amount), with a mean inside."
        )
    inside = geometry.natural_to_mean(geometry.natural_init)
    remedy = "Take one inside, such as"
    if _adds_up_to_one(smoothing, geometry):
        remedy = "Divide it by its sum, which must be 1, or take"
    return (
        f"`center` must lie in the mean domain of {name}, among the means that its "
        f"sufficient statistics can have; got {_show(center)}, which lies outside. "
        f"{remedy} family.natural_to_mean(family.natural_init), {_show(inside)}."
    )


def _boundary_message(smoothing: Centered, geometry: Geometry) -> str:
    name, center = type(geometry).__name__, smoothing.center
    rule = (
        "`center` must lie in the relative interior of the mean domain of "
        f"{name} (Theorem 5.2), as rows on the boundary would stay there"
    )
    if isinstance(center, Moments):
        return (
            f"{rule}; got the covariance {_show(center.covariance)}, which is "
            "singular. Take a positive definite one."
        )
    if isinstance(geometry, FunctionGeometry):
        slopes = np.asarray(geometry.function.gradient(center))
        entry = _entry(center, slopes)
        return f"{rule}; got {_show(center)}, on it by {entry}. Take a point inside."
    if not isinstance(geometry, Family):
        return f"{rule}; got {_show(center)}."
    natural = jax.tree.map(np.asarray, _natural(geometry, center))
    inside = geometry.natural_to_mean(geometry.natural_init)
    return (
        f"{rule}; got {_show(center)}, on it by {_entry(center, natural)}. Mix some of "
        "a mean inside into it, such as "
        f"family.natural_to_mean(family.natural_init), {_show(inside)}."
    )


@jax.jit
def _natural(family: Family, center: PyTree) -> PyTree:
    """The maximiser of ψ*, with infinite or large entries where it runs off."""
    return family.conjugate(_as_mean(center)).maximiser


def _entry(center: PyTree, farthest: PyTree) -> str:
    """Name and value of the entry of the centre where something is largest."""
    places = jax.tree_util.tree_leaves_with_path(center)
    sizes = [np.abs(np.nan_to_num(leaf)) for leaf in jax.tree.leaves(farthest)]
    leaf = int(np.argmax([np.max(size) for size in sizes]))
    index = np.unravel_index(np.argmax(sizes[leaf]), np.shape(sizes[leaf]))
    path, values = places[leaf]
    place = "".join(f"[{i}]" for i in index)
    value = np.asarray(values)[index]
    return f"center{jax.tree_util.keystr(path)}{place} = {value:.6g}"


def _adds_up_to_one(smoothing: Centered, family: Family) -> bool:
    """Whether the centre is inside once divided by its sum, and then only."""
    leaves = jax.tree.leaves(smoothing.center)
    total = np.sum(leaves[0])
    if len(leaves) > 1 or not total > 0:
        return False

    def scaled_is_outside(factor: float) -> bool:
        center = jax.tree.map(lambda leaf: factor / total * leaf, smoothing.center)
        scaled = dataclasses.replace(smoothing, center=center)
        return _verdict(scaled, family) == Result.OUTSIDE

    return not scaled_is_outside(1) and scaled_is_outside(0.9)


def _show(tree: PyTree) -> str:
    show = lambda leaf: np.array2string(np.asarray(leaf), precision=6, threshold=8)
    leaves = [show(leaf) for leaf in jax.tree.leaves(tree)]
    return leaves[0] if len(leaves) == 1 else f"({', '.join(leaves)})"

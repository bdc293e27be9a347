"""Whether a smoothing map suits the statistics that it is applied to."""

import dataclasses
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import check_finite, is_concrete, known_values
from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.clusters import Moments
from bregjax.clusters._moments import CenteredStatistics
from bregjax.convex import NegativeEntropy
from bregjax.smoothing import Constraint, StatisticMap
from bregjax.smoothing._maps import Adding, Blur, CenteredMap, Mixing, PseudoCount

__all__ = ["check_map", "sparse_fault", "takes_bandwidths"]


class HasMeans(Protocol):
    """What is asked of a geometry here; see `Geometry`."""

    def leaf_statistics(self, x: Array) -> PyTree:
        """Statistics of rows, `[m, ...]`."""
        ...

    def result_of_mean(self, mean: PyTree) -> int:
        """`Result` code of a mean."""
        ...

    def mean_inside(self) -> PyTree | None:
        """A mean inside the mean domain."""
        ...

    def steepness(self, mean: PyTree) -> PyTree | None:
        """What is largest in the entries by which a mean is on the boundary."""
        ...


def check_map(smoothing: StatisticMap, geometry: HasMeans, rows: Array) -> None:
    """Raise unless known numbers of a map are allowed, and its center is a statistic.

    A cost may be finite outside the mean domain (an entropy off the simplex), and mean
    nothing there: Theorem 5.2 wants the center of a mixture in the relative interior
    (one on the boundary leaves points of its own face there), and that of an addition
    to be a direction in which the domain goes on.

    Raises:
        ValueError: If a number breaks the map's constraints, bandwidths do not fit the
            columns, or the center is not finite, of another form than the statistics,
            on the boundary or outside.
        TypeError: If there is a bandwidth, and statistics have no variances.
    """
    _check_constraints(smoothing)
    if isinstance(smoothing, Blur):
        _check_bandwidth(smoothing, geometry, rows)
    if not isinstance(smoothing, CenteredMap):
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
        if code == Result.BOUNDARY and not smoothing.is_direction:
            raise ValueError(_boundary_message(smoothing, geometry))


def _check_constraints(smoothing: StatisticMap) -> None:
    """Raise ValueError at a known number that is not what it must be."""
    if not is_concrete(smoothing):
        return
    marks = jax.tree.leaves(smoothing.constraints())
    leaves = jax.tree_util.tree_leaves_with_path(smoothing)
    for (path, leaf), mark in zip(leaves, marks, strict=True):
        value = np.asarray(leaf)
        within = {
            Constraint.POSITIVE: value > 0,
            Constraint.UNIT_INTERVAL: (value > 0) & (value < 1),
        }
        if not np.all(within.get(mark, True)):
            raise ValueError(
                f"`smoothing` must have `{jax.tree_util.keystr(path, simple=True)}` "
                f"{mark.value}; got {value}."
            )


def sparse_fault(
    smoothing: StatisticMap | None, geometry: Any, weights: Array | None
) -> str:
    """Say why a map does not suit sparse rows of a geometry that takes them; or ""."""
    if smoothing is None:
        return ""
    if not isinstance(smoothing, Adding | Mixing | PseudoCount):
        return (
            "`smoothing` of sparse rows must be None, mixing, bernstein, adding or "
            f"pseudo_count, which leave their zeros alike; got {smoothing!r}."
        )
    function = geometry.cluster_model().function
    differ = weights is not None and is_concrete(weights) and np.ptp(weights) > 0
    entropic = isinstance(function, NegativeEntropy)
    if isinstance(smoothing, PseudoCount) and differ and not entropic:
        return (
            "`smoothing` by pseudo_count needs equal weights where rows are sparse, "
            f"for {type(geometry).__name__}: under other weights columns without "
            "entries have other means. Use mixing or adding, or dense rows."
        )
    return ""


def takes_bandwidths(geometry: HasMeans, rows: Array) -> bool:
    """Whether statistics have variances for a bandwidth to add to."""
    statistics = jax.eval_shape(geometry.leaf_statistics, rows[:1])
    return isinstance(statistics, Moments)


def _check_bandwidth(smoothing: Blur, geometry: HasMeans, rows: Array) -> None:
    """Raise where a bandwidth has nothing to add to, or does not fit the columns."""
    if not takes_bandwidths(geometry, rows):
        raise TypeError(
            "`smoothing` by a bandwidth (blur, normal_reference) needs a Gaussian "
            f"family with a free variance; {type(geometry).__name__} has none. Use "
            'mixing, adding or pseudo_count, smoothing=None, or "auto".'
        )
    shape, d = np.shape(smoothing.bandwidth), rows.shape[-1]
    if shape not in ((), (d,), (d, d)):
        raise ValueError(
            "`smoothing` must have one bandwidth, one for each of the "
            f"{d} columns, or a factor of {d} by {d}; got shape {shape}."
        )


def _center_of(geometry: HasMeans, rows: Array) -> PyTree:
    """Statistics of rows in the form of a center."""
    statistics = geometry.leaf_statistics(rows)
    if isinstance(statistics, CenteredStatistics):
        return statistics.as_center()
    return statistics


def _spread(center: PyTree, statistics: PyTree) -> PyTree:
    """The center broadcast to statistics `[m, ...]` of one row; None if it can't be."""
    if jax.tree.structure(center) != jax.tree.structure(statistics):
        return None
    spread = lambda leaf, like: np.broadcast_to(leaf, like.shape[1:])
    try:
        return jax.tree.map(spread, center, statistics)
    except ValueError:
        return None


def _verdict(smoothing: CenteredMap, geometry: HasMeans) -> Result:
    """OUTSIDE or BOUNDARY where the center is refused, else CONVERGED.

    In float64; float32 forgives a center that lies outside by the rounding of float32,
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


def _code(smoothing: CenteredMap, geometry: HasMeans) -> int:
    """`Result` at the point that has to be in the mean domain; CONVERGED if unknown."""
    point, inside = _as_mean(smoothing.center), geometry.mean_inside()
    if smoothing.is_direction and not isinstance(smoothing.center, Moments):
        if jax.tree.structure(point) != jax.tree.structure(inside):
            return int(Result.CONVERGED)
        point = smoothing.moved(inside, point)
    return geometry.result_of_mean(point)


def _as_mean(center: PyTree) -> PyTree:
    """A mean parameter; that of moments about 0, as means are free."""
    if not isinstance(center, Moments):
        return center
    size = center.mean.shape[-1] if center.form == "spherical" else 1
    return jnp.zeros_like(center.mean), size * center.covariance


def _message(smoothing: CenteredMap, geometry: HasMeans) -> str:
    name, center = type(geometry).__name__, smoothing.center
    if isinstance(center, Moments):
        wanted = f"have a positive definite covariance for {name}"
        return f"`center` must {wanted}; got {_show(center.covariance)}."
    inside = geometry.mean_inside()
    if inside is None:
        return (
            f"`center` must lie in the domain of the function; got {_show(center)}, "
            "where it is not finite. Take a point like the rows."
        )
    if smoothing.is_direction:
        return (
            "`center` must be a direction in which the mean domain goes on without "
            f"end; got {_show(center)}, which leads out of that of {name}. Use "
            "mixing(center, amount), with a mean inside."
        )
    remedy = "Take one inside, such as"
    if _adds_up_to_one(smoothing, geometry):
        remedy = "Divide it by its sum, which must be 1, or take"
    return (
        f"`center` must lie in the mean domain of {name}, among the means that its "
        f"sufficient statistics can have; got {_show(center)}, which lies outside. "
        f"{remedy} family.natural_to_mean(family.natural_init), {_show(inside)}."
    )


def _boundary_message(smoothing: CenteredMap, geometry: HasMeans) -> str:
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
    steepness = jax.tree.map(np.asarray, geometry.steepness(_as_mean(center)))
    got = f"{rule}; got {_show(center)}, on it by {_entry(center, steepness)}."
    inside = geometry.mean_inside()
    if inside is None:
        return f"{got} Take a point inside."
    return (
        f"{got} Mix some of a mean inside into it, such as "
        f"family.natural_to_mean(family.natural_init), {_show(inside)}."
    )


def _entry(center: PyTree, farthest: PyTree) -> str:
    """Name and value of the entry of the center where something is largest."""
    places = jax.tree_util.tree_leaves_with_path(center)
    sizes = [np.abs(np.nan_to_num(leaf)) for leaf in jax.tree.leaves(farthest)]
    leaf = int(np.argmax([np.max(size) for size in sizes]))
    index = np.unravel_index(np.argmax(sizes[leaf]), np.shape(sizes[leaf]))
    path, values = places[leaf]
    place = "".join(f"[{i}]" for i in index)
    value = np.asarray(values)[index]
    return f"center{jax.tree_util.keystr(path)}{place} = {value:.6g}"


def _adds_up_to_one(smoothing: CenteredMap, geometry: HasMeans) -> bool:
    """Whether the center is inside once divided by its sum, and then only."""
    leaves = jax.tree.leaves(smoothing.center)
    total = np.sum(leaves[0])
    if len(leaves) > 1 or not total > 0:
        return False

    def scaled_is_outside(factor: float) -> bool:
        center = jax.tree.map(lambda leaf: factor / total * leaf, smoothing.center)
        scaled = dataclasses.replace(smoothing, center=center)
        return _verdict(scaled, geometry) == Result.OUTSIDE

    return not scaled_is_outside(1) and scaled_is_outside(0.9)


def _show(tree: PyTree) -> str:
    show = lambda leaf: np.array2string(np.asarray(leaf), precision=6, threshold=8)
    leaves = [show(leaf) for leaf in jax.tree.leaves(tree)]
    return leaves[0] if len(leaves) == 1 else f"({', '.join(leaves)})"

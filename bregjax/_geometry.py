"""From rows of data to leaves of a cluster model: all that clustering asks for."""

import abc
from dataclasses import dataclass
from typing import Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._centers import check_map
from bregjax._checks import (
    check_entries,
    check_finite,
    check_in_jax,
    float_array,
    is_concrete,
)
from bregjax._column_parameters import in_columns
from bregjax._programs import program
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._sparse_rows import SparseRows, SparseTable
from bregjax._typing import Array, DataLike, PyTree
from bregjax.clusters import BregmanModel, ClusterModel, MeanState
from bregjax.clusters._bregman_model import divergences_from
from bregjax.clusters._excess import excess_of
from bregjax.convex import ConvexFunction, SquaredNorm
from bregjax.smoothing import StatisticMap

__all__ = ["FunctionGeometry", "Geometry", "PrecisionError"]


Sparse = TypeVar("Sparse", bound=SparseTable)


class PrecisionError(ValueError):
    """Costs would have too few digits in the precision at hand."""


class Geometry(abc.ABC):
    """What rows of data are to clusters: their statistics, and the model of clusters.

    Exponential families are geometries, and so is a convex function on rows. A subclass
    gives statistics and a cluster model, and for assignments and likelihoods densities;
    all else has a default.

    Examples:
        >>> import bregjax as bj
        >>> from bregjax.convex import SquaredNorm
        >>> problem = bj.Problem([[0.0], [1.0]], family=SquaredNorm())
        >>> problem.family
        FunctionGeometry(function=SquaredNorm())
        >>> print(problem.family.leaf_statistics(problem.x)[1])
        [1.]
    """

    @abc.abstractmethod
    def leaf_statistics(self, x: Array) -> PyTree:
        """Compute statistics of rows as the cluster model holds them, `[m, ...]`."""

    @abc.abstractmethod
    def cluster_model(self) -> ClusterModel:
        """Return the model that says what a cluster is and what a merge costs."""

    @abc.abstractmethod
    def density_parameters(self, clusters: PyTree) -> PyTree:
        """Compute from states what log-densities need of k clusters, `[k, ...]`."""

    @abc.abstractmethod
    def log_densities(self, row: Array, parameters: PyTree) -> Array:
        """Compute log p(x; τ_k) of a row x under each cluster, `[k]`, in nats.

        The row is taken as it is: no smoothing applies to it.
        """

    @property
    def columnwise(self) -> bool:
        """Whether costs are sums over the columns of the data."""
        return False

    @property
    def encodes(self) -> bool:
        """Whether `as_rows` turns data into something else, such as codes of levels."""
        return False

    def for_data(self, x: DataLike) -> Self:
        """Return the geometry with what it takes from the data filled in.

        Raises:
            ValueError: If rows of `x` do not fit.
        """
        del x
        return self

    def as_rows(self, x: DataLike) -> Array:
        """Return observations as an array of floats with one row each."""
        if isinstance(x, SparseRows):
            return x  # pyright: ignore[reportReturnType]
        return float_array(x)

    @property
    def takes_sparse(self) -> bool:
        """Whether rows may be sparse: entries of 0 then have statistics of 0."""
        return False

    def sparse_statistics(self, x: Sparse) -> Sparse:
        """Return statistics of sparse rows, which have entries where the rows do."""
        return x

    def base_terms(self, statistics: Array, columns: Array) -> Array:
        """Compute what entries add to log-densities whatever the cluster, `[e]`.

        log p(x; τ) is the tangent of f at τ, taken at T(x), plus such a term for each
        entry of x; f is the function of the cluster model.

        Args:
            statistics: Entries of `sparse_statistics`, `[e]`.
            columns: The columns that they stand in, `[e]`.
        """
        del columns
        return jnp.zeros(statistics.shape)

    def own_terms(self, statistics: Array, columns: Array) -> Array:
        """Compute log p(x; T(x)) of entries x, `[e]`; arguments as of `base_terms`.

        −B_f(T(x), τ) and this add up to log p(x; τ).
        """
        model = self.cluster_model()
        function = model.function  # pyright: ignore[reportAttributeAccessIssue]

        def value(entry: Array, column: Array) -> Array:
            return in_columns(function, column[None])(entry[None])

        base = self.base_terms(statistics, columns)
        return jax.vmap(value)(statistics, columns) + base

    def check_support(self, x: DataLike) -> None:
        """Raise ValueError at the first row outside the sample space."""
        if not is_concrete(x):
            return
        if isinstance(x, SparseRows):
            check_entries("x", x, np.ones(x.values.shape, bool), "", "")
        else:
            check_finite("x", x)

    def check_rows(self, rows: Array) -> None:
        """Raise ValueError at the first row, as `as_rows` gives it, that is none."""
        self.check_support(rows)

    def default_smoothing(self, x: Array, weights: Array | None) -> StatisticMap | None:
        """Return the smoothing map that "auto" stands for, None for none."""
        del x, weights

    def smoothing_of(self, amount: float) -> StatisticMap:
        """Return the usual smoothing map with one number that says how much.

        A bandwidth for Gaussians; for other families see theirs.

        Raises:
            ValueError: If there is no such map, or it takes no such amount.
        """
        raise ValueError(
            f"`amount` means nothing for {type(self).__name__}; got {amount:g}. Give "
            "a map, such as mixing(center, amount)."
        )

    def check_smoothing(self, smoothing: StatisticMap, rows: Array) -> None:
        """Raise unless a smoothing map suits the statistics of rows.

        Raises:
            ValueError: If a known number breaks the map's constraints, bandwidths do
                not fit the columns, or the center is not finite, of another form than
                the statistics, on the boundary of the mean domain or outside.
            TypeError: If there is a bandwidth, and statistics have no variances.
        """
        check_map(smoothing, self, rows)

    def result_of_mean(self, mean: PyTree) -> int:
        """`Result` code of a mean: CONVERGED inside the mean domain, or if unknown."""
        del mean
        return int(Result.CONVERGED)

    def mean_inside(self) -> PyTree | None:
        """Return a mean inside the mean domain, None if there is none to name."""
        return None

    def steepness(self, mean: PyTree) -> PyTree | None:
        """Return what is largest in the entries by which a mean is on the boundary."""
        del mean
        return None

    def suited_to(
        self, rows: Array, smoothing: StatisticMap | None, weights: Array | None
    ) -> Self:
        """Return the geometry in the arithmetic that rows, as smoothed, need.

        Args:
            rows: As of `as_rows`, perhaps traced.
            smoothing: A smoothing map, or None.
            weights: `[m]`, or None.

        Raises:
            PrecisionError: If there is none.
        """
        del rows, smoothing, weights
        return self

    def least_bandwidth(self, rows: Array) -> np.ndarray:
        """Return the least bandwidths that costs have digits for, `[d]`."""
        return np.zeros(np.shape(rows)[1:])

    @property
    def ward_scale(self) -> DataLike | None:
        """σ² where Δ is Ward's cost of a known variance σ², else None."""
        return None

    @property
    def smoothing_hint(self) -> str:
        """What to pass as `smoothing` where a point has no finite cost, as a clause."""
        return "Pass smoothing=mixing(center, amount) with a `center` inside the domain"


@register_pytree
@dataclass(frozen=True)
class FunctionGeometry(Geometry):
    """Rows clustered by the Bregman divergence of a convex function of rows.

    Attributes:
        function: Convex, relatively differentiable.
    """

    function: ConvexFunction

    @property
    @override
    def columnwise(self) -> bool:
        return self.function.separable

    @property
    @override
    def takes_sparse(self) -> bool:
        return excess_of(self.function) is not None

    @override
    def base_terms(self, statistics: Array, columns: Array) -> Array:
        def value(entry: Array, column: Array) -> Array:
            return in_columns(self.function, column[None])(entry[None])

        return -jax.vmap(value)(statistics, columns)

    @override
    def result_of_mean(self, mean: Array) -> int:
        return int(_result_in_domain(self.function, mean))

    @override
    def steepness(self, mean: Array) -> Array:
        """The slope of the function, infinite where it is steep."""
        return self.function.gradient(mean)

    @override
    def for_data(self, x: DataLike) -> "FunctionGeometry":
        """Return itself, once rows of `x` are known to be points of the function.

        Raises:
            ValueError: If they have too few axes.
            TypeError: If the function calls NumPy.
        """
        axes = self.function.event_ndim
        if np.ndim(x) != axes + 1:
            hint = " Reshape one column to x[:, None]." if np.ndim(x) == 1 else ""
            raise ValueError(
                f"`x` must have {axes + 1} axes, points and then their {axes}, for "
                f"{type(self.function).__name__}; got shape {np.shape(x)}.{hint}"
            )
        row = jax.ShapeDtypeStruct(np.shape(x)[1:], jnp.result_type(float))
        check_in_jax("family", self.function, row)
        return self

    @override
    def leaf_statistics(self, x: Array) -> Array:
        return x

    @override
    def cluster_model(self) -> BregmanModel:
        return BregmanModel(self.function)

    @override
    def density_parameters(self, clusters: MeanState) -> Array:
        return clusters.mean

    @override
    def log_densities(self, row: Array, parameters: Array) -> Array:
        """−B_f(x, τ_k): the log-density up to a term in x alone, if f has a family.

        References:
            Banerjee, Merugu, Dhillon, Ghosh (2005), Clustering with Bregman
            Divergences, Theorem 4.
        """
        return -divergences_from(self.function, row, parameters)

    @property
    @override
    def ward_scale(self) -> DataLike | None:
        """1 for ½‖x‖², which is the Gaussian of variance 1."""
        return np.float64(1) if isinstance(self.function, SquaredNorm) else None


@program
def _result_in_domain(f: ConvexFunction, point: Array) -> Array:
    steep = jnp.any(jnp.isinf(f.gradient(point)))
    code = jnp.where(steep, int(Result.BOUNDARY), int(Result.CONVERGED))
    return jnp.where(jnp.isfinite(f(point)), code, int(Result.OUTSIDE))

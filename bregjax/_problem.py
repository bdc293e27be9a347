"""What to cluster, and by what: data, family, smoothing and weights, checked once."""

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bregjax._checks import check_weights, float_array, is_concrete
from bregjax._family_like import FamilyLike, geometry_for
from bregjax._frames import as_frame, frame_of, is_frame
from bregjax._geometry import Geometry
from bregjax._inputs import (
    check_table,
    dense_remedy,
    refuse_path,
    refuse_spread,
    size_in_words,
)
from bregjax._pytree import in_words, register_pytree
from bregjax._smoothing_like import (
    SmoothingLike,
    check_smoothing,
    smoothing_for,
    wide_bandwidth,
)
from bregjax._sparse_rows import SparseRows, is_sparse, sparse_rows
from bregjax._typing import Array, DataLike, TableLike
from bregjax.families import Product
from bregjax.families._layout import Missing
from bregjax.families._summary import columns_in_words
from bregjax.smoothing import StatisticMap

__all__ = [
    "Problem",
    "check_problem",
    "rows_of",
    "unchecked",
]

_KEPT: Any = object()  # an argument of `replace` that was not given


@register_pytree
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Problem:
    """Data, family, smoothing and weights: all that the cost of a merge depends on.

    Said once, and passed to every function: `agglomerate(problem)`,
    `replay(problem, tree)`, `certify(problem, tree)`, …. Names and defaults are filled
    in, so that `problem.smoothing` shows what "auto" came to.

    A pytree whose leaves are floating-point arrays, whatever `x` was: `jax.grad` of a
    function of a problem differentiates by data, weights, bandwidths and the family's
    parameters at once (whole-number arrays among the `params` of a ψ of your own stay
    as they are). All arrays are copies, and read-only. Values are checked where they
    are known: here, and by the function that is given a problem that `jit` or
    `jax.tree.map` has rebuilt.

    Attributes:
        x: Rows as floats, `[m, d]`; codes of levels for `Categorical`; `SparseRows`
            where the data are sparse.
        family: The family, its dimension and levels known; a convex function is held
            by a `FunctionGeometry`.
        smoothing: The smoothing map, or None.
        weights: Weights of the rows, `[m]`.

    Examples:
        >>> import bregjax as bj
        >>> problem = bj.Problem([[0.0], [1.0], [5.0]], family="gaussian")
        >>> problem
        Problem of 3 rows and 1 column
          family     Gaussian(dim=1)
          smoothing  blur(bandwidth=2.25)
          weights    1 each
        >>> print(bj.replay(problem, bj.agglomerate(problem)))
        [0.048 0.932]
    """

    x: Array
    family: Geometry
    smoothing: StatisticMap | None
    weights: Array

    def __init__(
        self,
        x: TableLike,
        *,
        family: FamilyLike | None = None,
        smoothing: SmoothingLike = "auto",
        weights: DataLike | None = None,
        missing: Missing = "auto",
    ) -> None:
        """Resolve names and defaults, and check known values.

        Args:
            x: Data, a row a point, `[m, d]`. For a family of counts or categories as
                its docstring says; for a convex function the statistics τ themselves.
                Sparse tables of SciPy's and JAX's stay sparse, where the family takes
                such (`takes_sparse`).
            family: A family, the name of a built-in one ("gaussian", "poisson", …), or
                a convex function: a `ConvexFunction` or any relatively differentiable
                JAX function of a vector. For a table with columns of several kinds
                "auto", or a mapping of columns to families, the others "auto"; see
                `choose_families`. "auto" by default, if the table names its columns.
            smoothing: A smoothing map (`normal_reference(x)`, `bernstein(…)`, …), None,
                a number, `family.smoothing_of(number)` (the bandwidth of Gaussians), or
                "auto" for what the family names: bandwidths by the normal reference
                rule for Gaussians, none where costs are finite without. For columns of
                several kinds a mapping of columns to such.
            weights: Positive weights of the rows, `[m]`, 1 by default: a row of weight
                w costs what w copies of it do.
            missing: How cells that are missing (NaN, None, NA, masked) count, for
                families of independent columns: with "auto" costs are those of the
                cells that are observed; "observed" says that new rows may lack cells
                though these do not; "scaled" takes costs per observed weight. See
                `Product`.

        Raises:
            ValueError: If data, weights or the center of the smoothing are unfit,
                naming the row, the column, the value and the remedy.
            TypeError: If `family` or `smoothing` is of no kind known here.

        Warns:
            UserWarning: If "auto" comes to one bandwidth for columns of which some
                vary by less than a tenth of it.
        """
        refuse_path("x", x)
        refuse_spread("x", x)
        x = sparse_rows(x) if is_sparse(x) else as_frame(x)
        table: Any = frame_of(x) if isinstance(x, Mapping) else x
        geometry = geometry_for(table, family, missing)
        x = table
        count = check_table("x", x, masked=geometry.encodes)[0]
        geometry, rows = rows_of(geometry, x)
        if weights is not None:
            check_weights(weights, count)
            weights = float_array(weights, "weights")
        self._fill(rows, geometry, smoothing, weights)
        if is_frame(x):
            vars(self)["_names"] = frame_of(x).columns
        if isinstance(smoothing, str) and (message := wide_bandwidth(self)):
            warnings.warn(message, stacklevel=2)

    @classmethod
    def _from_fields(cls, **fields: Any) -> "Problem":
        """A problem of fields that nothing checks: how `jit` rebuilds one."""
        problem = object.__new__(cls)
        vars(problem).update({"_is_checked": False, **fields})
        return problem

    def _fill(
        self,
        rows: Array,
        geometry: Geometry,
        smoothing: SmoothingLike,
        weights: Array | None,
    ) -> None:
        """Settle what depends on several fields, and set them."""
        geometry = _with_float_parameters(geometry)
        found = jax.tree.map(_own, smoothing_for(smoothing, geometry, rows, weights))
        geometry = geometry.suited_to(rows, found, weights)
        weights = float_array(np.ones(rows.shape[0])) if weights is None else weights
        vars(self).update(
            x=jax.tree.map(_own, rows),
            family=geometry,
            smoothing=found,
            weights=_own(weights),
            _is_checked=True,
        )

    @property
    def num_points(self) -> int:
        """The number m of rows."""
        return self.x.shape[0]

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """The names of the columns of `x`; their numbers where the table had none.

        `jax.tree.map` and `jit` do not keep names, unless the family does.
        """
        if isinstance(self.family, Product):
            return self.family.names
        names = vars(self).get("_names")
        return tuple(range(self.x.shape[-1])) if names is None else names

    def replace(
        self,
        *,
        x: TableLike = _KEPT,
        family: FamilyLike = _KEPT,
        smoothing: SmoothingLike = _KEPT,
        weights: DataLike | None = _KEPT,
        missing: Missing = "auto",
    ) -> "Problem":
        """Return the problem with other data, family, smoothing or weights.

        What is not given stays as it is: with other data the bandwidths of the old
        ones, and with another family the old smoothing, unless `smoothing="auto"` is
        said again; the `dim` of the family, unless `family` is. Weights of 1 fit any
        number of rows.

        Args:
            x: As for `Problem`.
            family: As for `Problem`.
            smoothing: As for `Problem`.
            weights: As for `Problem`; None for 1 each.
            missing: As for `Problem`; needs `x`.

        Returns:
            Another problem; this one is unchanged.

        Raises:
            ValueError: As `Problem`, or if `family` reads `x` otherwise (names of
                levels, say) and `x` is not given too.

        Examples:
            >>> import jax, bregjax as bj
            >>> problem = bj.Problem([[0.0], [1.0], [5.0]], family="gaussian")
            >>> tree = bj.agglomerate(problem)
            >>> at = lambda h: problem.replace(smoothing=bj.blur(h))
            >>> last = lambda h: bj.replay(at(h), tree)[-1]
            >>> print(jax.grad(last)(2.0))
            -0.74
        """
        smoothing = self.smoothing if smoothing is _KEPT else smoothing
        weights = self.weights if weights is _KEPT else weights
        if x is not _KEPT:
            family = self.family if family is _KEPT else family
            kept = weights is self.weights and is_concrete(weights)
            if kept and np.all(weights == 1):
                weights = None
            return Problem(
                x,
                family=family,
                smoothing=smoothing,
                weights=weights,
                missing=missing,
            )
        geometry, rows = self.family, self.x
        if missing != "auto":
            raise ValueError(
                f"`x` must be given with `missing`; got missing={missing!r} alone. "
                "Pass both."
            )
        if family is not _KEPT:
            geometry = geometry_for(self.x, family, missing)
            if geometry.encodes or self.family.encodes:
                raise ValueError(
                    "`x` must be given with `family`: the problem holds rows as "
                    f"{type(self.family).__name__} reads them, which is not as "
                    f"{type(geometry).__name__} does. Pass both."
                )
            geometry, rows = rows_of(geometry, self.x)
        if weights is not None:
            check_weights(weights, rows.shape[0])
            weights = float_array(weights, "weights")
        problem = object.__new__(Problem)
        problem._fill(rows, geometry, smoothing, weights)
        if "_names" in vars(self):
            vars(problem)["_names"] = vars(self)["_names"]
        return problem

    def __repr__(self) -> str:
        """Sizes, and what stands for each argument."""
        try:
            m, *columns = self.x.shape
        except (AttributeError, TypeError, ValueError):  # mapped to something else
            return f"Problem(x={self.x!r}, family={self.family!r})"
        shape = f"{_count(m, 'row')} and {_count(int(np.prod(columns)), 'column')}"
        if isinstance(self.x, SparseRows):
            kept = len(self.x.pattern.columns) / max(m * columns[0], 1)
            shape += f", {100 * kept:.2g} % of the entries not 0"
        lines = {
            "family": self.family,
            "smoothing": self.smoothing,
            "weights": in_words(self.weights),
        }
        table = []
        if isinstance(self.family, Product) and is_concrete(self):
            rows = np.asarray(self.x)
            missing = np.isnan(rows).mean()
            shape += f", {100 * missing:.2g} % of the cells missing" if missing else ""
            lines["family"] = "by column (`family` prints as code)"
            words = columns_in_words(self.family, rows, np.asarray(self.weights))
            table = ["    " + line for line in words]
        named = [f"  {name:<10} {value!s}" for name, value in lines.items()]
        return "\n".join([f"Problem of {shape}", named[0], *table, *named[1:]])


def unchecked(problem: Problem, **fields: Any) -> Problem:
    """Return a problem with other fields that are known to be right."""
    return Problem._from_fields(**{**vars(problem), **fields})


def check_problem(problem: Any) -> Problem:
    """Return the argument, if it is a problem, checked if that was still to do.

    A problem that a transformation or `jax.tree.map` has rebuilt may hold anything.
    Where its values are unknown, the arithmetic is chosen for what `jax.grad` follows.

    Raises:
        TypeError: If it is anything else, such as a tree or a table.
        ValueError: If it is a batch, or as `Problem`.
    """
    if not isinstance(problem, Problem):
        raise TypeError(
            f"`problem` must be a Problem; got {type(problem).__name__}. Make one "
            "first, problem = bregjax.Problem(x, family=…), and pass it before the "
            "tree."
        )
    if vars(problem)["_is_checked"]:
        return problem
    shapes = np.shape(problem.x), np.shape(problem.weights)
    if len(shapes[1]) != 1 or shapes[0][:1] != shapes[1]:
        raise ValueError(
            "`problem` must be one problem, with a weight a row; got `x` of shape "
            f"{shapes[0]} and `weights` of shape {shapes[1]}. Take one problem of a "
            "batch at a time, or jax.vmap."
        )
    family, smoothing = problem.family, problem.smoothing
    if is_concrete(problem):
        check_weights(problem.weights, shapes[1][0])
        family.check_rows(problem.x)
    if smoothing is not None:
        check_smoothing(smoothing, family, problem.x, problem.weights)
    family = family.suited_to(problem.x, smoothing, problem.weights)
    known = is_concrete(problem)
    return unchecked(problem, family=family, _is_checked=known)


def rows_of(geometry: Geometry, x: TableLike) -> tuple[Geometry, Array]:
    """The geometry with what it takes from data filled in, and the data as floats."""
    table: Any = x
    if isinstance(x, SparseRows) and not geometry.takes_sparse:
        raise TypeError(
            f"`x` must be dense for {type(geometry).__name__}; got a sparse table of "
            f"{size_in_words(table)}. Sparse rows are for multinomial, poisson, "
            "bernoulli, negative_binomial, geometric and ward; "
            f"{dense_remedy('x', table)}"
        )
    geometry = geometry.for_data(table)
    geometry.check_support(table)
    return geometry, geometry.as_rows(table)


def _own(array: Any) -> Any:
    """Return known values as a read-only array that nobody else writes to."""
    if not isinstance(array, np.ndarray):
        return array
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


def _with_float_parameters(geometry: Geometry) -> Geometry:
    """Return the geometry with arrays of its own, plain numbers as floats."""

    def convert(leaf: Any) -> Any:
        plain = isinstance(leaf, (int, float)) and not isinstance(leaf, bool)
        return _own(float_array(leaf) if plain else leaf)

    return jax.tree.map(convert, geometry)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

"""From what a user passes to what an engine takes: resolved, checked, padded."""

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._centers import check_center
from bregjax._checks import check_weights, float_array, is_concrete, known_values
from bregjax._data_model import DataModel, FunctionModel
from bregjax._inputs import check_table, range_fault
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array, DataLike, PyTree
from bregjax.clusters.base import ClusterModel
from bregjax.convex import ConvexFunction
from bregjax.convex._plain import as_convex_function
from bregjax.families import named_family
from bregjax.families._explain import explain_failure
from bregjax.families.base import Family
from bregjax.smoothing import StatisticMap

__all__ = [
    "FamilyLike",
    "Problem",
    "build_leaves",
    "check_costs",
    "check_leaves",
    "equal_rows",
    "evaluate",
    "leaf_codes",
    "padded",
    "precision",
    "resolve",
    "resolve_rows",
    "smoothed_statistics",
    "working_copy",
]

FamilyLike = str | DataModel | ConvexFunction | Callable[[Array], Array]


@register_pytree
@dataclass(frozen=True)
class Problem:
    """Rows, weights and what to make of them; a pytree that enters `jit`.

    Attributes:
        data_model: The family, or the convex function.
        smoothing: A smoothing map, or None.
        rows: `[m, d]`.
        weights: `[m]`.
    """

    data_model: DataModel
    smoothing: StatisticMap | None
    rows: Array
    weights: Array

    @property
    def num_points(self) -> int:
        """The number m of rows."""
        return self.rows.shape[0]


def resolve(
    x: DataLike,
    family: FamilyLike,
    smoothing: StatisticMap | str | None,
    weights: DataLike | None,
) -> Problem:
    """Resolve names and defaults, and check concrete values.

    Raises:
        ValueError: Naming the row, the column, the value and the remedy.
        TypeError: If `family` or `smoothing` is of no kind known here.
    """
    data_model = _data_model(family)
    shape = check_table("x", x)
    data_model = data_model.for_data(x)
    data_model.check_support(x)
    if weights is not None:
        check_weights(weights, shape[0])
    if weights is not None:
        weights = float_array(weights, "weights")
    rows = data_model.as_rows(x)
    smoothing = _smoothing(smoothing, data_model, rows, weights)
    data_model = data_model.suited_to(rows, smoothing, weights)
    weights = float_array(np.ones(shape[0])) if weights is None else weights
    return Problem(data_model, smoothing, rows, weights)


def resolve_rows(problem: Problem, rows: DataLike | None) -> Problem:
    """Other rows with the problem's model and smoothing, of weight 1 each.

    Args:
        problem: Of the rows that a tree was made of.
        rows: Rows of the same kind; the problem's own if None.

    Raises:
        ValueError: If they do not fit, as `resolve` does.
    """
    model = problem.data_model
    if rows is None:
        rows = problem.rows
    else:
        check_table("rows", rows)
        if np.ndim(rows) < problem.rows.ndim and problem.rows.shape[1] != 1:
            raise ValueError(
                f"`rows` must have a row a point, as `x` does; got shape "
                f"{np.shape(rows)}. One point is rows[None]."
            )
        try:
            model.for_data(rows)
            model.check_support(rows)
        except ValueError as error:
            text = str(error).replace("`x`", "`rows`")
            raise ValueError(text) from None
        rows = model.as_rows(rows)
    ones = float_array(np.ones(np.shape(rows)[0]))
    return Problem(model, problem.smoothing, rows, ones)


def _data_model(family: FamilyLike) -> DataModel:
    if isinstance(family, str):
        return named_family(family)
    if isinstance(family, DataModel):
        return family
    if isinstance(family, type):
        raise TypeError(
            f"`family` must be an instance, such as {family.__name__}(); got the class."
        )
    if isinstance(family, ConvexFunction) or callable(family):
        return FunctionModel(as_convex_function(family))
    raise TypeError(
        "`family` must be a family, its name, or a convex function; got "
        f"{type(family).__name__}."
    )


def _smoothing(
    smoothing: StatisticMap | str | None,
    data_model: DataModel,
    rows: Array,
    weights: Array | None,
) -> StatisticMap | None:
    if smoothing is None:
        return None
    if isinstance(smoothing, StatisticMap):
        check_center(smoothing, data_model, rows)
        return smoothing
    if isinstance(smoothing, str) and smoothing == "auto":
        return data_model.default_smoothing(rows, weights)
    raise TypeError(
        '`smoothing` must be "auto", None or a smoothing map such as '
        f"normal_reference(x); got {smoothing!r}."
    )


@contextlib.contextmanager
def precision(problem: Any) -> Iterator[None]:
    """Compute with values where they are known; in float64 on a CPU.

    Where some are not: as the caller has it. Known values stay known inside a caller's
    `jit`, of which they are constants.
    """
    with contextlib.ExitStack() as stack:
        if is_concrete(problem):
            stack.enter_context(known_values())
            if jax.default_backend() == "cpu":
                stack.enter_context(jax.enable_x64(True))
        yield


def working_copy(tree: PyTree) -> PyTree:
    """Floating leaves in full precision: `jit` rounds them to what the mode allows.

    Concrete ones as NumPy arrays, so that nothing compiles outside the jitted cores;
    traced ones as JAX arrays of the caller's precision.
    """
    concrete = is_concrete(tree)

    def convert(leaf):
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            return np.asarray(leaf) if concrete else jnp.asarray(leaf)
        return float_array(leaf) if concrete else jnp.asarray(leaf, dtype=float)

    return jax.tree.map(convert, tree)


def evaluate(core: Callable[..., PyTree], *args: PyTree, **static: Hashable) -> PyTree:
    """`core(*args, **static)`; in float64 if all is concrete and on a CPU.

    Compiled as one program; in steps, as the core has them, where costs are solved for
    (see `ClusterModel.solves`). Concrete rows without a finite cost are refused.

    Args:
        core: A module-level function of pytrees, pure.
        *args: The problem of `x`, perhaps one of `rows`, and arrays.
        **static: What shapes depend on.

    Returns:
        NumPy arrays when everything is concrete, else JAX's.

    Raises:
        ValueError: At the first row without a finite cost.
    """
    problems = [arg for arg in args if isinstance(arg, Problem)]
    run = functools.partial(core, **static)
    if not any(problem.data_model.cluster_model().solves for problem in problems):
        run = _compiled(core, **static)
    if not is_concrete(args):
        return run(*working_copy(args))
    with precision(args):
        args = working_copy(args)
        # A program of its own, run first: beside another's factorisations those of the
        # leaves could lock up a CPU.
        problems = [arg for arg in args if isinstance(arg, Problem)]
        for name, problem in zip(("x", "rows"), problems, strict=False):
            check_leaves(np.asarray(leaf_codes(problem)), problem, name=name)
        return jax.tree.map(np.asarray, run(*args))


@functools.cache
def _compiled(core: Callable[..., PyTree], **static: Hashable) -> Callable[..., PyTree]:
    return jax.jit(functools.partial(core, **static))


def leaf_codes(problem: Problem) -> Array:
    """Result codes of the leaves, `[m]`."""
    model = problem.data_model.cluster_model()
    return _codes(problem) if model.solves else _compiled_codes(problem)


def _codes(problem: Problem) -> Array:
    model, leaves = build_leaves(problem)
    return model.result(leaves)


_compiled_codes = jax.jit(_codes)


def padded(problem: Problem) -> Problem:
    """Rows repeated up to the next of eight sizes an octave: compilations go by size.

    At most an eighth more rows, and none below 16. For concrete problems.
    """
    m = problem.num_points
    step = 2 ** max(int(np.floor(np.log2(m))) - 3, 0)
    extra = -(-m // step) * step - m
    grow = lambda a: np.concatenate([a, np.repeat(a[-1:], extra, axis=0)])
    return Problem(
        problem.data_model,
        problem.smoothing,
        grow(problem.rows),  # pyright: ignore[reportArgumentType]
        grow(problem.weights),  # pyright: ignore[reportArgumentType]
    )


def build_leaves(problem: Problem) -> tuple[ClusterModel, PyTree]:
    """The cluster model and the states of its leaves, smoothed."""
    model = problem.data_model.cluster_model()
    return model, model.leaves(*smoothed_statistics(problem))


@jax.jit
def smoothed_statistics(problem: Problem) -> tuple[PyTree, Array]:
    """Statistics `[m, ...]` and weights `[m]` of the rows, as smoothed."""
    statistics = problem.data_model.leaf_statistics(problem.rows)
    if problem.smoothing is None:
        return statistics, problem.weights
    return problem.smoothing(statistics, problem.weights)


def equal_rows(problem: Problem) -> np.ndarray:
    """Numbers of rows, equal only where rows and weights are, `[m]`.

    By a hash of the bits, then compared with the first row of that hash.
    """
    rows = np.asarray(problem.rows, float).reshape(problem.num_points, -1)
    table = np.column_stack([rows, np.asarray(problem.weights, float)]) + 0.0  # no −0
    bits = table.view(np.uint64)
    factors = np.random.default_rng(0).integers(0, 2**63, bits.shape[1], np.uint64)
    hashes = np.sum((bits ^ (bits >> 29)) * (2 * factors + 1), axis=1)
    _, first, label = np.unique(hashes, return_index=True, return_inverse=True)
    same = np.all(table == table[first[label]], axis=1)
    return np.where(same, label, len(first) + np.arange(len(table)))


def check_leaves(codes: DataLike, problem: Problem, *, name: str = "x") -> None:
    """Raise ValueError at the first row whose cluster has no finite cost."""
    bad = np.flatnonzero(np.asarray(codes) != Result.CONVERGED)
    if not len(bad):
        return
    model = type(problem.data_model).__name__
    code = Result(int(np.asarray(codes)[bad[0]]))
    fault = range_fault(problem.rows, jnp.result_type(float))
    if fault:
        raise ValueError(
            f"`{name}` has {len(bad)} of {len(np.asarray(codes))} rows without a finite"
            f" cost under {model}, from row {bad[0]} on. {fault}"
        )
    smoothed = "as smoothed" if problem.smoothing is not None else "unsmoothed"
    row = np.array2string(np.asarray(problem.rows[bad[0]]), threshold=8, edgeitems=3)
    usual = f"{code.sentence} {problem.data_model.smoothing_hint}."
    raise ValueError(
        f"`{name}` has {len(bad)} of {len(np.asarray(codes))} rows, {smoothed}, "
        f"without a finite cost under {model}; the first is row {bad[0]}, {row} "
        f"({code.name}). {_explanation(problem) or usual}"
    )


def _explanation(problem: Problem) -> str:
    """What is wrong with a ψ of the user's own, "" if nothing that is quick to see."""
    if not isinstance(problem.data_model, Family):
        return ""
    return explain_failure(problem.data_model, problem.rows) or ""


def check_costs(costs: DataLike, children: DataLike, problem: Problem) -> None:
    """Raise ArithmeticError at the first merge cost that could not be computed."""
    costs = np.asarray(costs)
    bad = np.flatnonzero(~np.isfinite(costs))
    smallest = jnp.finfo(costs.dtype).tiny
    if len(bad) or np.max(costs, initial=1e6 * smallest) <= 1e6 * smallest:
        # Costs of 0 are right where all rows are equal, and no fault is found there.
        fault = range_fault(problem.rows, costs.dtype)
        if fault:
            raise ArithmeticError(f"Merge costs could not be computed. {fault}")
    if len(bad):
        pair = tuple(int(node) for node in np.asarray(children)[bad[0]])
        usual = (
            "`family.check(x)` tells more; smoothing or rescaling the statistics may "
            "help."
        )
        raise ArithmeticError(
            f"{len(bad)} of {len(costs)} merge costs could not be "
            f"computed, the first that of nodes {pair}: the conjugate of "
            f"{type(problem.data_model).__name__} did not converge on their union. "
            f"{_explanation(problem) or usual}"
        )

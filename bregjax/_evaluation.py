"""Where computation begins: precision, padding, compiled cores, and their checks."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import (
    float_array,
    is_concrete,
    known_values,
    on_host,
    works_in_double,
)
from bregjax._columns import in_blocks, sparse_codes
from bregjax._inputs import range_fault
from bregjax._problem import Problem, unchecked
from bregjax._programs import Program, program
from bregjax._result import Result
from bregjax._sparse_rows import SparseRows, equal_sparse_rows
from bregjax._typing import Array, DataLike, PyTree
from bregjax.clusters import ClusterModel
from bregjax.families import Family
from bregjax.families._explain import explain_failure

Tree = TypeVar("Tree")

# Numbers that rows are compared by at a time.
_AT_ONCE = 2**18

__all__ = [
    "build_leaves",
    "check_costs",
    "check_leaves",
    "equal_points",
    "equal_rows",
    "evaluate",
    "leaf_codes",
    "padded",
    "padded_if_sparse",
    "padded_size",
    "smoothed_statistics",
    "working",
    "working_copy",
]


@contextlib.contextmanager
def working(tree: Tree) -> Iterator[Tree]:
    """Give a copy of a pytree to compute with, in the precision of the work.

    Of known values: float64 on a CPU, whatever the caller's mode, and what is computed
    stays known inside a caller's `jit`, of whose program it is a constant. Where some
    values are unknown: as the caller has it.
    """
    with contextlib.ExitStack() as stack:
        if is_concrete(tree):
            stack.enter_context(known_values())
        if works_in_double(tree):
            stack.enter_context(on_host())
        yield working_copy(tree)


def working_copy(tree: Tree) -> Tree:
    """Return the pytree with floating leaves in the precision at hand.

    Known ones as NumPy arrays of float64, so that nothing compiles outside the jitted
    cores and `jit` rounds them to what the mode allows; traced ones as JAX arrays of
    the caller's precision.
    """
    concrete = is_concrete(tree)
    if isinstance(tree, Problem):
        # A copy of a problem that is checked needs no check.
        names = ("x", "family", "smoothing", "weights")
        copies = working_copy({name: getattr(tree, name) for name in names})
        return unchecked(tree, **copies)

    def convert(leaf):
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            return np.asarray(leaf) if concrete else jnp.asarray(leaf)
        return float_array(leaf) if concrete else jnp.asarray(leaf, dtype=float)

    return jax.tree.map(convert, tree)


def evaluate(
    core: Callable[..., PyTree],
    *args: PyTree,
    numbers: Sequence[np.ndarray] = (),
    in_steps: bool = False,
    **static: Hashable,
) -> PyTree:
    """`core(*args, **static)`; in float64 if all is concrete and on a CPU.

    Compiled as one program; in steps, as the core has them, where costs are solved for
    (see `ClusterModel.solves`). Concrete rows without a finite cost are refused.

    Args:
        core: A module-level function of pytrees, pure.
        *args: The problem of `x`, perhaps one of `rows`, and arrays.
        numbers: Where the problems are parts of `x`: the numbers of their rows.
        in_steps: Whether the core is made of programs, some of which serve again where
            the whole would be compiled anew, for other numbers of clusters, say.
        **static: What shapes depend on.

    Returns:
        NumPy arrays when everything is concrete, else JAX's.

    Raises:
        ValueError: At the first row without a finite cost.
    """
    problems = [arg for arg in args if isinstance(arg, Problem)]
    solves = any(problem.family.cluster_model().solves for problem in problems)
    whole = functools.partial(core if solves else _program(core), **static)
    if not is_concrete(args):
        return whole(*_sparse_in_blocks(working_copy(args)))
    with working(args) as args:
        # A program of its own, run first: beside another's factorisations those of the
        # leaves could lock up a CPU.
        problems = [arg for arg in args if isinstance(arg, Problem)]
        names = ("x",) * len(numbers) or ("x", "rows")
        places = itertools.chain(numbers, itertools.repeat(None))
        for name, problem, place in zip(names, problems, places, strict=False):
            check_leaves(leaf_codes(problem), problem, name=name, numbers=place)
        args = _sparse_in_blocks(args)
        if in_steps and not solves and not _program(core).is_quick(*args, **static):
            whole = functools.partial(core, **static)
        return jax.tree.map(np.asarray, whole(*args))


def _sparse_in_blocks(args: PyTree) -> PyTree:
    """Arguments with the columns of sparse rows in blocks; see `_columns`."""
    problems = [arg for arg in args if isinstance(arg, Problem)]
    if not problems or not isinstance(problems[0].x, SparseRows):
        return args
    return in_blocks(args, problems[0])


@functools.cache
def _program(core: Callable[..., PyTree]) -> Program:
    return program(core)


def leaf_codes(problem: Problem) -> Array:
    """Result codes of the leaves, `[m]`."""
    if isinstance(problem.x, SparseRows):
        return sparse_codes(problem)
    model = problem.family.cluster_model()
    return _codes(problem) if model.solves else _codes_by_program(problem)


def _codes(problem: Problem) -> Array:
    model, leaves = build_leaves(problem)
    return model.result(leaves)


_codes_by_program = program(_codes)


def padded(problem: Problem) -> Problem:
    """Rows repeated up to the next of eight sizes an octave: compilations go by size.

    At most an eighth more rows, and none below 16. For concrete problems.
    """
    m = problem.num_points
    numbers = np.minimum(np.arange(padded_size(m)), m - 1)
    x, weights = problem.x[numbers], np.asarray(problem.weights)[numbers]
    return unchecked(problem, x=x, weights=weights)


def padded_if_sparse(problem: Problem) -> Problem:
    """Known sparse rows, padded, the rows that fill up with weight 0; others as is."""
    if not isinstance(problem.x, SparseRows) or not is_concrete(problem):
        return problem
    more = padded(problem)
    there = np.arange(more.num_points) < problem.num_points
    return unchecked(more, weights=np.where(there, more.weights, 0))


def padded_size(size: int) -> int:
    """The next of eight sizes an octave."""
    step = 2 ** max(int(np.floor(np.log2(size))) - 3, 0)
    return -(-size // step) * step


def build_leaves(problem: Problem) -> tuple[ClusterModel, PyTree]:
    """The cluster model and the states of its leaves, smoothed."""
    model = problem.family.cluster_model()
    statistics, weights = smoothed_statistics(problem)
    make = model.leaves if model.solves else functools.partial(_leaves, model)
    return model, make(statistics, weights)


@program
def _leaves(model: ClusterModel, statistics: PyTree, weights: Array) -> PyTree:
    return model.leaves(statistics, weights)


@program
def smoothed_statistics(problem: Problem) -> tuple[PyTree, Array]:
    """Statistics `[m, ...]` and weights `[m]` of the rows, as smoothed."""
    statistics = problem.family.leaf_statistics(problem.x)
    if problem.smoothing is None:
        return statistics, problem.weights
    return problem.smoothing(statistics, problem.weights)


def equal_rows(problem: Problem) -> np.ndarray:
    """Numbers of rows, equal only where rows and weights are, `[m]`.

    Under pseudo-counts equal rows of other weights are other points.
    """
    if isinstance(problem.x, SparseRows):
        return equal_sparse_rows(problem.x, np.asarray(problem.weights, float))
    rows = np.asarray(problem.x, float).reshape(problem.num_points, -1)
    return equal_points(rows, np.asarray(problem.weights, float))


def equal_points(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Numbers of rows `[m, n]`, equal only where rows and weights are, `[m]`.

    The number of a row is the place of the first that is equal. By a hash of the bits,
    then compared with the first row of that hash; beyond m where these differ.
    """
    m = len(rows)
    factors = np.random.default_rng(0).integers(0, 2**63, rows.shape[1] + 1, np.uint64)

    def bits_of(part: np.ndarray) -> np.ndarray:
        # Bits, as cells that are missing are equal to each other.
        return (np.column_stack([rows[part], weights[part]]) + 0.0).view(np.uint64)

    hashes, same = np.empty(m, np.uint64), np.empty(m, bool)
    # A few megabytes at a time, as rows may fill most of the memory.
    parts = np.array_split(np.arange(m), -(-rows.size // _AT_ONCE))
    for part in parts:
        bits = bits_of(part)
        hashes[part] = np.sum((bits ^ (bits >> 29)) * (2 * factors + 1), axis=1)
    _, first, label = np.unique(hashes, return_index=True, return_inverse=True)
    for part in parts:
        same[part] = np.all(bits_of(part) == bits_of(first[label[part]]), axis=1)
    return np.where(same, first[label], m + np.arange(m))


def check_leaves(
    codes: DataLike,
    problem: Problem,
    *,
    name: str = "x",
    numbers: np.ndarray | None = None,
) -> None:
    """Raise ValueError at the first row whose cluster has no finite cost.

    Args:
        codes: Result codes of the leaves, `[m]`.
        problem: Of the rows.
        name: What the rows are called.
        numbers: Their numbers there, `[m]`; 0, 1, … if None.
    """
    codes = np.asarray(codes)
    bad = np.flatnonzero(codes != Result.CONVERGED)
    if not len(bad):
        return
    family = type(problem.family).__name__
    code = Result(int(codes[bad[0]]))
    number = bad[0] if numbers is None else numbers[bad[0]]
    fault = range_fault(problem.x, jnp.result_type(float))
    if fault:
        raise ValueError(
            f"`{name}` has {len(bad)} of {len(codes)} rows without a finite cost under "
            f"{family}, from row {number} on. {fault}"
        )
    smoothed = "as smoothed" if problem.smoothing is not None else "unsmoothed"
    row = problem.x[bad[:1]]
    row = row.toarray() if isinstance(row, SparseRows) else row
    row = np.array2string(np.asarray(row)[0], threshold=8, edgeitems=3)
    usual = f"{code.sentence} {problem.family.smoothing_hint}."
    raise ValueError(
        f"`{name}` has {len(bad)} of {len(codes)} rows, {smoothed}, without a finite "
        f"cost under {family}; the first is row {number}, {row} ({code.name}). "
        f"{_explanation(problem) or usual}"
    )


def _explanation(problem: Problem) -> str:
    """What is wrong with a ψ of the user's own, "" if nothing that is quick to see."""
    if not isinstance(problem.family, Family):
        return ""
    return explain_failure(problem.family, problem.x) or ""


def check_costs(costs: DataLike, children: DataLike, problem: Problem) -> None:
    """Raise ArithmeticError at the first merge cost that could not be computed.

    ValueError where the numbers of the rows are at fault: some engines find that by the
    costs of rows, others by those of merges.
    """
    costs = np.asarray(costs)
    bad = np.flatnonzero(~np.isfinite(costs))
    smallest = jnp.finfo(costs.dtype).tiny
    if len(bad) or np.max(costs, initial=1e6 * smallest) <= 1e6 * smallest:
        # Costs of 0 are right where all rows are equal, and no fault is found there.
        fault = range_fault(problem.x, costs.dtype)
        if fault:
            raise ValueError(f"Merge costs could not be computed. {fault}")
    if len(bad):
        pair = tuple(int(node) for node in np.asarray(children)[bad[0]])
        usual = (
            "`family.check(x)` says more; smoothing or rescaling the statistics may "
            "help."
        )
        raise ArithmeticError(
            f"{len(bad)} of {len(costs)} merge costs could not be "
            f"computed, the first that of nodes {pair}: the conjugate of "
            f"{type(problem.family).__name__} did not converge on their union. "
            f"{_explanation(problem) or usual}"
        )

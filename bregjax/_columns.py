"""Sums over the columns of sparse rows, a block of columns at a time.

Costs and divergences of the families that take sparse rows are sums over columns. So a
function of dense problems that is such a sum is one of sparse problems too: their
columns are dealt out to blocks, each block is made dense, `[m, b]`, and the results are
added up in one compiled loop. Reverse mode makes each block dense a second time.

Columns in which no row has an entry lie at the floor that smoothing gives them, in all
clusters alike, and cost nothing; blocks leave them out. Only entropies allow of floors
that differ (pseudo-counts with weights that differ); such columns then count as one,
whose center is the sum of theirs, which is exact. Divergences from a floor to 0 are
the same for all clusters: `idle_divergence` adds them up.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import is_concrete, on_host
from bregjax._column_parameters import as_rows, in_columns
from bregjax._geometry import FunctionGeometry
from bregjax._problem import Problem, unchecked
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array, PyTree
from bregjax.clusters import BregmanModel, MeanState
from bregjax.clusters._bregman_model import divergences_from
from bregjax.convex import ConvexFunction, NegativeEntropy
from bregjax.smoothing._maps import CenteredMap, PseudoCount

__all__ = [
    "ColumnBlocks",
    "by_columns",
    "idle_divergence",
    "in_blocks",
    "sparse_codes",
    "undivided",
]

# Numbers in a block made dense, 8 MiB in float64.
_BLOCK_ENTRIES = 2**20
# Room for entries in a block, and for idle columns, at least, so that few rows share
# what compiles.
_FEW_ENTRIES, _FEW_IDLE = 2**10, 2**4


@register_pytree
@dataclass(frozen=True)
class ColumnBlocks:
    """Sparse rows, their entries sorted into blocks of columns.

    All blocks have room for as many entries as the fullest; an entry of 0 fills it up.

    Attributes:
        values: `[blocks, e]`.
        rows: The row of each entry, `[blocks, e]`.
        places: The column of each entry by its place in the block, `[blocks, e]`.
        columns: The numbers of the columns of each block, `[blocks, b]`; d stands for
            the sum of all in which no row has an entry, d + 1 for none.
        idle: The columns in which no row has an entry; d + 1 fills up.
        shape: `(m, d)`.
    """

    values: Array
    rows: Array
    places: Array
    columns: Array
    idle: Array
    shape: tuple[int, int] = jax.tree.static()

    def by_totals(self) -> Self:
        """Each row divided by its sum."""
        totals = jnp.zeros(self.shape[0], self.values.dtype)
        totals = totals.at[self.rows].add(self.values)
        return dataclasses.replace(self, values=self.values / totals[self.rows])

    def sums(self, terms: Array) -> Array:
        """Sums of a number for each entry over the entries of each row, `[m]`."""
        return jnp.zeros(self.shape[0], terms.dtype).at[self.rows].add(terms)


def in_blocks(args: PyTree, problem: Problem) -> PyTree:
    """Replace all sparse rows in a pytree by blocks of the same columns.

    Args:
        args: Problems, rows and arrays.
        problem: The problem among them, which says by its function and its smoothing
            which columns count.
    """
    is_rows = lambda node: isinstance(node, SparseRows)
    tables = [leaf for leaf in jax.tree.leaves(args, is_leaf=is_rows) if is_rows(leaf)]
    if not tables:
        return args
    used = np.unique(np.concatenate([table.pattern.columns for table in tables]))
    d = tables[0].shape[1]
    entropic = isinstance(_function(problem), NegativeEntropy)
    # Where weights differ, or are traced and may, so do floors, in idle columns too.
    moves = isinstance(problem.smoothing, PseudoCount) and not entropic
    if moves and not _weigh_alike(args):
        used = np.arange(d)
    idle = np.setdiff1d(np.arange(d), used)
    if len(idle) and entropic:
        used = np.append(used, d)
    filled = np.full(_rounded(max(len(idle), _FEW_IDLE)) if len(idle) else 0, d + 1)
    filled[: len(idle)] = idle
    idle = filled
    columns = _dealt(used, d, sum(table.shape[0] for table in tables))
    convert = lambda node: _blocks(node, columns, idle) if is_rows(node) else node
    return jax.tree.map(convert, args, is_leaf=is_rows)


def _weigh_alike(args: PyTree) -> bool:
    """Whether the rows of all problems in a pytree are known to have one weight."""
    is_problem = lambda node: isinstance(node, Problem)
    nodes = jax.tree.leaves(args, is_leaf=is_problem)
    weights = [node.weights for node in nodes if is_problem(node)]
    return is_concrete(weights) and np.ptp(np.concatenate(weights)) == 0


def _dealt(used: np.ndarray, d: int, num_rows: int) -> np.ndarray:
    """Columns dealt out to blocks like cards, so that none has many full ones."""
    width = max(_BLOCK_ENTRIES // max(num_rows, 1), 1)
    blocks = max(-(-len(used) // width), 1)
    width = _rounded(max(-(-len(used) // blocks), 1))
    filled = np.full(blocks * width, d + 1, np.int32)
    filled[: len(used)] = used
    return filled.reshape(width, blocks).T


def _blocks(table: SparseRows, columns: np.ndarray, idle: np.ndarray) -> ColumnBlocks:
    pattern = table.pattern
    blocks, width = columns.shape
    block_of = np.zeros(pattern.shape[1] + 2, np.int64)
    place_of = np.zeros_like(block_of)
    block_of[columns] = np.arange(blocks)[:, None]
    place_of[columns] = np.arange(width)
    block = block_of[pattern.columns]
    order = np.argsort(block, kind="stable")
    counts = np.bincount(block, minlength=blocks)
    size = _rounded(max(int(np.max(counts, initial=0)), _FEW_ENTRIES))
    first = np.cumsum(counts) - counts
    target = np.repeat(np.arange(blocks) * size - first, counts) + np.arange(len(order))
    # The number one past the last stands for an entry of 0.
    source = np.full(blocks * size, len(order))
    source[target] = order
    filled = lambda of: np.append(of, 0)[source].reshape(blocks, size).astype(np.int32)
    xp = np if isinstance(table.values, np.ndarray) else jnp
    values = xp.append(table.values, xp.zeros(1, table.values.dtype))[source]
    arrays: dict[str, Any] = {
        "values": values.reshape(blocks, size),
        "rows": filled(pattern.rows),
        "places": filled(place_of[pattern.columns]),
        "columns": columns,
        "idle": idle.astype(np.int32),
    }
    return ColumnBlocks(**arrays, shape=pattern.shape)


def _rounded(size: int) -> int:
    """The next of eight sizes an octave: compilations go by size."""
    step = 2 ** max(int(np.floor(np.log2(max(size, 1)))) - 3, 0)
    return -(-size // step) * step


def by_columns(
    stage: Callable[..., PyTree], problem: Problem, *others: Problem | Array
) -> PyTree:
    """`stage(problem, *others)`, summed over blocks of columns where rows are sparse.

    Args:
        stage: A function of dense problems that is a sum over columns.
        problem: Of dense rows, or of blocks.
        *others: Problems of the same columns, family and smoothing, or rows. The rows
            that the stage is given are statistics where they are in blocks.
    """
    if not isinstance(problem.x, ColumnBlocks):
        return stage(problem, *others)
    blocks, dense = _split(problem, *others)

    @jax.checkpoint
    def part(block: list[Array]) -> PyTree:
        return stage(*dense(block))

    first = jax.tree.map(lambda leaf: leaf[0], blocks)
    total = jax.tree.map(
        lambda like: jnp.zeros(like.shape, like.dtype), jax.eval_shape(part, first)
    )
    add = lambda total, block: (jax.tree.map(jnp.add, total, part(block)), None)
    return jax.lax.scan(add, total, blocks)[0]


def undivided(problem: Problem) -> Problem:
    """The dense problem of all columns that count, for what is no sum over columns.

    Memory goes with rows times columns. Of a problem of dense rows that problem.
    """
    if not isinstance(problem.x, ColumnBlocks):
        return problem
    rows: Any = problem.x
    blocks, width = rows.columns.shape
    places = rows.places + width * jnp.arange(blocks)[:, None]
    flat = {
        "values": rows.values.reshape(1, -1),
        "rows": rows.rows.reshape(1, -1),
        "places": places.reshape(1, -1),
        "columns": rows.columns.reshape(1, -1),
    }
    one: Any = dataclasses.replace(rows, **flat)
    block, dense = _split(unchecked(problem, x=one))
    return dense([leaf[0] for leaf in block])[0]


def _split(
    *given: Problem | Array,
) -> tuple[list[Array], Callable[[list[Array]], list[Any]]]:
    """Arrays of all blocks, and what makes dense problems and rows of one of them.

    Args:
        *given: Problems and rows in blocks, a problem first.
    """
    problem: Any = given[0]
    tables: list[ColumnBlocks]
    rows: list[Any] = [each.x if isinstance(each, Problem) else each for each in given]
    tables = [problem.family.sparse_statistics(each) for each in rows]
    function, center = _function(problem), _center(problem)

    def dense(block: list[Array]) -> list[Any]:
        columns, *entries = block
        model = FunctionGeometry(in_columns(function, columns))
        smoothing: Any = problem.smoothing
        if center is not None:
            smoothing = dataclasses.replace(smoothing, center=center[columns])
        found = []
        for k, each in enumerate(given):
            values, row, place = entries[3 * k : 3 * k + 3]
            x = jnp.zeros((tables[k].shape[0], columns.shape[0]), values.dtype)
            x = x.at[row, place].add(values)
            if isinstance(each, Problem):
                x = unchecked(each, x=x, family=model, smoothing=smoothing)
            found.append(x)
        return found

    blocks = [problem.x.columns]
    for table in tables:
        blocks += [table.values, table.rows, table.places]
    return blocks, dense


def idle_divergence(problem: Problem) -> Array:
    """Σ B_f(0, floor) over columns without entries, less what blocks have of that.

    The same for all clusters. Blocks of entropies have these columns as one, others
    leave them out; what fills blocks up is to be taken off.
    """
    rows: Any = problem.x
    function, center = _function(problem), _center(problem)
    if center is None:
        return jnp.zeros(())
    filling = rows.columns.ravel()
    found = -_divergence_of_floors(problem, filling, filling == rows.shape[1] + 1)
    if not isinstance(function, NegativeEntropy):
        found = found + _divergence_of_floors(
            problem, rows.idle, rows.idle < rows.shape[1]
        )
    return found


def _divergence_of_floors(problem: Problem, columns: Array, counts: Array) -> Array:
    """Σ B_f(0, floor) over those of some columns that count."""
    rows: Any = problem.x
    if not columns.shape[0]:
        return jnp.zeros(())
    center: Any = _center(problem)
    smoothing: Any = problem.smoothing
    # A floor of 0, where the divergence is 0, for columns that do not count.
    smoothing = dataclasses.replace(
        smoothing, center=jnp.where(counts, center[columns], 0)
    )
    zeros = jnp.zeros((1, columns.shape[0]), rows.values.dtype)
    floor, _ = smoothing(zeros, problem.weights[:1])
    chosen = in_columns(_function(problem), columns)
    return divergences_from(chosen, zeros[0], floor)[0]


def _function(problem: Problem) -> ConvexFunction:
    model: Any = problem.family.cluster_model()
    return model.function


def _center(problem: Problem) -> Array | None:
    """The center of the smoothing, then the sum of its idle columns, then a filling.

    What fills blocks up lies at the floor of column 0, inside the domain, if all
    clusters have the same floors; else at 0, so that it costs nothing either way.
    """
    if not isinstance(problem.smoothing, CenteredMap):
        return None
    rows: Any = problem.x
    d = rows.shape[1]
    center = jnp.broadcast_to(jnp.asarray(problem.smoothing.center), (d,))
    rest = jnp.sum(jnp.where(rows.idle < d, center[jnp.minimum(rows.idle, d - 1)], 0))
    filling = center[0] * (not isinstance(problem.smoothing, PseudoCount))
    return jnp.concatenate([center, rest[None], filling[None]])


def sparse_codes(problem: Problem) -> Array:
    """Result codes of sparse rows as leaves, `[m]`, of known values.

    The first code of an entry, as smoothed, that is not CONVERGED; and of floors, for
    all rows.
    """
    table: Any = problem.x
    rows: SparseRows = problem.family.sparse_statistics(table)
    m, d = rows.shape
    weights = np.asarray(problem.weights)
    codes = np.full(m, int(Result.CONVERGED))
    every = np.arange(d)
    floors = _codes_of_entries(problem, np.zeros(d), every, np.full(d, weights[0]))
    wrong = floors != Result.CONVERGED
    if np.any(wrong):
        codes[:] = floors[np.argmax(wrong)]
    values, place = np.asarray(rows.values), rows.pattern.rows
    found = _codes_of_entries(problem, values, rows.pattern.columns, weights[place])
    wrong = np.flatnonzero(found != Result.CONVERGED)[::-1]
    codes[place[wrong]] = found[wrong]
    return codes  # pyright: ignore[reportReturnType]


# Entries that are looked at together, by one program for all tables.
_CHUNK = 2**15


def _codes_of_entries(
    problem: Problem, statistics: np.ndarray, columns: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Result codes of clusters of one entry each, `[e]`."""
    found = [np.zeros(0, int)]
    for start in range(0, len(columns), _CHUNK):
        run = slice(start, start + _CHUNK)
        extra = max(start + _CHUNK - len(columns), 0)
        there, values, sizes = (
            np.pad(part[run], (0, extra), "edge")
            for part in (columns, statistics, weights)
        )
        smoothing: Any = problem.smoothing
        if isinstance(smoothing, CenteredMap):
            center = np.broadcast_to(
                np.asarray(smoothing.center), (problem.x.shape[1],)
            )
            smoothing = dataclasses.replace(smoothing, center=center[there, None])
        function = as_rows(in_columns(_function(problem), there))
        with on_host():
            codes = np.asarray(_codes_of_rows(function, smoothing, values, sizes))
        found.append(codes[: _CHUNK - extra])
    return np.concatenate(found)


@jax.jit
def _codes_of_rows(
    function: ConvexFunction, smoothing: Any, statistics: Array, weights: Array
) -> Array:
    rows = statistics[:, None]
    if smoothing is not None:
        rows, weights = smoothing(rows, weights)
    return BregmanModel(function).result(MeanState(weights, rows))

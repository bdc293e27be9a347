"""Why two clusters merged, and what sets a cluster apart: costs by column."""

from typing import Any, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import is_concrete
from bregjax._comparisons import ColumnCost, Comparison, Comparisons, Explanation
from bregjax._evaluation import working
from bregjax._inputs import is_missing
from bregjax._problem import Problem, check_problem
from bregjax._programs import program
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array, DataLike
from bregjax.clusters._averages import averages
from bregjax.clusters._block_statistics import (
    BlockStatistics,
    Group,
    averages_by_cell,
)
from bregjax.clusters._host_model import rows_of
from bregjax.families import Family, Product
from bregjax.families._blocks import FamilyBlock
from bregjax.families._summary import summarised
from bregjax.hierarchy import Dendrogram
from bregjax.hierarchy._provenance import check_same_problem
from bregjax.hierarchy._tree_costs import children_of
from bregjax.hierarchy._walk import members
from bregjax.smoothing import StatisticMap
from bregjax.smoothing._by_block import ByBlock

__all__ = ["compare_rows", "costs_of_cut", "explain", "explain_clusters"]


def explain(
    problem: Problem, tree: Dendrogram | DataLike, node: SupportsIndex
) -> Explanation:
    """Explain a node of a tree by column: why its parts merged, what sets it apart.

    The cost of a merge is a sum over columns, or blocks of columns with correlations:
    columns with small terms are where both parts are alike. Against the rest of the
    rows, large terms are what the cluster differs by.

    Args:
        problem: What the tree is of.
        tree: A dendrogram of the problem, or its children `[m − 1, 2]`.
        node: A leaf, from 0; a merge, from m; or from the end, −1 for the last merge.

    Returns:
        Two comparisons, with what each column is on both sides in the units of the
        data: mean ± standard deviation, a rate, a percentage, the largest shares.

    Raises:
        ValueError: If there is no such node, or the tree is of another problem.
        TypeError: Under `jit` or another transformation, or of sparse rows.

    Examples:
        >>> import bregjax as bj
        >>> table = {"visits": [2, 3, 9, 8], "smokes": [0, 1, 1, 1]}
        >>> problem = bj.Problem(table, family="auto")
        >>> tree = bj.agglomerate(problem)
        >>> found = bj.explain(problem, tree, -1)
        >>> print(bool(np.isclose(found.merge.cost, tree.merge_costs[-1])))
        True
    """
    problem = _known(problem)
    children = np.asarray(children_of(tree, problem.num_points))
    check_same_problem(tree, problem)
    m = problem.num_points
    number, count = int(node), m + len(children)
    number += count if number < 0 else 0
    if not 0 <= number < count:
        raise ValueError(
            f"`node` must be from 0 to {count - 1}, or from -1 back; got {int(node)}."
        )
    inside = np.zeros(m, bool)
    inside[members(children, number, m)] = True
    merge = None
    if number >= m:
        a, b = (members(children, int(part), m) for part in children[number - m])
        names = tuple(f"node {part}" for part in children[number - m])
        [merge] = _compared(problem, [(a, b)], [names])
    rest = None
    if not inside.all():
        sides = np.flatnonzero(inside), np.flatnonzero(~inside)
        [rest] = _compared(problem, [sides], [(f"node {number}", "rest")])
    return Explanation(number, merge, rest)


def explain_clusters(problem: Problem, labels: DataLike) -> Comparisons:
    """Compare each cluster with all other rows, by column.

    Args:
        problem: The rows.
        labels: The cluster of each, `[m]`, as `tree.cut` gives them.

    Returns:
        A list of a comparison for each cluster, in the order of their numbers, which
        prints them one below the other.

    Raises:
        ValueError: If there is not a label for each row, one is missing, or all are
            one.
        TypeError: As `explain`.

    Examples:
        >>> import bregjax as bj
        >>> problem = bj.Problem({"visits": [2, 3, 9]}, family="poisson")
        >>> print(bj.explain_clusters(problem, [0, 0, 1])[1])
        cluster 1 of 1 row, rest of 2 rows: 2.79 nats
          column  nats  share  cluster 1  rest
          visits  2.79  100%   9          2.5
    """
    problem = _known(problem)
    given = np.asarray(labels)
    if given.shape != (problem.num_points,):
        raise ValueError(
            f"`labels` must have one entry for each of the {problem.num_points} rows; "
            f"got shape {given.shape}."
        )
    missing = np.array([is_missing(label) for label in given.tolist()], bool)
    if missing.any():
        raise ValueError(
            f"`labels` must have a label for each row; got "
            f"{given[np.argmax(missing)]} at row {int(np.argmax(missing))}. Give such "
            "rows a cluster of their own."
        )
    numbers = np.unique(given)
    if len(numbers) < 2:
        raise ValueError("`labels` must have two clusters at least; got one.")
    pairs = [
        (np.flatnonzero(given == number), np.flatnonzero(given != number))
        for number in numbers
    ]
    names = [(f"cluster {k}", "rest") for k in numbers]
    return Comparisons(_compared(problem, pairs, names))


def costs_of_cut(problem: Problem, labels: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Names of columns, and by column what joining all clusters of a cut costs, `[d]`.

    Joined one after the other: the sum does not depend on the order.
    """
    numbers = np.unique(labels)
    pairs = [
        (np.flatnonzero(labels < number), np.flatnonzero(labels == number))
        for number in numbers[1:]
    ]
    found = _compared(problem, pairs, [("joined", "next")] * len(pairs))
    totals: dict[str, float] = {}
    for comparison in found:
        for column in comparison:
            totals[column.name] = totals.get(column.name, 0.0) + column.cost
    return list(totals), np.array(list(totals.values()))


def compare_rows(problem: Problem, first: DataLike, second: DataLike) -> Comparison:
    """Compare two sets of rows by column: what joining them would cost.

    Args:
        problem: The rows.
        first: Numbers of rows, or a boolean for each row.
        second: Other rows.

    Returns:
        The comparison. Its costs add up to `merge_cost(problem, first, second)`.

    Raises:
        ValueError: If a set is empty, has a row that is not there, or both share a row.
        TypeError: As `explain`.

    Examples:
        >>> import bregjax as bj
        >>> problem = bj.Problem({"visits": [2, 3, 9]}, family="poisson")
        >>> print(round(bj.compare_rows(problem, [0, 1], [2]).cost, 3))
        2.79
    """
    problem = _known(problem)
    sides = [
        _rows_named(name, side, problem.num_points)
        for name, side in (("first", first), ("second", second))
    ]
    both = np.intersect1d(sides[0], sides[1])
    if not all(map(len, sides)) or len(both):
        raise ValueError(
            "`first` and `second` must be sets of rows that share none; got "
            f"{len(sides[0])} and {len(sides[1])}, with {len(both)} in both."
        )
    return _compared(problem, [(sides[0], sides[1])], [("first", "second")])[0]


def _rows_named(name: str, given: DataLike, count: int) -> np.ndarray:
    """Numbers of rows, from numbers or from booleans."""
    rows = np.asarray(given)
    if rows.dtype == bool and rows.shape == (count,):
        return np.flatnonzero(rows)
    numbers = np.issubdtype(rows.dtype, np.integer) and rows.ndim == 1
    if not numbers or np.any((rows < 0) | (rows >= count)):
        raise ValueError(
            f"`{name}` must be numbers of rows from 0 to {count - 1}, or a boolean for "
            f"each row; got {np.array2string(rows, threshold=6)}."
        )
    return np.unique(rows)


def _known(problem: Problem) -> Problem:
    problem = check_problem(problem)
    if not is_concrete(problem):
        raise TypeError("`explain` reads values: call it outside jit, grad and vmap.")
    if isinstance(problem.x, SparseRows):
        raise TypeError(
            "`problem` must have dense rows to be explained; got sparse ones. Take "
            "some of the columns, x[:, columns].toarray()."
        )
    return problem


def _compared(
    problem: Problem, pairs: list[tuple[np.ndarray, np.ndarray]], names: list[Any]
) -> list[Comparison]:
    """Compare pairs of sets of rows, all in one program."""
    blocks, count = _blocks_of(problem), len(pairs)
    sides = np.zeros((2, count, problem.num_points))
    for number, (first, second) in enumerate(pairs):
        sides[0, number, first] = sides[1, number, second] = 1
    with working(problem) as work:
        # A few sizes for any number of pairs.
        filled = np.pad(sides, ((0, 0), (0, -count % 8), (0, 0)), "edge")
        members = jnp.asarray(filled * np.asarray(work.weights))
        found = _costs(work, blocks, _maps_of(problem), members)
    comparisons = []
    for number, pair in enumerate(pairs):
        scale, unshared = _scale(problem, sides[:, number])
        costs = [scale * of_block[number] for of_block in found]
        columns = _columns(problem, blocks, costs, pair)
        if unshared:
            columns = (ColumnCost((_NO_COLUMN,), unshared, (), ()), *columns)
        sizes = len(pair[0]), len(pair[1])
        comparisons.append(Comparison(columns, sizes, names[number]))
    return comparisons


def _columns(
    problem: Problem,
    blocks: list[FamilyBlock],
    costs: list[np.ndarray],
    pair: tuple[np.ndarray, np.ndarray],
) -> tuple[ColumnCost, ...]:
    """Costs with summaries of both sides, the largest first."""
    rows, weights = np.asarray(problem.x), np.asarray(problem.weights)
    labels = problem.columns
    columns = []
    for block, of_block in zip(blocks, costs, strict=True):
        names = tuple(labels[place] for place in block.places)
        sides = [
            tuple(
                summarised(block.family, k, rows[side, place], weights[side])
                for k, place in enumerate(block.places)
            )
            for side in pair
        ]
        if len(of_block) < len(names):
            columns.append(ColumnCost(names, float(np.sum(of_block)), *sides))
            continue
        for k, cost in enumerate(of_block):
            one = [(side[k],) for side in sides]
            columns.append(ColumnCost((names[k],), float(cost), *one))
    return tuple(sorted(columns, key=lambda column: -column.cost))


def _blocks_of(problem: Problem) -> list[FamilyBlock]:
    """The blocks of a problem, by cell where costs can be told by column."""
    family: Any = problem.family
    if isinstance(family, Product):
        return [block.told_by_column() for block in family.blocks()]
    d = problem.x.shape[1]
    ones: Any = np.ones(d)
    by_cell = isinstance(family, Family) and family.cells() is not None
    return [FamilyBlock(family, ones, ones, tuple(range(d)), by_cell)]


def _maps_of(problem: Problem) -> list[StatisticMap | None]:
    smoothing = problem.smoothing
    if isinstance(smoothing, ByBlock):
        return list(smoothing.maps)
    if isinstance(problem.family, Product):
        return [None] * len(problem.family.families)
    return [smoothing]


def _costs(
    problem: Problem,
    blocks: list[FamilyBlock],
    maps: list[StatisticMap | None],
    members: Array,
) -> list[np.ndarray]:
    """For each block the costs of joining pairs, by column `[p, d]` or whole `[p, 1]`.

    Args:
        problem: The rows.
        blocks: The blocks.
        maps: The smoothing of each.
        members: Weights of rows in the first and the second sets of pairs, `[2, p, m]`.
    """
    statistics = _statistics(problem, blocks, maps)
    closed = [b for b, block in enumerate(blocks) if not block.model().solves]
    chosen = lambda parts: [parts[b] for b in closed]
    found = _closed_costs(chosen(blocks), chosen(statistics), members)
    costs = dict(zip(closed, found, strict=True))
    return [
        np.asarray(costs[b]) if b in costs else _solved_costs(block, part, members)
        for b, (block, part) in enumerate(zip(blocks, statistics, strict=True))
    ]


@program
def _statistics(
    problem: Problem, blocks: list[FamilyBlock], maps: list[StatisticMap | None]
) -> tuple[BlockStatistics, ...]:
    """Statistics of each block, as smoothed, an entry for each number of its states."""
    every = tuple(block.statistics(problem.x) for block in blocks)
    every = ByBlock(tuple(maps))(every, problem.weights)[0]
    return tuple(
        Group((b,), (block.by_cell and block.form.doubles,)).joined(every)
        for b, block in enumerate(blocks)
    )


@program
def _closed_costs(
    blocks: list[FamilyBlock], statistics: list[BlockStatistics], members: Array
) -> list[Array]:
    """Costs of blocks whose costs have closed forms."""
    every, count = members.reshape(-1, members.shape[-1]), members.shape[1]
    costs = []
    for block, part in zip(blocks, statistics, strict=True):
        model = block.model()
        if block.by_cell:
            states = model.unions(part, every)
        else:
            states = model.unions(part.statistics, every * part.share[None])
        first = jax.tree.map(lambda leaf: leaf[:count], states)
        second = jax.tree.map(lambda leaf: leaf[count:], states)
        if block.by_cell:
            costs.append(block.form.costs(first, second))
        else:
            costs.append(model.merge_cost(first, second)[:, None])
    return costs


def _solved_costs(
    block: FamilyBlock, statistics: BlockStatistics, members: Array
) -> np.ndarray:
    """Costs of a block whose costs are solved for, many at a time."""
    every, count = members.reshape(-1, members.shape[-1]), members.shape[1]
    if block.by_cell:
        means, weights = _averages_by_cell(statistics, every)
    else:
        shared = every * jnp.asarray(statistics.share)[None]
        means, weights = averages(statistics.statistics, shared)
    host: Any = block.model().host()
    known = jax.tree.map(np.asarray, means)
    states = host.leaves(known, np.asarray(weights))
    first, second = (
        rows_of(states, part) for part in np.split(np.arange(2 * count), 2)
    )
    union = host.settle(host.pool(first, second))
    return host.costs_by_column(first, second, union).reshape(count, -1)


_averages_by_cell = program(averages_by_cell)


# What stands for a column where two sets of rows share none, and costs are scaled.
_NO_COLUMN = "no shared column"


def _scale(problem: Problem, sides: np.ndarray) -> tuple[float, float]:
    """The factor of costs per observed weight, and what the lack of a column costs."""
    family = problem.family
    if not isinstance(family, Product) or family.layout.missing != "scaled":
        return 1.0, 0.0
    counts = np.ones(len(family.names))
    if family.weights is not None:
        counts = np.asarray(family.weights)
    weight = np.asarray(problem.weights) * sides
    seen = (weight @ ~np.isnan(np.asarray(problem.x))) * counts
    whole = counts.sum() * _harmonic(*weight.sum(axis=1))
    shared = _harmonic(*seen).sum()
    if shared:
        return float(whole / shared), 0.0
    return 1.0, float(whole * np.asarray(family.average))


def _harmonic(a: Any, b: Any) -> Any:
    total = a + b
    return a * b / np.where(total > 0, total, 1)

"""How well the data support each cluster of a tree: resampled columns or points."""

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import as_key, is_concrete
from bregjax._evaluation import (
    build_leaves,
    check_leaves,
    evaluate,
    leaf_codes,
    working,
)
from bregjax._problem import Problem, check_problem, unchecked
from bregjax._progress import progress_shown
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array, ArrayLike, DataLike, PyTree
from bregjax.hierarchy import Dendrogram, agglomerate
from bregjax.hierarchy._search import take
from bregjax.hierarchy._steps import merge_costs
from bregjax.hierarchy._tree_costs import children_of

__all__ = [
    "Reference",
    "Resampled",
    "occurrences",
    "of_columns",
    "reference_of",
    "support_values",
]

Resampled = Literal["columns", "points"]

# Costs that the trees of one batch keep, 256 MiB in float64; trees of more points than
# this, and those whose costs are solved for, are made one at a time.
_BATCH_ENTRIES = 2**25
_MANY_POINTS = 2_000


def support_values(
    problem: Problem,
    tree: Dendrogram | DataLike,
    *,
    resampled: Resampled,
    num_replicates: int = 100,
    key: ArrayLike = 0,
    progress: bool = False,
) -> np.ndarray:
    """In what share of resampled trees each cluster of a tree occurs again.

    A cluster occurs where some node of the other tree has exactly its leaves.
    "columns" draws as many columns as there are with replacement, for families whose
    costs are sums over columns: what R's pvclust calls bootstrap probabilities.
    "points" gives the rows weights from a flat Dirichlet distribution, all positive, so
    that no row is lost: the Bayesian bootstrap. Replicates are clustered many at once,
    with the smoothing of the whole (its columns drawn along), and without constraints,
    even if the tree was made under some.

    Args:
        problem: Data, family, smoothing and weights.
        tree: The reference tree or forest over its rows, or the children `[m − 1, 2]`
            of one tree.
        resampled: "columns" or "points".
        num_replicates: The number of resampled trees. A share p of r of them is good to
            √(p(1 − p)/r).
        key: A JAX key, or an integer.
        progress: Show a bar of the replicates (needs tqdm).

    Returns:
        Shares in [0, 1], a merge each, float64 `[t]`; the last of one tree is 1.

    Raises:
        ValueError: If the family's costs are no sums over alike columns and those are
            to be drawn, the tree does not fit, or as `agglomerate` does.
        TypeError: Under `jit` or another transformation.

    Examples:
        >>> x = [[0.0, 0.1], [0.2, 0.0], [5.0, 5.1], [5.2, 5.0]]
        >>> problem = Problem(x, family="ward")
        >>> tree = agglomerate(problem)
        >>> print(support_values(problem, tree, resampled="points", num_replicates=8))
        [1. 1. 1.]

    References:
        Suzuki, Shimodaira (2006), Pvclust; Rubin (1981), The Bayesian bootstrap.
    """
    problem, reference = reference_of(problem, tree, resampled, num_replicates, key)
    draw = _with_columns if resampled == "columns" else _with_weights
    keys = jax.random.split(as_key(key), num_replicates)
    alike = np.zeros(num_replicates, int)
    found = occurrences(problem, reference, draw, keys, alike, progress=progress)
    return found[:, 0] / num_replicates


class Reference(NamedTuple):
    """The clusters that are looked for, by codes of their leaves.

    Attributes:
        codes: Of clusters, `[t]`.
        leaf_codes: Random numbers of the leaves, `[m]`; a cluster has their sum.
    """

    codes: np.ndarray
    leaf_codes: np.ndarray


def reference_of(
    problem: Problem,
    tree: Dendrogram | DataLike,
    resampled: Resampled,
    num_replicates: int,
    key: ArrayLike,
) -> tuple[Problem, Reference]:
    """The problem and the clusters of a tree, checked; see `support_values`."""
    problem = check_problem(problem)
    m = problem.num_points
    children = children_of(tree, m)
    if not is_concrete((problem, children, key)):
        raise TypeError("Support loops on the host: call it outside jit.")
    if resampled not in get_args(Resampled):
        raise ValueError(
            f"`resampled` must be one of {list(get_args(Resampled))}; got "
            f"{resampled!r}."
        )
    if num_replicates < 1:
        raise ValueError(f"`num_replicates` must be positive; got {num_replicates}.")
    codes = _leaf_codes(m)
    own = _cluster_codes(np.asarray(children)[None], codes)[0]
    return problem, Reference(own, codes)


def occurrences(
    problem: Problem,
    reference: Reference,
    draw: Callable[[Problem, Any], Problem],
    draws: PyTree,
    groups: np.ndarray,
    *,
    progress: bool,
) -> np.ndarray:
    """How often each cluster occurs in trees of resampled problems, `[t, g]`.

    Args:
        problem: What is resampled.
        reference: The clusters.
        draw: From the problem and one of `draws` to another problem of as many rows.
        draws: A pytree of arrays `[count, ...]`: keys, say.
        groups: Of each draw the column of the result that it counts in, `[count]`.
        progress: Whether to show a bar.
    """
    found = np.zeros((len(reference.codes), int(groups.max()) + 1))
    if not len(found):
        return found
    done = 0
    with (
        working(problem) as problem,
        progress_shown(len(groups), unit="tree", shown=progress) as report,
    ):
        check_leaves(leaf_codes(problem), problem)
        if draw is not _with_weights:
            _check_columns(problem)
        for batch in _batches(problem, draw, draws, len(groups)):
            for one in _cluster_codes(batch, reference.leaf_codes):
                found[:, groups[done]] += np.isin(reference.codes, one)
                done += 1
            if report:
                report(done)
    return found


def _batches(
    problem: Problem, draw: Callable, draws: PyTree, count: int
) -> Iterator[np.ndarray]:
    """Children of resampled trees, `[b, m − 1, 2]` at a time."""
    m = problem.num_points
    by_one = isinstance(problem.x, SparseRows) or problem.family.cluster_model().solves
    if m > _MANY_POINTS or by_one:
        for number in range(count):
            own = jax.tree.map(lambda leaf, number=number: leaf[number], draws)
            replicate = draw(problem, own)
            replicate = jax.tree.map(np.asarray, replicate)
            yield np.asarray(_clustered(replicate, "auto"))[None]
        return
    size = int(np.clip(_BATCH_ENTRIES // m**2, 1, count))
    for start in range(0, count, size):
        # The last batch is filled up, so that it compiles nothing.
        chosen = np.minimum(np.arange(start, start + size), count - 1)
        together = jax.tree.map(lambda leaf, chosen=chosen: leaf[chosen], draws)
        children = _drawn_together(problem, together, draw)
        yield np.asarray(children)[: count - start]


@functools.partial(jax.jit, static_argnames="draw")
def _drawn_together(problem: Problem, draws: PyTree, draw: Callable) -> Array:
    one = lambda drawn: jnp.asarray(_clustered(draw(problem, drawn), "matrix"))
    return jax.vmap(one)(draws)


def _clustered(problem: Problem, engine: str):
    """The children of the problem's tree."""
    return agglomerate(problem, engine=engine).children


def _with_weights(problem: Problem, key: Array) -> Problem:
    m = problem.num_points
    drawn = jax.random.exponential(key, (m,), jnp.asarray(problem.weights).dtype)
    drawn = jnp.maximum(drawn, jnp.finfo(drawn.dtype).tiny ** 0.25)
    weights = problem.weights * drawn / jnp.mean(drawn)
    return unchecked(problem, weights=weights)


def _with_columns(problem: Problem, key: Array) -> Problem:
    d = problem.x.shape[1]
    return of_columns(problem, jax.random.randint(key, (d,), 0, d))


def of_columns(problem: Problem, columns: Array | np.ndarray) -> Problem:
    """The problem with these columns, and the smoothing's numbers that go with them."""
    d = problem.x.shape[1]
    along = lambda leaf: leaf if jnp.ndim(leaf) == 0 else jnp.asarray(leaf)[columns]
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(problem.smoothing)]
    if any(shape not in ((), (d,)) for shape in shapes):
        raise ValueError(
            f"`smoothing` must have one number, or one a column, for columns to be "
            f"drawn; got leaves of shapes {shapes}."
        )
    smoothing = jax.tree.map(along, problem.smoothing)
    problem = unchecked(problem, family=_of_width(problem.family, len(columns)))
    if isinstance(problem.x, SparseRows):
        table = problem.x.take_columns(np.asarray(columns))
        return unchecked(problem, x=table, smoothing=smoothing)
    rows = jnp.asarray(problem.x)[:, columns]
    return unchecked(problem, x=rows, smoothing=smoothing)


def _of_width(family: Any, count: int) -> Any:
    """The family for so many columns; those that are drawn are treated alike."""
    if getattr(family, "dim", None) in (None, count):
        return family
    if dataclasses.is_dataclass(family):
        return dataclasses.replace(family, dim=count)  # pyright: ignore
    other = copy.copy(family)
    other.dim = count
    return other


def _check_columns(problem: Problem) -> None:
    """Raise ValueError unless columns stand for themselves and are treated alike."""
    name = type(problem.family).__name__
    remedy = 'Take resampled="points", or a family of independent columns.'
    if not problem.family.columnwise:
        raise ValueError(
            f'`resampled` must be "points" for {name}: its costs are no sums over '
            f"columns. {remedy}"
        )
    if isinstance(problem.x, SparseRows):
        if any(np.ndim(leaf) for leaf in jax.tree.leaves(problem.family)):
            raise ValueError(
                f'`resampled` must be "points" for this {name}, whose columns have '
                f"parameters of their own. {remedy}"
            )
        return
    # A ψ of the user's own may know its columns apart, or T mix them. If costs are sums
    # over alike columns, then so is the mean of those of d times the same column.
    d = problem.x.shape[1]
    _, some = np.unique(problem.x, axis=0, return_index=True)
    some = some[:8]
    few = unchecked(problem, x=problem.x[some], weights=problem.weights[some])
    same_column = [of_columns(few, np.full(d, j)) for j in range(d)]
    by_column = np.mean([evaluate(_neighbour_costs, one) for one in same_column], 0)
    costs = evaluate(_neighbour_costs, few)
    slack = 1e-6 * np.max(costs, initial=0)
    if not np.allclose(costs, by_column, rtol=1e-4, atol=slack):
        raise ValueError(
            f'`resampled` must be "points" for this {name}: its costs are no sums over '
            f"columns that are treated alike. {remedy}"
        )


def _neighbour_costs(problem: Problem) -> Array:
    model, leaves = build_leaves(problem)
    before, after = take(leaves, slice(None, -1)), take(leaves, slice(1, None))
    return merge_costs(model, before, after)


def _leaf_codes(m: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2**64, m, np.uint64)


def _cluster_codes(children: np.ndarray, leaf_codes: np.ndarray) -> np.ndarray:
    """Sums of the leaves' codes for each cluster, `[b, t]`: equal for equal ones.

    Unequal clusters have equal codes with a probability of 2⁻⁶⁴ a pair.
    """
    batch, merges, _ = children.shape
    m = len(leaf_codes)
    codes = np.empty((m + merges, batch), np.uint64)
    codes[:m] = leaf_codes[:, None]
    row = np.arange(batch)
    for t in range(merges):
        pair = children[:, t]
        codes[m + t] = codes[pair[:, 0], row] + codes[pair[:, 1], row]
    return codes[m:].T

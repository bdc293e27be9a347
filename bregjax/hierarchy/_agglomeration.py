"""Agglomerative clustering in one call."""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from bregjax._checks import float_array, is_concrete
from bregjax._evaluation import (
    build_leaves,
    check_costs,
    check_leaves,
    equal_rows,
    padded,
    smoothed_statistics,
    working,
    working_copy,
)
from bregjax._family_like import FamilyLike
from bregjax._problem import Problem, check_problem
from bregjax._progress import progress_shown
from bregjax._sparse_rows import SparseRows
from bregjax._typing import DataLike, TableLike
from bregjax.clusters import HostModel
from bregjax.clusters._host_model import rows_of
from bregjax.hierarchy._dendrogram import Dendrogram
from bregjax.hierarchy._engine_bounded import BoundedInfo, bounded, exhaustive
from bregjax.hierarchy._engine_windowed import WindowedInfo, windowed
from bregjax.hierarchy._engines import check_memory, engine_name
from bregjax.hierarchy._host_costs import (
    host_leaves,
    host_of,
    nodes_along,
    settled_costs,
)
from bregjax.hierarchy._kinks import check_kinks, search_model
from bregjax.hierarchy._lookalikes import lookalike
from bregjax.hierarchy._provenance import remember
from bregjax.hierarchy._searches import drowned, found_children, search_tree
from bregjax.hierarchy._sparse.agglomeration import (
    agglomerate_sparse,
    for_other_engines,
    goes_sparsely,
)
from bregjax.hierarchy._tree_costs import leaves_and_codes, replay_costs
from bregjax.smoothing import StatisticMap

__all__ = ["AgglomerationInfo", "agglomerate"]


# The default of `smoothing`: "auto", but nothing was said.
_AS_AUTO: Any = object()


@dataclass(frozen=True)
class AgglomerationInfo:
    """How a tree was found.

    Attributes:
        engine: The engine that ran.
        windowed: What it did, if that was "windowed".
        bounded: What "matrix" did, where costs were solved for.

    Examples:
        >>> _, info = agglomerate([[0.0], [1.0]], family="ward", return_info=True)
        >>> print(info.engine)
        matrix
    """

    engine: str
    windowed: WindowedInfo | None = None
    bounded: BoundedInfo | None = None


@overload
def agglomerate(
    problem: Problem,
    *,
    engine: str = "auto",
    progress: bool = False,
    mesh: Mesh | None = None,
    return_info: Literal[False] = False,
) -> Dendrogram: ...


@overload
def agglomerate(
    problem: Problem,
    *,
    engine: str = "auto",
    progress: bool = False,
    mesh: Mesh | None = None,
    return_info: Literal[True],
) -> tuple[Dendrogram, AgglomerationInfo]: ...


@overload
def agglomerate(
    problem: TableLike,
    *,
    family: FamilyLike,
    smoothing: StatisticMap | str | None = "auto",
    weights: DataLike | None = None,
    engine: str = "auto",
    progress: bool = False,
    mesh: Mesh | None = None,
    return_info: Literal[False] = False,
) -> Dendrogram: ...


@overload
def agglomerate(
    problem: TableLike,
    *,
    family: FamilyLike,
    smoothing: StatisticMap | str | None = "auto",
    weights: DataLike | None = None,
    engine: str = "auto",
    progress: bool = False,
    mesh: Mesh | None = None,
    return_info: Literal[True],
) -> tuple[Dendrogram, AgglomerationInfo]: ...


def agglomerate(
    problem: Problem | TableLike,
    *,
    family: FamilyLike | None = None,
    smoothing: StatisticMap | str | None = _AS_AUTO,
    weights: DataLike | None = None,
    engine: str = "auto",
    progress: bool = False,
    mesh: Mesh | None = None,
    return_info: bool = False,
) -> Dendrogram | tuple[Dendrogram, AgglomerationInfo]:
    """Merge the two clusters of least cost until one is left: Algorithm 1.

    The cost of a merge is the log-likelihood lost when two clusters are fitted as one,
    Δ(a, b) = w_a B(τ_a, τ_ab) + w_b B(τ_b, τ_ab) with B the Bregman divergence of ψ*
    (Theorem 4.9); or the same with a convex function of your own in the place of ψ*.

    Called eagerly on a CPU it computes in float64 whether or not JAX's 64-bit mode is
    on, and gives NumPy arrays. Under your own `jit` or `vmap` the precision is yours,
    values are not checked, and the arrays are JAX's. Compilations go by size classes
    (eight an octave): other numbers of points in the same class compile nothing.

    Warns where `x` looks like distances or correlations: it takes the data themselves.

    Args:
        problem: Data, family, smoothing and weights: a `Problem`. Or, for one line, the
            data alone, with the three that follow; `Problem` says what they may be.
        family: Of data that are no `Problem`.
        smoothing: Of data that are no `Problem`; "auto" by default.
        weights: Of data that are no `Problem`.
        engine: "windowed" merges many pairs a round in O(m n) memory, and where costs
            invert so often that this does not pay, and there is room, goes on as
            "matrix" does; "matrix" keeps all costs, O(m²) memory, and works inside
            `jit` too; "recompute" keeps none, O(m³) time; "sparse" goes through the
            entries that are not 0, on the host, and keeps m²/2 costs; "auto" chooses.
            All are exact; where costs tie, see the engine.
            Where costs are solved for (a ψ of your own, Ising) "matrix" keeps lower
            bounds and solves for what may come next; "windowed" needs a ψ that is a sum
            over coordinates there.
            Inside `jit`, of Gaussians and of a ψ of your own, "matrix" compares costs
            to within eps · w |ψ*|: merges that are cheaper than that, as of
            near-duplicates far from the origin, come in any order among themselves.
            Outside costs so small are compared again, by "windowed".
        progress: Show a bar of the merges made ("windowed", and where costs are solved
            for; needs tqdm).
        mesh: Devices to share the work and the memory of "windowed", which a mesh
            implies: clusters are dealt out to all devices of it, blocks of rows go to
            all, and each compares them with its own. For several hosts call the same
            on each, after `jax.distributed.initialize`, with a mesh of all devices.
            Of CPU devices one does all the work for full Gaussians that hold roots.
        return_info: Return also how the tree was found.

    Returns:
        The tree, with its merge costs in nats (never negative; they may invert); with
        `return_info` a pair of it and an `AgglomerationInfo`.

    Raises:
        ValueError: If data, weights or sizes are unfit, naming row, value and remedy;
            if a leaf has no finite cost, naming the smoothing that helps; if the
            engine's memory would not fit, or it or a mesh is asked for inside a
            transformation.
        ImportError: If `progress` is asked for without tqdm.
        TypeError: If `family` or `smoothing` is of no kind known here, or given beside
            a problem.
        ArithmeticError: If a merge cost could not be computed, or the function has a
            kink at the mean of a merge (Proposition 3.8 does not hold there).

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> print(agglomerate(problem).merge_costs)
        [0.25 6.75]
        >>> print(agglomerate([[0.0], [1.0], [5.0]], family="ward").merge_costs)
        [0.25 6.75]

    References:
        Telgarsky and Dasgupta (2012), Algorithm 1 and Section 3.
    """
    problem = _problem(problem, family, smoothing, weights)
    if is_concrete(problem):
        looks = isinstance(problem.x, np.ndarray) and lookalike(problem.x)
        if looks:
            warnings.warn(looks, stacklevel=2)
        tree, info = _agglomerate_eagerly(problem, engine, mesh, progress=progress)
        remember(tree, problem)
    else:
        if isinstance(problem.x, SparseRows):
            raise ValueError(
                "`problem` must not be traced where its rows are sparse: their engine "
                "loops on the host. Call `agglomerate` outside of jit and grad, and "
                "`replay` inside."
            )
        if mesh is not None:
            raise ValueError(
                "`mesh` must be None inside jit, vmap or grad; got a mesh of "
                f"{mesh.size} devices. Call `agglomerate` outside, and `replay` inside."
            )
        tree, info = _agglomerate_traced(problem, engine)
    return (tree, info) if return_info else tree


def _problem(
    problem: Problem | TableLike,
    family: FamilyLike | None,
    smoothing: StatisticMap | str | None,
    weights: DataLike | None,
) -> Problem:
    if not isinstance(problem, Problem):
        smoothing = "auto" if smoothing is _AS_AUTO else smoothing
        if family is None:
            raise TypeError(
                '`family` must be given with data, such as family="gaussian"; or '
                "pass a Problem, which has one."
            )
        return Problem(problem, family=family, smoothing=smoothing, weights=weights)
    given = {
        "family": family is not None,
        "smoothing": smoothing is not _AS_AUTO,
        "weights": weights is not None,
    }
    for name, is_given in given.items():
        if is_given:
            raise TypeError(
                f"`{name}` must not be given beside a Problem, which has its own. Pass "
                f"problem.replace({name}=…)."
            )
    return check_problem(problem)


def _agglomerate_traced(problem: Problem, engine: str):
    full = working_copy(problem)
    m = full.num_points
    name = _choose(engine, full, None, traced=True)
    model, leaves = build_leaves(full)
    children = found_children(search_model(model), leaves, jnp.int32(m), name)
    costs = replay_costs(model, leaves, children, m)
    tree = Dendrogram(children, costs, full.weights, _ward_scale(full))
    return tree, AgglomerationInfo(name)


def _agglomerate_eagerly(
    problem: Problem, engine: str, mesh: Mesh | None, *, progress: bool
):
    m = problem.num_points
    if goes_sparsely(problem, engine, mesh):
        bar = progress_shown(m - 1, unit="merge", shown=progress)
        with bar as report, working(problem) as copy:
            found = agglomerate_sparse(copy, report)
        if found is not None:
            children, costs = found
            check_costs(costs, children, problem)
            weights = np.asarray(problem.weights)
            tree = Dendrogram(children, costs, weights, _ward_scale(problem))
            return tree, AgglomerationInfo("sparse")
        problem = for_other_engines(problem, engine)
    engine = _engine_for(mesh, engine)
    if not problem.family.cluster_model().distributes:
        mesh = None
    with working(problem) as copy:
        full = padded(copy)
        host = None if mesh is not None else host_of(problem)
        name = _choose(engine, full, host)
        counts = name == "windowed" or host is not None
        bar = progress_shown(m - 1, unit="merge", shown=progress and counts)
        with bar as report:
            if host is not None and name != "windowed":
                children, costs, info = _on_host(host, problem, name, report)
            else:
                children, costs, info = _compiled(
                    problem, full, name, report, mesh, host
                )
        tree = Dendrogram(
            np.asarray(children)[: m - 1],
            np.asarray(costs)[: m - 1],
            np.asarray(problem.weights),
            _ward_scale(problem),
        )
        check_kinks(tree, problem)
    check_costs(tree.merge_costs, tree.children, problem)
    return tree, info


def _compiled(
    problem: Problem,
    full: Problem,
    name: str,
    report,
    mesh: Mesh | None,
    host: HostModel | None,
):
    """Children, costs and info by engines of compiled programs."""
    m = problem.num_points
    screen = None
    if host is None:
        model, leaves, codes = leaves_and_codes(full)
        check_leaves(np.asarray(codes)[:m], problem)
    else:
        # What can be solved for outside of programs need not be compiled into them.
        model = full.family.cluster_model()
        leaves = host_leaves(host, full, m)
        screen = host.screen(leaves)
    model = search_model(model)
    if name != "windowed":
        children, costs, noise = search_tree(model, leaves, np.int32(m), name)
        if name != "matrix" or not drowned(np.asarray(costs)[: m - 1], float(noise)):
            return children, costs, AgglomerationInfo(name)
        name = "windowed"  # which compares costs that do not cancel
    labels = equal_rows(problem)
    children, costs, details = windowed(
        model,
        leaves,
        m,
        labels=labels,
        report=report,
        mesh=mesh,
        screen=screen,
        host=host,
    )
    if host is not None:
        nodes = nodes_along(host, rows_of(leaves, slice(m)), children)
        costs = settled_costs(host, nodes, children)[1]
    return children, costs, AgglomerationInfo(name, windowed=details)


def _on_host(host: HostModel, problem: Problem, name: str, report):
    """Children, costs and info where costs are solved for, many at a time."""
    leaves = host_leaves(host, problem)
    if name == "recompute":
        children, nodes = exhaustive(host, leaves)
        info = AgglomerationInfo(name)
    else:
        labels = equal_rows(problem)
        children, nodes, details = bounded(host, leaves, labels, report)
        info = AgglomerationInfo(name, bounded=details)
    return children, settled_costs(host, nodes, children)[1], info


def _engine_for(mesh: Mesh | None, engine: str) -> str:
    if mesh is None:
        return engine
    if engine not in ("auto", "windowed"):
        raise ValueError(
            f'`engine` must be "windowed" or "auto" with a mesh; got {engine!r}.'
        )
    return "windowed"


def _choose(
    engine: str, problem: Problem, host: HostModel | None, *, traced: bool = False
) -> str:
    m = problem.num_points
    screened = problem.family.cluster_model().screened
    name = engine_name(engine, m, host, screened=screened, traced=traced)
    if host is None:
        model, leaves = jax.eval_shape(build_leaves, problem)
        state = sum(leaf.size for leaf in jax.tree.leaves(leaves)) // m
        pair = model.pair_size(leaves)
    else:
        # Tracing the solver to know the sizes of states would take a second.
        statistics, _ = jax.eval_shape(smoothed_statistics, problem)
        size = sum(leaf.size for leaf in jax.tree.leaves(statistics)) // m
        state, pair = 2 * size + 3, 8 * size
    itemsize = jnp.result_type(float).itemsize
    check_memory(name, m, state, pair, itemsize, solves=host is not None)
    return name


def _ward_scale(problem: Problem):
    scale = problem.family.ward_scale
    return None if scale is None else float_array(scale)

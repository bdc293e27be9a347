"""Agglomerative clustering in one call."""

import warnings
from typing import Any, Literal, SupportsIndex, overload

from jax.sharding import Mesh

from bregjax._checks import is_concrete
from bregjax._family_like import FamilyLike
from bregjax._problem import Problem, check_problem
from bregjax._smoothing_like import SmoothingLike
from bregjax._sparse_rows import SparseRows
from bregjax._typing import DataLike, TableLike
from bregjax.families._layout import Missing
from bregjax.hierarchy._constrained import agglomerate_constrained
from bregjax.hierarchy._constraints import Constraints, constraints_of
from bregjax.hierarchy._dendrogram import Dendrogram
from bregjax.hierarchy._lookalikes import looks_like_distances
from bregjax.hierarchy._overlap import shares_no_column
from bregjax.hierarchy._provenance import remember
from bregjax.hierarchy._runs import (
    AgglomerationInfo,
    agglomerate_eagerly,
    agglomerate_traced,
)

__all__ = ["agglomerate"]


# The default of `smoothing`: "auto", but nothing was said.
_AS_AUTO: Any = object()


@overload
def agglomerate(
    problem: Problem,
    *,
    connectivity: TableLike | None = None,
    must_link: DataLike | None = None,
    cannot_link: DataLike | None = None,
    num_clusters: SupportsIndex | None = None,
    engine: str = "auto",
    start: Dendrogram | None = None,
    progress: bool = False,
    mesh: Mesh | None = None,
    return_info: Literal[False] = False,
) -> Dendrogram: ...


@overload
def agglomerate(
    problem: Problem,
    *,
    connectivity: TableLike | None = None,
    must_link: DataLike | None = None,
    cannot_link: DataLike | None = None,
    num_clusters: SupportsIndex | None = None,
    engine: str = "auto",
    start: Dendrogram | None = None,
    progress: bool = False,
    mesh: Mesh | None = None,
    return_info: Literal[True],
) -> tuple[Dendrogram, AgglomerationInfo]: ...


@overload
def agglomerate(
    problem: TableLike,
    *,
    family: FamilyLike | None = None,
    smoothing: SmoothingLike = "auto",
    weights: DataLike | None = None,
    missing: Missing = "auto",
    connectivity: TableLike | None = None,
    must_link: DataLike | None = None,
    cannot_link: DataLike | None = None,
    num_clusters: SupportsIndex | None = None,
    engine: str = "auto",
    start: Dendrogram | None = None,
    progress: bool = False,
    mesh: Mesh | None = None,
    return_info: Literal[False] = False,
) -> Dendrogram: ...


@overload
def agglomerate(
    problem: TableLike,
    *,
    family: FamilyLike | None = None,
    smoothing: SmoothingLike = "auto",
    weights: DataLike | None = None,
    missing: Missing = "auto",
    connectivity: TableLike | None = None,
    must_link: DataLike | None = None,
    cannot_link: DataLike | None = None,
    num_clusters: SupportsIndex | None = None,
    engine: str = "auto",
    start: Dendrogram | None = None,
    progress: bool = False,
    mesh: Mesh | None = None,
    return_info: Literal[True],
) -> tuple[Dendrogram, AgglomerationInfo]: ...


def agglomerate(
    problem: Problem | TableLike,
    *,
    family: FamilyLike | None = None,
    smoothing: SmoothingLike = _AS_AUTO,
    weights: DataLike | None = None,
    missing: Missing = "auto",
    connectivity: TableLike | None = None,
    must_link: DataLike | None = None,
    cannot_link: DataLike | None = None,
    num_clusters: SupportsIndex | None = None,
    engine: str = "auto",
    start: Dendrogram | None = None,
    progress: bool = False,
    mesh: Mesh | None = None,
    return_info: bool = False,
) -> Dendrogram | tuple[Dendrogram, AgglomerationInfo]:
    """Merge the two clusters of least cost until one is left: Algorithm 1.

    The cost of a merge is the log-likelihood lost when two clusters are fitted as one,
    Δ(a, b) = w_a B(τ_a, τ_ab) + w_b B(τ_b, τ_ab) with B the Bregman divergence of ψ*
    (Theorem 4.9); or the same with a convex function of your own in the place of ψ*.

    Called eagerly on a CPU it computes in float64 whether or not JAX's 64-bit mode is
    on, and gives NumPy arrays; small problems on a GPU likewise. Under your own `jit`
    or `vmap` the precision is yours, values are not checked, and the arrays are JAX's.
    Compilations go by size classes (eight an octave): other numbers of points in the
    same class compile nothing; nor do "mutual" and "numpy".

    A finished tree can't take in new rows, which may change each merge: it has to be
    made anew. `soft_assignments` places rows in its clusters.

    Under constraints every merge is the cheapest of those that are allowed at its time.
    Ties go to the pair with the smallest rows: first the smallest row of the one
    cluster counts, then that of the other. Equal rows of equal weight that may merge
    come before all but links. Those that a pair of `cannot_link` names wait for their
    turn. The work is done on the CPU, in float64; sparse
    rows are made dense, if they fit.

    Warns where `x` looks like distances or correlations: it takes the data themselves;
    where rows share no observed column, with their number; and where more than
    `num_clusters` are left, which nothing may join.

    Args:
        problem: Data, family, smoothing and weights: a `Problem`. Or, for one line, the
            data alone, with the three that follow; `Problem` says what they may be.
        family: Of data that are no `Problem`; "auto" by default for a table that names
            its columns.
        smoothing: Of data that are no `Problem`; "auto" by default.
        weights: Of data that are no `Problem`.
        missing: Of data that are no `Problem`.
        connectivity: Which clusters may merge: those that an edge joins. The word
            "chain" joins each row with the next one, for segments of a series (the
            tree is then drawn in the order of rows); pairs of
            row numbers, `[e, 2]`, or a set of them; or a matrix `[m, m]`, sparse or of
            booleans, as scikit-learn's `kneighbors_graph` and `grid_to_graph` make it.
            Entries that are not 0 count, whatever their size (so take no distances,
            which are 0 between equal rows); an edge goes both ways though only one is
            given; the diagonal says nothing. Of two rows, numbers of shape `[2, 2]`
            join them if they do so as pairs or as a matrix. All may merge if None.
        must_link: Pairs of rows, `[p, 2]`, that share a cluster. Rows that links join,
            one by way of others too, merge before all else and wherever they are in a
            graph. In each group the two cheapest clusters merge; of all groups the
            cheapest such merge comes first.
        cannot_link: Pairs of rows, `[q, 2]`, that never share a cluster.
        num_clusters: Stop at so many clusters. What is left out are merges that would
            come later; so cuts of the whole tree say as much.
        engine: "mutual" merges all pairs at once in which each is the other's nearest,
            which is right under Ward's costs (family "ward", or `SquaredNorm`), in
            O(m n) memory and compiling nothing; "auto" takes it there, on a CPU.
            "numpy" keeps a matrix of lower bounds and compiles nothing: of a few
            hundred points the tree is there before another engine is compiled, and
            "auto" takes it where that is so (by the sizes alone; at most 1,000 points;
            on the CPU, whatever the device), and for full Gaussians under one bandwidth
            up to 16,384 points (on a CPU). For many small trees of one size take
            "matrix", which compiles once and is then ten times as fast.
            "windowed" merges many pairs a round in O(m n) memory. It compiles nothing
            on a CPU for families "poisson", "multinomial", "categorical" and
            "bernoulli", and for "diagonal_gaussian" while m² n ≤ 2²⁵; "auto" takes it
            there above 100 points. Elsewhere, where costs invert so often that windows
            do not pay, and there is room, it goes on as "matrix" does. "matrix" keeps
            all costs, O(m²) memory, and works inside `jit` too; "recompute" keeps none,
            O(m³) time; "sparse" goes through the entries that are not 0, on the host,
            and keeps m²/2 costs; "graph" is that of `connectivity`, on the host: time
            and memory go with the edges, not with m²; "auto" chooses.
            All are exact; where costs tie, see the engine.
            Where costs are solved for (a ψ of your own, Ising) "matrix" keeps lower
            bounds and solves for what may come next; "windowed" needs a ψ that is a sum
            over coordinates there.
            Inside `jit`, of Gaussians and of a ψ of your own, "matrix" compares costs
            to within eps · w |ψ*|: merges that are cheaper than that, as of
            near-duplicates far from the origin, come in any order among themselves.
            Outside costs so small are compared again, by "windowed".
        start: A forest over the same rows, whose merges stand as they are: what Ctrl-C
            left (see `Interrupted`), say, or merges known from elsewhere. Their costs
            are computed again. With `must_link` no other rows may have merged before
            all that links join; with `num_clusters` it must have so many trees.
        progress: Show a bar of the merges made (needs tqdm).
        mesh: Devices to share the work and the memory of "windowed", which a mesh
            implies: clusters are dealt out to all devices of it, blocks of rows go to
            all, and each compares them with its own. Devices of several processes may
            share it: after `jax.distributed.initialize` make the same call in each,
            with the same problem, whole, and a mesh of jax.devices(); each gets the
            whole tree. The first shows the bar, and Ctrl-C in one stops all after the
            same merge. A process that is not called has the others wait for it.
            Of CPU devices one does all the work for full Gaussians that hold roots.
        return_info: Return also how the tree was found.

    Returns:
        The tree, with its merge costs in nats (never negative; they may invert, under
        constraints those of Ward's method too). A forest, with fewer merges, where it
        stopped early, a graph has several parts, or links keep clusters apart: nothing
        joins these (scikit-learn would add edges), unless `Dendrogram.joined` does.
        With `return_info` a pair of it and an `AgglomerationInfo`.

    Raises:
        ValueError: If data, weights or sizes are unfit, naming row, value and remedy;
            if a leaf has no finite cost, naming the smoothing that helps; if the
            engine's memory would not fit, or it or a mesh is asked for inside a
            transformation; if processes that share a mesh are called with different
            arguments, or one of them has no room; if constraints are unfit, contradict
            each other, are given inside a transformation or beside an engine that knows
            none.
        ImportError: If `progress` is asked for without tqdm.
        TypeError: If `family`, `smoothing` or `mesh` is of no kind known here, or one
            of the first two is given beside a problem.
        Interrupted: By Ctrl-C, a `KeyboardInterrupt` that has the merges made so far.
        ArithmeticError: If a merge cost could not be computed, or the function has a
            kink at the mean of a merge (Proposition 3.8 does not hold there).

    Examples:
        >>> problem = Problem([[0.0], [1.0], [5.0]], family="ward")
        >>> print(agglomerate(problem).merge_costs)
        [0.25 6.75]
        >>> print(agglomerate([[0.0], [1.0], [5.0]], family="ward").merge_costs)
        [0.25 6.75]
        >>> series = [[1.0], [1.2], [9.0], [9.1], [1.1], [1.0]]
        >>> tree = agglomerate(series, family="ward", connectivity="chain")
        >>> print(tree.cut(3))
        [0 0 1 1 2 2]

    References:
        Telgarsky and Dasgupta (2012), Algorithm 1 and Section 3.
    """
    problem = _problem(problem, family, smoothing, weights, missing)
    constraints = constraints_of(
        problem.num_points, connectivity, must_link, cannot_link, num_clusters
    )
    if not (mesh is None or isinstance(mesh, Mesh)):
        raise TypeError(
            f"`mesh` must be a jax.sharding.Mesh; got {mesh!r}. Take "
            'Mesh(jax.devices(), ("clusters",)).'
        )
    if is_concrete(problem):
        for note in (looks_like_distances(problem), shares_no_column(problem)):
            if note:
                warnings.warn(note, stacklevel=2)
        run = agglomerate_constrained if constraints.restrict else agglomerate_eagerly
        tree, info = run(
            problem, engine, mesh, constraints, start=start, progress=progress
        )
        remember(tree, problem)
        if num_clusters is not None and tree.num_trees > constraints.stop:
            warnings.warn(_too_many(tree, constraints), stacklevel=2)
    else:
        if constraints.restrict:
            raise ValueError(
                "`connectivity`, `must_link` and `cannot_link` must be None inside "
                "jit, vmap or grad: their engines loop on the host. Call `agglomerate` "
                "outside, and `replay` inside."
            )
        if start is not None:
            raise ValueError(
                "`start` must be None inside jit, vmap or grad; got a forest. Call "
                "`agglomerate` outside, and `replay` inside."
            )
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
        tree, info = agglomerate_traced(problem, engine, constraints)
    return (tree, info) if return_info else tree


def _too_many(tree: Dendrogram, constraints: Constraints) -> str:
    """Say why there are more clusters than were asked for."""
    stuck = "no edge of `connectivity` joins"
    if len(constraints.apart):
        stuck = "`cannot_link` keeps apart"
        if constraints.edges is not None:
            stuck = "no edge of `connectivity` joins, or `cannot_link` keeps apart"
    return (
        f"`num_clusters` is {constraints.stop}, and {tree.num_trees} clusters are left "
        f"that {stuck}: the tree is a forest of {tree.num_trees}. Add edges, or join "
        "its trees by `tree.joined()`."
    )


def _problem(
    problem: Problem | TableLike,
    family: FamilyLike | None,
    smoothing: SmoothingLike,
    weights: DataLike | None,
    missing: Missing,
) -> Problem:
    if not isinstance(problem, Problem):
        smoothing = "auto" if smoothing is _AS_AUTO else smoothing
        return Problem(
            problem,
            family=family,
            smoothing=smoothing,
            weights=weights,
            missing=missing,
        )
    given = {
        "family": family is not None,
        "smoothing": smoothing is not _AS_AUTO,
        "weights": weights is not None,
        "missing": missing != "auto",
    }
    for name, is_given in given.items():
        if is_given:
            raise TypeError(
                f"`{name}` must not be given beside a Problem, which has its own. Pass "
                f"problem.replace({name}=…)."
            )
    return check_problem(problem)

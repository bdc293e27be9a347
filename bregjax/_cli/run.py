"""One clustering, timed."""

import contextlib
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from bregjax._cli.array_files import as_dense
from bregjax._cli.smoothing_choice import choose_smoothing, describe_smoothing
from bregjax._cli.tables import Table
from bregjax._cut_criteria import Criterion, NumClusters
from bregjax._family_like import geometry_for
from bregjax._frames import TableColumns
from bregjax._num_clusters import choose_num_clusters
from bregjax._problem import Problem
from bregjax._sparse_rows import sparse_rows
from bregjax.families import choose_families, named_family
from bregjax.families._layout import Missing
from bregjax.hierarchy import Dendrogram, agglomerate
from bregjax.hierarchy._lookalikes import lookalike
from bregjax.hierarchy._newick import newick_names
from bregjax.metrics import dendrogram_purity

__all__ = ["Outcome", "Request", "check_request", "cluster_table", "notes_on"]

# Of few rows ten clusters would be all of them.
_DEFAULT_CLUSTERS, _FEW_CLUSTERS, _FEW_ROWS = 10, 2, 20


@dataclass(frozen=True)
class Request:
    """A request to cluster a table.

    Attributes:
        family: The name of a built-in family, or "auto" for one by column.
        columns: With "auto" the families of some columns by name, None to leave a
            column out.
        missing: How missing cells count, see `Product`.
        smoothing: As `parse_smoothing` gives it.
        engine: "auto" or an engine's name.
        progress: Whether to show a bar of merges.
        num_clusters: Where to cut: a number, a criterion that chooses it, or None.
        max_cost: Where to cut, in nats, or None. With neither there are as many
            clusters as known classes, or else 10, of fewer than 20 rows 2.
    """

    family: str
    columns: Mapping[str | int, str | None] = field(default_factory=dict)
    missing: Missing = "auto"
    smoothing: str | float = "auto"
    engine: str = "auto"
    progress: bool = False
    num_clusters: int | Criterion | None = None
    max_cost: float | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a request.

    Attributes:
        problem: What was clustered.
        tree: The dendrogram.
        clusters: The cluster of each row, `[m]`.
        smoothing: The smoothing, in words.
        engine: The engine that ran.
        compile_seconds: Time spent compiling.
        run_seconds: Wall time less that.
        purity: Dendrogram purity against the known classes, or None.
        found: What a criterion said about numbers of clusters, or None.
    """

    problem: Problem
    tree: Dendrogram
    clusters: np.ndarray
    smoothing: str
    engine: str
    compile_seconds: float
    run_seconds: float
    purity: float | None
    found: NumClusters | None = None


def check_request(table: Table, request: Request) -> None:
    """Refuse, before any work, a request that would fail at the end.

    Raises:
        ValueError: If the number of clusters does not fit the rows, no two rows share
            a class, or there is one row and nothing to choose families by.
    """
    num_rows = table.x.shape[0]
    if num_rows < 2 and request.family == "auto":
        raise ValueError(
            f"{table.source}: the file has one row, and a tree needs two rows at least."
        )
    k = request.num_clusters
    if isinstance(k, int) and not 1 <= k <= num_rows:
        raise ValueError(
            f"--num-clusters must be from 1 to {num_rows}, the number of rows; got {k}."
        )
    if request.max_cost is not None and np.isnan(request.max_cost):
        raise ValueError("--max-cost must be a number of nats; got nan.")
    if table.classes is not None and len(set(table.classes)) == num_rows:
        raise ValueError(
            f"--classes must give some two rows the same class; all {num_rows} differ. "
            "For a column of names say --names."
        )


def notes_on(table: Table, request: Request) -> list[str]:
    """Notes on a table, to show before clustering it, a sentence each.

    Raises:
        ValueError: As `check_request`, or if no column has a family.
    """
    check_request(table, request)
    numbers = isinstance(table.x, np.ndarray) and table.x.dtype != object
    looks = lookalike(table.x) if numbers else ""
    notes = [*table.notes, looks.replace("`x`", "the table")]
    if request.family == "auto" and isinstance(table.x, np.ndarray | TableColumns):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                choose_families(table.x, request.columns)
            except ValueError as error:
                raise ValueError(_in_terms_of(table, str(error))) from error
        notes += [_as_note(str(warning.message)) for warning in caught]
    if table.names is not None:
        plain = [str(name) for name in table.names]
        changed = sum(a != b for a, b in zip(plain, newick_names(plain), strict=True))
        if changed:
            notes.append(
                f"names of rows come again or hold line breaks ({changed:,} of "
                f"{len(plain):,}); in tree.nwk they end in .1, .2, … and are one line"
            )
    return [note for note in notes if note]


def _as_note(message: str) -> str:
    """A warning of the library in terms of this program."""
    message = message.replace("`x` has columns that are", "these columns are")
    return message.replace(
        'family={column: "categorical"}, say', "--column NAME=categorical, say"
    )


def cluster_table(table: Table, request: Request) -> Outcome:
    """Cluster the rows.

    Raises:
        ValueError: As `check_request`, `choose_smoothing` and `agglomerate` do.
    """
    check_request(table, request)
    try:
        return _cluster(table, request)
    except ValueError as error:
        raise ValueError(_in_terms_of(table, str(error))) from error


def _cluster(table: Table, request: Request) -> Outcome:
    x: Any = table.x
    if request.family != "auto":
        takes_sparse = named_family(request.family).takes_sparse
        if not isinstance(x, np.ndarray | TableColumns):
            x = sparse_rows(x) if takes_sparse else as_dense(x)
    start = time.perf_counter()
    with _compilations() as durations, warnings.catch_warnings():
        # These warnings are among the notes on the table.
        warnings.filterwarnings("ignore", "`x` (looks like|has columns|lacks)")
        family: Any = request.columns if request.family == "auto" else request.family
        family = geometry_for(x, family, request.missing)
        family = family.for_data(x)
        family.check_support(x)
        smoothing = choose_smoothing(request.smoothing, family, x, table.weights)
        problem = Problem(x, family=family, smoothing=smoothing, weights=table.weights)
        tree, info = agglomerate(
            problem,
            engine=request.engine,
            progress=request.progress,
            return_info=True,
        )
        found = _found(problem, tree, request)
    total = time.perf_counter() - start
    # Traces of nested functions are counted in each other, so the sum can be too much.
    compiling = min(sum(durations), total)
    purity = None if table.classes is None else dendrogram_purity(tree, table.classes)
    return Outcome(
        problem,
        tree,
        _clusters(tree, table, request, found),
        describe_smoothing(request.smoothing, smoothing),
        info.engine,
        compiling,
        total - compiling,
        purity,
        found,
    )


def _found(problem: Problem, tree: Dendrogram, request: Request) -> NumClusters | None:
    if not isinstance(request.num_clusters, str):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the report has them
        return choose_num_clusters(problem, tree, criterion=request.num_clusters)


def _clusters(
    tree: Dendrogram, table: Table, request: Request, found: NumClusters | None
) -> np.ndarray:
    if request.max_cost is not None:
        return np.asarray(tree.cut(max_cost=request.max_cost))
    usual = _FEW_CLUSTERS if tree.num_leaves < _FEW_ROWS else _DEFAULT_CLUSTERS
    classes = len(set(table.classes)) if table.classes else usual
    given: Any = found.num_clusters if found else request.num_clusters
    count = given or min(classes, tree.num_leaves)
    return np.asarray(tree.cut(num_clusters=count))


def _in_terms_of(table: Table, message: str) -> str:
    """Reword a message of the library: places in the file, options of this program."""

    def place(match: re.Match) -> str:
        row, column, column_alone = match.groups()
        if row is None:
            return table.column_place(int(column_alone))
        return table.place(int(row), None if column is None else int(column))

    places = r"\brow (\d+)(?:, column (\d+))?|\bcolumn (\d+)"
    message = re.sub(places, place, message)
    message = " ".join(message.replace("`x`", "the data").split())
    hint = " Here that is --smoothing auto." if "smoothing=" in message else ""
    return f"{table.source}: {message}{hint}"


@contextlib.contextmanager
def _compilations() -> Iterator[list[float]]:
    """Seconds of each tracing, lowering and compilation inside the context."""
    durations: list[float] = []

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if "/compile/" in event:
            durations.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield durations
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)

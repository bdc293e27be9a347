"""The report of a run, and the files that a run writes."""

import csv
import textwrap
from collections.abc import Hashable, Iterable
from pathlib import Path

import jax
import numpy as np

from bregjax._cli.run import Outcome, Request
from bregjax._cli.tables import Table
from bregjax._explain import explain_clusters
from bregjax._frames import TableColumns
from bregjax._smoothing_like import drowned
from bregjax._sparse_rows import SparseRows
from bregjax.families import Product
from bregjax.families._summary import columns_in_words
from bregjax.hierarchy import Dendrogram

__all__ = ["FILES", "header", "summary", "write_files", "written"]

FILES = {
    "linkage.npy": "the tree as SciPy's linkage matrix; heights are merge costs",
    "tree.nwk": "the tree in Newick format; heights are made monotone",
    "tree.npz": "the tree for bregjax.Dendrogram.load",
    "labels.csv": "the cluster of each row",
    "clusters.csv": "what sets each cluster apart, by column",
    "dendrogram.png": "the picture",
}

_KEY_WIDTH = 11


def header(version: str) -> str:
    """The first line of the report: versions and device."""
    return f"bregjax {version}, jax {jax.__version__} on {jax.default_backend()}"


def summary(table: Table, request: Request, outcome: Outcome) -> list[str]:
    """The lines of the report, keys and values aligned."""
    costs = np.asarray(outcome.tree.merge_costs)
    seconds = (outcome.compile_seconds, outcome.run_seconds)
    lines = [
        aligned("data", f"{table.source}: {_contents(table)}"),
        *_family_lines(request, outcome),
        aligned("smoothing", outcome.smoothing),
        *_bandwidth_lines(table, request, outcome),
        aligned("engine", outcome.engine),
        aligned("seconds", "{:.2f} to compile, {:.2f} to run".format(*seconds)),
        aligned("merges", _merges(outcome.tree, costs)),
        aligned("clusters", _sizes(outcome.clusters)),
    ]
    if outcome.found is not None:
        lines.append(aligned("chosen", outcome.found.headline))
        lines += [aligned("", caveat) for caveat in outcome.found.caveats]
    if outcome.purity is not None:
        agreement = f"{outcome.purity:.4f} against the known classes; 1 is best"
        lines.append(aligned("purity", agreement))
    return lines


def written(folder: Path, missing: Iterable[str] = ()) -> list[str]:
    """The lines of the report that name the files."""
    absent = set(missing)
    width = max(map(len, FILES)) + 2
    files = [
        f"  {name:{width}}{what}" for name, what in FILES.items() if name not in absent
    ]
    return [f"written to {folder}", *files]


def aligned(key: str, value: str) -> str:
    """A key and its value, wrapped where the value is long."""
    return textwrap.fill(
        value,
        width=88,
        initial_indent=f"{key:{_KEY_WIDTH}}",
        subsequent_indent=" " * _KEY_WIDTH,
        break_on_hyphens=False,
        break_long_words=False,
    )


def write_files(folder: Path, table: Table, outcome: Outcome) -> None:
    """Write all files but the picture."""
    np.save(folder / "linkage.npy", outcome.tree.linkage())
    newick = outcome.tree.to_newick(table.names)
    (folder / "tree.nwk").write_text(newick + "\n", encoding="utf-8")
    outcome.tree.save(folder / "tree.npz")
    # Pairs and no dictionary: the classes may be called "cluster" too.
    columns = [("row", range(table.x.shape[0])), ("cluster", outcome.clusters.tolist())]
    if table.names is not None:
        columns.insert(1, ("name", table.names))
    if table.classes is not None:
        columns.append((table.class_name, table.classes))
    with (folder / "labels.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([name for name, _ in columns])
        writer.writerows(zip(*(values for _, values in columns), strict=True))
    _write_clusters(folder / "clusters.csv", table, outcome)


def _bandwidth_lines(table: Table, request: Request, outcome: Outcome) -> list[str]:
    """What is to be known of a bandwidth that nobody chose."""
    problem = outcome.problem
    names = [_name(column, table) for column in problem.columns]
    words = drowned(problem, names) if request.smoothing == "auto" else ""
    if not words:
        return []
    own = "--smoothing normal-reference-nd gives each column its own"
    return [aligned("", f"{words}; {own}")]


def _family_lines(request: Request, outcome: Outcome) -> list[str]:
    """The family, or that of each column."""
    problem = outcome.problem
    if request.family != "auto" or not isinstance(problem.family, Product):
        return [aligned("family", request.family)]
    rows, weights = np.asarray(problem.x), np.asarray(problem.weights)
    lines = columns_in_words(problem.family, rows, weights)
    indent = " " * _KEY_WIDTH
    return [aligned("family", "by column"), *(indent + line for line in lines)]


def _write_clusters(path: Path, table: Table, outcome: Outcome) -> None:
    """Write the comparison of each cluster with the others; a header alone of one."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        head = ["cluster", "rows", "column", "nats", "share", "in cluster", "in others"]
        writer.writerow(head)
        if isinstance(outcome.problem.x, SparseRows) or not np.any(outcome.clusters):
            return
        for number, found in enumerate(
            explain_clusters(outcome.problem, outcome.clusters)
        ):
            total = found.cost or 1.0
            for column in found:
                sides = [
                    "; ".join(map(str, side)) for side in (column.first, column.second)
                ]
                numbers = f"{column.cost:.6g}", f"{column.cost / total:.4f}"
                name = ", ".join(_name(one, table) for one in column.columns)
                writer.writerow([number, found.sizes[0], name, *numbers, *sides])


def _name(column: Hashable, table: Table) -> str:
    """The name of a column, which a problem of one array knows by its place."""
    by_place = not isinstance(table.x, TableColumns)
    if by_place and table.columns is not None and isinstance(column, int):
        return str(table.columns[column])
    return str(column)


def _contents(table: Table) -> str:
    m, d = table.x.shape
    parts = [_count(m, "point"), _count(d, "column")]
    if table.classes is not None:
        parts.append(f"{len(set(table.classes))} known classes")
    if table.weights is not None:
        parts.append(f"weights of {table.weights.sum():g} in all")
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _merges(tree: Dendrogram, costs: np.ndarray) -> str:
    if not len(costs):
        return "0"
    # Ties that rounding broke are no inversions.
    inversions = tree.num_inversions(rtol=1e-9)
    return (
        f"{len(costs):,}, costing {costs.min():.4g} to {costs.max():.4g} nats and "
        f"{costs.sum():.6g} in all; "
        f"{_count(inversions, 'inversion') if inversions else 'no inversions'}"
    )


def _sizes(clusters: np.ndarray, at_most: int = 12) -> str:
    sizes = sorted(np.bincount(clusters).tolist(), reverse=True)
    words = ", ".join(f"{size:,}" for size in sizes[:at_most])
    more = ", …" if len(sizes) > at_most else ""
    return f"{len(sizes):,}, of {words}{more} points"

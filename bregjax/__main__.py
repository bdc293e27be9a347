"""The command line: `bregjax demo`, `bregjax cluster FILE`."""

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

import jax
import numpy as np

from bregjax import __version__
from bregjax._cli.cache import keep_compiled_programs
from bregjax._cli.columns import ColumnChoice, families_by_column
from bregjax._cli.parser import build_parser
from bregjax._cli.report import aligned, header, summary, write_files, written
from bregjax._cli.run import Outcome, Request, cluster_table, notes_on
from bregjax._cli.tables import Cells, Table, read_table
from bregjax._frames import TableColumns
from bregjax.datasets import load_glass

__all__ = ["build_parser", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments; those of the process if None.

    Returns:
        The exit code: 0, or 2 after one sentence on stderr; 130 after Ctrl-C.
    """
    options = build_parser().parse_args(argv)
    keep_compiled_programs()
    try:
        # Messages show whole rows, which may be long.
        with np.printoptions(threshold=8, linewidth=200):
            _COMMANDS[options.command](options)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}")
    except (ValueError, ArithmeticError, MemoryError) as error:
        return _fail(str(error) or "out of memory")
    except jax.errors.JaxRuntimeError as error:
        first = str(error).partition("\n")[0]
        return _fail(f"the device gave up ({first}). Try fewer rows or columns.")
    except KeyboardInterrupt:
        stopped = f"stopped before all files were written to {options.output}"
        _print(f"bregjax: {stopped}", sys.stderr)
        return 130
    return 0


def _demo(options: argparse.Namespace) -> None:
    glass = load_glass()
    types = [glass.class_names[number] for number in glass.classes.tolist()]
    table = Table(
        "glass, from the package",
        glass.x,
        types,
        "type",
        columns=tuple(glass.feature_names),
    )
    outcome = _run(table, Request("gaussian", num_clusters=6), options)
    ward = cluster_table(table, Request("ward", num_clusters=6))
    _say(options, aligned("", f"{ward.purity:.4f} for Ward's method"))
    _picture(table, outcome, options)


def _cluster(options: argparse.Namespace) -> None:
    choice = ColumnChoice(
        options.classes, options.names, options.weights, tuple(options.drop)
    )
    table = read_table(
        options.file,
        choice,
        delimiter=options.delimiter,
        header=options.header,
        encoding=options.encoding,
        transpose=options.transpose,
        cells=_CELLS.get(options.family, "numbers"),
    )
    family = options.family
    if family is None:
        mixed = isinstance(table.x, TableColumns) or options.column
        family = "auto" if mixed else "diagonal_gaussian"
    if family != "auto" and options.column:
        raise ValueError(
            f"--column is for --family auto; got --family {family}. Leave one out."
        )
    request = Request(
        family,
        families_by_column(dict(options.column), table.columns or ()),
        "scaled" if options.missing == "scaled" else "auto",
        options.smoothing,
        options.engine,
        progress=options.progress,
        num_clusters=options.num_clusters,
        max_cost=options.max_cost,
    )
    outcome = _run(table, request, options)
    _picture(table, outcome, options)


_CELLS: dict[str | None, Cells] = {
    None: "mixed",
    "auto": "mixed",
    "categorical": "categories",
}


def _run(table: Table, request: Request, options: argparse.Namespace) -> Outcome:
    # The folder first: a run of an hour must not end with nowhere to write.
    options.output.mkdir(parents=True, exist_ok=True)
    _say(options, header(__version__))
    if not options.quiet:
        for note in notes_on(table, request):
            _print(f"bregjax: note: {note}", sys.stderr)
    outcome = cluster_table(table, request)
    write_files(options.output, table, outcome)
    _say(options, *summary(table, request, outcome))
    return outcome


def _picture(table: Table, outcome: Outcome, options: argparse.Namespace) -> None:
    missing = _draw(table, outcome, options)
    _say(options, *written(options.output, missing))


def _draw(
    table: Table, outcome: Outcome, options: argparse.Namespace
) -> tuple[str, ...]:
    """Write the picture; where matplotlib is missing, say so and name the file."""
    try:
        from matplotlib.figure import Figure

        from bregjax.plotting import plot_dendrogram
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        _print(
            "bregjax: no picture without matplotlib: pip install matplotlib", sys.stderr
        )
        return ("dendrogram.png",)
    # A cut by number has a line in the picture; one by cost colors alone.
    by_cost = options.max_cost is not None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = Figure(figsize=(11, 5.5), layout="constrained")
        plot_dendrogram(
            outcome.tree,
            figure.subplots(),
            num_clusters=None if by_cost else int(outcome.clusters.max()) + 1,
            labels=outcome.clusters if by_cost else None,
            names=table.names,
            classes=table.classes,
            class_name=table.class_name,
            scale=options.scale,
        )
        figure.savefig(options.output / "dendrogram.png", dpi=150)
    if any("Glyph" in str(warning.message) for warning in caught) and not options.quiet:
        _print(
            "bregjax: note: the font has no letters for some names; they are boxes in "
            "dendrogram.png",
            sys.stderr,
        )
    return ()


_COMMANDS = {"demo": _demo, "cluster": _cluster}


def _say(options: argparse.Namespace, *lines: str) -> None:
    if not options.quiet:
        _print("\n".join(lines), sys.stdout)


def _fail(sentence: str) -> int:
    _print(f"bregjax: error: {sentence}", sys.stderr)
    return 2


def _print(text: str, stream: TextIO | None) -> None:
    """Print as much as the stream's encoding has; a stream that is closed, nothing.

    No run is to end, its files half written, because of what it has to say.
    """
    if stream is None:
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.replace("…", "...").encode(encoding, "replace").decode(encoding)
    try:
        print(text, file=stream, flush=True)
    except OSError:
        # A pipe that nobody reads, or a full disk: say nothing more, at exit neither.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())

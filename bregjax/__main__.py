"""The command line: `bregjax demo`, `bregjax cluster FILE`."""

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TextIO, get_args

import jax
import numpy as np

from bregjax import __version__
from bregjax._cli.cache import keep_compiled_programs
from bregjax._cli.columns import ColumnChoice
from bregjax._cli.report import FILES, aligned, header, summary, write_files, written
from bregjax._cli.run import Outcome, Request, cluster_table, notes_on
from bregjax._cli.smoothing_choice import SMOOTHINGS, parse_smoothing
from bregjax._cli.tables import Cells, Table, read_table
from bregjax._cli.text_files import DELIMITERS
from bregjax._cut_criteria import Criterion
from bregjax._frames import TableColumns
from bregjax.datasets import load_glass
from bregjax.families import FAMILIES
from bregjax.hierarchy import ENGINES

__all__ = ["build_parser", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments; those of the process if None.

    Returns:
        The exit code: 0, or 2 after one sentence on stderr.
    """
    options = build_parser().parse_args(argv)
    keep_compiled_programs()
    try:
        # Messages show whole rows, which may be long.
        with np.printoptions(threshold=8, linewidth=200):
            options.run(options)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}")
    except (ValueError, ArithmeticError, MemoryError) as error:
        return _fail(str(error) or "out of memory")
    except jax.errors.JaxRuntimeError as error:
        first = str(error).partition("\n")[0]
        return _fail(f"the device gave up ({first}). Try fewer rows or columns.")
    return 0


class _Parser(argparse.ArgumentParser):
    """Argparse with one sentence on an error in the place of a page of usage."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2."""
        self.exit(2, f"{self.prog}: error: {message}. See {self.prog} --help.\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands and options."""
    parser = _Parser(
        prog="bregjax",
        description="Agglomerative clustering with Bregman divergences.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_cluster(commands)
    return parser


def _add_demo(commands) -> None:
    demo = commands.add_parser(
        "demo",
        help="cluster the glass data that comes with the package",
        description="Cluster 214 fragments of glass of six types by full Gaussians.",
    )
    _add_output(demo)
    demo.set_defaults(run=_demo, scale="root", max_cost=None)


def _add_cluster(commands) -> None:
    cluster = commands.add_parser(
        "cluster",
        help="cluster a table of your own",
        description="Cluster the rows of a table. Rows and columns count from 0.",
    )
    add = cluster.add_argument
    add(
        "file",
        type=Path,
        metavar="FILE",
        help="table: csv, tsv, txt (also .gz), npy, npz, or mtx; - for text from the "
        "standard input. Sparse tables stay sparse for the families of counts, "
        "bernoulli and ward; an array y beside them is taken as --classes. "
        "Empty cells, NA, N/A, n.a., #N/A, NaN, null, none and ? are missing; True and "
        "False are 1 and 0; other text is a category",
    )
    add(
        "--family",
        type=lambda name: name.lower().replace("-", "_"),
        choices=["auto", *FAMILIES, "ward"],
        default=None,
        metavar="NAME",
        help=f"one of {', '.join(FAMILIES)}, ward; or auto: one for each column, by "
        "what it holds (default: auto of text files, diagonal_gaussian of arrays)",
    )
    add(
        "--column",
        type=_column_family,
        action="append",
        default=[],
        metavar="NAME=FAMILY",
        help="with --family auto the family of a column, or none to leave it out; may "
        "be repeated",
    )
    add(
        "--missing",
        choices=["observed", "scaled"],
        default="observed",
        help="how missing cells count: costs over observed cells, or these per "
        "observed weight (default: observed)",
    )
    add(
        "--smoothing",
        type=parse_smoothing,
        default="auto",
        metavar="HOW",
        help=f"one of {', '.join(SMOOTHINGS)}; or a number: the bandwidth of "
        "Gaussians, the share of the uniform distribution for categories and binary "
        "variables, what is added to counts or times (default: auto)",
    )
    add(
        "--engine",
        choices=["auto", *ENGINES],
        default="auto",
        help="how to search; all give the same tree (default: auto)",
    )
    add("--progress", action="store_true", help="show a bar of merges (needs tqdm)")
    where = cluster.add_mutually_exclusive_group()
    where.add_argument(
        "--num-clusters",
        type=_count_or_criterion,
        metavar="K",
        help="cut into K clusters, or as many as a criterion chooses: "
        f"{', '.join(get_args(Criterion))} (default: as many as known classes, or 10)",
    )
    where.add_argument(
        "--max-cost",
        type=float,
        metavar="NATS",
        help="cut into the largest clusters made by merges of at most this cost",
    )
    add("--classes", metavar="COLUMN", help="known classes, a name or number: not data")
    add(
        "--names",
        metavar="COLUMN",
        help="names of rows: not data (default: a first column without a name)",
    )
    add("--weights", metavar="COLUMN", help="weights of rows: not data")
    add(
        "--drop",
        action="append",
        default=[],
        metavar="COLUMN",
        help="leave a column out; may be repeated",
    )
    add(
        "--transpose",
        action="store_true",
        help="cluster the columns: all other options are of the table when turned",
    )
    add("--header", choices=["auto", "yes", "no"], default="auto", help="of text files")
    add(
        "--delimiter",
        choices=["auto", *DELIMITERS],
        default="auto",
        help="of text files",
    )
    add(
        "--encoding",
        type=_encoding,
        default="auto",
        help="of text files, such as latin-1 (default: utf-8, or utf-16 where it "
        "begins with a byte-order mark)",
    )
    add(
        "--scale",
        choices=["root", "log", "linear"],
        default="root",
        help="of the heights in the picture (default: root, that of square roots)",
    )
    _add_output(cluster)
    cluster.set_defaults(run=_cluster)


def _column_family(text: str) -> tuple[str, str | None]:
    """A column and the name of its family, None for none."""
    column, _, family = text.rpartition("=")
    family = family.lower().replace("-", "_")
    known = ("none", "auto", *FAMILIES, "ward")
    if not column:
        raise argparse.ArgumentTypeError(
            f"must be a column and a family, such as age=poisson; got {text!r}"
        )
    if family not in known:
        raise argparse.ArgumentTypeError(
            f"must have a family after the =, one of {', '.join(known)}; got {family!r}"
        )
    return column, None if family == "none" else family


def _count_or_criterion(text: str) -> int | str:
    """A whole number, or the name of a criterion."""
    name = text.lower().replace("-", "_")
    if name in get_args(Criterion):
        return name
    try:
        return int(text)
    except ValueError:
        names = ", ".join(get_args(Criterion))
        message = f"must be a whole number or one of {names}; got {text!r}"
        raise argparse.ArgumentTypeError(message) from None


def _encoding(name: str) -> str:
    """A known encoding of text, or "auto"."""
    try:
        if name != "auto":
            "".encode(name)
    except LookupError:
        raise argparse.ArgumentTypeError(
            f"must be an encoding of text, such as latin-1; got {name!r}"
        ) from None
    return name


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("bregjax-output"),
        metavar="FOLDER",
        help=f"where {', '.join(FILES)} go, over any of a former run (default: "
        "bregjax-output)",
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing")


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
        dict(options.column),
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

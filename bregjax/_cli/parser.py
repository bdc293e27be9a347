"""The commands and options of the command line, and their help."""

import argparse
from pathlib import Path
from typing import NoReturn, get_args

from bregjax import __version__
from bregjax._cli.report import FILES
from bregjax._cli.smoothing_choice import SMOOTHINGS, parse_smoothing
from bregjax._cli.text_files import DELIMITERS
from bregjax._cut_criteria import Criterion
from bregjax.families import FAMILIES
from bregjax.hierarchy import ENGINES

__all__ = ["build_parser"]


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
    demo.set_defaults(command="demo", scale="root", max_cost=None)


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
        f"{', '.join(get_args(Criterion))} (default: as many as known classes, or 10, "
        "of fewer than 20 rows 2)",
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
    cluster.set_defaults(command="cluster")


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

"""The tools that are compared, and up to what size each is run rather than reckoned."""

import dataclasses
import pathlib
import sys

from harness.cells import Cell

BREGJAX = "bregjax"
_HERE = pathlib.Path(__file__).parent
_COUNTED = frozenset(
    ("poisson", "multinomial", "exponential", "bernoulli", "diagonal_gaussian")
)
_WARD = frozenset(("ward",))


@dataclasses.dataclass(frozen=True)
class Tool:
    """A way to cluster.

    Attributes:
        name: As results call it.
        target: "module:function" in `tools`, or the file of an R script there.
        families: The families whose cells it takes part in.
        largest: The most points it is run at; beyond, its time is extrapolated.
        smallest: The fewest.
        note: How its tree differs in kind, where it does.
    """

    name: str
    target: str
    families: frozenset[str]
    largest: int = 20_000
    smallest: int = 0
    note: str = ""

    def takes(self, cell: Cell) -> bool:
        return cell.family in self.families and cell.m >= self.smallest

    def command(
        self, cell: Cell, path: str, *, repeats: int, warm: float, limit: float
    ):
        """The command that clusters the array at `path` and prints events.

        Args:
            cell: The cell.
            path: A file of NumPy's.
            repeats: The most warm runs.
            warm: Seconds after which no further one is begun.
            limit: A first run longer than this, in seconds, is not repeated at all.
        """
        rest = [path, str(repeats), str(warm), str(limit)]
        if self.target.endswith(".R"):
            return ["Rscript", "--vanilla", str(_HERE / "tools" / self.target), *rest]
        worker = [
            sys.executable,
            "-P",
            "-m",
            "harness.worker",
            self.target,
            cell.family,
        ]
        return [*worker, *rest]


PEERS = (
    Tool("scipy ward", "scipy_linkage:ward", _WARD),
    Tool("fastcluster matrix", "fastcluster_ward:matrix", _WARD),
    Tool("fastcluster vector", "fastcluster_ward:vector", _WARD),
    Tool("scikit-learn", "sklearn_ward:ward", _WARD, largest=10_000),
    Tool(
        "genieclust",
        "genieclust_tree:tree",
        _WARD,
        note="not Ward: a spanning tree",
    ),
    Tool(
        "scipy centroid",
        "scipy_linkage:centroid",
        _COUNTED,
        largest=10_000,
        smallest=5_000,
        note="another cost: the generic, non-monotone engine",
    ),
    Tool(
        "numpy loop",
        "numpy_loop:cluster",
        _COUNTED | {"zero_truncated_poisson"},
        largest=5_000,
    ),
    Tool(
        "mclust VVV",
        "mclust_hc.R",
        frozenset(("gaussian",)),
        largest=5_000,
        note="its own criterion for small clusters",
    ),
)


def bregjax(engine: str) -> Tool:
    """The package itself with one of its engines."""
    families = _COUNTED | _WARD | {"zero_truncated_poisson", "gaussian"}
    return Tool(BREGJAX, f"bregjax_tree:{engine}", families, largest=sys.maxsize)

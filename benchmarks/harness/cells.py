"""The cells of the benchmark: what data, what family, how large."""

import dataclasses
import fnmatch


@dataclasses.dataclass(frozen=True)
class Cell:
    """One problem.

    Attributes:
        family: A name of a built-in family, or "zero_truncated_poisson"; with "@" and a
            factor, of Gaussians with bandwidths so many times the rule's.
        data: A kind of data, a function in `data.py`.
        m: Points.
        n: Columns.
        cap: Seconds that one run of bregjax may take; None for the common cap.
    """

    family: str
    data: str
    m: int
    n: int
    cap: float | None = None

    @property
    def name(self) -> str:
        return f"{self.family}-{self.data}-{self.m}x{self.n}"

    @property
    def series(self) -> tuple[str, str, int]:
        """What cells have in common that differ in m alone."""
        return self.family, self.data, self.n

    def resized(self, m: int) -> "Cell":
        return dataclasses.replace(self, m=m, cap=None)


_SCALING = (5_000, 10_000, 20_000, 40_000)

CELLS = (
    # Small inputs, as notebooks have them.
    Cell("ward", "blobs", 300, 10),
    # Cold starts, and each family once at about 2,000 points.
    Cell("ward", "blobs", 2_000, 32),
    Cell("ward", "digits", 1_797, 64),
    Cell("poisson", "counts", 2_000, 32),
    Cell("diagonal_gaussian", "blobs", 2_000, 32),
    Cell("multinomial", "counts", 2_000, 128),
    Cell("exponential", "uniform", 2_000, 10),
    Cell("bernoulli", "binary_digits", 1_797, 64),
    # A ψ without a closed form, and the built-in Poisson on the same array.
    Cell("poisson", "positive_counts", 2_000, 10),
    Cell("zero_truncated_poisson", "positive_counts", 2_000, 10),
    # Full Gaussians.
    Cell("gaussian", "blobs", 2_000, 20),
    Cell("gaussian", "blobs", 5_000, 20),
    Cell("gaussian", "mnist35", 1_984, 49),
    # Costs that invert, the more the narrower: 1, 162, 333 and 462 times.
    *(
        Cell(f"diagonal_gaussian@{factor}", "spambase", 2_301, 57)
        for factor in ("1", "0.01", "0.001", "1e-5")
    ),
    # Few columns with many ties, and many columns.
    Cell("ward", "uniform", 10_000, 2),
    Cell("ward", "uniform", 100_000, 2),
    Cell("poisson", "counts", 10_000, 2),
    Cell("ward", "blobs", 5_000, 128),
    # Growth with m.
    Cell("ward", "blobs", 10_000, 32),
    Cell("ward", "blobs", 20_000, 32),
    *(Cell("poisson", "counts", m, 32) for m in _SCALING),
    *(Cell("diagonal_gaussian", "blobs", m, 32) for m in _SCALING),
    # The one cell with a cap of its own: three minutes is what it is held to.
    Cell("ward", "blobs", 100_000, 32, cap=180),
)


def select(pattern: str) -> list[Cell]:
    """Cells whose name matches, or without wildcards contains, the pattern."""
    if not any(mark in pattern for mark in "*?["):
        pattern = f"*{pattern}*"
    return [cell for cell in CELLS if fnmatch.fnmatch(cell.name, pattern)]

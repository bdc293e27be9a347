"""What the engines are held to, and where a run stands."""

import dataclasses
import operator
from collections.abc import Callable, Iterator

from harness.registry import BREGJAX
from harness.session import Record, seconds_of

Value = Callable[[Record], float | None]

_SEPARABLE = (
    "poisson-counts-2000x32",
    "diagonal_gaussian-blobs-2000x32",
    "multinomial-counts-2000x128",
    "exponential-uniform-2000x10",
    "bernoulli-binary_digits-1797x64",
)


@dataclasses.dataclass(frozen=True)
class Target:
    """A bound on a value of one cell's record, from above or from below."""

    cell: str
    what: str
    value: Value
    bound: float
    at_least: bool = False

    def line(self, record: Record) -> tuple[str, str, str, str] | None:
        """Cell, what, measured against the bound, and whether it holds."""
        found = self.value(record)
        if found is None and record["status"] != "measured":
            return self.cell, self.what, record["status"], "no"
        if found is None:  # no such peer here
            return None
        sign, holds = ("≥", operator.ge) if self.at_least else ("≤", operator.le)
        said = f"{found:.3g} {sign} {self.bound:g}"
        return self.cell, self.what, said, "yes" if holds(found, self.bound) else "no"


def _field(name: str) -> Value:
    return lambda record: record[name]


def _times(*tools: str) -> Value:
    """How many times as long the fastest of these tools takes."""

    def value(record: Record) -> float | None:
        ratios = record.get("ratios", {})
        return min((ratios[tool] for tool in tools if tool in ratios), default=None)

    return value


def _second_compilations(record: Record) -> float | None:
    return record.get("second_size", {}).get("compilations")


def _faster(cell: str, bound: float, *tools: str) -> Target:
    what = f"{' or '.join(tools)}, times as long"
    return Target(cell, what, _times(*tools), bound, at_least=True)


def _cold(cell: str) -> Iterator[Target]:
    yield Target(cell, "cold s", _field("cold_s"), 4)
    yield Target(cell, "compiled for a second m", _second_compilations, 0)


TARGETS = (
    _faster("ward-blobs-300x10", 0.1, "scipy ward"),
    _faster("ward-blobs-2000x32", 1, "scipy ward"),
    _faster("ward-uniform-10000x2", 2, "fastcluster vector"),
    Target("ward-uniform-100000x2", "s", seconds_of, 2),
    _faster("ward-blobs-10000x32", 3, "fastcluster matrix", "fastcluster vector"),
    _faster("ward-blobs-20000x32", 6, "fastcluster matrix", "fastcluster vector"),
    _faster("ward-blobs-100000x32", 1, "genieclust"),
    Target("ward-blobs-100000x32", "s", seconds_of, 180),
    Target("ward-blobs-100000x32", "peak MiB", _field("peak_mib"), 2048),
    _faster("poisson-counts-2000x32", 3, "numpy loop"),
    _faster("poisson-counts-10000x32", 2, "scipy centroid"),
    _faster("poisson-counts-10000x32", 10, "numpy loop"),
    _faster("diagonal_gaussian-blobs-10000x32", 2, "scipy centroid"),
    _faster("diagonal_gaussian-blobs-10000x32", 20, "numpy loop"),
    _faster("gaussian-blobs-2000x20", 6, "mclust VVV"),
    _faster("gaussian-blobs-5000x20", 8, "mclust VVV"),
    _faster("gaussian-mnist35-1984x49", 1, "mclust VVV"),
    Target("gaussian-mnist35-1984x49", "s", seconds_of, 8),
    *_cold("ward-blobs-2000x32"),
    *(target for cell in _SEPARABLE for target in _cold(cell)),
)

_OWN_PSI = "zero_truncated_poisson-positive_counts-2000x10"
_BUILT_IN = "poisson-positive_counts-2000x10"


def standing(records: list[Record]) -> list[tuple[str, str, str, str]]:
    """A line for each target of which the run has the value, or should have."""
    own = {r["cell"]: r for r in records if r["tool"] == BREGJAX}
    lines = [t.line(own[t.cell]) for t in TARGETS if t.cell in own]
    if _OWN_PSI in own and _BUILT_IN in own:
        ours, theirs = seconds_of(own[_OWN_PSI]), seconds_of(own[_BUILT_IN])
        times = None if ours is None or theirs is None else ours / theirs
        ratio = Target(_OWN_PSI, "times the Poisson", lambda _: times, 6)
        lines.append(ratio.line(own[_OWN_PSI]))
    return [line for line in lines if line is not None]

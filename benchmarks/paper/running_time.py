"""Running time: how time and memory grow with the number of points (Section 6).

Each tree in a process of its own: Poisson counts and full Gaussians of 8 columns from
ten groups, the second call timed, and the most memory of the process less that of one
that clusters 50 points. The slope is that of the last two sizes on logarithmic axes.
"""

import json
import resource
import subprocess
import sys
import time

import numpy as np
import report
from matplotlib.figure import Figure

import bregjax as bj

PART = "running_time"
SIZES = {
    "recompute": (100, 200, 400, 800),
    "matrix": (500, 1000, 2000, 4000),
    "windowed": (500, 1000, 2000, 4000, 8000),
}
FAMILIES = ("poisson", "gaussian")
# What full Gaussians take at the largest sizes would be minutes.
MOST = {("gaussian", "recompute"): 400, ("gaussian", "matrix"): 2000}


def run() -> None:
    """Append a record for each family, engine and size."""
    done = {(r["family"], r["engine"], r["points"]) for r in report.read(PART)}
    for family in FAMILIES:
        for engine, sizes in SIZES.items():
            for size in sizes:
                if size > MOST.get((family, engine), size):
                    continue
                if (family, engine, size) not in done:
                    report.append(PART, _measured(family, engine, size))


def _measured(family: str, engine: str, size: int) -> report.Record:
    command = [sys.executable, __file__, family, engine]
    few, many = (
        json.loads(subprocess.check_output([*command, str(points)], text=True))
        for points in (50, size)
    )
    return {
        "family": family,
        "engine": engine,
        "points": size,
        "seconds": many["seconds"],
        "mebibytes": round(max(many["mebibytes"] - few["mebibytes"], 0)),
    }


def _timed(family: str, engine: str, size: int) -> dict[str, float]:
    """Seconds of a second tree, and the memory of the process."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 10, size)
    rates = rng.gamma(2.0, 4.0, (10, 8))
    x = rng.poisson(rates[group]) + (
        rng.normal(size=(size, 8)) if family != "poisson" else 0
    )
    problem = bj.Problem(x, family=family)
    for _ in range(2):
        start = time.perf_counter()
        bj.agglomerate(problem, engine=engine)
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": round(seconds, 3), "mebibytes": round(peak)}


_FINDINGS = """The paper has O(m³) time in O(m) memory for brute force, and O(m² log m)
time in O(m²) memory with cached costs.

- **`recompute` is the brute force**: slopes of 3.0 and 2.9, in memory that does not
  grow with m.
- **`matrix`**, with cached costs, takes m² time (slopes of 1.9 and 2.0); its memory
  grows by less than m² up to these sizes.
- **`windowed`** stays below m² in time and memory on these rows, which lie in groups:
  bounds spare it most costs. In the worst case it computes them all.
- A full Gaussian's cost has a determinant, and its trees take 5 to 29 times as long as
  those of Poisson rows, at the same slopes but for `windowed` (1.0 and 0.7).

Short tests ran beside some of the trees of full Gaussians; no time was taken twice."""


def section() -> str:
    """Times, memory and slopes."""
    records = report.read(PART)
    rows = []
    for family in FAMILIES:
        for engine in SIZES:
            same = [
                r for r in records if (r["family"], r["engine"]) == (family, engine)
            ]
            if len(same) < 2:
                continue
            times = ", ".join(f"{r['points']:,}: {r['seconds']:g}" for r in same)
            memory = ", ".join(f"{r['mebibytes']:g}" for r in same)
            slopes = [_slope(same, field) for field in ("seconds", "mebibytes")]
            rows.append((family, engine, times, slopes[0], memory, slopes[1]))
    heads = ("family", "engine", "points: s", "slope", "MiB", "slope")
    _draw(records)
    return "\n\n".join(
        [
            "## Running time (Section 6, Appendix E)",
            __doc__.split("\n\n", 1)[1].strip(),
            "![Running time](running_time.png)",
            report.table(heads, rows),
            _FINDINGS,
            report.versions() + ".",
        ]
    )


def _draw(records: list[report.Record]) -> None:
    figure = Figure((9, 3.6), layout="constrained")
    axes = figure.subplots(1, len(FAMILIES), sharey=True)
    for axis, family in zip(axes, FAMILIES, strict=True):
        for engine in SIZES:
            same = [
                r for r in records if (r["family"], r["engine"]) == (family, engine)
            ]
            points = [r["points"] for r in same]
            axis.plot(points, [r["seconds"] for r in same], marker=".", label=engine)
        # Lines of slope 3 and 2 to compare with.
        for power, first, last in ((3, 100, 800), (2, 500, 8000)):
            ends = np.array([first, last])
            axis.plot(ends, 0.02 * (ends / first) ** power, ":", color="0.6")
            axis.annotate(f"m{'²³'[power - 2]}", (last, 0.02 * (last / first) ** power))
        axis.set(xscale="log", yscale="log", title=family, xlabel="points")
        axis.legend(frameon=False, fontsize="small")
    axes[0].set_ylabel("seconds")
    figure.savefig(report.HERE / "running_time.png", dpi=120)


def _slope(records: list[report.Record], field: str) -> str:
    first, last = records[-2:]
    if not first[field] or not last[field]:
        return ""
    rise = np.log(last[field] / first[field])
    return f"{rise / np.log(last['points'] / first['points']):.1f}"


if __name__ == "__main__":
    print(json.dumps(_timed(sys.argv[1], sys.argv[2], int(sys.argv[3]))))

"""The parts of `gpu.py`, each for a process of its own that can be killed."""

import time

import jax
import numpy as np

import bregjax as bj
from bregjax.hierarchy import WindowedInfo
from harness.agreement import compare
from harness.data import make_data
from harness.peaks import pairs_screened, peak_tflops

# Family: kind of data, columns.
PROBLEMS = {
    "ward": ("blobs", 32),
    "poisson": ("counts", 32),
    "diagonal_gaussian": ("blobs", 32),
    "gaussian": ("blobs", 20),
}
# Costs grow like the square of the points, or a little faster.
_POWER = 2.1


def describe() -> None:
    """Print what runs where."""
    device = jax.devices()[0]
    print(f"bregjax {bj.__version__}, jax {jax.__version__}, {device.device_kind}")


def check_trees(family: str, m: int) -> None:
    """Print how trees of the default device agree with the CPU's in float64."""
    try:
        cpu = jax.devices("cpu")[0]
    except RuntimeError as error:
        print(f"| {family} | | no CPU to compare with: {error} |")
        return
    kind, n = PROBLEMS[family]
    x = make_data(kind, m, n)
    with jax.enable_x64(True), jax.default_device(cpu):
        right = bj.agglomerate(x, family=family, engine="windowed")
    for bits in (64, 32):
        with jax.enable_x64(bits == 64):
            said = compare(bj.agglomerate(x, family=family, engine="windowed"), right)
        print(f"| {family} {m:,} × {n} | {bits} | {said} |", flush=True)


def time_trees(family: str, sizes: tuple[int, ...], bits: int, seconds: float) -> None:
    """Print times, smaller sizes first, leaving out what would not be done in time."""
    end = time.monotonic() + seconds
    kind, n = PROBLEMS[family]
    last_m, last = sizes[0], 0.0
    with jax.enable_x64(bits == 64):
        for m in sizes:
            expected = last * (m / last_m) ** _POWER
            if expected > end - time.monotonic():
                print(f"| {family} {m:,} × {n} | left out: {expected:.0f} s or so |")
                return
            last_m, last = m, _time(family, make_data(kind, m, n), bits, end)


def _time(family: str, x: np.ndarray, bits: int, end: float) -> float:
    """Print a line of the table; the seconds of the last run."""
    cold, info = _run(family, x)
    twice = cold < (end - time.monotonic()) / 3
    seconds, info = _run(family, x) if twice else (cold, info)
    m, n = x.shape
    pairs = pairs_screened(m, info.searches) / seconds
    tflops = 2 * n * pairs / 1e12
    device = jax.devices()[0]
    peak = peak_tflops(device.device_kind, bits)
    memory = (device.memory_stats() or {}).get("peak_bytes_in_use")
    entries = (
        f"{family} {m:,} × {n}",
        f"{cold:.2f}",
        f"{seconds:.2f}" if twice else "–",
        f"{info.windows} / {info.rounds} / {info.failed_checks}",
        f"{pairs / 1e9:.3g}",
        f"{tflops:.3g}",
        "not known" if peak is None else f"{tflops / peak:.1%}",
        "not known" if memory is None else f"{memory / 2**20:,.0f}",
    )
    print("| " + " | ".join(entries) + " |", flush=True)
    return seconds


def _run(family: str, x: np.ndarray) -> tuple[float, WindowedInfo]:
    start = time.perf_counter()
    _, info = bj.agglomerate(x, family=family, engine="windowed", return_info=True)
    return time.perf_counter() - start, info.windowed or WindowedInfo()

"""Five minutes on a GPU: trees against the CPU's, then times at up to 200,000 points.

    python benchmarks/gpu.py            # on the default device
    python benchmarks/gpu.py --x64      # timed in float64
    python benchmarks/gpu.py --small    # a trial of the script, on a CPU too

Flops count 2 n a pair that the engine's searches compare: the matrix product that
screens Ward's costs. For other families that is a lower bound of what is done. Each
family has a process of its own, killed when its share of the time is spent; memory is
the most that process had in use on the device.
"""

import argparse
import subprocess
import sys
import time

from harness.gpu_tasks import PROBLEMS, check_trees, describe, time_trees

SIZES = (10_000, 50_000, 100_000, 200_000)
SMALL_SIZES = (300, 600)
CHECKED, SMALL_CHECKED = 2_000, 300
# The share of the time left that checks may take.
_CHECKING = 0.35


def main() -> int:
    options = _options()
    if options.task:
        _task(options)
        return 0
    end = time.monotonic() + 60 * options.minutes
    given = [f"--{name}" for name in ("small", "x64") if getattr(options, name)]
    _start("describe", "-", 60, given)
    print(
        "\n| trees | bits | against the CPU's in 64 bits |\n|---|---|---|", flush=True
    )
    _share_out("check", end - (1 - _CHECKING) * (end - time.monotonic()), given)
    print(
        f"\n| {64 if options.x64 else 32} bits on a GPU, 64 on a CPU | cold s | warm s "
        "| windows / rounds / undone | Gpairs/s | Tflop/s | of the peak | MiB |\n"
        "|---|---|---|---|---|---|---|---|",
        flush=True,
    )
    _share_out("time", end, given)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trees on a GPU: checks and times.")
    parser.add_argument("--small", action="store_true", help="few points, as a trial")
    parser.add_argument("--x64", action="store_true", help="time in float64")
    parser.add_argument("--minutes", type=float, default=4.8, help="the whole of it")
    parser.add_argument("--task", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def _share_out(task: str, end: float, given: list[str]) -> None:
    """Do a task for each family, in equal shares of the time that is left."""
    for done, family in enumerate(PROBLEMS):
        share = (end - time.monotonic()) / (len(PROBLEMS) - done)
        _start(task, family, share, given)


def _start(task: str, family: str, seconds: float, given: list[str]) -> None:
    """A task in a process of its own, killed when its time is over."""
    seconds = max(seconds, 1)
    command = [sys.executable, __file__, *given, "--task", task, family, f"{seconds}"]
    try:
        code = subprocess.run(command, timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"| {family} | stopped after {seconds:.0f} s |", flush=True)
        return
    if code:
        print(f"| {family} | failed: see above |", flush=True)


def _task(options: argparse.Namespace) -> None:
    task, family, seconds = options.task
    if task == "describe":
        describe()
    elif task == "check":
        check_trees(family, SMALL_CHECKED if options.small else CHECKED)
    else:
        sizes = SMALL_SIZES if options.small else SIZES
        time_trees(family, sizes, 64 if options.x64 else 32, float(seconds))


if __name__ == "__main__":
    sys.exit(main())

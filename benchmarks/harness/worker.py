"""One tool on one array, in a process of its own; prints events as JSON lines.

    python -m harness.worker MODULE:FUNCTION FAMILY FILE.npy REPEATS WARM LIMIT

"ready" comes after the imports, one "run" after each clustering, the first of them
cold; "smaller" after one with three points less, which falls in the same size class,
where the tool asks for it; "absent" in the place of all where a library is missing.
"""

import importlib
import json
import pathlib
import resource
import sys
import time

import numpy as np

from harness.outcome import fingerprint

_SMALLER_BY = 3


def emit(event: str, **fields) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def peak_mib() -> float:
    """The most memory this process has held, in MiB."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def current_mib() -> float:
    """What it holds now; its peak where the system does not tell."""
    statm = pathlib.Path("/proc/self/statm")
    if not statm.exists():
        return peak_mib()
    return int(statm.read_text("ascii").split()[1]) * resource.getpagesize() / 2**20


def run(cluster, x: np.ndarray, event: str) -> float:
    """Cluster once and tell; the seconds it took."""
    start = time.perf_counter()
    outcome = cluster(x)
    seconds = time.perf_counter() - start
    mark = None if outcome.costs is None else fingerprint(outcome.costs)
    emit(
        event,
        m=len(x),
        seconds=seconds,
        peak_mib=peak_mib(),
        fingerprint=mark,
        details=outcome.details,
    )
    return seconds


def main() -> None:
    target, family, path, repeats, warm, limit = sys.argv[1:]
    module_name, function = target.split(":")
    try:
        module = importlib.import_module(f"harness.tools.{module_name}")
    except ModuleNotFoundError as error:
        emit("absent", reason=f"no module {error.name}")
        return
    cluster = module.prepare(function, family)
    x = np.load(path)
    emit("ready", versions=module.VERSIONS, rss_mib=current_mib())
    last = run(cluster, x, "run")
    if last > float(limit):
        return
    left = float(warm)
    for _ in range(int(repeats)):
        last = run(cluster, x, "run")
        left -= last
        if left < last:
            break
    if getattr(module, "ASKS_FOR_SMALLER", False) and last <= float(warm):
        run(cluster, x[:-_SMALLER_BY], "smaller")


if __name__ == "__main__":
    main()

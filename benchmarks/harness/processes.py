"""Commands that print events, run one at a time on the same cores and under a cap.

Nothing here imports NumPy or JAX: a process starts its peak memory at its parent's.
"""

import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from typing import Any

Event = dict[str, Any]

CORES = 2
BENCHMARKS = pathlib.Path(__file__).parents[1]

_START_SECONDS = 120.0
_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")


def keep_to_cores() -> None:
    """Bind this process, and so all it starts, to the first cores it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


def environment() -> dict[str, str]:
    """That of this process with as many threads as cores and no cache of programs."""
    threads = {f"{library}_NUM_THREADS": str(CORES) for library in _THREADS}
    path = os.pathsep.join([str(BENCHMARKS), os.environ.get("PYTHONPATH", "")])
    others = {
        "PYTHONPATH": path,
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        # Threads that spin while they wait stand still when a core is shared.
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    return {**os.environ, **threads, **others}


def events_of(command: list[str], cap: float) -> tuple[list[Event], str | None]:
    """The events that a command prints, and why they end early, if they do.

    The process and what it started are killed when an event is longer than `cap`
    seconds after the one before; the first may take longer, as imports do.
    """
    if shutil.which(command[0]) is None:
        return [], f"absent: no program {command[0]}"
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment(),
            start_new_session=True,
        )
        try:
            events, in_time = _collect(process, cap)
        finally:
            _end(process)
        errors.seek(0)
        said = errors.read().strip().splitlines()
    if not in_time:
        return events, f"over {cap:.0f} s"
    if events and events[0]["event"] == "absent":
        return [], f"absent: {events[0]['reason']}"
    if process.returncode:
        return events, f"failed: {said[-1] if said else process.returncode}"
    return events, None


def _collect(process: subprocess.Popen, cap: float) -> tuple[list[Event], bool]:
    """Events until the output ends, and whether it did in time."""
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(process, lines), daemon=True).start()
    events: list[Event] = []
    while True:
        try:
            line = lines.get(timeout=cap if events else max(cap, _START_SECONDS))
        except queue.Empty:
            return events, False
        if line is None:
            process.wait()
            return events, True
        if line.startswith("{"):
            events.append(json.loads(line))


def _read(process: subprocess.Popen, lines: "queue.Queue[str | None]") -> None:
    for line in process.stdout or ():
        lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def device() -> str:
    """The processor by name, and how many of its cores are used."""
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return f"{names[0] if names else 'CPU'}, {CORES} cores"

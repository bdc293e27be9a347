"""Measures cells: bregjax and its peers on the same array, with extrapolation."""

import dataclasses
import math
import pathlib
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

from harness import registry
from harness.cells import Cell
from harness.processes import Event, device, events_of
from harness.registry import PEERS, Tool

Record = dict[str, Any]

REPEATS = 5
WARM_SECONDS = 8.0
# A peer compiles nothing: a first run this long says enough.
_LONG_ENOUGH = 15.0
# The highest power of m by which times are extrapolated.
_STEEPEST = 2.2


@dataclasses.dataclass(frozen=True)
class Limits:
    """What may be used.

    Attributes:
        cap: Seconds a run.
        deadline: Time, by `time.monotonic`, after which no cell is begun.
    """

    cap: float
    deadline: float


class Session:
    """Runs of tools on cells; the same one is not run twice."""

    def __init__(
        self, limits: Limits, folder: pathlib.Path, engine: str, *, peers: bool
    ) -> None:
        self._limits = limits
        self._folder = folder
        self._engine = engine
        self._peers = PEERS if peers else ()
        self._known: dict[tuple[Cell, str], Record] = {}

    def measure(self, cells: list[Cell]) -> Iterator[Record]:
        """A record for each cell and tool, bregjax last in a cell."""
        for cell in cells:
            if time.monotonic() > self._limits.deadline:
                yield _blank(cell, registry.BREGJAX, "skipped: out of time")
                continue
            peers = [self._peer(tool, cell) for tool in self._peers if tool.takes(cell)]
            own = self._run(registry.bregjax(self._engine), cell)
            yield from (_with_difference(peer, own) for peer in peers)
            yield _with_ratios(own, peers)

    def _peer(self, tool: Tool, cell: Cell) -> Record:
        if cell.m <= tool.largest:
            record = self._run(tool, cell)
            if not record["status"].startswith("over"):
                return record
            status = f"{record['status']}, extrapolated"
            return {**record, "status": status, **self._extrapolated(tool, cell)}
        return {
            **_blank(cell, tool.name, "extrapolated"),
            **self._extrapolated(tool, cell),
        }

    def _extrapolated(self, tool: Tool, cell: Cell) -> Record:
        """Time and memory by the power law through two smaller sizes."""
        m = min(tool.largest, cell.m // 2)
        small, large = (self._run(tool, cell.resized(k)) for k in (m // 2, m))
        if seconds_of(small) is None or seconds_of(large) is None:
            reason = f"no smaller run to extrapolate: {large['status']}"
            return {"status": reason, "note": tool.note}
        found: Record = {
            "from": [small["m"], large["m"]],
            "versions": large["versions"],
        }
        for key, value in (("warm_s", seconds_of), ("extra_mib", extra_of)):
            power, at_cell = _power_law(small, large, value, cell.m)
            found[key], found[f"power_{key}"] = at_cell, power
        return {**found, "note": tool.note}

    def _run(self, tool: Tool, cell: Cell) -> Record:
        key = dataclasses.replace(cell, cap=None), tool.name
        if key not in self._known:
            print(f"{cell.name}: {tool.name}", end=" ", file=sys.stderr, flush=True)
            self._known[key] = record = self._run_anew(tool, cell)
            print(seconds_of(record), record["status"], file=sys.stderr, flush=True)
        return self._known[key]

    def _run_anew(self, tool: Tool, cell: Cell) -> Record:
        own = tool.name == registry.BREGJAX
        cap = (own and cell.cap) or self._limits.cap
        path, missing = self._array(cell)
        if missing:
            return _blank(cell, tool.name, f"no data: {missing}")
        command = tool.command(
            cell,
            str(path),
            repeats=REPEATS,
            warm=WARM_SECONDS,
            limit=0.5 * cap if own else _LONG_ENOUGH,
        )
        events, trouble = events_of(command, cap)
        runs = [event for event in events if event["event"] == "run"]
        if not runs:
            return _blank(cell, tool.name, trouble or "failed: no run")
        smaller = [event for event in events if event["event"] == "smaller"]
        record = _blank(cell, tool.name, "measured")
        measured = _measured(events[0], runs, smaller)
        # Of a later run: what there was before it stands.
        later = {"trouble": trouble} if trouble else {}
        return {**record, **measured, **later, "note": tool.note}

    def _array(self, cell: Cell) -> tuple[pathlib.Path, str | None]:
        path = self._folder / f"{cell.data}-{cell.m}x{cell.n}.npy"
        if path.exists():
            return path, None
        size = [cell.data, str(cell.m), str(cell.n), str(path)]
        made = events_of([sys.executable, "-P", "-m", "harness.data", *size], 60)
        return path, made[1]


def _blank(cell: Cell, tool: str, status: str) -> Record:
    return {
        "cell": cell.name,
        "tool": tool,
        "family": cell.family,
        "data": cell.data,
        "m": cell.m,
        "n": cell.n,
        "status": status,
        "cold_s": None,
        "warm_s": None,
        "repeats": 0,
        "peak_mib": None,
        "extra_mib": None,
        "device": device(),
    }


def _measured(ready: Event, runs: list[Event], smaller: list[Event]) -> Record:
    cold, *warm = runs
    found: Record = {
        "cold_s": cold["seconds"],
        "warm_s": statistics.median(run["seconds"] for run in warm) if warm else None,
        "repeats": len(warm),
        "peak_mib": cold["peak_mib"],
        "extra_mib": max(cold["peak_mib"] - ready["rss_mib"], 0.0),
        "versions": ready["versions"],
        "fingerprint": cold.get("fingerprint"),
        "info": cold.get("details") or None,
    }
    if smaller:
        details = smaller[0]["details"]
        found["second_size"] = {
            "m": smaller[0]["m"],
            "seconds": smaller[0]["seconds"],
            "compilations": details["compilations"],
        }
    return found


def seconds_of(record: Record) -> float | None:
    """The warm time, or the first where there was no second."""
    return record["cold_s"] if record["warm_s"] is None else record["warm_s"]


def extra_of(record: Record) -> float:
    """Memory in MiB above that after the imports, at least one."""
    return max(record["extra_mib"], 1.0)


def _power_law(small: Record, large: Record, value, m: int) -> tuple[float, float]:
    """The power between two records, and the value at m that it gives.

    All peers are quadratic; one that is steeper between two sizes has outgrown a cache,
    which it does once.
    """
    low, high = max(value(small), 1e-3), max(value(large), 1e-3)
    power = math.log(high / low) / math.log(large["m"] / small["m"])
    power = min(power, _STEEPEST)
    return power, high * (m / large["m"]) ** power


def _with_difference(peer: Record, own: Record) -> Record:
    """How far the fingerprint of a peer's tree is from that of bregjax's."""
    mine, other = own.get("fingerprint"), peer.get("fingerprint")
    if mine is None or other is None:
        return peer
    return {
        **peer,
        "fingerprint_differs_by": abs(other - mine) / max(abs(mine), 1e-300),
    }


def _with_ratios(own: Record, peers: list[Record]) -> Record:
    """How many times as long as bregjax each peer takes, and the fastest of them."""
    mine = seconds_of(own)
    known = {peer["tool"]: seconds_of(peer) for peer in peers}
    times = {tool: seconds for tool, seconds in known.items() if seconds is not None}
    if mine is None or not times:
        return own
    # genieclust solves another problem; what it takes is shown and not counted.
    rivals = {tool: times[tool] for tool in times if tool != "genieclust"} or times
    best = min(rivals, key=lambda tool: rivals[tool])
    ratios = {tool: seconds / mine for tool, seconds in times.items()}
    status = next(peer["status"] for peer in peers if peer["tool"] == best)
    return {
        **own,
        "best_peer": best,
        "best_peer_status": status,
        "ratio": ratios[best],
        "ratios": ratios,
    }

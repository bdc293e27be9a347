"""Records as Markdown: the cells, and how time and memory grow."""

import math
from collections.abc import Callable, Iterable

from harness.registry import BREGJAX
from harness.session import Record, seconds_of
from harness.targets import standing

# Relative; rounding is far below, another tree above.
_SAME_TREE = 1e-9

_HEAD = (
    "cell",
    "cold s",
    "warm s",
    "peak MiB (extra)",
    "engine: windows / rounds / undone",
    "compiled, first / second m",
    "peers: s (extra MiB), times as long as bregjax",
)


def table(records: list[Record]) -> str:
    """A line a cell, a line a series of sizes, and a line a target."""
    own = [record for record in records if record["tool"] == BREGJAX]
    lines = [_row(_HEAD), "|" + "---|" * len(_HEAD)]
    for record in own:
        peers = [
            peer
            for peer in records
            if peer["cell"] == record["cell"] and peer["tool"] != BREGJAX
        ]
        lines.append(_cell_row(record, peers))
    parts = [lines, _growth(own), _targets(records), _notes(records)]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _row(entries: Iterable[str]) -> str:
    return "| " + " | ".join(entries) + " |"


def _number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def _cell_row(record: Record, peers: list[Record]) -> str:
    status = "" if record["status"] == "measured" else f" ({record['status']})"
    info, second = record.get("info"), record.get("second_size")
    return _row(
        (
            record["cell"] + status,
            _number(record["cold_s"]),
            _number(record["warm_s"]),
            f"{_number(record['peak_mib'])} ({_number(record['extra_mib'])})",
            _work(info),
            f"{_compilations(info)} / {_compilations(second)}",
            "; ".join(_peer(peer, seconds_of(record)) for peer in peers),
        )
    )


def _compilations(found: dict | None) -> str:
    return str(found["compilations"]) if found else "–"


def _work(info: dict | None) -> str:
    if not info:
        return "–"
    done = info["windowed"]
    if done is None:
        return info["engine"]
    parts = (done["windows"], done["rounds"], done["failed_checks"])
    return f"{info['engine']}: " + " / ".join(map(str, parts))


def _peer(peer: Record, own: float | None) -> str:
    seconds = seconds_of(peer)
    if seconds is None:
        return f"{peer['tool']}: {peer['status']}"
    mark = "" if peer["status"] == "measured" else f"{peer['status']}, about "
    ratio = "" if own is None else f", {_number(seconds / own)}×"
    memory = _number(peer["extra_mib"])
    return f"{peer['tool']} {mark}{_number(seconds)} ({memory}){ratio}"


def _targets(records: list[Record]) -> list[str]:
    lines = standing(records)
    if not lines:
        return []
    head = ("held to", "what", "measured", "reached")
    return [_row(head), "|" + "---|" * len(head), *map(_row, lines)]


def _growth(own: list[Record]) -> list[str]:
    """Exponents of time and memory for series of three sizes or more.

    Memory has a constant part, compilation's, that hides its growth. Between sizes
    that double, differences are free of it: the last column.
    """
    series: dict[tuple, list[Record]] = {}
    for record in own:
        if record["status"] == "measured":
            key = record["family"], record["data"], record["n"]
            series.setdefault(key, []).append(record)
    lines = [
        _row(("growth", "m", "time", "extra memory", "memory less its constant")),
        "|" + "---|" * 5,
    ]
    for key, group in series.items():
        group.sort(key=lambda record: record["m"])
        large = [record for record in group if record["m"] >= 5_000]
        if len(large) >= 3:
            sizes = ", ".join(f"{record['m']:,}" for record in large)
            name = f"{key[0]}-{key[1]} × {key[2]}"
            lines.append(_row((name, sizes, *_exponents(large))))
    return lines if len(lines) > 2 else []


def _exponents(group: list[Record]) -> tuple[str, str, str]:
    memory = [record["extra_mib"] for record in group]
    sizes = [record["m"] for record in group]
    slopes = [
        (memory[i + 1] - memory[i]) / (sizes[i + 1] - sizes[i])
        for i in range(len(group) - 1)
    ]
    middles = [math.sqrt(sizes[i] * sizes[i + 1]) for i in range(len(group) - 1)]
    # Slopes grow like m^(p − 1).
    free = f"m^{1 + _fit(middles, slopes):.2f}" if min(slopes) > 0 else "–"
    return (
        f"m^{_exponent(group, seconds_of):.2f}",
        f"m^{_exponent(group, lambda record: record['extra_mib']):.2f}",
        free,
    )


def _exponent(group: list[Record], value: Callable[[Record], float | None]) -> float:
    found = [(record["m"], value(record)) for record in group]
    kept = [(m, v) for m, v in found if v]
    return _fit([m for m, _ in kept], [v for _, v in kept])


def _fit(x: list[float], y: list[float]) -> float:
    """The slope of log y by log x, by least squares."""
    log_x, log_y = [math.log(v) for v in x], [math.log(v) for v in y]
    mean_x, mean_y = sum(log_x) / len(log_x), sum(log_y) / len(log_y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(log_x, log_y, strict=True))
    below = sum((a - mean_x) ** 2 for a in log_x)
    return above / below if below else math.nan


def _notes(records: list[Record]) -> list[str]:
    """Device, versions, and what peers do differently."""
    versions: dict[str, str] = {}
    for record in records:
        versions.update(record.get("versions") or {})
    notes = {r["tool"]: r["note"] for r in records if r.get("note")}
    differs = {
        f"{record['cell']} ({record['tool']})": record["fingerprint_differs_by"]
        for record in records
        if "fingerprint_differs_by" in record
    }
    far = [f"{name} {by:.0e}" for name, by in differs.items() if by > _SAME_TREE]
    lines = [
        f"{records[0]['device']}; "
        + ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
        + ".",
        *(f"{tool}: {note}." for tool, note in notes.items()),
    ]
    if differs:
        lines.append(
            f"Σ √cost of {len(differs)} trees of Ward's peers and of the NumPy loop is "
            f"bregjax's to within {_SAME_TREE:.0e}"
            + (f", but for (ties) {', '.join(far)}." if far else ".")
        )
    return lines

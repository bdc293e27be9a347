"""Raw results as JSON lines, and RESULTS.md, a section for each part, made of them."""

import importlib.metadata
import json
import pathlib
import platform
from collections.abc import Iterable, Sequence
from typing import Any

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "RESULTS.md"

_TITLE = """# The tables and figures of the paper

Written by `python benchmarks/paper`, a section by each part, from the JSON lines beside
this file; `--render` writes it again without computing anything.
"""

Record = dict[str, Any]


def read(part: str) -> list[Record]:
    """All records of a part, the oldest first."""
    file = HERE / f"{part}.jsonl"
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def append(part: str, record: Record) -> None:
    """Add a record of a part, and print it."""
    line = json.dumps(record, ensure_ascii=False)
    with (HERE / f"{part}.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    print(f"{part}: {line}", flush=True)


def forget(part: str) -> None:
    """Delete the records of a part."""
    (HERE / f"{part}.jsonl").unlink(missing_ok=True)


def write_section(part: str, text: str) -> None:
    """Put the section of a part in place of its last one, or at the end."""
    begin, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->\n"
    page = RESULTS.read_text("utf-8") if RESULTS.exists() else _TITLE
    section = f"{begin}\n{text.strip()}\n\n{end}"
    if begin in page:
        before, rest = page.split(begin)
        page = before + section + rest.split(end)[1]
    else:
        page = f"{page}\n{section}"
    RESULTS.write_text(page, "utf-8")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def number(value: float | None, digits: int = 3) -> str:
    """Write a number to so many digits after the point; nothing for None."""
    return "" if value is None else f"{value:.{digits}f}"


def versions() -> str:
    """Python and the packages that results depend on."""
    names = ("jax", "numpy", "scipy", "scikit-learn", "optax")
    packages = [f"{name} {importlib.metadata.version(name)}" for name in names]
    return f"Python {platform.python_version()}, {', '.join(packages)}, float64"

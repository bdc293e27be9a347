"""The engines against their peers: time, cold and warm, and memory.

    python benchmarks/engines.py --out engines.jsonl --table
    python benchmarks/engines.py --cells 'poisson-*' --table
    python benchmarks/engines.py --from engines.jsonl

Each tool clusters each cell in a process of its own, on the same two cores. Cold is the
first call after the imports, without a disk cache of compiled programs; warm the median
of up to five more. Peak memory is that of the process after the first call, extra what
it grew by since the imports. A run over the cap is killed; where a peer would take too
long or too much, its time is extrapolated from two smaller sizes. Peers that are not
installed (`pip install 'bregjax[bench]'`; R with mclust) are reported as absent.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time

from harness.cells import CELLS, select
from harness.processes import keep_to_cores
from harness.session import Limits, Record, Session
from harness.table import table


def main() -> int:
    options = _options()
    if options.list:
        print("\n".join(cell.name for cell in CELLS))
        return 0
    if options.read:
        lines = options.read.read_text("utf-8").splitlines()
        print(table([json.loads(line) for line in lines]))
        return 0
    cells = select(options.cells)
    if not cells:
        print(f"No cell matches {options.cells!r}; see --list.", file=sys.stderr)
        return 2
    records = _measure(cells, options)
    if options.table:
        print(table(records))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="bregjax and its peers: time and memory of whole clusterings."
    )
    parser.add_argument("--cells", default="*", help="part of a name, or a pattern")
    parser.add_argument("--list", action="store_true", help="print the names of cells")
    parser.add_argument("--out", type=pathlib.Path, help="JSON lines go here")
    parser.add_argument("--table", action="store_true", help="print a Markdown table")
    parser.add_argument(
        "--from", dest="read", type=pathlib.Path, help="table of an earlier --out only"
    )
    parser.add_argument("--engine", default="auto", help="bregjax's engine")
    parser.add_argument("--no-peers", action="store_true", help="bregjax alone")
    parser.add_argument("--cap", type=float, default=60, help="seconds a run")
    parser.add_argument(
        "--minutes", type=float, default=38, help="begin no cell after that"
    )
    return parser.parse_args()


def _measure(cells, options: argparse.Namespace) -> list[Record]:
    keep_to_cores()
    limits = Limits(options.cap, time.monotonic() + 60 * options.minutes)
    records = []
    if options.out:
        options.out.write_text("", "utf-8")
    with tempfile.TemporaryDirectory() as folder:
        session = Session(
            limits, pathlib.Path(folder), options.engine, peers=not options.no_peers
        )
        for record in session.measure(cells):
            records.append(record)
            line = json.dumps(record)
            if options.out:
                with options.out.open("a", encoding="utf-8") as file:
                    print(line, file=file)
            elif not options.table:
                print(line, flush=True)
    return records


if __name__ == "__main__":
    sys.exit(main())

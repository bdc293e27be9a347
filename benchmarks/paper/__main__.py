"""The paper's tables and figures, computed again.

    python benchmarks/paper                     # all parts
    python benchmarks/paper table1 tuned        # these parts
    python benchmarks/paper --render            # RESULTS.md from the JSON lines alone

A part goes on where it was interrupted: what its JSON lines have is not computed again,
unless `--again` is given.
"""

import argparse

import em
import figure1
import figure2
import report
import running_time
import table1
import tuned

# A part has `run()`, which appends the records that are missing, and `section()`, the
# Markdown made of all records.
PARTS = {
    "table1": table1,
    "tuned": tuned,
    "figure1": figure1,
    "figure2": figure2,
    "em": em,
    "running_time": running_time,
}


def main() -> None:
    options = _options()
    for name in options.parts or PARTS:
        if options.again:
            report.forget(name)
        if not options.render:
            PARTS[name].run()
        report.write_section(name, PARTS[name].section())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--render", action="store_true", help="compute nothing")
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part is called {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    main()

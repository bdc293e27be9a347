"""The section of RESULTS.md on tuned smoothing."""

from collections.abc import Iterator

import numpy as np
from report import Record, number, table, versions


def write(records: list[Record], table1: list[Record]) -> str:
    """The section, of all records of tuning and of Table 1."""
    curves = [record for record in records if record["kind"] == "curve"]
    tuned = [record for record in records if record["kind"] == "tuned"]
    before = _before(curves, table1)
    parts = [
        "## Smoothing tuned without labels",
        _INTRODUCTION.format(versions=versions()),
        "### Change of purity, by objective",
        _summary(tuned, before),
        _FINDINGS,
        "### Factors found, and purity",
        _LEGEND,
        _factors(tuned, before),
        "### Purity along the factor",
        _CURVES,
        _curves(curves),
    ]
    failed = [record for record in tuned if record["factor"] is None]
    if failed:
        parts += ["### Failed", "\n".join(_failure(record) for record in failed)]
    seconds = sum(record["seconds"] for record in records)
    parts.append(
        f"{len(tuned)} tuned factors and {len(curves)} curves, {seconds / 60:.0f} "
        "minutes on two busy cores, nearly all of it compilation."
    )
    return "\n\n".join(parts)


def _before(curves: list[Record], table1: list[Record]) -> dict[tuple[str, str], float]:
    """Purity at the rule, by set and tree."""
    smoothed = [r for r in table1 if r["method"] in ("dg-nd", "g-n", "multi")]
    found = {_pair(r): r["purity"] for r in smoothed if not r["reading"]}
    for record in curves:
        at = record["factors"].index(1.0)
        found[_pair(record)] = record["purities"][at]
    return found


def _pair(record: Record) -> tuple[str, str]:
    return record["set"], record["method"]


def _objectives(tuned: list[Record]) -> list[str]:
    return list(dict.fromkeys(record["objective"] for record in tuned))


def _summary(tuned: list[Record], before: dict) -> str:
    """How often each objective helped, and by how much, for each kind of tree."""
    heads = ("objective", "tree", "sets", "better", "worse", "mean change", "factors")
    return table(heads, _summary_rows(tuned, before))


def _summary_rows(tuned: list[Record], before: dict) -> Iterator[tuple[object, ...]]:
    for objective in _objectives(tuned):
        for method in ("dg-nd", "g-n", "multi"):
            same = [
                r
                for r in tuned
                if (r["objective"], r["method"]) == (objective, method)
                and r["factor"]
                and _pair(r) in before
            ]
            if same:
                changes = np.array([r["purity"] - before[_pair(r)] for r in same])
                factors = [r["factor"] for r in same]
                yield (
                    objective,
                    method,
                    len(same),
                    # A hundredth is less than what another half of the rows changes.
                    sum(changes > 0.01),
                    sum(changes < -0.01),
                    f"{changes.mean():+.3f}",
                    f"{min(factors):.2g} to {max(factors):.2g}",
                )


def _factors(tuned: list[Record], before: dict) -> str:
    objectives = _objectives(tuned)
    cells = {(*_pair(r), r["objective"]): _cell(r) for r in tuned}
    rows = [
        (
            f"{name}, {method}",
            number(purity),
            *(cells.get((name, method, objective), "") for objective in objectives),
        )
        for (name, method), purity in before.items()
    ]
    return table(("set, tree", "rule", *objectives), rows)


def _cell(record: Record) -> str:
    if record["factor"] is None:
        return "failed"
    end = "" if record["outcome"] != "BOUNDARY" else ", at an end"
    return f"{record['purity']:.3f} ({record['factor']:.2g}{end})"


def _curves(curves: list[Record]) -> str:
    if not curves:
        return ""
    factors = curves[0]["factors"]
    rows = [
        (f"{r['set']}, {r['method']}", *(number(p) for p in r["purities"]))
        for r in curves
    ]
    return table(("set, tree", *(f"{factor:g}" for factor in factors)), rows)


def _failure(record: Record) -> str:
    name = f"{record['set']}, {record['method']}, {record['objective']}"
    return f"- {name}: {record['outcome']}"


_INTRODUCTION = """{versions}.

For each tree one number is tuned by `bj.tune_smoothing`, without labels, from the rule
of thumb: the factor of the rule's bandwidths (of all columns alike), or for multi the
odds α/(1 − α), which are the bound of Example 5.3 up to a constant. "Factor" is what
it is times the rule's. Tuned is on 150 distinct rows of a set (100 documents or cells,
half of the rows for held-out ones), drawn with seed 0; 30 steps of `optax.rprop(0.3)`,
a new tree every 6. Purity, by pairs, is that of the tree of all rows at the factor
found. The rule for multi is `bernstein(n, number of documents)`, δ = 0.05.

| objective | what is maximised |
| --- | --- |
| leave one out, k classes | leave-one-out likelihood of the cut into k clusters |
| leave one out, every row a cluster | the same of m: likelihood of a kernel density |
| leave one out, cuts | the same of 4 and of 16 clusters, added up |
| cuts and prior | that by row and column, less (log₂ factor)² / 2 |
| held out, cuts | likelihood of the other rows under 4 and 16 clusters |
| share of last merges | costs of the last k − 1 merges as a share of all |

k is the number of classes, which is all that two of them know of these."""

_FINDINGS = """FINDINGS"""

_LEGEND = (
    """Purity, and the factor in brackets; nothing where an objective was not tried."""
)

_CURVES = """Along the factor purity goes up and down by a few hundredths."""

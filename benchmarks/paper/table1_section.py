"""The section of RESULTS.md on Table 1."""

from collections.abc import Iterator

from readings import DEFAULTS, describe
from report import Record, number, table, versions

PAPER = {
    "glass": {"c-link": 0.46, "s-link": 0.45, "km": 0.50, "dg-nd": 0.49, "g-n": 0.54},
    "spam": {"c-link": 0.59, "s-link": 0.58, "km": 0.59, "dg-nd": 0.65, "g-n": 0.60},
    "mnist35": {"c-link": 0.59, "s-link": 0.51, "km": 0.69, "dg-nd": 0.62, "g-n": 0.73},
    "20n-e": {"c-link": 0.60, "s-link": 0.50, "multi": 0.93},
    "20n-h": {"c-link": 0.54, "s-link": 0.52, "multi": 0.56},
    "20n-b": {"c-link": 0.31, "s-link": 0.29, "multi": 0.62},
}

# Of the objectives of `tuned.py`, the one whose factors the table takes.
TUNED_BY = "leave one out, every row a cluster"


def write(records: list[Record], tuned: list[Record]) -> str:
    """The section, of the records of Table 1 and of tuning."""
    parts = [
        "## Table 1: dendrogram purity",
        _INTRODUCTION.format(versions=versions(), objective=TUNED_BY),
        _cells(records, tuned),
        _FINDINGS,
        "### All readings",
        _READINGS.format(defaults=describe(DEFAULTS)),
    ]
    for name in PAPER:
        rows = [record for record in records if record["set"] == name]
        if rows:
            parts += [f"#### {name}", _readings_table(name, rows)]
    seconds = sum(record["seconds"] for record in records)
    parts.append(
        f"{len(records)} trees, {seconds / 60:.0f} minutes on two busy cores, with "
        "distances and compilation."
    )
    return "\n\n".join(parts)


def _cells(records: list[Record], tuned: list[Record]) -> str:
    heads = (
        "set, tree",
        "paper",
        "ours",
        "by points",
        "other halves",
        "nearest reading",
        "tuned",
    )
    return table(heads, _rows_of_cells(records, tuned))


def _rows_of_cells(
    records: list[Record], tuned: list[Record]
) -> Iterator[tuple[str, ...]]:
    for name, cells in PAPER.items():
        for method, paper in cells.items():
            same = [r for r in records if (r["set"], r["method"]) == (name, method)]
            default = next((r for r in same if not r["reading"]), None)
            if default:
                yield (
                    f"{name}, {method}",
                    f"{paper:.2f}",
                    number(default["purity"]),
                    number(default["purity by points"]),
                    _range(same, method, "split"),
                    _nearest(same, paper),
                    _tuned(tuned, name, method),
                )


def _nearest(records: list[Record], paper: float) -> str:
    """The reading, on the same rows, that comes nearest to the paper."""
    apart = {"split", "α", "factor"}
    same = [r for r in records if not apart & set(r["reading"])]
    # Of readings that are as near, that with the fewest choices of its own.
    best = min(
        same, key=lambda r: (abs(r["purity"] - paper) // 0.0005, len(r["reading"]))
    )
    return f"{best['purity']:.3f} ({describe(best['reading'])})"


def _tuned(records: list[Record], name: str, method: str) -> str:
    for record in records:
        found = record["kind"] == "tuned" and record["objective"] == TUNED_BY
        if found and (record["set"], record["method"]) == (name, method):
            return number(record["purity"]) or "failed"
    return ""


def _readings_table(name: str, records: list[Record]) -> str:
    methods = list(PAPER[name])
    rows: dict[str, dict[str, str]] = {}
    for record in records:
        cells = rows.setdefault(describe(record["reading"]), {})
        cells[record["method"]] = _cell(record)
    paper = [f"{PAPER[name][method]:.2f}" for method in methods]
    body = [
        (reading, *(cells.get(method, "") for method in methods))
        for reading, cells in rows.items()
        if not reading.startswith(_DRAWN)
    ]
    drawn = [
        (words, *(_range(records, method, choice) for method in methods))
        for choice, words in _DRAWN_IN_WORDS.items()
        if any(choice in record["reading"] for record in records)
    ]
    return table(("reading", *methods), [("*paper*", *paper), *body, *drawn])


_DRAWN_IN_WORDS = {
    "order": "other orders of the rows",
    "split": "other halves",
    "factor": "0.25 to 8 times the bandwidth",
}
_DRAWN = tuple(f"{choice}: " for choice in _DRAWN_IN_WORDS)


def _range(records: list[Record], method: str, choice: str) -> str:
    """Purities over what a choice was drawn as, with how many there are."""
    purities = [
        r["purity"]
        for r in records
        if r["method"] == method and set(r["reading"]) == {choice}
    ]
    if not purities:
        return ""
    return f"{min(purities):.3f} to {max(purities):.3f} ({len(purities)})"


def _cell(record: Record) -> str:
    text = f"{record['purity']:.3f}"
    points = f"{record['purity by points']:.3f}"
    text += f" / {points}" if points != text else ""
    smoothing = record["smoothing"]
    if smoothing is None:
        return text
    return f"{text} ({'α' if record['method'] == 'multi' else 'h'} {smoothing:.4g})"


_INTRODUCTION = """{versions}.

"Ours" is what the library does when nothing else is said: features as they are; the
normal reference rule with ddof 1, and for g-n the mean over the columns that vary;
documents of weight 1, and α by `bernstein(61188, number of documents)`. Linkages are
SciPy's, of l² distances, and of l¹ distances of counts. Purity averages over all pairs
of one class, as the paper says; "by points" draws a point and then another of its
class, as Heller and Ghahramani (2005) do, and so counts a class by its points and not
by its pairs. "Other halves" are drawn from all 4,601 points of spam and from the
training set of MNIST. "Nearest reading" is the one of those below, on the same rows,
that comes nearest to the paper, chosen after the fact: it says what the paper may have
done, not what is right. "Tuned" is tuned without labels, by "{objective}"; see the
section on tuning."""

_FINDINGS = """What explains the differences, as far as readings can:

- **spam is counted by points.** By pairs the linkages and km are 0.02 to 0.05 above
  the paper, on all six halves; by points each of the five cells of the half given
  here is within 0.01 of it. The two averages differ where classes are of unequal size
  (1,395 and 906). For the other sets they agree, or pairs are as near. The default
  stays the average over pairs, as which the paper describes it.
- **mnist35: another half.** Over twenty other halves the purity of km goes from 0.616
  to 0.721, and three of them are above 0.685; the paper's 0.69 is one such half. The
  same holds for dg-nd, 0.615 to 0.700 over five, and g-n, 0.760 on the half given
  here, 0.673 and 0.665 on two others, for 0.73. Three of the 49 columns are constant;
  if they count in the mean bandwidth, g-n has 0.698 instead of 0.760, and 0.693 if it
  is a hundredth larger. How the paper scaled the digits down to 7 × 7 is not known
  either.
- **glass, g-n: 0.524 for 0.54, unexplained.** None of 41 bandwidths between a quarter
  of the rule's and eight times it gets above 0.529, nor do other scalings, deviations
  or rules but for "robust", 0.531. Six orders of the rows have the same purity.
- **The one bandwidth matters** where columns have different scales: the geometric
  mean takes glass to 0.511, the smallest to 0.425, the deviation of all entries to
  0.505.
- **20n: the bound of Example 5.3 as printed**, 1/N + √(p(1−p)/N) with constants of 1
  and N the number of documents, comes nearest on 20n-e (0.920 for 0.93) and 20n-h
  (0.559 for 0.56), and has 0.640 for 0.62 on 20n-b. With N the number of words α
  falls to a half, and 20n-h and 20n-b get better, 20n-e worse. Purity is no smooth
  function of α: from 0.01 to 0.995 20n-e goes between 0.89 and 0.93 up and down,
  20n-b between 0.58 and 0.70.
- **Linkages of 20n: l¹ of frequencies** gives the paper's c-link (0.609, 0.541, 0.316
  for 0.60, 0.54, 0.31), l¹ of counts its s-link on 20n-e. Distances of counts are
  whole numbers and tie, so that the order of the rows alone moves c-link of 20n-e
  from 0.528 to 0.582. No reading has both.
- **The logarithm** would do most for spam: 0.832 instead of 0.656 for dg-nd.
- **Without effect:** ÷ 255, as no tree depends on one scale of all columns; ddof; the
  order of rows but for c-link (equal rows, of which spam has many, merge first at no
  cost in any order); and the scale of each column for dg-nd, whose bandwidths follow
  it."""

_READINGS = """The default is {defaults}.

Each line changes the default where it says so. A cell has the purity by pairs and,
where it differs, by points; in brackets the bandwidth, or the share of the uniform
proportions. Of other orders and other halves there is the range, and their number.
Full Gaussians of spam and mnist35 were tried in fewer readings: a tree takes minutes,
and that of spam under the geometric mean of its bandwidths had not ended after 12.
"""

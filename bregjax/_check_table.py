"""Diagnostics of a table: what makes clusters of it that nobody wants."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from bregjax._checks import is_concrete
from bregjax._evaluation import equal_rows
from bregjax._explain import costs_of_cut
from bregjax._problem import Problem, check_problem
from bregjax._smoothing_like import has_shared_bandwidth, wide_bandwidth
from bregjax._sparse_rows import SparseRows
from bregjax.families import Categorical, CheckReport, Poisson, Product
from bregjax.families._finding import Finding
from bregjax.hierarchy import Dendrogram, agglomerate
from bregjax.hierarchy._overlap import pairs_apart

__all__ = ["check_table"]

# A value that fills more than this share of a column leaves little to cluster by. At
# double the rest (0.9), yes/no columns of rare events are told; at half, none.
_CONSTANT = 0.95
# A column with more than this share of the cost between clusters rules the tree, if it
# has more than twice its part.
_DOMINANT = 0.5
# Clusters of at most so many rows, and of less than this share, are outliers.
_FEW_ROWS, _SMALL = 3, 0.01
# Counts whose variance within clusters is so many times their mean.
_OVERDISPERSED = 1.5
# Levels of fewer rows say little of a cluster.
_RARE = 5
_SHOWN = 6


def check_table(
    problem: Problem, tree: Dendrogram | None = None, *, num_clusters: int = 10
) -> CheckReport:
    """Examine a table, and the top of its tree, before you trust the clusters.

    Looks for equal rows; cells that are missing, and pairs of rows that share no
    column; columns of one value but for a few rows; rare levels; rows that stay alone
    among the last clusters, with the columns that keep them apart; columns that make
    most of the cost between these clusters, where costs are by column; one bandwidth
    for all columns that is far above the spread of one; and counts whose variance
    within these clusters is well above their mean (Poisson's is equal to it).

    Args:
        problem: The table.
        tree: Its dendrogram; made here if None.
        num_clusters: At how many clusters the tree is looked at.

    Returns:
        The report: `print` it, or ask `.ok` and `.findings`.

    Raises:
        TypeError: Under `jit` or another transformation, or of sparse rows.

    Examples:
        >>> import bregjax as bj
        >>> rng = np.random.default_rng(0)
        >>> table = {"a": rng.normal(size=40), "b": rng.poisson(3, 40)}
        >>> table["a"][7] = 60
        >>> report = bj.check_table(bj.Problem(table, family="auto"), num_clusters=3)
        >>> print(report["outliers"].sentence)
        1 of 3 clusters is of at most 1 row: row 7 (by 'a'). Look at these rows first;
        cluster without them, or cut into more clusters.
    """
    problem = check_problem(problem)
    if not is_concrete((problem, tree)):
        raise TypeError("`check_table` reads values: call it outside jit and vmap.")
    if isinstance(problem.x, SparseRows):
        raise TypeError(
            "`problem` must have dense rows for `check_table`; got sparse ones. Take "
            "some of the columns, x[:, columns].toarray()."
        )
    findings = [_duplicates(problem), _missing(problem), *_columns(problem)]
    if has_shared_bandwidth(problem):
        message = wide_bandwidth(problem)
        found = (
            message or "One bandwidth is within ten times the spread of each column."
        )
        findings.append(Finding("bandwidth", passed=not message, sentence=found))
    count = min(num_clusters, problem.num_points)
    if count > 1:
        tree = agglomerate(problem) if tree is None else tree
        labels = np.asarray(tree.cut(max(count, tree.num_trees)))
        names, costs = costs_of_cut(problem, labels)
        findings.append(_outliers(problem, labels))
        if len(names) > 1:
            findings.append(_dominance(names, costs))
        if any(isinstance(_family_of(problem, c), Poisson) for c in problem.columns):
            findings.append(_dispersion(problem, labels))
    return CheckReport("table", tuple(findings))


def _duplicates(problem: Problem) -> Finding:
    labels = equal_rows(problem)
    twice = len(labels) - len(np.unique(labels))
    if not twice:
        return Finding("duplicates", passed=True, sentence="No two rows are equal.")
    largest = int(np.max(np.unique(labels, return_counts=True)[1]))
    return Finding(
        "duplicates",
        passed=twice <= 0.1 * len(labels),
        sentence=(
            f"{twice:,} of {len(labels):,} rows equal an earlier row, up to "
            f"{largest:,} alike. They merge first, at no cost; give one row their "
            "weight to save time."
        ),
    )


def _missing(problem: Problem) -> Finding:
    seen = ~np.isnan(np.asarray(problem.x))
    if seen.all():
        return Finding("missing", passed=True, sentence="No cell is missing.")
    apart, pairs = pairs_apart(seen)
    few = int(np.sum(seen.mean(axis=1) < 0.5))
    share = apart / max(pairs, 1)
    sentence = (
        f"{1 - seen.mean():.0%} of the cells are missing; {few:,} rows lack more than "
        f"half of theirs, and {share:.2g} of all pairs of rows share no column."
    )
    if share > 0.01 or few > 0.1 * len(seen):
        sentence += ' Compare the tree of missing="scaled", or drop such rows.'
        return Finding("missing", passed=False, sentence=sentence)
    return Finding("missing", passed=True, sentence=sentence)


def _columns(problem: Problem) -> list[Finding]:
    """Columns of little variation, and levels of few rows."""
    rows, names = np.asarray(problem.x), problem.columns
    flat, rare = [], []
    for place, name in enumerate(names):
        cells = rows[:, place]
        values, counts = np.unique(cells[~np.isnan(cells)], return_counts=True)
        share = counts.max() / counts.sum()
        if share > _CONSTANT:
            flat.append(f"{name!r} ({share:.0%} alike)")
        if _is_category(problem, name):
            few = int(np.sum(counts < _RARE))
            if few:
                rare.append(f"{name!r} ({few} of {len(values)} levels)")
    findings = [
        Finding(
            "constant",
            passed=not flat,
            sentence=(
                f"Columns of nearly one value: {_some(flat)}. A row that differs there "
                "is kept apart by little; leave such columns out, or trust them."
                if flat
                else "No column has nearly one value."
            ),
        )
    ]
    if any(_is_category(problem, name) for name in names):
        text = (
            f"Levels of fewer than {_RARE} rows: {_some(rare)}. They say little; join "
            "them with others."
        )
        findings.append(
            Finding(
                "rare levels",
                passed=not rare,
                sentence=text if rare else "No level is rare.",
            )
        )
    return findings


def _outliers(problem: Problem, labels: np.ndarray) -> Finding:
    """Clusters of a few rows, and the columns that set them apart."""
    sizes = np.bincount(labels)
    few = max(min(_FEW_ROWS, int(_SMALL * len(labels))), 1)
    small = np.flatnonzero(sizes <= few)
    if not len(small) or len(labels) < 2 * len(sizes):
        return Finding(
            "outliers",
            passed=True,
            sentence=f"No cluster of {len(sizes)} is of a few rows alone.",
        )
    named = []
    for cluster in small[:_SHOWN]:
        row = int(np.flatnonzero(labels == cluster)[0])
        named.append(f"row {row} (by {_farthest(problem, row)!r})")
    verb = "is" if len(small) == 1 else "are"
    more = f" and {len(small) - _SHOWN} more" if len(small) > _SHOWN else ""
    return Finding(
        "outliers",
        passed=False,
        sentence=(
            f"{len(small)} of {len(sizes)} clusters {verb} of at most {few} "
            f"row{'' if few == 1 else 's'}: {', '.join(named)}{more}. Look at these "
            "rows first; cluster without them, or cut into more clusters."
        ),
    )


def _farthest(problem: Problem, row: int) -> Hashable:
    """The column in which a row is farthest out, in deviations or by its rarity."""
    rows = np.asarray(problem.x)
    cells = rows[row]
    scores = np.zeros(len(cells))
    for place, cell in enumerate(cells):
        column = rows[:, place]
        column = column[~np.isnan(column)]
        if np.isnan(cell):
            continue
        if _is_category(problem, problem.columns[place]):
            scores[place] = -np.log(np.mean(column == cell))
            continue
        middle = np.median(column)
        spread = np.median(np.abs(column - middle)) or np.std(column) or 1
        scores[place] = abs(cell - middle) / spread
    return problem.columns[int(np.argmax(scores))]


def _dominance(names: list[str], costs: np.ndarray) -> Finding:
    share = costs / max(float(np.sum(costs)), np.finfo(float).tiny)
    first = int(np.argmax(share))
    words = (
        f"{names[first]!r} makes {share[first]:.0%} of the cost between clusters, of "
        f"{len(names)} columns"
    )
    if share[first] > _DOMINANT and share[first] > 2 / len(names):
        return Finding(
            "dominance",
            passed=False,
            sentence=(
                f"{words}. The tree is mostly of that column: see that its family fits "
                "(counts of a large variance, amounts in Poisson), or give it less "
                "weight, Product(…, weights={column: 0.5})."
            ),
        )
    return Finding("dominance", passed=True, sentence=f"{words}.")


def _dispersion(problem: Problem, labels: np.ndarray) -> Finding:
    """Counts whose variance within clusters is above their mean."""
    rows, weights = np.asarray(problem.x), np.asarray(problem.weights)
    found = []
    for place, name in enumerate(problem.columns):
        if not isinstance(_family_of(problem, name), Poisson):
            continue
        ratio = _dispersion_within(rows[:, place], weights, labels)
        if ratio > _OVERDISPERSED:
            found.append(f"{name!r} ({ratio:.2g} times)")
    if not found:
        return Finding(
            "dispersion",
            passed=True,
            sentence="Counts vary within clusters about as Poisson counts do.",
        )
    return Finding(
        "dispersion",
        passed=False,
        sentence=(
            f"Counts vary more within clusters than Poisson counts do: {_some(found)}. "
            "They weigh too much; take negative_binomial, or diagonal_gaussian of "
            "their square roots."
        ),
    )


def _dispersion_within(
    cells: np.ndarray, weights: np.ndarray, labels: np.ndarray
) -> float:
    """Pearson's Σ (x − μ_k)² / μ_k over its degrees of freedom."""
    total = freedom = 0.0
    for cluster in np.unique(labels):
        inside = (labels == cluster) & ~np.isnan(cells)
        x, w = cells[inside], weights[inside]
        if len(x) < 2 or not np.any(x):
            continue
        mean = w @ x / w.sum()
        total += float(w @ (x - mean) ** 2 / mean)
        freedom += float(w.sum()) - 1
    return total / freedom if freedom > 0 else 0.0


def _family_of(problem: Problem, column: Hashable) -> Any:
    family = problem.family
    if not isinstance(family, Product):
        return family
    return family.families[family.layout.block_of(column)]


def _is_category(problem: Problem, column: Hashable) -> bool:
    return isinstance(_family_of(problem, column), Categorical)


def _some(words: list[str]) -> str:
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more

"""Smoothing tuned without labels, by several objectives, against the rule of thumb.

One number is tuned for each tree: the factor of the rule's bandwidths (dg-nd, g-n), or
the share α of the uniform proportions (multi). It is tuned on distinct rows drawn from
the set, and the tree whose purity counts is that of all rows at the factor found.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import data
import jax
import jax.numpy as jnp
import numpy as np
import optax
import report
import scipy.sparse as sp
from readings import FAMILIES, bandwidths, sample_size
from tuned_section import write

import bregjax as bj
from bregjax.clusters import Moments
from bregjax.objectives import held_out_log_likelihood, leave_one_out_log_likelihood
from bregjax.smoothing import adding, bernstein, mixing

MOST_ROWS = 150
MOST_DOCUMENTS = 100
CUTS = (4, 16)
_OPTIMIZER = optax.rprop(0.3)
# Factors of the rule that the purity is tabulated at.
FACTORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# Factors so near each other that purity should not depend on them.
NEAR = (0.7, 0.76, 0.83, 0.91, 1.0, 1.1, 1.2, 1.3, 1.45)
NEAR_SETS = ("glass", *data.MORE_EUCLIDEAN)

DIAGONAL = (*data.EUCLIDEAN, *data.MORE_EUCLIDEAN)
FULL = ("glass", "iris", "wine", "breast_cancer", "spam", "mnist35")
COUNTS = (*data.TEXT, *data.MORE_COUNTS)
# One tree of all rows takes a minute or two.
SLOW = {("spam", "g-n"), ("mnist35", "g-n")}
OF_SLOW = ("leave one out, every row a cluster",)


class Rule(NamedTuple):
    """The rule of thumb for some rows: a problem, at any factor of the rule."""

    x: np.ndarray | sp.csr_matrix
    method: str
    amount: float  # of the map, at factor 1
    center: object

    def problem(self, factor: float) -> bj.Problem:
        """The rows with the rule's smoothing times a factor."""
        if self.method == "multi":
            odds = factor * self.amount / (1 - self.amount)
            smoothing = mixing(self.center, odds / (1 + odds))
        else:
            smoothing = adding(self.center, self.amount * factor**2)
        return bj.Problem(self.x, family=FAMILIES[self.method], smoothing=smoothing)

    def log_factor(self, problem: bj.Problem):
        """The logarithm of the factor that a tuned problem has; differentiable."""
        amount = problem.smoothing.amount
        if self.method == "multi":
            rule = np.log(self.amount / (1 - self.amount))
            return jnp.log(amount) - jnp.log1p(-amount) - rule
        return 0.5 * jnp.log(amount)


def rule_of(x, method: str) -> Rule:
    """The rule for all rows of a set."""
    if method == "multi":
        m, n = x.shape
        amount = float(bernstein(n, sample_size(np.ones(m), "documents")).amount)
        return Rule(x, method, amount, np.full(n, 1 / n))
    d = x.shape[1]
    variances = np.broadcast_to(bandwidths(x, method, {}) ** 2, d)
    form = "full" if method == "g-n" else "diagonal"
    covariance = np.diag(variances) if method == "g-n" else variances.copy()
    return Rule(x, method, 1.0, Moments(np.zeros(d), covariance, form))


def drawn(rule: Rule) -> Rule:
    """The rule for at most so many of its rows, without those equal to others.

    The share α stays that of all documents; bandwidths become those for fewer points.
    """
    rng = np.random.default_rng(0)
    if rule.method != "multi":
        distinct = np.unique(rule.x, axis=0)
        rows = rng.permutation(len(distinct))[:MOST_ROWS]
        return rule_of(distinct[rows], rule.method)
    x = rule.x[rng.permutation(rule.x.shape[0])[:MOST_DOCUMENTS]]
    used = np.diff(x.tocsc().indptr) > 0
    # One column for all words that no drawn document has: divergences are the same.
    dense = np.hstack([x[:, used].toarray(), np.zeros((x.shape[0], 1))])
    n = x.shape[1]
    center = np.append(np.full(used.sum(), 1 / n), (n - used.sum()) / n)
    return Rule(dense.astype(float), "multi", rule.amount, center)


def cuts(problem, tree, *, num_clusters):
    """Leave-one-out likelihoods of several cuts, added up."""
    del num_clusters
    ks = [k for k in CUTS if k < problem.num_points]
    return sum(leave_one_out_log_likelihood(problem, tree, num_clusters=k) for k in ks)


def share_of_last_merges(problem, tree, *, num_clusters):
    """Logarithm of the share of all costs that the last k − 1 merges have."""
    costs = bj.replay(problem, tree)
    return jnp.log(costs[len(costs) + 1 - num_clusters :].sum() / costs.sum())


def _with_prior(rule: Rule) -> Callable:
    """Likelihood of cuts, a row and a column, with a prior on the factor.

    The logarithm of the factor is normal with deviation log 2 about 0: as much weight
    as one row has, so that factors of 4 and more need strong evidence.
    """
    columns = 1 if rule.method == "multi" else rule.x.shape[1]
    scale = len(CUTS) * rule.x.shape[0] * columns

    def objective(problem, tree, *, num_clusters):
        prior = -0.5 * (rule.log_factor(problem) / np.log(2)) ** 2
        return cuts(problem, tree, num_clusters=num_clusters) / scale + prior

    return objective


def _held_out(rows) -> Callable:
    """Likelihood of rows that the tree is not of, at the same cuts."""

    def objective(problem, tree, *, num_clusters):
        del num_clusters
        ks = [k for k in CUTS if k < problem.num_points]
        return sum(
            held_out_log_likelihood(problem, tree, rows, num_clusters=k) for k in ks
        )

    return objective


OBJECTIVES = (
    "leave one out, k classes",
    "leave one out, every row a cluster",
    "cuts and prior",
    "held out, cuts",
    "leave one out, cuts",
    "share of last merges",
)


def _task(objective: str, rule: Rule, k: int) -> tuple[Rule, Callable, int]:
    """The rule to start from, the objective and its k."""
    m = rule.x.shape[0]
    if objective == "held out, cuts":
        half = rule._replace(x=rule.x[: m // 2])
        if rule.method != "multi":
            half = rule_of(half.x, rule.method)
        return half, _held_out(rule.x[m // 2 :]), k
    if objective == "leave one out, every row a cluster":
        return rule, leave_one_out_log_likelihood, m
    functions = {
        "leave one out, k classes": leave_one_out_log_likelihood,
        "leave one out, cuts": cuts,
        "cuts and prior": _with_prior(rule),
        "share of last merges": share_of_last_merges,
    }
    return rule, functions[objective], k


def run() -> None:
    """Compute what is missing, objective by objective, then curves of purity."""
    done = {_key(record) for record in report.read("tuned")}
    pairs = [pair for pair in _pairs() if data.load(pair[0]) is not None]
    for objective in OBJECTIVES:
        for name, method in pairs:
            if (name, method) in SLOW and objective not in OF_SLOW:
                continue
            if ("tuned", name, method, objective) not in done:
                report.append("tuned", _tuned(name, method, objective))
    for name, method in pairs:
        if ("curve", name, method, "") not in done and (name, method) not in SLOW:
            report.append("tuned", _curve(name, method))
    for name in NEAR_SETS:
        if ("near", name, "dg-nd", "") not in done:
            report.append("tuned", _curve(name, "dg-nd", kind="near", factors=NEAR))


def _key(record: report.Record) -> tuple[str, str, str, str]:
    return (
        record["kind"],
        record["set"],
        record["method"],
        record.get("objective", ""),
    )


def _pairs() -> Iterator[tuple[str, str]]:
    for method, names in (("dg-nd", DIAGONAL), ("multi", COUNTS), ("g-n", FULL)):
        for name in names:
            yield name, method


def _purity(name: str, method: str, factor: float) -> float:
    rows = data.load(name)
    tree = bj.agglomerate(rule_of(rows.x, method).problem(factor))
    return round(bj.dendrogram_purity(tree, rows.classes), 5)


def _curve(
    name: str, method: str, *, kind: str = "curve", factors=FACTORS
) -> report.Record:
    start = time.perf_counter()
    purities = [_purity(name, method, factor) for factor in factors]
    return {
        "kind": kind,
        "set": name,
        "method": method,
        "factors": factors,
        "purities": purities,
        "seconds": round(time.perf_counter() - start, 1),
    }


def _tuned(name: str, method: str, objective: str) -> report.Record:
    rows = data.load(name)
    start = time.perf_counter()
    rule, function, k = _task(
        objective,
        drawn(rule_of(rows.x, method)),
        len(np.unique(rows.classes)),
    )
    factor, outcome, steps = _climb(rule, function, k)
    tuning = time.perf_counter() - start
    return {
        "kind": "tuned",
        "set": name,
        "method": method,
        "objective": objective,
        "rows": rule.x.shape[0],
        "factor": factor,
        "outcome": outcome,
        "steps": steps,
        "purity": factor and _purity(name, method, factor),
        "seconds tuning": round(tuning, 1),
        "seconds": round(time.perf_counter() - start, 1),
    }


def _climb(rule: Rule, objective: Callable, k: int) -> tuple[float | None, str, int]:
    """Factor found, how it ended, and the number of steps."""
    # Nearly all of the time of points is compilation: each objective and shape is a
    # program.
    jax.config.update("jax_disable_most_optimizations", rule.method != "multi")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = bj.tune_smoothing(
                rule.problem(1.0),
                num_clusters=k,
                objective=objective,
                optimizer=_OPTIMIZER,
                max_steps=30,
                recluster_every=6,
                # A thousandth of the bandwidth is as good as none.
                floor=1e-4 if rule.method == "multi" else 1e-6,
            )
    except ValueError as error:
        return None, str(error).splitlines()[0], 0
    finally:
        jax.config.update("jax_disable_most_optimizations", False)
    factor = float(np.exp(rule.log_factor(found.problem)))
    return float(f"{factor:.4g}"), found.result.name, len(found.history)


def section() -> str:
    """What RESULTS.md says about tuning."""
    return write(report.read("tuned"), report.read("table1"))

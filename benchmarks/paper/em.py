"""EM for mixtures of full Gaussians, started from a tree and otherwise (Section 7.1).

The smoothed log-likelihood after EM of `bregjax.soft_clustering`, per row and without
what depends on the rows alone, from the cut of a tree, from seeds drawn by the
divergence (several keys), and what scikit-learn's GaussianMixture comes to from its own
starts under the same covariance floor. Data are those of the Euclidean tables, the
trees g-n; all mixtures have the bandwidth of the normal reference rule.
"""

import time

import numpy as np
import report
from data import load
from sklearn.mixture import GaussianMixture

import bregjax as bj

PART = "em"
DATA = ("glass", "spam", "mnist35")
COUNTS = {"glass": (6,), "spam": (2, 10), "mnist35": (2, 10)}
KEYS = range(5)


def run() -> None:
    """Append a record for each data set, number of clusters and start."""
    done = {(r["data"], r["k"], r["start"]) for r in report.read(PART)}
    for name in DATA:
        data = load(name)
        if data is None:
            continue
        problem = bj.Problem(data.x, family="gaussian")
        tree = None
        for k in COUNTS[name]:
            for start in ("tree", *(f"seeds {key}" for key in KEYS)):
                if (name, k, start) in done:
                    continue
                if start == "tree" and tree is None:
                    tree = bj.agglomerate(problem)
                report.append(PART, _fitted(name, problem, tree, k, start))
            for key in KEYS:
                start = f"scikit-learn {key}"
                if (name, k, start) not in done:
                    report.append(PART, _by_scikit_learn(name, problem, k, key))


def _fitted(name: str, problem, tree, k: int, start: str) -> report.Record:
    begin = time.perf_counter()
    chosen = {"init": tree} if start == "tree" else {"key": int(start.split()[1])}
    found = bj.soft_clustering(problem, num_clusters=k, **chosen)
    seconds = time.perf_counter() - begin
    return {
        "data": name,
        "k": k,
        "start": start,
        "first": _per_row(found.objective[0], problem),
        "last": _per_row(found.objective[-1], problem),
        "log_likelihood": _per_row(found.log_likelihood(), problem),
        "steps": int(found.num_steps),
        "result": found.result.name,
        "seconds": round(seconds, 2),
    }


def _by_scikit_learn(name: str, problem, k: int, key: int) -> report.Record:
    """The mixture of scikit-learn, whose floor of covariances is h²."""
    begin = time.perf_counter()
    h = float(problem.smoothing.bandwidth)
    mixture = GaussianMixture(
        k, reg_covar=h**2, random_state=key, max_iter=500, tol=1e-6
    )
    mixture.fit(problem.x)
    return {
        "data": name,
        "k": k,
        "start": f"scikit-learn {key}",
        "log_likelihood": round(float(mixture.score(problem.x)), 4),
        "steps": int(mixture.n_iter_),
        "seconds": round(time.perf_counter() - begin, 2),
    }


def _per_row(value, problem) -> float:
    return round(float(value) / problem.num_points, 4)


_FINDINGS = """- **The tree starts nearer.** Before any step its cut is ahead of all
  five draws of seeds on every line, by 0.07 to 1.3 nats a row.
- **After EM it is as good as a draw of seeds**, and no better: mnist35 in 10 clusters
  ends at −14.465 (seeds −14.560 to −14.464), glass at −3.025 (−3.158 to −2.993), spam
  in 10 at −3.455 (−3.457 to −3.430). In two clusters all these starts end at one
  mixture. The tree needs no key; the best of several draws may be better.
- **It does not spare steps**: 13 to 244, seeds 14 to 345. EM is slow near its end,
  from wherever it comes.
- **scikit-learn's mixtures have less likelihood** on every line, by 0.08 to 1.1 nats a
  row at the mean, from its own starts by k-means. Its floor of h² is the same, but its
  score leaves out the trace that the one of `soft_clustering` has, and so its steps end
  elsewhere; on spam in two clusters its starts differ by 2.8 nats."""


def section() -> str:
    """The table of starts."""
    records = report.read(PART)
    heads = (
        "data",
        "k",
        "start",
        "objective at the start",
        "after EM",
        "log-likelihood a row",
        "steps",
    )
    rows = []
    for name in DATA:
        for k in COUNTS[name]:
            for kind in ("tree", "seeds", "scikit-learn"):
                same = [
                    r
                    for r in records
                    if (r["data"], r["k"]) == (name, k) and r["start"].startswith(kind)
                ]
                if same:
                    rows.append((name, k, kind, *_summary(same)))
    return "\n\n".join(
        [
            "## EM started from the tree (Section 7.1, Appendix F)",
            __doc__.split("\n\n", 1)[1].strip(),
            "Of several starts the mean, and from the least to the largest.",
            report.table(heads, rows),
            _FINDINGS,
            report.versions() + ".",
        ]
    )


def _summary(records: list[report.Record]) -> list[str]:
    def shown(field: str, digits: int = 3) -> str:
        values = [r[field] for r in records if field in r]
        if not values:
            return ""
        mean = report.number(float(np.mean(values)), digits)
        if len(values) == 1:
            return mean
        low, high = (report.number(end(values), digits) for end in (min, max))
        return f"{mean} ({low} to {high})"

    fields = ("first", "last", "log_likelihood")
    return [*map(shown, fields), shown("steps", 0)]

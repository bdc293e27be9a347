"""How often criteria find the number of clusters of made mixtures.

Run from the repository: `python benchmarks/choose.py families [NAME …]`, `mclust` (R
with mclust), `iris` (scikit-learn). A line of JSON a problem goes to stdout;
`python benchmarks/choose.py table FILE …` makes the tables of CHOOSE.md of them.
"""

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from harness.mixtures import KINDS, made
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture

import bregjax as bj
from bregjax._evaluation import working
from bregjax.hierarchy._cut_states import Clusters
from bregjax.partition._em import fitted_mixture
from bregjax.partition._mixture import sums_of_rows
from bregjax.partition._points import points_of

NUMBERS = range(3, 11)
SEEDS = range(3)
ERRORS = {"apart": 0.005, "overlapping": 0.08}
MOST = 16
R_SCRIPT = Path(__file__).parent / "harness" / "tools" / "mclust_choose.R"


def by_costs(found, tree):
    """ICL of rows in the tree's clusters, from merge costs alone but for k = 1."""
    gains = np.cumsum(np.nan_to_num(found.costs))
    for k in found.numbers:
        sizes = np.bincount(tree.cut(int(k)))
        gains[k - 1] += np.sum(sizes * np.log(sizes / found.sample_size))
    likelihood = found.log_likelihood[0] + gains
    return found.num_parameters * np.log(found.sample_size) - 2 * likelihood


def of_truth(problem, classes):
    """BIC of the mixture that EM fits from the true clusters."""
    k = int(classes.max()) + 1
    with working(problem) as work:
        best, _, _ = fitted_mixture(
            points_of(work), np.eye(MOST)[classes], tolerance=1e-5, max_steps=300
        )
        sums = sums_of_rows(work, Clusters(best.states, best.weights))
    count = k * (problem.family.num_parameters + 1) - 1
    return count * np.log(len(classes)) - 2 * sums[0]


def criteria(problem):
    """The number that each criterion chooses, those it hardly tells, and BIC."""
    tree = bj.agglomerate(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        cuts = bj.choose_num_clusters(
            problem, tree, max_clusters=MOST, held_out=True, refine=False
        )
        middle = time.perf_counter()
        fitted = bj.choose_num_clusters(problem, tree, max_clusters=MOST, refine=True)
        end = time.perf_counter()
        smooth = bj.choose_num_clusters(
            problem, tree, max_clusters=MOST, held_out=True, smoothing_share=1
        )
    numbers = cuts.numbers
    below = np.diff(cuts.costs, append=np.nan)
    best = {
        "bic": numbers[np.argmin(cuts.bic)],
        "icl": numbers[np.argmin(cuts.icl)],
        "icl by costs": numbers[np.argmin(by_costs(cuts, tree))],
        "held out": numbers[np.argmax(np.asarray(cuts.held_out))],
        "bic smooth": numbers[np.argmin(smooth.bic)],
        "held out smooth": numbers[np.argmax(np.asarray(smooth.held_out))],
        "gap": numbers[np.nanargmax(cuts.gaps)],
        "difference": numbers[np.nanargmin(below)],
        "bic refined": numbers[np.argmin(fitted.bic)],
        "icl refined": numbers[np.argmin(fitted.icl)],
    }
    near = {
        "bic": numbers[cuts.bic < cuts.bic.min() + 6],
        "bic refined": numbers[fitted.bic < fitted.bic.min() + 6],
    }
    return {
        "best": {name: int(value) for name, value in best.items()},
        "near": {name: value.tolist() for name, value in near.items()},
        "bic": {"cuts": cuts.bic.min(), "refined": fitted.bic.min()},
        "seconds": [middle - start, end - middle],
    }


def families(names):
    for name in names or KINDS:
        for words, error in ERRORS.items():
            for k in NUMBERS:
                for seed in SEEDS:
                    kind = KINDS[name]
                    mixture = made(kind, k, seed, error)
                    problem = bj.Problem(mixture.x, family=kind.family)
                    found = criteria(problem)
                    found["bic"]["truth"] = of_truth(problem, mixture.classes)
                    line = {"kind": name, "words": words, "k": k, "seed": seed}
                    print(json.dumps(line | found | {"error": mixture.error}))
                    sys.stdout.flush()


MODELS = {
    "gaussian": "VVV",
    "diagonal_gaussian": "VVI",
    "isotropic_gaussian": "VII",
    "ward": "EII",
}


def by_mclust(tables, models, most=MOST):
    """For each table the number that Mclust() chooses, and its BIC for each."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for number, (x, model) in enumerate(zip(tables, models, strict=True)):
            path = Path(folder) / f"{number}.npy"
            np.save(path, np.asarray(x, float))
            jobs.append(f"{path} {model}\n")
        listed = Path(folder) / "jobs.txt"
        listed.write_text("".join(jobs), "utf-8")
        done = subprocess.run(
            ["Rscript", str(R_SCRIPT), str(listed), str(most)],
            capture_output=True,
            text=True,
            check=True,
        )
    return [line.split() for line in done.stdout.splitlines()]


def mclust(names):
    lines, tables, models = [], [], []
    for name in names or MODELS:
        for words, error in ERRORS.items():
            for k in NUMBERS:
                for seed in SEEDS:
                    tables.append(made(KINDS[name], k, seed, error).x)
                    models.append(MODELS[name])
                    lines.append({"kind": name, "words": words, "k": k, "seed": seed})
    for line, answer in zip(lines, by_mclust(tables, models), strict=True):
        print(json.dumps(line | {"best": {"mclust": int(answer[0])}}))


def iris(_):
    """BIC of 1 to 6 clusters of iris: cuts, refined, scikit-learn's, mclust's."""
    x, most = load_iris().data, 6
    for name, form in {"gaussian": "full", "diagonal_gaussian": "diag"}.items():
        problem = bj.Problem(x, family=name)
        tree = bj.agglomerate(problem)
        rows = {}
        for words, options in {
            "bregjax, cuts": {},
            "bregjax, refined": {"refine": True},
            "bregjax, cuts, all smoothing": {"smoothing_share": 1},
        }.items():
            rows[words] = bj.choose_num_clusters(
                problem, tree, max_clusters=most, **options
            ).bic
        rows["scikit-learn, best of 10 starts"] = [
            GaussianMixture(k, covariance_type=form, n_init=10, random_state=0)
            .fit(x)
            .bic(x)
            for k in range(1, most + 1)
        ]
        for model in (MODELS[name], "all"):
            answer = by_mclust([x], [model], most)[0]
            rows[f"mclust, {model}"] = [-float(value) for value in answer[1:]]
        for words, bics in rows.items():
            best = 1 + int(np.argmin(bics)) if len(bics) > 1 else answer[0]
            cells = " | ".join(f"{bic:.1f}" for bic in bics)
            print(f"| {name} | {words} | {best} | {cells} |")


def table(paths):
    texts = [Path(path).read_text("utf-8").splitlines() for path in paths]
    lines = [json.loads(line) for text in texts for line in text]
    methods = list(dict.fromkeys(m for line in lines for m in line["best"]))
    for words in ERRORS:
        print(f"\n{words}\n")
        print("| family | " + " | ".join(methods) + " |")
        print("|---|" + "---|" * len(methods))
        for kind in dict.fromkeys(line["kind"] for line in lines):
            chosen = [t for t in lines if t["kind"] == kind and t["words"] == words]
            cells = [_cell(chosen, method) for method in methods]
            print(f"| {kind} | " + " | ".join(cells) + " |")
        chosen = [t for t in lines if t["words"] == words and "bic" in t]
        for method in ("bic", "bic refined"):
            hits = [t["k"] in t["near"][method] for t in chosen if "near" in t]
            print(f"\ntruth within 6 of the best {method}: {np.mean(hits):.0%}")
        for kind in dict.fromkeys(line["kind"] for line in chosen):
            own = [t for t in chosen if t["kind"] == kind]
            wrong = [t for t in own if t["best"]["bic refined"] != t["k"]]
            better = [t["bic"]["truth"] < t["bic"]["refined"] - 1e-6 for t in wrong]
            seconds = np.median([t["seconds"] for t in own], axis=0)
            print(
                f"{kind}: {len(wrong)} of {len(own)} wrong, the truth has the smaller "
                f"BIC in {sum(better)}; median seconds {seconds[0]:.2f}, "
                f"{seconds[1]:.2f}; error {np.mean([t['error'] for t in own]):.3f}"
            )


def _cell(lines, method):
    """Per cent right, and per cent too few and too many."""
    found = np.array([t["best"][method] for t in lines if method in t["best"]])
    truth = np.array([t["k"] for t in lines if method in t["best"]])
    if not len(found):
        return ""
    percent = lambda share: f"{100 * np.mean(share):.0f}"
    few, many = percent(found < truth), percent(found > truth)
    return f"{percent(found == truth)} (−{few} +{many})"


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:])

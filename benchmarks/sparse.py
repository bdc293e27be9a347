"""Trees of sparse counts: time, memory and purity; prints a Markdown table.

Run from the repository: `python benchmarks/sparse.py`, each case in a process of its
own. Real data are read from `../shared/data` beside the repository and left out where
they are absent. Made text has 20 subjects: half of a document's words follow Zipf's
law, half that of its subject. "SciPy Ward" is of the same counts made dense.
"""

import pathlib
import resource
import subprocess
import sys
import time

import numpy as np
import scipy.sparse
from scipy.cluster.hierarchy import linkage

import bregjax as bj

DATA = pathlib.Path(__file__).parents[2] / "shared" / "data"

CASES = {
    "news_hockey_crypt": ("multinomial", "bernstein"),
    "news_atheism_religion": ("multinomial", "bernstein"),
    "baron_mouse1": ("multinomial", "none"),
    "baron_mouse1, counts": ("poisson", "none"),
    "made text 4,000": ("multinomial", "bernstein"),
    "made text 20,000": ("multinomial", "none"),
    "made text 20,000, smoothed": ("multinomial", "bernstein"),
}


def real(name):
    """Counts and classes of a file, its training half where it has one."""
    file = DATA / f"{name}.npz"
    if not file.exists():
        return None
    with np.load(file) as arrays:
        chosen = arrays["is_train"] if "is_train" in arrays else slice(None)
        return scipy.sparse.load_npz(file)[chosen], arrays["y"][chosen]


def made_text(documents, words=50_000, entries=80, subjects=20):
    """Documents of so many different words each, and their subjects."""
    rng = np.random.default_rng(0)
    common = 1 / np.arange(1, words + 1)
    common /= common.sum()
    subject = rng.integers(0, subjects, documents)
    totals = [
        np.cumsum(0.5 * common + 0.5 * common[rng.permutation(words)])
        for _ in range(subjects)
    ]
    rows, columns, values = [], [], []
    for row, total in enumerate(subject):
        drawn = np.searchsorted(totals[total], rng.random(3 * entries) * 0.999999)
        found, counts = np.unique(drawn, return_counts=True)
        kept = rng.permutation(len(found))[:entries]
        rows.append(np.full(len(kept), row))
        columns.append(found[kept])
        values.append(counts[kept])
    place = np.concatenate(rows), np.concatenate(columns)
    shape = (documents, words)
    x = scipy.sparse.csr_array((np.concatenate(values).astype(float), place), shape)
    return x, subject


def load(name):
    """Counts and classes of a case."""
    if name.startswith("made text"):
        size = name.split()[2].rstrip(",").replace(",", "")
        return made_text(int(size))
    return real(name.split(",")[0])


def measure(name):
    """Print a line of the table: two trees, the second warm; one of many rows."""
    family, smoothing = CASES[name]
    found = load(name)
    if found is None:
        return
    x, classes = found
    m, n = x.shape
    kind = bj.smoothing.bernstein(n, m) if smoothing == "bernstein" else None
    problem = bj.Problem(x, family=family, smoothing=kind)
    seconds = []
    for _ in range(2 if m < 10_000 else 1):
        start = time.perf_counter()
        tree = bj.agglomerate(problem)
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    purity = bj.dendrogram_purity(tree, classes)
    ward = ""
    if m < 2000 and family != "poisson":
        dense = x.toarray().astype(float)
        start = time.perf_counter()
        linkage(dense, "ward")
        ward = f"{time.perf_counter() - start:.1f}"
    cells = [name, f"{m:,} × {n:,}", f"{x.nnz / m:.0f}", f"{family}, {smoothing}"]
    warm = f"{seconds[1]:.1f}" if len(seconds) > 1 else ""
    cells += [f"{seconds[0]:.1f}", warm, f"{peak:.2f}"]
    print(_line([*cells, f"{purity:.3f}", ward]), flush=True)


def _line(cells):
    return "| " + " | ".join(cells) + " |"


def main():
    if len(sys.argv) > 1:
        measure(sys.argv[1])
        return
    heads = ["case", "m × n", "entries a row", "model", "first s", "warm s", "GiB"]
    heads += ["purity", "SciPy Ward s"]
    print(_line(heads), _line(["---"] * len(heads)), sep="\n", flush=True)
    for name in CASES:
        subprocess.run([sys.executable, __file__, name], check=True)


if __name__ == "__main__":
    main()

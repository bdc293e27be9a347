"""The figures the project states for whole clusterings; prints a Markdown table.

Run from the repository: `python benchmarks/core.py`. Real data other than glass is read
from `../shared/data` beside the repository and left out where it is absent. Cold is the
first call in a process, warm the median of the next three.
"""

import pathlib
import resource
import statistics
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from scipy.cluster.hierarchy import linkage

import bregjax as bj
from bregjax.datasets import load_glass

DATA = pathlib.Path(__file__).parents[2] / "shared" / "data"


def zero_truncated_poisson(theta):
    """ψ of a Poisson count given that it is not 0, in a form that does not overflow."""
    rate = jnp.exp(theta)
    return jnp.sum(rate + jnp.log(-jnp.expm1(-rate)))


def made_counts(columns):
    """1,000 rows of counts of at least 1 from three rates."""
    rng = np.random.default_rng(0)
    rate = rng.choice([1.0, 4.0, 15.0], size=(1000, 1))
    return np.maximum(rng.poisson(rate, size=(1000, columns)), 1)


def training_half(name):
    z = np.load(DATA / f"{name}.npz")
    return z["X"][z["is_train"]], z["y"][z["is_train"]]


def cases():
    """Name, rows, labels, family."""
    glass = load_glass()
    for family in ("ward", "diagonal_gaussian", "gaussian"):
        yield f"glass, {family}", glass.x, glass.classes, family
    for name in ("mnist35", "spambase"):
        if (DATA / f"{name}.npz").exists():
            x, y = training_half(name)
            yield f"{name}, ward", x, y, "ward"
            yield f"{name}, diagonal_gaussian", x, y, "diagonal_gaussian"
    for columns in (1, 5):
        x = made_counts(columns)
        own = bj.ExponentialFamily(
            zero_truncated_poisson, lambda row: row, jnp.zeros(columns), separable=True
        )
        yield f"made counts × {columns}, poisson", x, None, "poisson"
        yield f"made counts × {columns}, own ψ (zero-truncated)", x, None, own


def measure(name):
    """One line of the table, in a process of its own."""
    x, labels, family = next(case[1:] for case in cases() if case[0] == name)
    start = time.perf_counter()
    tree = bj.agglomerate(x, family=family, engine="matrix")
    cold = time.perf_counter() - start
    warm = []
    for _ in range(3):
        start = time.perf_counter()
        bj.agglomerate(x, family=family, engine="matrix")
        warm.append(time.perf_counter() - start)
    purity = "" if labels is None else f"{bj.dendrogram_purity(tree, labels):.4f}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    m, d = x.shape
    print(
        f"| {name} | {m} × {d} | {cold:.2f} | {statistics.median(warm):.3f} | "
        f"{peak:.0f} | {purity} | {tree.num_inversions(rtol=1e-9)} |",
        flush=True,
    )


def scipy_rows():
    glass = load_glass()
    for method in ("single", "complete", "ward"):
        tree = bj.Dendrogram.from_linkage(linkage(glass.x, method))
        purity = bj.dendrogram_purity(tree, glass.classes)
        print(f"| glass, SciPy {method} | 214 × 9 | | | | {purity:.4f} | |", flush=True)


def main():
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}, float64\n")
    print("| case | m × d | cold s | warm s | peak MiB | purity | inversions |")
    print("|---|---|---|---|---|---|---|", flush=True)
    scipy_rows()
    for name, *_ in cases():
        subprocess.run([sys.executable, __file__, name], check=True)


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()

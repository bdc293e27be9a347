"""Families of one's own, and those without a closed form: first tree, and again.

Run from the repository: `python benchmarks/own_families.py [case …]`. Each case is a
process of its own with an empty compilation cache; "first" counts from its start,
imports included. Trees are held against the built-in's where there is one. Prints a
Markdown table with the limits to reach, and one of what follows from a tree: gradients,
features, tuning.
"""

import os
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from harness.own_potentials import (
    diagonal_gaussian,
    negative_binomial,
    normal_column,
    von_mises_fisher,
)

import bregjax as bj

H = 0.3  # bandwidth of own Gaussians
REPEATS = 3


def _moments(x):
    return jnp.concatenate([x, x**2 + H**2])


def _pair(x):
    return x, x**2 + H**2


def _identity(x):
    return x


def _blobs(m, d):
    rng = np.random.default_rng(0)
    centers = 3 * rng.normal(size=(20, d))
    return centers[rng.integers(0, 20, m)] + rng.normal(size=(m, d))


def _counts(m, d):
    return np.random.default_rng(0).poisson(np.exp(_blobs(m, d) / 3))


def _few_counts():
    return np.array([[1, 9], [2, 7], [1, 8], [6, 1], [5, 1]])


def _directions():
    x = np.random.default_rng(0).normal(size=(200, 3)) + [1, 1, 0]
    return 0.9 * x / np.linalg.norm(x, axis=1, keepdims=True)


def _one_column(psi, statistics, start):
    return bj.Columnwise(bj.ExponentialFamily(psi, statistics, start))


def _own_gaussian(d):
    start = np.repeat([0.0, -0.5], d)
    return bj.ExponentialFamily(diagonal_gaussian, _moments, start)


def _own_counts(d, *, separable=False):
    start = -np.ones(d)
    return bj.ExponentialFamily(
        negative_binomial, _identity, start, separable=separable
    )


BLUR = {"family": "diagonal_gaussian", "smoothing": bj.blur(H)}

# Rows, options, those of a built-in (or None), whether its tree is the same, limits on
# the first tree in seconds, and on another in seconds or in times the built-in's.
CASES = {
    "5 × 2, not separable": lambda: (
        _few_counts(), {"family": _own_counts(2)}, None, False, "6 s", None),
    "5 × 2, separable": lambda: (
        _few_counts(), {"family": _own_counts(2, separable=True)}, None, False,
        "4 s", None),
    "5 × 2, by columns": lambda: (
        _few_counts(), {"family": _one_column(negative_binomial, _identity, -1.0)},
        None, False, "4 s", None),
    "Gaussian 200 × 5, not separable": lambda: (
        np.random.default_rng(0).normal(size=(200, 5)), {"family": _own_gaussian(5)},
        BLUR, True, "10 s", "20 ×"),
    "Gaussian 200 × 5, by columns": lambda: (
        np.random.default_rng(0).normal(size=(200, 5)),
        {"family": _one_column(normal_column, _pair, (0.0, -0.5))},
        BLUR, True, None, "4 ×"),
    "directions, 200 × 3": lambda: (
        _directions(),
        {"family": bj.ExponentialFamily(
            von_mises_fisher, _identity, np.full(3, 0.1))},
        None, False, "8 s", "0.5 s"),
    "counts 1,000 × 10, by columns": lambda: (
        _counts(1000, 10), {"family": _one_column(negative_binomial, _identity, -1.0)},
        {"family": "poisson"}, False, None, "4 ×"),
    "counts 5,000 × 10, by columns": lambda: (
        _counts(5000, 10), {"family": _one_column(negative_binomial, _identity, -1.0)},
        {"family": "poisson"}, False, None, "4 ×"),
    "dense, 1,000 rows, 10 parameters": lambda: (
        _blobs(1000, 5), {"family": _own_gaussian(5)}, BLUR, True, None, "30 s"),
    "ising 100 × 5": lambda: (
        (_blobs(100, 5) > 0).astype(float), {"family": "ising"}, None, False, "15 s",
        None),
    "ising 2,000 × 6": lambda: (
        (_blobs(2000, 6) > 0).astype(float), {"family": "ising"}, None, False, None,
        "30 s"),
    "gamma 5,000 × 4": lambda: (
        np.exp(_blobs(5000, 4) / 3), {"family": "gamma"},
        {"family": "diagonal_gaussian"}, False, None, "3 ×"),
}  # fmt: skip


# What follows from a tree of 60 rows × 3, of the Gaussian written as one's own ψ.
DERIVED = {
    "gradient of replay": lambda problem, tree: jax.grad(
        lambda problem: jnp.sum(jnp.log(bj.replay(problem, tree)))
    )(problem),
    "features of 60 rows": lambda problem, tree: bj.dendrogram_features(
        problem, tree, num_features=5
    ),
    "soft assignments": lambda problem, tree: bj.soft_assignments(
        problem, tree, num_clusters=5
    ),
    "merge_cost of 5 rows and 4": lambda problem, tree: bj.merge_cost(
        problem, range(5), range(5, 9)
    ),
    "tuning, 20 steps": lambda problem, tree: bj.tune_smoothing(
        problem.replace(smoothing=bj.adding(np.repeat([0.0, 0.1], 3))),
        num_clusters=4,
        max_steps=20,
        progress=False,
    ),
}


def _times(x, options):
    """Seconds of calls after the first, and the tree."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        tree = bj.agglomerate(x, **options)
        seconds.append(time.perf_counter() - start)
    return min(seconds), tree


def run(name, started):
    """One case in this process, started at a time of the clock: a row of the table."""
    x, options, built_in, same, first_limit, again_limit = CASES[name]()
    tree, info = bj.agglomerate(x, **options, return_info=True)
    first = time.time() - started
    again, tree = _times(x, options)
    ratio = ""
    if built_in is not None:
        other = bj.agglomerate(x, **built_in)
        seconds, other = _times(x, built_in)
        ratio = f"{again / seconds:.1f} × of {seconds:.3f}"
        if same:
            np.testing.assert_allclose(tree.merge_costs, other.merge_costs, rtol=1e-9)
    found = bj.certify(bj.Problem(x, **options), tree, sample=20)
    print(
        f"| {name} | {info.engine} | {first:.1f} | {first_limit or ''} | {again:.3f} "
        f"| {ratio} | {again_limit or ''} | {found.relative:.0e} |",
        flush=True,
    )


def run_derived(name):
    """What follows from a tree, the first time and again: a row of a table."""
    x = np.random.default_rng(0).normal(size=(60, 3))
    problem = bj.Problem(x, family=_own_gaussian(3))
    tree = bj.agglomerate(problem)
    seconds = []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(DERIVED[name](problem, tree))
        seconds.append(time.perf_counter() - start)
    print(f"| {name} | {seconds[0]:.1f} | {min(seconds[1:]):.3f} |", flush=True)


def main(names):
    """All cases, a process each."""
    print(f"jax {jax.__version__}, {os.cpu_count()} cores\n")
    print(
        "| case | engine | s, first, import included | at most | s, again "
        "| of the built-in | at most | excess, sample |"
    )
    print("|---|---|---|---|---|---|---|---|")
    environment = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}

    def in_process(*arguments):
        command = [sys.executable, __file__, *arguments]
        subprocess.run(command, env=environment, check=True, timeout=900)

    for name in names or CASES:
        in_process("--one", name, str(time.time()))
    if not names:
        print("\n| after a tree | s, first | s, again |\n|---|---|---|", flush=True)
        for name in DERIVED:
            in_process("--derived", name)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run(sys.argv[2], float(sys.argv[3]))
    elif sys.argv[1:2] == ["--derived"]:
        run_derived(sys.argv[2])
    else:
        main(sys.argv[1:])

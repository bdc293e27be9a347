"""What a new process waits for: first trees and assignments, family by family.

    python benchmarks/first.py            # all built-in families
    python benchmarks/first.py gaussian   # one

Each family has a process of its own. Seconds of processor time, which other work on
the machine changes less than the clock: of the import, of the first tree of 100 × 5,
then of 80 × 5, 100 × 5 again and 1,000 × 5, and of the first shares of clusters, and
those of another number of clusters and of rows.
"""

import importlib
import subprocess
import sys
import time

import numpy as np

COLUMNS = 5
FAMILIES = (
    "ward",
    "diagonal_gaussian",
    "isotropic_gaussian",
    "gaussian",
    "poisson",
    "multinomial",
    "bernoulli",
    "geometric",
    "categorical",
    "exponential",
    "gamma",
    "inverse_gaussian",
    "von_mises_fisher",
    "beta",
    "dirichlet",
    "ising",
)


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(one(sys.argv[2]), flush=True)
        return
    print("| family | import | 100 | 80 | again | 1,000 | shares | k + 1 | 7 rows |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for family in sys.argv[1:] or FAMILIES:
        command = [sys.executable, __file__, "--one", family]
        subprocess.run(command, check=True)


def one(family: str) -> str:
    """A row of the table, by this process."""
    start = time.process_time()
    bj = importlib.import_module("bregjax")
    cells = [time.process_time() - start]

    def timed(work):
        begin = time.process_time()
        result = work()
        cells.append(time.process_time() - begin)
        return result

    rng = np.random.default_rng(0)
    tables = {count: rows(rng, family, count) for count in (100, 80, 1000)}
    for count in (100, 80, 100, 1000):
        timed(lambda count=count: bj.agglomerate(tables[count], family=family))
    problem = bj.Problem(tables[100], family=family)
    tree = bj.agglomerate(problem)
    timed(lambda: bj.soft_assignments(problem, tree, num_clusters=4))
    timed(lambda: bj.soft_assignments(problem, tree, num_clusters=5))
    few = problem.x[:7]
    if family != "categorical":
        timed(lambda: bj.soft_assignments(problem, tree, few, num_clusters=5))
    return f"| {family} | {' | '.join(f'{cell:.2f}' for cell in cells)} |"


def rows(rng, family: str, count: int):
    """Rows in the support of a family."""
    shape = count, COLUMNS
    if family in ("bernoulli", "ising"):
        return rng.integers(0, 2, shape)
    if family == "categorical":
        return rng.integers(0, 4, shape)
    if family in ("poisson", "multinomial", "geometric"):
        return rng.poisson(4.0, shape) + 1
    if family in ("exponential", "gamma", "inverse_gaussian"):
        return rng.gamma(2.0, size=shape)
    if family == "beta":
        return rng.beta(2, 3, size=shape)
    if family == "dirichlet":
        return rng.dirichlet([1.0] * COLUMNS, size=count)
    x = rng.normal(size=shape)
    if family == "von_mises_fisher":
        return x / ((x**2).sum(axis=1, keepdims=True)) ** 0.5
    return x


if __name__ == "__main__":
    main()

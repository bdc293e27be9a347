"""Certificates of whole trees: the largest excess of a merge over a pair left apart.

Run from the repository: `python benchmarks/certificates.py [points [families …]]`,
5,000 by default, and ten times as many for Ward. Prints a Markdown table.
"""

import sys
import time

import numpy as np

import bregjax as bj

FAMILIES = {
    "ward": 10,
    "poisson": 1,
    "multinomial": 1,
    "bernoulli": 1,
    "exponential": 1,
    "diagonal_gaussian": 1,
    "isotropic_gaussian": 1,
    "gaussian": 1,
    "gamma": 1,
    "ising": 1,
}


def rows(family, count):
    rng = np.random.default_rng(0)
    centers = 3 * rng.normal(size=(20, 4))
    x = centers[rng.integers(0, 20, count)] + rng.normal(size=(count, 4))
    if family in ("poisson", "multinomial", "exponential", "gamma"):
        return np.exp(x / 2)
    if family == "ising":
        return (x > 0).astype(float)  # of sixteen kinds
    return 1 / (1 + np.exp(-x)) if family == "bernoulli" else x


if __name__ == "__main__":
    points = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    print("| family | points | s, tree | s, certificate | excess | error of sum |")
    print("|---|---|---|---|---|---|")
    for family in sys.argv[2:] or FAMILIES:
        problem = bj.Problem(rows(family, FAMILIES[family] * points), family=family)
        start = time.perf_counter()
        tree = bj.agglomerate(problem, engine="windowed")
        middle = time.perf_counter()
        found = bj.certify(problem, tree)
        end = time.perf_counter()
        print(
            f"| {family} | {problem.num_points:,} "
            f"| {middle - start:.1f} | {end - middle:.1f} "
            f"| {found.relative:.0e} | {found.sum_error:.0e} |",
            flush=True,
        )

"""Accuracy of the numerical conjugate against 40-digit references, as Markdown.

Run: python benchmarks/conjugate_accuracy.py
"""

import sys
import time
from pathlib import Path

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import conjugate_cases as cases

from bregjax._result import Result
from bregjax.convex import conjugate


def rows(bits, methods):
    dtype = np.dtype(f"float{bits}")
    with jax.enable_x64(bits == 64):
        for case in cases.CASES:
            for method in methods:
                if method == "scalar" and not case.separable:
                    continue
                start = jax.tree.map(lambda v: np.asarray(v, dtype), case.start())
                conj = conjugate(case.psi, start, method=method)
                begin = time.perf_counter()
                solution, error, share, off = cases.run(case, dtype, conj)
                seconds = time.perf_counter() - begin
                code = Result(int(solution.result)).name
                yield (
                    f"| {case.name} | {method} | {bits} | {code} | "
                    f"{int(solution.num_steps)} | {error:.0e} | {share:.0e} | "
                    f"{off:.0e} | {float(solution.residual):.0e} | {seconds:.1f} |"
                )


def main():
    print(
        "| case | method | bits | code | steps | error | of terms "
        "| maximiser | residual | s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for bits in (64, 32):
        for row in rows(bits, ("newton", "scalar")):
            print(row, flush=True)


if __name__ == "__main__":
    main()

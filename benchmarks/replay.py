"""Costs of a given tree and their gradients at scale: time and memory.

Each case in its own process: `python benchmarks/replay.py` prints a Markdown table.
Peak memory is that of the process less what it had after the imports. The tree is one
that merges neighbours ("balanced") or one point after the other ("chain").
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import bregjax as bj
from bregjax.smoothing._maps import Blur

CASES = [
    (family, 20_000, n, shape)
    for family, n in (("diagonal_gaussian", 50), ("poisson", 50), ("gaussian", 20))
    for shape in ("balanced", "chain")
]


def children_of(shape, m):
    if shape == "balanced":
        return np.arange(2 * m - 2).reshape(-1, 2)
    merge = np.arange(m - 1)
    children = np.stack([merge + 1, m + merge - 1], axis=1)
    children[0] = [0, 1]
    return children


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def measure(family, m, n, shape):
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    x = rng.poisson(3.0, (m, n)).astype(float)
    x = jnp.asarray(x if family == "poisson" else x + rng.normal(size=x.shape))
    children = jnp.asarray(children_of(shape, m))
    weigh = jnp.asarray(rng.normal(size=m - 1))
    model = {"poisson": bj.Poisson(), "gaussian": bj.Gaussian()}.get(
        family, bj.DiagonalGaussian()
    )

    def loss(x, bandwidth, weights):
        smoothing = None if family == "poisson" else Blur(bandwidth)
        problem = bj.Problem(x, family=model, smoothing=smoothing, weights=weights)
        return jnp.vdot(weigh, bj.replay(problem, children))

    before = peak()
    arguments = (x, jnp.asarray(0.5), jnp.ones(m))
    found = {}
    for name, function in {
        "value": loss,
        "gradient": jax.grad(loss, (0, 1, 2)),
    }.items():
        compiled = jax.jit(function).lower(*arguments).compile()
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            jax.block_until_ready(compiled(*arguments))
            seconds.append(time.perf_counter() - start)
        found[name] = float(np.median(seconds))
        found[name + " MiB"] = compiled.memory_analysis().temp_size_in_bytes / 2**20
    found["peak"] = peak() - before
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", type=int)
    case = parser.parse_args().case
    if case is not None:
        print(json.dumps(measure(*CASES[case])))
        return
    print("| family | m × n | tree | value s | gradient s | compiled MiB | peak MiB |")
    print("|---|---|---|---|---|---|---|")
    for number, (family, m, n, shape) in enumerate(CASES):
        done = subprocess.run(
            [sys.executable, __file__, "--case", str(number)],
            capture_output=True,
            text=True,
            check=True,
        )
        f = json.loads(done.stdout)
        print(
            f"| {family} | {m:,} × {n} | {shape} | {f['value']:.2f} | "
            f"{f['gradient']:.2f} | {f['value MiB']:.0f}, {f['gradient MiB']:.0f} | "
            f"{f['peak']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

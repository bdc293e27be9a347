"""One tree made by one process and by two that share the clusters: time and memory.

`python benchmarks/processes.py` prints a Markdown table, in under two minutes; it needs
Linux. Processes share the cores of this machine, so that two are no faster here; what
counts is how much each has to hold. Seconds are those of the first call, with what it
compiles. Peak memory is that of a process less what it had before the call. What it
holds is the states of clusters and their bounds' features, of all devices of its own;
beside it each has the rows and the states of the leaves, whole.
"""

import argparse
import json
import resource
import socket
import subprocess
import sys
import time

import jax
import numpy as np
from jax.sharding import Mesh

import bregjax as bj
from bregjax.hierarchy._windowed.store.store import Store

CASES = [(4_000, 64), (8_000, 1_000)]
LIMIT = 100  # seconds a case


def peak():
    """MiB of this process at their most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def held(store):
    """MiB of a store's arrays on the devices of this process."""
    leaves = jax.tree.leaves((store.states, store.features))
    parts = [part.data.nbytes for leaf in leaves for part in leaf.addressable_shards]
    return sum(parts) / 2**20


def measure(m, n, address, count, number):
    """Cluster m rows in this process, which is one of `count`."""
    jax.config.update("jax_platforms", "cpu")
    mesh = None
    if count > 1:
        jax.distributed.initialize(address, count, number)
        mesh = Mesh(jax.devices(), ("clusters",))
    x = np.random.default_rng(0).normal(size=(m, n))
    stores = []
    usual = Store.__init__

    def noting(store, *args, **options):
        usual(store, *args, **options)
        stores.append(held(store))

    Store.__init__ = noting
    bj.agglomerate(x[:64], family="ward", engine="windowed", mesh=mesh)
    before, start = peak(), time.perf_counter()
    tree = bj.agglomerate(x, family="ward", engine="windowed", mesh=mesh)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "peak": peak() - before,
        "held": stores[-1],
        "tree": int(
            np.bitwise_xor.reduce(tree.children.ravel() * np.arange(2 * m - 2))
        ),
    }


def run(m, n, count):
    """What each of so many processes measured."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, __file__, "--case", str(m), str(n), address, str(count)]
    processes = [
        subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(count)
    ]
    try:
        texts = [process.communicate(timeout=LIMIT)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [json.loads(text.splitlines()[-1]) for text in texts]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", nargs=5)
    case = parser.parse_args().case
    if case is not None:
        m, n, address, count, number = case
        print(json.dumps(measure(int(m), int(n), address, int(count), int(number))))
        return
    print(
        "| rows | processes | seconds | peak MiB, each | held MiB, each | same tree |"
    )
    print("|---|---|---|---|---|---|")
    for m, n in CASES:
        trees = set()
        for count in (1, 2):
            found = run(m, n, count)
            trees |= {process["tree"] for process in found}
            of = lambda name, of_all=found: ", ".join(
                f"{one[name]:.0f}" for one in of_all
            )
            print(
                f"| {m:,} × {n:,} | {count} | {found[0]['seconds']:.1f} | "
                f"{of('peak')} | {of('held')} | {'yes' if len(trees) == 1 else 'no'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

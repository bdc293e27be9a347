"""Clusters over meshes of 1, 2, 4 and 8 simulated devices; run by `test_mesh.py`.

Prints a JSON object: for each family whether all trees are equal, and for a block of
bounds on each mesh the states' bytes a device and the largest result of a collective.
"""

import json
import re
import sys

import jax
import numpy as np
from jax.sharding import Mesh

import bregjax as bj
from bregjax._evaluation import build_leaves
from bregjax.hierarchy._windowed.store import kernels
from bregjax.hierarchy._windowed.store.placement import Placement
from bregjax.hierarchy._windowed.store.store import Store

DEVICES = (1, 2, 4, 8)
ROWS, COLUMNS = 20_000, 64


def mesh_of(count: int) -> Mesh:
    return Mesh(np.array(jax.devices()[:count]), ("clusters",))


def trees_agree(problem: bj.Problem) -> bool:
    alone = bj.agglomerate(problem, engine="windowed")
    return all(
        np.array_equal(
            bj.agglomerate(problem, mesh=mesh_of(count)).children, alone.children
        )
        for count in DEVICES
    )


def block_of_bounds(count: int) -> dict[str, int]:
    """Of the compiled program that screens a block of rows."""
    x = np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    model, leaves = build_leaves(bj.Problem(x, family="ward"))
    placement = Placement(mesh_of(count))
    store = Store(model, kernels.screen(model, leaves), leaves, ROWS, placement)
    shapes = store.shapes
    compiled = kernels.bounds.lower(
        store.screen,
        store.features,
        np.ones(store.capacity, bool),
        np.zeros(shapes.block, np.int32),
        (np.int32(shapes.block), np.int32(ROWS)),
        placement,
        shapes,
    ).compile()
    states = sum(
        leaf.addressable_shards[0].data.nbytes
        for leaf in jax.tree.leaves((store.states, store.features))
    )
    collective = re.compile(
        r"= \(?([a-z0-9]+)\[([\d,]*)\][^=]*"
        r"(?:all-reduce|all-gather|all-to-all|collective-permute)(?:-start)?\("
    )
    sizes = [
        int(np.prod([int(n) for n in shape.split(",") if n] or [1]))
        for _, shape in collective.findall(compiled.as_text() or "")
    ]
    memory = compiled.memory_analysis()
    if memory is None:
        raise RuntimeError("The compiled program does not tell its memory.")
    return {
        "states": states,
        "temporaries": memory.temp_size_in_bytes,
        "largest_collective": max(sizes, default=0),
        "bounds": 2 * shapes.block * store.capacity // shapes.group,
        "data": ROWS * COLUMNS,
    }


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(131, 3))  # no multiple of 8
    data = {
        "ward": normal,
        "poisson": rng.gamma(0.5, size=(131, 3)),
        "gaussian": normal,
    }
    agree = {
        family: trees_agree(bj.Problem(x, family=family)) for family, x in data.items()
    }
    ties = np.repeat(rng.normal(size=(5, 2)), 20, axis=0)
    agree["duplicates"] = trees_agree(bj.Problem(ties, family="ward"))
    # By QR decompositions, which lock up where two devices of a CPU make them.
    narrow = bj.Problem(normal[:40], family="gaussian", smoothing=bj.blur(1e-6))
    agree["narrow"] = trees_agree(narrow)
    blocks = {str(count): block_of_bounds(count) for count in DEVICES}
    sys.stdout.write(json.dumps({"agree": agree, "blocks": blocks}))

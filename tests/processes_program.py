"""One of two processes that share a mesh; run by `test_processes.py`.

Called with the coordinator's address and the number of the process. Prints a JSON
object: trees of some rows, what is said where arguments differ, and what Ctrl-C in
process 1 leaves.
"""

import json
import signal
import sys
from unittest import mock

import jax
import numpy as np
from jax.sharding import Mesh

import bregjax as bj
from bregjax.hierarchy import _engines
from bregjax.hierarchy._windowed.neighbours.neighbours import Neighbours

NUM_PROCESSES = 2
FAMILIES = ("ward", "poisson", "diagonal_gaussian")


def rows() -> np.ndarray:
    x = np.random.default_rng(0).gamma(0.5, size=(290, 3))
    return np.concatenate([x, x[:10]])


def message_of(**arguments) -> str:
    """What `agglomerate` says; "" if it makes a tree."""
    try:
        bj.agglomerate(**arguments)
    except ValueError as error:
        return str(error)
    return ""


def stopped_at_third_merge(problem: bj.Problem, mesh: Mesh) -> bj.Dendrogram | None:
    """The forest that is left where Ctrl-C comes to process 1 alone."""
    usual, calls = Neighbours.merge, []

    def pressed(*arguments):
        calls.append(arguments)
        if len(calls) == 3 and jax.process_index() == 1:
            signal.raise_signal(signal.SIGINT)
        return usual(*arguments)

    with mock.patch.object(Neighbours, "merge", pressed):
        try:
            bj.agglomerate(problem, mesh=mesh)
        except bj.Interrupted as stop:
            return stop.tree
    return None


def report(mesh: Mesh) -> dict[str, object]:
    x, number = rows(), jax.process_index()
    found: dict[str, object] = {}
    for family in FAMILIES:
        tree = bj.agglomerate(x, family=family, mesh=mesh)
        found[family] = [tree.children.tolist(), tree.merge_costs.tolist()]
    other = x.copy()
    other[17, 1] += number
    ward = {"family": "ward", "mesh": mesh}
    found["rows"] = message_of(problem=other, **ward)
    found["shape"] = message_of(problem=x[number:], **ward)
    found["weights"] = message_of(problem=x, weights=np.ones(300) + number, **ward)
    found["family"] = message_of(
        problem=x, family=("ward", "poisson")[number], mesh=mesh
    )
    spread = jax.NamedSharding(mesh, jax.P(mesh.axis_names))
    part = jax.make_array_from_callback(x.shape, spread, lambda place: x[place])
    found["spread"] = message_of(problem=part, **ward)
    devices = [device for device in jax.devices() if device.process_index == 0]
    if number == 1:
        alone = Mesh(np.array(devices), ("clusters",))
        found["absent"] = message_of(problem=x, family="ward", mesh=alone)
    room = lambda: 2.0**40 if number == 0 else 1e3
    with mock.patch.object(_engines, "available_memory", room):
        found["room"] = message_of(problem=x, **ward)
    problem = bj.Problem(x, family="ward")
    forest = stopped_at_third_merge(problem, mesh)
    tree = bj.agglomerate(problem, mesh=mesh, start=forest)
    found["left"] = [] if forest is None else forest.children.tolist()
    found["gone on"] = tree.children.tolist()
    return found


if __name__ == "__main__":
    jax.distributed.initialize(sys.argv[1], NUM_PROCESSES, int(sys.argv[2]))
    everything = report(Mesh(np.array(jax.devices()), ("clusters",)))
    sys.stdout.write(json.dumps(everything))

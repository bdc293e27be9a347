"""One tree on 1, 2, 4 and 8 devices, and what moves between them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh

from bregjax.hierarchy import agglomerate
from bregjax.hierarchy._windowed.store.words import from_words, to_words

CASES = ["ward", "poisson", "gaussian", "duplicates", "narrow"]
PROGRAM = Path(__file__).with_name("mesh_program.py")


@pytest.fixture(scope="module")
def report():
    """What `mesh_program.py` prints, in a process with eight simulated devices."""
    flags = os.environ["XLA_FLAGS"] + " --xla_force_host_platform_device_count=8"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_trees_are_the_same_on_any_number_of_devices(report, case):
    assert report["agree"][case]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4, 8])
def test_memory_falls_with_the_number_of_devices(report, count):
    alone, shared = report["blocks"]["1"], report["blocks"][str(count)]
    assert shared["states"] <= 1.2 * alone["states"] / count
    assert shared["temporaries"] <= alone["temporaries"]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4, 8])
def test_no_collective_moves_the_data(report, count):
    block = report["blocks"][str(count)]
    # Least bounds of groups go to all, as do the states of one block of rows.
    assert 0 < block["largest_collective"] <= block["bounds"] < block["data"]


def test_a_mesh_implies_the_windowed_engine():
    mesh = Mesh(np.array(jax.devices()[:1]), ("clusters",))
    x = np.random.default_rng(0).normal(size=(40, 2))
    tree, info = agglomerate(x, family="ward", mesh=mesh, return_info=True)
    assert info.engine == "windowed"
    alone = agglomerate(x, family="ward", engine="windowed")
    np.testing.assert_array_equal(tree.children, alone.children)
    with pytest.raises(ValueError, match='"windowed" or "auto" with a mesh'):
        agglomerate(x, family="ward", mesh=mesh, engine="matrix")
    with pytest.raises(ValueError, match="`mesh` must be None inside jit"):
        jax.jit(lambda x: agglomerate(x, family="ward", mesh=mesh).merge_costs)(x)
    with pytest.raises(TypeError, match="`mesh` must be a jax.sharding.Mesh; got 2"):
        agglomerate(x, family="ward", mesh=2)  # pyright: ignore


def test_a_mesh_with_explicit_axes_does_too():
    x = np.random.default_rng(0).normal(size=(40, 2))
    mesh = jax.make_mesh((1,), ("clusters",), (AxisType.Explicit,))
    tree = agglomerate(x, family="ward", mesh=mesh)
    alone = agglomerate(x, family="ward", engine="windowed")
    np.testing.assert_array_equal(tree.children, alone.children)


def test_words_keep_all_bits(x64):
    smallest = np.float32(1e-45)
    numbers = {
        "single": np.array([[smallest, -0.0], [np.nan, 3.0]], np.float32),
        "double": np.array([[[5e-324]], [[-np.inf]]]),
        "whole": np.array([-7, 2**31 - 1], np.int32),
        "bytes": np.array([[-1, 127]] * 2, np.int8),
        "true": np.array([True, False]),
    }
    words = to_words(numbers, 1)
    assert words.shape == (2, 2 + 2 + 1 + 2 + 1)
    row = jax.tree.map(lambda leaf: jax.typeof(jnp.asarray(leaf[0])), numbers)
    again = from_words(words, row)
    for name, values in numbers.items():
        assert again[name].dtype == values.dtype
        assert np.asarray(again[name]).tobytes() == values.tobytes()

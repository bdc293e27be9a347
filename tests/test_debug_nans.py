"""Under `jax_debug_nans`, and with strict promotion, results are what they were."""

import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest
from debug_nans_cases import CASES

from bregjax import agglomerate

FOLDER = pathlib.Path(__file__).parent


def _run(*arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        cwd=FOLDER.parent,
        env=os.environ | {"PYTHONPATH": str(FOLDER.parent)},
        check=False,
    )


@pytest.mark.parametrize(
    ("part", "count"),
    [
        ("poisson", 1),
        pytest.param("test", len(CASES) + 2, marks=pytest.mark.slow),
    ],
)
def test_derivatives(part, count):
    """In a process of their own; see there."""
    cases = FOLDER / "debug_nans_cases.py"
    done = _run("-m", "pytest", "-n", "0", "-q", "-k", part, cases)
    assert done.returncode == 0, done.stdout
    assert f"{count} passed" in done.stdout


def test_trees_features_and_certificates():
    """In a process of its own, with the flag on from the start."""
    done = _run(FOLDER / "debug_nans_program.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["diagonal_gaussian", "multinomial", "own"]


@pytest.mark.parametrize("name", CASES)
def test_strict_promotion_changes_nothing(name):
    family, x, smoothing = CASES[name]
    plain = agglomerate(x, family=family, smoothing=smoothing)
    with jax.numpy_dtype_promotion("strict"):
        tree = agglomerate(x, family=family, smoothing=smoothing)
    np.testing.assert_array_equal(tree.merge_costs, plain.merge_costs)

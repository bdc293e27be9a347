"""Factorisations of many matrices end: XLA on a CPU can lock up where two run at once.

See `bregjax/hierarchy/_blocks.py` and `bregjax/convex/_determinant.py`.
"""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("factorising_program.py")


@pytest.mark.slow
def test_work_on_full_gaussians_ends():
    try:
        done = subprocess.run(
            [sys.executable, PROGRAM],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    except subprocess.TimeoutExpired as stopped:
        last = (stopped.stdout or b"nothing").decode()
        pytest.fail(f"locked up; what ended: {last}")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 5

"""One tree made by two processes that share a mesh, and how they disagree."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes_program import FAMILIES, NUM_PROCESSES, rows

import bregjax as bj

PROGRAM = Path(__file__).with_name("processes_program.py")
LIMIT = 240  # seconds

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reports():
    """What each of two processes prints, which have two simulated devices each."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    flags = os.environ["XLA_FLAGS"] + " --xla_force_host_platform_device_count=2"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    processes = [
        subprocess.Popen(
            [sys.executable, PROGRAM, address, str(number)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(NUM_PROCESSES)
    ]
    try:
        printed = [process.communicate(timeout=LIMIT) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (_, errors) in zip(processes, printed, strict=True):
        assert process.returncode == 0, errors
    # XLA says on the same stream whom it is connected to.
    return [json.loads(out[out.index("{") :]) for out, _ in printed]


@pytest.mark.parametrize("family", FAMILIES)
def test_both_have_the_tree_of_one_process(reports, family):
    alone = bj.agglomerate(rows(), family=family, engine="windowed")
    for report in reports:
        children, costs = report[family]
        np.testing.assert_array_equal(children, alone.children)
        np.testing.assert_allclose(costs, alone.merge_costs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("rows", "`x` must be the same .* differ from row 17 on, which is \\["),
        ("shape", "`x` must be the same .* have 300 × 3 and 299 × 3 numbers"),
        ("weights", "`weights` must be the same .* differ from row 0 on"),
        ("family", "`family` must be the same .* differ, and process {me} has "),
        ("spread", "`x` must be whole in each process; got a jax.Array"),
    ],
)
def test_all_say_what_differs(reports, what, words):
    for me, report in enumerate(reports):
        pattern = words.replace("{me}", str(me))
        with pytest.raises(ValueError, match=pattern):
            raise ValueError(report[what])


def test_each_says_its_own_row(reports):
    value = rows()[17]
    for me, report in enumerate(reports):
        own = np.array2string(value + me * np.array([0, 1, 0]))
        assert f"{own} in process {me}" in report["rows"]


def test_a_process_without_a_device_says_so(reports):
    assert "process 1 has none, and processes [0] have all 2" in reports[1]["absent"]


def test_no_room_in_one_process_is_told_to_the_other(reports):
    assert "`mesh` is shared with process 1, where" in reports[0]["room"]
    assert 'The engine "windowed" needs' in reports[1]["room"]


def test_interrupting_one_stops_both_after_the_same_merge(reports):
    alone = bj.agglomerate(rows(), family="ward", engine="windowed").children
    for report in reports:
        count = len(report["left"])
        assert 10 <= count < 299
        np.testing.assert_array_equal(report["left"], alone[:count])
        np.testing.assert_array_equal(report["gone on"], alone)
    assert reports[0]["left"] == reports[1]["left"]

"""The table of what the default run takes names tests that exist."""

import re
from pathlib import Path

import pytest
from default_run import DEFAULT, DIGITS, is_by_request

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("file", DEFAULT)
def test_named_tests_exist(file):
    text = (FOLDER / file).read_text("utf-8")
    tests = set(re.findall(r"^def (test_\w+)\(", text, flags=re.MULTILINE))
    assert set(DEFAULT[file]) - {"*"} <= tests


def test_named_files_exist():
    assert all((FOLDER / file).exists() for file in DIGITS)


def test_what_is_by_request():
    assert is_by_request("test_replay.py", "test_gradients", "gamma")
    assert not is_by_request("test_replay.py", "test_gradients", "poisson")
    assert is_by_request("test_replay.py", "test_parameters_of_psi", "")
    assert is_by_request("test_convex.py", "test_convex_on_segments", "burg")
    assert not is_by_request("test_convex.py", "test_convex_on_segments", "log_det")
    assert is_by_request("test_engines.py", "test_any_number", "float32")
    assert not is_by_request("test_metrics.py", "test_any", "")

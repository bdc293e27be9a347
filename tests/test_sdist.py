"""The source distribution holds what the tests need."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALWAYS = {"MANIFEST.in", "bregjax", "pyproject.toml", "README.md", "LICENSE"}


def test_the_manifest_names_what_the_tests_read():
    manifest = (ROOT / "MANIFEST.in").read_text("utf-8").splitlines()
    kept = [line.split()[1:] for line in manifest if re.match("include|graft", line)]
    kept = {word.split("/")[0] for words in kept for word in words}
    assert {"tests", "CHANGELOG.md"} <= kept
    tests = [path.read_text("utf-8") for path in sorted((ROOT / "tests").glob("*.py"))]
    read = {name for text in tests for name in re.findall(r'ROOT / "([\w.]+)"', text)}
    assert read
    assert read - ALWAYS <= kept

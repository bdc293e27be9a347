"""What a release takes from the changelog, and that nothing untested is published."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT.joinpath(".ci", "notes")

CHANGELOG = """# Changelog

## Unreleased

## 0.1.0rc1 (2026-11-01)

candidate

## 0.1.0 (2026-11-30)

new

## 0x0.9 (2026-10-01)

old
"""

# The source distribution has no scripts of the repository.
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="not in a checkout")


@pytest.fixture
def notes(tmp_path):
    """The script, run for a version in a folder of its own."""
    (tmp_path / ".ci").mkdir()
    script = shutil.copy(SCRIPT, tmp_path / ".ci" / "notes")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, "utf-8")

    def run(version):
        (tmp_path / "pyproject.toml").write_text(f'version = "{version}"\n', "utf-8")
        return subprocess.run([script, version], capture_output=True, text=True)

    return run


def test_notes_are_those_of_the_version_alone(notes):
    assert notes("0.1.0").stdout.split() == ["new"]
    assert notes("0.1.0rc1").stdout.split() == ["candidate"]


@pytest.mark.parametrize("version", ["0.1", "0.1.0rc", "0.0.9", "Unreleased"])
def test_versions_without_a_heading_fail(version, notes):
    found = notes(version)
    assert found.returncode == 1
    assert "no heading" in found.stderr


def test_the_version_is_that_of_the_package(notes):
    assert notes("0.1.0").returncode == 0
    wrong = subprocess.run([SCRIPT, "0.0.0"], capture_output=True, text=True)
    assert "not at version 0.0.0" in wrong.stderr


def test_publishing_waits_for_the_tests():
    folder = ROOT.joinpath(".github", "workflows")
    release = folder.joinpath("release.yml").read_text("utf-8")
    assert "uses: ./.github/workflows/tests.yml" in release
    publish = release[release.index("\n  publish:") :]
    assert "needs: [tests, build]" in publish
    assert "workflow_call:" in folder.joinpath("tests.yml").read_text("utf-8")

"""The README does what it says: its code, its output, its commands, its links."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from bregjax.__main__ import build_parser
from bregjax.families import FAMILIES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
CI = (ROOT / ".ci" / "run").read_text("utf-8")

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", BLOCK.flags)


def blocks(language: str) -> list[str]:
    return [code for name, code in BLOCK.findall(README) if name == language]


def shell_lines() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines()]


def test_python_blocks_print_what_they_show(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = EXAMPLE.findall(README)
    assert len(examples) == len(blocks("python")) >= 3
    names: dict[str, object] = {"__name__": "readme"}
    for code, output in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), names)
        assert printed.getvalue() == output


def test_setup_commands_are_complete():
    demo, tests = shell_lines()[:2]
    venv = "python3 -m venv .venv"
    assert demo == (
        f"{venv} && .venv/bin/pip install '.[plot]' && .venv/bin/bregjax demo"
    )
    assert tests.split(" && ")[0] == venv


def test_ci_runs_the_readme_s_test_command():
    venv, install, tests = shell_lines()[1].split(" && ")
    steps = CI.splitlines()
    assert venv in steps
    assert install in steps
    assert f'{tests} -m "slow or not slow"' in steps
    assert ".ci/release" in steps
    assert "set -euo pipefail" in steps


def test_commands_parse(capsys):
    lines = [line for line in shell_lines() if line.startswith("bregjax ")]
    assert len(lines) >= 3
    for line in lines:
        words = shlex.split(line)[1:]
        if "--help" in words:
            with pytest.raises(SystemExit) as leaving:
                build_parser().parse_args(words)
            assert leaving.value.code == 0
        else:
            build_parser().parse_args(words)


def test_map_of_modules_is_complete():
    listed = set(re.findall(r"^\| `bregjax\.(\w+)` \|", README, flags=re.MULTILINE))
    files = {path.stem for path in (ROOT / "bregjax").glob("[!_]*.py")}
    folders = {
        path.parent.name for path in (ROOT / "bregjax").glob("[!_]*/__init__.py")
    }
    assert listed == files | folders


def test_the_number_of_families_is_right():
    assert len(FAMILIES) == 18  # else change both pages
    for page in ("README.md", "docs/index.md"):
        assert "Eighteen built-in families" in (ROOT / page).read_text("utf-8")


def test_links_inside_the_repository_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text("utf-8")
        for target in re.findall(r"\]\(([^)#]+)", text):
            if "://" not in target:
                assert (ROOT / target).exists(), target
        for path in re.findall(r"`((?:bregjax|tests)/[\w/]+\.py)`", text):
            assert (ROOT / path).exists(), path


def test_nothing_of_one_s_own_machine():
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        ".ci/run",
        ".ci/release",
    ):
        text = (ROOT / name).read_text("utf-8")
        assert not re.search(r"(?<![\w.])/(home|tmp|work|Users|root)/", text), name

"""The page of the command line: each command prints what stands under it."""

import contextlib
import io
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import jax
import pytest

from bregjax.__main__ import main

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "command_line.md"
TEXT = PAGE.read_text("utf-8")
BLOCK = re.compile(
    r"^```(sh|python|r)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?",
    flags=re.MULTILINE | re.DOTALL,
)
BLOCKS = BLOCK.findall(TEXT)
FILE = re.compile(
    r"^```\{code-block\} text\n:caption: (\S+)\n\n(.*?)^```$", flags=BLOCK.flags
)
FILES = dict(FILE.findall(TEXT))
# Versions and times differ from run to run.
VARYING = re.compile(r"^(bregjax \d|seconds ).*$", flags=re.MULTILINE)


def bregjax(words: list[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words[1:])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
    return code, out.getvalue(), err.getvalue()


def shell(line: str) -> str:
    """What a terminal shows: as much of a shell as the page needs."""
    line, _, after = line.partition("; ")
    line, _, pipe = line.partition(" | ")
    line, silent, _ = line.partition(" >/dev/null")
    words = shlex.split(line)
    if words[0] == "head":
        code, out, err = 0, Path(words[3]).read_text("utf-8"), ""
        pipe = " ".join(words[:3])
    else:
        code, out, err = bregjax(words)
    lines = [] if silent else out.splitlines(keepends=True)
    if pipe.startswith("head -n "):
        lines = lines[: int(pipe.split()[2])]
    elif pipe:
        _, _, number, word = pipe.split()  # grep -A number word
        (first,) = [k for k, text in enumerate(lines) if text.startswith(word)]
        lines = lines[first : first + int(number) + 1]
    return err + "".join(lines) + (f"{code}\n" if after == "echo $?" else "")


def python(code: str, names: dict[str, object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), jax.numpy_rank_promotion("allow"):
        exec(compile(code, PAGE.name, "exec"), names)
    return printed.getvalue()


def test_commands_print_what_they_show(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for name, content in FILES.items():
        Path(name).write_text(content, "utf-8")
    for language, code, shown in BLOCKS:
        if language == "sh":
            (line,) = code.splitlines()
            printed = shell(line)
        elif language == "python":
            printed = python(code, names)
        elif not (program := shutil.which("Rscript")):
            continue
        else:
            done = subprocess.run([program, "-e", code], capture_output=True, text=True)
            printed = done.stdout
        assert VARYING.sub("", printed) == VARYING.sub("", shown)


def test_the_picture_is_of_the_table_shown():
    assert TEXT.count(FILES["survey.csv"]) == 2


@pytest.mark.parametrize("language", ["sh", "python", "r"])
def test_blocks_are_found(language):
    found = [block for block in BLOCKS if block[0] == language]
    assert len(found) == len(re.findall(rf"^```{language}$", TEXT, re.MULTILINE)) > 0
    assert all(shown for _, _, shown in found)

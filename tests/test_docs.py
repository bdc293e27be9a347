"""The pages in docs/: their code runs and prints what they show."""

import contextlib
import io
import re
from pathlib import Path

import jax
import pytest

PAGES = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", flags=re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_print_what_they_show(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    for code, output in BLOCK.findall(page.read_text("utf-8")):
        printed = io.StringIO()
        # As in a user's session: the suite's stricter promotion is its own.
        with contextlib.redirect_stdout(printed), jax.numpy_rank_promotion("allow"):
            exec(compile(code, page.name, "exec"), names)
        assert printed.getvalue() == output

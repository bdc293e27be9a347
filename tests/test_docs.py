"""The pages in docs/: their code prints what they show; every public name has one."""

import contextlib
import importlib
import inspect
import io
import re
from pathlib import Path

import jax
import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("guide/*.md")])
COMMANDS = "command_line"  # has a test of its own
SLOW = ("choosing", "gradients", "writing_psi")
BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", flags=re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page.stem in SLOW else ())
        for page in PAGES
        if page.stem != COMMANDS
    ],
    ids=lambda page: page.name,
)
def test_python_blocks_print_what_they_show(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    for code, output in BLOCK.findall(page.read_text("utf-8")):
        printed = io.StringIO()
        # As in a user's session: the suite's stricter promotion is its own.
        with contextlib.redirect_stdout(printed), jax.numpy_rank_promotion("allow"):
            exec(compile(code, page.name, "exec"), names)
        assert printed.getvalue() == output


def public_modules():
    package = DOCS.parent / "bregjax"
    paths = [*package.glob("[!_]*.py"), *package.glob("[!_]*/__init__.py")]
    names = [path.parent.name if path.stem[0] == "_" else path.stem for path in paths]
    return ["bregjax", *(f"bregjax.{name}" for name in names)]


@pytest.mark.parametrize("module", public_modules())
def test_the_reference_lists_every_public_name(module):
    text = (DOCS / "api" / f"{module}.rst").read_text("utf-8")
    listed = set(re.findall(r"^   ~bregjax\.(?:\w+\.)?(\w+)$", text, re.MULTILINE))
    there = importlib.import_module(module)
    shown = {name for name in dir(there) if name[0] != "_"}
    assert {n for n in shown if not inspect.ismodule(getattr(there, n))} <= listed
    assert re.search(
        rf"^   {module}$", (DOCS / "api" / "index.rst").read_text("utf-8"), re.M
    )


def test_every_page_is_reached():
    """Sphinx checks links; this, without Sphinx, that the contents have all pages."""
    contents = (DOCS / "index.md").read_text("utf-8")
    for page in PAGES:
        name = page.relative_to(DOCS).with_suffix("").as_posix()
        assert name == "index" or re.search(rf"^{name}$", contents, re.MULTILINE)

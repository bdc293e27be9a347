"""Pages that lie elsewhere in the repository: notebooks, changelog, benchmarks.

They are copied before the build reads its pages, only where they changed, with the
pictures that they show, and their links are turned to where things are on the site.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
SOURCE = "https://github.com/bregjax/bregjax/blob/main/"
PAGES = {
    "CHANGELOG.md": "more/changelog.md",
    "CONTRIBUTING.md": "more/contributing.md",
    "benchmarks/RESULTS.md": "more/benchmarks.md",
    "benchmarks/TABLES.md": "more/benchmarks-tables.md",
    "benchmarks/CHOOSE.md": "more/benchmarks-choose.md",
    "benchmarks/paper/RESULTS.md": "more/paper.md",
}
IMAGE = re.compile(r"!\[[^\]]*\]\((?![a-z]+:)([^)\s]+)")
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")


def turned(text: str, place: str) -> str:
    """The text of a page with its links to files as links on the site, or to GitHub."""
    new = DOCS / PAGES[place]
    shown = [path.resolve() for path in pictures(text, place)]

    def link(match: re.Match[str]) -> str:
        target = ((ROOT / place).parent / match[1]).resolve()
        name = target.relative_to(ROOT).as_posix()
        if target in shown:
            return target.name
        for there in (DOCS / PAGES.get(name, "-"), DOCS / name, target):
            if there.is_file() and there.is_relative_to(DOCS):
                return Path(os.path.relpath(there, new.parent)).as_posix()
        return SOURCE + name

    return LINK.sub(link, text)


def pictures(text: str, place: str) -> list[Path]:
    """The files of the pictures that a page shows."""
    return [(ROOT / place).parent / name for name in IMAGE.findall(text)]


def write(path: Path, content: bytes) -> None:
    """Write a file unless it says the same already."""
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def collect(_app: Sphinx, _config: Any) -> None:
    """Copy notebooks and pages into the folder of the site."""
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        notebook = json.loads(path.read_text("utf-8"))
        # The first cell installs the package where it is missing: folded.
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        code[0]["metadata"]["tags"] = ["hide-cell"]
        content = json.dumps(notebook)
        # In Colab links have to lead out: here they lead to the same page of the site.
        for place, page in PAGES.items():
            content = content.replace(f"({SOURCE}{place})", f"(../{page})")
        write(DOCS / "notebooks" / path.name, content.encode())
    for place in PAGES:
        text = (ROOT / place).read_text("utf-8")
        page = DOCS / PAGES[place]
        write(page, turned(text, place).encode())
        for path in pictures(text, place):
            write(page.parent / path.name, path.read_bytes())


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("config-inited", collect)
    return {"parallel_read_safe": True}

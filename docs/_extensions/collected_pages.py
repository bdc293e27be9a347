"""Pages that lie elsewhere in the repository: notebooks, changelog, benchmarks.

They are copied before the build reads its pages, only where they changed, and their
links are turned to where things are on the site.
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
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")


def turned(text: str, place: str) -> str:
    """The text of a page with its links to files as links on the site, or to GitHub."""
    new = DOCS / PAGES[place]

    def link(match: re.Match[str]) -> str:
        target = ((ROOT / place).parent / match[1]).resolve()
        name = target.relative_to(ROOT).as_posix()
        for there in (DOCS / PAGES.get(name, "-"), DOCS / name, target):
            if there.is_file() and there.is_relative_to(DOCS):
                return Path(os.path.relpath(there, new.parent)).as_posix()
        return SOURCE + name

    return LINK.sub(link, text)


def write(path: Path, text: str) -> None:
    """Write a file unless it says the same already."""
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def collect(_app: Sphinx, _config: Any) -> None:
    """Copy notebooks and pages into the folder of the site."""
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        notebook = json.loads(path.read_text("utf-8"))
        # The first cell installs the package where it is missing: folded.
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        code[0]["metadata"]["tags"] = ["hide-cell"]
        write(DOCS / "notebooks" / path.name, json.dumps(notebook))
    for place in PAGES:
        text = (ROOT / place).read_text("utf-8")
        write(DOCS / PAGES[place], turned(text, place))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("config-inited", collect)
    return {"parallel_read_safe": True}

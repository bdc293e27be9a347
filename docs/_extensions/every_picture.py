"""Every picture of the site is there, and says in words what it shows.

A page may point to a file that was never copied, and nothing else would notice: once
the pages are written, each of their pictures is looked for.
"""

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

IMAGE = re.compile(r"<img\b[^>]*>")
ATTRIBUTE = re.compile(r'\b(src|alt)="([^"]*)"')
BADGE = "https://colab.research.google.com/"


def faults(page: Path) -> list[str]:
    """What is wrong with the pictures of a page, a sentence each."""
    found = []
    for tag in IMAGE.findall(page.read_text("utf-8")):
        attributes = dict(ATTRIBUTE.findall(tag))
        source = unquote(attributes.get("src", ""))
        if not source.startswith(BADGE) and not (page.parent / source).is_file():
            found.append(f"{page.name}: no file for the picture {source!r}")
        words = attributes.get("alt", "")
        if not words or Path(source).name == Path(words).name:
            found.append(f"{page.name}: no words (alt) for the picture {source!r}")
    return found


def check_pictures(app: Sphinx, error: Exception | None) -> None:
    """Look for the pictures of all pages."""
    if error is not None or app.builder.format != "html":
        return
    pages = sorted(Path(app.outdir).rglob("*.html"))
    if found := [fault for page in pages for fault in faults(page)]:
        raise ExtensionError("\n".join(found))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("build-finished", check_pictures)
    return {"parallel_read_safe": True}

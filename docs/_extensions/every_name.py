"""Every public name of every public module has its place in the reference.

`api/MODULE.rst` lists a module's names; what it leaves out, or lists in vain, ends the
build. The other names of an object (`bregjax.families.Poisson` is `bregjax.Poisson`)
lead to the same page.
"""

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

DOCS = Path(__file__).parents[1]
PACKAGE = DOCS.parent / "bregjax"
ENTRY = re.compile(r"^\s+~?(bregjax(?:\.\w+)+)$", flags=re.MULTILINE)


def public_modules() -> list[str]:
    """The package and its modules whose names have no underscore."""
    parts = [path.stem for path in PACKAGE.glob("[!_]*.py")]
    parts += [path.parent.name for path in PACKAGE.glob("[!_]*/__init__.py")]
    return ["bregjax", *(f"bregjax.{part}" for part in sorted(parts))]


def public_names(module: str) -> dict[str, Any]:
    """The names that a module shows, without modules."""
    there = importlib.import_module(module)
    found = {name: getattr(there, name) for name in dir(there) if name[0] != "_"}
    return {n: v for n, v in found.items() if not inspect.ismodule(v)}


def value_of(path: str) -> Any:
    """What a listed name stands for."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (AttributeError, ImportError) as error:
        raise ExtensionError(f"api/: {path} is listed, but not there") from error


def listed_in(module: str) -> list[str]:
    """The names that the page of a module lists."""
    page = DOCS / "api" / f"{module}.rst"
    if not page.exists():
        raise ExtensionError(f"api/{module}.rst is missing: a page of the module")
    return ENTRY.findall(page.read_text("utf-8"))


def check_pages(_app: Sphinx, _config: Any) -> None:
    """Compare the pages with the modules."""
    for module in public_modules():
        listed = [value_of(path) for path in listed_in(module)]
        for name, value in public_names(module).items():
            if not any(value is other for other in listed):
                raise ExtensionError(f"api/{module}.rst lacks {name}")


def add_aliases(_app: Sphinx, env: BuildEnvironment) -> None:
    """Let all names of an object lead to it, and check that they do."""
    domain = env.domains.python_domain
    known = dict(domain.objects)
    places = {}
    for path in known:
        try:
            places[id(value_of(path))] = path
        except ExtensionError:
            continue  # a method
    for module in public_modules():
        for name, value in public_names(module).items():
            path = f"{module}.{name}"
            if path in known:
                continue
            if id(value) not in places:
                raise ExtensionError(f"{path} has no place in the reference")
            domain.objects[path] = known[places[id(value)]]._replace(aliased=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("config-inited", check_pages)
    app.connect("env-check-consistency", add_aliases)
    return {"parallel_read_safe": True}

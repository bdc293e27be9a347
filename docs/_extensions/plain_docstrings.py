"""Docstrings in plain text, with formulas in indented blocks, as reStructuredText.

Formulas have characters that are markup there: |x|, ψ*, b_. Outside of code these are
escaped, and indented blocks of running text keep their lines.
"""

import inspect
import re
from typing import Any

from every_name import public_modules, public_names
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject

SECTION = re.compile(
    r"(Args|Attributes|Examples?|Raises|References|Returns|Yields|Notes?):$"
)
CODE = re.compile(r"(`[^`]*`+)")
OF_PYTREES = {"tree_flatten", "tree_flatten_with_keys", "tree_unflatten"}
LITERAL = re.compile(r"^\s*(>>>|\.\.\. |- |\* |\d+\. )")


def escaped(line: str) -> str:
    """A line of running text in which nothing but backticks is markup."""
    parts = CODE.split(line)
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"([|*\\])", r"\\\1", parts[k])
        parts[k] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", parts[k])
    # ``a`` stays; `a <b` would be a link.
    for k in range(1, len(parts), 2):
        parts[k] = parts[k].replace("<", r"\<")
    return "".join(parts)


def indent_of(line: str) -> int:
    """The number of spaces at the start of a line."""
    return len(line) - len(line.lstrip())


def translated(lines: list[str]) -> list[str]:
    """The lines of a docstring, its formulas and its code apart from its prose."""
    found: list[str] = []
    in_examples = in_code = in_block = False
    above = ""
    for k, line in enumerate(lines):
        text = line.strip()
        if not text:
            found.append("")
            in_code = False
            continue
        if SECTION.match(line):
            in_examples = text.startswith("Example")
            in_block = False
        blank_above = k > 0 and not lines[k - 1].strip()
        if in_block and indent_of(line) == 0:
            in_block = False
        starts = blank_above and not in_block and not LITERAL.match(line)
        if starts and not SECTION.match(above) and indent_of(above) == 0:
            inside = indent_of(line) > 0 and not LITERAL.match(above)
            if inside and not in_examples:
                in_block = True
                found += ["::", ""]
        if text.startswith(">>>"):
            in_code = True
        if indent_of(line) == 0:
            above = line
        found.append(line if in_block or in_code else escaped(line))
    return found


def process(
    _app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    """Translate a docstring in place, before its sections are read."""
    lines[:] = translated(lines)


def skip(
    _app: Sphinx, _what: str, name: str, obj: Any, _skip: bool, _options: Any
) -> bool | None:
    """Leave out what dataclasses and named tuples document by themselves."""
    text = getattr(obj, "__doc__", None) or ""
    if text.startswith("Alias for field number") or name in OF_PYTREES:
        return True
    return None


def public_bases(
    _app: Sphinx, _name: str, _obj: Any, _options: Any, bases: list[Any]
) -> None:
    """Show the bases that users know, by the names that they import."""
    known = {
        id(value): f"{module}.{name}"
        for module in public_modules()
        for name, value in public_names(module).items()
    }
    # Names of the package itself are found first and stay.
    known |= {id(value): f"bregjax.{n}" for n, value in public_names("bregjax").items()}
    shown = []
    for base in bases:
        if not inspect.isclass(base):
            shown.append(base)  # as `Generic[T]`
            continue
        for parent in inspect.getmro(base):
            if id(parent) in known or not parent.__module__.startswith("bregjax"):
                shown.append(parent)
                break
    bases[:] = [
        f":py:obj:`~{known[id(base)]}`" if id(base) in known else base
        for base in dict.fromkeys(shown)
    ]


def plain_signature(
    _app: Sphinx,
    _what: str,
    _name: str,
    _obj: Any,
    _options: Any,
    signature: str | None,
    result: str | None,
) -> tuple[str | None, str | None] | None:
    """Show a default that says only that nothing was given as an ellipsis."""
    if signature is None or "<object object" not in signature:
        return None
    return re.sub(r"<object object[^>]*>", "…", signature), result


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx, before Napoleon (500)."""
    app.connect("autodoc-process-docstring", process, priority=400)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-bases", public_bases)
    app.connect("autodoc-process-signature", plain_signature)
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    return {"parallel_read_safe": True}

"""Docstrings in plain text, with formulas in indented blocks, as reStructuredText.

Formulas have characters that are markup there: |x|, ψ*, b_. Outside of code these are
escaped, and indented blocks of running text keep their lines.
"""

import inspect
import re
from typing import Any

from docutils import nodes
from docutils.parsers.rst import roles
from docutils.utils import unescape
from every_name import public_modules, public_names, value_of
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject

SECTION = re.compile(
    r"(Args|Attributes|Examples?|Raises|References|Returns|Yields|Notes?):$"
)
RETURNED = re.compile(r"(Returns|Yields):$")
CODE = re.compile(r"(`[^`]*`+)")
# Where the public names are: the first place that shows each.
PLACES = {
    name: f"{module}.{name}"
    for module in reversed(public_modules())
    for name in public_names(module)
}
# Methods that pytrees and scikit-learn make.
MADE = re.compile(r"tree_(un)?flatten\w*|set_\w+_request|get_metadata_routing")
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
        if k > 0 and RETURNED.match(lines[k - 1]) and ":" in text:
            # Napoleon takes what stands before a colon for a type: here for none.
            line = line.replace(text, f": {text}", 1)
        found.append(line if in_block or in_code else escaped(line))
    return found


def process(
    _app: Sphinx, what: str, _name: str, obj: Any, _options: Any, lines: list[str]
) -> None:
    """Translate a docstring in place, before its sections are read."""
    if what == "data" and obj.__doc__ == type(obj).__doc__:
        lines.clear()  # what a dictionary is
        return
    lines[:] = translated(lines)
    if what == "class" and (bases := bases_of(obj)):
        end = lines.index("") if "" in lines else len(lines)
        lines[end:end] = ["", f"Base: {bases}", ""]


def skip(_app: Sphinx, _what: str, name: str, obj: Any, *_others: Any) -> bool | None:
    """Leave out what no one calls, or what documents itself."""
    text = getattr(obj, "__doc__", None) or ""
    if text.startswith("Alias for field number") or MADE.fullmatch(name):
        return True
    return None


def name_role(
    _role: str,
    rawtext: str,
    text: str,
    _lineno: int,
    inliner: Any,
    _options: Any = None,
    _content: Any = None,
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """Show text in backticks as code, and link it where it is a public name.

    Names of arguments, `num_clusters` say, are names of methods elsewhere: methods are
    linked in their own class alone, or by `Class.method`.
    """
    text = unescape(text)
    literal = nodes.literal(rawtext, text)
    environment = inliner.document.settings.env
    name = re.sub(r"\(.*\)$", "", text).removeprefix("bj.").removeprefix("bregjax.")
    owner = environment.ref_context.get("py:class")
    module = environment.ref_context.get("py:module")
    target = PLACES.get(name.split(".")[0])
    if target is not None and "." in name and not name.startswith(target[8:]):
        target += name[name.index(".") :]
    elif target is None and owner and name.isidentifier():
        target = f"{module}.{owner}.{name}"
    elif target is None:
        target = f"bregjax.{name}"
    link = addnodes.pending_xref(
        rawtext,
        literal,
        refdomain="py",
        reftype="obj",
        reftarget=target,
        refexplicit=True,
        refwarn=False,
        refdoc=environment.docname,
    )
    return [link], []


def bases_of(obj: type) -> str:
    """The bases of a class that users know, by the names that they import."""
    known = {id(value_of(path)): path for path in PLACES.values()}
    shown = []
    for base in obj.__bases__:
        found = [known[id(c)] for c in inspect.getmro(base) if id(c) in known]
        shown += found[:1]
    return ", ".join(f":py:obj:`~{path}`" for path in dict.fromkeys(shown))


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
    roles.register_local_role("name", name_role)
    app.connect("autodoc-process-signature", plain_signature)
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    return {"parallel_read_safe": True}

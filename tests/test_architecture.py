"""The direction of imports, the size of files, and what importing the package does."""

import ast
import graphlib
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bregjax

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "bregjax"
FILES = sorted(PACKAGE.rglob("*.py"))

# A module imports only from rows above its own, or from its own package.
ROWS = [
    {"_typing"},
    {"_result", "_pytree", "_progress", "_programs"},
    {"_sparse_rows", "_column_parameters"},
    {"_inputs"},
    {"_checks", "_frames", "_mixtures", "_numerics"},
    {"convex", "_roots"},
    {"divergences", "clusters"},
    {"smoothing"},
    {"_centers"},
    {"_geometry"},
    {"families"},
    {"_family_like", "_smoothing_like"},
    {"_problem"},
    {"_columns", "_comparisons", "_new_rows"},
    {"_evaluation"},
    {"hierarchy"},
    {
        "partition",
        "metrics",
        "_explain",
        "_features",
        "_held_out",
        "objectives",
        "_soft_trees",
        "_support",
    },
    {"_tuning", "_check_table", "_multiscale", "_cut_criteria"},
    {"_num_clusters"},
    {"plotting", "datasets", "extend", "sklearn"},
    {"_cli", "__main__"},
]
ROW_OF = {name: row for row, names in enumerate(ROWS) for name in names}
MAX_LINES = 400
FORBIDDEN = ("jax._src", "jax.experimental", "jax.interpreters", "jaxlib")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> list[str]:
    """Modules that a file imports, at whatever depth; `from a import b` gives a.b too.

    What is imported for types alone counts: a circle of types is a circle to a reader.
    """
    found = []
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            assert node.module is not None
            found.append(node.module)
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def top(module: str) -> str:
    """The part of the package that a module belongs to."""
    return module.split(".")[1]


def inner_imports(path: Path) -> set[str]:
    """Modules of the package that a file imports."""
    modules = {module_name(file) for file in FILES}
    return {n for n in imports(path) if n in modules}


def test_every_module_has_a_row_and_every_row_its_modules():
    parts = {top(module_name(file)) for file in FILES if file.parent != PACKAGE}
    parts |= {file.stem for file in PACKAGE.glob("*.py")} - {"__init__"}
    assert parts == set(ROW_OF)


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_go_down(path):
    name = module_name(path)
    if name == "bregjax":
        return
    row, last = ROW_OF[top(name)], len(ROWS) - 1
    for other in inner_imports(path):
        if other == "bregjax":
            # Only the command line may see the whole package; `from bregjax import x`
            # elsewhere would be a cycle.
            assert row == last, f"{name} imports the whole package"
        else:
            inside = top(other) == top(name)
            above = ROW_OF[top(other)] < row or row == last
            assert inside or above, f"{name} imports {other}, which is not above it"


def test_no_cycles_between_files():
    graph = {module_name(f): inner_imports(f) for f in FILES}
    for name in graph:
        # A package's own list of names is no part of what its files need of each other.
        graph[name] = {n for n in graph[name] if not name.startswith(n + ".")}
    graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_only_public_jax(path):
    tree = ast.parse(path.read_text("utf-8"))
    chains = [ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    for name in imports(path) + chains:
        assert not any(f"{name}.".startswith(f"{bad}.") for bad in FORBIDDEN), name


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_files_are_short(path):
    assert len(path.read_text("utf-8").splitlines()) <= MAX_LINES


def test_contributing_shows_the_same_rows():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    lines = re.findall(r"^\| \d+ \|(.*)\|$", text, flags=re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", line)) for line in lines] == ROWS


IMPORT_SCRIPT = """
import sys, jax
settings = [n for n in dir(jax.config) if n.startswith("jax_")]
before = {n: getattr(jax.config, n) for n in settings}
import bregjax
after = {n: getattr(jax.config, n) for n in settings}
print([n for n in settings if before[n] is not after[n] and before[n] != after[n]])
heavy = ["matplotlib", "sklearn", "tqdm", "pandas", "networkx", "scipy.io"]
heavy += ["scipy.sparse"]
print([n for n in heavy if n in sys.modules])
"""


def test_import_is_light():
    # There is no such platform: to put an array on a device, or to ask for devices,
    # would raise.
    environment = os.environ | {"JAX_PLATFORMS": "nonexistent"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[]", "[]"]


def test_the_platform_that_does_not_exist_would_show():
    script = "import jax.numpy as jnp; jnp.zeros(1)"
    environment = os.environ | {"JAX_PLATFORMS": "nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode != 0


def test_no_class_name_twice():
    names = [
        node.name
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)


# What the package shows from the start, and what it shows once imported by its name.
SHOWN = {
    *("clusters", "convex", "families", "hierarchy", "smoothing"),
    *("divergences", "metrics", "objectives", "partition"),
}
LATER = {"datasets", "extend", "plotting", "sklearn"}


def test_what_dir_shows_is_what_users_use():
    names = ["bregjax", *(f"bregjax.{name}" for name in SHOWN | LATER)]
    for module in map(importlib.import_module, names):
        for name in dir(module):
            value = getattr(module, name)
            if name.startswith("_"):
                continue
            if inspect.ismodule(value):
                assert value.__name__.removeprefix("bregjax.") in SHOWN | LATER
            elif inspect.isclass(value) or inspect.isfunction(value):
                assert value.__module__.startswith("bregjax.")


def test_every_family_is_a_family():
    shown = [getattr(bregjax, name) for name in dir(bregjax)]
    families = [v for v in shown if inspect.isclass(v) and hasattr(v, "log_partition")]
    assert len(families) > 15
    assert all(issubclass(family, bregjax.Family) for family in families)

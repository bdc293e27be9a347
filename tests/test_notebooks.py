"""Notebooks run from top to bottom, and assert what they claim."""

import json
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
QUICK = ("quick_start",)
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells_of(path):
    return json.loads(path.read_text("utf-8"))["cells"]


@every_notebook
def test_colab_finds_the_notebook_and_the_package(path):
    """Badge, first cell and the project's address say the same."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    address = project["urls"]["Repository"]
    cells = cells_of(path)
    colab = address.replace(
        "https://github.com", "https://colab.research.google.com/github"
    )
    assert f"({colab}/blob/main/notebooks/{path.name})" in "".join(cells[0]["source"])
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    first = "".join(code[0]["source"])
    assert f"bregjax[all] @ git+{address}" in first
    assert "all" in project["optional-dependencies"]
    assert 'find_spec("bregjax") is None' in first
    # Memory options count only before the first import of jax.
    assert "XLA_PYTHON_CLIENT_PREALLOCATE" in first
    assert "import jax" not in first
    assert "import bregjax" not in first


@every_notebook
def test_cells_read_well_on_a_phone(path):
    """Short cells and lines, with prose between."""
    cells = cells_of(path)
    kinds = [cell["cell_type"] for cell in cells]
    assert kinds.count("markdown") >= kinds.count("code") / 2
    for cell in cells:
        if cell["cell_type"] == "code":
            lines = "".join(cell["source"]).splitlines()
            assert len(lines) <= 30
            assert max(map(len, lines)) <= 88


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path.stem in QUICK else pytest.mark.slow)
        for path in NOTEBOOKS
    ],
    ids=lambda path: path.stem,
)
def test_cells_run_in_order(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    notebook = json.loads(path.read_text("utf-8"))
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells)  # made anew by each reader
    names: dict[str, object] = {"__name__": "notebook"}
    for number, cell in enumerate(cells):
        source = "".join(cell["source"])
        exec(compile(source, f"{path.name}, cell {number}", "exec"), names)
    plt.close("all")
    assert len(cells) >= 3


def test_there_are_notebooks():
    assert NOTEBOOKS

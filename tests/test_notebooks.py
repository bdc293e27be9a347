"""Notebooks run from top to bottom, and assert what they claim."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
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

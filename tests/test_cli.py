"""The command line: the demo, files of every kind, and what it says of bad ones."""

import argparse
import csv
import gzip
import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import scipy.io
import scipy.sparse
from scipy.cluster import hierarchy

from bregjax import Dendrogram, Problem, __version__, certify, dendrogram_purity
from bregjax.__main__ import build_parser, main
from bregjax._cli.cache import keep_compiled_programs
from bregjax._cli.columns import ColumnChoice
from bregjax._cli.smoothing_choice import (
    choose_smoothing,
    describe_smoothing,
    parse_smoothing,
)
from bregjax._cli.tables import read_table
from bregjax.clusters import Moments
from bregjax.datasets import load_glass
from bregjax.families import FAMILIES, named_family
from bregjax.smoothing import bernstein
from bregjax.smoothing._maps import Adding, Blur, Mixing

ROOT = Path(__file__).parents[1]
OUTPUTS = [
    "clusters.csv",
    "dendrogram.png",
    "labels.csv",
    "linkage.npy",
    "tree.npz",
    "tree.nwk",
]
X = np.array([[0.5, 10.0], [1.5, 11.0], [-2.0, 1e3], [0.25, 0.0]])


def rows_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


# --- the demo ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The output folder and what was printed."""
    folder = tmp_path_factory.mktemp("demo") / "deep" / "folder"
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert main(["demo", "--output", str(folder)]) == 0
    return folder, printed.getvalue()


def test_demo_writes_a_tree_that_scipy_takes(demo):
    folder, _ = demo
    assert sorted(path.name for path in folder.iterdir()) == OUTPUTS
    z = np.load(folder / "linkage.npy")
    assert hierarchy.is_valid_linkage(z)
    tree = Dendrogram.load(folder / "tree.npz")
    assert np.array_equal(tree.linkage(), z)
    newick = (folder / "tree.nwk").read_text("utf-8")
    assert sorted(map(int, re.findall(r"[(,](\d+):", newick))) == list(range(214))


def test_demo_labels_go_with_the_tree(demo):
    folder, _ = demo
    header, *rows = rows_of(folder / "labels.csv")
    assert header == ["row", "cluster", "type"]
    tree, glass = Dendrogram.load(folder / "tree.npz"), load_glass()
    assert [int(row[0]) for row in rows] == list(range(214))
    assert [int(row[1]) for row in rows] == tree.cut(num_clusters=6).tolist()
    types = [glass.class_names[number] for number in glass.classes.tolist()]
    assert [row[2] for row in rows] == types


def test_demo_tells_the_purity_it_got(demo):
    folder, printed = demo
    purity = dendrogram_purity(
        Dendrogram.load(folder / "tree.npz"), load_glass().classes
    )
    assert f"purity     {purity:.4f}" in printed
    ward = hierarchy.linkage(load_glass().x, "ward")
    ward_purity = dendrogram_purity(Dendrogram.from_linkage(ward), load_glass().classes)
    assert f"{ward_purity:.4f} for Ward's method" in printed
    assert purity > ward_purity


def test_demo_costs_add_up_to_the_whole(demo):
    """All costs of a tree add up to Σ w B(τ_i, τ_all), whatever the merges."""
    folder, printed = demo
    x = load_glass().x
    m, d = x.shape
    h = np.mean(x.std(axis=0, ddof=1)) * (4 / ((d + 2) * m)) ** (1 / (d + 4))
    _, log_det = np.linalg.slogdet(np.cov(x.T, bias=True) + h**2 * np.eye(d))
    total = m / 2 * (log_det - 2 * d * np.log(h))
    costs = Dendrogram.load(folder / "tree.npz").merge_costs
    assert np.isclose(costs.sum(), total, rtol=1e-9)
    assert f"nats and {total:.6g} in all" in printed
    assert f"bandwidth {h:.4g} for all columns" in printed


def test_demo_tells_the_time(demo):
    _, printed = demo
    match = re.search(r"seconds    (\S+) to compile, (\S+) to run", printed)
    assert match
    assert 0 < float(match[1]) < 600
    assert float(match[2]) < 60


def test_demo_prints_what_the_readme_shows(demo):
    folder, printed = demo
    readme = (ROOT / "README.md").read_text("utf-8")
    (shown,) = re.findall(r"^```text\n(bregjax .*?)^```$", readme, re.M | re.S)
    varying = ("bregjax ", "seconds ", "written to ")
    stable = lambda text: [w for w in text.splitlines() if not w.startswith(varying)]
    assert stable(printed) == stable(shown)
    assert len(printed.splitlines()) == len(shown.splitlines())
    assert f"written to {folder}" in printed


def test_demo_clusters_are_told_by_the_names_of_columns(demo):
    folder, _ = demo
    _, *rows = rows_of(folder / "clusters.csv")
    assert {row[2] for row in rows} == {", ".join(load_glass().feature_names)}


def test_columns_of_one_family_keep_their_names(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("tall,wide\n1,9\n2,8\n7,1\n8,2\n")
    output = ["--output", str(tmp_path / "out"), "--num-clusters", "2", "--quiet"]
    assert main(["cluster", str(table), "--family", "ward", *output]) == 0
    _, *rows = rows_of(tmp_path / "out" / "clusters.csv")
    assert [row[2] for row in rows] in (["tall", "wide"] * 2, ["wide", "tall"] * 2)


def test_demo_picture_is_not_blank(demo):
    folder, _ = demo
    data = (folder / "dendrogram.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 20_000


def test_module_runs():
    done = subprocess.run(
        [sys.executable, "-m", "bregjax", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{__version__}\n"


def test_compiled_programs_are_kept_where_the_system_has_it(tmp_path):
    script = (
        "import jax; from bregjax.__main__ import main; "
        "main(['cluster', 'nothing.csv']); print(jax.config.jax_compilation_cache_dir)"
    )
    folder = {"XDG_CACHE_HOME": str(tmp_path)}
    chosen = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "mine")}
    for more, expected in ((folder, "bregjax"), (folder | chosen, "mine")):
        environment = os.environ | more
        if more is folder:
            environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        assert done.stdout.strip() == str(tmp_path / expected)


def test_users_choices_of_what_is_kept_stay(monkeypatch):
    config: Any = jax.config
    least = "jax_persistent_cache_min_compile_time_secs"
    kept = config.jax_compilation_cache_dir, getattr(config, least)
    names = ("XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR", least.upper())
    for name in names:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    try:
        config.update("jax_compilation_cache_dir", None)
        config.update(least, 3.0)
        monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
        keep_compiled_programs()
        expected = str(Path("/home/me/.cache/bregjax"))
        assert config.jax_compilation_cache_dir == expected
        assert getattr(config, least) == 3.0

        def no_home():
            raise RuntimeError

        config.update("jax_compilation_cache_dir", None)
        monkeypatch.setattr(Path, "home", no_home)
        keep_compiled_programs()
        assert config.jax_compilation_cache_dir is None
    finally:
        config.update("jax_compilation_cache_dir", kept[0])
        config.update(least, kept[1])


# --- tables ------------------------------------------------------------------------


def _write_text(path: Path, text: str) -> None:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")


def _lines(mark: str, *, header: bool) -> str:
    lines = [mark.join(map(repr, row)) for row in X.tolist()]
    return "\n".join([f"u{mark}v"] * header + lines) + "\n"


WRITERS = {
    "a.csv": lambda p: _write_text(p, _lines(",", header=True)),
    "b.csv": lambda p: _write_text(p, _lines(",", header=False)),
    "c.csv": lambda p: _write_text(p, _lines(";", header=True)),
    "d.tsv": lambda p: _write_text(p, _lines("\t", header=True)),
    "e.txt": lambda p: _write_text(p, _lines("  ", header=False)),
    "f.csv.gz": lambda p: _write_text(p, _lines(",", header=True)),
    "bom.csv": lambda p: _write_text(p, "\ufeff" + _lines(",", header=True)),
    "blank.csv": lambda p: _write_text(p, "\n" + _lines(", ", header=True) + ",\n"),
    "crlf.csv": lambda p: p.write_bytes(
        _lines(",", header=True).replace("\n", "\r\n").encode()
    ),
    "savetxt.txt": lambda p: np.savetxt(p, X, header="u v"),
    "a.npy": lambda p: np.save(p, X),
    "f.npy": lambda p: np.save(p, np.asfortranarray(X)),
    "a.npz": lambda p: np.savez(p, X=X, other=np.ones(3)),
    "only.npz": lambda p: np.savez(p, points=X),
    "csr.npz": lambda p: scipy.sparse.save_npz(p, scipy.sparse.csr_array(X)),
    "coo.npz": lambda p: scipy.sparse.save_npz(p, scipy.sparse.coo_matrix(X)),
    "a.mtx": lambda p: scipy.io.mmwrite(p, scipy.sparse.coo_matrix(X)),
    "dense.mtx": lambda p: scipy.io.mmwrite(p, X),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_gives_the_same_table(name, tmp_path):
    WRITERS[name](tmp_path / name)
    table = read_table(tmp_path / name, ColumnChoice())
    assert table.x.dtype == np.float64
    is_sparse = name in ("csr.npz", "coo.npz", "a.mtx")
    assert scipy.sparse.issparse(table.x) == is_sparse
    assert np.array_equal(table.x.toarray() if is_sparse else table.x, X)
    assert (table.classes, table.names, table.weights) == (None, None, None)


NAMED = "name,u,w,kind,v\np,0.5,2,yes,10\nq,1.5,3,no,11\n"


@pytest.mark.parametrize("by", [("name", "w", "kind"), ("0", "2", "-2")])
def test_columns_by_name_and_number(by, tmp_path):
    _write_text(tmp_path / "a.csv", NAMED)
    choice = ColumnChoice(names=by[0], weights=by[1], classes=by[2])
    table = read_table(tmp_path / "a.csv", choice)
    assert np.array_equal(table.x, X[:2])
    assert table.weights is not None
    assert table.weights.tolist() == [2, 3]
    assert (table.names, table.classes) == (["p", "q"], ["yes", "no"])
    assert table.class_name == "kind"
    assert table.place(1, 1) == "line 3, column 'v'"


def test_header_can_be_forced(tmp_path):
    _write_text(tmp_path / "a.csv", "2019,2020\n1,2\n3,4\n")
    path, none = tmp_path / "a.csv", ColumnChoice()
    assert read_table(path, none).x.shape == (3, 2)
    assert read_table(path, none, header="no").x.shape == (3, 2)
    dropped = read_table(path, ColumnChoice(drop=("2019",)), header="yes")
    assert dropped.x.tolist() == [[2], [4]]


def test_classes_in_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", X=X, y=[1, 1, 2, 2], kind=list("abab"), w=np.ones(4))
    table = read_table(tmp_path / "a.npz", ColumnChoice(weights="w"))
    assert table.classes == ["1", "1", "2", "2"]
    assert table.weights is not None
    assert read_table(tmp_path / "a.npz", ColumnChoice(classes="kind")).classes == [
        *"abab"
    ]
    by_column = read_table(tmp_path / "a.npz", ColumnChoice(classes="1"))
    assert by_column.classes == ["10", "11", "1000", "0"]
    assert by_column.x.tolist() == X[:, :1].tolist()


# --- clustering a file -------------------------------------------------------------


def run(tmp_path, *words) -> tuple[np.ndarray, list[list[str]]]:
    """The linkage matrix and the rows of labels.csv of a run."""
    folder = tmp_path / "out"
    assert main(["cluster", *map(str, words), "--output", str(folder)]) == 0
    return np.load(folder / "linkage.npy"), rows_of(folder / "labels.csv")


def test_cut_by_cost(tmp_path, capsys):
    np.save(tmp_path / "a.npy", [0, 0, 3, 5, 40])
    words = [tmp_path / "a.npy", "--family", "poisson", "--max-cost", "1"]
    z, (header, *rows) = run(tmp_path, *words)
    assert header == ["row", "cluster"]
    assert [row[1] for row in rows] == ["0", "0", "1", "1", "2"]
    heights = [0, 0.25267154, 8 * np.log(2), 44.53572688]
    assert np.allclose(z[:, 2], heights, atol=1e-8)
    printed = capsys.readouterr().out
    assert "clusters   3, of 2, 2, 1 points" in printed
    assert "costing 0 to 44.54 nats" in printed
    assert "purity" not in printed


def test_a_criterion_chooses_the_number_of_clusters(tmp_path, capsys):
    rows = np.repeat([2, 9, 30], 12) + np.tile([0, 1, -1, 0], 9)
    path = tmp_path / "counts.csv"
    path.write_text("\n".join(["visits", *map(str, rows)]), "utf-8")
    _, labels = run(tmp_path, path, "--family", "poisson", "--num-clusters", "bic")
    assert len({row[-1] for row in labels[1:]}) == 3
    assert "chosen     3 clusters by BIC, of 1 to 20" in capsys.readouterr().out


def test_weights_names_and_classes(tmp_path, capsys):
    text = "who,n,times,kind\nann,1,3,x\nbob's,4,1,y\ncy,10,2,y\n"
    _write_text(tmp_path / "a.csv", text)
    words = ["--names", "who", "--weights", "times", "--classes", "kind"]
    z, rows = run(tmp_path, tmp_path / "a.csv", "--family", "poisson", *words)
    assert np.allclose(z[:, 2], [1.62786693, 9.35892266], atol=1e-8)
    assert rows == [
        ["row", "name", "cluster", "kind"],
        ["0", "ann", "0", "x"],
        ["1", "bob's", "0", "y"],
        ["2", "cy", "1", "y"],
    ]
    assert "'bob''s'" in (tmp_path / "out" / "tree.nwk").read_text("utf-8")
    printed = " ".join(capsys.readouterr().out.split())
    assert "3 points, 1 column, 2 known classes, weights of 6 in all" in printed
    assert "purity 0.6667 against" in printed


def test_sparse_rows_give_the_dense_tree(tmp_path):
    """Of data without ties; a family without sparse rows takes the dense table."""
    rng = np.random.default_rng(3)
    x = rng.gamma(2.0, size=(40, 300)) * (rng.random((40, 300)) < 0.05)
    np.save(tmp_path / "dense.npy", x)
    scipy.sparse.save_npz(tmp_path / "s.npz", scipy.sparse.csr_array(x))
    for family in ("poisson", "isotropic_gaussian"):
        words = ["--family", family, "--quiet"]
        dense, labels = run(tmp_path, tmp_path / "dense.npy", *words)
        sparse, found = run(tmp_path, tmp_path / "s.npz", *words)
        pairs = [np.sort(z[:, :2], axis=1).tolist() for z in (dense, sparse)]
        assert pairs[0] == pairs[1]
        np.testing.assert_allclose(sparse[:, 2:], dense[:, 2:], rtol=1e-12)
        assert found == labels


@pytest.mark.parametrize("name", ["s.npz", "s.mtx", "s.mtx.gz", "t.mtx"])
def test_columns_of_sparse_files(name, tmp_path, capsys):
    """Weights, classes and a column to drop; "t" is transposed."""
    rng = np.random.default_rng(5)
    words = rng.poisson(0.4, (30, 50)).astype(float)
    words[:, 0] += 1
    weights, classes = rng.integers(1, 4, 30), rng.integers(0, 2, 30)
    table = np.column_stack([weights, words, classes, np.full(30, 99)])
    matrix = scipy.sparse.coo_matrix(table.T if name == "t.mtx" else table)
    if name == "s.npz":
        scipy.sparse.save_npz(tmp_path / name, matrix)
    else:
        buffer = io.BytesIO()
        scipy.io.mmwrite(buffer, matrix)
        data = buffer.getvalue()
        (tmp_path / name).write_bytes(
            gzip.compress(data) if name.endswith(".gz") else data
        )
    roles = ["--weights", "0", "--classes", "51", "--drop", "52"]
    options = [*roles, *["--transpose"] * (name == "t.mtx")]
    family = ["--family", "multinomial", "--smoothing", "bernstein"]
    z, (header, *rows) = run(tmp_path, tmp_path / name, *family, *options)
    assert header == ["row", "cluster", "class"]
    assert [row[2] for row in rows] == [str(kind) for kind in classes]
    printed = " ".join(capsys.readouterr().out.split())
    assert "30 points, 50 columns, 2 known classes" in printed
    assert "engine sparse" in printed
    smoothing = bernstein(50, words.sum())
    problem = Problem(words, family="multinomial", smoothing=smoothing, weights=weights)
    tree = Dendrogram.load(tmp_path / "out" / "tree.npz")
    assert certify(problem, tree).holds()
    assert z[-1, 3] == 30


def test_faults_of_sparse_files(tmp_path, capsys):
    """By row and column, as of dense ones."""
    for x, message in [
        ([[0, 1], [0, np.inf]], "got inf in row 1, column 1"),
        ([[0, 1], [-2, 0]], "got -2.0 at row 1, column 0"),
        ([[0, 1], [0, 0]], "row 1"),
    ]:
        matrix = scipy.sparse.csr_array(np.array(x, float))
        scipy.sparse.save_npz(tmp_path / "a.npz", matrix)
        path = str(tmp_path / "a.npz")
        assert main(["cluster", path, "--family", "multinomial", "--quiet"]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1


def test_quiet_is_quiet(tmp_path, capfd):
    np.save(tmp_path / "a.npy", [0, 0, 3, 5, 40])
    run(tmp_path, tmp_path / "a.npy", "--family", "poisson", "--quiet")
    assert capfd.readouterr() == ("", "")


def test_without_matplotlib_the_rest_is_written(tmp_path, capsys, monkeypatch):
    for name in [*sys.modules]:
        if name.startswith(("bregjax.plotting", "matplotlib.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    np.save(tmp_path / "a.npy", [0, 0, 3, 5, 40])
    run(tmp_path, tmp_path / "a.npy", "--family", "poisson")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(
        {*OUTPUTS} - {"dendrogram.png"}
    )
    out, err = capsys.readouterr()
    assert "no picture without matplotlib: pip install matplotlib" in err
    assert "dendrogram.png" not in out


# --- smoothing ---------------------------------------------------------------------


def chosen(text, family_name, x, weights=None):
    family = named_family(family_name).for_data(x)
    return choose_smoothing(parse_smoothing(text), family, x, weights)


@pytest.mark.parametrize(
    "name", ["gaussian", "diagonal_gaussian", "isotropic_gaussian"]
)
def test_bandwidths(name):
    x = np.random.default_rng(5).normal(size=(50, 3)) * [1, 2, 3]
    rule = x.std(axis=0, ddof=1) * (4 / (5 * 50)) ** (1 / 7)
    number = chosen("0.25", name, x)
    assert isinstance(number, Blur)
    assert number.bandwidth == 0.25
    for text in ("normal-reference", "normal_reference_n"):
        one = chosen(text, name, x)
        assert isinstance(one, Blur)
        assert np.allclose(one.bandwidth, rule.mean())
    each = chosen("normal-reference-nd", name, x)
    assert isinstance(each, Blur)
    assert np.allclose(each.bandwidth, rule)
    assert chosen("none", name, x) is None
    auto = chosen("auto", name, x)
    expected = rule if name == "diagonal_gaussian" else rule.mean()
    assert isinstance(auto, Blur)
    assert np.allclose(auto.bandwidth, expected)


def test_bernstein_counts_the_whole_table():
    x = np.array([[3.0, 1, 0], [2, 2, 2]])
    smoothing = chosen("bernstein", "multinomial", x)
    assert isinstance(smoothing, Mixing)
    log_term, p, size = np.log(20), 1 / 3, 10
    bound = np.sqrt(2 * p * (1 - p) * log_term / size) + log_term / (3 * size)
    assert np.allclose(smoothing.amount, 3 * bound / (1 + 3 * bound))


@pytest.mark.parametrize("name", ["multinomial", "bernoulli", "ising"])
def test_a_share_mixes_with_the_uniform(name):
    smoothing = chosen("0.1", name, np.array([[1.0, 0], [0, 1]]))
    assert isinstance(smoothing, Mixing)
    assert smoothing.amount == 0.1
    leaves = (
        smoothing.center if isinstance(smoothing.center, tuple) else [smoothing.center]
    )
    uniform = [
        np.full(np.shape(leaf), 0.5 ** (np.ndim(leaf) > 2) * 0.5) for leaf in leaves
    ]
    for leaf, expected in zip(leaves, uniform, strict=True):
        assert np.array_equal(leaf, expected)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("poisson", np.array([[0.0, 2]]), np.array([[0.5, 2.5]])),
        ("exponential", np.array([[0.0, 2]]), np.array([[0.5, 2.5]])),
        ("negative_binomial", np.array([[0.0, 2]]), np.array([[0.5, 2.5]])),
        ("geometric", np.array([[0.0, 2]]), np.array([[0.5, 2.5]])),
        ("laplace", np.array([[0.0, 2]]), np.array([[0.5, 2.5]])),
        ("gamma", (np.zeros((1, 2)), np.ones((1, 2))), (-0.5, 1.0)),
        ("inverse_gaussian", (np.ones((1, 2)), np.ones((1, 2))), (1.0, 1.5)),
        ("beta", (-np.ones((1, 2)), -np.ones((1, 2))), (-1.5, -1.5)),
        ("dirichlet", -np.ones((1, 2)), np.full((1, 2), -1.5)),
    ],
)
def test_an_amount_is_added(name, before, after):
    smoothing = chosen("0.5", name, np.array([[1.0, 2.0]]))
    assert isinstance(smoothing, Adding)
    smoothed, _ = smoothing(before, np.ones(1))  # pyright: ignore[reportArgumentType]
    for got, expected in zip(smoothed, after, strict=True):
        assert np.allclose(got, expected)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_describes_what_auto_came_to(name):
    positive = ("gamma", "inverse_gaussian", "exponential")
    x = np.array([[1.0, 1.0], [1.0, 0.0]]) + (name in positive)
    if name == "beta":
        x = (x + 0.5) / 2
    if name == "dirichlet":
        x = (x + 0.5) / np.sum(x + 0.5, axis=1, keepdims=True)
    if name == "von_mises_fisher":
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    smoothing = chosen("auto", name, x)
    words = describe_smoothing("auto", smoothing)
    assert words.endswith("(auto)")
    assert ("none needed" in words) == (smoothing is None)


@pytest.mark.parametrize("text", ["-1", "0", "inf", "nan", "soft", ""])
def test_bad_smoothing(text):
    with pytest.raises(argparse.ArgumentTypeError, match="must be one of auto, none"):
        parse_smoothing(text)


def test_families_may_be_written_with_hyphens():
    options = build_parser().parse_args(
        ["cluster", "a", "--family", "Diagonal-Gaussian"]
    )
    assert options.family == "diagonal_gaussian"


def test_gaussian_leaves_are_moments():
    """What `choose_smoothing` takes for families of a free variance are those."""
    for name in ("gaussian", "diagonal_gaussian", "isotropic_gaussian"):
        family = named_family(name).for_data(X)
        assert isinstance(family.leaf_statistics(X), Moments)  # pyright: ignore[reportArgumentType]

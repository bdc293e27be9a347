"""What the command line says of bad files and options: one sentence, exit code 2."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import bregjax.__main__
from bregjax.__main__ import main
from bregjax._cli import array_files

X = np.array([[0.5, 10.0], [1.5, 11.0], [-2.0, 1e3], [0.25, 0.0]])

GOOD = "u,v,kind\n1,2,a\n3,4,a\n5,7,b\n"
ERRORS = {
    "no file": (None, "", r"a\.csv: No such file"),
    "ending": ("a.xls", "", r"a\.xls: the ending of its name is none of \.csv"),
    "no text": ("", "", "the file is empty"),
    "header alone": ("u,v\n", "", "has a header and no rows.*--header no"),
    "ragged": ("1,2\n3\n", "", "line 2 has 1 cells and the first has 2"),
    "text": (
        GOOD,
        "--family gaussian",
        "got 'a' on line 2, column 'kind'. .* say --classes",
    ),
    "text among numbers": (
        "u\n1\n2\n3\n4\n5\n6+\n",
        "",
        "got '6\\+' on line 7, column 'u'. Leave the cell empty where",
    ),
    "missing": (
        "u,v\n1,\n2,3\n",
        "--family gaussian",
        "whole rows; got nan at line 2, column 'v'",
    ),
    "empty": ("u,v\n1,2\n,NA\n3,4\n", "", "got none in line 3"),
    "columns and a family": (
        GOOD,
        "--family ward --column u=poisson --classes kind",
        "--column is for --family auto; got --family ward",
    ),
    "no such column": (
        GOOD,
        "--column w=poisson --classes kind",
        "--column w=poisson: 'w' is no column; the columns are u, v",
    ),
    "one row": ("u,v\n1,2\n", "", "a.csv: the file has one row, .* needs two rows"),
    "inf": ("1,2\n3,inf\n", "", "got 'inf' on line 2, column 1"),
    "comma": ("u;v\n1,5;2\n1.5;3\n", "", "decimal points instead of commas"),
    "no column": (
        GOOD,
        "--classes knd",
        "'knd' is no column; its columns are u, v, kind",
    ),
    "no number": (GOOD, "--classes 3", "3 is no column; there are 3, from 0 to 2"),
    "no header": ("1,2\n", "--classes u", "has no header, so columns go by number"),
    "twice": (
        "u,u\n1,2\n",
        "--classes u",
        r"name of columns \[0, 1\]. Give its number",
    ),
    "nothing left": ("1,2\n", "--drop 0 --drop 1", "no column is left to cluster"),
    "empty class": (
        "u,k\n1,a\n2,\n",
        "--classes k",
        "must have a class; got '' in row 1",
    ),
    "names as classes": (GOOD, "--classes u --drop kind", "all 3 differ.* say --names"),
    "k too large": (GOOD, "--classes kind --num-clusters 4", "from 1 to 3.*; got 4"),
    "k zero": (GOOD, "--classes kind --num-clusters 0", "from 1 to 3.*; got 0"),
    "nan cost": (GOOD, "--classes kind --max-cost nan", "--max-cost must be a number"),
    "weight": ("u,w\n1,1\n2,0\n", "--weights w", "positive; got 0.0 at line 3"),
    "negative": (
        "a,b,c\n1,2,3\n4,-5,6\n",
        "--family poisson --drop a",
        r"a\.csv: the data must be non-negative .* got -5.0 at line 3, column 'b'",
    ),
    "empty row": (
        "3,1\n0,0\n2,2\n",
        "--family multinomial",
        "positive total in every row .* at line 2",
    ),
    "no smoothing": (
        GOOD,
        "--classes kind --family gaussian --smoothing none",
        "without a finite cost .* Here that is --smoothing auto",
    ),
    "share": ("1,2\n", "--family multinomial --smoothing 2", "a share, below 1; got 2"),
    "for Gaussians": (
        "1,2\n",
        "--family poisson --smoothing normal-reference",
        "Gaussians with a free variance, and Poisson is none",
    ),
    "for categories": (
        "1,2\n",
        "--family gaussian --smoothing bernstein",
        "bernstein is for proportions .* --family multinomial",
    ),
    "for none": ("1,2\n", "--family ward --smoothing 1", "has no effect on Spherical"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_sentence(case, tmp_path, capsys, monkeypatch):
    text, options, message = ERRORS[case]
    monkeypatch.chdir(tmp_path)
    name = text if text == "a.xls" else "a.csv"
    if text is not None:
        Path(name).write_text(text, encoding="utf-8")
    assert main(["cluster", name, *options.split(), "--quiet"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("bregjax: error: ")
    assert err.count("\n") == 1
    assert re.search(message, err), err


ARRAY_ERRORS = {
    "which": (lambda p: np.savez(p, a=X, b=X), "not clear; the file holds a, b.*X"),
    "length": (
        lambda p: np.savez(p, X=X, k=[1]),
        r"array k must .* the 4 rows; got .*1",
    ),
    "objects": (lambda p: np.savez(p, X=np.array([{}])), "allow_pickle"),
    "text": (lambda p: np.savez(p, X=np.array(["a"])), "must be a matrix of real num"),
    "inf": (lambda p: np.savez(p, X=[[0, np.inf]]), "got inf in row 0, column 1"),
    "broken": (lambda p: p.write_bytes(b"PK\x03\x04 and no more"), "a.npz: "),
}


@pytest.mark.parametrize("case", ARRAY_ERRORS)
def test_errors_of_array_files(case, tmp_path, capsys):
    write, message = ARRAY_ERRORS[case]
    path = tmp_path / "a.npz"
    write(path)
    words = ["--classes", "k"] if case == "length" else []
    assert main(["cluster", str(path), *words, "--quiet"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert re.search(message, err), err


def test_sparse_too_large_names_the_dense_size(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(array_files, "physical_memory", lambda: 16 * 2.0**30)
    entries = (np.ones(2), ([0, 79_999], [0, 399_999]))
    matrix = scipy.sparse.csr_array(entries, shape=(80_000, 400_000))
    scipy.sparse.save_npz(tmp_path / "big.npz", matrix)
    assert main(["cluster", str(tmp_path / "big.npz"), "--quiet"]) == 2
    err = capsys.readouterr().err
    assert re.search(r"80,000 rows .* 238\.4 GiB when dense.* \(2\.0 GiB\)", err), err


def test_output_that_is_a_file(tmp_path, capsys):
    np.save(tmp_path / "a.npy", X)
    words = ["cluster", str(tmp_path / "a.npy"), "--output", str(tmp_path / "a.npy")]
    assert main(words) == 2
    assert "a.npy: File exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("cluster", "the following arguments are required: FILE"),
        ("cluster a.csv --num-clusters 2 --max-cost 1", "not allowed with"),
        (
            "cluster a.csv --num-clusters two",
            "must be a whole number or one of bic, .*got 'two'",
        ),
        ("cluster a.csv --family normal", "invalid choice: 'normal'"),
        ("cluster a.csv --smoothing -1", "must be one of auto, .*; got '-1'"),
        ("cluster a.csv --engine fast", "invalid choice: 'fast'"),
    ],
)
def test_errors_of_options(words, message, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(words.split())
    assert leaving.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert re.search(message, err), err


def test_ctrl_c_is_one_sentence_and_130(tmp_path, monkeypatch, capsys):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bregjax.__main__, "cluster_table", stopped)
    assert main(["demo", "--output", str(tmp_path), "--quiet"]) == 130
    err = capsys.readouterr().err
    assert err == f"bregjax: stopped before all files were written to {tmp_path}\n"
    assert list(tmp_path.iterdir()) == []

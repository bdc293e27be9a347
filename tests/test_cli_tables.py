"""Tables as users have them: what the command line takes for names, numbers, rows."""

import gzip
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from bregjax.__main__ import main
from bregjax._cli.columns import ColumnChoice
from bregjax._cli.run import Request, notes_on
from bregjax._cli.tables import Table, read_table

X = np.array([[0.5, 10.0], [1.5, 11.0], [-2.0, 1e3], [0.25, 0.0]])


def table_of(tmp_path, content, name="a.csv", choice=None, **options) -> Table:
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / name).write_bytes(data)
    return read_table(tmp_path / name, choice or ColumnChoice(), **options)


def refused(tmp_path, content, message, name="a.csv", **options):
    with pytest.raises(ValueError, match=message) as error:
        table_of(tmp_path, content, name, **options)
    assert str(error.value).startswith(str(tmp_path / name))
    assert "\n" not in str(error.value)


def err_of(capsys) -> str:
    return capsys.readouterr().err


# Names of columns and of rows


def test_a_header_of_years_is_taken_for_names(tmp_path):
    text = "gene,2019,2020\nA,1,2\nB,3,4\n"
    table = table_of(tmp_path, text, choice=ColumnChoice(names="0"))
    assert table.x.tolist() == [[1, 2], [3, 4]]
    assert (table.names, table.columns) == (["A", "B"], ("2019", "2020"))
    (note,) = table.notes
    assert "(gene, 2019, 2020) is taken for names of columns; say --header no" in note


@pytest.mark.parametrize("text", ["0,1,2\n5,7,7\n1,4,2\n", "2019,2020\n1,2\n3,4\n"])
def test_numbers_that_count_up_are_data_with_a_note(text, tmp_path):
    table = table_of(tmp_path, text)
    assert len(table.x) == 3
    (note,) = table.notes
    assert "is taken for data; say --header yes if it names the columns" in note


def test_a_header_of_some_years(tmp_path):
    names = ColumnChoice(names="0")
    text = "gene,2020,2015,2010\nA,5,3,1\nB,3,4,9\n"
    assert table_of(tmp_path, text, choice=names).names == ["A", "B"]
    table = table_of(tmp_path, "gene,2019\nA,5\nB,3\n", choice=names)
    assert table.names == ["gene", "A", "B"]
    assert "(gene, 2019) is taken for data; say --header yes" in table.notes[0]
    table = table_of(tmp_path, "ann,1985\nbob,1990\n", choice=names)
    assert (len(table.x), table.notes) == (2, ())


@pytest.mark.parametrize(
    "text", ["1,2\n2,3\n7,9\n", "5,7,1\n1,2,3\n", "k,3,5\nl,4,1\n"]
)
def test_plain_numbers_have_no_note(text, tmp_path):
    choice = ColumnChoice(names="0") if text[0] == "k" else ColumnChoice()
    assert table_of(tmp_path, text, choice=choice).notes == ()


def test_a_header_beside_numbers_is_hinted_at(tmp_path):
    refused(tmp_path, "gene,5,2\nA,1,2\n", "got 'gene' on line 1.*say --header yes")
    choice = ColumnChoice(names="0")
    table = table_of(tmp_path, "gene,5,2\nA,1,2\n", choice=choice, header="yes")
    assert table.names == ["A"]


INDEXED = {
    "pandas": ("a.csv", ",u,v\nA,1,2\nB,3,4\n"),
    "pandas, years": ("a.csv", ",2019,2021\nA,1,2\nB,3,4\n"),
    "pandas twice": ("a.csv", "Unnamed: 0,u,v\nA,1,2\nB,3,4\n"),
    "write.csv": ("a.csv", '"","u","v"\n"A",1,2\n"B",3,4\n'),
    "write.table": ("a.txt", '"u" "v"\n"A" 1 2\n"B" 3 4\n'),
    "write.table, tabs": ("a.tsv", "u\tv\nA\t1\t2\nB\t3\t4\n"),
    "blanks": ("a.txt", '"u" "v"\n"A" 1 2\n"B"  3   4 \n'),
}


@pytest.mark.parametrize("kind", INDEXED)
def test_a_column_without_a_name_names_the_rows(kind, tmp_path):
    name, text = INDEXED[kind]
    table = table_of(tmp_path, text, name)
    assert table.x.tolist() == [[1, 2], [3, 4]]
    assert table.names == ["A", "B"]
    assert any("taken for the names of rows" in note for note in table.notes)


def test_a_column_without_a_name_may_be_something_else(tmp_path):
    text = ",u,v\n1,1,2\n2,3,4\n"
    for choice in (ColumnChoice(drop=("0",)), ColumnChoice(weights="0")):
        table = table_of(tmp_path, text, choice=choice)
        assert (table.x.tolist(), table.names) == ([[1, 2], [3, 4]], None)
    table = table_of(tmp_path, ",u,w\n1,A,2\n2,B,4\n", choice=ColumnChoice(names="u"))
    assert table.x.tolist() == [[1, 2], [2, 4]]
    assert table_of(tmp_path, '""\n1\n2\n').x.tolist() == [[1], [2]]


def test_a_column_called_number_sign(tmp_path):
    assert table_of(tmp_path, "#,u\n1,2\n3,4\n").columns == ("#", "u")
    assert table_of(tmp_path, "# u v\n1 2\n3 4\n", "a.txt").columns == ("u", "v")


def test_names_that_come_again_are_noted(tmp_path):
    text = 'n,u\na,1\na,2\n"b\nc",3\n'
    table = table_of(tmp_path, text, choice=ColumnChoice(names="n"))
    assert table.names == ["a", "a", "b\nc"]
    (note,) = notes_on(table, Request("ward"))
    assert "names of rows come again or hold line breaks (2 of 3); in tree.nwk" in note


# Cells


def test_true_and_false_are_numbers(tmp_path):
    table = table_of(tmp_path, "True,FALSE,0.5\nfalse,true,2\n")
    assert table.x.tolist() == [[1, 0, 0.5], [0, 1, 2]]
    assert table_of(tmp_path, "u,v\nTrue,False\n").x.tolist() == [[1, 0]]


def test_a_number_with_an_underscore_is_none(tmp_path):
    refused(tmp_path, "u,v\n1,2\n3,1_5\n", "got '1_5' on line 3, column 'v'.*undersco")
    refused(tmp_path, "u\n1_5\n", "got '1_5' on line 2")
    refused(tmp_path, "u\n1e400\n", "got '1e400' on line 2, column 'u'. Drop or imp")


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ('n,u\na,1\n"b,2\nc,3\nd,4\n', "a.csv", 3),
        ('n,u\na,1\n"b,2\nc,3\n"d",4\n', "a.csv", 3),
        ('n,u\n"a,1\nb,2\nc,"3\n', "a.csv", 2),
        ('n,u\na,1\nb,"2', "a.csv", 3),
        ('n u\na 1\n"b 2\nc 3\n', "a.txt", 3),
    ],
)
def test_a_quote_that_is_not_closed_is_an_error(text, name, line, tmp_path):
    message = f"line {line}: a quote opens and is not closed.* Close it"
    refused(tmp_path, text, message, name, choice=ColumnChoice(names="n"))


def test_quotes_that_are_closed_are_none(tmp_path):
    names = ColumnChoice(names="n")
    text = 'n,u\n"a,""b""",1\n"two\nlines",2\n"c" ,3\n5" disk,4\n"d" ,5\n'
    table = table_of(tmp_path, text, choice=names)
    assert table.names == ['a,"b"', "two\nlines", "c", '5" disk', "d"]
    assert table.lines == [2, 4, 5, 6, 7]
    text = 'n u\n"a b" 1\n"say \\"hi\\"" 2\nc 3\n'
    assert table_of(tmp_path, text, "a.txt", names).names == ["a b", 'say "hi"', "c"]


def test_long_cells(tmp_path):
    long = "x" * 140_000
    table = table_of(tmp_path, f"n,u\n{long},1\n", choice=ColumnChoice(names="n"))
    assert table.names == [long]
    refused(tmp_path, f"u\n{long}\n", r"got 'x+…' on line 2")


def test_categories_by_name(tmp_path, capsys):
    text = "colour,size,code\nred,S,1\nred,S,1\nblue,S,2\nblue,L,2\n"
    (tmp_path / "a.csv").write_text(text)
    words = ["cluster", str(tmp_path / "a.csv"), "--output", str(tmp_path / "out")]
    assert main([*words, "--family", "categorical", "--quiet"]) == 0
    heights = np.load(tmp_path / "out" / "linkage.npy")[:, 2]
    assert np.allclose(heights[:2], [0, 2 * np.log(2)])
    table = table_of(tmp_path, text, cells="categories")
    assert table.x[3].tolist() == ["blue", "L", 2]
    refused(
        tmp_path,
        "u,v\nred,1\n,2\n",
        "must be categories; got '' on line 3, column 'u'. Drop such rows, or write",
        cells="categories",
    )
    (tmp_path / "a.csv").write_text("u,v\nred,1.5\nblue,2\n")
    assert main([*words, "--family", "categorical"]) == 2
    assert re.search("whole numbers; got 1.5 at line 2, column 'v'", err_of(capsys))


# Files


def test_endings_in_capitals(tmp_path):
    data = gzip.compress(b"u,v\n1,2\n")
    assert table_of(tmp_path, data, "T.CSV.GZ").x.tolist() == [[1, 2]]
    for name in ("C.MTX", "c.mtx"):
        with (tmp_path / name).open("wb") as file:
            scipy.io.mmwrite(file, scipy.sparse.coo_matrix(X))
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        for path in (tmp_path / name, packed):
            assert np.array_equal(read_table(path, ColumnChoice()).x.toarray(), X)
    np.save(tmp_path / "a", X)
    (tmp_path / "a.npy").rename(tmp_path / "A.NPY")
    assert np.array_equal(read_table(tmp_path / "A.NPY", ColumnChoice()).x, X)


def test_encodings(tmp_path):
    text, names = "n,u\na,1\né,2\n", ColumnChoice(names="n")
    latin = text.encode("latin-1")
    message = "not utf-8 on line 3 .*--encoding, such as latin-1, cp1252"
    refused(tmp_path, latin, message, choice=names)
    table = table_of(tmp_path, latin, choice=names, encoding="latin-1")
    assert table.names == ["a", "é"]
    wide = text.encode("utf-16")
    assert table_of(tmp_path, wide, choice=names).names == ["a", "é"]
    refused(tmp_path, text, "not utf-16", choice=names, encoding="utf-16")


def test_what_is_no_table(tmp_path):
    whole = gzip.compress(b"u,v\n" + bytes(range(48, 58)) * 50)
    refused(tmp_path, whole[:-12], "a.csv.gz: ", "a.csv.gz")
    refused(tmp_path, whole[:20] + b"???" + whole[23:], "a.csv.gz: ", "a.csv.gz")
    refused(tmp_path, "no matrix", r"a\.mtx: ", "a.mtx")
    for shape in ((0, 3), (3, 0)):
        np.save(tmp_path / "a.npy", np.ones(shape))
        with pytest.raises(ValueError, match=r"a\.npy: the array is empty, of shape"):
            read_table(tmp_path / "a.npy", ColumnChoice())
    np.savez(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"a\.npz: the file holds no array"):
        read_table(tmp_path / "a.npz", ColumnChoice())
    for name in ("d.mtx", "d.csv", "d.npz"):
        (tmp_path / name).mkdir()
        with pytest.raises(IsADirectoryError, match=re.escape(name)):
            read_table(tmp_path / name, ColumnChoice())


def test_columns_for_rows(tmp_path):
    text = "gene,s1,s2,s3\nA,1,2,3\nB,4,5,6\nkind,x,y,x\n"
    choice = ColumnChoice(names="gene", classes="kind")
    table = table_of(tmp_path, text, choice=choice, transpose=True)
    assert table.x.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert (table.names, table.classes) == (["s1", "s2", "s3"], ["x", "y", "x"])
    assert table.place(1, 1) == "column 2, column 'B'"
    table = table_of(tmp_path, INDEXED["write.table"][1], "a.txt", transpose=True)
    assert (table.x.tolist(), table.names) == ([[1, 3], [2, 4]], ["u", "v"])
    np.savez(tmp_path / "a.npz", X=X, y=[1, 2])
    table = read_table(tmp_path / "a.npz", ColumnChoice(), transpose=True)
    assert np.array_equal(table.x, X.T)
    assert table.classes == ["1", "2"]


def test_standard_input(tmp_path, monkeypatch):
    for data in (b"u,v\n1,2\n3,4\n", gzip.compress(b"u v\n1 2\n3 4\n")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        table = read_table(Path("-"), ColumnChoice())
        assert (table.source, table.x.tolist()) == ("standard input", [[1, 2], [3, 4]])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"u\nx\n")))
    with pytest.raises(ValueError, match="^standard input: cells must be finite num"):
        read_table(Path("-"), ColumnChoice())


# What is said


class Narrow(io.TextIOWrapper):
    """A stream of few letters."""

    def __init__(self, encoding="latin-1"):
        super().__init__(io.BytesIO(), encoding=encoding)


def test_files_come_first_and_printing_never_fails(tmp_path, monkeypatch):
    """More than twelve clusters are shown with …, which Latin-1 does not have."""
    (tmp_path / "a.csv").write_text("\n".join(map(str, range(0, 90, 7))))
    monkeypatch.chdir(tmp_path)
    words = ["cluster", "a.csv", "--family", "poisson", "--num-clusters", "13"]
    out = Narrow()
    monkeypatch.setattr(sys, "stdout", out)
    assert main(words) == 0
    printed = out.buffer.getvalue().decode("latin-1")  # pyright: ignore[reportAttributeAccessIssue]
    assert "13, of 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ... points" in printed
    assert (tmp_path / "bregjax-output" / "dendrogram.png").exists()

    class Closed(Narrow):
        def flush(self):
            raise BrokenPipeError(32, "Broken pipe")

        def fileno(self):
            raise OSError

    monkeypatch.setattr(sys, "stdout", Closed())
    assert main([*words, "--output", "again"]) == 0
    assert (tmp_path / "again" / "dendrogram.png").exists()
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["cluster", "b.csv"]) == 2


def test_notes_go_to_stderr_before_the_work(tmp_path, capsys):
    square = np.abs(X[:, :1] - X[:, 0])
    np.save(tmp_path / "d.npy", square)
    words = ["cluster", str(tmp_path / "d.npy"), "--family", "ward"]
    words += ["--output", str(tmp_path / "out")]
    assert main(words) == 0
    err = capsys.readouterr().err
    assert err.startswith("bregjax: note: the table looks like a matrix of distances: ")
    assert err.count("\n") == 1
    assert main([*words, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_numbers_out_of_range_name_the_column(tmp_path, capsys):
    table = "u,v\n1,1e-160\n2,2e-160\n4,3e-160\n"
    (tmp_path / "a.csv").write_text(table)
    words = ["cluster", str(tmp_path / "a.csv"), "--output", str(tmp_path / "out")]
    assert main([*words, "--family", "diagonal_gaussian", "--quiet"]) == 2
    assert "as 2e-160, in column 'v', underflow float64" in capsys.readouterr().err


def test_unknown_encodings(capsys):
    for name in ("latin-9000", "base64"):
        with pytest.raises(SystemExit):
            main(["cluster", "a.csv", "--encoding", name])
        assert f"encoding of text, such as latin-1; got '{name}'" in (
            capsys.readouterr().err
        )


def test_object_arrays_beside_the_table_are_left_alone(tmp_path):
    names = np.array(["a", "b"], object)
    np.savez(tmp_path / "t.npz", X=np.arange(8.0).reshape(4, 2), feature_names=names)
    assert read_table(tmp_path / "t.npz", ColumnChoice()).x.shape == (4, 2)


def test_letters_without_a_font_are_one_sentence(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("n,a\n日本,1\n𓀀,2\nx,9\n", "utf-8")
    words = ["cluster", str(tmp_path / "t.csv"), "--names", "n", "--family", "ward"]
    assert main([*words, "--output", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().err.count("no letters for some names") == 1


# Numbers that are not written as numbers


def test_decimal_commas_between_semicolons(tmp_path):
    text = "name;price;n\nA;179,9;3\nB;20;4\nC;NA;7\nD;-1,5e2;8\n"
    table = table_of(tmp_path, text, choice=ColumnChoice(names="name"))
    np.testing.assert_array_equal(table.x[:, 0], [179.9, 20, np.nan, -150])
    (note,) = table.notes
    assert note == "commas in a column, such as 179,9, are read as decimal points"
    # The first row is data, though its cells with commas are no numbers elsewhere.
    assert table_of(tmp_path, "1,5;2,25\n3,5;4\n").x.tolist() == [[1.5, 2.25], [3.5, 4]]


@pytest.mark.parametrize("text", ["u;v\n1,5;2\n1.5;3\n", "u\tv\n1,5\t2\n2,5\t3\n"])
def test_commas_stay_where_they_may_mean_something_else(text, tmp_path):
    refused(tmp_path, text, "decimal points instead of commas")


def test_columns_that_look_like_numbers_have_notes(tmp_path):
    text = (
        "cost,share,age,town\n$29.23,97%,31,Bonn\n$30.5,50%,6o,Kiel\n"
        "$1.5,9%,23,7\n$1.7,8%,19,Bonn\n"
    )
    table = table_of(tmp_path, text, cells="mixed")
    cost, share, age = table.notes
    assert "column 'cost' is read as text, and looks like numbers" in cost
    assert "'97%' on line 2" in share
    assert "'age' is read as text, though 3 of its 4 cells are numbers" in age
    assert "'6o' on line 3" in age
    assert not table_of(tmp_path, "a,b\n1,x\n2,y\n", cells="mixed").notes


def test_columns_without_names_go_by_number(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("r,3.5,29\ns,4.1,30\nt,5.5,44.5\n")
    options = ["--header", "no", "--names", "0", "--column", "2=gamma", "--output"]
    command = ["cluster", str(tmp_path / "a.csv"), *options, str(tmp_path)]
    assert main(command) == 0
    lines = (tmp_path / "clusters.csv").read_text().splitlines()[1:]
    assert {line.split(",")[2] for line in lines} == {"1", "2"}
    assert "Gamma" in capsys.readouterr().out


def test_few_rows_are_cut_into_two(tmp_path):
    (tmp_path / "a.csv").write_text("u,v\n1.5,2\n1.25,1\n9.5,7\n8.5,3\n")
    assert main(["cluster", str(tmp_path / "a.csv"), "--output", str(tmp_path)]) == 0
    labels = np.loadtxt(tmp_path / "labels.csv", delimiter=",", skiprows=1, dtype=int)
    assert labels[:, 1].tolist() == [0, 0, 1, 1]


def test_the_report_tells_of_a_bandwidth_far_above_a_column(tmp_path, capsys):
    x = np.random.default_rng(0).normal(size=(12, 2)) * [1.0, 0.001]
    text = "u,v\n" + "".join(f"{a},{b}\n" for a, b in x)
    (tmp_path / "a.csv").write_text(text)
    for smoothing, told in (("auto", True), ("1.5", False)):
        words = f"--family gaussian --smoothing {smoothing} --output".split()
        assert main(["cluster", str(tmp_path / "a.csv"), *words, str(tmp_path)]) == 0
        out = capsys.readouterr().out
        assert ("of column 'v'" in out) is told
        assert ("--smoothing normal-reference-nd" in " ".join(out.split())) is told

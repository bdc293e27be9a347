"""Text files as tables: encodings, delimiters, quotes."""

import contextlib
import csv
import gzip
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from bregjax._cli.headers import find_header, fitted_header
from bregjax._cli.sheets import Sheet, with_points

__all__ = ["DELIMITERS", "STANDARD_INPUT", "opened", "read_sheet"]

DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "space": " "}
STANDARD_INPUT = Path("-")

# A cell of a line divided by blanks, where some are quoted; R escapes quotes by \.
_QUOTED_OR_NOT = re.compile(r'"(?:[^"\\]|\\.|"")*"|[^\s"]+')
_GZIPPED = b"\x1f\x8b"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def read_sheet(
    path: Path,
    *,
    delimiter: str = "auto",
    header: str = "auto",
    encoding: str = "auto",
    transpose: bool = False,
) -> Sheet:
    """Read a text table, gzipped or not.

    Args:
        path: The file; "-" is the standard input.
        delimiter: A key of `DELIMITERS`, or "auto": the first of tab, semicolon, comma
            and space that occurs in the first line.
        header: "yes", "no", or "auto": see `find_header`.
        encoding: Of the text; "auto" is UTF-8, and UTF-16 where it begins with a mark.
        transpose: Take columns for rows, before a header is looked for.

    Raises:
        ValueError: If the file holds no rows, rows of different lengths, an open quote,
            or another encoding.
        OSError: If it cannot be read.
    """
    with opened(path) as file, _cells_of_any_length():
        rows, lines, mark = _split(_decoded(file, encoding), delimiter)
    if not rows:
        raise ValueError("the file is empty. Give a table with a row a point.")
    if header != "no":
        rows = fitted_header(rows)
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"line {line} has {len(row)} cells and the first has {len(rows[0])}. "
                "Check the line, or name the --delimiter."
            )
    if transpose:
        rows = [list(column) for column in zip(*rows, strict=True)]
        lines = list(range(len(rows)))
    rows, commas = with_points(rows) if mark == ";" else (rows, "")
    found, note = find_header(rows) if header == "auto" else (header == "yes", "")
    names = None
    if found:
        first, *rows = rows
        names, lines = tuple(first), lines[1:]
    if not rows:
        raise ValueError(
            "the file has a header and no rows. If its one line is data, say "
            "--header no."
        )
    unit = "column" if transpose else "line"
    return Sheet(names, rows, lines, unit, tuple(filter(None, (note, commas))))


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file or the standard input as bytes, unpacked if gzipped."""
    with contextlib.ExitStack() as stack:
        if path == STANDARD_INPUT:
            file: IO[bytes] = io.BytesIO(sys.stdin.buffer.read())
        else:
            file = stack.enter_context(path.open("rb"))
        packed = file.read(len(_GZIPPED)) == _GZIPPED
        file.seek(0)
        unpacked: Any = stack.enter_context(gzip.open(file)) if packed else file
        yield unpacked


@contextlib.contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """Lift the limit of 131,072 letters a cell, a setting of the whole process."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _decoded(file: IO[bytes], encoding: str) -> list[str]:
    """Decode the lines of a text; line ends are kept."""
    if encoding == "auto":
        marked = file.read(2) in _UTF_16
        file.seek(0)
        # utf-8-sig: spreadsheets put a byte-order mark before the first name.
        encoding = "utf-16" if marked else "utf-8-sig"
    text = io.TextIOWrapper(file, encoding=encoding, newline="")
    lines: list[str] = []
    try:
        lines.extend(text)
    except UnicodeError as error:
        # What is decoded comes in blocks, so that the line is not yet among them.
        file.seek(0)
        line = _first_undecodable(file, encoding)
        where = "" if line is None else f" on line {line}"
        raise ValueError(
            f"the text is not {encoding.removesuffix('-sig')}{where} "
            f"({getattr(error, 'reason', error)}). Name its --encoding, such as "
            "latin-1, cp1252 or utf-16."
        ) from None
    finally:
        text.detach()
    return lines


def _first_undecodable(file: IO[bytes], encoding: str) -> int | None:
    """The first line that cannot be decoded; None in UTF-16 and UTF-32."""
    for number, line in enumerate(file, start=1):
        try:
            line.decode(encoding)
        except UnicodeError:
            return None if encoding.startswith(("utf-16", "utf-32")) else number
    return None


def _split(text: list[str], delimiter: str) -> tuple[list[list[str]], list[int], str]:
    """Split lines into cells: rows that are not blank, their lines, the delimiter."""
    first = next((line for line in text if line.strip()), "")
    mark = _guess(first) if delimiter == "auto" else DELIMITERS[delimiter]
    rows: list[list[str]] = []
    lines: list[int] = []
    parse = _by_blanks(text) if mark == " " else _by_mark(text, mark)
    for cells, line in parse:
        if any(cells):
            rows.append(cells)
            lines.append(line)
    return rows, lines, mark


def _by_blanks(text: list[str]) -> Iterator[tuple[list[str], int]]:
    for number, line in enumerate(text, start=1):
        if '"' not in line:
            yield line.split(), number
            continue
        cells = _QUOTED_OR_NOT.findall(line)
        if _QUOTED_OR_NOT.sub("", line).strip():  # a quote alone
            raise ValueError(_unclosed(number))
        yield [_unquoted(cell) for cell in cells], number


def _unquoted(cell: str) -> str:
    if not cell.startswith('"'):
        return cell
    return cell[1:-1].replace('""', '"').replace('\\"', '"').strip()


def _by_mark(text: list[str], mark: str) -> Iterator[tuple[list[str], int]]:
    options: Any = {"delimiter": mark, "skipinitialspace": True}
    reader = csv.reader(text, **options)
    start = 0
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"line {start + 1}: {error}. Check the line.") from None
        end = reader.line_num
        # A quote that is never closed takes in all rows up to the next quote, or to the
        # end. So a row of several lines, and the last row, are parsed strictly again.
        if end > start + 1 or end == len(text):
            try:
                list(csv.reader(text[start:end], strict=True, **options))
            except csv.Error:
                if end > start + 1 or text[start].count('"') % 2:
                    raise ValueError(_unclosed(start + 1)) from None
        yield [cell.strip() for cell in row], end
        start = end


def _unclosed(line: int) -> str:
    return (
        f"line {line}: a quote opens and is not closed, or text follows where it is. "
        'Close it, or write "" for a quote inside of a quoted cell.'
    )


def _guess(line: str) -> str:
    for mark in ("\t", ";", ","):
        if mark in line:
            return mark
    return " "

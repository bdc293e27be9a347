"""Whether the first row of a text table names its columns, and what names the rows."""

from collections.abc import Sequence

from bregjax._cli.sheets import is_number

__all__ = ["NAMELESS", "find_header", "fitted_header"]

# The names that pandas gives to a column without a name when it reads its own file.
NAMELESS = ("", "Unnamed: 0")

_YEARS = range(1500, 2200)
# How many rows after the first are compared with it.
_SOME = 100


def find_header(rows: Sequence[Sequence[str]]) -> tuple[bool, str]:
    """Whether the first row is a header, and a note to the user where that is doubtful.

    A first row without numbers is a header. A first row with numbers is a header in two
    cases: its first cell is empty and that of every other row is not (an index without
    a name), or it holds text and years that count up, as 1990, 2000, 2010, and no other
    row does. All other first rows are data. If such a row counts, as 1, 2, 3 does, or
    holds one year, and no other row does, a note says so. Of the other rows, 100 count.
    """
    first, others = rows[0], rows[1:]
    number = [is_number(cell) for cell in first]
    if not any(number):
        return True, ""
    if len(first) > 1 and not first[0] and others and all(row[0] for row in others):
        return True, ""
    years = _counts(first, years=True)
    single = number.count(True) == 1 and _is_year(first[number.index(True)])
    if single:
        alike = any(_is_year(row[number.index(True)]) for row in others[:_SOME])
    else:
        alike = any(_counts(row, years=years) for row in others[:_SOME])
    if not others or alike or not (single or _counts(first)):
        return False, ""
    shown = ", ".join(first[:4]) + (", …" if len(first) > 4 else "")
    if years and not all(number):
        note = f"the first row ({shown}) is taken for names of columns"
        return True, f"{note}; say --header no if it is data"
    note = f"the first row ({shown}) is taken for data"
    return False, f"{note}; say --header yes if it names the columns"


def _is_year(cell: str) -> bool:
    return cell.isdecimal() and int(cell) in _YEARS


def _counts(row: Sequence[str], *, years: bool = False) -> bool:
    """Whether whole numbers of a row are consecutive, or three and equally spaced."""
    cells = [cell for cell in row if is_number(cell)]
    if len(cells) < 2 or not all(cell.isdecimal() for cell in cells):
        return False
    values = [int(cell) for cell in cells]
    if years and not all(value in _YEARS for value in values):
        return False
    steps = {b - a for a, b in zip(values, values[1:], strict=False)}
    return len(steps) == 1 and (
        steps <= {1, -1} or (len(values) > 2 and 0 not in steps)
    )


def fitted_header(rows: list[list[str]]) -> list[list[str]]:
    """Make a first row of column names as long as the other rows.

    `numpy.savetxt` puts a `#` before the names, which is removed. R's `write.table` has
    no name for the column of row names, so that all other rows have one cell more: an
    empty name is put in front.
    """
    first, *others = rows
    widths = {len(row) for row in others}
    if first[0].startswith("#") and not any(map(is_number, first)):
        mark = first[0][1:].strip()
        first = first[1:] if not mark and widths == {len(first) - 1} else first
        first = [mark, *first[1:]] if mark else first
    elif widths == {len(first) + 1} and not any(map(is_number, first)):
        first = ["", *first]
    return [first, *others]

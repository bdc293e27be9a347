"""Whether the first row of a text table names its columns, and what names the rows."""

from collections.abc import Sequence

from bregjax._cli.sheets import is_number

__all__ = ["NAMELESS", "find_header", "fitted_header"]

# What pandas calls a nameless column when it reads its own file again.
NAMELESS = ("", "Unnamed: 0")

_YEARS = range(1500, 2200)
# Rows after the first that are looked at.
_SOME = 100


def find_header(rows: Sequence[Sequence[str]]) -> tuple[bool, str]:
    """Whether the first row is a header, and a note where that is not plain.

    It is if no cell of it is a number. Where some are numbers it is if its first cell
    is empty and no other row's is (an index without a name), or if beside text it
    counts years and no other row does. A first row that counts otherwise, and no other
    does, is data, with a note; so is one with a single year.
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
    """Whether its numbers are whole and go on by one, or in three by equal steps."""
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
    """Rows with a first one that fits the others, if it names columns.

    Without the mark that `numpy.savetxt` puts before names; with an empty cell in front
    where every other row has one more, as R's `write.table` leaves out a name for the
    names of rows.
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

"""The roles of columns: data, or the classes, names and weights of rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["ColumnChoice", "Roles", "assign_roles", "families_by_column"]


@dataclass(frozen=True)
class ColumnChoice:
    """Columns as the user wrote them: a name, or a number counted from 0 (−1: last).

    Attributes:
        classes: The known classes of rows.
        names: The names of rows.
        weights: The weights of rows.
        drop: Columns to leave out.
    """

    classes: str | None = None
    names: str | None = None
    weights: str | None = None
    drop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Roles:
    """The numbers of the columns of each role; None where no column has the role."""

    classes: int | None
    names: int | None
    weights: int | None
    data: tuple[int, ...]


def assign_roles(
    choice: ColumnChoice, header: Sequence[str] | None, width: int
) -> Roles:
    """Resolve the choice against a table of `width` columns.

    Raises:
        ValueError: If a column does not exist, a name is not unique, or none is left.
    """

    def find(option: str, wanted: str | None) -> int | None:
        return None if wanted is None else _find(option, wanted, header, width)

    classes = find("--classes", choice.classes)
    names = find("--names", choice.names)
    weights = find("--weights", choice.weights)
    dropped = {find("--drop", column) for column in choice.drop}
    taken = dropped | {classes, names, weights}
    data = tuple(i for i in range(width) if i not in taken)
    if not data:
        raise ValueError(
            f"no column is left to cluster: all {width} are classes, names, weights or "
            "dropped. Give fewer of --classes, --names, --weights and --drop."
        )
    return Roles(classes, names, weights, data)


def families_by_column(
    given: Mapping[str, str | None], columns: Sequence[str | int]
) -> dict[str | int, str | None]:
    """Families by the columns of a table, as it names or numbers them.

    Raises:
        ValueError: If a column is not among them.
    """
    found: dict[str | int, str | None] = {}
    for wanted, family in given.items():
        number = int(wanted) if wanted.isdecimal() else None
        column = wanted if wanted in columns else number
        if column not in columns or column is None:
            word = "none" if family is None else family
            raise ValueError(
                f"--column {wanted}={word}: {wanted!r} is no column; the columns are "
                f"{_listed([str(name) for name in columns])}."
            )
        found[column] = family
    return found


def _find(option: str, wanted: str, header: Sequence[str] | None, width: int) -> int:
    matches = [i for i, name in enumerate(header or ()) if name == wanted]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ValueError(
            f"{option} {wanted!r} is the name of columns {matches}. Give its number."
        )
    try:
        number = int(wanted)
    except ValueError:
        known = (
            f"its columns are {_listed(header)}"
            if header
            else "the file has no header, so columns go by number"
        )
        raise ValueError(f"{option} {wanted!r} is no column; {known}.") from None
    if not -width <= number < width:
        raise ValueError(
            f"{option} {wanted} is no column; there are {width}, from 0 to "
            f"{width - 1}, or from -1 back."
        )
    return number % width


def _listed(header: Sequence[str], at_most: int = 12) -> str:
    words = ", ".join(header[:at_most])
    return words + (f", … ({len(header)} in all)" if len(header) > at_most else "")

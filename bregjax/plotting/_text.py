"""Names as they are, on one line, at a size that fits."""

import functools
import os
import warnings
from collections.abc import Sequence

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

__all__ = ["escaped", "fitted", "font_size", "shortened", "shortened_all", "width_of"]

_MOST_LETTERS = 40
# Points: the smallest letters that print, and those of names that have room.
_LEAST, _MOST = 5.0, 8.5
# A line is this much higher than its font size.
_LINE = 1.2
# Of many texts only the longest are measured.
_MEASURED = 12


def shortened(name: object, most: int = _MOST_LETTERS) -> str:
    """A name on one line; of a long one the middle is left out."""
    line = " ".join(str(name).splitlines())
    if len(line) <= most:
        return line
    end = most // 3
    return line[: most - 1 - end] + "…" + line[-end:]


def shortened_all(names: Sequence[object], most: int = _MOST_LETTERS) -> list[str]:
    """Names on one line each, shortened so that different ones stay different.

    Where their middles tell them apart, what all have in common is left out instead; of
    what still looks the same the second and later ones are numbered.

    Examples:
        >>> shortened_all([f"number of birds in {k} or so" for k in (1, 2)], 9)
        ['…in 1…', '…in 2…']
    """
    lines = [shortened(name, 10**9) for name in names]
    distinct = list(dict.fromkeys(lines))
    short = [shortened(line, most) for line in distinct]
    if len(set(short)) < len(distinct):
        short = [shortened(part, most) for part in _differing(distinct, most)]
    found: dict[str, str] = {}
    taken: set[str] = set()
    for line, text in zip(distinct, short, strict=True):
        number, other = 1, text
        while other in taken:
            number += 1
            other = f"{text} [{number}]"
        taken.add(other)
        found[line] = other
    return [found[line] for line in lines]


def _differing(lines: list[str], most: int) -> list[str]:
    """Lines without what all have in common, but for words before it that fit."""
    shared = os.path.commonprefix(lines)
    rest = [line[len(shared) :] for line in lines]
    end = len(os.path.commonprefix([line[::-1] for line in rest]))
    rest = [line[: len(line) - end] for line in rest]
    room = max(most - 2 - max(map(len, rest)), 0)
    words = shared
    if room < len(shared):
        words = "…" + shared[len(shared) - room :].partition(" ")[2]
    return [words + line + ("…" if end else "") for line in rest]


def fitted(name: object, size: float, room: float) -> str:
    """A name on one line, shortened until it is no wider than some room, in points."""
    most = len(shortened(name, 200))
    while most > 4 and width_of([shortened(name, most)], size) > room:
        most -= 1
    return shortened(name, most)


def escaped(name: object) -> str:
    """A name for legends, where matplotlib reads $…$ as formulas and skips "_…"."""
    text = shortened(name).replace("$", r"\$")
    return "\u200b" + text if text.startswith("_") else text


def font_size(room: float) -> float | None:
    """The font size for lines that each have some room, in points; None if none fits.

    Examples:
        >>> print(font_size(60.0), font_size(7.2), font_size(2.0))
        8.5 6.0 None
    """
    size = min(_MOST, room / _LINE)
    return size if size >= _LEAST else None


def width_of(texts: Sequence[str], size: float) -> float:
    """How wide the widest text is, in points."""
    longest = sorted(set(texts), key=len)[-_MEASURED:]
    return size / 100 * max(map(_width, longest), default=0.0)


@functools.lru_cache(4096)
def _width(text: str) -> float:
    """How wide a text is at a font size of 100 points."""
    with warnings.catch_warnings():  # of letters that the font lacks drawing warns
        warnings.simplefilter("ignore")
        font = FontProperties(size=100)
        return text_to_path.get_text_width_height_descent(text, font, False)[0]

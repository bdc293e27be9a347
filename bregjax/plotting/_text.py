"""Names as they are, on one line, at a size that fits."""

from collections.abc import Sequence

__all__ = ["escaped", "font_size", "shortened", "width_of"]

_MOST_LETTERS = 40
# Points: the smallest letters that print, and those of names that have room.
_LEAST, _MOST = 5.0, 8.5
# A line is this much higher than its font size, and a letter as wide on average.
_LINE, _LETTER = 1.2, 0.6


def shortened(name: object, most: int = _MOST_LETTERS) -> str:
    """A name on one line; of a long one the middle is left out."""
    line = " ".join(str(name).splitlines())
    if len(line) <= most:
        return line
    end = most // 3
    return line[: most - 1 - end] + "…" + line[-end:]


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
    """About how wide the widest text is, in points."""
    return size * _LETTER * max(map(len, texts), default=0)

"""One line of a doctor's report."""

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """What one test of a family found.

    Attributes:
        name: Of the test, one or two words.
        passed: Whether nothing needs mending.
        sentence: What was found and, if it failed, what to do.
    """

    name: str
    passed: bool
    sentence: str

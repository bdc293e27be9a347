"""A single finding of the diagnostics of a family."""

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """The result of a single test of a family.

    Attributes:
        name: Name of the test, one or two words.
        passed: Whether nothing needs to be changed.
        sentence: What was found and, if the test failed, what to do.

    Examples:
        >>> Finding("convex", passed=True, sentence="ψ is convex there.").passed
        True
    """

    name: str
    passed: bool
    sentence: str

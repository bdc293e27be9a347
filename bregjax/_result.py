"""Codes of numerical solvers, with a sentence for each."""

import enum

import numpy as np

from bregjax._typing import ArrayLike


class Result(enum.IntEnum):
    """Code that travels with the answer of a numerical solver.

    Inside traced code the code is an int32 array; `Result(int(code))` names it.

    Examples:
        >>> from bregjax.convex import Result
        >>> print(Result(2).name, Result.INVALID.sentence)
        OUTSIDE The point holds NaN or inf.
    """

    CONVERGED = 0
    BOUNDARY = 1
    OUTSIDE = 2
    STEP_LIMIT = 3
    STALLED = 4
    INVALID = 5

    @property
    def sentence(self) -> str:
        """What happened and what to do about it."""
        return _SENTENCES[self]


_SENTENCES = {
    Result.CONVERGED: "The solver converged.",
    Result.BOUNDARY: (
        "The point lies within rounding of the boundary of the mean domain, and the "
        "value is the limit; or the maximiser lies on the edge of the function's "
        "domain. Smooth the statistics to move the point inside."
    ),
    Result.OUTSIDE: (
        "The point lies outside the closure of the mean domain: the conjugate is +inf "
        "there. Check the data against the family, and the statistic against the "
        "log-partition function."
    ),
    Result.STEP_LIMIT: (
        "The solver ran out of steps. Raise `max_steps`, start nearer, or rescale the "
        "statistics."
    ),
    Result.STALLED: (
        "The solver stopped making progress away from a solution. The function may "
        "not be convex, or lose too many digits: try float64, or a more stable form."
    ),
    Result.INVALID: "The point holds NaN or inf.",
}


def describe(codes: ArrayLike) -> str:
    """One sentence for each code that occurs, after the number of its occurrences."""
    values, counts = np.unique(np.asarray(codes), return_counts=True)
    return " ".join(
        f"{count} × {Result(int(value)).name}: {Result(int(value)).sentence}"
        for value, count in zip(values, counts, strict=True)
    )

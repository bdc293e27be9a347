"""The option --smoothing: one word or number."""

import argparse
import math
from typing import Any

import jax
import numpy as np

from bregjax._centers import takes_bandwidths
from bregjax._checks import float_array
from bregjax._sparse_rows import SparseRows, row_totals
from bregjax.families import Family, Multinomial, Product
from bregjax.smoothing import StatisticMap, bernstein, normal_reference
from bregjax.smoothing._by_block import ByBlock
from bregjax.smoothing._maps import Adding, Blur, Mixing

__all__ = ["SMOOTHINGS", "choose_smoothing", "describe_smoothing", "parse_smoothing"]

SMOOTHINGS = (
    "auto",
    "none",
    "normal-reference",
    "normal-reference-n",
    "normal-reference-nd",
    "bernstein",
)


def parse_smoothing(text: str) -> str | float:
    """Parse a name in `SMOOTHINGS`, or a positive number.

    Raises:
        argparse.ArgumentTypeError: If the text is neither.
    """
    word = text.lower().replace("_", "-")
    if word in SMOOTHINGS:
        return word
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(
            f"must be one of {', '.join(SMOOTHINGS)}, or a positive number; got "
            f"{text!r}"
        )
    return number


def choose_smoothing(
    choice: str | float,
    family: Family,
    x: Any,
    weights: np.ndarray | None,
) -> StatisticMap | None:
    """The smoothing map that the choice means for this family and these rows.

    A number is a bandwidth in the units of the data for Gaussians; the share α < 1 of
    the uniform distribution for categories and binary variables; an amount added to
    every count, time or distance for Poisson, negative binomial, geometric, exponential
    and Laplace; what E log x is lowered by for the gamma family and Dirichlet, and
    E log(1 − x) too for beta; what E 1/x is raised by for inverse Gaussians.

    Args:
        choice: As `parse_smoothing` gives it.
        family: The family, its dimension known.
        x: Rows `[m, d]`, already inside the sample space of the family.
        weights: `[m]`, or None.

    Raises:
        ValueError: If the choice does not apply to this family.
    """
    name = type(family).__name__
    if choice == "none":
        return None
    if isinstance(family, Product) and choice != "auto":
        raise ValueError(
            f"--smoothing {choice} is for one family, and the columns have several. "
            "Take auto or none."
        )
    if choice == "auto":
        given = None if weights is None else float_array(weights)
        return family.default_smoothing(family.as_rows(x), given)
    if isinstance(choice, float):
        try:
            return family.smoothing_of(choice)
        except ValueError as error:
            reason = str(error).replace("`amount`", "the number")
            raise ValueError(
                f"--smoothing {choice:g} does not suit {name}: {reason}"
            ) from None
    if choice == "bernstein":
        if not isinstance(family, Multinomial):
            raise ValueError(
                f"--smoothing bernstein is for proportions of categories, and {name} "
                "has none. Take --family multinomial, or another smoothing."
            )
        return bernstein(x.shape[1], float(np.sum(row_totals(x))))
    sparse = isinstance(x, SparseRows)
    if sparse or not takes_bandwidths(family, family.as_rows(x)):
        raise ValueError(
            f"--smoothing {choice} is for Gaussians with a free variance, and {name} "
            "is none. Take auto, none or a number."
        )
    per_coordinate = choice == "normal-reference-nd"
    return normal_reference(x, per_coordinate=per_coordinate, weights=weights)


def describe_smoothing(choice: str | float, smoothing: StatisticMap | None) -> str:
    """Describe the smoothing, and what was asked for, in a line of the report."""
    asked = "as given" if isinstance(choice, float) else choice
    if smoothing is None:
        return "none" if choice == "none" else f"none needed ({asked})"
    if isinstance(smoothing, ByBlock):
        parts = [describe_smoothing(choice, each) for each in smoothing.maps if each]
        return "; ".join(dict.fromkeys(parts))
    if isinstance(smoothing, Blur):
        h = np.asarray(smoothing.bandwidth)
        if h.size == 1 and h.ndim:
            return f"bandwidth {h.item():.4g} ({asked})"
        size = f"{h:.4g}" if h.ndim == 0 else f"{h.min():.4g} to {h.max():.4g}"
        which = "for all columns" if h.ndim == 0 else "by column"
        return f"bandwidth {size} {which} ({asked})"
    if isinstance(smoothing, Mixing):
        return f"mixing, share {float(smoothing.amount):.4g} of the center ({asked})"
    if isinstance(smoothing, Adding):
        parts = jax.tree.leaves(smoothing.center)
        largest = max(float(np.abs(part).max()) for part in parts)
        return f"adding up to {float(smoothing.amount) * largest:.4g} ({asked})"
    return f"{smoothing!r} ({asked})"

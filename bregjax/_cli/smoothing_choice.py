"""Smoothing as one word or number on the command line."""

import argparse
import math

import jax
import numpy as np

from bregjax._checks import float_array
from bregjax.families import (
    Beta,
    DiagonalGaussian,
    Dirichlet,
    Exponential,
    Family,
    Gamma,
    Gaussian,
    Geometric,
    InverseGaussian,
    IsotropicGaussian,
    Laplace,
    Multinomial,
    NegativeBinomial,
    Poisson,
    SphericalGaussian,
)
from bregjax.smoothing import (
    Adding,
    Blur,
    Mixing,
    StatisticMap,
    adding,
    bernstein,
    blur,
    mixing,
    normal_reference,
)

__all__ = ["SMOOTHINGS", "choose_smoothing", "describe_smoothing", "parse_smoothing"]

SMOOTHINGS = (
    "auto",
    "none",
    "normal-reference",
    "normal-reference-n",
    "normal-reference-nd",
    "bernstein",
)

_FREE_VARIANCE = (Gaussian, DiagonalGaussian, IsotropicGaussian)
_AMOUNT_TO_ALL = (Poisson, NegativeBinomial, Geometric, Exponential, Laplace)


def parse_smoothing(text: str) -> str | float:
    """A name in `SMOOTHINGS`, or a positive number.

    Raises:
        argparse.ArgumentTypeError: If it is neither.
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
    choice: str | float, family: Family, x: np.ndarray, weights: np.ndarray | None
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
        ValueError: If it means nothing for this family.
    """
    name = type(family).__name__
    if choice == "none":
        return None
    if choice == "auto":
        given = None if weights is None else float_array(weights)
        return family.default_smoothing(family.as_rows(x), given)
    if isinstance(choice, float):
        return _by_amount(choice, family, x.shape[1])
    if choice == "bernstein":
        if not isinstance(family, Multinomial):
            raise ValueError(
                f"--smoothing bernstein is for proportions of categories, and {name} "
                "has none. Take --family multinomial, or another smoothing."
            )
        return bernstein(x.shape[1], float(np.sum(x)))
    if not isinstance(family, _FREE_VARIANCE):
        raise ValueError(
            f"--smoothing {choice} is for Gaussians with a free variance, and {name} "
            "is none. Take auto, none or a number."
        )
    per_coordinate = choice == "normal-reference-nd"
    return normal_reference(x, per_coordinate=per_coordinate, weights=weights)


def describe_smoothing(choice: str | float, smoothing: StatisticMap | None) -> str:
    """One line for the report: what was asked for and what it came to."""
    asked = "as given" if isinstance(choice, float) else choice
    if smoothing is None:
        return "none" if choice == "none" else f"none needed ({asked})"
    if isinstance(smoothing, Blur):
        h = np.asarray(smoothing.bandwidth)
        size = f"{h:.4g}" if h.ndim == 0 else f"{h.min():.4g} to {h.max():.4g}"
        which = "for all columns" if h.ndim == 0 else "by column"
        return f"bandwidth {size} {which} ({asked})"
    if isinstance(smoothing, Mixing):
        return f"mixing, share {float(smoothing.amount):.4g} of the centre ({asked})"
    if isinstance(smoothing, Adding):
        parts = jax.tree.leaves(smoothing.center)
        largest = max(float(np.abs(part).max()) for part in parts)
        return f"adding up to {float(smoothing.amount) * largest:.4g} ({asked})"
    return f"{type(smoothing).__name__} ({asked})"


def _by_amount(amount: float, family: Family, dim: int) -> StatisticMap:
    if isinstance(family, _FREE_VARIANCE):
        return blur(amount)
    if isinstance(family, _AMOUNT_TO_ALL):
        return adding(np.ones(dim), amount)
    if isinstance(family, Dirichlet):
        return adding(-np.ones(dim), amount)
    if isinstance(family, Beta):
        return adding((-np.ones(dim), -np.ones(dim)), amount)
    if isinstance(family, Gamma):
        return adding((-np.ones(dim), np.zeros(dim)), amount)
    if isinstance(family, InverseGaussian):
        return adding((np.zeros(dim), np.ones(dim)), amount)
    if isinstance(family, SphericalGaussian):
        raise ValueError(
            f"--smoothing {amount:g} has no effect on {type(family).__name__}, whose "
            "variance is known. Leave it out, or take --family isotropic_gaussian."
        )
    if not amount < 1:
        raise ValueError(
            f"--smoothing for {type(family).__name__} is the share of the uniform "
            f"distribution, below 1; got {amount:g}. Take 0.01, say."
        )
    with jax.enable_x64(True):
        uniform = family.natural_to_mean(family.natural_init)
        return mixing(uniform, amount)

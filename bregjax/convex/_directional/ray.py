"""Values along a ray, and the record of limits that could not be decided.

A value computed from x + τv is followed for small τ > 0 as p + τt + τ²u/2, with the
slope t and the bend u. The order of two such values just after τ = 0 is the
lexicographic order of (p, t, u): every rule at a kink follows from it.

Along v = −3 at x = 0 the value x is (0, −3, 0), x² is (0, 0, 18) and 2x² is (0, 0, 36).
So max(x², 2x²) is (0, 0, 36), decided by the bends; |x| is (0, 3, 0), by the slopes;
and √(x²) has the slope (18 / 2)^½ = 3, as |x| has.
"""

import dataclasses
import enum
import functools
from collections.abc import Callable
from typing import TypeVar

import jax.core
import jax.numpy as jnp

from bregjax._typing import Array

_T = TypeVar("_T")


class Doubt(enum.IntFlag):
    """Why a slope is NaN: kinds of places where the ray does not decide it."""

    TIE = 1
    ROOT = 2
    EIGEN = 4
    SINGULAR = 8
    LOOP = 16

    @property
    def sentence(self) -> str:
        """What happened and what to do about it."""
        return _SENTENCES[self]


_SENTENCES = {
    Doubt.TIE: (
        "A comparison (gt, eq, sign, argmax, sort, floor, a cond predicate) of values "
        "that are not affine in x is tied to second order, and the branches differ. "
        "Compare an affine quantity, use max, min or abs, or bring a rule with "
        "`define_directional_derivative`."
    ),
    Doubt.ROOT: (
        "A root (sqrt, cbrt, pow) meets an argument of 0 whose growth along v is not "
        "known, or that turns negative. Bring a rule with "
        "`define_directional_derivative`."
    ),
    Doubt.EIGEN: (
        "eigh meets equal eigenvalues: eigenvectors have no derivative there. Use the "
        "eigenvalues alone, or bring a rule with `define_directional_derivative`."
    ),
    Doubt.SINGULAR: (
        "svd meets equal or zero singular values: its factors have no derivative "
        "there. Use the singular values alone, or bring a rule with "
        "`define_directional_derivative`."
    ),
    Doubt.LOOP: (
        "The predicate of a while loop is tied to second order, so the number of steps "
        "is not decided. Compare an affine quantity, or bring a rule with "
        "`define_directional_derivative`."
    ),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Ray:
    """One intermediate value along the ray.

    Attributes:
        value: The limit for τ → 0+.
        slope: The one-sided derivative; None for a constant. For Booleans and
            integers, the mask of entries that the ray does not decide.
        bend: Gives the one-sided second derivative (NaN where unknown); None where
            the value is affine in τ for small τ, so that a tie of slopes stays a tie.
            It is a function because few rules ask for it.
        logarithmic: Whether the value grows like log τ wherever it is infinite.
    """

    value: Array
    slope: Array | None = None
    bend: Callable[[], Array] | None = None
    logarithmic: bool = False

    @property
    def is_float(self) -> bool:
        """Whether the value is of a floating (or complex) dtype."""
        return jnp.issubdtype(self.value.dtype, jnp.inexact)

    @property
    def is_active(self) -> bool:
        """Whether the value is a float that moves along the ray."""
        return self.is_float and self.slope is not None

    @property
    def is_affine(self) -> bool:
        """Whether the value is affine in τ, up to the first kink."""
        return self.slope is None or self.bend is None

    def first(self) -> Array:
        """The slope; zeros for a constant."""
        return jnp.zeros_like(self.value) if self.slope is None else self.slope

    def second(self) -> Array:
        """The bend; zeros for an affine value."""
        if self.slope is None or self.bend is None:
            return jnp.zeros_like(self.value)
        return self.bend()

    def mask(self) -> Array:
        """The undecided entries of a Boolean or an integer."""
        if self.is_float or self.slope is None:
            return jnp.zeros(self.value.shape, bool)
        return self.slope

    def map(self, linear: Callable[[Array], Array]) -> "Ray":
        """The ray under a linear map of arrays."""
        if not self.is_active:
            return Ray(linear(self.value), None if self.slope is None else self.slope)
        bend = None if self.bend is None else later(lambda: linear(self.second()))
        return Ray(linear(self.value), linear(self.first()), bend)


def later(compute: Callable[[], _T]) -> Callable[[], _T]:
    """Compute at the first request, and keep the result."""
    return functools.cache(compute)


def unknown(value: Array) -> Callable[[], Array]:
    """A bend of NaN, as where it is unknown."""
    return lambda: jnp.full_like(value, jnp.nan)


def is_concrete(*arrays: Array) -> bool:
    """Whether the arrays have values: none is a tracer."""
    return not any(isinstance(array, jax.core.Tracer) for array in arrays)


class Doubts:
    """A record of the reasons met on the walk, as one integer of `Doubt` bits."""

    def __init__(self) -> None:
        self.code: Array = jnp.int32(0)

    def add(self, where: Array, reason: Doubt) -> None:
        """Record the reason if any entry of `where` holds."""
        self.join(jnp.where(jnp.any(where), jnp.int32(reason), jnp.int32(0)))

    def join(self, code: Array) -> None:
        """Record the bits of another record's code."""
        self.code = self.code | code

    def poison(self, slope: Array, where: Array, reason: Doubt) -> Array:
        """The slope with NaN where it is in doubt, which is recorded."""
        self.add(where, reason)
        return jnp.where(where, jnp.nan, slope)

"""Smooth functions of one number by Chebyshev pieces: a table in place of a solver."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from numpy.polynomial import chebyshev

from bregjax._typing import Array

__all__ = ["Pieces", "fit_pieces", "largest_error"]


@dataclass(frozen=True, eq=False)
class Pieces:
    """A function of one number by polynomials on intervals of equal width.

    The function is constant beyond both ends; a part that goes on growing there has to
    be subtracted before the fit. The piece of a number is found as an integer part, so
    that no comparison is made and no program branches. Evaluation in float32 uses the
    same coefficients, rounded.

    Attributes:
        low: Where the first piece begins.
        width: Width of one piece.
        coefficients: Coefficients `[degree + 1, pieces]`, float64, the constant first,
            of powers of the place in the piece, from −1 to 1.
    """

    low: float
    width: float
    coefficients: np.ndarray

    def __call__(self, u: Array) -> Array:
        """Values at `u`, elementwise; NaN at NaN."""
        count = self.coefficients.shape[1]
        place = jnp.clip((u - self.low) / self.width, 0, count)
        # A NaN has no integer part; it stays in `place`, and so in the value.
        index = jnp.clip(jnp.nan_to_num(place).astype(jnp.int32), 0, count - 1)
        x = 2 * (place - index.astype(place.dtype)) - 1
        powers = jnp.asarray(self.coefficients, place.dtype)
        total = _at(powers[-1], index)
        for coefficient in powers[-2::-1]:
            total = total * x + _at(coefficient, index)
        return total


def _at(table: Array, index: Array) -> Array:
    """Entries at indices that are known to lie in the table, which compiles quickly."""
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def fit_pieces(
    function: Callable[[np.ndarray], np.ndarray],
    low: float,
    high: float,
    *,
    count: int,
    degree: int,
) -> tuple[Pieces, ...]:
    """Interpolate functions at the Chebyshev points of each of `count` pieces.

    Args:
        function: From numbers `[k]` to values `[f, k]` of f smooth functions, in NumPy.
        low: Where the first piece begins.
        high: Where the last piece ends.
        count: The number of pieces.
        degree: Degree of the polynomials, up to about 12: powers are taken of numbers
            from −1 to 1.

    Returns:
        The pieces of each function; `largest_error` measures their errors.

    Examples:
        >>> both = lambda u: np.stack([np.sin(u), np.cos(u)])
        >>> sine, cosine = fit_pieces(both, 0.0, 4.0, count=16, degree=9)
        >>> bool(np.abs(sine(np.float32(0.5)) - np.sin(0.5)) < 1e-6)
        True
    """
    width = (high - low) / count
    nodes = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    values = function(_points(low, width, count, nodes).ravel())
    values = values.reshape(-1, degree + 1).T.astype(float)
    # Through Chebyshev polynomials, as the matrix of powers is ill-conditioned.
    series = np.linalg.solve(chebyshev.chebvander(nodes, degree), values)
    powers = np.zeros((degree + 1, degree + 1))
    for k, unit in enumerate(np.eye(degree + 1)):
        powers[: k + 1, k] = chebyshev.cheb2poly(unit)[: k + 1]
    coefficients = (powers @ series).reshape(degree + 1, -1, count)
    parts = np.moveaxis(coefficients, 1, 0)
    return tuple(Pieces(low, width, part) for part in parts)


def largest_error(
    pieces: tuple[Pieces, ...], function: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """The largest absolute error of each of the functions that were fitted, `[f]`.

    Errors are looked at in twice as many places as the fit used, ends of pieces
    included, by the coefficients in float64, without the rounding of the evaluation.
    """
    low, width = pieces[0].low, pieces[0].width
    size, count = pieces[0].coefficients.shape
    places = np.linspace(-1, 1, 2 * size)
    values = function(_points(low, width, count, places).ravel())
    powers = np.vander(places, size, increasing=True)
    found = np.stack([(powers @ part.coefficients).T.ravel() for part in pieces])
    return np.max(np.abs(found - values), axis=1).astype(float)


def _points(low: float, width: float, count: int, places: np.ndarray) -> np.ndarray:
    """Numbers at `places`, from −1 to 1, of each piece, `[count, places]`."""
    middles = low + width * (np.arange(count) + 0.5)
    return middles[:, None] + 0.5 * width * places[None]

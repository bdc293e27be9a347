"""SciPy's special functions, with the values of compiled programs where these differ.

They differ at the ends of domains: ψ(0), which has a limit from either side, is NaN.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from bregjax._programs.elementwise import Run

__all__ = ["BUILDERS"]


def _special_functions() -> Any:
    """SciPy's, imported at the first use."""
    return importlib.import_module("scipy.special")


def _as_it_is(name: str) -> Callable[[Any], Run]:
    return lambda eqn: getattr(_special_functions(), name)


def _log_gamma(x: np.ndarray) -> np.ndarray:
    return np.where(x == -np.inf, np.inf, _special_functions().gammaln(x))


def _digamma(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, np.nan, _special_functions().digamma(x))


def _polygamma(order: np.ndarray, x: np.ndarray) -> np.ndarray:
    # At a pole of even order the sign changes.
    pole = (order % 2 == 0) & (x <= 0) & (x == np.floor(x))
    unknown = pole | (x == np.inf) | np.isinf(order)
    found = np.where(unknown, np.nan, _special_functions().polygamma(order, x))
    return np.where(order == 0, _digamma(x), found)


def _share_below(shape: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The share of a gamma distribution below a number."""
    found = _special_functions().gammainc(shape, x)
    found = np.where((shape == 0) & (x > 0) & (x < 1), np.nan, found)
    return _of_infinite_shape(shape, x, found, 1.0)


def _share_above(shape: np.ndarray, x: np.ndarray) -> np.ndarray:
    found = _special_functions().gammaincc(shape, x)
    return _of_infinite_shape(shape, x, found, 0.0)


def _of_infinite_shape(
    shape: np.ndarray, x: np.ndarray, found: np.ndarray, at_infinity: float
) -> np.ndarray:
    large = (shape == np.inf) & (x >= 1)
    return np.where(large, np.where(x == np.inf, at_infinity, np.nan), found)


BUILDERS: dict[str, Callable[[Any], Run]] = {
    "bessel_i0e": _as_it_is("i0e"),
    "bessel_i1e": _as_it_is("i1e"),
    "digamma": lambda eqn: _digamma,
    "erf": _as_it_is("erf"),
    "erfc": _as_it_is("erfc"),
    "erf_inv": _as_it_is("erfinv"),
    "igamma": lambda eqn: _share_below,
    "igammac": lambda eqn: _share_above,
    "lgamma": lambda eqn: _log_gamma,
    "logistic": _as_it_is("expit"),
    "polygamma": lambda eqn: _polygamma,
    "regularized_incomplete_beta": _as_it_is("betainc"),
}

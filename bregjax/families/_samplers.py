"""Random rows of the built-in families, by NumPy, from natural parameters."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from bregjax._typing import PyTree
from bregjax.families._bernoulli import Bernoulli
from bregjax.families._beta import Beta
from bregjax.families._categorical import Categorical
from bregjax.families._dirichlet import Dirichlet
from bregjax.families._exponential import Exponential
from bregjax.families._gamma import Gamma
from bregjax.families._gaussian import DiagonalGaussian, Gaussian, IsotropicGaussian
from bregjax.families._inverse_gaussian import InverseGaussian
from bregjax.families._ising import Ising
from bregjax.families._laplace import Laplace
from bregjax.families._multinomial import Multinomial
from bregjax.families._negative_binomial import Geometric, NegativeBinomial
from bregjax.families._poisson import Poisson
from bregjax.families._spherical_gaussian import SphericalGaussian
from bregjax.families._von_mises_fisher import VonMisesFisher

__all__ = ["normal_rows", "sample_rows"]


def sample_rows(
    family: Any, natural: PyTree, count: int, generator: Generator
) -> np.ndarray:
    """Draw rows of a distribution of a built-in family, `[count, d]`.

    Rows are as `family.as_rows` has them: categories by their codes. A row of
    `Multinomial` is one trial.

    Args:
        family: The family, its dimension known.
        natural: θ, in the structure of `family.natural_init`; entries may be infinite
            where a mean is on the boundary.
        count: How many rows.
        generator: NumPy's source of randomness.

    Raises:
        ValueError: If the family is not built in, or directions have one column.
    """
    sampler = _SAMPLERS.get(type(family))
    if sampler is None:
        raise ValueError(
            f"`family` must be a built-in one to draw rows from; got {family!r}, for "
            "which there is no sampler. Draw from the means of the clusters yourself."
        )
    arrays = tuple(np.asarray(leaf, float) for leaf in _leaves(natural))
    with np.errstate(all="ignore"):
        return sampler(family, arrays, count, generator)


def normal_rows(
    mean: np.ndarray, covariance: np.ndarray, count: int, generator: Generator
) -> np.ndarray:
    """Draw rows of a Gaussian, `[count, d]`.

    Args:
        mean: `[d]`.
        covariance: `[d, d]`, or variances `[d]`, or one variance.
        count: How many rows.
        generator: NumPy's source of randomness.
    """
    noise = generator.standard_normal((count, len(mean)))
    if np.ndim(covariance) < 2:
        return mean[None] + np.sqrt(covariance) * noise
    values, vectors = np.linalg.eigh(covariance)
    return mean[None] + (noise * np.sqrt(np.maximum(values, 0))[None]) @ vectors.T


def _leaves(natural: PyTree) -> tuple[Any, ...]:
    return natural if isinstance(natural, tuple) else (natural,)


def _gaussian(family: Any, natural: Any, count: int, draw: Generator) -> np.ndarray:
    theta, half = natural
    covariance = np.linalg.inv(-(half + half.T))
    return normal_rows(covariance @ theta, covariance, count, draw)


def _free_variance(
    family: Any, natural: Any, count: int, draw: Generator
) -> np.ndarray:
    theta, half = natural
    variance = -0.5 / half
    return normal_rows(variance * theta, variance, count, draw)


def _spherical(family: Any, natural: Any, count: int, draw: Generator) -> np.ndarray:
    variance = np.asarray(family.variance, float)
    return normal_rows(variance * natural[0], variance, count, draw)


def _poisson(family: Any, natural: Any, count: int, draw: Generator) -> np.ndarray:
    rate = np.exp(natural[0])
    return draw.poisson(rate, (count, len(rate))).astype(float)


def _bernoulli(family: Any, natural: Any, count: int, draw: Generator) -> np.ndarray:
    share = 1 / (1 + np.exp(-natural[0]))
    return (draw.random((count, len(share))) < share[None]).astype(float)


def _negative_binomial(
    family: Any, natural: Any, count: int, draw: Generator
) -> np.ndarray:
    dispersion = np.asarray(getattr(family, "dispersion", 1.0), float)
    share = -np.expm1(natural[0])
    size = (count, len(share))
    return draw.negative_binomial(dispersion, share, size).astype(float)


def _exponential(family: Any, natural: Any, count: int, draw: Generator) -> np.ndarray:
    scale = -1 / natural[0]
    return draw.exponential(scale, (count, len(scale)))


def _laplace(family: Any, natural: Any, count: int, draw: Generator) -> np.ndarray:
    location = np.asarray(family.location, float)
    return draw.laplace(location, -1 / natural[0], (count, len(natural[0])))


def _gamma(family: Any, natural: Any, count: int, draw: Generator) -> np.ndarray:
    first, second = natural
    return draw.gamma(first + 1, -1 / second, (count, len(first)))


def _inverse_gaussian(
    family: Any, natural: Any, count: int, draw: Generator
) -> np.ndarray:
    first, second = natural
    return draw.wald(np.sqrt(second / first), -2 * second, (count, len(first)))


def _beta(family: Any, natural: Any, count: int, draw: Generator) -> np.ndarray:
    first, second = natural
    return draw.beta(first, second, (count, len(first)))


def _dirichlet(family: Any, natural: Any, count: int, draw: Generator) -> np.ndarray:
    return draw.dirichlet(natural[0], count)


def _multinomial(family: Any, natural: Any, count: int, draw: Generator) -> np.ndarray:
    return draw.multinomial(1, _shares(natural[0]), count).astype(float)


def _categorical(family: Any, natural: Any, count: int, draw: Generator) -> np.ndarray:
    starts = np.cumsum(family.sizes)[:-1]
    columns = [_shares(block) for block in np.split(natural[0], starts)]
    codes = [draw.choice(len(share), count, p=share) for share in columns]
    return np.stack(codes, axis=1).astype(float)


def _ising(family: Any, natural: Any, count: int, draw: Generator) -> np.ndarray:
    nodes, edges = natural
    states = np.array(list(itertools.product((0, 1), repeat=family.known_dim)))
    i, j = family.graph.T
    scores = nodes[np.arange(family.known_dim), states].sum(axis=1)
    scores += edges[np.arange(len(i)), states[:, i], states[:, j]].sum(axis=1)
    return states[draw.choice(len(states), count, p=_shares(scores))].astype(float)


def _von_mises_fisher(
    family: Any, natural: Any, count: int, draw: Generator
) -> np.ndarray:
    """Draw the cosine with the mean direction by rejection, then a direction around it.

    References:
        Wood (1994), Simulation of the von Mises-Fisher distribution.
    """
    theta = natural[0]
    if len(theta) < 2:
        raise ValueError(
            "`family` must have 2 columns at least to draw directions; got "
            f"{len(theta)}. Take Bernoulli for signs."
        )
    if np.isinf(theta).any():  # all rows alike
        theta = np.where(np.isinf(theta), np.sign(theta), 0)
        return np.tile(theta / np.linalg.norm(theta), (count, 1))
    n, concentration = len(theta), float(np.linalg.norm(theta))
    axis = theta / concentration if concentration else np.eye(n)[0]
    cosine = _cosines(n, concentration, count, draw)[:, None]
    around = draw.standard_normal((count, n))
    around -= (around @ axis)[:, None] * axis[None]
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    return cosine * axis[None] + np.sqrt(np.maximum(1 - cosine**2, 0)) * around


def _cosines(n: int, concentration: float, count: int, draw: Generator) -> np.ndarray:
    """Cosines with the mean direction, of density (1 − w²)^((n − 3)/2) e^{κ w}."""
    d = n - 1
    b = d / (2 * concentration + np.hypot(2 * concentration, d))
    middle = (1 - b) / (1 + b)
    # log(1 − middle²), without cancellation where b is small.
    offset = concentration * middle + d * (np.log(4 * b) - 2 * np.log1p(b))
    found = np.empty(0)
    while len(found) < count:
        z = draw.beta(d / 2, d / 2, 2 * count)
        w = (1 - (1 + b) * z) / (1 - (1 - b) * z)
        level = concentration * w + d * np.log1p(-middle * w) - offset
        found = np.append(found, w[level >= np.log(draw.random(2 * count))])
    return found[:count]


def _shares(logs: np.ndarray) -> np.ndarray:
    """Probabilities in proportion to exponentials."""
    terms = np.exp(logs - np.max(logs))
    return terms / np.sum(terms)


_SAMPLERS: dict[type, Callable[[Any, Any, int, Generator], np.ndarray]] = {
    Gaussian: _gaussian,
    DiagonalGaussian: _free_variance,
    IsotropicGaussian: _free_variance,
    SphericalGaussian: _spherical,
    Poisson: _poisson,
    Bernoulli: _bernoulli,
    NegativeBinomial: _negative_binomial,
    Geometric: _negative_binomial,
    Exponential: _exponential,
    Laplace: _laplace,
    Gamma: _gamma,
    InverseGaussian: _inverse_gaussian,
    Beta: _beta,
    Dirichlet: _dirichlet,
    Multinomial: _multinomial,
    Categorical: _categorical,
    Ising: _ising,
    VonMisesFisher: _von_mises_fisher,
}

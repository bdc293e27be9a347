"""Log-partition functions as users write them, with closed forms to hold them against.

All are guarded where their domain ends: inf outside.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, logsumexp
from scipy.special import digamma


def identity(x):
    """The statistics are the row."""
    return x


def truncated_poisson(theta):
    """Counts from 1 on: stable, where log(expm1(e^θ)) would overflow."""
    rate = jnp.exp(theta)
    return jnp.sum(rate + jnp.log(-jnp.expm1(-rate)))


def diagonal_gaussian(theta):
    """T = (x, x²) of d columns: all θ₁ first, then all θ₂."""
    linear, square = jnp.split(theta, 2)
    inside = square < 0
    square = jnp.where(inside, square, -1)
    terms = -(linear**2) / (4 * square) - jnp.log(-2 * square) / 2
    return jnp.sum(jnp.where(inside, terms, jnp.inf))


def negative_binomial(theta, dispersion=2.0):
    """Failures before r successes: −r log(1 − e^θ), θ = log(1 − p) < 0, summed."""
    inside = theta < 0
    safe = jnp.where(inside, theta, -1)
    value = -dispersion * jnp.log(-jnp.expm1(safe))
    return jnp.sum(jnp.where(inside, value, jnp.inf))


def von_mises_fisher(theta):
    """Unit vectors in three dimensions, under the area of the sphere over 4π."""
    square = jnp.sum(theta**2)
    small = square < 1e-8
    kappa = jnp.sqrt(jnp.where(small, 1, square))
    far = kappa + jnp.log(-jnp.expm1(-2 * kappa)) - jnp.log(2 * kappa)
    return jnp.where(small, square / 6, far)


def full_gaussian(theta):
    """T = (x, x xᵀ) of two columns, all entries: overcomplete."""
    linear, matrix = theta[:2], theta[2:].reshape(2, 2)
    precision = -(matrix + matrix.T)
    det = precision[0, 0] * precision[1, 1] - precision[0, 1] ** 2
    inside = (det > 0) & (precision[0, 0] > 0)
    precision = jnp.where(inside, precision, jnp.eye(2))
    det = jnp.where(inside, det, 1)
    swapped = precision[::-1, ::-1] * jnp.array([[1, -1], [-1, 1]])
    square = linear @ swapped @ linear / det
    return jnp.where(inside, square / 2 - jnp.log(det) / 2, jnp.inf)


def categories(theta):
    """Three columns of three levels, the last of each left out."""
    blocks = theta.reshape(3, 2)
    rest = jnp.zeros((3, 1), theta.dtype)
    return jnp.sum(logsumexp(jnp.concatenate([blocks, rest], axis=1), axis=1))


def gamma(theta):
    """T = (log x, x) of d columns: all shapes first, then all minus rates."""
    shape, rate = jnp.split(theta, 2)
    shape, rate = shape + 1, -rate
    inside = (shape > 0) & (rate > 0)
    shape, rate = jnp.where(inside, shape, 1), jnp.where(inside, rate, 1)
    return jnp.sum(jnp.where(inside, gammaln(shape) - shape * jnp.log(rate), jnp.inf))


def softmax(theta):
    """One category of four, all probabilities: overcomplete."""
    return logsumexp(theta)


@dataclass(frozen=True)
class Potential:
    """ψ, where to start, and what is known.

    Attributes:
        psi: ψ(θ).
        start: A θ inside.
        means: Random means `[k, n]` inside the mean domain.
        conjugate: ψ* of a mean by NumPy; None where only ∇ψ(θ) = μ is checked.
        hopeless: Means outside of the closure, or with ψ* = +∞, `[k, n]`.
        groups: How many groups of coordinates the Hessian has.
    """

    psi: Callable[[Any], Any]
    start: np.ndarray
    means: Callable[[np.random.Generator, int], np.ndarray]
    conjugate: Callable[[np.ndarray], float] | None
    hopeless: np.ndarray
    groups: int


def _moments(rng, count):
    x = rng.normal(size=(count, 2)) * [1, 10]
    variance = rng.uniform(0.01, 2, (count, 2)) * [1, 100]
    return np.concatenate([x, x**2 + variance], axis=1)


def _gaussian_conjugate(mean):
    return -1 - np.sum(np.log(mean[2:] - mean[:2] ** 2)) / 2


def _second_moments(rng, count):
    x = rng.normal(size=(count, 5, 2))
    mean = x.mean(axis=1)
    square = np.einsum("kia,kib->kab", x, x) / 5
    return np.concatenate([mean, square.reshape(count, 4)], axis=1)


def _full_conjugate(mean):
    covariance = mean[2:].reshape(2, 2) - np.outer(mean[:2], mean[:2])
    return -1 - np.linalg.slogdet(covariance)[1] / 2


def _counts(rng, count):
    return rng.uniform(1e-3, 40, (count, 3))


def _counts_conjugate(mean):
    return np.sum(mean * np.log(mean) - (mean + 2) * np.log(mean + 2) + 2 * np.log(2))


def _shares(rng, count):
    return rng.dirichlet(np.full(4, 0.4), count)


def _share_conjugate(mean):
    return np.sum(np.where(mean > 0, mean * np.log(np.where(mean > 0, mean, 1)), 0))


def _levels(rng, count):
    return rng.dirichlet(np.ones(3), (count, 3))[:, :, :2].reshape(count, 6)


def _levels_conjugate(mean):
    blocks = mean.reshape(3, 2)
    rest = 1 - blocks.sum(axis=1, keepdims=True)
    return _share_conjugate(np.concatenate([blocks, rest], axis=1))


def _gamma_means(rng, count):
    shape, rate = rng.uniform(0.3, 60, (count, 2)), rng.uniform(0.1, 10, (count, 2))
    return np.concatenate([digamma(shape) - np.log(rate), shape / rate], axis=1)


def _ball(rng, count):
    x = rng.normal(size=(count, 3))
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return x / length * rng.uniform(0.01, 0.99, (count, 1))


POTENTIALS = {
    "diagonal_gaussian": Potential(
        diagonal_gaussian,
        np.array([0, 0, -0.5, -0.5]),
        _moments,
        _gaussian_conjugate,
        np.array([[1.0, 2, 1, 5], [1, 2, 0.5, 5], [0, 0, 0, 1]]),
        2,
    ),
    "negative_binomial": Potential(
        negative_binomial,
        -np.ones(3),
        _counts,
        _counts_conjugate,
        np.array([[-1.0, 2, 3], [4, -1e-3, 2]]),
        3,
    ),
    "von_mises_fisher": Potential(
        von_mises_fisher,
        np.array([0.1, 0.1, 0.1]),
        _ball,
        None,
        np.array([[1.0, 0, 0], [0.8, 0.6, 0], [0, 0, 1.5]]),
        1,
    ),
    "full_gaussian": Potential(
        full_gaussian,
        np.array([0, 0, -0.5, 0, 0, -0.5]),
        _second_moments,
        _full_conjugate,
        np.array([[1.0, 2, 1, 2, 2, 4], [0, 0, 1, 2, 2, 1], [0, 0, 1, 0.2, 0.1, 1]]),
        1,
    ),
    "categories": Potential(
        categories,
        np.zeros(6),
        _levels,
        _levels_conjugate,
        np.array([[0.5, 0.6, 0.2, 0.2, 0.1, 0.1], [-0.1, 0.5, 0.2, 0.2, 0.1, 0.1]]),
        3,
    ),
    "gamma": Potential(
        gamma,
        np.array([0.0, 0, -1, -1]),
        _gamma_means,
        None,
        np.array([[0.0, 0, 1, 2], [1, 0, 1, 2], [0, 0, -1, 2]]),
        2,
    ),
    "softmax": Potential(
        softmax,
        np.zeros(4),
        _shares,
        _share_conjugate,
        np.array([[0.5, 0.5, 0.5, 0.5], [-0.1, 0.4, 0.4, 0.3]]),
        1,
    ),
}

"""Registry of exponential families for the conformance tests: one entry, all tests.

Every entry brings an independent twin: SciPy's density or mass function, and a rule of
integration (or the enumeration) of its sample space, from which means, normalisation
and Kullback–Leibler divergences follow without any of the library's code.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import own_potentials
import scipy.stats
from jax.scipy.special import logsumexp
from numpy import ndarray
from own_potentials import identity
from scipy import special

from bregjax.clusters import Moments
from bregjax.clusters._moments import CenteredStatistics
from bregjax.families import (
    Bernoulli,
    Beta,
    Categorical,
    DiagonalGaussian,
    Dirichlet,
    Exponential,
    ExponentialFamily,
    Gamma,
    Gaussian,
    Geometric,
    InverseGaussian,
    Ising,
    IsotropicGaussian,
    Laplace,
    Multinomial,
    NegativeBinomial,
    Poisson,
    SphericalGaussian,
    VonMisesFisher,
)

Generator = np.random.Generator
stats: Any = scipy.stats  # its stubs do not know frozen distributions


@dataclass(frozen=True)
class FamilyCase:
    """A family and what is known of it.

    Attributes:
        make: Constructor, its dimension included.
        data: Random rows `[count, d]` in the support.
        natural: One random natural parameter, a pytree of float64 arrays.
        log_prob: log p of points `[q, d]` under one natural parameter, by SciPy.
        grid: Points `[q, d]` and weights `[q]` that integrate over the sample space,
            for one natural parameter.
        edge: Whether ψ* is "finite" or "infinite" on the boundary of the mean domain,
            or None where there is no boundary.
        overcomplete: Whether many natural parameters give one distribution.
        plain: ψ alone as a family without closed forms; None where `make` is that.
    """

    make: Callable[[], Any]
    data: Callable[[Generator, int], Any]
    natural: Callable[[Generator], Any]
    log_prob: Callable[[Any, Any], Any]
    grid: Callable[[Any], tuple[ndarray, ndarray]]
    edge: str | None = None
    overcomplete: bool = False
    plain: Callable[[], Any] | None = None


# --- Sample spaces -------------------------------------------------------------------


def _product(points, weights):
    """Grid over two coordinates from rules for each."""
    grid = np.stack(np.meshgrid(*points, indexing="ij"), -1).reshape(-1, len(points))
    return grid, np.prod(
        np.stack(np.meshgrid(*weights, indexing="ij"), -1), -1
    ).reshape(-1)


def _line(center, scale, count=161):
    """Trapezoidal rule on ±10 scales: exact to rounding for Gaussians."""
    t = np.linspace(-10, 10, count)
    return center + scale * t, np.full(count, scale * (t[1] - t[0]))


def _half_line(shape, rate):
    """Trapezoidal rule in log x."""
    low = np.log(1e-17) / shape if shape < 1 else -40 / shape - 4
    t = np.linspace(low - np.log(rate), np.log((60 + 4 * shape) / rate), 1201)
    return np.exp(t), np.exp(t) * (t[1] - t[0])


def _wald_line(natural):
    """Trapezoidal rule in log x, up to where the density is e^−60 of its peak."""
    mean, shape = _wald(natural)
    reach = 60 / shape + 1 / mean
    t = np.linspace(-np.log(2 * reach), np.log(2 * mean**2 * reach), 1201)
    return np.exp(t)[:, None], np.exp(t) * (t[1] - t[0])


def _wald(natural):
    """Mean and shape of an inverse Gaussian column."""
    first, second = natural[0][0], natural[1][0]
    return np.sqrt(second / first), -2 * second


def _wald_log_prob(x, natural):
    mean, shape = _wald(natural)
    return stats.invgauss(mean / shape, scale=shape).logpdf(x).sum(-1)


def _counts(limit, first=0):
    points = np.arange(first, limit, dtype=float)
    return points, np.ones_like(points)


def _gaussian_grid(mean, covariance):
    root = np.linalg.cholesky(covariance)
    points, weights = _product(*zip(_line(0, 1), _line(0, 1), strict=True))
    return mean + points @ root.T, weights * np.linalg.det(root)


def _category_rows(rng, count):
    """Codes of columns of 2 and 3 levels, all of them among any three rows that follow.

    So that the densities of clusters are those of points inside the mean domain.
    """
    turn = np.arange(count)
    return np.stack([turn % 2, (turn + rng.integers(0, 3)) % 3], axis=1).astype(float)


def _category_log_prob(x, theta):
    parts = (theta[:2], 0), (theta[2:], 1)
    return sum(
        special.log_softmax(block)[x[:, column].astype(int)] for block, column in parts
    )


def _both_sides(location, rate):
    points, weights = _half_line(1.0, rate)
    both = np.concatenate([location - points, location + points])
    return both[:, None], np.concatenate([weights, weights])


def _unit_interval(natural):
    """Trapezoidal rule in the logit, up to where (1 − x)^b is rounding.

    b > 8 keeps 1 − x from being lost in float32.
    """
    a, b = natural[0][0], natural[1][0]
    t = np.linspace(-40 / a, 40 / b, 1201)
    x = special.expit(t)
    return x[:, None], x * special.expit(-t) * (t[1] - t[0])


def _triangle(natural):
    """Trapezoidal rule in log x_1/x_3 and log x_2/x_3."""
    reach = 40 / np.min(natural)
    t = np.linspace(-reach, reach, 121)
    logits, weights = _product([t, t], [np.full(121, t[1] - t[0])] * 2)
    x = special.softmax(np.pad(logits, ((0, 0), (0, 1))), axis=1)
    return x, weights * np.prod(x, axis=1)


def _directions(rng, count):
    x = rng.normal(size=(count, 3)) + [1, 0, 0]
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _sphere_grid(natural):
    """Gauss and Legendre along the axis, equal steps around it."""
    del natural
    height, weight = np.polynomial.legendre.leggauss(40)
    angle = np.arange(80) * (2 * np.pi / 80)
    height, angle = (a.ravel() for a in np.meshgrid(height, angle, indexing="ij"))
    radius = np.sqrt(1 - height**2)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)
    return points, np.repeat(weight, 80) * (2 * np.pi / 80)


def _direction_log_prob(x, natural):
    kappa = np.linalg.norm(natural)
    return stats.vonmises_fisher(natural / kappa, kappa).logpdf(
        x / np.linalg.norm(x, axis=-1, keepdims=True)
    )


STATES = np.array(list(itertools.product((0, 1), repeat=3)), float)
ONE_HOT = np.eye(3)


# --- Gaussians -----------------------------------------------------------------------


def _moments(natural):
    """Mean and covariance matrix from (θ₁, θ₂) in any of the three forms."""
    theta, half = natural
    half = np.asarray(half)
    precision = -2 * (half if half.ndim == 2 else half * np.eye(2))
    covariance = np.linalg.inv(precision)
    return covariance @ theta, covariance


def _gaussian_log_prob(x, natural):
    mean, covariance = _moments(natural)
    return stats.multivariate_normal(mean, covariance).logpdf(x)


def _gaussian_natural(rng):
    root = 0.4 * rng.normal(size=(2, 2)) + np.eye(2)
    precision = root @ root.T
    return precision @ rng.normal(size=2), -precision / 2


def _free_gaussian(make, natural):
    return FamilyCase(
        make=make,
        data=lambda rng, count: rng.normal(size=(count, 2)),
        natural=natural,
        log_prob=_gaussian_log_prob,
        grid=lambda natural: _gaussian_grid(*_moments(natural)),
        edge="infinite",
        overcomplete=make is _full_gaussian,
        plain=lambda: plain(make()),
    )


def _full_gaussian():
    return Gaussian(dim=2)


# --- Families of one's own -----------------------------------------------------------


def _log_factorial(x):
    return -jnp.sum(jax.scipy.special.gammaln(x + 1))


def _negative_binomial_base(x):
    r = 2.5
    terms = jax.scipy.special.gammaln(x + r) - jax.scipy.special.gammaln(x + 1)
    return jnp.sum(terms - jax.scipy.special.gammaln(r))


def truncated_poisson(*, separable):
    return ExponentialFamily(
        own_potentials.truncated_poisson,
        identity,
        np.zeros(2),
        _log_factorial,
        separable=separable,
    )


def negative_binomial():
    return ExponentialFamily(
        own_potentials.negative_binomial,
        identity,
        np.full(2, -1.0),
        _negative_binomial_base,
        params=np.float64(2.5),
        separable=True,
    )


def categorical():
    return ExponentialFamily(logsumexp, identity, np.zeros(3))


def _psi_of(natural, family):
    return family.log_partition(natural)


def plain(family):
    """The same ψ, T and start without any closed form."""
    return ExponentialFamily(
        _psi_of,
        family.sufficient_statistics,
        jax.tree.map(np.asarray, family.natural_init),
        family.log_base_measure,
        params=family,
        separable=family.separable,
    )


def _truncated_log_prob(x, theta):
    rate = np.exp(theta)
    return np.sum(stats.poisson.logpmf(x, rate) - np.log(-np.expm1(-rate)), -1)


def _ising_log_prob(x, natural: Any):
    score: Any = lambda row: (
        sum(natural[0][i, int(row[i])] for i in range(3))
        + sum(
            natural[1][e, int(row[i]), int(row[j])]
            for e, (i, j) in enumerate(itertools.combinations(range(3), 2))
        )
    )
    total = special.logsumexp([score(row) for row in STATES])
    return np.array([score(row) - total for row in x])


def _count_case(make, psi_edge, first=0, **options):
    return FamilyCase(
        make=make,
        data=lambda rng, count: first + rng.poisson(3.0, (count, 2)).astype(float),
        grid=lambda natural: _product(*zip(*[_counts(140, first)] * 2, strict=True)),
        edge=psi_edge,
        **options,
    )


def _standard(rng):
    return rng.normal(size=2)


FAMILIES: dict[str, FamilyCase] = {
    "gaussian": _free_gaussian(_full_gaussian, _gaussian_natural),
    "diagonal_gaussian": _free_gaussian(
        lambda: DiagonalGaussian(dim=2),
        lambda rng: (rng.normal(size=2), -np.exp(rng.normal(size=2))),
    ),
    "isotropic_gaussian": _free_gaussian(
        lambda: IsotropicGaussian(dim=2),
        lambda rng: (rng.normal(size=2), -np.exp(rng.normal(size=()))),
    ),
    "spherical_gaussian": FamilyCase(
        make=lambda: SphericalGaussian(variance=0.7, dim=2),
        data=lambda rng, count: rng.normal(size=(count, 2)),
        natural=_standard,
        log_prob=lambda x, theta: stats.norm(0.7 * theta, 0.7**0.5).logpdf(x).sum(-1),
        grid=lambda theta: _gaussian_grid(0.7 * theta, 0.7 * np.eye(2)),
        plain=lambda: plain(SphericalGaussian(variance=0.7, dim=2)),
    ),
    "multinomial": FamilyCase(
        make=lambda: Multinomial(dim=3),
        data=lambda rng, count: rng.dirichlet(np.ones(3), count),
        natural=lambda rng: rng.normal(size=3),
        log_prob=lambda x, theta: stats.multinomial(1, special.softmax(theta)).logpmf(
            x
        ),
        grid=lambda theta: (ONE_HOT, np.ones(3)),
        edge="finite",
        overcomplete=True,
        plain=lambda: plain(Multinomial(dim=3)),
    ),
    "categories": FamilyCase(
        make=lambda: Categorical(levels=(("a", "b"), (0, 1, 2))),
        data=_category_rows,
        natural=lambda rng: rng.normal(size=5),
        log_prob=_category_log_prob,
        grid=lambda theta: (
            np.array(list(itertools.product(range(2), range(3))), float),
            np.ones(6),
        ),
        edge="finite",
        overcomplete=True,
        plain=lambda: plain(Categorical(levels=(("a", "b"), (0, 1, 2)))),
    ),
    "bernoulli": FamilyCase(
        make=lambda: Bernoulli(dim=3),
        data=lambda rng, count: rng.uniform(0.02, 0.98, (count, 3)),
        natural=lambda rng: rng.normal(size=3),
        log_prob=lambda x, theta: (
            stats.bernoulli(special.expit(theta)).logpmf(x).sum(-1)
        ),
        grid=lambda theta: (STATES, np.ones(8)),
        edge="finite",
        plain=lambda: plain(Bernoulli(dim=3)),
    ),
    "poisson": _count_case(
        lambda: Poisson(dim=2),
        "finite",
        natural=_standard,
        log_prob=lambda x, theta: stats.poisson(np.exp(theta)).logpmf(x).sum(-1),
        plain=lambda: plain(Poisson(dim=2)),
    ),
    # The names without more are those of the same ψ as a family of one's own.
    "nbinom": _count_case(
        lambda: NegativeBinomial(np.array([2.5, 0.8]), dim=2),
        "finite",
        natural=lambda rng: -np.exp(rng.uniform(-0.7, 0.5, size=2)),
        log_prob=lambda x, theta: (
            stats.nbinom(np.array([2.5, 0.8]), -np.expm1(theta)).logpmf(x).sum(-1)
        ),
        plain=lambda: plain(NegativeBinomial(np.array([2.5, 0.8]), dim=2)),
    ),
    "geometric": _count_case(
        lambda: Geometric(dim=2),
        "finite",
        natural=lambda rng: -np.exp(rng.uniform(-0.7, 0.5, size=2)),
        log_prob=lambda x, theta: (
            stats.geom(-np.expm1(theta), loc=-1).logpmf(x).sum(-1)
        ),
        plain=lambda: plain(Geometric(dim=2)),
    ),
    "exponential": FamilyCase(
        make=lambda: Exponential(dim=2),
        data=lambda rng, count: rng.exponential(2.0, (count, 2)),
        natural=lambda rng: -np.exp(rng.normal(size=2)),
        log_prob=lambda x, theta: stats.expon(scale=-1 / theta).logpdf(x).sum(-1),
        grid=lambda theta: _product(
            *zip(*(_half_line(1.0, -rate) for rate in theta), strict=True)
        ),
        edge="infinite",
        plain=lambda: plain(Exponential(dim=2)),
    ),
    "laplace": FamilyCase(
        make=lambda: Laplace(np.array([0.3]), dim=1),
        data=lambda rng, count: rng.laplace(scale=2.0, size=(count, 1)),
        natural=lambda rng: -np.exp(rng.normal(size=1)),
        log_prob=lambda x, theta: stats.laplace(0.3, -1 / theta).logpdf(x).sum(-1),
        grid=lambda theta: _both_sides(0.3, -theta[0]),
        edge="infinite",
        plain=lambda: plain(Laplace(np.array([0.3]), dim=1)),
    ),
    "gamma": FamilyCase(
        make=lambda: Gamma(dim=1),
        data=lambda rng, count: rng.gamma(2.0, 1.5, (count, 1)),
        natural=lambda rng: (
            np.exp(rng.normal(size=1)) - 0.7,
            -np.exp(rng.normal(size=1)),
        ),
        log_prob=lambda x, natural: (
            stats.gamma(natural[0] + 1, scale=-1 / natural[1]).logpdf(x).sum(-1)
        ),
        grid=lambda natural: _product(
            *zip(_half_line(natural[0][0] + 1, -natural[1][0]), strict=True)
        ),
        edge="infinite",
        plain=lambda: plain(Gamma(dim=1)),
    ),
    "von_mises_fisher": FamilyCase(
        make=lambda: VonMisesFisher(dim=3),
        data=_directions,
        natural=lambda rng: 3 * rng.normal(size=3),
        log_prob=_direction_log_prob,
        grid=_sphere_grid,
        edge="infinite",
        plain=lambda: plain(VonMisesFisher(dim=3)),
    ),
    "inverse_gaussian": FamilyCase(
        make=lambda: InverseGaussian(dim=1),
        data=lambda rng, count: rng.wald(1.5, 2.0, (count, 1)),
        natural=lambda rng: tuple(-np.exp(rng.normal(size=(2, 1)))),
        log_prob=_wald_log_prob,
        grid=_wald_line,
        edge="infinite",
        plain=lambda: plain(InverseGaussian(dim=1)),
    ),
    "beta": FamilyCase(
        make=lambda: Beta(dim=1),
        data=lambda rng, count: rng.beta(2.0, 5.0, (count, 1)),
        natural=lambda rng: (
            1.5 + np.exp(rng.normal(size=1)),
            8 + np.exp(rng.normal(size=1)),
        ),
        log_prob=lambda x, natural: stats.beta(*natural).logpdf(x).sum(-1),
        grid=_unit_interval,
        edge="infinite",
    ),
    "dirichlet": FamilyCase(
        make=lambda: Dirichlet(dim=3),
        data=lambda rng, count: rng.dirichlet([1.0, 2.0, 4.0], count),
        natural=lambda rng: 1.5 + np.exp(rng.normal(size=3)),
        log_prob=lambda x, natural: stats.dirichlet(natural).logpdf(x.T),
        grid=_triangle,
        edge="infinite",
    ),
    "ising": FamilyCase(
        make=lambda: Ising(dim=3),
        data=lambda rng, count: rng.integers(0, 2, (count, 3)).astype(float),
        natural=lambda rng: (rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 2))),
        log_prob=_ising_log_prob,
        grid=lambda natural: (STATES, np.ones(8)),
        edge="finite",
        overcomplete=True,
    ),
    "truncated_poisson": _count_case(
        lambda: truncated_poisson(separable=True),
        "finite",
        first=1,
        natural=_standard,
        log_prob=_truncated_log_prob,
    ),
    "truncated_poisson_dense": _count_case(
        lambda: truncated_poisson(separable=False),
        "finite",
        first=1,
        natural=_standard,
        log_prob=_truncated_log_prob,
    ),
    "negative_binomial": _count_case(
        negative_binomial,
        "finite",
        natural=lambda rng: -np.exp(rng.uniform(-0.7, 0.5, size=2)),
        log_prob=lambda x, theta: stats.nbinom(2.5, -np.expm1(theta)).logpmf(x).sum(-1),
    ),
    "categorical": FamilyCase(
        make=categorical,
        data=lambda rng, count: rng.dirichlet(np.ones(3), count),
        natural=lambda rng: rng.normal(size=3),
        log_prob=lambda x, theta: stats.multinomial(1, special.softmax(theta)).logpmf(
            x
        ),
        grid=lambda theta: (ONE_HOT, np.ones(3)),
        edge="finite",
        overcomplete=True,
    ),
}


def naturals(case: FamilyCase, rng: Generator, count: int, dtype: Any = np.float64):
    """Random natural parameters, stacked along a leading axis."""
    drawn = [case.natural(rng) for _ in range(count)]
    return jax.tree.map(lambda *leaves: np.stack(leaves).astype(dtype), *drawn)


def one(tree, index):
    """A member of stacked parameters, in float64 NumPy."""
    return jax.tree.map(lambda leaf: np.asarray(leaf[index], np.float64), tree)


def flat(tree, lead=1):
    """Leaves side by side, `[*lead, n]`."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]
    shape = leaves[0].shape[:lead]
    return np.concatenate([leaf.reshape(*shape, -1) for leaf in leaves], axis=-1)


def raw_means(statistics):
    """Mean parameters of leaf statistics, out of centered ones where they are."""
    if not isinstance(statistics, Moments):
        centered = isinstance(statistics, CenteredStatistics)
        return statistics.as_center() if centered else statistics
    mean, covariance = statistics.mean, statistics.covariance
    if statistics.form == "full":
        return mean, covariance + mean[..., :, None] * mean[..., None, :]
    if statistics.form == "diagonal":
        return mean, covariance + mean**2
    return mean, mean.shape[-1] * covariance + (mean**2).sum(-1)


def smoothed_leaves(family, x):
    """Statistics of rows as `agglomerate` smooths them by default."""
    smoothing = family.default_smoothing(x, None)
    statistics = family.leaf_statistics(x)
    if smoothing is None:
        return statistics
    return smoothing(statistics, jnp.ones(len(x)))[0]

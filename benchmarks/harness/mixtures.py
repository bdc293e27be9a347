"""Mixtures with known clusters under each family, as far apart as one asks for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats
from scipy import special

import bregjax as bj

stats: Any = scipy.stats

__all__ = ["KINDS", "Kind", "Mixture", "made"]


@dataclass(frozen=True)
class Kind:
    """A family with clusters drawn at random.

    Attributes:
        family: What `Problem` takes.
        dim: Numbers that place a cluster; s times a normal vector each.
        shape: From a generator to further parameters of one cluster.
        sample: From generator, place, shape and count to rows `[n, d]`.
        log_density: Of rows `[n, d]` under a place and a shape, `[n]`.
        words: What the rows are.
        unit: Whether places have length 1 before they are drawn apart.
        most: How far apart clusters may be drawn.
    """

    family: Any
    dim: int
    sample: Callable[..., np.ndarray]
    log_density: Callable[..., np.ndarray]
    words: str
    shape: Callable[[np.random.Generator], Any] = lambda rng: None
    unit: bool = False
    most: float = 60.0


@dataclass(frozen=True)
class Mixture:
    """Rows, the cluster of each, and the share that the best rule gets wrong."""

    x: Any
    classes: np.ndarray
    error: float


def made(kind, k, seed, error, rows=300):
    """A mixture of k clusters of unequal size whose Bayes error is near `error`.

    Places are those of twenty draws whose nearest pair is the farthest apart; how far
    all lie apart is then found by bisection.
    """
    rng = np.random.default_rng([seed, k, int(1e4 * error)])
    places = max((_places(rng, k, kind) for _ in range(20)), key=_nearest)
    shapes = [kind.shape(rng) for _ in range(k)]
    shares = rng.uniform(1, 3, k)
    shares /= shares.sum()
    low, high = 0.02, kind.most
    for _ in range(16):
        middle = np.sqrt(low * high)
        got = _error(kind, middle * places, shapes, shares, seed)
        low, high = (middle, high) if got > error else (low, middle)
    places = high * places
    counts = np.maximum(np.round(rows * shares).astype(int), 5)
    counts[np.argmax(counts)] += rows - counts.sum()
    x = np.concatenate(
        [
            kind.sample(rng, place, shape, n)
            for place, shape, n in zip(places, shapes, counts, strict=True)
        ]
    )
    classes, order = np.repeat(np.arange(k), counts), rng.permutation(rows)
    return Mixture(x[order], classes[order], _error(kind, places, shapes, shares, 1))


def _places(rng, k, kind):
    places = rng.normal(size=(k, kind.dim))
    if kind.unit:
        places /= np.linalg.norm(places, axis=1, keepdims=True)
    return places


def _nearest(places):
    gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)
    return np.min(gaps + 1e9 * np.eye(len(gaps)))


def _error(kind, places, shapes, shares, seed, count=3000):
    rng = np.random.default_rng([seed, 7])
    counts = rng.multinomial(count, shares)
    x = np.concatenate(
        [
            kind.sample(rng, place, shape, n)
            for place, shape, n in zip(places, shapes, counts, strict=True)
        ]
    )
    scores = [
        np.log(share) + kind.log_density(x, place, shape)
        for place, shape, share in zip(places, shapes, shares, strict=True)
    ]
    truth = np.repeat(np.arange(len(counts)), counts)
    return np.mean(np.argmax(scores, axis=0) != truth)


def _covariance(rng):
    axes = stats.ortho_group(2).rvs(random_state=rng)
    return axes * rng.uniform(0.3, 2.0, 2) @ axes.T


def _frozen(distribution, words, dim, family, shape=lambda rng: None, most=60.0):
    """A kind of independent columns, of a frozen distribution of SciPy."""

    def sample(rng, place, shape, n):
        frozen = distribution(place, shape)
        return frozen.rvs(size=(n, len(place)), random_state=rng).astype(float)

    def log_density(x, place, shape):
        frozen = distribution(place, shape)
        part = frozen.logpmf if hasattr(frozen.dist, "logpmf") else frozen.logpdf
        return part(x).sum(1)

    return Kind(family, dim, sample, log_density, words, shape, most=most)


def _codes(rng, place, n, levels):
    chances = special.softmax(place.reshape(-1, levels), axis=1)
    return np.stack(
        [rng.choice(levels, n, p=chance) for chance in chances], axis=1
    ).astype(float)


def _code_density(x, place, levels):
    logs = special.log_softmax(place.reshape(-1, levels), axis=1)
    return np.sum([logs[j][x[:, j].astype(int)] for j in range(len(logs))], axis=0)


def _parts(place):
    return 60 * special.softmax(place)


def _inside(x):
    """Shares as they are written down: none is 0 or 1."""
    return np.clip(x, 1e-6, 1 - 1e-6)


def _simplex(x):
    x = np.maximum(x, 1e-8)
    return x / x.sum(1, keepdims=True)


_SPREAD = lambda rng: np.exp(rng.normal(0, 0.35, 4))
_MISSING = 0.1


def _mixed(rng, place, shape, n):
    """Three numbers, two counts, two columns of three levels, a tenth missing."""
    numbers = place[:3] + rng.normal(size=(n, 3))
    counts = rng.poisson(np.exp(1.2 + 0.5 * place[3:5]), (n, 2)).astype(float)
    x = np.hstack([numbers, counts, _codes(rng, place[5:], n, 3)])
    lost = rng.random(x.shape) < _MISSING
    lost[lost.all(1), 0] = False
    return np.where(lost, np.nan, x)


def _mixed_density(x, place, shape):
    codes = np.nan_to_num(x[:, 5:])
    logs = special.log_softmax(place[5:].reshape(-1, 3), axis=1)
    columns = np.stack(
        [
            *stats.norm(place[:3]).logpdf(x[:, :3]).T,
            *stats.poisson(np.exp(1.2 + 0.5 * place[3:5])).logpmf(x[:, 3:5]).T,
            *(logs[j][codes[:, j].astype(int)] for j in range(2)),
        ],
        axis=1,
    )
    return np.where(np.isnan(x), 0, columns).sum(1)


KINDS = {
    "gaussian": Kind(
        "gaussian",
        2,
        lambda rng, place, shape, n: rng.multivariate_normal(place, shape, n),
        lambda x, place, shape: stats.multivariate_normal(place, shape).logpdf(x),
        "2 columns, covariances differ",
        _covariance,
    ),
    "diagonal_gaussian": _frozen(
        lambda place, shape: stats.norm(place, shape),
        "4 columns, variances differ",
        4,
        "diagonal_gaussian",
        _SPREAD,
    ),
    "isotropic_gaussian": _frozen(
        lambda place, shape: stats.norm(place, shape[0]),
        "3 columns, one variance a cluster",
        3,
        "isotropic_gaussian",
        _SPREAD,
    ),
    "ward": _frozen(
        lambda place, shape: stats.norm(place, 1),
        "3 columns of variance 1, which is known",
        3,
        "ward",
    ),
    "poisson": _frozen(
        lambda place, shape: stats.poisson(np.exp(1.5 + place)),
        "4 counts",
        4,
        "poisson",
        most=3.0,
    ),
    "negative_binomial": _frozen(
        lambda place, shape: stats.nbinom(5.0, 5 / (5 + np.exp(2 + place))),
        "5 counts of known dispersion",
        5,
        bj.NegativeBinomial(5.0),
        most=3.0,
    ),
    "geometric": _frozen(
        lambda place, shape: stats.geom(1 / (1 + np.exp(1.5 + place)), loc=-1),
        "10 counts",
        10,
        "geometric",
        most=3.0,
    ),
    "bernoulli": _frozen(
        lambda place, shape: stats.bernoulli(special.expit(place)),
        "20 columns of 0 and 1",
        20,
        "bernoulli",
    ),
    "categorical": Kind(
        "categorical",
        40,
        lambda rng, place, shape, n: _codes(rng, place, n, 4),
        lambda x, place, shape: _code_density(x, place, 4),
        "10 columns of 4 levels",
    ),
    "exponential": _frozen(
        lambda place, shape: stats.expon(scale=np.exp(place)),
        "10 waiting times",
        10,
        "exponential",
    ),
    "gamma": _frozen(
        lambda place, shape: stats.gamma(3 * shape, scale=np.exp(place) / (3 * shape)),
        "4 sizes",
        4,
        "gamma",
        _SPREAD,
    ),
    "inverse_gaussian": _frozen(
        lambda place, shape: stats.invgauss(1 / (4 * shape), scale=4 * np.exp(place)),
        "4 sizes",
        4,
        "inverse_gaussian",
        _SPREAD,
    ),
    "beta": Kind(
        "beta",
        4,
        lambda rng, place, shape, n: _inside(
            rng.beta(40 * special.expit(place), 40 * special.expit(-place), (n, 4))
        ),
        lambda x, place, shape: (
            stats.beta(40 * special.expit(place), 40 * special.expit(-place))
            .logpdf(x)
            .sum(1)
        ),
        "4 shares",
        most=4.0,
    ),
    "dirichlet": Kind(
        "dirichlet",
        5,
        lambda rng, place, shape, n: _simplex(rng.dirichlet(_parts(place) + 0.3, n)),
        lambda x, place, shape: stats.dirichlet(_parts(place) + 0.3).logpdf(x.T),
        "5 parts of a whole",
        most=4.0,
    ),
    "von_mises_fisher": Kind(
        "von_mises_fisher",
        4,
        lambda rng, place, shape, n: stats.vonmises_fisher(
            place / np.linalg.norm(place), 5 * np.linalg.norm(place)
        ).rvs(n, random_state=rng),
        lambda x, place, shape: stats.vonmises_fisher(
            place / np.linalg.norm(place), 5 * np.linalg.norm(place)
        ).logpdf(x),
        "directions of 4 columns",
        unit=True,
    ),
    "multinomial": Kind(
        "multinomial",
        12,
        lambda rng, place, shape, n: rng.multinomial(60, special.softmax(place), n),
        lambda x, place, shape: stats.multinomial(60, special.softmax(place)).logpmf(x),
        "60 words of 12",
    ),
    "multinomial, as poisson": Kind(
        "poisson",
        12,
        lambda rng, place, shape, n: rng.multinomial(60, special.softmax(place), n),
        lambda x, place, shape: stats.multinomial(60, special.softmax(place)).logpmf(x),
        "the same",
    ),
    "table": Kind(
        bj.Product(
            {
                **dict.fromkeys(range(3), "diagonal_gaussian"),
                **dict.fromkeys((3, 4), "poisson"),
                **dict.fromkeys((5, 6), "categorical"),
            }
        ),
        11,
        _mixed,
        _mixed_density,
        "3 numbers, 2 counts, 2 columns of 3 levels; a tenth of the cells missing",
    ),
}

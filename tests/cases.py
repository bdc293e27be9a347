"""Registries that the conformance tests run over: one entry, all of the tests."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy import ndarray

from bregjax.convex import (
    Affine,
    BinaryEntropy,
    Burg,
    BurgConjugate,
    ConvexFunction,
    L1Norm,
    LogDeterminantConjugate,
    Logistic,
    LogSumExp,
    Mahalanobis,
    Max,
    MaxNorm,
    NegativeBinomialCumulant,
    NegativeBinomialEntropy,
    NegativeEntropy,
    NegativeLogDeterminant,
    Scaled,
    SeparableSum,
    SimplexEntropy,
    SimplexIndicator,
    SphereCumulant,
    SphereEntropy,
    SquaredNorm,
    Sum,
    SumExp,
    Tilted,
    UnitBallIndicator,
)

Sampler = Callable[[np.random.Generator, int], ndarray]


def _normal(rng: np.random.Generator, count: int) -> ndarray:
    return rng.normal(size=(count, 3))


def _positive(rng: np.random.Generator, count: int) -> ndarray:
    return np.exp(rng.normal(size=(count, 3)))


def _unit_box(rng: np.random.Generator, count: int) -> ndarray:
    return rng.uniform(0.02, 0.98, (count, 3))


def _simplex(rng: np.random.Generator, count: int) -> ndarray:
    return rng.dirichlet(np.ones(3), count)


def _ball(rng: np.random.Generator, count: int) -> ndarray:
    return rng.uniform(-1, 1, (count, 3)) / 3


def _in_ball(rng: np.random.Generator, count: int) -> ndarray:
    x = rng.normal(size=(count, 3))
    return x * (rng.uniform(0.05, 0.97, count) / np.linalg.norm(x, axis=-1))[:, None]


@np.vectorize
def _sphere_entropy(length: float) -> float:
    """Of three dimensions: A(κ) = coth κ − 1/κ."""
    lower, upper, kappa = 1e-9, 1e9, 1.0
    for _ in range(200):
        below = 1 / np.tanh(kappa) - 1 / kappa < length
        lower, upper = (kappa, upper) if below else (lower, kappa)
        kappa = (lower * upper) ** 0.5
    sinh = kappa + np.log(-np.expm1(-2 * kappa)) - np.log(2)
    return length * kappa - sinh + np.log(kappa)


def _definite(rng: np.random.Generator, count: int) -> ndarray:
    root = rng.normal(size=(count, 3, 5))
    return root @ root.swapaxes(-1, -2)


def _negated(sample: Sampler) -> Sampler:
    return lambda rng, count: -sample(rng, count)


def _xlogx(x: ndarray) -> ndarray:
    return x * np.log(np.where(x > 0, x, 1))


def _log_det(x: ndarray) -> ndarray:
    return np.log(np.linalg.eigvalsh(x)).sum(-1)


def _log_sum_exp(x: ndarray) -> ndarray:
    return np.log(np.exp(x).sum(-1))


def _quartic(x, params):
    return params[0] * x**2 + params[1] * x**4


MATRIX = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]])
MAP = np.array([[1.0, 0.5, 0.0], [0.2, 1.0, 0.1], [0.0, 0.3, 0.8]])
SHIFT = np.array([0.5, 0.1, 0.2])
_BAD_MATRICES = np.stack([np.diag([1.0, -1, -1]), np.diag([1.0, 1, 0]), np.eye(3)])
_BAD_MATRICES[2, 0, 1] = 0.5


def _none() -> ndarray:
    return np.zeros((0, 3))


@dataclass(frozen=True, eq=False)
class ConvexCase:
    """A convex function and what is known of it.

    Attributes:
        make: Constructor.
        sample: Random points `[count, *event]` inside the domain.
        value: f of points `[..., *event]` in plain NumPy.
        outside: Points outside the domain `[k, *event]`, if there are any.
        edge: Points on its boundary where f is finite.
        kinks: Points where f is not differentiable.
        start: Where the numerical conjugate begins; None where it has no place.
        strict: Whether f is strictly convex inside.
    """

    make: Callable[[], ConvexFunction]
    sample: Sampler
    value: Callable[[ndarray], ndarray]
    outside: ndarray = field(default_factory=_none)
    edge: ndarray = field(default_factory=_none)
    kinks: ndarray = field(default_factory=_none)
    start: ndarray | None = None
    strict: bool = True


_NEGATIVE = np.array([[-1.0, 1, 1], [1, -1e-6, 1]])
_ZEROS = np.array([[0.0, 1, 2], [0, 0, 0]])
_KINKS = np.array([[0.0, 1, -1], [0, 0, 0], [2, 2, 1], [-2, 2, 2]])
_OFF_SIMPLEX = np.array([[0.5, 0.6, -0.1], [0.5, 0.5, 0.1]])
_VERTICES = np.array([[0.0, 0.5, 0.5], [0, 0, 1]])
_ONES, _HALVES = np.ones(3), np.ones(3) / 2

CONVEX: dict[str, ConvexCase] = {
    "squared_norm": ConvexCase(
        SquaredNorm, _normal, lambda x: (x**2).sum(-1) / 2, start=0 * _ONES
    ),
    "mahalanobis": ConvexCase(
        lambda: Mahalanobis(MATRIX),
        _normal,
        lambda x: np.einsum("...i,ij,...j->...", x, MATRIX, x) / 2,
        start=0 * _ONES,
    ),
    "negative_entropy": ConvexCase(
        NegativeEntropy,
        _positive,
        lambda x: _xlogx(x).sum(-1),
        outside=_NEGATIVE,
        edge=_ZEROS,
        start=_ONES,
    ),
    "exponential": ConvexCase(
        lambda: SumExp(0.3),
        _normal,
        lambda x: np.exp(x + 0.3).sum(-1),
        start=0 * _ONES,
    ),
    "burg": ConvexCase(
        Burg,
        _positive,
        lambda x: -np.log(x).sum(-1),
        outside=np.concatenate([_NEGATIVE, _ZEROS]),
        start=_ONES,
    ),
    "burg_conjugate": ConvexCase(
        BurgConjugate,
        _negated(_positive),
        lambda x: -np.log(-x).sum(-1) - 3,
        outside=-np.concatenate([_NEGATIVE, _ZEROS]),
        start=-_ONES,
    ),
    "log_sum_exp": ConvexCase(
        LogSumExp, _normal, _log_sum_exp, start=0 * _ONES, strict=False
    ),
    "simplex_entropy": ConvexCase(
        SimplexEntropy,
        _simplex,
        lambda x: _xlogx(x).sum(-1),
        outside=_OFF_SIMPLEX,
        edge=_VERTICES,
    ),
    "logistic": ConvexCase(
        Logistic, _normal, lambda x: np.log1p(np.exp(x)).sum(-1), start=0 * _ONES
    ),
    "binary_entropy": ConvexCase(
        BinaryEntropy,
        _unit_box,
        lambda x: (_xlogx(x) + _xlogx(1 - x)).sum(-1),
        outside=np.array([[0.5, 1.1, 0.5], [-0.1, 0.5, 0.5]]),
        edge=np.array([[0.0, 1, 0.5]]),
        start=_HALVES,
    ),
    "negative_binomial_entropy": ConvexCase(
        lambda: NegativeBinomialEntropy(2.5),
        _positive,
        lambda x: (_xlogx(x) - _xlogx(x + 2.5) + _xlogx(np.array(2.5))).sum(-1),
        outside=_NEGATIVE,
        edge=_ZEROS,
        start=_ONES,
    ),
    "negative_binomial_cumulant": ConvexCase(
        lambda: NegativeBinomialCumulant(2.5),
        _negated(_positive),
        lambda x: -2.5 * np.log(-np.expm1(x)).sum(-1),
        outside=-np.concatenate([_NEGATIVE, _ZEROS]),
        start=-_ONES,
    ),
    "sphere_entropy": ConvexCase(
        SphereEntropy,
        _in_ball,
        lambda x: _sphere_entropy(np.linalg.norm(x, axis=-1)),
        outside=np.array([[0.6, 0.0, 0.8], [1.0, 1.0, 1.0]]),
        start=0 * _ONES,
    ),
    "sphere_cumulant": ConvexCase(
        SphereCumulant,
        _normal,
        lambda x: np.log(
            np.sinh(np.linalg.norm(x, axis=-1)) / np.linalg.norm(x, axis=-1)
        ),
        start=0 * _ONES,
    ),
    "log_det": ConvexCase(
        NegativeLogDeterminant,
        _definite,
        lambda x: -_log_det(x),
        outside=_BAD_MATRICES,
    ),
    "log_det_conjugate": ConvexCase(
        LogDeterminantConjugate,
        _negated(_definite),
        lambda x: -_log_det(-x) - 3,
        outside=-_BAD_MATRICES,
    ),
    "l1_norm": ConvexCase(
        L1Norm, _normal, lambda x: abs(x).sum(-1), kinks=_KINKS, strict=False
    ),
    "max_norm": ConvexCase(
        MaxNorm, _normal, lambda x: abs(x).max(-1), kinks=_KINKS, strict=False
    ),
    "max": ConvexCase(Max, _normal, lambda x: x.max(-1), kinks=_KINKS, strict=False),
    "max_ball": ConvexCase(
        lambda: UnitBallIndicator(MaxNorm()),
        _ball,
        lambda x: 0 * x[..., 0],
        outside=np.array([[0.0, 1.01, 0]]),
        edge=np.array([[1.0, -1, 0], [0.3, 1, 0.2]]),
        strict=False,
    ),
    "l1_ball": ConvexCase(
        lambda: UnitBallIndicator(L1Norm()),
        _ball,
        lambda x: 0 * x[..., 0],
        outside=np.array([[0.5, -0.51, 0]]),
        edge=np.array([[0.5, -0.5, 0], [0, 0, 1]]),
        strict=False,
    ),
    "simplex": ConvexCase(
        SimplexIndicator,
        _simplex,
        lambda x: 0 * x[..., 0],
        outside=_OFF_SIMPLEX,
        edge=_VERTICES,
        strict=False,
    ),
    "scaled": ConvexCase(
        lambda: Scaled(NegativeEntropy(), 2.5),
        _positive,
        lambda x: 2.5 * _xlogx(x).sum(-1),
        outside=_NEGATIVE,
        edge=_ZEROS,
        start=_ONES,
    ),
    "affine": ConvexCase(
        lambda: Affine(NegativeEntropy(), MAP, SHIFT),
        _positive,
        lambda x: _xlogx(x @ MAP.T + SHIFT).sum(-1),
        outside=-5 * np.eye(3),
        start=_ONES,
    ),
    "tilted": ConvexCase(
        lambda: Tilted(Burg(), SHIFT, 0.7),
        _positive,
        lambda x: -np.log(x).sum(-1) + x @ SHIFT + 0.7,
        outside=_NEGATIVE,
        start=_ONES,
    ),
    "sum": ConvexCase(
        lambda: Sum((SquaredNorm(), LogSumExp()), start=0.0),
        _normal,
        lambda x: (x**2).sum(-1) / 2 + _log_sum_exp(x),
        start=0 * _ONES,
    ),
    "separable_sum": ConvexCase(
        lambda: SeparableSum(_quartic, 0.0, np.array([0.5, 0.25])),
        _normal,
        lambda x: (x**2 / 2 + x**4 / 4).sum(-1),
        start=0 * _ONES,
    ),
}

"""Families for the NumPy loop: what a cluster adds up, and its potential w ψ*(mean).

A merge costs the potentials of the parts less that of the union. (That cancels for
small costs; it is the least work, and the loop is here for its time.) Additive terms
that are linear in the sums are left out, since they drop out.
"""

from collections.abc import Callable

import numpy as np

# From weights [k] and sums [k, …] to potentials [k].
Potential = Callable[[np.ndarray, np.ndarray], np.ndarray]

_TINY = np.finfo(float).tiny
_NEWTON_STEPS = 6


def sums_and_potential(x: np.ndarray, family: str) -> tuple[np.ndarray, Potential]:
    """What clusters of one point hold, `[m, k]`, and the potential."""
    if family == "diagonal_gaussian":
        centered = x - x.mean(axis=0)
        return np.hstack([centered, centered**2]), _diagonal_gaussian(centered)
    if family == "multinomial":
        return x / x.sum(axis=1, keepdims=True), _poisson
    return x.copy(), _PLAIN[family]


def _sum_xlogx(x: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", x, np.log(np.maximum(x, _TINY)))


def _poisson(weight: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Σ s log (s / w); of proportions it is the multinomial's too."""
    return _sum_xlogx(sums) - sums.sum(axis=1) * np.log(weight)


def _bernoulli(weight: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Σ s log (s / w) + (w − s) log ((w − s) / w)."""
    entropies = _sum_xlogx(sums) + _sum_xlogx(weight[:, None] - sums)
    return entropies - sums.shape[1] * weight * np.log(weight)


def _exponential(weight: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """−w Σ log (s / w)."""
    return weight * (sums.shape[1] * np.log(weight) - np.log(sums).sum(axis=1))


def _zero_truncated_poisson(weight: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """w Σ (μ log λ − λ − log (1 − e^−λ)) where λ / (1 − e^−λ) = μ = s / w."""
    mean = sums / weight[:, None]
    # λ − μ (1 − e^−λ) is convex and not negative here: Newton comes down from above.
    rate = np.minimum(mean, 2 * (mean - 1))
    for _ in range(_NEWTON_STEPS):
        decay = mean * np.exp(-rate)
        rate -= (rate - mean + decay) / np.maximum(1 - decay, _TINY)
    inside = rate > 0
    safe = np.where(inside, rate, 1)
    value = mean * np.log(safe) - safe - np.log(-np.expm1(-safe))
    return weight * np.where(inside, value, 0).sum(axis=1)


def _diagonal_gaussian(x: np.ndarray) -> Potential:
    """−(w/2) Σ log (v + h²), h the normal-reference bandwidths, as bregjax has them."""
    m, d = x.shape
    kernel = x.var(axis=0, ddof=1) * (4 / ((d + 2) * m)) ** (2 / (d + 4))

    def potential(weight: np.ndarray, sums: np.ndarray) -> np.ndarray:
        moments = sums / weight[:, None]
        variance = moments[:, d:] - moments[:, :d] ** 2 + kernel
        return -0.5 * weight * np.log(variance).sum(axis=1)

    return potential


_PLAIN: dict[str, Potential] = {
    "poisson": _poisson,
    "bernoulli": _bernoulli,
    "exponential": _exponential,
    "zero_truncated_poisson": _zero_truncated_poisson,
}

"""Agglomeration in plain NumPy, from values of the convex function alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln, polygamma, psi


def xlogx(x):
    x = np.asarray(x, dtype=np.longdouble)
    return np.where(x > 0, x * np.log(np.where(x > 0, x, 1)), 0)


def full_gaussian(t):
    mean, second = t
    return -0.5 * np.linalg.slogdet(second - np.outer(mean, mean))[1]


def gamma_conjugate(t):
    """ψ* of one gamma by a Newton iteration on the shape in double precision."""
    log_mean, mean = float(t[0]), float(t[1])
    gap = np.log(mean) - log_mean
    k = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(20):
        k -= (np.log(k) - psi(k) - gap) / (1 / k - polygamma(1, k))
    return k * np.log(k) - k - gammaln(k) - k * gap - log_mean


# f on mean parameters, a pair (statistic of a row smoothed, f of a mean).
FUNCTIONS: dict[str, Callable] = {
    "ward": lambda t: 0.5 * np.sum(t**2),
    "poisson": lambda t: np.sum(xlogx(t) - t),
    "multinomial": lambda t: np.sum(xlogx(t)),
    "bernoulli": lambda t: np.sum(xlogx(t) + xlogx(1 - t)),
    "exponential": lambda t: -np.sum(np.log(t)),
    "diagonal_gaussian": lambda t: -0.5 * np.sum(np.log(t[1] - t[0] ** 2)),
    "isotropic_gaussian": lambda t: (
        -0.5 * t[0].size * np.log((t[1] - np.sum(t[0] ** 2)) / t[0].size)
    ),
    "gaussian": full_gaussian,
    "gamma": lambda t: sum(gamma_conjugate(pair) for pair in zip(*t, strict=True)),
    "inverse_gaussian": lambda t: -0.5 * np.sum(np.log(t[1] - 1 / t[0])),
}


def statistics(family: str, x: np.ndarray, bandwidth: Any = 0.0) -> list:
    """Raw mean parameters of rows in extended precision, smoothed as by default."""
    x = np.asarray(x, dtype=np.longdouble)
    h2 = np.broadcast_to(np.asarray(bandwidth, dtype=np.longdouble) ** 2, x.shape[1:])
    if family == "multinomial":
        return list(x / x.sum(axis=1, keepdims=True))
    if family == "diagonal_gaussian":
        return [np.stack([row, row**2 + h2]) for row in x]
    if family == "isotropic_gaussian":
        return [_pack(row, np.sum(row**2) + np.sum(h2)) for row in x]
    if family == "gaussian":
        double = x.astype(float)
        return [_pack(r, np.outer(r, r) + np.diag(h2).astype(float)) for r in double]
    if family == "gamma":
        return [np.stack([np.log(row) - h2 / 2, row]) for row in x]
    if family == "inverse_gaussian":
        return [np.stack([row, 1 / row + h2]) for row in x]
    return list(x)


class _Pair(tuple):
    """A pair of arrays that averages like one."""

    def __add__(self, other):
        return _Pair(a + b for a, b in zip(self, other, strict=True))

    def __mul__(self, factor):
        return _Pair(a * factor for a in self)

    __rmul__ = __mul__


def _pack(*arrays):
    return _Pair(arrays)


def greedy(f: Callable, points: list, weights) -> tuple[np.ndarray, np.ndarray]:
    """Children and costs of one-at-a-time greedy, O(m³)."""
    m = len(points)
    alive = {i: (float(weights[i]), points[i]) for i in range(m)}
    values = {i: f(points[i]) for i in alive}
    children, costs = [], []
    for step in range(m - 1):
        best = min(
            (_cost(f, alive[i], alive[j], values[i], values[j]), i, j)
            for i in alive
            for j in alive
            if i < j
        )
        cost, i, j = best
        (w_a, t_a), (w_b, t_b) = alive.pop(i), alive.pop(j)
        union = (w_a + w_b, (w_a * t_a + w_b * t_b) * (1 / (w_a + w_b)))
        alive[m + step], values[m + step] = union, f(union[1])
        children.append((i, j))
        costs.append(float(cost))
    return np.array(children).reshape(-1, 2), np.array(costs)


def _cost(f, a, b, value_a, value_b):
    (w_a, t_a), (w_b, t_b) = a, b
    mean = (w_a * t_a + w_b * t_b) * (1 / (w_a + w_b))
    return w_a * value_a + w_b * value_b - (w_a + w_b) * f(mean)


def excess(f: Callable, points: list, weights, children) -> float:
    """By how much the worst merge of a tree exceeds the least cost of its time."""
    m = len(points)
    alive = {i: (float(weights[i]), points[i]) for i in range(m)}
    values = {i: f(points[i]) for i in alive}
    worst = 0.0
    for step, (i, j) in enumerate(children):
        least = min(
            _cost(f, alive[a], alive[b], values[a], values[b])
            for a in alive
            for b in alive
            if a < b
        )
        cost = _cost(f, alive[i], alive[j], values[i], values[j])
        worst = max(worst, float(cost - least))
        (w_a, t_a), (w_b, t_b) = alive.pop(i), alive.pop(j)
        union = (w_a + w_b, (w_a * t_a + w_b * t_b) * (1 / (w_a + w_b)))
        alive[m + step], values[m + step] = union, f(union[1])
    return worst

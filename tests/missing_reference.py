"""Tables with missing cells in plain NumPy: statistics, f of a cell, greedy merges."""

from collections.abc import Callable
from typing import Any

import numpy as np
from reference import gamma_conjugate, xlogx
from scipy.special import betaln, polygamma, psi

FULL = np.longdouble
DISPERSION = np.array([1.0, 2.0, 5.0])


def beta_conjugate(t):
    """ψ* of one beta distribution at E log x, E log(1 − x), by Newton's method."""
    t = np.asarray(t, float)
    x = np.exp(t) / np.exp(t).sum()
    theta = x / (1 - np.exp(t).sum())
    value = lambda theta: theta @ t - betaln(*theta)
    for _ in range(100):
        total = theta.sum()
        gradient = t - (psi(theta) - psi(total))
        hessian = np.diag(polygamma(1, theta)) - polygamma(1, total)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while np.any(theta + size * step <= 0):
            size /= 2
        theta = theta + size * step
    return value(theta)


def negative_binomial(t, r):
    return xlogx(t) - xlogx(t + r)


# f of the statistics of one cell [p], of column j.
FUNCTIONS: dict[str, Callable] = {
    "poisson": lambda t, j: xlogx(t[0]) - t[0],
    "bernoulli": lambda t, j: xlogx(t[0]) + xlogx(1 - t[0]),
    "categorical": lambda t, j: np.sum(xlogx(t)),
    "diagonal_gaussian": lambda t, j: -0.5 * np.log(t[1] - t[0] ** 2),
    "exponential": lambda t, j: -np.log(t[0]),
    "laplace": lambda t, j: -np.log(t[0]),
    "gamma": lambda t, j: gamma_conjugate(t),
    "inverse_gaussian": lambda t, j: -0.5 * np.log(t[1] - 1 / t[0]),
    "negative_binomial": lambda t, j: negative_binomial(t[0], DISPERSION[j]),
    "geometric": lambda t, j: negative_binomial(t[0], 1),
    "ward": lambda t, j: 0.5 * t[0] ** 2,
    "beta": lambda t, j: beta_conjugate(t),
    "own": lambda t, j: xlogx(t[0]) - t[0],
}


def bandwidths(x, weights):
    """Normal-reference bandwidths of the observed cells of each column."""
    found = []
    for column in x.T:
        seen = ~np.isnan(column)
        w, values = weights[seen], column[seen]
        m = w.sum()
        mean = w @ values / m
        deviation = np.sqrt(w @ (values - mean) ** 2 / (m - 1))
        d = x.shape[1]
        found.append(deviation * (4 / ((d + 2) * m)) ** (1 / (d + 4)))
    return np.array(found)


def statistics(family: str, x, weights, bandwidth: Any = None, added: float = 0.0):
    """Statistics of cells, smoothed as by default, `[m, d, p]`; NaN where missing."""
    with np.errstate(invalid="ignore"):
        if family == "categorical":
            levels = np.arange(int(np.nanmax(x)) + 1)
            parts = [np.where(np.isnan(x), np.nan, x == level) for level in levels]
        elif family == "diagonal_gaussian":
            h = bandwidths(x, weights) if bandwidth is None else bandwidth
            parts = [x, x**2 + h**2]
        elif family == "gamma":
            h = bandwidths(np.log(x), weights)
            parts = [np.log(x) - h**2 / 2, x]
        elif family == "inverse_gaussian":
            h, seen = bandwidths(np.log(x), weights), ~np.isnan(x)
            logs = np.where(seen, np.log(x), 0)
            middle = np.exp(weights @ logs / (weights @ seen))
            parts = [x, 1 / x + h**2 / middle]
        elif family == "laplace":
            parts = [np.abs(x) + np.sqrt(2 / np.pi) * bandwidths(x, weights)]
        elif family == "beta":
            h = bandwidths(np.arcsin(np.sqrt(x)), weights)
            parts = [np.log(x) - 2 * h**2, np.log1p(-x) - 2 * h**2]
        else:
            parts = [x + added]
    return np.stack(parts, axis=-1).astype(FULL)


def weight_of_cells(x, weights):
    return np.where(np.isnan(x), 0, weights[:, None])


class Clusters:
    """Clusters with a weight for each cell, and merges of them.

    Args:
        f: Of the statistics of a cell and the number of its column.
        cells: Statistics, `[m, d, p]`.
        seen: Weights of cells, 0 of those that are missing, `[m, d]`.
        weights: Weights of rows, `[m]`.
        counts: What columns count, `[d]`.
        scaled: Whether costs are per observed weight.
    """

    def __init__(self, f, cells, seen, weights, counts=None, *, scaled=False):
        d = cells.shape[1]
        self.f, self.scaled = f, scaled
        self.counts = np.ones(d) if counts is None else np.asarray(counts)
        self.alive = {
            i: (FULL(weights[i]), seen[i].astype(FULL), np.nan_to_num(cells[i]))
            for i in range(len(cells))
        }
        self.values: dict = {}
        self.average = self._average() if scaled else None

    def _value(self, t, j):
        key = (j, *map(float, t))
        if key not in self.values:
            self.values[key] = self.f(t, j)
        return self.values[key]

    def _average(self):
        """Twice what all cells lose as one cluster, over their weight."""
        lost = weight = FULL(0)
        for j, count in enumerate(self.counts):
            cells = [(w[j], t[j]) for _, w, t in self.alive.values() if w[j] > 0]
            total = sum(w for w, _ in cells)
            mean = sum(w * t for w, t in cells) / total
            own = sum(w * self._value(t, j) for w, t in cells)
            lost += count * (own - total * self._value(mean, j))
            weight += count * total
        return 2 * lost / weight

    def cost_by_column(self, a, b):
        """What a merge loses in each column that both have, times what it counts."""
        (_, w_a, t_a), (_, w_b, t_b) = a, b
        costs = []
        for j, count in enumerate(self.counts):
            if w_a[j] == 0 or w_b[j] == 0 or np.array_equal(t_a[j], t_b[j]):
                costs.append(FULL(0))
                continue
            mean = (w_a[j] * t_a[j] + w_b[j] * t_b[j]) / (w_a[j] + w_b[j])
            apart = w_a[j] * self._value(t_a[j], j) + w_b[j] * self._value(t_b[j], j)
            costs.append(count * (apart - (w_a[j] + w_b[j]) * self._value(mean, j)))
        return np.array(costs)

    def cost(self, a, b):
        """The cost of a merge, and the weight that is not shared, which breaks ties."""
        h = lambda u, v: u * v / np.where(u + v > 0, u + v, 1)
        whole = self.counts.sum() * h(a[0], b[0])
        shared = np.sum(self.counts * h(a[1], b[1]))
        cost = np.sum(self.cost_by_column(a, b))
        if self.scaled:
            cost = cost * whole / shared if shared > 0 else self.average * whole
        return cost, whole - shared

    def union(self, a, b):
        (u, w_a, t_a), (v, w_b, t_b) = a, b
        w = w_a + w_b
        safe = np.where(w > 0, w, 1)
        return u + v, w, t_a + (w_b / safe)[:, None] * (t_b - t_a)

    def merge(self, i, j, new):
        """Merge two clusters, and return the cost."""
        a, b = self.alive.pop(i), self.alive.pop(j)
        self.alive[new] = self.union(a, b)
        return float(self.cost(a, b)[0])


def greedy(f, cells, seen, weights, counts=None, *, scaled=False):
    """Children and costs of one-at-a-time greedy; of ties the pair that shares most."""
    clusters = Clusters(f, cells, seen, weights, counts, scaled=scaled)
    m = len(cells)
    found: dict = {}
    children, costs = [], []
    for new in range(m, 2 * m - 1):
        names = sorted(clusters.alive)
        pairs = [(i, j) for i in names for j in names if i < j]
        for i, j in pairs:
            if (i, j) not in found:
                found[i, j] = clusters.cost(clusters.alive[i], clusters.alive[j])
        best = min(pairs, key=found.__getitem__)
        children.append(best)
        costs.append(clusters.merge(*best, new))
    return np.array(children), np.array(costs)


def costs_along(f, cells, seen, weights, children, counts=None, *, scaled=False):
    """Merge costs of a tree that is given."""
    clusters = Clusters(f, cells, seen, weights, counts, scaled=scaled)
    m = len(cells)
    pairs = np.asarray(children).tolist()
    return np.array([clusters.merge(i, j, m + t) for t, (i, j) in enumerate(pairs)])

"""Conjugates to 40 digits.

A reference takes y *as rounded to the working precision* and returns the conjugate and,
where it is unique and asked for, the maximiser.
"""

import mpmath as mp
import numpy as np

mp.mp.dps = max(mp.mp.dps, 40)  # of whichever module asks for most

EDGES = [(i, (i + 1) % 5) for i in range(5)]
STATES = np.array([[(s >> i) & 1 for i in range(5)] for s in range(32)])


def _mpf(y):
    return [mp.mpf(float(v)) for v in np.ravel(y)]


def poisson_reference(y):
    y = _mpf(y)
    theta = [mp.log(v) if v > 0 else mp.mpf("nan") for v in y]
    return sum(v * mp.log(v) - v if v > 0 else mp.mpf(0) for v in y), theta


def truncated_poisson_reference(y):
    total, thetas = mp.mpf(0), []
    for v in _mpf(y):
        if v == 1:
            thetas.append(mp.mpf("nan"))
            continue

        def gap(t, v=v):
            z = mp.exp(t)
            return mp.log(z / -mp.expm1(-z)) - mp.log(v)

        guess = mp.log(2 * (v - 1)) if v < 1.5 else mp.log(v)
        theta = mp.findroot(gap, guess)
        z = mp.exp(theta)
        total += v * theta - (z + mp.log(-mp.expm1(-z)))
        thetas.append(theta)
    return total, thetas


def categorical_reference(y):
    """Up to rounding y sums to one; its sum is taken off."""
    y = _mpf(y)
    total = sum(y)
    theta = [mp.log(v / total) if v > 0 else mp.mpf("nan") for v in y]
    value = sum(v / total * t for v, t in zip(y, theta, strict=True) if v > 0)
    return value, theta


def gaussian_reference(y):
    mean, second = (np.asarray(part) for part in y)
    d = mean.size
    mu = mp.matrix(_mpf(mean))
    moment = mp.matrix(d, d)
    for i in range(d):
        for j in range(d):
            both = mp.mpf(float(second[i, j])) + mp.mpf(float(second[j, i]))
            moment[i, j] = both / 2
    covariance = moment - mu * mu.T
    value = -mp.log(mp.det(covariance)) / 2 - mp.mpf(d) / 2
    precision = covariance**-1
    theta = list(precision * mu)
    theta += [-precision[i, j] / 2 for i in range(d) for j in range(d)]
    return value, theta


def gamma_reference(y):
    log_mean, mean = _mpf(y)
    target = mp.log(mean) - log_mean  # log k − ψ(k)
    guess = 1 / (2 * target) if target < 1 else 1 / target
    shape = mp.exp(
        mp.findroot(
            lambda u: mp.log(u - mp.digamma(mp.exp(u))) - mp.log(target), mp.log(guess)
        )
    )
    rate = shape / mean
    theta = [shape - 1, -rate]
    value = log_mean * theta[0] + mean * theta[1]
    value -= mp.loggamma(shape) - shape * mp.log(rate)
    return value, theta


def exponential_reference(y):
    y = _mpf(y)
    return sum(-1 - mp.log(v) for v in y), [-1 / v for v in y]


def bernoulli_reference(y):
    y = _mpf(y)
    value = sum(v * mp.log(v) + (1 - v) * mp.log(1 - v) for v in y)
    return value, [mp.log(v / (1 - v)) for v in y]


MINIMAL = np.array(
    [STATES[:, i] for i in range(5)] + [STATES[:, i] * STATES[:, j] for i, j in EDGES]
).T  # [32, 10]


def ising_reference(y):
    """Newton in the minimal form, from the pseudo-solution of a tree."""
    y = np.ravel(np.asarray(y, float))
    means = mp.matrix(
        [y[2 * i + 1] for i in range(5)] + [y[13 + 4 * e] for e in range(5)]
    )
    rows = [[int(v) for v in row] for row in MINIMAL]
    theta = mp.matrix(_guess(y))

    def solve(theta):
        logits = [sum(t for t, v in zip(theta, row, strict=True) if v) for row in rows]
        top = max(logits)
        weights = [mp.exp(v - top) for v in logits]
        total = sum(weights)
        return [w / total for w in weights], top + mp.log(total)

    def objective(theta):
        return solve(theta)[1] - (means.T * theta)[0]

    for _ in range(200):
        p, _log = solve(theta)
        mean = [sum(w for w, r in zip(p, rows, strict=True) if r[k]) for k in range(10)]
        hessian = mp.matrix(10, 10)
        for a in range(10):
            for b in range(a + 1):
                both = sum(w for w, r in zip(p, rows, strict=True) if r[a] and r[b])
                hessian[a, b] = hessian[b, a] = both - mean[a] * mean[b]
        residual = means - mp.matrix(mean)
        step = mp.lu_solve(hessian, residual)
        decrement = (residual.T * step)[0]
        if decrement < mp.mpf(10) ** -50:
            break
        length = 1 / (1 + mp.sqrt(decrement)) if decrement > 0.1 else mp.mpf(1)
        here = objective(theta)
        while objective(theta + length * step) > here:
            length /= 2
        theta = theta + length * step
    return -objective(theta), None


def _guess(y):
    """Parameters of the model with these marginals if the graph were a tree."""
    node = {i: (y[2 * i], y[2 * i + 1]) for i in range(5)}
    theta = [np.log(node[i][1] / node[i][0]) for i in range(5)]
    pairs = []
    for e, (i, j) in enumerate(EDGES):
        q = y[10 + 4 * e : 14 + 4 * e]
        pairs.append(np.log(q[3] * q[0] / (q[1] * q[2])))
        theta[i] += np.log(q[2] * node[i][0] / (q[0] * node[i][1]))
        theta[j] += np.log(q[1] * node[j][0] / (q[0] * node[j][1]))
    return [float(v) for v in theta + pairs]

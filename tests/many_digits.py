"""Costs and conjugates in 60 digits, of numbers taken as they are."""

from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = max(mp.mp.dps, 60)  # of whichever module asks for most


def mp_cost(value, w_a, w_b, a: list[Any], b: list[Any]):
    """w_a f(a) + w_b f(b) − w f(c) in 60 digits."""
    c = [(w_a * u + w_b * v) / (w_a + w_b) for u, v in zip(a, b, strict=True)]
    return w_a * value(a) + w_b * value(b) - (w_a + w_b) * value(c)


def digits(numbers):
    """The numbers in 60 digits, taken as they are."""
    return [mp.mpf(float(v)) for v in np.ravel(numbers)]


def exact_cost(value, weights, a, b):
    """The cost as a float, whatever number of digits other tests work with."""
    w_a, w_b = digits(weights)
    with mp.workdps(60):
        return float(mp_cost(value, w_a, w_b, digits(a), digits(b)))


def mp_entropy(p):
    return sum(v * mp.log(v) - v if v else mp.mpf(0) for v in p)


def mp_burg(p):
    return -sum(mp.log(v) for v in p)


def mp_truncated(p):
    return sum(mp.mpf(0) if mean == 1 else _mp_truncated_count(mean) for mean in p)


def _mp_truncated_count(mean):
    gap = lambda t: mp.exp(t) / -mp.expm1(-mp.exp(t)) - mean
    t = mp.findroot(gap, mp.log(mean) if mean > 3 else mp.log(2 * (mean - 1)))
    return mean * t - mp.exp(t) - mp.log(-mp.expm1(-mp.exp(t)))

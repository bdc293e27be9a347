"""Rough costs of entropies: bounds, errors, and trees by rounds over them."""

import numpy as np
import pytest
from many_digits import mp

from bregjax.clusters import MeanState
from bregjax.clusters._rough_entropies import RoughEntropies


def exact(w_a, a, w_b, b):
    """Δ to 50 digits."""
    with mp.workdps(50):
        f = lambda t: mp.mpf(t) * mp.log(t) if t > 0 else mp.mpf(0)
        w_a, w_b = mp.mpf(float(w_a)), mp.mpf(float(w_b))
        total = mp.mpf(0)
        for x, y in zip(a.tolist(), b.tolist(), strict=True):
            x, y = mp.mpf(x), mp.mpf(y)
            c = (w_a * x + w_b * y) / (w_a + w_b)
            total += w_a * f(x) + w_b * f(y) - (w_a + w_b) * f(c)
        return total


@pytest.mark.parametrize("spread", [1e-9, 1e-3, 1.0, 30.0])
def test_errors_and_bounds_hold(spread, rng):
    m, n = 12, 5
    mean = 3 * np.exp(spread * rng.normal(size=(m, n)))
    mean[rng.random((m, n)) < 0.1] = 0
    weight = np.exp(2 * rng.normal(size=m))
    rough = RoughEntropies(MeanState(weight, mean))
    low, high = np.triu_indices(m, 1)
    cost, error = rough.costs(low, high)
    first = rough.first_bounds()
    for i, j, c, e in zip(low, high, cost, error, strict=True):
        true = exact(weight[i], mean[i], weight[j], mean[j])
        assert abs(c - true) <= e
        assert first[i, j] <= true + e
        assert first[i, j] == first[j, i]
    assert np.all(np.isinf(np.diagonal(first)))


def test_the_worked_example():
    rough = RoughEntropies(MeanState(np.ones(2), np.array([[2.0], [8.0]])))
    cost, error = rough.costs(np.array([0]), np.array([1]))
    np.testing.assert_allclose(cost, 1.9274, atol=1e-4)
    np.testing.assert_allclose(rough.first_bounds()[0, 1], 4 / 3, rtol=1e-12)
    assert 0 < error[0] < 1e-12


def test_the_bound_holds_for_all_shares_and_ratios():
    """By 30 digits, as both sides vanish at equal means."""
    with mp.workdps(30):
        for p in (0.5, 0.6, 0.9, 0.99, 1 - 1e-6):
            for share in (mp.mpf(p), 1 - mp.mpf(p)):
                for power in np.linspace(-30, 30, 121):
                    t = mp.e ** mp.mpf(power)
                    c = share * t + 1 - share
                    cost = share * t * mp.log(t) - c * mp.log(c)
                    larger = max(share, 1 - share)
                    roots = share * (1 - share) * (mp.sqrt(t) - 1) ** 2
                    assert cost >= 2 / (1 + larger) * roots * (1 - mp.mpf(10) ** -20)

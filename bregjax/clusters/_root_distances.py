"""Squared distances that bound costs of entropies from below, closely.

With f(t) = t log t summed over columns, c the mean of the union of a and b, w = w_a +
w_b, and p the larger share of weight,

    Δ(a, b) = w_a f(a) + w_b f(b) − w f(c) ≥ F(p) (w_a w_b / w) ‖e(a) − e(b)‖²

where e has two numbers a column, those of the complex power t^(½ + iω),

    e(t) = √t (cos(ω log t), sin(ω log t)).

The squared distance in a column is a + b − 2 √(ab) cos(ω log(a / b)). Roots alone, ω =
0, would give F = 2 for means that are alike and log 4 or less for those that are not:
nearly a third less than the cost of near means, which are those that matter. For ω =
0.4 the bound of near means of the same weight is 0.97 of the cost, that of others of
the same weight at least 0.85. F is the least quotient in one column, over all ratios of
means.

* Δ in a column is p (1 − p) (a − b)² / 2 times an average of f'' = 1 / t, over t
  between both means, by a triangular density whose peak is at the mean of the union. So
  Δ is less where the heavier mean is the greater one; and F falls as p grows.
* So 1 / F is at most α + β p if it is at the next of many shares: `ALPHA`, `BETA`.

Example: means 2 and 8 of weight 1. Δ = 2 · (½ · 1.386 + ½ · 16.64 − 5 log 5) = 1.927,
‖e(a) − e(b)‖² = 10 − 8 cos(0.4 log 4) = 3.199, and the bound is ½ · 3.199 / 0.848 =
1.886. That of roots alone is log 4 · ½ · 2 = 1.386.
"""

import numpy as np

__all__ = ["ALPHA", "BETA", "root_points"]

ALPHA, BETA = 0.5604, 0.575
"""Δ(a, b) ≥ ‖e(a) − e(b)‖² / (α (1/w_a + 1/w_b) + β max(1/w_a, 1/w_b))."""

_OMEGA = 0.4
_TINY = np.finfo(float).tiny


def root_points(mean: np.ndarray) -> np.ndarray:
    """Return the points e of means, `[k, 2 n]` from `[k, n]`.

    Examples:
        >>> a, b = root_points(np.array([[2.0], [8.0]]))
        >>> print((np.sum((a - b) ** 2) / (2 * ALPHA + BETA)).round(3))
        1.886
    """
    root, phase = np.sqrt(mean), _OMEGA * np.log(np.maximum(mean, _TINY))
    return np.concatenate([root * np.cos(phase), root * np.sin(phase)], axis=1)

"""What a tool gives back, and a number by which to tell two trees apart."""

from typing import Any, NamedTuple

import numpy as np


class Outcome(NamedTuple):
    """Merge costs in nats, or None where they mean something else, and details."""

    costs: np.ndarray | None = None
    details: dict[str, Any] = {}


def fingerprint(costs: np.ndarray) -> float:
    """Σ √cost. (Σ cost would be the same for all trees: it telescopes.)"""
    return float(np.sum(np.sqrt(np.maximum(costs, 0))))

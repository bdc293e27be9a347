"""The states of Gaussian clusters."""

from dataclasses import dataclass

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._moments import Moments

__all__ = ["GaussianState"]


@register_pytree
@dataclass(frozen=True)
class GaussianState:
    """States that hold weights, means and covariances.

    Attributes:
        weight: `[k]`.
        moments: Means and covariances Σ, `[k, ...]`.
        log_det: log det Σ, `[k]`.
    """

    weight: Array
    moments: Moments
    log_det: Array

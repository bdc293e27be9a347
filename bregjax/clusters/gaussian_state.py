"""Gaussian clusters as a cluster model holds them."""

from dataclasses import dataclass

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters.moments import Moments

__all__ = ["GaussianState"]


@register_pytree
@dataclass(frozen=True)
class GaussianState:
    """Clusters by weight `[k]`, moments `[k, ...]` and log det Σ `[k]`."""

    weight: Array
    moments: Moments
    log_det: Array

"""Parameters of fitted clusters, from the states of any cluster model."""

from typing import Any

import numpy as np

from bregjax._typing import PyTree
from bregjax.clusters._gaussian_models import GaussianState
from bregjax.clusters._rooted_gaussian import RootedState
from bregjax.clusters._scatters import ScatterState
from bregjax.clusters._seen_state import SeenState
from bregjax.families import Product, SphericalGaussian
from bregjax.families._blocks import state_of_block

__all__ = ["centers_of", "covariances_of"]


def centers_of(family: Any, states: PyTree) -> Any:
    """Mean parameters `[k, n]` of clusters; of a product one such array a block."""
    if isinstance(family, Product):
        return tuple(centers_of(*block) for block in _blocks(family, states))
    if isinstance(states, GaussianState | RootedState):
        means = states.moments.mean
    elif isinstance(states, ScatterState):
        means = states.statistics.location
    else:
        means = states.mean
    return means.reshape(len(means), -1)


def covariances_of(family: Any, states: PyTree) -> Any:
    """Covariances of Gaussian clusters; of a product one array a block, or None.

    Returns:
        `[k, d, d]` if full, the variances `[k, d]` if diagonal, `[k]` if round; None if
        the family is no Gaussian.
    """
    if isinstance(family, Product):
        found = tuple(covariances_of(*block) for block in _blocks(family, states))
        return None if all(each is None for each in found) else found
    if isinstance(family, SphericalGaussian):
        return np.full(len(states.mean), np.asarray(family.variance, float))
    if isinstance(states, GaussianState | RootedState):
        return states.moments.covariance
    return None


def _blocks(family: Product, states: PyTree) -> list[tuple[Any, PyTree]]:
    """The family and the states of each block of columns."""
    inner = states.inner if isinstance(states, SeenState) else states
    blocks = family.blocks()
    return [
        (block.family, state_of_block(blocks, b, inner))
        for b, block in enumerate(blocks)
    ]

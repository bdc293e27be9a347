"""Centers of clusters, in mean parameters, from the states of any cluster model."""

from typing import Any

import numpy as np

from bregjax._typing import PyTree
from bregjax.clusters._gaussian_models import GaussianState
from bregjax.clusters._rooted_gaussian import RootedState
from bregjax.clusters._scatters import ScatterState
from bregjax.clusters._seen_state import SeenState
from bregjax.families import Product
from bregjax.families._blocks import state_of_block

__all__ = ["centers_of"]


def centers_of(family: Any, states: PyTree) -> Any:
    """Mean parameters `[k, n]` of clusters; of a product one such array a block."""
    if isinstance(family, Product):
        inner = states.inner if isinstance(states, SeenState) else states
        blocks = family.blocks()
        return tuple(
            centers_of(block.family, state_of_block(blocks, b, inner))
            for b, block in enumerate(blocks)
        )
    if isinstance(states, GaussianState | RootedState):
        means = states.moments.mean
    elif isinstance(states, ScatterState):
        means = states.statistics.location
    else:
        means = states.mean
    return np.asarray(means).reshape(len(means), -1)

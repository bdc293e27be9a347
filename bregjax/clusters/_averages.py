"""Averages of the statistics of points, for clusters that share the points."""

import jax
import jax.numpy as jnp

from bregjax._programs import program
from bregjax._typing import Array, PyTree
from bregjax.clusters._base import ClusterModel
from bregjax.clusters._moments import CenteredStatistics, average

__all__ = ["averages", "leaves_of_averages"]


def leaves_of_averages(
    model: ClusterModel, statistics: PyTree, weights: Array
) -> PyTree:
    """`ClusterModel.unions` of a model whose states follow from averages of statistics.

    A cluster of average statistic τ and weight w is then what a point would be that has
    τ and w: one matrix product in the place of m unions for each cluster.
    """
    return model.leaves(*averages(statistics, weights))


@program
def averages(statistics: PyTree, weights: Array) -> tuple[PyTree, Array]:
    """Averages `[k, ...]` of statistics `[m, ...]`, and the weights `[k]`."""
    total = jnp.sum(weights, axis=1)
    shares = weights / total[:, None]

    def of_part(part: Array | CenteredStatistics) -> Array | CenteredStatistics:
        if isinstance(part, CenteredStatistics):
            return part.averaged(shares)
        return average(part, shares)

    is_part = lambda node: isinstance(node, CenteredStatistics)
    return jax.tree.map(of_part, statistics, is_leaf=is_part), total

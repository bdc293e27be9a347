"""Seeds: rows to start clusters from, drawn where they cost most."""

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array
from bregjax.partition._base import Points

__all__ = ["labels_of_seeds"]

# In the place of a cost that is not known: above all costs, with sums that are finite.
_UNKNOWN = 1e150


def labels_of_seeds(
    points: Points, num_points: int, num_clusters: int, key: Array, *, by_cost: bool
) -> tuple[np.ndarray, int]:
    """Draw rows as seeds, and give each row the seed that it merges with at least cost.

    The first seed is drawn with a probability in proportion to its weight. Each later
    seed with one in proportion to its least cost Δ to a seed before, where costs
    decide, else to its weight again; no row is drawn twice. Where all costs are 0
    weights decide, so that there may be as many seeds as rows. For squared distances
    the costs of rows of equal weight are half the squares, and the seeds those of
    k-means++.

    Costs of merges are finite wherever rows are, in contrast to divergences from a
    single row: with a count of 0 in the seed any other count has an infinite one.

    References:
        Arthur, Vassilvitskii (2007), k-means++: the advantages of careful seeding;
        Ackermann, Blömer (2009), Coresets and approximate clustering for Bregman
        divergences.
    """
    # NumPy draws with all the digits of float64 whatever the caller's mode.
    bits = np.asarray(jax.random.bits(key, (4,), jnp.uint32))
    rng = np.random.default_rng(bits)
    weights = np.asarray(points.weights, np.float64)[:num_points]
    least = np.full(num_points, np.inf)
    labels = np.zeros(num_points, np.int32)
    seeds = []
    free = np.ones(num_points, bool)
    for number in range(num_clusters):
        chances = np.where(free, weights, 0)
        if by_cost and number:
            costly = np.where(free, least, 0)
            chances = costly if np.any(costly > 0) else chances
        seed = int(rng.choice(num_points, p=chances / np.sum(chances)))
        free[seed] = False
        seeds.append(seed)
        costs = points.merge_costs(seed)[:num_points]
        costs = np.where(np.isfinite(costs), costs, _UNKNOWN)
        nearer = costs < least
        labels = np.where(nearer, number, labels).astype(np.int32)
        least = np.where(nearer, costs, least)
    # Of equal rows that are seeds each keeps its own cluster.
    labels[seeds] = np.arange(num_clusters)
    return labels, num_clusters

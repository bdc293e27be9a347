"""Clusters that labels of the rows make."""

from typing import Any

import jax
import numpy as np

from bregjax._evaluation import working
from bregjax._problem import Problem
from bregjax.hierarchy._cut_states import Clusters
from bregjax.partition._points import points_of

__all__ = ["clusters_of_labels"]


def clusters_of_labels(
    problem: Problem, labels: np.ndarray, num_clusters: int
) -> Clusters:
    """States and weights of the clusters of labels, smoothed as a known problem is.

    Args:
        problem: Of the rows, its costs sums over rows.
        labels: Numbers of clusters, `[m]`.
        num_clusters: How many there are, k.
    """
    own = np.eye(num_clusters, dtype=bool)[labels]
    with working(problem) as work:
        points = points_of(work)
        padding = ((0, len(points.weights) - len(own)), (0, 0))
        own = np.pad(own, padding).T
        members: Any = np.where(own, np.asarray(points.smoothed_weights)[None], 0)
        states = jax.tree.map(np.asarray, points.unions(members))
        weights: Any = own @ np.asarray(points.weights)
        return Clusters(states, weights)

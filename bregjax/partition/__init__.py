"""Partitions: hard clustering and mixtures, from a tree, from labels or from seeds."""

from bregjax.partition._hard import HardClustering as HardClustering
from bregjax.partition._hard import hard_clustering as hard_clustering
from bregjax.partition._soft import SoftClustering as SoftClustering
from bregjax.partition._soft import soft_clustering as soft_clustering

"""Agglomeration and its tree."""

from bregjax.hierarchy._engine_windowed import WindowedInfo as WindowedInfo
from bregjax.hierarchy._engines import ENGINES as ENGINES
from bregjax.hierarchy.agglomeration import AgglomerationInfo as AgglomerationInfo
from bregjax.hierarchy.agglomeration import agglomerate as agglomerate
from bregjax.hierarchy.certificate import Certificate as Certificate
from bregjax.hierarchy.certificate import certify as certify
from bregjax.hierarchy.costs import cluster_cost as cluster_cost
from bregjax.hierarchy.costs import merge_cost as merge_cost
from bregjax.hierarchy.dendrogram import Dendrogram as Dendrogram
from bregjax.hierarchy.tree_costs import replay as replay

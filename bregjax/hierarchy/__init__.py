"""Agglomeration and its tree."""

from bregjax.hierarchy._agglomeration import agglomerate as agglomerate
from bregjax.hierarchy._certificate import Certificate as Certificate
from bregjax.hierarchy._certificate import certify as certify
from bregjax.hierarchy._costs import cluster_cost as cluster_cost
from bregjax.hierarchy._costs import merge_cost as merge_cost
from bregjax.hierarchy._dendrogram import Dendrogram as Dendrogram
from bregjax.hierarchy._engine_mutual import MutualInfo as MutualInfo
from bregjax.hierarchy._engine_windowed import WindowedInfo as WindowedInfo
from bregjax.hierarchy._engines import ENGINES as ENGINES
from bregjax.hierarchy._interrupted import Interrupted as Interrupted
from bregjax.hierarchy._runs import AgglomerationInfo as AgglomerationInfo
from bregjax.hierarchy._tree_costs import replay as replay

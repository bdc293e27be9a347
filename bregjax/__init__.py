"""Agglomerative clustering with Bregman divergences, in JAX.

The names of the quick path; the rest is in the modules:

    >>> import bregjax as bj
    >>> problem = bj.Problem([[0.0], [1.0], [5.0]], family="ward")
    >>> tree = bj.agglomerate(problem)
    >>> print(tree.cut(2), bj.replay(problem, tree))
    [0 0 1] [0.25 6.75]

Importing the package imports neither matplotlib nor scikit-learn, starts no device and
changes no setting of JAX.
"""

from importlib.metadata import version as _version

from bregjax._check_table import check_table as check_table
from bregjax._cut_criteria import NumClusters as NumClusters
from bregjax._explain import compare_rows as compare_rows
from bregjax._explain import explain as explain
from bregjax._explain import explain_clusters as explain_clusters
from bregjax._features import dendrogram_features as dendrogram_features
from bregjax._features import soft_assignments as soft_assignments
from bregjax._multiscale import MultiscaleSupport as MultiscaleSupport
from bregjax._multiscale import multiscale_support as multiscale_support
from bregjax._num_clusters import choose_num_clusters as choose_num_clusters
from bregjax._problem import Problem as Problem
from bregjax._result import Result as Result
from bregjax._soft_trees import co_clustering as co_clustering
from bregjax._soft_trees import sample_tree as sample_tree
from bregjax._soft_trees import score_function_loss as score_function_loss
from bregjax._soft_trees import sequence_log_prob as sequence_log_prob
from bregjax._support import support_values as support_values
from bregjax._tuning import TuningResult as TuningResult
from bregjax._tuning import tune_smoothing as tune_smoothing
from bregjax.convex import conjugate as conjugate
from bregjax.convex import directional_derivative as directional_derivative
from bregjax.divergences import bregman_divergence as bregman_divergence
from bregjax.families import Bernoulli as Bernoulli
from bregjax.families import Beta as Beta
from bregjax.families import Categorical as Categorical
from bregjax.families import Columnwise as Columnwise
from bregjax.families import DiagonalGaussian as DiagonalGaussian
from bregjax.families import Dirichlet as Dirichlet
from bregjax.families import Exponential as Exponential
from bregjax.families import ExponentialFamily as ExponentialFamily
from bregjax.families import Family as Family
from bregjax.families import Gamma as Gamma
from bregjax.families import Gaussian as Gaussian
from bregjax.families import Geometric as Geometric
from bregjax.families import InverseGaussian as InverseGaussian
from bregjax.families import Ising as Ising
from bregjax.families import IsotropicGaussian as IsotropicGaussian
from bregjax.families import Laplace as Laplace
from bregjax.families import Multinomial as Multinomial
from bregjax.families import NegativeBinomial as NegativeBinomial
from bregjax.families import Poisson as Poisson
from bregjax.families import Product as Product
from bregjax.families import SphericalGaussian as SphericalGaussian
from bregjax.families import VonMisesFisher as VonMisesFisher
from bregjax.families import choose_families as choose_families
from bregjax.hierarchy import Dendrogram as Dendrogram
from bregjax.hierarchy import Interrupted as Interrupted
from bregjax.hierarchy import agglomerate as agglomerate
from bregjax.hierarchy import certify as certify
from bregjax.hierarchy import cluster_cost as cluster_cost
from bregjax.hierarchy import merge_cost as merge_cost
from bregjax.hierarchy import replay as replay
from bregjax.metrics import dendrogram_purity as dendrogram_purity
from bregjax.partition import HardClustering as HardClustering
from bregjax.partition import SoftClustering as SoftClustering
from bregjax.partition import hard_clustering as hard_clustering
from bregjax.partition import soft_clustering as soft_clustering
from bregjax.smoothing import adding as adding
from bregjax.smoothing import bernstein as bernstein
from bregjax.smoothing import blur as blur
from bregjax.smoothing import mixing as mixing
from bregjax.smoothing import normal_reference as normal_reference
from bregjax.smoothing import pseudo_count as pseudo_count

__version__ = _version("bregjax")

"""What a cluster is to an engine: the protocol, its models, sums along a tree, screens.

A cluster is a state that two clusters' states make by `union`, and a merge has a cost;
engines know nothing else. The models differ in what a state holds: a mean, a mean and a
covariance, statistics and a natural parameter that is solved for. Nothing in this
package knows a distribution: what models need of one is `Potential`.
"""

from bregjax.clusters._base import ClusterModel as ClusterModel
from bregjax.clusters._bregman_model import BregmanModel as BregmanModel
from bregjax.clusters._bregman_model import MeanState as MeanState
from bregjax.clusters._columns_model import ColumnsModel as ColumnsModel
from bregjax.clusters._gaussian_models import FullGaussianModel as FullGaussianModel
from bregjax.clusters._gaussian_models import VarianceModel as VarianceModel
from bregjax.clusters._gaussian_state import GaussianState as GaussianState
from bregjax.clusters._host_model import HostModel as HostModel
from bregjax.clusters._merges import Merges as Merges
from bregjax.clusters._moments import Moments as Moments
from bregjax.clusters._natural.state import NaturalState as NaturalState
from bregjax.clusters._natural_model import NaturalModel as NaturalModel
from bregjax.clusters._potential import Potential as Potential
from bregjax.clusters._rooted_gaussian import RootedGaussianModel as RootedGaussianModel
from bregjax.clusters._scatter_model import ScatterModel as ScatterModel
from bregjax.clusters._screens import CostScreen as CostScreen
from bregjax.clusters._screens import Screen as Screen

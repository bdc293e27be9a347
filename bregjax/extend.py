"""The base classes for families, convex functions, smoothing maps and cluster models.

`docs/extend.md` has a worked example of each.

    >>> from bregjax import extend
    >>> import bregjax as bj
    >>> isinstance(bj.Poisson(), extend.Family)
    True
"""

from bregjax._geometry import Geometry as Geometry
from bregjax._pytree import register_pytree as register_pytree
from bregjax.clusters import BregmanModel as BregmanModel
from bregjax.clusters import ClusterModel as ClusterModel
from bregjax.clusters import CostScreen as CostScreen
from bregjax.clusters import HostModel as HostModel
from bregjax.clusters import MeanState as MeanState
from bregjax.clusters import Merges as Merges
from bregjax.clusters import Moments as Moments
from bregjax.clusters import Screen as Screen
from bregjax.convex import ConjugateSolution as ConjugateSolution
from bregjax.convex import ConvexFunction as ConvexFunction
from bregjax.convex import SeparableFunction as SeparableFunction
from bregjax.families import Family as Family
from bregjax.families._vector_family import VectorFamily as VectorFamily
from bregjax.smoothing import Constraint as Constraint
from bregjax.smoothing import StatisticMap as StatisticMap

"""Convex functions, one-sided derivatives and conjugates."""

from bregjax.convex._numerical import NumericalConjugate as NumericalConjugate
from bregjax.convex._remainder import bregman_remainder as bregman_remainder
from bregjax.convex.base import ConvexFunction as ConvexFunction
from bregjax.convex.base import SeparableFunction as SeparableFunction
from bregjax.convex.categories import BinaryEntropy as BinaryEntropy
from bregjax.convex.categories import Logistic as Logistic
from bregjax.convex.categories import LogSumExp as LogSumExp
from bregjax.convex.categories import SimplexEntropy as SimplexEntropy
from bregjax.convex.conjugation import Conjugate as Conjugate
from bregjax.convex.conjugation import ConjugateSolution as ConjugateSolution
from bregjax.convex.conjugation import conjugate as conjugate
from bregjax.convex.determinant import (
    LogDeterminantConjugate as LogDeterminantConjugate,
)
from bregjax.convex.determinant import NegativeLogDeterminant as NegativeLogDeterminant
from bregjax.convex.directional import directional_derivative as directional_derivative
from bregjax.convex.functions import Burg as Burg
from bregjax.convex.functions import BurgConjugate as BurgConjugate
from bregjax.convex.functions import Exponential as Exponential
from bregjax.convex.functions import Mahalanobis as Mahalanobis
from bregjax.convex.functions import NegativeEntropy as NegativeEntropy
from bregjax.convex.functions import SquaredNorm as SquaredNorm
from bregjax.convex.negative_binomial import (
    NegativeBinomialCumulant as NegativeBinomialCumulant,
)
from bregjax.convex.negative_binomial import (
    NegativeBinomialEntropy as NegativeBinomialEntropy,
)
from bregjax.convex.operations import Affine as Affine
from bregjax.convex.operations import Scaled as Scaled
from bregjax.convex.operations import SeparableSum as SeparableSum
from bregjax.convex.operations import Sum as Sum
from bregjax.convex.operations import Tilted as Tilted
from bregjax.convex.polyhedral import L1Norm as L1Norm
from bregjax.convex.polyhedral import Max as Max
from bregjax.convex.polyhedral import MaxNorm as MaxNorm
from bregjax.convex.polyhedral import SimplexIndicator as SimplexIndicator
from bregjax.convex.polyhedral import UnitBallIndicator as UnitBallIndicator
from bregjax.convex.sphere import SphereCumulant as SphereCumulant
from bregjax.convex.sphere import SphereEntropy as SphereEntropy
